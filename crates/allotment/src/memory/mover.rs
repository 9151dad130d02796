//! Who moves an allocation, and which default pools serve its kind.
//!
//! ```text
//!   group     its allocations                              moved by
//!   0         pinned                                       nobody
//!   1         movable, without a Defragmenter              the passes of a run, one run at a time
//!   2, 4, 6   resources that a Defragmenter created        its steps
//!   3, 5, 7   mapped buffers that a Defragmenter created   its steps offer a place, the owner of the buffer accepts it
//! ```
//!
//! A block is emptied whole or not at all, and only by a run that moves all of its allocations. So each group has default
//! pools of its own, and with them blocks of its own, as pinned allocations have. Where more than three Defragmenters live,
//! the fourth shares the pools of the first, and so on; blocks with resources of both stay. So do blocks of a custom pool with
//! allocations of several movers, and those that a request shares at last where no block can be allocated.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use crate::sync::locked;

/// The mover of an allocation, as its record has it.
///
/// No other mover has its number as long as an allocation that it moves lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct MoverId(pub(super) u16);

/// The groups of movers that have default pools of their own, with that of the pinned allocations.
pub(super) const MOVER_GROUPS: u32 = 8;

/// Those of Defragmenters, two for each.
const GROUPS_OF_DEFRAGMENTERS: u16 = MOVER_GROUPS as u16 - 2;

impl MoverId {
    /// The passes of the program.
    pub(super) const PASSES: Self = Self(0);

    /// Returns the owners of the mapped buffers of a Defragmenter.
    pub(super) fn owners(self) -> Self {
        debug_assert!(self.is_defragmenter(), "passes have no mapped buffers");
        Self(self.0 + 1)
    }

    /// Returns true for a Defragmenter: its number is odd, and that of its owners is the next.
    pub(super) fn is_defragmenter(self) -> bool {
        self.0 % 2 == 1
    }

    /// Returns the group of the allocations that this mover moves; of pinned ones for `None`.
    pub(super) fn group(mover: Option<Self>) -> u8 {
        match mover {
            None => 0,
            Some(Self::PASSES) => 1,
            Some(Self(id)) => 2 + ((id - 1) % GROUPS_OF_DEFRAGMENTERS) as u8,
        }
    }

    /// Returns a mover of a group; `None` for the group of pinned allocations.
    pub(super) fn of_group(group: u8) -> Option<Self> {
        u16::from(group).checked_sub(1).map(Self)
    }
}

/// The numbers that no Defragmenter and no resource of one has.
///
/// Records have 16 bits for a mover, so a number is used again once neither the Defragmenter is left nor any resource that
/// it created. Shared, it would let one mover move what only another one may.
#[derive(Debug, Default)]
pub(super) struct FreeMoverIds(Mutex<Free>);

#[derive(Debug, Default)]
struct Free {
    /// Pairs of numbers that were in use at some time.
    pairs: u16,
    /// The first numbers of those that are free.
    free: Vec<u16>,
}

/// Two numbers for each, beside that of the passes.
const MOST_DEFRAGMENTERS: u16 = u16::MAX / 2;

impl FreeMoverIds {
    /// Takes the number of a Defragmenter, and the next for the owners of its mapped buffers. `None` where all are in use.
    pub(super) fn take(&self) -> Option<MoverId> {
        let mut ids = locked(&self.0);
        let unused = |pairs: &mut u16| {
            let pair = (*pairs < MOST_DEFRAGMENTERS).then_some(*pairs)?;
            *pairs += 1;
            Some(2 * pair + 1)
        };
        let Free { pairs, free } = &mut *ids;
        // The least, so that as few as can be share a group.
        let least = (0..free.len()).min_by_key(|&at| free[at]).map(|at| free.swap_remove(at));
        least.or_else(|| unused(pairs)).map(MoverId)
    }

    /// Gives back what [`take`](Self::take) returned.
    pub(super) fn give_back(&self, id: MoverId) {
        let mut ids = locked(&self.0);
        debug_assert!(id.is_defragmenter() && !ids.free.contains(&id.0), "the number was in use");
        ids.free.push(id.0);
    }
}

/// A mover that may have a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mover {
    pub(super) id: MoverId,
    /// By which blocks know that its run has claimed them. No other mover of the allocator ever had it: 64 bits, of which
    /// a run takes one, last for ever. Never 0.
    pub(super) key: u64,
}

/// By whom an allocation is moved, as a run sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MovedBy {
    /// The run.
    Own,
    /// Its owner, to whom the run offers a place.
    Owner,
    /// Another mover, if any.
    Other,
}

impl Mover {
    /// Returns by whom an allocation with this mover is moved.
    pub(super) fn moves(self, id: MoverId) -> MovedBy {
        if id == self.id {
            MovedBy::Own
        } else if self.id.is_defragmenter() && id == self.id.owners() {
            MovedBy::Owner
        } else {
            MovedBy::Other
        }
    }
}

/// The movers of an allocator.
#[derive(Debug, Default)]
pub(super) struct Movers {
    pub(super) ids: FreeMoverIds,
    last_key: AtomicU64,
}

impl Movers {
    /// Returns a mover with a key of its own.
    pub(super) fn with_key(&self, id: MoverId) -> Mover {
        // Relaxed: it only has to be unique.
        Mover { id, key: 1 + self.last_key.fetch_add(1, Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_defragmenters_have_a_number_at_the_same_time() {
        let ids = FreeMoverIds::default();
        let taken: Vec<_> = core::iter::from_fn(|| ids.take()).collect();
        let mut all: Vec<_> = taken.iter().flat_map(|&id| [id.0, id.owners().0]).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!((all.len(), all[0]), (65_534, 1), "each once, and none is that of passes");
        [7, 3, 9].into_iter().for_each(|at| ids.give_back(taken[at]));
        let again: Vec<_> = core::iter::from_fn(|| ids.take()).collect();
        assert_eq!(again, [taken[3], taken[7], taken[9]], "the least first");
    }

    #[test]
    fn passes_and_the_first_three_defragmenters_have_groups_of_their_own() {
        let first: Vec<_> = (0..MOVER_GROUPS as u8).map(MoverId::of_group).collect();
        let groups: Vec<_> = first.iter().map(|&mover| MoverId::group(mover)).collect();
        assert_eq!(groups, [0, 1, 2, 3, 4, 5, 6, 7]);
        let fourth = MoverId(7);
        assert!(fourth.is_defragmenter());
        assert_eq!((MoverId::group(Some(fourth)), MoverId::group(Some(fourth.owners()))), (2, 3));
    }
}
