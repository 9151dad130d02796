//! The table of groups of allocations, such as those of a rule of lifetimes; and what the tables of groups have in common.

use allotment_trace::recording::Moment;

use super::{Cell, Column, Definition, Table};
use crate::grouping::Grouping;
use crate::groups::{AllocationGroup, AllocationGroups, CommonName};
use crate::timeline::Timeline;
use crate::units::{bytes, plural};

/// A row, and what its cells need of the whole.
pub(super) struct GroupRow<'a> {
    group: &'a AllocationGroup,
    grouping: Grouping,
    /// Bytes of all groups.
    bytes: u64,
    /// The recording has frames.
    has_frames: bool,
    now: Moment,
}

impl GroupRow<'_> {
    fn when(&self, moment: Moment) -> Cell {
        Cell::Count(if self.has_frames { moment.frame } else { moment.event })
    }
}

/// What the tables of groups have in common; each says in its own file which columns it has.
impl<'a> GroupRow<'a> {
    pub(super) const NAME: Definition<Self> =
        (Grouping::COMMONEST, |row| Grouping::commonest(&row.group.key, &row.group.name));
    pub(super) const COUNT: Definition<Self> =
        (Column::number("Count", "Allocations of the group."), |row| Cell::Count(row.group.count));
    pub(super) const BYTES: Definition<Self> =
        (Column::number("Bytes", "Bytes that were requested for them."), |row| Cell::Bytes(row.group.bytes));
    pub(super) const SHARE: Definition<Self> =
        (Column::number("Share", "Their share of the bytes of all groups."), |row| {
            Cell::Share(row.group.bytes, row.bytes)
        });
    pub(super) const PER_FRAME: Definition<Self> =
        (Column::number("Per frame", "Allocations per frame, from the first to the last."), |row| {
            if row.has_frames { Cell::Decimal(row.group.per_frame()) } else { Cell::Empty }
        });
    pub(super) const GROWTH: Definition<Self> = (Column::text("Growth", AllocationGroup::STEADY), |row| {
        if row.group.is_steady(row.now) { Cell::Warning("steady") } else { Cell::Text(String::new()) }
    });

    /// The column of the keys.
    pub(super) const fn key(grouping: Grouping) -> Definition<Self> {
        (grouping.column(), |row| row.grouping.cell(&row.group.key))
    }

    /// The columns of when the first and the last of them were allocated.
    pub(super) const fn first_and_last(has_frames: bool) -> [Definition<Self>; 2] {
        let [first, last] =
            if has_frames { ["First frame", "Last frame"] } else { ["First event", "Last event"] };
        [
            (Column::number(first, "When the first of them was allocated."), |row| row.when(row.group.first)),
            (Column::number(last, "When the last of them was allocated."), |row| row.when(row.group.last)),
        ]
    }

    /// Makes a table of some groups that have so many bytes in all.
    pub(super) fn table(
        definitions: &[Definition<Self>],
        (timeline, grouping, now): (&Timeline<'_>, Grouping, Moment),
        bytes: u64,
        groups: &'a [AllocationGroup],
    ) -> Table {
        let has_frames = timeline.frame_count() > 0;
        let row = |group| GroupRow { group, grouping, bytes, has_frames, now };
        let rows: Vec<_> = groups.iter().map(row).collect();
        Table::of(definitions, &rows, |row| row.group.examples.first().copied())
    }
}

/// The columns of a list of groups.
const fn columns<'a>(grouping: Grouping, has_frames: bool) -> [Definition<GroupRow<'a>>; 9] {
    let [first, last] = GroupRow::first_and_last(has_frames);
    [
        GroupRow::key(grouping),
        GroupRow::NAME,
        GroupRow::COUNT,
        GroupRow::BYTES,
        GroupRow::SHARE,
        first,
        last,
        GroupRow::PER_FRAME,
        GroupRow::GROWTH,
    ]
}

impl AllocationGroups {
    /// Returns the groups as a table. `now` is the moment up to which a steady group grows, `what` what one of them is:
    /// `allocation`.
    #[must_use]
    pub fn table(&self, timeline: &Timeline<'_>, grouping: Grouping, now: Moment, what: &str) -> Table {
        let columns = columns(grouping, timeline.frame_count() > 0);
        let mut table = GroupRow::table(&columns, (timeline, grouping, now), self.bytes, &self.groups);
        table.summary.push(format!("{}, {}.", plural(self.count, what), bytes(self.bytes)));
        table
    }
}

impl Grouping {
    /// The column of the commonest names.
    pub(super) const COMMONEST: Column =
        Column::text("Name", "The name that most allocations of the group have.");

    /// The cell of a commonest name. One that only repeats the key says nothing.
    pub(super) fn commonest(key: &str, name: &CommonName) -> Cell {
        let name = name.to_string();
        Cell::Text(if name == key { String::new() } else { name })
    }

    /// The column of the keys.
    pub(super) const fn column(self) -> Column {
        match self {
            Self::CallSite => Column::text(
                "Call site or name",
                "Where the allocations were made; of those without a call site, what the name begins with.",
            ),
            Self::Name => Column::text("Name", "The whole name."),
            Self::NamePrefix => {
                Column::text("Name before digits", "What the name begins with, up to its first digit.")
            }
            Self::Category => Column::text("Category", "The category."),
        }
    }

    /// Returns the cell of a group's key.
    #[must_use]
    pub fn cell(self, key: &str) -> Cell {
        match self {
            Self::Category if key.is_empty() => Cell::Unnamed("(no category)"),
            _ if key.is_empty() => Cell::Unnamed("(no name)"),
            Self::CallSite => Cell::CallSite(key.to_owned()),
            _ => Cell::Text(key.to_owned()),
        }
    }
}
