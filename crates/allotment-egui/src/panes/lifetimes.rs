//! Fourteen questions about when allocations began and ended, with one to four moments A ≤ B ≤ C ≤ D.

use std::sync::Arc;

use allotment_analyze::{AllocationIndex, LifetimeEnd, LifetimeRule, Scope};
use egui::{ComboBox, RichText, Ui};

use super::{empty, figure, table};
use crate::state::State;
use crate::text;

type Key = (LifetimeRule, [u64; 4], LifetimeEnd, Scope, u64);

/// The meaning of a rule.
#[derive(Default)]
struct Found {
    rows: Arc<Vec<AllocationIndex>>,
    grown: (u64, u64),
    declined: (u64, u64),
}

/// The pane.
pub(crate) struct LifetimesPane {
    rule: LifetimeRule,
    end: LifetimeEnd,
    key: Option<Key>,
    found: Found,
}

impl Default for LifetimesPane {
    fn default() -> Self {
        let (rule, end) = (LifetimeRule::Growth, LifetimeEnd::default());
        Self { rule, end, key: None, found: Found::default() }
    }
}

impl LifetimesPane {
    pub(crate) fn forget(&mut self) {
        self.key = None;
    }

    pub(crate) fn clear(&mut self) {
        (self.key, self.found) = (None, Found::default());
    }

    pub(crate) fn ui(&mut self, ui: &mut Ui, state: &mut State) {
        self.controls(ui, state);
        self.update(state);
        ui.horizontal_wrapped(|ui| {
            let sum =
                |(count, bytes)| format!("{}, {}", text::plural(count, "allocation"), text::bytes(bytes));
            let both = self.rule == LifetimeRule::GrowthAndDecline;
            figure(ui, if both { "Grown" } else { "Found" }, &sum(self.found.grown));
            if both {
                figure(ui, "Declined", &sum(self.found.declined));
            }
        });
        if self.found.rows.is_empty() {
            empty(
                ui,
                "No allocation answers this question. Move the cursor, and set the moments to other ones.",
            );
            return;
        }
        let rows = Arc::clone(&self.found.rows);
        table::allocation_rows(ui, state, "lifetimes", &rows, None);
    }

    fn controls(&mut self, ui: &mut Ui, state: &mut State) {
        ui.horizontal_wrapped(|ui| {
            let name = |rule: LifetimeRule| text::sentence(&rule.name().replace('-', " "));
            let label = ui.label("Rule");
            let combo = ComboBox::from_id_salt("lifetime rule").width(170.0).selected_text(name(self.rule));
            let combo = combo.show_ui(ui, |ui| {
                for rule in LifetimeRule::ALL {
                    ui.selectable_value(&mut self.rule, rule, name(rule)).on_hover_text(rule.question());
                }
            });
            combo.response.labelled_by(label.id);
            ui.label(self.rule.question());
        });
        ui.horizontal_wrapped(|ui| {
            let markers = state.markers();
            for index in 0..self.rule.markers() {
                let letter = ["A", "B", "C", "D"][index];
                ui.label(RichText::new(letter).strong());
                let timeline = state.loaded.timeline();
                let moment = text::moment(timeline, timeline.moment(markers[index]));
                if ui.link(text::sentence(&moment)).clicked() {
                    state.jump(markers[index]);
                }
                if ui.button(format!("Set {letter} here")).clicked() {
                    state.set_mark(index, state.position());
                }
                ui.separator();
            }
            ui.label("An allocation ends when it is");
            ui.selectable_value(&mut self.end, LifetimeEnd::Freed, "freed");
            ui.selectable_value(&mut self.end, LifetimeEnd::Requested, "released");
        });
    }

    fn update(&mut self, state: &State) {
        let timeline = state.loaded.timeline();
        let key = (self.rule, state.markers(), self.end, state.scope, timeline.end());
        if self.key.as_ref() == Some(&key) {
            return;
        }
        let found = table::of_rule(timeline, self.rule, key.1, self.end, state.scope);
        let mut all = Found::default();
        for &(allocation, sign) in &found {
            let sum = if sign < 0 { &mut all.declined } else { &mut all.grown };
            sum.0 += 1;
            sum.1 = sum.1.saturating_add(timeline.requested(allocation));
        }
        all.rows = Arc::new(found.into_iter().map(|(allocation, _)| allocation).collect());
        (self.key, self.found) = (Some(key), all);
    }
}
