//! From the passes of a frame and what they use to offsets.

use allotment_suballoc::Alignment;
use allotment_suballoc::plan::Solver;

use super::error::TransientError;
use super::passes::Passes;
use super::plan::TransientPlan;
use super::planning::{self, Effort, Planning};
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
    /// The resource with so many before it.
    pub(crate) fn at(index: u32) -> Self {
        Self(index)
    }

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
    /// It has memory of its own, and no place: an attachment in lazily allocated memory, or what requires a dedicated allocation.
    /// Where it begins, and what it waits for, is planned as that of the others.
    pub is_alone: bool,
}

impl TransientDesc {
    /// A resource of so many bytes, of class 0, whose place has no alignment.
    #[must_use]
    pub fn new(key: u64, size: u64) -> Self {
        Self { key, size, alignment: Alignment::ONE, class: 0, pin: None, is_alone: false }
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

    /// Says that it has memory of its own.
    #[must_use]
    pub fn alone(self) -> Self {
        Self { is_alone: true, ..self }
    }
}

/// How much memory a planner may use for a class, and how it weighs moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapLimits {
    /// The size of a heap at most, in bytes. What has no room in one is in the next; what is larger has no place.
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

impl HeapLimits {
    /// Sets the size of a heap at most, and how many a class may have.
    #[must_use]
    pub fn with_heaps(self, heaps: u32, heap_size: u64) -> Self {
        Self { heap_size, heaps, ..self }
    }

    /// Sets by how many percent a plan may be larger in which resources keep their places.
    #[must_use]
    pub fn with_kept_percent(self, kept_percent: u32) -> Self {
        Self { kept_percent, ..self }
    }

    /// Returns whether a plan in which resources keep their places is small enough, beside one that moves all that it likes.
    pub(super) fn is_near(&self, kept: u64, other: u64) -> bool {
        u128::from(kept) * 100 <= u128::from(other) * (100 + u128::from(self.kept_percent))
    }
}

/// A resource as it was described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Described {
    pub(super) desc: TransientDesc,
    /// Where its passes begin in the list of all, and those that read what the frame before wrote. The latter end where those of
    /// the next resource begin.
    uses: u32,
    reads: u32,
    end: u32,
}

impl Described {
    /// Returns whether the next frame reads what this one makes.
    pub(super) fn is_history(&self) -> bool {
        self.reads < self.end
    }
}

/// A frame as it was described.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Graph {
    pub(super) passes: Passes,
    pub(super) resources: Vec<Described>,
    uses: Vec<u32>,
}

impl Graph {
    fn clear(&mut self) {
        self.passes.clear();
        self.resources.clear();
        self.uses.clear();
    }

    /// The passes that use a resource in the frame that makes its contents.
    pub(super) fn uses(&self, resource: &Described) -> &[u32] {
        &self.uses[resource.uses as usize..resource.reads as usize]
    }

    /// The passes that use what the frame before made.
    pub(super) fn reads(&self, resource: &Described) -> &[u32] {
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
    /// The frame that `plan` is of; empty before the first.
    planned: Graph,
    plan: TransientPlan,
    /// Other frames of late with their plans, the last one first.
    others: Vec<Other>,
    /// How many frames were planned, and how many plans were made for them.
    frames: u64,
    numbers: u64,
    /// The number of the plan whose resources exist, for a planner that is told so.
    made: u64,
    solver: Solver,
}

/// A frame that comes back after at most so many gets the plan that it had.
const REMEMBERED_FRAMES: u64 = 8;

/// So many plans are remembered beside the current one.
const REMEMBERED_PLANS: usize = 3;

/// A frame that was planned before the last one.
#[derive(Debug)]
struct Other {
    planned: Graph,
    plan: TransientPlan,
    /// How many frames there were when it was the last one.
    frames: u64,
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
    /// As [`resource`](Self::resource), and [`TransientError::NotRead`]. [`plan`](Self::plan) refuses one that is read while it is
    /// filled.
    pub fn history(
        &mut self,
        desc: &TransientDesc,
        passes: &[TransientPass],
        read_by: &[TransientPass],
    ) -> Result<TransientResource, TransientError> {
        if read_by.is_empty() {
            return Err(TransientError::NotRead { key: desc.key });
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

    /// Returns the plan for the frame that was described since [`begin`](Self::begin): the one of before, with its
    /// [number](TransientPlan::number), where the frame is as the last one that was planned, or as one of the three other kinds
    /// before that, at most 8 frames ago. A program may draw frames of several kinds in turn.
    ///
    /// ```
    /// # use allotment::device::QueueIndex;
    /// # use allotment::transient::{TransientDesc, TransientPlanner};
    /// let mut planner = TransientPlanner::default();
    /// let mut numbers = Vec::new();
    /// for frame in 0..6 {
    ///     planner.begin();
    ///     let shadows = planner.pass(QueueIndex(0), &[])?;
    ///     planner.resource(&TransientDesc::new(0, 4096), &[shadows])?;
    ///     if frame % 2 == 0 {
    ///         planner.resource(&TransientDesc::new(1, 65536), &[shadows])?; // clouds, in every second frame
    ///     }
    ///     numbers.push(planner.plan()?.number());
    /// }
    /// assert_eq!(numbers, [1, 2, 1, 2, 1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`TransientError`]; the plan before stays.
    pub fn plan(&mut self) -> Result<&TransientPlan, TransientError> {
        if self.plan.number == 0 || self.described != self.planned {
            if let Some(at) = self.others.iter().position(|other| other.planned == self.described) {
                let old = planning::places_before(&self.described, (&self.planned, &self.plan))?;
                let Other { planned, mut plan, .. } = self.others.remove(at);
                plan.compare(&planned, &old);
                self.replace(planned, plan);
            } else {
                let before = (&self.planned, &self.plan);
                let planning = Planning::new(&self.described, Effort::per_frame())?;
                let plan = planning.plan(&self.limits, before, &mut self.solver)?;
                self.replace_by_new(self.described.clone(), plan);
            }
        }
        self.frames += 1;
        let (frames, made) = (self.frames, self.made);
        self.others.retain(|it| frames - it.frames < REMEMBERED_FRAMES || it.plan.number == made);
        Ok(&self.plan)
    }

    /// Takes a plan that nobody has seen.
    fn replace_by_new(&mut self, planned: Graph, plan: TransientPlan) {
        self.numbers += 1;
        self.replace(planned, TransientPlan { number: self.numbers, ..plan });
    }

    fn replace(&mut self, planned: Graph, plan: TransientPlan) {
        let planned = core::mem::replace(&mut self.planned, planned);
        let plan = core::mem::replace(&mut self.plan, plan);
        if plan.number == 0 {
            return;
        }
        if self.others.len() == REMEMBERED_PLANS {
            let oldest = self.others.iter().rposition(|other| other.plan.number != self.made);
            self.others.remove(oldest.unwrap_or(0));
        }
        self.others.insert(0, Other { planned, plan, frames: self.frames });
    }

    /// Says that the resources of the current plan exist. It is not forgotten before those of another one do.
    pub(crate) fn made(&mut self) {
        self.made = self.plan.number;
        // A worse plan of the same frame is of no use any more.
        self.others.retain(|other| other.planned != self.planned);
    }

    /// Returns the size of the largest heap of a class, of all plans that a frame may get.
    pub(crate) fn most_bytes(&self, class: u32) -> u64 {
        let plans = core::iter::once(&self.plan).chain(self.others.iter().map(|other| &other.plan));
        let heaps = plans.flat_map(|plan| &plan.heaps).filter(|heap| heap.class == class);
        heaps.map(|heap| heap.size).max().unwrap_or(0)
    }

    /// Returns whether a frame may get the plan with a number.
    pub(crate) fn remembers(&self, number: u64) -> bool {
        self.plan.number == number || self.others.iter().any(|other| other.plan.number == number)
    }

    /// Says that the resources of the current plan could not be created. The last one whose resources exist is the current one
    /// again.
    pub(crate) fn take_back(&mut self) {
        let made = self.others.iter().position(|other| other.plan.number == self.made);
        let made = made.map(|at| self.others.remove(at));
        (self.planned, self.plan) = made.map(|made| (made.planned, made.plan)).unwrap_or_default();
    }

    /// Returns the last plan; an empty one before the first.
    #[must_use]
    pub fn current(&self) -> &TransientPlan {
        &self.plan
    }

    /// Looks for a plan of fewer bytes for the frame that was planned last, until `stop` returns `true` or none is possible; and
    /// takes it, under another [number](TransientPlan::number), if it finds one. Resources then have other places, and a history
    /// has lost its contents. Returns the plan.
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
            self.replace_by_new(self.planned.clone(), better);
        }
        &self.plan
    }

    fn better(&mut self, stop: &mut dyn FnMut() -> bool) -> Result<Option<TransientPlan>, TransientError> {
        let planning = Planning::new(&self.planned, Effort::until(stop))?;
        // Whatever is smaller is better than what there is.
        let limits = HeapLimits { kept_percent: 0, ..self.limits };
        let plan = planning.plan(&limits, (&self.planned, &self.plan), &mut self.solver)?;
        Ok((plan.cost() < self.plan.cost()).then_some(plan))
    }
}
