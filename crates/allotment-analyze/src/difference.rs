//! The difference between two moments of a recording, or between two recordings.
//!
//! At two moments of one recording an allocation is the same if it is the same allocation. Two recordings know nothing
//! of each other, so allocations of equal name, category and call site are paired: those at the same place with the
//! same size first, then those of the same size, then the rest from the largest down. What one recording has more of is
//! in it only.

use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use allotment_trace::recording::BlockId;

use crate::cursor::Cursor;
use crate::grouping::Grouping;
use crate::groups::{CommonName, NameCounts};
use crate::timeline::{AllocationIndex, Status, Timeline};

/// An allocation of one side or of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paired {
    /// It in A; `None` where only B has it.
    pub a: Option<AllocationIndex>,
    /// It in B; `None` where only A has it.
    pub b: Option<AllocationIndex>,
    /// It is in another block or at another offset. False where one side lacks it.
    pub moved: bool,
    /// How many more bytes were requested in B than in A: all of them where only B has it, negative where only A.
    pub grown: i128,
}

/// Allocations and the bytes that were requested for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Allocations.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The allocations of one group on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDifference {
    /// The group, as [`Grouping::of`] says.
    pub key: String,
    /// The name that most of its allocations have. One that A and B have counts once, with its name in B.
    pub name: CommonName,
    /// In A.
    pub a: Amount,
    /// In B.
    pub b: Amount,
}

impl GroupDifference {
    /// Returns how many more bytes B has.
    #[must_use]
    pub fn grown(&self) -> i128 {
        i128::from(self.b.bytes) - i128::from(self.a.bytes)
    }
}

/// The changes from A to B. Reservations of defragmentation are left out; memory that waits for the GPU is not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Every allocation of A or B: first those of A, in the order in which they were allocated, then those of B only.
    pub allocations: Vec<Paired>,
    /// All of A.
    pub a: Amount,
    /// All of B.
    pub b: Amount,
    /// Allocations that only A has.
    pub only_a: Amount,
    /// Allocations that only B has.
    pub only_b: Amount,
    /// Allocations that both have, with the bytes of B.
    pub both: Amount,
    /// Of those: what moved, with the bytes of B.
    pub moved: Amount,
    /// Of those that both have: how many have another size.
    pub resized: u64,
    /// The changes by group, the largest change of bytes first.
    pub groups: Vec<GroupDifference>,
}

impl Difference {
    /// Compares two moments of one recording, or of two, as the cursors are of the same [`Timeline`] or not.
    ///
    /// ```
    /// use allotment_analyze::{Cursor, Difference, Grouping, Timeline};
    /// use allotment_trace::recording::Recording;
    ///
    /// let recording = Recording::default();
    /// let timeline = Timeline::new(&recording);
    /// let start = Cursor::new(&timeline);
    /// let end = Cursor::at(&timeline, timeline.end());
    /// assert!(Difference::between(&start, &end, Grouping::Name).allocations.is_empty());
    /// ```
    #[must_use]
    pub fn between(a: &Cursor<'_, '_>, b: &Cursor<'_, '_>, grouping: Grouping) -> Self {
        let same = core::ptr::eq(a.timeline(), b.timeline());
        let pairs = if same { same_recording(a, b) } else { two_recordings(a, b) };
        let mut difference = Self::default();
        let mut groups: BTreeMap<&str, (Amount, Amount, NameCounts<'_>)> = BTreeMap::new();
        for (in_a, in_b) in pairs {
            let bytes = (
                in_a.map_or(0, |row| a.timeline().requested(row)),
                in_b.map_or(0, |row| b.timeline().requested(row)),
            );
            let moved = match (in_a, in_b) {
                (Some(in_a), Some(in_b)) => place(a, in_a) != place(b, in_b),
                _ => false,
            };
            let grown = i128::from(bytes.1) - i128::from(bytes.0);
            difference.allocations.push(Paired { a: in_a, b: in_b, moved, grown });
            if let Some(row) = in_a {
                difference.a.add(bytes.0);
                let group = groups.entry(grouping.of(a.timeline(), row)).or_default();
                group.0.add(bytes.0);
                if in_b.is_none() {
                    group.2.add(a.timeline(), row);
                }
            }
            if let Some(row) = in_b {
                difference.b.add(bytes.1);
                let group = groups.entry(grouping.of(b.timeline(), row)).or_default();
                group.1.add(bytes.1);
                group.2.add(b.timeline(), row);
            }
            match (in_a, in_b) {
                (Some(_), None) => difference.only_a.add(bytes.0),
                (None, Some(_)) => difference.only_b.add(bytes.1),
                _ => {
                    difference.both.add(bytes.1);
                    difference.resized += u64::from(grown != 0);
                    if moved {
                        difference.moved.add(bytes.1);
                    }
                }
            }
        }
        let groups = groups.into_iter();
        let group = |(key, (a, b, names)): (&str, (_, _, NameCounts<'_>))| GroupDifference {
            key: key.to_owned(),
            name: names.commonest(),
            a,
            b,
        };
        difference.groups = groups.map(group).collect();
        difference.groups.sort_by_key(|group| Reverse(group.grown().unsigned_abs()));
        difference
    }

    /// Returns how many more bytes B has.
    #[must_use]
    pub fn grown(&self) -> i128 {
        i128::from(self.b.bytes) - i128::from(self.a.bytes)
    }
}

impl Amount {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.add_all(Self { count: 1, bytes });
    }

    pub(crate) fn add_all(&mut self, other: Self) {
        self.count += other.count;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

type Pair = (Option<AllocationIndex>, Option<AllocationIndex>);

/// The allocations of the program, in the order in which they were allocated.
fn rows(cursor: &Cursor<'_, '_>) -> Vec<AllocationIndex> {
    let timeline = cursor.timeline();
    let not_reserved =
        |&row: &AllocationIndex| timeline.status_at(row, cursor.position()) != Status::Reserved;
    let mut rows: Vec<_> = cursor.allocations().filter(not_reserved).collect();
    rows.sort_unstable();
    rows
}

/// The place of an allocation, in terms that two recordings share.
fn place(cursor: &Cursor<'_, '_>, row: AllocationIndex) -> (BlockId, u64) {
    let place = cursor.timeline().place_at(row, cursor.position());
    (cursor.timeline().block_info(place.block).id, place.offset)
}

fn same_recording(a: &Cursor<'_, '_>, b: &Cursor<'_, '_>) -> Vec<Pair> {
    let (in_a, in_b) = (rows(a), rows(b));
    let has = |rows: &[AllocationIndex], row| rows.binary_search(row).ok().map(|_| *row);
    let only_b = in_b.iter().filter(|row| has(&in_a, row).is_none()).map(|&row| (None, Some(row)));
    in_a.iter().map(|row| (Some(*row), has(&in_b, row))).chain(only_b).collect()
}

/// The identity of an allocation in two recordings: its name, category and call site.
fn identity<'a>(timeline: &Timeline<'a>, row: AllocationIndex) -> [&'a str; 3] {
    let texts = timeline.texts(row);
    [texts.name, texts.category, texts.call_site].map(|text| timeline.recording().text(text).unwrap_or(""))
}

type PairingKey<'a> = ([&'a str; 3], Option<u64>, Option<(BlockId, u64)>);

/// The values that must be equal in a round for two allocations to be paired.
fn pairing_key<'a>(cursor: &Cursor<'_, 'a>, row: AllocationIndex, round: u32) -> PairingKey<'a> {
    let same_size = (round < 2).then(|| cursor.timeline().requested(row));
    let same_place = (round < 1).then(|| place(cursor, row));
    (identity(cursor.timeline(), row), same_size, same_place)
}

fn two_recordings(a: &Cursor<'_, '_>, b: &Cursor<'_, '_>) -> Vec<Pair> {
    let (in_a, in_b) = (rows(a), rows(b));
    let size = |cursor: &Cursor<'_, '_>, row| cursor.timeline().requested(row);
    let mut found: BTreeMap<AllocationIndex, AllocationIndex> = BTreeMap::new();
    let mut left_a: BTreeSet<_> = in_a.iter().copied().collect();
    let mut left_b: BTreeSet<_> = in_b.iter().copied().collect();
    // Three rounds, each with a weaker condition. In each, those with the same key are paired in the order of the
    // second part: of allocations, or of sizes from the largest.
    for round in 0..3 {
        let mut waiting: BTreeMap<_, Vec<AllocationIndex>> = BTreeMap::new();
        let mut from_b: Vec<_> = left_b.iter().copied().collect();
        let mut from_a: Vec<_> = left_a.iter().copied().collect();
        // The last of a list is paired first.
        from_b.sort_by_key(|&row| (size(b, row), Reverse(row)));
        from_a.sort_by_key(|&row| (Reverse(size(a, row)), row));
        for row in from_b {
            waiting.entry(pairing_key(b, row, round)).or_default().push(row);
        }
        for row in from_a {
            if let Some(other) = waiting.get_mut(&pairing_key(a, row, round)).and_then(Vec::pop) {
                found.insert(row, other);
                left_a.remove(&row);
                left_b.remove(&other);
            }
        }
    }
    let of_a = in_a.iter().map(|row| (Some(*row), found.get(row).copied()));
    of_a.chain(left_b.iter().map(|&row| (None, Some(row)))).collect()
}
