//! The heaviest items of which each two conflict.
//!
//! ```text
//!   time      0   1   2   3   4   5
//!   a         ├───────┤               At each time two of the three are live, and each two are live together at some time. So
//!   b             ├───────────┤       they lie above each other: a plan has a peak of a + b + c, and not of the largest two.
//!   c         ├───┤       ├───────┤
//! ```
//!
//! Where each item has one range, what conflicts pairwise is live at one time (Helly), and nothing is to be found here. With
//! histories and passes on several queues it is what separates a plan from the most that is live at once in one frame of twenty.
//!
//! # How
//!
//! Only an item that weighs more than what is known, together with all that it conflicts with, can be in a heavier set; mostly
//! that leaves a few dozen. Among these, branch and bound: each item in turn with those before it that conflict with it. The
//! bound of a node is a fractional colouring, as in Tavares' thesis (2016): items of which no two conflict share a weight, which is
//! taken off all of them, until none has any left. In a set of which each two conflict, each such weight is counted once.
//!
//! # Cost
//!
//! The number of steps is limited, to what takes a few tenths of a millisecond. What is found until then is a bound too, a lower one.

use alloc::vec::Vec;

use super::Problem;

/// More items than this are not searched, and as many as this take 128 KiB.
const MOST_ITEMS: usize = 1024;

/// So many steps, of one to three nanoseconds each, are enough for nearly all frames of 200 resources on two queues.
const STEPS: usize = 100_000;

/// A set of items, as bits.
const BITS: usize = u64::BITS as usize;

#[derive(Clone, Debug, Default)]
pub(super) struct Cliques {
    /// For each section, the weight of all ranges that start before it; and one more. An item may have any number of ranges, so that
    /// a sum may be more than 2^64.
    started: Vec<u128>,
    /// Items that may be in a heavier set, the heaviest first.
    members: Vec<u32>,
    /// The ranges of the members, by their starts, as (start, end, member).
    ranges: Vec<(u32, u32, u32)>,
    /// The ranges that are not over, as (end, member).
    live: Vec<(u32, u32)>,
    weights: Vec<u64>,
    /// The words of a set of members.
    words: usize,
    /// For each member, the set of those that it conflicts with.
    conflicts: Vec<u64>,
    /// For each depth, the members that are left.
    left: Vec<u64>,
    /// For each depth, one after the other: the members that are left, and the most that one weighs with those before it.
    order: Vec<(u32, u64)>,
    /// While a node is bounded: what is left of each weight, and the members with one, and those that may share the next.
    rest: Vec<u64>,
    uncoloured: Vec<u64>,
    free: Vec<u64>,
    shared: Vec<u32>,
    heaviest: u64,
    steps: usize,
}

impl Cliques {
    /// Returns the weight of the heaviest set that was found, or the largest of `loads`, if none is heavier. `loads` has the weight of
    /// each section.
    pub(super) fn heaviest(
        &mut self,
        problem: &Problem,
        loads: &[u64],
        weight: impl Fn(usize) -> u64,
    ) -> u64 {
        self.heaviest = loads.iter().copied().max().unwrap_or(0);
        self.steps = STEPS;
        let mut items = 0..problem.len();
        if items.any(|item| problem.ranges_of(item).len() > 1) {
            self.choose(problem, loads, &weight);
            if self.members.len() <= MOST_ITEMS && self.find_conflicts(problem) {
                self.left.clear();
                self.left.resize(self.words, 0);
                (0..self.members.len()).for_each(|member| self.left[member / BITS] |= 1 << (member % BITS));
                self.order.clear();
                self.branch(0, 0);
            }
        }
        self.heaviest
    }

    /// Chooses the items that may be in a heavier set.
    fn choose(&mut self, problem: &Problem, loads: &[u64], weight: impl Fn(usize) -> u64) {
        self.started.clear();
        self.started.resize(loads.len() + 1, 0);
        for item in 0..problem.len() {
            for &(from, _) in problem.ranges_of(item) {
                self.started[from as usize + 1] += u128::from(weight(item));
            }
        }
        let mut sum = 0;
        for started in &mut self.started {
            sum += *started;
            *started = sum;
        }
        // What conflicts with a range is live at its start, or starts within it. It may do so with several ranges: then it counts
        // too often, which does no harm.
        let started = &self.started;
        let around = |&(from, to): &(u32, u32)| {
            let (from, to) = (from as usize, to as usize);
            u128::from(loads[from]) + started[to] - started[from + 1]
        };
        self.members.clear();
        // Indices fit: there is at least one range for each.
        self.members.extend((0..problem.len() as u32).filter(|&item| {
            let ranges = problem.ranges_of(item as usize);
            let own_too_often = u128::from(weight(item as usize)) * (ranges.len() as u128 - 1);
            ranges.iter().map(around).sum::<u128>() - own_too_often > u128::from(self.heaviest)
        }));
        self.members.sort_unstable_by_key(|&item| (core::cmp::Reverse(weight(item as usize)), item));
        self.weights.clear();
        self.weights.extend(self.members.iter().map(|&item| weight(item as usize)));
    }

    /// Returns `false` if that takes too many steps.
    fn find_conflicts(&mut self, problem: &Problem) -> bool {
        let words = self.members.len().div_ceil(BITS);
        self.words = words;
        self.conflicts.clear();
        self.conflicts.resize(self.members.len() * words, 0);
        self.ranges.clear();
        for (member, &item) in (0..).zip(&self.members) {
            let ranges = problem.ranges_of(item as usize);
            self.ranges.extend(ranges.iter().map(|&(from, to)| (from, to, member)));
        }
        self.ranges.sort_unstable();
        self.live.clear();
        let mut set = |first: u32, second: u32| {
            let second = second as usize;
            self.conflicts[first as usize * words + second / BITS] |= 1 << (second % BITS);
        };
        for &(start, end, member) in &self.ranges {
            self.live.retain(|&(end, _)| end > start);
            let steps = self.live.len() / 4 + 1;
            if self.steps <= steps {
                return false;
            }
            self.steps -= steps;
            for &(_, other) in &self.live {
                set(member, other);
                set(other, member);
            }
            // The other ranges of an item do not intersect this one.
            self.live.push((end, member));
        }
        true
    }

    /// Adds the members that are left at `depth` to a set of `weight`, each in turn.
    fn branch(&mut self, depth: usize, weight: u64) {
        let first = self.order.len();
        match self.bound(depth) {
            Bound::Conflicting(sum) => self.heaviest = self.heaviest.max(weight + sum),
            Bound::OutOfSteps => self.order.truncate(first),
            Bound::Ordered => self.branch_in_order(depth, weight, first),
        }
    }

    /// Adds those members of `order` that come after `first`, the last one first.
    fn branch_in_order(&mut self, depth: usize, weight: u64, first: usize) {
        let words = self.words;
        self.left.resize((depth + 2) * words, 0);
        while self.order.len() > first {
            let Some((member, most)) = self.order.pop() else { break };
            // Those before it weigh less still.
            if weight.saturating_add(most) <= self.heaviest {
                break;
            }
            let member = member as usize;
            let (here, below) = (depth * words, (depth + 1) * words);
            self.left[here + member / BITS] &= !(1 << (member % BITS));
            for word in 0..words {
                self.left[below + word] = self.left[here + word] & self.conflicts[member * words + word];
            }
            self.branch(depth + 1, weight + self.weights[member]);
            if self.steps == 0 {
                break;
            }
        }
        self.order.truncate(first);
    }

    /// Adds the members that are left at `depth` to `order`, if there are two that do not conflict.
    fn bound(&mut self, depth: usize) -> Bound {
        let words = self.words;
        // What is copied below.
        self.steps = self.steps.saturating_sub(self.weights.len() / 8 + words);
        if self.steps == 0 {
            return Bound::OutOfSteps;
        }
        self.uncoloured.clear();
        self.uncoloured.extend_from_slice(&self.left[depth * words..][..words]);
        self.rest.clone_from(&self.weights);
        let (first, mut most, mut is_any_shared) = (self.order.len(), 0, false);
        loop {
            // Items of which no two conflict, the heaviest first.
            self.free.clone_from(&self.uncoloured);
            self.shared.clear();
            let mut least = u64::MAX;
            let mut word = 0;
            while word < words {
                let bits = self.free[word];
                if bits == 0 {
                    word += 1;
                    continue;
                }
                let member = word * BITS + bits.trailing_zeros() as usize;
                self.free[word] &= bits - 1;
                let conflicts = &self.conflicts[member * words..][..words];
                self.free[word..].iter_mut().zip(&conflicts[word..]).for_each(|(free, it)| *free &= !it);
                least = least.min(self.rest[member]);
                self.shared.push(member as u32);
            }
            if self.shared.is_empty() {
                break;
            }
            self.steps = self.steps.saturating_sub((self.shared.len() + 1) * (words + 4));
            if self.steps == 0 {
                return Bound::OutOfSteps;
            }
            most += least;
            is_any_shared |= self.shared.len() > 1;
            for &member in &self.shared {
                let rest = &mut self.rest[member as usize];
                *rest -= least;
                if *rest == 0 {
                    self.uncoloured[member as usize / BITS] &= !(1 << (member as usize % BITS));
                    self.order.push((member, most));
                }
            }
        }
        if is_any_shared {
            return Bound::Ordered;
        }
        self.order.truncate(first);
        Bound::Conflicting(most)
    }
}

/// What is known of the members that are left at a node.
enum Bound {
    /// Each two conflict, or there are none. The sum of their weights.
    Conflicting(u64),
    /// They are in `order`.
    Ordered,
    OutOfSteps,
}
