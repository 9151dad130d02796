//! Free ranges by size, which say what still fits without a new block, and fragmentation over time.

use allotment_analyze::{Cursor, FragmentationSample, Holes, Scope, fragmentation_over_time};
use egui::{RichText, Sense, Ui, pos2};

use super::{empty, figure, waiting};
use crate::background::Background;
use crate::state::{Palette, State};
use crate::text;

/// Samples over the recording. Each looks at every allocation that exists.
const SAMPLES: usize = 160;

/// The pane.
#[derive(Default)]
pub(crate) struct FreeRangesPane {
    holes: Background<(u64, Scope), Holes>,
    over_time: Background<Scope, Vec<FragmentationSample>>,
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
            Holes::of_scope(&Cursor::at(timeline, position), scope)
        });
        let samples = self.over_time.get(ui.ctx(), &state.loaded, scope, move |timeline| {
            fragmentation_over_time(timeline, scope, SAMPLES)
        });
        let Some(holes) = holes else { return waiting(ui) };
        ui.horizontal_wrapped(|ui| {
            figure(ui, "Free", &text::bytes(holes.free()));
            figure(ui, "in", &text::plural(holes.sizes().len() as u64, "range"));
            figure(ui, "Largest range", &text::bytes(holes.largest()));
            figure(ui, "Fragmentation", &share(holes.fragmentation()));
            ui.label(
                RichText::new("the share of the free bytes that is outside the largest free range").weak(),
            );
        });
        egui::ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
            ui.label(RichText::new("Fragmentation over time").strong());
            match samples {
                Some(samples) => chart(ui, state, samples, &palette),
                None => waiting(ui),
            }
            if holes.sizes().is_empty() {
                empty(ui, "No byte of the blocks is free at this moment.");
                return;
            }
            ui.add_space(6.0);
            curve(ui, holes, &palette);
        });
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

/// For each power of two: how much of the free bytes is in ranges of at least that size.
fn curve(ui: &mut Ui, holes: &Holes, palette: &Palette) {
    egui::Grid::new("free ranges").num_columns(5).spacing([18.0, 3.0]).striped(true).show(ui, |ui| {
        for heading in
            ["Ranges of at least", "Count", "So many of it fit", "Free bytes in ranges at least so large", ""]
        {
            ui.label(RichText::new(heading).strong());
        }
        ui.end_row();
        for (size, part) in holes.curve().into_iter().rev() {
            ui.label(text::bytes(size));
            ui.label(text::count(holes.sizes().partition_point(|&hole| hole >= size) as u64));
            ui.label(text::count(holes.fitting(size)));
            let (bar, _) = ui.allocate_exact_size(egui::vec2(240.0, 9.0), Sense::hover());
            ui.painter().rect_filled(bar, 2.0, palette.grid);
            let filled = bar.with_max_x(bar.left() + bar.width() * part as f32);
            ui.painter().rect_filled(filled, 2.0, palette.free);
            ui.label(share(part));
            ui.end_row();
        }
    });
}
