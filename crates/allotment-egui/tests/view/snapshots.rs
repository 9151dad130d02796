//! Pictures of the main views: a change of what they look like is seen.

use allotment_egui::{AnalyzerView, Selection};
use egui::{Key, Theme, Vec2};
use egui_kittest::Harness;

use super::{View, named, open_tab, program};

fn open(theme: Theme) -> View {
    let builder =
        Harness::builder().with_size(Vec2::new(1440.0, 940.0)).with_theme(theme).with_max_steps(120).wgpu();
    let view = AnalyzerView::new("town", program::game());
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
