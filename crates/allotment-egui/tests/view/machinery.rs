//! What The Machinery's Device Memory Analyzer shows, point by point, with a picture for each in `docs/guide/the-viewer.md`.
//!
//! Its article shows scenes with large textures in a buddy allocator, whose blocks are never freed. So does this program.

use allotment::device::BufferDesc;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::memory::blocks::{BlockSizes, ManualTime, TimeSource};
use allotment::memory::reports::CallSites;
use allotment::memory::{Buffer, MemoryUsage};
use allotment::{Algorithm, AllocationOptions, AllocatorDesc, Gpu, GpuDesc};
use allotment_egui::{AnalyzerView, Layout, PaneKind, Selection};
use allotment_trace::Collector;
use allotment_trace::recording::{Event, Recording};
use egui::{Modifiers, Theme, Vec2, pos2, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;

use super::{View, drag, first, has_text, wheel};

type Device = SimulatedGpu;

/// What a scene has in video memory.
struct Scene(Vec<Buffer<Device>>);

/// Loads a scene. With its mips, a texture has a third more bytes than a power of two.
fn load(gpu: &Gpu<Device>, scene: &str, textures: u32) -> Scene {
    let create = |what: &str, at: u32, size: u64| {
        let name = format!("{scene} {what} {at}");
        let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name(name);
        gpu.create_buffer(&BufferDesc::new(size), &options).unwrap()
    };
    let textures = (0..textures).map(|at| create("texture", at, ((4 << 20) >> (2 * (at % 3))) * 4 / 3));
    let meshes = (0..4).map(|at| create("mesh", at, 150_000 + 37_000 * u64::from(at)));
    Scene(textures.chain(meshes).collect())
}

fn frames(gpu: &Gpu<Device>, count: u32) {
    for _ in 0..count {
        gpu.begin_frame().unwrap().end().unwrap();
    }
}

/// A program that loads three scenes, and drops the first two.
fn program() -> Recording {
    let mut allocator = AllocatorDesc::default();
    allocator.algorithm = Algorithm::Buddy;
    allocator.block_sizes = BlockSizes::fixed(32 << 20);
    // As in the article: a block stays once it is there.
    (allocator.empty_blocks.frames, allocator.empty_blocks.kept_bytes) = (u32::MAX, u64::MAX);
    // The same recording whenever and wherever it is made.
    (allocator.time, allocator.call_sites) = (TimeSource::Manual(ManualTime::new()), CallSites::None);
    allocator.threads = 1;
    let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    let gpu = Gpu::new(device, GpuDesc::default().with_allocator(allocator)).unwrap();
    let collector = Collector::new(&gpu).unwrap();
    let helmet = load(&gpu, "helmet", 12);
    let sponza = load(&gpu, "sponza", 24);
    let mut city = load(&gpu, "city", 18);
    frames(&gpu, 4);
    drop(sponza);
    frames(&gpu, 60);
    drop(helmet);
    // Holes of all sizes.
    let mut at = 0;
    city.0.retain(|_| {
        at += 1;
        at % 4 != 2
    });
    frames(&gpu, 4);
    let mut recording = collector.into_recording();
    drop(city);
    // The clock's times are others in each run.
    let mut nanoseconds = 0;
    for event in &mut recording.events {
        if let Event::Time { nanoseconds: time } = event {
            nanoseconds += 8_300_000;
            *time = nanoseconds;
        }
    }
    recording
}

/// The blocks, beside what is selected.
fn open() -> View {
    let mut view = AnalyzerView::new("three scenes", program());
    view.set_layout(Layout::side_by_side(&[PaneKind::BlockMap, PaneKind::Details]));
    let builder = Harness::builder()
        .with_size(Vec2::new(1200.0, 460.0))
        .with_theme(Theme::Dark)
        .with_max_steps(120)
        .wgpu();
    let mut harness = builder.build_ui_state(|ui, view: &mut AnalyzerView| view.ui(ui), view);
    harness.run();
    harness
}

#[test]
fn each_block_is_a_row_under_the_allocator_that_has_it() {
    let mut view = open();
    view.get_by_label("pool").click();
    view.run();
    assert!(has_text(&view, "Block #"));
    view.snapshot("machinery_blocks");
}

#[test]
fn one_zooms_at_a_place_and_scrolls_to_its_sides() {
    let mut view = open();
    let row = first(&view, "Block #4,").rect();
    let at = pos2(row.right() + 215.0, row.center().y);
    wheel(&mut view, at, 330.0);
    let zoomed = view.state().visible_bytes();
    assert!(zoomed.1 - zoomed.0 < 0.5);
    drag(&mut view, at, at - vec2(40.0, 0.0), Modifiers::NONE);
    assert!(view.state().visible_bytes().0 > zoomed.0);
    view.snapshot("machinery_zoom");
}

#[test]
fn a_click_on_a_used_or_yellow_part_shows_the_resource() {
    let mut view = open();
    first(&view, "city texture 3").click();
    view.run();
    assert!(matches!(view.state().selected(), Some(Selection::Allocation(_))));
    assert!(has_text(&view, "city texture 3"));
    assert!(has_text(&view, "8.00 MiB"), "the buddy algorithm rounds 5.33 MiB up to it");
    view.snapshot("machinery_details");
}

#[test]
fn a_block_that_is_empty_and_was_never_freed_says_for_how_long() {
    let mut view = open();
    assert!(has_text(&view, "empty, 64 frames"));
    first(&view, "Block #3,").click();
    view.run();
    assert!(matches!(view.state().selected(), Some(Selection::Block(_))));
    view.snapshot("machinery_empty");
}
