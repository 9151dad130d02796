//! All live allocations as values, for a program's own memory window or report.

use super::Reports;
use crate::device::{Device, MemoryHandle as _};
use crate::events::AllocationKey;
use crate::memory::allocator::Allocator;
use crate::memory::pool::{Detail, Pool, PoolSlot, PoolState};
use crate::memory::token::{AllocationId, Traits};
use crate::memory::{AccessError, AllocationError, AllocationInfo, Name};

/// A live allocation; see [`Reports::allocations`].
#[doc(alias = "AllocationReport")]
#[derive(Debug)]
#[non_exhaustive]
pub struct ListedAllocation<D: Device> {
    /// Its id, for the calls that take one.
    pub id: AllocationId,
    /// The name of its pool; of a default pool, the resources that it serves.
    pub pool: Name,
    /// True when its owner released it, and it waits until the GPU has finished with it.
    pub released: bool,
    /// Block, offset, sizes, name, category, user data, call site.
    pub info: AllocationInfo<D>,
}

// Not derived, since it is cloned whether or not the device can be.
impl<D: Device> Clone for ListedAllocation<D> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), info: self.info.clone(), ..*self }
    }
}

impl<D: Device> ListedAllocation<D> {
    /// Returns the debug name of the allocation, if it has one.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// assert_eq!(allocator.reports().allocations()[0].name(), Some("mesh"));
    /// # allocator.free(mesh)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.info.name.as_ref().map(Name::as_str)
    }
}

impl AllocationId {
    /// Returns the key by which [events](crate::events) name the allocation.
    #[must_use]
    pub fn key(self) -> AllocationKey {
        AllocationKey(u64::from(self.pool) << 32 | u64::from(self.record))
    }
}

impl<D: Device> Reports<'_, D> {
    /// Returns all live allocations, pool by pool, in no particular order in a pool. O(allocations), about 100 ns each.
    ///
    /// An allocation that lives during the whole call is listed once, as it was at some moment of the call; one that another
    /// thread makes or frees meanwhile may be listed or not. Locks one pool after the other, for some hundred allocations at
    /// a time: other threads wait for less than 200 µs.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// for listed in allocator.reports().allocations() {
    ///     let info = &listed.info;
    ///     println!("{:?}: {} bytes at {} of {:?} ({})", listed.name(), info.size, info.offset, info.memory, listed.pool);
    /// }
    /// assert_eq!(allocator.reports().allocations()[0].id, mesh.id());
    /// # allocator.free(mesh)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    #[doc(alias("generate_report", "AllocatorReport"))]
    #[must_use]
    pub fn allocations(&self) -> Vec<ListedAllocation<D>> {
        let mut listed = Vec::new();
        for (index, slot) in self.allocator.settled().indexed_slots() {
            self.allocator.list(slot, index, &mut listed);
        }
        listed
    }

    /// Returns the live allocations of a custom pool, as [`allocations`](Self::allocations).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// # let best = allocator.explain(&Requirements::new(1024), &MemoryUsage::GpuOnly.into())[0].memory_type;
    /// let pool = allocator.create_pool(PoolDesc::new([best]))?;
    /// let tile = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.with_pool(&pool))?;
    /// assert_eq!(allocator.reports().pool_allocations(&pool)?.len(), 1);
    /// # allocator.free(tile)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AllocationError::WrongPool`] when the pool is from another allocator.
    pub fn pool_allocations(&self, pool: &Pool) -> Result<Vec<ListedAllocation<D>>, AllocationError> {
        let mut listed = Vec::new();
        for (index, slot) in self.allocator.settled().slots_of(pool)? {
            self.allocator.list(slot, index, &mut listed);
        }
        Ok(listed)
    }

    /// Returns everything that is known of the allocation with this id, for tools that do not have the token.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// use allotment::memory::AccessError;
    ///
    /// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// let selected = mesh.id(); // what a memory window keeps
    /// assert_eq!(allocator.reports().info(selected)?.size, 1000);
    /// allocator.free(mesh)?;
    /// assert_eq!(allocator.reports().info(selected).err(), Some(AccessError::Stale));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AccessError::Stale`] when the allocation was freed, [`AccessError::WrongAllocator`] when it is from another
    /// allocator.
    #[inline(never)]
    pub fn info(&self, id: AllocationId) -> Result<AllocationInfo<D>, AccessError> {
        self.allocator().info_of(id)
    }
}

impl<D: Device> Allocator<D> {
    fn list(&self, slot: &PoolSlot<D>, index: u32, listed: &mut Vec<ListedAllocation<D>>) {
        let default_name = self.pools.default_pool_name(index);
        let list = |state: &PoolState<D>, record, _: &Detail| {
            let entry = slot.records.get(record)?;
            let generation = entry.generation();
            let id = AllocationId { allocator: self.id(), pool: index, record, generation };
            let info = state.allocation_info(slot, record)?;
            let pool = state.rules.name.as_ref().unwrap_or(&default_name).clone();
            Some(ListedAllocation { id, pool, released: entry.is_released(), info })
        };
        slot.each_live(list, |allocation| listed.push(allocation));
    }
}

impl<D: Device> PoolState<D> {
    /// Describes a live allocation.
    pub(crate) fn allocation_info(&self, slot: &PoolSlot<D>, record: u32) -> Option<AllocationInfo<D>> {
        let (detail, label, entry) = (self.detail(record)?, self.label(record), slot.records.get(record)?);
        let set = &self.sets[usize::from(detail.set)];
        // Only the holder of the lock writes a record, so this is the location that belongs to the detail.
        let (place, range) = (entry.read(&slot.objects), detail.range());
        Some(AllocationInfo {
            memory: D::Memory::from_raw(place.memory),
            offset: place.offset,
            size: place.size,
            mapped_ptr: place.address,
            memory_type: place.memory_type(),
            occupied: set.bytes_taken(&range, detail.occupied, place.memory_size),
            kind: detail.kind(),
            name: label.name.clone(),
            call_site: label.call_site.clone(),
            user_data: label.user_data,
            category: label.category,
            dedicated: range.dedicated,
            dedicated_to_resource: place.traits.has(Traits::DEDICATED_TO_RESOURCE),
            block: range.block,
            block_size: place.memory_size,
            maps: entry.maps(),
            movability: detail.movability(),
            moving: place.traits.has(Traits::MOVING),
        })
    }
}
