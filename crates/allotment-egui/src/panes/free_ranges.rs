//! Free ranges by size, which say what still fits without a new block, and fragmentation over time.

use std::sync::Arc;

use allotment_analyze::tables::{Cell, Table};
use allotment_analyze::{Cursor, FragmentationSample, Holes, Scope, fragmentation_over_time};
use egui::{RichText, Sense, Ui, pos2};

use super::table::{SortedTable, bar};
use super::{empty, figure, waiting};
use crate::background::Background;
use crate::state::{Palette, State};
use crate::text;

/// Samples over the recording. Each looks at every allocation that exists.
const SAMPLES: usize = 160;

/// The pane.
#[derive(Default)]
pub(crate) struct FreeRangesPane {
    holes: Background<(u64, Scope), (Holes, Arc<Table>)>,
    over_time: Background<Scope, Vec<FragmentationSample>>,
    table: SortedTable,
}

impl FreeRangesPane {
    pub(crate) const fn outdate(&mut self) {
        self.holes.outdate();
        self.over_time.outdate();
    }

    pub(crate) fn ui(&mut self, ui: &mut Ui, state: &mut State) {
        let (position, scope) = (state.position(), state.scope);
        let palette = Palette::new(state.palette, ui.visuals().dark_mode);
        let holes = self.holes.get(ui.ctx(), &state.loaded, (position, scope), move |timeline| {
            let holes = Holes::of_scope(&Cursor::at(timeline, position), scope);
            let table = Arc::new(holes.table());
            (holes, table)
        });
        let samples = self.over_time.get(ui.ctx(), &state.loaded, scope, move |timeline| {
            fragmentation_over_time(timeline, scope, SAMPLES)
        });
        let Some((holes, table)) = holes else { return waiting(ui) };
        ui.horizontal_wrapped(|ui| {
            figure(ui, "Free", &text::bytes(holes.free()));
            figure(ui, "in", &text::plural(holes.sizes().len() as u64, "range"));
            figure(ui, "Largest range", &text::bytes(holes.largest()));
            figure(ui, "Fragmentation", &share(holes.fragmentation()));
            ui.label(
                RichText::new("the share of the free bytes that is outside the largest free range").weak(),
            );
        });
        if state.has_history() {
            ui.label(RichText::new("Fragmentation over time").strong());
            match samples {
                Some(samples) => chart(ui, state, samples, &palette),
                None => waiting(ui),
            }
        }
        if holes.sizes().is_empty() {
            empty(ui, "No byte of the blocks is free at this moment.");
            return;
        }
        ui.add_space(6.0);
        let draw = |ui: &mut Ui, row: usize| {
            if let Some(&Cell::Share(part, whole)) = table.rows[row].cells.last() {
                bar(ui, part as f32 / whole as f32, palette.free, &palette);
            }
        };
        self.table.with_picture(ui, "free ranges", table, &palette, Some(("", &draw)));
    }
}

fn share(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A line from 0 to 100 %, over positions.
fn chart(ui: &mut Ui, state: &State, samples: &[FragmentationSample], palette: &Palette) {
    let size = egui::vec2(ui.available_width() - 6.0, 74.0);
    let (rect, response) = ui.allocate_exact_size(size, Sense::hover());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, "Fragmentation over time"));
    let painter = ui.painter().with_clip_rect(rect);
    painter.rect_filled(rect, 2.0, palette.ground);
    let plot = rect.with_min_x(rect.left() + 44.0).shrink2(egui::vec2(4.0, 6.0));
    let end = state.loaded.timeline().end().max(1) as f32;
    let x = |position: u64| plot.left() + position as f32 / end * plot.width();
    let y = |share: f64| plot.bottom() - share as f32 * plot.height();
    for (at, text) in [(0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %")] {
        painter.hline(plot.x_range(), y(at), (1.0, palette.grid));
        let at = pos2(plot.left() - 6.0, y(at));
        painter.text(at, egui::Align2::RIGHT_CENTER, text, egui::FontId::proportional(11.0), palette.muted);
    }
    let points = samples.iter().map(|sample| pos2(x(sample.moment.event), y(sample.fragmentation))).collect();
    painter.add(egui::Shape::line(points, (1.5, palette.accent)));
    painter.vline(x(state.position()), plot.y_range(), (1.5, palette.cursor));
}
