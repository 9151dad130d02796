//! Groups of allocations, as `leaks` and `lifetimes` show them.

use allotment_analyze::{AllocationGroup, CommonName, Timeline, short_call_site};
use allotment_trace::recording::Moment;
use serde::Serialize;

use super::args::By;
use super::table::{Align, Table, name_or_none, shown};
use crate::units::{bytes, count};

/// What a group is called: the column of its key and that of its commonest name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Labels {
    by: By,
    /// Whether the names say more than the keys do.
    names: bool,
}

impl Labels {
    /// Labels groups of a grouping, with the keys and the names that they have.
    pub(super) fn new<'a>(by: By, groups: impl IntoIterator<Item = (&'a str, &'a CommonName)>) -> Self {
        let more = |(key, name): (&str, &CommonName)| !name.name.is_empty() && *key != *name.to_string();
        Self { by, names: groups.into_iter().any(more) }
    }

    pub(super) fn columns(self) -> Vec<(&'static str, Align)> {
        let titles = [Some("Group"), self.names.then_some("Name")];
        titles.into_iter().flatten().map(|title| (title, Align::Left)).collect()
    }

    pub(super) fn cells(self, key: &str, name: &CommonName) -> Vec<String> {
        let key = name_or_none(if self.by == By::CallSite { short_call_site(key) } else { key });
        if self.names { vec![key, shown(&name.to_string())] } else { vec![key] }
    }
}

/// Prints a line for each group; `now` is the moment that a steady group lasts to.
pub(super) fn print(groups: &[AllocationGroup], by: By, now: Moment) {
    let labels = Labels::new(by, groups.iter().map(|group| (&*group.key, &group.name)));
    let mut columns =
        ["Bytes", "Count", "A frame", "First", "Last"].map(|title| (title, Align::Right)).to_vec();
    columns.push(("", Align::Left));
    columns.extend(labels.columns());
    let mut table = Table::new(&columns);
    for group in groups {
        let mut cells = vec![
            bytes(group.bytes),
            count(group.count),
            format!("{:.2}", group.per_frame()),
            count(group.first.frame),
            count(group.last.frame),
            if group.is_steady(now) { "steady" } else { "" }.to_owned(),
        ];
        cells.extend(labels.cells(&group.key, &group.name));
        table.row(cells);
    }
    table.print();
    if groups.iter().any(|group| group.is_steady(now)) {
        say!();
        say!(
            "steady: they came in 8 frames or more, in a quarter of all frames since the first, and until lately."
        );
    }
}

/// Returns the groups for a JSON output.
pub(super) fn json<'a>(
    groups: &'a [AllocationGroup],
    timeline: &Timeline<'a>,
    now: Moment,
) -> Vec<GroupJson<'a>> {
    groups.iter().map(|group| GroupJson::new(group, timeline, now)).collect()
}

/// A group in a JSON output.
#[derive(Serialize)]
pub(super) struct GroupJson<'a> {
    group: &'a str,
    name: &'a str,
    other_names: u64,
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
    fn new(group: &'a AllocationGroup, timeline: &Timeline<'a>, now: Moment) -> Self {
        let example = |&allocation: &_| {
            // Of one that does not exist now, the place that it had last or will have first.
            let place = timeline.place_at(allocation, now.event);
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
            name: &group.name.name,
            other_names: group.name.others,
            count: group.count,
            bytes: group.bytes,
            first_frame: group.first.frame,
            last_frame: group.last.frame,
            frames: group.frames,
            per_frame: group.per_frame(),
            steady: group.is_steady(now),
            examples: group.examples.iter().map(example).collect(),
        }
    }
}
