//! A program that works without a reader of its events works with one: whatever guards its threads hold, and wherever a
//! thread is in a call of the driver.

use core::fmt;
use core::time::Duration;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use allotment::descriptor::ShaderVisibleHeapDesc;
use allotment::device::BufferDesc;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::events::{Event, EventBatch, EventSubscription, RingKind, SubscriptionDesc};
use allotment::{Gpu, GpuDesc, MemoryUsage};

use crate::hooked_device::{Hook, HookedDevice, Point};

/// Far longer than any test takes: what has not returned then never returns.
const PATIENCE: Duration = Duration::from_secs(120);

/// Does something once, when a call of the driver is reached.
#[derive(Default)]
struct Once(Mutex<Option<(Point, Work)>>);

type Work = Box<dyn FnOnce() + Send>;

impl Hook for Once {
    fn reached(&self, point: Point) {
        let work = self.0.lock().unwrap().take_if(|(at, _)| *at == point);
        work.into_iter().for_each(|(_, work)| work());
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Once")
    }
}

type Device = HookedDevice<Once>;

fn gpu() -> Gpu<Device> {
    let device = Device::new(SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap()));
    let resources = ShaderVisibleHeapDesc::resources().with_regions(16, 64, 64).with_chunk(8);
    Gpu::new(device, GpuDesc::default().with_resource_descriptors(resources)).unwrap()
}

fn at(gpu: &Gpu<Device>, point: Point, work: impl FnOnce() + Send + 'static) {
    *gpu.device().hook.0.lock().unwrap() = Some((point, Box::new(work)));
}

/// Lets the next call of the driver stop at a point. Returns what hears of it, and what lets it go on.
fn stop_at(gpu: &Gpu<Device>, point: Point) -> (Receiver<()>, SyncSender<()>) {
    let ((reached, is_reached), (go_on, goes_on)) = (sync_channel(1), sync_channel(1));
    at(gpu, point, move || {
        reached.send(()).unwrap();
        goes_on.recv().unwrap();
    });
    (is_reached, go_on)
}

/// Does what must return, on a thread, and returns its result.
fn returns<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, result) = sync_channel(1);
    let thread = thread::spawn(move || send.send(work()));
    let result = result.recv_timeout(PATIENCE);
    assert!(result.is_ok() || thread.is_finished(), "a thread does not return");
    thread.join().unwrap().unwrap();
    result.unwrap()
}

fn subscribe(gpu: &Gpu<Device>) -> EventSubscription {
    gpu.subscribe(&SubscriptionDesc::default()).unwrap()
}

fn read(events: &mut EventSubscription) -> Vec<Event> {
    let mut batch = EventBatch::new();
    events.read(&mut batch);
    batch.events().to_vec()
}

fn tells_of_ring(events: &[Event], of: RingKind) -> bool {
    events.iter().any(|event| matches!(event, Event::RingCreated { kind, .. } if *kind == of))
}

#[test]
fn a_thread_that_holds_the_readback_ring_attaches_a_reader_and_ends_frames() {
    let gpu = gpu();
    let events = returns(move || {
        let ring = gpu.readback().unwrap();
        gpu.begin_frame().unwrap().end().unwrap();
        let mut events = subscribe(&gpu);
        gpu.begin_frame().unwrap().end().unwrap();
        let while_held = read(&mut events);
        assert!(while_held.contains(&Event::FrameEnd { number: 0 }));
        assert!(!tells_of_ring(&while_held, RingKind::Readback), "it is in use");
        drop(ring);
        gpu.begin_frame().unwrap().end().unwrap();
        read(&mut events)
    });
    assert!(tells_of_ring(&events, RingKind::Readback));
}

#[test]
fn a_reader_is_attached_and_frames_end_while_an_upload_waits_for_the_driver() {
    let gpu = gpu();
    let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh")).unwrap();
    gpu.uploads().write_buffer(&mesh, 0, &[7; 4096]).unwrap();
    let (is_reached, go_on) = stop_at(&gpu, Point::BeforeSubmit);
    let loader = gpu.clone();
    let loader = thread::spawn(move || loader.uploads().submit().map(drop));
    is_reached.recv().unwrap();

    let frames = gpu.clone();
    let mut events = returns(move || {
        frames.begin_frame().unwrap().end().unwrap();
        let mut events = subscribe(&frames);
        frames.begin_frame().unwrap().end().unwrap();
        assert!(!tells_of_ring(&read(&mut events), RingKind::Staging), "it is in use");
        events
    });
    go_on.send(()).unwrap();
    loader.join().unwrap().unwrap();
    gpu.wait_idle().unwrap();
    gpu.begin_frame().unwrap().end().unwrap();
    assert!(tells_of_ring(&read(&mut events), RingKind::Staging));
}

#[test]
fn the_driver_is_asked_how_far_it_is_with_no_lock_that_a_program_without_a_reader_needs() {
    let gpu = gpu();
    let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh")).unwrap();
    gpu.device().inner.pause_queues();
    gpu.uploads().write_buffer(&mesh, 0, &[7; 4096]).unwrap();
    gpu.uploads().submit().unwrap();
    let all = {
        let gpu = gpu.clone();
        move || {
            assert_eq!(gpu.uploads().statistics().bytes_in_flight, 4096);
            drop(gpu.readback().unwrap());
            let _ = (gpu.deletion_queue().statistics(), gpu.upload_pool().statistics());
            let _ = gpu.allocator().statistics();
            gpu.reclaim();
        }
    };
    let attached = gpu.clone();
    let events = returns(move || {
        let gpu = attached;
        // At each question that attaching a reader asks, one after the other: until there is none left.
        for question in 0.. {
            at_question(&gpu, question, Box::new(all.clone()));
            let mut events = subscribe(&gpu);
            if gpu.device().hook.0.lock().unwrap().take().is_some() {
                assert!(question > 1, "{question} questions");
                return read(&mut events);
            }
        }
        Vec::new()
    });
    gpu.device().inner.resume_queues();
    let used = events.iter().filter_map(|event| match event {
        Event::RingUsed { used, .. } => Some(*used),
        _ => None,
    });
    assert!(used.into_iter().any(|used| used == 4096), "what is in flight is in use");
}

/// Does `work` when the device is asked what is complete, after this many questions.
fn at_question(gpu: &Gpu<Device>, number: u32, work: Work) {
    let again = gpu.clone();
    at(gpu, Point::BeforeCompleted, move || match number.checked_sub(1) {
        None => work(),
        Some(left) => at_question(&again, left, work),
    });
}

#[test]
fn a_reader_is_attached_and_frames_end_while_a_descriptor_heap_is_replaced() {
    let gpu = gpu();
    let heap = gpu.descriptors().unwrap().resources().clone();
    let table = heap.allocate(5).unwrap();
    let (is_reached, go_on) = stop_at(&gpu, Point::AfterCopy);
    let replaced = heap.clone();
    let replaces = thread::spawn(move || replaced.compact());
    is_reached.recv().unwrap();

    let frames = gpu.clone();
    let is_table = |event: &Event| matches!(event, Event::DescriptorsAllocated { count: 5, .. });
    let mut events = returns(move || {
        frames.allocator().end_frame();
        let mut events = subscribe(&frames);
        frames.allocator().end_frame();
        assert!(!read(&mut events).iter().any(is_table), "the tables are in use");
        events
    });
    go_on.send(()).unwrap();
    replaces.join().unwrap().unwrap();
    gpu.allocator().end_frame();
    assert_eq!(read(&mut events).iter().filter(|event| is_table(event)).count(), 1);
    gpu.allocator().end_frame();
    assert_eq!(read(&mut events).iter().filter(|event| is_table(event)).count(), 0, "told once");
    drop(table);
}
