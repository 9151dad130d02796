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

use crate::device::{Device, OwnedMemory};
use crate::memory::block_set::Role;
use crate::memory::pool::{PendingBlock, PoolSlot, PoolState, Source};
use crate::memory::request::AllocationRequest;
use crate::memory::time::Moment;
use crate::memory::{AllocationError, BudgetPolicy, ShortName};
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
    /// The thread that calls [`Allocator::maintain`](crate::Allocator::maintain) allocates blocks ahead of demand. A request
    /// waits for the driver only when it needs a block before that thread has allocated it.
    Ahead(Watermark),
}

impl BlockGrowth {
    /// Returns how much room is kept ahead of demand, if any is.
    pub(super) fn watermark(self) -> Option<Watermark> {
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
    fn room(&self, block_size: u64, flow: u64, largest: u64) -> u64 {
        let of_block = block_size.checked_div(self.block_divisor).unwrap_or(0);
        let of_frames = flow.saturating_mul(self.frames).min(largest.saturating_mul(2));
        self.bytes.max(of_block).max(of_frames)
    }
}

/// Bytes that requests took out of blocks in this frame, and in the busiest recent frame.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow {
    now: u64,
    busiest: u64,
}

impl Flow {
    pub(super) fn add(&mut self, bytes: u64) {
        self.now = self.now.saturating_add(bytes);
    }

    pub(super) fn tick(&mut self) {
        // An eighth less each frame: a peak is forgotten within some thirty frames.
        self.busiest = self.now.max(self.busiest - self.busiest / 8);
        self.now = 0;
    }

    fn busiest(&self) -> u64 {
        self.busiest.max(self.now)
    }
}

impl<D: Device> PoolSlot<D> {
    /// Returns the set and the size of a block that the pool wants ahead of demand; `None` where it has enough room.
    pub(crate) fn block_wanted_ahead(&self) -> Option<(usize, u64)> {
        let mut guard = locked(&self.state);
        let state = guard.as_mut()?;
        let size = state.block_wanted_ahead()?;
        Some((state.set_ahead(), size))
    }

    /// Notes that the driver or a limit refused a block ahead of demand.
    pub(crate) fn note_refused_ahead(&self) {
        if let Some(state) = locked(&self.state).as_mut() {
            // Not tried again in this frame: the heap is full, and each attempt costs a driver call.
            state.refused_ahead = Some(state.now());
        }
    }

    /// Returns the size of the next block that is needed so that requests like this find room for `bytes` in a set; `None` when
    /// there is enough. From then on the pool frees no block for some frames. `first` says that this begins the reservation.
    pub(crate) fn block_wanted_for(
        &self,
        (set, bytes): (usize, u64),
        request: &AllocationRequest<'_>,
        now: Moment,
        first: bool,
    ) -> Result<Option<u64>, AllocationError> {
        let mut guard = locked(&self.state);
        let state = guard.as_mut().ok_or(AllocationError::WrongPool { name: ShortName::NONE })?;
        state.pass_time(now);
        if first {
            // After the time that passed before it, and before the blocks.
            state.emit_room_reserved(set, request.requirements.size, bytes);
        }
        let (size, _) = state.rounded_size(set, request);
        state.check_fixed_block(set, size, request.requirements.size)?;
        let Some(size) = state.block_wanted_for(set, bytes) else { return Ok(None) };
        if state.has_all_blocks() {
            return Err(state.full(set, bytes));
        }
        Ok(Some(size))
    }

    /// Announces a shared block that the caller allocates for no request. Returns how.
    pub(crate) fn expect_block(
        &self,
        set: usize,
        budget: BudgetPolicy,
    ) -> Result<(PendingBlock<'_, D>, Source<D>), AllocationError> {
        let mut guard = locked(&self.state);
        let state = guard.as_mut().ok_or(AllocationError::WrongPool { name: ShortName::NONE })?;
        let source = state.source_ahead(set, budget);
        // Threads that find no room meanwhile wait for this block.
        // Where another thread's block is pending already, the mark is that thread's, and this one must not clear it.
        let first = !state.sets[set].growing;
        Ok((PendingBlock::begin(self, state, set, first), source))
    }

    /// Returns true if blocks of the pool are allocated ahead of demand, and freed by whoever does that.
    pub(crate) fn grows_ahead(&self) -> bool {
        locked(&self.state).as_ref().is_some_and(|state| state.rules.ahead.is_some())
    }
}

impl<D: Device> PendingBlock<'_, D> {
    /// Adds the memory that the driver allocated to the pool, as an empty block; or notes that it was refused. On error the
    /// memory is returned, if there is any.
    pub(crate) fn insert_empty(
        self,
        memory: Result<OwnedMemory<D>, AllocationError>,
        now: impl FnOnce() -> Moment,
    ) -> Result<(), (AllocationError, Option<OwnedMemory<D>>)> {
        let (slot, set) = (self.slot(), self.set());
        let mut guard = locked(&slot.state);
        // Before anything can fail: other threads wait for this.
        self.end(guard.as_mut());
        // The pool was destroyed during the driver call.
        let Some(state) = guard.as_mut() else {
            return Err((AllocationError::WrongPool { name: ShortName::NONE }, memory.ok()));
        };
        let memory = memory.map_err(|refused| (refused, None))?;
        state.pass_time(now());
        state.add_empty(slot, set, memory, Role::Shared);
        Ok(())
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
    pub(super) fn set_ahead(&self) -> usize {
        // Most pools have one, for which no room has to be counted.
        let Some(other) = self.other_set(0) else { return 0 };
        let used = [0, other].into_iter().filter(|&set| self.sets[set].count() != 0);
        used.min_by_key(|&set| self.room_up_to(set, u64::MAX)).unwrap_or(0)
    }

    /// Returns the bytes of room that the watermark asks for; `None` for a pool without a watermark.
    pub(super) fn room_wanted(&self) -> Option<u64> {
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

    pub(super) fn ahead_block_size(&self, set: usize, wanted: u64) -> u64 {
        let next = self.next_block_size(set);
        // Block sizes are powers of two.
        let wanted = wanted.checked_next_power_of_two().unwrap_or(u64::MAX);
        next.max(wanted.min(self.largest_block_size(set)))
    }

    /// Returns the sum of the largest free ranges of the shared blocks; stops counting at `enough`.
    pub(super) fn room_up_to(&self, set: usize, enough: u64) -> u64 {
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
