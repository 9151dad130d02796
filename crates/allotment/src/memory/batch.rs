//! Many allocations of one kind at once, all or nothing: the pages of a sparse resource.

use super::allocator::{Allocation, Allocator};
use super::{AllocationError, AllocationOptions, WrongAllocator};
use crate::device::{Device, Requirements};

impl<D: Device> Allocator<D> {
    /// Makes `count` allocations with the same requirements and options, all or none.
    ///
    /// # Errors
    ///
    /// What the first refusal was; [`AllocationError::TooManyAllocations`] as well where `count` is above 2^32 - 1, or
    /// the host has no memory for so many tokens. Whatever was allocated before it is free again.
    ///
    /// ```
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    /// use allotment::{Alignment, Allocator, AllocatorDesc, MemoryUsage, Requirements};
    ///
    /// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let page = Requirements::new(65536).with_alignment(Alignment::new(65536)?);
    /// let options = MemoryUsage::GpuOnly.with_name("virtual texture");
    /// let pages = allocator.allocate_many(&page, &options, 100)?;
    /// assert_eq!(allocator.statistics().allocation_bytes, 100 * 65536);
    /// assert!(allocator.free_many(pages).is_empty(), "all were this allocator's");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn allocate_many(
        &self,
        requirements: &Requirements,
        options: &AllocationOptions,
        count: usize,
    ) -> Result<Vec<Allocation>, AllocationError> {
        let Ok(count) = u32::try_from(count) else {
            return Err(AllocationError::TooManyAllocations { limit: u32::MAX });
        };
        // Room for the tokens is made as they come: a count that is never reached takes no memory of the host.
        let mut made = Vec::new();
        for index in 0..count {
            let room = made.try_reserve(1).map_err(|_| AllocationError::TooManyAllocations { limit: index });
            match room.and_then(|()| self.allocate(requirements, options)) {
                Ok(allocation) => made.push(allocation),
                Err(error) => {
                    // Made just now by this allocator, so none is foreign.
                    let _ = self.free_many(made);
                    return Err(error);
                }
            }
        }
        Ok(made)
    }

    /// Takes back all of `allocations` that are this allocator's, and returns the others. What stood in
    /// them must no longer be in use by the device.
    #[must_use = "what is foreign is still allocated"]
    pub fn free_many(&self, allocations: impl IntoIterator<Item = Allocation>) -> Vec<Allocation> {
        let free = |allocation| self.free(allocation).err().map(|WrongAllocator(allocation)| allocation);
        allocations.into_iter().filter_map(free).collect()
    }
}
