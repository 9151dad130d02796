//! Memory over time.

use allotment_analyze::TimeAxis;
use egui::{Key, Modifiers, pos2};
use egui_kittest::kittest::Queryable as _;

use super::{canvas, click_at, drag, has_text, open, program, wheel};

#[test]
fn a_click_moves_the_cursor_of_every_pane() {
    let mut view = open();
    let end = program::game().events.len() as u64;
    assert_eq!(view.state().position(), end);
    let chart = canvas(&view, "Memory over time");
    click_at(&mut view, pos2(chart.left() + 74.0 + (chart.width() - 80.0) / 2.0, chart.top() + 30.0));
    let position = view.state().position();
    assert!(position.abs_diff(end / 2) < end / 100, "{position} of {end}");
    assert!(has_text(&view, &format!("Event {position}")));
}

#[test]
fn a_drag_with_shift_sets_a_and_b_around_a_range() {
    let mut view = open();
    let chart = canvas(&view, "Memory over time");
    let at = |share: f32| pos2(chart.left() + 74.0 + (chart.width() - 80.0) * share, chart.top() + 30.0);
    let before = view.state().position();
    drag(&mut view, at(0.75), at(0.25), Modifiers::SHIFT);
    let [Some(a), Some(b), None, None] = view.state().marks() else { panic!("{:?}", view.state().marks()) };
    let end = program::game().events.len() as u64;
    assert!(a.abs_diff(end / 4) < end / 50 && b.abs_diff(end * 3 / 4) < end / 50, "{a} to {b} of {end}");
    assert_eq!(view.state().position(), before, "the cursor stays");
}

#[test]
fn the_wheel_zooms_the_time_and_a_double_click_shows_all() {
    let mut view = open();
    let at = canvas(&view, "Memory over time").center();
    wheel(&mut view, at, 300.0);
    let (from, to) = view.state().visible_time();
    assert!(to - from < 0.5 && from > 0.2, "{from} to {to}");
    click_at(&mut view, at);
    click_at(&mut view, at);
    assert_eq!(view.state().visible_time(), (0.0, 1.0));
}

#[test]
fn keys_step_by_events_and_frames_and_from_one_happening_to_the_next() {
    let mut view = open();
    view.key_press(Key::Home);
    view.run();
    assert_eq!(view.state().position(), 0);
    view.key_press(Key::ArrowRight);
    view.run();
    assert_eq!(view.state().position(), 1);
    view.key_press(Key::CloseBracket);
    view.run();
    let mark = super::behind_mark(&program::game(), "town is being loaded");
    assert_eq!(view.state().position(), mark);
    view.key_press_modifiers(Modifiers::SHIFT, Key::ArrowRight);
    view.run();
    assert!(view.state().position() > super::behind_mark(&program::game(), "town is loaded"));
    view.key_press(Key::End);
    view.run();
    assert_eq!(view.state().position(), program::game().events.len() as u64);
}

#[test]
fn frames_and_seconds_are_other_axes() {
    let mut view = open();
    view.get_by_label("frames").click();
    view.run();
    assert_eq!(view.state().axis(), TimeAxis::Frames);
    view.get_by_label("seconds").click();
    view.run();
    assert_eq!(view.state().axis(), TimeAxis::Seconds);
}

#[test]
fn the_button_of_the_peak_goes_to_the_most_used_bytes() {
    let mut view = open();
    view.get_by_label("Peak").click();
    view.run();
    let game = program::game();
    let timeline = allotment_analyze::Timeline::new(&game);
    let peak = allotment_analyze::Peaks::of(&timeline, allotment_analyze::Scope::All).used.moment.event;
    assert_eq!(view.state().position(), peak);
}
