//! This library.
//!
//! It is generic over its device, so that which one it runs on is said in one place: [`OwnDevice`] and
//! [`own_device`].

use allotment::device::host::{HostDevice, Profile};
use allotment::memory::BlockSizes;
use allotment::{
    Alignment, Allocation, AllocationDesc, Allocator, AllocatorDesc, Device, Intent, Requirements,
    ResourceKind,
};

use super::{Blocks, Contender, Kind, Refusal, Request, Role};
use crate::failure::Failure;
use crate::vulkan::{Gpu, Reading};

const NAME: &str = "allotment";

/// The device that the library runs on here: the simulated one, until it can be `gpu` itself.
pub(crate) type OwnDevice = HostDevice;

/// The library's device, and what the tables must say of it.
pub(crate) fn own_device(gpu: &Gpu) -> Result<(OwnDevice, &'static str), Failure> {
    let (profile, note) = if gpu.info.software {
        ("integrated", "allotment runs on its simulated device (profile integrated), the others on Vulkan")
    } else {
        ("nvidia-h200", "allotment runs on its simulated device (profile nvidia-h200), the others on Vulkan")
    };
    let profile = Profile::named(profile)
        .ok_or_else(|| Failure::Setup { contender: NAME, error: format!("there is no profile {profile}") })?;
    Ok((HostDevice::new(profile), note))
}

/// The library's allocator over any device.
pub(crate) struct Allotment<D: Device> {
    allocator: Allocator<D>,
}

impl<D: Device> Allotment<D> {
    pub(crate) fn new(device: D, blocks: Blocks) -> Result<Self, Failure> {
        let mut desc = AllocatorDesc::default();
        if let Blocks::Fixed(size) = blocks {
            desc.block_sizes = BlockSizes::fixed(size);
        }
        let allocator = Allocator::new(device, desc)
            .map_err(|error| Failure::Setup { contender: NAME, error: error.to_string() })?;
        Ok(Self { allocator })
    }
}

impl<D: Device> Contender for Allotment<D> {
    type Token = Allocation;

    fn name(&self) -> &'static str {
        NAME
    }

    fn allocate(&self, request: &Request) -> Result<Allocation, Refusal> {
        let alignment = Alignment::new(request.alignment).map_err(Refusal::new)?;
        let intent = match request.role {
            Role::Device => Intent::Device,
            Role::Upload => Intent::Upload,
            Role::Readback => Intent::Readback,
            Role::DeviceHostWrite => Intent::DeviceHostWrite,
        };
        let kind = match request.kind {
            Kind::Buffer => ResourceKind::Buffer,
            Kind::Image => ResourceKind::OptimalImage,
        };
        let desc = AllocationDesc::new(Requirements::new(request.size).aligned(alignment), intent);
        self.allocator.allocate(&desc.of_kind(kind)).map_err(Refusal::new)
    }

    fn free(&self, token: Allocation) -> Result<(), Refusal> {
        self.allocator.free(token).map_err(Refusal::new)
    }

    fn end_frame(&self) {
        self.allocator.end_frame();
    }

    fn reading(&self) -> Reading {
        let calls = self.allocator.device_calls();
        Reading {
            allocate_calls: calls.allocate,
            free_calls: calls.free,
            reserved_bytes: self.allocator.heap_reports().iter().map(|report| report.reserved).sum(),
        }
    }
}
