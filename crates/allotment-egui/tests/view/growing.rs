//! A recording that grows while it is shown, as that of a running program does.

use allotment_analyze::{AllocationIndex, TimeAxis, Timeline};
use allotment_egui::{AnalyzerView, IndexedRecording, Selection};
use allotment_trace::recording::{Event, Recording, State, TextId};
use egui::Vec2;

use super::{View, canvas, first, has_text, named, program, show, wheel};

/// The first events of the game.
fn beginning(of: &Recording, events: usize) -> Recording {
    Recording { events: of.events[..events].to_vec(), ..of.clone() }
}

/// The game without its first events: what still existed comes first. Returns how many events do that.
fn without(of: &Recording, events: usize) -> (Recording, u64) {
    let mut state = State::default();
    of.events[..events].iter().for_each(|event| state.apply(event).unwrap());
    let mut kept = state.to_events();
    kept.push(Event::Mark { text: TextId::NONE });
    let replaced_by = kept.len() as u64;
    kept.extend_from_slice(&of.events[events..]);
    (Recording { events: kept, ..of.clone() }, replaced_by)
}

fn visible_events(view: &View) -> (f64, f64) {
    let (from, to) = view.state().visible_time();
    let end = view.state().recording().events.len() as f64;
    (from * end, to * end)
}

#[test]
fn what_is_visible_stays_where_it_is_while_the_recording_grows() {
    let whole = program::game();
    let mut view = show(AnalyzerView::new("town", beginning(&whole, 400)));
    let middle = canvas(&view, "Memory over time").center();
    view.state_mut().set_position(100);
    wheel(&mut view, middle, 300.0);
    let before = visible_events(&view);
    assert!(before.1 - before.0 < 300.0, "{before:?}");
    view.state_mut().replace(beginning(&whole, 600));
    view.run();
    let after = visible_events(&view);
    assert!((after.0 - before.0).abs() < 0.01 && (after.1 - before.1).abs() < 0.01, "{before:?} {after:?}");
    assert_eq!(view.state().axis(), TimeAxis::Events);
}

#[test]
fn a_view_of_the_last_events_follows_them() {
    let whole = program::game();
    let mut view = show(AnalyzerView::new("town", beginning(&whole, 400)));
    let end = canvas(&view, "Memory over time").right_center() - Vec2::new(6.0, 0.0);
    wheel(&mut view, end, 300.0);
    let before = visible_events(&view);
    view.state_mut().replace(beginning(&whole, 600));
    view.run();
    let after = visible_events(&view);
    assert!((after.1 - 600.0).abs() < 0.01 && before.0 > 100.0, "{before:?} {after:?}");
    assert!((after.1 - after.0 - (before.1 - before.0)).abs() < 0.01, "{before:?} {after:?}");
}

#[test]
fn what_is_selected_is_found_again_once_old_events_are_forgotten() {
    let whole = program::game();
    // One that is older than what is forgotten, and one that is made after it.
    for (name, forgotten) in [("terrain albedo", 300), ("district 27", 300)] {
        let mut view = show(AnalyzerView::new("town", whole.clone()));
        view.state_mut().select(Some(Selection::Allocation(named(&whole, name))));
        let position = view.state().position() - 5;
        view.state_mut().set_position(position);
        view.run();
        let (shorter, replaced_by) = without(&whole, forgotten);
        let indexed = IndexedRecording::new(shorter.clone());
        drop(view.state_mut().replace_indexed(indexed.after_forgetting(forgotten as u64, replaced_by)));
        view.run();
        assert_eq!(view.state().selected_name(), Some(name));
        assert_eq!(view.state().selected(), Some(Selection::Allocation(named(&shorter, name))));
        assert_eq!(view.state().position(), shorter.events.len() as u64 - 5);
        assert!(has_text(&view, name));
        first(&view, name);
    }
}

#[test]
fn what_is_selected_and_forgotten_is_selected_no_more() {
    let whole = program::game();
    let timeline = Timeline::new(&whole);
    let gone = |allocation: &AllocationIndex| timeline.lifetime(*allocation).freed.is_some_and(|at| at < 300);
    let freed = timeline.allocations().find(gone).unwrap();
    let mut view = show(AnalyzerView::new("town", whole.clone()));
    view.state_mut().select(Some(Selection::Allocation(freed)));
    view.state_mut().set_position(100);
    let (shorter, replaced_by) = without(&whole, 300);
    let indexed = IndexedRecording::new(shorter);
    drop(view.state_mut().replace_indexed(indexed.after_forgetting(300, replaced_by)));
    view.run();
    assert_eq!(view.state().selected(), None);
    assert_eq!(view.state().position(), replaced_by, "the first moment that is known");
}
