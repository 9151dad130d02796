//! The preview of a defragmentation.

use allotment_analyze::Scope;
use allotment_egui::{AnalyzerView, Selection};
use allotment_trace::recording::Recording;
use egui::{Key, Role};
use egui_kittest::kittest::Queryable as _;

use super::{View, canvas, click_at, first, has_text, open, rest_at, scattered, show};

/// A recording in a window, with the preview open.
fn preview_of(recording: Recording) -> View {
    let mut view = show(AnalyzerView::new("town", recording));
    view.key_press(Key::D);
    view.run();
    view
}

fn choose(view: &mut View, word: &str) {
    view.get_by_label(word).click();
    view.run();
}

/// The arrows, as a screen reader has them.
fn arrows(view: &View) -> usize {
    view.query_all_by_role(Role::Button).filter(|node| name_of(node).starts_with("Move ")).count()
}

fn name_of(node: &egui_kittest::Node<'_>) -> String {
    use egui_kittest::kittest::NodeT as _;
    // The text of a label is its value.
    node.accesskit_node().label().or_else(|| node.value()).unwrap_or_default()
}

#[test]
fn a_program_that_lets_nothing_be_moved_is_told_what_it_would_gain() {
    let mut view = open();
    view.get_by_label("Panes").click();
    view.run();
    view.query_all_by_role_and_label(Role::Button, "Defragmentation").last().unwrap().click();
    view.run();
    assert!(has_text(&view, "The program let the library move none of its"));
    choose(&mut view, "as if every allocation could be moved");
    choose(&mut view, "full");
    assert!(!has_text(&view, "The program let the library move none of its"));
}

#[test]
fn the_plan_has_its_figures_and_an_arrow_for_each_move() {
    let mut view = preview_of(scattered::town());
    choose(&mut view, "full");
    for figure in ["Moves", "Copied", "Blocks freed", "Bytes freed", "Largest free range"] {
        assert!(has_text(&view, figure), "{figure}");
    }
    assert!(has_text(&view, "blocks freed, "), "the verdict");
    assert!(arrows(&view) > 3);
}

#[test]
fn a_click_on_an_arrow_selects_its_allocation_in_all_panes() {
    let mut view = preview_of(scattered::town());
    choose(&mut view, "full");
    let arrow = first(&view, "Move mesh").rect();
    rest_at(&mut view, arrow.center());
    assert!(has_text(&view, "are copied"), "the tooltip");
    click_at(&mut view, arrow.center());
    assert!(matches!(view.state().selected(), Some(Selection::Allocation(_))));
    assert!(has_text(&view, "Requested"), "the details are of it");
}

#[test]
fn an_arrow_is_reached_and_chosen_by_the_keyboard() {
    let mut view = preview_of(scattered::town());
    first(&view, "Move mesh").focus();
    view.run();
    view.key_press(Key::Enter);
    view.run();
    assert!(matches!(view.state().selected(), Some(Selection::Allocation(_))));
}

#[test]
fn an_allocation_of_a_strip_is_selected_by_a_click() {
    let mut view = preview_of(scattered::town());
    let area = canvas(&view, "Blocks now and after");
    // The beginning of the first block, left of all heads of arrows.
    click_at(&mut view, area.left_top() + egui::vec2(125.0, 4.0));
    assert!(matches!(view.state().selected(), Some(Selection::Allocation(_))));
}

#[test]
fn a_strategy_within_a_number_of_bytes_copies_no_more() {
    let mut view = preview_of(scattered::scattered(160, 16 << 20, 64, 3));
    choose(&mut view, "full");
    assert!(copied(&view) > 16.0, "{} MiB", copied(&view));
    choose(&mut view, "within");
    assert!((1.0..=16.0).contains(&copied(&view)), "{} MiB", copied(&view));
}

/// The MiB that the verdict says are copied.
fn copied(view: &View) -> f64 {
    let verdict = name_of(&first(view, " MiB copied."));
    let number = verdict.split(" MiB copied.").next().and_then(|before| before.split(' ').next_back());
    number.unwrap().parse().unwrap()
}

#[test]
fn the_preview_follows_the_cursor_and_the_memory_that_is_shown() {
    let mut view = preview_of(scattered::town());
    assert!(arrows(&view) > 0);
    view.state_mut().set_scope(Scope::Heap(1));
    view.run();
    assert!(has_text(&view, "No block exists at this moment"));
    view.state_mut().set_scope(Scope::All);
    view.key_press(Key::Home);
    view.run();
    assert_eq!(arrows(&view), 0);
}

#[test]
fn of_thousands_of_moves_the_largest_are_drawn_and_a_line_says_so() {
    let mut view = preview_of(scattered::scattered(12_000, 16 << 20, 1024, 4));
    choose(&mut view, "full");
    // The plan of so many is made on a thread.
    for _ in 0..12_000 {
        if has_text(&view, "arrows are drawn") {
            break;
        }
        std::thread::sleep(core::time::Duration::from_millis(10));
        view.step();
    }
    assert!(has_text(&view, "arrows are drawn, with"));
    assert!(arrows(&view) < 400, "{}", arrows(&view));
}
