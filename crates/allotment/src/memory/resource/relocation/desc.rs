//! Description of a defragmenter, and the result of its steps.

use crate::device::{QueueIndex, TimelinePoint};
use crate::memory::{DefragmentationDesc, DefragmentationStatistics};

/// Description of a [`Defragmenter`](super::Defragmenter).
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// use allotment::memory::defragmentation::{
///     DefragmentationDesc, DefragmentationStrategy, DefragmenterDesc,
/// };
///
/// let fast = DefragmentationDesc::new(DefragmentationStrategy::Fast);
/// let desc = DefragmenterDesc::new(fast).with_queue(QueueIndex(0));
/// let gpu = Gpu::new(device, GpuDesc::default().with_defragmentation(desc))?;
/// assert!(gpu.begin_frame()?.end()?.defragmentation.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct DefragmenterDesc {
    /// Strategy, and what happens to emptied blocks. The limits are replaced by those of each step.
    pub defragmentation: DefragmentationDesc,
    /// The queue that copies. Defaults to the first graphics queue, or else the first queue. On Vulkan, exclusive resources
    /// are relocatable only where it is of the family of that queue.
    pub queue: Option<QueueIndex>,
}

impl From<DefragmentationDesc> for DefragmenterDesc {
    fn from(defragmentation: DefragmentationDesc) -> Self {
        Self::new(defragmentation)
    }
}

impl DefragmenterDesc {
    /// Describes a defragmenter by its defragmentation, with the defaults for everything else.
    #[must_use]
    pub fn new(defragmentation: DefragmentationDesc) -> Self {
        Self { defragmentation, queue: None }
    }

    /// Sets the queue that copies.
    #[must_use]
    pub const fn with_queue(mut self, queue: QueueIndex) -> Self {
        self.queue = Some(queue);
        self
    }
}

/// Outcome of a step.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::memory::defragmentation::{PassLimits, StepOutcome};
///
/// match gpu.defragmenter().step(PassLimits::default())?.outcome {
///     StepOutcome::Moved => println!("write the descriptors of moved resources anew"),
///     StepOutcome::LimitReached => println!("the next step continues"),
///     StepOutcome::RecordingIsOpen => println!("a write of it would be lost"),
///     StepOutcome::Idle => println!("nothing to gain"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// At least one resource was moved.
    Moved,
    /// The time was up, or the resources to be moved could not be; the next step continues.
    LimitReached,
    /// A recording is open that may write to relocatable resources, or was opened meanwhile, so nothing was moved. A
    /// recording that stays open for long declares that it [only reads](crate::lifetime::Recording::only_reads).
    RecordingIsOpen,
    /// There is nothing to gain at present.
    Idle,
}

/// Result of a step.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let step = gpu.defragmenter().step(Default::default())?;
/// println!("{} resources moved, {} bytes copied", step.statistics.moves, step.statistics.bytes_moved);
/// if let Some(point) = step.copied_at {
///     gpu.wait(point)?; // or let a submission on another queue wait for it
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DefragmentationStep {
    /// Whether resources were moved, and whether there is more to do.
    pub outcome: StepOutcome,
    /// The sums of this step: the resources that were moved and have a new handle, the bytes that the queue copies for
    /// them, and the rest. Those of all steps add up to [`Defragmenter::statistics`](super::Defragmenter::statistics),
    /// which also has those of passes that failed.
    pub statistics: DefragmentationStatistics,
    /// The point at which the copies complete. Work on other queues than the defragmenter's that uses moved resources
    /// waits for it.
    pub copied_at: Option<TimelinePoint>,
}

impl DefragmentationStep {
    /// Returns the result of a step before its sums are known.
    pub(super) fn new(outcome: StepOutcome) -> Self {
        Self { outcome, statistics: DefragmentationStatistics::default(), copied_at: None }
    }

    /// Adds a later pass of the step.
    pub(super) fn and(self, later: Self) -> Self {
        let moved = [self.outcome, later.outcome].contains(&StepOutcome::Moved);
        Self {
            outcome: if moved { StepOutcome::Moved } else { later.outcome },
            statistics: self.statistics + later.statistics,
            // One queue copies for all of them, in their order.
            copied_at: later.copied_at.or(self.copied_at),
        }
    }
}
