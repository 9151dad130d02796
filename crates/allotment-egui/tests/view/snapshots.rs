//! Pictures of the main views: a change of what they look like is seen.

use allotment_egui::{AnalyzerView, PaneKind, Selection};
use allotment_trace::recording::Recording;
use egui::{Key, Role, Theme, Vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;

use super::{View, named, open_tab, program, scattered};

fn open(theme: Theme) -> View {
    open_recording(theme, program::game())
}

fn open_recording(theme: Theme, recording: Recording) -> View {
    let builder =
        Harness::builder().with_size(Vec2::new(1440.0, 940.0)).with_theme(theme).with_max_steps(120).wgpu();
    let view = AnalyzerView::new("town", recording);
    let mut view = builder.build_ui_state(|ui, view: &mut AnalyzerView| view.ui(ui), view);
    view.run();
    view
}

#[test]
fn the_whole_window_in_dark_colours() {
    let mut view = open(Theme::Dark);
    view.state_mut().select(Some(Selection::Allocation(named(&program::game(), "terrain albedo"))));
    view.run();
    view.snapshot("window_dark");
}

#[test]
fn a_past_moment_zoomed_in_light_and_colour_blind_colours() {
    let mut view = open(Theme::Light);
    view.key_press(Key::C);
    for _ in 0..6 {
        view.key_press(Key::Plus);
    }
    view.state_mut().set_position(program::game().events.len() as u64 / 2);
    view.run();
    view.key_press(Key::A);
    open_tab(&mut view, "Free ranges");
    view.run();
    view.snapshot("window_light_colour_blind");
}

#[test]
fn what_was_never_freed() {
    let mut view = open(Theme::Dark);
    open_tab(&mut view, "Never freed");
    view.snapshot("leaks");
}

#[test]
fn two_moments_compared() {
    let mut view = open(Theme::Dark);
    let loaded = super::behind_mark(&program::game(), "town is loaded");
    view.state_mut().set_position(loaded);
    view.run();
    view.key_press(Key::A);
    view.key_press(Key::End);
    view.run();
    view.key_press(Key::B);
    open_tab(&mut view, "Compare A and B");
    view.snapshot("difference");
}

#[test]
fn a_defragmentation_before_it_runs() {
    let mut view = open_recording(Theme::Dark, scattered::town());
    view.state_mut().open_pane(PaneKind::Defragmentation);
    view.run();
    view.get_by_label("full").click();
    view.run();
    view.snapshot("defragmentation");
}

#[test]
fn the_recorded_settings_beside_others() {
    let mut view = open(Theme::Light);
    view.state_mut().open_pane(PaneKind::WhatIf);
    view.run();
    view.get_all_by_role_and_label(Role::ComboBox, "largest block").nth(1).unwrap().click();
    view.run();
    view.query_all_by_label("16.0 MiB").last().unwrap().click();
    view.run();
    view.snapshot("what_if");
}

#[test]
fn a_plan_with_all_lifetimes_known() {
    let mut view = super::planned::planned(open(Theme::Dark));
    view.snapshot("planned");
}

#[test]
fn resources_that_share_memory_over_time() {
    let mut view = open_recording(Theme::Dark, program::shared());
    open_tab(&mut view, "Aliasing");
    view.snapshot("shared_memory");
}

#[test]
fn calls_as_a_flame_graph() {
    let mut view = open_recording(Theme::Dark, super::calls::game());
    view.state_mut().select(Some(Selection::Allocation(named(&super::calls::game(), "terrain albedo"))));
    open_tab(&mut view, "Calls");
    view.snapshot("calls");
}
