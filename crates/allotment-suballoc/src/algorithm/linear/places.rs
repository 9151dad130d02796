//! All regions of a linear block in address order, though only the ranges are stored: each has an index of its own
//! nevertheless, by which others walk over the block.
//!
//! ```text
//!   index       region
//!   i           the range of the entry i
//!   i + 2^30    its padding
//!   i + 2^31    the hole before both
//!   GAP         the gap
//!   TOP         the hole at the end of the block
//! ```

use super::Linear;
use super::queue::Entry;
use crate::algorithm::Place;
use crate::algorithm::tlsf::Width;
use crate::algorithm::{NONE, State};

/// The lowest index that is not that of an entry.
pub(super) const FIRST_CODE: u32 = PADDING;

// Brittle: the two highest bits say which region of an entry is meant. `is_full` refuses a request before an entry has one of
// them, and the codes of the gap and of the top are above those of any hole.
const PADDING: u32 = 1 << 30;
const HOLE: u32 = 2 << 30;
const CODES: u32 = 3 << 30;

/// The gap, which may be empty.
pub(super) const GAP: u32 = NONE - 1;

/// The hole at the end of the block, of a ring or a double stack.
const TOP: u32 = NONE - 2;

/// Returns the index of the hole before an entry and its padding.
pub(super) fn hole_before(index: u32) -> u32 {
    index | HOLE
}

impl<W: Width> Linear<W> {
    #[inline]
    pub(super) fn place_of(&self, index: u32) -> Place {
        if index & CODES == 0 { self.place_of_entry(index) } else { self.place_of_other(index) }
    }

    #[inline]
    fn place_of_entry(&self, index: u32) -> Place {
        let entry = self.queue.at(index);
        if entry.is_dead() {
            return Place { offset: 0, size: 0, state: State::Vacant, before: NONE, after: NONE };
        }
        let padding = entry.to() > entry.end();
        let after = if padding { index | PADDING } else { self.place_after(index) };
        place(entry.offset(), entry.end(), State::Used, after)
    }

    fn place_of_other(&self, index: u32) -> Place {
        match index {
            GAP => {
                let after = if self.highest == NONE {
                    NONE
                } else {
                    self.place_from(self.gap_end, self.queue.first())
                };
                place(self.gap_start, self.gap_end, State::Free, after)
            }
            TOP => place(self.top(), self.size, State::Free, NONE),
            _ if index & CODES == PADDING => self.place_of_padding(index & !CODES),
            _ => {
                let index = index & !CODES;
                let start = self.live_below(index).map_or(0, |below| self.queue.at(below).to());
                let entry = self.queue.at(index);
                place(start, entry.from(), State::Free, front_of(index, &entry))
            }
        }
    }

    fn place_of_padding(&self, index: u32) -> Place {
        let entry = self.queue.at(index);
        if entry.is_upper() {
            place(entry.end(), entry.to(), State::Padding, self.place_after(index))
        } else {
            place(entry.from(), entry.offset(), State::Padding, index)
        }
    }

    /// Returns what is above the entry `index` and its padding.
    fn place_after(&self, index: u32) -> u32 {
        // The order of addresses is that of the queue but for two places: the gap comes behind the last entry, and the end of
        // the block behind the highest.
        if self.is_below_gap(index) {
            return GAP;
        }
        let to = self.queue.at(index).to();
        match self.live_above(index) {
            Some(above) => self.place_from(to, above),
            None if to < self.size => TOP,
            None => NONE,
        }
    }

    /// Returns the region that begins at `start`, where nothing but the entry `index` is above.
    fn place_from(&self, start: u64, index: u32) -> u32 {
        let entry = self.queue.at(index);
        if entry.from() > start { hole_before(index) } else { front_of(index, &entry) }
    }

    pub(super) fn first_place(&self) -> u32 {
        //   queue   B C │ D E      B is the first above the gap, C the highest; D, behind C in the queue, is the lowest
        // Above the highest range the queue goes on with the lowest.
        let lowest = match self.highest {
            NONE if self.queue.is_empty() => return GAP,
            NONE => self.queue.first(),
            highest if highest == self.queue.last() => return GAP,
            highest => self.queue.after(highest),
        };
        let live = !self.queue.at(lowest).is_dead();
        let lowest = if live { lowest } else { self.queue.after(self.queue.across(lowest)) };
        self.place_from(0, lowest)
    }

    pub(super) fn last_place(&self) -> u32 {
        let Some(highest) = self.live_highest() else { return GAP };
        let entry = self.queue.at(highest);
        match () {
            () if entry.to() < self.size => TOP,
            () if entry.to() > entry.end() => highest | PADDING,
            () => highest,
        }
    }

    /// Returns the entry of the highest range above the gap.
    fn live_highest(&self) -> Option<u32> {
        match self.highest {
            NONE => None,
            highest if self.queue.at(highest).is_dead() => {
                Some(self.queue.before(self.queue.across(highest)))
            }
            highest => Some(highest),
        }
    }

    /// Returns where the highest range above the gap ends, or its padding.
    pub(super) fn top(&self) -> u64 {
        self.live_highest().map_or(self.gap_end, |highest| self.queue.at(highest).to())
    }

    /// Panics unless a walk over the regions finds what the counters say. O(regions).
    pub(super) fn check_places(&self) {
        let (mut used, mut padding, mut holes, mut hole_units) = (0, 0, 0, 0);
        let (mut uppers, mut below, mut end, mut was_free, mut last) = (0, true, 0, false, NONE);
        let mut index = self.first_place();
        while index != NONE {
            let Place { offset, size, state, after, .. } = self.place_of(index);
            assert_eq!(offset, end, "the regions tile the block");
            assert!(size != 0 || index == GAP, "only the gap may be empty");
            match state {
                State::Used => {
                    used += 1;
                    let upper = self.queue.at(index).is_upper();
                    assert!(!upper || !below, "upper ranges are above the gap");
                    uppers += u32::from(upper);
                }
                State::Padding => padding += size,
                State::Free if index == GAP => below = false,
                State::Free => {
                    holes += 1;
                    hole_units += size;
                }
                State::Vacant => panic!("the walk has come to an entry without a range"),
            }
            assert!(!was_free || state != State::Free, "no two free regions touch");
            was_free = state == State::Free;
            end = offset + size;
            (last, index) = (index, after);
        }
        assert_eq!(end, self.size, "the regions reach the end of the block");
        assert_eq!(last, self.last_place());
        assert!(!below, "the gap is one of the regions");
        let counted = (used, padding, holes, hole_units, uppers);
        let counters = (self.used_count, self.padding, self.holes, self.hole_units, self.uppers);
        assert_eq!(counted, counters, "the counters equal a walk");
        assert!(uppers == 0 || self.live_highest().is_some_and(|highest| self.queue.at(highest).is_upper()));
    }
}

/// Returns the first region of an entry: its padding, if that is before the range.
fn front_of<W: Width>(index: u32, entry: &Entry<W>) -> u32 {
    if entry.from() < entry.offset() { index | PADDING } else { index }
}

fn place(offset: u64, end: u64, state: State, after: u32) -> Place {
    // Only compaction walks down, which a linear block refuses.
    Place { offset, size: end - offset, state, before: NONE, after }
}
