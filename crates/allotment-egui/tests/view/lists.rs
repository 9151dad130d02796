//! The other lists.

use allotment_analyze::tables::{Cell, DescriptorHeapRow};
use allotment_analyze::{Cursor, Grouping, Holes, Leaks, ReleaseLatency, Scope, Timeline};
use allotment_egui::AnalyzerView;
use egui::Key;
use egui_kittest::kittest::Queryable as _;

use super::{View, behind_mark, first, has_text, open, open_tab, program, show};

#[test]
fn leaks_have_the_headings_and_rows_of_the_analysis_and_sort_by_a_click() {
    let mut view = open();
    open_tab(&mut view, "Never freed");
    let recording = program::game();
    let timeline = Timeline::new(&recording);
    let leaks = Leaks::at(&Cursor::at(&timeline, view.state().position()), Grouping::CallSite);
    let table = leaks.table(&timeline, Grouping::CallSite);
    assert!(table.rows.iter().any(|row| row.cells.contains(&Cell::Warning("steady"))));
    for column in &table.columns {
        assert!(view.query_by_role_and_label(egui::Role::Button, column.heading).is_some(), "{column:?}");
    }
    let cells =
        table.summary.iter().cloned().chain(table.rows.iter().flat_map(|row| &row.cells).map(Cell::text));
    for cell in cells {
        assert!(has_text(&view, &cell), "{cell}");
    }
    // The order of the first column's texts, from top to bottom.
    let names: Vec<_> = table.rows.iter().map(|row| row.cells[0].text()).collect();
    let shown = |view: &View| {
        let top = |name: &String| view.get_by_label(name).rect().top();
        let mut order: Vec<_> = (0..names.len()).collect();
        order.sort_by(|&a, &b| top(&names[a]).total_cmp(&top(&names[b])));
        order
    };
    assert!(shown(&view).is_sorted());
    let count = table.columns.iter().position(|column| column.heading == "Count").unwrap();
    let ranks = table.ranks(count);
    for down in [true, false] {
        view.get_by_role_and_label(egui::Role::Button, "Count").click();
        view.run();
        let ranks: Vec<_> = shown(&view).into_iter().map(|row| ranks[row]).collect();
        assert!(
            if down { ranks.is_sorted_by(|a, b| a >= b) } else { ranks.is_sorted() },
            "{down}: {ranks:?}"
        );
    }
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
    assert!(has_text(&view, "Requests that fit"));
    view.key_press(Key::Home);
    view.run();
    assert!(has_text(&view, "No byte of the blocks is free at this moment."));
}

#[test]
fn the_wait_for_the_gpu_is_a_histogram_and_its_longest_can_be_clicked() {
    let mut view = open();
    open_tab(&mut view, "Release latency");
    assert!(has_text(&view, "Freed after waiting"));
    assert!(has_text(&view, "3 frames"));
    view.get_all_by_role(egui::Role::Link).last().unwrap().click();
    view.run();
    assert!(view.state().selected().is_some());
}

#[test]
fn free_ranges_latency_and_descriptor_heaps_have_the_headings_and_rows_of_the_analysis() {
    let mut view = open();
    let recording = program::game();
    let timeline = Timeline::new(&recording);
    let cursor = Cursor::at(&timeline, view.state().position());
    for (tab, table) in [
        ("Free ranges", Holes::of_scope(&cursor, Scope::All).table()),
        ("Release latency", ReleaseLatency::at(&timeline, cursor.position()).table()),
        ("Descriptor heaps", DescriptorHeapRow::table(&timeline, &DescriptorHeapRow::all(&cursor))),
    ] {
        open_tab(&mut view, tab);
        let headings = table.columns.iter().map(|column| column.heading.to_owned());
        // The rows that can be seen without scrolling.
        let rows = table.rows.iter().take(3).flat_map(|row| row.cells.iter().map(Cell::text));
        for text in headings.chain(rows) {
            assert!(has_text(&view, &text), "{tab}: {text}");
        }
    }
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
