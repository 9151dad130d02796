//! Queries of allocations, their labels, and access to their bytes by the CPU.

use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::{PoisonError, RwLockReadGuard};

use crate::device::{
    DedicatedNeed, Device, MemoryHandle, MemoryTypeIndex, Requirements, Visibility, make_visible, read_bytes,
    write_bytes,
};
use crate::memory::allocator::Allocator;
use crate::memory::pool::{Label, PoolSlot};
use crate::memory::token::{Allocation, AllocationId, RawPlace, Record, Traits};
use crate::memory::writers::AccessMark;
use crate::memory::{AccessError, AllocationInfo, MemoryLocation, Name, ShortName};

impl RawPlace {
    /// Refuses a location that a pass moved the allocation to, away from the resource that is bound to it.
    pub(crate) fn check_bound(&self) -> Result<(), AccessError> {
        if self.traits.has(Traits::MOVED) {
            Err(AccessError::Moved { name: ShortName::NONE })
        } else {
            Ok(())
        }
    }
}

/// Keeps a place as it is: no thread resets the pool, moves the allocation, or gives the bytes of a placed resource to another.
#[expect(dead_code, reason = "held until dropped")]
pub(in crate::memory) enum Held<'a> {
    /// Of a pool that may be reset, or of an allocation that may be moved.
    Pool(RwLockReadGuard<'a, ()>),
    /// Of a placed resource. A mark and no lock, since one lock would be that of all placed resources of the allocator, and some
    /// accesses wait for the GPU.
    Placed(AccessMark<'a>),
}

/// Returns the record of an allocation. The caller holds the lock, or has the allocation's handle.
fn live_record<D: Device>(slot: &PoolSlot<D>, id: AllocationId) -> Result<&Record, AccessError> {
    let record = slot.records.get(id.record).filter(|record| record.generation() == id.generation);
    record.ok_or(AccessError::Stale)
}

impl<D: Device> Allocator<D> {
    /// True when this allocator made the allocation.
    pub(in crate::memory) fn owns(&self, allocation: &Allocation) -> bool {
        allocation.allocator == self.id()
    }

    /// Returns the record of an allocation, which lives as long as its handle is borrowed, or its pool was reset: no lock is
    /// needed. A caller that has an id only asks the pool, which locks itself.
    pub(in crate::memory) fn slot_and_record<'a, 'b>(
        &'a self,
        allocation: &'b Allocation,
    ) -> Result<(&'a PoolSlot<D>, &'b Record), AccessError>
    where
        'a: 'b,
    {
        let id = allocation.id();
        let slot = self.slot_of(id)?;
        let record = live_record(slot, id)?;
        Ok((slot, record))
    }

    /// Returns the beginning of an allocation's name, for an error. Locks its pool.
    #[cold]
    pub(crate) fn name_of(&self, allocation: &Allocation) -> ShortName {
        if self.is_placed(allocation.id()) {
            return self.short_name_of_placed(allocation.id()).unwrap_or_default();
        }
        // An allocation that is stale, or of another allocator, has no name here.
        let slot = self.slot_of(allocation.id()).ok();
        slot.and_then(|slot| slot.short_name(allocation.record, allocation.generation)).unwrap_or_default()
    }

    /// Adds the name of an allocation to the error of a call that was about it. The caller holds no lock.
    #[inline]
    fn named<T>(&self, allocation: &Allocation, done: Result<T, AccessError>) -> Result<T, AccessError> {
        done.map_err(|error| error.of(self.name_of(allocation)))
    }

    #[inline]
    pub(in crate::memory) fn slot_of(&self, id: AllocationId) -> Result<&PoolSlot<D>, AccessError> {
        // The indices of another allocator's token may exist here as well.
        let slot = self.pools.get(id.pool).filter(|_| id.allocator == self.id());
        slot.ok_or(AccessError::WrongAllocator { name: ShortName::NONE })
    }

    /// Returns the location of an allocation with a guard, which keeps it valid: without the guard another thread could
    /// reset the pool, or move the allocation, and free the memory while the caller writes to it. Default pools are
    /// never reset, so a pinned allocation there needs no guard.
    pub(in crate::memory) fn hold(
        &self,
        allocation: &Allocation,
    ) -> Result<(RawPlace, Option<Held<'_>>), AccessError> {
        let id = allocation.id();
        let (slot, record) = self.slot_and_record(allocation)?;
        let changes = id.pool >= self.pools.default_pool_count() || record.is_movable();
        let guard = changes.then(|| {
            if self.is_placed(id) {
                return Held::Placed(self.writers.access(id));
            }
            Held::Pool(slot.changes.read().unwrap_or_else(PoisonError::into_inner))
        });
        // Read after the guard is taken: a location from before could have been moved away from, or freed, until then.
        Ok((self.raw_place(allocation)?, guard))
    }

    /// Holds an allocation whose bytes the caller changes. Refused while it is moved, since the change would be lost.
    pub(in crate::memory) fn hold_for_writing(
        &self,
        allocation: &Allocation,
    ) -> Result<(RawPlace, Option<Held<'_>>), AccessError> {
        let held = self.hold(allocation)?;
        self.check_settled(allocation.id())?;
        if held.0.traits.has(Traits::MOVING) {
            Err(AccessError::Moving { name: ShortName::NONE })
        } else {
            Ok(held)
        }
    }

    /// Holds an allocation whose bytes the caller reads. Refused until a move has brought the bytes to the new
    /// location.
    pub(in crate::memory) fn hold_for_reading(
        &self,
        allocation: &Allocation,
    ) -> Result<(RawPlace, Option<Held<'_>>), AccessError> {
        let held = self.hold(allocation)?;
        self.check_tenancy(allocation, &held.0)?;
        if held.0.traits.has(Traits::ARRIVING) {
            Err(AccessError::Moving { name: ShortName::NONE })
        } else {
            Ok(held)
        }
    }

    /// Returns the location of a resource that a queue is about to use by its handle. Refused where a pass moved the
    /// allocation away from the resource. A caller that writes sees to it that no pass moves it meanwhile: the resource has
    /// an owner, which pins it, or a recording is open, which keeps steps from moving it.
    pub(crate) fn place_of_bound(&self, allocation: &Allocation) -> Result<MemoryLocation<D>, AccessError> {
        let place = self.raw_place(allocation)?;
        place.check_bound()?;
        self.check_tenancy(allocation, &place)?;
        Ok(MemoryLocation::of(&place))
    }

    /// Does the same for a queue that is about to write to it.
    pub(crate) fn place_of_written(&self, allocation: &Allocation) -> Result<MemoryLocation<D>, AccessError> {
        let place = self.raw_place(allocation)?;
        place.check_bound()?;
        self.check_settled(allocation.id())?;
        Ok(MemoryLocation::of(&place))
    }

    /// Refuses bytes that belong to another resource which is placed there.
    fn check_tenancy(&self, allocation: &Allocation, place: &RawPlace) -> Result<(), AccessError> {
        if place.traits.has(Traits::INACTIVE) { Err(self.inactive(allocation.id())) } else { Ok(()) }
    }

    pub(super) fn raw_place(&self, allocation: &Allocation) -> Result<RawPlace, AccessError> {
        self.read_place(allocation)
    }

    /// Does the same within its caller, who needs some words of it: as a whole it would be written to memory and read again.
    #[inline(always)]
    fn read_place(&self, allocation: &Allocation) -> Result<RawPlace, AccessError> {
        let id = allocation.id();
        let slot = self.slot_of(id)?;
        let record = slot.records.get(id.record).ok_or(AccessError::Stale)?;
        // The location first: where the record is another allocation's by now, a reset before the read or during it has
        // changed the generation, and one look finds both.
        let place = record.read(&slot.objects);
        if record.generation() == id.generation { Ok(place) } else { Err(AccessError::Stale) }
    }

    /// Returns where an allocation is. Takes no lock, so it is the call for binding and for per-frame code;
    /// [`info`](Self::info) returns the same and more.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let meshes = allocator.allocate_many(&Requirements::new(1000), &MemoryUsage::GpuOnly.into(), 2)?;
    /// let (first, second) = (allocator.location(&meshes[0])?, allocator.location(&meshes[1])?);
    /// assert_eq!(first.memory, second.memory, "small allocations share a block");
    /// assert_ne!(first.offset, second.offset);
    /// # drop(allocator.free_many(meshes));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AccessError::WrongAllocator`] when the allocation is from another allocator; [`AccessError::Stale`] when its
    /// pool was reset.
    pub fn location(&self, allocation: &Allocation) -> Result<MemoryLocation<D>, AccessError> {
        self.raw_place(allocation).map(|place| MemoryLocation::of(&place))
    }

    /// Returns everything that is known of an allocation. Locks its pool; [`location`](Self::location) does not.
    ///
    /// # Errors
    ///
    /// The errors of [`location`](Self::location).
    ///
    /// ```
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    /// use allotment::{Allocator, AllocatorDesc, MemoryUsage, Requirements};
    ///
    /// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// let info = allocator.info(&mesh)?;
    /// assert_eq!((info.size, info.name.unwrap().as_str()), (1000, "mesh"));
    /// assert_eq!(info.offset, allocator.location(&mesh)?.offset);
    /// allocator.free(mesh)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias(
        "vmaGetAllocationInfo",
        "vmaGetAllocationInfo2",
        "get_allocation_info",
        "get_allocation_info2"
    ))]
    #[inline(never)]
    pub fn info(&self, allocation: &Allocation) -> Result<AllocationInfo<D>, AccessError> {
        self.info_of(allocation.id())
    }

    pub(in crate::memory) fn info_of(&self, id: AllocationId) -> Result<AllocationInfo<D>, AccessError> {
        if self.is_placed(id) {
            return self.placed_info(id);
        }
        self.slot_of(id)?.allocation_info(id.record, id.generation).ok_or(AccessError::Stale)
    }

    /// Sets the debug name of an allocation; `None` removes it. Locks its pool.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let slot = allocator.allocate(&Requirements::new(1 << 20), &MemoryUsage::GpuOnly.with_name("tile, free"))?;
    /// allocator.set_name(&slot, Some(format!("tile {}:{}", 12, 40).into()))?; // the program reuses its memory
    /// assert_eq!(allocator.info(&slot)?.name.ok_or("named")?.as_str(), "tile 12:40");
    /// # allocator.free(slot)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`location`](Self::location).
    #[inline(never)]
    #[doc(alias("vmaSetAllocationName", "SetName", "rename_allocation"))]
    pub fn set_name(&self, allocation: &Allocation, name: Option<Name>) -> Result<(), AccessError> {
        // The old name is dropped without the lock, since that may free host memory.
        let change = |label: &mut Label| core::mem::replace(&mut label.name, name);
        self.change_label(allocation.id(), change).map(drop)
    }

    /// Sets the user data of an allocation. Locks its pool.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
    /// allocator.set_user_data(&mesh, 4711)?; // the entity that owns it
    /// assert_eq!(allocator.info(&mesh)?.user_data, 4711);
    /// # allocator.free(mesh)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`location`](Self::location).
    #[inline(never)]
    #[doc(alias("vmaSetAllocationUserData", "set_allocation_user_data", "SetPrivateData"))]
    pub fn set_user_data(&self, allocation: &Allocation, user_data: u64) -> Result<(), AccessError> {
        self.change_label(allocation.id(), |label| label.user_data = user_data)
    }

    fn change_label<T>(
        &self,
        id: AllocationId,
        change: impl FnOnce(&mut Label) -> T,
    ) -> Result<T, AccessError> {
        if self.is_placed(id) {
            return self.change_placed_label(id, change).ok_or(AccessError::Stale);
        }
        self.slot_of(id)?.change_label(id.record, id.generation, change).ok_or(AccessError::Stale)
    }

    /// Copies `bytes` into an allocation from byte `offset` on, and makes them visible to the GPU.
    ///
    /// A write to bytes that the GPU reads at the same time gives wrong bytes, never undefined behaviour.
    ///
    /// Memory that is not coherent is flushed in whole atoms. Where a queue wrote to the same atoms since the CPU
    /// last read them, [`invalidate`](Self::invalidate) the range before: else the flush writes back the CPU's older
    /// bytes beside it.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let constants = allocator.allocate(&Requirements::new(256), &MemoryUsage::Upload.with_name("constants"))?;
    /// allocator.write(&constants, 0, &[7; 256])?;
    /// let mut bytes = [0; 256];
    /// allocator.read(&constants, 0, &mut bytes)?;
    /// assert_eq!(bytes, [7; 256]);
    /// allocator.free(constants)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AccessError`] when the CPU cannot map the memory, the range exceeds the allocation, or the allocation is being
    /// moved (nothing was written); or when the driver refuses to flush.
    #[inline(never)]
    #[doc(alias("vmaCopyMemoryToAllocation", "mapped_slice_mut", "try_as_mapped_slab"))]
    pub fn write(&self, allocation: &Allocation, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.named(allocation, self.write_unnamed(allocation, offset, bytes))
    }

    fn write_unnamed(&self, allocation: &Allocation, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        let (place, _held) = self.hold_for_writing(allocation)?;
        let (at, range) = self.within(&place, offset, bytes.len())?;
        // SAFETY: the range lies in mapped memory that the token and the guard keep alive.
        unsafe { write_bytes(at, bytes) };
        // Still under the guard: Vulkan allows a flush only of memory that is live and mapped.
        self.make_visible(&place, range, Visibility::Flush)
    }

    /// Copies bytes out of an allocation from byte `offset` on, with what the GPU wrote.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let result = allocator.allocate(&Requirements::new(4), &MemoryUsage::Readback.with_name("visible pixels"))?;
    /// let mut count = [0; 4];
    /// allocator.read(&result, 0, &mut count)?; // once the GPU has written it
    /// println!("{} pixels", u32::from_ne_bytes(count));
    /// # allocator.free(result)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AccessError`] when the CPU cannot map the memory, the range exceeds the allocation, a move has not brought the
    /// bytes to the new location yet, or the driver refuses to invalidate. `bytes` is unchanged then.
    #[inline(never)]
    #[doc(alias("vmaCopyAllocationToMemory", "mapped_slice"))]
    pub fn read(&self, allocation: &Allocation, offset: u64, bytes: &mut [u8]) -> Result<(), AccessError> {
        self.named(allocation, self.read_unnamed(allocation, offset, bytes))
    }

    fn read_unnamed(
        &self,
        allocation: &Allocation,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), AccessError> {
        let (place, _held) = self.hold_for_reading(allocation)?;
        let (at, range) = self.within(&place, offset, bytes.len())?;
        // Before the bytes are read: the CPU's caches may hold what was there before the GPU wrote.
        self.make_visible(&place, range, Visibility::Invalidate)?;
        // SAFETY: the range lies in mapped memory that the token and the guard keep alive.
        unsafe { read_bytes(at, bytes) };
        Ok(())
    }

    /// Returns the address of an allocation's first byte, and counts a mapping. Pairs with
    /// [`unmap`](Self::unmap): an allocation that is mapped is not moved. At 32,767 the count stays, and the allocation
    /// counts as mapped until it is freed.
    ///
    /// A driver call only for memory that the CPU has not needed so far: the usage is [`GpuOnly`](crate::MemoryUsage).
    /// All other host-visible memory is mapped when it is allocated. Code that does not count mappings uses
    /// [`MemoryLocation::mapped_ptr`].
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let particles = allocator.allocate(&Requirements::new(4096), &MemoryUsage::Upload.with_name("particles"))?;
    /// let first = allocator.map(&particles)?;
    /// // SAFETY: 4,096 bytes are mapped from there on, and no queue reads them yet.
    /// unsafe { first.as_ptr().write_bytes(7, 4096) };
    /// allocator.flush(&particles, 0..4096)?; // no driver call where the memory is coherent
    /// allocator.unmap(&particles)?;
    /// # allocator.free(particles)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AccessError::NotHostVisible`], [`AccessError::Moving`], [`AccessError::Device`] where the driver cannot map the
    /// memory, and as for [`location`](Self::location).
    #[inline(never)]
    #[doc(alias("vmaMapMemory", "map_memory"))]
    pub fn map(&self, allocation: &Allocation) -> Result<NonNull<u8>, AccessError> {
        self.named(allocation, self.map_unnamed(allocation))
    }

    fn map_unnamed(&self, allocation: &Allocation) -> Result<NonNull<u8>, AccessError> {
        // As for a write: during a move the pointer would lead to the old location.
        let (place, _held) = self.hold_for_writing(allocation)?;
        let (_, record) = self.slot_and_record(allocation)?;
        let address = self.reach(&place)?;
        record.map();
        self.emit_maps(allocation);
        Ok(address)
    }

    /// Ends the mapping of one [`map`](Self::map).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// use allotment::memory::AccessError;
    ///
    /// let staging = allocator.allocate(&Requirements::new(4096), &MemoryUsage::Upload.with_name("staging"))?;
    /// allocator.map(&staging)?;
    /// assert_eq!(allocator.info(&staging)?.maps, 1);
    /// allocator.unmap(&staging)?;
    /// assert!(matches!(allocator.unmap(&staging), Err(AccessError::NotMapped { .. })));
    /// # allocator.free(staging)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AccessError::NotMapped`] when the allocation is not mapped, and the errors of [`location`](Self::location).
    #[inline(never)]
    #[doc(alias("vmaUnmapMemory", "unmap_memory"))]
    pub fn unmap(&self, allocation: &Allocation) -> Result<(), AccessError> {
        self.named(allocation, self.unmap_unnamed(allocation))
    }

    fn unmap_unnamed(&self, allocation: &Allocation) -> Result<(), AccessError> {
        let (_, _held) = self.hold(allocation)?;
        let (_, record) = self.slot_and_record(allocation)?;
        if !record.unmap() {
            return Err(AccessError::NotMapped { name: ShortName::NONE });
        }
        self.emit_maps(allocation);
        Ok(())
    }

    /// Returns the address of a range of an allocation, and the range in its memory object, which is mapped if it is not
    /// yet. The caller [holds](Self::hold) the place.
    fn within(
        &self,
        place: &RawPlace,
        offset: u64,
        len: usize,
    ) -> Result<(NonNull<u8>, Range<u64>), AccessError> {
        let len = len as u64;
        check_range(offset, len, place.size)?;
        let first = self.reach(place)?;
        // SAFETY: `offset` lies in the allocation, all of which is mapped.
        let at = unsafe { first.add(offset as usize) };
        let start = place.offset + offset;
        Ok((at, start..start + len))
    }

    /// Makes the CPU's writes to a range of an allocation visible to the GPU. Rounds to whole atoms;
    /// does nothing where memory is host-coherent.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("mobile").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// use allotment::device::MemoryProperties;
    ///
    /// let options = AllocationOptions::new(MemoryUsage::Upload).with_required(MemoryProperties::HOST_CACHED);
    /// let vertices = allocator.allocate(&Requirements::new(4096), &options)?;
    /// let first = allocator.location(&vertices)?.mapped_ptr.ok_or("mapped")?;
    /// // SAFETY: 4,096 bytes are mapped from there on, and no queue reads them yet.
    /// unsafe { first.as_ptr().write_bytes(7, 100) };
    /// allocator.flush(&vertices, 0..100)?; // rounded to 128 bytes: two atoms of 64
    /// assert_eq!(allocator.reports().device_calls().make_visible, 1);
    /// # allocator.free(vertices)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`write`](Self::write).
    #[doc(alias("vmaFlushAllocation", "vmaFlushAllocations", "flush_allocation", "flush_allocations"))]
    pub fn flush(&self, allocation: &Allocation, range: Range<u64>) -> Result<(), AccessError> {
        self.named(allocation, self.sync(allocation, range, Visibility::Flush))
    }

    /// Makes the GPU's writes to a range of an allocation visible to the CPU. Rounds to whole atoms;
    /// does nothing where memory is host-coherent.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("mobile").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let picture = allocator.allocate(&Requirements::new(4096), &MemoryUsage::Readback.with_name("picture"))?;
    /// let first = allocator.location(&picture)?.mapped_ptr.ok_or("mapped")?;
    /// allocator.invalidate(&picture, 0..64)?; // once the GPU has written it, and before the CPU reads it
    /// // SAFETY: the byte is mapped, and no queue writes it any more.
    /// println!("{}", unsafe { first.as_ptr().read_volatile() });
    /// # allocator.free(picture)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`read`](Self::read).
    #[doc(alias(
        "vmaInvalidateAllocation",
        "vmaInvalidateAllocations",
        "invalidate_allocation",
        "invalidate_allocations"
    ))]
    pub fn invalidate(&self, allocation: &Allocation, range: Range<u64>) -> Result<(), AccessError> {
        self.named(allocation, self.sync(allocation, range, Visibility::Invalidate))
    }

    fn sync(
        &self,
        allocation: &Allocation,
        range: Range<u64>,
        visibility: Visibility,
    ) -> Result<(), AccessError> {
        let (place, _held) = self.hold(allocation)?;
        self.check_tenancy(allocation, &place)?;
        // A flush writes the CPU's bytes over those that a queue may still use.
        if matches!(visibility, Visibility::Flush) && place.traits.has(Traits::UNSETTLED) {
            return Err(AccessError::Unsettled { name: ShortName::NONE });
        }
        let len = range.end.checked_sub(range.start).and_then(|len| usize::try_from(len).ok());
        let out = AccessError::OutOfRange {
            offset: range.start,
            size: 0,
            available: place.size,
            name: ShortName::NONE,
        };
        let len = len.ok_or(out)? as u64;
        check_range(range.start, len, place.size)?;
        if place.address.is_none() {
            let memory_type = place.memory_type();
            // Of memory that is not mapped the CPU's caches hold nothing.
            let visible = self.pools.is_host_visible(memory_type);
            return if visible {
                Ok(())
            } else {
                Err(AccessError::NotHostVisible { memory_type, name: ShortName::NONE })
            };
        }
        let start = place.offset + range.start;
        self.make_visible(&place, start..start + len, visibility)
    }

    /// Flushes or invalidates `range` of the memory object. The caller [holds](Self::hold) the location.
    fn make_visible(
        &self,
        place: &RawPlace,
        range: Range<u64>,
        visibility: Visibility,
    ) -> Result<(), AccessError> {
        if !self.pools.needs_flush(place.memory_type()) || range.is_empty() {
            return Ok(());
        }
        self.heaps().make_visible_calls.fetch_add(1, Relaxed);
        let memory = D::Memory::from_raw(place.memory);
        // SAFETY: the memory is live while the caller holds the place, mapped since `within` found an
        // address, and the range lies in the allocation.
        unsafe { make_visible(self.device(), memory, place.memory_size, range, visibility) }?;
        Ok(())
    }

    /// Returns the location of an aliasing resource inside an allocation.
    ///
    /// Any number of resources may be bound to the same bytes; the caller decides which of them is valid when.
    /// [`Requirements::or`] describes an allocation that serves several resources in turn.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let (shadows, bloom) = (Requirements::new(1 << 20), Requirements::new(600 << 10));
    /// let shared = allocator.allocate(&shadows.or(bloom), &MemoryUsage::GpuOnly.with_name("shadows, then bloom"))?;
    /// let first = allocator.place_within(&shared, 0, &shadows)?;
    /// let then = allocator.place_within(&shared, 0, &bloom)?; // the same bytes, later in the frame
    /// assert_eq!((first.offset, first.memory), (then.offset, then.memory));
    /// # allocator.free(shared)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AccessError`] unless the resource allows the memory type, and fits with size and alignment at `offset` from
    /// the allocation's start; [`AccessError::DedicatedRequired`] where the requirements say that the resource
    /// requires dedicated memory.
    pub fn place_within(
        &self,
        allocation: &Allocation,
        offset: u64,
        requirements: &Requirements,
    ) -> Result<MemoryLocation<D>, AccessError> {
        self.named(allocation, self.place_unnamed(allocation, offset, requirements))
    }

    #[inline]
    pub(in crate::memory) fn place_unnamed(
        &self,
        allocation: &Allocation,
        offset: u64,
        requirements: &Requirements,
    ) -> Result<MemoryLocation<D>, AccessError> {
        // In Vulkan dedicated memory may only be bound to its own resource (`VkMemoryDedicatedAllocateInfo`); a
        // committed resource of Direct3D 12 has no heap in which another could be placed.
        let place = self.read_place(allocation)?;
        if place.traits.has(Traits::DEDICATED_TO_RESOURCE) {
            return Err(AccessError::Exclusive { name: ShortName::NONE });
        }
        inside(&place, offset, requirements)
    }

    /// Returns the location as [`place_within`](Self::place_within), in memory of one resource too.
    #[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
    pub(in crate::memory) fn place_inside(
        &self,
        allocation: &Allocation,
        offset: u64,
        requirements: &Requirements,
    ) -> Result<MemoryLocation<D>, AccessError> {
        inside(&self.raw_place(allocation)?, offset, requirements)
    }
}

/// Returns where a resource is, `offset` bytes into a place.
#[inline]
fn inside<D: Device>(
    place: &RawPlace,
    offset: u64,
    requirements: &Requirements,
) -> Result<MemoryLocation<D>, AccessError> {
    let place = MemoryLocation::of(place);
    check_range(offset, requirements.size, place.size)?;
    let offset_in_memory = place.offset + offset;
    check_place(place.memory_type, offset_in_memory, place.size - offset, requirements)?;
    let mapped_ptr =
        place.mapped_ptr.and_then(|first| NonNull::new(first.as_ptr().wrapping_add(offset as usize)));
    Ok(MemoryLocation { offset: offset_in_memory, size: requirements.size, mapped_ptr, ..place })
}

/// Checks requirements at `offset` in memory of a type, with `available` bytes from there on.
#[inline]
pub(crate) fn check_place(
    memory_type: MemoryTypeIndex,
    offset: u64,
    available: u64,
    requirements: &Requirements,
) -> Result<(), AccessError> {
    let Requirements { size, alignment, memory_types: allowed, dedicated, .. } = *requirements;
    if dedicated == DedicatedNeed::Required {
        // However much room there is, the memory was not allocated for this resource alone.
        return Err(AccessError::DedicatedRequired { name: ShortName::NONE });
    }
    if !allowed.contains(memory_type) {
        return Err(AccessError::WrongMemoryType { memory_type, allowed, name: ShortName::NONE });
    }
    if size > available {
        return Err(AccessError::OutOfRange { offset, size, available, name: ShortName::NONE });
    }
    if !alignment.is_aligned(offset) {
        return Err(AccessError::Misaligned { offset, alignment: alignment.get(), name: ShortName::NONE });
    }
    Ok(())
}

#[inline]
pub(crate) fn check_range(offset: u64, size: u64, available: u64) -> Result<(), AccessError> {
    match offset.checked_add(size) {
        Some(end) if end <= available => Ok(()),
        _ => Err(AccessError::OutOfRange { offset, size, available, name: ShortName::NONE }),
    }
}
