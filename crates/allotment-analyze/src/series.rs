//! Bytes over time: in few enough samples to draw, without losing a peak between two of them.

use core::ops::Range;

use allotment_trace::recording::{Budget, Event, Moment};

use crate::block_bytes::BlockBytes;
use crate::running::Running;
use crate::scope::Scope;
use crate::timeline::{BlockIndex, Timeline};

/// The unit that the samples of a series divide evenly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SeriesAxis {
    /// The events.
    #[default]
    Events,
    /// The frames. What follows the last end of a frame is a frame as well.
    Frames,
}

/// A sample: the peaks from the sample before up to a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesSample {
    /// The moment.
    pub moment: Moment,
    /// The bytes there.
    pub last: BlockBytes,
    /// The most that each of the bytes was since the sample before, each for itself.
    pub peak: BlockBytes,
    /// The budget as the driver last told it. Only for a scope of one heap.
    pub budget: Option<Budget>,
}

/// The bytes of a scope over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The scope.
    pub scope: Scope,
    /// In the order of time. `padding` and `aliased` of their bytes are 0.
    pub samples: Vec<SeriesSample>,
}

/// The most bytes of a kind at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// Bytes.
    pub bytes: u64,
    /// The first moment with that number of bytes.
    pub moment: Moment,
}

/// The peaks of a scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peaks {
    /// Of the bytes that the program requested and used.
    pub used: Peak,
    /// Of all bytes that allocations occupied: used, pending release and overhead.
    pub occupied: Peak,
    /// Of the bytes of the blocks.
    pub blocks: Peak,
}

impl Peaks {
    /// Finds the peaks of a scope, in one walk over the events.
    ///
    /// ```
    /// use allotment_analyze::{Peaks, Scope, Timeline};
    /// use allotment_trace::recording::Recording;
    ///
    /// let recording = Recording::default();
    /// let peaks = Peaks::of(&Timeline::new(&recording), Scope::All);
    /// assert_eq!(peaks.used.bytes, 0);
    /// ```
    #[must_use]
    pub fn of(timeline: &Timeline<'_>, scope: Scope) -> Self {
        let mut peaks = Self::default();
        walk(timeline, &[scope], 0..timeline.end(), |position, _, sums| {
            let bytes = sums[0].bytes();
            for (peak, now) in [
                (&mut peaks.used, bytes.used),
                (&mut peaks.occupied, bytes.size - bytes.free),
                (&mut peaks.blocks, bytes.size),
            ] {
                if now > peak.bytes {
                    *peak = Peak { bytes: now, moment: Moment { event: position, ..Moment::default() } };
                }
            }
        });
        for peak in [&mut peaks.used, &mut peaks.occupied, &mut peaks.blocks] {
            peak.moment = timeline.moment(peak.moment.event);
        }
        peaks
    }
}

/// Returns the bytes over time of each of some scopes, in at most `samples` samples each, in one walk over the events.
///
/// ```
/// use allotment_analyze::{Scope, SeriesAxis, Timeline, series};
/// use allotment_trace::recording::{Event, Recording};
///
/// let events = vec![Event::FrameEnd { number: 0 }; 1000];
/// let recording = Recording { events, ..Recording::default() };
/// let all = series(&Timeline::new(&recording), &[Scope::All], SeriesAxis::Frames, 100);
/// assert_eq!(all[0].samples.len(), 100);
/// ```
#[must_use]
pub fn series(timeline: &Timeline<'_>, scopes: &[Scope], axis: SeriesAxis, samples: usize) -> Vec<Series> {
    series_within(timeline, scopes, axis, 0..timeline.end(), samples)
}

/// Returns the bytes over a part of the time of each of some scopes, in at most `samples` samples and one for its
/// beginning. Costs the way to the nearest checkpoint, and a walk over the events of the part.
///
/// ```
/// use allotment_analyze::{Scope, SeriesAxis, Timeline, series_within};
/// use allotment_trace::recording::{Event, Recording};
///
/// let events = vec![Event::FrameEnd { number: 0 }; 1000];
/// let recording = Recording { events, ..Recording::default() };
/// let timeline = Timeline::new(&recording);
/// let part = series_within(&timeline, &[Scope::All], SeriesAxis::Events, 500..510, 100).remove(0);
/// let events: Vec<_> = part.samples.iter().map(|sample| sample.moment.event).collect();
/// assert_eq!(events, (500..=510).collect::<Vec<_>>());
/// ```
#[must_use]
pub fn series_within(
    timeline: &Timeline<'_>,
    scopes: &[Scope],
    axis: SeriesAxis,
    positions: Range<u64>,
    samples: usize,
) -> Vec<Series> {
    let end = positions.end.min(timeline.end());
    let start = positions.start.min(end);
    let borders = borders(timeline, axis, start..end, samples);
    let mut series: Vec<Series> =
        scopes.iter().map(|&scope| Series { scope, samples: Vec::with_capacity(borders.len()) }).collect();
    let mut peaks = vec![BlockBytes::default(); scopes.len()];
    let mut borders = borders.into_iter().peekable();
    walk(timeline, scopes, start..end, |position, changed, sums| {
        if changed {
            for (peak, sum) in peaks.iter_mut().zip(sums) {
                *peak = peak.most(sum.bytes());
            }
        }
        if borders.next_if_eq(&position).is_none() {
            return;
        }
        for ((series, sum), peak) in series.iter_mut().zip(sums).zip(&mut peaks) {
            let last = sum.bytes();
            let budget = match series.scope {
                Scope::Heap(heap) => timeline.budget_at(heap, position),
                _ => None,
            };
            series.samples.push(SeriesSample {
                moment: timeline.moment(position),
                last,
                peak: peak.most(last),
                budget,
            });
            *peak = last;
        }
    });
    series
}

/// The positions of the samples of a part, in their order.
pub(crate) fn borders(
    timeline: &Timeline<'_>,
    axis: SeriesAxis,
    Range { start, end }: Range<u64>,
    samples: usize,
) -> Vec<u64> {
    let count = samples.max(1) as u64;
    let of = |n: u64, all: u64| (u128::from(all) * u128::from(n) / u128::from(count)) as u64;
    let (first, last) = (timeline.moment(start).frame, timeline.moment(end).frame);
    // A part has a sample where it begins, so that a drawing has the bytes there.
    let mut borders: Vec<u64> = (u64::from(start == 0)..=count)
        .map(|n| match axis {
            SeriesAxis::Events => start + of(n, end - start),
            // The position behind the end of a frame; frame n ends with the event at its position. What follows the last
            // end is a frame as well.
            SeriesAxis::Frames => match first + of(n, last - first + 1) {
                0 => start,
                frame => timeline.position_of_frame(frame - 1).saturating_add(1).clamp(start, end),
            },
        })
        .collect();
    borders.dedup();
    borders
}

/// A sum over blocks. Wide, since sizes in a wrong recording may be anything, and a sum must shrink as it grew.
#[derive(Clone, Copy, Debug, Default)]
struct Sum([u128; 7]);

impl Sum {
    fn change(&mut self, before: &BlockBytes, after: &BlockBytes) {
        let parts = |of: &BlockBytes| {
            [of.size, of.used, of.pending, of.reserved, of.rounding, of.free, of.allocations]
        };
        for ((sum, before), after) in self.0.iter_mut().zip(parts(before)).zip(parts(after)) {
            *sum = *sum + u128::from(after) - u128::from(before);
        }
    }

    fn bytes(&self) -> BlockBytes {
        let [size, used, pending, reserved, rounding, free, allocations] =
            self.0.map(|sum| u64::try_from(sum).unwrap_or(u64::MAX));
        BlockBytes { size, used, pending, reserved, rounding, free, padding: 0, aliased: 0, allocations }
    }
}

/// Calls a function for each position of a part, both ends included, with whether the last event changed bytes, and the
/// sum of each scope.
fn walk(
    timeline: &Timeline<'_>,
    scopes: &[Scope],
    positions: Range<u64>,
    mut visit: impl FnMut(u64, bool, &[Sum]),
) {
    let mut running = Running::at(timeline, positions.start);
    let mut sums = vec![Sum::default(); scopes.len()];
    // The scopes of a block do not change, so each block is asked once.
    let mut members: Vec<Option<Box<[u32]>>> = vec![None; timeline.blocks().len()];
    for (block, bytes) in running.blocks() {
        for (sum, scope) in sums.iter_mut().zip(scopes) {
            if scope.contains(timeline, BlockIndex(block)) {
                sum.change(&BlockBytes::default(), bytes);
            }
        }
    }
    visit(positions.start, true, &sums);
    while u64::from(running.position()) < positions.end {
        let Some(event) = running.step() else { break };
        let mut changed = matches!(event, Event::Lost);
        for (block, before, after) in running.changed() {
            let of_block = members[block as usize].get_or_insert_with(|| {
                let scopes = scopes.iter().zip(0..);
                scopes
                    .filter(|(scope, _)| scope.contains(timeline, BlockIndex(block)))
                    .map(|(_, index)| index)
                    .collect()
            });
            for &scope in of_block.iter() {
                sums[scope as usize].change(&before, &after);
                changed = true;
            }
        }
        visit(u64::from(running.position()), changed, &sums);
    }
}
