//! What a request and a device say of a resource, and what becomes of both.

use allotment::device::host::HostDevice;
use allotment::device::{BufferDesc, DedicatedNeed, Device as _, ImageDesc, Requirements};
use allotment::memory::{AccessError, Buffer, Dedicated, ResourceError};
use allotment::{Allocation, AllocationError, Allocator, AllocatorDesc, Intent};

use crate::gated::GatedDevice;
use crate::rig::{COARSE, DISCRETE, KIB, MIB, Rig, aligned, profile, wanted};

/// A buffer and an image that require dedicated memory on a [`GatedDevice`].
fn demanding() -> (BufferDesc, ImageDesc) {
    let mut image = ImageDesc::new(64, 64, 4);
    image.usage = GatedDevice::REQUIRES_DEDICATED;
    (BufferDesc::new(64 * KIB).with_usage(GatedDevice::REQUIRES_DEDICATED), image)
}

fn gated() -> Allocator<GatedDevice> {
    let device = GatedDevice::new(HostDevice::new(profile(DISCRETE)));
    Allocator::new(device, AllocatorDesc::default()).unwrap()
}

#[test]
fn a_resource_that_requires_dedicated_memory_is_made_in_no_other_allocation() {
    let allocator = gated();
    let (buffer, image) = demanding();
    let required = Requirements { dedicated: DedicatedNeed::Required, ..Requirements::new(MIB) };
    let mut requests =
        [wanted(MIB, Intent::Device), wanted(MIB, Intent::Device), wanted(MIB, Intent::Device)];
    requests[1].dedicated = Dedicated::Always;
    requests[2].requirements = required;
    for desc in requests {
        let memory = allocator.allocate(&desc).unwrap();
        let refused = ResourceError::Access(AccessError::DedicatedRequired);
        assert_eq!(allocator.create_buffer_in(&memory, 0, &buffer).unwrap_err(), refused);
        assert_eq!(allocator.create_image_in(&memory, 0, &image).unwrap_err(), refused);
        let placed = allocator.place_within(&memory, 0, &Requirements { size: KIB, ..required });
        assert_eq!(placed.unwrap_err(), AccessError::DedicatedRequired);
        allocator.free(memory).unwrap();
    }
    let usage = allocator.device().inner.usage();
    assert_eq!((usage.buffers, usage.images), (0, 0));
    // What the error says to do.
    let made = allocator.create_buffer(&buffer, &wanted(1, Intent::Device)).unwrap();
    let info = allocator.info(made.allocation().id()).unwrap();
    assert!(info.dedicated && info.exclusive);
    allocator.destroy_buffer(made).unwrap();
    let made = allocator.create_image(&image, &wanted(1, Intent::Device)).unwrap();
    assert!(allocator.info(made.allocation().id()).unwrap().exclusive);
    allocator.destroy_image(made).unwrap();
}

#[test]
fn a_resource_that_requires_dedicated_memory_is_refused_where_the_request_rules_that_out() {
    let allocator = gated();
    let (buffer, image) = demanding();
    let never = wanted(1, Intent::Device).dedicated(Dedicated::Never);
    let refused = ResourceError::Allocation(AllocationError::DedicatedRequired);
    assert_eq!(allocator.create_buffer(&buffer, &never).unwrap_err(), refused);
    assert_eq!(allocator.create_image(&image, &never).unwrap_err(), refused);
    assert_eq!(allocator.device_calls().allocate, 0);
}

#[test]
fn a_resource_stands_at_a_multiple_of_the_alignment_that_the_request_asks_for() {
    for profile in [DISCRETE, COARSE] {
        let rig = Rig::new(profile);
        let offset = |allocation: &Allocation| rig.place(allocation).unwrap().offset;
        let fillers: Vec<Buffer<HostDevice>> = (0..3)
            .map(|_| rig.create_buffer(&BufferDesc::new(100), &wanted(1, Intent::Device)).unwrap())
            .collect();
        let mut desc = wanted(1, Intent::Device);
        desc.requirements = aligned(1, 4096);
        let buffers: Vec<_> =
            (0..3).map(|_| rig.create_buffer(&BufferDesc::new(100), &desc).unwrap()).collect();
        for buffer in &buffers {
            assert_eq!(offset(buffer.allocation()) % 4096, 0, "{profile}");
        }
        let images: Vec<_> =
            (0..3).map(|_| rig.create_image(&ImageDesc::new(3, 3, 1), &desc).unwrap()).collect();
        for image in &images {
            assert_eq!(offset(image.allocation()) % 4096, 0, "{profile}");
            assert_eq!(rig.place(image.allocation()).unwrap().size, image.size());
        }
        // The device's own wish stays where the request asks for less.
        let own = rig.device.buffer_requirements(&BufferDesc::new(100)).unwrap();
        desc.requirements = aligned(1, 1);
        let last = rig.create_buffer(&BufferDesc::new(100), &desc).unwrap();
        assert!(own.alignment.is_aligned(offset(last.allocation())));
        fillers
            .into_iter()
            .chain(buffers)
            .chain([last])
            .for_each(|buffer| rig.destroy_buffer(buffer).unwrap());
        images.into_iter().for_each(|image| rig.destroy_image(image).unwrap());
    }
}
