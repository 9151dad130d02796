//! This library, over the same Vulkan device as the others, with only those features enabled that they use.

use std::sync::Arc;

use allotment::device::Device;
use allotment::device::vulkan::{self, EnabledFeatures};
use allotment::memory::blocks::BlockSizes;
use allotment::{Alignment, Allocation, Allocator, AllocatorDesc, MemoryUsage, Requirements, ResourceKind};

use super::{Blocks, Contender, Kind, Refusal, Request, Role};
use crate::failure::Failure;
use crate::vulkan::{Gpu, Meter, Reading};

const NAME: &str = "allotment";

/// The library's allocator with its default options.
pub(crate) struct Allotment {
    allocator: Allocator<vulkan::Device>,
}

impl Allotment {
    pub(crate) fn new(gpu: &Arc<Gpu>, blocks: Blocks) -> Result<Self, Failure> {
        let mut desc = AllocatorDesc::default();
        if let Blocks::Fixed(size) = blocks {
            desc.block_sizes = BlockSizes::fixed(size);
        }
        let allocator = Allocator::new(gpu.metered(EnabledFeatures::empty())?, desc)
            .map_err(|error| Failure::Setup { contender: NAME, error: error.to_string() })?;
        Ok(Self { allocator })
    }

    /// Returns the bytes of its memory objects, by its own count.
    #[cfg(test)]
    pub(crate) fn own_count(&self) -> u64 {
        self.allocator.reports().memory_heaps().iter().map(|report| report.reserved).sum()
    }
}

impl Contender for Allotment {
    type Token = Allocation;

    fn name(&self) -> &'static str {
        NAME
    }

    fn allocate(&self, request: &Request) -> Result<Allocation, Refusal> {
        allocate(&self.allocator, request)
    }

    fn free(&self, token: Allocation) -> Result<(), Refusal> {
        self.allocator.free(token).map_err(Refusal::new)
    }

    fn end_frame(&self) {
        self.allocator.end_frame();
    }

    fn reading(&self) -> Reading {
        Meter::Allotment.read()
    }
}

/// Allocates what a request describes.
pub(super) fn allocate<D: Device>(
    allocator: &Allocator<D>,
    request: &Request,
) -> Result<Allocation, Refusal> {
    let alignment = Alignment::new(request.alignment).map_err(Refusal::new)?;
    let memory_usage = match request.role {
        Role::Device => MemoryUsage::GpuOnly,
        Role::Upload => MemoryUsage::Upload,
        Role::Readback => MemoryUsage::Readback,
        Role::DeviceUpload => MemoryUsage::DeviceUpload,
    };
    let kind = match request.kind {
        Kind::Buffer => ResourceKind::Buffer,
        Kind::Image => ResourceKind::OptimalImage,
    };
    let requirements = Requirements::new(request.size).with_alignment(alignment).with_kind(kind);
    allocator.allocate(&requirements, &memory_usage.into()).map_err(Refusal::new)
}
