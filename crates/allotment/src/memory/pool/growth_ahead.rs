//! Allocates blocks ahead of demand, so that no frame waits for the driver.
//!
//! ```text
//!   free ranges in blocks of a pool, the largest of each block
//!        │╲        ╭─ the maintenance thread adds a block
//!        │ ╲      │╲
//!        │  ╲     │ ╲
//!   ─ ─ ─│─ ─╲─ ─ │─ ╲─ ─ ─  the watermark: half a block, or the bytes of the four busiest frames
//!        │    ╲___│        ╲
//!        └──────────────────────▶ time
//! ```
//!
//! With [`BlockGrowth::Ahead`], [maintenance](Allocator::maintain) adds the block, and requests that would get a dedicated
//! allocation use free room in blocks first, since that needs no driver call. Allocations ahead of demand never exceed a
//! heap's budget. A pool that has served no request yet has no demand to foresee: its first request waits for the driver,
//! unless [`Allocator::reserve`] was called before.

use crate::device::{Device, MemoryDesc, Requirements};
use crate::memory::allocator::Allocator;
use crate::memory::allocator::ladder::IdleBlocks;
use crate::memory::block_set::Role;
use crate::memory::pool::{PendingBlock, PoolSlot, PoolState};
use crate::memory::request::AllocationRequest;
use crate::memory::{AllocationError, AllocationOptions, BudgetPolicy, ShortName};
use crate::sync::locked;

/// Which thread allocates blocks from the driver and frees them.
///
/// ```
/// use allotment::AllocatorDesc;
/// use allotment::memory::blocks::{BlockGrowth, Watermark};
///
/// let mut desc = AllocatorDesc::default();
/// assert_eq!(desc.block_growth, BlockGrowth::OnDemand);
/// desc.block_growth = BlockGrowth::Ahead(Watermark::default()); // and a `MaintenanceThread`
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockGrowth {
    /// The thread that needs a block allocates it.
    #[default]
    OnDemand,
    /// The thread that calls [`Allocator::maintain`] allocates blocks ahead of demand. A request waits for the
    /// driver only when it needs a block before that thread has allocated it.
    Ahead(Watermark),
}

impl BlockGrowth {
    /// Returns how much room is kept ahead of demand, if any is.
    pub(in crate::memory) fn watermark(self) -> Option<Watermark> {
        match self {
            Self::Ahead(watermark) => Some(watermark),
            Self::OnDemand => None,
        }
    }
}

/// Free room that maintenance keeps in a pool. The largest of the three figures applies.
///
/// ```
/// use allotment::memory::blocks::{BlockGrowth, Watermark};
///
/// let mut room = Watermark::default();
/// room.bytes = 64 << 20; // what a burst of streaming needs at once
/// room.frames = 8;
/// println!("{:?}", BlockGrowth::Ahead(room));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Watermark {
    /// Bytes of free room.
    pub bytes: u64,
    /// The size of the pool's next block divided by this number; 0 ignores the block size.
    pub block_divisor: u64,
    /// The bytes that this number of frames needs, each as busy as the busiest recent frame.
    pub frames: u64,
}

impl Default for Watermark {
    /// Half a block, and four frames: the slowest block allocation measured on a real driver took 62 ms.
    fn default() -> Self {
        Self { bytes: 0, block_divisor: 2, frames: 4 }
    }
}

impl Watermark {
    /// Returns the bytes of room to keep when the next block has `block_size` bytes and a busy frame needs `flow`.
    /// The frames' share is at most twice the largest block: one frame that loaded a level says nothing about the
    /// next.
    pub(in crate::memory) fn room(&self, block_size: u64, flow: u64, largest: u64) -> u64 {
        let of_block = block_size.checked_div(self.block_divisor).unwrap_or(0);
        let of_frames = flow.saturating_mul(self.frames).min(largest.saturating_mul(2));
        self.bytes.max(of_block).max(of_frames)
    }
}

/// Bytes that requests took out of blocks in this frame, and in the busiest recent frame.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::memory) struct Flow {
    now: u64,
    busiest: u64,
}

impl Flow {
    pub(in crate::memory) fn add(&mut self, bytes: u64) {
        self.now = self.now.saturating_add(bytes);
    }

    pub(in crate::memory) fn tick(&mut self) {
        // An eighth less each frame: a peak is forgotten within some thirty frames.
        self.busiest = self.now.max(self.busiest - self.busiest / 8);
        self.now = 0;
    }

    pub(in crate::memory) fn busiest(&self) -> u64 {
        self.busiest.max(self.now)
    }
}

impl<D: Device> Allocator<D> {
    /// Returns true when maintenance allocates and frees blocks, rather than the threads that make requests.
    pub(in crate::memory) fn grows_ahead(&self) -> bool {
        matches!(self.desc.block_growth, BlockGrowth::Ahead(_))
    }

    /// Allocates one block for a pool that has less room than its watermark. Returns its bytes; `None` when no block is
    /// needed or the driver refused it.
    pub(in crate::memory) fn grow_ahead(&self, slot: &PoolSlot<D>) -> Option<u64> {
        let mut guard = locked(&slot.state);
        let state = guard.as_mut()?;
        let size = state.block_wanted_ahead()?;
        let set = state.set_ahead();
        drop(guard);
        // The refresh makes the budget current: memory allocated ahead must not evict that of other programs.
        self.heaps.refresh(&self.device);
        match self.grow_by(slot, (set, size), BudgetPolicy::WithinBudget, IdleBlocks::Keep) {
            Ok(got) => Some(got),
            Err(_) => {
                if let Some(state) = locked(&slot.state).as_mut() {
                    // Not tried again in this frame: the heap is full, and each attempt costs a driver call.
                    state.refused_ahead = Some(state.now());
                }
                None
            }
        }
    }

    /// Allocates a shared block for one memory type of a pool. Returns its bytes.
    fn grow_by(
        &self,
        slot: &PoolSlot<D>,
        (set, size): (usize, u64),
        budget: BudgetPolicy,
        idle: IdleBlocks<'_, D>,
    ) -> Result<u64, AllocationError> {
        let mut guard = locked(&slot.state);
        let state = guard.as_mut().ok_or(AllocationError::WrongPool { name: ShortName::NONE })?;
        let source = state.source_ahead(set, budget);
        // Threads that find no room meanwhile wait for this block.
        // Where another thread's block is pending already, the mark is that thread's, and this one must not clear it.
        let first = !state.sets[set].growing;
        let getting = PendingBlock::begin(slot, state, set, first);
        drop(guard);
        let memory = MemoryDesc::new(source.memory_type, size)
            .with_priority(source.priority)
            .with_options(source.options.as_ref());
        let got = self.object_of_driver(&memory, (source.terms.budget, source.terms.mapping), idle);
        let got = got.inspect(|memory| self.name_block(memory, &source));

        let mut guard = locked(&slot.state);
        let mut refused = None;
        getting.end(guard.as_mut());
        let result = match (guard.as_mut(), got) {
            (Some(state), got) => got.map(|memory| {
                state.pass_time(self.time.now());
                state.add_empty(slot, set, memory, Role::Shared);
            }),
            // The pool was destroyed during the driver call.
            (None, got) => {
                refused = got.ok();
                Err(AllocationError::WrongPool { name: ShortName::NONE })
            }
        };
        drop(guard);
        refused.into_iter().for_each(|memory| self.heaps.free(&self.device, memory));
        result.map(|()| size)
    }

    /// Makes sure that requests like this find room for `bytes` in all, in blocks of the memory type that suits
    /// them best, or of the first type of their pool that they allow: for the start of a level, where waiting for the
    /// driver is no harm. Returns how many bytes the driver allocated for that.
    ///
    /// For the next [`EmptyBlockPolicy::frames`](crate::memory::EmptyBlockPolicy::frames) frames the pool frees no
    /// block by itself, and large requests use its blocks, too.
    ///
    /// # Errors
    ///
    /// [`AllocationError`] when the driver or a limit refused a block; the blocks allocated before remain. Nothing is
    /// allocated where no block of a pool with a fixed block size can hold such a request
    /// ([`AllocationError::TooLargeForBlock`]).
    ///
    /// ```
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    /// use allotment::{Allocator, AllocatorDesc, MemoryUsage, Requirements};
    ///
    /// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let (mesh, options) = (Requirements::new(1 << 20), MemoryUsage::GpuOnly.into());
    /// assert!(allocator.reserve(&mesh, &options, 100 << 20)? >= 100 << 20);
    /// let calls = allocator.reports().device_calls();
    /// let meshes: Vec<_> = (0..100).map(|_| allocator.allocate(&mesh, &options)).collect::<Result<_, _>>()?;
    /// assert_eq!(allocator.reports().device_calls(), calls);
    /// # meshes.into_iter().for_each(|mesh| allocator.free(mesh).unwrap());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    pub fn reserve(
        &self,
        requirements: &Requirements,
        options: &AllocationOptions,
        bytes: u64,
    ) -> Result<u64, AllocationError> {
        let request = &AllocationRequest::new(requirements, options);
        let (slot, set) = match &options.pool {
            Some(pool) => {
                self.by_pool_types(pool, request, |set, _| Ok((self.shard(pool.shards().own())?, set)))?
            }
            None => {
                let best = self.ranking(request)?.types(request.requirements.memory_types).next();
                let memory_type = best.ok_or_else(|| self.no_memory_type(request))?;
                (self.shard(self.default_pool_for(memory_type, request).own())?, 0)
            }
        };
        let (mut allocated, mut said) = (0, false);
        loop {
            // Decided anew for each block, since other threads allocate and free between two of them.
            let mut guard = locked(&slot.state);
            let state = guard.as_mut().ok_or(AllocationError::WrongPool { name: ShortName::NONE })?;
            state.pass_time(self.time.now());
            if !said {
                // After the time that passed before it, and before the blocks.
                state.emit_room_reserved(set, request.requirements.size, bytes);
                said = true;
            }
            let (size, _) = state.rounded_size(set, request);
            let refused = state.check_fixed_block(set, size, request.requirements.size);
            refused.map_err(|error| error.of(options.short_name()))?;
            let wanted = state.block_wanted_for(set, bytes);
            let Some(size) = wanted else { return Ok(allocated) };
            if state.has_all_blocks() {
                return Err(state.full(set, bytes).of(options.short_name()));
            }
            drop(guard);
            // Not those of the pool itself: its empty blocks are part of the room that is reserved.
            let idle = IdleBlocks::FreeBut(slot);
            allocated += self
                .grow_by(slot, (set, size), options.budget, idle)
                .map_err(|error| error.of(options.short_name()))?;
        }
    }
}

impl<D: Device> PoolSlot<D> {
    /// Returns true if blocks of the pool are allocated ahead of demand, and freed by whoever does that.
    pub(in crate::memory) fn grows_ahead(&self) -> bool {
        locked(&self.state).as_ref().is_some_and(|state| state.rules.ahead.is_some())
    }
}

impl<D: Device> PoolState<D> {
    /// Returns the size of the block to allocate ahead of demand; `None` when there is enough room.
    fn block_wanted_ahead(&mut self) -> Option<u64> {
        let wanted = self.room_wanted()?;
        if !self.needs_maintenance() {
            return None;
        }
        // One large block rather than several small ones, which the large requests of the next frames could not use.
        Some(self.ahead_block_size(self.set_ahead(), wanted))
    }

    /// Returns the set of the first memory type for which blocks are allocated ahead of demand: of the two in a pool that
    /// keeps movable allocations apart, that with the least room of those that have blocks.
    pub(in crate::memory) fn set_ahead(&self) -> usize {
        // Most pools have one, for which no room has to be counted.
        let Some(other) = self.other_set(0) else { return 0 };
        let used = [0, other].into_iter().filter(|&set| self.sets[set].count() != 0);
        used.min_by_key(|&set| self.room_up_to(set, u64::MAX)).unwrap_or(0)
    }

    /// Returns the bytes of room that the watermark asks for; `None` for a pool without a watermark.
    pub(in crate::memory) fn room_wanted(&self) -> Option<u64> {
        let watermark = self.rules.ahead?;
        let largest = self.largest_block_size(0);
        Some(watermark.room(self.next_block_size(0), self.flow.busiest(), largest))
    }

    /// Returns the size of the next block to allocate so that there is room for `bytes`; `None` when there is enough.
    fn block_wanted_for(&mut self, set: usize, bytes: u64) -> Option<u64> {
        self.flush_quick_lists();
        // From now on the pool frees no block, so the room remains until the requests come.
        self.hold_reserve();
        let room = self.room_up_to(set, bytes);
        if room >= bytes {
            return None;
        }
        Some(self.ahead_block_size(set, bytes - room))
    }

    pub(in crate::memory) fn ahead_block_size(&self, set: usize, wanted: u64) -> u64 {
        let next = self.next_block_size(set);
        // Block sizes are powers of two.
        let wanted = wanted.checked_next_power_of_two().unwrap_or(u64::MAX);
        next.max(wanted.min(self.largest_block_size(set)))
    }

    /// Returns the sum of the largest free ranges of the shared blocks; stops counting at `enough`.
    pub(in crate::memory) fn room_up_to(&self, set: usize, enough: u64) -> u64 {
        let mut room = 0;
        for (_, block) in self.sets[set].blocks().filter(|(_, block)| block.role == Role::Shared) {
            if room >= enough {
                break;
            }
            // Not all free bytes: what lies in small holes serves few of the requests that the room is kept for.
            room += block.ranges.largest_free();
        }
        room
    }
}
