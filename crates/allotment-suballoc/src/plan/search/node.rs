//! The nodes of a search, as two stacks: of choices that can be taken back, and of parts that are yet to be solved.
//!
//! ```text
//!   frames   a node whose item or raise was chosen, with what was so before: where the trails were, and the part that it is in
//!   goals    parts of the problem without connection, each linked to the next one to solve; the owner is the frame whose choice cut
//!            it off, and the one to go back to if it has no solution
//!
//!            frame 0 ── places a ──► goals:  [left part, owner 0] ─► [right part, owner 0] ─► none
//!            frame 1 ── in the left part … solved
//!            frame 5 ── in the right part, which has no solution: back to frame 0; the choices of the left part do not matter
//! ```
//!
//! # Invariants
//!
//! 1. `floors[i]` is `INFINITE` exactly if item `i` is placed.
//! 2. The values of a section are those of its first `count` items in `live`, which are the ones that are not placed.
//! 3. Undoing a frame restores everything but the order of the items in `live`.

use alloc::vec::Vec;

use super::setup::Setup;
use super::{INFINITE, mixed};
use crate::plan::{Plan, Problem};

const NONE: u32 = u32::MAX;

/// The entries of the table of hashes: 1 MiB.
const REMAINDERS: usize = 1 << 17;

/// How a node chooses its section, among those whose lowest items are ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Choice {
    /// The one with the fewest items to try, then the least slack.
    #[default]
    FewestItems,
    /// The one with the least slack, then the fewest items.
    LeastSlack,
    /// The lowest one, then the fewest items: as the greedy solver does.
    LowestFloor,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All items are placed within the capacity.
    Found,
    /// No plan is within the capacity.
    Excluded,
    /// The nodes were used up.
    Budget,
    /// The caller wants to stop.
    Stopped,
}

/// What a section has left.
#[derive(Clone, Copy, Debug, Default)]
struct Section {
    /// The lowest floor of its items, or `INFINITE`.
    floor: u64,
    /// How many of its items have that floor.
    lowest: u32,
    /// How many items there are.
    count: u32,
    /// The lowest end that one of its items could have.
    lowest_end: u64,
    /// The sum of the sizes of its items.
    left: u64,
    /// The sum of the hashes of those of its items that are live in no section before.
    hash: u64,
    /// The last change of the stack at which it was saved.
    saved_at: u64,
}

/// A part of the problem: a range of sections that no item left connects with others.
#[derive(Clone, Copy, Debug)]
struct Goal {
    from: u32,
    to: u32,
    owner: u32,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    goal: Goal,
    /// The section that it chose.
    section: u32,
    /// The items to try next: a range of `candidates`.
    next: u32,
    end: u32,
    /// Whether the section was raised, the last thing to try.
    raised: bool,
    hash: u64,
    /// The lengths of the stacks before it.
    floors: u32,
    sections: u32,
    placed: u32,
    goals: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Search {
    setup: Setup,
    capacity: u64,
    choice: Choice,
    /// For each item, how early it is tried.
    ranks: Vec<u32>,
    floors: Vec<u64>,
    offsets: Vec<u64>,
    sections: Vec<Section>,
    /// For each section, how many items left are live in it and the one before, or around both.
    crossing: Vec<u32>,
    frames: Vec<Frame>,
    goals: Vec<Goal>,
    candidates: Vec<u32>,
    /// What was so before it was changed, for each frame.
    old_floors: Vec<(u32, u64)>,
    old_sections: Vec<(u32, Section)>,
    placed: Vec<u32>,
    /// A bit for each section whose values must be computed anew.
    dirty: Vec<u64>,
    /// Counts changes of the stack.
    change: u64,
    /// Hashes of remainders without a solution, mixed with the capacity, each at the place that its upper bits name.
    remainders: Vec<u64>,
}

impl Search {
    /// Returns `false` if the problem is too large.
    pub(super) fn set_up(&mut self, problem: &Problem) -> bool {
        self.remainders.clear();
        self.remainders.resize(REMAINDERS, 0);
        self.setup.assign(problem)
    }

    /// Returns what all offsets are multiples of, if all items stand on something.
    pub(super) fn unit(&self) -> u64 {
        self.setup.unit
    }

    /// Sets the way to choose.
    pub(super) fn choose(&mut self, choice: Choice, ranks: impl Iterator<Item = u32>) {
        self.choice = choice;
        self.ranks.clear();
        self.ranks.extend(ranks);
    }

    pub(super) fn set_rank(&mut self, item: u32, rank: u32) {
        self.ranks[item as usize] = rank;
    }

    /// Copies what was found to a plan.
    pub(super) fn write(&self, plan: &mut Plan) {
        let unit = self.setup.unit;
        plan.offsets.clear();
        plan.offsets.extend(self.offsets.iter().map(|offset| offset * unit));
        let ends = self.offsets.iter().zip(&self.setup.sizes).map(|(offset, size)| (offset + size) * unit);
        plan.peak = ends.max().unwrap_or(0);
        plan.left_out = 0;
    }

    /// Looks for a plan whose peak is at most `capacity`, a multiple of the unit.
    pub(super) fn run(&mut self, capacity: u64, nodes: u64, stop: &mut dyn FnMut() -> bool) -> Outcome {
        self.capacity = capacity / self.setup.unit;
        if !self.start() {
            return Outcome::Excluded;
        }
        let mut goal = self.split(0, self.sections.len() as u32, NONE, NONE);
        let mut used = 0;
        while goal != NONE {
            used += 1;
            if used > nodes {
                return Outcome::Budget;
            }
            // A node takes microseconds, and a clock some ten nanoseconds.
            if used % 16 == 0 && stop() {
                return Outcome::Stopped;
            }
            if !self.enter(self.goals[goal as usize]) {
                return Outcome::Excluded;
            }
            match self.advance() {
                Some(next) => goal = next,
                None => return Outcome::Excluded,
            }
        }
        Outcome::Found
    }

    /// Begins without an item placed. Returns `false` if a section has too many.
    fn start(&mut self) -> bool {
        let Self { setup, floors, sections, crossing, .. } = self;
        let items = setup.sizes.len();
        floors.clear();
        floors.extend(setup.pins.iter().map(|&pin| if pin == INFINITE { 0 } else { pin }));
        self.offsets.clear();
        self.offsets.resize(items, 0);
        sections.clear();
        sections.extend(setup.loads.iter().zip(setup.first_live.windows(2)).map(|(&left, live)| Section {
            left,
            count: live[1] - live[0],
            ..Section::default()
        }));
        crossing.clear();
        crossing.resize(sections.len() + 1, 0);
        for (item, &floor) in floors.iter().enumerate() {
            let (from, to) = setup.hull_of(item);
            crossing[from as usize + 1..to as usize].iter_mut().for_each(|count| *count += 1);
            let section = &mut sections[from as usize];
            section.hash = section.hash.wrapping_add(hash(item, floor));
        }
        self.frames.clear();
        self.goals.clear();
        self.candidates.clear();
        self.old_floors.clear();
        self.placed.clear();
        self.dirty.clear();
        self.dirty.resize(sections.len().div_ceil(64), 0);
        for section in 0..sections.len() {
            self.dirty[section / 64] |= 1 << (section % 64);
        }
        self.change = 1;
        let fits = self.compute();
        // There is nothing to go back to.
        self.old_sections.clear();
        fits && (0..items).all(|item| self.floors[item] + self.setup.sizes[item] <= self.capacity)
    }

    /// Pushes the frame of a part, or goes back if the part has no solution. Returns `false` if nothing is left to try.
    fn enter(&mut self, goal: Goal) -> bool {
        let sections = &self.sections[goal.from as usize..goal.to as usize];
        let hash = sections.iter().fold(self.capacity, |sum, section| sum.wrapping_add(section.hash));
        let hash = mixed(hash);
        if self.remainders[place(hash)] == hash {
            return self.back_to(goal.owner);
        }
        let section = self.chosen(goal);
        let next = self.candidates.len();
        let floor = self.sections[section].floor;
        let live = self.live_in(section);
        self.candidates
            .extend(self.setup.live[live].iter().filter(|&&item| self.floors[item as usize] == floor));
        self.candidates[next..].sort_unstable_by_key(|&item| (self.ranks[item as usize], item));
        self.frames.push(Frame {
            goal,
            section: section as u32,
            next: next as u32,
            end: self.candidates.len() as u32,
            raised: false,
            hash,
            floors: self.old_floors.len() as u32,
            sections: self.old_sections.len() as u32,
            placed: self.placed.len() as u32,
            goals: self.goals.len() as u32,
        });
        true
    }

    /// Makes a frame the last one. Returns `false` if there is none.
    fn back_to(&mut self, frame: u32) -> bool {
        if frame == NONE {
            return false;
        }
        self.frames.truncate(frame as usize + 1);
        if let Some(frame) = self.frames.last() {
            self.candidates.truncate(frame.end as usize);
        }
        true
    }

    /// Makes the next choice of the last frame, or of the one it goes back to. Returns the next goal, or `None` if nothing is left
    /// to try.
    fn advance(&mut self) -> Option<u32> {
        while let Some(&frame) = self.frames.last() {
            let index = self.frames.len() - 1;
            self.undo(&frame);
            self.change += 1;
            if frame.next < frame.end {
                self.frames[index].next += 1;
                if self.put(self.candidates[frame.next as usize] as usize) {
                    return Some(self.split(frame.goal.from, frame.goal.to, index as u32, frame.goal.next));
                }
            } else if !frame.raised {
                self.frames[index].raised = true;
                if self.raise_section(frame.section) {
                    self.goals.push(Goal { owner: index as u32, ..frame.goal });
                    return Some(self.goals.len() as u32 - 1);
                }
            } else {
                self.remainders[place(frame.hash)] = frame.hash;
                if !self.back_to(frame.goal.owner) {
                    return None;
                }
            }
        }
        None
    }

    fn undo(&mut self, frame: &Frame) {
        for (section, old) in self.old_sections.drain(frame.sections as usize..).rev() {
            self.sections[section as usize] = old;
        }
        for (item, old) in self.old_floors.drain(frame.floors as usize..).rev() {
            self.floors[item as usize] = old;
        }
        for item in self.placed.drain(frame.placed as usize..) {
            let (from, to) = self.setup.hull_of(item as usize);
            self.crossing[from as usize + 1..to as usize].iter_mut().for_each(|count| *count += 1);
        }
        self.goals.truncate(frame.goals as usize);
    }

    /// Cuts `from..to` into parts that no item left connects. Returns the first of them, which are linked to `rest`.
    fn split(&mut self, from: u32, to: u32, owner: u32, rest: u32) -> u32 {
        let first = self.goals.len();
        let mut start = from;
        for end in from + 1..=to {
            if end < to && self.crossing[end as usize] > 0 {
                continue;
            }
            if self.sections[start as usize..end as usize].iter().any(|section| section.count > 0) {
                self.goals.push(Goal { from: start, to: end, owner, next: NONE });
            }
            start = end;
        }
        // The shortest one is tried first: if it has no solution, the others need none.
        self.goals[first..].sort_unstable_by_key(|goal| (goal.from.wrapping_sub(goal.to), goal.from));
        let mut head = rest;
        for goal in first..self.goals.len() {
            self.goals[goal].next = head;
            head = goal as u32;
        }
        head
    }

    /// Returns the section that a node of this part asks about.
    fn chosen(&self, goal: Goal) -> usize {
        let range = goal.from as usize..goal.to as usize;
        // Two numbers to compare, in which counts have 14 bits and heights 50. Larger heights are all the same to a choice, which
        // is none of whether there is a plan.
        let height = |height: u64| height.min((1 << 50) - 1);
        let score = |values: &Section| {
            let slack = height(self.capacity - values.floor - values.left);
            let lowest = u64::from(values.lowest.min(0x3fff)) << 50;
            match self.choice {
                Choice::FewestItems => (lowest | slack, values.floor),
                Choice::LeastSlack => (slack, lowest | height(values.floor)),
                Choice::LowestFloor => (values.floor, lowest | slack),
            }
        };
        // The best ones are mostly ready; the lowest one is always.
        let mut worst = ((0, 0), 0);
        for _ in 0..8 {
            let mut best = ((u64::MAX, 0), 0);
            for (section, values) in range.clone().zip(&self.sections[range.clone()]) {
                if values.count > 0 {
                    let score = (score(values), section + 1);
                    if score < best && score > worst {
                        best = score;
                    }
                }
            }
            let ((primary, _), section) = best;
            if primary == u64::MAX {
                break;
            }
            if self.is_ready(section - 1) {
                return section - 1;
            }
            worst = best;
        }
        let sections = range.clone().filter(|&section| self.sections[section].count > 0);
        sections.min_by_key(|&section| (self.sections[section].floor, section)).unwrap_or(range.start)
    }

    /// Returns whether nothing can be below the lowest items of the section that is not placed.
    fn is_ready(&self, section: usize) -> bool {
        let floor = self.sections[section].floor;
        self.setup.live[self.live_in(section)].iter().all(|&item| {
            self.floors[item as usize] != floor
                || self.setup.ranges_of(item as usize).iter().all(|&(from, to)| {
                    let sections = &self.sections[from as usize..to as usize];
                    sections.iter().all(|section| section.lowest_end > floor)
                })
        })
    }

    /// Returns where the items of a section are that are not placed.
    fn live_in(&self, section: usize) -> core::ops::Range<usize> {
        let first = self.setup.first_live[section] as usize;
        first..first + self.sections[section].count as usize
    }

    /// Places an item at its floor. Returns `false` if the others do not fit any more.
    fn put(&mut self, item: usize) -> bool {
        let offset = self.floors[item];
        // All that is left in its sections is above it: most of what does not fit is seen before anything changes.
        let full = |section: &Section| offset + section.left > self.capacity;
        let mut ranges = self.setup.ranges_of(item).iter();
        if ranges.any(|&(from, to)| self.sections[from as usize..to as usize].iter().any(full)) {
            return false;
        }
        let end = offset + self.setup.sizes[item];
        self.offsets[item] = offset;
        self.placed.push(item as u32);
        self.old_floors.push((item as u32, offset));
        self.floors[item] = INFINITE;
        let (from, to) = self.setup.hull_of(item);
        self.crossing[from as usize + 1..to as usize].iter_mut().for_each(|count| *count -= 1);
        self.save(from as usize);
        let section = &mut self.sections[from as usize];
        section.hash = section.hash.wrapping_sub(hash(item, offset));
        self.take_out(item);
        for near in self.setup.near_of(item) {
            let near = self.setup.near[near] as usize;
            if self.floors[near] < end && !self.raise(near, end) {
                self.dirty.fill(0);
                return false;
            }
        }
        self.compute()
    }

    /// Removes an item from its sections.
    fn take_out(&mut self, item: usize) {
        let mut entry = self.setup.first_entry[item] as usize;
        for range in self.setup.first_range[item]..self.setup.first_range[item + 1] {
            let (from, to) = self.setup.ranges[range as usize];
            for section in from as usize..to as usize {
                self.save(section);
                self.sections[section].left -= self.setup.sizes[item];
                self.sections[section].count -= 1;
                self.dirty[section / 64] |= 1 << (section % 64);
                // Behind those that are left. Undoing counts it again, where it is then.
                let last = self.setup.first_live[section] + self.sections[section].count;
                self.setup.exchange(item, entry, section, last);
                entry += 1;
            }
        }
    }

    fn save(&mut self, section: usize) {
        if self.sections[section].saved_at != self.change {
            self.old_sections.push((section as u32, self.sections[section]));
            self.sections[section].saved_at = self.change;
        }
    }

    /// Raises the floor of an item that is lower. Returns `false` if it does not fit any more.
    fn raise(&mut self, item: usize, to: u64) -> bool {
        let mask = self.setup.masks[item];
        let floor = (to + mask) & !mask;
        let size = self.setup.sizes[item];
        if floor + size > self.capacity || floor > self.setup.pins[item] {
            return false;
        }
        let old = self.floors[item];
        self.old_floors.push((item as u32, old));
        self.floors[item] = floor;
        let (first, _) = self.setup.hull_of(item);
        self.save(first as usize);
        let section = &mut self.sections[first as usize];
        section.hash = section.hash.wrapping_sub(hash(item, old)).wrapping_add(hash(item, floor));
        for range in self.setup.first_range[item]..self.setup.first_range[item + 1] {
            let (from, to) = self.setup.ranges[range as usize];
            for section in from as usize..to as usize {
                let values = &self.sections[section];
                let (lowest, ends_lowest) = (values.floor == old, values.lowest_end == old + size);
                if lowest {
                    self.save(section);
                    self.sections[section].lowest -= 1;
                }
                // Otherwise no value changes.
                if ends_lowest || (lowest && self.sections[section].lowest == 0) {
                    self.dirty[section / 64] |= 1 << (section % 64);
                }
            }
        }
        true
    }

    /// Raises a section of which no item is at its floor. Returns `false` if its items do not fit any more.
    fn raise_section(&mut self, section: u32) -> bool {
        let Section { floor, left, .. } = self.sections[section as usize];
        let live = self.live_in(section as usize);
        let mut height = INFINITE;
        for index in live.clone() {
            let item = self.setup.live[index] as usize;
            if self.floors[item] > floor {
                height = height.min(self.floors[item]);
                continue;
            }
            // It stands on an item that is not in this section.
            let mask = self.setup.masks[item];
            for near in self.setup.near_of(item) {
                let near = self.setup.near[near] as usize;
                let end = (self.floors[near] + self.setup.sizes[near] + mask) & !mask;
                if self.floors[near] < INFINITE && end < height && !self.setup.is_live(near, section) {
                    height = end;
                }
            }
        }
        if height == INFINITE || height + left > self.capacity {
            return false;
        }
        for index in live {
            let item = self.setup.live[index] as usize;
            if self.floors[item] < height && !self.raise(item, height) {
                self.dirty.fill(0);
                return false;
            }
        }
        self.compute()
    }

    /// Computes what changed in sections. Returns `false` if the items of one do not fit any more.
    fn compute(&mut self) -> bool {
        for word in 0..self.dirty.len() {
            let mut bits = core::mem::take(&mut self.dirty[word]);
            while bits != 0 {
                let section = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                self.save(section);
                let (mut floor, mut lowest, mut lowest_end) = (INFINITE, 0, INFINITE);
                for &item in &self.setup.live[self.live_in(section)] {
                    let at = self.floors[item as usize];
                    lowest_end = lowest_end.min(at + self.setup.sizes[item as usize]);
                    if at < floor {
                        (floor, lowest) = (at, 0);
                    }
                    lowest += u32::from(at == floor);
                }
                let values = &mut self.sections[section];
                (values.floor, values.lowest, values.lowest_end) = (floor, lowest, lowest_end);
                if values.count > 0 && floor + values.left > self.capacity {
                    self.dirty.fill(0);
                    return false;
                }
            }
        }
        true
    }
}

/// Returns the hash of an item that is left, with its floor.
fn hash(item: usize, floor: u64) -> u64 {
    mixed((item as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(floor))
}

/// Returns where a hash is in the table.
fn place(hash: u64) -> usize {
    (hash >> (u64::BITS - REMAINDERS.ilog2())) as usize
}
