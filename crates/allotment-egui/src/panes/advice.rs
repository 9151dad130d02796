//! Advice about the moment at the cursor. The advice about most bytes comes first.

use allotment_analyze::{Advice, AdviceThresholds, Cursor, advice};
use egui::{RichText, ScrollArea, Ui};

use super::{empty, waiting};
use crate::background::Background;
use crate::state::State;
use crate::text;

/// The pane.
#[derive(Default)]
pub(crate) struct AdvicePane {
    found: Background<u64, Vec<Advice>>,
}

impl AdvicePane {
    pub(crate) const fn outdate(&mut self) {
        self.found.outdate();
    }

    pub(crate) fn ui(&mut self, ui: &mut Ui, state: &State) {
        let position = state.position();
        let found = self.found.get(ui.ctx(), &state.loaded, position, move |timeline| {
            advice(&Cursor::at(timeline, position), &AdviceThresholds::default())
        });
        let Some(found) = found else { return waiting(ui) };
        if found.is_empty() {
            let when = if state.has_history() {
                " Advice about leaks and empty blocks comes at the end."
            } else {
                ""
            };
            empty(ui, &format!("Nothing to say about this moment.{when}"));
            return;
        }
        ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
            for advice in found {
                ui.horizontal_top(|ui| {
                    let bytes =
                        if advice.bytes() > 0 { text::bytes(advice.bytes()) } else { "–".to_owned() };
                    let size = egui::vec2(76.0, ui.text_style_height(&egui::TextStyle::Body));
                    let right = egui::Layout::right_to_left(egui::Align::Min);
                    ui.allocate_ui_with_layout(size, right, |ui| ui.label(RichText::new(bytes).strong()));
                    let label = ui.add(
                        egui::Label::new(text::sentence(&advice.sentence(state.loaded.timeline()))).wrap(),
                    );
                    if let Some(site) = advice.call_site() {
                        label.on_hover_text(site);
                    }
                });
                ui.add_space(3.0);
            }
        });
    }
}
