//! The table of the groups that differ between two moments.

use super::{Cell, Column, Definition, Table};
use crate::difference::{Difference, GroupDifference};
use crate::grouping::Grouping;

fn columns<'a>(grouping: Grouping) -> [Definition<(Grouping, &'a GroupDifference)>; 7] {
    [
        (grouping.column(), |(grouping, group)| grouping.cell(&group.key)),
        (Grouping::COMMONEST, |(_, group)| Grouping::commonest(&group.key, &group.name)),
        (Column::number("Count in A", "Allocations of the group at A."), |(_, group)| {
            Cell::Count(group.a.count)
        }),
        (Column::number("Count in B", "Allocations of the group at B."), |(_, group)| {
            Cell::Count(group.b.count)
        }),
        (Column::number("Bytes in A", "Bytes that were requested for those at A."), |(_, group)| {
            Cell::Bytes(group.a.bytes)
        }),
        (Column::number("Bytes in B", "Bytes that were requested for those at B."), |(_, group)| {
            Cell::Bytes(group.b.bytes)
        }),
        (Column::number("Change", "How many more bytes B has."), |(_, group)| Cell::Change(group.grown())),
    ]
}

impl Difference {
    /// Returns the groups that differ, the largest change first, as a table.
    #[must_use]
    pub fn table(&self, grouping: Grouping) -> Table {
        let changed = self.groups.iter().filter(|group| group.a != group.b);
        let rows: Vec<_> = changed.map(|group| (grouping, group)).collect();
        Table::of(&columns(grouping), &rows, |_| None)
    }

    /// Returns the columns of the table, for one whose rows are counted elsewhere.
    #[must_use]
    pub fn columns(grouping: Grouping) -> Vec<Column> {
        columns(grouping).map(|(column, _)| column).to_vec()
    }
}
