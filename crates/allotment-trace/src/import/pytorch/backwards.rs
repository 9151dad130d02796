//! Finds the state before the first kept event: the final one, with each event undone, the last one first.
//!
//! A worked example, with the addresses of two allocations:
//!
//! ```text
//! final state: 10, 20      event 3: alloc 20           before it: 10
//!                          event 2: free_completed 30  before it: 10, 30 (released)
//!                          event 1: free_requested 30  before it: 10, 30
//! ```
//!
//! So 10 and 30 were allocated before the ring's first event.

use std::collections::BTreeMap;

use super::super::ImportErrorKind;
use super::super::limits::Budget;
use super::pickle::Value;
use super::snapshot::{Action, Address, Block, PoolKey, Segment, Snapshot};

/// The state before the first event, and what the final state says about the events that lead to it.
pub(super) struct Before {
    pub(super) segments: BTreeMap<Address, Segment>,
    pub(super) blocks: BTreeMap<Address, Block>,
    pub(super) mapped: Mapped,
    /// By the index of its `alloc`: what an allocation that is never freed occupies.
    pub(super) occupied: BTreeMap<usize, u64>,
    /// By the index of its `segment_alloc`: the pool of a segment that is never freed.
    pub(super) pools: BTreeMap<usize, PoolKey>,
    /// The addresses of expandable segments, in their order.
    pub(super) regions: Vec<Region>,
}

/// Addresses in which an expandable segment maps memory: they touch, at one time or another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    pub(super) at: Address,
    pub(super) end: u64,
    pub(super) pool: PoolKey,
}

/// The memory of an entry of one of the maps, about.
const ENTRY_BYTES: usize = 160;
/// Sizes of allocations are multiples of this, in bytes.
const GRANULE: u64 = 512;

/// Returns what PyTorch makes of a size, unless it leaves the rest of a segment unsplit.
pub(super) fn rounded(size: u64) -> u64 {
    size.max(1).checked_next_multiple_of(GRANULE).unwrap_or(size)
}

pub(super) fn walk(snapshot: &Snapshot, budget: &Budget) -> Result<Before, ImportErrorKind> {
    let mut before = Before {
        segments: BTreeMap::new(),
        blocks: BTreeMap::new(),
        mapped: Mapped::default(),
        occupied: BTreeMap::new(),
        pools: BTreeMap::new(),
        regions: regions(snapshot, budget)?,
    };
    budget.charge(ENTRY_BYTES * (snapshot.segments.len() + snapshot.blocks.len()))?;
    for segment in &snapshot.segments {
        if segment.expandable {
            before.mapped.insert(segment.at, segment.size);
        } else {
            before.segments.insert(segment.at, *segment);
        }
    }
    before.blocks.extend(snapshot.blocks.iter().map(|block| (block.at, *block)));

    // What is in the final state at an address, until the `alloc` that put it there.
    let mut last = before.blocks.clone();
    for (i, entry) in snapshot.entries.iter().enumerate().rev() {
        budget.work(1)?;
        // An event adds at most one entry of a map.
        budget.charge(ENTRY_BYTES)?;
        let at = entry.at;
        match entry.action {
            Action::Alloc => {
                before.blocks.remove(&at);
                if let Some(block) = last.remove(&at) {
                    before.occupied.insert(i, block.size);
                }
            }
            Action::FreeRequested => {
                if let Some(block) = before.blocks.get_mut(&at) {
                    block.pending = false;
                }
            }
            Action::FreeCompleted => {
                // It was freed, so that what is there at the end was allocated later.
                last.remove(&at);
                let (size, requested, frames) = (rounded(entry.size), entry.size, Value::None);
                before.blocks.insert(
                    at,
                    Block { at, size, requested, is_requested_known: true, pending: true, frames },
                );
            }
            Action::SegmentAlloc => {
                if let Some(segment) = before.segments.remove(&at) {
                    before.pools.insert(i, segment.pool);
                }
            }
            Action::SegmentFree => {
                let pool = pool_of(entry.at.0, entry.stream, entry.size);
                before.segments.insert(at, Segment { at, size: entry.size, pool, expandable: false });
            }
            Action::SegmentMap => before.mapped.remove(at, entry.size),
            Action::SegmentUnmap => before.mapped.insert(at, entry.size),
            Action::OutOfMemory | Action::Mark(_) | Action::Other(_) => {}
        }
    }
    Ok(before)
}

/// Returns the pool of a segment of which only the history knows.
pub(super) fn pool_of(device: u16, stream: i64, size: u64) -> PoolKey {
    // Segments of 2 MiB are for small blocks only.
    PoolKey { device, stream, private: (0, 0), small: size == 2 << 20 }
}

/// Returns all addresses of expandable segments, over all time, joined where they touch.
fn regions(snapshot: &Snapshot, budget: &Budget) -> Result<Vec<Region>, ImportErrorKind> {
    let mut all: Vec<Region> = Vec::new();
    let finals = snapshot.segments.iter().filter(|segment| segment.expandable);
    for segment in finals {
        budget.charge(3 * size_of::<Region>())?;
        let end = segment.at.1.saturating_add(segment.size);
        all.push(Region { at: segment.at, end, pool: segment.pool });
    }
    for entry in &snapshot.entries {
        if matches!(entry.action, Action::SegmentMap | Action::SegmentUnmap) {
            budget.charge(3 * size_of::<Region>())?;
            let end = entry.at.1.saturating_add(entry.size);
            let pool = PoolKey { small: false, ..pool_of(entry.at.0, entry.stream, entry.size) };
            all.push(Region { at: entry.at, end, pool });
        }
    }
    // Stable: where two begin together, the one of the final state stays first, which knows its pool.
    all.sort_by_key(|region| region.at);
    let mut joined: Vec<Region> = Vec::new();
    for region in all {
        match joined.last_mut() {
            Some(last) if last.at.0 == region.at.0 && region.at.1 <= last.end => {
                last.end = last.end.max(region.end);
            }
            _ => joined.push(region),
        }
    }
    Ok(joined)
}

/// The mapped addresses of expandable segments: ranges that do not touch, by their start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mapped(BTreeMap<Address, u64>);

impl Mapped {
    pub(super) fn insert(&mut self, at: Address, size: u64) {
        let (device, mut start) = at;
        let mut end = start.saturating_add(size);
        if start == end {
            return;
        }
        // The last range that begins before the end, as long as it touches.
        while let Some((&(_, other), &other_end)) = self.0.range((device, 0)..=(device, end)).next_back() {
            if other_end < start {
                break;
            }
            self.0.remove(&(device, other));
            (start, end) = (start.min(other), end.max(other_end));
        }
        self.0.insert((device, start), end);
    }

    pub(super) fn remove(&mut self, at: Address, size: u64) {
        let (device, start) = at;
        let end = start.saturating_add(size);
        // Else a range around it would be split in two that touch.
        if start == end {
            return;
        }
        while let Some((&(_, other), &other_end)) = self.0.range((device, 0)..(device, end)).next_back() {
            if other_end <= start {
                break;
            }
            self.0.remove(&(device, other));
            if other_end > end {
                self.0.insert((device, end), other_end);
            }
            if other < start {
                self.0.insert((device, other), start);
                break;
            }
        }
    }

    /// Returns the end of the last mapped range that begins in a region.
    pub(super) fn top(&self, region: &Region) -> Option<u64> {
        let found = self.0.range(region.at..(region.at.0, region.end)).next_back();
        found.map(|(_, &end)| end.min(region.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn mapped_ranges_are_those_of_a_table_of_bytes(
            operations in prop::collection::vec((any::<bool>(), 0_u64..64, 0_u64..20), 0..40)
        ) {
            let mut mapped = Mapped::default();
            let mut table = [false; 96];
            for (is_insert, start, size) in operations {
                if is_insert { mapped.insert((0, start), size) } else { mapped.remove((0, start), size) }
                table[start as usize..(start + size) as usize].fill(is_insert);
                let mut again = [false; 96];
                let mut last_end = None;
                for (&(_, start), &end) in &mapped.0 {
                    prop_assert!(start < end && last_end.is_none_or(|last| last < start));
                    last_end = Some(end);
                    again[start as usize..end as usize].fill(true);
                }
                prop_assert_eq!(table, again);
            }
        }
    }
}
