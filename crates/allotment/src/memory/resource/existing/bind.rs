//! Memory for a resource that exists, and the binding of the two, where an API separates these.

use crate::device::{DedicatedNeed, Device, DeviceError, MemoryDesc, Requirements};
use crate::memory::allocator::Allocator;
use crate::memory::pool::DedicatedForResource;
use crate::memory::request::AllocationRequest;
use crate::memory::resource::ResourceError;
use crate::memory::token::Allocation;
use crate::memory::{AllocationError, AllocationOptions, Movability};

impl<D: Device> Allocator<D> {
    /// Allocates memory for a resource that is bound later: dedicated memory where its requirements or `options` ask
    /// for it, else a part of a block. `memory_options` dedicate memory to the resource.
    #[track_caller]
    pub(crate) fn allocate_for_existing(
        &self,
        requirements: &Requirements,
        options: &AllocationOptions,
        memory_options: &D::MemoryOptions,
    ) -> Result<Allocation, AllocationError> {
        let request = &AllocationRequest::new(requirements, options);
        let dedicated = || {
            // Only the caller can create the resource again, so a pass must not move its memory.
            let options = options.clone().with_movability(Movability::Pinned);
            let make = |memory: &MemoryDesc<'_, _>| self.device().allocate_memory(memory).map(|m| (m, ()));
            self.allocate_dedicated(
                &request.with_options(&options),
                Some(memory_options),
                true,
                make,
                |()| {},
            )
            .map(|(allocation, ())| allocation)
        };
        let allocation = match self.pools.dedicated_for_resource(request, false) {
            DedicatedForResource::Required => dedicated(),
            // The driver prefers dedicated memory and does not require it, so a block serves as well.
            DedicatedForResource::Preferred => dedicated().or_else(|_| self.allocate_for_request(request)),
            DedicatedForResource::No => self.allocate_for_request(request),
        }?;
        self.note_call_site(allocation.id());
        Ok(allocation)
    }

    /// Calls `bind` with the place `offset` bytes into an allocation, once the requirements are found to hold there.
    pub(crate) fn bind_existing(
        &self,
        allocation: &Allocation,
        offset: u64,
        requirements: &Requirements,
        bind: impl FnOnce(D::Memory, u64) -> Result<(), DeviceError>,
    ) -> Result<(), ResourceError> {
        let bound = self.bind_existing_unnamed(allocation, offset, requirements, bind);
        bound.map_err(|error| error.of(self.name_of(allocation)))
    }

    fn bind_existing_unnamed(
        &self,
        allocation: &Allocation,
        offset: u64,
        requirements: &Requirements,
        bind: impl FnOnce(D::Memory, u64) -> Result<(), DeviceError>,
    ) -> Result<(), ResourceError> {
        // Held over the driver call: a reset of the pool must not free the memory before the resource is bound.
        let _held = self.hold(allocation).map_err(ResourceError::Access)?;
        let mut requirements = *requirements;
        if requirements.dedicated == DedicatedNeed::Required
            && self.info(allocation).map_err(ResourceError::Access)?.dedicated
        {
            // The caller promises that the memory was allocated for this resource, which a driver cannot tell either.
            requirements.dedicated = DedicatedNeed::None;
        }
        // Not `place_within`, which refuses memory dedicated to a resource: this may be that very resource.
        let place = self.place_inside(allocation, offset, &requirements).map_err(ResourceError::Access)?;
        bind(place.memory, place.offset).map_err(ResourceError::from)
    }
}
