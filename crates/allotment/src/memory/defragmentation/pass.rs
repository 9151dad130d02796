//! One pass: moves that are handed out together and end together.

use core::fmt;
use std::sync::PoisonError;

use super::run::{Ended, Outcome, Run};
use crate::device::{Device, Mapped, MemoryHandle, MemoryTypeIndex, ResourceKind};
use crate::memory::access::MemoryLocation;
use crate::memory::allocator::{Allocation, AllocationId, Allocator};
use crate::memory::pool::{PoolSlot, PoolState};
use crate::memory::record::RawPlace;
use crate::memory::{Movability, WrongAllocator};
use crate::sync::locked;

/// Moves that end under the lock at once: 20 microseconds.
const AT_ONCE: usize = 64;

/// An allocation, and another place that is reserved for it. Copy the bytes from one to the other.
pub struct Move<D: Device> {
    /// The block that is being emptied, as the run counts.
    departure: usize,
    id: AllocationId,
    /// Taken when the pass ends.
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
        state: &PoolState<D>,
        slot: &PoolSlot<D>,
        departure: usize,
        id: AllocationId,
        reserved: Allocation,
    ) -> Self {
        let place = |record| match slot.records.get(record) {
            Some(record) => record.read(),
            None => unreachable!("a live allocation has a record"),
        };
        let (from, to) = (place(id.record), place(reserved.record));
        let detail = state.detail(id.record);
        Self {
            departure,
            id,
            reserved: Some(reserved),
            from: At::of(&from),
            to: At::of(&to),
            memory: core::marker::PhantomData,
            size: from.size,
            memory_type: from.memory_type,
            kind: detail.map_or_else(ResourceKind::default, |detail| detail.kind),
            contents: detail.map_or(Movability::Copied, |detail| detail.movability),
            user_data: state.label(id.record).user_data,
            stays: false,
        }
    }

    /// The allocation.
    #[must_use]
    pub fn id(&self) -> AllocationId {
        self.id
    }

    /// Its owner's own number.
    #[must_use]
    pub fn user_data(&self) -> u64 {
        self.user_data
    }

    /// Its bytes, as asked for.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What stands there.
    #[must_use]
    pub fn kind(&self) -> ResourceKind {
        self.kind
    }

    /// Whether its bytes are to be copied: [`Copied`](Movability::Copied), or [`Recreated`](Movability::Recreated).
    #[must_use]
    pub fn contents(&self) -> Movability {
        self.contents
    }

    /// Where it is.
    #[must_use]
    pub fn from(&self) -> MemoryLocation<D> {
        self.place(self.from)
    }

    /// Where it will be. Nobody else has this place, until the pass ends.
    #[must_use]
    pub fn to(&self) -> MemoryLocation<D> {
        self.place(self.to)
    }

    /// Whether it leaves the same block as another one: all of that block goes, or none of it is worth copying.
    pub(in crate::memory) fn leaves_with(&self, other: &Self) -> bool {
        self.departure == other.departure
    }

    /// Whether it was [told to stay](Pass::ignore).
    #[must_use]
    pub fn is_ignored(&self) -> bool {
        self.stays
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

/// What [`Defragmentation::next_pass`](super::Defragmentation::next_pass) found.
#[must_use = "a pass that is dropped is cancelled"]
pub enum NextPass<'d, D: Device> {
    /// Allocations to be moved.
    Moves(Pass<'d, D>),
    /// Time was up before the first was found. The next call goes on from here.
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

/// Moves whose places are reserved, until they [end](Self::end) together. Dropped, it is cancelled: everything stays
/// where it was. What is copied into the new places must be over by then, either way.
///
/// While it is open, other threads allocate, free and ask as always. An allocation of the pass may be freed as well:
/// its place and the one reserved for it are free when the pass ends, so that whoever copies the one to the other need
/// not know. What is written to one by its token meanwhile is refused
/// ([`AccessError::Moving`](crate::memory::AccessError::Moving)), as it would be lost.
#[must_use = "a pass that is dropped is cancelled"]
pub struct Pass<'d, D: Device> {
    allocator: &'d Allocator<D>,
    run: &'d mut Run,
    /// Emptied when it ends.
    moves: &'d mut Vec<Move<D>>,
}

/// What becomes of a place that a move leaves behind.
pub(in crate::memory) enum Left {
    /// The old place of what was moved.
    Old,
    /// The new place of what stayed or was freed.
    New,
    /// The old place of what was freed. Comes after its new one.
    Freed,
}

impl<'d, D: Device> Pass<'d, D> {
    pub(in crate::memory) fn new(
        allocator: &'d Allocator<D>,
        run: &'d mut Run,
        moves: &'d mut Vec<Move<D>>,
    ) -> Self {
        Self { allocator, run, moves }
    }

    /// What is to be moved.
    #[must_use]
    pub fn moves(&self) -> &[Move<D>] {
        self.moves
    }

    /// Bytes that are to be copied: not those of what is [recreated](Movability::Recreated), which the limit counts.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let copied = self.moves.iter().filter(|one| one.contents == Movability::Copied && !one.stays);
        copied.map(Move::size).sum()
    }

    /// Leaves the move at this index undone; if it is being copied, that is over when the pass ends. The allocation stays where it is for the rest of the defragmentation, and
    /// so does its block, whatever else has left it. Does nothing where there is no move at this index.
    pub fn ignore(&mut self, index: usize) {
        self.moves.get_mut(index).into_iter().for_each(|one| one.stays = true);
    }

    /// Frees the allocation of the move at this index rather than moving it.
    ///
    /// # Errors
    ///
    /// [`WrongAllocator`] where the token is not that allocation's, or there is no move at this index; it comes back with the
    /// error.
    pub fn destroy(&mut self, index: usize, allocation: Allocation) -> Result<(), WrongAllocator> {
        if self.moves.get(index).is_some_and(|one| one.id == allocation.id()) {
            self.allocator.free(allocation)
        } else {
            Err(WrongAllocator(allocation))
        }
    }

    /// Ends the pass: the allocations are in their new places, and their tokens say so. The old places are free.
    ///
    /// All copies must be over, and nothing uses the old places any more.
    pub fn end(self) {
        let allocator = self.allocator;
        self.end_with(|left| allocator.free_own(left));
    }

    /// Ends the pass as [`end`](Self::end) does, and gives the places that are left to `retire`, as allocations to be
    /// freed when nothing uses them any more: the old places of what was moved, the new ones of what stays, and both of
    /// what was freed meanwhile.
    ///
    /// The copies may still be on their way, as long as everything that uses the new places comes after them, and what
    /// `retire` does waits for them. Should it panic, the places that it was not given yet are never freed.
    pub fn end_with(mut self, mut retire: impl FnMut(Allocation)) {
        self.finish(|_| false, |_, place| retire(place));
    }

    /// Ends all moves that do not stay. `arriving` says whether the bytes of the one at this index are on their way.
    pub(in crate::memory) fn finish(
        &mut self,
        arriving: impl Fn(usize) -> bool,
        leave: impl FnMut(Left, Allocation),
    ) {
        finish(self.allocator, self.run, self.moves, arriving, leave);
    }

    /// Leaves all moves undone.
    pub(in crate::memory) fn cancel(&mut self, leave: impl FnMut(Left, Allocation)) {
        self.moves.iter_mut().for_each(|one| one.stays = true);
        self.finish(|_| false, leave);
    }
}

fn finish<D: Device>(
    allocator: &Allocator<D>,
    run: &mut Run,
    moves: &mut Vec<Move<D>>,
    arriving: impl Fn(usize) -> bool,
    mut leave: impl FnMut(Left, Allocation),
) {
    let mut first = 0;
    let mut ended = Vec::with_capacity(moves.len().min(AT_ONCE));
    while !moves.is_empty() {
        let pool = moves[0].id.pool;
        let same = moves.iter().take(AT_ONCE).take_while(|one| one.id.pool == pool).count();
        let Some(slot) = allocator.pools.get(pool) else { return };
        let alone = slot.changes.write().unwrap_or_else(PoisonError::into_inner);
        let mut guard = locked(&slot.state);
        for (index, one) in (first..).zip(&moves[..same]) {
            ended.push(one.end(guard.as_mut(), slot, arriving(index)));
        }
        first += same;
        drop(guard);
        drop(alone);
        run.ended(allocator, ended.iter().copied());
        for (mut one, ended) in moves.drain(..same).zip(ended.drain(..)) {
            let Some(place) = one.reserved.take() else { continue };
            match ended.outcome {
                Outcome::Moved => leave(Left::Old, place),
                Outcome::Freed { .. } | Outcome::Stays => leave(Left::New, place),
            }
            if ended.outcome == (Outcome::Freed { holds_its_place: true }) {
                leave(Left::Freed, one.source_left());
            }
        }
    }
}

impl<D: Device> Move<D> {
    /// What stands for the old place of an allocation that was freed while it was being moved.
    fn source_left(&self) -> Allocation {
        let AllocationId { allocator, pool, record, generation } = self.id;
        Allocation { allocator, pool, record, generation: generation.wrapping_add(1) }
    }

    fn end(&self, state: Option<&mut PoolState<D>>, slot: &PoolSlot<D>, arriving: bool) -> Ended {
        let live = |record: u32, generation| {
            slot.records.get(record).is_some_and(|record| record.generation() == generation)
        };
        let source = live(self.id.record, self.id.generation);
        // A reset of the pool takes both.
        let reserved = self.reserved.as_ref().filter(|it| live(it.record, it.generation));
        // Its owner may have pinned it while it was being moved.
        let pinned = |state: &PoolState<D>| {
            state.detail(self.id.record).is_none_or(|detail| detail.movability == Movability::Pinned)
        };
        let outcome = match (state, reserved) {
            (Some(state), Some(reserved)) if source && !self.stays && !pinned(state) => {
                state.exchange(slot, self.id.record, reserved.record, arriving);
                Outcome::Moved
            }
            (Some(state), _) if source => {
                state.note_moving(slot, self.id.record, false);
                Outcome::Stays
            }
            (Some(state), _) => {
                // After a reset of the pool the record may be somebody else's.
                let stands = live(self.id.record, self.source_left().generation);
                Outcome::Freed { holds_its_place: stands && state.is_left(slot, self.id.record) }
            }
            (None, _) => Outcome::Freed { holds_its_place: false },
        };
        let copied = if self.contents == Movability::Copied { self.size } else { 0 };
        Ended { departure: self.departure, id: self.id, copied, outcome }
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
    fn drop(&mut self) {
        let allocator = self.allocator;
        self.cancel(|_, place| allocator.free_own(place));
    }
}

impl<D: Device> fmt::Debug for Pass<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass").field("moves", &self.moves).finish_non_exhaustive()
    }
}
