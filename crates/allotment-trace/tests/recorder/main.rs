//! Recording a program as it runs.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

mod files;

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, thread};

use allotment::device::BufferDesc;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::events::SubscriptionDesc;
use allotment::memory::blocks::BlockSizes;
use allotment::memory::reports::{CallSites, LeakHandler};
use allotment::{AllocationOptions, Allocator, AllocatorDesc, Gpu, GpuDesc, MemoryUsage, Requirements};
use allotment_trace::recording::{Api, Event, Recording, State};
use allotment_trace::{ENVIRONMENT_VARIABLE, RecordError, Recorder, RingDesc};

fn device() -> SimulatedGpu {
    SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap())
}

fn allocator() -> Allocator<SimulatedGpu> {
    let mut desc = AllocatorDesc::default();
    (desc.block_sizes, desc.on_leak) = (BlockSizes::fixed(1 << 20), LeakHandler::Ignore);
    desc.call_sites = CallSites::Location;
    Allocator::new(device(), desc).unwrap()
}

/// A path for one test, in the directory of temporary files.
struct Path(PathBuf);

impl Path {
    fn new(test: &str) -> Self {
        Self(env::temp_dir().join(format!("allotment-{test}-{}.altr", std::process::id())))
    }

    /// Reads the recording, and applies it.
    fn read(&self) -> (Recording, State) {
        let (recording, damage) = Recording::open(&self.0).unwrap();
        assert_eq!(damage, None);
        let mut state = State::default();
        for event in &recording.events {
            state.apply(event).unwrap();
        }
        (recording, state)
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Panics unless a recording leads to what an allocator lists.
fn compare(recording: &Recording, state: &State, allocator: &Allocator<SimulatedGpu>) {
    let listed = allocator.reports().allocations();
    assert_eq!(listed.len(), state.allocations.len());
    for listed in &listed {
        let live = &state.allocations[&listed.id.key()];
        let info = &listed.info;
        assert_eq!(
            (live.is.offset, live.is.requested, live.is.occupied),
            (info.offset, info.size, info.occupied)
        );
        assert_eq!(recording.text(live.is.name), info.name.as_ref().map(|name| name.as_str()));
        let site = recording.text(live.call_site).unwrap();
        assert!(site.contains("recorder/main.rs") || site.contains("recorder\\main.rs"), "{site}");
    }
}

#[test]
fn a_recording_of_several_threads_leads_to_what_the_allocator_lists() {
    let (allocator, path) = (allocator(), Path::new("threads"));
    let before: Vec<_> = (0..50)
        .map(|number| {
            let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name(format!("before {number}"));
            allocator.allocate(&Requirements::new(1000 + number), &options).unwrap()
        })
        .collect();
    let recorder = Recorder::to_file(&allocator, &path.0).unwrap();
    thread::scope(|scope| {
        for thread in 0..4 {
            let allocator = &allocator;
            scope.spawn(move || {
                let mut live = Vec::new();
                for number in 0..3000_u64 {
                    let options =
                        AllocationOptions::new(MemoryUsage::Upload).with_name(format!("{thread}: {number}"));
                    let size = 16 + number * 37 % 5000;
                    live.push(allocator.allocate(&Requirements::new(size), &options).unwrap());
                    if number % 3 != 0 {
                        let index = (number as usize * 7) % live.len();
                        allocator.free(live.swap_remove(index)).unwrap();
                    }
                    if number % 100 == 0 {
                        allocator.end_frame();
                    }
                }
            });
        }
    });
    recorder.mark("the end");
    let summary = recorder.finish().unwrap();
    let (recording, state) = path.read();
    assert_eq!(summary.events, recording.events.len() as u64);
    assert_eq!(summary.bytes, fs::metadata(&path.0).unwrap().len());
    assert!(summary.events > 4 * 5000, "{summary:?}");
    compare(&recording, &state, &allocator);
    let marks = recording.events.iter().filter_map(|event| match event {
        Event::Mark { text } => recording.text(*text),
        _ => None,
    });
    assert_eq!(marks.collect::<Vec<_>>(), ["the end"]);
    assert_eq!((recording.header.api, recording.header.heaps.is_empty()), (Api::Simulated, false));
    // The events go on to nobody, and another reader can have them.
    drop(allocator.subscribe(&SubscriptionDesc::default()).unwrap());
    drop(before);
}

#[test]
fn a_recording_of_a_gpu_says_how_its_allocator_is_set() {
    let (gpu, path) = (Gpu::new(device(), GpuDesc::default()).unwrap(), Path::new("gpu"));
    let recorder = Recorder::to_file(&gpu, &path.0).unwrap();
    assert!(matches!(Recorder::to_file(&gpu, env::temp_dir()), Err(RecordError::Create { .. })));
    let error = Recorder::ring(&gpu, &RingDesc::default()).unwrap_err();
    assert!(matches!(error, RecordError::AlreadySubscribed(_)), "{error}");
    assert!(matches!(recorder.write_to(env::temp_dir()), Err(RecordError::NotARing)));
    let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh")).unwrap();
    for _ in 0..5 {
        gpu.begin_frame().unwrap().end().unwrap();
    }
    drop(recorder); // finishes it
    let (recording, state) = path.read();
    let algorithm = ("algorithm".to_owned(), "tlsf".to_owned());
    assert!(recording.header.settings.contains(&algorithm), "{:?}", recording.header);
    assert_eq!(state.now.frame, 5);
    assert!(state.allocations.values().any(|live| recording.text(live.is.name) == Some("mesh")));
    drop(mesh);
}

#[test]
fn a_mark_stands_between_what_happened_before_and_after_it() {
    let (allocator, path) = (allocator(), Path::new("marks"));
    let recorder = Recorder::to_file(&allocator, &path.0).unwrap();
    // All within a few microseconds: the recorder's thread has not come yet.
    let mut live = Vec::new();
    for number in 0..20_u64 {
        let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name(format!("allocation {number}"));
        live.push(allocator.allocate(&Requirements::new(1000), &options).unwrap());
        recorder.mark(format!("mark {number}"));
    }
    recorder.finish().unwrap();
    let (recording, _) = path.read();
    let said = recording.events.iter().filter_map(|event| match event {
        Event::Allocated(is) => recording.text(is.name),
        Event::Mark { text } => recording.text(*text),
        _ => None,
    });
    let expected = (0..20).flat_map(|number| [format!("allocation {number}"), format!("mark {number}")]);
    assert_eq!(said.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    assert!(allocator.free_many(live).is_empty());
}

#[test]
fn a_ring_is_written_when_asked_and_after_the_allocator_is_gone() {
    let (allocator, path) = (allocator(), Path::new("ring"));
    let recorder = Recorder::ring(&allocator, &RingDesc::default().with_bytes(1 << 16)).unwrap();
    let mut live = Vec::new();
    for number in 0..20_000_u64 {
        let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name(format!("number {number}"));
        live.push(allocator.allocate(&Requirements::new(16 + number % 999), &options).unwrap());
        if live.len() > 30 {
            allocator.free(live.swap_remove(number as usize * 7 % 30)).unwrap();
        }
    }
    recorder.mark("asked");
    let summary = recorder.write_to(&path.0).unwrap();
    let (recording, state) = path.read();
    compare(&recording, &state, &allocator);
    assert!(summary.events > 39_900, "{summary:?}");
    assert!(summary.bytes < 1 << 19, "{summary:?}");
    assert!(recording.events.len() < 30_000, "the oldest are forgotten");
    let missing = recorder.write_to(env::temp_dir().join("no such directory/x")).unwrap_err();
    assert!(matches!(missing, RecordError::Create { .. }), "{missing}");

    for allocation in live {
        allocator.free(allocation).unwrap();
    }
    drop(allocator);
    recorder.write_to(&path.0).unwrap();
    let (_, state) = path.read();
    assert_eq!(state.allocations.len(), 0, "all were freed, and the ring knew it");
    assert!(recorder.finish().unwrap().events > 40_000);
}

#[test]
fn a_file_is_whole_once_the_allocator_is_gone() {
    let (allocator, path) = (allocator(), Path::new("gone"));
    let recorder = Recorder::to_file(&allocator, &path.0).unwrap();
    drop(allocator);
    let mut patience = 0;
    while Recording::open(&path.0).map_or(true, |(_, damage)| damage.is_some()) {
        thread::sleep(core::time::Duration::from_millis(10));
        patience += 1;
        assert!(patience < 1000, "the file is not ended");
    }
    recorder.mark("too late");
    recorder.finish().unwrap();
    path.read();
}

#[test]
fn a_panic_writes_the_ring() {
    let (allocator, path) = (allocator(), Path::new("panic"));
    let recorder = Recorder::ring(&allocator, &RingDesc::default()).unwrap();
    recorder.write_on_panic(&path.0);
    let token = allocator.allocate(&Requirements::new(77), &MemoryUsage::GpuOnly.into()).unwrap();
    let panicked = thread::scope(|scope| scope.spawn(|| assert!(env::args().len() > 1_000_000)).join());
    assert!(panicked.is_err());
    let (recording, state) = path.read();
    compare(&recording, &state, &allocator);
    allocator.free(token).unwrap();
    recorder.finish().unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_ends_the_recording_and_not_the_program() {
    let allocator = allocator();
    // Every write to this device fails as on a full disk.
    let error = Recorder::to_file(&allocator, "/dev/full").unwrap_err();
    assert!(matches!(error, RecordError::Write { .. }), "{error}");
    assert!(error.to_string().starts_with("the recording /dev/full cannot be written: "), "{error}");
    drop(allocator.subscribe(&SubscriptionDesc::default()).unwrap());
    let ring = Recorder::ring(&allocator, &RingDesc::default()).unwrap();
    let error = ring.write_to("/dev/full").unwrap_err();
    assert!(matches!(error, RecordError::Write { .. }), "{error}");
    ring.finish().unwrap();
}

/// The variable cannot be set in a process of several threads, so the test runs itself.
#[test]
fn the_environment_turns_recording_on() {
    let allocator = allocator();
    if let Some(recorder) = Recorder::from_env(&allocator).unwrap() {
        recorder.finish().unwrap();
        return;
    }
    let path = Path::new("environment");
    let status = Command::new(env::current_exe().unwrap())
        .args(["--exact", "the_environment_turns_recording_on"])
        .env(ENVIRONMENT_VARIABLE, &path.0)
        .status();
    assert!(status.unwrap().success());
    path.read();
}
