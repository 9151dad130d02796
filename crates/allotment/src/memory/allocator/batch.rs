//! Many allocations of one description at once, all or none: for example the pages of a sparse resource.

use crate::device::{Device, Requirements};
use crate::memory::allocator::Allocator;
use crate::memory::token::Allocation;
use crate::memory::{AllocationError, AllocationOptions, ShortName, WrongAllocator};

impl<D: Device> Allocator<D> {
    /// Makes `count` allocations with the same requirements and options, all or none.
    ///
    /// # Errors
    ///
    /// The error of the first allocation that fails; [`AllocationError::TooManyAllocations`] also if `count` is above
    /// 2^32 - 1, or the host has no memory for the tokens. The allocations before it are freed.
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
    /// assert!(allocator.free_many(pages).is_empty(), "all belong to this allocator");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    #[doc(alias("vmaAllocateMemoryPages", "allocate_memory_pages"))]
    #[track_caller]
    pub fn allocate_many(
        &self,
        requirements: &Requirements,
        options: &AllocationOptions,
        count: usize,
    ) -> Result<Vec<Allocation>, AllocationError> {
        let Ok(count) = u32::try_from(count) else {
            return Err(AllocationError::TooManyAllocations { limit: u32::MAX, name: ShortName::NONE });
        };
        // Reserved one by one, not for `count`: a count that is far too large fails at the memory limit of the device,
        // and takes no more host memory than the tokens up to there.
        let mut made = Vec::new();
        for index in 0..count {
            let room = made
                .try_reserve(1)
                .map_err(|_| AllocationError::TooManyAllocations { limit: index, name: ShortName::NONE });
            // Not by `and_then`: the call site of a call in a closure is the closure.
            let allocated = match room {
                Ok(()) => self.allocate(requirements, options),
                Err(full) => Err(full),
            };
            match allocated {
                Ok(allocation) => made.push(allocation),
                Err(error) => {
                    // Allocated above by this allocator, so none is returned.
                    let _ = self.free_many(made);
                    return Err(error);
                }
            }
        }
        Ok(made)
    }

    /// Frees those of `allocations` that belong to this allocator, and returns the others. The GPU must have finished
    /// all use of their memory.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let other = Allocator::new(allocator.device().clone(), AllocatorDesc::default())?;
    /// let page = Requirements::new(65536);
    /// let mut pages = allocator.allocate_many(&page, &MemoryUsage::GpuOnly.into(), 10)?;
    /// pages.push(other.allocate(&page, &MemoryUsage::GpuOnly.into())?);
    /// let returned = allocator.free_many(pages);
    /// assert_eq!(returned.len(), 1);
    /// assert!(other.free_many(returned).is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("vmaFreeMemoryPages", "free_memory_pages"))]
    #[must_use = "allocations of other allocators are returned and still allocated"]
    pub fn free_many(&self, allocations: impl IntoIterator<Item = Allocation>) -> Vec<Allocation> {
        let free = |allocation| self.free(allocation).err().map(|WrongAllocator(allocation)| allocation);
        allocations.into_iter().filter_map(free).collect()
    }
}
