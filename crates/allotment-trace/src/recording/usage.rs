//! The bytes of each memory type, kept up to date event by event.
//!
//! The crate `allotment-analyze` counts bytes as well (`BlockBytes`), and neither can use the other. This file serves the
//! exports of this crate, on which that one depends: it walks a recording once, forwards, over a [`State`], and looks
//! allocations up by their keys. `BlockBytes` counts any moment from an index whose rows have numbers instead of keys;
//! over a [`State`] its walks would take hash look-ups for each event again, which the index saves. They also answer
//! different questions where allocations alias: here each counts its own bytes, which is what a counter of allocations
//! shows; there a byte counts once, for its most important class, so that the classes add up to the block.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{AllocationKey, BlockId, Event, Inconsistent, Live, State};

/// Bytes by what they are for, summed. Every allocation counts in one of `used`, `pending` and `reserved`, and the rest of the
/// bytes that it occupies in `overhead`.
///
/// Where allocations alias, each counts its own bytes; `free` counts the bytes that none has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageTotals {
    /// Blocks.
    pub blocks: u64,
    /// Bytes of all blocks.
    pub block_bytes: u64,
    /// Allocations, without reservations.
    pub allocations: u64,
    /// Bytes as requested, of allocations that the program has not released.
    pub used: u64,
    /// Bytes that allocations occupy beyond what was requested.
    pub overhead: u64,
    /// Bytes as requested, of allocations that the program released and the GPU may still use.
    pub pending: u64,
    /// Bytes of destinations and old ranges of moves.
    pub reserved: u64,
    /// Bytes of blocks that no allocation occupies.
    pub free: u64,
}

impl UsageTotals {
    /// Adds other totals to these.
    pub fn add(&mut self, of: &Self) {
        self.change(of, u64::saturating_add);
    }

    fn subtract(&mut self, of: &Self) {
        self.change(of, u64::saturating_sub);
    }

    // Saturating: a hostile recording may have blocks of 2^64 bytes. Correct ones come nowhere near.
    fn change(&mut self, of: &Self, change: impl Fn(u64, u64) -> u64) {
        for (sum, of) in [
            (&mut self.blocks, of.blocks),
            (&mut self.block_bytes, of.block_bytes),
            (&mut self.allocations, of.allocations),
            (&mut self.used, of.used),
            (&mut self.overhead, of.overhead),
            (&mut self.pending, of.pending),
            (&mut self.reserved, of.reserved),
            (&mut self.free, of.free),
        ] {
            *sum = change(*sum, of);
        }
    }

    /// Returns what one allocation adds to the totals of its block.
    fn of(live: &Live) -> Self {
        let requested = live.is.requested.min(live.is.occupied);
        let mut totals = Self { overhead: live.is.occupied - requested, ..Self::default() };
        if live.reservation {
            totals.reserved = requested;
        } else {
            totals.allocations = 1;
            let sum = if live.free_requested.is_some() { &mut totals.pending } else { &mut totals.used };
            *sum = requested;
        }
        totals
    }
}

/// A [`State`] with the [totals](UsageTotals) of each memory type and block.
///
/// An event costs O(log allocations of its block); where allocations alias, O(allocations of the block).
#[derive(Clone, Debug, Default)]
pub struct Usage {
    state: State,
    blocks: HashMap<BlockId, UsageTotals>,
    /// Blocks in which allocations share bytes, so that their free bytes are not the difference of sums.
    aliased: HashSet<BlockId>,
    types: BTreeMap<u8, UsageTotals>,
}

impl Usage {
    /// Returns the state.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the totals of a block. All 0 where there is no such block.
    #[must_use]
    pub fn block(&self, block: BlockId) -> UsageTotals {
        self.blocks.get(&block).copied().unwrap_or_default()
    }

    /// Returns the totals of each memory type that ever had a block, by its index.
    #[must_use]
    pub fn memory_types(&self) -> &BTreeMap<u8, UsageTotals> {
        &self.types
    }

    /// Returns the totals of all memory types.
    #[must_use]
    pub fn total(&self) -> UsageTotals {
        let mut total = UsageTotals::default();
        self.types.values().for_each(|of| total.add(of));
        total
    }

    /// Applies the next event to the state and to the totals.
    ///
    /// # Errors
    ///
    /// [`Inconsistent`], with the state and the totals unchanged but for the count of events.
    pub fn apply(&mut self, event: &Event) -> Result<(), Inconsistent> {
        match *event {
            Event::Lost => {
                self.blocks.clear();
                self.aliased.clear();
                self.types.values_mut().for_each(|of| *of = UsageTotals::default());
                self.state.apply(event)
            }
            Event::BlockAllocated { block, size, .. } => {
                self.state.apply(event)?;
                let totals = UsageTotals { blocks: 1, block_bytes: size, free: size, ..Default::default() };
                self.set(block, totals);
                Ok(())
            }
            Event::BlockResized { block, size } => {
                self.state.apply(event)?;
                self.set(block, UsageTotals { block_bytes: size, ..self.block(block) });
                self.update_free(block);
                Ok(())
            }
            Event::BlockFreed { block } => {
                let memory_type = self.state.blocks.get(&block).map(|found| found.memory_type.0);
                self.state.apply(event)?;
                self.aliased.remove(&block);
                if let (Some(memory_type), Some(was)) = (memory_type, self.blocks.remove(&block)) {
                    self.types.entry(memory_type).or_default().subtract(&was);
                }
                Ok(())
            }
            Event::Allocated(is) => self.around(event, &[is.allocation]),
            Event::Freed { allocation } | Event::FreeRequested { allocation } => {
                self.around(event, &[allocation])
            }
            Event::Reserved { reservation, .. } => self.around(event, &[reservation]),
            Event::Exchanged { allocation, reservation } => self.around(event, &[allocation, reservation]),
            _ => self.state.apply(event),
        }
    }

    /// Applies an event that changes these allocations.
    fn around(&mut self, event: &Event, allocations: &[AllocationKey]) -> Result<(), Inconsistent> {
        let mut before = Vec::with_capacity(allocations.len());
        before.extend(allocations.iter().filter_map(|key| self.share(*key)));
        self.state.apply(event)?;
        let after: Vec<_> = allocations.iter().filter_map(|key| self.share(*key)).collect();
        for &(block, ref share) in &before {
            let mut totals = self.block(block);
            totals.subtract(share);
            self.set(block, totals);
        }
        for &(block, ref share) in &after {
            let mut totals = self.block(block);
            totals.add(share);
            self.set(block, totals);
        }
        for key in allocations {
            self.note_aliasing(*key);
        }
        for &(block, _) in before.iter().chain(&after) {
            self.update_free(block);
        }
        Ok(())
    }

    fn share(&self, allocation: AllocationKey) -> Option<(BlockId, UsageTotals)> {
        let live = self.state.allocations.get(&allocation)?;
        Some((live.is.block, UsageTotals::of(live)))
    }

    /// Marks the block of an allocation that shares bytes with a neighbour. As long as no two allocations of a block
    /// do, a new one can overlap only its neighbours.
    fn note_aliasing(&mut self, allocation: AllocationKey) {
        let Some(live) = self.state.allocations.get(&allocation) else { return };
        let Some(block) = self.state.blocks.get(&live.is.block) else { return };
        let place = (live.is.offset, allocation);
        let end = |live: &Live| live.is.offset.saturating_add(live.is.occupied);
        let of = |key: &AllocationKey| self.state.allocations.get(key);
        let before = block.allocations.range(..place).next_back().and_then(|(_, key)| of(key));
        let after = block.allocations.range(place..).nth(1).and_then(|(_, key)| of(key));
        if before.is_some_and(|before| end(before) > live.is.offset)
            || after.is_some_and(|after| end(live) > after.is.offset)
        {
            self.aliased.insert(live.is.block);
        }
    }

    fn update_free(&mut self, block: BlockId) {
        let Some(found) = self.state.blocks.get(&block) else { return };
        let mut totals = self.block(block);
        if found.allocations.is_empty() {
            self.aliased.remove(&block);
        }
        totals.free = if self.aliased.contains(&block) {
            self.state.spans(found).filter(super::Span::is_free).map(|span| span.size).sum()
        } else {
            let occupied = [totals.overhead, totals.pending, totals.reserved];
            found.size.saturating_sub(occupied.into_iter().fold(totals.used, u64::saturating_add))
        };
        self.set(block, totals);
    }

    fn set(&mut self, block: BlockId, totals: UsageTotals) {
        let Some(found) = self.state.blocks.get(&block) else { return };
        let of_type = self.types.entry(found.memory_type.0).or_default();
        if let Some(was) = self.blocks.insert(block, totals) {
            of_type.subtract(&was);
        }
        of_type.add(&totals);
    }
}
