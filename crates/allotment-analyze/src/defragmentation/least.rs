//! The least bytes of blocks that could hold the allocations, and the least bytes to copy for that.
//!
//! Allocations move within a pool and memory type. There the blocks that are freed can have at most the bytes that are
//! unused in all of them together. So the ideal frees the blocks whose sizes come closest to that from below, and of
//! several such choices the one with the fewest bytes to copy:
//!
//! ```text
//!   blocks       16 MiB, 7 used    8 MiB, 6 used    4 MiB, 1 used      unused: 14 MiB
//!   choices      8 + 4 MiB, 7 to copy               (16 MiB is too much; so are all three)
//!   ideal        16 MiB stay, for 7 MiB copied
//! ```
//!
//! Neither is a plan: whether the allocations fit the free ranges is ignored. So no plan leaves fewer bytes of blocks.

use allotment::Algorithm;
use allotment::memory::Movability;
use allotment::memory::defragmentation::layout::BlockLayout;

/// Number of sums that are tried for a pool and memory type. Blocks are of few sizes, so that even hundreds of them have
/// few sums; dedicated memory can be of any size.
const MOST_SUMS: usize = 1 << 14;

/// The least bytes of blocks that could hold some allocations, and the least bytes to copy for that.
///
/// Within each pool and memory type, these are the least bytes of the blocks that there are that could hold all
/// allocations, if these could be moved and packed without gaps. A block with an allocation that cannot be moved stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeastBlocks {
    /// Bytes of the blocks that would stay.
    pub block_bytes: u64,
    /// Bytes that have to be copied at least to leave only them.
    pub bytes_moved: u64,
}

/// A block and what is in it.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    size: u64,
    /// Bytes that its allocations need at least, here and elsewhere.
    needed: u64,
    /// Bytes to copy if it is emptied.
    cost: u64,
    pinned: bool,
}

impl LeastBlocks {
    /// Finds both for the blocks of a layout.
    ///
    /// ```
    /// use allotment::memory::defragmentation::layout::BlockLayout;
    /// use allotment_analyze::LeastBlocks;
    ///
    /// assert_eq!(LeastBlocks::of(&BlockLayout::default()).block_bytes, 0);
    /// ```
    #[must_use]
    pub fn of(layout: &BlockLayout) -> Self {
        let mut held: Vec<_> =
            layout.blocks.iter().map(|block| Held { size: block.size, ..Held::default() }).collect();
        for allocation in &layout.allocations {
            let at = allocation.block as usize;
            let (Some(held), Some(block)) = (held.get_mut(at), layout.blocks.get(at)) else { continue };
            // What it takes here may be more than it would elsewhere: dedicated memory can be larger than its allocation,
            // and an image takes whole pages only beside buffers.
            let buddy =
                layout.arenas.get(block.arena as usize).is_some_and(|is| is.algorithm == Algorithm::Buddy);
            let cell = if buddy { allocation.size.checked_next_power_of_two() } else { None };
            let elsewhere = cell.unwrap_or(allocation.size);
            let needed = if block.shared { allocation.occupied.min(elsewhere) } else { allocation.size };
            held.needed = held.needed.saturating_add(needed);
            held.cost = held.cost.saturating_add(allocation.size);
            held.pinned |= allocation.movability == Movability::Pinned;
        }
        let mut arenas: Vec<Vec<Held>> = vec![Vec::new(); layout.arenas.len()];
        for (block, held) in layout.blocks.iter().zip(held) {
            if let Some(arena) = arenas.get_mut(block.arena as usize) {
                arena.push(held);
            }
        }
        arenas.iter().map(|blocks| Self::of_arena(blocks)).fold(Self::default(), |sum, one| Self {
            block_bytes: sum.block_bytes.saturating_add(one.block_bytes),
            bytes_moved: sum.bytes_moved.saturating_add(one.bytes_moved),
        })
    }

    fn of_arena(blocks: &[Held]) -> Self {
        let sum = |of: fn(&Held) -> u64| blocks.iter().map(of).fold(0, u64::saturating_add);
        let size = sum(|block| block.size);
        let unused = size.saturating_sub(sum(|block| block.needed));
        let movable: Vec<_> = blocks.iter().filter(|block| !block.pinned).copied().collect();
        let (freed, bytes_moved) =
            whole_blocks(&movable, unused).unwrap_or_else(|| parts_of_blocks(movable, unused));
        Self { block_bytes: size - freed, bytes_moved }
    }
}

/// Returns the most bytes of blocks up to `unused`, and the least bytes to copy for exactly them. `None` if there are too
/// many sums.
fn whole_blocks(blocks: &[Held], unused: u64) -> Option<(u64, u64)> {
    let mut sums = vec![(0_u64, 0_u64)];
    for block in blocks {
        let with = sums.iter().map(|&(freed, cost): &(u64, u64)| {
            (freed.saturating_add(block.size), cost.saturating_add(block.cost))
        });
        let with: Vec<_> = with.filter(|&(freed, _)| freed <= unused).collect();
        sums.extend(with);
        // Of equal sums the cheapest comes first, and stays.
        sums.sort_unstable();
        sums.dedup_by_key(|&mut (freed, _)| freed);
        if sums.len() > MOST_SUMS {
            return None;
        }
    }
    sums.last().copied()
}

/// As if a part of a block could be freed for a part of its cost, which is never worse: the cheapest bytes first.
fn parts_of_blocks(mut blocks: Vec<Held>, unused: u64) -> (u64, u64) {
    // By cost per byte of size; as products, which are exact.
    let product = |cost: u64, size: u64| u128::from(cost) * u128::from(size);
    blocks.sort_by(|a, b| product(a.cost, b.size).cmp(&product(b.cost, a.size)));
    let (mut freed, mut cost) = (0_u64, 0_u64);
    for block in blocks.iter().filter(|block| block.size != 0) {
        let part = block.size.min(unused - freed);
        freed += part;
        let of_part = (product(block.cost, part) / u128::from(block.size)) as u64;
        cost = cost.saturating_add(of_part);
    }
    (freed, cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(size: u64, needed: u64) -> Held {
        Held { size, needed, cost: needed, pinned: false }
    }

    fn ideal(blocks: &[Held]) -> (u64, u64) {
        let LeastBlocks { block_bytes, bytes_moved } = LeastBlocks::of_arena(blocks);
        (block_bytes, bytes_moved)
    }

    #[test]
    fn of_blocks_of_one_size_the_fewest_stay_and_the_emptiest_go() {
        assert_eq!(ideal(&[block(4, 1), block(4, 3), block(4, 2), block(4, 1)]), (8, 2));
        assert_eq!(ideal(&[block(4, 4), block(4, 4)]), (8, 0));
        assert_eq!(ideal(&[]), (0, 0));
    }

    #[test]
    fn of_blocks_of_different_sizes_the_least_bytes_stay_even_if_more_blocks_do() {
        assert_eq!(ideal(&[block(16, 7), block(8, 6), block(4, 1)]), (16, 7));
        // One block could hold everything, but the two small ones have fewer bytes.
        assert_eq!(ideal(&[block(16, 3), block(4, 2), block(4, 3)]), (8, 3));
    }

    #[test]
    fn a_block_that_cannot_be_emptied_stays() {
        let pinned = Held { pinned: true, ..block(16, 1) };
        assert_eq!(ideal(&[pinned, block(4, 2), block(4, 3)]), (16, 5));
    }

    #[test]
    fn of_dedicated_memory_of_many_sizes_parts_count() {
        let blocks: Vec<_> = (0..40).map(|bit| block((1 << bit) + 1, 1 << (bit / 2))).collect();
        let (bytes, copied) = ideal(&blocks);
        assert_eq!(bytes, blocks.iter().map(|block| block.needed).sum::<u64>());
        assert!(copied < bytes);
    }

    #[test]
    fn parts_are_never_worse_than_whole_blocks() {
        let blocks = [block(16, 3), block(8, 6), block(4, 2), block(4, 3), block(1, 1)];
        for unused in 0..33 {
            let (whole, parts) =
                (whole_blocks(&blocks, unused).unwrap(), parts_of_blocks(blocks.to_vec(), unused));
            assert_eq!(parts.0, unused);
            assert!(whole.0 <= parts.0, "{unused}");
        }
    }
}
