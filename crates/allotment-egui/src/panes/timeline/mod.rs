//! Memory over time: stacked bytes, the budget of a heap, lanes of what happened, and the cursor.
//!
//! ```text
//!   MiB │          ▁▂▃▅▅▅▅▃▂▁    budget ─ ─ ─
//!       │ free, pending release, overhead, used
//!  stalls     ▾     ▾
//!  refusals        ▾
//!  marks    ▾               ▾
//!       └──────────────────────── events, frames or seconds
//! ```
//!
//! A drag moves the cursor, and with Shift it sets A and B around a range. The wheel zooms at the pointer; a drag with
//! the right button pans.

mod chart;
mod finer;
mod lanes;

use std::sync::Arc;

use allotment_analyze::{
    Bands, ColourGroups, Peaks, Scope, Series, SeriesAxis, TimeAxis, bands_within, series,
};
use egui::{
    Align2, CursorIcon, FontId, PointerButton, Rect, Response, RichText, Role, Sense, Ui, WidgetInfo, pos2,
};

use crate::background::Background;
use crate::panes::{ColoursPane, waiting};
use crate::state::{Change, Palette, Span, State};
use crate::text;
pub(in crate::panes) use chart::byte_scale;
use finer::part_to_count;
use lanes::Lanes;

/// Of the numbers at the left.
pub(in crate::panes) const LEFT: f32 = 74.0;
/// Of the units of time at the bottom.
pub(in crate::panes) const BOTTOM: f32 = 18.0;

/// Samples of the whole recording: several for each pixel of a wide screen, each with the peaks since the one before.
/// Where a zoom leaves fewer, the visible part is sampled by itself.
const SAMPLES: usize = 8192;

/// Bytes over time of a scope, and where they are most.
struct Counted {
    series: Series,
    peaks: Peaks,
}

/// The pane.
#[derive(Default)]
pub(crate) struct TimelinePane {
    counted: Background<(Scope, TimeAxis), Counted>,
    /// Of the part of the time that is visible, and of some around it.
    finer: Background<(Scope, u64, u64), Series>,
    /// The bytes of each group of colours, of the whole recording and of the part that is visible.
    bands: Background<BandsKey, Bands>,
    finer_bands: Background<BandsKey, Bands>,
    lanes: Background<(), Lanes>,
    /// The position at which a drag with Shift began.
    brush: Option<u64>,
}

/// What bands are counted for: a version of the colours, the memory, the axis, and the part of the time.
type BandsKey = (u64, Scope, TimeAxis, u64, u64);

/// The drawing area and what it shows.
#[derive(Clone, Copy)]
pub(in crate::panes) struct Frame {
    pub(in crate::panes) plot: Rect,
    view: Span,
    axis: TimeAxis,
    length: f64,
}

impl Frame {
    /// The visible part of the time, in a plot.
    pub(in crate::panes) fn new(state: &State, plot: Rect) -> Self {
        let axis = state.axis;
        Self { plot, view: state.time, axis, length: axis.length(state.loaded.timeline()) }
    }

    pub(in crate::panes) fn x(&self, state: &State, position: u64) -> f32 {
        self.x_of(self.axis.value(state.loaded.timeline(), position))
    }

    fn x_of(&self, value: f64) -> f32 {
        let share = (value / self.length - self.view.from) / self.view.size();
        self.plot.left() + share.clamp(-1.0, 2.0) as f32 * self.plot.width()
    }

    pub(in crate::panes) fn position(&self, state: &State, x: f32) -> u64 {
        let share = f64::from((x - self.plot.left()) / self.plot.width()).clamp(0.0, 1.0);
        let value = (self.view.from + share * self.view.size()) * self.length;
        self.axis.position(state.loaded.timeline(), value)
    }
}

impl TimelinePane {
    pub(crate) const fn outdate(&mut self) {
        self.counted.outdate();
        self.finer.outdate();
        self.bands.outdate();
        self.finer_bands.outdate();
        self.lanes.outdate();
    }

    /// The moment with the most bytes in use, once it is known.
    pub(crate) fn peak(&self) -> Option<u64> {
        self.counted.known().map(|counted| counted.peaks.used.moment.event)
    }

    pub(crate) fn ui(&mut self, ui: &mut Ui, state: &mut State, colours: &mut ColoursPane) {
        let palette = Palette::new(state.palette, ui.visuals().dark_mode);
        let (scope, axis) = (state.scope, state.axis);
        let counted = self.counted.get(ui.ctx(), &state.loaded, (scope, axis), move |timeline| Counted {
            series: sampled(timeline, scope, axis),
            peaks: Peaks::of(timeline, scope),
        });
        let peak = counted.map(|counted| counted.peaks.used.moment.event);
        controls(ui, state, peak, &palette, colours);
        let lanes = self.lanes.get(ui.ctx(), &state.loaded, (), Lanes::of);
        let (area, response) = ui.allocate_exact_size(ui.available_size(), Sense::click_and_drag());
        response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Memory over time"));
        let lanes_height = lanes.map_or(0.0, Lanes::height);
        let plot = Rect::from_min_max(
            pos2(area.left() + LEFT, area.top() + 4.0),
            pos2(area.right() - 6.0, (area.bottom() - BOTTOM - lanes_height).max(area.top() + 20.0)),
        );
        let frame = Frame::new(state, plot);
        input(&mut self.brush, ui, state, &response, frame);
        let frame = Frame { view: state.time, ..frame };
        ui.painter().rect_filled(plot, 2.0, palette.ground);
        let finer = part_to_count(state, frame).and_then(|(start, end)| {
            let cost = finer::cost(state, start, end);
            self.finer.get_for(ui.ctx(), &state.loaded, cost, (scope, start, end), move |timeline| {
                finer::sampled(timeline, scope, start..end)
            })
        });
        let series = finer.or(counted.map(|counted| &counted.series));
        let groups = state.colours.groups.clone().filter(|_| !state.colours.is_plain());
        let bands = groups.as_ref().and_then(|groups| {
            let whole = (0, state.loaded.timeline().end());
            let part = part_to_count(state, frame).unwrap_or(whole);
            let coarse = bands_of(&mut self.bands, ui, state, groups, whole);
            let fine =
                if part == whole { None } else { bands_of(&mut self.finer_bands, ui, state, groups, part) };
            Some((&**groups, fine.or(coarse)?))
        });
        match series {
            Some(series) if groups.is_none() => chart::draw(ui, state, frame, series, None, &palette),
            Some(series) if bands.is_some() => chart::draw(ui, state, frame, series, bands, &palette),
            Some(_) => {
                ui.scope_builder(egui::UiBuilder::new().max_rect(plot.shrink(8.0)), waiting);
            }
            None => {
                ui.scope_builder(egui::UiBuilder::new().max_rect(plot.shrink(8.0)), waiting);
            }
        }
        if let Some(lanes) = lanes {
            lanes.draw(ui, state, frame, &palette);
        }
        units(ui, state, frame, area, &palette);
        cursors(ui, state, frame, area, &response, &palette);
        if let (Some(series), Some(point)) = (series, response.hover_pos())
            && point.x >= plot.left()
            && !response.dragged()
        {
            let mark = lanes.and_then(|lanes| lanes.at(state, frame, point));
            response.clone().on_hover_ui_at_pointer(|ui| match mark {
                Some((text, position)) => {
                    ui.label(RichText::new(moment(state, position)).strong());
                    ui.label(text);
                }
                None => tip(ui, state, series, bands, frame.position(state, point.x)),
            });
        }
        response.on_hover_cursor(CursorIcon::ResizeHorizontal);
    }
}

/// The bytes of the groups of colours over a part of the time.
fn bands_of<'b>(
    counting: &'b mut Background<BandsKey, Bands>,
    ui: &Ui,
    state: &State,
    groups: &Arc<ColourGroups>,
    (start, end): (u64, u64),
) -> Option<&'b Bands> {
    let (scope, axis, colours) = (state.scope, state.axis, state.colours.clone());
    let key = (colours.counted, scope, axis, start, end);
    let groups = Arc::clone(groups);
    let is_whole = (start, end) == (0, state.loaded.timeline().end());
    let spread = if axis == TimeAxis::Frames && is_whole { SeriesAxis::Frames } else { SeriesAxis::Events };
    let cost = finer::cost(state, start, end);
    counting.get_for(ui.ctx(), &state.loaded, cost, key, move |timeline| {
        let is_found = |allocation| colours.is_found(allocation);
        bands_within(timeline, &groups, scope, is_found, spread, start..end, SAMPLES)
    })
}

fn sampled(timeline: &allotment_analyze::Timeline<'_>, scope: Scope, axis: TimeAxis) -> Series {
    let spread = if axis == TimeAxis::Frames { SeriesAxis::Frames } else { SeriesAxis::Events };
    // One scope, one series.
    series(timeline, &[scope], spread, SAMPLES).pop().unwrap_or(Series { scope, samples: Vec::new() })
}

fn moment(state: &State, position: u64) -> String {
    let timeline = state.loaded.timeline();
    text::sentence(&text::moment(timeline, timeline.moment(position)))
}

fn controls(ui: &mut Ui, state: &mut State, peak: Option<u64>, palette: &Palette, colours: &mut ColoursPane) {
    ui.horizontal_wrapped(|ui| {
        colours.legend(ui, state, palette);
        ui.separator();
        for axis in TimeAxis::ALL {
            if !axis.suits(state.loaded.timeline()) {
                continue;
            }
            if ui.selectable_label(state.axis == axis, axis.name()).clicked() && state.axis != axis {
                state.leave(Change::Zoom);
                (state.axis, state.time) = (axis, Span::default());
            }
        }
        ui.separator();
        let button = ui.add_enabled(peak.is_some(), egui::Button::new("Peak"));
        if let (true, Some(peak)) =
            (button.on_hover_text("The moment with the most bytes in use (P)").clicked(), peak)
        {
            state.jump(peak);
        }
        for (index, name, key) in [(0, "Set A", "A"), (1, "Set B", "B")] {
            if ui.button(name).on_hover_text(format!("{name} to the cursor ({key})")).clicked() {
                state.set_mark(index, state.position());
            }
        }
        if !state.time.is_whole()
            && ui.button("Whole recording").on_hover_text("F, or double-click").clicked()
        {
            state.leave(Change::Zoom);
            state.time = Span::default();
        }
    });
}

fn input(brush: &mut Option<u64>, ui: &Ui, state: &mut State, response: &Response, frame: Frame) {
    let (shift, wheel, pinch) =
        ui.input(|input| (input.modifiers.shift, input.smooth_scroll_delta(), input.zoom_delta()));
    let pointer = response.interact_pointer_pos();
    if response.double_clicked() {
        state.leave(Change::Zoom);
        state.time = Span::default();
    } else if let (true, Some(at)) = (response.is_pointer_button_down_on(), pointer) {
        let position = frame.position(state, at.x);
        if response.dragged_by(PointerButton::Secondary) || response.dragged_by(PointerButton::Middle) {
            state.leave(Change::Zoom);
            state.time.pan(-f64::from(response.drag_delta().x / frame.plot.width()));
        } else if let Some(from) = *brush {
            // From the press to the release, also where Shift is let go before.
            if response.dragged() {
                let (low, high) = (from.min(position), from.max(position));
                (state.marks[0], state.marks[1]) = (Some(low), Some(high));
            }
        } else if shift {
            *brush = Some(position);
        } else if ui.input(|input| input.pointer.primary_down()) {
            state.move_cursor(position);
        }
    } else {
        // The button may have been pressed and released since the frame before.
        if let (true, false, None, Some(at)) = (response.clicked(), shift, *brush, pointer) {
            state.move_cursor(frame.position(state, at.x));
        }
        *brush = None;
    }
    let Some(over) = response.hover_pos() else { return };
    let factor = f64::from((-wheel.y / 200.0).exp() / pinch);
    if factor != 1.0 {
        state.leave(Change::Zoom);
        let at = f64::from((over.x - frame.plot.left()) / frame.plot.width()).clamp(0.0, 1.0);
        // Ten units at least are visible.
        let least = if frame.axis == TimeAxis::Seconds { 1e-6 } else { 10.0 / frame.length };
        state.time.zoom(at, factor, least);
    }
    if wheel.x != 0.0 {
        state.leave(Change::Zoom);
        state.time.pan(-f64::from(wheel.x / frame.plot.width()));
    }
}

/// The numbers below the plot: round ones.
pub(in crate::panes) fn units(ui: &Ui, state: &State, frame: Frame, area: Rect, palette: &Palette) {
    let (from, to) = (frame.view.from * frame.length, frame.view.to * frame.length);
    let rough = (to - from) / f64::from((frame.plot.width() / 110.0).max(1.0));
    let power = 10f64.powf(rough.log10().floor());
    let mut step =
        [1.0, 2.0, 5.0, 10.0].map(|k| k * power).into_iter().find(|&step| step >= rough).unwrap_or(rough);
    if frame.axis != TimeAxis::Seconds {
        step = step.max(1.0);
    }
    let font = FontId::proportional(11.5);
    let y = area.bottom() - BOTTOM + 2.0;
    let mut value = (from / step).ceil() * step;
    while value <= to {
        let x = frame.x_of(value);
        let label = match frame.axis {
            TimeAxis::Seconds => format!("{} s", (value * 1e6).round() / 1e6),
            _ => text::count(value.round() as u64),
        };
        ui.painter().vline(x, frame.plot.bottom()..=frame.plot.bottom() + 3.0, (1.0, palette.grid));
        // Not half outside of the pane.
        let align = if x > frame.plot.right() - 24.0 { Align2::RIGHT_TOP } else { Align2::CENTER_TOP };
        ui.painter().text(pos2(x, y), align, label, font.clone(), palette.muted);
        value += step;
    }
    ui.painter().text(
        pos2(area.left() + LEFT - 8.0, y),
        Align2::RIGHT_TOP,
        state.axis.name(),
        font,
        palette.muted,
    );
}

/// The cursor, the moments A to D, and the pointer.
fn cursors(ui: &Ui, state: &State, frame: Frame, area: Rect, response: &Response, palette: &Palette) {
    let painter =
        ui.painter().with_clip_rect(frame.plot.expand2(egui::vec2(6.0, 4.0)).with_max_y(area.bottom()));
    let bottom = area.bottom() - BOTTOM;
    let line = |x: f32, width: f32, colour| painter.vline(x, frame.plot.top()..=bottom, (width, colour));
    if let Some(pointer) = response.hover_pos().filter(|at| frame.plot.x_range().contains(at.x)) {
        line(pointer.x, 1.0, palette.muted.gamma_multiply(0.6));
    }
    line(frame.x(state, state.position()), 2.0, palette.cursor);
    if let [Some(a), Some(b), ..] = state.marks {
        let rect = Rect::from_x_y_ranges(frame.x(state, a)..=frame.x(state, b), frame.plot.top()..=bottom);
        painter.rect_filled(rect, 0.0, palette.accent.gamma_multiply(0.12));
    }
    for (name, mark) in ["A", "B", "C", "D"].into_iter().zip(state.marks) {
        let Some(position) = mark else { continue };
        let x = frame.x(state, position);
        line(x, 1.0, palette.accent);
        let centre = pos2(x, frame.plot.top() + 8.0);
        painter.circle_filled(centre, 7.5, palette.accent);
        painter.text(centre, Align2::CENTER_CENTER, name, FontId::proportional(10.5), palette.ground);
    }
}

/// The bytes at a moment.
fn tip(ui: &mut Ui, state: &State, series: &Series, bands: Option<(&ColourGroups, &Bands)>, position: u64) {
    ui.label(RichText::new(moment(state, position)).strong());
    let next = series.samples.partition_point(|sample| sample.moment.event < position);
    let Some(sample) = series.samples.get(next).or(series.samples.last()) else { return };
    let bytes = &sample.last;
    egui::Grid::new("bytes at a moment").num_columns(2).show(ui, |ui| {
        for (word, value) in [
            ("used", bytes.used),
            ("overhead", bytes.overhead()),
            ("pending release", bytes.pending),
            ("free in blocks", bytes.free),
            ("from the driver", bytes.size),
        ] {
            ui.label(word);
            ui.label(text::bytes(value));
            ui.end_row();
        }
        if let Some(budget) = sample.budget {
            ui.label("budget of the heap");
            ui.label(text::bytes(budget.budget));
            ui.end_row();
        }
    });
    let Some((groups, bands)) = bands else { return };
    let next = bands.samples.partition_point(|sample| sample.moment.event < position);
    let Some(sample) = bands.samples.get(next).or(bands.samples.last()) else { return };
    ui.separator();
    egui::Grid::new("groups at a moment").num_columns(2).show(ui, |ui| {
        for (name, &bytes) in groups.names().chain(["not what is searched"]).zip(&sample.last) {
            if bytes > 0 {
                ui.label(name);
                ui.label(text::bytes(bytes));
                ui.end_row();
            }
        }
    });
}
