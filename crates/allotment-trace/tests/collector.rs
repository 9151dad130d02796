//! Collecting the events of a program in memory.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

use std::{env, fs};

use allotment::device::BufferDesc;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::events::AlreadySubscribed;
use allotment::memory::blocks::{ManualTime, TimeSource};
use allotment::memory::reports::CallSites;
use allotment::{Allocator, AllocatorDesc, Gpu, GpuDesc, MemoryUsage, Requirements};
use allotment_trace::recording::{Event, Recording, State, TextId};
use allotment_trace::{Collector, Recorder};

fn device() -> SimulatedGpu {
    SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap())
}

fn allocator() -> Allocator<SimulatedGpu> {
    let mut desc = AllocatorDesc::default();
    (desc.call_sites, desc.time) = (CallSites::Location, TimeSource::Manual(ManualTime::new()));
    Allocator::new(device(), desc).unwrap()
}

/// Allocates and frees again, `count` times.
fn play(allocator: &Allocator<SimulatedGpu>, name: &'static str, count: u64) {
    for number in 0..count {
        let requirements = Requirements::new(1000 + number % 5000);
        let made = allocator.allocate(&requirements, &MemoryUsage::GpuOnly.with_name(name)).unwrap();
        allocator.free(made).unwrap();
    }
}

/// Returns the names of the allocations that were made, in their order.
fn names(recording: &Recording) -> Vec<&str> {
    let names = recording.events.iter().filter_map(|event| match event {
        Event::Allocated(is) => Some(recording.text(is.name).unwrap_or_default()),
        _ => None,
    });
    names.collect()
}

/// Returns the state that a recording leads to, or panics where it contradicts itself.
fn state_of(recording: &Recording) -> State {
    let mut state = State::default();
    for event in &recording.events {
        state.apply(event).unwrap();
    }
    state
}

#[test]
fn a_collector_has_what_a_recorder_writes_to_a_file() {
    let program = |allocator: &Allocator<SimulatedGpu>| {
        for name in ["mesh", "texture", "", "mesh"] {
            play(allocator, name, 100);
            allocator.end_frame();
        }
    };
    let path = env::temp_dir().join(format!("allotment-collector-{}.altr", std::process::id()));
    let recorded = allocator();
    let recorder = Recorder::to_file(&recorded, &path).unwrap();
    program(&recorded);
    recorder.finish().unwrap();
    let (mut file, damage) = Recording::open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(damage, None);

    let collected = allocator();
    let mut collector = Collector::new(&collected).unwrap();
    program(&collected);
    collector.read();
    program(&collected);
    let mut memory = collector.into_recording();

    // How long the two programs took differs. The second one went on.
    let is_time = |event: &Event| matches!(event, Event::Time { .. } | Event::Stalled { .. });
    file.events.retain(|event| !is_time(event));
    memory.events.retain(|event| !is_time(event));
    assert_eq!(memory.header, file.header);
    assert_eq!(memory.texts, file.texts, "each once, in the order in which they are named");
    assert_eq!(memory.events[..file.events.len()], file.events);
    assert!(memory.events.len() > file.events.len() + 800);
}

#[test]
fn what_existed_before_comes_first_and_the_end_is_what_the_allocator_lists() {
    let allocator = allocator();
    let before = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.with_name("before"));
    let collector = Collector::new(&allocator).unwrap();
    let after = allocator.allocate(&Requirements::new(2000), &MemoryUsage::Upload.with_name("after"));
    let recording = collector.into_recording();
    assert_eq!(names(&recording), ["before", "after"]);
    let state = state_of(&recording);
    for listed in allocator.reports().allocations() {
        assert_eq!(state.allocations[&listed.id.key()].is.offset, listed.info.offset);
    }
    for made in [before, after] {
        allocator.free(made.unwrap()).unwrap();
    }
}

#[test]
fn a_text_has_one_number_in_all_batches_and_an_empty_one_none() {
    let allocator = allocator();
    let mut collector = Collector::new(&allocator).unwrap();
    for name in ["mesh", "texture", "mesh", ""] {
        play(&allocator, name, 3);
        collector.read();
    }
    let recording = collector.into_recording();
    let mut texts = recording.texts.clone();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), recording.texts.len(), "{texts:?}");
    assert!(!texts.contains(&String::new()));
    let named = recording.events.iter().filter(|event| match event {
        Event::Allocated(is) => is.name != TextId::NONE,
        _ => false,
    });
    assert_eq!((named.count(), names(&recording).len()), (9, 12));
}

#[test]
fn no_event_is_lost_however_late_it_is_read() {
    // More than a subscription keeps by default.
    const COUNT: u64 = 1 << 18;
    let allocator = allocator();
    let collector = Collector::new(&allocator).unwrap();
    play(&allocator, "mesh", COUNT);
    let recording = collector.into_recording();
    assert!(!recording.events.contains(&Event::Lost));
    assert_eq!(names(&recording).len() as u64, COUNT);
}

#[test]
fn marks_and_events_of_the_program_come_after_what_happened_before_them() {
    let allocator = allocator();
    let mut collector = Collector::new(&allocator).unwrap();
    let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.with_name("mesh")).unwrap();
    collector.mark("mesh");
    let allocation = mesh.id().key();
    collector.event(&Event::FreeRequested { allocation });
    assert!(state_of(collector.recording()).allocations[&allocation].free_requested.is_some());
    allocator.free(mesh).unwrap();
    let recording = collector.into_recording();
    let at = |wanted: fn(&Event) -> bool| recording.events.iter().position(wanted).unwrap();
    let allocated = at(|event| matches!(event, Event::Allocated(_)));
    let marked = at(|event| matches!(event, Event::Mark { .. }));
    let requested = at(|event| matches!(event, Event::FreeRequested { .. }));
    let freed = at(|event| matches!(event, Event::Freed { .. }));
    assert!(allocated < marked && marked < requested && requested < freed);
    // The mark is the same text as the name.
    let Event::Mark { text } = recording.events[marked] else { unreachable!() };
    assert_eq!(recording.texts.iter().filter(|text| *text == "mesh").count(), 1);
    assert_eq!(recording.text(text), Some("mesh"));
}

#[test]
fn a_gpu_is_collected_by_one_reader_at_a_time() {
    let gpu = Gpu::new(device(), GpuDesc::default()).unwrap();
    let collector = Collector::new(&gpu).unwrap();
    assert_eq!(Collector::new(&gpu).unwrap_err(), AlreadySubscribed);
    let buffer = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"));
    assert_eq!(names(&collector.into_recording()), ["mesh"]);
    assert_eq!(names(&Collector::new(&gpu).unwrap().into_recording()), ["mesh"], "it is over for the first");
    drop(buffer);
}

#[test]
fn a_collector_outlives_its_allocator() {
    let allocator = allocator();
    let mut collector = Collector::new(&allocator).unwrap();
    play(&allocator, "mesh", 10);
    assert!(collector.read(), "there may be more");
    play(&allocator, "texture", 10);
    drop(allocator);
    while collector.read() {}
    assert!(!collector.read());
    let recording = collector.into_recording();
    assert_eq!(names(&recording).len(), 20);
    assert!(state_of(&recording).allocations.is_empty());
}

#[inline(never)]
fn load_textures(allocator: &Allocator<SimulatedGpu>, count: u64) {
    play(allocator, "texture", count);
}

#[test]
fn whole_call_stacks_are_recorded_where_the_allocator_asks_for_backtraces() {
    let mut desc = AllocatorDesc::default();
    desc.call_sites = CallSites::Backtrace;
    let allocator = Allocator::new(device(), desc).unwrap();
    let before = allocator.allocate(&Requirements::new(100), &MemoryUsage::GpuOnly.into()).unwrap();
    let path = env::temp_dir().join(format!("allotment-stacks-{}.altr", std::process::id()));
    let recorded = |record: &mut dyn FnMut() -> Recording| {
        let recording = record();
        let (mut state, mut functions) = (State::default(), Vec::new());
        for event in &recording.events {
            state.apply(event).unwrap();
            if let Event::Stack { allocation, stack } = *event {
                assert_eq!(state.allocations[&allocation].stack, stack);
                let text = |text| recording.text(text).unwrap_or_default();
                let calls: Vec<_> = recording.stacks.calls(stack).map(|call| text(call.function)).collect();
                let roles = recording.stacks.roles(text);
                let telling = recording.stacks.telling(stack, |call| roles[call.0 as usize - 1]).unwrap();
                functions.push((calls, text(recording.stacks.frame(telling).unwrap().function)));
            }
        }
        assert_eq!(functions.len(), 4, "each allocation has a stack, also the one that was made before");
        for (calls, telling) in &functions[1..] {
            assert!(calls.iter().any(|call| call.ends_with("load_textures")), "{calls:?}");
            assert!(telling.ends_with("::play"), "not the library's own: {telling}");
        }
        // The three of a loop are one stack.
        let calls: usize = functions.iter().take(2).map(|(calls, _)| calls.len()).sum();
        assert!(recording.stacks.len() <= calls, "{} of {calls}", recording.stacks.len());
    };
    recorded(&mut || {
        let collector = Collector::new(&allocator).unwrap();
        load_textures(&allocator, 3);
        collector.into_recording()
    });
    recorded(&mut || {
        let recorder = Recorder::to_file(&allocator, &path).unwrap();
        load_textures(&allocator, 3);
        recorder.finish().unwrap();
        Recording::open(&path).unwrap().0
    });
    fs::remove_file(&path).unwrap();
    allocator.free(before).unwrap();
}
