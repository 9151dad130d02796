//! What other settings would have done.

use allotment_egui::AnalyzerView;
use allotment_trace::recording::Recording;
use egui::{Key, Role};
use egui_kittest::kittest::Queryable as _;

use super::{View, canvas, click_at, has_text, open, rest_at, scattered, show};

/// The comparison of settings, opened by its key.
fn compare(recording: Recording) -> View {
    let mut view = show(AnalyzerView::new("town", recording));
    view.key_press(Key::I);
    view.run();
    view
}

/// Chooses a setting of a side, 0 for A and 1 for B.
fn choose(view: &mut View, side: usize, setting: &str, value: &str) {
    view.get_all_by_role_and_label(Role::ComboBox, setting).nth(side).unwrap().click();
    view.run();
    view.query_all_by_label(value).last().unwrap().click();
    view.run();
}

#[test]
fn two_settings_that_are_the_same_give_the_same_figures() {
    let mut view = open();
    view.get_by_label("Panes").click();
    view.run();
    view.query_all_by_role_and_label(Role::Button, "What if").last().unwrap().click();
    view.run();
    assert!(has_text(&view, "A and B have the same settings"));
    assert_eq!(view.query_all_by_label("100.0 %").count(), 2, "all requests are where they were");
}

#[test]
fn a_larger_block_of_b_changes_its_peak() {
    let mut view = compare(scattered::town());
    assert!(has_text(&view, "Peak of the blocks"));
    choose(&mut view, 1, "largest block", "128 MiB");
    choose(&mut view, 1, "first block", "128 MiB");
    assert!(!has_text(&view, "A and B have the same settings"));
    assert_eq!(view.query_all_by_label("128 MiB").count(), 1, "the peak of B is one block");
    view.get_by_label("B as recorded").click();
    view.run();
    assert!(has_text(&view, "A and B have the same settings"));
}

#[test]
fn settings_that_contradict_each_other_say_so() {
    let mut view = compare(scattered::town());
    choose(&mut view, 0, "first block", "256 MiB");
    assert!(has_text(&view, "A: an allocator cannot be created with these settings"));
}

#[test]
fn a_click_on_the_curves_moves_the_cursor() {
    let mut view = compare(scattered::town());
    let before = view.state().position();
    let chart = canvas(&view, "Bytes of A and B over time");
    rest_at(&mut view, chart.center());
    assert!(has_text(&view, "in blocks, "), "the tooltip");
    click_at(&mut view, chart.center());
    assert!(view.state().position() < before);
}

#[test]
fn a_recording_without_requests_says_why_nothing_is_compared() {
    let view = compare(Recording::default());
    assert!(has_text(&view, "Nothing was allocated in this recording"));
}

#[test]
fn a_recording_of_an_unknown_device_says_what_its_requests_are_made_of() {
    let mut recording = scattered::town();
    recording.header.heaps.clear();
    recording.header.memory_types.clear();
    let view = compare(recording);
    assert!(has_text(&view, "does not say which heaps its device has"));
    assert!(has_text(&view, "Peak of the blocks"));
}
