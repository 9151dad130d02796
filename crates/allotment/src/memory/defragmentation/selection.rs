//! Selects the blocks to empty.
//!
//! Blocks are selected by price, the cheapest first, while the strategy finds them worth their cost, their allocations
//! fit into the free bytes of the blocks that stay, and the pool keeps its minimum of blocks. With a limit on the
//! copied bytes this is a knapsack problem, and solved as one. Whether each allocation finds a free range of its size
//! is decided later, by the plan.

use super::desc::DefragmentationStrategy;
use super::survey::{SurveyedArena, SurveyedBlock};
use crate::memory::request::MOST_SHARDS;

/// A block that could be emptied, as far as sums tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Index of the arena, and of the block in it.
    pub(super) arena: usize,
    pub(super) block: usize,
    /// Which of the arena's block sets has the block.
    member: usize,
    pub(super) size: u64,
    /// Bytes that its allocations need in other blocks.
    needed: u64,
    /// Bytes to copy.
    pub(super) cost: u64,
    shared: bool,
    /// Free bytes of the block, which the other blocks lose when it is emptied.
    free: u64,
}

/// The free bytes and blocks of an arena while blocks of it are selected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    free: u64,
    /// Of each block set: a shard keeps its part of the pool's minimum.
    blocks: [u32; MOST_SHARDS as usize],
}

impl Capacity {
    pub(super) fn of(arena: &SurveyedArena) -> Self {
        let free = |block: &SurveyedBlock| block.size.saturating_sub(block.occupied);
        // The sum of all holes, as if they were one. This may promise too much, never too little, so no block is ruled
        // out here that could be emptied; which of them really can is for the plan to find, with the holes as they are.
        // Empty blocks are not counted: to fill one would free nothing.
        let open = arena.blocks.iter().filter(|block| block.may_take());
        let promised: u64 =
            arena.blocks.iter().filter(|block| block.of_another_run).map(|block| block.needed).sum();
        let mut blocks = [0_u32; MOST_SHARDS as usize];
        arena.blocks.iter().filter(|block| block.shared).for_each(|block| blocks[block.member] += 1);
        let members = blocks.iter_mut().zip(&arena.members);
        members.for_each(|(blocks, member)| *blocks = blocks.saturating_sub(member.least_blocks));
        Self {
            // Capacity for coming requests is not filled with moves, nor is that which other runs need for blocks that they
            // have claimed and for which they may not have reserved it yet.
            free: open.map(free).sum::<u64>().saturating_sub(arena.ahead).saturating_sub(promised),
            blocks,
        }
    }

    /// Returns the capacity that remains when a block is emptied into the others; `None` when they cannot hold it.
    pub(super) fn without(self, candidate: &Candidate) -> Option<Self> {
        // The block's own free bytes are lost first, then the others take in its allocations.
        // A block of 16 with 4 occupied, and 20 free in all with it: the others have 8, and 4 of them remain.
        //   free    20 ── its own 12 ──► 8 ── its 4 ──► 4
        let mut blocks = self.blocks;
        blocks[candidate.member] = blocks[candidate.member].checked_sub(u32::from(candidate.shared))?;
        Some(Self { free: self.free.checked_sub(candidate.free)?.checked_sub(candidate.needed)?, blocks })
    }
}

/// Returns all blocks that could be emptied, the cheapest first.
pub(super) fn candidates(arenas: &[SurveyedArena]) -> Vec<Candidate> {
    let mut found: Vec<_> = arenas
        .iter()
        .enumerate()
        .flat_map(|(arena, surveyed)| {
            let blocks = surveyed.blocks.iter().enumerate();
            let may_go = blocks.filter(|(_, block)| block.may_go());
            may_go.map(move |(at, block)| Candidate {
                arena,
                block: at,
                member: block.member,
                size: block.size,
                needed: block.needed,
                cost: block.cost,
                shared: block.shared,
                // What is free in dedicated memory holds no other allocation, so the other blocks lose nothing with it.
                free: if block.shared { block.size.saturating_sub(block.occupied) } else { 0 },
            })
        })
        .collect();
    sort_by_price(&mut found);
    found
}

/// Sorts by cost / size, without dividing; of equal blocks, the larger one first.
fn sort_by_price(candidates: &mut [Candidate]) {
    candidates.sort_by(|one, other| {
        // The products of two sizes can exceed 64 bits.
        let price = |a: &Candidate, b: &Candidate| u128::from(a.cost) * u128::from(b.size);
        // At one price larger blocks first: fewer of them free the same bytes.
        price(one, other).cmp(&price(other, one)).then(other.size.cmp(&one.size))
    });
}

/// Returns the selected candidates, in the same order.
pub(super) fn select(
    strategy: DefragmentationStrategy,
    arenas: &[SurveyedArena],
    candidates: &[Candidate],
) -> Vec<Candidate> {
    let capacities: Vec<_> = arenas.iter().map(Capacity::of).collect();
    let worth: Vec<_> =
        candidates.iter().copied().filter(|block| strategy.is_worth(block.cost, block.size)).collect();
    // By price alone is best where only the capacity is limited and blocks are alike. With a limit of bytes it may not be:
    // of 10 bytes to copy, a block of 4 for 1 byte is the cheaper one, and leaves too few for a block of 16 for 10.
    let taken = match strategy {
        DefragmentationStrategy::WithinBytes(bytes) => Knapsack::solve(&worth, capacities, bytes),
        DefragmentationStrategy::Fast | DefragmentationStrategy::Full => {
            greedily(&worth, capacities, |_| true)
        }
    };
    worth.into_iter().zip(taken).filter_map(|(block, taken)| taken.then_some(block)).collect()
}

/// Selects each candidate that fits beside those before it and is affordable.
fn greedily(
    candidates: &[Candidate],
    mut capacities: Vec<Capacity>,
    mut affordable: impl FnMut(&Candidate) -> bool,
) -> Vec<bool> {
    // A block that does not fit is passed over and does not end the selection: a dearer one may be smaller.
    let take = |candidate: &Candidate| match capacities[candidate.arena].without(candidate) {
        // Asked last, since a yes spends the bytes.
        Some(left) if affordable(candidate) => {
            capacities[candidate.arena] = left;
            true
        }
        _ => false,
    };
    candidates.iter().map(take).collect()
}

/// Selects the candidates that free the most bytes within a number of copied bytes.
///
/// A branch and bound over the candidates by price. The bound is the bytes freed so far, plus those that the rest could
/// free if blocks could be emptied in part. It begins with the greedy selection, which for equal blocks, the usual
/// case, is the best possible. After [`WORK`] steps it takes the best selection seen.
struct Knapsack<'a> {
    candidates: &'a [Candidate],
    capacities: Vec<Capacity>,
    /// Steps that remain.
    work: usize,
    taken: Vec<bool>,
    best: (u64, Vec<bool>),
}

/// Steps of the search: a tenth of a millisecond.
const WORK: usize = 50_000;

impl<'a> Knapsack<'a> {
    fn solve(candidates: &'a [Candidate], capacities: Vec<Capacity>, bytes: u64) -> Vec<bool> {
        let mut left = bytes;
        let affordable = |candidate: &Candidate| match left.checked_sub(candidate.cost) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        };
        let greedy = greedily(candidates, capacities.clone(), affordable);
        let sizes = candidates.iter().zip(&greedy).filter(|(_, taken)| **taken);
        // A good first selection lets the search cut branches from the beginning.
        let best = (sizes.map(|(candidate, _)| candidate.size).sum(), greedy);
        let taken = vec![false; candidates.len()];
        let mut knapsack = Self { candidates, capacities, work: WORK, taken, best };
        knapsack.branch(0, bytes, 0);
        knapsack.best.1
    }

    /// Decides on the candidates from `at` on, with `left` bytes to copy, when `size` bytes are freed already.
    fn branch(&mut self, at: usize, left: u64, size: u64) {
        if size > self.best.0 {
            self.best = (size, self.taken.clone());
        }
        let Some(&candidate) = self.candidates.get(at) else { return };
        // The tree of all choices, with and without each block, depth first.
        // The bound is an upper one, so a branch that cannot beat the best selection is not worth following.
        if self.work == 0 || size + self.bound(at, left) <= self.best.0 {
            return;
        }
        let capacity = self.capacities[candidate.arena];
        // With the block first: the cheapest blocks are in most good selections, so good bounds are found early.
        if let (Some(left), Some(without)) = (left.checked_sub(candidate.cost), capacity.without(&candidate))
        {
            self.capacities[candidate.arena] = without;
            self.taken[at] = true;
            self.branch(at + 1, left, size + candidate.size);
            self.taken[at] = false;
            // Back to the state without the block, for the other branch.
            self.capacities[candidate.arena] = capacity;
        }
        self.branch(at + 1, left, size);
    }

    /// Returns an upper bound of the bytes that the candidates from `at` on can free.
    fn bound(&mut self, at: usize, mut left: u64) -> u64 {
        let mut size = 0;
        // By price, so what comes first frees most for its bytes: no choice of the rest frees more than the blocks from
        // the front on. The order of `candidates` is relied on here; in another one this is no bound.
        // (`no_set_of_blocks_gives_back_more_for_as_many_bytes` compares with all sets.)
        // Whether the allocations fit is left out. That can only raise the bound, so no better selection is missed.
        for candidate in &self.candidates[at..] {
            self.work = self.work.saturating_sub(1);
            match left.checked_sub(candidate.cost) {
                Some(rest) => (left, size) = (rest, size + candidate.size),
                // The fractional knapsack: the first block that is too expensive counts in part.
                None => {
                    // Its cost is more than what is left, so it is not 0.
                    let part = u128::from(candidate.size) * u128::from(left) / u128::from(candidate.cost);
                    return size + part as u64;
                }
            }
        }
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(size: u64, cost: u64) -> Candidate {
        Candidate { arena: 0, block: 0, member: 0, size, needed: cost, cost, shared: true, free: size - cost }
    }

    fn by_price(mut blocks: Vec<Candidate>) -> Vec<Candidate> {
        sort_by_price(&mut blocks);
        blocks
    }

    /// Returns the most bytes that any set of blocks can free, by trying all sets.
    fn by_trying_all(candidates: &[Candidate], capacity: Capacity, bytes: u64) -> u64 {
        let sets = 0..1u32 << candidates.len();
        let worth = |set: u32| {
            let taken =
                candidates.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, block)| block);
            let (mut rest, mut left, mut size) = (capacity, bytes, 0);
            for block in taken {
                rest = rest.without(block)?;
                left = left.checked_sub(block.cost)?;
                size += block.size;
            }
            Some(size)
        };
        sets.filter_map(worth).max().unwrap()
    }

    #[test]
    fn no_set_of_blocks_gives_back_more_for_as_many_bytes() {
        let mut state = 7u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for _ in 0..300 {
            let blocks = (0..1 + below(10)).map(|_| {
                let size = 4 << below(5);
                block(size, below(size + 1))
            });
            let candidates = by_price(blocks.collect());
            let bytes = below(200);
            let capacity = Capacity { free: below(300), blocks: [below(12) as u32; MOST_SHARDS as usize] };
            let taken = Knapsack::solve(&candidates, vec![capacity], bytes);
            let of = |what: fn(&Candidate) -> u64| -> u64 {
                candidates.iter().zip(&taken).filter(|(_, taken)| **taken).map(|(block, _)| what(block)).sum()
            };
            assert!(of(|block| block.cost) <= bytes);
            assert_eq!(
                of(|block| block.size),
                by_trying_all(&candidates, capacity, bytes),
                "{candidates:?} {bytes}"
            );
        }
    }

    #[test]
    fn the_cheapest_blocks_are_emptied_and_no_more_than_the_others_can_take() {
        let candidates = by_price(vec![block(16, 12), block(16, 2), block(16, 8), block(16, 5)]);
        assert_eq!(candidates.iter().map(|block| block.cost).collect::<Vec<_>>(), [2, 5, 8, 12]);
        // Free: 14 + 11 + 8 + 4.
        let capacity = Capacity { free: 37, blocks: [4; MOST_SHARDS as usize] };
        let taken = greedily(&candidates, vec![capacity], |_| true);
        assert_eq!(taken, [true, true, false, false], "5 of the 12 bytes that stay free hold no third");
        let few =
            greedily(&candidates, vec![Capacity { blocks: [1; MOST_SHARDS as usize], ..capacity }], |_| true);
        assert_eq!(few, [true, false, false, false]);
    }
}
