//! The other lists.

use allotment_egui::AnalyzerView;
use egui::Key;
use egui_kittest::kittest::Queryable as _;

use super::{behind_mark, first, has_text, open, open_tab, program, show};

#[test]
fn what_was_never_freed_is_grouped_by_what_made_it_and_a_steady_group_says_so() {
    let mut view = open();
    open_tab(&mut view, "Never freed");
    assert!(has_text(&view, "town/src/particles.rs:57"));
    assert!(has_text(&view, "a frame, still coming"));
    first(&view, "town/src/particles.rs:57").click();
    view.run();
    assert!(view.state().selected().is_some());
}

#[test]
fn a_rule_of_lifetimes_looks_at_the_moments_that_are_set() {
    let mut view = open();
    let loaded = behind_mark(&program::game(), "town is loaded");
    view.state_mut().set_position(loaded);
    view.run();
    view.key_press(Key::A);
    view.run();
    open_tab(&mut view, "Lifetimes");
    assert_eq!(view.state().marks()[0], Some(loaded));
    assert!(has_text(&view, "Which allocations were made between A and B, and exist at B?"));
    assert!(has_text(&view, "Found"));
}

#[test]
fn two_moments_are_compared() {
    let mut view = open();
    open_tab(&mut view, "Compare A and B");
    view.query_all_by_label("Set B here").next().unwrap().click();
    view.key_press(Key::Home);
    view.run();
    assert!(has_text(&view, "Only in B"));
    assert!(has_text(&view, "town/src/textures.rs:88"));
    view.query_all_by_label("Set B here").next().unwrap().click();
    view.run();
    assert!(has_text(&view, "A and B are the same moment"));
}

#[test]
fn free_ranges_say_what_still_fits() {
    let mut view = open();
    open_tab(&mut view, "Free ranges");
    assert!(has_text(&view, "Largest range"));
    assert!(has_text(&view, "So many of it fit"));
    view.key_press(Key::Home);
    view.run();
    assert!(has_text(&view, "No byte of the blocks is free at this moment."));
}

#[test]
fn the_wait_for_the_gpu_is_a_histogram_and_its_longest_can_be_clicked() {
    let mut view = open();
    open_tab(&mut view, "Release latency");
    assert!(has_text(&view, "Waited and freed"));
    assert!(has_text(&view, "3 frames"));
    view.get_all_by_role(egui::Role::Link).last().unwrap().click();
    view.run();
    assert!(view.state().selected().is_some());
}

#[test]
fn descriptor_heaps_are_listed_with_their_longest_free_run() {
    let mut view = open();
    open_tab(&mut view, "Descriptor heaps");
    assert!(has_text(&view, "materials"));
    assert!(has_text(&view, "shader-visible resources"));
    view.key_press(Key::Home);
    view.run();
    assert!(has_text(&view, "No descriptor heap exists at this moment."));
}

#[test]
fn a_recording_without_shared_bytes_says_so() {
    let mut view = open();
    open_tab(&mut view, "Aliasing");
    assert!(has_text(&view, "No two allocations share bytes at this moment."));
}

#[test]
fn allocations_that_share_bytes_have_lanes_and_a_click_selects_one() {
    let mut view = show(AnalyzerView::new("frame graph", program::aliased()));
    open_tab(&mut view, "Aliasing");
    assert!(has_text(&view, "4.00 MiB shared by several, 4.00 MiB saved"));
    let [shadows, bloom] = ["shadows in its lane", "bloom in its lane"].map(|name| first(&view, name).rect());
    assert!(shadows.bottom() <= bloom.top() || bloom.bottom() <= shadows.top(), "{shadows:?} {bloom:?}");
    first(&view, "bloom in its lane").click();
    view.run();
    assert_eq!(view.state().selected_name(), Some("bloom"));
}

#[test]
fn advice_is_given_with_its_bytes() {
    let mut view = open();
    open_tab(&mut view, "Advice");
    assert!(has_text(&view, "leak"));
}
