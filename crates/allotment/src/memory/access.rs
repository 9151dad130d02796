//! Where an allocation is, and the bytes in it.

use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::{PoisonError, RwLockReadGuard};

use super::allocator::{Allocation, AllocationId, Allocator};
use super::pool::{Label, PoolSlot};
use super::record::{RawPlace, Record};
use super::{AccessError, Movability, Name};
use crate::device::{
    DedicatedNeed, Device, MemoryHandle, MemoryTypeIndex, Requirements, ResourceKind, Visibility,
    make_visible, read_bytes, write_bytes,
};
use crate::sync::locked;

/// Where an allocation is.
#[derive(Debug)]
#[non_exhaustive]
pub struct Place<D: Device> {
    /// The driver's memory object, for binding. It belongs to the allocator: never free, map or unmap it.
    pub memory: D::Memory,
    /// The first byte in it.
    pub offset: u64,
    /// Bytes, as asked for.
    pub size: u64,
    /// Which memory type it is of.
    pub memory_type: MemoryTypeIndex,
    /// Where the CPU sees the first byte; `None` where it cannot. Good until the allocation is freed, its pool is
    /// reset, or, where it is [movable](super::Movability), it is moved.
    ///
    /// Memory that is not host-coherent needs [`flush`](Allocator::flush) after writing and
    /// [`invalidate`](Allocator::invalidate) before reading.
    pub address: Option<NonNull<u8>>,
}

// Not derived, since a place is copied whether or not its device can be.
impl<D: Device> Clone for Place<D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for Place<D> {}

impl<D: Device> Place<D> {
    fn of(place: &RawPlace) -> Self {
        let RawPlace { memory, offset, size, address, memory_type, .. } = *place;
        Self { memory: D::Memory::from_raw(memory), offset, size, memory_type, address }
    }
}

impl RawPlace {
    /// Refuses a place that is not that of the resource that was bound to the allocation.
    pub(super) fn check_bound(&self) -> Result<(), AccessError> {
        if self.moved { Err(AccessError::Moved) } else { Ok(()) }
    }
}

/// What is known of an allocation beside its place.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AllocationInfo {
    /// Bytes, as asked for.
    pub size: u64,
    /// Bytes from its first one on that nothing else gets while it lives, rounding included: up to the granularity, the
    /// non-coherent atom, a buddy's power of two; of a memory object of its own, all. What alignment leaves unused
    /// before it is not among them ([`Statistics::padding`](super::Statistics::padding)).
    pub occupied: u64,
    /// What stands there.
    pub kind: ResourceKind,
    /// Its name, if it has one.
    pub name: Option<Name>,
    /// The caller's own number.
    pub user_data: u64,
    /// Its category; empty for none.
    pub category: &'static str,
    /// True when no other allocation is in its memory object.
    pub dedicated: bool,
    /// True when its memory was made together with its resource, and takes no other.
    pub exclusive: bool,
    /// Which of the allocator's memory objects of its pool and type it is in, for drawing.
    pub block: u32,
    /// Bytes of that memory object.
    pub block_size: u64,
    /// How often it is [mapped](Allocator::map) now.
    pub maps: u32,
    /// Whether it may get another place.
    pub movability: Movability,
    /// True while it is being given one.
    pub moving: bool,
}

impl<D: Device> Allocator<D> {
    /// True when this allocator made it.
    pub(super) fn owns(&self, allocation: &Allocation) -> bool {
        allocation.allocator == self.id()
    }

    fn slot_and_record(&self, id: AllocationId) -> Result<(&PoolSlot<D>, &Record), AccessError> {
        let slot = self.pools.get(id.pool).filter(|_| id.allocator == self.id());
        let slot = slot.ok_or(AccessError::Foreign)?;
        let record = slot.records.get(id.record).ok_or(AccessError::Foreign)?;
        if record.generation() == id.generation { Ok((slot, record)) } else { Err(AccessError::Stale) }
    }

    /// The place of an allocation, which stays its place while the guard lives: without one, a pool might
    /// be reset, or the allocation moved, and its memory given back under the hands of who writes there. Default
    /// pools are never reset, and what is pinned there needs none.
    pub(super) fn hold(
        &self,
        allocation: &Allocation,
    ) -> Result<(RawPlace, Option<RwLockReadGuard<'_, ()>>), AccessError> {
        let id = allocation.id();
        let (slot, record) = self.slot_and_record(id)?;
        let changes = id.pool >= self.default_pool_count() || record.read().movable;
        let guard = changes.then(|| slot.changes.read().unwrap_or_else(PoisonError::into_inner));
        Ok((self.raw_place(allocation)?, guard))
    }

    /// The same, for who changes the bytes there: they would be lost while they are on their way to another place.
    pub(super) fn hold_for_writing(
        &self,
        allocation: &Allocation,
    ) -> Result<(RawPlace, Option<RwLockReadGuard<'_, ()>>), AccessError> {
        let held = self.hold(allocation)?;
        if held.0.moving { Err(AccessError::Moving) } else { Ok(held) }
    }

    /// The same, for who looks at the bytes there.
    pub(super) fn hold_for_reading(
        &self,
        allocation: &Allocation,
    ) -> Result<(RawPlace, Option<RwLockReadGuard<'_, ()>>), AccessError> {
        let held = self.hold(allocation)?;
        if held.0.arriving { Err(AccessError::Moving) } else { Ok(held) }
    }

    /// The place of a resource that is about to be copied to or from by its own handle. Refused where a pass moved the
    /// allocation away from the resource, and while a [`MovableSet`](super::MovableSet) moves both.
    pub(crate) fn place_of_bound(&self, allocation: &Allocation) -> Result<Place<D>, AccessError> {
        let place = self.raw_place(allocation)?;
        if place.moving && !place.arriving {
            // What is copied to the old place now would be lost.
            return Err(AccessError::Moving);
        }
        place.check_bound()?;
        Ok(Place::of(&place))
    }

    fn raw_place(&self, allocation: &Allocation) -> Result<RawPlace, AccessError> {
        let (_, record) = self.slot_and_record(allocation.id())?;
        let place = record.read();
        // A reset in between may have given the record to somebody else.
        if record.generation() == allocation.generation { Ok(place) } else { Err(AccessError::Stale) }
    }

    /// Where an allocation is. Takes no lock.
    ///
    /// # Errors
    ///
    /// [`AccessError::Foreign`] when it is from another allocator; [`AccessError::Stale`] when its pool was
    /// reset.
    pub fn place(&self, allocation: &Allocation) -> Result<Place<D>, AccessError> {
        self.raw_place(allocation).map(|place| Place::of(&place))
    }

    /// What is known of an allocation.
    ///
    /// # Errors
    ///
    /// [`AccessError::Stale`] when it was freed, [`AccessError::Foreign`] when it is from another allocator.
    pub fn info(&self, id: AllocationId) -> Result<AllocationInfo, AccessError> {
        let (slot, record) = self.slot_and_record(id)?;
        let guard = locked(&slot.state);
        let state = guard.as_ref().ok_or(AccessError::Stale)?;
        let detail = state.detail(id.record).ok_or(AccessError::Stale)?;
        if record.generation() != id.generation {
            return Err(AccessError::Stale);
        }
        let label = state.label(id.record);
        let set = &state.sets[usize::from(detail.set)];
        let block = set.block(detail.spot.block).ok_or(AccessError::Stale)?;
        Ok(AllocationInfo {
            size: detail.sizes.requested,
            occupied: set.bytes_taken(&detail.spot, detail.sizes),
            kind: detail.kind,
            name: label.name.clone(),
            user_data: label.user_data,
            category: label.category,
            dedicated: block.role != super::block_set::Role::Shared,
            exclusive: record.read().exclusive,
            block: detail.spot.block,
            block_size: block.memory.size(),
            maps: record.maps(),
            movability: detail.movability,
            moving: record.read().moving,
        })
    }

    /// Gives an allocation another name.
    ///
    /// # Errors
    ///
    /// As for [`place`](Self::place).
    pub fn set_name(&self, allocation: &Allocation, name: Option<Name>) -> Result<(), AccessError> {
        // What was the name is dropped without the lock.
        self.change_label(allocation, |label| core::mem::replace(&mut label.name, name)).map(drop)
    }

    /// Gives an allocation another user number.
    ///
    /// # Errors
    ///
    /// As for [`place`](Self::place).
    pub fn set_user_data(&self, allocation: &Allocation, user_data: u64) -> Result<(), AccessError> {
        self.change_label(allocation, |label| label.user_data = user_data)
    }

    fn change_label<T>(
        &self,
        allocation: &Allocation,
        change: impl FnOnce(&mut Label) -> T,
    ) -> Result<T, AccessError> {
        let (slot, record) = self.slot_and_record(allocation.id())?;
        let mut guard = locked(&slot.state);
        // Asked again, since a reset before the lock may have given the record to somebody else.
        if record.generation() != allocation.generation {
            return Err(AccessError::Stale);
        }
        let label = guard.as_mut().and_then(|state| state.label_mut(allocation.record));
        Ok(change(label.ok_or(AccessError::Stale)?))
    }

    /// Copies `bytes` into an allocation from byte `offset` on, and makes them visible to the device.
    ///
    /// Who writes what the device reads at that time sees wrong bytes, never undefined behaviour.
    ///
    /// Memory that is not coherent is flushed in whole atoms. Where a queue wrote to the same atoms since the CPU last saw
    /// them, [`invalidate`](Self::invalidate) the range before: else the flush puts the CPU's older bytes beside it back.
    ///
    /// # Errors
    ///
    /// [`AccessError`] when the CPU cannot reach the memory, the range does not lie in the allocation or that is being
    /// moved (nothing was written), or when the driver refuses to flush.
    pub fn write(&self, allocation: &Allocation, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        let (place, _held) = self.hold_for_writing(allocation)?;
        let (at, range) = within(&place, offset, bytes.len())?;
        // SAFETY: the range lies in mapped memory that the token and the guard keep alive.
        unsafe { write_bytes(at, bytes) };
        self.make_visible(&place, range, Visibility::Flush)
    }

    /// Copies from an allocation, from byte `offset` on, what the device made of it.
    ///
    /// # Errors
    ///
    /// [`AccessError`] when the CPU cannot reach the memory, the range does not lie in the allocation, its bytes are on
    /// their way to another place, or the driver refuses to invalidate. `bytes` is as before.
    pub fn read(&self, allocation: &Allocation, offset: u64, bytes: &mut [u8]) -> Result<(), AccessError> {
        let (place, _held) = self.hold_for_reading(allocation)?;
        let (at, range) = within(&place, offset, bytes.len())?;
        self.make_visible(&place, range, Visibility::Invalidate)?;
        // SAFETY: the range lies in mapped memory that the token and the guard keep alive.
        unsafe { read_bytes(at, bytes) };
        Ok(())
    }

    /// The address of an allocation's first byte, for who counts mappings. Pairs with
    /// [`unmap`](Self::unmap).
    ///
    /// Memory that the CPU can reach is mapped once for all, so this is no driver call; who does not
    /// count takes [`Place::address`].
    ///
    /// # Errors
    ///
    /// [`AccessError::NotHostVisible`], [`AccessError::Moving`] and as for [`place`](Self::place).
    pub fn map(&self, allocation: &Allocation) -> Result<NonNull<u8>, AccessError> {
        let (place, _held) = self.hold_for_writing(allocation)?;
        let (_, record) = self.slot_and_record(allocation.id())?;
        let address = place.address.ok_or(AccessError::NotHostVisible { memory_type: place.memory_type })?;
        record.map();
        Ok(address)
    }

    /// Ends what one [`map`](Self::map) began.
    ///
    /// # Errors
    ///
    /// [`AccessError::NotMapped`] when it was not mapped, and as for [`place`](Self::place).
    pub fn unmap(&self, allocation: &Allocation) -> Result<(), AccessError> {
        let (_, _held) = self.hold(allocation)?;
        let (_, record) = self.slot_and_record(allocation.id())?;
        if record.unmap() { Ok(()) } else { Err(AccessError::NotMapped) }
    }

    /// Makes what the CPU wrote to a range of an allocation visible to the device. Rounds to whole atoms;
    /// does nothing where memory is host-coherent.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    pub fn flush(&self, allocation: &Allocation, range: Range<u64>) -> Result<(), AccessError> {
        self.sync(allocation, range, Visibility::Flush)
    }

    /// Makes what the device wrote to a range of an allocation visible to the CPU. Rounds to whole atoms;
    /// does nothing where memory is host-coherent.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    pub fn invalidate(&self, allocation: &Allocation, range: Range<u64>) -> Result<(), AccessError> {
        self.sync(allocation, range, Visibility::Invalidate)
    }

    fn sync(
        &self,
        allocation: &Allocation,
        range: Range<u64>,
        visibility: Visibility,
    ) -> Result<(), AccessError> {
        let (place, _held) = self.hold(allocation)?;
        let len = range.end.checked_sub(range.start).and_then(|len| usize::try_from(len).ok());
        let out = AccessError::OutOfRange { offset: range.start, size: 0, available: place.size };
        let (_, range) = within(&place, range.start, len.ok_or(out)?)?;
        self.make_visible(&place, range, visibility)
    }

    /// `range` is in the memory object, and the place is [held](Self::hold).
    fn make_visible(
        &self,
        place: &RawPlace,
        range: Range<u64>,
        visibility: Visibility,
    ) -> Result<(), AccessError> {
        let atom = self.atom_of(place.memory_type);
        if atom.get() == 1 || range.is_empty() {
            return Ok(());
        }
        self.heaps.make_visible_calls.fetch_add(1, Relaxed);
        let memory = D::Memory::from_raw(place.memory);
        // SAFETY: the memory is live while the caller holds the place, mapped since `within` found an
        // address, and the range lies in the allocation.
        unsafe { make_visible(self.device(), memory, place.memory_size, range, visibility) }?;
        Ok(())
    }

    /// The place of a second resource inside an allocation: memory is aliased, resources are bound to it.
    ///
    /// Any number of resources may be placed over the same bytes; which of them holds what, when, is the
    /// caller's business. [`Requirements::or`] makes an allocation that serves several by turns.
    ///
    /// # Errors
    ///
    /// [`AccessError`] unless the resource may stand in this memory type and fits at `offset` from the
    /// allocation's start, size and alignment; [`AccessError::DedicatedRequired`] where the requirements say that the
    /// resource requires dedicated memory.
    pub fn place_within(
        &self,
        allocation: &Allocation,
        offset: u64,
        requirements: &Requirements,
    ) -> Result<Place<D>, AccessError> {
        if self.raw_place(allocation)?.exclusive {
            return Err(AccessError::Exclusive);
        }
        self.place_inside(allocation, offset, requirements)
    }

    /// As [`place_within`](Self::place_within), whatever the memory was made for.
    pub(super) fn place_inside(
        &self,
        allocation: &Allocation,
        offset: u64,
        requirements: &Requirements,
    ) -> Result<Place<D>, AccessError> {
        let place = self.place(allocation)?;
        check_range(offset, requirements.size, place.size)?;
        let offset_in_memory = place.offset + offset;
        check_place(place.memory_type, offset_in_memory, place.size - offset, requirements)?;
        let address =
            place.address.and_then(|first| NonNull::new(first.as_ptr().wrapping_add(offset as usize)));
        Ok(Place { offset: offset_in_memory, size: requirements.size, address, ..place })
    }
}

/// Whether requirements hold `offset` bytes into memory of a type, with `available` bytes from there on.
pub(super) fn check_place(
    memory_type: MemoryTypeIndex,
    offset: u64,
    available: u64,
    requirements: &Requirements,
) -> Result<(), AccessError> {
    let Requirements { size, alignment, memory_types: allowed, dedicated } = *requirements;
    if dedicated == DedicatedNeed::Required {
        // Whatever is free there, the memory was not allocated for this resource alone.
        return Err(AccessError::DedicatedRequired);
    }
    if !allowed.contains(memory_type) {
        return Err(AccessError::WrongMemoryType { memory_type, allowed });
    }
    if size > available {
        return Err(AccessError::OutOfRange { offset, size, available });
    }
    if !alignment.is_aligned(offset) {
        return Err(AccessError::Misaligned { offset, alignment: alignment.get() });
    }
    Ok(())
}

pub(super) fn check_range(offset: u64, size: u64, available: u64) -> Result<(), AccessError> {
    match offset.checked_add(size) {
        Some(end) if end <= available => Ok(()),
        _ => Err(AccessError::OutOfRange { offset, size, available }),
    }
}

/// The address of a range of an allocation, and the range in its memory object.
fn within(place: &RawPlace, offset: u64, len: usize) -> Result<(NonNull<u8>, Range<u64>), AccessError> {
    let len = len as u64;
    check_range(offset, len, place.size)?;
    let first = place.address.ok_or(AccessError::NotHostVisible { memory_type: place.memory_type })?;
    // SAFETY: `offset` lies in the allocation, all of which is mapped.
    let at = unsafe { first.add(offset as usize) };
    let start = place.offset + offset;
    Ok((at, start..start + len))
}
