//! How long released allocations wait for the GPU.

use allotment_trace::recording::Moment;

use crate::timeline::{AllocationIndex, Timeline};

/// How long allocations waited between their release and the moment at which they were freed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseLatency {
    /// Allocations that were released and then freed.
    pub completed: u64,
    /// Allocations that were freed at once, without a release before. In no histogram.
    pub immediate: u64,
    /// The recording has frames. Without them all waited for 0, which says nothing.
    pub has_frames: bool,
    /// How many waited for a number of frame ends, by the number. The last element has all that waited longer.
    pub frames: [u64; Self::FRAMES],
    /// How many waited for some nanoseconds: element 0 has those of 0 ns, element `n` those of 2ⁿ⁻¹ to 2ⁿ − 1.
    pub nanoseconds: [u64; 65],
    /// The most frames that one waited, and which did first.
    pub longest: Option<(AllocationIndex, u64)>,
    /// Allocations that wait at the moment.
    pub pending: u64,
    /// Bytes that were requested for them.
    pub pending_bytes: u64,
    /// The one that waits the longest, and when it was released.
    pub oldest: Option<(AllocationIndex, Moment)>,
}

impl ReleaseLatency {
    /// Numbers of frames that are counted apart.
    pub const FRAMES: usize = 64;

    /// Looks at every allocation that began before a position. What is freed later waits there.
    ///
    /// ```
    /// use allotment_analyze::{ReleaseLatency, Timeline};
    /// use allotment_trace::recording::Recording;
    ///
    /// let recording = Recording::default();
    /// let latency = ReleaseLatency::at(&Timeline::new(&recording), 0);
    /// assert_eq!((latency.completed, latency.pending), (0, 0));
    /// ```
    #[must_use]
    pub fn at(timeline: &Timeline<'_>, position: u64) -> Self {
        let mut latency = Self {
            completed: 0,
            immediate: 0,
            has_frames: timeline.frame_count() > 0,
            frames: [0; Self::FRAMES],
            nanoseconds: [0; 65],
            longest: None,
            pending: 0,
            pending_bytes: 0,
            oldest: None,
        };
        for (allocation, life) in timeline.lifetimes() {
            if life.allocated >= position {
                break;
            }
            // An event that loses all that was known frees nothing.
            let freed = life.freed.filter(|&event| event < position);
            if freed.is_some_and(|event| timeline.is_loss(event)) {
                continue;
            }
            let requested = life.free_requested.filter(|&event| event < position);
            match (requested, freed) {
                (Some(requested), Some(freed)) => latency.complete(timeline, allocation, requested, freed),
                (None, Some(_)) => latency.immediate += 1,
                (Some(requested), None) => {
                    latency.pending += 1;
                    let bytes = timeline.requested(allocation);
                    latency.pending_bytes = latency.pending_bytes.saturating_add(bytes);
                    if latency.oldest.is_none_or(|(_, oldest)| requested < oldest.event) {
                        latency.oldest = Some((allocation, timeline.moment(requested)));
                    }
                }
                (None, None) => {}
            }
        }
        latency
    }

    fn complete(&mut self, timeline: &Timeline<'_>, allocation: AllocationIndex, requested: u64, freed: u64) {
        let (requested, freed) = (timeline.moment(requested), timeline.moment(freed));
        let frames = freed.frame - requested.frame;
        // The times of an imported recording may go back.
        let nanoseconds = freed.nanoseconds.saturating_sub(requested.nanoseconds);
        self.completed += 1;
        self.frames[frames.min(Self::FRAMES as u64 - 1) as usize] += 1;
        self.nanoseconds[(u64::BITS - nanoseconds.leading_zeros()) as usize] += 1;
        if self.longest.is_none_or(|(_, longest)| frames > longest) {
            self.longest = Some((allocation, frames));
        }
    }

    /// Returns the number of frames within which some share of the completed allocations was freed, from 0 to 1: with
    /// 0.5 the median. 0 where there are none; at most [`FRAMES`](Self::FRAMES) − 1, which means that or more.
    #[must_use]
    pub fn frames_at(&self, share: f64) -> u64 {
        let wanted = (self.completed as f64 * share.clamp(0.0, 1.0)).ceil() as u64;
        let mut sum = 0;
        let found = self.frames.iter().position(|&count| {
            sum += count;
            sum >= wanted
        });
        found.unwrap_or(0) as u64
    }
}
