//! The stacked bytes: in each pixel the peaks of its samples, so that no peak is lost between two pixels.

use core::ops::Range;

use allotment_analyze::{Bands, BlockBytes, Class, ColourBy, ColourGroups, Series, SeriesSample, TimeAxis};
use egui::{Align2, FontId, Pos2, Rect, Shape, Ui, pos2};

use super::Frame;
use crate::paint::Rects;
use crate::state::{Palette, State};
use crate::text;

/// Draws the bytes by their classes, or by groups of colours where there are bands.
pub(super) fn draw(
    ui: &Ui,
    state: &State,
    frame: Frame,
    series: &Series,
    bands: Option<(&ColourGroups, &Bands)>,
    palette: &Palette,
) {
    let plot = frame.plot;
    let painter = ui.painter().with_clip_rect(plot);
    let pixel = 1.0 / ui.pixels_per_point();
    let columns = (plot.width() / pixel).ceil().max(1.0) as usize;
    let visible = columns_of(state, frame, series, columns);
    let budget = visible.iter().flatten().filter_map(|column| column.budget).max();
    let stacks = bands.map(|(groups, bands)| (groups, stacks_of(state, frame, bands, columns)));
    let of_stacks = stacks.iter().flat_map(|(_, stacks)| stacks).flatten().map(|stack| total(stack));
    let of_blocks = visible.iter().flatten().map(|column| column.peak.size);
    let highest = of_blocks.chain(of_stacks).max().unwrap_or(0);
    // A budget far above everything would press the bytes flat, so it is then left out.
    let budget_fits = budget.is_some_and(|budget| budget <= highest.saturating_mul(4));
    let top = if budget_fits { highest.max(budget.unwrap_or(0)) } else { highest };
    let top = (top as f64 * 1.06).max(1.0);
    let y = |bytes: u64| plot.bottom() - (bytes as f64 / top) as f32 * plot.height();

    byte_scale(ui, plot, top, palette);
    let mut rects = Rects::new(ui.ctx());
    if let Some((groups, stacks)) = &stacks {
        add_stacks(&mut rects, state, groups, stacks, &visible, palette, |column, from, until| {
            let x = |column: usize| plot.left() + column as f32 * pixel;
            Rect::from_x_y_ranges(x(column)..=x(column + 1), y(until)..=y(from))
        });
    }
    let classes = if stacks.is_some() { &[][..] } else { &visible[..] };
    let mut first = 0;
    // Equal neighbours are one rectangle.
    for run in classes.chunk_by(|a, b| a.map(|column| column.peak) == b.map(|column| column.peak)) {
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

/// Adds the stack of each column: the groups from the bottom, then what a search does not mean, then what else the blocks are.
fn add_stacks(
    rects: &mut Rects,
    state: &State,
    groups: &ColourGroups,
    stacks: &[Option<&[u64]>],
    blocks: &[Option<Column>],
    palette: &Palette,
    rect: impl Fn(usize, u64, u64) -> Rect,
) {
    let by_state = groups.by() == ColourBy::State;
    let free = if by_state { palette.free } else { palette.free_beside_groups };
    let plain = |colour| (colour, None);
    for (column, (stack, block)) in stacks.iter().zip(blocks).enumerate() {
        let mut sum = 0u64;
        for (group, &bytes) in stack.unwrap_or_default().iter().enumerate() {
            let colours = if group >= groups.len() {
                plain(palette.dimmed(palette.muted))
            } else if state.colours.is_picked(group) {
                palette.of_group(groups, group)
            } else {
                let (colour, stripes) = palette.of_group(groups, group);
                (palette.dimmed(colour), stripes.map(|colour| palette.dimmed(colour)))
            };
            if bytes > 0 {
                rects.add_striped(rect(column, sum, sum.saturating_add(bytes)), colours);
            }
            sum = sum.saturating_add(bytes);
        }
        if let Some(size) = block.map(|block| block.peak.size).filter(|&size| size > sum) {
            rects.add_striped(rect(column, sum, size), plain(free));
        }
    }
}

/// Of each column, the bands where they are the most in all; of a column without a sample, those of the one before.
fn stacks_of<'b>(state: &State, frame: Frame, bands: &'b Bands, columns: usize) -> Vec<Option<&'b [u64]>> {
    let parts = columns_with(state, frame, &bands.samples, |sample| sample.moment.event, columns);
    let of = |part: Range<usize>| match &bands.samples[part.clone()] {
        [] => part.start.checked_sub(1).map(|before| &*bands.samples[before].last),
        some => some.iter().map(|sample| &*sample.peak).max_by_key(|bytes| total(bytes)),
    };
    parts.into_iter().map(of).collect()
}

fn total(bytes: &[u64]) -> u64 {
    bytes.iter().fold(0, |sum: u64, &bytes| sum.saturating_add(bytes))
}

/// The peaks of the samples of each column; of a column without a sample, the bytes of the one before.
fn columns_of(state: &State, frame: Frame, series: &Series, columns: usize) -> Vec<Option<Column>> {
    let samples = &series.samples;
    let parts = columns_with(state, frame, samples, |sample| sample.moment.event, columns);
    let of = |part: Range<usize>| match &samples[part.clone()] {
        [] => part.start.checked_sub(1).map(|before| column_of(samples[before].last, &samples[before])),
        [first, others @ ..] => {
            let peak = others.iter().fold(first.peak, |peak, sample| peak.most(sample.peak));
            Some(column_of(peak, &samples[part.end - 1]))
        }
    };
    parts.into_iter().map(of).collect()
}

/// The samples of each column.
fn columns_with<S>(
    state: &State,
    frame: Frame,
    samples: &[S],
    event: impl Fn(&S) -> u64,
    columns: usize,
) -> Vec<Range<usize>> {
    let timeline = state.loaded.timeline();
    let value = |share: f64| (frame.view.from + share * frame.view.size()) * frame.length;
    let start = frame.axis.position(timeline, value(0.0));
    let end = frame.axis.position(timeline, value(1.0));
    let mut next = samples.partition_point(|sample| event(sample) < start);
    let mut parts = Vec::with_capacity(columns);
    for column in 0..columns {
        let until = match frame.axis {
            // The common case without a search.
            TimeAxis::Events => value((column + 1) as f64 / columns as f64) as u64,
            axis => axis.position(timeline, value((column + 1) as f64 / columns as f64)),
        };
        let first = next;
        while samples.get(next).is_some_and(|sample| event(sample) <= until.min(end)) {
            next += 1;
        }
        // Without a sample, the bytes are what they were.
        parts.push(first..next);
    }
    parts
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
