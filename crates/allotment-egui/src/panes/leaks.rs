//! Allocations that exist at the cursor and that nothing released, by what made them.

use allotment_analyze::{AllocationGroups, Cursor, Grouping, Leaks};
use egui::{RichText, Ui};

use super::{empty, figure, groups, table, waiting};
use crate::background::Background;
use crate::state::State;
use crate::text;

/// The pane.
#[derive(Default)]
pub(crate) struct LeaksPane {
    grouping: Grouping,
    since_a: bool,
    found: Background<(u64, Grouping, Option<u64>), Leaks>,
}

impl LeaksPane {
    pub(crate) const fn outdate(&mut self) {
        self.found.outdate();
    }

    pub(crate) fn ui(&mut self, ui: &mut Ui, state: &mut State) {
        ui.horizontal_wrapped(|ui| {
            ui.label("By");
            for (grouping, word) in table::GROUPINGS {
                ui.selectable_value(&mut self.grouping, grouping, word);
            }
            ui.separator();
            ui.checkbox(&mut self.since_a, "only what was allocated since A").on_hover_text(
                "Set A behind the loading phase of a program, and what it loaded is left out.",
            );
        });
        let (position, grouping) = (state.position(), self.grouping);
        let since = self.since_a.then(|| state.markers()[0]);
        let found = self.found.get(ui.ctx(), &state.loaded, (position, grouping, since), move |timeline| {
            let cursor = Cursor::at(timeline, position);
            Leaks::since(&cursor, grouping, since.unwrap_or(0))
        });
        let Some(leaks) = found else { return waiting(ui) };
        ui.horizontal_wrapped(|ui| {
            figure(ui, "Not released at this moment", &text::plural(leaks.count, "allocation"));
            figure(ui, "with", &text::bytes(leaks.bytes));
            if leaks.library_count > 0 {
                let library = format!(
                    "and {} of the library itself, {}",
                    text::count(leaks.library_count),
                    text::bytes(leaks.library_bytes)
                );
                ui.label(RichText::new(library).weak());
            }
        });
        if leaks.groups.is_empty() {
            empty(
                ui,
                "Nothing is left at this moment. Move the cursor to the end of the program, or before it.",
            );
            return;
        }
        let groups =
            AllocationGroups { count: leaks.count, bytes: leaks.bytes, groups: leaks.groups.clone() };
        if let Some(key) = groups::table(ui, state, "leaks", &groups) {
            let example =
                groups.groups.iter().find(|group| group.key == key).and_then(|group| group.examples.first());
            if let Some(&allocation) = example {
                state.show(allocation);
            }
        }
    }
}
