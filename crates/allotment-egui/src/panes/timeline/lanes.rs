//! Lanes below the plot: ends of frames, stalls, refusals, marks.

use allotment_analyze::Timeline;
use allotment_trace::recording::Event;
use egui::{Align2, Color32, FontId, Pos2, Shape, Stroke, Ui, pos2};

use super::Frame;
use crate::state::{Palette, State};
use crate::text;

const HEIGHT: f32 = 15.0;

/// A lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Frames,
    Stalls,
    Refusals,
    Marks,
    Lost,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Frames => "frames",
            Self::Stalls => "stalls",
            Self::Refusals => "refusals",
            Self::Marks => "marks",
            Self::Lost => "lost",
        }
    }

    const fn colour(self, palette: &Palette) -> Color32 {
        match self {
            Self::Frames => palette.muted,
            Self::Stalls => palette.stall,
            Self::Refusals | Self::Lost => palette.alarm,
            Self::Marks => palette.accent,
        }
    }
}

/// The lanes of a recording that have something.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: Vec<(Kind, Vec<u64>)>,
}

impl Lanes {
    pub(super) fn of(timeline: &Timeline<'_>) -> Self {
        let frames = (0..timeline.frame_count()).map(|frame| timeline.position_of_frame(frame)).collect();
        let lanes = vec![
            (Kind::Frames, frames),
            (Kind::Stalls, timeline.stalls().collect()),
            (Kind::Refusals, timeline.refusals().collect()),
            (Kind::Marks, timeline.marks().collect()),
            (Kind::Lost, timeline.losses().collect()),
        ];
        Self { lanes: lanes.into_iter().filter(|(_, at): &(_, Vec<_>)| !at.is_empty()).collect() }
    }

    pub(super) fn height(&self) -> f32 {
        self.lanes.len() as f32 * HEIGHT + 3.0
    }

    pub(super) fn draw(&self, ui: &Ui, state: &State, frame: Frame, palette: &Palette) {
        for (number, (kind, at)) in self.lanes.iter().enumerate() {
            let top = frame.plot.bottom() + 3.0 + number as f32 * HEIGHT;
            let middle = top + HEIGHT / 2.0;
            let font = FontId::proportional(11.5);
            let left = pos2(frame.plot.left() - 8.0, middle);
            ui.painter().text(left, Align2::RIGHT_CENTER, kind.name(), font, palette.muted);
            let painter = ui
                .painter()
                .with_clip_rect(frame.plot.with_max_y(top + HEIGHT).expand2(egui::vec2(5.0, 0.0)));
            let colour = kind.colour(palette);
            let end = frame.position(state, frame.plot.right());
            let mut next =
                at.partition_point(|&position| position < frame.position(state, frame.plot.left()));
            while let Some(&position) = at.get(next).filter(|&&position| position <= end) {
                let x = frame.x(state, position);
                if *kind == Kind::Frames {
                    painter.vline(x, top + 3.0..=top + HEIGHT - 3.0, (1.0, colour));
                } else {
                    let points =
                        vec![pos2(x, top + 3.0), pos2(x + 4.5, top + 11.5), pos2(x - 4.5, top + 11.5)];
                    painter.add(Shape::convex_polygon(points, colour, Stroke::NONE));
                }
                // The next one that is at least a pixel further.
                let further = frame.position(state, x + 1.5).max(position + 1);
                next += at[next..].partition_point(|&position| position < further);
            }
        }
    }

    /// The text and the position of the mark under the pointer.
    pub(super) fn at(&self, state: &State, frame: Frame, point: Pos2) -> Option<(String, u64)> {
        let below = (point.y - frame.plot.bottom() - 3.0) / HEIGHT;
        if below < 0.0 {
            return None;
        }
        let (kind, at) = self.lanes.get(below as usize)?;
        let near = at.partition_point(|&position| position < frame.position(state, point.x));
        let distance = |position: u64| (frame.x(state, position) - point.x).abs();
        let around =
            [near.checked_sub(1), Some(near)].into_iter().flatten().filter_map(|index| at.get(index));
        let &position = around.min_by(|&&a, &&b| distance(a).total_cmp(&distance(b)))?;
        (distance(position) < 7.0).then(|| (describe(state, *kind, position), position))
    }
}

/// An event of a lane in words.
fn describe(state: &State, kind: Kind, position: u64) -> String {
    let recording = state.loaded.recording();
    match recording.events.get(position as usize) {
        Some(&Event::Stalled { kind, nanoseconds }) => {
            format!("A thread waited {} for: {kind}", text::duration(nanoseconds))
        }
        Some(&Event::Refused { reason, requested, available, .. }) => format!(
            "{} were refused: {reason}; {} were there",
            text::bytes(requested),
            text::bytes(available)
        ),
        Some(&Event::Mark { text }) => recording.text(text).unwrap_or("a mark").to_owned(),
        Some(&Event::FrameEnd { number }) => format!("Frame {} ends", text::count(number)),
        _ => match kind {
            Kind::Lost => "Events were lost here: the reader was too slow".to_owned(),
            _ => String::new(),
        },
    }
}
