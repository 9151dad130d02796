//! What two recordings are compared by.

use crate::cursor::Cursor;
use crate::figures::Figures;
use crate::scope::Scope;
use crate::series::{Peak, Peaks};
use crate::timeline::Timeline;

/// The most memory that a recording has at once, and what that is made of.
///
/// ```
/// use allotment_analyze::{PeakFigures, Timeline};
/// use allotment_trace::recording::Recording;
///
/// let recording = Recording::default();
/// assert_eq!(PeakFigures::of(&Timeline::new(&recording)).wasted(), 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeakFigures {
    /// The peaks.
    pub peaks: Peaks,
    /// All blocks at the peak of their bytes.
    pub at_peak: Figures,
    /// Blocks that the driver allocated in all.
    pub allocated_blocks: u64,
    /// Requests that were refused.
    pub refused: u64,
}

impl PeakFigures {
    /// Finds them, in one walk over the events.
    #[must_use]
    pub fn of(timeline: &Timeline<'_>) -> Self {
        let peaks = Peaks::of(timeline, Scope::All);
        let Peak { moment, .. } = peaks.blocks;
        let at_peak = Figures::of_all(&Cursor::at(timeline, moment.event));
        let allocated_blocks = timeline.blocks().len() as u64;
        Self { peaks, at_peak, allocated_blocks, refused: timeline.refusals().count() as u64 }
    }

    /// Returns the bytes of the blocks at their peak that the program had not requested.
    #[must_use]
    pub fn wasted(&self) -> u64 {
        self.at_peak.bytes.size.saturating_sub(self.at_peak.bytes.used)
    }
}
