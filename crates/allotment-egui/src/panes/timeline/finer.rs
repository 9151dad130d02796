//! More samples where the view shows a small part of a long recording.
//!
//! ```text
//!   whole recording   |· · · · · · · · · · · · · · · ·|     8,192 samples
//!   the view                  |‹   ›|                       fewer of them than pixels
//!   the counted part        |···············|               8,192 samples, of up to twice the view
//! ```
//!
//! The part begins and ends at round numbers, so that it stays the same while the view moves a little.

use core::ops::Range;
use core::time::Duration;

use allotment_analyze::{Scope, Series, SeriesAxis, TimeAxis, Timeline, series_within};

use super::{Frame, SAMPLES};
use crate::state::State;

/// The time of a walk for each event, and of the way to its beginning for each allocation that exists.
const EACH: Duration = Duration::from_nanos(300);

/// Returns the part of the events that is to be sampled by itself; `None` where the samples of the whole recording are
/// as fine.
pub(super) fn part_to_count(state: &State, frame: Frame) -> Option<(u64, u64)> {
    let timeline = state.loaded.timeline();
    let (start, end) = (frame.position(state, frame.plot.left()), frame.position(state, frame.plot.right()));
    part(start, end, timeline.end(), frame.axis)
}

fn part(start: u64, end: u64, all: u64, axis: TimeAxis) -> Option<(u64, u64)> {
    // In a recording whose times go back, the end may come first.
    let visible = end.saturating_sub(start).max(1);
    // The samples of the whole are frames apart on an axis of frames, and events on the others.
    let is_fine = axis != TimeAxis::Frames && all <= SAMPLES as u64;
    if is_fine || visible > all / 4 {
        return None;
    }
    let step = visible.next_power_of_two();
    let start = start / step * step;
    Some((start, (start + 2 * step).min(all)))
}

/// The time that the samples of a part take.
pub(super) fn cost(state: &State, start: u64, end: u64) -> Duration {
    let steps = end - start + state.loaded.cursor().allocation_count() as u64;
    EACH.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX))
}

pub(super) fn sampled(timeline: &Timeline<'_>, scope: Scope, part: Range<u64>) -> Series {
    let found = series_within(timeline, &[scope], SeriesAxis::Events, part, SAMPLES).pop();
    found.unwrap_or(Series { scope, samples: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_covers_the_view_and_stays_while_the_view_moves_a_little() {
        let all = 1_000_000;
        for start in (0..all - 3000).step_by(977) {
            let (from, to) = part(start, start + 3000, all, TimeAxis::Events).unwrap();
            assert!(from <= start && start + 3000 <= to && to - from <= 4 * 3000, "{from} {to}");
        }
        let events = |start| part(start, start + 3000, all, TimeAxis::Events);
        assert_eq!(events(40_960), events(41_000));
        assert_eq!(events(500).unwrap().0, 0);
    }

    #[test]
    fn the_whole_and_a_short_recording_need_no_part() {
        assert_eq!(part(0, 1_000_000, 1_000_000, TimeAxis::Events), None);
        assert_eq!(part(10, 20, 8000, TimeAxis::Events), None);
        assert!(part(10, 20, 8000, TimeAxis::Frames).is_some(), "between two ends of frames");
    }
}
