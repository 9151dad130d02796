//! A dump of one moment: nothing is shown that it does not say.

use allotment_analyze::{AllocationIndex, BlockIndex};
use allotment_egui::{AnalyzerView, Layout, PaneKind, Selection};
use allotment_trace::import;
use egui::{Key, Modifiers};
use egui_kittest::kittest::Queryable as _;

use super::{View, has_text, show};

fn open_dump() -> View {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../allotment-trace/tests/data/d3d12ma.json");
    show(AnalyzerView::new("dump", import::open(path).unwrap()))
}

/// Words that only a history gives a meaning to.
fn assert_nothing_about_time(view: &View, where_it_is: &str) {
    for words in ["event", "frame 0", "Lifetime", "History of", "over time", "never in this", "Allocated"] {
        assert!(!has_text(view, words), "{words} in {where_it_is}");
    }
}

#[test]
fn of_a_dump_of_one_moment_nothing_about_time_is_shown() {
    let mut view = open_dump();
    assert!(has_text(&view, "a dump of one moment"));
    assert!(has_text(&view, "The moment of the dump"));
    assert!(view.query_by_role_and_label(egui::Role::Canvas, "Memory over time").is_none());
    for pane in PaneKind::ALL {
        let heading = pane.title();
        let tab = view.query_by_role_and_label(egui::Role::Button, heading).is_some();
        assert_eq!(tab, !pane.needs_history(), "{heading}");
        view.state_mut().open_pane(pane);
        view.run();
        assert_nothing_about_time(&view, heading);
    }
    for selection in [Selection::Allocation(AllocationIndex(0)), Selection::Block(BlockIndex(0))] {
        view.state_mut().select(Some(selection));
        view.run();
        assert!(has_text(&view, "Size") || has_text(&view, "Requested"));
        assert_nothing_about_time(&view, "the details");
    }
}

#[test]
fn no_key_leaves_the_moment_of_a_dump() {
    let mut view = open_dump();
    let at = view.state().position();
    for key in [Key::ArrowLeft, Key::Home, Key::P, Key::OpenBracket, Key::A, Key::B, Key::Num2, Key::Num5] {
        view.key_press(key);
        view.run();
        assert_eq!(view.state().position(), at, "{key:?}");
    }
    view.key_press_modifiers(Modifiers::SHIFT, Key::ArrowLeft);
    view.run();
    assert_eq!((view.state().position(), view.state().marks()), (at, [None; 4]));
    assert!(!has_text(&view, "unreleased"));
}

#[test]
fn a_layout_that_was_saved_with_a_dump_has_the_panes_about_time_for_the_next_recording() {
    let saved = serde_json::to_string(&open_dump().state().layout()).unwrap();
    let layout: Layout = serde_json::from_str(&saved).unwrap();
    let mut next = AnalyzerView::new("town", super::program::game());
    next.set_layout(layout);
    let next = show(next);
    assert!(next.query_by_role_and_label(egui::Role::Canvas, "Memory over time").is_some());
    assert!(next.query_by_role_and_label(egui::Role::Button, "Never freed").is_some());
}
