//! The events of a pool. Each is written under the pool's lock, at the change; without a reader it costs a branch.
//!
//! A reader that begins to read hears of what there is, piece by piece. Meanwhile changes go on:
//!
//! ```text
//!   records   0 ─ heard ─ 511 │ 512 ─ not yet ────────── end
//!                             │        ▲ but for those that were allocated since, or exchanged their range
//! ```
//!
//! Of an allocation that the reader has not heard of it hears no change: it is announced later as it is then, or not at all.
//! One that is about to exchange its range with another is announced before.
//!
//! A block's id has its pool, its block set and its index there; an allocation's key has its pool and its record. Both
//! are unique among what exists, and used again.

use std::collections::HashSet;

use allotment_suballoc::Alignment;

use super::{Label, PoolSlot, PoolState, RoundedRequest, Rules};
use crate::device::{Device, MemoryTypeIndex, MemoryTypeMask, OwnedMemory, Priority};
use crate::events::{
    Allocated, AllocationKey, Announcement, BlockId, BlockKind, Event, EventLane, EventLog, EventSource,
    Placement, PoolId, RefusedRequest, RequestedOptions, TextId,
};
use crate::memory::block_set::Role;
use crate::memory::mover::MoverId;
use crate::memory::pool::residents::own_shard;
use crate::memory::pool::served::Served;
use crate::memory::request::AllocationRequest;
use crate::memory::{BudgetPolicy, MemoryUsage, Movability, Name};

/// The bits of a block's id that are its index in its block set, and its block set in the pool.
const INDEX_BITS: u32 = 27;
const SET_BITS: u32 = 5;

/// Where a pool writes its events.
#[derive(Debug)]
pub(crate) struct PoolEvents {
    source: EventSource,
    /// The index of the pool's slot. Written when the pool gets it, before any event.
    pool: u32,
    /// The allocations that the reader has yet to hear of; `None` once it has heard of all.
    unheard: Option<Box<Unheard>>,
}

/// The allocations of a pool that are not announced yet.
#[derive(Debug)]
struct Unheard {
    /// Those from this record on,
    from: u32,
    /// but for these.
    but: HashSet<u32>,
}

impl PoolEvents {
    pub(super) fn new(log: &EventLog) -> Self {
        Self { source: EventSource::new(log), pool: 0, unheard: None }
    }

    /// Returns true if the pool announces its changes to a reader.
    pub(super) fn is_read(&self) -> bool {
        self.source.is_read()
    }

    fn block(&self, set: usize, block: u32) -> BlockId {
        Self::block_of(self.pool, set, block)
    }

    fn block_of(pool: u32, set: usize, block: u32) -> BlockId {
        debug_assert!(set < 1 << SET_BITS && block < 1 << INDEX_BITS, "no driver has so many memory objects");
        BlockId(u64::from(pool) << 32 | (set as u64) << INDEX_BITS | u64::from(block))
    }

    /// Returns the key of an allocation.
    pub(super) fn allocation(&self, record: u32) -> AllocationKey {
        AllocationKey(u64::from(self.pool) << 32 | u64::from(record))
    }

    /// Writes an event about an allocation.
    #[inline]
    pub(super) fn of_allocation(&mut self, record: u32, event: impl FnOnce(AllocationKey) -> Event) {
        if self.source.is_read() && self.is_heard(record) {
            let allocation = self.allocation(record);
            self.source.emit(|_| event(allocation));
        }
    }

    /// Returns true if the reader has heard of the allocation with a record.
    fn is_heard(&self, record: u32) -> bool {
        self.unheard.as_ref().is_none_or(|unheard| record < unheard.from || unheard.but.contains(&record))
    }

    /// Notes that the reader hears of an allocation, which is announced no more.
    fn note_heard(&mut self, record: u32) {
        if let Some(unheard) = self.unheard.as_mut().filter(|unheard| record >= unheard.from) {
            unheard.but.insert(record);
        }
    }

    /// Notes that an allocation is gone, whose record another one may get.
    fn note_gone(&mut self, record: u32) {
        self.unheard.iter_mut().for_each(|unheard| _ = unheard.but.remove(&record));
    }
}

/// Returns what a block of a role is for.
fn kind_of(role: Role) -> BlockKind {
    match role {
        Role::Shared => BlockKind::Shared,
        Role::Dedicated => BlockKind::Dedicated,
        Role::DedicatedToAllocation => BlockKind::DedicatedToResource,
    }
}

impl<D: Device> PoolState<D> {
    /// Notes the slot that the pool is in from now on.
    pub(super) fn enter_slot(&mut self, index: u32) {
        self.events.pool = index;
    }

    /// Returns the slot that the pool is in.
    pub(super) fn slot_index(&self) -> u32 {
        self.events.pool
    }

    /// Returns true if the reader has heard of the pool in an epoch.
    pub(super) fn is_announced_in(&self, epoch: u64) -> bool {
        self.events.source.is_announced_in(epoch)
    }

    /// Announces a pool that is in a slot from now on, or whose reader has just begun to read, with its blocks, if there
    /// is a reader that has not heard of it in this epoch. Then [`announce_some`](Self::announce_some) is due, until it returns
    /// false.
    pub(super) fn announce(&mut self, place: PoolPlace, name: &Name, epoch: u64) -> Option<Announcement> {
        let PoolPlace { index: pool, first, custom, .. } = place;
        if self.is_announced_in(epoch) {
            return None;
        }
        let announcement = self.events.source.announce_in(epoch)?;
        self.events.unheard =
            (self.records() != 0).then(|| Box::new(Unheard { from: 0, but: HashSet::new() }));
        let algorithm = self.rules.algorithm;
        announcement.emit(|texts| Event::PoolCreated {
            pool: PoolId(pool),
            name: texts.add_text(Some(name)),
            algorithm: Some(algorithm),
            custom,
        });
        let types = self.sets.iter().fold(0, |types, set| types | 1_u32 << set.memory_type.0);
        announcement.emit(|_| Event::PoolServes {
            pool: PoolId(pool),
            first: PoolId(first),
            shard: self.shard,
            memory_types: MemoryTypeMask(types),
            first_type: self.sets.first().map_or(MemoryTypeIndex(0), |set| set.memory_type),
            lifetime: place.served.lifetime,
            optimal_images: place.served.optimal,
            movers: place.served.movers,
        });
        if custom {
            self.announce_rules(&announcement, PoolId(pool), place.granularity);
        }
        for (set, blocks) in self.sets.iter().enumerate() {
            for (index, block) in blocks.blocks() {
                let (kind, size) = (kind_of(block.role), block.memory.size());
                announcement.emit(|_| Event::BlockAllocated {
                    block: self.events.block(set, index),
                    pool: PoolId(pool),
                    memory_type: blocks.memory_type,
                    kind,
                    size,
                });
            }
        }
        Some(announcement)
    }

    /// Announces the allocations of some more records. Returns false when all are announced, or the announcement is over. Those
    /// of a pool's shards follow the blocks of all of them: an allocation may be in a block of another shard.
    pub(super) fn announce_some(
        &mut self,
        slot: &PoolSlot<D>,
        announcement: &Announcement,
        count: u32,
    ) -> bool {
        // Where events were lost, the whole state is announced once more, perhaps by another thread.
        if !self.is_announced_in(announcement.epoch()) {
            return false;
        }
        let Some(mut unheard) = self.events.unheard.take() else { return false };
        let bound = self.records();
        let end = unheard.from.saturating_add(count).min(bound);
        for record in (unheard.from..end).filter(|record| !unheard.but.remove(record)) {
            self.describe(slot, record, |event| announcement.emit(event));
        }
        unheard.from = end;
        self.events.unheard = (end < bound).then_some(unheard);
        end < bound
    }

    /// Announces an allocation that is about to exchange its range, if the reader has not heard of it.
    pub(super) fn announce_before_exchange(&mut self, slot: &PoolSlot<D>, record: u32) {
        if self.events.source.is_read() && !self.events.is_heard(record) {
            self.events.note_heard(record);
            // Taken out, since the description borrows the rest.
            let announcement = self.events.source.announcement();
            self.describe(slot, record, |event| announcement.emit(event));
        }
    }

    /// Passes the events of a live allocation as it is now to `emit`.
    fn describe(
        &self,
        slot: &PoolSlot<D>,
        record: u32,
        mut emit: impl FnMut(&mut dyn FnMut(&mut EventLane) -> Event),
    ) {
        let Some(allocated) = self.allocated_event(slot, record, None, Placement::Existing, false) else {
            return;
        };
        let label = self.label(record);
        emit(&mut |texts| Event::Allocated(with_label(allocated, label, texts)));
        let allocation = allocated.allocation;
        if let Some(site) = &label.call_site {
            emit(&mut |texts| Event::CallSite { allocation, site: texts.add_call_site(site) });
            if site.backtrace().is_some() {
                emit(&mut |batch| Event::Stack { allocation, stack: batch.add_stack(site) });
            }
        }
        let Some(entry) = slot.records.get(record) else { return };
        if entry.is_released() {
            emit(&mut |_| Event::FreeRequested { allocation });
        }
        if entry.maps() != 0 {
            emit(&mut |_| Event::Mapped { allocation, count: entry.maps() });
        }
    }

    /// Announces the rules of one of the program's own pools; those of the default pools are the allocator's.
    fn announce_rules(&self, announcement: &Announcement, pool: PoolId, granularity: Alignment) {
        let Rules { sizing, max_blocks, alignment, empty_blocks, budget, .. } = self.rules;
        let min_blocks = self.rules.min_blocks.iter().sum();
        announcement.emit(|_| Event::PoolSized { pool, sizing, min_blocks, max_blocks });
        let ignores_granularity = self.rules.granularity != granularity;
        announcement.emit(|_| Event::PoolRules {
            pool,
            empty_blocks,
            alignment,
            budget,
            ignores_granularity,
            separate_movable: self.rules.separate_movable,
        });
    }

    /// Describes an allocation, without its texts.
    // Else the description is stored and loaded field by field, which takes as long as to pack it.
    #[inline(always)]
    fn allocated_event(
        &self,
        slot: &PoolSlot<D>,
        record: u32,
        usage: Option<MemoryUsage>,
        placement: Placement,
        second_choice: bool,
    ) -> Option<Allocated> {
        let detail = self.detail(record)?;
        // Only the holder of the lock writes a record, so this is the location that belongs to the detail.
        let entry = slot.records.get(record)?;
        let (offset, requested) = (entry.offset(), entry.size());
        let (range, set) = (detail.range(), usize::from(detail.set));
        // Only dedicated memory is asked for its size, which is a search for the memory object.
        let memory_size = if range.dedicated { entry.read(&slot.objects).memory_size } else { 0 };
        Some(Allocated {
            allocation: self.events.allocation(record),
            block: PoolEvents::block_of(self.shards.index(range.home), set, range.block),
            offset,
            requested,
            occupied: self.sets[set].bytes_taken(&range, detail.occupied, memory_size),
            user_data: 0,
            name: TextId::NONE,
            category: TextId::NONE,
            alignment: detail.alignment(),
            usage,
            kind: detail.kind(),
            placement,
            second_choice,
            movable: detail.movability() != Movability::Pinned,
        })
    }

    /// Writes that a request was placed.
    #[inline]
    pub(super) fn emit_allocated(
        &mut self,
        slot: &PoolSlot<D>,
        record: u32,
        request: &AllocationRequest<'_>,
        placement: Placement,
    ) {
        if self.events.source.is_read() {
            self.write_allocated(slot, record, request, placement);
        }
    }

    #[inline(never)]
    fn write_allocated(
        &mut self,
        slot: &PoolSlot<D>,
        record: u32,
        request: &AllocationRequest<'_>,
        placement: Placement,
    ) {
        self.events.note_heard(record);
        let usage = Some(request.options.usage);
        let second_choice = request.second_choice;
        let Some(mut allocated) = self.allocated_event(slot, record, usage, placement, second_choice) else {
            return;
        };
        let options = request.options;
        allocated.user_data = options.user_data;
        let mut asked = asked(request);
        // Which blocks serve it does not depend on that; what is freed for a new one does.
        asked.last_heap &= allocated_memory(placement);
        // Whichever path found it.
        asked.skips_quick_lists &= placement != Placement::ReusedRange;
        if allocated_memory(placement) {
            // No other shard had room: a replay must not see first what others freed later.
            self.events.source.next_is_turn();
        }
        self.events.source.emit_by(|batch| {
            allocated.name = batch.add_text(options.name.as_ref());
            allocated.category = batch.add_static(options.category);
            batch.push_allocated(&allocated);
            // Next to it, where a replay looks for it.
            if asked != RequestedOptions::default() {
                batch.push(Event::Requested { allocation: allocated.allocation, options: asked });
            }
        });
    }

    /// Writes an event about the pool.
    #[inline]
    pub(super) fn emit_of_pool(&mut self, event: impl FnOnce(PoolId) -> Event) {
        let pool = PoolId(self.events.pool);
        self.events.source.emit(|_| event(pool));
    }

    /// Writes that the program reserves room.
    pub(super) fn emit_room_reserved(&mut self, set: usize, requested: u64, bytes: u64) {
        let memory_type: MemoryTypeIndex = self.sets[set].memory_type;
        self.emit_of_pool(|pool| Event::RoomReserved { pool, memory_type, requested, bytes });
    }

    /// Writes that the label of an allocation changed.
    pub(super) fn emit_label(&mut self, record: u32) {
        if self.events.source.is_read() && self.events.is_heard(record) {
            let allocation = self.events.allocation(record);
            let label = Self::label_of(&self.labels, record);
            self.events.source.emit(|texts| Event::Labelled {
                allocation,
                name: texts.add_text(label.name.as_ref()),
                category: texts.add_static(label.category),
                user_data: label.user_data,
            });
        }
    }

    /// Writes where the program made an allocation.
    pub(super) fn emit_call_site(&mut self, record: u32) {
        if self.events.source.is_read() && self.events.is_heard(record) {
            let allocation = self.events.allocation(record);
            if let Some(site) = &Self::label_of(&self.labels, record).call_site {
                self.events
                    .source
                    .emit(|texts| Event::CallSite { allocation, site: texts.add_call_site(site) });
                if site.backtrace().is_some() {
                    let source = &mut self.events.source;
                    source.emit(|batch| Event::Stack { allocation, stack: batch.add_stack(site) });
                }
            }
        }
    }

    /// Writes that an allocation was freed.
    #[inline]
    pub(super) fn emit_freed(&mut self, record: u32) {
        if self.events.source.is_read() {
            self.write_freed(record);
        }
    }

    /// Writes that an allocation was freed whose range is in a block of another shard, or may be: what is allocated there comes
    /// after it.
    pub(super) fn emit_freed_elsewhere(&mut self, record: u32) {
        self.events.source.next_is_turn();
        self.emit_freed(record);
    }

    #[inline(never)]
    fn write_freed(&mut self, record: u32) {
        let events = &mut self.events;
        if events.is_heard(record) {
            let allocation = events.allocation(record);
            events.source.emit_by(|batch| batch.push_freed(allocation));
        }
        events.note_gone(record);
    }

    /// Writes that two allocations exchanged their ranges.
    pub(super) fn emit_exchanged(&mut self, record: u32, reservation: AllocationKey) {
        self.events.of_allocation(record, |allocation| Event::Exchanged { allocation, reservation });
    }

    /// Writes that an allocation is the destination of a move.
    pub(super) fn emit_reserved(&mut self, reservation: AllocationKey, record: u32) {
        self.events.of_allocation(record, |allocation| Event::Reserved { reservation, allocation });
    }

    /// Adds a memory object to a block set. Returns its index.
    pub(super) fn add_block(&mut self, set: usize, memory: OwnedMemory<D>, role: Role) -> u32 {
        self.wake();
        let (size, memory_type) = (memory.size(), self.sets[set].memory_type);
        let index = self.sets[set].add(memory, role, self.clock.now);
        let (block, pool) = (self.events.block(set, index), PoolId(self.events.pool));
        let kind = kind_of(role);
        self.events.source.emit(|_| Event::BlockAllocated { block, pool, memory_type, kind, size });
        index
    }

    /// Removes an empty block and returns its memory; see [`BlockSet::remove`](super::BlockSet::remove).
    pub(super) fn remove_block(&mut self, set: usize, index: u32) -> Option<OwnedMemory<D>> {
        let memory = self.sets[set].remove(index)?;
        let block = self.events.block(set, index);
        self.events.source.emit(|_| Event::BlockFreed { block });
        Some(memory)
    }

    /// Removes empty blocks and returns their memory.
    pub(super) fn remove_blocks(&mut self, set: usize, blocks: &[u32]) -> Vec<OwnedMemory<D>> {
        let removed = self.sets[set].remove_all(blocks);
        let removed = removed.into_iter().map(|(index, memory)| {
            let block = self.events.block(set, index);
            self.events.source.emit(|_| Event::BlockFreed { block });
            memory
        });
        removed.collect()
    }

    /// Turns a cached dedicated block into a shared one; see [`BlockSet::share_spare`]. Returns false if there is none.
    pub(super) fn share_spare(
        &mut self,
        set: usize,
        rounded: &RoundedRequest,
        priority: Option<Priority>,
    ) -> bool {
        let RoundedRequest { ref request, largest_spare, usable, .. } = *rounded;
        let shared = self.sets[set].share_spare(request, largest_spare, priority, usable);
        let Some(index) = shared else { return false };
        let block = self.events.block(set, index);
        self.events.source.emit(|_| Event::BlockShared { block });
        true
    }

    /// Writes that the pool is destroyed, with the blocks that are left.
    pub(super) fn emit_destroyed(&mut self) {
        let Self { events, sets, .. } = self;
        if !events.source.is_read() {
            return;
        }
        for (set, blocks) in sets.iter().enumerate() {
            for (index, _) in blocks.blocks() {
                let block = events.block(set, index);
                events.source.emit(|_| Event::BlockFreed { block });
            }
        }
        let pool = PoolId(events.pool);
        events.source.emit(|_| Event::PoolDestroyed { pool });
    }
}

/// Where a pool is among those of its allocator.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolPlace {
    /// The index of its slot.
    pub(super) index: u32,
    /// That of its shard 0.
    pub(super) first: u32,
    pub(super) custom: bool,
    /// Of a default pool.
    pub(super) served: Served,
    /// The device's, which the rules of a pool may leave aside.
    pub(super) granularity: Alignment,
}

/// Returns what a request asked for.
fn asked(request: &AllocationRequest<'_>) -> RequestedOptions {
    let options = request.options;
    RequestedOptions {
        dedicated: options.dedicated,
        need: request.requirements.dedicated,
        new_blocks: options.new_blocks,
        budget: request.budget,
        strategy: options.strategy,
        side: options.side,
        // The quick path looks in the quick lists of the best memory type only.
        skips_quick_lists: request.without_quick_lists
            || request.second_choice
            || !(options.required | options.preferred | options.avoided).is_empty(),
        with_resource: request.with_resource,
        // Not only its type depends on them: also whether the memory is mapped, and mapped blocks are searched first.
        required: options.required,
        preferred: options.preferred,
        avoided: options.avoided,
        last_heap: options.usage.has_other_heaps() && options.budget == BudgetPolicy::AllowOverBudget,
    }
}

/// Returns true where an allocation is in a memory object that was allocated for it.
fn allocated_memory(placement: Placement) -> bool {
    matches!(placement, Placement::NewBlock | Placement::DedicatedBlock | Placement::DedicatedToResource)
}

/// Returns what a refused request asked for.
pub(crate) fn refused_request(request: &AllocationRequest<'_>) -> RefusedRequest {
    let (requirements, options) = (&request.requirements, request.options);
    RefusedRequest {
        size: requirements.size,
        alignment: requirements.alignment,
        kind: requirements.kind,
        memory_types: requirements.memory_types,
        usage: options.usage,
        lifetime: options.lifetime,
        movers: MoverId::group(request.moves.mover),
        pool: options.pool.as_ref().map(|pool| PoolId(pool.shards().first)),
        shard: own_shard(),
        options: asked(request),
    }
}

fn with_label(mut allocated: Allocated, label: &Label, texts: &mut EventLane) -> Allocated {
    allocated.name = texts.add_text(label.name.as_ref());
    allocated.category = texts.add_static(label.category);
    allocated.user_data = label.user_data;
    allocated
}
