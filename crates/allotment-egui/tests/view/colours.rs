//! What colours tell apart: the legend, which filters, and the search, which dims.

use allotment_analyze::{ColourBy, ColourGroups, Cursor, Scope, Timeline};
use allotment_egui::{AnalyzerView, Layout, PaneKind};
use egui::{Key, Modifiers, Role, Theme, Vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::{NodeT as _, Queryable as _};

use super::{View, behind_mark, canvas, has_text, open, program, rest_at};

/// The entries of the legend of the map, or of the timeline above it, as a screen reader has them.
fn entries(view: &View, of_map: bool) -> Vec<String> {
    let boxes = view.query_all_by_role(Role::CheckBox);
    let map = canvas(view, "Block map").top();
    let chart = canvas(view, "Memory over time").bottom();
    let is_there = |node: &egui_kittest::Node<'_>| {
        if of_map { (chart..map).contains(&node.rect().top()) } else { node.rect().top() < chart }
    };
    boxes.filter(is_there).filter_map(|node| node.accesskit_node().label()).collect()
}

fn click_entry(view: &mut View, name: &str) {
    let entry = view.query_all_by_role(Role::CheckBox).find(|node| {
        node.accesskit_node().label().is_some_and(|label| label.starts_with(&format!("{name}: ")))
    });
    entry.unwrap_or_else(|| panic!("{name} is in no legend")).click();
    view.run();
}

#[test]
fn the_legend_has_the_groups_of_the_analysis_with_their_sums_in_map_and_timeline() {
    let mut view = open();
    let game = program::game();
    let timeline = Timeline::new(&game);
    for by in ColourBy::ALL {
        view.state_mut().set_colour_by(by);
        view.run();
        let legend =
            ColourGroups::new(&timeline, by).legend(&Cursor::at(&timeline, timeline.end()), Scope::All);
        for of_map in [true, false] {
            let entries = entries(&view, of_map);
            assert_eq!(entries.len(), legend.len(), "{by:?}: {entries:?}");
            for (entry, group) in entries.iter().zip(&legend) {
                assert!(entry.starts_with(&format!("{}: ", group.name)), "{by:?}: {entry}");
                let bytes = allotment_analyze::units::bytes(group.bytes);
                assert!(entry.ends_with(&bytes), "{by:?}: {entry} has not {bytes}");
            }
        }
    }
}

#[test]
fn a_click_in_the_legend_shows_only_that_group_and_another_click_all() {
    let mut view = open();
    view.state_mut().set_colour_by(ColourBy::Category);
    view.run();
    click_entry(&mut view, "meshes");
    assert_eq!(view.state().picked_groups(), [1]);
    click_entry(&mut view, "particles");
    assert_eq!(view.state().picked_groups().len(), 2, "others are shown with it");
    click_entry(&mut view, "meshes");
    click_entry(&mut view, "particles");
    assert!(view.state().picked_groups().is_empty());
}

#[test]
fn keys_choose_what_colours_tell_apart_and_which_group_is_shown_alone() {
    let mut view = open();
    assert_eq!(view.state().colour_by(), ColourBy::State);
    view.key_press(Key::G);
    view.run();
    assert_eq!(view.state().colour_by(), ColourBy::Kind);
    view.key_press_modifiers(Modifiers::SHIFT, Key::G);
    view.run();
    view.key_press_modifiers(Modifiers::SHIFT, Key::G);
    view.run();
    assert_eq!(view.state().colour_by(), ColourBy::Movability);
    view.state_mut().set_colour_by(ColourBy::Category);
    view.run();
    for group in 0..4 {
        view.key_press(Key::N);
        view.run();
        assert_eq!(view.state().picked_groups(), [group]);
    }
    view.key_press(Key::N);
    view.run();
    assert!(view.state().picked_groups().is_empty(), "after the last one, all");
}

#[test]
fn an_entry_of_the_legend_is_reached_and_picked_by_the_keyboard() {
    let mut view = open();
    view.state_mut().set_colour_by(ColourBy::Category);
    view.run();
    let entry = view
        .query_all_by_role(Role::CheckBox)
        .find(|node| node.accesskit_node().label().is_some_and(|label| label.starts_with("textures: ")));
    entry.unwrap().focus();
    view.run();
    view.key_press(Key::Space);
    view.run();
    assert_eq!(view.state().picked_groups(), [0]);
}

#[test]
fn the_timeline_says_how_many_bytes_each_group_has_at_the_pointer() {
    let mut view = open();
    view.state_mut().set_colour_by(ColourBy::Category);
    view.run();
    let at = canvas(&view, "Memory over time").center();
    rest_at(&mut view, at);
    assert!(view.query_all_by_label("particles").next().is_some() && has_text(&view, "from the driver"));
}

/// The map beside the timeline, in little space.
fn pictured(theme: Theme) -> View {
    let builder =
        Harness::builder().with_size(Vec2::new(1100.0, 400.0)).with_theme(theme).with_max_steps(120).wgpu();
    let mut view = AnalyzerView::new("town", program::game());
    view.set_layout(Layout::side_by_side(&[PaneKind::BlockMap, PaneKind::Timeline]));
    view.set_position(behind_mark(&program::game(), "town is loaded") + 700);
    let mut view = builder.build_ui_state(|ui, view: &mut AnalyzerView| view.ui(ui), view);
    view.run();
    view
}

fn picture(by: ColourBy, theme: Theme, name: &str) {
    let mut view = pictured(theme);
    view.state_mut().set_colour_by(by);
    view.run();
    view.snapshot(name);
}

#[test]
fn colours_by_state() {
    picture(ColourBy::State, Theme::Dark, "colours_state");
}

#[test]
fn colours_by_kind() {
    picture(ColourBy::Kind, Theme::Dark, "colours_kind");
}

#[test]
fn colours_by_category() {
    picture(ColourBy::Category, Theme::Dark, "colours_category");
}

#[test]
fn colours_by_pool() {
    picture(ColourBy::Pool, Theme::Light, "colours_pool");
}

#[test]
fn colours_by_name() {
    picture(ColourBy::NameGroup, Theme::Light, "colours_name");
}

#[test]
fn colours_by_call_site() {
    picture(ColourBy::CallSite, Theme::Dark, "colours_call_site");
}

#[test]
fn colours_by_size() {
    picture(ColourBy::Size, Theme::Dark, "colours_size");
}

#[test]
fn colours_by_age() {
    picture(ColourBy::Age, Theme::Light, "colours_age");
}

#[test]
fn colours_by_lifetime() {
    picture(ColourBy::Lifetime, Theme::Dark, "colours_lifetime");
}

#[test]
fn colours_by_movability() {
    picture(ColourBy::Movability, Theme::Dark, "colours_movability");
}

#[test]
fn a_group_that_is_picked_in_colours_for_the_colour_blind() {
    let mut view = pictured(Theme::Light);
    view.key_press(Key::C);
    view.state_mut().set_colour_by(ColourBy::NameGroup);
    view.run();
    view.key_press(Key::N);
    view.run();
    view.key_press(Key::N);
    view.run();
    view.snapshot("colours_picked");
}

#[test]
fn a_search_dims_what_it_does_not_mean() {
    let mut view = pictured(Theme::Dark);
    view.key_press(Key::Slash);
    view.run();
    let field = view.get_by_role_and_label(Role::SearchInput, "Search allocations");
    field.type_text("house");
    view.run();
    view.key_press(Key::Escape);
    view.run();
    view.snapshot("colours_search");
}
