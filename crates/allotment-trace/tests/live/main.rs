//! A running program and its viewers, over sockets.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

mod hostile;

use core::time::Duration;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::{env, thread};

use allotment::device::BufferDesc;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::memory::Allocation;
use allotment::memory::blocks::BlockSizes;
use allotment::memory::reports::LeakHandler;
use allotment::{AllocationOptions, Allocator, AllocatorDesc, Gpu, GpuDesc, MemoryUsage, Requirements};
use allotment_trace::live::{
    LIVE_ENVIRONMENT_VARIABLE, LiveAddress, LiveDesc, LiveError, LiveReader, LiveRecording, LiveServer,
    LiveUpdate,
};
use allotment_trace::recording::{Event, ReadOptions, Recording, State};
use allotment_trace::{RecordError, Recorder};

/// How long a test waits for what must come, and then fails.
const PATIENCE: Duration = Duration::from_secs(60);

fn device() -> SimulatedGpu {
    SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap())
}

/// A program that allocates and frees.
struct Program {
    allocator: Allocator<SimulatedGpu>,
    live: Vec<Allocation>,
    count: u64,
    /// The least bytes of a name.
    name_bytes: usize,
}

impl Program {
    fn new() -> Self {
        let mut desc = AllocatorDesc::default();
        (desc.block_sizes, desc.on_leak) = (BlockSizes::fixed(1 << 20), LeakHandler::Ignore);
        Self { allocator: Allocator::new(device(), desc).unwrap(), live: Vec::new(), count: 0, name_bytes: 0 }
    }

    fn serve(&self) -> LiveServer {
        LiveServer::bind(&self.allocator, "127.0.0.1:0").unwrap()
    }

    /// Makes so many steps, each of which allocates; most also free.
    fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            self.count += 1;
            let name = format!("number {:01$}", self.count, self.name_bytes);
            let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name(name);
            let size = 16 + self.count * 37 % 5000;
            self.live.push(self.allocator.allocate(&Requirements::new(size), &options).unwrap());
            while self.live.len() as u64 > 50 + self.count % 8 {
                let index = (self.count as usize * 7) % self.live.len();
                self.allocator.free(self.live.swap_remove(index)).unwrap();
            }
            if self.count % 100 == 0 {
                self.allocator.end_frame();
            }
        }
    }

    /// Panics unless a viewer knows what the allocator lists.
    fn compare(&self, recording: &Recording, state: &State) {
        let listed = self.allocator.reports().allocations();
        assert_eq!(listed.len(), state.allocations.len());
        for listed in &listed {
            let live = &state.allocations[&listed.id.key()];
            let info = &listed.info;
            assert_eq!(
                (live.is.offset, live.is.requested, live.is.occupied),
                (info.offset, info.size, info.occupied)
            );
            assert_eq!(recording.text(live.is.name), info.name.as_ref().map(|name| name.as_str()));
        }
        // The recording says the same as the state.
        let mut again = State::default();
        recording.events.iter().for_each(|event| again.apply(event).unwrap());
        assert_eq!(&again, state);
    }
}

/// Waits for what another thread does.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "it does not come to pass: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Reads until a mark, which is of a moment.
fn read_to_mark(viewer: &mut LiveRecording, mark: &str) {
    until(mark, || {
        viewer.poll(Duration::from_millis(20)).unwrap();
        marks(viewer.recording()).any(|text| text == mark)
    });
}

fn read_to_end(viewer: &mut LiveRecording) {
    until("the end", || {
        viewer.poll(Duration::from_millis(20)).unwrap();
        viewer.has_ended()
    });
}

fn marks(recording: &Recording) -> impl Iterator<Item = &str> {
    recording.events.iter().filter_map(|event| match event {
        Event::Mark { text } => recording.text(*text),
        _ => None,
    })
}

#[test]
fn a_viewer_that_comes_late_gets_the_whole_state_and_then_what_happens() {
    let mut program = Program::new();
    program.run(300); // before there is a server
    let server = program.serve();
    program.run(2000); // before there is a viewer
    let mut viewer = LiveRecording::connect(server.address()).unwrap();
    assert!(!viewer.recording().header.heaps.is_empty());
    server.mark("one");
    read_to_mark(&mut viewer, "one");
    program.compare(viewer.recording(), viewer.state());
    assert_eq!(
        viewer.state().now.frame,
        program.count / 100 - 3,
        "frames are counted since the server began"
    );

    program.run(3000);
    server.mark("two");
    read_to_mark(&mut viewer, "two");
    program.compare(viewer.recording(), viewer.state());
    assert_eq!((viewer.dropped(), viewer.has_ended()), (0, false));
    let texts: Vec<_> = marks(viewer.recording()).collect();
    assert_eq!(texts, ["here the recording begins: before, what still existed", "one", "two"]);
    assert_eq!((server.viewers(), server.statistics().accepted, server.statistics().restarts), (1, 1, 0));
}

#[test]
fn a_viewer_sees_what_a_recorder_records_and_saves_the_same() {
    let mut program = Program::new();
    let server = program.serve();
    let mut viewer = LiveRecording::connect(server.address()).unwrap();
    program.run(500);
    server.mark("the moment");
    read_to_mark(&mut viewer, "the moment");
    let path = env::temp_dir().join(format!("allotment-live-saved-{}.altr", std::process::id()));
    viewer.save(&path).unwrap();
    drop(server);
    // The events are free again for a recorder, whose recording begins with the same state.
    let recorded = path.with_extension("recorded");
    Recorder::to_file(&program.allocator, &recorded).unwrap().finish().unwrap();

    for (file, is_saved) in [(&path, true), (&recorded, false)] {
        let (recording, damage) = Recording::open(file).unwrap();
        assert_eq!(damage, None);
        let mut state = State::default();
        recording.events.iter().for_each(|event| state.apply(event).unwrap());
        program.compare(&recording, &state);
        assert_eq!(recording.header, viewer.recording().header);
        assert!(!is_saved || recording.events == viewer.recording().events);
        std::fs::remove_file(file).unwrap();
    }
    let error = viewer.save(env::temp_dir().join("no such directory/x")).unwrap_err();
    assert!(matches!(error, RecordError::Create { .. }), "{error}");
}

#[test]
fn a_viewer_knows_the_address_of_a_program_that_starts_later() {
    // None of the ports that the system gives out by itself: another test would be given it in the meantime.
    let mut ports = (0..64).map(|more| 20_000 + (std::process::id() % 12_000) as u16 + more);
    let free = ports.find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok()).unwrap();
    let address = LiveAddress::with_new_token(&format!("127.0.0.1:{free}")).unwrap();
    let error = LiveRecording::connect(&address).unwrap_err();
    assert!(matches!(error, LiveError::Connect { .. }), "{error}");
    // Twice: the program ends, and starts again.
    for _ in 0..2 {
        let program = Program::new();
        let server = LiveServer::bind(&program.allocator, &address.to_string()).unwrap();
        assert_eq!(server.address(), &address);
        let mut viewer = LiveRecording::connect(&address).unwrap();
        let other = LiveAddress::with_new_token(address.host()).unwrap();
        let error = LiveRecording::connect(&other).unwrap_err();
        assert!(matches!(error, LiveError::WrongToken), "another address has another token: {error}");
        drop(server);
        read_to_end(&mut viewer);
    }
    let program = Program::new();
    let error = LiveServer::bind(&program.allocator, "allotment://127.0.0.1:0/no-token").unwrap_err();
    assert!(matches!(error, LiveError::Address { .. }), "{error}");
    let error = LiveAddress::with_new_token("127.0.0.1").unwrap_err();
    assert!(matches!(error, LiveError::Address { .. }), "{error}");
}

#[test]
fn a_viewer_that_forgets_old_events_knows_what_exists_and_what_follows() {
    let mut program = Program::new();
    let server = program.serve();
    let mut viewer = LiveRecording::connect(server.address()).unwrap();
    for mark in ["one", "two", "three"] {
        program.run(2000);
        server.mark(mark);
        read_to_mark(&mut viewer, mark);
        let before = viewer.recording().clone();
        let now = viewer.state().now;
        let forgotten = viewer.keep_last(1000).unwrap();
        assert_eq!(forgotten.events, before.events.len() - 1000);
        assert_eq!(viewer.recording().events[forgotten.replaced_by..], before.events[forgotten.events..]);
        assert!(forgotten.replaced_by < 300, "{forgotten:?}");
        let moment = viewer.state().now;
        assert_eq!((moment.frame, moment.nanoseconds), (now.frame, now.nanoseconds));
        assert!(marks(viewer.recording()).next().unwrap().ends_with("events before were forgotten"));
        program.compare(viewer.recording(), viewer.state());
    }
    assert_eq!(viewer.keep_last(usize::MAX), None);
}

#[test]
fn viewers_come_and_go_and_come_again() {
    let mut program = Program::new();
    let server = program.serve();
    let mut staying = LiveRecording::connect(server.address()).unwrap();
    for round in 0..3 {
        let mut passing = LiveRecording::connect(server.address()).unwrap();
        program.run(700);
        let mark = format!("round {round}");
        server.mark(mark.clone());
        for viewer in [&mut staying, &mut passing] {
            read_to_mark(viewer, &mark);
            program.compare(viewer.recording(), viewer.state());
        }
        assert_eq!(server.viewers(), 2);
        drop(passing);
        until("the server notices", || server.viewers() == 1);
    }
    // Nobody views for a while.
    drop(staying);
    until("the server notices", || server.viewers() == 0);
    program.run(5000);
    let mut again = LiveRecording::connect(server.address()).unwrap();
    server.mark("again");
    read_to_mark(&mut again, "again");
    program.compare(again.recording(), again.state());
    assert_eq!(server.statistics().accepted, 5);
}

#[test]
fn a_viewer_that_stops_reading_costs_the_program_nothing_and_gets_the_state_when_it_reads_again() {
    let mut program = Program::new();
    program.name_bytes = 200;
    let desc = LiveDesc::default().with_queue_bytes(1 << 20);
    let server = LiveServer::bind_with(&program.allocator, &desc).unwrap();
    let mut slow = LiveRecording::connect(server.address()).unwrap();
    let mut quick = LiveReader::connect(server.address()).unwrap();
    until("both are served", || server.viewers() == 2);
    // More than the queue and the sockets' own buffers take, which systems make as large as some MiB. Were the program to
    // wait for the viewer, this would not end.
    let (mut seen, mut state) = (0, State::default());
    // Returns true if a mark was among it.
    let mut read_all = |quick: &mut LiveReader| {
        let mut marked = false;
        while let Some(update) = quick.poll(Duration::from_millis(1)).unwrap() {
            match update {
                LiveUpdate::Restarted { state: whole, .. } => state = *whole,
                LiveUpdate::Events(events) => {
                    seen += events.len();
                    marked |= events.iter().any(|event| matches!(event, Event::Mark { .. }));
                    events.iter().for_each(|event| state.apply(event).unwrap());
                }
                _ => unreachable!("the program runs"),
            }
        }
        marked
    };
    for _ in 0..60 {
        program.run(2000);
        read_all(&mut quick);
    }
    read_to_loss(&mut slow);
    server.mark("now");
    read_to_mark(&mut slow, "now");
    program.compare(slow.recording(), slow.state());
    let statistics = server.statistics();
    assert!(statistics.dropped_events >= slow.dropped() && statistics.restarts > 0, "{statistics:?}");
    let losses = slow.recording().events.iter().filter(|event| matches!(event, Event::Lost)).count();
    let said =
        marks(slow.recording()).filter(|text| text.ends_with("missing: the viewer was too slow")).count();
    assert!(losses > 0 && losses == said, "{losses} {said}");

    until("the quick one has read all", || {
        server.mark("for the quick one");
        read_all(&mut quick)
    });
    assert!(seen > 100_000, "{seen}");
    let places = |state: &State| {
        let mut places: Vec<_> =
            state.allocations.values().map(|live| (live.is.block, live.is.offset)).collect();
        places.sort_unstable();
        places
    };
    assert_eq!(places(&state), places(slow.state()));
}

/// Reads until the viewer has been told that events are missing.
fn read_to_loss(viewer: &mut LiveRecording) {
    until("events were dropped", || {
        viewer.poll(Duration::from_millis(20)).unwrap();
        viewer.dropped() > 0
    });
}

#[test]
fn the_end_of_the_allocator_ends_the_recording() {
    let mut program = Program::new();
    let server = program.serve();
    let mut viewer = LiveRecording::connect(server.address()).unwrap();
    program.run(100);
    for allocation in program.live.drain(..) {
        program.allocator.free(allocation).unwrap();
    }
    drop(program);
    read_to_end(&mut viewer);
    assert_eq!(viewer.state().allocations.len(), 0, "all were freed");
    assert!(viewer.recording().events.iter().any(|event| matches!(event, Event::Allocated(_))));
    assert_eq!(viewer.poll(Duration::ZERO).unwrap(), Default::default(), "nothing comes after the end");
    until("the server has no viewers", || server.viewers() == 0);
    let error = LiveRecording::connect(server.address()).unwrap_err();
    assert!(matches!(error, LiveError::Connect { .. } | LiveError::NotAServer), "{error}");
}

#[test]
fn a_dropped_server_sends_what_has_happened_and_frees_the_events() {
    let mut program = Program::new();
    let server = program.serve();
    assert!(matches!(
        LiveServer::bind(&program.allocator, "127.0.0.1:0"),
        Err(LiveError::AlreadySubscribed(_))
    ));
    let mut viewer = LiveRecording::connect(server.address()).unwrap();
    program.run(3000);
    drop(server);
    read_to_end(&mut viewer);
    program.compare(viewer.recording(), viewer.state());
    drop(program.serve());
}

#[test]
fn a_viewer_is_told_when_the_program_is_killed() {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "the_environment_turns_the_server_on", "--nocapture"])
        .env(LIVE_ENVIRONMENT_VARIABLE, "127.0.0.1:0")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut viewer = LiveRecording::connect(&printed_address(&mut child)).unwrap();
    until("the state comes", || viewer.poll(Duration::from_millis(20)).unwrap().restarted.is_some());
    assert!(
        viewer.state().allocations.values().any(|live| viewer.recording().text(live.is.name) == Some("mesh"))
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let mut error = None;
    until("the connection ends", || {
        error = viewer.poll(Duration::from_millis(20)).err();
        error.is_some()
    });
    assert!(matches!(error, Some(LiveError::Disconnected)), "{error:?}");
    assert!(viewer.has_ended());
    assert_eq!(viewer.poll(Duration::ZERO).unwrap(), Default::default(), "what was read stays");
}

fn printed_address(child: &mut std::process::Child) -> LiveAddress {
    use std::io::{BufRead, BufReader};
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut addresses = output.lines().map_while(Result::ok).filter_map(|line| {
        let at = line.find("allotment://")?;
        line[at..].parse().ok()
    });
    addresses.next().expect("the program prints its address")
}

/// The variable cannot be set in a process of several threads, so a test runs this one.
#[test]
fn the_environment_turns_the_server_on() {
    let gpu = Gpu::new(device(), GpuDesc::default()).unwrap();
    let Some(server) = LiveServer::from_env(&gpu).unwrap() else { return };
    let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh")).unwrap();
    println!("\n{}", server.address());
    // Until it is killed; not for ever, should the other test have failed.
    for _ in 0..PATIENCE.as_secs() * 100 {
        gpu.begin_frame().unwrap().end().unwrap();
        thread::sleep(Duration::from_millis(10));
    }
    drop(mesh);
}

#[test]
fn a_wrong_token_and_one_viewer_too_many_are_refused() {
    let program = Program::new();
    let desc = LiveDesc::default().with_max_viewers(1);
    let server = LiveServer::bind_with(&program.allocator, &desc).unwrap();
    let right = server.address().to_string();
    let (before, token) = right.rsplit_once('/').unwrap();
    // Each digit counts.
    for digit in 0..token.len() {
        let other = if &token[digit..=digit] == "0" { "1" } else { "0" };
        let wrong = format!("{before}/{}{other}{}", &token[..digit], &token[digit + 1..]);
        let error = LiveReader::connect(&wrong.parse().unwrap()).unwrap_err();
        assert!(matches!(error, LiveError::WrongToken), "{digit}: {error}");
    }
    assert_eq!(server.statistics().accepted, 0);
    let first = LiveReader::connect(&right.parse().unwrap()).unwrap();
    let error = LiveReader::connect(server.address()).unwrap_err();
    assert!(matches!(error, LiveError::TooManyViewers), "{error}");
    drop(first);
    until("there is a place again", || LiveReader::connect(server.address()).is_ok());
    until("all refusals are counted", || server.statistics().refused > token.len() as u64);
    let another = program_address();
    assert_ne!(another.to_string().rsplit_once('/').unwrap().1, token, "each server has its own token");
}

fn program_address() -> LiveAddress {
    Program::new().serve().address().clone()
}

#[test]
fn other_machines_reach_the_server_only_where_the_options_say_so() {
    use allotment_trace::live::LiveReach;
    let program = Program::new();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let error = LiveServer::bind(&program.allocator, address).unwrap_err();
        assert!(matches!(error, LiveError::NotLoopback { .. }), "{address}: {error}");
    }
    assert!(matches!(LiveServer::bind(&program.allocator, "nonsense"), Err(LiveError::Bind { .. })));
    let desc = LiveDesc::default().with_address("0.0.0.0:0").with_reach(LiveReach::Network);
    let server = LiveServer::bind_with(&program.allocator, &desc).unwrap();
    assert!(server.local_address().ip().is_unspecified());
    let here = server.address().to_string().replace("0.0.0.0", "127.0.0.1");
    drop(LiveReader::connect(&here.parse().unwrap()).unwrap());
    // The port is taken now.
    let taken = format!("127.0.0.1:{}", server.local_address().port());
    let other = Program::new();
    let error = LiveServer::bind(&other.allocator, &taken).unwrap_err();
    assert!(matches!(error, LiveError::Bind { .. }), "{error}");
}

#[test]
fn a_recording_that_grows_beyond_its_limit_is_an_error_and_stays() {
    let mut program = Program::new();
    let server = program.serve();
    let options = ReadOptions::default().with_max_events(1000);
    let mut viewer = LiveRecording::connect_with(server.address(), &options).unwrap();
    let mut error = None;
    until("it is too much", || {
        program.run(100);
        error = viewer.poll(Duration::from_millis(20)).err();
        error.is_some()
    });
    assert!(matches!(error, Some(LiveError::TooMuch { of: "events", limit: 1000 })), "{error:?}");
    assert_eq!(viewer.recording().events.len(), 1000);

    let options = ReadOptions::default().with_max_text_bytes(5000);
    let mut viewer = LiveReader::connect_with(server.address(), &options).unwrap();
    until("it is too much", || {
        program.run(100);
        error = viewer.poll(Duration::from_millis(20)).err();
        error.is_some()
    });
    assert!(matches!(error, Some(LiveError::TooMuch { of: "bytes of texts", limit: 5000 })), "{error:?}");
    assert!(viewer.has_ended());
}

#[test]
fn a_reader_works_over_any_stream() {
    let program = Program::new();
    let server = program.serve();
    let stream = TcpStream::connect(server.local_address()).unwrap();
    let options = ReadOptions::default();
    let reader = LiveReader::over(stream, server.address(), &options).unwrap();
    drop(server);
    let mut recording = LiveRecording::new(reader, &options);
    until("the end", || {
        recording.read().unwrap();
        recording.has_ended()
    });
    program.compare(recording.recording(), recording.state());
}
