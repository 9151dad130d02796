//! The arrangement of the panes, the colours, and a recording that goes on.

use allotment_egui::{AnalyzerView, Layout, PaletteKind, PaneKind};
use allotment_trace::recording::Recording;
use egui::Key;
use egui_kittest::kittest::Queryable as _;

use super::{has_text, open, program, show};

#[test]
fn a_pane_that_was_closed_stays_closed_in_a_saved_layout_and_opens_again() {
    let mut view = open();
    // The first of the closing buttons is that of the timeline.
    view.query_all_by_role_and_label(egui::Role::Button, "Close").next().unwrap().click();
    view.run();
    let closed: Vec<_> =
        PaneKind::ALL.into_iter().filter(|pane| !view.state().open_panes().contains(pane)).collect();
    assert_eq!(closed, [PaneKind::Timeline]);

    let saved = serde_json::to_string(&view.state().layout()).unwrap();
    let layout: Layout = serde_json::from_str(&saved).unwrap();
    let mut next = AnalyzerView::new("town", program::game());
    next.set_layout(layout);
    let mut next = show(next);
    assert!(!next.state().open_panes().contains(&PaneKind::Timeline));

    next.get_by_label("Panes").click();
    next.run();
    next.get_by_role_and_label(egui::Role::Button, "Memory over time").click();
    next.run();
    assert_eq!(next.state().open_panes().len(), PaneKind::ALL.len());
    assert!(next.query_by_role_and_label(egui::Role::Canvas, "Memory over time").is_some());
}

#[test]
fn a_key_opens_the_pane_of_its_number() {
    let mut view = open();
    view.key_press(Key::Num5);
    view.run();
    assert!(has_text(&view, "unreleased allocation"));
}

#[test]
fn colours_and_theme_change_by_keys() {
    let mut view = open();
    view.key_press(Key::C);
    view.run();
    assert_eq!(view.state().palette(), PaletteKind::ColourBlind);
    assert!(has_text(&view, "Theme: dark"));
    view.key_press(Key::T);
    view.run();
    assert!(has_text(&view, "Theme: light"));
}

#[test]
fn the_keys_are_explained() {
    let mut view = open();
    view.key_press(Key::Questionmark);
    view.run();
    assert!(has_text(&view, "Keys and gestures"));
    assert!(has_text(&view, "one frame back or forward"));
}

#[test]
fn a_cursor_at_the_end_stays_at_the_end_of_a_recording_that_goes_on() {
    let whole = program::game();
    let half = Recording { events: whole.events[..whole.events.len() / 2].to_vec(), ..whole.clone() };
    let mut view = show(AnalyzerView::new("town", half));
    view.state_mut().replace(whole.clone());
    view.run();
    assert_eq!(view.state().position(), whole.events.len() as u64);
    view.state_mut().set_position(100);
    view.state_mut().replace(whole);
    view.run();
    assert_eq!(view.state().position(), 100);
}

#[test]
fn an_empty_recording_is_shown_with_reasons() {
    let view = show(AnalyzerView::new("empty", Recording::default()));
    assert!(has_text(&view, "No block exists at this moment"));
    assert!(has_text(&view, "Nothing is allocated at this moment."));
}
