//! The bar above the panes: what is shown, when, of which memory, and in which colours.

use allotment_analyze::Scope;
use allotment_trace::recording::Api;
use egui::{ComboBox, RichText, Ui};

use crate::layout::PaneKind;
use crate::panes::{ColoursPane, Panes};
use crate::state::{Palette, PaletteKind, State};
use crate::text;

/// Draws the bar. Returns a pane that is to be opened.
pub(crate) fn ui(ui: &mut Ui, state: &mut State, panes: &mut Panes) -> Option<PaneKind> {
    let palette = Palette::new(state.palette, ui.visuals().dark_mode);
    let mut open = None;
    egui::Frame::new().inner_margin(egui::Margin::symmetric(8, 4)).show(ui, |ui| {
        ui.horizontal(|ui| {
            ui.label(RichText::new(&state.title).strong().size(16.0));
            ui.label(RichText::new(facts(state)).color(palette.muted));
            ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
                if ui.button("Keys").on_hover_text("?").clicked() {
                    panes.help_is_open = !panes.help_is_open;
                }
                open = panes_menu(ui, state.has_history());
                colours(ui, state);
            });
        });
        ui.horizontal_wrapped(|ui| {
            let history = state.history();
            let (back, forward) = (history.can_go_back(), history.can_go_forward());
            if ui.add_enabled(back, egui::Button::new("Back")).on_hover_text("Ctrl Z").clicked() {
                state.go_back();
            }
            if ui.add_enabled(forward, egui::Button::new("Forward")).on_hover_text("Ctrl Y").clicked() {
                state.go_forward();
            }
            ui.separator();
            scope(ui, state);
            ColoursPane::choice(ui, state);
            ui.separator();
            figures(ui, state, &palette);
        });
    });
    for unread in state.loaded.unread() {
        ui.horizontal_wrapped(|ui| {
            ui.add_space(8.0);
            ui.label(RichText::new(format!("Not read: {unread}")).color(palette.stall));
        });
    }
    open
}

/// The device of the recording, and its size.
fn facts(state: &State) -> String {
    let (recording, timeline) = (state.loaded.recording(), state.loaded.timeline());
    let api = match recording.header.api {
        Api::Simulated => "simulated GPU",
        Api::Vulkan => "Vulkan",
        Api::Direct3D12 => "Direct3D 12",
        Api::Cuda => "CUDA",
        _ => "",
    };
    let frames = timeline.frame_count();
    let frames = if frames > 0 { text::plural(frames, "frame") } else { String::new() };
    let parts = [
        api.to_owned(),
        recording.header.device.clone(),
        if state.has_history() {
            text::plural(timeline.end(), "event")
        } else {
            "a dump of one moment: it does not say what was before or after".to_owned()
        },
        frames,
        text::plural(timeline.allocation_count() as u64, "allocation"),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  ·  ")
}

/// The choice of the memory that is shown.
fn scope(ui: &mut Ui, state: &mut State) {
    let heaps = state.loaded.recording().header.heaps.len().min(usize::from(u8::MAX)) as u8;
    let name = |state: &State, scope: Scope| match scope {
        Scope::Heap(heap) => text::sentence(&text::heap(&state.loaded, heap)),
        Scope::MemoryType(memory_type) => text::sentence(&text::memory_type(&state.loaded, memory_type)),
        Scope::Block(block) => format!("Block {}", text::block(state.loaded.timeline(), block)),
        Scope::Pool(_) => "One pool".to_owned(),
        Scope::All => "All memory".to_owned(),
    };
    let mut chosen = state.scope;
    let label = ui.label("Memory");
    let combo = ComboBox::from_id_salt("scope").selected_text(name(state, state.scope)).show_ui(ui, |ui| {
        for scope in core::iter::once(Scope::All).chain((0..heaps).map(Scope::Heap)) {
            ui.selectable_value(&mut chosen, scope, name(state, scope));
        }
    });
    combo.response.labelled_by(label.id);
    state.set_scope(chosen);
}

/// The moment, and its bytes.
fn figures(ui: &mut Ui, state: &State, palette: &Palette) {
    let timeline = state.loaded.timeline();
    let now = state.loaded.cursor().moment();
    let mut when = text::sentence(&text::moment(timeline, now));
    if now.nanoseconds > 0 {
        when += &format!(", {}", text::duration(now.nanoseconds));
    }
    ui.label(RichText::new(when).strong());
    let Some((bytes, _)) = state.moment.totals() else {
        ui.label(RichText::new("looking at blocks…").color(palette.muted));
        return;
    };
    for (word, value) in [
        ("from the driver", bytes.size),
        ("used", bytes.used),
        ("overhead", bytes.overhead()),
        ("pending release", bytes.pending),
        ("padding", bytes.padding),
        ("free", bytes.free.saturating_sub(bytes.padding)),
    ] {
        ui.add_space(6.0);
        ui.spacing_mut().item_spacing.x = 4.0;
        ui.label(RichText::new(text::bytes(value)).strong()).on_hover_text(text::exact(value));
        ui.label(RichText::new(word).color(palette.muted));
    }
}

fn colours(ui: &mut Ui, state: &mut State) {
    let text = match state.palette {
        PaletteKind::Standard => "Colours: standard",
        PaletteKind::ColourBlind => "Colours: colour-blind",
    };
    if ui.button(text).on_hover_text("C").clicked() {
        next_palette(state);
    }
    let dark = ui.visuals().dark_mode;
    if ui.button(if dark { "Theme: dark" } else { "Theme: light" }).on_hover_text("T").clicked() {
        next_theme(ui.ctx());
    }
}

pub(crate) fn next_palette(state: &mut State) {
    state.palette = match state.palette {
        PaletteKind::Standard => PaletteKind::ColourBlind,
        PaletteKind::ColourBlind => PaletteKind::Standard,
    };
}

pub(crate) fn next_theme(ctx: &egui::Context) {
    let other = match ctx.theme() {
        egui::Theme::Dark => egui::Theme::Light,
        egui::Theme::Light => egui::Theme::Dark,
    };
    ctx.set_theme(other);
}

/// A menu of all panes, which also opens those that were closed.
fn panes_menu(ui: &mut Ui, has_history: bool) -> Option<PaneKind> {
    let mut open = None;
    ui.menu_button("Panes", |ui| {
        for pane in PaneKind::ALL.into_iter().filter(|pane| has_history || !pane.needs_history()) {
            if ui.button(pane.title()).clicked() {
                open = Some(pane);
                ui.close();
            }
        }
    });
    open
}
