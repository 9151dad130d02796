//! Host memory that a block had for more ranges than it has: [`shrink_to_fit`](VirtualBlock::shrink_to_fit).

use crate::VirtualBlock;
use crate::algorithm::Ranges as _;

/// Regions beyond which a block is worth shrinking.
const MANY: usize = 128;

impl<T> VirtualBlock<T> {
    /// Frees host memory that the block has for more ranges than it has now. All handles stay as they are: valid or stale.
    ///
    /// An empty block keeps what a new one has. With others it depends on the order in which ranges were freed: a range keeps
    /// its place in the tables of the block, so they are as long as the place of one of its live or free ranges asks for.
    /// Operations may allocate host memory again, also what was [reserved](Self::reserve). O(regions of the peak).
    ///
    /// ```
    /// use allotment_suballoc::{Algorithm, HandleError, Request, VirtualBlock};
    ///
    /// let mut block = VirtualBlock::new(1 << 20, Algorithm::Tlsf)?;
    /// let ranges: Vec<_> = (0..10_000).map(|_| block.allocate(Request::new(64), ())).collect::<Result<_, _>>()?;
    /// let stale = ranges[0].handle;
    /// for range in ranges {
    ///     block.free(range.handle)?;
    /// }
    /// block.shrink_to_fit(); // frees 170 KB
    /// let range = block.allocate(Request::new(64), ())?;
    /// assert_eq!(block.free(stale), Err(HandleError::Stale));
    /// block.free(range.handle)?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn shrink_to_fit(&mut self) {
        // The engine first: an empty one begins anew, with low indices, and the data follows the indices that are left.
        self.engine.shrink();
        let used = self.data.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        self.data.truncate(used);
        self.data.shrink_to_fit();
        self.moves.shrink(self.engine.capacity());
    }

    /// Returns `true` if the block had more than twice the regions that it has, as far as it knows. O(1). Hidden: for
    /// allocators that shrink many blocks, most of which are as they were.
    #[doc(hidden)]
    #[must_use]
    pub fn is_far_below_its_peak(&self) -> bool {
        let tally = self.engine.tally();
        let regions = tally.used_count as usize + tally.free_count as usize;
        self.engine.capacity() > regions.saturating_mul(2).saturating_add(MANY)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use crate::{Algorithm, Request, VirtualBlock};

    /// Empty blocks of each kind.
    fn blocks() -> [VirtualBlock<u64>; 3] {
        Algorithm::ALL.map(|algorithm| VirtualBlock::new(1 << 16, algorithm).unwrap())
    }

    #[test]
    fn no_handle_is_that_of_another_range_however_often_a_block_shrinks_in_between() {
        for mut block in blocks() {
            let (mut seen, mut kept) = (BTreeSet::new(), Vec::new());
            // More rounds than a node has generations, and a block epochs, in tests.
            for round in 0..200 {
                let mut live: Vec<_> = (0..100)
                    .map(|i| block.allocate(Request::new(1 + (i * round) % 7), i).unwrap().handle)
                    .collect();
                assert!(live.iter().all(|&handle| seen.insert(handle)), "a handle is new");
                // Blocks that are empty, and blocks with a range at any place of the tables.
                if round % 3 != 0 {
                    kept.push(live.swap_remove(round as usize % 100));
                }
                if round % 5 == 0 {
                    live.append(&mut kept);
                }
                live.into_iter().for_each(|handle| _ = block.free(handle).unwrap());
                block.shrink_to_fit();
                block.check_invariants();
                assert!(seen.iter().all(|&handle| block.get(handle).is_ok() == kept.contains(&handle)));
            }
        }
    }

    #[test]
    fn a_block_that_is_empty_keeps_no_more_regions_than_a_new_one() {
        for mut block in blocks() {
            let new = crate::algorithm::Ranges::capacity(&block.engine);
            let live: Vec<_> =
                (0..1000).map(|_| block.allocate(Request::new(1), 0).unwrap().handle).collect();
            assert!(!block.is_far_below_its_peak());
            // Every second one first, so that free regions lie apart.
            let (odd, even): (Vec<_>, Vec<_>) = live.into_iter().enumerate().partition(|(at, _)| at % 2 == 1);
            odd.into_iter().chain(even).for_each(|(_, handle)| _ = block.free(handle).unwrap());
            block.shrink_to_fit();
            assert_eq!(crate::algorithm::Ranges::capacity(&block.engine), new);
            assert_eq!((block.data.capacity(), block.is_far_below_its_peak()), (0, false));
            block.check_invariants();
        }
    }
}
