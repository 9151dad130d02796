//! What belongs to another `Gpu` is refused by every safe call, also where both are over one device: neither knows of the
//! other's open recordings, and what one of them moves or destroys, work of the other may still read.

use std::sync::Arc;

use allotment::descriptor::{
    Binding, BindingSet, CpuDescriptorHeap, CpuDescriptorHeapDesc, ShaderVisibleHeap, ShaderVisibleHeapDesc,
};
use allotment::device::simulated::{Profile, SimulatedGpu, SimulatedImageUse};
use allotment::device::{
    BufferDesc, BufferUse, DescriptorHeapType, DeviceError, ImageDesc, ImagePart, TimelineValue,
};
use allotment::gpu::{Gpu, GpuDesc};
use allotment::lifetime::DeletionQueue;
use allotment::memory::{Buffer, Image, MappedBuffer, OwningAllocator, Transfer};
use allotment::upload::{ReadbackRing, RingDesc, UploadPool, UploadPoolDesc, UploadRing};
use allotment::{AllocationOptions, MemoryUsage, PoolDesc, Requirements};

use crate::rig::QUEUE;

/// A result without its types: the text of the error.
type Refused = Result<(), String>;

fn text<T, E: core::fmt::Debug>(result: Result<T, E>) -> Refused {
    result.map(drop).map_err(|error| format!("{error:?}"))
}

/// What one `Gpu` has, to be passed to another.
struct Things {
    gpu: Gpu<SimulatedGpu>,
    /// One that the defragmenter moves, and one that stays.
    buffers: [Arc<Buffer<SimulatedGpu>>; 2],
    images: [Arc<Image<SimulatedGpu>>; 2],
}

impl Things {
    fn of(gpu: Gpu<SimulatedGpu>) -> Self {
        let pinned = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("of the other Gpu");
        let relocatable = pinned.clone().relocatable();
        let buffer = |options| Arc::new(gpu.create_buffer(&BufferDesc::new(4096), options).unwrap());
        let image = |options| Arc::new(gpu.create_image(&ImageDesc::new(16, 16, 4), options).unwrap());
        let buffers = [buffer(&relocatable), buffer(&pinned)];
        let images = [image(&relocatable), image(&pinned)];
        Self { gpu, buffers, images }
    }

    /// Calls of `own` with what is here, each with its name and the error that it gives.
    fn calls_of(&self, own: &Gpu<SimulatedGpu>) -> Vec<(&'static str, Refused)> {
        let mut all = Vec::new();
        let descriptors = own.descriptors().unwrap();
        let heap = descriptors.resources();
        let bindings = [Binding::mutable("of a set"), Binding::dynamic("of a draw")];
        let mut set = BindingSet::new(&descriptors.binding_layout(&bindings).unwrap()).unwrap();
        for buffer in &self.buffers {
            all.push(("write_buffer", text(own.uploads().write_buffer(buffer, 0, &[1; 64]))));
            all.push(("update_buffer", text(own.uploads().update_buffer(buffer, 0, &[1; 64]))));
            all.push(("read_buffer", text(own.read_buffer(buffer, 0, &mut [0; 64]))));
            all.push(("reads, a buffer", text(own.reads().read_buffer(buffer, 0, 64))));
            for (binding, name) in [(0, "bind_buffer"), (1, "bind_buffer, dynamic")] {
                let bound = set.bind_buffer(binding, 0, buffer, 0..256, BufferUse::ReadOnly);
                all.push((name, text(bound)));
            }
            let inserted = heap.insert_buffer(buffer, 0..256, BufferUse::ReadOnly);
            all.push(("insert_buffer", text(inserted)));
        }
        for image in &self.images {
            let written = own.uploads().write_image(image, &[1; 1024]);
            all.push(("write_image", text(written)));
            let read = own.reads().read_image(image, &ImagePart::default());
            all.push(("reads, an image", text(read)));
            for (binding, name) in [(0, "bind_image"), (1, "bind_image, dynamic")] {
                // SAFETY: images of the simulated device can be used for anything.
                let bound = unsafe { set.bind_image(binding, 0, image, &SimulatedImageUse::Sampled) };
                all.push((name, text(bound)));
            }
            // SAFETY: as above.
            let inserted = unsafe { heap.insert_image(image, &SimulatedImageUse::Sampled) };
            all.push(("insert_image", text(inserted)));
        }
        let recording = self.gpu.record("of the other Gpu");
        all.push(("begin", text(heap.begin(&recording))));
        let nothing = |_, _: &[_]| -> Result<TimelineValue, DeviceError> { panic!("nothing is submitted") };
        all.push(("submit", text(own.submit(recording, QUEUE, nothing))));
        self.calls_with_memory(own, &mut all);
        all
    }

    /// Calls that take allocations, plain resources and pools.
    fn calls_with_memory(&self, own: &Gpu<SimulatedGpu>, all: &mut Vec<(&'static str, Refused)>) {
        let (theirs, ours) = (self.gpu.allocator(), own.allocator());
        let options = AllocationOptions::new(MemoryUsage::Upload).with_name("of the other Gpu");
        let mut allocation = theirs.allocate(&Requirements::new(4096), &options).unwrap();
        all.push((
            "create_aliasing_buffer",
            text(ours.create_aliasing_buffer(&allocation, 0, &BufferDesc::new(64))),
        ));
        let desc = ImageDesc::new(4, 4, 4);
        all.push(("create_aliasing_image", text(ours.create_aliasing_image(&allocation, 0, &desc))));
        all.push(("location", text(ours.location(&allocation))));
        all.push(("write", text(ours.write(&allocation, 0, &[1; 64]))));
        let mut transfer = Transfer::new(ours, QUEUE, 4096).unwrap();
        all.push(("upload", text(transfer.upload(&allocation, 0, &[1; 64]))));
        let mut raw = theirs.create_buffer(&BufferDesc::new(4096), &options).unwrap();
        all.push(("upload_to", text(transfer.upload_to(&raw, 0, &[1; 64]))));
        drop(transfer);
        match own.memory().own_allocation(allocation) {
            Ok(_) => panic!("own_allocation took it"),
            Err(wrong) => allocation = wrong.0,
        }
        match own.memory().own_buffer(raw) {
            Ok(_) => panic!("own_buffer took it"),
            Err(wrong) => raw = wrong.0,
        }
        match ours.free(allocation) {
            Ok(()) => panic!("free took it"),
            Err(wrong) => theirs.free(wrong.0).unwrap(),
        }
        match ours.destroy_buffer(raw) {
            Ok(()) => panic!("destroy_buffer took it"),
            Err(wrong) => theirs.destroy_buffer(wrong.0).unwrap(),
        }
        let memory = self.gpu.allocate_memory(&Requirements::new(4096), &options).unwrap();
        let placed = own.create_buffer_in(&memory, 0, &BufferDesc::new(64), "placed");
        all.push(("create_buffer_in", text(placed)));
        all.push(("create_image_in", text(own.create_image_in(&memory, 0, &desc, "placed"))));
        let best = theirs.explain(&Requirements::new(64), &options)[0].memory_type;
        let pool = theirs.create_pool(PoolDesc::new([best])).unwrap();
        let in_pool = options.with_pool(&pool);
        all.push(("create_buffer in a pool", text(own.create_buffer(&BufferDesc::new(64), &in_pool))));
        drop(in_pool);
        theirs.destroy_pool(pool).unwrap();
    }
}

fn device() -> SimulatedGpu {
    SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap())
}

/// Everything that is refused, as `own` refuses what is of `other`.
fn refusals(own: &Gpu<SimulatedGpu>, other: Gpu<SimulatedGpu>) {
    let things = Things::of(other);
    let calls = things.calls_of(own);
    assert!(calls.len() > 25);
    for (name, refused) in calls {
        let error = refused.expect_err(name);
        let says = ["WrongTracker", "WrongDevice", "WrongAllocator", "WrongPool"];
        assert!(says.iter().any(|word| error.contains(word)), "{name}: {error}");
    }
    own.wait_idle().unwrap();
    let heap = own.descriptors().unwrap().resources();
    assert_eq!(heap.statistics().slots.used, 0, "a refused call takes no slot");
    let Things { gpu, buffers, images } = things;
    for buffer in buffers {
        assert_eq!(Arc::strong_count(&buffer), 1, "a refused call keeps nothing");
    }
    for image in images {
        assert_eq!(Arc::strong_count(&image), 1, "a refused call keeps nothing");
    }
    gpu.wait_idle().unwrap();
}

#[test]
fn what_is_of_another_gpu_over_the_same_device_is_refused_by_every_call() {
    let device = device();
    let open = || Gpu::new(device.clone(), GpuDesc::default()).unwrap();
    let own = open();
    refusals(&own, open());
    drop(own);
    assert_eq!(device.validation_errors(), [""; 0]);
}

#[test]
fn what_is_of_another_device_is_refused_by_every_call() {
    let (one, other) = (device(), device());
    let open = |device: &SimulatedGpu| Gpu::new(device.clone(), GpuDesc::default()).unwrap();
    let own = open(&one);
    refusals(&own, open(&other));
    drop(own);
    assert_eq!(one.validation_errors(), [""; 0]);
    assert_eq!(other.validation_errors(), [""; 0]);
}

/// Calls that take the tracker of `other`, each with its name and the error that it gives.
fn calls_with_tracker(own: &Gpu<SimulatedGpu>, other: &Gpu<SimulatedGpu>) -> Vec<(&'static str, Refused)> {
    let (allocator, tracker) = (own.allocator(), other.tracker());
    let mapped =
        |usage: MemoryUsage| MappedBuffer::new(allocator, &BufferDesc::new(64), &usage.into()).unwrap();
    let (up, down) = (RingDesc::upload(64), RingDesc::readback(64));
    let cpu = CpuDescriptorHeapDesc::new(DescriptorHeapType::Resource);
    vec![
        ("OwningAllocator", text(OwningAllocator::new(allocator, &DeletionQueue::new(tracker)))),
        ("UploadPool", text(UploadPool::new(allocator, tracker, UploadPoolDesc::default()))),
        ("UploadRing", text(UploadRing::new(allocator, tracker, &up))),
        ("UploadRing::over", text(UploadRing::over(tracker, mapped(MemoryUsage::Upload)))),
        ("ReadbackRing", text(ReadbackRing::new(allocator, tracker, &down))),
        ("ReadbackRing::over", text(ReadbackRing::over(tracker, mapped(MemoryUsage::Readback)))),
        (
            "ShaderVisibleHeap",
            text(ShaderVisibleHeap::new(allocator, tracker, ShaderVisibleHeapDesc::resources())),
        ),
        ("CpuDescriptorHeap", text(CpuDescriptorHeap::new(allocator, tracker, cpu))),
    ]
}

#[test]
fn a_tracker_of_another_device_is_refused_by_all_that_destroys_or_reuses_by_it() {
    let (one, other) = (device(), device());
    let open = |device: &SimulatedGpu| Gpu::new(device.clone(), GpuDesc::default()).unwrap();
    let (own, foreign) = (open(&one), open(&other));
    for (name, refused) in calls_with_tracker(&own, &foreign) {
        let error = refused.expect_err(name);
        assert!(error.contains("WrongDevice"), "{name}: {error}");
    }
    assert_eq!(own.allocator().statistics().allocations, 0, "nothing is left of a refused call");
    // Another tracker of the same device knows all of its work.
    for (name, created) in calls_with_tracker(&own, &open(&one)) {
        assert_eq!(created, Ok(()), "{name}");
    }
}
