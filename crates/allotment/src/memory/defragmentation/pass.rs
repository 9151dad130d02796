//! One pass: moves that are handed out together and end together.

use core::fmt;

use super::run::{Ended, Run};
use super::{EndedPass, NotThisMove};
use crate::device::{Device, Mapped, MemoryHandle, MemoryTypeIndex, ResourceKind};
use crate::memory::MemoryLocation;
use crate::memory::Movability;
use crate::memory::allocator::Allocator;
use crate::memory::pool::{BegunMove, Freed, MoveEnd, TwoShards, after_retirement};
use crate::memory::time::Moment;
use crate::memory::token::{Allocation, AllocationId, RawPlace};

/// Moves that are ended per lock: ten to twenty microseconds. What they read fits the first cache of a processor.
const AT_ONCE: usize = 32;

/// A move of an allocation: in a pass, to a place that is reserved for it, so copy the bytes from one to the other; after
/// the pass, in the list of [what moved](EndedPass::moved).
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// # use allotment::memory::Movability;
/// # use allotment::memory::defragmentation::{Defragmentation, DefragmentationDesc, NextPass, PassLimits};
/// let options = MemoryUsage::GpuOnly.with_name("house").with_user_data(4711).with_movability(Movability::Copied);
/// let mut tiles = allocator.allocate_many(&Requirements::new(1 << 20), &options, 5)?; // two blocks of 4 MiB
/// allocator.free(tiles.remove(0))?;
/// let mut run = Defragmentation::new(&allocator, None, DefragmentationDesc::default().with_limits(PassLimits::NONE))?;
/// if let NextPass::Moves(pass) = run.next_pass() {
///     let one = &pass.moves()[0];
///     assert_eq!((one.user_data(), one.size(), one.to().offset), (4711, 1 << 20, 0));
///     println!("bind a copy of entity {} to {:?}", one.user_data(), one.to());
/// }
/// # drop(run);
/// # drop(allocator.free_many(tiles));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("VmaDefragmentationMove", "DEFRAGMENTATION_MOVE"))]
pub struct Move<D: Device> {
    /// Index of the run's evacuation that empties the block.
    evacuation: usize,
    id: AllocationId,
    /// The allocation that holds the new place. Taken when the pass ends.
    reserved: Option<Allocation>,
    from: At,
    to: At,
    memory: core::marker::PhantomData<fn() -> D::Memory>,
    size: u64,
    memory_type: MemoryTypeIndex,
    kind: ResourceKind,
    contents: Movability,
    user_data: u64,
    stays: bool,
    /// It stays only since another of its pass does.
    with_others: bool,
    /// How the move ended. Those of a pass end in their order, so after a panic those that are open come last.
    ended: Option<MoveEnd>,
}

#[derive(Clone, Copy, Debug)]
struct At {
    memory: u64,
    offset: u64,
    address: Option<Mapped>,
}

impl At {
    fn of(place: &RawPlace) -> Self {
        Self { memory: place.memory, offset: place.offset, address: place.address.map(Mapped) }
    }
}

impl<D: Device> Move<D> {
    pub(super) fn new(
        begun: &BegunMove,
        to: &RawPlace,
        evacuation: usize,
        id: AllocationId,
        reserved: Allocation,
    ) -> Self {
        // Copied when the move begins, so that it can be read without a lock, and after its pass too.
        Self {
            evacuation,
            id,
            reserved: Some(reserved),
            from: At::of(&begun.place),
            to: At::of(to),
            memory: core::marker::PhantomData,
            size: begun.place.size,
            memory_type: begun.place.memory_type(),
            kind: begun.kind,
            contents: begun.contents,
            user_data: begun.user_data,
            stays: false,
            with_others: false,
            ended: None,
        }
    }

    /// Returns the id of the allocation.
    #[must_use]
    pub fn id(&self) -> AllocationId {
        self.id
    }

    /// Returns the user data of the allocation.
    #[must_use]
    pub fn user_data(&self) -> u64 {
        self.user_data
    }

    /// Returns the size in bytes, as requested.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the kind of resource that the allocation was made for.
    #[must_use]
    pub fn kind(&self) -> ResourceKind {
        self.kind
    }

    /// Returns whether the bytes must be copied: [`Copied`](Movability::Copied) or
    /// [`Recreated`](Movability::Recreated).
    #[must_use]
    pub fn contents(&self) -> Movability {
        self.contents
    }

    /// Returns the old place. Once the pass has ended, another allocation may be there.
    #[must_use]
    pub fn from(&self) -> MemoryLocation<D> {
        self.place(self.from)
    }

    /// Returns the new place. No other allocation can get it until the pass ends; from then on it belongs to the
    /// allocation.
    #[must_use]
    pub fn to(&self) -> MemoryLocation<D> {
        self.place(self.to)
    }

    /// Returns true when both moves empty the same block: if one of them is not possible, the other is not worth
    /// copying.
    pub(in crate::memory) fn leaves_with(&self, other: &Self) -> bool {
        self.evacuation == other.evacuation
    }

    /// Returns true when the move was [ignored](Pass::ignore).
    #[must_use]
    pub fn is_ignored(&self) -> bool {
        self.stays
    }

    /// Returns true until the pass of the move ends or is cancelled.
    pub(super) fn is_open(&self) -> bool {
        self.ended.is_none()
    }

    /// Returns true when the pass has ended and the allocation is in its new place.
    pub(in crate::memory) fn has_moved(&self) -> bool {
        self.ended == Some(MoveEnd::Moved)
    }

    /// Ignores the move.
    pub(super) fn stay(&mut self) {
        self.stays = true;
    }

    /// Returns the allocation that holds the new place, until the move ends.
    pub(in crate::memory) fn reserved(&self) -> Option<&Allocation> {
        self.reserved.as_ref()
    }

    /// Takes the allocation that holds the place which the move leaves.
    pub(super) fn take_reserved(&mut self) -> Option<Allocation> {
        self.reserved.take()
    }

    /// Ends a move that belongs to no pass.
    pub(super) fn end_alone(&mut self, allocator: &Allocator<D>) -> Ended {
        let Some(slot) = allocator.pools.get(self.id.pool) else {
            unreachable!("the pool of a live allocation is there")
        };
        // As `finish`, for one move that an owner has accepted by itself.
        let alone = slot.keep_accesses_out();
        let ended = self
            .end_and_keep(allocator.pools.lock_two(self.id.pool, self.pool_of_new_place()).as_mut(), false);
        drop(alone);
        self.ended = Some(ended.outcome);
        ended
    }

    fn place(&self, at: At) -> MemoryLocation<D> {
        MemoryLocation {
            memory: D::Memory::from_raw(at.memory),
            offset: at.offset,
            size: self.size,
            memory_type: self.memory_type,
            mapped_ptr: at.address.map(|mapped| mapped.0),
        }
    }
}

/// Result of [`Defragmentation::next_pass`](super::Defragmentation::next_pass).
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// # use allotment::memory::defragmentation::{Defragmentation, DefragmentationDesc, NextPass, PassLimits};
/// let mut run = Defragmentation::new(&allocator, None, DefragmentationDesc::default().with_limits(PassLimits::NONE))?;
/// assert!(matches!(run.next_pass(), NextPass::Done), "no block can be emptied");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a pass that is dropped is cancelled"]
pub enum NextPass<'d, D: Device> {
    /// A pass with at least one move.
    Moves(Pass<'d, D>),
    /// The time was up before the first move was found, or what comes next waits for old places that are still in use. The
    /// next call continues from here.
    LimitReached,
    /// There is nothing more to gain.
    Done,
}

impl<D: Device> fmt::Debug for NextPass<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Moves(pass) => f.debug_tuple("Moves").field(pass).finish(),
            Self::LimitReached => f.write_str("LimitReached"),
            Self::Done => f.write_str("Done"),
        }
    }
}

/// Moves with reserved places, which [end](Self::end) together. Dropping the pass cancels it: all allocations stay in
/// their old places. In both cases the copies into the new places must have completed before.
///
/// Other threads can use the allocator while the pass is open. They may also free an allocation of the pass: its old
/// place and the reserved one become free only when the pass ends, so a copy between them stays valid. Writing to an
/// allocation of the pass by its handle is refused
/// ([`AccessError::Moving`](crate::memory::AccessError::Moving)), since the bytes would be lost.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// # use allotment::memory::{AccessError, Movability};
/// # use allotment::memory::defragmentation::{Defragmentation, DefragmentationDesc, NextPass, PassLimits};
/// # let options = MemoryUsage::Upload.with_name("tile").with_movability(Movability::Copied);
/// let mut tiles = allocator.allocate_many(&Requirements::new(1 << 20), &options, 5)?; // two blocks of 4 MiB
/// allocator.free(tiles.remove(0))?;
/// let mut run = Defragmentation::new(&allocator, None, DefragmentationDesc::default().with_limits(PassLimits::NONE))?;
/// let NextPass::Moves(pass) = run.next_pass() else { panic!("a block can be emptied") };
/// println!("{} bytes to copy", pass.bytes());
/// assert!(matches!(allocator.write(&tiles[3], 0, b"new bytes"), Err(AccessError::Moving { .. })));
/// drop(pass); // cancelled: nothing has moved
/// allocator.write(&tiles[3], 0, b"new bytes")?;
/// # drop(run);
/// # drop(allocator.free_many(tiles));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("VmaDefragmentationPassMoveInfo", "DEFRAGMENTATION_PASS_MOVE_INFO"))]
#[must_use = "a pass that is dropped is cancelled"]
pub struct Pass<'d, D: Device> {
    allocator: &'d Allocator<D>,
    run: &'d mut Run,
    /// Empty once the pass has ended.
    moves: &'d mut [Move<D>],
    on_moved: Option<&'d mut CallMoved<'d, D>>,
}

/// Called with each allocation that moved.
pub(super) type CallMoved<'d, D> = dyn FnMut(&Move<D>) + Send + 'd;

/// A place that is no longer used after a move.
pub(crate) enum Released {
    /// The old place of an allocation that was moved.
    Source,
    /// The new place of an allocation that was not moved, or was freed.
    Destination,
    /// The old place of an allocation that was freed. Follows its new place.
    FreedSource,
}

/// What becomes of the old places of allocations that were moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sources {
    /// They are freed with the move, since nothing uses them any more.
    Free,
    /// They are passed on.
    Leave,
}

impl<'d, D: Device> Pass<'d, D> {
    pub(in crate::memory) fn new(
        allocator: &'d Allocator<D>,
        run: &'d mut Run,
        moves: &'d mut [Move<D>],
    ) -> Self {
        Self { allocator, run, moves, on_moved: None }
    }

    /// Sets the callback for each allocation that moved.
    pub(super) fn with_on_moved(mut self, on_moved: Option<&'d mut CallMoved<'d, D>>) -> Self {
        self.on_moved = on_moved;
        self
    }

    /// Returns the moves.
    #[must_use]
    pub fn moves(&self) -> &[Move<D>] {
        self.moves
    }

    /// Returns the bytes that must be copied. [Recreated](Movability::Recreated) allocations count towards the limit,
    /// but not here.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let copied = self.moves.iter().filter(|one| one.contents == Movability::Copied && !one.stays);
        copied.map(Move::size).sum()
    }

    /// Ignores the move at `index`. If its bytes are being copied, the copy must have completed when the pass ends. The
    /// allocation stays in its old place for the rest of the defragmentation, and so does its block, even if all other
    /// allocations have left it. Does nothing when there is no move at `index`.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// # use allotment::memory::Movability;
    /// # use allotment::memory::defragmentation::{Defragmentation, DefragmentationDesc, NextPass, PassLimits};
    /// # let options = MemoryUsage::GpuOnly.with_name("tile").with_movability(Movability::Copied);
    /// let mut tiles = allocator.allocate_many(&Requirements::new(1 << 20), &options, 5)?; // two blocks of 4 MiB
    /// allocator.free(tiles.remove(0))?;
    /// let mut run = Defragmentation::new(&allocator, None, DefragmentationDesc::default().with_limits(PassLimits::NONE))?;
    /// if let NextPass::Moves(mut pass) = run.next_pass() {
    ///     pass.ignore(0); // its copy failed, say
    ///     pass.end();
    /// }
    /// assert_eq!((run.statistics().ignored, allocator.statistics().blocks), (1, 2));
    /// # drop(run);
    /// # drop(allocator.free_many(tiles));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("VMA_DEFRAGMENTATION_MOVE_OPERATION_IGNORE", "DEFRAGMENTATION_MOVE_OPERATION_IGNORE"))]
    pub fn ignore(&mut self, index: usize) {
        self.moves.get_mut(index).into_iter().for_each(|one| one.stays = true);
    }

    /// Ignores a move whose pass gains nothing without another that is ignored.
    pub(in crate::memory) fn ignore_with_others(&mut self, index: usize) {
        self.moves.get_mut(index).into_iter().for_each(|one| (one.stays, one.with_others) = (true, true));
    }

    /// Takes the move at `index` as one whose bytes are not copied.
    pub(in crate::memory) fn note_not_copied(&mut self, index: usize) {
        self.moves.get_mut(index).into_iter().for_each(|one| one.contents = Movability::Recreated);
    }

    /// Frees the allocation of the move at `index` instead of moving it. The move stays in the list, and
    /// [`EndedPass`] counts it as freed.
    ///
    /// For a buffer or an image call [`destroy_buffer`](Allocator::destroy_buffer) or
    /// [`destroy_image`](Allocator::destroy_image) while the pass is open, once no queue uses it; a new one that was
    /// created for the move is still the caller's to destroy.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// # use allotment::memory::Movability;
    /// # use allotment::memory::defragmentation::{Defragmentation, DefragmentationDesc, NextPass, PassLimits};
    /// # let options = MemoryUsage::GpuOnly.with_name("tile").with_movability(Movability::Copied);
    /// let mut tiles = allocator.allocate_many(&Requirements::new(1 << 20), &options, 5)?; // two blocks of 4 MiB
    /// allocator.free(tiles.remove(0))?;
    /// let mut run = Defragmentation::new(&allocator, None, DefragmentationDesc::default().with_limits(PassLimits::NONE))?;
    /// if let NextPass::Moves(mut pass) = run.next_pass() {
    ///     let at = tiles.iter().position(|tile| tile.id() == pass.moves()[0].id()).ok_or("a tile")?;
    ///     pass.destroy(0, tiles.remove(at))?; // the tile is far away by now: freed rather than copied
    ///     pass.end();
    /// }
    /// assert_eq!(allocator.statistics().allocations, 3);
    /// # drop(run);
    /// # drop(allocator.free_many(tiles));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotThisMove`] when the handle is not that allocation's, or there is no move at `index`; the error contains
    /// the handle.
    #[doc(alias("VMA_DEFRAGMENTATION_MOVE_OPERATION_DESTROY", "DEFRAGMENTATION_MOVE_OPERATION_DESTROY"))]
    pub fn destroy(&mut self, index: usize, allocation: Allocation) -> Result<(), NotThisMove> {
        if self.moves.get(index).is_some_and(|one| one.id == allocation.id()) {
            self.allocator.free_own(allocation);
            Ok(())
        } else {
            Err(NotThisMove { allocation, index, moves: self.moves.len() })
        }
    }

    /// Ends the pass: the allocations are in their new places, which their handles name from now on. Frees the old
    /// places. Returns what moved, and the sums of this pass.
    ///
    /// All copies must have completed, and nothing may use the old places any more. Where the GPU copied to memory that is
    /// not host-coherent, [invalidate](Allocator::invalidate) the allocation before the CPU writes a part of it: a write
    /// flushes whole atoms, with what the CPU's caches hold beside it.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// # use allotment::memory::Movability;
    /// # use allotment::memory::defragmentation::{Defragmentation, DefragmentationDesc, NextPass, PassLimits};
    /// # let options = MemoryUsage::GpuOnly.with_name("tile").with_movability(Movability::Copied);
    /// let mut tiles = allocator.allocate_many(&Requirements::new(1 << 20), &options, 5)?; // two blocks of 4 MiB
    /// allocator.free(tiles.remove(0))?;
    /// let before = allocator.location(&tiles[3])?;
    /// let mut run = Defragmentation::new(&allocator, None, DefragmentationDesc::default().with_limits(PassLimits::NONE))?;
    /// if let NextPass::Moves(pass) = run.next_pass() {
    ///     let ended = pass.end(); // once the bytes of its moves are copied
    ///     assert_eq!((ended.moved[0].id(), ended.statistics.bytes_moved), (tiles[3].id(), 1 << 20));
    /// }
    /// assert_ne!(allocator.location(&tiles[3])?.memory, before.memory, "the same handle, another block");
    /// # drop(run);
    /// # drop(allocator.free_many(tiles));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias(
        "vmaEndDefragmentationPass",
        "EndPass",
        "VMA_DEFRAGMENTATION_MOVE_OPERATION_COPY",
        "DEFRAGMENTATION_MOVE_OPERATION_COPY"
    ))]
    #[inline(never)]
    pub fn end(mut self) -> EndedPass<'d, D> {
        let allocator = self.allocator;
        self.finish_all(|_| false, Sources::Free, |_, place| allocator.free_own(place));
        self.into_ended()
    }

    /// Ends the pass like [`end`](Self::end), but passes the released places to `retire`, as allocations to be freed
    /// once nothing uses them: the old places of moved allocations, the new places of those that were not moved, and
    /// both places of those that were freed meanwhile.
    ///
    /// The copies may still be in flight, as long as all uses of the new places come after them and `retire` waits for
    /// them: submit the copies, end the pass, and use the new buffers in later submissions. The old buffers are destroyed
    /// after the same wait. If `retire` panics, the places that it has not got yet are never freed.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// # use allotment::memory::Movability;
    /// # use allotment::memory::defragmentation::{Defragmentation, DefragmentationDesc, NextPass, PassLimits};
    /// # let allocator = gpu.allocator();
    /// # let options = MemoryUsage::GpuOnly.with_name("tile").with_movability(Movability::Copied);
    /// let mut tiles = allocator.allocate_many(&Requirements::new(1 << 20), &options, 5)?; // two blocks of 4 MiB
    /// allocator.free(tiles.remove(0))?;
    /// let frame = gpu.begin_frame()?; // reads the tiles in their old places
    /// let mut run = Defragmentation::new(allocator, None, DefragmentationDesc::default().with_limits(PassLimits::NONE))?;
    /// if let NextPass::Moves(pass) = run.next_pass() {
    ///     // The copies are submitted here, and later frames wait for them. The old places are freed after this frame.
    ///     pass.end_with(|place| drop(gpu.memory().own_allocation(place)));
    /// }
    /// assert_eq!((allocator.statistics().blocks, gpu.deletion_queue().statistics().pending), (2, 1));
    /// drop(run);
    /// frame.end()?;
    /// assert_eq!(allocator.statistics().blocks, 1);
    /// # drop(allocator.free_many(tiles));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn end_with(mut self, mut retire: impl FnMut(Allocation)) -> EndedPass<'d, D> {
        self.finish(|_| false, |_, place| retire(place));
        self.into_ended()
    }

    /// Returns what moved, and calls the callback for it.
    fn into_ended(mut self) -> EndedPass<'d, D> {
        let statistics = self.run.statistics - self.run.before_pass;
        let moved = moved_first(core::mem::take(&mut self.moves));
        // Last of all: the pass has ended, whatever the callback does.
        if let Some(on_moved) = &mut self.on_moved {
            moved.iter().for_each(on_moved);
        }
        EndedPass { moved, statistics }
    }

    /// Ends all moves that are not ignored. `arriving` returns whether the copy of the move at an index is in flight.
    pub(in crate::memory) fn finish(
        &mut self,
        arriving: impl Fn(usize) -> bool,
        leave: impl FnMut(Released, Allocation),
    ) {
        self.finish_all(arriving, Sources::Leave, leave);
    }

    fn finish_all(
        &mut self,
        arriving: impl Fn(usize) -> bool,
        sources: Sources,
        leave: impl FnMut(Released, Allocation),
    ) {
        finish(self.allocator, self.run, self.moves, (arriving, sources), leave);
    }

    /// Cancels all moves.
    pub(in crate::memory) fn cancel(&mut self, leave: impl FnMut(Released, Allocation)) {
        // Ended as ignored, so that cancelling takes the same path as ending.
        self.moves.iter_mut().filter(|one| one.is_open()).for_each(|one| one.stays = true);
        self.finish(|_| false, leave);
    }
}

fn finish<D: Device>(
    allocator: &Allocator<D>,
    run: &mut Run,
    moves: &mut [Move<D>],
    (arriving, sources): (impl Fn(usize) -> bool, Sources),
    mut leave: impl FnMut(Released, Allocation),
) {
    // Of what was freed since, nothing is told that it moved.
    allocator.take_left_frees();
    // A batch of moves at a time, in two halves:
    //   with the locks    it is decided how each move ends, and the ranges are exchanged
    //   without           memory goes to the driver, the run counts, `leave` gets the places
    // `leave` is the caller's code, which may use the allocator, take its time, or panic: so it gets nothing while a
    // lock is held, and before it gets anything its whole batch has ended and is counted.
    // (`a_retire_that_panics_leaves_what_moved_in_its_new_places`)
    // After a panic of `leave`, the moves of the batches before have ended.
    let mut first = moves.iter().take_while(|one| !one.is_open()).count();
    // Allocated before the locks are taken, and used for all batches.
    let most = (moves.len() - first).min(AT_ONCE);
    let (mut ended, mut freed) = (Vec::with_capacity(most), Vec::with_capacity(most));
    while first < moves.len() {
        let rest = &mut moves[first..];
        let (pool, to) = (rest[0].id.pool, rest[0].pool_of_new_place());
        // A batch has one pool, or two shards of one, so that these locks are enough.
        let same = rest.iter().take(AT_ONCE);
        let same = same.take_while(|one| one.id.pool == pool && one.pool_of_new_place() == to).count();
        let batch = &mut rest[..same];
        let Some(slot) = allocator.pools.get(pool) else { return };
        // Threads that access an allocation by its handle hold `changes` for reading: none is in the middle of it now.
        let alone = slot.keep_accesses_out();
        let mut guard = allocator.pools.lock_two(pool, to);
        let pairs = batch.iter().filter_map(|one| Some((one.id.record, one.reserved.as_ref()?.record)));
        guard.iter_mut().for_each(|shards| shards.read_ahead(pairs.clone()));
        for (index, one) in (first..).zip(batch.iter_mut()) {
            // With `end` nothing uses the old place any more, so it is freed here, with the locks that are held anyway.
            // With `end_with` a queue may still read it: then it becomes an allocation that the caller passes on.
            let end = match sources {
                Sources::Leave => one.end_and_keep(guard.as_mut(), arriving(index)),
                Sources::Free => one.end_and_free(guard.as_mut(), || allocator.pools.now(), &mut freed),
            };
            one.ended = Some(end.outcome);
            ended.push(end);
        }
        first += same;
        drop(guard);
        drop(alone);
        // With no lock held, from here on: `leave` may run the caller's code.
        for (left, home, now) in freed.drain(..) {
            let Some(slot) = allocator.pools.get(home) else { continue };
            allocator.after_free(slot, left, now);
        }
        // The first half of the batch is over for the run too, before `leave` may panic: sums and blocks are right.
        run.ended(allocator, ended.drain(..));
        for one in batch {
            // After the locks: freeing the place takes the pool's lock again.
            let (Some(place), Some(outcome)) = (one.reserved.take(), one.ended) else { continue };
            // Brittle: one call for each move, in their order, and the old place of a freed allocation directly after
            // its new one. `next_of` in `resource/relocation/step.rs` finds by this order what was created for a move.
            match outcome {
                MoveEnd::Moved => leave(Released::Source, place),
                MoveEnd::Freed { .. } | MoveEnd::Stays => leave(Released::Destination, place),
            }
            if outcome == (MoveEnd::Freed { holds_its_place: true }) {
                leave(Released::FreedSource, one.source_left());
            }
        }
    }
}

/// Brings what moved to the front of the list, in its order, and returns it: a list that takes no memory of its own.
fn moved_first<D: Device>(moves: &mut [Move<D>]) -> &[Move<D>] {
    let mut count = 0;
    for at in 0..moves.len() {
        if moves[at].has_moved() {
            // Those that moved keep their order; the others change theirs, and are not shown.
            moves.swap(count, at);
            count += 1;
        }
    }
    &moves[..count]
}

impl<D: Device> Move<D> {
    /// Returns a handle of the old place of an allocation that was freed while it was being moved.
    fn source_left(&self) -> Allocation {
        let AllocationId { allocator, pool, record, generation } = self.id;
        Allocation { allocator, pool, record, generation: after_retirement(generation) }
    }

    /// Returns the shard that has the new place; that of the allocation once the move has ended.
    fn pool_of_new_place(&self) -> u32 {
        self.reserved.as_ref().map_or(self.id.pool, |reserved| reserved.pool)
    }

    /// Ends the move. The reserved allocation has the old place then.
    fn end_and_keep(&self, mut shards: Option<&mut TwoShards<'_, D>>, arriving: bool) -> Ended {
        let ended = self.end(shards.as_deref_mut());
        if let (Some(shards), Some(place), MoveEnd::Moved) = (shards, &self.reserved, ended.outcome) {
            shards.exchange(self.id.record, place.record, arriving);
        }
        ended
    }

    /// Ends the move, and frees the old place; where that is in a shard that is not locked, the reserved allocation has
    /// it then.
    fn end_and_free(
        &mut self,
        mut shards: Option<&mut TwoShards<'_, D>>,
        now: impl FnOnce() -> Moment,
        freed: &mut Vec<(Freed<D>, u32, Option<Moment>)>,
    ) -> Ended {
        // Three shards may be concerned, where shards are joined, and two are locked:
        //   record    stays in the shard that the request came to            locked
        //   new       in the shard that has a block with room                locked
        //   old       wherever the last move has put it                      may be a third
        // With a third the range is only exchanged. `leave` frees it then, with the locks that this needs.
        let ended = self.end(shards.as_deref_mut());
        if let (Some(shards), Some(place), MoveEnd::Moved) = (shards, &self.reserved, ended.outcome) {
            match shards.move_to(self.id.record, place.record, now) {
                Some(left) => {
                    freed.push(left);
                    // So that `finish` has no place to pass on for this move.
                    self.reserved = None;
                }
                None => shards.exchange(self.id.record, place.record, false),
            }
        }
        ended
    }

    /// Decides how the move ends, and ends it unless the allocation is to be [moved](MoveEnd::Moved) now: then both
    /// allocations are live.
    fn end(&self, shards: Option<&mut TwoShards<'_, D>>) -> Ended {
        // Without the shards the pool is gone, and both ranges with it.
        let outcome = shards.map_or(MoveEnd::Freed { holds_its_place: false }, |shards| {
            let reserved = self.reserved.as_ref().map(|reserved| (reserved.record, reserved.generation));
            shards.end_move((self.id.record, self.id.generation), reserved, self.stays)
        });
        // Recreated allocations cost no copy, so they do not count towards `WithinBytes`.
        let copied = if self.contents == Movability::Copied { self.size } else { 0 };
        Ended { evacuation: self.evacuation, id: self.id, copied, outcome, with_others: self.with_others }
    }
}

impl<D: Device> fmt::Debug for Move<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, size, from, to, stays, .. } = self;
        f.debug_struct("Move")
            .field("id", id)
            .field("size", size)
            .field("from", from)
            .field("to", to)
            .field("stays", stays)
            .finish_non_exhaustive()
    }
}

impl<D: Device> Drop for Pass<'_, D> {
    #[inline(never)]
    fn drop(&mut self) {
        let allocator = self.allocator;
        // Whatever ends a pass, a call, a drop or a panic, comes through here: so no reserved place is forgotten.
        // Of moves that are open still: none where the pass has ended.
        self.cancel(|_, place| allocator.free_own(place));
        self.run.before_pass = self.run.statistics;
    }
}

impl<D: Device> fmt::Debug for Pass<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass").field("moves", &self.moves).finish_non_exhaustive()
    }
}
