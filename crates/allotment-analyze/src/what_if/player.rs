//! Makes the requests, event by event.

use core::time::Duration;
use std::collections::{HashMap, HashSet};

use allotment::device::simulated::SimulatedGpu;
use allotment::device::{MemoryDevice as _, MemoryProperties, MemoryTypeIndex, MemoryTypeMask};
use allotment::events::{EventBatch, EventSubscription, RefusedRequest, RequestedOptions, SubscriptionDesc};
use allotment::memory::blocks::{ManualTime, TimeSource, allocate_as_thread};
use allotment::memory::reports::{CallSites, LeakHandler};
use allotment::memory::{AllocatorDesc, BudgetPolicy, CreateAllocatorError, Movability};
use allotment::{Allocation, AllocationError, AllocationOptions, Allocator, Requirements, ResourceKind};
use allotment_trace::allocator_settings;
use allotment_trace::recording::{Allocated, AllocationKey, BlockId, Event, Placement, PoolId, Recording};

use super::WhatIf;
use super::device::{device_of, usage_for};
use super::pools::Pools;
use super::story::{BlockBytesByHeap, Story, event_of, user_data_of};

/// Events after an allocation among which its resource is bound and becomes movable: those of its own, and of a few
/// other threads.
const SOON: usize = 16;

/// The calling thread, in the shards of others. Dropped, it is in its own again.
#[derive(Debug)]
struct InShards {
    own: u32,
}

impl Drop for InShards {
    fn drop(&mut self) {
        allocate_as_thread(self.own);
    }
}

/// Makes the requests of a recording.
#[derive(Debug)]
pub(super) struct Player<'a> {
    original: &'a Recording,
    allocator: Allocator<SimulatedGpu>,
    events: EventSubscription,
    batch: EventBatch,
    time: ManualTime,
    pools: Pools,
    /// The memory type and the pool of each block of the original.
    blocks: HashMap<BlockId, (MemoryTypeIndex, PoolId)>,
    bytes: BlockBytesByHeap,
    live: HashMap<AllocationKey, Allocation>,
    /// Destinations of moves, which are not requests.
    reservations: HashSet<AllocationKey>,
    /// Which block here stands for one of the original, and the other way round.
    same_block: HashMap<BlockId, BlockId>,
    original_of: HashMap<BlockId, BlockId>,
    /// The end of a frame of the original that is being played.
    frame: Option<Event>,
    story: Story<'a>,
    done: WhatIf,
    _shards: InShards,
}

impl<'a> Player<'a> {
    pub(super) fn new(
        original: &'a Recording,
        settings: &AllocatorDesc,
    ) -> Result<Self, CreateAllocatorError> {
        let time = ManualTime::new();
        let mut desc = settings.clone();
        // Real time would not be that of the recording; and what its program leaked is not this allocator's concern.
        (desc.time, desc.on_leak) = (TimeSource::Manual(time.clone()), LeakHandler::Ignore);
        desc.call_sites = CallSites::None;
        let allocator = Allocator::new(device_of(original), desc)?;
        let mut unlimited = SubscriptionDesc::default();
        // They are read after each event of the original.
        unlimited.max_waiting_events = usize::MAX;
        let events = allocator.subscribe(&unlimited);
        Ok(Self {
            original,
            events: events.unwrap_or_else(|_| unreachable!("a new allocator has no reader")),
            allocator,
            batch: EventBatch::new(),
            time,
            pools: Pools::default(),
            blocks: HashMap::new(),
            bytes: BlockBytesByHeap::default(),
            live: HashMap::new(),
            reservations: HashSet::new(),
            same_block: HashMap::new(),
            original_of: HashMap::new(),
            frame: None,
            story: Story::new(original),
            done: WhatIf::default(),
            _shards: InShards { own: allocate_as_thread(0) },
        })
    }

    pub(super) fn play(&mut self) {
        for (number, event) in self.original.events.iter().enumerate() {
            self.bytes.apply(event, &self.original.header.memory_types);
            self.pools.apply(&self.allocator, event);
            self.event(number, event);
            self.read();
        }
    }

    pub(super) fn finish(self) -> WhatIf {
        let settings = allocator_settings(self.allocator.desc());
        WhatIf { recording: self.story.into_recording(settings), ..self.done }
    }

    fn event(&mut self, number: usize, event: &Event) {
        match *event {
            Event::Allocated(ref is) if is.placement == Placement::Destination => {
                self.reservations.insert(is.allocation);
            }
            Event::Allocated(ref is) => self.allocate(number, is),
            Event::Freed { allocation } => self.free(allocation),
            Event::Exchanged { .. } => self.done.moves_left_out += 1,
            Event::Reserved { reservation, .. } => {
                self.reservations.insert(reservation);
            }
            Event::BlockAllocated { block, pool, memory_type, .. } => {
                self.blocks.insert(block, (memory_type, pool));
            }
            Event::BlockFreed { block } => {
                self.blocks.remove(&block);
                if let Some(stand_in) = self.same_block.remove(&block) {
                    self.original_of.remove(&stand_in);
                }
            }
            Event::FrameEnd { .. } => {
                self.frame = Some(*event);
                self.allocator.end_frame();
            }
            Event::Lost => self.lose(),
            Event::TimePassed { sixtieths } => self.pass_time(sixtieths),
            Event::Joined { pool } => self.join(pool),
            Event::Trimmed => {
                self.allocator.trim();
            }
            Event::Maintained => {
                self.allocator.maintain();
            }
            Event::RoomReserved { pool, memory_type, requested, bytes } => {
                let (requirements, options) = self.request_in(pool, memory_type, requested);
                // Blocks that the driver refuses here may have been refused there as well.
                let _ = self.allocator.reserve(&requirements, &options, bytes);
            }
            Event::Budget { heap, usage, budget } => {
                // What other programs use of the heap stays; the blocks are this allocator's.
                let others = usage.saturating_sub(self.bytes.of(heap));
                self.allocator.device().set_budget(heap, budget.saturating_sub(others));
                // As the original did just now.
                self.allocator.refresh_budgets();
                let usage = others.saturating_add(self.story.bytes.of(heap));
                self.story.copy(&Event::Budget { heap, usage, budget });
            }
            Event::RefusedRequest(ref asked) => self.request_again(asked),
            Event::FreeRequested { allocation }
            | Event::CallSite { allocation, .. }
            | Event::Stack { allocation, .. }
            | Event::Mapped { allocation, .. }
            | Event::Movable { allocation, .. }
            | Event::Labelled { allocation, .. } => {
                if let Some(token) = self.live.get(&allocation) {
                    self.story.copy_for(event, token.id().key());
                }
            }
            Event::Time { .. }
            | Event::Mark { .. }
            | Event::Submitted { .. }
            | Event::Completed { .. }
            | Event::DescriptorHeapCreated { .. }
            | Event::DescriptorHeapDestroyed { .. }
            | Event::DescriptorsAllocated { .. }
            | Event::DescriptorsFreed { .. }
            | Event::RingCreated { .. }
            | Event::RingUsed { .. }
            | Event::RingDestroyed { .. }
            | Event::DeletionQueue { .. } => self.story.copy(event),
            // The others say what the allocator of the original did; this one does as it sees fit.
            _ => {}
        }
    }

    /// Reads what the allocator did.
    fn read(&mut self) {
        self.events.read(&mut self.batch);
        for event in self.batch.events() {
            match event {
                // The original has times and budgets, and how long its threads waited says nothing of this run.
                Event::Time { .. } | Event::Budget { .. } | Event::Stalled { .. } => continue,
                // With the number of the original, which may begin in the middle.
                Event::FrameEnd { .. } => {
                    self.story.copy(&self.frame.unwrap_or(*event));
                    continue;
                }
                Event::Allocated(is) => {
                    if let Some(number) = event_of(is.user_data) {
                        if let Some(Event::Allocated(was)) = self.original.events.get(number) {
                            let known = *self.same_block.entry(was.block).or_insert(is.block);
                            let back = *self.original_of.entry(is.block).or_insert(was.block);
                            if (known, back, was.offset) == (is.block, was.block, is.offset) {
                                self.done.at_the_same_place += 1;
                            } else {
                                self.done.first_difference.get_or_insert(number as u64);
                            }
                        }
                    }
                }
                Event::BlockFreed { block } => {
                    if let Some(original) = self.original_of.remove(block) {
                        self.same_block.remove(&original);
                    }
                }
                _ => {}
            }
            self.story.add(event, &self.batch);
        }
    }

    fn allocate(&mut self, number: usize, is: &Allocated) {
        // Of a wrong recording, which is left out by every analysis.
        let Some(&(memory_type, pool)) = self.blocks.get(&is.block) else { return };
        if self.live.contains_key(&is.allocation) {
            return;
        }
        let asked = match self.original.events.get(number + 1) {
            Some(Event::Requested { allocation, options }) if *allocation == is.allocation => *options,
            _ => RequestedOptions::default(),
        };
        let (mut requirements, mut options) = self.request_in(pool, memory_type, is.requested);
        let properties = self.properties(memory_type);
        (requirements.alignment, requirements.kind) = (is.alignment, is.kind);
        options.usage = is.usage.unwrap_or_else(|| usage_for(properties));
        set_options(&mut requirements, &mut options, asked);
        options.user_data = user_data_of(number);
        if self.pools.separates_movable(pool) && (is.movable || self.is_soon_movable(number, is.allocation)) {
            options.movability = Movability::Copied;
        }
        if asked.skips_quick_lists && (options.required | options.preferred).is_empty() {
            // As does every request that names properties; these change nothing else, with one memory type. (Those that are
            // required or preferred decide whether the memory is mapped.)
            options.avoided = MemoryProperties::all().difference(properties);
        }
        self.done.requests += 1;
        if options.usage.has_other_heaps() && !asked.last_heap {
            options.budget = BudgetPolicy::WithinBudget;
        }
        let mut made = self.request(&requirements, &options, asked.with_resource);
        if made.is_err() && options.budget != asked.budget {
            // What another heap would serve there is better served over the budget here than not at all.
            options.budget = asked.budget;
            made = self.request(&requirements, &options, asked.with_resource);
        }
        if matches!(made, Err(AllocationError::NoMemoryType { .. })) {
            // The usage was another tool's, or the program required properties that the usage alone does not use.
            (options.usage, options.required) = (usage_for(properties), properties);
            made = self.request(&requirements, &options, asked.with_resource);
        }
        match made {
            Ok(token) => {
                self.live.insert(is.allocation, token);
            }
            Err(_) => {
                self.done.refused += 1;
                self.done.first_difference.get_or_insert(number as u64);
            }
        }
    }

    /// Makes a request again that was refused. What it gets here is freed at once: the original says nothing of what its
    /// program would have done with it.
    fn request_again(&mut self, asked: &RefusedRequest) {
        allocate_as_thread(asked.shard);
        let mut requirements = Requirements::new(asked.size).with_alignment(asked.alignment);
        (requirements.kind, requirements.memory_types) = (asked.kind, asked.memory_types);
        let mut options = AllocationOptions::new(asked.usage);
        options.lifetime = asked.lifetime;
        options = options.in_mover_group(asked.movers);
        if let Some(pool) = asked.pool {
            // Without its pool the request would be another one.
            let Some(custom) = self.pools.custom(pool) else { return };
            options.pool = Some(custom.clone());
        }
        set_options(&mut requirements, &mut options, asked.options);
        self.done.refused_before += 1;
        if let Ok(token) = self.request(&requirements, &options, asked.options.with_resource) {
            self.done.served_now += 1;
            // It is this allocator's.
            let _ = self.allocator.free(token);
        }
    }

    fn request(
        &self,
        requirements: &Requirements,
        options: &AllocationOptions,
        with_resource: bool,
    ) -> Result<Allocation, AllocationError> {
        if with_resource {
            // Such memory has exactly the bytes of its resource, and is never reused.
            self.allocator.with_memory_options(&()).allocate(requirements, options)
        } else {
            self.allocator.allocate(requirements, options)
        }
    }

    fn free(&mut self, allocation: AllocationKey) {
        // What was a destination of a move was never allocated here.
        self.reservations.remove(&allocation);
        if let Some(token) = self.live.remove(&allocation) {
            // It is this allocator's. After a reset of its pool it is freed already.
            let _ = self.allocator.free(token);
        }
    }

    /// Frees everything: nothing is known of it any more, and what still exists follows.
    fn lose(&mut self) {
        let mut live: Vec<_> = self.live.drain().collect();
        live.sort_unstable_by_key(|(allocation, _)| *allocation);
        for (_, token) in live {
            let _ = self.allocator.free(token);
        }
        self.blocks.clear();
        self.reservations.clear();
        self.pools.clear(&self.allocator);
    }

    /// Joins the freed ranges of a pool that wait for reuse, as a look at its blocks does: a preview that fits joins
    /// those of one pool.
    fn join(&mut self, pool: PoolId) {
        // The ranges are in blocks of the pool, so it has some; of which of its types does not matter.
        if let Some(&(memory_type, _)) = self.blocks.values().find(|of| of.1 == pool) {
            let (requirements, options) = self.request_in(pool, memory_type, 1);
            let _ = self.allocator.preview(&requirements, &options);
        }
    }

    /// Returns a request of one memory type of a pool, and takes the thread to the pool's shard.
    fn request_in(
        &self,
        pool: PoolId,
        memory_type: MemoryTypeIndex,
        size: u64,
    ) -> (Requirements, AllocationOptions) {
        let serves = self.pools.serves(pool);
        allocate_as_thread(serves.shard);
        let mut requirements = Requirements::new(size);
        if serves.optimal_images {
            requirements.kind = ResourceKind::OptimalImage;
        }
        let mut options = AllocationOptions::new(usage_for(self.properties(memory_type)));
        options.memory_types = MemoryTypeMask(1_u32.checked_shl(memory_type.0.into()).unwrap_or(0));
        options.lifetime = serves.lifetime;
        options = options.in_mover_group(serves.movers);
        options.pool = self.pools.custom(pool).cloned();
        (requirements, options)
    }

    /// Returns true for a resource that was pinned only until it was bound.
    fn is_soon_movable(&self, number: usize, allocation: AllocationKey) -> bool {
        let next = self.original.events.iter().skip(number + 1).take(SOON);
        next.into_iter().any(|event| *event == Event::Movable { allocation, movable: true })
    }

    fn properties(&self, memory_type: MemoryTypeIndex) -> MemoryProperties {
        let found = self.allocator.device().properties().memory_type(memory_type);
        found.map_or(MemoryProperties::empty(), |found| found.properties)
    }

    fn pass_time(&mut self, sixtieths: u64) {
        let until = Duration::from_nanos(sixtieths.saturating_mul(1_000_000_000).div_ceil(60));
        self.time.advance(until.saturating_sub(self.time.now()));
    }
}

/// Writes what a request asked for into its description.
fn set_options(requirements: &mut Requirements, options: &mut AllocationOptions, asked: RequestedOptions) {
    requirements.dedicated = asked.need;
    (options.dedicated, options.new_blocks, options.budget) =
        (asked.dedicated, asked.new_blocks, asked.budget);
    (options.strategy, options.side) = (asked.strategy, asked.side);
    (options.required, options.preferred, options.avoided) = (asked.required, asked.preferred, asked.avoided);
}
