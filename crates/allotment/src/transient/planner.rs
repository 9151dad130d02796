//! From the passes of a frame and what they use to offsets.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use allotment_suballoc::Alignment;
use allotment_suballoc::plan::{Item, Plan, Problem, ProblemError, Solver};

use super::error::TransientError;
use super::follow;
use super::passes::{Order, Passes, Uses};
use super::plan::{FrameWait, Placement, PlannedHeap, TransientPlan};
use crate::device::QueueIndex;

/// A pass of the frame that is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransientPass(pub(super) u32);

impl TransientPass {
    /// Returns how many passes were added before it.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// A resource of the frame that is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransientResource(pub(super) u32);

impl TransientResource {
    /// Returns how many resources were added before it.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a transient resource needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransientDesc {
    /// What names the resource from frame to frame, so that it keeps its place: its number in your graph, or a hash of its name.
    pub key: u64,
    /// Bytes.
    pub size: u64,
    /// The alignment of its offset.
    pub alignment: Alignment,
    /// Only resources of one class share memory. A class for each memory type is needed, and where the device keeps kinds of
    /// resources apart (heap tier 1 of Direct3D 12, `bufferImageGranularity` of Vulkan), one for each kind.
    pub class: u32,
    /// An offset in the first heap of its class, instead of one that the planner chooses.
    pub pin: Option<u64>,
}

impl TransientDesc {
    /// A resource of so many bytes, of class 0, whose place has no alignment.
    #[must_use]
    pub fn new(key: u64, size: u64) -> Self {
        Self { key, size, alignment: Alignment::ONE, class: 0, pin: None }
    }

    /// Sets the alignment.
    #[must_use]
    pub fn aligned(self, alignment: Alignment) -> Self {
        Self { alignment, ..self }
    }

    /// Sets the class.
    #[must_use]
    pub fn of_class(self, class: u32) -> Self {
        Self { class, ..self }
    }

    /// Sets the offset.
    #[must_use]
    pub fn pinned_at(self, offset: u64) -> Self {
        Self { pin: Some(offset), ..self }
    }
}

/// How much memory a planner may use for a class, and how it weighs moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapLimits {
    /// The size of a heap at most, in bytes. What has no room in one is in the next.
    pub heap_size: u64,
    /// How many heaps a class may have. What has no room in any of them is not placed.
    pub heaps: u32,
    /// By how many percent a plan in which resources keep their places may be larger than one that moves all that it likes.
    pub kept_percent: u32,
}

impl Default for HeapLimits {
    /// One heap as large as needed; 10 percent.
    fn default() -> Self {
        Self { heap_size: u64::MAX, heaps: 1, kept_percent: 10 }
    }
}

/// A resource as it was described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Described {
    desc: TransientDesc,
    /// Where its passes begin in the list of all, and those that read what the frame before wrote. The latter end where those of
    /// the next resource begin.
    uses: u32,
    reads: u32,
    end: u32,
}

/// A frame as it was described.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Graph {
    passes: Passes,
    resources: Vec<Described>,
    uses: Vec<u32>,
}

impl Graph {
    fn clear(&mut self) {
        self.passes.clear();
        self.resources.clear();
        self.uses.clear();
    }

    /// The passes that use a resource in the frame that makes its contents.
    fn uses(&self, resource: &Described) -> &[u32] {
        &self.uses[resource.uses as usize..resource.reads as usize]
    }

    /// The passes that use what the frame before made.
    fn reads(&self, resource: &Described) -> &[u32] {
        &self.uses[resource.reads as usize..resource.end as usize]
    }
}

/// Gives the resources of a frame places in memory that they share.
///
/// A frame is described anew each time: its passes in the order of their submission, then its resources with the passes that use
/// them. [`plan`](Self::plan) compares that with the frame before. Where nothing has changed, the plan is the same, and costs no
/// more than the comparison: some nanoseconds for each resource, and no heap allocation. Where something has, resources keep their
/// places as long as this costs little memory.
///
/// ```
/// use allotment::device::QueueIndex;
/// use allotment::transient::{TransientDesc, TransientPlanner};
///
/// const MIB: u64 = 1 << 20;
/// let (graphics, async_compute) = (QueueIndex(0), QueueIndex(1));
/// let mut planner = TransientPlanner::default();
/// for _frame in 0..3 {
///     planner.begin();
///     let depth = planner.pass(graphics, &[])?;
///     let ssao = planner.pass(async_compute, &[depth])?; // waits for `depth`, and may overlap what comes now
///     let shadows = planner.pass(graphics, &[])?;
///     let lighting = planner.pass(graphics, &[ssao])?;
///     let bloom = planner.pass(graphics, &[])?;
///
///     let depth_buffer = planner.resource(&TransientDesc::new(0, 8 * MIB), &[depth, ssao, lighting])?;
///     let occlusion = planner.resource(&TransientDesc::new(1, 2 * MIB), &[ssao, lighting])?;
///     let shadow_map = planner.resource(&TransientDesc::new(2, 16 * MIB), &[shadows, lighting])?;
///     let bright = planner.resource(&TransientDesc::new(3, 8 * MIB), &[bloom])?;
///
///     let plan = planner.plan()?;
///     assert_eq!((plan.total_size(), plan.size(), plan.lower_bound()), (34 * MIB, 26 * MIB, 26 * MIB));
///     assert!(!plan.follows(bright).is_empty(), "an aliasing barrier comes before bloom");
///     println!("depth at {:?}", plan.placement(depth_buffer));
/// #   assert_ne!(plan.placement(occlusion), plan.placement(shadow_map));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct TransientPlanner {
    limits: HeapLimits,
    described: Graph,
    /// The frame that `plan` is of, if there is one.
    planned: Graph,
    plan: TransientPlan,
    is_planned: bool,
    solver: Solver,
}

impl TransientPlanner {
    /// Returns a planner with limits.
    #[must_use]
    pub fn new(limits: HeapLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Begins the description of a frame. The plan of the one before stays known.
    pub fn begin(&mut self) {
        self.described.clear();
    }

    /// Adds a pass that the queue executes after those of this queue that were added before, and that waits for others. A pass
    /// waits for all that those wait for, too.
    ///
    /// # Errors
    ///
    /// [`TransientError::UnknownPass`] where it waits for one that was not added before.
    pub fn pass(
        &mut self,
        queue: QueueIndex,
        waits_for: &[TransientPass],
    ) -> Result<TransientPass, TransientError> {
        self.check_passes(waits_for)?;
        self.described.passes.add(queue, waits_for.iter().map(|pass| pass.0));
        Ok(TransientPass(self.described.passes.len() as u32 - 1))
    }

    /// Adds a resource with all passes that use it, in any order. It is alive from the first to the last; where they are on
    /// several queues, as long as one of them may run, or some were and some are to come.
    ///
    /// # Errors
    ///
    /// [`TransientError::Unused`], [`TransientError::UnknownPass`].
    pub fn resource(
        &mut self,
        desc: &TransientDesc,
        passes: &[TransientPass],
    ) -> Result<TransientResource, TransientError> {
        self.add(desc, passes, &[])
    }

    /// Adds a resource that a frame fills for the next one, such as what temporal filters accumulate: with the passes that use it
    /// in the frame that fills it, and those that read it a frame later. Others may have its bytes in between.
    ///
    /// ```
    /// # use allotment::device::QueueIndex;
    /// # use allotment::transient::{TransientDesc, TransientPlanner};
    /// let mut planner = TransientPlanner::default();
    /// let reproject = planner.pass(QueueIndex(0), &[])?;
    /// let scene = planner.pass(QueueIndex(0), &[])?;
    /// let resolve = planner.pass(QueueIndex(0), &[])?;
    /// let history = planner.history(&TransientDesc::new(0, 4096), &[resolve], &[reproject])?;
    /// let color = planner.resource(&TransientDesc::new(1, 4096), &[scene])?;
    /// let plan = planner.plan()?;
    /// assert_eq!(plan.placement(history), plan.placement(color), "the history is not alive during `scene`");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`resource`](Self::resource), also where no pass reads it. [`plan`](Self::plan) refuses one that is read while it is
    /// filled.
    pub fn history(
        &mut self,
        desc: &TransientDesc,
        passes: &[TransientPass],
        read_by: &[TransientPass],
    ) -> Result<TransientResource, TransientError> {
        if read_by.is_empty() {
            return Err(TransientError::Unused { key: desc.key });
        }
        self.add(desc, passes, read_by)
    }

    fn add(
        &mut self,
        desc: &TransientDesc,
        uses: &[TransientPass],
        reads: &[TransientPass],
    ) -> Result<TransientResource, TransientError> {
        if uses.is_empty() {
            return Err(TransientError::Unused { key: desc.key });
        }
        self.check_passes(uses)?;
        self.check_passes(reads)?;
        let graph = &mut self.described;
        let begin = graph.uses.len();
        graph.uses.extend(uses.iter().chain(reads).map(|pass| pass.0));
        let [uses, reads, end] = [begin, begin + uses.len(), graph.uses.len()].map(|at| at as u32);
        graph.resources.push(Described { desc: *desc, uses, reads, end });
        Ok(TransientResource(graph.resources.len() as u32 - 1))
    }

    fn check_passes(&self, passes: &[TransientPass]) -> Result<(), TransientError> {
        let count = self.described.passes.len() as u32;
        match passes.iter().find(|pass| pass.0 >= count) {
            Some(pass) => Err(TransientError::UnknownPass { pass: pass.0, passes: count }),
            None => Ok(()),
        }
    }

    /// Returns the plan for the frame that was described since [`begin`](Self::begin).
    ///
    /// # Errors
    ///
    /// [`TransientError`]; the plan before stays.
    pub fn plan(&mut self) -> Result<&TransientPlan, TransientError> {
        if self.is_planned && self.described == self.planned {
            (self.plan.moved_bytes, self.plan.is_new) = (0, false);
            return Ok(&self.plan);
        }
        let before = (&self.planned, &self.plan);
        let plan = Planning::new(&self.described)?.plan(&self.limits, before, &mut self.solver)?;
        self.planned.clone_from(&self.described);
        (self.plan, self.is_planned) = (plan, true);
        Ok(&self.plan)
    }

    /// Looks for a plan of fewer bytes for the frame that was planned last, until `stop` returns `true` or none is possible; and
    /// takes it, with new places for all resources, if it finds one. Returns the plan, [`is_new`](TransientPlan::is_new) where it
    /// is another one.
    ///
    /// [`plan`](Self::plan) finds the best one for most frames. This is for a moment that has time, such as the end of loading.
    /// `stop` is called every few microseconds up to a few tenths of a millisecond.
    ///
    /// ```
    /// # use allotment::device::QueueIndex;
    /// # use allotment::transient::{TransientDesc, TransientPlanner};
    /// use std::time::{Duration, Instant};
    ///
    /// let mut planner = TransientPlanner::default();
    /// let passes = [(); 4].map(|()| planner.pass(QueueIndex(0), &[]).unwrap());
    /// for (key, size, life) in [(0, 8, 0..2), (1, 4, 1..3), (2, 8, 2..4), (3, 4, 3..4)] {
    ///     planner.resource(&TransientDesc::new(key, size << 20), &passes[life])?;
    /// }
    /// let size = planner.plan()?.size();
    /// let began = Instant::now();
    /// let better = planner.improve(|| began.elapsed() > Duration::from_millis(20));
    /// assert!(better.size() <= size);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn improve(&mut self, mut stop: impl FnMut() -> bool) -> &TransientPlan {
        // The frame was planned, so it can be.
        if let Some(better) = self.better(&mut stop).ok().flatten() {
            self.plan = better;
        }
        &self.plan
    }

    fn better(&mut self, stop: &mut dyn FnMut() -> bool) -> Result<Option<TransientPlan>, TransientError> {
        self.plan.is_new = false;
        let mut limits = self.limits;
        // Whatever is smaller is better than what there is.
        limits.kept_percent = 0;
        let mut planning = Planning::new(&self.planned)?;
        planning.stop = Some(stop);
        let plan = planning.plan(&limits, (&self.planned, &self.plan), &mut self.solver)?;
        Ok((plan.size() < self.plan.size()).then_some(plan))
    }
}

/// How often the search for a better plan asks whether to go on, in [`TransientPlanner::plan`]: some tenths of a millisecond up to
/// two milliseconds in all, for a frame of up to 200 resources.
const STEPS: u32 = 16;

/// More resources of a class than this are placed without a search, whose steps grow with them.
const MOST_SEARCHED: usize = 1000;

/// A frame while it is planned.
struct Planning<'a> {
    graph: &'a Graph,
    order: Order,
    /// When each resource is alive: ranges of sections, or of passes where all are on one queue.
    lives: Vec<Vec<core::ops::Range<u64>>>,
    /// Ends the search for better places; without it, a number of steps does.
    stop: Option<&'a mut dyn FnMut() -> bool>,
}

/// The places of the resources of one class.
struct Placed {
    /// By the index of the resource in its class.
    places: Vec<Option<Placement>>,
    heaps: Vec<PlannedHeap>,
}

impl Placed {
    fn size(&self) -> u64 {
        self.heaps.iter().map(|heap| heap.size).sum()
    }

    fn missing(&self) -> usize {
        self.places.iter().filter(|place| place.is_none()).count()
    }
}

impl<'a> Planning<'a> {
    fn new(graph: &'a Graph) -> Result<Self, TransientError> {
        let order = Order::of(&graph.passes);
        for resource in &graph.resources {
            let overlap =
                |read: &&u32| graph.uses(resource).iter().any(|&written| !order.is_before(**read, written));
            if let Some(&read) = graph.reads(resource).iter().find(overlap) {
                let written =
                    *graph.uses(resource).iter().find(|&&it| !order.is_before(read, it)).unwrap_or(&read);
                return Err(TransientError::HistoryOverlaps { key: resource.desc.key, read, written });
            }
        }
        let mut planning = Self { graph, order, lives: Vec::new(), stop: None };
        planning.lives = match planning.order.queues() {
            0 | 1 => planning.lives_on_one_queue(),
            _ => planning.lives_on_queues(),
        };
        Ok(planning)
    }

    fn lives_on_one_queue(&self) -> Vec<Vec<core::ops::Range<u64>>> {
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

    fn lives_on_queues(&self) -> Vec<Vec<core::ops::Range<u64>>> {
        let sets = self.order.sets();
        let life = |resource: &Described| {
            let uses = Uses::of(&self.order, self.graph.uses(resource));
            let reads = self.graph.reads(resource);
            let reads = (!reads.is_empty()).then(|| Uses::of(&self.order, reads));
            let is_alive = |set: &[u32]| match &reads {
                Some(reads) => uses.has_begun(&self.order, set) || reads.is_to_come(&self.order, set),
                None => uses.has_begun(&self.order, set) && uses.is_to_come(&self.order, set),
            };
            let mut life: Vec<core::ops::Range<u64>> = Vec::new();
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

    fn plan(
        mut self,
        limits: &HeapLimits,
        (before, plan_before): (&Graph, &TransientPlan),
        solver: &mut Solver,
    ) -> Result<TransientPlan, TransientError> {
        let graph = self.graph;
        let resources = &graph.resources;
        let kept = self.places_before(before, plan_before)?;
        let mut classes: Vec<u32> = resources.iter().map(|resource| resource.desc.class).collect();
        classes.sort_unstable();
        classes.dedup();
        let mut plan = TransientPlan {
            placements: vec![None; resources.len()],
            is_new: true,
            ..TransientPlan::default()
        };
        for class in classes {
            let of_class = |&at: &u32| resources[at as usize].desc.class == class;
            let members: Vec<u32> = (0..resources.len() as u32).filter(of_class).collect();
            let old: Vec<Option<Placement>> = members.iter().map(|&at| kept[at as usize]).collect();
            let fresh = self.place(&members, class, &vec![None; members.len()], limits, solver)?;
            let mut placed = fresh;
            if old.iter().any(Option::is_some) {
                let kept = self.place(&members, class, &old, limits, solver)?;
                let percent = 100 + u128::from(limits.kept_percent);
                let is_small = u128::from(kept.size()) * 100 <= u128::from(placed.size()) * percent;
                if kept.missing() <= placed.missing() && is_small {
                    placed = kept;
                }
            }
            let first = plan.heaps.len() as u32;
            for (&member, place) in members.iter().zip(&placed.places) {
                plan.placements[member as usize] =
                    place.map(|place| Placement { heap: first + place.heap, ..place });
            }
            plan.heaps.extend(placed.heaps);
        }
        plan.total_size = (resources.iter().zip(&plan.placements))
            .filter(|(_, place)| place.is_some())
            .map(|(resource, _)| resource.desc.size)
            .sum();
        // Heaps are counted within their class there.
        let first_heap =
            |class: u32| plan.heaps.iter().position(|heap| heap.class == class).unwrap_or(0) as u32;
        plan.moved_bytes = (resources.iter().zip(&kept).zip(&plan.placements))
            .filter_map(|((resource, kept), now)| {
                let (kept, now) = (kept.as_ref()?, now.as_ref()?);
                let place = Placement { heap: first_heap(resource.desc.class) + kept.heap, ..*kept };
                (place != *now).then_some(resource.desc.size)
            })
            .sum();
        self.order_tenants(&mut plan);
        Ok(plan)
    }

    /// Returns the place that each resource had, where it is what it was; with the number of the heap within its class.
    fn places_before(
        &self,
        before: &Graph,
        plan: &TransientPlan,
    ) -> Result<Vec<Option<Placement>>, TransientError> {
        let mut by_key = HashMap::with_capacity(self.graph.resources.len());
        for (at, resource) in self.graph.resources.iter().enumerate() {
            match by_key.entry(resource.desc.key) {
                Entry::Occupied(_) => return Err(TransientError::KeyUsedTwice { key: resource.desc.key }),
                Entry::Vacant(free) => free.insert(at),
            };
        }
        let mut places = vec![None; self.graph.resources.len()];
        for (old, place) in before.resources.iter().zip(&plan.placements) {
            let (Some(&at), Some(place)) = (by_key.get(&old.desc.key), place) else { continue };
            if self.graph.resources[at].desc == old.desc {
                let class = plan.heaps.iter().position(|heap| heap.class == old.desc.class).unwrap_or(0);
                places[at] = Some(Placement { heap: place.heap - class as u32, ..*place });
            }
        }
        Ok(places)
    }

    /// Places the members of a class, those with an old place there as far as they do not overlap.
    fn place(
        &mut self,
        members: &[u32],
        class: u32,
        old: &[Option<Placement>],
        limits: &HeapLimits,
        solver: &mut Solver,
    ) -> Result<Placed, TransientError> {
        let mut old = self.without_overlaps(members, old);
        // No heap without resources in between.
        let mut used: Vec<u32> = old.iter().flatten().map(|place| place.heap).collect();
        used.sort_unstable();
        used.dedup();
        for place in old.iter_mut().flatten() {
            place.heap = used.partition_point(|&heap| heap < place.heap) as u32;
        }
        let mut placed = Placed { places: vec![None; members.len()], heaps: Vec::new() };
        for heap in 0..limits.heaps {
            // A place in a later heap is left for that.
            let is_here = |&at: &usize| {
                let pin = self.graph.resources[members[at] as usize].desc.pin;
                let is_later = old[at].is_some_and(|place| place.heap > heap) || pin.is_some() && heap > 0;
                placed.places[at].is_none() && !is_later
            };
            let here: Vec<usize> = (0..members.len()).filter(is_here).collect();
            if here.is_empty() {
                continue;
            }
            let items = here.iter().map(|&at| {
                let resource = members[at] as usize;
                let desc = &self.graph.resources[resource].desc;
                let mut item = Item::new(desc.size).aligned(desc.alignment);
                let old = old[at].filter(|place| place.heap == heap).map(|place| place.offset);
                if let Some(pin) = desc.pin.filter(|_| heap == 0).or(old) {
                    item = item.pinned_at(pin);
                }
                (item, self.lives[resource].iter().cloned())
            });
            let problem = Problem::new(items).map_err(|reason| self.impossible(members, &here, reason))?;
            let mut plan = Plan::new();
            self.search(&problem, limits.heap_size, solver, &mut plan);
            for (&at, offset) in here.iter().zip(plan.offsets()) {
                placed.places[at] = offset.map(|offset| Placement { heap, offset });
            }
            let alignment = |&at: &usize| self.graph.resources[members[at] as usize].desc.alignment.get();
            let in_heap = here.iter().filter(|&&at| placed.places[at].is_some());
            placed.heaps.push(PlannedHeap {
                class,
                size: plan.peak(),
                lower_bound: plan.lower_bound().min(plan.peak()),
                alignment: in_heap.map(alignment).max().unwrap_or(1),
            });
        }
        Ok(placed)
    }

    fn search(&mut self, problem: &Problem, limit: u64, solver: &mut Solver, plan: &mut Plan) {
        if let Some(stop) = &mut self.stop {
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

    fn impossible(&self, members: &[u32], here: &[usize], reason: ProblemError) -> TransientError {
        let item = reason.item().and_then(|item| here.get(item)).map_or(0, |&at| members[at]);
        TransientError::Impossible { key: self.graph.resources[item as usize].desc.key, reason }
    }

    /// Returns the old places without those that overlap another one, or a pin, at a time when both are alive now. The larger
    /// resource of two keeps its place.
    fn without_overlaps(&self, members: &[u32], old: &[Option<Placement>]) -> Vec<Option<Placement>> {
        let desc = |at: usize| &self.graph.resources[members[at] as usize].desc;
        let mut places: Vec<Option<Placement>> = (0..members.len())
            .map(|at| desc(at).pin.map(|offset| Placement { heap: 0, offset }).or(old[at]))
            .collect();
        let mut by_offset: Vec<usize> = (0..members.len()).filter(|&at| places[at].is_some()).collect();
        by_offset.sort_unstable_by_key(|&at| places[at].map(|place| (place.heap, place.offset)));
        let weight = |at: usize| (desc(at).pin.is_some(), desc(at).size);
        // Those that reach above the one that is looked at.
        let mut open: Vec<usize> = Vec::new();
        for at in by_offset {
            let Some(place) = places[at] else { continue };
            open.retain(|&other| {
                places[other].is_some_and(|it| {
                    it.heap == place.heap && it.offset.saturating_add(desc(other).size) > place.offset
                })
            });
            let conflicts = |&&other: &&usize| self.are_alive_together(members[other], members[at]);
            let rivals: Vec<usize> = open.iter().filter(conflicts).copied().collect();
            // Of two pins, neither goes: the solver says so.
            if rivals.iter().any(|&other| weight(other) >= weight(at)) && desc(at).pin.is_none() {
                places[at] = None;
                continue;
            }
            for rival in rivals {
                if desc(rival).pin.is_none() {
                    places[rival] = None;
                }
            }
            open.push(at);
        }
        places
    }

    fn are_alive_together(&self, a: u32, b: u32) -> bool {
        let (mut a, mut b) = (self.lives[a as usize].iter(), self.lives[b as usize].iter());
        let (mut left, mut right) = (a.next(), b.next());
        while let (Some(one), Some(other)) = (left, right) {
            if one.start < other.end && other.start < one.end {
                return true;
            }
            if one.end <= other.end {
                left = a.next();
            } else {
                right = b.next();
            }
        }
        false
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
        let begins = (0..).zip(&firsts).filter(|&(at, _)| plan.placements[at as usize].is_some());
        plan.begins = begins
            .flat_map(|(at, passes)| {
                passes.iter().map(move |&pass| (TransientPass(pass), TransientResource(at)))
            })
            .collect();
        plan.begins.sort_unstable();
        plan.waits = self.waits(plan, &firsts);
    }

    /// Returns the waits for passes of the frame before that nothing else implies.
    fn waits(&self, plan: &TransientPlan, firsts: &[Vec<u32>]) -> Vec<FrameWait> {
        // A pass of this frame, and one of the frame before.
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        for (at, resource) in self.graph.resources.iter().enumerate() {
            if plan.placements[at].is_none() {
                continue;
            }
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
