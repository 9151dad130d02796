//! The stacked bytes: in each pixel the peaks of its samples, so that no peak is lost between two pixels.

use allotment_analyze::{BlockBytes, Class, Series, SeriesSample};
use egui::{Align2, FontId, Pos2, Rect, Shape, Ui, pos2};

use super::Frame;
use crate::paint::Rects;
use crate::state::{Palette, State};
use crate::text;

pub(super) fn draw(ui: &Ui, state: &State, frame: Frame, series: &Series, palette: &Palette) {
    let plot = frame.plot;
    let painter = ui.painter().with_clip_rect(plot);
    let pixel = 1.0 / ui.pixels_per_point();
    let columns = (plot.width() / pixel).ceil().max(1.0) as usize;
    let visible = columns_of(state, frame, series, columns);
    let budget = visible.iter().flatten().filter_map(|column| column.budget).max();
    let highest = visible.iter().flatten().map(|column| column.peak.size).max().unwrap_or(0);
    // A budget far above everything would press the bytes flat, so it is then left out.
    let budget_fits = budget.is_some_and(|budget| budget <= highest.saturating_mul(4));
    let top = if budget_fits { highest.max(budget.unwrap_or(0)) } else { highest };
    let top = (top as f64 * 1.06).max(1.0);
    let y = |bytes: u64| plot.bottom() - (bytes as f64 / top) as f32 * plot.height();

    byte_scale(ui, plot, top, palette);
    let mut rects = Rects::new(ui.ctx());
    let mut first = 0;
    // Equal neighbours are one rectangle.
    for run in visible.chunk_by(|a, b| a.map(|column| column.peak) == b.map(|column| column.peak)) {
        let x = |column: usize| plot.left() + column as f32 * pixel;
        let (left, right) = (x(first), x(first + run.len()));
        first += run.len();
        let Some(column) = run[0] else { continue };
        let bytes = column.peak;
        let mut sum = 0u64;
        for (class, part) in [
            (Class::Used, bytes.used),
            (Class::Rounding, bytes.overhead()),
            (Class::Pending, bytes.pending),
            (Class::Free, bytes.size),
        ] {
            // Peaks of several moments can be more together than the blocks ever had.
            let until = sum.saturating_add(part).min(bytes.size);
            if until > sum {
                rects.add_class(Rect::from_x_y_ranges(left..=right, y(until)..=y(sum)), class, palette);
            }
            sum = until;
        }
    }
    rects.paint(&painter);
    if budget_fits {
        let points: Vec<Pos2> = visible
            .iter()
            .enumerate()
            .filter_map(|(column, is)| Some(pos2(plot.left() + column as f32 * pixel, y((*is)?.budget?))))
            .collect();
        if let Some(&last) = points.last() {
            painter.extend(Shape::dashed_line(&points, (2.0, palette.budget), 8.0, 4.0));
            let at = pos2(plot.right() - 6.0, last.y - 2.0);
            painter.text(at, Align2::RIGHT_BOTTOM, "budget", FontId::proportional(12.0), palette.budget);
        }
    } else if let Some(budget) = budget {
        let text = format!("budget {}, above the drawing", text::bytes(budget));
        let at = pos2(plot.right() - 6.0, plot.top() + 3.0);
        painter.text(at, Align2::RIGHT_TOP, text, FontId::proportional(12.0), palette.budget);
    }
}

/// The bytes of one column of pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Column {
    peak: BlockBytes,
    budget: Option<u64>,
}

/// The peaks of the samples of each column; of a column without a sample, the bytes of the one before.
fn columns_of(state: &State, frame: Frame, series: &Series, columns: usize) -> Vec<Option<Column>> {
    let timeline = state.loaded.timeline();
    let samples = &series.samples;
    let value = |share: f64| (frame.view.from + share * frame.view.size()) * frame.length;
    let start = frame.axis.position(timeline, value(0.0));
    let end = frame.axis.position(timeline, value(1.0));
    let mut next = samples.partition_point(|sample| sample.moment.event < start);
    let mut last: Option<Column> =
        next.checked_sub(1).map(|before| column_of(samples[before].last, &samples[before]));
    let mut out = Vec::with_capacity(columns);
    for column in 0..columns {
        let until = match frame.axis {
            // The common case without a search.
            allotment_analyze::TimeAxis::Events => value((column + 1) as f64 / columns as f64) as u64,
            axis => axis.position(timeline, value((column + 1) as f64 / columns as f64)),
        };
        // Without a sample, the bytes are what they were.
        let mut shown = last;
        let mut peak: Option<BlockBytes> = None;
        while let Some(sample) = samples.get(next).filter(|sample| sample.moment.event <= until.min(end)) {
            peak = Some(peak.map_or(sample.peak, |peak| peak.most(sample.peak)));
            shown = peak.map(|peak| column_of(peak, sample));
            last = Some(column_of(sample.last, sample));
            next += 1;
        }
        out.push(shown);
    }
    out
}

fn column_of(peak: BlockBytes, sample: &SeriesSample) -> Column {
    Column { peak, budget: sample.budget.map(|budget| budget.budget) }
}

/// Lines and numbers of round bytes.
pub(in crate::panes) fn byte_scale(ui: &Ui, plot: Rect, top: f64, palette: &Palette) {
    let most = f64::from((plot.height() / 34.0).max(1.0));
    let mut step = 1u64;
    while (step as f64) < top / most {
        step = step.saturating_mul(2);
    }
    let mut bytes = 0u64;
    while bytes as f64 <= top {
        let y = plot.bottom() - (bytes as f64 / top) as f32 * plot.height();
        ui.painter().hline(plot.x_range(), y, (1.0, palette.grid));
        let at = pos2(plot.left() - 8.0, y.clamp(plot.top() + 6.0, plot.bottom() - 5.0));
        let label = if bytes == 0 { "0".to_owned() } else { text::bytes(bytes) };
        ui.painter().text(at, Align2::RIGHT_CENTER, label, FontId::proportional(11.5), palette.muted);
        bytes = bytes.saturating_add(step);
    }
}
