//! `allotment check`: rules for a recording, for continuous integration. The exit code is 1 if one does not hold.
//!
//! ```text
//!   rule      a rule: what was measured, and its limit
//!   growth    what needs more than in an earlier run, as rules, a table and JSON
//!   trend     a line for each run, in a file that stays
//!   markdown  the same as text for a pull request
//! ```
//!
//! One rule is always there: that nothing of the file was left unread. Figures of half a file say nothing.

mod growth;
mod markdown;
mod rule;
mod trend;

use allotment_analyze::{Cursor, Figures, Grouping, Leaks, Peaks, Scope};
use allotment_trace::recording::{Event, Unread};
use serde::Serialize;

use self::growth::{Compared, GrowthJson};
use self::rule::{Rule, Value};
use self::trend::{Trend, TrendLine};
use super::args::CheckArgs;
use super::load::{index, load, load_path};
use super::table::{Align, Table, shown};
use super::unread::{say_json, say_unread};
use super::when::words;
use crate::failure::Failure;
use crate::output_file::OutputFile;
use crate::units::{bytes, count};

pub(crate) fn run(args: &CheckArgs) -> Result<(), Failure> {
    // First: what cannot be written is told before the work, and not after it.
    let trend = args.trend.path.as_deref().map(Trend::open).transpose()?;
    let page = args.markdown.as_deref().map(OutputFile::new).transpose()?;
    keep_files(args, page.as_ref(), trend.as_ref())?;
    let loaded = load(&args.file)?;
    let timeline = index(&loaded);
    let against = args.growth.against.as_deref();
    let old = against.map(|old| load_path(old, &args.file.replayed)).transpose()?;
    let in_old = old.as_ref().map(index);

    let mut unread = timeline.unread();
    let mut rules = vec![Rule::unread("unread", &unread, &args.accept)];
    if let Some(in_old) = &in_old {
        let of_old = in_old.unread();
        rules.push(Rule::unread("unread-against", &of_old, &args.accept));
        unread.extend(of_old.into_iter().map(|it| Unread { text: format!("OLD: {}", it.text), ..it }));
    }
    if let Some(limit) = args.max_leaks {
        let leaks = Leaks::at(&Cursor::at(&timeline, timeline.end()), Grouping::CallSite);
        let texts = [count(leaks.count), count(limit)];
        let about = format!("{} not released at the end", bytes(leaks.bytes));
        let rule = Rule::new("max-leaks", Value::Whole(leaks.count), Value::Whole(limit), texts, about);
        rules.push(rule.about_time(&timeline, "what was never freed"));
    }
    if let Some(limit) = args.max_peak {
        let peak = Peaks::of(&timeline, Scope::All).blocks;
        let about = format!("bytes of all blocks at {}", words(&timeline, peak.moment));
        let rule = Rule::bytes("max-peak", peak.bytes, limit, about);
        rules.push(rule.about_time(&timeline, "how many bytes there were before"));
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
        let rule = Rule::new("max-stalls", Value::Whole(stalls), Value::Whole(limit), texts, about);
        rules.push(rule.about_time(&timeline, "when a thread waited"));
    }
    let compared = old.as_ref().zip(in_old.as_ref());
    let compared = compared.map(|(old, in_old)| Compared::new(&old.title, in_old, &timeline, &args.growth));
    rules.extend(compared.iter().flat_map(Compared::rules));

    let failed = rules.iter().filter(|rule| !rule.ok).count();
    let found = Found { title: &loaded.title, unread: &unread, rules: &rules, compared: compared.as_ref() };
    if args.json {
        let growth = compared.as_ref().map(GrowthJson::new);
        say_json(&unread, &CheckJson { file: &loaded.title, ok: failed == 0, rules: &rules, growth })?;
    } else {
        found.print();
    }
    if let Some(page) = page {
        page.write(markdown::text(&found).as_bytes())?;
    }
    if let Some(trend) = trend {
        trend.append(&TrendLine::new(&args.trend, &loaded.title, &timeline, &rules))?;
    }
    if failed == 0 { Ok(()) } else { Err(Failure::Rules { failed, of: rules.len() }) }
}

/// Refuses outputs that are one of the files that are read, or each other.
fn keep_files(args: &CheckArgs, page: Option<&OutputFile>, trend: Option<&Trend>) -> Result<(), Failure> {
    for input in [Some(&args.file.path), args.growth.against.as_ref()].into_iter().flatten() {
        if page.is_some_and(|page| page.is(input)) || trend.is_some_and(|trend| trend.is(input)) {
            let text = format!("{} is checked and would be overwritten", input.display());
            return Err(Failure::Usage(text));
        }
    }
    match (page, trend) {
        (Some(page), Some(trend)) if page.is(trend.path()) => {
            let text = format!("{} is both the trend and the Markdown", trend.path().display());
            Err(Failure::Usage(text))
        }
        _ => Ok(()),
    }
}

/// What a check found.
struct Found<'a> {
    title: &'a str,
    unread: &'a [Unread],
    rules: &'a [Rule],
    compared: Option<&'a Compared<'a>>,
}

impl Found<'_> {
    fn print(&self) {
        say!("{}", shown(self.title));
        if let Some(compared) = self.compared {
            say!("against {}", shown(compared.title));
        }
        say_unread(self.unread);
        say!();
        let (left, right) = (Align::Left, Align::Right);
        let mut table = Table::new(&[
            ("", left),
            ("Rule", left),
            ("Limit", right),
            ("Measured", right),
            ("", Align::Sentence),
        ]);
        for rule in self.rules {
            let [measured, limit] = rule.texts.clone();
            table.row([rule.outcome().to_owned(), rule.rule.to_owned(), limit, measured, rule.about.clone()]);
        }
        table.print();
        if let Some(compared) = self.compared {
            compared.print();
        }
    }
}

/// The JSON output.
#[derive(Serialize)]
struct CheckJson<'a> {
    file: &'a str,
    ok: bool,
    rules: &'a [Rule],
    #[serde(skip_serializing_if = "Option::is_none")]
    growth: Option<GrowthJson<'a>>,
}
