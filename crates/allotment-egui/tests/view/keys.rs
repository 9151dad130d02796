//! Every key after a click in every pane: what has the focus then keeps no key for itself.

use allotment_analyze::{ColourBy, Peaks, Scope, Timeline};
use allotment_egui::{AnalyzerView, Layout, PaneKind, Selection};
use egui::{Key, Modifiers, Role, Vec2, pos2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;

use super::{STEP, View, behind_mark, canvas, click_at, first, open, program};

/// A window so low that the rows of the block map do not fit.
fn low() -> View {
    let builder =
        Harness::builder().with_size(Vec2::new(1500.0, 560.0)).with_max_steps(120).with_step_dt(STEP);
    let view = AnalyzerView::new("town", program::game());
    let mut view = builder.build_ui_state(|ui, view: &mut AnalyzerView| view.ui(ui), view);
    view.run();
    view
}

/// Opens a pane in front of the others, and clicks something in it.
struct Target {
    name: &'static str,
    click: fn(&mut View),
}

fn in_pane(view: &mut View, pane: PaneKind) {
    view.state_mut().open_pane(pane);
    view.step();
}

fn click_text(view: &mut View, text: &str) {
    first(view, text).click();
    view.run();
}

/// Clicks the last of all: the panes at the bottom are drawn last.
fn click_last(view: &mut View, text: &str) {
    view.query_all_by_label(text).last().unwrap_or_else(|| panic!("{text} is not shown")).click();
    view.run();
}

const TARGETS: &[Target] = &[
    Target { name: "an allocation in the map", click: |view| click_map(view, 0.2) },
    Target { name: "a free range of the map", click: |view| click_map(view, 0.98) },
    Target {
        name: "the timeline",
        click: |view| {
            let at = canvas(view, "Memory over time").center();
            click_at(view, at);
        },
    },
    Target { name: "a button of the timeline", click: |view| click_text(view, "Peak") },
    Target {
        name: "a link of the details",
        click: |view| {
            click_map(view, 0.2);
            view.get_all_by_role(Role::Link).next().expect("the details have links").click();
            view.run();
        },
    },
    Target {
        name: "a call of the flame graph",
        click: |view| {
            in_pane(view, PaneKind::Calls);
            let at = canvas(view, "Bytes by calls").left_top() + Vec2::new(20.0, 28.0);
            click_at(view, at);
        },
    },
    Target {
        name: "a row of the table",
        click: |view| {
            in_pane(view, PaneKind::Table);
            click_last(view, "sky cube map");
        },
    },
    Target {
        name: "a heading of the table",
        click: |view| {
            in_pane(view, PaneKind::Table);
            view.get_by_role_and_label(Role::Button, "Name").click();
            view.run();
        },
    },
    Target {
        name: "the search, left with Escape",
        click: |view| {
            in_pane(view, PaneKind::Table);
            view.get_by_role_and_label(Role::SearchInput, "Search allocations").click();
            view.run();
            view.key_press(Key::Escape);
            view.run();
        },
    },
    Target {
        name: "the check box of what was never freed",
        click: |view| {
            in_pane(view, PaneKind::Leaks);
            click_text(view, "only what was allocated since A");
        },
    },
    Target {
        name: "the list of rules, left with Escape",
        click: |view| {
            in_pane(view, PaneKind::Lifetimes);
            view.get_by_role_and_label(Role::ComboBox, "Rule").click();
            view.run();
            view.key_press(Key::Escape);
            view.run();
        },
    },
    Target {
        name: "a button of the comparison",
        click: |view| {
            in_pane(view, PaneKind::Difference);
            click_last(view, "Set B here");
        },
    },
    Target {
        name: "the chart of the free ranges",
        click: |view| {
            in_pane(view, PaneKind::FreeRanges);
            click_text(view, "Fragmentation over time");
        },
    },
    Target {
        name: "a link of the release latency",
        click: |view| {
            in_pane(view, PaneKind::ReleaseLatency);
            view.get_all_by_role(Role::Link).last().expect("the longest wait is a link").click();
            view.run();
        },
    },
    Target { name: "the tab of aliasing", click: |view| click_tab(view, "Aliasing") },
    Target {
        name: "a heading of the descriptor heaps",
        click: |view| {
            in_pane(view, PaneKind::Descriptors);
            click_last(view, "Slots");
        },
    },
    Target { name: "the tab of the advice", click: |view| click_tab(view, "Advice") },
    Target {
        name: "the check box of the defragmentation",
        click: |view| {
            in_pane(view, PaneKind::Defragmentation);
            click_text(view, "as if every allocation could be moved");
        },
    },
    Target {
        name: "a setting of what if, left with Escape",
        click: |view| {
            in_pane(view, PaneKind::WhatIf);
            view.get_all_by_role_and_label(Role::ComboBox, "largest block").last().unwrap().click();
            view.run();
            view.key_press(Key::Escape);
            view.run();
        },
    },
    Target { name: "the tab of the offline plan", click: |view| click_tab(view, "Planned offline") },
    Target { name: "a button of the bar", click: |view| click_text(view, "Colours:") },
];

fn click_tab(view: &mut View, title: &str) {
    view.query_all_by_role_and_label(Role::Button, title).last().unwrap().click();
    view.run();
}

fn click_map(view: &mut View, share: f32) {
    let map = canvas(view, "Block map");
    click_at(view, pos2(map.left() + 118.0 + (map.width() - 118.0 - 204.0) * share, map.top() + 38.0));
}

/// A key, and whether the window shows what it does. The cursor is in the middle of the recording before.
type Effect = (Modifiers, Key, fn(&View, &Before) -> bool);

/// What a key changes, as it was before the key.
struct Before {
    position: u64,
    selected: Option<Selection>,
    middle: f64,
    width: f64,
    marks: [Option<u64>; 4],
    row: f32,
    colours: allotment_egui::PaletteKind,
    theme: egui::Theme,
}

fn before(view: &View) -> Before {
    let (from, to) = view.state().visible_bytes();
    Before {
        position: view.state().position(),
        selected: view.state().selected(),
        middle: f64::midpoint(from, to),
        width: to - from,
        marks: view.state().marks(),
        row: top_of_rows(view),
        colours: view.state().palette(),
        theme: view.ctx.theme(),
    }
}

fn top_of_rows(view: &View) -> f32 {
    let mut rows = view.query_all_by_label_contains("Block #1,");
    rows.next().map_or(f32::MAX, |row| row.rect().top())
}

/// The marks of the game, its stalls and its refusal.
fn happenings() -> Vec<u64> {
    let game = program::game();
    let timeline = Timeline::new(&game);
    let all = timeline.stalls().chain(timeline.refusals()).chain(timeline.marks());
    let mut all: Vec<_> = all.map(|event| event + 1).collect();
    all.sort_unstable();
    all
}

fn peak() -> u64 {
    let game = program::game();
    Peaks::of(&Timeline::new(&game), Scope::All).used.moment.event
}

fn is_shown(view: &View, text: &str) -> bool {
    view.query_all_by_label_contains(text).next().is_some()
}

fn is_open(view: &View, pane: PaneKind) -> bool {
    view.state().open_panes().contains(&pane)
}

const NONE: Modifiers = Modifiers::NONE;

const EFFECTS: &[Effect] = &[
    (NONE, Key::ArrowLeft, |view, was| view.state().position() + 1 == was.position),
    (NONE, Key::ArrowRight, |view, was| view.state().position() == was.position + 1),
    (Modifiers::SHIFT, Key::ArrowLeft, |view, was| {
        (2..60).contains(&(was.position - view.state().position()))
    }),
    (Modifiers::SHIFT, Key::ArrowRight, |view, was| {
        (2..60).contains(&(view.state().position() - was.position))
    }),
    (NONE, Key::Home, |view, _| view.state().position() == 0),
    (NONE, Key::End, |view, _| view.state().position() == program::game().events.len() as u64),
    (NONE, Key::P, |view, _| view.state().position() == peak()),
    (NONE, Key::OpenBracket, |view, was| {
        happenings().into_iter().filter(|&at| at < was.position).max() == Some(view.state().position())
    }),
    (NONE, Key::CloseBracket, |view, was| {
        happenings().into_iter().find(|&at| at > was.position) == Some(view.state().position())
    }),
    (NONE, Key::Plus, |view, was| width(view) < was.width),
    (NONE, Key::Minus, |view, was| width(view) > was.width),
    (NONE, Key::H, |view, was| middle(view) < was.middle),
    (NONE, Key::L, |view, was| middle(view) > was.middle),
    (NONE, Key::S, |view, was| top_of_rows(view) < was.row),
    (NONE, Key::W, |view, was| top_of_rows(view) > was.row),
    (NONE, Key::F, |view, was| was.width < 1.0 && view.state().visible_bytes() == (0.0, 1.0)),
    (NONE, Key::A, |view, was| {
        view.state().marks()[0] == Some(was.position) && was.marks[0] != Some(was.position)
    }),
    (NONE, Key::B, |view, was| view.state().marks()[1] == Some(was.position)),
    (NONE, Key::G, |view, _| view.state().colour_by() == ColourBy::Kind),
    (NONE, Key::N, |view, _| view.state().picked_groups() == [0]),
    (Modifiers::SHIFT, Key::G, |view, _| view.state().colour_by() == ColourBy::State),
    (NONE, Key::T, |view, was| view.ctx.theme() != was.theme),
    (NONE, Key::C, |view, was| view.state().palette() != was.colours),
    (NONE, Key::Questionmark, |view, _| is_shown(view, "one event back or forward")),
    // Closes the list of keys.
    (NONE, Key::Escape, |view, _| !is_shown(view, "one event back or forward")),
    (NONE, Key::Escape, |view, _| view.state().selected().is_none()),
    (Modifiers::COMMAND, Key::Z, is_elsewhere),
    (Modifiers::COMMAND, Key::Y, is_elsewhere),
    (Modifiers::ALT, Key::ArrowLeft, is_elsewhere),
    (Modifiers::ALT, Key::ArrowRight, is_elsewhere),
    (NONE, Key::D, |view, _| is_shown(view, "as if every allocation could be moved")),
    (NONE, Key::I, |view, _| is_shown(view, "largest block")),
    (NONE, Key::O, |view, _| {
        view.query_all_by_label_contains("Lower bound").count() > 0 || is_shown(view, "plan")
    }),
    (NONE, Key::Slash, |view, _| {
        view.get_by_role_and_label(Role::SearchInput, "Search allocations").is_focused()
    }),
];

/// The way back and forward leads to other moments and to what was selected there.
fn is_elsewhere(view: &View, was: &Before) -> bool {
    (view.state().position(), view.state().selected()) != (was.position, was.selected)
}

fn width(view: &View) -> f64 {
    let (from, to) = view.state().visible_bytes();
    to - from
}

fn middle(view: &View) -> f64 {
    let (from, to) = view.state().visible_bytes();
    f64::midpoint(from, to)
}

#[test]
fn every_key_does_what_it_says_after_a_click_in_the_panes_that_are_always_open_and_the_table() {
    every_key(&TARGETS[..8]);
}

#[test]
fn every_key_does_what_it_says_after_a_click_in_the_lists() {
    every_key(&TARGETS[8..14]);
}

#[test]
fn every_key_does_what_it_says_after_a_click_in_the_other_panes_and_the_bar() {
    every_key(&TARGETS[14..]);
}

fn every_key(targets: &[Target]) {
    let game = program::game();
    let middle_of_game = behind_mark(&game, "town is loaded") + 200;
    for Target { name, click } in targets {
        let mut view = low();
        for (index, &(modifiers, key, has_effect)) in EFFECTS.iter().enumerate() {
            // A second Escape follows the first, and the way forward follows the way back.
            let follows =
                matches!((modifiers, key), (Modifiers::COMMAND, Key::Y) | (Modifiers::ALT, Key::ArrowRight))
                    || (key == Key::Escape && index > 0);
            if !follows {
                view.state_mut().set_position(middle_of_game);
                view.state_mut().select(Some(Selection::Allocation(super::named(&game, "facade 1"))));
                view.step();
                click(&mut view);
                // A click may move the cursor.
                view.state_mut().set_position(middle_of_game);
                match key {
                    Key::W => view.key_press(Key::S),
                    // A click may have scrolled to the end.
                    Key::S => (0..4).for_each(|_| view.key_press(Key::W)),
                    // The whole width cannot be panned, and shows all.
                    Key::H | Key::L | Key::F => view.key_press(Key::Plus),
                    _ => {}
                }
            }
            view.run();
            let was = before(&view);
            view.key_press_modifiers(modifiers, key);
            view.run();
            assert!(has_effect(&view, &was), "{modifiers:?} {key:?} does nothing after a click on {name}");
            if key == Key::Slash {
                view.key_press(Key::Escape);
                view.run();
            }
        }
    }
}

#[test]
fn a_digit_opens_its_pane_after_a_click_in_another() {
    let digits = [
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
    for (key, pane) in digits.into_iter().zip(PaneKind::ALL) {
        let clicked = if pane == PaneKind::BlockMap { PaneKind::Timeline } else { PaneKind::BlockMap };
        let mut view = open();
        view.state_mut().set_layout(Layout::side_by_side(&[clicked]));
        view.run();
        let label = if clicked == PaneKind::BlockMap { "Block map" } else { "Memory over time" };
        let at = canvas(&view, label).center();
        click_at(&mut view, at);
        assert!(!is_open(&view, pane));
        view.key_press(key);
        view.run();
        assert!(is_open(&view, pane), "{key:?}");
    }
}

#[test]
fn an_arrow_that_moves_the_cursor_leaves_the_focus_where_it_is() {
    let mut view = open();
    view.get_by_label("Peak").focus();
    view.run();
    let before = view.state().position();
    view.key_press(Key::ArrowLeft);
    view.run();
    assert_eq!(view.state().position(), before - 1);
    assert!(view.get_by_label("Peak").is_focused());
}

#[test]
fn escape_leaves_the_search_before_it_deselects() {
    let mut view = open();
    view.state_mut().select(Some(Selection::Allocation(super::named(&program::game(), "facade 1"))));
    view.key_press(Key::Slash);
    view.run();
    view.key_press(Key::Escape);
    view.run();
    assert!(!view.get_by_role_and_label(Role::SearchInput, "Search allocations").is_focused());
    assert!(view.state().selected().is_some());
    view.key_press(Key::Escape);
    view.run();
    assert!(view.state().selected().is_none());
}

#[test]
fn letters_that_are_typed_into_the_search_are_no_keys() {
    let mut view = open();
    view.key_press(Key::Slash);
    view.run();
    let before = view.state().position();
    for key in [Key::Home, Key::P, Key::D, Key::Num1, Key::ArrowLeft] {
        view.key_press(key);
        view.run();
    }
    assert_eq!(view.state().position(), before);
    assert!(view.get_by_role_and_label(Role::SearchInput, "Search allocations").is_focused());
}

/// Presses and releases within one frame, as a window that draws slowly sees it.
fn click_in_one_frame(view: &mut View, at: egui::Pos2) {
    let button = |pressed| egui::Event::PointerButton {
        pos: at,
        button: egui::PointerButton::Primary,
        pressed,
        modifiers: NONE,
    };
    view.input_mut().events.extend([egui::Event::PointerMoved(at), button(true), button(false)]);
    view.step();
    view.run();
}

#[test]
fn a_press_and_a_release_within_one_frame_are_a_click() {
    let mut view = open();
    let end = program::game().events.len() as u64;
    let chart = canvas(&view, "Memory over time");
    click_in_one_frame(
        &mut view,
        pos2(chart.left() + 74.0 + (chart.width() - 80.0) / 2.0, chart.top() + 30.0),
    );
    let position = view.state().position();
    assert!(position.abs_diff(end / 2) < end / 100, "{position} of {end}");
    let map = canvas(&view, "Block map");
    click_in_one_frame(&mut view, pos2(map.left() + 160.0, map.top() + 38.0));
    assert!(matches!(view.state().selected(), Some(Selection::Allocation(_))));
}
