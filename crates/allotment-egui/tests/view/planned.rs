//! The plan with all lifetimes known, as a picture.

use allotment_analyze::units::bytes;
use allotment_analyze::{AllocationIndex, OfflineMemory, PlacedItem, PlanPicture, Timeline};
use allotment_egui::{AnalyzerView, Layout, PaneKind, Selection};
use allotment_trace::recording::Recording;
use egui::{Key, Rect, pos2};

use super::{View, canvas, has_text, open, program, rest_at, scattered, show};

/// The pane, opened by its key, with its plans.
pub(super) fn planned(mut view: View) -> View {
    view.key_press(Key::O);
    // A thread makes the plans.
    for _ in 0..6_000 {
        view.step();
        if has_text(&view, "as planned") {
            view.run();
            return view;
        }
        std::thread::sleep(core::time::Duration::from_millis(10));
    }
    panic!("nothing was planned within a minute");
}

/// The plan of the first memory type, as the analysis has it.
struct Planned {
    label: String,
    end: u64,
    allocations: Vec<AllocationIndex>,
    picture: PlanPicture,
}

impl Planned {
    fn of(recording: &Recording) -> Self {
        let timeline = Timeline::new(recording);
        let mut memories = OfflineMemory::of(&timeline).unwrap();
        let plan = &OfflineMemory::plan_all(&memories)[0];
        let memory = memories.swap_remove(0);
        let picture = memory.picture(plan);
        let label = format!("Plan of memory type {}", memory.memory_type.0);
        Self { label, end: timeline.end(), allocations: memory.allocations, picture }
    }

    /// The allocation with the most bytes over the longest time.
    fn largest(&self) -> AllocationIndex {
        let mut picture = self.picture.clone();
        picture.keep_largest(1);
        self.allocations[picture.items[0].item]
    }

    /// Where an allocation is on the screen.
    fn rect(&self, view: &View, allocation: AllocationIndex) -> Rect {
        let is_it = |item: &&PlacedItem| self.allocations[item.item] == allocation;
        let item = self.picture.items.iter().find(is_it).unwrap();
        let area = canvas(view, &self.label);
        // An event leads to the position behind it.
        let x = |event: u64| area.left() + (event + 1).min(self.end) as f32 / self.end as f32 * area.width();
        let y = |byte: u64| area.bottom() - (byte as f64 / self.picture.peak as f64) as f32 * area.height();
        Rect::from_min_max(
            pos2(x(item.life.start), y(item.offset + item.size)),
            pos2(x(item.life.end), y(item.offset)),
        )
    }
}

#[test]
fn the_plan_is_made_beside_the_frames_and_its_figures_are_those_of_the_analysis() {
    let mut view = open();
    view.key_press(Key::O);
    view.step();
    view.step();
    let view = planned(view);
    let recording = program::game();
    let timeline = Timeline::new(&recording);
    let memories = OfflineMemory::of(&timeline).unwrap();
    for (memory, plan) in memories.iter().zip(OfflineMemory::plan_all(&memories)) {
        let name = format!("Memory type {}", memory.memory_type.0);
        assert!(has_text(&view, &name), "{name}");
        let figure = format!("{} as planned", bytes(plan.peak()));
        assert!(has_text(&view, &figure), "{figure}");
    }
}

#[test]
fn the_pointer_shows_what_was_planned_there_and_a_click_selects_it() {
    let mut view = planned(open());
    let recording = program::game();
    let plan = Planned::of(&recording);
    let at = plan.rect(&view, plan.largest()).center();
    rest_at(&mut view, at);
    assert!(has_text(&view, "planned at offset"));
    super::click_at(&mut view, at);
    assert_eq!(view.state().selected(), Some(Selection::Allocation(plan.largest())));
}

#[test]
fn a_picture_of_thousands_is_drawn_anew_in_each_size() {
    let recording = scattered::scattered(6_000, 16 << 20, 1024, 4);
    let mut view = planned(show(AnalyzerView::new("scattered", recording.clone())));
    let plan = Planned::of(&recording);
    for size in [egui::vec2(900.0, 1100.0), egui::vec2(1360.0, 900.0)] {
        view.set_size(size);
        view.run();
        view.state_mut().select(None);
        let (mut tries, mut found) = (0, None);
        // A thread draws the picture.
        while found.is_none() && tries < 100 {
            view.step();
            let at = plan.rect(&view, plan.largest()).center();
            super::click_at(&mut view, at);
            found = view.state().selected().map(|selected| (at, selected));
            std::thread::sleep(core::time::Duration::from_millis(20));
            tries += 1;
        }
        // Many allocations have less than a pixel.
        let Some((at, Selection::Allocation(found))) = found else { panic!("{size:?}: {found:?}") };
        let rect = plan.rect(&view, found);
        assert!(rect.expand(1.5).contains(at), "{size:?}: {found:?} is at {rect:?} and not at {at:?}");
    }
}

#[test]
fn a_pane_that_was_closed_plans_anew() {
    let mut view = planned(open());
    view.state_mut().set_layout(Layout::side_by_side(&[PaneKind::BlockMap]));
    view.step();
    view.state_mut().open_pane(PaneKind::Planned);
    view.step();
    assert!(has_text(&view, "Counting…"), "nothing is kept of what was closed");
    planned(view);
}

#[test]
fn a_plan_shows_the_part_of_the_time_that_the_timeline_shows() {
    let mut view = planned(open());
    let timeline = canvas(&view, "Memory over time");
    super::wheel(&mut view, timeline.center(), 400.0);
    let (from, to) = view.state().visible_time();
    assert!(from > 0.0 && to < 1.0);
    // The strip below the lowest allocations of a plan is empty nowhere, so a click there selects what lived then.
    let recording = program::game();
    let area = canvas(&view, "Plan of memory type 0");
    super::click_at(&mut view, pos2(area.center().x, area.bottom() - 2.0));
    let Some(Selection::Allocation(found)) = view.state().selected() else { panic!("an allocation") };
    let timeline = Timeline::new(&recording);
    let middle = ((from + to) / 2.0 * timeline.end() as f64) as u64;
    assert!(timeline.allocation_exists(found, middle), "at {middle}: {:?}", timeline.lifetime(found));
}

#[test]
fn a_recording_without_allocations_says_so() {
    let mut view = show(AnalyzerView::new("empty", Recording::default()));
    view.key_press(Key::O);
    view.run();
    assert!(has_text(&view, "nothing to plan"));
}
