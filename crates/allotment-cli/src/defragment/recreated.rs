//! A resource that is created again in its new place, until it replaces the old one.

use allotment::Allocator;
use allotment::device::{Device, DeviceError};
use allotment::memory::MemoryLocation;

use crate::failure::Failure;
use crate::replay::{Live, unexpected};
use crate::target::Plan;

/// The object that a move creates in the new place.
pub(super) enum Recreated<D: Device> {
    /// Nothing: no object is bound to the memory.
    Memory,
    Buffer(D::Buffer),
    Image(D::Image),
}

impl<D: Device> Recreated<D> {
    pub(super) fn new(device: &D, plan: &Plan, to: &MemoryLocation<D>) -> Result<Self, DeviceError> {
        match *plan {
            Plan::Memory { .. } => Ok(Self::Memory),
            Plan::Buffer(desc) | Plan::BufferForImage(desc) => {
                // SAFETY: the place is reserved for the resource, with the size and alignment that its description
                // needs, in memory that lives as long as the reservation.
                unsafe { device.create_buffer(&desc.into(), to.memory, to.offset) }.map(Self::Buffer)
            }
            Plan::Image(desc) => {
                // SAFETY: as above.
                unsafe { device.create_image(&desc.into(), to.memory, to.offset) }.map(Self::Image)
            }
        }
    }

    /// Replaces the old object, which is destroyed. Called after the pass has ended, with all copies complete.
    pub(super) fn replace(self, allocator: &Allocator<D>, live: &mut Live<D>) -> Result<(), Failure> {
        let device = allocator.device();
        match (self, live) {
            (Self::Buffer(new), Live::Buffer(live)) => {
                // SAFETY: created with the description of the old one, where the allocation is now.
                let old = unsafe { allocator.set_handle(live, new) }.map_err(unexpected)?;
                // SAFETY: no queue uses it any more.
                unsafe { device.destroy_buffer(old) };
            }
            (Self::Image(new), Live::Image(live)) => {
                // SAFETY: created with the description of the old one, where the allocation is now.
                let old = unsafe { allocator.set_handle(live, new) }.map_err(unexpected)?;
                // SAFETY: no queue uses it any more.
                unsafe { device.destroy_image(old) };
            }
            // Plain memory; a resource is created again as what it was.
            (new, _) => new.destroy(device),
        }
        Ok(())
    }

    /// Destroys the new object, which no queue uses.
    pub(super) fn destroy(self, device: &D) {
        match self {
            Self::Memory => {}
            // SAFETY: created by `new`; no queue uses it.
            Self::Buffer(buffer) => unsafe { device.destroy_buffer(buffer) },
            // SAFETY: as above.
            Self::Image(image) => unsafe { device.destroy_image(image) },
        }
    }
}
