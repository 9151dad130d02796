//! `allotment diff`: what changed between two moments of a recording, or between two recordings.

use allotment_analyze::units::signed_bytes;
use allotment_analyze::{Amount, Cursor, Difference, Figures, GroupDifference, Timeline};
use allotment_trace::recording::{Moment, Unread};
use serde::Serialize;

use super::args::{By, DiffArgs};
use super::json::{FiguresJson, MomentJson};
use super::load::{index, load_path, need_history};
use super::table::{self, print_pairs, shown};
use super::unread::{say_json, say_unread};
use super::when::{When, words};
use crate::failure::Failure;
use crate::units::{bytes, count};

pub(crate) fn run(args: &DiffArgs) -> Result<(), Failure> {
    let a = load_path(&args.a, &args.replayed)?;
    let b = args.b.as_deref().map(|b| load_path(b, &args.replayed)).transpose()?;
    if b.is_none() {
        need_history(&a, "what was there before. Give another file to compare with")?;
    }
    let in_a = index(&a);
    let in_b = b.as_ref().map(index);
    let from = args.from.clone().unwrap_or(if b.is_some() { When::End } else { When::Event(0) });
    let from = Cursor::at(&in_a, from.position(&in_a)?);
    let other = in_b.as_ref().unwrap_or(&in_a);
    let to = Cursor::at(other, args.to.position(other)?);
    // Two recordings have no order; of one, what grew would be shown as what shrank.
    if b.is_none() && to.position() < from.position() {
        let [from, to] = [&from, &to].map(|cursor| words(cursor.timeline(), cursor.moment()));
        return Err(Failure::Usage(format!("--to, {to}, is before --from, {from}")));
    }
    let difference = Difference::between(&from, &to, args.by.grouping());
    let sides = [&from, &to].map(|cursor| (cursor.moment(), Figures::of_all(cursor)));
    let titles = [&a.title, &b.as_ref().unwrap_or(&a).title];
    let unread = unread(&in_a, in_b.as_ref());
    if args.json {
        let side = |n: usize| SideJson {
            file: titles[n],
            at: MomentJson::of([&in_a, other][n], sides[n].0),
            figures: (&sides[n].1).into(),
        };
        say_json(&unread, &DiffJson::new(side(0), side(1), &difference))?;
    } else {
        let moments = [&from, &to].map(|cursor| words(cursor.timeline(), cursor.moment()));
        print(titles, moments, &unread, &sides, args.by, &difference);
    }
    Ok(())
}

/// Returns what of both files was not read. Of two files, each says which it is.
fn unread(a: &Timeline<'_>, b: Option<&Timeline<'_>>) -> Vec<Unread> {
    let Some(b) = b else { return a.unread() };
    let of = |side: &str, timeline: &Timeline<'_>| {
        let named = |it: Unread| Unread { text: format!("{side}: {}", it.text), ..it };
        timeline.unread().into_iter().map(named).collect::<Vec<_>>()
    };
    [of("A", a), of("B", b)].concat()
}

fn print(
    titles: [&String; 2],
    moments: [String; 2],
    unread: &[Unread],
    sides: &[(Moment, Figures); 2],
    by: By,
    difference: &Difference,
) {
    for ((side, title), moment) in ["A", "B"].iter().zip(titles).zip(moments) {
        say!("{side}: {} at {moment}", shown(title));
    }
    say_unread(unread);
    say!();
    let row = |label: &str, value: String| (label.to_owned(), value);
    let amount = |is: Amount| format!("{}, {}", count(is.count), bytes(is.bytes));
    let change = |figure: fn(&Figures) -> u64| {
        let [a, b] = [figure(&sides[0].1), figure(&sides[1].1)];
        format!("{} → {} ({})", bytes(a), bytes(b), signed_bytes(i128::from(b) - i128::from(a)))
    };
    print_pairs(&[
        row("Blocks", format!("{} → {}", count(sides[0].1.blocks), count(sides[1].1.blocks))),
        row("Bytes of blocks", change(|is| is.bytes.size)),
        row("Used", change(|is| is.bytes.used)),
        row("Only in A", amount(difference.only_a)),
        row("Only in B", amount(difference.only_b)),
        row("In both", amount(difference.both)),
        row("… moved", amount(difference.moved)),
        row("… of another size", count(difference.resized)),
    ]);
    table::print(&difference.table(by.grouping()));
}

/// The JSON output.
#[derive(Serialize)]
struct DiffJson<'a> {
    a: SideJson<'a>,
    b: SideJson<'a>,
    grown: i64,
    only_a: AmountJson,
    only_b: AmountJson,
    both: AmountJson,
    moved: AmountJson,
    resized: u64,
    groups: Vec<GroupJson<'a>>,
}

#[derive(Serialize)]
struct SideJson<'a> {
    file: &'a str,
    at: Option<MomentJson>,
    #[serde(flatten)]
    figures: FiguresJson,
}

#[derive(Serialize)]
struct AmountJson {
    count: u64,
    bytes: u64,
}

impl From<Amount> for AmountJson {
    fn from(Amount { count, bytes }: Amount) -> Self {
        Self { count, bytes }
    }
}

#[derive(Serialize)]
struct GroupJson<'a> {
    group: &'a str,
    name: &'a str,
    other_names: u64,
    a: AmountJson,
    b: AmountJson,
    grown: i64,
}

impl<'a> From<&'a GroupDifference> for GroupJson<'a> {
    fn from(group: &'a GroupDifference) -> Self {
        Self {
            group: &group.key,
            name: &group.name.name,
            other_names: group.name.others,
            a: group.a.into(),
            b: group.b.into(),
            grown: whole(group.grown()),
        }
    }
}

impl<'a> DiffJson<'a> {
    fn new(a: SideJson<'a>, b: SideJson<'a>, difference: &'a Difference) -> Self {
        Self {
            a,
            b,
            grown: whole(difference.grown()),
            only_a: difference.only_a.into(),
            only_b: difference.only_b.into(),
            both: difference.both.into(),
            moved: difference.moved.into(),
            resized: difference.resized,
            groups: difference.groups.iter().map(GroupJson::from).collect(),
        }
    }
}

/// Returns a change as a number that JSON readers have.
fn whole(change: i128) -> i64 {
    i64::try_from(change).unwrap_or(if change < 0 { i64::MIN } else { i64::MAX })
}
