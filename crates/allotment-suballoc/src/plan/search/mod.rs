//! The search: plans within a capacity, found or excluded by trying what goes next onto the skyline.
//!
//! ```text
//!   capacity ─────────────────          A node is a skyline and the items above it. `floor` of an item is the highest of the
//!                                       skyline over its sections: nothing can place it lower. `floor` of a section is the lowest
//!             ┌─────┐                   floor of its items.
//!    ┌────┐   │  b  │                   A node chooses one section, s, in which the floor is 2, and asks: which item of s is at 2?
//!  2 │ a  ├─s─┤     ├───┐               Each item of s whose floor is 2 is tried in turn. Then s has none there: the lowest item of s
//!    │    │   │     │ c │               stands on an item that is yet to come beside s, and that ends at 5 or higher; so s is raised
//!    └────┴───┴─────┴───┘ section       to 5, if the capacity permits.
//! ```
//!
//! # Why nothing is missed
//!
//! If there are plans within the capacity, take the one with the smallest sum of offsets. In it each item, pinned ones aside, is at
//! the lowest aligned offset above something: another item, or 0. A node stands for the plans that have the items placed so far
//! where they are, and all others above their floors and above all placed ones that they conflict with. Let h be the floor of s, and
//! let all items of s with the floor h be *ready*: no item that conflicts with one could end at or below h. Then either such an item
//! is at h, and everything else that conflicts with it is above it: a child. Or none is; then an item of s with the floor h is above
//! h, stands on something that is not placed yet, and if it is the lowest item of s, that is not in s. The child in which s has no
//! item at h raises it to the lowest offset that this permits. Children have no plan in common. The items with the lowest floor of
//! all are ready, so that some section can always be chosen.
//!
//! Alignment rounds floors up, and a pinned item has the floor of its pin, and no place once that is exceeded. Neither changes the
//! argument, so a search that ends without a plan has proved that there is none.
//!
//! # What prunes
//!
//! - A section whose floor and whose items together exceed the capacity. Near the bound that leaves most sections one or two items
//!   to try, and the node chooses among the sections with the fewest. This is what a search in order of offsets, as
//!   `MiniMalloc`'s, cannot do: it must fill sections with much room before it comes to the ones with none.
//! - Sections that no unplaced item connects are solved separately. A part that has no solution ends all of the choices since it
//!   was cut off, in other parts too.
//! - What remains depends on the floors of the unplaced items only. A table has hashes of the remainders that have no solution: of
//!   two items on top of each other, exchanged, the second order is not tried. Two remainders have the same hash of 64 bits with a
//!   probability of 2^-64; then a plan could be missed, never a wrong one made.
//!
//! # Restarts
//!
//! A search is either short or hopeless: of the hard instances of `MiniMalloc`'s authors, most are solved by one of the ways to
//! choose almost without a step back, and by another one not in a million steps. So each way gets a few more nodes than there
//! are items, then all of them again with shuffled orders and budgets by Luby, Sinclair and Zuckerman (1993). The table is kept. Each way
//! is tried at the lower bound exactly, since slack prunes less: 2 % more can be harder. In turn with that it is tried between the
//! bound and the best plan, so that the plan improves meanwhile.
//!
//! # Cost
//!
//! A node looks at the items that conflict with the one it places and at the sections of those: 2 to 10 microseconds for some
//! hundred items. Memory is 8 bytes for each two items that conflict, 8 for each item in each of its sections, 300 for each item,
//! and 1 MiB for the table. With more than four million conflicts, or eight million items in sections, only the greedy solver runs.

mod node;
mod setup;

use alloc::vec::Vec;

use self::node::{Choice, Outcome, Search};
use super::greedy::Order;
use super::work::Work;
use super::{Plan, Problem, Solver};

/// The orders in which items of a section are tried.
const ORDERS: [Order; 4] = [Order::LoadThenSections, Order::Area, Order::Size, Order::Duration];

/// How a node chooses its section, and in which of `ORDERS` it tries the items. Neighbours in the list have little in common: what
/// is hard for one is often easy for the next.
const WAYS: [(Choice, usize); 12] = [
    (Choice::FewestItems, 0),
    (Choice::LeastSlack, 0),
    (Choice::LowestFloor, 3),
    (Choice::LeastSlack, 1),
    (Choice::LowestFloor, 2),
    (Choice::FewestItems, 2),
    (Choice::LeastSlack, 3),
    (Choice::LowestFloor, 1),
    (Choice::FewestItems, 3),
    (Choice::LowestFloor, 0),
    (Choice::FewestItems, 1),
    (Choice::LeastSlack, 2),
];

/// How far between the lower bound and the best plan a capacity is, in eighths: one after the other while none is reached.
const EIGHTHS: [u64; 4] = [4, 6, 2, 7];

/// So many rounds are at the bound only: most frames are solved by one of them, and runs at another capacity would double their
/// time.
const AT_BOUND_ALONE: u64 = 2;

/// What a search keeps beside its memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Searches {
    search: Search,
    /// For each of `ORDERS` and each item, its rank.
    ranks: Vec<u32>,
    shuffled: Vec<(u64, u32)>,
}

impl Solver {
    /// Improves on the greedy plan until it is optimal, until all that could be better is excluded, or until `stop` returns `true`.
    ///
    /// The search tries two orders of the greedy solver, searches at the lower bound, tries the other orders, and goes on. Once these
    /// were tried, which takes a millisecond or two for hundreds of items, the plan is at least as good as that of
    /// [`greedy`](Self::greedy).
    ///
    /// `stop` is called in place of a clock: every few microseconds up to a few tenths of a millisecond, and never after it returned
    /// `true`. Some problems take longer than anyone waits, if it always returns `false`. If it returns `true` before the first order
    /// is complete, the plan is that of [`greedy_until`](Self::greedy_until). The result depends on the problem and on the number of
    /// calls only.
    ///
    /// Items that would end above `limit` are not placed, as by [`greedy`](Self::greedy); the search looks for a plan of all of
    /// them.
    ///
    /// ```
    /// use allotment_suballoc::plan::{Item, Plan, Problem, Solver};
    ///
    /// let sizes = [2, 3, 3, 2, 1, 4, 2];
    /// let lives = [0..2, 0..1, 1..4, 2..3, 3..5, 4..6, 5..6];
    /// let items = sizes.into_iter().zip(lives).map(|(size, life)| (Item::new(size), life));
    /// let problem = Problem::from_intervals(items)?;
    /// let (mut solver, mut plan) = (Solver::new(), Plan::new());
    /// let mut calls = 0;
    /// let stop = || {
    ///     calls += 1;
    ///     calls > 100
    /// };
    /// solver.search(&problem, u64::MAX, stop, &mut plan);
    /// assert!(plan.is_optimal());
    /// # Ok::<(), allotment_suballoc::plan::ProblemError>(())
    /// ```
    pub fn search(&mut self, problem: &Problem, limit: u64, mut stop: impl FnMut() -> bool, plan: &mut Plan) {
        self.search_until(problem, limit, &mut Work::until(&mut stop), plan);
    }

    fn search_until(&mut self, problem: &Problem, limit: u64, work: &mut Work<'_>, plan: &mut Plan) {
        self.greedy_first(problem, limit, work, plan);
        if plan.is_optimal() || work.stop() {
            return;
        }
        if plan.lower_bound > limit || !self.searches.search.set_up(problem) {
            self.greedy_rest(problem, limit, work, plan);
            return;
        }
        self.sort_ranks(problem);
        let items = problem.len();
        let unit = self.searches.search.unit();
        let mut rounds = Rounds::default();
        let mut failures = 0;
        loop {
            if rounds.round == AT_BOUND_ALONE {
                // Most frames are solved by now.
                self.greedy_rest(problem, limit, work, plan);
            }
            let round = rounds.next(items as u64);
            self.searches.choose(items, &round);
            let mut outcome = Outcome::Budget;
            for at_bound in [true, false] {
                // Offsets in a plan whose items all stand on something are multiples of the unit.
                let lower = plan.lower_bound.div_ceil(unit) * unit;
                plan.lower_bound = lower;
                // A plan of all items must be lower than this one, or at most as high as the limit.
                let upper = if plan.left_out > 0 { limit / unit * unit + unit } else { plan.peak };
                if lower >= upper {
                    if plan.left_out == 0 {
                        plan.lower_bound = plan.peak;
                    } else if rounds.round <= AT_BOUND_ALONE {
                        self.greedy_rest(problem, limit, work, plan);
                    }
                    return;
                }
                let between = (upper - lower) / unit * EIGHTHS[failures % EIGHTHS.len()] / 8 * unit;
                if !at_bound && (between == 0 || rounds.round <= AT_BOUND_ALONE) {
                    continue;
                }
                let capacity = if at_bound { lower } else { lower + between };
                outcome = self.searches.search.run(capacity, round.nodes, &mut || work.stop());
                match outcome {
                    Outcome::Found => {
                        self.searches.search.write(plan);
                        failures = 0;
                    }
                    Outcome::Excluded => plan.lower_bound = capacity + unit,
                    Outcome::Budget => failures += usize::from(!at_bound),
                    Outcome::Stopped => break,
                }
                if plan.is_optimal() {
                    return;
                }
            }
            if outcome == Outcome::Stopped {
                return;
            }
        }
    }

    fn sort_ranks(&mut self, problem: &Problem) {
        let Self { greedy, searches } = self;
        let items = problem.len();
        searches.ranks.clear();
        searches.ranks.resize(ORDERS.len() * items, 0);
        for (ranks, order) in searches.ranks.chunks_exact_mut(items).zip(ORDERS) {
            greedy.sort(problem, order);
            for (rank, &item) in (0..).zip(greedy.order()) {
                ranks[item as usize] = rank;
            }
        }
    }
}

impl Searches {
    /// Gives the search the way to choose of a round.
    fn choose(&mut self, items: usize, round: &Round) {
        let ranks = &self.ranks[round.order * items..][..items];
        let Some(spread) = round.spread else {
            self.search.choose(round.choice, ranks.iter().copied());
            return;
        };
        // Each item moves up to `spread` ranks, in sixteenths.
        let mut random = Random(round.seed);
        self.shuffled.clear();
        self.shuffled.extend(
            (0..items as u32)
                .zip(ranks)
                .map(|(item, &rank)| (u64::from(rank) * 16 + random.below(spread * 16), item)),
        );
        self.shuffled.sort_unstable();
        let search = &mut self.search;
        search.choose(round.choice, core::iter::repeat_n(0, items));
        for (rank, &(_, item)) in (0..).zip(&self.shuffled) {
            search.set_rank(item, rank);
        }
    }
}

/// All ways to choose, again and again.
#[derive(Default)]
struct Rounds {
    round: u64,
}

/// One way to choose, and how many nodes it gets.
struct Round {
    choice: Choice,
    order: usize,
    /// How many ranks an item may move; not at all in the first sweep.
    spread: Option<u64>,
    seed: u64,
    nodes: u64,
}

impl Rounds {
    fn next(&mut self, items: u64) -> Round {
        let ways = WAYS.len() as u64;
        let sweep = self.round / ways;
        let (choice, order) = WAYS[(self.round % ways) as usize];
        self.round += 1;
        Round {
            choice,
            order,
            spread: (sweep > 0).then(|| [32, 128, 8][(sweep % 3) as usize]),
            seed: self.round,
            // Enough for one plan without much of a step back.
            nodes: (items + items / 8 + 8) * luby(sweep + 1),
        }
    }
}

/// Returns the element of 1, 1, 2, 1, 1, 2, 4, … at an index from 1.
fn luby(mut index: u64) -> u64 {
    loop {
        let bits = u64::BITS - index.leading_zeros();
        let full = (1 << bits) - 1;
        if index == full {
            return 1 << (bits - 1);
        }
        index -= full / 2;
    }
}

/// The generator splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0) % limit
    }
}

/// Mixes the bits of a number: the second half of splitmix64.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The floor of an item that is placed, and of a section without others.
const INFINITE: u64 = u64::MAX / 4;
