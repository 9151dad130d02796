//! Memory that resources share, over time, in the pane about aliasing.

use allotment_analyze::Timeline;
use allotment_egui::{AnalyzerView, Selection};
use egui::{Key, Pos2, Rect, pos2};

use super::{View, canvas, click_at, has_text, open_tab, program, rest_at, show};

/// The pane, with the memory "targets".
fn targets() -> View {
    let mut view = show(AnalyzerView::new("frame graph", program::shared()));
    open_tab(&mut view, "Aliasing");
    view
}

fn picture(view: &View) -> Rect {
    canvas(view, "Memory 0 over time")
}

/// Where a position and a number of MiB of the memory are.
fn at(view: &View, position: f32, mib: f32) -> Pos2 {
    let area = picture(view);
    let end = program::shared().events.len() as f32;
    pos2(area.left() + position / end * area.width(), area.bottom() - mib / 24.0 * area.height())
}

/// The position behind the first event that activates a resource, of the key 100 and so on.
fn activated(key: u64) -> f32 {
    let recording = program::shared();
    let is = |event: &allotment_trace::recording::Event| matches!(*event, allotment_trace::recording::Event::Activated { resource } if resource.0 == key);
    recording.events.iter().position(is).unwrap() as f32 + 1.0
}

#[test]
fn the_heading_says_what_is_shared_at_the_moment() {
    let mut view = targets();
    assert!(has_text(&view, "3 resources of 32.0 MiB,"));
    assert!(has_text(&view, "8.00 MiB saved"));
    assert!(has_text(&view, "(in all 3 resources, 32.0 MiB at the same time; 8 activations)"));
    view.key_press(Key::Home);
    view.run();
    assert!(has_text(&view, "no resource at this moment"));
}

#[test]
fn the_pointer_shows_the_resource_that_has_the_bytes() {
    let mut view = targets();
    let point = at(&view, activated(100) + 0.5, 4.0);
    rest_at(&mut view, point);
    assert!(has_text(&view, "16,777,216 B"));
    assert!(has_text(&view, "active: Event"));
    assert!(has_text(&view, "over the same bytes: bloom"));
    // At the same moment, bloom's bytes are another one's; from its activation on they are its own.
    let point = at(&view, activated(101) + 0.5, 4.0);
    rest_at(&mut view, point);
    assert!(has_text(&view, "8,388,608 B"));
    assert!(has_text(&view, "over the same bytes: g-buffer"));
}

#[test]
fn a_resource_without_its_bytes_says_which_one_has_them() {
    let mut view = targets();
    // While bloom is active, the upper half of the other's bytes is nobody's.
    let point = at(&view, activated(101) + 0.5, 12.0);
    rest_at(&mut view, point);
    assert!(has_text(&view, "16,777,216 B"));
    assert!(has_text(&view, "inactive: bytes of it are those of bloom"));
}

#[test]
fn a_click_leads_to_the_moment_and_selects_the_memory() {
    let mut view = targets();
    let position = activated(101);
    let point = at(&view, position, 12.0);
    click_at(&mut view, point);
    assert_eq!(view.state().position() as f32, position);
    assert_eq!(view.state().selected_name(), Some("targets"));
    let recording = program::shared();
    let shared = Timeline::new(&recording).shared_allocations();
    assert_eq!(view.state().selected(), Some(Selection::Allocation(shared[0])));
}

#[test]
fn the_picture_shows_the_part_of_the_time_that_the_timeline_shows() {
    let mut view = targets();
    let whole = picture(&view);
    let timeline = canvas(&view, "Memory over time");
    super::wheel(&mut view, timeline.center(), 400.0);
    let (from, to) = view.state().visible_time();
    assert!(from > 0.0 && to < 1.0);
    assert_eq!(picture(&view), whole);
    click_at(&mut view, pos2(whole.left() + 1.0, whole.center().y));
    let end = program::shared().events.len() as f64;
    assert!((view.state().position() as f64 / end - from).abs() < 1.0 / end, "{from} is at the left");
}

#[test]
fn a_plan_whose_resources_are_never_active_is_shown_with_what_is_over_the_same_bytes() {
    use allotment_trace::recording::Event;
    let mut recording = program::shared();
    recording.events.retain(|event| !matches!(event, Event::Activated { .. } | Event::Displaced { .. }));
    for event in &mut recording.events {
        if let Event::Bound(is) = event {
            is.active = false;
        }
    }
    let mut view = show(AnalyzerView::new("frame graph", recording));
    open_tab(&mut view, "Aliasing");
    assert!(has_text(&view, "8.00 MiB saved"));
    assert!(has_text(&view, "a plan gives each its bytes within every frame"));
    let area = picture(&view);
    rest_at(&mut view, pos2(area.center().x, area.bottom() - 10.0));
    assert!(has_text(&view, "8,388,608 B"), "the smaller one is above the larger one");
    assert!(has_text(&view, "over the same bytes: g-buffer"));
    assert!(!has_text(&view, "inactive"));
}

#[test]
fn a_recording_without_shared_memory_says_what_makes_it() {
    let mut view = super::open();
    open_tab(&mut view, "Aliasing");
    assert!(has_text(&view, "Gpu::transient_heap"));
}
