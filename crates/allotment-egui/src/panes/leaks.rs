//! Allocations that exist at the cursor and that nothing released, by what they have in common.

use std::sync::Arc;

use allotment_analyze::tables::Table;
use allotment_analyze::{Cursor, Grouping, Leaks};
use egui::Ui;

use super::table::{SortedTable, groupings};
use super::{empty, waiting};
use crate::background::Background;
use crate::state::{Palette, State};

/// The pane.
#[derive(Default)]
pub(crate) struct LeaksPane {
    grouping: Grouping,
    since_a: bool,
    found: Background<(u64, Grouping, Option<u64>), Arc<Table>>,
    table: SortedTable,
}

impl LeaksPane {
    pub(crate) const fn outdate(&mut self) {
        self.found.outdate();
    }

    pub(crate) fn ui(&mut self, ui: &mut Ui, state: &mut State) {
        ui.horizontal_wrapped(|ui| {
            groupings(ui, &mut self.grouping);
            ui.separator();
            ui.checkbox(&mut self.since_a, "only what was allocated since A").on_hover_text(
                "Set A behind the loading phase of a program, and what it loaded is left out.",
            );
        });
        let (position, grouping) = (state.position(), self.grouping);
        let since = self.since_a.then(|| state.markers()[0]);
        let found = self.found.get(ui.ctx(), &state.loaded, (position, grouping, since), move |timeline| {
            let cursor = Cursor::at(timeline, position);
            Arc::new(Leaks::since(&cursor, grouping, since.unwrap_or(0)).table(timeline, grouping))
        });
        let Some(table) = found else { return waiting(ui) };
        let palette = Palette::new(state.palette, ui.visuals().dark_mode);
        let clicked = self.table.ui(ui, "leaks", table, &palette);
        if table.rows.is_empty() {
            empty(ui, "Move the cursor to the end of the program, or before it.");
        }
        if let Some(allocation) = clicked.and_then(|row| table.rows[row].allocation) {
            state.show(allocation);
        }
    }
}
