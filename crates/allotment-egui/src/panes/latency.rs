//! The wait of released allocations for the GPU, as a histogram of frames.

use std::sync::Arc;

use allotment_analyze::ReleaseLatency;
use allotment_analyze::tables::Table;
use egui::{RichText, Ui};

use super::table::{SortedTable, bar};
use super::{empty, figure, waiting};
use crate::background::Background;
use crate::state::{Palette, State};
use crate::text;

/// The pane.
#[derive(Default)]
pub(crate) struct LatencyPane {
    found: Background<u64, (ReleaseLatency, Arc<Table>)>,
    table: SortedTable,
}

impl LatencyPane {
    pub(crate) const fn outdate(&mut self) {
        self.found.outdate();
    }

    pub(crate) fn ui(&mut self, ui: &mut Ui, state: &mut State) {
        let position = state.position();
        let palette = Palette::new(state.palette, ui.visuals().dark_mode);
        let found = self.found.get(ui.ctx(), &state.loaded, position, move |timeline| {
            let latency = ReleaseLatency::at(timeline, position);
            let table = Arc::new(latency.table());
            (latency, table)
        });
        let Some((latency, table)) = found else { return waiting(ui) };
        let mut show = None;
        ui.horizontal_wrapped(|ui| {
            for (fact, value) in latency.facts() {
                figure(ui, fact, &value);
            }
            let timeline = state.loaded.timeline();
            if let Some((allocation, since)) = latency.oldest {
                let name = text::name(timeline, allocation);
                let since = text::moment(timeline, since);
                ui.label(RichText::new("Oldest").weak());
                if ui.link(format!("{name}, released at {since}")).clicked() {
                    show = Some(allocation);
                }
            }
            if let Some((allocation, frames)) = latency.longest.filter(|_| latency.has_frames) {
                ui.label(RichText::new("Longest").weak());
                let text = format!("{}, {}", text::name(timeline, allocation), text::plural(frames, "frame"));
                if ui.link(text).clicked() {
                    show = Some(allocation);
                }
            }
        });
        if latency.completed == 0 {
            empty(ui, "No allocation was released and then freed before this moment.");
        } else if !latency.has_frames {
            empty(ui, "This recording has no frames by which the waits could be counted.");
        } else {
            let most = latency.frames.iter().copied().max().unwrap_or(1).max(1) as f32;
            let draw = |ui: &mut Ui, row: usize| {
                bar(ui, latency.frames[row] as f32 / most, palette.pending, &palette);
            };
            self.table.with_picture(ui, "latency", table, &palette, Some(("", &draw)));
        }
        if let Some(allocation) = show {
            state.show(allocation);
        }
    }
}
