//! `allotment leaks`: allocations that still exist at a moment, by what made them.

use allotment_analyze::{Cursor, LeakGroup, Leaks};
use serde::Serialize;

use super::args::LeaksArgs;
use super::json::MomentJson;
use super::load::{index, load};
use super::table::{Align, Table, name_or_none, shown};
use super::when::words;
use crate::failure::Failure;
use crate::units::{bytes, count};

pub(crate) fn run(args: &LeaksArgs) -> Result<(), Failure> {
    let loaded = load(&args.shown.file)?;
    let timeline = index(&loaded);
    let cursor = Cursor::at(&timeline, args.shown.at.position(&timeline)?);
    let since = args.since.map(|since| since.position(&timeline)).transpose()?;
    let leaks = Leaks::since(&cursor, args.by.grouping(), since.unwrap_or(0));
    if args.shown.json {
        let groups = leaks.groups.iter().map(|group| GroupJson::new(group, &leaks, &cursor)).collect();
        let leaks = LeaksJson {
            file: &loaded.title,
            at: leaks.at.into(),
            since: since.unwrap_or(0),
            count: leaks.count,
            bytes: leaks.bytes,
            groups,
        };
        say!("{}", serde_json::to_string(&leaks)?);
        return Ok(());
    }
    say!("{} at {}", shown(&loaded.title), words(leaks.at));
    if leaks.count == 0 {
        say!("No allocation exists that was not released.");
        return Ok(());
    }
    say!("{} allocations exist and were not released, {}", count(leaks.count), bytes(leaks.bytes));
    say!();
    let mut columns =
        ["Bytes", "Count", "A frame", "First", "Last"].map(|title| (title, Align::Right)).to_vec();
    columns.extend(["", "Group"].map(|title| (title, Align::Left)));
    let mut table = Table::new(&columns);
    for group in &leaks.groups {
        table.row([
            bytes(group.bytes),
            count(group.count),
            format!("{:.2}", group.per_frame()),
            count(group.first.frame),
            count(group.last.frame),
            if group.is_steady(leaks.at) { "steady" } else { "" }.to_owned(),
            name_or_none(&group.key),
        ]);
    }
    table.print();
    if leaks.groups.iter().any(|group| group.is_steady(leaks.at)) {
        say!();
        say!(
            "steady: they came in 8 frames or more, in a quarter of all frames since the first, and until lately."
        );
    }
    Ok(())
}

/// The JSON output.
#[derive(Serialize)]
struct LeaksJson<'a> {
    file: &'a str,
    at: MomentJson,
    since: u64,
    count: u64,
    bytes: u64,
    groups: Vec<GroupJson<'a>>,
}

#[derive(Serialize)]
struct GroupJson<'a> {
    group: &'a str,
    count: u64,
    bytes: u64,
    first_frame: u64,
    last_frame: u64,
    frames: u64,
    per_frame: f64,
    steady: bool,
    examples: Vec<ExampleJson<'a>>,
}

#[derive(Serialize)]
struct ExampleJson<'a> {
    name: &'a str,
    bytes: u64,
    block: u64,
    offset: u64,
    allocated_by_event: u64,
}

impl<'a> GroupJson<'a> {
    fn new(group: &'a LeakGroup, leaks: &Leaks, cursor: &Cursor<'_, 'a>) -> Self {
        let timeline = cursor.timeline();
        let example = |&allocation: &_| {
            let place = timeline.place_at(allocation, cursor.position());
            ExampleJson {
                name: timeline.recording().text(timeline.texts(allocation).name).unwrap_or(""),
                bytes: timeline.requested(allocation),
                block: timeline.block_info(place.block).id.0,
                offset: place.offset,
                allocated_by_event: timeline.lifetime(allocation).allocated,
            }
        };
        Self {
            group: &group.key,
            count: group.count,
            bytes: group.bytes,
            first_frame: group.first.frame,
            last_frame: group.last.frame,
            frames: group.frames,
            per_frame: group.per_frame(),
            steady: group.is_steady(leaks.at),
            examples: group.examples.iter().map(example).collect(),
        }
    }
}
