//! Validation errors of the simulated device about mistakes that a driver does not report.

use core::ops::Range;

use allotment::device::simulated::{SimulatedBuffer, SimulatedGpu, SimulatedMemory};
use allotment::device::{
    BufferCopy, BufferDesc, BufferDevice as _, CommandDevice as _, CopyError, DedicatedNeed,
    DescriptionError, DeviceError, ImageDesc, ImageDevice as _, MemoryDesc, MemoryDevice as _, MemoryHandle,
    MemoryTypeIndex, MemoryTypeMask, OwnedPart, OwnershipTransfer, QueueDevice as _, QueueIndex, QueueKind,
    SharingMode, Submission, TimelinePoint, TimelineValue, TransferUsage,
};

use crate::bytes::{assert_same, pattern};
use crate::fixture::{Outcome, Test, tests};
use crate::gpu::{Gpu, PATIENCE, copy};
use crate::kinds::simulated::SimulatedFixture;

type Simulated = Gpu<SimulatedFixture>;

pub(super) fn all() -> Vec<Test<SimulatedFixture>> {
    tests![SimulatedFixture:
        a_second_map_is_a_complaint,
        an_unmap_without_a_map_is_a_complaint,
        memory_that_the_cpu_cannot_see_is_not_mapped,
        a_flush_off_the_atom_is_a_complaint,
        a_flush_beyond_the_end_is_a_complaint,
        a_flush_of_memory_that_is_not_mapped_is_a_complaint,
        a_handle_of_freed_memory_is_refused_everywhere,
        a_handle_never_names_the_memory_that_came_after,
        a_handle_out_of_nowhere_is_refused,
        a_second_free_is_a_complaint,
        a_buffer_beyond_its_memory_is_refused,
        a_resource_that_requires_dedicated_memory_takes_no_other,
        a_copy_beyond_a_buffer_is_refused,
        a_copy_onto_itself_is_a_complaint,
        a_copy_that_a_buffer_was_not_made_for_is_refused,
        a_copy_of_an_exclusive_buffer_on_a_queue_of_another_family_is_reported,
        a_copy_of_freed_memory_is_a_complaint,
        a_wait_for_itself_is_refused,
        a_wait_for_a_queue_that_does_not_exist_is_refused,
        work_for_a_queue_that_does_not_exist_is_refused,
        all_is_well_without_a_complaint,
    ]
}

/// Tests for a device with memory that queues only read and memory that they only write.
pub(super) fn about_directions() -> Vec<Test<SimulatedFixture>> {
    tests![SimulatedFixture:
        a_copy_into_memory_that_queues_only_read_is_refused,
        a_copy_out_of_memory_that_queues_only_write_is_refused,
    ]
}

/// Tests for a device whose resources cannot stand anywhere.
pub(super) fn about_placement() -> Vec<Test<SimulatedFixture>> {
    tests![SimulatedFixture:
        a_buffer_off_its_alignment_is_refused,
        a_buffer_in_the_wrong_memory_type_is_refused,
        a_buffer_in_less_memory_than_it_needs_is_refused,
    ]
}

const FIRST: QueueIndex = QueueIndex(0);

/// The number of validation errors that begin with `about` has become `count`, and there are no others.
#[track_caller]
fn assert_complaints(gpu: &Simulated, about: &'static str, count: usize) {
    assert_eq!(gpu.fixture().complaints_about(about), count, "{:#?}", gpu.device().validation_errors());
}

fn flush(device: &SimulatedGpu, memory: SimulatedMemory, range: Range<u64>) -> Result<(), DeviceError> {
    // SAFETY: a flush that it must not be is a validation error here.
    unsafe { device.flush_memory(memory, range) }
}

fn invalidate(device: &SimulatedGpu, memory: SimulatedMemory, range: Range<u64>) -> Result<(), DeviceError> {
    // SAFETY: an invalidate that it must not be is a validation error here.
    unsafe { device.invalidate_memory(memory, range) }
}

fn free(device: &SimulatedGpu, memory: SimulatedMemory) {
    // SAFETY: a free that must not be is a validation error here.
    unsafe { device.free_memory(memory) };
}

fn a_second_map_is_a_complaint(gpu: &Simulated) {
    let memory = gpu.allocate(gpu.visible_types()[0], 4096);
    let mapping = memory.map();
    // SAFETY: that it is mapped already is what the device shall say.
    let again = unsafe { gpu.device().map_memory(memory.handle()) };
    assert_eq!(again, Ok(mapping.first()), "told, and still the same address");
    assert_complaints(gpu, "map: ", 1);
}

fn an_unmap_without_a_map_is_a_complaint(gpu: &Simulated) {
    let memory = gpu.allocate(gpu.visible_types()[0], 4096);
    drop(memory.map());
    assert_complaints(gpu, "unmap: ", 0);
    // SAFETY: that it is not mapped is what the device shall say.
    unsafe { gpu.device().unmap_memory(memory.handle()) };
    assert_complaints(gpu, "unmap: ", 1);
}

fn memory_that_the_cpu_cannot_see_is_not_mapped(gpu: &Simulated) {
    let hidden = gpu.types().into_iter().find(|t| !gpu.visible_types().contains(t)).unwrap();
    let memory = gpu.allocate(hidden, 4096);
    // SAFETY: that it is not host-visible is what the device shall say.
    let mapped = unsafe { gpu.device().map_memory(memory.handle()) };
    assert_eq!(mapped, Err(DeviceError::MapFailed));
    assert_complaints(gpu, "map: ", 1);
}

fn a_flush_off_the_atom_is_a_complaint(gpu: &Simulated) {
    let memory = gpu.allocate(gpu.visible_types()[0], 1000);
    let _mapping = memory.map();
    for whole in [0..1000, 0..64, 64..128, 960..1000, 64..1000, 128..128] {
        assert_eq!(flush(gpu.device(), memory.handle(), whole.clone()), Ok(()));
        assert_eq!(invalidate(gpu.device(), memory.handle(), whole), Ok(()));
    }
    assert_eq!(gpu.device().validation_errors(), [""; 0]);
    for (count, ragged) in (1..).zip([0..1, 0..63, 1..64, 32..96, 64..999]) {
        let _ = flush(gpu.device(), memory.handle(), ragged.clone());
        assert_complaints(gpu, "flush: ", count);
        let _ = invalidate(gpu.device(), memory.handle(), ragged);
        assert_complaints(gpu, "invalidate: ", count);
    }
}

fn a_flush_beyond_the_end_is_a_complaint(gpu: &Simulated) {
    let memory = gpu.allocate(gpu.visible_types()[0], 1000);
    let mapping = memory.map();
    mapping.put(0, &pattern(1, 1000));
    // The third ends before it begins.
    let backwards = Range { start: 128, end: 64 };
    for (count, beyond) in (1..).zip([0..1024, 1024..2048, backwards, 64..u64::MAX - 63]) {
        let _ = flush(gpu.device(), memory.handle(), beyond.clone());
        assert_complaints(gpu, "flush: ", count);
        let _ = invalidate(gpu.device(), memory.handle(), beyond);
        assert_complaints(gpu, "invalidate: ", count);
    }
    assert_same(&mapping.get(0..1000), &pattern(1, 1000), "nothing was harmed");
}

fn a_flush_of_memory_that_is_not_mapped_is_a_complaint(gpu: &Simulated) {
    let memory = gpu.allocate(gpu.visible_types()[0], 4096);
    let _ = flush(gpu.device(), memory.handle(), 0..64);
    assert_complaints(gpu, "flush: ", 1);
    let _ = invalidate(gpu.device(), memory.handle(), 0..64);
    assert_complaints(gpu, "invalidate: ", 1);
}

/// Every call with a handle that names no live memory is refused, with a validation error.
fn assert_refused_everywhere(gpu: &Simulated, memory: SimulatedMemory, times: usize) {
    let device = gpu.device();
    let before = device.usage();
    // SAFETY: that the handle is not live is what the device shall say.
    assert!(unsafe { device.map_memory(memory) }.is_err());
    assert_complaints(gpu, "map: ", times);
    // SAFETY: as above.
    unsafe { device.unmap_memory(memory) };
    assert_complaints(gpu, "unmap: ", times);
    assert!(flush(device, memory, 0..64).is_err());
    assert_complaints(gpu, "flush: ", times);
    assert!(invalidate(device, memory, 0..64).is_err());
    assert_complaints(gpu, "invalidate: ", times);
    // SAFETY: as above.
    let refused = unsafe { device.create_buffer(&BufferDesc::new(64), memory, 0) };
    assert_eq!(refused.err(), Some(DeviceError::Destroyed));
    assert_complaints(gpu, "create_buffer: ", times);
    free(device, memory);
    assert_complaints(gpu, "free: ", times);
    let after = device.usage();
    assert_eq!((after.memory_objects, after.memory_bytes), (before.memory_objects, before.memory_bytes));
    assert_eq!(after.buffers, before.buffers);
}

fn a_handle_of_freed_memory_is_refused_everywhere(gpu: &Simulated) {
    let memory = gpu.allocate(gpu.visible_types()[0], 4096);
    let handle = memory.handle();
    drop(memory);
    assert_refused_everywhere(gpu, handle, 1);
    let _other = gpu.allocate(gpu.visible_types()[0], 4096);
    assert_refused_everywhere(gpu, handle, 2);
}

fn a_handle_never_names_the_memory_that_came_after(gpu: &Simulated) {
    let memory_type = gpu.visible_types()[0];
    let mut stale = Vec::new();
    for _ in 0..100 {
        let memory = gpu.allocate(memory_type, 4096);
        assert!(!stale.contains(&memory.handle()));
        stale.push(memory.handle());
    }
    let memory = gpu.allocate(memory_type, 4096);
    let mapping = memory.map();
    mapping.put(0, &pattern(1, 4096));
    for (times, &handle) in (1..).zip(&stale) {
        assert_refused_everywhere(gpu, handle, times);
    }
    assert_same(&mapping.get(0..4096), &pattern(1, 4096), "still there");
}

fn a_handle_out_of_nowhere_is_refused(gpu: &Simulated) {
    let live = gpu.allocate(gpu.visible_types()[0], 4096).handle().to_raw();
    for (times, raw) in (1..).zip([u64::MAX, live + 1, live + (1 << 32), 1 << 63]) {
        assert_refused_everywhere(gpu, SimulatedMemory::from_raw(raw), times);
    }
}

fn a_second_free_is_a_complaint(gpu: &Simulated) {
    let other = gpu.allocate(gpu.types()[0], 64);
    let memory = gpu.allocate(gpu.types()[0], 4096).disown();
    free(gpu.device(), memory);
    assert_complaints(gpu, "free: ", 0);
    free(gpu.device(), memory);
    assert_complaints(gpu, "free: ", 1);
    assert_eq!(gpu.device().usage().memory_objects, 1, "freed once");
    drop(other);
}

fn a_buffer_beyond_its_memory_is_refused(gpu: &Simulated) {
    let memory = gpu.allocate(gpu.buffer_types()[0], 1000);
    let places = [(0, 1001), (1, 1000), (1000, 1), (999, 2), (u64::MAX, 2), (u64::MAX - 1, 1), (0, u64::MAX)];
    for (count, (offset, size)) in (1..).zip(places) {
        let beyond = Some(DeviceError::OutOfRange { offset, size, available: 1000 });
        assert_eq!(memory.try_buffer(offset, size).err(), beyond);
        assert_complaints(gpu, "create_buffer: ", count);
    }
    assert_eq!(memory.try_buffer(0, 0).err(), Some(DescriptionError::ZeroSize.into()));
    drop([memory.buffer(0, 1000), memory.buffer(999, 1)]);
}

fn a_resource_that_requires_dedicated_memory_takes_no_other(gpu: &Simulated) {
    let device = gpu.device();
    let buffer = BufferDesc::new(1000).with_usage(SimulatedGpu::REQUIRES_DEDICATED);
    let mut image = ImageDesc::new(16, 16, 4);
    image.usage = SimulatedGpu::REQUIRES_DEDICATED;
    let needs = device.buffer_requirements(&buffer).unwrap();
    assert_eq!(needs.dedicated, DedicatedNeed::Required);
    assert_eq!(device.image_requirements(&image).unwrap().dedicated, DedicatedNeed::Required);

    let memory_type = gpu.buffer_types()[0];
    let memory = gpu.allocate(memory_type, needs.size);
    // SAFETY: memory that was not allocated for the buffer is a validation error here.
    let refused = unsafe { device.create_buffer(&buffer, memory.handle(), 0) };
    assert_eq!(refused.err(), Some(DeviceError::DedicatedRequired));
    assert_complaints(gpu, "create_buffer: ", 1);
    // SAFETY: as above.
    let refused = unsafe { device.create_image(&image, memory.handle(), 0) };
    assert_eq!(refused.err(), Some(DeviceError::DedicatedRequired));
    assert_complaints(gpu, "create_image: ", 1);

    let desc = MemoryDesc::new(memory_type, 1);
    let (own, made) = device.create_dedicated_buffer(&buffer, &desc).unwrap();
    // SAFETY: created above, and no queue knows it.
    unsafe { device.destroy_buffer(made) };
    // SAFETY: as above.
    unsafe { device.free_memory(own) };
    drop(gpu.try_dedicated_image(memory_type, image).unwrap());
}

fn a_copy_beyond_a_buffer_is_refused(gpu: &Simulated) {
    // The memory is larger than the buffers, and still no copy reaches beyond them.
    let memory = gpu.allocate(gpu.buffer_types()[0], 4096);
    let [from, to] = [memory.buffer(0, 100), memory.buffer(2000, 50)];
    let copies = [(0, 0, 51), (51, 0, 50), (0, 1, 50), (101, 0, 0), (u64::MAX, 0, 2), (0, u64::MAX, 2)];
    for (count, (from_offset, to_offset, size)) in (1..).zip(copies) {
        let copies = [copy(&from, 0, &to, 0, 50), copy(&from, from_offset, &to, to_offset, size)];
        let why = if from_offset.checked_add(size).is_none_or(|end| end > 100) {
            DeviceError::OutOfRange { offset: from_offset, size, available: 100 }
        } else {
            DeviceError::OutOfRange { offset: to_offset, size, available: 50 }
        };
        let refused = gpu.try_submit(FIRST, &[], &copies);
        assert_eq!(refused, Err(why), "{size} from {from_offset} to {to_offset}");
        assert_complaints(gpu, "submit: ", count);
    }
    let submitted = gpu.submit(FIRST, &[], &[]);
    assert_eq!(submitted.value, TimelineValue(1), "nothing was submitted before");
}

fn a_copy_onto_itself_is_a_complaint(gpu: &Simulated) {
    let memory = gpu.allocate(gpu.buffer_types()[0], 4096);
    let [whole, part] = [memory.buffer(0, 4096), memory.buffer(1000, 1000)];
    for apart in [copy(&whole, 0, &part, 0, 1000), copy(&part, 0, &whole, 2000, 1000)] {
        gpu.run(&[apart]);
    }
    gpu.run(&[copy(&part, 0, &part, 500, 500), copy(&whole, 1, &whole, 0, 1)]);
    assert_complaints(gpu, "submit: ", 0);
    let overlapping = [
        copy(&whole, 0, &whole, 0, 1),
        copy(&whole, 0, &whole, 9, 10),
        copy(&whole, 9, &whole, 0, 10),
        // Other buffers, and the same bytes.
        copy(&whole, 1, &part, 0, 1000),
        copy(&part, 0, &whole, 1999, 1000),
    ];
    for (count, copy) in (1..).zip(overlapping) {
        if let Ok(submitted) = gpu.try_submit(FIRST, &[], &[copy]) {
            gpu.wait(submitted);
        }
        assert_complaints(gpu, "submit: ", count);
    }
}

fn a_copy_that_a_buffer_was_not_made_for_is_refused(gpu: &Simulated) {
    let memory_type = gpu.two_way_type();
    let both = gpu.buffer(memory_type, 64);
    for (usage, allowed) in [
        (SimulatedGpu::NO_TRANSFER_SRC, TransferUsage::DST),
        (SimulatedGpu::NO_TRANSFER_DST, TransferUsage::SRC),
    ] {
        let info = BufferDesc::new(64).with_usage(usage);
        assert_eq!(gpu.device().buffer_transfer_usage(&info), allowed);
        assert!(gpu.device().relocatable_buffer_info(&info).is_none());
        let memory = gpu.allocate(memory_type, 64);
        // SAFETY: the memory is as large as the buffer, and goes after it.
        let one_way = unsafe { gpu.device().create_buffer(&info, memory.handle(), 0) }.unwrap();
        let (from, to) = match allowed {
            TransferUsage::SRC => (&one_way, both.raw()),
            _ => (both.raw(), &one_way),
        };
        gpu.run(&[BufferCopy { from, from_offset: 0, to, to_offset: 0, size: 64 }]);
        let wrong_way = BufferCopy { from: to, from_offset: 0, to: from, to_offset: 0, size: 64 };
        let before = gpu.device().validation_errors().len();
        let missing = TransferUsage::all() - allowed;
        let why = CopyError::MissingUsage { missing }.into();
        assert_eq!(gpu.try_submit(FIRST, &[], &[wrong_way]), Err(why));
        assert_complaints(gpu, "submit: ", before + 1);
        // SAFETY: the one copy is done.
        unsafe { gpu.device().destroy_buffer(one_way) };
    }
}

fn a_copy_of_an_exclusive_buffer_on_a_queue_of_another_family_is_reported(gpu: &Simulated) {
    let queues = &gpu.properties().queues;
    let other = gpu.queues().find(|queue| queues[usize::from(queue.0)] == QueueKind::Transfer).unwrap();
    let info = BufferDesc::new(64).with_sharing_mode(SharingMode::Exclusive);
    let (memory, shared) = (gpu.allocate(gpu.two_way_type(), 64), gpu.buffer(gpu.two_way_type(), 64));
    // SAFETY: the memory is as large as the buffer, and goes after it.
    let exclusive = unsafe { gpu.device().create_buffer(&info, memory.handle(), 0) }.unwrap();
    fn copies<'a>([from, to]: [&'a SimulatedBuffer; 2]) -> [BufferCopy<'a, SimulatedGpu>; 1] {
        [BufferCopy { from, from_offset: 0, to, to_offset: 0, size: 64 }]
    }
    let run = |queue, submission: &Submission<'_, SimulatedGpu>| {
        // SAFETY: the ranges lie in the buffers, which live until the wait is over.
        let value = unsafe { gpu.device().submit(queue, submission) }.unwrap();
        gpu.device().wait(TimelinePoint { queue, value }, PATIENCE).unwrap();
    };
    let into = copies([shared.raw(), &exclusive]);
    run(FIRST, &Submission { copies: &into, ..Submission::default() });
    assert_complaints(gpu, "ownership: ", 0);
    let back = copies([&exclusive, shared.raw()]);
    run(other, &Submission { copies: &back, ..Submission::default() });
    assert_complaints(gpu, "ownership: ", 1);
    // What is overwritten as a whole is taken over by that, and is handed over by both halves.
    let part = OwnedPart::Buffer { buffer: &exclusive, offset: 0, size: 64 };
    let transfer = [OwnershipTransfer { part, from: other, to: FIRST }];
    run(other, &Submission { copies: &into, releases: &transfer, ..Submission::default() });
    run(FIRST, &Submission { acquires: &transfer, copies: &back, ..Submission::default() });
    assert_complaints(gpu, "ownership: ", 1);
    // Each half once, and on a queue of its family.
    run(FIRST, &Submission { acquires: &transfer, ..Submission::default() });
    assert_complaints(gpu, "ownership: ", 2);
    let release = Submission { releases: &transfer, ..Submission::default() };
    // SAFETY: the buffer lives, and the submission is refused.
    let refused = unsafe { gpu.device().submit(FIRST, &release) };
    assert_eq!(refused, Err(CopyError::OtherFamily.into()));
    assert_complaints(gpu, "submit: ", 1);
    // SAFETY: the copies are done.
    unsafe { gpu.device().destroy_buffer(exclusive) };
}

fn a_copy_of_freed_memory_is_a_complaint(gpu: &Simulated) {
    let memory_type = gpu.buffer_types()[0];
    for (count, source) in [(1, true), (2, false)] {
        let [from, to] = [(); 2].map(|()| gpu.buffer(memory_type, 64));
        free(gpu.device(), if source { from.memory().disown() } else { to.memory().disown() });
        if let Ok(submitted) = gpu.try_submit(FIRST, &[], &[copy(&from, 0, &to, 0, 64)]) {
            gpu.wait(submitted);
        }
        assert_complaints(gpu, "submit: ", count);
    }
}

/// A submission is refused with a validation error for its second copy, from memory of one type to memory of the
/// other; and neither copy is made.
#[track_caller]
fn assert_refused(gpu: &Simulated, [from_type, to_type]: [MemoryTypeIndex; 2], count: usize) {
    let [good_from, good_to] = [(); 2].map(|()| gpu.buffer(gpu.two_way_type(), 64));
    let [from, to] = [from_type, to_type].map(|t| gpu.buffer(t, 64));
    for (seed, buffer) in (0..).zip([&good_from, &good_to, &from, &to]) {
        gpu.put(buffer, 0, &pattern(seed, 64));
    }
    let copies = [copy(&good_from, 0, &good_to, 0, 64), copy(&from, 0, &to, 0, 64)];
    let submitted = gpu.try_submit(FIRST, &[], &copies);
    let why =
        if gpu.can_read_from(from_type) { CopyError::QueueCannotWrite } else { CopyError::QueueCannotRead };
    assert_eq!(submitted, Err(why.into()), "from {from_type} to {to_type}");
    assert_complaints(gpu, "submit: ", count);
    assert_same(&gpu.get(&good_to), &pattern(1, 64), "not submitted either");
    assert_same(&gpu.get(&to), &pattern(3, 64), (from_type, to_type));
}

fn a_copy_into_memory_that_queues_only_read_is_refused(gpu: &Simulated) {
    let upload = gpu.buffer_types().into_iter().filter(|&t| !gpu.can_write_to(t));
    let pairs = upload.flat_map(|to| gpu.source_types().into_iter().map(move |from| [from, to]));
    let refused = (1..).zip(pairs).map(|(count, pair)| assert_refused(gpu, pair, count)).count();
    assert_ne!(refused, 0, "what this test is about");
}

fn a_copy_out_of_memory_that_queues_only_write_is_refused(gpu: &Simulated) {
    let readback = gpu.buffer_types().into_iter().filter(|&t| !gpu.can_read_from(t));
    let pairs = readback.flat_map(|from| gpu.target_types().into_iter().map(move |to| [from, to]));
    let refused = (1..).zip(pairs).map(|(count, pair)| assert_refused(gpu, pair, count)).count();
    assert_ne!(refused, 0, "what this test is about");
}

fn a_wait_for_itself_is_refused(gpu: &Simulated) {
    for queue in gpu.queues() {
        gpu.wait(gpu.submit(queue, &[], &[]));
    }
    for (count, (queue, ahead)) in (1..).zip(gpu.queues().flat_map(|queue| [(queue, 1), (queue, 9)])) {
        let itself = TimelinePoint { queue, value: TimelineValue(1 + ahead) };
        assert!(gpu.try_submit(queue, &[itself], &[]).is_err(), "it would hang");
        assert_complaints(gpu, "submit: ", count);
    }
    for queue in gpu.queues() {
        assert_eq!(gpu.submit(queue, &[], &[]).value, TimelineValue(2), "nothing was submitted before");
    }
}

fn a_wait_for_a_queue_that_does_not_exist_is_refused(gpu: &Simulated) {
    let beyond = [gpu.properties().queues.len() as u8, u8::MAX];
    for (count, queue) in (1..).zip(beyond) {
        let nowhere = TimelinePoint { queue: QueueIndex(queue), value: TimelineValue(1) };
        assert!(gpu.try_submit(FIRST, &[nowhere], &[]).is_err(), "a wait that is dropped orders nothing");
        assert_complaints(gpu, "submit: ", count);
    }
    assert_eq!(gpu.submit(FIRST, &[], &[]).value, TimelineValue(1), "nothing was submitted before");
}

fn work_for_a_queue_that_does_not_exist_is_refused(gpu: &Simulated) {
    let [from, to] = [(); 2].map(|()| gpu.buffer(gpu.buffer_types()[0], 64));
    gpu.fixture().complaints_about("submit: ");
    for queue in [gpu.properties().queues.len() as u8, u8::MAX].map(QueueIndex) {
        let refused = gpu.try_submit(queue, &[], &[copy(&from, 0, &to, 0, 64)]);
        assert_eq!(refused, Err(DeviceError::NoSuchQueue { queue }));
        let refused = gpu.device().create_command_allocator(queue);
        assert_eq!(refused.err(), Some(DeviceError::NoSuchQueue { queue }));
    }
}

fn all_is_well_without_a_complaint(gpu: &Simulated) {
    let buffer = gpu.buffer(gpu.visible_buffer_types()[0], 64);
    gpu.put(&buffer, 0, &[1; 64]);
    assert_eq!(gpu.get(&buffer), [1; 64]);
    assert_eq!(gpu.device().validation_errors(), [""; 0]);
    // A refusal that an application has to live with is not its mistake.
    gpu.device().fail_call(1, DeviceError::OutOfDeviceMemory);
    assert!(gpu.try_allocate(MemoryTypeIndex(0), 64).is_err());
    let desc = BufferDesc::new(u64::MAX);
    assert!(gpu.device().buffer_requirements(&desc).is_err());
    let heap = gpu.properties().heaps[0].size;
    let most = gpu.properties().limits.max_allocation_size;
    let full: Vec<_> = (0..heap / most).map(|_| gpu.allocate(MemoryTypeIndex(0), most)).collect();
    assert!(gpu.try_allocate(MemoryTypeIndex(0), most).is_err());
    drop(full);
    assert_eq!(gpu.device().validation_errors(), [""; 0]);
    // Nor is a copy of buffers that were both alive.
    let copies: [BufferCopy<'_, SimulatedGpu>; 0] = [];
    gpu.run(&copies);
}

fn a_buffer_off_its_alignment_is_refused(gpu: &Simulated) {
    let alignment = gpu.requirements(100).alignment.get();
    assert!(alignment > 1, "what this test is about");
    let memory = gpu.allocate(gpu.buffer_types()[0], 4 * alignment);
    for (count, offset) in (1..).zip([1, 256, alignment / 2, alignment + 1, 2 * alignment - 1]) {
        let why = DeviceError::Misaligned { offset, alignment };
        assert_eq!(memory.try_buffer(offset, 100).err(), Some(why));
        assert_complaints(gpu, "create_buffer: ", count);
    }
    drop([memory.buffer(0, 100), memory.buffer(alignment, 100), memory.buffer(3 * alignment, 100)]);
}

fn a_buffer_in_the_wrong_memory_type_is_refused(gpu: &Simulated) {
    let allowed = gpu.buffer_types();
    let others: Vec<_> = gpu.types().into_iter().filter(|t| !allowed.contains(t)).collect();
    assert!(!others.is_empty(), "what this test is about");
    for (count, &memory_type) in (1..).zip(&others) {
        let memory = gpu.allocate(memory_type, 1 << 20);
        let allowed = MemoryTypeMask(allowed.iter().fold(0, |mask, allowed| mask | 1 << allowed.0));
        let why = Some(DeviceError::WrongMemoryType { memory_type, allowed });
        assert_eq!(memory.try_buffer(0, 100).err(), why);
        assert_eq!(gpu.try_dedicated_buffer(memory_type, 100).err(), why);
        assert_complaints(gpu, "create_buffer: ", 2 * count);
    }
}

fn a_buffer_in_less_memory_than_it_needs_is_refused(gpu: &Simulated) {
    // A buffer of 100 bytes takes a whole page here, and a driver writes to all of it.
    let memory = gpu.allocate(gpu.buffer_types()[0], gpu.requirements(100).size - 1);
    assert!(memory.try_buffer(0, 100).is_err());
    assert_complaints(gpu, "create_buffer: ", 1);
}
