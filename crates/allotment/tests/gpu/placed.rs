//! Resources that are placed in memory which they share: who keeps it, which of them has the bytes, and what is refused.

use core::mem::forget;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{
    BufferDesc, BufferDevice as _, DeviceError, ImageDesc, ImageDevice as _, ImagePart, MemoryTypeMask,
    QueueDevice as _, Submission, TimelinePoint,
};
use allotment::gpu::GpuDesc;
use allotment::lifetime::{DeletionQueue, Recording, SubmissionTracker};
use allotment::memory::reports::{CallSites, LeakHandler, LeakReport};
use allotment::memory::{
    AccessError, Buffer, Dedicated, GroupError, Image, Memory, Movability, OwningAllocator, ResourceError,
    Transfer,
};
use allotment::upload::{ReadError, UploadError};
use allotment::{
    Alignment, AllocationError, AllocationOptions, AllocatorDesc, Gpu, MemoryUsage, PoolDesc, Requirements,
    ResourceKind,
};

use crate::rig::{QUEUE, Rig};

const KIB: u64 = 1 << 10;

impl Rig {
    fn memory(&self, size: u64, usage: MemoryUsage) -> Memory<SimulatedGpu> {
        self.gpu.allocate_memory(&any_kind(size), &usage.with_name("shared")).unwrap()
    }

    fn buffer_in(
        &self,
        memory: &Memory<SimulatedGpu>,
        offset: u64,
        size: u64,
        name: &'static str,
    ) -> Buffer<SimulatedGpu> {
        self.gpu.create_buffer_in(memory, offset, &BufferDesc::new(size), name).unwrap()
    }

    fn found(&self, buffer: &Buffer<SimulatedGpu>) -> Vec<u8> {
        let mut bytes = vec![0; buffer.size() as usize];
        self.gpu.read_buffer(buffer, 0, &mut bytes).unwrap();
        bytes
    }

    /// Submits a recording without commands.
    fn submit_empty(&self, recording: Recording) -> TimelinePoint {
        let submit = |queue, waits: &[TimelinePoint]| {
            // SAFETY: there is nothing in it.
            unsafe { self.device.submit(queue, &Submission { waits, ..Submission::default() }) }
        };
        self.gpu.submit(recording, QUEUE, submit).unwrap()
    }
}

/// Memory for buffers and images.
fn any_kind(size: u64) -> Requirements {
    Requirements { kind: ResourceKind::Unknown, ..Requirements::new(size) }
}

fn image_of(side: u32) -> ImageDesc {
    ImageDesc::new(side, side, 4)
}

#[test]
fn buffers_in_one_memory_are_as_all_others_and_its_bytes_count_once() {
    let rig = Rig::new();
    let memory = rig.memory(8 * KIB, MemoryUsage::GpuOnly);
    let before = rig.gpu.allocator().statistics();
    let [low, high] =
        [(0, "low"), (4 * KIB, "high")].map(|(at, name)| rig.buffer_in(&memory, at, 4 * KIB, name));
    assert_eq!(rig.gpu.allocator().statistics(), before);
    assert_eq!((before.allocations, before.allocation_bytes), (1, 8 * KIB));
    assert!(low.is_active() && high.is_active() && !low.is_relocatable());
    assert_ne!(low.id(), high.id());
    let (info, whole) = (high.info(), memory.info());
    assert_eq!((info.memory, info.offset, info.size), (whole.memory, whole.offset + 4 * KIB, 4 * KIB));
    assert_eq!(info.name.unwrap().as_str(), "high");
    assert!(!info.dedicated);
    assert_eq!(rig.gpu.allocator().reports().info(high.id()).unwrap().offset, info.offset);
    rig.gpu.uploads().write_buffer(&low, 0, &[1; 4 << 10]).unwrap();
    rig.gpu.uploads().write_buffer(&high, 0, &[2; 4 << 10]).unwrap();
    assert!(rig.found(&low) == [1; 4 << 10] && rig.found(&high) == [2; 4 << 10]);
    let beyond = rig.gpu.uploads().write_buffer(&low, 4 * KIB - 1, &[1; 2]).unwrap_err();
    assert!(matches!(beyond, UploadError::Access(AccessError::OutOfRange { .. })), "{beyond}");
    rig.gpu.allocator().check_invariants();
    drop((memory, low, high));
    rig.finish();
}

#[test]
fn images_in_one_memory_hold_their_texels_and_buffers_beside_them_theirs() {
    // With pages that linear and optimal resources do not share, and without.
    for profile in ["discrete-no-bar", "discrete-large-bar"] {
        let rig = Rig::on(profile, GpuDesc::default());
        let needs = rig.device.image_requirements(&image_of(64)).unwrap();
        let place = needs.size.next_multiple_of(64 * KIB);
        let requirements = Requirements { size: 3 * place, ..any_kind(1) };
        let options = MemoryUsage::GpuOnly.with_name("shared");
        let memory =
            rig.gpu.allocate_memory(&requirements.with_alignment(needs.alignment), &options).unwrap();
        let image = |at, name| rig.gpu.create_image_in(&memory, at, &image_of(64), name).unwrap();
        let images = [image(0, "one"), image(place, "two")];
        let buffer = rig.buffer_in(&memory, 2 * place, 4 * KIB, "beside");
        rig.gpu.uploads().write_buffer(&buffer, 0, &[9; 4 << 10]).unwrap();
        for (fill, image) in (1..).zip(&images) {
            rig.gpu.uploads().write_image(image, &[fill; 64 * 64 * 4]).unwrap();
        }
        for (fill, image) in (1..).zip(&images) {
            let read = rig.gpu.reads().read_image(image, &ImagePart::default()).unwrap();
            assert!(rig.bytes(&read) == [fill; 64 * 64 * 4], "{profile}");
        }
        assert!(rig.found(&buffer) == [9; 4 << 10]);
        drop((memory, images, buffer));
        rig.finish();
    }
}

#[test]
fn memory_goes_with_the_last_that_keeps_it_in_whichever_order_they_are_dropped() {
    // The memory, a clone of it, and two resources, in each order; a recording is open while one of them is dropped.
    let orders: Vec<[usize; 4]> = (0..256)
        .map(|code| [code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6])
        .filter(|order| (0..4).all(|at| order.contains(&at)))
        .collect();
    assert_eq!(orders.len(), 24);
    for order in orders {
        for beside in 0..4 {
            let rig = Rig::new();
            let memory = rig.memory(64 * KIB, MemoryUsage::GpuOnly);
            let one = rig.buffer_in(&memory, 0, 4 * KIB, "one");
            let image = rig.gpu.create_image_in(&memory, 0, &image_of(16), "over it").unwrap();
            let mut all: [Option<Box<dyn Send>>; 4] = [
                Some(Box::new(memory.clone())),
                Some(Box::new(memory)),
                Some(Box::new(one)),
                Some(Box::new(image)),
            ];
            let mut recordings = Vec::new();
            for (step, at) in order.into_iter().enumerate() {
                if step == beside {
                    recordings.push(rig.gpu.record("may use it"));
                }
                all[at] = None;
                rig.gpu.reclaim();
                let is_there = rig.gpu.allocator().statistics().allocations == 1;
                assert!(is_there || step == 3 && recordings.is_empty(), "{order:?}, {beside}, {step}");
                rig.gpu.allocator().check_invariants();
            }
            assert_eq!(rig.gpu.allocator().statistics().allocations, 1, "{order:?}, {beside}");
            recordings.into_iter().for_each(|recording| _ = rig.submit_empty(recording));
            rig.gpu.wait_idle().unwrap();
            rig.gpu.reclaim();
            assert_eq!(rig.gpu.allocator().statistics().allocations, 0, "{order:?}, {beside}");
            rig.finish();
        }
    }
}

#[test]
fn what_is_placed_outlives_its_gpu_and_a_lost_device() {
    for is_lost in [false, true] {
        let Rig { device, gpu } = Rig::new();
        let options = MemoryUsage::GpuOnly.with_name("shared");
        let memory = gpu.allocate_memory(&Requirements::new(8 * KIB), &options).unwrap();
        let place = |name| gpu.create_buffer_in(&memory, 0, &BufferDesc::new(4 * KIB), name).unwrap();
        let (one, other) = (place("one"), place("other"));
        gpu.uploads().write_buffer(&one, 0, &[1; 64]).unwrap();
        gpu.uploads().submit().unwrap();
        drop(gpu.record("uses it"));
        if is_lost {
            device.lose_device();
            let refused = gpu.create_buffer_in(&memory, 0, &BufferDesc::new(64), "too late").unwrap_err();
            assert!(matches!(refused, ResourceError::Device { source: DeviceError::Lost, .. }), "{refused}");
        }
        assert!(other.activate().unwrap().needs_barrier);
        drop(gpu);
        drop((memory, one));
        assert_eq!(other.size(), 4 * KIB);
        drop(other);
        let usage = device.usage();
        assert_eq!((usage.memory_objects, usage.buffers), (0, 0), "lost: {is_lost}");
        assert_eq!(device.validation_errors(), [""; 0]);
    }
}

#[test]
fn a_refused_place_names_the_resource_and_the_memory_and_leaves_nothing() {
    let rig = Rig::on("d3d12-tier-2", GpuDesc::default());
    let other = Gpu::new(rig.device.clone(), GpuDesc::default()).unwrap();
    let memory = rig.memory(128 * KIB, MemoryUsage::GpuOnly);
    let place = |offset, size| {
        let refused = rig.gpu.create_buffer_in(&memory, offset, &BufferDesc::new(size), "sky");
        let error = refused.expect_err("it fits");
        let text = error.to_string();
        assert!(text.contains("\"sky\"") && text.contains("\"shared\""), "{text}");
        let ResourceError::Placed { source, .. } = error else { panic!("{error:?}") };
        source
    };
    assert!(matches!(place(64 * KIB, 65 * KIB), AccessError::OutOfRange { .. }));
    assert!(matches!(place(u64::MAX, 1), AccessError::OutOfRange { .. }));
    assert!(matches!(place(KIB, KIB), AccessError::Misaligned { .. }));
    let foreign = other.create_buffer_in(&memory, 0, &BufferDesc::new(64), "sky").unwrap_err();
    assert!(
        foreign.to_string().contains("\"sky\"") && foreign.to_string().contains("\"shared\""),
        "{foreign}"
    );
    assert!(matches!(foreign, ResourceError::Placed { source: AccessError::WrongAllocator { .. }, .. }));
    let no_buffer = rig.gpu.create_buffer_in(&memory, 0, &BufferDesc::new(0), "sky").unwrap_err();
    assert!(matches!(no_buffer, ResourceError::Device { .. }) && no_buffer.name() == Some("sky"));
    assert_eq!(rig.device.usage().buffers, 0);
    drop((memory, other));
    rig.finish();
}

#[test]
fn memory_of_another_type_or_kind_is_refused() {
    let rig = Rig::new();
    let size = Requirements::new(64 * KIB);
    let needs = rig.device.image_requirements(&image_of(16)).unwrap();
    let linear = Requirements { kind: ResourceKind::Buffer, ..size };
    let memory = rig.gpu.allocate_memory(&linear, &MemoryUsage::GpuOnly.with_name("linear")).unwrap();
    let refused = rig.gpu.create_image_in(&memory, 0, &image_of(16), "sky").unwrap_err();
    assert!(
        matches!(refused, ResourceError::Placed { source: AccessError::WrongKind { .. }, .. }),
        "{refused}"
    );
    drop(memory);
    let types = rig.gpu.allocator().device().profile().memory_types.len() as u32;
    let others = MemoryTypeMask(!needs.memory_types.0 & ((1 << types) - 1));
    if others.0 != 0 {
        let mut options = MemoryUsage::Upload.with_name("elsewhere");
        options.memory_types = others;
        let memory = rig.gpu.allocate_memory(&size, &options).unwrap();
        let refused = rig.gpu.create_image_in(&memory, 0, &image_of(16), "sky").unwrap_err();
        let source = AccessError::WrongMemoryType {
            memory_type: memory.info().memory_type,
            allowed: needs.memory_types,
            name: allotment::memory::names::ShortName::new("sky"),
        };
        assert!(
            matches!(refused, ResourceError::Placed { source: found, .. } if found == source),
            "{refused}"
        );
    }
    rig.finish();
}

#[test]
fn a_driver_that_refuses_a_call_leaves_nothing_behind() {
    for is_image in [false, true] {
        let rig = Rig::new();
        let needs = Requirements {
            kind: ResourceKind::Unknown,
            ..rig.device.image_requirements(&image_of(16)).unwrap()
        };
        let mut refused = 0;
        // The last of them is no call of the four that allocate, bind and name.
        for k in 1..8 {
            rig.device.fail_call(k, DeviceError::OutOfDeviceMemory);
            let made = || {
                let options = MemoryUsage::GpuOnly.with_name("shared");
                let memory = rig.gpu.allocate_memory(&needs, &options);
                let memory = memory.map_err(|error| error.to_string())?;
                let named = |error: ResourceError| {
                    assert_eq!(error.name(), Some("one"));
                    error.to_string()
                };
                if is_image {
                    rig.gpu.create_image_in(&memory, 0, &image_of(16), "one").map(drop).map_err(named)
                } else {
                    rig.gpu.create_buffer_in(&memory, 0, &BufferDesc::new(64), "one").map(drop).map_err(named)
                }
            };
            let done = made();
            rig.device.clear_faults();
            rig.gpu.reclaim();
            rig.gpu.allocator().trim();
            rig.gpu.allocator().check_invariants();
            let usage = rig.device.usage();
            assert_eq!((usage.buffers, usage.images, usage.memory_objects), (0, 0, 0), "call {k}");
            refused += u32::from(done.is_err());
            assert!(done.is_ok() || k < 7, "{done:?}");
        }
        assert!(refused > 0);
        rig.finish();
    }
}

#[test]
fn what_is_forgotten_in_memory_is_reported_with_its_call_site_and_the_name_of_the_memory() {
    let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    let found = Arc::new(Mutex::new(Vec::new()));
    let mut desc = AllocatorDesc::default();
    desc.call_sites = CallSites::Location;
    let sink = Arc::clone(&found);
    desc.on_leak =
        LeakHandler::Call(Arc::new(move |report: &LeakReport| sink.lock().unwrap().push(report.clone())));
    let gpu = Gpu::new(device.clone(), GpuDesc::default().with_allocator(desc)).unwrap();
    let memory =
        gpu.allocate_memory(&Requirements::new(8 * KIB), &MemoryUsage::GpuOnly.with_name("shared")).unwrap();
    let line = line!() + 1;
    forget(gpu.create_buffer_in(&memory, 4 * KIB, &BufferDesc::new(KIB), "sky").unwrap());
    drop(memory);
    gpu.reclaim();
    drop(gpu);
    let reports = found.lock().unwrap();
    let [report] = &reports[..] else { panic!("{reports:?}") };
    let text = report.to_string();
    assert!(text.contains("1 allocations of 1024 bytes"), "{text}");
    assert!(text.contains("\"sky\"") && text.contains("placed in \"shared\""), "{text}");
    assert!(text.contains(&format!("{}:{line}:", file!())), "{text}");
}

#[test]
fn a_leak_report_counts_each_byte_of_memory_once_whatever_its_name() {
    let rig = Rig::new();
    let first_line = || {
        let report = LeakReport::of_device(&rig.device).to_string();
        report.lines().next().unwrap().to_owned()
    };
    let allocate =
        |options: &AllocationOptions| rig.gpu.allocate_memory(&Requirements::new(8 * KIB), options).unwrap();
    let before = LeakReport::of_device(&rig.device).leaks.len();
    assert_eq!(before, 0);
    // Without a name, and two of one name, of which the program drops one.
    let unnamed = allocate(&MemoryUsage::GpuOnly.into());
    let [kept, dropped] = [(); 2].map(|()| allocate(&MemoryUsage::GpuOnly.with_name("shared")));
    let in_each = [&unnamed, &kept, &dropped].map(|memory| rig.buffer_in(memory, 0, 4 * KIB, "one"));
    assert_eq!(first_line(), format!("6 allocations of {} bytes are alive:", 24 * KIB));
    drop(dropped);
    assert_eq!(first_line(), format!("5 allocations of {} bytes are alive:", 20 * KIB));
    drop((unnamed, kept));
    // These overlap, and nothing else says what their memory is.
    let memory = allocate(&MemoryUsage::GpuOnly.with_name("shared"));
    let over = [(0, 4), (2, 4), (3, 1), (7, 1)];
    let over = over.map(|(at, size)| rig.buffer_in(&memory, at * KIB, size * KIB, "over"));
    drop(memory);
    assert_eq!(first_line(), format!("7 allocations of {} bytes are alive:", (3 * 4 + 7) * KIB));
    drop((in_each, over));
    rig.finish();
}

#[test]
fn the_bytes_of_memory_are_pending_once_nothing_keeps_it() {
    // The last to go: the memory, or what is placed there, which may be retired with its only recording.
    for last in ["memory", "resource", "resource of one recording"] {
        let rig = Rig::new();
        let memory = rig.memory(8 * KIB, MemoryUsage::GpuOnly);
        let [one, other] = [0, 4].map(|at| rig.buffer_in(&memory, at * KIB, KIB, "one"));
        let queue = rig.gpu.deletion_queue();
        let before = queue.statistics();
        assert_eq!(before.bytes, 0);
        let recording = rig.gpu.record("may use them");
        let id = recording.id();
        drop(other);
        assert_eq!(queue.statistics().bytes, 0, "{last}");
        if last == "memory" {
            drop(one);
            assert_eq!(queue.statistics().bytes, 0);
            drop(memory);
        } else {
            drop(memory);
            assert_eq!(queue.statistics().bytes, 0, "{last}");
            if last == "resource" {
                drop(one);
            } else {
                // SAFETY: there is no command in it, nor in any other.
                unsafe { one.retire_with(id) };
            }
        }
        assert_eq!(queue.statistics().bytes, 8 * KIB, "{last}");
        drop(recording);
        assert_eq!(rig.gpu.reclaim().bytes, 8 * KIB, "{last}");
        assert_eq!(rig.gpu.allocator().statistics().allocation_bytes, 0);
        rig.finish();
    }
}

#[test]
fn a_trim_leaves_what_is_placed_where_it_is() {
    let rig = Rig::new();
    let allocator = rig.gpu.allocator();
    let memory = rig.memory(64 * KIB, MemoryUsage::GpuOnly);
    let buffers: Vec<_> = (0..64).map(|at| rig.buffer_in(&memory, at * KIB, KIB, "one")).collect();
    let places: Vec<_> = buffers.iter().map(|buffer| buffer.info().offset).collect();
    thread::scope(|scope| {
        scope.spawn(|| (0..200).for_each(|_| _ = allocator.trim()));
        scope.spawn(|| {
            for at in 0..200 {
                let passing = rig.buffer_in(&memory, at % 64 * KIB, KIB, "passing");
                _ = passing.activate().unwrap();
            }
        });
        for _ in 0..200 {
            assert_eq!(buffers.iter().map(|buffer| buffer.info().offset).collect::<Vec<_>>(), places);
        }
    });
    _ = allocator.trim();
    // Newer ones do not get the ids of those that live.
    let newer = rig.buffer_in(&memory, 0, KIB, "newer");
    assert!(buffers.iter().all(|buffer| buffer.id() != newer.id()));
    assert_eq!(buffers.iter().map(|buffer| buffer.info().offset).collect::<Vec<_>>(), places);
    drop((buffers, newer, memory));
    rig.finish();
}

#[test]
fn memory_of_another_tracker_is_refused() {
    let rig = Rig::new();
    let memory = rig.memory(8 * KIB, MemoryUsage::GpuOnly);
    let tracker = SubmissionTracker::new(rig.device.clone()).unwrap();
    let other = OwningAllocator::new(rig.gpu.allocator(), &DeletionQueue::new(&tracker)).unwrap();
    let refused = other.create_buffer_in(&memory, 0, &BufferDesc::new(64), "one").unwrap_err();
    let is_named =
        matches!(refused, ResourceError::Placed { source: AccessError::WrongAllocator { .. }, .. });
    assert!(is_named, "{refused}");
    drop((memory, other));
    rig.finish();
}

#[test]
fn what_is_created_active_where_the_gpu_may_use_the_bytes_asks_for_a_barrier_once() {
    let rig = Rig::new();
    let memory = rig.memory(8 * KIB, MemoryUsage::GpuOnly);
    let whole = rig.buffer_in(&memory, 0, 8 * KIB, "whole");
    let frame = rig.gpu.begin_frame().unwrap();
    let upper = rig.buffer_in(&memory, 4 * KIB, 4 * KIB, "upper");
    assert!(upper.activate().unwrap().needs_barrier);
    // The frame may have commands that use the lower half of `whole`.
    let lower = rig.buffer_in(&memory, 0, 4 * KIB, "lower");
    assert!(lower.is_active());
    assert!(lower.activate().unwrap().needs_barrier);
    assert!(!lower.activate().unwrap().needs_barrier);
    let refused = rig.gpu.uploads().write_buffer(&lower, 0, &[1; 64]).unwrap_err();
    assert!(matches!(refused, UploadError::Access(AccessError::Unsettled { .. })), "{refused}");
    // The GPU is done with what was there before these are activated: the barrier is needed all the same, unless an upload brings
    // it.
    let other = rig.memory(8 * KIB, MemoryUsage::GpuOnly);
    let below = rig.buffer_in(&other, 0, 8 * KIB, "below");
    let high = rig.buffer_in(&other, 4 * KIB, 4 * KIB, "high");
    assert!(high.activate().unwrap().needs_barrier);
    let [unused, written] =
        [(0, "unused"), (2 * KIB, "written")].map(|(at, name)| rig.buffer_in(&other, at, 2 * KIB, name));
    frame.end().unwrap();
    rig.gpu.wait_idle().unwrap();
    rig.gpu.reclaim();
    rig.gpu.uploads().write_buffer(&lower, 0, &[1; 64]).unwrap();
    rig.gpu.uploads().write_buffer(&written, 0, &[7; 2 << 10]).unwrap();
    assert!(!written.activate().unwrap().needs_barrier);
    assert_eq!(rig.found(&written), [7; 2 << 10], "nothing is forgotten");
    assert!(unused.is_active() && unused.activate().unwrap().needs_barrier);
    assert!(!unused.activate().unwrap().needs_barrier);
    drop((whole, upper, lower, memory));
    drop((other, below, high, unused, written));
    rig.finish();
}

#[test]
fn an_activation_names_the_resource_that_had_all_of_the_bytes() {
    let rig = Rig::new();
    let memory = rig.memory(16 * KIB, MemoryUsage::GpuOnly);
    let low = rig.buffer_in(&memory, 0, 4 * KIB, "low");
    let whole = rig.buffer_in(&memory, 0, 16 * KIB, "whole");
    let inner = rig.buffer_in(&memory, 8 * KIB, 4 * KIB, "inner");
    let before = |of: &Buffer<SimulatedGpu>| {
        let activation = of.activate().unwrap();
        assert!(activation.needs_barrier);
        activation.before
    };
    assert_eq!(before(&inner), None, "it was active, and nothing had its bytes");
    // Of the first 4 KiB and of 4 others: from any.
    assert_eq!(before(&whole), None);
    assert_eq!(before(&inner), Some(whole.id()));
    assert_eq!(before(&low), None, "it lost its bytes to one that has lost them since");
    assert_eq!(before(&whole), None);
    assert_eq!(before(&low), Some(whole.id()));
    // It had a part of the bytes alone.
    assert_eq!(before(&whole), None);
    drop((memory, low, whole, inner));
    rig.finish();
}

#[test]
fn a_flush_waits_until_no_queue_uses_the_bytes() {
    let rig = Rig::on("mobile-atom-256", GpuDesc::default());
    let [first, second] = overlapping(&rig, MemoryUsage::Upload);
    let flush =
        |of: &Buffer<SimulatedGpu>| of.with_raw(|raw| rig.gpu.allocator().flush(raw.allocation(), 0..64));
    flush(&first).unwrap();
    let frame = rig.gpu.begin_frame().unwrap();
    assert!(second.activate().unwrap().needs_barrier);
    assert!(matches!(flush(&first), Err(AccessError::Inactive { .. })));
    let refused = flush(&second).unwrap_err();
    assert!(matches!(refused, AccessError::Unsettled { .. }), "{refused}");
    second.with_raw(|raw| rig.gpu.allocator().invalidate(raw.allocation(), 0..64)).unwrap();
    frame.end().unwrap();
    rig.gpu.wait_idle().unwrap();
    rig.gpu.reclaim();
    flush(&second).unwrap();
    drop((first, second));
    rig.finish();
}

#[test]
fn threads_that_access_the_bytes_all_the_time_hold_no_activation_back() {
    let rig = Rig::new();
    let buffers = overlapping(&rig, MemoryUsage::Upload);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut bytes = [0; 4 << 10];
                while !is_over.load(Relaxed) {
                    for buffer in &buffers {
                        match buffer.read(0, &mut bytes) {
                            Ok(()) | Err(AccessError::Inactive { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
        for at in 0..200 {
            let buffer = &buffers[(at + 1) % 2];
            assert!(buffer.activate().unwrap().needs_barrier);
            assert!(buffer.is_active() && !buffers[at % 2].is_active());
        }
        is_over.store(true, Relaxed);
    });
    drop(buffers);
    rig.finish();
}

#[test]
fn a_pool_is_not_reset_while_memory_of_it_is_owned() {
    let rig = Rig::new();
    let allocator = rig.gpu.allocator();
    let best = allocator.explain(&Requirements::new(64), &MemoryUsage::GpuOnly.into())[0].memory_type;
    let pool = allocator.create_pool(PoolDesc::new([best])).unwrap();
    let options = MemoryUsage::GpuOnly.with_name("shared").with_pool(&pool);
    let memory = rig.gpu.allocate_memory(&Requirements::new(8 * KIB), &options).unwrap();
    let buffer = rig.buffer_in(&memory, 0, KIB, "one");
    drop((memory, options));
    let refused = allocator.reset_pool(&pool);
    assert!(matches!(refused, Err(AllocationError::ResourcesInPool { count: 1, .. })), "{refused:?}");
    rig.gpu.uploads().write_buffer(&buffer, 0, &[3; 1 << 10]).unwrap();
    assert_eq!(rig.found(&buffer), [3; 1 << 10]);
    drop(buffer);
    rig.gpu.wait_idle().unwrap();
    rig.gpu.reclaim();
    allocator.destroy_pool(pool).unwrap();
    rig.finish();
}

/// Two buffers over the same bytes, the first of which is active.
fn overlapping(rig: &Rig, usage: MemoryUsage) -> [Buffer<SimulatedGpu>; 2] {
    let memory = rig.memory(8 * KIB, usage);
    ["first", "second"].map(|name| rig.buffer_in(&memory, 0, 4 * KIB, name))
}

#[test]
fn an_inactive_resource_is_refused_by_every_safe_call_that_reaches_its_bytes() {
    let rig = Rig::on("discrete-large-bar", GpuDesc::default());
    let [first, second] = overlapping(&rig, MemoryUsage::Upload);
    assert!(first.is_active() && !second.is_active());
    first.write(0, &[1; 64]).unwrap();
    let check = |what: &str, error: AccessError| {
        let AccessError::Inactive { active, name } = error else { panic!("{what}: {error:?}") };
        assert_eq!((active.as_str(), name.as_str()), ("first", "second"), "{what}");
    };
    let access = |what, result: Result<(), AccessError>| check(what, result.expect_err(what));
    access("write", second.write(0, &[2; 64]));
    access("read", second.read(0, &mut [0; 64]));
    let allocator = rig.gpu.allocator();
    second.with_raw(|raw| {
        let token = raw.allocation();
        access("allocator.write", allocator.write(token, 0, &[2; 64]));
        access("map", allocator.map(token).map(drop));
        access("flush", allocator.flush(token, 0..64));
        access("invalidate", allocator.invalidate(token, 0..64));
        let mut transfer = Transfer::new(allocator, QUEUE, 4 * KIB).unwrap();
        for through_the_queue in [false, true] {
            if through_the_queue {
                transfer = transfer.through_the_queue();
            }
            let refused = [
                transfer.upload_to(raw, 0, &[2; 64]),
                transfer.download_from(raw, 0, &mut [0; 64]),
                transfer.upload(token, 0, &[2; 64]),
                transfer.download(token, 0, &mut [0; 64]),
            ];
            for result in refused {
                let error = result.unwrap_err();
                let allotment::memory::TransferError::Access(error) = error else { panic!("{error:?}") };
                check("transfer", error);
            }
        }
    });
    let upload = |result: Result<(), UploadError>| match result.unwrap_err() {
        UploadError::Access(error) => check("upload", error),
        other => panic!("{other:?}"),
    };
    upload(rig.gpu.uploads().write_buffer(&second, 0, &[2; 64]));
    upload(rig.gpu.uploads().update_buffer(&second, 0, &[2; 64]));
    match rig.gpu.reads().read_buffer(&second, 0, 64).unwrap_err() {
        ReadError::Access(error) => check("reads", error),
        other => panic!("{other:?}"),
    }
    let mut bytes = [0; 64];
    first.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [1; 64], "nothing was written");
    drop((first, second));
    rig.finish();
}

#[test]
fn what_does_not_overlap_is_activated_while_a_transfer_waits_for_the_gpu() {
    let rig = Rig::new();
    let [first, second] = overlapping(&rig, MemoryUsage::GpuOnly);
    let [third, fourth] = overlapping(&rig, MemoryUsage::GpuOnly);
    let mut transfer = Transfer::new(rig.gpu.allocator(), QUEUE, 4 * KIB).unwrap().through_the_queue();
    let before = rig.device.submitted(QUEUE);
    rig.device.pause_queues();
    thread::scope(|scope| {
        let sent = scope.spawn(|| first.with_raw(|raw| transfer.upload_to(raw, 0, &[1; 64])));
        while rig.device.submitted(QUEUE) == before {
            thread::yield_now();
        }
        // This would wait for ever: the queues go on after it.
        assert!(fourth.activate().unwrap().needs_barrier);
        let activated = scope.spawn(|| second.activate());
        assert!(first.is_active() && !activated.is_finished(), "the transfer still uses the bytes");
        rig.device.resume_queues();
        sent.join().unwrap().unwrap();
        assert!(activated.join().unwrap().unwrap().needs_barrier);
    });
    assert!(!first.is_active() && second.is_active());
    drop((first, second, third, fourth, transfer));
    rig.finish();
}

#[test]
fn an_activated_buffer_is_written_once_the_gpu_is_done_with_what_it_was_given_before() {
    let rig = Rig::new();
    let [first, second] = overlapping(&rig, MemoryUsage::GpuOnly);
    rig.gpu.uploads().write_buffer(&first, 0, &[1; 4 << 10]).unwrap();
    let pending = second.activate().unwrap_err();
    assert!(matches!(pending, AccessError::BeingWritten { .. }), "{pending:?}");
    assert!(pending.to_string().contains("\"first\"") && pending.name() == Some("second"), "{pending}");
    assert!(first.is_active(), "a refused activation changes nothing");
    rig.gpu.uploads().submit().unwrap();
    rig.gpu.wait_idle().unwrap();
    let recording = rig.gpu.record("uses the first one, then the second");
    let activation = second.activate().unwrap();
    assert!(activation.needs_barrier && activation.before == Some(first.id()));
    assert!(!first.is_active() && second.is_active());
    assert!(!second.activate().unwrap().needs_barrier);
    let refused = || rig.gpu.uploads().write_buffer(&second, 0, &[2; 64]).unwrap_err();
    let check = |error: UploadError| {
        assert!(matches!(error, UploadError::Access(AccessError::Unsettled { .. })), "{error:?}");
        assert_eq!(error.name(), Some("second"));
    };
    check(refused());
    rig.gpu.reclaim();
    check(refused());
    // The GPU stays busy with it.
    rig.device.pause_queues();
    rig.submit_empty(recording);
    rig.gpu.reclaim();
    check(refused());
    rig.device.resume_queues();
    rig.gpu.wait_idle().unwrap();
    rig.gpu.reclaim();
    rig.gpu.uploads().write_buffer(&second, 0, &[2; 4 << 10]).unwrap();
    assert!(rig.found(&second) == [2; 4 << 10]);
    drop((first, second));
    rig.finish();
}

#[test]
fn what_lies_between_two_activations_counts_as_well() {
    // The second one overlaps both; the first and the third do not overlap each other.
    let rig = Rig::new();
    let memory = rig.memory(8 * KIB, MemoryUsage::GpuOnly);
    let first = rig.buffer_in(&memory, 0, 4 * KIB, "first");
    let both = rig.buffer_in(&memory, 0, 8 * KIB, "both");
    let third = rig.buffer_in(&memory, 4 * KIB, 4 * KIB, "third");
    assert!(first.is_active() && !both.is_active() && third.is_active(), "nothing active overlaps it");
    // The one that is inactive may have been used before.
    let written = rig.gpu.uploads().write_buffer(&third, 0, &[3; 64]);
    let error = written.map(drop);
    assert!(matches!(error, Err(UploadError::Access(AccessError::Unsettled { .. }))) || error.is_ok());
    rig.gpu.wait_idle().unwrap();
    rig.gpu.reclaim();
    rig.gpu.uploads().write_buffer(&third, 0, &[3; 4 << 10]).unwrap();
    rig.gpu.uploads().write_buffer(&first, 0, &[1; 4 << 10]).unwrap();
    assert!(rig.found(&third) == [3; 4 << 10] && rig.found(&first) == [1; 4 << 10]);
    let activation = both.activate().unwrap();
    assert_eq!((activation.needs_barrier, activation.before), (true, None), "two had the bytes");
    assert!(!first.is_active() && both.is_active() && !third.is_active());
    // The one that had the bytes is destroyed: none is active where it was.
    drop(both);
    rig.gpu.wait_idle().unwrap();
    rig.gpu.reclaim();
    let refused = rig.gpu.reads().read_buffer(&first, 0, 64).unwrap_err();
    assert!(refused.to_string().contains("not active"), "{refused}");
    assert!(first.activate().unwrap().needs_barrier);
    drop((memory, first, third));
    rig.finish();
}

#[test]
fn a_resource_in_the_place_of_one_that_is_on_its_way_out_waits_for_it() {
    let rig = Rig::new();
    let memory = rig.memory(8 * KIB, MemoryUsage::GpuOnly);
    let first = rig.buffer_in(&memory, 0, 4 * KIB, "first");
    let recording = rig.gpu.record("uses the first one");
    drop(first);
    let second = rig.buffer_in(&memory, 0, 4 * KIB, "second");
    assert!(!second.is_active());
    assert!(second.activate().unwrap().needs_barrier);
    let refused = rig.gpu.uploads().write_buffer(&second, 0, &[2; 64]).unwrap_err();
    assert!(matches!(refused, UploadError::Access(AccessError::Unsettled { .. })), "{refused}");
    drop(recording);
    rig.gpu.reclaim();
    rig.gpu.uploads().write_buffer(&second, 0, &[2; 64]).unwrap();
    // In the place of one that is gone, one is active at once.
    drop(second);
    rig.gpu.wait_idle().unwrap();
    rig.gpu.reclaim();
    let third = rig.buffer_in(&memory, 0, 4 * KIB, "third");
    rig.gpu.uploads().write_buffer(&third, 0, &[3; 4 << 10]).unwrap();
    assert!(rig.found(&third) == [3; 4 << 10]);
    drop((memory, third));
    rig.finish();
}

#[test]
fn a_read_of_what_loses_its_bytes_before_it_is_submitted_fails_alone() {
    let rig = Rig::new();
    let [first, second] = overlapping(&rig, MemoryUsage::GpuOnly);
    let apart = rig.buffer(64);
    rig.gpu.uploads().write_buffer(&apart, 0, &[7; 64]).unwrap();
    rig.gpu.uploads().submit().unwrap();
    let (lost, kept) =
        (rig.gpu.reads().read_buffer(&first, 0, 64), rig.gpu.reads().read_buffer(&apart, 0, 64));
    let (lost, kept) = (lost.unwrap(), kept.unwrap());
    assert!(second.activate().unwrap().needs_barrier);
    // A read of the new one is served while the GPU may use the old one: the copy waits for all that was submitted.
    let new = rig.gpu.reads().read_buffer(&second, 0, 64).unwrap();
    assert_eq!(rig.bytes(&kept), [7; 64]);
    assert!(matches!(lost.bytes(), Err(ReadError::Access(AccessError::Inactive { .. }))));
    assert_eq!(rig.bytes(&new).len(), 64);
    drop((first, second, apart, kept, lost, new));
    rig.finish();
}

#[test]
fn an_image_that_is_activated_is_as_a_new_one() {
    let rig = Rig::new();
    let needs = rig.device.image_requirements(&image_of(64)).unwrap();
    let options = MemoryUsage::GpuOnly.with_name("targets");
    let memory = rig.gpu.allocate_memory(&needs, &options).unwrap();
    let image = |name| rig.gpu.create_image_in(&memory, 0, &image_of(64), name).unwrap();
    let [first, second]: [Image<SimulatedGpu>; 2] = [image("first"), image("second")];
    let settle = || {
        rig.gpu.wait_idle().unwrap();
        rig.gpu.reclaim();
    };
    for round in 0..3_u8 {
        for (fill, image) in [(2 * round, &first), (2 * round + 1, &second)] {
            assert_eq!(image.activate().unwrap().needs_barrier, round > 0 || fill > 0);
            assert_eq!(image.state(), None, "nothing is known of it");
            let read = rig.gpu.reads().read_image(image, &ImagePart::default());
            assert!(read.is_err(), "it has no texels");
            settle();
            rig.gpu.uploads().write_image(image, &[fill; 64 * 64 * 4]).unwrap();
            let read = rig.gpu.reads().read_image(image, &ImagePart::default()).unwrap();
            assert!(rig.bytes(&read) == [fill; 64 * 64 * 4]);
            settle();
        }
    }
    drop((memory, first, second));
    rig.finish();
}

#[test]
fn pages_that_linear_and_optimal_resources_share_and_atoms_of_the_cpu_count_as_overlap() {
    let rig = Rig::new();
    let page = rig.device.profile().limits.buffer_image_granularity.get();
    assert_eq!(page, 64 * KIB);
    let memory = rig.memory(2 * page, MemoryUsage::GpuOnly);
    let low = rig.buffer_in(&memory, 0, 256, "low");
    let beside = rig.buffer_in(&memory, 256, 256, "beside");
    let at = rig.device.image_requirements(&image_of(16)).unwrap().alignment.get().max(1024);
    let image = rig.gpu.create_image_in(&memory, at, &image_of(16), "in the same page").unwrap();
    let apart = rig.gpu.create_image_in(&memory, page, &image_of(16), "in the next page").unwrap();
    assert!(low.is_active() && beside.is_active() && !image.is_active() && apart.is_active());
    drop((memory, low, beside, image, apart));
    rig.finish();
    let rig = Rig::on("mobile-atom-256", GpuDesc::default());
    let mut options = MemoryUsage::Upload.with_name("cached");
    options.required = allotment::device::MemoryProperties::HOST_CACHED;
    let requirements = Requirements::new(4 * KIB).with_alignment(Alignment::new(256).unwrap());
    let memory = rig.gpu.allocate_memory(&requirements, &options).unwrap();
    let atom = rig.device.profile().limits.non_coherent_atom_size.get();
    let low = rig.buffer_in(&memory, 0, atom / 2, "low");
    let same_atom = rig.buffer_in(&memory, atom / 2, atom / 2, "in the same atom");
    let next_atom = rig.buffer_in(&memory, atom, atom / 2, "in the next atom");
    assert!(low.is_active() && !same_atom.is_active() && next_atom.is_active());
    drop((memory, low, same_atom, next_atom));
    rig.finish();
}

#[test]
fn members_of_a_group_are_all_active_wherever_kinds_and_atoms_are_kept_apart() {
    for profile in Profile::all() {
        let rig = Rig::on(profile.name, GpuDesc::default());
        let buffer = |size| rig.device.buffer_requirements(&BufferDesc::new(size)).unwrap();
        let image = |side| rig.device.image_requirements(&image_of(side)).unwrap();
        let needs = [buffer(100), image(16), buffer(5000), image(64), buffer(1)];
        let options = MemoryUsage::GpuOnly.with_name("group");
        let (memory, offsets) = match rig.gpu.allocate_group(&needs, &options) {
            Ok(group) => group,
            Err(error) => {
                let apart = needs[0].memory_types.0 & needs[1].memory_types.0 == 0;
                assert!(apart && matches!(error, GroupError::NoCommonType { member: 1, .. }), "{error}");
                assert!(error.to_string().contains("member [1]"), "{error}");
                rig.finish();
                continue;
            }
        };
        let buffers =
            [(0, 100), (2, 5000), (4, 1)].map(|(at, size)| rig.buffer_in(&memory, offsets[at], size, "one"));
        let images = [(1, 16), (3, 64)]
            .map(|(at, side)| rig.gpu.create_image_in(&memory, offsets[at], &image_of(side), "one").unwrap());
        assert!(
            buffers.iter().all(|it| it.is_active()) && images.iter().all(|it| it.is_active()),
            "{}",
            profile.name
        );
        for (buffer, fill) in buffers.iter().zip(1..) {
            rig.gpu.uploads().write_buffer(buffer, 0, &vec![fill; buffer.size() as usize]).unwrap();
        }
        for (buffer, fill) in buffers.iter().zip(1..) {
            assert!(rig.found(buffer).iter().all(|&byte| byte == fill), "{}", profile.name);
        }
        drop((memory, buffers, images));
        rig.finish();
    }
}

#[test]
fn members_of_a_group_share_no_atom_of_memory_that_is_flushed() {
    let rig = Rig::on("mobile-atom-256", GpuDesc::default());
    let mut options = MemoryUsage::Upload.with_name("cached");
    options.required = allotment::device::MemoryProperties::HOST_CACHED;
    let needs = [(); 3].map(|()| rig.device.buffer_requirements(&BufferDesc::new(100)).unwrap());
    let (memory, offsets) = rig.gpu.allocate_group(&needs, &options).unwrap();
    let members: Vec<_> = offsets.iter().map(|&at| rig.buffer_in(&memory, at, 100, "one")).collect();
    assert!(members.iter().all(|member| member.is_active()), "at {offsets:?}");
    let atom = rig.device.profile().limits.non_coherent_atom_size.get();
    assert!(members.iter().all(|member| member.info().offset % atom == 0));
    drop((memory, members));
    rig.finish();
}

#[test]
fn what_is_placed_counts_in_the_category_of_its_memory() {
    let rig = Rig::new();
    let options = MemoryUsage::GpuOnly.with_name("shared").with_category("targets");
    let memory = rig.gpu.allocate_memory(&any_kind(8 * KIB), &options).unwrap();
    let buffer = rig.buffer_in(&memory, 0, KIB, "one");
    assert_eq!(buffer.info().category, "targets");
    let leaks = LeakReport::of_device(&rig.device).leaks;
    assert!(leaks.iter().all(|leak| leak.category == "targets"), "{leaks:?}");
    drop((memory, buffer));
    rig.finish();
}

#[test]
fn an_activation_is_over_with_its_own_work_and_not_with_that_of_one_before() {
    let rig = Rig::new();
    let [first, second] = overlapping(&rig, MemoryUsage::GpuOnly);
    let before = rig.gpu.record("uses the first one");
    assert!(second.activate().unwrap().needs_barrier);
    assert!(first.activate().unwrap().needs_barrier);
    let between = rig.gpu.record("uses the first one again");
    assert!(second.activate().unwrap().needs_barrier);
    drop(before);
    rig.gpu.reclaim();
    let refused = rig.gpu.uploads().write_buffer(&second, 0, &[2; 64]).unwrap_err();
    assert!(matches!(refused, UploadError::Access(AccessError::Unsettled { .. })), "{refused}");
    drop(between);
    rig.gpu.reclaim();
    rig.gpu.uploads().write_buffer(&second, 0, &[2; 64]).unwrap();
    drop((first, second));
    rig.finish();
}

#[test]
fn what_is_destroyed_has_no_bytes_in_the_name_of_a_later_one() {
    let rig = Rig::new();
    // Each begins where its memory object begins.
    let options = MemoryUsage::GpuOnly.with_name("shared").with_dedicated(Dedicated::Always);
    let memories = [(); 2].map(|()| rig.gpu.allocate_memory(&Requirements::new(8 * KIB), &options).unwrap());
    let [kept, gone] =
        [(4, "kept"), (0, "gone")].map(|(at, name)| rig.buffer_in(&memories[0], at * KIB, 4 * KIB, name));
    drop(gone);
    rig.gpu.wait_idle().unwrap();
    rig.gpu.reclaim();
    // It has the record of the one that is gone.
    let elsewhere = rig.buffer_in(&memories[1], 0, 4 * KIB, "elsewhere");
    let later = rig.buffer_in(&memories[0], 0, 4 * KIB, "later");
    assert!(elsewhere.is_active() && later.is_active());
    assert!(!later.activate().unwrap().needs_barrier, "it is alone in its bytes");
    drop((memories, kept, elsewhere, later));
    rig.finish();
}

#[test]
fn an_image_whose_first_activation_needs_a_barrier_has_lost_its_state_by_it() {
    let rig = Rig::new();
    let needs = rig.device.image_requirements(&image_of(64)).unwrap();
    let options = MemoryUsage::GpuOnly.with_name("targets");
    let requirements = Requirements { size: 2 * needs.size, ..needs };
    let memory = rig.gpu.allocate_memory(&requirements, &options).unwrap();
    let image = |at, name| rig.gpu.create_image_in(&memory, at, &image_of(64), name).unwrap();
    let over_both = image(needs.size / 2, "over both");
    let high = image(needs.size, "high");
    assert!(high.activate().unwrap().needs_barrier);
    // Nothing active is where it is, but something was.
    let low = image(0, "low");
    assert!(low.is_active());
    // SAFETY: no queue uses it, and it is never read.
    unsafe { low.set_state(()) };
    assert_eq!(low.state(), Some(()));
    assert!(low.activate().unwrap().needs_barrier);
    assert_eq!(low.state(), None);
    drop((memory, over_both, high, low));
    rig.finish();
}

#[test]
fn memory_is_pinned_whatever_its_options_say_since_the_program_knows_the_places_in_it() {
    let rig = Rig::new();
    let options = MemoryUsage::GpuOnly.with_name("shared").with_movability(Movability::Copied);
    let memory = rig.gpu.allocate_memory(&any_kind(8 * KIB), &options).unwrap();
    let buffer = rig.buffer_in(&memory, 0, KIB, "one");
    assert_eq!(
        (memory.info().movability, buffer.info().movability),
        (Movability::Pinned, Movability::Pinned)
    );
    drop((memory, buffer));
    rig.finish();
}
