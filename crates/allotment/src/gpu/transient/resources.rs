//! The transient resources of a frame, and what its passes do before they use them.

use core::fmt;
use std::sync::Arc;

use super::made::{Made, Object};
use super::{Frame, Noted, TransientHeap};
use crate::device::{Device, TimelinePoint, TimelineValue};
use crate::lifetime::TimelinePoints;
use crate::memory::{Buffer, Image};
use crate::sync::locked;
use crate::transient::{Follow, TransientPass, TransientPlan, TransientResource};

/// A handle of an image of a frame. [`TransientResources::image`] returns the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransientImage {
    pub(super) resource: TransientResource,
    pub(super) frame: u64,
}

impl TransientImage {
    /// Returns the resource that the [plan](TransientResources::plan) knows it by.
    #[must_use]
    pub fn resource(self) -> TransientResource {
        self.resource
    }
}

/// A handle of a buffer of a frame. [`TransientResources::buffer`] returns the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransientBuffer {
    pub(super) resource: TransientResource,
    pub(super) frame: u64,
}

impl TransientBuffer {
    /// Returns the resource that the [plan](TransientResources::plan) knows it by.
    #[must_use]
    pub fn resource(self) -> TransientResource {
        self.resource
    }
}

/// A transient buffer or image.
pub enum TransientObject<'a, D: Device> {
    /// A buffer.
    Buffer(&'a Arc<Buffer<D>>),
    /// An image.
    Image(&'a Arc<Image<D>>),
}

// Not derived, since these are references, whether or not the device can be copied or shown.
impl<D: Device> Clone for TransientObject<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for TransientObject<'_, D> {}

impl<D: Device> fmt::Debug for TransientObject<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Buffer(buffer) => f.debug_tuple("Buffer").field(&buffer.id()).finish(),
            Self::Image(image) => f.debug_tuple("Image").field(&image.id()).finish(),
        }
    }
}

/// A resource that a pass is the first of a frame to use. Its bytes are undefined.
///
/// The pass, or a command before it, records:
///
/// - On Vulkan, a `VkMemoryBarrier2` from all commands and their writes, for what others did with the bytes; and in the same
///   `VkDependencyInfo`, for an image, a `VkImageMemoryBarrier2` from the layout `UNDEFINED`. The memory barrier is needed beside
///   it: a barrier of one image makes the writes of that image available, not those of another over its bytes.
/// - On Direct3D 12, if it [shares memory](Self::shares_memory), an aliasing barrier from [`before`](Self::before), or from any
///   resource, to this one. Then a transition from the state that the image was left in, or was created in. Then, for a render
///   target or a depth buffer, a discard, a clear or a copy of the whole of it. A buffer needs no transition, since its state decays
///   when a submission ends; but a history does that was read in the same one.
#[derive(Debug)]
#[non_exhaustive]
pub struct FirstUse<'a, D: Device> {
    /// The resource, as plans and handles know it.
    pub resource: TransientResource,
    /// The buffer or image.
    pub object: TransientObject<'a, D>,
    /// The only one that had the bytes before: the resource itself, where no other one shares them. `None` where there were
    /// several; and where it is one of the frame before that had another plan, or whose passes were not all
    /// [noted](TransientResources::submitted). Where it was last used on another queue, the wait for that queue comes first, and
    /// the barrier's source is what waits.
    pub before: Option<TransientObject<'a, D>>,
    /// Others may have had the bytes. False for what has memory of its own: Direct3D 12 takes no aliasing barrier for it.
    pub shares_memory: bool,
}

// Not derived, as above.
impl<D: Device> Clone for FirstUse<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for FirstUse<'_, D> {}

/// The transient resources of a frame. Threads that record share a reference.
///
/// [`TransientHeap`] has an example.
pub struct TransientResources<'a, D: Device> {
    pub(super) frame: &'a Frame<D>,
    pub(super) heap: &'a TransientHeap<D>,
    pub(super) number: u64,
    /// The frame before had the same plan, and all of its passes were noted.
    pub(super) is_alike: bool,
}

impl<D: Device> fmt::Debug for TransientResources<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut resources = f.debug_struct("TransientResources");
        resources.field("heap", &self.heap).field("is_alike", &self.is_alike).finish_non_exhaustive()
    }
}

impl<D: Device> Made<D> {
    fn object(&self) -> TransientObject<'_, D> {
        match &self.object {
            Object::Buffer(buffer) => TransientObject::Buffer(buffer),
            Object::Image(image) => TransientObject::Image(image),
        }
    }
}

impl<'a, D: Device> TransientResources<'a, D> {
    pub(super) fn made(&self, resource: TransientResource, frame: u64) -> &'a Made<D> {
        assert_eq!(frame, self.number, "the handle of a transient resource is one of another frame");
        &self.heap.made.resources[resource.index()]
    }

    /// Returns an image. It may be kept beyond the frame, for a view of the program's own; its bytes are those of others then.
    ///
    /// # Panics
    ///
    /// With a handle of another frame.
    #[must_use]
    pub fn image(&self, image: TransientImage) -> &'a Arc<Image<D>> {
        match &self.made(image.resource, image.frame).object {
            Object::Image(image) => image,
            Object::Buffer(_) => unreachable!("the handle was made for an image"),
        }
    }

    /// Returns a buffer, as [`image`](Self::image) returns an image.
    ///
    /// # Panics
    ///
    /// With a handle of another frame.
    #[must_use]
    pub fn buffer(&self, buffer: TransientBuffer) -> &'a Arc<Buffer<D>> {
        match &self.made(buffer.resource, buffer.frame).object {
            Object::Buffer(buffer) => buffer,
            Object::Image(_) => unreachable!("the handle was made for a buffer"),
        }
    }

    /// Returns the resources whose first use in the frame is in a pass, for the barriers before it. Of a history, the first use of
    /// those that fill it.
    pub fn first_uses(&self, pass: TransientPass) -> impl Iterator<Item = FirstUse<'a, D>> + use<'a, D> {
        let (heap, plan, is_alike) = (self.heap, self.plan(), self.is_alike);
        let object = move |resource: TransientResource| heap.made.resources[resource.index()].object();
        plan.begins(pass).map(move |resource| {
            let before = match plan.follows(resource) {
                [Follow { resource, of_frame_before }] if !of_frame_before || is_alike => {
                    Some(object(*resource))
                }
                _ => None,
            };
            let shares_memory = heap.made.resources[resource.index()].place.is_some();
            FirstUse { resource, object: object(resource), before, shares_memory }
        })
    }

    /// Returns the points that a submission with these passes waits for: what passes of the frame before, on other queues, do with
    /// bytes that are used here. For [`Frame::submit_after`](crate::Frame::submit_after). What they wait for in their own frame is
    /// not among them.
    ///
    /// Empty where all passes are on one queue. Where all passes of the frame before were [noted](Self::submitted), and it had the
    /// same plan, these are the points of the passes that matter; else of all that the other queues were given before this frame.
    /// Call it once the passes of the frame before are submitted, right before this submission.
    #[must_use]
    pub fn waits(&self, passes: &[TransientPass]) -> TimelinePoints {
        let queues = &self.heap.queues;
        let mut points = TimelinePoints::EMPTY;
        for &pass in passes {
            let Some(&queue) = queues.get(pass.number() as usize) else { continue };
            if !self.is_alike {
                let before = self.before_this_frame(&mut locked(&self.heap.points));
                before.points().filter(|point| point.queue != queue).for_each(|it| points.insert(it));
                continue;
            }
            // Those of the queue's earlier passes too, since plans leave out what follows from them.
            let waits = self.plan().waits().iter();
            let waits = waits.take_while(|wait| wait.pass <= pass);
            for wait in waits.filter(|wait| queues[wait.pass.number() as usize] == queue) {
                let point = self.heap.points_before.get(wait.for_pass.number() as usize);
                point.copied().flatten().into_iter().for_each(|point| points.insert(point));
            }
        }
        points
    }

    /// Notes that passes were submitted, for the waits and the barriers of the next frame. Without it, those are for all that the
    /// queues were given.
    pub fn submitted(&self, passes: &[TransientPass], point: TimelinePoint) {
        let mut noted = locked(&self.heap.points);
        if !self.is_alike && noted.before.is_none() {
            // Without this submission: its queue executes them in order.
            let one = |it: TimelinePoint| it.queue == point.queue && it.value >= point.value;
            let earlier = TimelinePoint { value: TimelineValue(point.value.0.saturating_sub(1)), ..point };
            let before = self.before_this_frame(&mut noted);
            let before = before.points().map(|it| if one(it) { earlier } else { it });
            noted.before = Some(before.filter(|it| it.value.0 > 0).collect());
        }
        for pass in passes {
            if let Some(noted) = noted.points.get_mut(pass.number() as usize) {
                *noted = Some(point);
            }
        }
    }

    /// Returns true if a history holds what the frame before has filled it with, provided that its passes were submitted. Else it
    /// is a new one over bytes of others: do not read it in this frame, nor record a barrier for it before the pass that fills it.
    /// False for what is no history: it holds nothing from before.
    ///
    /// # Panics
    ///
    /// With a resource of a later frame, that this one does not have.
    #[must_use]
    pub fn is_kept(&self, resource: TransientResource) -> bool {
        let is_history = self.heap.known.get(self.heap.described[resource.index()]).is_history;
        is_history && self.heap.made.is_kept[resource.index()]
    }

    /// Returns the plan: sizes, places, and what each resource follows.
    #[must_use]
    pub fn plan(&self) -> &'a TransientPlan {
        self.heap.planner.current()
    }

    /// Returns the last points that the queues of the passes were given before this frame: before anybody has asked for waits, or
    /// noted a submission.
    fn before_this_frame(&self, noted: &mut Noted) -> TimelinePoints {
        let used = |point: &TimelinePoint| self.heap.used_queues >> point.queue.0 & 1 == 1;
        let submitted = || self.frame.gpu().tracker().submitted().points().filter(used).collect();
        *noted.before.get_or_insert_with(submitted)
    }
}
