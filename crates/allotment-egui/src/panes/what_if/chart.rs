//! The bytes of both sides over time, in one chart.

use egui::{Align2, Color32, FontId, Pos2, Rect, Role, Sense, Shape, Ui, WidgetInfo, pos2};

use super::NAMES;
use super::answer::{Answer, Sample};
use crate::panes::timeline::byte_scale;
use crate::state::{Palette, State};
use crate::text;

/// Of the numbers at the left.
const LEFT: f32 = 66.0;
/// Of the legend at the top.
const TOP: f32 = 18.0;

/// The colours of the sides.
pub(super) const fn colours(palette: &Palette) -> [Color32; 2] {
    [palette.accent, palette.stall]
}

pub(super) fn ui(ui: &mut Ui, state: &mut State, sides: [&Answer; 2], palette: &Palette) {
    let (area, response) = ui.allocate_exact_size(ui.available_size(), Sense::click());
    response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Bytes of A and B over time"));
    let plot = Rect::from_min_max(
        pos2(area.left() + LEFT, area.top() + TOP),
        pos2(area.right() - 6.0, (area.bottom() - 4.0).max(area.top() + TOP + 10.0)),
    );
    ui.painter().rect_filled(plot, 2.0, palette.ground);
    let highest = sides.iter().flat_map(|side| &side.curve).map(|sample| sample.blocks).max();
    let top = (highest.unwrap_or(0) as f64 * 1.06).max(1.0);
    byte_scale(ui, plot, top, palette);
    let painter = ui.painter().with_clip_rect(plot.expand(1.0));
    let y = |bytes: u64| plot.bottom() - (bytes as f64 / top) as f32 * plot.height();
    for (side, colour) in sides.into_iter().zip(colours(palette)) {
        for (value, width, colour) in [
            (used as fn(&Sample) -> u64, 1.0, colour.gamma_multiply(0.55)),
            (blocks as fn(&Sample) -> u64, 1.8, colour),
        ] {
            painter.add(Shape::line(steps(&side.curve, plot, |sample| y(value(sample))), (width, colour)));
        }
    }
    legend(ui, area, plot, palette);
    let x = plot.left() + share_of(state, state.position()) as f32 * plot.width();
    painter.vline(x, plot.y_range(), (1.5, palette.cursor));
    let Some(at) = response.hover_pos() else { return };
    let share = f64::from(((at.x - plot.left()) / plot.width().max(1.0)).clamp(0.0, 1.0));
    if response.clicked() {
        let position = position_of(state, share);
        state.jump(position);
    }
    painter.vline(at.x, plot.y_range(), (1.0, palette.muted.gamma_multiply(0.6)));
    response.on_hover_ui_at_pointer(|ui| tip(ui, state, sides, share));
}

fn blocks(sample: &Sample) -> u64 {
    sample.blocks
}

fn used(sample: &Sample) -> u64 {
    sample.used
}

/// A line that is level from one sample to the next.
fn steps(curve: &[Sample], plot: Rect, y: impl Fn(&Sample) -> f32) -> Vec<Pos2> {
    let mut points = Vec::with_capacity(curve.len() * 2);
    let mut from = 0.0;
    for sample in curve {
        let x = |share: f64| plot.left() + share as f32 * plot.width();
        points.extend([pos2(x(from), y(sample)), pos2(x(sample.at), y(sample))]);
        from = sample.at;
    }
    points
}

fn legend(ui: &Ui, area: Rect, plot: Rect, palette: &Palette) {
    let mut x = plot.left();
    for (name, colour) in NAMES.into_iter().zip(colours(palette)) {
        for (word, width, colour) in [("blocks", 1.8, colour), ("used", 1.0, colour.gamma_multiply(0.55))] {
            let y = area.top() + TOP / 2.0 - 1.0;
            ui.painter().hline(x..=x + 16.0, y, (width, colour));
            let font = FontId::proportional(11.5);
            let words = format!("{name} {word}");
            let drawn = ui.painter().text(pos2(x + 20.0, y), Align2::LEFT_CENTER, words, font, palette.muted);
            x = drawn.right() + 16.0;
        }
    }
}

/// A position as a share of the recording: of its frames, or of its events where it has none.
fn share_of(state: &State, position: u64) -> f64 {
    let timeline = state.loaded.timeline();
    let frames = timeline.frame_count();
    let (at, length) =
        if frames > 0 { (timeline.moment(position).frame, frames) } else { (position, timeline.end()) };
    at as f64 / length.max(1) as f64
}

/// The end of the frame at a share of the recording.
fn position_of(state: &State, share: f64) -> u64 {
    let timeline = state.loaded.timeline();
    let frames = timeline.frame_count();
    if frames > 0 {
        timeline.position_of_frame((share * frames as f64) as u64)
    } else {
        (share * timeline.end() as f64).round() as u64
    }
}

fn tip(ui: &mut Ui, state: &State, sides: [&Answer; 2], share: f64) {
    let timeline = state.loaded.timeline();
    let moment = timeline.moment(position_of(state, share));
    ui.label(egui::RichText::new(text::sentence(&text::moment(timeline, moment))).strong());
    for (side, name) in sides.into_iter().zip(NAMES) {
        let next = side.curve.partition_point(|sample| sample.at < share);
        let Some(sample) = side.curve.get(next).or(side.curve.last()) else { continue };
        ui.label(format!(
            "{name}: {} in blocks, {} used",
            text::bytes(sample.blocks),
            text::bytes(sample.used)
        ));
    }
}
