//! The table of allocations.

use allotment_egui::AnalyzerView;
use egui::Key;
use egui_kittest::kittest::Queryable as _;

use super::scattered::scattered;
use super::{View, first, has_text, open, selects, show};

fn search(view: &mut View, text: &str) {
    view.get_by_role_and_label(egui::Role::SearchInput, "Search allocations").focus();
    view.run();
    view.get_by_role_and_label(egui::Role::SearchInput, "Search allocations").type_text(text);
    view.run();
}

#[test]
fn a_search_that_is_typed_leaves_what_it_means() {
    let mut view = open();
    let all = view.state().table_rows();
    search(&mut view, "facade");
    assert_eq!(view.state().table_rows(), 24);
    search(&mut view, " >1m");
    let large = view.state().table_rows();
    assert!(large > 0 && large < 24, "{large}");
    view.get_by_label("Clear").click();
    view.run();
    assert_eq!(view.state().table_rows(), all);
}

#[test]
fn the_slash_key_goes_to_the_search() {
    let mut view = open();
    view.key_press(Key::Slash);
    view.run();
    assert!(view.get_by_role_and_label(egui::Role::SearchInput, "Search allocations").is_focused());
}

#[test]
fn a_click_on_a_row_selects_its_allocation() {
    let mut view = open();
    search(&mut view, "facade 17");
    view.get_by_label("facade 17").click();
    view.run();
    assert!(selects(&view, "facade 17"));
}

#[test]
fn a_click_on_a_heading_sorts() {
    let mut view = open();
    search(&mut view, "house");
    let top = |view: &View, name: &str| view.query_by_label(name).map_or(f32::MAX, |row| row.rect().top());
    view.get_by_role_and_label(egui::Role::Button, "Name").click();
    view.run();
    assert!(top(&view, "house 0") < top(&view, "house 1"));
    view.get_by_role_and_label(egui::Role::Button, "Name").click();
    view.run();
    assert!(top(&view, "house 9") < top(&view, "house 8"));
}

#[test]
fn the_columns_use_the_width_of_the_pane_and_follow_it() {
    let mut view = open();
    super::open_tab(&mut view, "Never freed");
    let count = |view: &View| view.get_by_role_and_label(egui::Role::Button, "Count").rect().right();
    let before = count(&view);
    view.set_size(egui::vec2(1800.0, 900.0));
    view.run();
    assert!((count(&view) - before - 440.0).abs() < 2.0, "{before}, then {}", count(&view));
}

#[test]
fn rows_are_grouped_and_the_whole_recording_has_more() {
    let mut view = open();
    let now = view.state().table_rows();
    view.get_by_label("whole recording").click();
    view.run();
    assert!(view.state().table_rows() > now);
    view.query_all_by_label("category").next().unwrap().click();
    view.run();
    assert_eq!(view.state().table_rows(), 4, "textures, meshes, uploads, particles");
    assert!(has_text(&view, "uploads"));
    first(&view, "particles").click();
    view.run();
}

#[test]
fn an_empty_table_says_why() {
    let mut view = open();
    search(&mut view, "no such name");
    assert!(has_text(&view, "Nothing matches the search."));
}

/// Draws frames until the table has so many rows. Until then it has as many as before, for a thread looks for others.
fn until_rows(view: &mut View, before: usize, rows: usize) {
    for _ in 0..20_000 {
        view.step();
        match view.state().table_rows() {
            now if now == rows => return,
            now => assert_eq!(now, before, "the rows so far stay"),
        }
        std::thread::sleep(core::time::Duration::from_millis(1));
    }
    panic!("no thread finds the rows");
}

#[test]
fn the_rows_of_many_allocations_stay_until_a_thread_has_found_others() {
    const ALL: usize = 40_000;
    let mut view = show(AnalyzerView::new("many", scattered(ALL as u64, 64 << 20, 4096, 1)));
    let begun = view.state().table_rows();
    until_rows(&mut view, begun, ALL);
    let field = view.get_by_role_and_label(egui::Role::SearchInput, "Search allocations");
    field.focus();
    view.step();
    view.get_by_role_and_label(egui::Role::SearchInput, "Search allocations").type_text("39999");
    until_rows(&mut view, ALL, 1);
    assert!(has_text(&view, "mesh 39999"));
}
