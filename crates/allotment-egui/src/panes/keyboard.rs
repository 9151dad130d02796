//! The keys, and the window that explains them: those of the HTML report, and those for the way back.

use egui::{Key, Modifiers, Ui};

use super::Panes;
use crate::layout::PaneKind;
use crate::state::{Change, Span, State};
use crate::top_bar;

/// The first of the keys are about time.
const KEYS_OF_TIME: usize = 6;

const KEYS: [(&str, &str); 19] = [
    ("← →", "one event back or forward"),
    ("Shift ← →", "one frame back or forward"),
    ("Home End", "beginning and end"),
    ("P", "the moment with the most bytes in use"),
    ("[ ]", "previous and next stall, refusal or mark"),
    ("A B", "set a moment to compare"),
    ("+ −", "zoom the block map at its middle"),
    ("H L", "pan the block map to the left and the right"),
    ("W S", "scroll through the blocks"),
    ("F", "show all"),
    ("G  Shift G", "colours by the next or the previous property"),
    ("N", "show the next group of the legend alone, and after the last one all"),
    ("1 … 9 0", "open a pane, in the order of the menu"),
    (
        "D I O",
        "open the preview of a defragmentation, what other settings would do, what a plan offline takes",
    ),
    ("↑ ↓ , . Enter Backspace", "in the picture of calls: caller, called, neighbours, zoom in, zoom out"),
    ("/", "search"),
    ("Esc", "deselect, leave the search"),
    ("Ctrl Z  Ctrl Y", "back and forward"),
    ("Alt ← →", "back and forward"),
];

/// The first of the gestures are about time as well.
const GESTURES_OF_TIME: usize = 3;

const GESTURES: [(&str, &str); 7] = [
    ("Drag in the timeline", "moves the cursor"),
    ("Shift drag", "sets A and B around a range of time"),
    ("Right drag", "pans the timeline"),
    ("Drag", "pans the block map"),
    ("Wheel", "zooms at the pointer; over the names of blocks it scrolls, with Shift it makes rows taller"),
    ("Double click", "shows all"),
    ("Click", "an allocation, a free range, or the name of a block"),
];

/// Does what pressed keys say. Returns a pane that is to be opened.
pub(crate) fn keys(ui: &Ui, state: &mut State, panes: &mut Panes) -> Option<PaneKind> {
    help(ui, panes, state.has_history());
    let mut open = None;
    // A text field alone takes keys. Every other widget that was clicked or reached with Tab may have the focus meanwhile.
    let is_edited = ui.ctx().text_edit_focused();
    let was_edited = core::mem::replace(&mut panes.field_is_edited, is_edited);
    if is_edited {
        return None;
    }
    let pressed = |modifiers: Modifiers, key| {
        let is_pressed = ui.input_mut(|input| input.consume_key(modifiers, key));
        if is_pressed && matches!(key, Key::ArrowLeft | Key::ArrowRight) {
            // An arrow that moves the cursor does not move the focus as well.
            ui.memory_mut(|memory| memory.move_focus(egui::FocusDirection::None));
        }
        is_pressed
    };
    if pressed(Modifiers::COMMAND, Key::Z) || pressed(Modifiers::ALT, Key::ArrowLeft) {
        state.go_back();
    }
    if pressed(Modifiers::COMMAND, Key::Y) || pressed(Modifiers::ALT, Key::ArrowRight) {
        state.go_forward();
    }
    if pressed(Modifiers::SHIFT, Key::ArrowLeft) {
        step_frame(state, false);
    }
    if pressed(Modifiers::SHIFT, Key::ArrowRight) {
        step_frame(state, true);
    }
    if ui.input(|input| !input.modifiers.is_none() && !input.modifiers.shift_only()) {
        return None;
    }
    let plain = |key| pressed(Modifiers::NONE, key);
    if plain(Key::ArrowLeft) {
        state.move_cursor(state.position().saturating_sub(1));
    }
    if plain(Key::ArrowRight) {
        state.move_cursor(state.position() + 1);
    }
    if plain(Key::Home) {
        state.jump(0);
    }
    if plain(Key::End) {
        state.jump(u64::MAX);
    }
    if plain(Key::P)
        && let Some(peak) = panes.timeline.peak()
    {
        state.jump(peak);
    }
    if plain(Key::OpenBracket) {
        step_happening(state, false);
    }
    if plain(Key::CloseBracket) {
        step_happening(state, true);
    }
    for (key, factor) in [(Key::Plus, 0.7), (Key::Equals, 0.7), (Key::Minus, 1.0 / 0.7)] {
        if plain(key) {
            state.leave(Change::Zoom);
            let least = panes.block_map.least_view();
            state.bytes.zoom(0.5, factor, least);
        }
    }
    for (key, by) in [(Key::H, -0.2), (Key::L, 0.2)] {
        if plain(key) {
            state.leave(Change::Zoom);
            state.bytes.pan(by);
        }
    }
    for (key, by) in [(Key::W, -60.0), (Key::S, 60.0)] {
        if plain(key) {
            panes.block_map.top += by;
        }
    }
    if plain(Key::F) {
        panes.block_map.fit(state);
        state.time = Span::default();
    }
    for (key, mark) in [(Key::A, 0), (Key::B, 1)] {
        if plain(key) {
            state.set_mark(mark, state.position());
        }
    }
    // What is open in front, and a field that is edited, has the first Escape for itself.
    if !egui::Popup::is_any_open(ui.ctx()) && plain(Key::Escape) && !was_edited {
        panes.help_is_open = false;
        state.select(None);
    }
    if pressed(Modifiers::SHIFT, Key::G) {
        state.colours.step_by(false, state.has_history());
    }
    if plain(Key::G) {
        state.colours.step_by(true, state.has_history());
    }
    if plain(Key::N) {
        state.colours.pick_next();
    }
    if plain(Key::T) {
        top_bar::next_theme(ui.ctx());
    }
    if plain(Key::C) {
        top_bar::next_palette(state);
    }
    if plain(Key::Slash) {
        state.focus_search = true;
        open = Some(PaneKind::Table);
    }
    for (key, pane) in
        [(Key::D, PaneKind::Defragmentation), (Key::I, PaneKind::WhatIf), (Key::O, PaneKind::Planned)]
    {
        if plain(key) {
            open = Some(pane);
        }
    }
    if pressed(Modifiers::SHIFT, Key::Questionmark) || plain(Key::Questionmark) {
        panes.help_is_open = !panes.help_is_open;
    }
    let numbers = [
        Key::Num1,
        Key::Num2,
        Key::Num3,
        Key::Num4,
        Key::Num5,
        Key::Num6,
        Key::Num7,
        Key::Num8,
        Key::Num9,
        Key::Num0,
    ];
    for (key, pane) in numbers.into_iter().zip(PaneKind::ALL) {
        if plain(key) {
            open = Some(pane);
        }
    }
    open
}

/// Moves to the end of the frame before or after the cursor.
fn step_frame(state: &mut State, forward: bool) {
    let timeline = state.loaded.timeline();
    let (position, frame) = (state.position(), state.loaded.cursor().moment().frame);
    let to = if forward {
        let end = timeline.position_of_frame(frame);
        if end > position { end } else { timeline.position_of_frame(frame + 1) }
    } else {
        frame.checked_sub(1).map_or(0, |before| timeline.position_of_frame(before))
    };
    state.move_cursor(to);
}

/// Moves to the stall, refusal or mark before or after the cursor.
fn step_happening(state: &mut State, forward: bool) {
    let timeline = state.loaded.timeline();
    let position = state.position();
    // The cursor is behind the event that it was sent to.
    let all = timeline.stalls().chain(timeline.refusals()).chain(timeline.marks()).map(|event| event + 1);
    let next =
        if forward { all.filter(|&at| at > position).min() } else { all.filter(|&at| at < position).max() };
    if let Some(position) = next {
        state.jump(position);
    }
}

fn help(ui: &Ui, panes: &mut Panes, has_history: bool) {
    let list = |ui: &mut Ui, salt: &str, rows: &[(&str, &str)]| {
        egui::Grid::new(salt).num_columns(2).spacing([18.0, 4.0]).show(ui, |ui| {
            for (key, what) in rows {
                ui.label(egui::RichText::new(*key).monospace());
                ui.label(*what);
                ui.end_row();
            }
        });
    };
    let window = egui::Window::new("Keys and gestures").collapsible(false).resizable(false);
    window.open(&mut panes.help_is_open).anchor(egui::Align2::CENTER_CENTER, [0.0, 0.0]).show(
        ui.ctx(),
        |ui| {
            let [keys, gestures] = if has_history { [0, 0] } else { [KEYS_OF_TIME, GESTURES_OF_TIME] };
            list(ui, "keys", &KEYS[keys..]);
            ui.separator();
            list(ui, "gestures", &GESTURES[gestures..]);
        },
    );
}
