//! What The Machinery's Device Memory Analyzer shows, point by point, with a picture for each in `docs/guide/the-viewer.md`.
//!
//! Its article shows scenes with large textures in a buddy allocator, whose blocks are never freed. So does this program.

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{BufferDesc, ImageDesc};
use allotment::memory::{BlockSizes, Buffer, CallSites, Image, ManualTime, MemoryUsage, TimeSource};
use allotment::{Algorithm, AllocationOptions, AllocatorDesc, Gpu, GpuDesc};
use allotment_analyze::Timeline;
use allotment_egui::{AnalyzerView, Layout, PaneKind, Selection};
use allotment_trace::Collector;
use allotment_trace::recording::Recording;
use egui::{Modifiers, Theme, Vec2, pos2, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;

use super::{View, drag, first, has_text, wheel};

type Device = SimulatedGpu;

/// Meshes and textures of a scene.
struct Scene {
    _images: Vec<Image<Device>>,
    _buffers: Vec<Buffer<Device>>,
}

/// Loads a scene: each texture is a third larger than a power of two, for its mips.
fn load(gpu: &Gpu<Device>, scene: &str, textures: u32) -> Scene {
    let named = |what: &str, at: u32| {
        AllocationOptions::new(MemoryUsage::GpuOnly).with_name(format!("{scene} {what} {at}"))
    };
    let texture = |at: u32| {
        let side = 1024 >> (at % 3);
        let desc = ImageDesc::new(side, side, 4).with_mip_levels(11 - at % 3);
        gpu.create_image(&desc, &named("texture", at)).unwrap()
    };
    let mesh =
        |at: u32| gpu.create_buffer(&BufferDesc::new(150_000 + 37_000 * u64::from(at)), &named("mesh", at));
    Scene {
        _images: (0..textures).map(texture).collect(),
        _buffers: (0..4).map(|at| mesh(at).unwrap()).collect(),
    }
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
    allocator.shards = 1;
    let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    let gpu = Gpu::new(device, GpuDesc::default().with_allocator(allocator)).unwrap();
    let collector = Collector::new(&gpu).unwrap();
    let helmet = load(&gpu, "helmet", 12);
    let sponza = load(&gpu, "sponza", 24);
    let city = load(&gpu, "city", 18);
    frames(&gpu, 4);
    drop(sponza);
    frames(&gpu, 60);
    drop(helmet);
    frames(&gpu, 4);
    let recording = collector.into_recording();
    drop(city);
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
    let row = first(&view, "Block #0,").rect();
    let at = pos2(row.right() + 300.0, row.center().y);
    wheel(&mut view, at, 500.0);
    let zoomed = view.state().visible_bytes();
    assert!(zoomed.1 - zoomed.0 < 0.5);
    drag(&mut view, at, at - vec2(90.0, 0.0), Modifiers::NONE);
    assert!(view.state().visible_bytes().0 > zoomed.0);
    view.snapshot("machinery_zoom");
}

#[test]
fn a_click_on_a_used_or_yellow_part_shows_the_resource() {
    let mut view = open();
    first(&view, "city texture 3").click();
    view.run();
    assert!(matches!(view.state().selected(), Some(Selection::Allocation(_))));
    assert!(has_text(&view, "Overhead"), "what the buddy algorithm rounds up is told");
    view.snapshot("machinery_details");
}

#[test]
fn a_block_that_is_empty_and_was_never_freed_says_for_how_long() {
    let view = open();
    assert!(has_text(&view, "empty,"));
    let recording = program();
    let timeline = Timeline::new(&recording);
    assert!(timeline.allocations().count() > 60, "three scenes");
}
