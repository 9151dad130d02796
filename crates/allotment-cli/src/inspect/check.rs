//! `allotment check`: rules for a recording, for continuous integration. The exit code is 1 if one does not hold.
//!
//! One rule is always there: that nothing of the file was left unread. Figures of half a file say nothing.

use allotment_analyze::{Cursor, Figures, Grouping, Leaks, Peaks, Scope};
use allotment_trace::recording::{Event, Unread};
use serde::Serialize;

use super::args::{Accepted, CheckArgs};
use super::load::{index, load};
use super::table::{Align, Table, shown};
use super::unread::{say_json, say_unread};
use super::when::words;
use crate::failure::Failure;
use crate::units::{bytes, count};

pub(crate) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let loaded = load(&args.file)?;
    let timeline = index(&loaded);
    let unread = timeline.unread();
    let mut rules = vec![Rule::unread(&unread, &args.accept)];
    if let Some(limit) = args.max_leaks {
        let leaks = Leaks::at(&Cursor::at(&timeline, timeline.end()), Grouping::CallSite);
        let texts = [count(leaks.count), count(limit)];
        let about = format!("{} not released at the end", bytes(leaks.bytes));
        rules.push(Rule::new("max-leaks", Value::Whole(leaks.count), Value::Whole(limit), texts, about));
    }
    if let Some(limit) = args.max_peak {
        let peak = Peaks::of(&timeline, Scope::All).blocks;
        let texts = [bytes(peak.bytes), bytes(limit)];
        let about = format!("bytes of all blocks at {}", words(&timeline, peak.moment));
        rules.push(Rule::new("max-peak", Value::Whole(peak.bytes), Value::Whole(limit), texts, about));
    }
    if let Some(limit) = args.max_fragmentation {
        let cursor = Cursor::at(&timeline, args.at.position(&timeline)?);
        let fragmentation = Figures::of_all(&cursor).fragmentation();
        let texts = [fragmentation, limit].map(|share| format!("{share:.3}"));
        let about = format!("at {}", words(&timeline, cursor.moment()));
        let (measured, limit) = (Value::Share(fragmentation), Value::Share(limit));
        rules.push(Rule::new("max-fragmentation", measured, limit, texts, about));
    }
    for &max in &args.max_stalls {
        let limit = max.limit;
        let of_kind = |event: &u64| match loaded.recording.events[*event as usize] {
            Event::Stalled { kind, .. } => max.counts(kind),
            _ => false,
        };
        let stalls = timeline.stalls().filter(of_kind).count() as u64;
        let texts = [count(stalls), count(limit)];
        let about = max.kind.map_or_else(
            || "times a thread waited in the library, without waits for frames in flight".to_owned(),
            |kind| format!("times a thread waited for {kind}"),
        );
        rules.push(Rule::new("max-stalls", Value::Whole(stalls), Value::Whole(limit), texts, about));
    }
    let failed = rules.iter().filter(|rule| !rule.ok).count();
    if args.json {
        let check = CheckJson { file: &loaded.title, ok: failed == 0, rules: &rules };
        say_json(&unread, &check)?;
    } else {
        print(&loaded.title, &unread, &rules);
    }
    if failed == 0 { Ok(()) } else { Err(Failure::Rules { failed, of: rules.len() }) }
}

fn print(title: &str, unread: &[Unread], rules: &[Rule]) {
    say!("{}", shown(title));
    say_unread(unread);
    say!();
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[
        ("", left),
        ("Rule", left),
        ("Limit", right),
        ("Measured", right),
        ("", Align::Sentence),
    ]);
    for rule in rules {
        let [measured, limit] = rule.texts.clone();
        let outcome = if rule.ok { "ok" } else { "FAILED" };
        table.row([outcome.to_owned(), rule.rule.to_owned(), limit, measured, rule.about.clone()]);
    }
    table.print();
}

/// A measured value, or its limit.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
#[serde(untagged)]
enum Value {
    Whole(u64),
    Share(f64),
}

/// A rule and what was measured.
#[derive(Serialize)]
struct Rule {
    rule: &'static str,
    ok: bool,
    measured: Value,
    limit: Value,
    /// Both as text.
    #[serde(skip)]
    texts: [String; 2],
    #[serde(skip)]
    about: String,
}

impl Rule {
    fn new(rule: &'static str, measured: Value, limit: Value, texts: [String; 2], about: String) -> Self {
        Self { rule, ok: measured <= limit, measured, limit, texts, about }
    }

    /// The rule that always holds or fails: that the file was read, or what of it was not is accepted.
    fn unread(unread: &[Unread], accepted: &[Accepted]) -> Self {
        let sum = |is_accepted: bool| {
            let of_kind = |it: &&Unread| accepted.iter().any(|accepted| accepted.has(it.kind)) == is_accepted;
            unread.iter().filter(of_kind).fold(0, |sum: u64, it| sum.saturating_add(it.count.max(1)))
        };
        let (found, accepted) = (sum(false), sum(true));
        let about = match (found, accepted) {
            (0, 0) => "all of the file was read".to_owned(),
            (_, 0) => "parts of the file that were not read".to_owned(),
            _ => format!("parts of the file that were not read, and {} that are accepted", count(accepted)),
        };
        let texts = [count(found), count(0)];
        Self::new("unread", Value::Whole(found), Value::Whole(0), texts, about)
    }
}

/// The JSON output.
#[derive(Serialize)]
struct CheckJson<'a> {
    file: &'a str,
    ok: bool,
    rules: &'a [Rule],
}
