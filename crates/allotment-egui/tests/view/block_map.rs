//! The map of the blocks.

use allotment_analyze::Scope;
use allotment_egui::Selection;
use egui::{Key, Modifiers, pos2, vec2};
use egui_kittest::kittest::Queryable as _;

use super::{behind_mark, canvas, click_at, drag, first, has_text, open, program, selects, wheel};

#[test]
fn a_click_on_an_allocation_selects_it_in_every_pane() {
    let mut view = open();
    view.get_by_label("terrain albedo, 16.0 MiB").click();
    view.run();
    assert!(selects(&view, "terrain albedo"));
    assert!(has_text(&view, "16,777,216 B"), "the details have its exact size");
    assert!(has_text(&view, "History of these bytes"));
}

#[test]
fn a_click_on_the_name_of_a_block_selects_the_block() {
    let mut view = open();
    first(&view, "Block #0,").click();
    view.run();
    assert!(matches!(view.state().selected(), Some(Selection::Block(_))));
}

#[test]
fn the_wheel_zooms_at_the_pointer_and_a_double_click_shows_all() {
    let mut view = open();
    let map = canvas(&view, "Block map");
    let row = first(&view, "Block #0,").rect();
    let width = map.width();
    let at = pos2(row.right() + width * 0.2, row.center().y);
    wheel(&mut view, at, 300.0);
    let (from, to) = view.state().visible_bytes();
    assert!(to - from < 0.5, "{from} to {to}");
    // What is under the pointer stays: a quarter of the strip, more or less, is still where it was.
    assert!(from > 0.05 && from < 0.35, "{from} to {to}");
    click_at(&mut view, at);
    click_at(&mut view, at);
    assert_eq!(view.state().visible_bytes(), (0.0, 1.0));
}

#[test]
fn a_drag_pans_what_is_zoomed() {
    let mut view = open();
    let row = first(&view, "Block #0,").rect();
    let at = pos2(row.right() + 300.0, row.center().y);
    wheel(&mut view, at, 400.0);
    let before = view.state().visible_bytes();
    drag(&mut view, at, at - vec2(100.0, 0.0), Modifiers::NONE);
    let after = view.state().visible_bytes();
    assert!(after.0 > before.0, "{before:?} {after:?}");
    assert!((after.1 - after.0 - (before.1 - before.0)).abs() < 1e-9, "the zoom stays");
}

#[test]
fn a_single_byte_can_be_clicked_when_all_is_visible() {
    let mut view = open();
    let loaded = behind_mark(&program::game(), "town is loaded");
    view.state_mut().set_position(loaded);
    view.run();
    let row = first(&view, "Block #2:3").rect();
    click_at(&mut view, pos2(row.right() + 0.4, row.center().y));
    assert!(selects(&view, "one byte"), "{:?}", view.state().selected());
}

#[test]
fn the_keyboard_zooms_pans_and_goes_back() {
    let mut view = open();
    view.key_press(Key::Plus);
    view.run();
    let (from, to) = view.state().visible_bytes();
    assert!((to - from - 0.7).abs() < 1e-9 && from > 0.0);
    view.key_press(Key::L);
    view.run();
    assert!(view.state().visible_bytes().0 > from);
    view.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    view.run();
    assert_eq!(view.state().visible_bytes(), (0.0, 1.0), "zooming and panning are one step");
    view.key_press_modifiers(Modifiers::COMMAND, Key::Y);
    view.run();
    assert!(view.state().visible_bytes().0 > from);
    view.key_press(Key::F);
    view.run();
    assert_eq!(view.state().visible_bytes(), (0.0, 1.0));
}

#[test]
fn a_drag_on_the_minimap_moves_the_visible_part() {
    let mut view = open();
    view.key_press(Key::Plus);
    view.run();
    let minimap = canvas(&view, "Minimap of all blocks");
    let middle = minimap.center();
    drag(&mut view, middle, pos2(minimap.right() - 1.0, middle.y), Modifiers::NONE);
    assert!(view.state().visible_bytes().1 > 0.999, "{:?}", view.state().visible_bytes());
}

#[test]
fn a_map_without_blocks_says_why() {
    let mut view = open();
    view.state_mut().set_position(0);
    view.run();
    assert!(has_text(&view, "No block exists at this moment"));
}

#[test]
fn one_heap_is_shown_alone() {
    let mut view = open();
    view.state_mut().set_scope(Scope::Heap(1));
    view.run();
    assert!(has_text(&view, "Block #1:2"));
    assert!(!has_text(&view, "Block #0,"));
}

#[test]
fn blocks_are_sorted_by_what_is_free_in_them_and_by_size() {
    let mut view = open();
    // The tops of rows whose label has a text.
    let tops = |view: &super::View, text: &str| {
        let rows = view.query_all_by_label_contains(text);
        let mut tops: Vec<_> = rows.map(|row| row.rect().top() as i32).collect();
        tops.sort_unstable();
        tops
    };
    view.get_by_label("largest").click();
    view.run();
    let by_size: Vec<_> =
        [", 64.0 MiB, ", ", 32.0 MiB, ", ", 16.0 MiB, "].iter().flat_map(|size| tops(&view, size)).collect();
    assert!(by_size.len() >= 4 && by_size.is_sorted(), "{by_size:?}");
    view.get_by_label("most free").click();
    view.run();
    let by_waste: Vec<_> = ["Block #4,", "Block #1,", "Block #1:2,", "Block #2:3,", "Block #0,"]
        .iter()
        .flat_map(|block| tops(&view, block))
        .collect();
    assert!(by_waste.len() == 5 && by_waste.is_sorted(), "{by_waste:?}");
    view.snapshot("blocks_by_waste");
}
