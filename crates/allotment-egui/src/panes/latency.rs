//! The wait of released allocations for the GPU, as a histogram of frames.

use allotment_analyze::ReleaseLatency;
use egui::{RichText, Sense, Ui};

use super::{empty, figure, waiting};
use crate::background::Background;
use crate::state::{Palette, State};
use crate::text;

/// The pane.
#[derive(Default)]
pub(crate) struct LatencyPane {
    found: Background<u64, ReleaseLatency>,
}

impl LatencyPane {
    pub(crate) const fn outdate(&mut self) {
        self.found.outdate();
    }

    pub(crate) fn ui(&mut self, ui: &mut Ui, state: &mut State) {
        let position = state.position();
        let palette = Palette::new(state.palette, ui.visuals().dark_mode);
        let found = self
            .found
            .get(ui.ctx(), &state.loaded, position, move |timeline| ReleaseLatency::at(timeline, position));
        let Some(latency) = found else { return waiting(ui) };
        let mut show = None;
        ui.horizontal_wrapped(|ui| {
            figure(ui, "Waiting now", &text::plural(latency.pending, "allocation"));
            figure(ui, "with", &text::bytes(latency.pending_bytes));
            figure(ui, "Waited and freed", &text::count(latency.completed));
            figure(ui, "Freed at once", &text::count(latency.immediate));
            let timeline = state.loaded.timeline();
            if let Some((allocation, since)) = latency.oldest {
                let name = text::name(timeline, allocation);
                let since = text::moment(timeline, since);
                ui.label(RichText::new("Oldest").weak());
                if ui.link(format!("{name}, released at {since}")).clicked() {
                    show = Some(allocation);
                }
            }
            if let Some((allocation, frames)) = latency.longest {
                ui.label(RichText::new("Longest").weak());
                let text = format!("{}, {}", text::name(timeline, allocation), text::plural(frames, "frame"));
                if ui.link(text).clicked() {
                    show = Some(allocation);
                }
            }
        });
        if latency.completed == 0 {
            empty(ui, "No allocation was released and then freed before this moment.");
        } else {
            histogram(ui, latency, &palette);
        }
        if let Some(allocation) = show {
            state.show(allocation);
        }
    }
}

fn histogram(ui: &mut Ui, latency: &ReleaseLatency, palette: &Palette) {
    ui.add_space(4.0);
    let frames = latency.frames.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
    let most = latency.frames.iter().copied().max().unwrap_or(1).max(1);
    egui::ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        egui::Grid::new("latency").num_columns(4).spacing([16.0, 3.0]).show(ui, |ui| {
            for heading in ["Waited", "Allocations", "Share", ""] {
                ui.label(RichText::new(heading).strong());
            }
            ui.end_row();
            for (number, &count) in latency.frames[..frames].iter().enumerate() {
                let more = if number + 1 == ReleaseLatency::FRAMES { " or more" } else { "" };
                ui.label(format!("{}{more}", text::plural(number as u64, "frame")));
                ui.label(text::count(count));
                ui.label(text::percent(count, latency.completed));
                let (bar, _) = ui.allocate_exact_size(egui::vec2(320.0, 11.0), Sense::hover());
                let filled = bar.with_max_x(bar.left() + bar.width() * (count as f32 / most as f32));
                ui.painter().rect_filled(filled, 2.0, palette.pending);
                ui.end_row();
            }
        });
    });
}
