//! The results of a contender for a state.

use core::time::Duration;

use super::contents::Contents;

/// A defragmentation from the first pass to the last. Nothing is copied.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) before: Contents,
    pub(super) after: Contents,
    /// Bytes that would have been copied, by the contender's count.
    pub(super) bytes_moved: u64,
    pub(super) moves: u64,
    /// Passes with moves.
    pub(super) passes: u32,
    /// Processor time of each call that plans a pass, including calls without a result.
    pub(super) found: Vec<Duration>,
    /// Processor time of all calls that end a pass, including blocks freed to the device.
    pub(super) ended: Duration,
    /// The contender's own lower bound, if it reports one, and the same computed from its blocks.
    pub(super) own_bound: Option<OwnBound>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct OwnBound {
    pub(super) said: u64,
    pub(super) counted: u64,
}

impl Outcome {
    pub(super) fn plan_us(&self) -> f64 {
        self.found.iter().sum::<Duration>().as_secs_f64() * 1e6
    }

    pub(super) fn longest_us(&self) -> f64 {
        self.found.iter().max().map_or(0.0, |longest| longest.as_secs_f64() * 1e6)
    }
}
