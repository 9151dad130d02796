//! The passes of a frame, and which of them may run at the same time.
//!
//! A queue executes its passes in order, with a barrier between two that share memory. Passes on two queues may overlap, unless
//! one waits for the other, or for one that comes after it:
//!
//! ```text
//!   graphics   depth ──▶ shadows ──▶ lighting ──▶ bloom
//!                │                      ▲
//!   async        └──────▶ ssao ─────────┘           ssao may overlap shadows, and neither depth nor lighting
//! ```
//!
//! So what two resources may share is no matter of pass numbers. Resource A is *before* B if each pass that uses A ends before
//! each that uses B begins. They may have the same bytes if one is before the other. This is a partial order, and the solvers
//! want sets of resources that are alive together: *sections*. Those are taken from passes that may all run at the same time. A
//! resource is alive in such a set if some use is at or before a pass of the set, and some use is at or after a pass of it.
//!
//! - No two resources of a section may share bytes. If A were before B, then some pass `a` of A would be at or after a pass of the
//!   set, and some pass `b` of B at or before one, with `a` before `b`: two passes of the set would be in order.
//! - Any two that may not share bytes are in a section of one or of two passes. If no use of A is ordered with one of B, these two
//!   passes are such a set; else one has a use between two of the other.
//!
//! So pairs of passes suffice. Each is extended by passes of further queues as long as all may overlap, since the solvers prune by
//! what is alive together. Three resources may still be in conflict by three pairs of passes, of which no three may overlap, and
//! three that are kept for the next frame by three times at none of which all are alive. The bound of a plan counts these as well.
//!
//! What is before what is kept as a vector clock for each pass (Mattern, "Virtual Time and Global States of Distributed Systems",
//! 1989): how many passes of each queue have ended before it begins.

use core::ops::Range;

use crate::device::QueueIndex;

/// A pass as it was described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Described {
    queue: QueueIndex,
    /// Where its waits end in the list of all; they begin where those of the pass before end.
    waits_end: u32,
}

/// The passes of a frame, in the order of submission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Passes {
    passes: Vec<Described>,
    /// The passes that each one waits for, all of which were submitted before.
    waits: Vec<u32>,
}

impl Passes {
    pub(super) fn clear(&mut self) {
        self.passes.clear();
        self.waits.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.passes.len()
    }

    /// Adds a pass. Those that it waits for were added before.
    pub(super) fn add(&mut self, queue: QueueIndex, waits: impl IntoIterator<Item = u32>) {
        self.waits.extend(waits);
        self.passes.push(Described { queue, waits_end: self.waits.len() as u32 });
    }

    fn waits(&self) -> impl Iterator<Item = &[u32]> {
        let mut begin = 0;
        self.passes.iter().map(move |pass| {
            let waits = &self.waits[begin..pass.waits_end as usize];
            begin = pass.waits_end as usize;
            waits
        })
    }
}

/// What is before what among the passes of a frame.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The queues that have passes, in the order of their first ones. What a queue is below is its place in this list.
    queues: Vec<QueueIndex>,
    /// The queue of each pass, and its number among the passes of that queue.
    place: Vec<(u32, u32)>,
    /// The passes of each queue.
    on_queue: Vec<Vec<u32>>,
    /// For each pass and queue, how many passes of the queue have ended before the pass begins.
    ended: Vec<u32>,
}

impl Order {
    pub(super) fn of(passes: &Passes) -> Self {
        let mut order = Self::default();
        for pass in &passes.passes {
            let found = order.queues.iter().position(|&queue| queue == pass.queue);
            let queue = found.unwrap_or_else(|| {
                order.queues.push(pass.queue);
                order.on_queue.push(Vec::new());
                order.queues.len() - 1
            });
            order.place.push((queue as u32, order.on_queue[queue].len() as u32));
            order.on_queue[queue].push(order.place.len() as u32 - 1);
        }
        let queues = order.queues.len();
        order.ended = vec![0; passes.len() * queues];
        for (pass, waits) in passes.waits().enumerate() {
            let (queue, number) = order.place[pass];
            let previous = (number > 0).then(|| order.on_queue[queue as usize][number as usize - 1]);
            for before in waits.iter().copied().chain(previous) {
                let (its_queue, its_number) = order.place[before as usize];
                for at in 0..queues {
                    let ended = match at as u32 == its_queue {
                        true => its_number + 1,
                        false => order.ended[before as usize * queues + at],
                    };
                    let known = &mut order.ended[pass * queues + at];
                    *known = ended.max(*known);
                }
            }
        }
        order
    }

    pub(super) fn queues(&self) -> usize {
        self.queues.len()
    }

    fn passes(&self) -> u32 {
        self.place.len() as u32
    }

    /// Returns how many passes of a queue have ended before a pass begins.
    fn ended(&self, pass: u32, queue: usize) -> u32 {
        self.ended[pass as usize * self.queues() + queue]
    }

    /// Returns how many passes of a queue have ended when a pass has ended, itself included.
    fn ended_with(&self, pass: u32, queue: usize) -> u32 {
        let (own, number) = self.place[pass as usize];
        if own as usize == queue { number + 1 } else { self.ended(pass, queue) }
    }

    /// Returns whether `a` ends before `b` begins.
    pub(super) fn is_before(&self, a: u32, b: u32) -> bool {
        let (queue, number) = self.place[a as usize];
        self.ended(b, queue as usize) > number
    }

    pub(super) fn is_at_or_before(&self, a: u32, b: u32) -> bool {
        a == b || self.is_before(a, b)
    }

    /// Returns whether a pass comes after one of the frame before, by the order of the queues and the waits of each frame.
    pub(super) fn is_after_frame_before(&self, pass: u32, other: u32) -> bool {
        (0..self.queues()).any(|queue| {
            // A queue of which some pass is at or before it has completed all of the frame before.
            let last = self.on_queue[queue].last();
            self.ended_with(pass, queue) > 0 && last.is_some_and(|&last| self.is_at_or_before(other, last))
        })
    }

    /// Returns those of some passes that none of the others is before: of each queue the first at most.
    pub(super) fn firsts(&self, passes: &[u32]) -> Vec<u32> {
        self.extremes(passes, |a, b| self.is_before(a, b))
    }

    /// Returns those of some passes that are before none of the others: of each queue the last at most.
    pub(super) fn lasts(&self, passes: &[u32]) -> Vec<u32> {
        self.extremes(passes, |a, b| self.is_before(b, a))
    }

    fn extremes(&self, passes: &[u32], covers: impl Fn(u32, u32) -> bool) -> Vec<u32> {
        // One of each queue at most is left, since those of a queue are in order.
        let mut left: Vec<u32> = Vec::new();
        for &pass in passes {
            if !left.iter().any(|&other| other == pass || covers(other, pass)) {
                left.retain(|&other| !covers(pass, other));
                left.push(pass);
            }
        }
        left
    }

    fn may_overlap(&self, a: u32, b: u32) -> bool {
        a != b && !self.is_before(a, b) && !self.is_before(b, a)
    }

    /// Returns the passes of another queue that may run at the same time as a pass, by their numbers on it.
    fn beside(&self, pass: u32, queue: usize) -> Range<u32> {
        let (own, number) = self.place[pass as usize];
        // Those that wait for the pass come last on their queue.
        let after = self.on_queue[queue].partition_point(|&other| self.ended(other, own as usize) <= number);
        self.ended(pass, queue)..after as u32
    }

    /// Returns sets of passes that may run at the same time, such that any two that may are in one of them, and each pass is.
    /// They are in the order of their last passes. Of one queue, each pass is a set.
    pub(super) fn sets(&self) -> Vec<Vec<u32>> {
        let mut sets = Vec::new();
        for pass in 0..self.passes() {
            let own = self.place[pass as usize].0 as usize;
            let mut is_alone = true;
            for queue in (0..self.queues()).filter(|&queue| queue != own) {
                for number in self.beside(pass, queue) {
                    is_alone = false;
                    let other = self.on_queue[queue][number as usize];
                    // Each pair once.
                    if other < pass {
                        sets.push(self.extended(pass, other));
                    }
                }
            }
            if is_alone {
                sets.push(vec![pass]);
            }
        }
        sets
    }

    fn extended(&self, pass: u32, other: u32) -> Vec<u32> {
        let mut set = vec![pass, other];
        for queue in 0..self.queues() {
            let mut beside = self.beside(pass, queue).map(|number| self.on_queue[queue][number as usize]);
            if let Some(third) = beside.find(|&third| set.iter().all(|&it| self.may_overlap(it, third))) {
                set.push(third);
            }
        }
        set
    }
}

/// When a resource is used: what it takes to compare it with others.
#[derive(Clone, Debug)]
pub(super) struct Uses {
    /// The number of the first use on each queue; past all where there is none.
    first: Vec<u32>,
    /// How many passes of each queue are at or before some use.
    until: Vec<u32>,
}

impl Uses {
    pub(super) fn of(order: &Order, passes: &[u32]) -> Self {
        let (mut first, mut until) = (vec![u32::MAX; order.queues()], vec![0; order.queues()]);
        for &pass in passes {
            let (queue, number) = order.place[pass as usize];
            let first = &mut first[queue as usize];
            *first = number.min(*first);
            for (queue, until) in until.iter_mut().enumerate() {
                *until = order.ended_with(pass, queue).max(*until);
            }
        }
        Self { first, until }
    }

    /// Returns whether some use is at or before a pass of the set.
    pub(super) fn has_begun(&self, order: &Order, set: &[u32]) -> bool {
        let is_begun =
            |&pass: &u32| (0..order.queues()).any(|queue| self.first[queue] < order.ended_with(pass, queue));
        set.iter().any(is_begun)
    }

    /// Returns whether some use is at or after a pass of the set.
    pub(super) fn is_to_come(&self, order: &Order, set: &[u32]) -> bool {
        set.iter().any(|&pass| {
            let (queue, number) = order.place[pass as usize];
            number < self.until[queue as usize]
        })
    }
}
