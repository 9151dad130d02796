//! Several resources over the same bytes.

use core::time::Duration;

use allotment::device::simulated::{SimulatedBuffer, SimulatedGpu};
use allotment::device::{
    BufferCopy, BufferDesc, BufferDevice as _, ImageDesc, ImageDevice as _, MemoryDevice as _,
    MemoryTypeIndex, MemoryTypeMask, QueueDevice as _, QueueIndex, Requirements, Submission, TimelinePoint,
};
use allotment::memory::names::ShortName;
use allotment::memory::{AccessError, RawBuffer, ResourceError};
use allotment::{Alignment, MemoryUsage, ResourceKind};

use crate::rig::{AllocateWanted as _, COARSE, DISCRETE, FINE, KIB, MIB, Rig, Wanted, aligned, wanted};

const QUEUE: QueueIndex = QueueIndex(0);

/// Copies on a queue, from byte 0 to byte 0, and waits.
fn copy(rig: &Rig, from: &SimulatedBuffer, to: &SimulatedBuffer, size: u64) {
    let copy = BufferCopy { from, from_offset: 0, to, to_offset: 0, size };
    // SAFETY: both buffers live until the wait is over.
    let submitted =
        unsafe { rig.device.submit(QUEUE, &Submission { copies: &[copy], ..Submission::default() }) };
    let point = TimelinePoint { queue: QUEUE, value: submitted.unwrap() };
    assert_eq!(rig.device.wait(point, Duration::from_secs(20)), Ok(()));
}

fn staging(rig: &Rig, memory_usage: MemoryUsage) -> RawBuffer<SimulatedGpu> {
    rig.create_buffer(&BufferDesc::new(64 * KIB), &wanted(1, memory_usage)).unwrap()
}

#[test]
fn two_buffers_that_share_memory_hold_their_bytes_by_turns() {
    let rig = Rig::new(DISCRETE);
    let [color, depth] = [40 * KIB, 64 * KIB].map(BufferDesc::new);
    let needs = |desc| rig.device.buffer_requirements(desc).unwrap();
    let either = Wanted::new(needs(&color).or(needs(&depth)), MemoryUsage::GpuOnly).with_name("either");
    let memory = rig.allocate_wanted(&either).unwrap();
    assert_eq!(rig.location(&memory).unwrap().size, 64 * KIB);
    let first = rig.create_aliasing_buffer(&memory, 0, &color).unwrap();
    let second = rig.create_aliasing_buffer(&memory, 0, &depth).unwrap();

    let (up, down) = (staging(&rig, MemoryUsage::Upload), staging(&rig, MemoryUsage::Readback));
    let mut back = vec![0; 64 << 10];
    rig.write(up.allocation(), 0, &[1; 64 << 10]).unwrap();
    copy(&rig, up.handle(), &second, 64 * KIB);
    rig.write(up.allocation(), 0, &[2; 64 << 10]).unwrap();
    copy(&rig, up.handle(), &first, 40 * KIB);
    copy(&rig, &second, down.handle(), 64 * KIB);
    rig.read(down.allocation(), 0, &mut back).unwrap();
    let (front, rest) = back.split_at(40 << 10);
    assert!(front.iter().all(|&byte| byte == 2), "the first has overwritten the second");
    assert!(rest.iter().all(|&byte| byte == 1), "as far as it reaches");

    for buffer in [first, second] {
        // SAFETY: every copy was waited for.
        unsafe { rig.device.destroy_buffer(buffer) };
    }
    rig.destroy_buffer(up).unwrap();
    rig.destroy_buffer(down).unwrap();
    rig.free(memory).unwrap();
}

#[test]
fn what_serves_two_resources_is_as_large_and_as_aligned_as_either_wants() {
    let a = Requirements { memory_types: MemoryTypeMask(0b0111), ..aligned(100, 256) };
    let b = Requirements { memory_types: MemoryTypeMask(0b1101), ..aligned(300, 64) };
    let both = a.or(b);
    assert_eq!((both.size, both.alignment.get(), both.memory_types.0), (300, 256, 0b0101));
    assert_eq!(a.or(b), b.or(a));
}

#[test]
fn places_within_an_allocation_are_at_their_offset_in_memory_and_in_address() {
    let rig = Rig::new(DISCRETE);
    let filler = rig.allocate_wanted(&wanted(768, MemoryUsage::Upload)).unwrap();
    let mut desc = wanted(MIB, MemoryUsage::Upload);
    desc.requirements = aligned(MIB, 256);
    let memory = rig.allocate_wanted(&desc).unwrap();
    let whole = rig.location(&memory).unwrap();
    let part = rig.place_within(&memory, 512, &aligned(100, 256)).unwrap();
    assert_eq!((part.memory, part.offset, part.size), (whole.memory, whole.offset + 512, 100));
    let address = |place: Option<core::ptr::NonNull<u8>>| place.unwrap().addr().get();
    assert_eq!(address(part.mapped_ptr), address(whole.mapped_ptr) + 512);
    let end = rig.place_within(&memory, MIB - 1, &Requirements::new(1)).unwrap();
    assert_eq!(end.offset, whole.offset + MIB - 1);
    rig.free_all([filler, memory]);
}

#[test]
fn a_place_that_does_not_lie_inside_or_is_not_aligned_or_is_of_another_type_is_refused() {
    let rig = Rig::new(DISCRETE);
    let filler = rig.allocate_wanted(&wanted(256, MemoryUsage::Upload)).unwrap();
    let memory = rig.allocate_wanted(&wanted(1000, MemoryUsage::Upload)).unwrap();
    let at = rig.location(&memory).unwrap().offset;
    let place = |offset, needs: Requirements| rig.place_within(&memory, offset, &needs).map(|_| ());
    let out =
        |offset, size| Err(AccessError::OutOfRange { offset, size, available: 1000, name: ShortName::NONE });
    assert_eq!(place(0, Requirements::new(1000)), Ok(()));
    assert_eq!(place(0, Requirements::new(1001)), out(0, 1001));
    assert_eq!(place(1, Requirements::new(1000)), out(1, 1000));
    assert_eq!(place(1001, Requirements::new(0)), out(1001, 0));
    assert_eq!(place(u64::MAX, Requirements::new(2)), out(u64::MAX, 2));
    assert_eq!(place(2, Requirements::new(u64::MAX)), out(2, u64::MAX));
    let misaligned = Err(AccessError::Misaligned { offset: at + 1, alignment: 2, name: ShortName::NONE });
    assert_eq!(place(1, aligned(1, 2)), misaligned);
    let far = Alignment::new(1 << 48).unwrap();
    assert_eq!(place(0, Requirements::new(1).with_alignment(far)).is_ok(), at == 0);
    let allowed = MemoryTypeMask(0b1101);
    let elsewhere = Requirements { memory_types: allowed, ..Requirements::new(1) };
    let memory_type = MemoryTypeIndex(1);
    assert_eq!(
        place(0, elsewhere),
        Err(AccessError::WrongMemoryType { memory_type, allowed, name: ShortName::NONE })
    );
    rig.free_all([filler, memory]);
}

#[test]
fn a_buffer_that_does_not_fit_its_place_is_not_made() {
    let rig = Rig::new("d3d12-tier-2");
    let mut desc = wanted(1, MemoryUsage::GpuOnly);
    desc.requirements = rig.device.buffer_requirements(&BufferDesc::new(100 * KIB)).unwrap();
    let memory = rig.allocate_wanted(&desc).unwrap();
    let make =
        |offset, size| rig.create_aliasing_buffer(&memory, offset, &BufferDesc::new(size)).unwrap_err();
    assert!(matches!(make(64 * KIB, 65 * KIB), ResourceError::Access(AccessError::OutOfRange { .. })));
    assert!(matches!(make(KIB, KIB), ResourceError::Access(AccessError::Misaligned { .. })));
    assert!(matches!(make(0, 0), ResourceError::Device { .. }));
    assert_eq!(rig.device.usage().buffers, 0);
    rig.free(memory).unwrap();
}

#[test]
fn an_optimal_image_is_not_put_among_buffers_where_the_device_keeps_them_apart() {
    for (profile, apart) in [(FINE, true), (COARSE, true), ("lavapipe", true), ("integrated", false)] {
        let rig = Rig::new(profile);
        if rig.device.properties().limits.buffer_image_granularity.get() == 1 {
            assert!(!apart, "{profile}");
            continue;
        }
        let image = ImageDesc::new(16, 16, 4);
        let place = |kind: ResourceKind| {
            let mut desc = wanted(1, MemoryUsage::GpuOnly);
            desc.requirements = rig.device.image_requirements(&image).unwrap().with_kind(kind);
            let memory = rig.allocate_wanted(&desc).unwrap();
            let placed = rig.create_aliasing_image(&memory, 0, &image);
            let refused = placed.map(|image| {
                // SAFETY: made by this device, and never used.
                unsafe { rig.device.destroy_image(image) }
            });
            rig.free(memory).unwrap();
            refused
        };
        let wrong = AccessError::WrongKind {
            allocated: ResourceKind::Buffer,
            wanted: ResourceKind::OptimalImage,
            name: ShortName::NONE,
        };
        assert_eq!(place(ResourceKind::Buffer), Err(ResourceError::Access(wrong)), "{profile}");
        assert_eq!(place(ResourceKind::OptimalImage), Ok(()));
        assert_eq!(place(ResourceKind::Unknown), Ok(()));
    }
}

#[test]
fn memory_types_that_are_ruled_out_stay_ruled_out_for_a_resource() {
    let rig = Rig::new(DISCRETE);
    for memory_type in [0, 3] {
        let mut desc = wanted(1, MemoryUsage::GpuOnly);
        desc.memory_types = MemoryTypeMask(1 << memory_type);
        let buffer = rig.create_buffer(&BufferDesc::new(KIB), &desc).unwrap();
        assert_eq!(rig.type_of(buffer.allocation()), MemoryTypeIndex(memory_type));
        rig.destroy_buffer(buffer).unwrap();
    }
}
