//! Measures frames with many allocations: `cargo run --release -p allotment-egui --example frame_cost [ALLOCATIONS | FILE]`.
//!
//! The file is a recording, as `many_allocations` of `allotment-trace` writes; without one, blocks are full of one pattern.
//!
//! No window and no GPU: what is measured is the CPU time of the thread for the whole widget at 1920 × 1080, with all its
//! panes, and for the tessellation of its shapes.

use core::time::Duration;

use allotment::device::{MemoryTypeIndex, ResourceKind};
use allotment::{Algorithm, Alignment};
use allotment_analyze::ColourBy;
use allotment_egui::{AnalyzerView, IndexedRecording, PaneKind};
use allotment_trace::recording::{
    Allocated, AllocationKey, BlockId, BlockKind, Event, Placement, PoolId, Recording, TextId,
};
use egui::{Context, Modifiers, RawInput, Rect, Vec2, pos2};

const SLOT: u64 = 4096;
/// Frames that are measured of each kind; the slowest tenth is told as well.
const FRAMES: usize = 100;
/// Each indexes the whole recording.
const REPLACED: usize = 3;

fn main() {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "1200000".to_owned());
    let count = argument.parse().ok();
    let recording = match count {
        Some(count) => generate(count, 6, 1),
        None => Recording::open(&argument).expect("a recording").0,
    };
    let start = on_cpu();
    let mut view = AnalyzerView::new("many", recording);
    println!("index: {:?}", on_cpu() - start);
    let mut window = Window { ctx: Context::default(), time: 0.0 };

    let start = on_cpu();
    for _ in 0..FRAMES {
        window.frame(&mut view, Vec::new());
    }
    println!("the first {FRAMES} frames, which look at every allocation once: {:?}", on_cpu() - start);
    measure("nothing changes", || window.frame(&mut view, Vec::new()));
    let mut way = 1.0;
    measure("the wheel zooms the map", || {
        // In and out, so that every zoom is measured.
        let (from, to) = view.visible_bytes();
        if to - from < 1e-4 {
            way = -1.0;
        } else if to - from > 0.9 {
            way = 1.0;
        }
        let events = wheel(pos2(700.0, 450.0), 40.0 * way);
        window.frame(&mut view, events);
    });
    let mut x = 0.0;
    measure("a drag pans the map", || {
        x += 3.0;
        window.frame(&mut view, drag(pos2(400.0 + x % 300.0, 450.0)));
    });
    let end = view.position();
    let mut back = 0;
    measure("the cursor moves in time", || {
        back = (back + 1) % 50;
        view.set_position(end - back);
        window.frame(&mut view, Vec::new());
    });
    view.set_position(end);
    colours(&mut window, &mut view);
    search(&mut window, &mut view);
    replace(&mut window, &mut view);
    if let Some(count) = count {
        preview(count);
    }
}

/// Each way to colour: what is counted is counted on a thread, so the frames until then are measured apart.
fn colours(window: &mut Window, view: &mut AnalyzerView) {
    for by in ColourBy::ALL {
        view.set_colour_by(by);
        let name = by.name();
        counted(&format!("colours by {name}, while they are counted"), || window.frame(view, Vec::new()));
        measure(&format!("colours by {name}, nothing changes"), || window.frame(view, Vec::new()));
        let mut back = 0;
        let end = view.position();
        measure(&format!("colours by {name}, the cursor moves"), || {
            back = (back + 1) % 50;
            view.set_position(end - back);
            window.frame(view, Vec::new());
        });
        view.set_position(end);
        let mut turn = 0;
        measure(&format!("colours by {name}, the wheel zooms the map and back"), || {
            turn += 1;
            window.frame(view, wheel(pos2(700.0, 450.0), if turn / 10 % 2 == 0 { 40.0 } else { -40.0 }));
        });
        measure(&format!("colours by {name}, the wheel zooms the timeline and back"), || {
            turn += 1;
            window.frame(view, wheel(pos2(700.0, 120.0), if turn / 10 % 2 == 0 { 40.0 } else { -40.0 }));
        });
    }
}

/// Letters of a search, one after the other, and a table that scrolls.
fn search(window: &mut Window, view: &mut AnalyzerView) {
    for by in [ColourBy::State, ColourBy::NameGroup] {
        view.set_colour_by(by);
        let (key, modifiers) = (egui::Key::Slash, Modifiers::NONE);
        let slash = egui::Event::Key { key, physical_key: None, pressed: true, repeat: false, modifiers };
        window.frame(view, vec![slash]);
        window.frame(view, Vec::new());
        for letter in ["m", "e", "s", "h"] {
            let start = on_cpu();
            window.frame(view, vec![egui::Event::Text(letter.to_owned())]);
            println!("search, the frame of a letter: {:?}", on_cpu() - start);
            counted("search, while it is counted", || window.frame(view, Vec::new()));
        }
        println!("rows: {}", view.table_rows());
        measure("search, nothing changes", || window.frame(view, Vec::new()));
        let mut down = 0.0;
        measure("the wheel scrolls through the table", || {
            down += 10.0;
            window.frame(view, wheel(pos2(700.0, 950.0), if down < 500.0 { -60.0 } else { 60.0 }));
        });
        for _ in 0..4 {
            let (key, modifiers) = (egui::Key::Backspace, Modifiers::NONE);
            let delete =
                egui::Event::Key { key, physical_key: None, pressed: true, repeat: false, modifiers };
            window.frame(view, vec![delete]);
        }
        counted("search, while it is counted", || window.frame(view, Vec::new()));
    }
}

/// Frames while threads count: half a second, a frame each 16 ms.
fn counted(what: &str, mut frame: impl FnMut()) {
    let mut slowest = Duration::ZERO;
    for _ in 0..30 {
        let start = on_cpu();
        frame();
        slowest = slowest.max(on_cpu() - start);
        std::thread::sleep(Duration::from_millis(16));
    }
    println!("{what}: slowest {slowest:?}");
}

/// A live recording has become longer: what the window's own thread does about it, and then the first frame.
fn replace(window: &mut Window, view: &mut AnalyzerView) {
    let (mut replaced, mut shown) = (Vec::new(), Vec::new());
    for _ in 0..REPLACED {
        let recording = Recording::clone(&view.recording());
        // On another thread in a viewer.
        let indexed = IndexedRecording::new(recording);
        let start = on_cpu();
        let before = view.replace_indexed(indexed);
        replaced.push(on_cpu() - start);
        let start = on_cpu();
        window.frame(view, Vec::new());
        shown.push(on_cpu() - start);
        drop(before);
    }
    println!("a longer recording takes the place: {replaced:?}, the first frame after each {shown:?}");
}

/// The preview of a defragmentation: a third of the allocations in many blocks, most of which it empties.
fn preview(count: u64) {
    let start = on_cpu();
    let mut view = AnalyzerView::new("scattered", generate(count, 300, 3));
    println!("index of scattered ones: {:?}", on_cpu() - start);
    view.open_pane(PaneKind::Defragmentation);
    let mut window = Window { ctx: Context::default(), time: 0.0 };
    // The plan is made on a thread of its own.
    measure("while the plan is made", || window.frame(&mut view, Vec::new()));
    std::thread::sleep(Duration::from_secs(5 + count / 200_000));
    let start = on_cpu();
    window.frame(&mut view, Vec::new());
    println!("the frame that gets the plan: {:?}", on_cpu() - start);
    measure("the moves are drawn", || window.frame(&mut view, Vec::new()));
    let mut down = 0.0;
    measure("the wheel scrolls through the moves", || {
        down += 10.0;
        window.frame(&mut view, wheel(pos2(700.0, 950.0), if down < 500.0 { -20.0 } else { 20.0 }));
    });
}

struct Window {
    ctx: Context,
    time: f64,
}

impl Window {
    fn frame(&mut self, view: &mut AnalyzerView, events: Vec<egui::Event>) {
        self.time += 1.0 / 60.0;
        let screen_rect = Some(Rect::from_min_size(pos2(0.0, 0.0), Vec2::new(1920.0, 1080.0)));
        let input = RawInput { screen_rect, events, time: Some(self.time), ..RawInput::default() };
        let mut output = self.ctx.run_ui(input, |ui| view.ui(ui));
        // No GPU takes the pictures of glyphs.
        output.textures_delta.clear();
        core::hint::black_box(self.ctx.tessellate(output.shapes, output.pixels_per_point));
    }
}

fn wheel(at: egui::Pos2, up: f32) -> Vec<egui::Event> {
    let delta = Vec2::new(0.0, up);
    let (unit, source) = (egui::MouseWheelUnit::Point, egui::MouseWheelSource::Wheel);
    let (phase, modifiers) = (egui::TouchPhase::Move, Modifiers::NONE);
    vec![egui::Event::PointerMoved(at), egui::Event::MouseWheel { unit, source, delta, phase, modifiers }]
}

fn drag(to: egui::Pos2) -> Vec<egui::Event> {
    let (button, modifiers) = (egui::PointerButton::Primary, Modifiers::NONE);
    let press = egui::Event::PointerButton { pos: to, button, pressed: true, modifiers };
    vec![egui::Event::PointerMoved(to), press]
}

fn measure(what: &str, mut frame: impl FnMut()) {
    let mut times: Vec<Duration> = (0..FRAMES)
        .map(|_| {
            let start = on_cpu();
            frame();
            on_cpu() - start
        })
        .collect();
    times.sort();
    // The clock of a thread may tick in milliseconds, so the mean says more than any one frame.
    let mean = times.iter().sum::<Duration>() / FRAMES as u32;
    println!(
        "{what}: mean {mean:?}, median {:?}, slowest tenth {:?}, slowest {:?}",
        times[FRAMES / 2],
        times[FRAMES * 9 / 10],
        times[FRAMES - 1]
    );
}

/// The time that the thread has run, as Linux counts it: of a busy machine the time of the others is left out.
fn on_cpu() -> Duration {
    // A running thread's time is counted at ticks of 4 ms; where the scheduler is asked, until now.
    std::thread::yield_now();
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split_whitespace().next().and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// Large blocks full of small movable allocations of many sizes, with holes: one in so many of the slots is taken.
fn generate(count: u64, blocks: u64, one_in: u64) -> Recording {
    let per_block = count.div_ceil(blocks);
    let texts = (0..400).map(|n| format!("thing {n}")).collect();
    let mut recording = Recording { texts, ..Recording::default() };
    let pool = PoolId(0);
    recording.events.push(Event::PoolCreated {
        pool,
        name: TextId::NONE,
        algorithm: Some(Algorithm::Tlsf),
        custom: false,
    });
    for block in 0..blocks {
        let (block, kind, size) = (BlockId(block), BlockKind::Shared, per_block * SLOT);
        let memory_type = MemoryTypeIndex(0);
        recording.events.push(Event::BlockAllocated { block, pool, memory_type, kind, size });
    }
    let mut random = 1u64;
    for number in (0..count).step_by(one_in as usize) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let requested = 1 + (random >> 33) % SLOT;
        let name = TextId(1 + (random >> 50) as u32 % 400);
        recording.events.push(Event::Allocated(Allocated {
            allocation: AllocationKey(number),
            block: BlockId(number / per_block),
            offset: number % per_block * SLOT,
            requested,
            occupied: requested.next_multiple_of(256),
            user_data: 0,
            name,
            category: TextId::NONE,
            alignment: Alignment::ONE,
            usage: None,
            kind: ResourceKind::Buffer,
            placement: Placement::ExistingBlock,
            second_choice: false,
            movable: true,
        }));
    }
    recording
}
