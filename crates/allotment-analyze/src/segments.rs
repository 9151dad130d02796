//! A block as ranges of one class each, from its start to its end.
//!
//! Allocations of a block may overlap, since resources that are never used at once may alias, and since imported
//! recordings may be wrong. A byte then belongs to the class that matters most, and is counted once:
//!
//! ```text
//! allocations   |‹used›‹rounding›|        |‹pending release ‹used› pending›|
//! segments      |used  |rounding |  free  |pending         |used  |pending |  free |
//! ```

use core::fmt;

use allotment::Alignment;

use crate::timeline::{AllocationIndex, Status};

/// The class of a byte of a block, from the least important to the most important.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// It can be allocated.
    Free,
    /// Overhead: an allocation occupies it, because the algorithm or an alignment rounds up, and did not request it.
    Rounding,
    /// Overhead: the destination or the old range of a move.
    Reserved,
    /// The program released it, and the GPU may still use it.
    Pending,
    /// The program uses it.
    Used,
}

impl Class {
    /// All of them, from what matters least to what matters most.
    pub const ALL: [Self; 5] = [Self::Free, Self::Rounding, Self::Reserved, Self::Pending, Self::Used];

    /// Returns true for the two kinds of overhead.
    #[must_use]
    pub const fn is_overhead(self) -> bool {
        matches!(self, Self::Rounding | Self::Reserved)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Free => "free",
            Self::Rounding => "rounding",
            Self::Reserved => "reserved",
            Self::Pending => "pending release",
            Self::Used => "used",
        })
    }
}

/// An allocation in its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The allocation.
    pub allocation: AllocationIndex,
    /// Bytes from the start of the block.
    pub offset: u64,
    /// Bytes that the program requested: at most `occupied`.
    pub requested: u64,
    /// Bytes that no other allocation can have.
    pub occupied: u64,
    /// The alignment of the offset.
    pub alignment: Alignment,
    /// The class of the requested bytes.
    pub status: Status,
}

impl Placed {
    /// Returns the offset behind the occupied bytes.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.occupied)
    }

    /// Returns the class of the requested bytes.
    #[must_use]
    pub const fn class(&self) -> Class {
        match self.status {
            Status::Used => Class::Used,
            Status::Pending => Class::Pending,
            Status::Reserved => Class::Reserved,
        }
    }

    /// Returns the two ranges of the allocation: what was requested, and what it occupies beyond.
    #[must_use]
    pub const fn ranges(&self) -> [(u64, u64, Class); 2] {
        let middle = self.offset.saturating_add(self.requested);
        // All of a reservation is reserved: it has no requested bytes of the program's.
        let beyond = if let Status::Reserved = self.status { Class::Reserved } else { Class::Rounding };
        [(self.offset, middle, self.class()), (middle, self.end(), beyond)]
    }
}

/// A range of a block whose bytes have the same class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The first byte.
    pub start: u64,
    /// The byte behind the last.
    pub end: u64,
    /// The class.
    pub class: Class,
    /// How many allocations occupy each byte. More than one where they alias.
    pub depth: u32,
}

impl Segment {
    /// Returns the bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.end - self.start
    }
}

/// Returns the segments of a block of `size` bytes from its start to its end, none empty.
///
/// The allocations are in the order of their offsets, as [`Cursor::placed`](crate::Cursor::placed) returns them. Linear
/// in them where none overlap, else n log n. Neighbours of the same class are one segment, except that those of
/// different allocations stay apart where none overlap, as do those of different depth.
#[must_use]
pub fn segments(size: u64, placed: &[Placed]) -> Vec<Segment> {
    let disjoint = placed.windows(2).all(|two| two[0].end() <= two[1].offset);
    if disjoint { of_disjoint(size, placed) } else { of_overlapping(size, placed) }
}

fn of_disjoint(size: u64, placed: &[Placed]) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::with_capacity(2 * placed.len() + 1);
    let mut end = 0;
    let mut push = |until: u64, class, depth| {
        let until = until.min(size);
        if until > end {
            match segments.last_mut() {
                // An allocation of no bytes does not split a hole.
                Some(last) if class == Class::Free && last.class == Class::Free => last.end = until,
                _ => segments.push(Segment { start: end, end: until, class, depth }),
            }
            end = until;
        }
    };
    for allocation in placed {
        push(allocation.offset, Class::Free, 0);
        for (_, until, class) in allocation.ranges() {
            push(until, class, 1);
        }
    }
    push(size, Class::Free, 0);
    segments
}

/// Sweeps over the starts and ends of all ranges, and counts how many ranges of each class are open.
fn of_overlapping(size: u64, placed: &[Placed]) -> Vec<Segment> {
    let mut edges: Vec<(u64, Class, bool)> = Vec::with_capacity(4 * placed.len());
    for (start, end, class) in placed.iter().flat_map(Placed::ranges) {
        let (start, end) = (start.min(size), end.min(size));
        if start < end {
            edges.push((start, class, true));
            edges.push((end, class, false));
        }
    }
    edges.sort_unstable();
    let mut segments: Vec<Segment> = Vec::new();
    let mut open = [0u32; Class::ALL.len()];
    let mut start = 0;
    let mut edges = edges.into_iter().peekable();
    while start < size {
        while let Some((_, class, begins)) = edges.next_if(|&(at, ..)| at == start) {
            let count = &mut open[class as usize];
            // Ends sort before starts at the same offset, and each range started at a lower one.
            if begins { *count += 1 } else { *count -= 1 }
        }
        let end = edges.peek().map_or(size, |&(at, ..)| at);
        let class = Class::ALL.into_iter().rev().find(|&class| open[class as usize] > 0);
        // The two ranges of an allocation do not overlap, so the open ranges are the allocations here.
        let (class, depth) = (class.unwrap_or(Class::Free), open.iter().sum());
        match segments.last_mut() {
            Some(last) if (last.class, last.depth) == (class, depth) => last.end = end,
            _ => segments.push(Segment { start, end, class, depth }),
        }
        start = end;
    }
    segments
}
