//! What is selected.

use allotment_analyze::Timeline;
use allotment_egui::Selection;
use egui::{Key, Modifiers};
use egui_kittest::kittest::Queryable as _;

use super::{has_text, named, open, program, selects};

#[test]
fn details_lead_to_the_block_and_the_way_back_leads_to_the_allocation() {
    let mut view = open();
    view.get_by_label("sky cube map, 12.0 MiB").click();
    view.run();
    view.get_by_role_and_label(egui::Role::Link, "#0, 64.0 MiB").click();
    view.run();
    assert!(matches!(view.state().selected(), Some(Selection::Block(_))));
    view.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    view.run();
    assert!(selects(&view, "sky cube map"));
    view.key_press(Key::Escape);
    view.run();
    assert_eq!(view.state().selected(), None);
    assert!(has_text(&view, "Settings of the allocator"));
}

#[test]
fn a_click_on_a_moment_goes_there() {
    let mut view = open();
    let staging = named(&program::game(), "staging 0");
    view.state_mut().select(Some(Selection::Allocation(staging)));
    view.run();
    assert!(has_text(&view, "Waited for the GPU"));
    let game = program::game();
    let freed = Timeline::new(&game).lifetime(staging).freed.unwrap();
    let link = format!("Event {freed}, frame 3");
    view.get_by_role_and_label(egui::Role::Link, &link).scroll_to_me();
    view.run();
    view.get_by_role_and_label(egui::Role::Link, &link).click();
    view.run();
    assert_eq!(view.state().position(), freed + 1);
}
