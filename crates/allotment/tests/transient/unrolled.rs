//! The reference: some frames one after another, with all that is in order among their passes, found by closing the relation.

use std::collections::BTreeSet;

use allotment::transient::{Placement, TransientPass, TransientPlan, TransientResource};

use crate::frames::{Frame, Resource};

/// How many frames are looked at. Three show a resource, what it follows in the frame before, and what reads it in the next.
pub(crate) const FRAMES: usize = 3;

pub(crate) struct Unrolled<'a> {
    frame: &'a Frame,
    /// By the number of a pass, counted over all frames: those that end before it begins.
    before: Vec<BTreeSet<usize>>,
}

impl<'a> Unrolled<'a> {
    /// Unrolls a frame, with waits of a pass for one of the frame before.
    pub(crate) fn new(frame: &'a Frame, waits: &[(usize, usize)]) -> Self {
        let count = frame.passes.len();
        let mut before: Vec<BTreeSet<usize>> = Vec::new();
        for number in 0..FRAMES {
            let first = number * count;
            for (at, pass) in frame.passes.iter().enumerate() {
                let on_queue = (0..first + at).rev().find(|&it| frame.passes[it % count].queue == pass.queue);
                let mut direct: Vec<usize> =
                    pass.waits.iter().map(|&wait| first + wait).chain(on_queue).collect();
                if number > 0 {
                    let of_pass = waits.iter().filter(|(waiting, _)| *waiting == at);
                    direct.extend(of_pass.map(|(_, for_pass)| first - count + for_pass));
                }
                let mut all: BTreeSet<usize> = direct.iter().copied().collect();
                for earlier in direct {
                    all.extend(&before[earlier]);
                }
                before.push(all);
            }
        }
        Self { frame, before }
    }

    pub(crate) fn waits_of(plan: &TransientPlan, passes: &[TransientPass]) -> Vec<(usize, usize)> {
        let at = |pass: TransientPass| passes.iter().position(|it| *it == pass).unwrap();
        plan.waits().iter().map(|wait| (at(wait.pass), at(wait.for_pass))).collect()
    }

    /// All passes that use the resource of a frame, counted over all frames; in the last one, those that read it later are missing.
    fn uses(&self, resource: usize, frame: usize) -> Vec<usize> {
        let count = self.frame.passes.len();
        let it = &self.frame.resources[resource];
        let reads = it.reads.iter().map(|&at| (frame + 1) * count + at);
        let uses = it.uses.iter().map(|&at| frame * count + at);
        uses.chain(reads.filter(|&at| at < FRAMES * count)).collect()
    }

    pub(crate) fn is_pass_before(&self, a: usize, b: usize) -> bool {
        self.before[b].contains(&a)
    }

    /// Returns whether all uses of one resource come before all of another, each of a frame.
    pub(crate) fn is_before(&self, a: (usize, usize), b: (usize, usize)) -> bool {
        let (a, b) = (self.uses(a.0, a.1), self.uses(b.0, b.1));
        a.iter().all(|&a| b.iter().all(|&b| self.is_pass_before(a, b)))
    }

    pub(crate) fn may_share(&self, a: (usize, usize), b: (usize, usize)) -> bool {
        self.is_before(a, b) || self.is_before(b, a)
    }

    /// Returns whether two resources of one class may not share bytes in any frame, if each frame waits for the one before.
    pub(crate) fn conflicts(&self, a: usize, b: usize) -> bool {
        let [a, b] = [a, b].map(|at| &self.frame.resources[at]);
        // Of the first frame, in which no pass waits for one before.
        let all_before =
            |a: &[usize], b: &[usize]| a.iter().all(|&a| b.iter().all(|&b| self.is_pass_before(a, b)));
        let fits_between =
            |it: &[usize], kept: &Resource| all_before(&kept.reads, it) && all_before(it, &kept.uses);
        !match (a.reads.is_empty(), b.reads.is_empty()) {
            (true, true) => all_before(&a.uses, &b.uses) || all_before(&b.uses, &a.uses),
            (true, false) => fits_between(&a.uses, b),
            (false, true) => fits_between(&b.uses, a),
            (false, false) => false,
        }
    }

    /// Panics where two resources have bytes in common that may be in use at the same time, in any two frames.
    pub(crate) fn assert_apart(&self, placements: &[Option<Placement>]) {
        let all = (0..FRAMES).flat_map(|frame| (0..placements.len()).map(move |it| (it, frame)));
        let all: Vec<(usize, usize)> = all.collect();
        let range = |at: usize| {
            // What has no place in a heap has memory of its own.
            let own = Placement { heap: u32::MAX - at as u32, offset: 0 };
            let place = placements[at].unwrap_or(own);
            (place.heap, place.offset, place.offset + self.frame.resources[at].desc.size)
        };
        for (at, &a) in all.iter().enumerate() {
            for &b in &all[at + 1..] {
                let (left, right) = (range(a.0), range(b.0));
                if left.0 == right.0 && left.1 < right.2 && right.1 < left.2 {
                    assert!(self.may_share(a, b), "{a:?} at {left:?} and {b:?} at {right:?} overlap");
                }
            }
        }
    }

    /// Returns whom the resource of the middle frame follows, each with whether it is of the frame before; byte by byte, at the
    /// places where a resource begins or ends.
    pub(crate) fn follows(
        &self,
        resource: usize,
        placements: &[Option<Placement>],
    ) -> BTreeSet<(usize, bool)> {
        let Some(place) = placements[resource] else { return BTreeSet::new() };
        let range = |at: usize| {
            let it = placements[at].filter(|it| it.heap == place.heap)?;
            Some(it.offset..it.offset + self.frame.resources[at].desc.size)
        };
        let own = range(resource).unwrap();
        let edges = (0..placements.len()).filter_map(range).flat_map(|it| [it.start, it.end]);
        let mut found = BTreeSet::new();
        for byte in edges.chain([own.start]).filter(|byte| own.contains(byte)) {
            let tenants = (0..=1).flat_map(|frame| (0..placements.len()).map(move |at| (at, frame)));
            let mut earlier: Vec<(usize, usize)> = tenants
                .filter(|&(at, _)| range(at).is_some_and(|it| it.contains(&byte)))
                .filter(|&it| it != (resource, 1) && self.begins_before(it, (resource, 1)))
                .collect();
            // The last of them: the one that no other comes after.
            let all = earlier.clone();
            earlier.retain(|&it| !all.iter().any(|&other| other != it && self.begins_before(it, other)));
            assert!(earlier.len() <= 1, "{earlier:?} share a byte and have no order");
            found.extend(earlier.iter().map(|&(at, frame)| (at, frame == 0)));
        }
        found
    }

    /// Returns whether the first use of one comes before that of another, which shares bytes with it.
    fn begins_before(&self, a: (usize, usize), b: (usize, usize)) -> bool {
        let count = self.frame.passes.len();
        let first = |it: (usize, usize)| it.1 * count + self.frame.resources[it.0].uses.iter().min().unwrap();
        first(a) < first(b)
    }

    /// Returns whether a resource has no use before this one of its frame.
    pub(crate) fn is_first(&self, resource: usize, pass: usize) -> bool {
        let count = self.frame.passes.len();
        let uses = &self.frame.resources[resource].uses;
        uses.contains(&pass) && !uses.iter().any(|&it| self.is_pass_before(count + it, count + pass))
    }

    /// Returns the most bytes of resources of one class that are all in conflict with each other, by trying all sets.
    pub(crate) fn heaviest_clique(&self, class: u32) -> u64 {
        let of_class = |&at: &usize| self.frame.resources[at].desc.class == class;
        let members: Vec<usize> = (0..self.frame.resources.len()).filter(of_class).collect();
        self.heaviest(&members, 0)
    }

    fn heaviest(&self, left: &[usize], sum: u64) -> u64 {
        let Some((&at, rest)) = left.split_first() else { return sum };
        let beside: Vec<usize> = rest.iter().copied().filter(|&it| self.conflicts(at, it)).collect();
        let with = self.heaviest(&beside, sum + self.frame.resources[at].desc.size);
        with.max(self.heaviest(rest, sum))
    }
}

/// Returns where each resource of a frame is.
pub(crate) fn placements(plan: &TransientPlan, resources: &[TransientResource]) -> Vec<Option<Placement>> {
    resources.iter().map(|&it| plan.placement(it)).collect()
}
