//! The description of a frame's passes and of what they use.

use core::fmt;
use std::sync::PoisonError;

use super::error::TransientHeapError;
use super::known::{Info, InfoRef};
use super::made::MadePlan;
use super::resources::{TransientBuffer, TransientImage, TransientResources};
use super::{Frame, TransientHeap};
use crate::device::{Device, DeviceError, QueueIndex};
use crate::memory::{Name, ShortName};
use crate::transient::{TransientError, TransientPass, TransientResource};

/// The passes of a frame, in the order of their submission, and the transient resources that they use. From
/// [`Frame::transient`](crate::Frame::transient) to [`plan`](Self::plan).
#[must_use = "it is planned by `plan`"]
pub struct TransientGraph<'a, D: Device> {
    pub(super) frame: &'a Frame<D>,
    pub(super) heap: &'a mut TransientHeap<D>,
    pub(super) number: u64,
}

impl<D: Device> fmt::Debug for TransientGraph<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut graph = f.debug_struct("TransientGraph");
        let (passes, resources) = (self.heap.queues.len(), self.heap.described.len());
        graph.field("passes", &passes).field("resources", &resources).finish_non_exhaustive()
    }
}

/// The bit of a queue; none of one that no tracker has.
fn bit(queue: QueueIndex) -> u16 {
    1_u16.checked_shl(queue.0.into()).unwrap_or(0)
}

/// Which passes use a resource, and which read what the frame before has left.
type Uses<'u> = (&'u [TransientPass], Option<&'u [TransientPass]>);

impl<'a, D: Device> TransientGraph<'a, D> {
    /// Adds a pass, which the queue executes after those of this queue that were added before, and which waits for others. A pass
    /// waits for all that those wait for, too. The program sees to it that it does: by the order of its submissions, and by
    /// semaphores or fences. It submits every pass, also one that has nothing to do, or leaves it out of the description.
    ///
    /// # Errors
    ///
    /// [`TransientError::UnknownPass`] where it waits for one that was not added before,
    /// [`DeviceError::NoSuchQueue`](crate::device::DeviceError::NoSuchQueue).
    pub fn pass(
        &mut self,
        queue: QueueIndex,
        waits_for: &[TransientPass],
    ) -> Result<TransientPass, TransientHeapError> {
        if usize::from(queue.0) >= self.frame.gpu().device().properties().queues.len() {
            let source = DeviceError::NoSuchQueue { queue };
            return Err(TransientHeapError::Device { source, name: ShortName::NONE });
        }
        let planner = &mut self.heap.planner;
        let refused = |source| TransientHeapError::Plan { source, name: ShortName::NONE };
        let pass = planner.pass(queue, waits_for).map_err(refused)?;
        self.heap.queues.push(queue);
        Ok(pass)
    }

    /// Adds an image with all passes that use it, in any order. On one queue the first and the last are enough: it is alive
    /// from the one to the other. Where several queues use it, one pass comes before all others.
    ///
    /// It is the image of the frame before that had this name, if its description and its place are the same. Where several queue
    /// families use it, its description says that they share it.
    ///
    /// # Errors
    ///
    /// [`TransientHeapError::NameUsedTwice`], [`TransientHeapError::Device`] for a description that the device refuses, and where
    /// the passes are none or unknown.
    pub fn image(
        &mut self,
        name: impl Into<Name>,
        info: &D::ImageInfo<'static>,
        passes: &[TransientPass],
    ) -> Result<TransientImage, TransientHeapError> {
        let resource = self.add(name.into(), InfoRef::Image(info), (passes, None))?;
        Ok(TransientImage { resource, frame: self.number })
    }

    /// Adds a buffer, as [`image`](Self::image) adds an image.
    ///
    /// # Errors
    ///
    /// The errors of that call.
    pub fn buffer(
        &mut self,
        name: impl Into<Name>,
        info: &D::BufferInfo<'static>,
        passes: &[TransientPass],
    ) -> Result<TransientBuffer, TransientHeapError> {
        let resource = self.add(name.into(), InfoRef::Buffer(info), (passes, None))?;
        Ok(TransientBuffer { resource, frame: self.number })
    }

    /// Adds an image that a frame fills for the next one, such as what temporal filters accumulate: with the passes that use it
    /// in the frame that fills it, and those that read it a frame later. Others may have its bytes in between. What those read
    /// is defined where it [is kept](TransientResources::is_kept).
    ///
    /// # Errors
    ///
    /// As [`image`](Self::image), also where no pass reads it. [`plan`](Self::plan) refuses one that is read while it is filled.
    pub fn history_image(
        &mut self,
        name: impl Into<Name>,
        info: &D::ImageInfo<'static>,
        passes: &[TransientPass],
        read_by: &[TransientPass],
    ) -> Result<TransientImage, TransientHeapError> {
        let resource = self.add(name.into(), InfoRef::Image(info), (passes, Some(read_by)))?;
        Ok(TransientImage { resource, frame: self.number })
    }

    /// Adds a buffer that a frame fills for the next one, as [`history_image`](Self::history_image) adds an image.
    ///
    /// # Errors
    ///
    /// The errors of that call.
    pub fn history_buffer(
        &mut self,
        name: impl Into<Name>,
        info: &D::BufferInfo<'static>,
        passes: &[TransientPass],
        read_by: &[TransientPass],
    ) -> Result<TransientBuffer, TransientHeapError> {
        let resource = self.add(name.into(), InfoRef::Buffer(info), (passes, Some(read_by)))?;
        Ok(TransientBuffer { resource, frame: self.number })
    }

    fn add(
        &mut self,
        name: Name,
        info: InfoRef<'_, D>,
        (passes, read_by): Uses<'_>,
    ) -> Result<TransientResource, TransientHeapError> {
        let heap = &mut *self.heap;
        let allocator = heap.memory.allocator();
        let index = heap.known.find(allocator, self.number, name, (&info, read_by.is_some()))?;
        let known = heap.known.get(index);
        let added = match read_by {
            None => heap.planner.resource(&known.desc, passes),
            Some(read_by) => heap.planner.history(&known.desc, passes, read_by),
        };
        match added {
            Ok(resource) => {
                heap.described.push(index);
                Ok(resource)
            }
            Err(source) => {
                let name = ShortName::of(Some(&known.name));
                heap.known.take_back(index);
                Err(TransientHeapError::Plan { source, name })
            }
        }
    }

    /// Plans the frame and returns its resources: those of the frame before, where it is described alike.
    ///
    /// # Errors
    ///
    /// [`TransientHeapError`]. What the plan before has created stays. Where memory or a resource was not created, what was kept for
    /// other frames that come in turn is given up.
    #[track_caller]
    pub fn plan(self) -> Result<TransientResources<'a, D>, TransientHeapError> {
        let TransientGraph { frame, heap, number } = self;
        let known = &heap.known;
        let plan = heap.planner.plan().map_err(|source| {
            let key = match source {
                TransientError::Unused { key }
                | TransientError::NotRead { key }
                | TransientError::HistoryOverlaps { key, .. }
                | TransientError::KeyUsedTwice { key }
                | TransientError::Impossible { key, .. } => Some(key),
                TransientError::UnknownPass { .. } => None,
            };
            let name = key.map_or(ShortName::NONE, |key| known.name_of(key));
            TransientHeapError::Plan { source, name }
        })?;
        if plan.number() != heap.made.number {
            if let Err(error) = heap.make() {
                heap.planner.take_back();
                if matches!(error, TransientHeapError::Memory(_) | TransientHeapError::Resource(_)) {
                    // What is held may be what the memory lacks.
                    heap.held.clear();
                }
                return Err(error);
            }
        } else if let Some(first_lost) = heap.made.is_kept.iter().position(|is_kept| !is_kept) {
            // The frame before was the first of the plan.
            heap.made.is_kept[first_lost..].fill(true);
        }
        heap.held.retain(|held| heap.planner.remembers(held.number));
        if heap.made.has_spare(|class| heap.planner.most_bytes(class)) {
            heap.shrink();
        }
        let passes = heap.queues.len();
        let noted = heap.points.get_mut().unwrap_or_else(PoisonError::into_inner);
        core::mem::swap(&mut noted.points, &mut heap.points_before);
        noted.points.clear();
        noted.points.resize(passes, None);
        noted.before = None;
        // What a pass that was not noted has used, nobody knows; nor what was used before a frame without passes.
        let are_noted = !heap.points_before.is_empty() && heap.points_before.iter().all(Option::is_some);
        let is_alike = are_noted && heap.number_before == heap.made.number;
        let of_points = heap.points_before.iter().flatten().fold(0, |all, point| all | bit(point.queue));
        let of_passes = heap.queues.iter().fold(0, |all, &queue| all | bit(queue));
        heap.used_queues = of_passes | if are_noted { of_points } else { heap.used_queues };
        heap.number_before = heap.made.number;
        Ok(TransientResources { frame, heap, number, is_alike })
    }
}

impl<D: Device> TransientHeap<D> {
    /// Finds or creates the resources of the plan.
    #[track_caller]
    fn make(&mut self) -> Result<(), TransientHeapError> {
        let (plan, memory) = (self.planner.current(), (&self.memory, &self.name));
        let comes_back = plan.number() <= self.highest_number;
        let held = self.held.iter().position(|held| held.number == plan.number());
        let mut next = match held {
            Some(at) => self.held.remove(at),
            None => {
                let described = |it: TransientResource| self.known.get(self.described[it.index()]);
                let mut twice = plan.begun_by_several().map(described);
                if let Some(image) = twice.find(|it| matches!(it.info, Info::Image(_))) {
                    let name = ShortName::of(Some(&image.name));
                    return Err(TransientHeapError::FirstUsesNotOrdered { name });
                }
                let before: Vec<&MadePlan<D>> = core::iter::once(&self.made).chain(&self.held).collect();
                MadePlan::next(&before, comes_back, memory, plan, &self.known, &self.described)?
            }
        };
        next.compare(&self.made);
        self.highest_number = plan.number().max(self.highest_number);
        let last = core::mem::replace(&mut self.made, next);
        self.held.retain(|held| held.fits_beside(&self.made));
        // The first time that a frame is described, it may be the only one: a window that is resized has a new one each time.
        if (comes_back || last.comes_back) && last.number > 0 && last.fits_beside(&self.made) {
            self.held.push(last);
        }
        self.planner.made();
        self.cannot_shrink = false;
        Ok(())
    }

    /// Creates the resources of the plan in less memory: frames that needed more have not come back.
    #[track_caller]
    fn shrink(&mut self) {
        if self.cannot_shrink {
            return;
        }
        let (before, memory) = ([&self.made], (&self.memory, &self.name));
        let plan = self.planner.current();
        match MadePlan::next(&before, false, memory, plan, &self.known, &self.described) {
            Ok(mut made) => {
                made.compare(&self.made);
                made.is_kept.iter_mut().zip(&self.made.is_kept).for_each(|(now, before)| *now &= before);
                self.made = made;
                self.held.clear();
                self.number_before = 0;
            }
            // It goes on in what there is, until there is another plan.
            Err(_) => self.cannot_shrink = true,
        }
    }
}
