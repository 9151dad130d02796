//! The widget, used as a person uses it: clicks, wheel and keys, with the recording of a small game.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod block_map;
mod calls;
mod colours;
mod defragmentation;
mod details;
mod dump;
mod growing;
mod keys;
mod layout;
mod lists;
mod machinery;
mod planned;
mod program;
mod scattered;
mod shared;
mod snapshots;
mod table;
mod timeline;
mod what_if;

use allotment_analyze::{AllocationIndex, Timeline};
use allotment_egui::{AnalyzerView, Selection};
use allotment_trace::recording::{Event, Recording};
use egui::{Modifiers, PointerButton, Pos2, Rect, Vec2};
use egui_kittest::kittest::Queryable as _;
use egui_kittest::{Harness, Node};

/// A sixtieth of a second: two clicks are then a double click, as a person makes it.
const STEP: f32 = 1.0 / 60.0;

type View = Harness<'static, AnalyzerView>;

/// The game in a window.
fn open() -> View {
    show(AnalyzerView::new("town", program::game()))
}

fn show(view: AnalyzerView) -> View {
    let builder = Harness::builder()
        .with_size(Vec2::new(1360.0, 900.0))
        .with_theme(egui::Theme::Dark)
        .with_max_steps(120)
        .with_step_dt(STEP);
    let mut harness = builder.build_ui_state(|ui, view: &mut AnalyzerView| view.ui(ui), view);
    harness.run();
    harness
}

/// Opens one of the lists.
fn open_tab(view: &mut View, title: &str) {
    view.get_by_role_and_label(egui::Role::Button, title).click();
    view.run();
}

/// The place of a part that is painted by the widget itself.
fn canvas(view: &View, label: &str) -> Rect {
    view.get_by_role_and_label(egui::Role::Canvas, label).rect()
}

/// Leaves the pointer where it is until a tooltip comes.
fn rest_at(view: &mut View, at: Pos2) {
    view.hover_at(at);
    view.run_steps(60);
}

fn wheel(view: &mut View, at: Pos2, up: f32) {
    view.hover_at(at);
    view.run();
    view.event(egui::Event::MouseWheel {
        unit: egui::MouseWheelUnit::Point,
        source: egui::MouseWheelSource::Wheel,
        delta: Vec2::new(0.0, up),
        phase: egui::TouchPhase::Move,
        modifiers: Modifiers::NONE,
    });
    view.run();
}

fn press(view: &mut View, at: Pos2, pressed: bool, modifiers: Modifiers) {
    view.event(egui::Event::PointerMoved(at));
    view.event_modifiers(
        egui::Event::PointerButton { pos: at, button: PointerButton::Primary, pressed, modifiers },
        modifiers,
    );
}

fn click_at(view: &mut View, at: Pos2) {
    press(view, at, true, Modifiers::NONE);
    press(view, at, false, Modifiers::NONE);
    view.run();
}

fn drag(view: &mut View, from: Pos2, to: Pos2, modifiers: Modifiers) {
    press(view, from, true, modifiers);
    view.step();
    for part in 1..=4 {
        let at = from + (to - from) * (part as f32 / 4.0);
        view.event_modifiers(egui::Event::PointerMoved(at), modifiers);
        view.step();
    }
    press(view, to, false, modifiers);
    view.run();
}

/// The first allocation with a name.
fn named(recording: &Recording, name: &str) -> AllocationIndex {
    let timeline = Timeline::new(recording);
    let is_named = |&one: &AllocationIndex| recording.text(timeline.texts(one).name) == Some(name);
    let found = timeline.allocations().find(is_named);
    found.unwrap_or_else(|| panic!("the game allocates {name}"))
}

fn selects(view: &View, name: &str) -> bool {
    view.state().selected() == Some(Selection::Allocation(named(&program::game(), name)))
}

/// The position behind the mark with a text.
fn behind_mark(recording: &Recording, mark: &str) -> u64 {
    let is_mark =
        |event: &Event| matches!(*event, Event::Mark { text } if recording.text(text) == Some(mark));
    recording.events.iter().position(is_mark).unwrap() as u64 + 1
}

fn has_text(view: &View, text: &str) -> bool {
    view.query_all_by_label_contains(text).next().is_some()
}

fn first<'a>(view: &'a View, text: &'a str) -> Node<'a> {
    view.query_all_by_label_contains(text).next().unwrap_or_else(|| panic!("{text} is not shown"))
}
