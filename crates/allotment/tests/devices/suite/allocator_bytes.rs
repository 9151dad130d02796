//! An allocator over the device: bytes arrive, for every usage and in every memory type.

use core::ptr::NonNull;

use allotment::device::{
    BufferCopy, BufferDesc, BufferDevice, DeviceError, ImageDesc, ImageDevice as _, MemoryProperties,
    QueueDevice as _, QueueIndex, Submission, Tiling, TimelinePoint,
};
use allotment::memory::{Dedicated, ResourceError};
use allotment::{AllocationOptions, MemoryUsage};

use super::allocator::{AllocateWanted as _, KIB, MIB, Rig};
use crate::bytes::{assert_same, pattern};
use crate::fixture::{Fixture, Outcome, Test, tests};
use crate::gpu::{Gpu, PATIENCE};

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        an_allocation_for_every_intent_keeps_its_bytes,
        a_buffer_of_the_allocator_keeps_its_bytes_alone_and_among_others,
        an_upload_in_parts_arrives_whole,
        what_the_cpu_writes_to_a_mapped_allocation_the_device_sees,
        resources_over_one_allocation_share_its_bytes,
        images_beside_buffers_do_not_touch_their_bytes,
        images_of_the_allocator_are_made_and_destroyed,
        a_refused_resource_leaves_nothing,
    ]
}

fn an_allocation_for_every_intent_keeps_its_bytes<F: Fixture>(gpu: &Gpu<F>) {
    let rig = Rig::new(gpu);
    let mut transfer = rig.transfer();
    let mut live = Vec::new();
    for (seed, memory_usage) in (0..).zip(MemoryUsage::ALL) {
        for size in [1, 100, 5003, 300 * KIB] {
            let allocation = rig.allocate_wanted(&rig.wanted(size, memory_usage)).unwrap();
            let bytes = pattern(seed + size, size);
            transfer.upload(&allocation, 0, &bytes).unwrap();
            live.push((allocation, bytes, memory_usage));
        }
    }
    for (allocation, bytes, memory_usage) in live {
        rig.assert_holds(&mut transfer, &allocation, &bytes, memory_usage);
        rig.free(allocation).unwrap();
    }
    drop(transfer);
}

fn a_buffer_of_the_allocator_keeps_its_bytes_alone_and_among_others<F: Fixture>(gpu: &Gpu<F>) {
    let rig = Rig::new(gpu);
    let mut transfer = rig.transfer();
    let mut live = Vec::new();
    for memory_usage in MemoryUsage::ALL {
        for dedicated in [Dedicated::Automatic, Dedicated::Always, Dedicated::Never] {
            let desc = AllocationOptions::new(memory_usage).with_dedicated(dedicated).with_name("mesh");
            let buffer = rig.create_buffer(&BufferDesc::new(70_001).into(), &desc).unwrap();
            let bytes = pattern(live.len() as u64, 70_001);
            transfer.upload_to(&buffer, 0, &bytes).unwrap();
            live.push((buffer, bytes));
        }
    }
    for (i, (buffer, bytes)) in live.into_iter().enumerate() {
        let mut found = vec![0; bytes.len()];
        transfer.download_from(&buffer, 0, &mut found).unwrap();
        assert_same(&found, &bytes, i);
        rig.destroy_buffer(buffer).unwrap();
    }
    drop(transfer);
}

fn an_upload_in_parts_arrives_whole<F: Fixture>(gpu: &Gpu<F>) {
    let rig = Rig::new(gpu);
    let mut transfer = rig.transfer();
    for memory_usage in MemoryUsage::ALL {
        // More than a chunk of the transfer, at offsets that are multiples of nothing.
        let allocation = rig.allocate_wanted(&rig.wanted(200_003, memory_usage)).unwrap();
        let mut expected = pattern(1, 200_003);
        transfer.upload(&allocation, 0, &expected).unwrap();
        for (offset, size) in [(199_999, 4), (1, 66_000), (65_535, 2), (77_777, 100_001)] {
            let part = pattern(offset, size);
            transfer.upload(&allocation, offset, &part).unwrap();
            expected[offset as usize..][..part.len()].copy_from_slice(&part);
        }
        rig.assert_holds(&mut transfer, &allocation, &expected, memory_usage);
        rig.free(allocation).unwrap();
    }
    drop(transfer);
}

/// Copies one buffer's bytes to another on the first queue and waits for it.
fn copy<F: Fixture>(
    gpu: &Gpu<F>,
    from: &<F::Device as BufferDevice>::Buffer,
    to: &<F::Device as BufferDevice>::Buffer,
    size: u64,
) {
    let queue = QueueIndex(0);
    let copies = [BufferCopy { from, from_offset: 0, to, to_offset: 0, size }];
    // SAFETY: the callers' buffers are as large as that, and live until the wait below is over.
    let value =
        unsafe { gpu.device().submit(queue, &Submission { copies: &copies, ..Submission::default() }) }
            .unwrap();
    let waited = gpu.device().wait(TimelinePoint { queue, value }, PATIENCE);
    assert_eq!(waited, Ok(()));
}

fn what_the_cpu_writes_to_a_mapped_allocation_the_device_sees<F: Fixture>(gpu: &Gpu<F>) {
    let rig = Rig::new(gpu);
    let wanted = |memory_usage| AllocationOptions::new(memory_usage);
    let desc = BufferDesc::new(5003).into();
    let from = rig.create_buffer(&desc, &wanted(MemoryUsage::Upload)).unwrap();
    let to = rig.create_buffer(&desc, &wanted(MemoryUsage::Readback)).unwrap();
    for round in 0..3 {
        let bytes = pattern(round, 5003);
        let at: NonNull<u8> = rig.map(from.allocation()).unwrap();
        // SAFETY: the allocation has that many bytes, is mapped, and nothing else uses it now.
        unsafe { at.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        rig.unmap(from.allocation()).unwrap();
        rig.flush(from.allocation(), 0..1001).unwrap();
        rig.flush(from.allocation(), 1001..5003).unwrap();
        copy(gpu, from.handle(), to.handle(), 5003);
        rig.invalidate(to.allocation(), 0..5003).unwrap();
        let mut found = vec![0; 5003];
        rig.read(to.allocation(), 0, &mut found).unwrap();
        assert_same(&found, &bytes, round);
    }
    rig.destroy_buffer(from).unwrap();
    rig.destroy_buffer(to).unwrap();
}

fn resources_over_one_allocation_share_its_bytes<F: Fixture>(gpu: &Gpu<F>) {
    let rig = Rig::new(gpu);
    let small = gpu.requirements(4096);
    let shift = small.alignment.align_up(4096);
    let whole = rig.wanted(shift + small.size, MemoryUsage::Upload);
    let allocation = rig.allocate_wanted(&whole).unwrap();
    let bytes = pattern(3, shift + 4096);
    rig.write(&allocation, 0, &bytes).unwrap();
    let readback = AllocationOptions::new(MemoryUsage::Readback);
    let to = rig.create_buffer(&BufferDesc::new(4096).into(), &readback).unwrap();
    for offset in [0, shift, 0] {
        let part = rig.create_aliasing_buffer(&allocation, offset, &BufferDesc::new(4096).into()).unwrap();
        copy(gpu, &part, to.handle(), 4096);
        // SAFETY: from this device, and the queue is done with it.
        unsafe { gpu.device().destroy_buffer(part) };
        let mut found = vec![0; 4096];
        rig.read(to.allocation(), 0, &mut found).unwrap();
        assert_same(&found, &bytes[offset as usize..][..4096], offset);
    }
    let beyond = rig.create_aliasing_buffer(&allocation, shift + small.size, &BufferDesc::new(4096).into());
    assert!(matches!(beyond, Err(ResourceError::Access(_))));
    rig.destroy_buffer(to).unwrap();
    rig.free(allocation).unwrap();
}

/// Small images of each tiling that there is, the linear one last.
fn images<F: Fixture>(gpu: &Gpu<F>) -> Vec<ImageDesc> {
    let optimal = ImageDesc::new(65, 33, gpu.fixture().image_format());
    let mut linear = optimal;
    linear.tiling = Tiling::Linear;
    if gpu.fixture().has_linear_images() { vec![optimal, linear] } else { vec![optimal] }
}

fn images_beside_buffers_do_not_touch_their_bytes<F: Fixture>(gpu: &Gpu<F>) {
    let rig = Rig::new(gpu);
    let mut transfer = rig.transfer();
    let mut buffers = Vec::new();
    let mut made = Vec::new();
    for round in 0..20 {
        let size = 100 + 977 * round;
        let buffer = rig.allocate_wanted(&rig.wanted(size, MemoryUsage::GpuOnly)).unwrap();
        transfer.upload(&buffer, 0, &pattern(round, size)).unwrap();
        buffers.push((buffer, pattern(round, size)));
        for desc in images(gpu) {
            let wish = MemoryUsage::GpuOnly.with_name("image");
            made.push(rig.create_image(&desc.into(), &wish).unwrap());
        }
    }
    rig.check_invariants();
    for (i, (buffer, bytes)) in buffers.into_iter().enumerate() {
        rig.assert_holds(&mut transfer, &buffer, &bytes, i);
        rig.free(buffer).unwrap();
    }
    for image in made {
        rig.destroy_image(image).unwrap();
    }
    drop(transfer);
}

fn images_of_the_allocator_are_made_and_destroyed<F: Fixture>(gpu: &Gpu<F>) {
    let rig = Rig::new(gpu);
    for desc in images(gpu) {
        let needs = gpu.device().image_requirements(&desc.into()).unwrap();
        for dedicated in [Dedicated::Automatic, Dedicated::Always, Dedicated::Never] {
            let wish = AllocationOptions::new(MemoryUsage::GpuOnly).with_dedicated(dedicated);
            let image = rig.create_image(&desc.into(), &wish).unwrap();
            let place = rig.location(image.allocation()).unwrap();
            assert_eq!(place.size, needs.size);
            assert!(needs.alignment.is_aligned(place.offset), "{}", place.offset);
            assert!(needs.memory_types.contains(place.memory_type), "{desc:?}");
            let info = rig.info(image.allocation()).unwrap();
            assert_eq!(info.kind, gpu.device().image_kind(&desc.into()));
            assert!(info.dedicated || dedicated != Dedicated::Always);
            rig.destroy_image(image).unwrap();
        }
    }
    // By turns with a buffer, in one allocation; an optimal image where it may be that near to buffers.
    let image = *images(gpu).last().unwrap();
    let limits = gpu.properties().limits;
    if image.tiling == Tiling::Optimal && limits.buffer_image_granularity.get() > 1 {
        return;
    }
    let either = gpu.device().image_requirements(&image.into()).unwrap().or(gpu.requirements(4096));
    let Ok(allocation) = rig.allocate(&either, &MemoryUsage::GpuOnly.into()) else {
        assert_eq!(either.memory_types.0, 0, "only where no memory takes both");
        return;
    };
    for _ in 0..3 {
        let image = rig.create_aliasing_image(&allocation, 0, &image.into()).unwrap();
        // SAFETY: from this device, and no queue ever used it.
        unsafe { gpu.device().destroy_image(image) };
        let buffer = rig.create_aliasing_buffer(&allocation, 0, &BufferDesc::new(4096).into()).unwrap();
        // SAFETY: as above.
        unsafe { gpu.device().destroy_buffer(buffer) };
    }
    rig.free(allocation).unwrap();
}

fn a_refused_resource_leaves_nothing<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let rig = Rig::new(gpu);
    gpu.fixture().expect_complaints("allocate: ");
    let wish = AllocationOptions::new(MemoryUsage::GpuOnly);
    for size in [0, u64::MAX] {
        let refused = rig.create_buffer(&BufferDesc::new(size).into(), &wish);
        assert!(
            matches!(refused, Err(ResourceError::Device { source: DeviceError::InvalidDescription(_), .. })),
            "{refused:?}"
        );
    }
    let refused = rig.create_image(&ImageDesc::new(0, 1, gpu.fixture().image_format()).into(), &wish);
    assert!(
        matches!(refused, Err(ResourceError::Device { source: DeviceError::InvalidDescription(_), .. })),
        "{refused:?}"
    );
    // The device creates the buffer; no memory type has the properties that the request demands.
    let mut nowhere = wish.clone();
    nowhere.required = MemoryProperties::PROTECTED | MemoryProperties::HOST_VISIBLE;
    for dedicated in [Dedicated::Automatic, Dedicated::Always] {
        let refused =
            rig.create_buffer(&BufferDesc::new(64).into(), &nowhere.clone().with_dedicated(dedicated));
        assert!(matches!(refused, Err(ResourceError::Allocation(_))), "{refused:?}");
    }
    let limited = Rig::with(gpu, |desc| {
        desc.heap_limits =
            (0..rig.heap_count()).map(|heap| (allotment::device::MemoryHeapIndex(heap), MIB)).collect();
    });
    for dedicated in [Dedicated::Automatic, Dedicated::Always, Dedicated::Never] {
        let wish = wish.clone().with_dedicated(dedicated);
        let refused = limited.create_buffer(&BufferDesc::new(2 * MIB).into(), &wish);
        assert!(matches!(refused, Err(ResourceError::Allocation(_))), "{refused:?}");
        assert_eq!(limited.statistics().block_bytes, 0, "{dedicated:?}");
    }
    assert_eq!(rig.statistics().block_bytes, 0);
    Outcome::Ran
}
