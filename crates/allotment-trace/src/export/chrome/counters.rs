//! Counters over time. Each is written when it changed.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use super::{MEMORY, OBJECTS, Writer};
use crate::recording::{AllocationKey, BlockId, Budget, Event, ObjectId, Span, State, Usage, UsageTotals};

/// The values that were last written of each counter, and the objects that changed since.
#[derive(Default)]
pub(super) struct Counters {
    heaps: BTreeMap<u8, UsageTotals>,
    types: BTreeMap<u8, UsageTotals>,
    budgets: BTreeMap<u8, Budget>,
    fragmentation: BTreeMap<u8, u64>,
    /// The largest free range of each block that has not changed since.
    largest_free: HashMap<BlockId, u64>,
    /// Something of the memory did.
    changed: bool,
    queues: BTreeSet<u8>,
    descriptor_heaps: BTreeSet<ObjectId>,
    rings: BTreeSet<ObjectId>,
    deletion_queues: BTreeSet<ObjectId>,
}

impl Counters {
    /// Notes which counters an event changes. It has not been applied, so that a freed allocation still has its block.
    pub(super) fn note(&mut self, state: &State, event: &Event) {
        let mut changes = |allocation: AllocationKey| {
            if let Some(live) = state.allocations.get(&allocation) {
                self.largest_free.remove(&live.is.block);
            }
        };
        match *event {
            Event::Allocated(is) => {
                self.largest_free.remove(&is.block);
            }
            Event::Freed { allocation } => changes(allocation),
            Event::Exchanged { allocation, reservation } => {
                changes(allocation);
                changes(reservation);
            }
            Event::BlockAllocated { block, .. }
            | Event::BlockResized { block, .. }
            | Event::BlockFreed { block } => {
                self.largest_free.remove(&block);
            }
            Event::Lost => self.largest_free.clear(),
            _ => {}
        }
        match *event {
            Event::Submitted { queue, .. } | Event::Completed { queue, .. } => {
                self.queues.insert(queue.0);
            }
            Event::DescriptorHeapCreated { heap, .. }
            | Event::DescriptorHeapDestroyed { heap }
            | Event::DescriptorsAllocated { heap, .. }
            | Event::DescriptorsFreed { heap, .. } => {
                self.descriptor_heaps.insert(heap);
            }
            Event::RingCreated { ring, .. }
            | Event::RingUsed { ring, .. }
            | Event::RingDestroyed { ring } => {
                self.rings.insert(ring);
            }
            Event::DeletionQueue { queue, .. } => {
                self.deletion_queues.insert(queue);
            }
            Event::Time { .. } | Event::FrameEnd { .. } | Event::Mark { .. } => {}
            _ => self.changed = true,
        }
    }

    /// Writes the counters that changed.
    pub(super) fn write<W: io::Write>(
        &mut self,
        writer: &mut Writer<'_, '_, '_, W>,
        usage: &Usage,
    ) -> fmt::Result {
        if core::mem::take(&mut self.changed) {
            self.write_memory(writer, usage)?;
        }
        let state = usage.state();
        for queue in core::mem::take(&mut self.queues) {
            let (submitted, completed) = state.queues.get(&queue).copied().unwrap_or_default();
            let in_flight = submitted.saturating_sub(completed);
            writer.counter(OBJECTS, format_args!("queue {queue}"), &[("in flight", in_flight)])?;
        }
        for heap in core::mem::take(&mut self.descriptor_heaps) {
            let found = state.descriptor_heaps.get(&heap);
            let allocated = found.map_or(0, |heap| heap.ranges.values().map(|count| u64::from(*count)).sum());
            writer.counter(
                OBJECTS,
                format_args!("descriptor heap {}", heap.0),
                &[("allocated", allocated)],
            )?;
        }
        for ring in core::mem::take(&mut self.rings) {
            let used = state.rings.get(&ring).map_or(0, |ring| ring.used);
            writer.counter(OBJECTS, format_args!("ring {}", ring.0), &[("used", used)])?;
        }
        for queue in core::mem::take(&mut self.deletion_queues) {
            let waiting = state.deletion_queues.get(&queue).map_or(0, |queue| queue.waiting);
            writer.counter(
                OBJECTS,
                format_args!("deletion queue {}", queue.0),
                &[("waiting", waiting.into())],
            )?;
        }
        Ok(())
    }

    fn write_memory<W: io::Write>(
        &mut self,
        writer: &mut Writer<'_, '_, '_, W>,
        usage: &Usage,
    ) -> fmt::Result {
        let header = &writer.recording.header;
        let mut heaps: BTreeMap<u8, UsageTotals> = BTreeMap::new();
        for (&index, totals) in usage.memory_types() {
            let heap = header.memory_types.get(usize::from(index)).map_or(0, |of| of.heap);
            heaps.entry(heap).or_default().add(totals);
            if self.types.insert(index, *totals) != Some(*totals) {
                write_totals(writer, format_args!("memory type {index}"), totals)?;
            }
        }
        for (index, totals) in heaps {
            if self.heaps.insert(index, totals) != Some(totals) {
                write_totals(writer, format_args!("heap {index}"), &totals)?;
            }
        }
        for (&index, budget) in &usage.state().budgets {
            if self.budgets.insert(index, *budget) != Some(*budget) {
                let values = [("budget", budget.budget), ("usage of the driver", budget.usage)];
                writer.counter(MEMORY, format_args!("heap {index} of the driver"), &values)?;
            }
        }
        Ok(())
    }

    /// Writes the share of each heap's free bytes that its largest free range does not have, in percent.
    ///
    /// O(blocks), and O(allocations) of the blocks whose largest free range may have changed.
    pub(super) fn write_fragmentation<W: io::Write>(
        &mut self,
        writer: &mut Writer<'_, '_, '_, W>,
        usage: &Usage,
    ) -> fmt::Result {
        let state = usage.state();
        let mut heaps: BTreeMap<u8, (u64, u64)> = BTreeMap::new();
        for (&id, block) in &state.blocks {
            let free = usage.block(id).free;
            let largest = *self.largest_free.entry(id).or_insert_with(|| {
                state.spans(block).filter(Span::is_free).map(|span| span.size).max().unwrap_or(0)
            });
            let types = &writer.recording.header.memory_types;
            let heap = types.get(block.memory_type.get()).map_or(0, |of| of.heap);
            let sum = heaps.entry(heap).or_default();
            *sum = (sum.0.saturating_add(free), sum.1.max(largest));
        }
        for (heap, (free, largest)) in heaps {
            // In 128 bits, since 100 times the bytes of a hostile block do not fit 64.
            let share = u128::from(free.saturating_sub(largest)) * 100 / u128::from(free.max(1));
            let share = u64::try_from(share).unwrap_or(100);
            if self.fragmentation.insert(heap, share) != Some(share) {
                writer.counter(MEMORY, format_args!("heap {heap} fragmentation"), &[("percent", share)])?;
            }
        }
        Ok(())
    }
}

fn write_totals<W: io::Write>(
    writer: &mut Writer<'_, '_, '_, W>,
    name: fmt::Arguments<'_>,
    totals: &UsageTotals,
) -> fmt::Result {
    let values = [
        ("used", totals.used),
        ("overhead", totals.overhead),
        ("pending release", totals.pending),
        ("reserved for moves", totals.reserved),
        ("free in blocks", totals.free),
    ];
    writer.counter(MEMORY, name, &values)
}
