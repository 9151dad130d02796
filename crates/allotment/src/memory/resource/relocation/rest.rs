//! When a defragmenter surveys the pools again.
//!
//! A survey takes a microsecond for every few allocations, and most of them find nothing to gain in pools that are well
//! filled. So after each of these the defragmenter rests, twice as long as the time before, until it gains something
//! again: pools in which much comes and goes are surveyed in each step, all others now and then.

use crate::memory::statistics::Statistics;

/// The longest rest, unless much was freed since.
const MOST_STEPS: u32 = 16;

/// Steps without a survey while the statistics of the pools are unchanged.
const STEPS_UNCHANGED: u32 = 256;

/// Freed bytes count as much from this part of an average block on: an eighth.
const MUCH_OF_BLOCK: u64 = 8;

/// Steps without a survey.
#[derive(Debug)]
pub(super) struct Rest {
    /// Those since the last survey.
    steps: u32,
    /// Those until the next one.
    most: u32,
    /// Something has moved since the last rest began.
    gained: bool,
    /// The statistics of the pools when the last survey began; during a rest, those it is known to have seen.
    seen: Statistics,
}

impl Rest {
    /// Creates one that is over.
    pub(super) fn new() -> Self {
        Self { steps: STEPS_UNCHANGED, most: 0, gained: false, seen: Statistics::default() }
    }

    /// Notes a pass.
    pub(super) fn note_moves(&mut self, moves: u32) {
        self.gained |= moves != 0;
    }

    /// Ends the rest: a survey begins.
    pub(super) fn end(&mut self, now: Statistics) {
        self.seen = now;
    }

    /// Begins a rest, once nothing is to be gained any more.
    pub(super) fn begin(&mut self, now: Statistics) {
        let most = if self.gained { 1 } else { (self.most * 2).clamp(1, MOST_STEPS) };
        // A survey goes on for several steps, and may have read the records of what the program freed meanwhile. What
        // the defragmenter itself changes is only the blocks.
        let allocations = |it: &Statistics| (it.allocations, it.allocation_bytes);
        let seen = if allocations(&now) == allocations(&self.seen) { now } else { self.seen };
        *self = Self { steps: 0, most, gained: false, seen };
    }

    /// Counts a step. Returns true where it need not survey the pools: nothing changed, or the last survey is recent.
    pub(super) fn goes_on(&mut self, now: Statistics) -> bool {
        self.steps = self.steps.saturating_add(1);
        // Freed bytes mean holes; new allocations alone give nothing to gain.
        let more_free = now.free().saturating_sub(self.seen.free());
        let block = now.block_bytes / u64::from(now.blocks + now.dedicated).max(1);
        let much_was_freed = more_free >= (block / MUCH_OF_BLOCK).max(1);
        // The same statistics may hide a different layout, so the pools are surveyed again after a longer time.
        let most = if now == self.seen { STEPS_UNCHANGED } else { self.most };
        !much_was_freed && self.steps < most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps without a survey, in pools that change all the time.
    fn rest(rest: &mut Rest) -> u32 {
        rest.begin(Statistics::default());
        let changed = |allocations| Statistics { allocations, ..Statistics::default() };
        (1..).take_while(|&step| rest.goes_on(changed(step))).count() as u32
    }

    #[test]
    fn each_survey_that_gains_nothing_is_followed_by_a_longer_rest_and_a_gain_by_none() {
        let mut it = Rest::new();
        assert!(!it.goes_on(Statistics::default()), "the first step surveys");
        let rests: Vec<_> = (0..6).map(|_| rest(&mut it)).collect();
        assert_eq!(rests, [0, 1, 3, 7, 15, 15]);
        it.note_moves(0);
        assert_eq!(rest(&mut it), 15);
        it.note_moves(1);
        assert_eq!([rest(&mut it), rest(&mut it)], [0, 1]);
    }

    #[test]
    fn a_rest_ends_for_what_was_freed_while_the_survey_was_made() {
        let full = Statistics { blocks: 1, block_bytes: 800, allocation_bytes: 800, ..Statistics::default() };
        let freed = Statistics { allocation_bytes: 400, ..full };
        let mut it = Rest::new();
        it.end(full);
        it.begin(freed);
        assert!(!it.goes_on(freed));
        it.end(freed);
        it.begin(freed);
        assert!(it.goes_on(freed), "this survey began after that");
    }

    #[test]
    fn a_rest_is_long_while_nothing_changes_and_ends_where_much_was_freed() {
        let mut it = Rest::new();
        let full = Statistics { blocks: 1, block_bytes: 800, allocation_bytes: 800, ..Statistics::default() };
        it.end(full);
        it.begin(full);
        assert!((1..STEPS_UNCHANGED).all(|_| it.goes_on(full)));
        assert!(!it.goes_on(full));
        (0..9).for_each(|_| it.begin(full));
        assert!(it.goes_on(Statistics { allocation_bytes: 701, ..full }), "99 bytes of 800");
        assert!(!it.goes_on(Statistics { allocation_bytes: 700, ..full }), "an eighth");
    }
}
