//! The changes between the moments A and B, grouped by the code that made them.

use std::sync::Arc;

use allotment_analyze::tables::Table;
use allotment_analyze::{Amount, Cursor, Difference, Grouping};
use egui::{RichText, Ui};

use super::table::{SortedTable, groupings};
use super::{empty, figure, waiting};
use crate::background::Background;
use crate::state::{Palette, State};
use crate::text;

/// The pane.
#[derive(Default)]
pub(crate) struct DifferencePane {
    grouping: Grouping,
    found: Background<(u64, u64, Grouping), (Difference, Arc<Table>)>,
    table: SortedTable,
}

impl DifferencePane {
    pub(crate) const fn outdate(&mut self) {
        self.found.outdate();
    }

    pub(crate) fn clear(&mut self) {
        self.found = Background::default();
    }

    pub(crate) fn ui(&mut self, ui: &mut Ui, state: &mut State) {
        let markers = state.markers();
        let (a, b) = (markers[0], state.marks[1].unwrap_or(markers[3]));
        ui.horizontal_wrapped(|ui| {
            groupings(ui, &mut self.grouping);
            ui.separator();
            for (letter, position, index) in [("A", a, 0), ("B", b, 1)] {
                ui.label(RichText::new(letter).strong());
                let timeline = state.loaded.timeline();
                let moment = text::moment(timeline, timeline.moment(position));
                if ui.link(text::sentence(&moment)).clicked() {
                    state.jump(position);
                }
                if ui.button(format!("Set {letter} here")).clicked() {
                    state.set_mark(index, state.position());
                }
            }
        });
        if a == b {
            empty(
                ui,
                "A and B are the same moment. Set them to two moments, or drag over the timeline with Shift.",
            );
            return;
        }
        let grouping = self.grouping;
        let found = self.found.get(ui.ctx(), &state.loaded, (a, b, grouping), move |timeline| {
            let difference =
                Difference::between(&Cursor::at(timeline, a), &Cursor::at(timeline, b), grouping);
            let table = Arc::new(difference.table(grouping));
            (difference, table)
        });
        let Some((difference, table)) = found else { return waiting(ui) };
        sums(ui, difference);
        if table.rows.is_empty() {
            empty(ui, "Each group has as many allocations and bytes at A as at B.");
            return;
        }
        let palette = Palette::new(state.palette, ui.visuals().dark_mode);
        self.table.ui(ui, "difference", table, &palette);
    }
}

fn amount(amount: Amount) -> String {
    format!("{}, {}", text::plural(amount.count, "allocation"), text::bytes(amount.bytes))
}

fn sums(ui: &mut Ui, difference: &Difference) {
    ui.horizontal_wrapped(|ui| {
        figure(ui, "Changed by", &text::signed(difference.grown()));
        figure(ui, "Only in A", &amount(difference.only_a));
        figure(ui, "Only in B", &amount(difference.only_b));
        figure(ui, "In both", &amount(difference.both));
        if difference.moved.count > 0 {
            figure(ui, "Moved", &amount(difference.moved));
        }
    });
}
