//! How a frame is placed: each class of its resources apart, in one heap after the other.

use core::ops::Range;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use allotment_suballoc::plan::{Item, Plan, Problem, ProblemError, Solver};

use super::error::TransientError;
use super::follow;
use super::passes::{Order, Uses};
use super::plan::{FrameWait, Placement, PlannedHeap, TransientPlan};
use super::planner::{Described, Graph, HeapLimits, TransientDesc, TransientPass, TransientResource};

/// How often the search for a better plan asks whether to go on, for each class of a frame: some tenths of a millisecond up to two
/// milliseconds in all, for a frame of up to 200 resources.
const STEPS: u32 = 16;

/// More resources of a class than this are placed without a search, whose steps grow with them.
const MOST_SEARCHED: usize = 1000;

/// How long the search for better places goes on.
pub(super) struct Effort<'a> {
    /// Without it, a number of steps for each class.
    stop: Option<&'a mut dyn FnMut() -> bool>,
    /// It has said so, and is not asked again.
    is_over: bool,
}

impl<'a> Effort<'a> {
    pub(super) fn per_frame() -> Self {
        Self { stop: None, is_over: false }
    }

    pub(super) fn until(stop: &'a mut dyn FnMut() -> bool) -> Self {
        Self { stop: Some(stop), is_over: false }
    }

    fn search(&mut self, problem: &Problem, limit: u64, solver: &mut Solver, plan: &mut Plan) {
        if let Some(stop) = &mut self.stop {
            let is_over = &mut self.is_over;
            let stop = || {
                *is_over = *is_over || stop();
                *is_over
            };
            return solver.search(problem, limit, stop, plan);
        }
        if problem.len() > MOST_SEARCHED {
            return solver.greedy(problem, limit, plan);
        }
        let mut steps = STEPS;
        let stop = || {
            steps = steps.saturating_sub(1);
            steps == 0
        };
        solver.search(problem, limit, stop, plan);
    }
}

/// A frame while it is planned.
pub(super) struct Planning<'a> {
    graph: &'a Graph,
    order: Order,
    /// When each resource is alive: ranges of sections, or of passes where all are on one queue.
    lives: Vec<Vec<Range<u64>>>,
    effort: Effort<'a>,
}

/// The places of the resources of one class.
#[derive(Default)]
struct Placed {
    /// By the index of the resource in its class.
    places: Vec<Option<Placement>>,
    heaps: Vec<PlannedHeap>,
    not_placed_bytes: u64,
}

impl Placed {
    fn size(&self) -> u64 {
        self.heaps.iter().map(|heap| heap.size).sum()
    }
}

/// Returns the place that each resource of a frame had in the plan before, where it is what it was; with the number of the heap
/// within its class.
pub(super) fn places_before(
    graph: &Graph,
    (before, plan): (&Graph, &TransientPlan),
) -> Result<Vec<Option<Placement>>, TransientError> {
    let mut by_key = HashMap::with_capacity(graph.resources.len());
    for (at, resource) in graph.resources.iter().enumerate() {
        match by_key.entry(resource.desc.key) {
            Entry::Occupied(_) => return Err(TransientError::KeyUsedTwice { key: resource.desc.key }),
            Entry::Vacant(free) => free.insert(at),
        };
    }
    let mut places = vec![None; graph.resources.len()];
    for (old, place) in before.resources.iter().zip(&plan.placements) {
        let (Some(&at), Some(place)) = (by_key.get(&old.desc.key), place) else { continue };
        let now = &graph.resources[at];
        // What becomes a history, or is none any more, begins anew.
        if now.desc == old.desc && now.is_history() == old.is_history() {
            places[at] = Some(plan.within_class(*place));
        }
    }
    Ok(places)
}

impl<'a> Planning<'a> {
    pub(super) fn new(graph: &'a Graph, effort: Effort<'a>) -> Result<Self, TransientError> {
        let order = Order::of(&graph.passes);
        for resource in &graph.resources {
            // Of many passes, the last reads and the first writes say it for all.
            let writes = order.firsts(graph.uses(resource));
            for read in order.lasts(graph.reads(resource)) {
                if let Some(&written) = writes.iter().find(|&&written| !order.is_before(read, written)) {
                    return Err(TransientError::HistoryOverlaps { key: resource.desc.key, read, written });
                }
            }
        }
        let mut planning = Self { graph, order, lives: Vec::new(), effort };
        planning.lives = match planning.order.queues() {
            0 | 1 => planning.lives_on_one_queue(),
            _ => planning.lives_on_queues(),
        };
        Ok(planning)
    }

    fn lives_on_one_queue(&self) -> Vec<Vec<Range<u64>>> {
        let passes = self.graph.passes.len() as u64;
        let life = |resource: &Described| {
            let [uses, reads] = [self.graph.uses(resource), self.graph.reads(resource)];
            let first = u64::from(uses.iter().copied().min().unwrap_or(0));
            let end = |uses: &[u32]| uses.iter().map(|&pass| u64::from(pass) + 1).max();
            match (end(uses), end(reads)) {
                // What reads it comes before all that writes it.
                (_, Some(read)) => vec![0..read, first..passes],
                (end, None) => core::iter::once(first..end.unwrap_or(first + 1)).collect(),
            }
        };
        self.graph.resources.iter().map(life).collect()
    }

    fn lives_on_queues(&self) -> Vec<Vec<Range<u64>>> {
        let sets = self.order.sets();
        let life = |resource: &Described| {
            let uses = Uses::of(&self.order, self.graph.uses(resource));
            let reads = self.graph.reads(resource);
            let reads = (!reads.is_empty()).then(|| Uses::of(&self.order, reads));
            let is_alive = |set: &[u32]| match &reads {
                Some(reads) => uses.has_begun(&self.order, set) || reads.is_to_come(&self.order, set),
                None => uses.has_begun(&self.order, set) && uses.is_to_come(&self.order, set),
            };
            let mut life: Vec<Range<u64>> = Vec::new();
            for (at, _) in (0..).zip(&sets).filter(|(_, set)| is_alive(set)) {
                match life.last_mut() {
                    Some(last) if last.end == at => last.end += 1,
                    _ => life.push(at..at + 1),
                }
            }
            life
        };
        self.graph.resources.iter().map(life).collect()
    }

    pub(super) fn plan(
        mut self,
        limits: &HeapLimits,
        (before, plan_before): (&Graph, &TransientPlan),
        solver: &mut Solver,
    ) -> Result<TransientPlan, TransientError> {
        let resources = &self.graph.resources;
        let old = places_before(self.graph, (before, plan_before))?;
        let shares = |resource: &&Described| !resource.desc.is_alone;
        let mut classes: Vec<u32> =
            resources.iter().filter(shares).map(|resource| resource.desc.class).collect();
        classes.sort_unstable();
        classes.dedup();
        let mut plan = TransientPlan { placements: vec![None; resources.len()], ..TransientPlan::default() };
        for class in classes {
            let of_class = |desc: &TransientDesc| desc.class == class && !desc.is_alone;
            let members = (0..resources.len() as u32).filter(|&at| of_class(&resources[at as usize].desc));
            let members: Vec<u32> = members.collect();
            let old: Vec<Option<Placement>> = members.iter().map(|&at| old[at as usize]).collect();
            let placed = self.place_class(class, &members, &old, limits, solver)?;
            let first = plan.heaps.len() as u32;
            for (&member, place) in members.iter().zip(&placed.places) {
                plan.placements[member as usize] = place.map(|it| Placement { heap: first + it.heap, ..it });
            }
            plan.not_placed_bytes += placed.not_placed_bytes;
            plan.heaps.extend(placed.heaps);
        }
        plan.compare(self.graph, &old);
        plan.total_size = resources.iter().filter(shares).map(|resource| resource.desc.size).sum::<u64>()
            - plan.not_placed_bytes;
        self.order_tenants(&mut plan);
        Ok(plan)
    }

    /// Places the resources of a class: where they were, if that costs little, or else anew.
    fn place_class(
        &mut self,
        class: u32,
        members: &[u32],
        old: &[Option<Placement>],
        limits: &HeapLimits,
        solver: &mut Solver,
    ) -> Result<Placed, TransientError> {
        let mut kept = None;
        if old.iter().any(Option::is_some) {
            let found = self.place(members, class, Some(old), limits, solver)?;
            let bound = found.heaps.iter().map(|heap| heap.lower_bound).sum();
            // No plan could be so much better that it would be taken.
            if found.not_placed_bytes == 0 && found.heaps.len() <= 1 && limits.is_near(found.size(), bound) {
                return Ok(found);
            }
            kept = Some(found);
        }
        let fresh = self.place(members, class, None, limits, solver)?;
        Ok(match kept {
            Some(kept) if kept.not_placed_bytes < fresh.not_placed_bytes => kept,
            Some(kept)
                if kept.not_placed_bytes == fresh.not_placed_bytes
                    && limits.is_near(kept.size(), fresh.size()) =>
            {
                kept
            }
            _ => fresh,
        })
    }

    /// Places the members of a class, with `old` those that have an old place there, as far as they do not overlap.
    fn place(
        &mut self,
        members: &[u32],
        class: u32,
        old: Option<&[Option<Placement>]>,
        limits: &HeapLimits,
        solver: &mut Solver,
    ) -> Result<Placed, TransientError> {
        let graph = self.graph;
        let desc = |at: usize| &graph.resources[members[at] as usize].desc;
        let old_places = match old {
            Some(old) => self.without_overlaps(members, old),
            None => vec![None; members.len()],
        };
        let mut placed = Placed { places: vec![None; members.len()], ..Placed::default() };
        let fits = |&at: &usize| desc(at).pin.unwrap_or(0).saturating_add(desc(at).size) <= limits.heap_size;
        let mut left: Vec<usize> = (0..members.len()).filter(fits).collect();
        for heap in 0..limits.heaps {
            // An old place in a later heap is left for that; a pin is one in the first.
            let is_later = |at: usize| {
                old_places[at].is_some_and(|place| place.heap > heap) || desc(at).pin.is_some() && heap > 0
            };
            let here: Vec<usize> = left.iter().copied().filter(|&at| !is_later(at)).collect();
            let in_heap = |at: usize| old_places[at].filter(|it| it.heap == heap).map(|it| it.offset);
            let problem = self.problem(members, &here, |at| desc(at).pin.or(in_heap(at)))?;
            let mut plan = Plan::new();
            match old {
                Some(_) => solver.greedy(&problem, limits.heap_size, &mut plan),
                None => self.effort.search(&problem, limits.heap_size, solver, &mut plan),
            }
            for (&at, offset) in here.iter().zip(plan.offsets()) {
                placed.places[at] = offset.map(|offset| Placement { heap, offset });
            }
            let in_heap: Vec<usize> =
                here.iter().copied().filter(|&at| placed.places[at].is_some()).collect();
            if in_heap.is_empty() {
                break;
            }
            // What is kept where it was could be elsewhere, and what has no place here needs no bytes.
            let is_all = old.is_none() && in_heap.len() == here.len();
            let lower_bound = match is_all {
                true => plan.lower_bound(),
                false => self.problem(members, &in_heap, |at| desc(at).pin)?.lower_bound(),
            };
            let alignment = in_heap.iter().map(|&at| desc(at).alignment.get()).max().unwrap_or(1);
            placed.heaps.push(PlannedHeap { class, size: plan.peak(), lower_bound, alignment });
            left.retain(|&at| placed.places[at].is_none());
            if left.is_empty() {
                break;
            }
        }
        let missing = (0..members.len()).filter(|&at| placed.places[at].is_none());
        placed.not_placed_bytes = missing.map(|at| desc(at).size).sum();
        Ok(placed)
    }

    fn problem(
        &self,
        members: &[u32],
        here: &[usize],
        pin: impl Fn(usize) -> Option<u64>,
    ) -> Result<Problem, TransientError> {
        let items = here.iter().map(|&at| {
            let resource = members[at] as usize;
            let desc = &self.graph.resources[resource].desc;
            let item = Item::new(desc.size).aligned(desc.alignment);
            let item = pin(at).map_or(item, |pin| item.pinned_at(pin));
            (item, self.lives[resource].iter().cloned())
        });
        Problem::new(items).map_err(|reason| self.impossible(members, here, reason))
    }

    fn impossible(&self, members: &[u32], here: &[usize], reason: ProblemError) -> TransientError {
        let item = reason.item().and_then(|item| here.get(item)).map_or(0, |&at| members[at]);
        TransientError::Impossible { key: self.graph.resources[item as usize].desc.key, reason }
    }

    /// Returns the old places without those that overlap another one, or a pin, at a time when both are alive now; in each class
    /// without a heap that nothing is in. Of two, a pin stays, then a history, whose contents a move would lose, then the larger.
    ///
    /// They are visited from the lowest offset up. Of each section, the one that reaches highest so far is known.
    fn without_overlaps(&self, members: &[u32], old: &[Option<Placement>]) -> Vec<Option<Placement>> {
        let resource = |at: usize| &self.graph.resources[members[at] as usize];
        let pinned = |at: usize| resource(at).desc.pin.map(|offset| Placement { heap: 0, offset });
        let mut places: Vec<Option<Placement>> =
            (0..members.len()).map(|at| pinned(at).or(old[at])).collect();
        let mut by_offset: Vec<usize> = (0..members.len()).filter(|&at| places[at].is_some()).collect();
        by_offset.sort_unstable_by_key(|&at| places[at].map(|place| (place.heap, place.offset)));
        let weight =
            |at: usize| (resource(at).desc.pin.is_some(), resource(at).is_history(), resource(at).desc.size);
        let sections =
            members.iter().flat_map(|&at| &self.lives[at as usize]).map(|it| it.end).max().unwrap_or(0);
        let mut highest: Vec<Option<usize>> = vec![None; sections as usize];
        let mut rivals: Vec<usize> = Vec::new();
        for at in by_offset {
            let Some(place) = places[at] else { continue };
            let life =
                || self.lives[members[at] as usize].iter().flat_map(|it| it.start as usize..it.end as usize);
            let reaches = |other: usize| {
                let end = |it: Placement| it.offset.saturating_add(resource(other).desc.size);
                places[other].is_some_and(|it| it.heap == place.heap && end(it) > place.offset)
            };
            rivals.clear();
            for section in life() {
                if let Some(other) =
                    highest[section].filter(|&other| reaches(other) && rivals.last() != Some(&other))
                {
                    rivals.push(other);
                }
            }
            // Of two pins, neither goes: the solver says so.
            let is_pinned = |at: usize| resource(at).desc.pin.is_some();
            if !is_pinned(at) && rivals.iter().any(|&other| weight(other) >= weight(at)) {
                places[at] = None;
                continue;
            }
            // What is below a rival does not reach above its offset, and so not above this one.
            for &rival in rivals.iter().filter(|&&rival| !is_pinned(rival)) {
                places[rival] = None;
            }
            life().for_each(|section| highest[section] = Some(at));
        }
        let mut used: Vec<u32> = places.iter().flatten().map(|place| place.heap).collect();
        used.sort_unstable();
        used.dedup();
        for place in places.iter_mut().flatten() {
            place.heap = used.partition_point(|&heap| heap < place.heap) as u32;
        }
        places
    }

    /// Says whom each resource follows, where it begins, and which waits that takes.
    fn order_tenants(&self, plan: &mut TransientPlan) {
        let resources = &self.graph.resources;
        let mut order: Vec<u32> = (0..resources.len() as u32).collect();
        order.sort_by_key(|&at| self.graph.uses(&resources[at as usize]).iter().copied().min());
        let size = |at: usize| resources[at].desc.size;
        (plan.follows_of, plan.follows) = follow::follows(&plan.placements, size, plan.heaps.len(), &order);
        let firsts = |resource: &Described| self.order.firsts(self.graph.uses(resource));
        let firsts: Vec<Vec<u32>> = resources.iter().map(firsts).collect();
        plan.begins = (0..)
            .zip(&firsts)
            .flat_map(|(at, passes)| {
                passes.iter().map(move |&pass| (TransientPass(pass), TransientResource(at)))
            })
            .collect();
        plan.begins.sort_unstable();
        plan.waits = self.waits(plan, &firsts);
    }

    /// Returns the waits for passes of the frame before that nothing else implies.
    fn waits(&self, plan: &TransientPlan, firsts: &[Vec<u32>]) -> Vec<FrameWait> {
        if self.order.queues() <= 1 {
            return Vec::new();
        }
        // A pass of this frame, and one of the frame before.
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        for (at, resource) in self.graph.resources.iter().enumerate() {
            let mut add = |passes: &[u32], before: &[u32]| {
                for &pass in passes {
                    pairs.extend(before.iter().map(|&other| (pass, other)));
                }
            };
            let reads = self.graph.reads(resource);
            add(&self.order.firsts(reads), &self.order.lasts(self.graph.uses(resource)));
            let follows = plan.follows(TransientResource(at as u32)).iter();
            for follow in follows.filter(|follow| follow.of_frame_before) {
                let before = &self.graph.resources[follow.resource.index()];
                // A history is read in this frame, and those passes are in order.
                if self.graph.reads(before).is_empty() {
                    add(&firsts[at], &self.order.lasts(self.graph.uses(before)));
                }
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        pairs.retain(|&(pass, other)| !self.order.is_after_frame_before(pass, other));
        let is_implied = |&(pass, other): &(u32, u32)| {
            pairs.iter().any(|&(earlier, later)| {
                (earlier, later) != (pass, other)
                    && self.order.is_at_or_before(earlier, pass)
                    && self.order.is_at_or_before(other, later)
            })
        };
        let wait = |&(pass, other): &(u32, u32)| FrameWait {
            pass: TransientPass(pass),
            for_pass: TransientPass(other),
        };
        pairs.iter().filter(|pair| !is_implied(pair)).map(wait).collect()
    }
}
