//! What a defragmentation gains, as a sentence.

use allotment::memory::defragmentation::{DefragmentationPlan, DefragmentationStrategy};

use super::least::LeastBlocks;

/// What a defragmentation gains, or why it gains nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefragmentationVerdict {
    /// Blocks become free.
    Freed {
        /// How many.
        blocks: u64,
        /// Their bytes.
        bytes: u64,
        /// Bytes that are copied for it.
        moved: u64,
    },
    /// The strategy finds no block worth emptying, and [`Full`](DefragmentationStrategy::Full) would empty some.
    NotWorth {
        /// The strategy.
        strategy: DefragmentationStrategy,
        /// Bytes that `Full` would free.
        possible: u64,
        /// Bytes that `Full` would copy.
        moved: u64,
    },
    /// The blocks have the least bytes that could hold the allocations.
    AlreadyLeast,
    /// The allocations of no block fit into the free ranges of the others, or they cannot be moved.
    NothingFits,
}

impl DefragmentationVerdict {
    /// Judges a defragmentation: by the blocks and bytes that it freed and the bytes that it copied, by the plan of the
    /// strategy [`Full`](DefragmentationStrategy::Full), and by the bytes of all blocks before, compared with the least.
    #[must_use]
    pub fn of(
        (blocks, bytes, moved): (u64, u64, u64),
        strategy: DefragmentationStrategy,
        full: &DefragmentationPlan,
        before: u64,
        least: LeastBlocks,
    ) -> Self {
        let possible = full.bytes_freed();
        if blocks != 0 {
            Self::Freed { blocks, bytes, moved }
        } else if possible != 0 {
            Self::NotWorth { strategy, possible, moved: full.bytes_moved() }
        } else if before == least.block_bytes {
            Self::AlreadyLeast
        } else {
            Self::NothingFits
        }
    }

    /// Returns the verdict as a sentence, with bytes written by a function.
    ///
    /// ```
    /// use allotment_analyze::{DefragmentationVerdict, units};
    ///
    /// let freed = DefragmentationVerdict::Freed { blocks: 2, bytes: 8 << 20, moved: 1 << 20 };
    /// assert_eq!(freed.sentence(units::bytes), "2 blocks freed, 8.00 MiB, for 1.00 MiB copied.");
    /// ```
    #[must_use]
    pub fn sentence(&self, bytes: impl Fn(u64) -> String) -> String {
        match *self {
            Self::Freed { blocks, bytes: freed, moved } => {
                let s = if blocks == 1 { "" } else { "s" };
                format!("{blocks} block{s} freed, {}, for {} copied.", bytes(freed), bytes(moved))
            }
            Self::NotWorth { strategy, possible, moved } => {
                let strategy = match strategy {
                    DefragmentationStrategy::Fast => "fast".to_owned(),
                    DefragmentationStrategy::Full => "full".to_owned(),
                    DefragmentationStrategy::WithinBytes(most) => format!("within {}", bytes(most)),
                };
                let (possible, moved) = (bytes(possible), bytes(moved));
                format!(
                    "Nothing gained: no block is worth emptying under the strategy {strategy}. The strategy full would \
                     free {possible} for {moved} copied."
                )
            }
            Self::AlreadyLeast => {
                "Nothing to gain: the blocks already have the least bytes possible.".to_owned()
            }
            Self::NothingFits => {
                "Nothing to gain: no block's allocations fit into free ranges of the others.".to_owned()
            }
        }
    }
}
