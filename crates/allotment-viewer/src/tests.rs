//! The window, used as a person uses it, and programs that serve their events over sockets.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use core::time::Duration;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use allotment::device::BufferDesc;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::{AllocationOptions, Buffer, Gpu, GpuDesc, MemoryUsage};
use allotment_egui::Selection;
use allotment_trace::live::{LiveAddress, LiveServer};
use allotment_trace::recording::{Event, Recording, TextId};
use eframe::egui::{DroppedFile, Key, Modifiers, Role, Vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::{NodeT as _, Queryable as _};

use crate::app::App;
use crate::follow::Limits;
use crate::start::Start;

/// A test fails after it has waited this long.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program with buffers, which serves its events.
struct Program {
    // Dropped in this order: viewers see the end of all.
    buffers: Vec<Buffer<SimulatedGpu>>,
    server: LiveServer,
    gpu: Gpu<SimulatedGpu>,
}

impl Program {
    fn start(at: &str) -> Self {
        let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
        let gpu = Gpu::new(device, GpuDesc::default()).unwrap();
        let server = LiveServer::bind(&gpu, at).unwrap();
        Self { buffers: Vec::new(), server, gpu }
    }

    fn create(&mut self, name: &str) {
        let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name(name.to_owned());
        self.buffers.push(self.gpu.create_buffer(&BufferDesc::new(1 << 20), &options).unwrap());
    }

    fn address(&self) -> LiveAddress {
        self.server.address().clone()
    }
}

/// An address for a program that starts later.
fn address() -> LiveAddress {
    crate::attach_dialog::offer().unwrap()
}

type Window = Harness<'static, App>;

fn open(start: Start) -> Window {
    open_with(start, Limits::default())
}

fn open_with(start: Start, limits: Limits) -> Window {
    let builder = Harness::builder().with_size(Vec2::new(1440.0, 900.0)).with_max_steps(8);
    let mut window = builder.build_ui_state(|ui, app: &mut App| app.draw(ui), App::default());
    let ctx = window.ctx.clone();
    window.state_mut().limits = limits;
    window.state_mut().begin(start, &ctx);
    window.step();
    window
}

fn shows(window: &Window, text: &str) -> bool {
    window.query_all_by_label_contains(text).next().is_some()
}

/// Draws until something holds.
fn until(window: &mut Window, what: &str, holds: impl Fn(&Window) -> bool) {
    let began = Instant::now();
    while !holds(window) {
        if began.elapsed() > PATIENCE {
            let said: Vec<_> =
                window.query_all_by_role(Role::Label).filter_map(|node| node.value()).collect();
            panic!("it does not come to pass: {what}; the window says {said:?}");
        }
        window.step();
        thread::sleep(Duration::from_millis(5));
    }
}

fn until_shown(window: &mut Window, text: &str) {
    until(window, text, |window| shows(window, text));
}

fn click(window: &mut Window, button: &str) {
    window.get_by_role_and_label(Role::Button, button).click();
    window.step();
    window.step();
}

fn recording(window: &Window) -> Option<Recording> {
    window.state().view.as_ref().map(|view| (*view.recording()).clone())
}

/// Returns true if the window has an allocation with a name.
fn knows(window: &Window, name: &str) -> bool {
    recording(window).is_some_and(|recording| {
        recording
            .events
            .iter()
            .any(|event| matches!(event, Event::Allocated(is) if recording.text(is.name) == Some(name)))
    })
}

fn until_known(window: &mut Window, name: &str) {
    until(window, name, |window| knows(window, name));
}

/// A path that is free, for this test alone.
fn path(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("allotment-viewer-{name}-{}.altr", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn a_program_that_runs_is_shown_with_what_existed_before_and_what_comes() {
    let mut program = Program::start("127.0.0.1:0");
    program.create("before");
    let mut window = open(Start::Program(program.address()));
    until_known(&mut window, "before");
    assert!(shows(&window, &format!("Connected to {}", program.address().host())));
    program.create("after");
    until_known(&mut window, "after");
    let view = window.state().view.as_ref().unwrap();
    assert_eq!(view.position(), view.recording().events.len() as u64, "a cursor at the end stays there");
}

#[test]
fn an_address_is_typed_into_the_dialog_and_a_wrong_one_is_refused_with_a_reason() {
    let mut program = Program::start("127.0.0.1:0");
    program.create("mesh");
    let mut window = open(Start::Nothing);
    window.key_press_modifiers(Modifiers::COMMAND, Key::L);
    window.step();
    window.step();
    assert!(shows(&window, "Attach to a program"));
    let enter = |window: &mut Window, text: &str| {
        let field = window.query_all_by_role(Role::TextInput).next().unwrap();
        field.focus();
        field.type_text(text);
        window.step();
        window.get_by_role_and_label(Role::Button, "Attach").click();
        window.step();
        window.step();
    };
    enter(&mut window, "127.0.0.1:80 ");
    assert!(shows(&window, "is no address of a running program"));
    window.key_press(Key::Escape);
    window.step();
    assert!(!shows(&window, "is no address of a running program"));
    click(&mut window, "Attach…");
    enter(&mut window, &program.address().to_string());
    until_known(&mut window, "mesh");
}

#[test]
fn a_window_waits_for_a_program_that_starts_later() {
    let mut window = open(Start::Nothing);
    click(&mut window, "Attach…");
    assert!(shows(&window, "It starts later"));
    let address = window.state().offered.clone().unwrap().unwrap();
    click(&mut window, "Wait for it");
    until_shown(&mut window, "cannot be reached");
    assert!(shows(&window, &format!("Waiting for the program at {}", address.host())));
    let mut program = Program::start(&address.to_string());
    program.create("late");
    until_known(&mut window, "late");
}

#[test]
fn waiting_can_be_cancelled() {
    let mut window = open(Start::Program(address()));
    until_shown(&mut window, "cannot be reached");
    click(&mut window, "Cancel");
    assert!(!shows(&window, "Waiting for the program"));
}

#[test]
fn what_was_seen_stays_after_the_end_and_the_next_start_is_one_click_away() {
    let address = address();
    let mut window = open(Start::Program(address.clone()));
    let mut program = Program::start(&address.to_string());
    program.create("first");
    until_known(&mut window, "first");
    program.create("last");
    drop(program);
    until_shown(&mut window, "The program has ended.");
    until_known(&mut window, "last");
    click(&mut window, "Wait for its next start");
    until_shown(&mut window, "Waiting for the program");
    assert!(knows(&window, "last"), "it stays until the next program is there");
    let mut program = Program::start(&address.to_string());
    program.create("second");
    until_known(&mut window, "second");
    assert!(!knows(&window, "first"));
}

#[test]
fn a_lost_connection_is_no_end_of_the_program() {
    // What answers sends a recording without an end, and hangs up.
    let program = Program::start("127.0.0.1:0");
    let relay = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = program.address().host().to_owned();
    let address = program.address().to_string().replace(&host, &relay.local_addr().unwrap().to_string());
    let thread = thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut viewer, _) = relay.accept().unwrap();
        let mut server = std::net::TcpStream::connect(host).unwrap();
        let mut bytes = [0; 4096];
        let count = viewer.read(&mut bytes).unwrap();
        server.write_all(&bytes[..count]).unwrap();
        // The first answer comes when it comes; then a silence is the end of what there is.
        while let Ok(count) = server.read(&mut bytes) {
            viewer.write_all(&bytes[..count]).unwrap();
            server.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        }
    });
    let mut window = open(Start::Program(address.parse().unwrap()));
    until_shown(&mut window, "was lost: the program was killed");
    until(&mut window, "what came before stays", |window| window.state().view.as_ref().is_some());
    thread.join().unwrap();
}

#[test]
fn a_wrong_token_is_said_to_be_wrong() {
    let program = Program::start("127.0.0.1:0");
    let other = LiveAddress::with_new_token(program.address().host()).unwrap();
    let mut window = open(Start::Program(other));
    until_shown(&mut window, "cannot be followed: the token is not the running program's");
    assert!(window.state().view.as_ref().is_none());
}

#[test]
fn why_a_file_is_not_opened_is_seen_whole_until_it_is_dismissed() {
    let mut window = open(Start::Nothing);
    // A path without spaces, longer than any window is wide.
    let long = format!("/no/such/folder/{}/file.altr", "x".repeat(600));
    let ctx = window.ctx.clone();
    window.state_mut().begin(Start::File(PathBuf::from(&long)), &ctx);
    until_shown(&mut window, "no/such/folder");
    window.step();
    for part in [Role::Label, Role::Button] {
        let name = if part == Role::Label { "no/such/folder" } else { "Dismiss" };
        let shown =
            window.query_all_by_label_contains(name).find(|node| node.accesskit_node().role() == part);
        let rect = shown.unwrap_or_else(|| panic!("{name} is not shown")).rect();
        assert!(rect.left() >= 0.0 && rect.right() <= 1440.0 && rect.bottom() < 200.0, "{name}: {rect:?}");
    }
    click(&mut window, "Dismiss");
    assert!(!shows(&window, "no/such/folder"));
}

#[test]
fn a_lost_program_s_message_is_dismissed_and_its_buttons_stay() {
    let program = Program::start("127.0.0.1:0");
    let other = LiveAddress::with_new_token(program.address().host()).unwrap();
    let mut window = open(Start::Program(other));
    until_shown(&mut window, "cannot be followed");
    click(&mut window, "Dismiss");
    assert!(!shows(&window, "cannot be followed"));
    assert!(shows(&window, "Wait for its next start") && shows(&window, "Not connected to"));
}

#[test]
fn a_recording_that_cannot_be_written_says_so_until_it_is_dismissed() {
    let path = path("unwritten");
    let recorded = Recording { events: vec![Event::FrameEnd { number: 0 }], ..Recording::default() };
    recorded.write(std::fs::File::create(&path).unwrap()).unwrap();
    let mut window = open(Start::File(path.clone()));
    until(&mut window, "the file is open", |window| recording(window).is_some());
    let ctx = window.ctx.clone();
    window.state_mut().save_to(PathBuf::from("/no/such/folder/file.altr"), &ctx);
    until_shown(&mut window, "could not be written");
    click(&mut window, "Dismiss");
    assert!(!shows(&window, "could not be written"));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_path_that_is_no_file_is_said_to_be_none() {
    let mut window = open(Start::Nothing);
    window.key_press_modifiers(Modifiers::COMMAND, Key::O);
    window.step();
    window.step();
    let field = window.query_all_by_role(Role::TextInput).next().unwrap();
    field.focus();
    window.step();
    window.query_all_by_role(Role::TextInput).next().unwrap().type_text("no-such-file");
    window.key_press(Key::Enter);
    window.step();
    window.step();
    assert!(shows(&window, "is no file"));
}

#[test]
fn a_paused_window_stays_and_catches_up_later() {
    let mut program = Program::start("127.0.0.1:0");
    program.create("one");
    let mut window = open(Start::Program(program.address()));
    until_known(&mut window, "one");
    click(&mut window, "Pause");
    let before = recording(&window);
    program.create("two");
    // Another window shows that the program has sent it.
    let mut other = open(Start::Program(program.address()));
    until_known(&mut other, "two");
    window.step();
    assert!(recording(&window) == before && shows(&window, "Paused"));
    click(&mut window, "Resume");
    until_known(&mut window, "two");
}

#[test]
fn a_cursor_in_the_past_and_what_is_selected_stay_while_the_program_runs() {
    let mut program = Program::start("127.0.0.1:0");
    program.create("one");
    let mut window = open(Start::Program(program.address()));
    until_known(&mut window, "one");
    let view = window.state_mut().view.as_mut().unwrap();
    view.select(Some(Selection::Allocation(allotment_analyze::AllocationIndex(0))));
    let name = view.selected_name().map(str::to_owned);
    view.set_position(3);
    program.create("two");
    until_known(&mut window, "two");
    let view = window.state().view.as_ref().unwrap();
    assert_eq!((view.position(), view.selected_name().map(str::to_owned)), (3, name));
}

#[test]
fn what_was_seen_is_saved_and_opens_again() {
    let mut program = Program::start("127.0.0.1:0");
    program.create("mesh");
    let mut window = open(Start::Program(program.address()));
    until_known(&mut window, "mesh");
    program.create("texture");
    drop(program);
    until_known(&mut window, "texture");
    let path = path("saved");
    window.key_press_modifiers(Modifiers::COMMAND, Key::S);
    window.step();
    window.step();
    let field = window.query_all_by_role(Role::TextInput).next().unwrap();
    field.focus();
    window.step();
    window.key_press_modifiers(Modifiers::COMMAND, Key::A);
    window.step();
    window.query_all_by_role(Role::TextInput).next().unwrap().type_text(path.to_str().unwrap());
    window.step();
    click(&mut window, "Save");
    until_shown(&mut window, "events are in");
    let (saved, damage) = Recording::open(&path).unwrap();
    assert_eq!((Some(&saved), damage), (recording(&window).as_ref(), None));

    let mut again = open(Start::File(path.clone()));
    until_known(&mut again, "texture");
    assert!(recording(&again) == Some(saved));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn what_came_before_the_end_is_shown_after_a_pause_that_lasts_longer() {
    let mut program = Program::start("127.0.0.1:0");
    program.create("one");
    let mut window = open(Start::Program(program.address()));
    until_known(&mut window, "one");
    click(&mut window, "Pause");
    program.create("two");
    drop(program);
    until_shown(&mut window, "The program has ended");
    assert!(!knows(&window, "two"));
    click(&mut window, "Resume");
    until_known(&mut window, "two");
}

#[test]
fn more_allocations_at_once_than_events_are_kept_are_followed() {
    let mut program = Program::start("127.0.0.1:0");
    (0..60).for_each(|number| program.create(&format!("mesh {number}")));
    // All that comes is what exists: in its place there are as many events, and a mark.
    let limits = Limits { events: 100, ..Limits::default() };
    let mut window = open_with(Start::Program(program.address()), limits);
    until_known(&mut window, "mesh 59");
    program.create("the last one");
    until_known(&mut window, "the last one");
    assert!(shows(&window, "Connected"));
    assert!(window.state().following.as_ref().unwrap().status().forgotten < 100);
}

#[test]
fn a_name_that_no_title_can_have_is_shown_without_what_systems_refuse() {
    let name = format!("a\0b\n{}", "x".repeat(1 << 20));
    assert_eq!(crate::app::for_title(&name), format!("ab{}", "x".repeat(98)));
}

/// A file that somebody drops onto the window.
#[derive(Debug)]
struct Dropped(PathBuf);

impl DroppedFile for Dropped {
    fn path(&self) -> &Path {
        &self.0
    }

    fn bytes(&self) -> Result<Vec<u8>, String> {
        std::fs::read(&self.0).map_err(|error| error.to_string())
    }
}

#[test]
fn a_file_that_is_dropped_onto_the_window_is_opened() {
    let texts = vec!["mesh".to_owned()];
    let events = vec![Event::FrameEnd { number: 0 }, Event::Mark { text: TextId(1) }];
    let recorded = Recording { texts, events, ..Recording::default() };
    let path = path("dropped");
    recorded.write(std::fs::File::create(&path).unwrap()).unwrap();
    let mut window = open(Start::Nothing);
    window.input_mut().dropped_files.push(Arc::new(Dropped(path.clone())));
    window.step();
    until(&mut window, "the file is open", |window| recording(window).is_some());
    assert_eq!(recording(&window).unwrap().events, recorded.events);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_recording_beyond_the_limit_keeps_what_exists_and_says_what_it_forgot() {
    let mut program = Program::start("127.0.0.1:0");
    program.create("old and alive");
    let limits = Limits { events: 400, ..Limits::default() };
    let mut window = open_with(Start::Program(program.address()), limits);
    until_known(&mut window, "old and alive");
    for round in 0..300 {
        program.create(&format!("passing {round}"));
        drop(program.buffers.pop());
        program.gpu.wait_idle().unwrap();
    }
    program.create("new");
    until_known(&mut window, "new");
    assert!(shows(&window, "events forgotten here"));
    assert!(knows(&window, "old and alive") && !knows(&window, "passing 3"));
    let count = recording(&window).unwrap().events.len();
    assert!(count < 1000, "{count}");
}
