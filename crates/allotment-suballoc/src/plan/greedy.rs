//! The greedy solver: the skyline, in several orders.
//!
//! ```text
//!  offset                            A pass starts with an empty skyline and all items. Each step takes the item that can be
//!    │     ┌───────┐                 placed lowest: its offset is the highest of the skyline over its sections. Among several
//!    │     │   d   │ ┌───┐           the order decides.
//!    │ ┌───┴─┬─────┘ │ e │
//!    │ │  b  │  ┌────┴───┤           Here, a, b and c were placed at 0, c and a beside each other. Now d fits at b's end, over
//!    │ │     │  │   c    │           a gap that is lost, since nothing is placed below the skyline; e fits lower, so e was first.
//!    └─┴─────┴──┴────────┴── section
//! ```
//!
//! The step is the canonical order of the exact solver, without a way back. Its result on hard instances is 1.10 to 1.26 times
//! the bound, where placing by size, area or start takes 1.35 to 1.9 times. No order is the best one for all instances; the one
//! by the fullest section that an item is live in, then by duration, is so most often, and is the first. The next ones run
//! until a plan is as low as the bound, which most frame graphs have after the first or second. A pass ends early if it is not
//! lower than the best one so far.
//!
//! The keys are those of other planners, which place by them at any height: by the fullest section ("urgency") Arm Vela, by size
//! `TFLite`, XLA and AMD's RPS, by duration and by area XLA. The lowest offset first is how `MiniMalloc` (Moffitt, ASPLOS 2023)
//! enumerates plans. Boxing (Buchsbaum, Karloff, Kenyon, Reingold and Thorup, 2004) has a proof for very many small items, and
//! is no better than by size for the hundreds that a frame has.
//!
//! # Pins and limits
//!
//! An item that would overlap a pinned one goes on top of that, so the space below it may be lost. An item that would end above
//! the limit is left out; of two passes the one that leaves less out is better.
//!
//! # Stopped
//!
//! A pass counts its work, and asks now and then whether to stop. If so, what is left is placed on top of everything: a plan that
//! is valid, and as bad as it can be. The best plan of the passes is kept, so only the first one has to come to that.
//!
//! # Cost
//!
//! An item waits in the section that is in its way. The first one of each section in which any waits is in a heap, with an old
//! height of the section: if that has grown, all that wait there are higher, and one entry is put back for all of them. An item that
//! comes up and is blocked in another section waits there. So an order takes about 1 microsecond an item for 1,000, and 3 for
//! 10^5, where some tens are live at once. Each pin costs every look another comparison.

use alloc::collections::BinaryHeap;
use alloc::collections::binary_heap::PeekMut;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::floors::Floors;
use super::queues::{NONE, Queues};
use super::result::NOT_PLACED;
use super::work::Work;
use super::{Plan, Problem, Solver};

/// What decides between items that can be placed at the same offset. The larger comes first, and then the one with the lower
/// index.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// By the load of the fullest section that the item is live in, then by duration.
    LoadThenDuration,
    /// By that load, then by the number of sections.
    LoadThenSections,
    /// By size times duration.
    Area,
    /// By size.
    Size,
    /// By the sum of the loads of the sections.
    LoadSum,
    /// By duration.
    Duration,
}

/// The best on average first.
const ORDERS: [Order; 6] = [
    Order::LoadThenDuration,
    Order::LoadThenSections,
    Order::Area,
    Order::Size,
    Order::LoadSum,
    Order::Duration,
];

/// Levels of a heap that a processor's cache holds: 2^14 entries have 256 KiB.
const CACHED_LEVELS: u32 = 14;

/// The memory of the solver.
#[derive(Clone, Debug, Default)]
pub(super) struct Greedy {
    keys: Vec<(u64, u64)>,
    /// The items, in order.
    order: Vec<u32>,
    floors: Floors,
    /// For each section, the ranks of items that are not lower than it. An item waits in one section.
    queues: Queues,
    /// For each section, the height and the rank of its entry in the heap; others of it are out of date.
    entries: Vec<(u64, u32)>,
    /// At most one entry in use for each section: a height that it had, the first of its queue, and the section. Also heights and
    /// ranks of items that wait for an offset above the skyline, with `NONE` as the section.
    heap: BinaryHeap<Reverse<(u64, u32, u32)>>,
    /// For each item, the load of the fullest section.
    loads: Vec<u64>,
    /// For each section, the sum of the loads before it.
    sums: Vec<u64>,
    offsets: Vec<u64>,
}

impl Solver {
    /// Places the items, in a time for every frame. The result is deterministic.
    ///
    /// Items that would end above `limit` are not placed; `u64::MAX` is no limit. Pinned items are placed even above it.
    ///
    /// ```
    /// use allotment_suballoc::plan::{Item, Plan, Problem, Solver};
    ///
    /// let items = [(Item::new(4), 0..3), (Item::new(4), 3..9), (Item::new(4), 0..9), (Item::new(6), 9..12)];
    /// let problem = Problem::from_intervals(items)?;
    /// let (mut solver, mut plan) = (Solver::new(), Plan::new());
    /// solver.greedy(&problem, u64::MAX, &mut plan);
    /// assert_eq!(plan.peak(), 8, "18 without sharing");
    /// assert!(plan.is_optimal());
    ///
    /// solver.greedy(&problem, 7, &mut plan);
    /// assert_eq!(plan.not_placed().count(), 1);
    /// # Ok::<(), allotment_suballoc::plan::ProblemError>(())
    /// ```
    pub fn greedy(&mut self, problem: &Problem, limit: u64, plan: &mut Plan) {
        self.greedy_until(problem, limit, || false, plan);
    }

    /// Places the items as [`greedy`](Self::greedy) does, until `stop` returns `true`. Whatever is not placed by then goes on top of
    /// all others, unless an order before was completed; so all items are placed within the limit that can be there.
    ///
    /// `stop` is called every few tenths of a millisecond, in place of a clock, and never after it returned `true`. Before the first
    /// call and after the last one are O(n log n) steps.
    ///
    /// ```
    /// use allotment_suballoc::plan::{Item, Plan, Problem, Solver};
    ///
    /// // Half of the items are live all the time, and each of the others gives them one more section.
    /// let items = (0..4000).flat_map(|at| [(Item::new(2), 0..4000), (Item::new(1), at..at + 1)]);
    /// let problem = Problem::from_intervals(items)?;
    /// let mut plan = Plan::new();
    /// let mut calls = 0;
    /// let stop = || {
    ///     calls += 1;
    ///     calls == 3
    /// };
    /// Solver::new().greedy_until(&problem, u64::MAX, stop, &mut plan);
    /// assert_eq!(plan.not_placed().count(), 0);
    /// plan.check(&problem)?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn greedy_until(
        &mut self,
        problem: &Problem,
        limit: u64,
        mut stop: impl FnMut() -> bool,
        plan: &mut Plan,
    ) {
        let mut work = Work::until(&mut stop);
        self.greedy_first(problem, limit, &mut work, plan);
        self.greedy_rest(problem, limit, &mut work, plan);
    }

    /// Places the items in the first few orders.
    pub(super) fn greedy_first(
        &mut self,
        problem: &Problem,
        limit: u64,
        work: &mut Work<'_>,
        plan: &mut Plan,
    ) {
        plan.lower_bound = problem.lower_bound();
        (plan.left_out, plan.peak) = (u64::MAX, u64::MAX);
        self.greedy.measure(problem, work);
        // A plan is needed even if the time is over.
        self.greedy.improve(ORDERS[0], problem, limit, work, plan);
        self.greedy.improve_all(&ORDERS[1..2], problem, limit, work, plan);
    }

    /// Places the items in the other orders, after the first ones. Replaces the plan by a better one.
    pub(super) fn greedy_rest(
        &mut self,
        problem: &Problem,
        limit: u64,
        work: &mut Work<'_>,
        plan: &mut Plan,
    ) {
        self.greedy.improve_all(&ORDERS[2..], problem, limit, work, plan);
    }
}

impl Greedy {
    fn improve_all(
        &mut self,
        orders: &[Order],
        problem: &Problem,
        limit: u64,
        work: &mut Work<'_>,
        plan: &mut Plan,
    ) {
        for &order in orders {
            if plan.is_optimal() || work.is_stopped() {
                break;
            }
            self.improve(order, problem, limit, work, plan);
        }
    }

    /// Replaces the plan, if that of the order is better.
    fn improve(&mut self, order: Order, problem: &Problem, limit: u64, work: &mut Work<'_>, plan: &mut Plan) {
        self.sort(problem, order);
        if let Some((left_out, peak)) = self.pass(problem, limit, (plan.left_out, plan.peak), work) {
            (plan.left_out, plan.peak) = (left_out, peak);
            core::mem::swap(&mut plan.offsets, &mut self.offsets);
        }
    }

    /// Computes what the orders need. If it is stopped, the orders are not what they should be.
    fn measure(&mut self, problem: &Problem, work: &mut Work<'_>) {
        self.sums.clear();
        self.sums.push(0);
        let mut sum = 0u64;
        self.floors.reset(problem.section_count());
        for (section, &load) in (0..).zip(problem.loads()) {
            sum = sum.saturating_add(load);
            self.sums.push(sum);
            self.floors.raise(section, section + 1, load);
        }
        self.loads.clear();
        self.loads.extend((0..problem.len()).map(|item| {
            let ranges = problem.ranges_of(item);
            if work.has_done(Floors::highest_cost(ranges)) {
                return 0;
            }
            self.floors.highest_of(ranges).0
        }));
    }

    pub(super) fn sort(&mut self, problem: &Problem, order: Order) {
        let items = problem.items();
        let durations = problem.durations();
        let sum = |item: usize, value: &dyn Fn(u32, u32) -> u64| {
            problem.ranges_of(item).iter().map(|&(from, to)| value(from, to)).sum::<u64>()
        };
        self.keys.clear();
        self.keys.extend((0..items.len()).map(|item| match order {
            Order::LoadThenDuration => (self.loads[item], durations[item]),
            Order::LoadThenSections => (self.loads[item], sum(item, &|from, to| u64::from(to - from))),
            Order::Area => (items[item].size.saturating_mul(durations[item]), 0),
            Order::Size => (items[item].size, 0),
            Order::LoadSum => (sum(item, &|from, to| self.sums[to as usize] - self.sums[from as usize]), 0),
            Order::Duration => (durations[item], 0),
        }));
        self.order.clear();
        self.order.extend(0..items.len() as u32);
        self.order.sort_unstable_by_key(|&item| (Reverse(self.keys[item as usize]), item));
    }

    /// Returns the items in the order of the last sort.
    pub(super) fn order(&self) -> &[u32] {
        &self.order
    }

    /// Places all items in the order. Returns the bytes left out and the peak if these are less than `best`; the offsets are in
    /// `offsets`.
    fn pass(
        &mut self,
        problem: &Problem,
        limit: u64,
        best: (u64, u64),
        work: &mut Work<'_>,
    ) -> Option<(u64, u64)> {
        let mut peak = self.start_pass(problem);
        let mut left_out = 0;
        loop {
            // Each level of a heap that no cache holds is waited for.
            let levels = self.heap.len().checked_ilog2().unwrap_or(0).saturating_sub(CACHED_LEVELS);
            if work.has_done(1 + 2 * levels as usize) {
                return Some(self.stack(problem, limit, peak)).filter(|&stacked| stacked < best);
            }
            let Some(mut entry) = self.heap.peek_mut() else { break };
            let Reverse((height, rank, section)) = *entry;
            if section == NONE {
                PeekMut::pop(entry);
            } else if self.entries[section as usize] != (height, rank) {
                PeekMut::pop(entry);
                continue;
            } else {
                let floor = self.floors.height(section);
                if floor > height {
                    // Something was placed here since. All that wait here are at least as high.
                    self.entries[section as usize].0 = floor;
                    *entry = Reverse((floor, rank, section));
                    continue;
                }
                self.queues.remove_first(section);
                let next = self.queues.first(section);
                self.entries[section as usize].1 = next;
                if next == NONE {
                    PeekMut::pop(entry);
                } else {
                    *entry = Reverse((height, next, section));
                    drop(entry);
                }
            }
            let index = self.order[rank as usize] as usize;
            let item = problem.item(index);
            let ranges = problem.ranges_of(index);
            let (floor, at) = self.floors.highest_of(ranges);
            work.has_done(Floors::highest_cost(ranges));
            if floor > height {
                // It waits where it is blocked.
                self.queues.insert(at, rank);
                if self.queues.first(at) == rank {
                    self.push_entry(at, floor);
                }
                continue;
            }
            let offset = above_pins(problem, index, item.alignment.align_up(floor));
            work.has_done(problem.pinned().len() / 8);
            let end = offset + item.size;
            if end > limit {
                left_out += item.size;
            } else if offset > height {
                // What is lower comes first.
                self.heap.push(Reverse((offset, rank, NONE)));
                continue;
            } else {
                self.offsets[index] = offset;
                peak = peak.max(end);
                for &(from, to) in ranges {
                    self.floors.raise(from, to, end);
                    // Eight heights take as long as one look.
                    work.has_done((to - from) as usize / 8);
                }
            }
            if (left_out, peak) >= best {
                return None;
            }
        }
        Some((left_out, peak))
    }

    /// Places what is pinned, and lets all other items wait in their first sections. Returns the peak.
    fn start_pass(&mut self, problem: &Problem) -> u64 {
        self.floors.reset(problem.section_count());
        self.offsets.clear();
        self.offsets.resize(problem.len(), NOT_PLACED);
        self.queues.reset(problem.section_count(), problem.len());
        self.entries.clear();
        self.entries.resize(problem.section_count(), (0, NONE));
        self.heap.clear();
        let mut peak = 0;
        // The last first, which costs least.
        for (rank, &item) in (0..problem.len() as u32).zip(&self.order).rev() {
            let index = item as usize;
            if let Some(pin) = problem.item(index).pin {
                self.offsets[index] = pin;
                peak = peak.max(pin + problem.item(index).size);
            } else {
                self.queues.insert(problem.ranges_of(index)[0].0, rank);
            }
        }
        for section in 0..problem.section_count() as u32 {
            self.push_entry(section, 0);
        }
        peak
    }

    /// Places everything that is not placed yet on top of each other, in the order, from the end of the highest on. Returns the
    /// bytes left out and the peak.
    fn stack(&mut self, problem: &Problem, limit: u64, mut peak: u64) -> (u64, u64) {
        let mut left_out = 0;
        for &index in &self.order {
            let item = problem.item(index as usize);
            let offset = &mut self.offsets[index as usize];
            if *offset != NOT_PLACED {
                continue;
            }
            let above = item.alignment.align_up(peak);
            if above + item.size > limit {
                left_out += item.size;
            } else {
                *offset = above;
                peak = above + item.size;
            }
        }
        (left_out, peak)
    }

    /// Makes the first of a queue known to the heap.
    fn push_entry(&mut self, section: u32, height: u64) {
        let rank = self.queues.first(section);
        self.entries[section as usize] = (height, rank);
        if rank != NONE {
            self.heap.push(Reverse((height, rank, section)));
        }
    }
}

/// Returns the lowest aligned offset from `offset` on at which the item overlaps no pinned one.
fn above_pins(problem: &Problem, index: usize, mut offset: u64) -> u64 {
    let item = problem.item(index);
    // By ascending offset, so none that was passed is reached again.
    for &pinned in problem.pinned() {
        let other = problem.item(pinned as usize);
        let Some(pin) = other.pin else { continue };
        if pin >= offset + item.size {
            break;
        }
        if pin + other.size > offset && problem.conflict(pinned as usize, index) {
            offset = item.alignment.align_up(pin + other.size);
        }
    }
    offset
}
