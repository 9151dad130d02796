//! The events that a subscriber of `tracing` gets, and that it may call the library meanwhile.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

use core::cell::Cell;
use core::fmt::{Debug, Write as _};
use core::time::Duration;
use std::sync::{Arc, Mutex, mpsc};

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{BufferDesc, DeviceError};
use allotment::gpu::{Gpu, GpuDesc};
use allotment::memory::blocks::{BlockGrowth, BlockSizes, Watermark};
use allotment::memory::defragmentation::{DefragmentationDesc, DefragmentationStrategy};
use allotment::memory::reports::LeakHandler;
use allotment::memory::{ExpectedLifetime, NewBlocks};
use allotment::upload::UploaderDesc;
use allotment::{AllocatorDesc, MemoryUsage, Requirements};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Stores events and, for each, asks the layers of a `Gpu` for what they need locks for.
#[derive(Clone, Default)]
struct Curious {
    events: Arc<Mutex<Vec<(Level, String, String)>>>,
    gpu: Arc<Mutex<Option<Gpu<SimulatedGpu>>>>,
}

thread_local! {
    /// The subscriber is asking, and gets the events of that as well.
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl Subscriber for Curious {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("allotment::")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if ASKING.replace(true) {
            return;
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        let (level, target) = (*event.metadata().level(), event.metadata().target().to_owned());
        self.events.lock().unwrap().push((level, target, text.0));
        let gpu = self.gpu.lock().unwrap().clone();
        if let Some(gpu) = gpu {
            // A block more at each event that a block is freed would never end.
            let options =
                MemoryUsage::GpuOnly.with_name("a question").with_new_blocks(NewBlocks::NeverAllocate);
            let allocator = gpu.allocator();
            let _ =
                (allocator.reports().blocks(), allocator.reports().leaks(), allocator.reports().dump_json());
            if let Ok(allocation) = allocator.allocate(&Requirements::new(64), &options) {
                allocator.free(allocation).unwrap();
            }
            let _ = (gpu.tracker().statistics(), gpu.tracker().poll(), gpu.deletion_queue().statistics());
            gpu.deletion_queue().reclaim();
            gpu.deletion_queue().retire(7_u64);
            if let Ok(descriptors) = gpu.descriptors() {
                let _ = descriptors.resources().statistics();
            }
        }
        ASKING.set(false);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Curious {
    fn assert_seen(&self, level: Level, target: &str, text: &str) {
        let events = self.events.lock().unwrap();
        let seen =
            events.iter().any(|(l, t, found)| (*l, t.as_str()) == (level, target) && found.contains(text));
        assert!(seen, "{level} {target}: {text} is not among {events:#?}");
    }

    /// Runs `work` on a thread whose events this subscriber gets. Fails where that does not end.
    fn watch(&self, work: impl FnOnce(&Self) + Send + 'static) {
        let (subscriber, (done, wait)) = (self.clone(), mpsc::channel());
        let thread = std::thread::spawn(move || {
            tracing::subscriber::with_default(subscriber.clone(), || work(&subscriber));
            *subscriber.gpu.lock().unwrap() = None;
            let _ = done.send(());
        });
        let waited = wait.recv_timeout(Duration::from_secs(60));
        assert_ne!(waited, Err(mpsc::RecvTimeoutError::Timeout), "an event was emitted with a lock held");
        thread.join().unwrap();
    }

    /// Creates a `Gpu` that is asked at each event from now on.
    fn gpu(
        &self,
        change: impl FnOnce(GpuDesc, AllocatorDesc) -> GpuDesc,
    ) -> (SimulatedGpu, Gpu<SimulatedGpu>) {
        let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
        let mut allocator = AllocatorDesc::default();
        (allocator.block_sizes, allocator.on_leak) = (BlockSizes::fixed(1 << 20), LeakHandler::Ignore);
        let gpu = Gpu::new(device.clone(), change(GpuDesc::default(), allocator)).unwrap();
        *self.gpu.lock().unwrap() = Some(gpu.clone());
        (device, gpu)
    }
}

fn mesh(size: u64) -> (Requirements, allotment::AllocationOptions) {
    (Requirements::new(size), MemoryUsage::GpuOnly.with_name("mesh"))
}

#[test]
fn driver_calls_and_refusals_of_memory_are_events() {
    let seen = Curious::default();
    seen.watch(|seen| {
        let (device, gpu) = seen.gpu(GpuDesc::with_allocator);
        let (size, options) = mesh(1000);
        let first = gpu.allocator().allocate(&size, &options).unwrap();
        seen.assert_seen(
            Level::DEBUG,
            "allotment::memory",
            "allocated a memory object memory_type=0 bytes=1048576",
        );
        let short =
            options.clone().with_lifetime(ExpectedLifetime::Short).with_new_blocks(NewBlocks::NeverAllocate);
        gpu.allocator().allocate(&size, &short).unwrap_err();
        seen.assert_seen(Level::DEBUG, "allotment::memory", "refused a request bytes=1000 error=");
        device.fail_from(1, DeviceError::OutOfDeviceMemory);
        gpu.allocator().allocate(&size, &options.with_lifetime(ExpectedLifetime::Short)).unwrap_err();
        device.clear_faults();
        seen.assert_seen(Level::WARN, "allotment::memory", "the driver refused memory");
        gpu.allocator().free(first).unwrap();
        gpu.allocator().trim();
        seen.assert_seen(
            Level::DEBUG,
            "allotment::memory",
            "frees a memory object memory_type=0 bytes=1048576",
        );
    });
}

#[test]
fn maintenance_and_moves_are_events() {
    let seen = Curious::default();
    seen.watch(|seen| {
        let (_, gpu) = seen.gpu(|desc, mut allocator| {
            allocator.block_growth = BlockGrowth::Ahead(Watermark::default());
            let full = DefragmentationDesc::new(DefragmentationStrategy::Full);
            desc.with_allocator(allocator).with_defragmentation(full)
        });
        let options = MemoryUsage::GpuOnly.with_name("mesh").relocatable();
        let mut meshes: Vec<_> =
            (0..16).map(|_| gpu.create_buffer(&BufferDesc::new(256 << 10), &options).unwrap()).collect();
        let mut index = 0;
        meshes.retain(|_| (index % 4 == 0, index += 1).0);
        for _ in 0..20 {
            gpu.begin_frame().unwrap().end().unwrap();
        }
        seen.assert_seen(Level::DEBUG, "allotment::memory", "maintained blocks=");
        seen.assert_seen(Level::DEBUG, "allotment::memory", "moved resources");
        seen.assert_seen(Level::TRACE, "allotment::lifetime", "destroyed retired objects count=");
        drop(meshes);
    });
}

#[test]
fn leaks_are_warnings_with_the_place_of_their_allocation() {
    let seen = Curious::default();
    seen.watch(|seen| {
        let (_, gpu) = seen.gpu(|desc, mut allocator| {
            allocator.on_leak = LeakHandler::Call(Arc::new(|_| {}));
            allocator.call_sites = allotment::memory::reports::CallSites::Location;
            desc.with_allocator(allocator)
        });
        let (size, options) = mesh(1000);
        drop(gpu.allocator().allocate(&size, &options).unwrap());
        *seen.gpu.lock().unwrap() = None;
        drop(gpu);
        seen.assert_seen(Level::WARN, "allotment::memory", "was dropped with live allocations");
        seen.assert_seen(
            Level::WARN,
            "allotment::memory",
            "\"mesh\": 1000 bytes of memory type 0, allocated at ",
        );
        seen.assert_seen(Level::WARN, "allotment::memory", "tracing.rs");
    });
}

#[test]
fn the_loss_of_the_device_is_a_warning_once() {
    let seen = Curious::default();
    seen.watch(|seen| {
        let (device, gpu) = seen.gpu(GpuDesc::with_allocator);
        device.pause_queues();
        let target = gpu.create_buffer(&BufferDesc::new(1024), &MemoryUsage::GpuOnly.into()).unwrap();
        gpu.uploads().write_buffer(&target, 0, &[1; 1024]).unwrap();
        gpu.uploads().submit().unwrap();
        device.lose_device();
        for _ in 0..3 {
            gpu.tracker().wait_idle(Duration::from_secs(1)).unwrap_err();
        }
        seen.assert_seen(Level::WARN, "allotment::lifetime", "the device is lost");
        let events = seen.events.lock().unwrap();
        assert_eq!(events.iter().filter(|(.., text)| text.contains("the device is lost")).count(), 1);
    });
}

#[test]
fn objects_that_outlive_their_deletion_queue_are_a_warning() {
    let seen = Curious::default();
    seen.watch(|seen| {
        let (_, gpu) = seen.gpu(GpuDesc::with_allocator);
        let recording = gpu.record("open");
        gpu.deletion_queue().retire(7_u64);
        *seen.gpu.lock().unwrap() = None;
        drop(gpu);
        let text = "objects outlive their deletion queue objects=1 held=true";
        seen.assert_seen(Level::WARN, "allotment::lifetime", text);
        drop(recording);
    });
}

#[test]
fn waits_for_the_gpu_are_events() {
    let seen = Curious::default();
    seen.watch(|seen| {
        let (device, gpu) = seen.gpu(|desc, allocator| {
            let mut uploader = UploaderDesc::default();
            uploader.staging = 64 << 10;
            desc.with_allocator(allocator).with_uploader(uploader).with_frames_in_flight(1)
        });
        device.set_latency(Duration::from_millis(1));
        // The uploader is locked during its events, so it is not asked.
        let target = gpu.create_buffer(&BufferDesc::new(1 << 20), &MemoryUsage::GpuOnly.into()).unwrap();
        gpu.uploads().write_buffer(&target, 0, &vec![1; 1 << 20]).unwrap();
        seen.assert_seen(Level::DEBUG, "allotment::upload", "staging memory is full: waits for the GPU");
        drop(target);
    });
}

#[test]
fn the_replacement_of_a_descriptor_heap_is_an_event() {
    let seen = Curious::default();
    seen.watch(|seen| {
        let (_, gpu) = seen.gpu(GpuDesc::with_allocator);
        gpu.descriptors().unwrap().resources().compact().unwrap();
        seen.assert_seen(Level::DEBUG, "allotment::descriptor", "replaced a descriptor heap generation=");
    });
}
