//! A state as events that lead to it.

use super::state::{Bound, Live, Moment, State};
use super::{AllocationKey, BlockId, Event, RequestedOptions, TextId};
use allotment::device::{MemoryHeapIndex, QueueIndex};

/// A step towards a state: an event, or what no single event says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Event(Event),
    /// The block became empty, and not when it was allocated.
    EmptySince(BlockId),
}

impl State {
    /// Calls `visit` with each step from an empty state to this one, and with the moment that belongs to it. The moments
    /// are in no order.
    pub(crate) fn for_each_step(&self, mut visit: impl FnMut(Moment, Step)) {
        self.pools(|event| visit(self.now, Step::Event(event)));
        let mut blocks: Vec<_> = self.blocks.iter().collect();
        // In the order in which they were made, so that moments are small differences.
        blocks.sort_unstable_by_key(|(id, block)| (block.allocated, **id));
        for (&id, block) in blocks {
            visit(block.allocated, Step::Event(self.block_event(id)));
            if let Some(since) = block.empty_since.filter(|&since| since != block.allocated) {
                visit(since, Step::EmptySince(id));
            }
        }
        let mut allocations: Vec<_> = self.allocations.values().collect();
        allocations.sort_unstable_by_key(|live| (live.allocated, live.is.allocation));
        for live in allocations {
            let allocation = live.is.allocation;
            allocation_events(live, |event| visit(live.allocated, Step::Event(event)));
            if let Some(since) = live.free_requested {
                visit(since, Step::Event(Event::FreeRequested { allocation }));
            }
        }
        let mut resources: Vec<_> = self.bound.values().collect();
        resources.sort_unstable_by_key(|bound| (bound.bound, bound.is.resource));
        for Bound { is, bound } in resources {
            visit(*bound, Step::Event(Event::Bound(*is)));
        }
        self.others(|event| visit(self.now, Step::Event(event)));
    }

    /// Takes a step. The caller sets the moment of the whole state in the end.
    pub(crate) fn take_step(&mut self, moment: Moment, step: Step) -> Result<(), &'static str> {
        self.now = moment;
        match step {
            Step::Event(Event::Allocated(is)) => {
                if self.allocations.contains_key(&is.allocation) {
                    return Err("a snapshot has an allocation twice");
                }
                return self.insert(is, moment);
            }
            Step::Event(event) => return self.apply(&event).map_err(|inconsistent| inconsistent.reason),
            Step::EmptySince(block) => {
                let block =
                    self.blocks.get_mut(&block).ok_or("a snapshot empties a block that does not exist")?;
                block.empty_since = Some(moment);
            }
        }
        Ok(())
    }

    /// Returns events that lead from an empty state to this one, with ends of frames and times between: what still
    /// exists, from the oldest on.
    ///
    /// Applied, they give an equal state, but for what events cannot say: a [`Moment`]'s count of events is that of these
    /// events; an empty block is allocated at the moment since which it has been empty, and a block that got older
    /// allocations by moves is allocated with the oldest of them.
    ///
    /// Cost: O(n log n) in what exists.
    #[must_use]
    pub fn to_events(&self) -> Vec<Event> {
        self.to_events_after(Moment::default())
    }

    /// Returns events that lead to this state after a moment, at which there was nothing: what is older than the moment
    /// is allocated at it.
    pub(crate) fn to_events_after(&self, after: Moment) -> Vec<Event> {
        let mut events = Vec::new();
        self.pools(|event| events.push(event));

        // What happened when; of one moment, blocks before what is in them.
        let mut order = Vec::with_capacity(self.blocks.len() + self.allocations.len());
        for (&id, block) in &self.blocks {
            let oldest = block.allocations.iter().filter_map(|(_, key)| self.allocations.get(key));
            let oldest = oldest.map(|live| live.allocated).min();
            let began =
                block.empty_since.or(oldest).map_or(block.allocated, |moment| match block.empty_since {
                    Some(_) => moment,
                    None => moment.min(block.allocated),
                });
            order.push((began, 0, id.0));
        }
        for (key, live) in &self.allocations {
            order.push((live.allocated, 1, key.0));
            order.extend(live.free_requested.map(|since| (since, 2, key.0)));
        }
        order.extend(self.bound.iter().map(|(key, bound)| (bound.bound, 3, key.0)));
        order.sort_unstable();

        let mut clock =
            Clock { frame: after.frame, nanoseconds: after.nanoseconds, least: after.nanoseconds };
        for (moment, what, id) in order {
            clock.advance(moment, &mut events);
            match what {
                0 => events.push(self.block_event(BlockId(id))),
                1 => {
                    if let Some(live) = self.allocations.get(&AllocationKey(id)) {
                        allocation_events(live, |event| events.push(event));
                    }
                }
                2 => events.push(Event::FreeRequested { allocation: AllocationKey(id) }),
                _ => {
                    let bound = self.bound.get(&AllocationKey(id));
                    events.extend(bound.map(|bound| Event::Bound(bound.is)));
                }
            }
        }
        clock.advance(self.now, &mut events);
        self.others(|event| events.push(event));
        events
    }

    fn pools(&self, mut visit: impl FnMut(Event)) {
        for (&pool, of) in &self.pools {
            visit(Event::PoolCreated { pool, name: of.name, algorithm: of.algorithm, custom: of.custom });
            of.description.iter().for_each(|event| visit(*event));
        }
    }

    /// Returns the event of a block that exists.
    fn block_event(&self, block: BlockId) -> Event {
        let of = &self.blocks[&block];
        Event::BlockAllocated {
            block,
            pool: of.pool,
            memory_type: of.memory_type,
            kind: of.kind,
            size: of.size,
        }
    }

    fn others(&self, mut visit: impl FnMut(Event)) {
        for (&heap, of) in &self.budgets {
            visit(Event::Budget { heap: MemoryHeapIndex(heap), usage: of.usage, budget: of.budget });
        }
        for (&heap, of) in &self.descriptor_heaps {
            let (kind, capacity, name) = (of.kind, of.capacity, of.name);
            visit(Event::DescriptorHeapCreated { heap, kind, capacity, name });
            for (&first, &count) in &of.ranges {
                visit(Event::DescriptorsAllocated { heap, first, count });
            }
        }
        for (&ring, of) in &self.rings {
            visit(Event::RingCreated { ring, kind: of.kind, capacity: of.capacity, name: of.name });
            visit(Event::RingUsed { ring, used: of.used });
        }
        for (&queue, of) in &self.deletion_queues {
            visit(Event::DeletionQueue { queue, kind: of.kind, waiting: of.waiting });
        }
        for (&queue, &(submitted, completed)) in &self.queues {
            visit(Event::Submitted { queue: QueueIndex(queue), value: submitted });
            visit(Event::Completed { queue: QueueIndex(queue), value: completed });
        }
    }
}

fn allocation_events(live: &Live, mut visit: impl FnMut(Event)) {
    let allocation = live.is.allocation;
    visit(Event::Allocated(live.is));
    if live.options != RequestedOptions::default() {
        visit(Event::Requested { allocation, options: live.options });
    }
    if live.call_site != TextId::NONE {
        visit(Event::CallSite { allocation, site: live.call_site });
    }
    if !live.stack.is_none() {
        visit(Event::Stack { allocation, stack: live.stack });
    }
    if live.maps != 0 {
        visit(Event::Mapped { allocation, count: live.maps });
    }
    if live.reservation {
        // A move there ends before a reader could ask for it.
        visit(Event::Reserved { reservation: allocation, allocation });
    }
}

/// Turns moments into events.
#[derive(Debug)]
struct Clock {
    frame: u64,
    nanoseconds: u64,
    /// Before it there is no time.
    least: u64,
}

impl Clock {
    fn advance(&mut self, to: Moment, events: &mut Vec<Event>) {
        if to.frame > self.frame {
            self.frame = to.frame;
            events.push(Event::FrameEnd { number: to.frame - 1 });
        }
        let nanoseconds = to.nanoseconds.max(self.least);
        if nanoseconds != self.nanoseconds {
            self.nanoseconds = nanoseconds;
            events.push(Event::Time { nanoseconds });
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
mod tests {
    use allotment::device::{MemoryTypeIndex, ResourceKind};

    use super::*;
    use crate::recording::{Allocated, BlockKind, Placement, PoolId};

    #[test]
    fn a_snapshot_with_an_allocation_beyond_its_block_is_refused() {
        let (pool, block) = (PoolId(0), BlockId(0));
        let mut state = State::default();
        let (kind, memory_type, size) = (BlockKind::Shared, MemoryTypeIndex(0), 4096);
        state.apply(&Event::BlockAllocated { block, pool, memory_type, kind, size }).unwrap();
        // The second ends beyond all numbers: a block that shrinks adds the two.
        for offset in [4095, u64::MAX - 1] {
            let beyond = Event::Allocated(Allocated {
                allocation: AllocationKey(0),
                block,
                offset,
                requested: 2,
                occupied: 2,
                user_data: 0,
                name: TextId::NONE,
                category: TextId::NONE,
                alignment: allotment::Alignment::ONE,
                usage: None,
                kind: ResourceKind::Buffer,
                placement: Placement::Existing,
                second_choice: false,
                movable: false,
            });
            assert!(state.take_step(Moment::default(), Step::Event(beyond)).is_err(), "{offset}");
        }
    }
}
