//! Memory is mapped when the CPU first needs it: for the first request that needs an address, or the first access.
//!
//! ```text
//!   a request that the CPU accesses (Upload, Readback, DeviceMapped, DeviceUpload, HOST_VISIBLE required or preferred)
//!     │   1 blocks that are mapped, and have room            2 other blocks with room: one is mapped
//!     │   3 a new block, which is mapped at once             4 the next memory type
//!   a request of the GPU's alone
//!     └─  any block with room, or a new one, which is not mapped
//!   write, read, map, MappedBuffer, an upload that can write in place: their memory is mapped
//! ```
//!
//! Where the driver cannot map, only what needs the address is refused, or goes elsewhere: GPU-only allocations go on
//! using the block. The refusal is remembered (`driver/refusals.rs`), so that the next requests pass such blocks over
//! without a call, until something was freed.
//!
//! An address never changes, and no memory is unmapped before it is freed: [`MemoryLocation::mapped_ptr`] stays valid. An
//! allocation that has an address has one after a move as well: the block that it moves to is mapped before.
//!
//! [`MemoryLocation::mapped_ptr`]: crate::memory::MemoryLocation::mapped_ptr

use core::ptr::NonNull;

use allotment_suballoc::Alignment;

use crate::device::{Device, DeviceError, Mapped, Mapping, MemoryHandle as _, map_memory};
use crate::memory::allocator::Allocator;
use crate::memory::request::AllocationRequest;
use crate::memory::request::Remembered;
use crate::memory::token::RawPlace;
use crate::memory::token::{Allocation, AllocationId};
use crate::memory::{AccessError, AllocationError, ShortName};
use crate::sync::locked;

impl<D: Device> Allocator<D> {
    /// Calls `allocate`, and maps the memory of the allocation if the CPU accesses it. Where that fails, the allocation is
    /// freed, and `allocate` called once more for a request that blocks which are not mapped do not serve.
    pub(super) fn mapped_as_needed(
        &self,
        request: &AllocationRequest<'_>,
        allocate: impl Fn(&AllocationRequest<'_>) -> Result<Allocation, AllocationError>,
    ) -> Result<Allocation, AllocationError> {
        let allocation = allocate(request)?;
        if self.map_new(&allocation, request) {
            return Ok(allocation);
        }
        self.free_own(allocation);
        allocate(&AllocationRequest { mapped_blocks_only: true, ..*request })
    }

    /// Maps the memory of a new allocation if its request wants an address. Returns false where the driver refuses that and
    /// the request needs it.
    pub(in crate::memory) fn map_new(
        &self,
        allocation: &Allocation,
        request: &AllocationRequest<'_>,
    ) -> bool {
        let wanted = self.pools.objects().has_unmapped() && request.wants_address();
        // Most often the block is mapped already.
        let is_mapped = || self.location(allocation).is_ok_and(|place| place.mapped_ptr.is_some());
        let is_reached = !wanted || is_mapped() || self.map_if_visible(allocation, request.remembered);
        is_reached || request.mapping() == Mapping::OnDemand
    }

    /// Maps the memory of an allocation, if the CPU can access its memory type. Returns false where the driver refuses, or
    /// has refused before.
    fn map_if_visible(&self, allocation: &Allocation, remembered: Remembered) -> bool {
        // Held: the memory is not freed, and the allocation is not moved.
        let Ok((place, _held)) = self.hold(allocation) else { return true };
        !self.pools.is_host_visible(place.memory_type()) || self.mapped(&place, remembered).is_ok()
    }

    /// Returns true if the CPU can access an allocation. Maps its memory if it is not mapped yet; where the driver has
    /// refused that before, it is not asked again.
    pub(crate) fn is_reachable(&self, allocation: &Allocation) -> bool {
        let Ok((place, _held)) = self.hold(allocation) else { return false };
        self.pools.is_host_visible(place.memory_type()) && self.mapped(&place, Remembered::Holds).is_ok()
    }

    /// Returns what offsets and sizes in memory of any type are multiples of, so that no flush touches two neighbours.
    pub(in crate::memory) fn largest_flush_multiple(&self) -> Alignment {
        let types = self.device().properties().indexed_types();
        types.map(|(index, _)| self.pools.flush_multiple(index)).max().unwrap_or(Alignment::ONE)
    }

    /// Maps the new place of an allocation, if the old one is mapped. Returns false where the driver refuses. The caller
    /// holds no lock.
    pub(in crate::memory) fn map_as_before(&self, from: AllocationId, to: &Allocation) -> bool {
        if !self.pools.objects().has_unmapped() {
            return true;
        }
        let slot = self.slot_of(from).ok();
        let is_mapped = slot.is_some_and(|slot| slot.is_mapped(from.record, from.generation));
        !is_mapped || self.map_if_visible(to, Remembered::Holds)
    }

    /// Returns the address of an allocation, whose memory is mapped if it is not yet. The caller
    /// [holds](Self::hold) the place.
    pub(in crate::memory) fn reach(&self, place: &RawPlace) -> Result<NonNull<u8>, AccessError> {
        match place.address {
            Some(address) => Ok(address),
            None if self.pools.is_host_visible(place.memory_type()) => {
                Ok(self.mapped(place, Remembered::AskAgain)?)
            }
            None => {
                Err(AccessError::NotHostVisible { memory_type: place.memory_type(), name: ShortName::NONE })
            }
        }
    }

    /// Returns the address of an allocation in host-visible memory, which is mapped if it is not yet.
    fn mapped(&self, place: &RawPlace, remembered: Remembered) -> Result<NonNull<u8>, DeviceError> {
        // SAFETY: the offset lies in the memory object, all of which is mapped.
        let at = |first: NonNull<u8>| unsafe { first.add(place.offset as usize) };
        if let Some(address) = place.address {
            return Ok(address);
        }
        let objects = self.pools.objects();
        // One thread maps at a time, since no API allows memory to be mapped twice. Other threads wait for this lock only
        // where they want to map as well.
        let _mapping = locked(&self.mapping);
        if let Some(first) = objects.get(place.object).address {
            return Ok(at(first));
        }
        let refused = self.heaps().unmappable_from(self.device(), place.memory_type());
        let refused = refused.is_some_and(|size| place.memory_size >= size);
        if refused && remembered == Remembered::Holds {
            return Err(DeviceError::MapFailed);
        }
        let memory = D::Memory::from_raw(place.memory);
        // SAFETY: the caller holds the place, so the memory is live; it is host-visible, and was not mapped when this thread
        // looked, with the lock that each thread holds which maps.
        let map = || unsafe { map_memory(self.device(), memory) };
        let Mapped(first) = self.heaps().map(self.device(), (place.memory_type(), place.memory_size), map)?;
        let of_type = self.device().properties().memory_type(place.memory_type());
        if of_type.is_some_and(|found| found.properties.needs_flush()) {
            // What queues have written before the CPU does not see, and a flush of whole atoms would write what it sees over
            // it.
            // SAFETY: mapped just now, and all of the object.
            let seen = unsafe { self.device().invalidate_memory(memory, 0..place.memory_size) };
            if let Err(error) = seen {
                // SAFETY: mapped just now; no thread has the address.
                unsafe { self.device().unmap_memory(memory) };
                return Err(error);
            }
        }
        objects.note_mapped(place.object, first);
        Ok(at(first))
    }
}
