//! The events of the front: submissions, completions, waits, and at the end of each frame how full the queues and rings
//! are. Those of memory are the allocator's.
//!
//! # Invariants
//!
//! A program that works without a reader works with one. So what is here waits for no lock that the program, or a thread
//! that waits for a queue, may hold: a part that is in use is told of at the end of a later frame. And the driver is asked
//! with no lock held, since the application may implement the device.

use core::time::Duration;

use super::Gpu;
use crate::device::{Device, QueueIndex, TimelinePoint, TimelineValue};
use crate::events::{
    AlreadySubscribed, DeletionQueueKind, Event, EventSubscription, ObjectId, RingKind, StallKind,
    SubscriptionDesc, TextId,
};
use crate::lifetime::TimelinePoints;
use crate::sync::{locked, try_locked};
use crate::upload::ReadbackRing;

/// The deletion queue of a `Gpu`, which has one.
const DELETION_QUEUE: ObjectId = ObjectId(0);

/// What the reader was last told, so that it is told of changes alone.
#[derive(Debug, Default)]
pub(super) struct Levels {
    /// The epoch of the log in which the reader was told; 0 before the first.
    epoch: u64,
    completed: [Option<u64>; TimelinePoints::MAX_QUEUES],
    waiting: Option<u32>,
    /// Capacity and bytes in use, by the code of the ring's kind: a `Gpu` has one ring of each.
    rings: [Option<(u64, u64)>; RingKind::ALL.len()],
}

impl<D: Device> Gpu<D> {
    /// Attaches a reader to the events of this `Gpu`: those of its [allocator](crate::Allocator::subscribe) and of its
    /// descriptor heaps, its submissions and their completion, its waits for the GPU, and at the end of each frame how full
    /// its deletion queue and its rings are.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::events::{Event, EventBatch, SubscriptionDesc};
    ///
    /// let mut events = gpu.subscribe(&SubscriptionDesc::default())?;
    /// gpu.begin_frame()?.end()?;
    /// let mut batch = EventBatch::new();
    /// events.read(&mut batch);
    /// assert!(batch.events().contains(&Event::FrameEnd { number: 0 }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AlreadySubscribed`] while another subscription of this `Gpu` or its allocator lives.
    #[inline(never)]
    pub fn subscribe(&self, desc: &SubscriptionDesc) -> Result<EventSubscription, AlreadySubscribed> {
        let subscription = self.allocator().subscribe(desc)?;
        self.emit_levels();
        Ok(subscription)
    }

    /// Writes how far the queues are, and how full the deletion queue and the rings, where that has changed.
    #[cold]
    fn emit_levels(&self) {
        // Before any lock. A lost device tells nothing.
        let completed: [Option<u64>; TimelinePoints::MAX_QUEUES] = core::array::from_fn(|queue| {
            let exists = queue < self.device().properties().queues.len();
            let value = exists.then(|| self.device().completed(QueueIndex(queue as u8)).ok()).flatten();
            value.map(|TimelineValue(value)| value)
        });
        // Nothing runs on a lost device.
        let is_reached = |point: TimelinePoint| {
            completed[usize::from(point.queue.0)].is_none_or(|value| point.value.0 <= value)
        };
        let waiting = self.deletion_queue().pending();
        let waiting = waiting.map(|waiting| u32::try_from(waiting).unwrap_or(u32::MAX));
        let pages = self.shared.upload_pool.statistics();
        // No lock is waited for: the readback ring is locked as long as the program likes, which may be the thread that ends
        // the frame.
        let staged = self.shared.uploader.bytes_in_use(is_reached);
        let readback = try_locked(&self.shared.readback);
        let readback = readback.and_then(|ring| ring.as_ref().map(ReadbackRing::statistics));

        // Its holder writes to the log, and does nothing else.
        let mut levels = locked(&self.shared.levels);
        let log = self.allocator().events();
        let epoch = log.epoch();
        if epoch == 0 {
            return;
        }
        if levels.epoch != epoch {
            // Another reader, who knows nothing yet, or one that has lost events.
            *levels = Levels { epoch, ..Levels::default() };
        }
        for (queue, value) in completed.into_iter().enumerate() {
            // Not again, nor less: a thread that asked the driver later may have come first.
            let Some(value) = value.filter(|&value| levels.completed[queue] < Some(value)) else { continue };
            levels.completed[queue] = Some(value);
            log.announce(epoch, |_| Event::Completed { queue: QueueIndex(queue as u8), value });
        }
        if let Some(waiting) = waiting {
            if levels.waiting.replace(waiting) != Some(waiting) {
                let (queue, kind) = (DELETION_QUEUE, DeletionQueueKind::Resources);
                log.announce(epoch, |_| Event::DeletionQueue { queue, kind, waiting });
            }
        }
        self.emit_ring(&mut levels, RingKind::Upload, pages.bytes, pages.bytes - pages.free_bytes);
        if let Some(staged) = staged {
            self.emit_ring(&mut levels, RingKind::Staging, self.desc().uploader.staging, staged);
        }
        if let Some(ring) = readback {
            self.emit_ring(&mut levels, RingKind::Readback, ring.capacity, ring.used);
        }
    }

    fn emit_ring(&self, levels: &mut Levels, kind: RingKind, capacity: u64, used: u64) {
        let log = self.allocator().events();
        let ring = ObjectId(kind.code().into());
        let level = &mut levels.rings[usize::from(kind.code())];
        let before = level.replace((capacity, used));
        if before.map(|(capacity, _)| capacity) != Some(capacity) {
            log.announce(levels.epoch, |_| Event::RingCreated { ring, kind, capacity, name: TextId::NONE });
        }
        if before != Some((capacity, used)) {
            log.announce(levels.epoch, |_| Event::RingUsed { ring, used });
        }
    }

    /// Writes the levels at the end of a frame, if there is a reader.
    pub(super) fn emit_end_of_frame(&self) {
        if self.allocator().events().is_read() {
            self.emit_levels();
        }
    }

    /// Writes that commands were submitted, if there is a reader.
    pub(super) fn emit_submitted(&self, queue: QueueIndex, TimelineValue(value): TimelineValue) {
        let log = self.allocator().events();
        if log.is_read() {
            log.push_always(|_| Event::Submitted { queue, value });
        }
    }

    /// Writes that a thread waited for the GPU, if there is a reader.
    pub(super) fn emit_wait(&self, kind: StallKind, waited: Duration) {
        let log = self.allocator().events();
        if log.is_read() {
            let nanoseconds = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
            log.push_always(|_| Event::Stalled { kind, nanoseconds });
        }
    }
}
