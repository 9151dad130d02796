//! The flame graph of calls, and the stack of an allocation.

use allotment_analyze::{CallQuestion, CallTree, CallTreeDesc, Timeline};
use allotment_egui::{AnalyzerView, Layout, PaneKind, Selection};
use allotment_trace::recording::{Event, Recording, StackFrame, StackId, TextId};
use egui::{Key, vec2};

use super::{canvas, click_at, first, has_text, named, open_tab, program, rest_at, show};

/// The game, with stacks of two levels above the place of each allocation.
pub(crate) fn game() -> Recording {
    let mut recording = program::game();
    let mut text = |text: &str| {
        recording.texts.push(text.to_owned());
        TextId(recording.texts.len() as u32)
    };
    let calls = [
        ("main", "src/main.rs:3"),
        ("town::load", "town/src/load.rs:30"),
        ("town::frame", "town/src/frame.rs:7"),
        ("town::Sky::new", "town/src/sky.rs:12"),
        ("core::ops::function::FnOnce::call_once", ""),
        ("allotment::Gpu::create_buffer", ""),
    ]
    .map(|(function, place)| (text(function), text(place)));
    let mut stacks = vec![StackId::NONE];
    for (parent, call) in [(0, 0), (1, 1), (1, 2), (2, 3), (4, 4), (5, 5), (3, 5)] {
        let (function, place) = calls[call];
        stacks.push(recording.stacks.push(StackFrame { parent: stacks[parent], function, place }).unwrap());
    }
    for (number, event) in core::mem::take(&mut recording.events).into_iter().enumerate() {
        recording.events.push(event);
        if let Event::Allocated(is) = event {
            let stack = stacks[[6, 7, 2][number % 3]];
            recording.events.push(Event::Stack { allocation: is.allocation, stack });
        }
    }
    recording
}

#[test]
fn a_flame_graph_shows_what_each_call_allocated() {
    let recording = game();
    let timeline = Timeline::new(&recording);
    let tree = CallTree::of(&timeline, CallQuestion::At(timeline.end()), &CallTreeDesc::default());
    let mut view = show(AnalyzerView::new("town", recording.clone()));
    open_tab(&mut view, "Calls");
    view.key_press(Key::End);
    view.run();
    let total = tree.root().total;
    let words = |bytes| allotment_analyze::units::bytes(bytes);
    assert!(has_text(&view, &words(total.bytes)), "{}", words(total.bytes));
    // The row of the game's own calls: the widest is at the left.
    let picture = canvas(&view, "Bytes by calls");
    let main = tree.root().children[0];
    let widest = &tree.nodes()[tree.nodes()[main].children[0]];
    let at = picture.left_top() + vec2(5.0, 2.0 * 19.0 + 9.0);
    rest_at(&mut view, at);
    let label = widest.call.label(|text| recording.text(text).unwrap_or(""));
    assert!(has_text(&view, &label) && has_text(&view, "B ("), "{label}");
    click_at(&mut view, at);
    // It has the whole width now: the right end of its row is the same call.
    let end = canvas(&view, "Bytes by calls").right_top() + vec2(-5.0, 2.0 * 19.0 + 9.0);
    rest_at(&mut view, end);
    assert!(has_text(&view, &label));
    for key in
        [Key::Backspace, Key::ArrowDown, Key::ArrowDown, Key::Period, Key::Comma, Key::ArrowUp, Key::Enter]
    {
        view.key_press(key);
        view.run();
    }
    first(&view, "innermost first").click();
    view.run();
    first(&view, "all calls").click();
    view.run();
    first(&view, "made from A to B").click();
    view.run();
    first(&view, "never freed").click();
    view.run();
    assert!(canvas(&view, "Bytes by calls").width() > 100.0);
}

#[test]
fn the_details_have_the_whole_stack_with_machinery_folded() {
    let recording = game();
    let mut view = show(AnalyzerView::new("town", recording.clone()));
    let allocation = named(&recording, "terrain albedo");
    view.state_mut().select(Some(Selection::Allocation(allocation)));
    view.state_mut().set_layout(Layout::side_by_side(&[PaneKind::BlockMap, PaneKind::Details]));
    view.run();
    assert!(has_text(&view, "Call stack, the innermost call first"));
    assert!(has_text(&view, "main src/main.rs:3"));
    let folded = has_text(&view, "of allocators, runtimes and dispatchers");
    first(&view, "Show all calls").click();
    view.run();
    assert!(has_text(&view, "Fold machinery") && !has_text(&view, "of allocators, runtimes and dispatchers"));
    assert_eq!(has_text(&view, "allotment::Gpu::create_buffer"), folded);
}
