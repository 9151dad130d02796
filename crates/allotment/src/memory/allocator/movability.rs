//! Whether allocations may be moved, and by whom.

use crate::device::{Device, MemoryTypeIndex};
use crate::memory::allocator::Allocator;
use crate::memory::mover::MoverId;
use crate::memory::token::{Allocation, AllocationId};
use crate::memory::{AccessError, Movability};

impl<D: Device> Allocator<D> {
    /// Sets whether defragmentation may move an allocation, and by which mover: by passes, or by its `Defragmenter`
    /// alone.
    ///
    /// An allocation that the program's passes may move is pinned until its resource is bound. Both settings change in one step
    /// under the pool's lock; between two steps a pass of another thread could move the allocation.
    pub(in crate::memory) fn allow_moves(
        &self,
        allocation: &Allocation,
        movability: Movability,
        mover: MoverId,
    ) {
        let record = self.slot_and_record(allocation);
        if movability == Movability::Pinned && record.is_ok_and(|(_, record)| !record.is_movable()) {
            // The allocation is pinned already, and only the owner of the handle changes that.
            return;
        }
        self.allow_moves_of(allocation.id(), movability, mover);
    }

    /// Sets the same by the id of an allocation. Does nothing once that is freed.
    pub(in crate::memory) fn allow_moves_of(&self, id: AllocationId, movability: Movability, mover: MoverId) {
        let Ok(slot) = self.slot_of(id) else { return };
        slot.allow_moves((id.record, id.generation), movability, mover);
    }

    /// Returns the memory type of an allocation, and who may move it at present, if anyone does.
    pub(in crate::memory) fn type_and_mover(
        &self,
        allocation: &Allocation,
    ) -> Result<(MemoryTypeIndex, Option<MoverId>), AccessError> {
        let (_, record) = self.slot_and_record(allocation)?;
        Ok((record.memory_type(), record.is_movable().then(|| record.mover())))
    }

    /// Notes whether a place is reserved for an allocation, from the reservation until the move has ended and its bytes have
    /// arrived: it is not moved again meanwhile. Returns false if it was freed.
    pub(in crate::memory) fn note_reserved(&self, id: AllocationId, reserved: bool) -> bool {
        self.pools.get(id.pool).is_some_and(|slot| slot.note_reserved(id, reserved))
    }

    /// Pins an allocation to its place from now on. A pass that is about to move it leaves it there.
    ///
    /// For an allocation whose owner cannot follow a move, or frees it while the GPU may still use its place.
    pub(in crate::memory) fn pin(&self, allocation: &Allocation) {
        self.allow_moves(allocation, Movability::Pinned, MoverId::PASSES);
    }
}
