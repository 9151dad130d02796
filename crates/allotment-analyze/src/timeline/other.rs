//! Pools, budgets, queues, rings, deletion queues and descriptor heaps as they were at a position.

use std::collections::BTreeMap;

use allotment_trace::recording::{
    Budget, DeletionQueue, DescriptorHeap, Event, ObjectId, Pool, PoolId, Ring, State,
};

use super::moments::{before, last_before};
use super::rows::{SpanRow, exists};
use super::{DescriptorHeapIndex, NONE, PoolIndex, Timeline};

/// A range of descriptors, as it is allocated or freed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DescriptorChange {
    pub(crate) event: u64,
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) allocated: bool,
}

impl Timeline<'_> {
    /// Returns the id that events know a pool by, and what it is, with all that the recording says of it.
    #[must_use]
    pub fn pool_info(&self, pool: PoolIndex) -> Option<(PoolId, Pool)> {
        self.pool_at(pool, self.end)
    }

    fn pool_at(&self, index: PoolIndex, position: u32) -> Option<(PoolId, Pool)> {
        let &Event::PoolCreated { pool, name, algorithm, custom } =
            self.event(self.pools[index.0 as usize].created)
        else {
            return None;
        };
        let mut info = Pool { name, algorithm, custom, description: Vec::new() };
        let described = self.descriptions.of(index.0).iter().take_while(|&&event| event < position);
        described.for_each(|&event| info.describe(self.event(event)));
        Some((pool, info))
    }

    /// Returns the budget of a heap as the driver last told it before a position.
    #[must_use]
    pub fn budget_at(&self, heap: u8, position: u64) -> Option<Budget> {
        let event = last_before(self.budgets.get(&heap)?, self.clamp(position))?;
        match *self.event(event) {
            Event::Budget { usage, budget, .. } => Some(Budget { usage, budget }),
            _ => None,
        }
    }

    /// Returns each heap that the driver told a budget of, with the positions of the events.
    pub fn budgets(&self) -> impl Iterator<Item = (u8, impl ExactSizeIterator<Item = u64>)> {
        self.budgets.iter().map(|(&heap, events)| (heap, events.iter().map(|&event| u64::from(event))))
    }

    /// Returns a descriptor heap at a position, with its allocated ranges: linear in the ranges that it ever had.
    /// `None` where it does not exist then.
    #[must_use]
    pub fn descriptor_heap_at(
        &self,
        heap: DescriptorHeapIndex,
        position: u64,
    ) -> Option<(ObjectId, DescriptorHeap)> {
        let position = self.clamp(position);
        let SpanRow { created, destroyed } = self.descriptor_heaps[heap.0 as usize];
        if !exists(created, destroyed, position) {
            return None;
        }
        let &Event::DescriptorHeapCreated { heap: id, kind, capacity, name } = self.event(created) else {
            return None;
        };
        let mut ranges = BTreeMap::new();
        for &range in self.ranges_of_heap.of(heap.0) {
            let row = self.descriptor_ranges[range as usize];
            if row.allocated >= position {
                break;
            }
            if exists(row.allocated, row.freed, position) {
                if let Event::DescriptorsAllocated { first, count, .. } = *self.event(row.allocated) {
                    ranges.insert(first, count);
                }
            }
        }
        Some((id, DescriptorHeap { kind, capacity, name, ranges }))
    }

    /// Returns the positions at which a descriptor heap exists first and last, and its slots.
    pub(crate) fn descriptor_heap_span(&self, heap: DescriptorHeapIndex) -> (u64, u64, u32) {
        let SpanRow { created, destroyed } = self.descriptor_heaps[heap.0 as usize];
        let capacity = match *self.event(created) {
            Event::DescriptorHeapCreated { capacity, .. } => capacity,
            _ => 0,
        };
        (u64::from(created) + 1, u64::from(destroyed).min(self.end()), capacity)
    }

    /// Returns each allocation and each free of descriptors of a heap, in the order of the events.
    pub(crate) fn descriptor_changes(&self, heap: DescriptorHeapIndex) -> Vec<DescriptorChange> {
        let mut changes = Vec::new();
        for &range in self.ranges_of_heap.of(heap.0) {
            let row = self.descriptor_ranges[range as usize];
            if let Event::DescriptorsAllocated { first, count, .. } = *self.event(row.allocated) {
                let event = u64::from(row.allocated);
                changes.push(DescriptorChange { event, first, count, allocated: true });
                // One that ends as another begins at its first slot is replaced, which is one change.
                let freed =
                    row.freed != NONE && matches!(self.event(row.freed), Event::DescriptorsFreed { .. });
                if freed {
                    let event = u64::from(row.freed);
                    changes.push(DescriptorChange { event, first, count, allocated: false });
                }
            }
        }
        changes.sort_unstable_by_key(|change| change.event);
        changes
    }

    /// Returns a state at a position without its blocks and allocations.
    pub(crate) fn state_of_others(&self, position: u32) -> State {
        let mut state = State { now: self.moment(u64::from(position)), ..State::default() };
        for (row, pool) in self.pools.iter().zip(self.pools()) {
            if exists(row.created, row.destroyed, position) {
                state.pools.extend(self.pool_at(pool, position));
            }
        }
        for &heap in self.budgets.keys() {
            state.budgets.extend(self.budget_at(heap, u64::from(position)).map(|budget| (heap, budget)));
        }
        for (&queue, (submitted, completed)) in &self.queues {
            let last = |events| match last_before(events, position).map(|event| self.event(event)) {
                Some(&(Event::Submitted { value, .. } | Event::Completed { value, .. })) => Some(value),
                _ => None,
            };
            let values = (last(submitted), last(completed));
            if values != (None, None) {
                state.queues.insert(queue, (values.0.unwrap_or(0), values.1.unwrap_or(0)));
            }
        }
        for (row, index) in self.rings.iter().zip(0..) {
            if !exists(row.created, row.destroyed, position) {
                continue;
            }
            if let Event::RingCreated { ring, kind, capacity, name } = *self.event(row.created) {
                let last = last_before(self.ring_used.of(index), position).map(|event| self.event(event));
                let used = if let Some(&Event::RingUsed { used, .. }) = last { used } else { 0 };
                state.rings.insert(ring, Ring { kind, capacity, name, used });
            }
        }
        for (&queue, events) in &self.deletion_queues {
            let last = before(events, position).checked_sub(1).map(|index| self.event(events[index]));
            if let Some(&Event::DeletionQueue { kind, waiting, .. }) = last {
                state.deletion_queues.insert(queue, DeletionQueue { kind, waiting });
            }
        }
        for heap in self.descriptor_heaps() {
            state.descriptor_heaps.extend(self.descriptor_heap_at(heap, u64::from(position)));
        }
        self.add_bound(&mut state, position);
        state
    }
}
