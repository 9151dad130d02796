//! Moves of mapped buffers: the owner accepts what a step has offered.
//!
//! ```text
//!   step       offers a place ─────────────┐
//!   owner      writes to the old address   │  accept_move: is a recording open that may write?          not yet
//!                                          │               is a write of a queue in flight?             not yet
//!                                          │               creates the new buffer, copies the bytes
//!                                          │               was a recording opened meanwhile?            not yet
//!                                          └►              new handle, address, descriptors; retires the old buffer
//! ```
//!
//! The CPU copies, since a queue would copy what the owner has not written yet: the owner's own call is the point from
//! which on it writes to the new address.

use std::sync::{Arc, Mutex, Weak};

use crate::device::{Device, DeviceError, MemoryProperties, copy_bytes};
use crate::lifetime::TimelinePoints;
use crate::memory::DefragmentationError;
use crate::memory::defragmentation::{Offer, OfferEnded, Released};
use crate::memory::mover::MoverId;
use crate::memory::resource::Buffers;
use crate::memory::resource::relocation::cell::Cell;
use crate::memory::resource::relocation::defragmenter::OnMoved;
use crate::memory::resource::relocation::follow::{Follower, Moving};
use crate::memory::resource::relocation::new_resource::{NewObject, NewResource, retire_left};
use crate::memory::{
    AccessError, Allocation, Buffer, DefragmentationStatistics, Movability, OwningAllocator,
};
use crate::sync::locked;

/// What became of a move that an owner [accepts](crate::memory::MappedBuffer::accept_move).
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::memory::defragmentation::AcceptedMove;
///
/// let options = MemoryUsage::Upload.with_name("instances").relocatable();
/// let mut instances = gpu.create_mapped_buffer(&BufferDesc::new(4096).into(), &options)?;
/// match instances.accept_move()? {
///     AcceptedMove::Moved => println!("take the new address {:?} and handle", instances.address()),
///     AcceptedMove::NotYet => println!("ask again in the next frame, or wait with accept_move_within"),
///     AcceptedMove::NotOffered => println!("go on"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptedMove {
    /// No move is offered, so the buffer is where it was.
    NotOffered,
    /// A recording is open that may write to the buffer, or such a submission is in flight, so the buffer is where it
    /// was. The offer stands.
    NotYet,
    /// The buffer has a new handle and a new address, with its bytes. The old address must not be used any more.
    Moved,
}

/// What a defragmenter and the owners of its mapped buffers report to.
pub(super) struct Reports<D: Device> {
    /// Sums of all completed steps, and of all accepted moves.
    pub(super) statistics: Mutex<DefragmentationStatistics>,
    pub(super) on_moved: Mutex<Option<OnMoved<D>>>,
    /// The points at which all copies that steps have submitted are complete.
    pub(super) copied_at: Mutex<TimelinePoints>,
    /// Descriptor heaps that followed accepted moves since the last step.
    pub(super) followers: Mutex<Vec<Weak<dyn Follower<D>>>>,
}

impl<D: Device> Reports<D> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            statistics: Mutex::default(),
            on_moved: Mutex::default(),
            copied_at: Mutex::default(),
            followers: Mutex::default(),
        })
    }

    pub(super) fn add(&self, sums: DefragmentationStatistics) {
        let mut all = locked(&self.statistics);
        *all = *all + sums;
    }
}

/// The owner's part in the moves of a mapped buffer. Dropped, the buffer stays where it is from then on.
pub(in crate::memory::resource) struct Acceptor<D: Device> {
    pub(super) memory: OwningAllocator<D>,
    /// Who moves the buffer: its owner.
    pub(super) mover: MoverId,
    pub(super) reports: Arc<Reports<D>>,
    /// What the options say of its bytes.
    pub(super) movability: Movability,
    /// A queue can write to the buffer.
    pub(super) may_be_written: bool,
    pub(super) buffer: Arc<Buffer<D>>,
    pub(super) refused: Mutex<Refused>,
}

/// Since the buffer could not move: until which tick it is not offered a place, and for how long, in ticks.
#[derive(Debug, Default)]
pub(super) struct Refused {
    until: u64,
    wait: u64,
}

/// In ticks, sixtieths of a second.
const FIRST_WAIT: u64 = 60;
const MOST_WAIT: u64 = 60 * 60;

impl<D: Device> Acceptor<D> {
    /// Returns the buffer.
    pub(in crate::memory::resource) fn buffer(&self) -> &Arc<Buffer<D>> {
        &self.buffer
    }

    /// Returns true if a move is offered. From the first call on, a step may offer one.
    pub(in crate::memory::resource) fn has_offer(&self) -> bool {
        let allocator = self.memory.allocator();
        let id = self.buffer.id();
        if self.movability == Movability::Pinned {
            return false;
        }
        // Only now, and again after an offer that expired: the rest of a block would be copied for nothing where no
        // owner accepts.
        let slot = allocator.slot_of(id).ok();
        let found = slot.and_then(|slot| slot.movable_and_moving(id.record, id.generation));
        match found {
            // Most of the time: no look at the list, which all owners share.
            Some((true, false)) | None => false,
            Some((true, true)) => allocator.offers.has(id),
            Some((false, _)) => {
                let until = locked(&self.refused).until;
                if allocator.pools.now().tick >= until {
                    allocator.allow_moves_of(id, self.movability, self.mover);
                }
                false
            }
        }
    }

    /// Returns the points at which no queue writes to the buffer any more. `None` while a recording is open that may.
    pub(in crate::memory::resource) fn written(&self) -> Option<TimelinePoints> {
        let moment = self.memory.deletion_queue().tracker().quiet_moment()?;
        Some(if self.may_be_written { *moment.written() } else { TimelinePoints::EMPTY })
    }

    /// Moves the buffer, if a step has offered that and the GPU does not write to it.
    pub(in crate::memory::resource) fn accept(&self) -> Result<AcceptedMove, DefragmentationError> {
        if !self.has_offer() {
            return Ok(AcceptedMove::NotOffered);
        }
        let Some(cell) = self.buffer.cell() else { return Ok(AcceptedMove::NotOffered) };
        let tracker = self.memory.deletion_queue().tracker();
        // Before the bytes are read. A recording that is opened from here on may write to the old place.
        let Some(moment) = tracker.quiet_moment() else { return Ok(AcceptedMove::NotYet) };
        let Some(in_progress) = tracker.begin_pass() else { return Ok(AcceptedMove::NotYet) };
        let writes_are_done = !self.may_be_written || tracker.are_reached(moment.written());
        if !writes_are_done {
            return Ok(AcceptedMove::NotYet);
        }
        let allocator = self.memory.allocator();
        let Some(mut offer) = allocator.take_offer(cell.id()) else {
            return Ok(AcceptedMove::NotOffered);
        };
        let device = allocator.device();
        let new = match NewObject::create(device, Arc::clone(cell), &offer.one().to(), [false, true]) {
            Ok(new) => NewResource::Buffer(new),
            Err(error) => {
                self.note_refused();
                offer.refuse();
                return Err(DefragmentationError::Device(error));
            }
        };
        // It owns the new buffer from here on, also where the device panics.
        let mut open = OpenMove { memory: &self.memory, offer: Some(offer), created: [Some(new)] };
        open.name();
        let (moving, refused) = Moving::prepare(&open.created);
        if refused[0] {
            // A descriptor heap has no room to follow, as where a step moves a buffer.
            self.note_refused();
            open.refuse();
            return Ok(AcceptedMove::NotOffered);
        }
        if self.movability == Movability::Copied {
            self.copy(cell, &open)?;
        }
        // No recording is opened from here until the new handle is in place.
        let Some(quiet) = tracker.still_quiet(moment) else { return Ok(AcceptedMove::NotYet) };
        let (ended, left) = open.end();
        let (followers, can_leave) = moving.switch(&[ended.is_some()]);
        // After the switch: until then a recording could begin that reads the old descriptors.
        retire_left(&self.memory, left, can_leave);
        drop(quiet);
        // So that the next step waits for them too.
        locked(&self.reports.followers).extend(followers);
        drop(in_progress);
        let Some(OfferEnded { moved, statistics }) = ended else { return Ok(AcceptedMove::NotOffered) };
        *locked(&self.refused) = Refused::default();
        self.reports.add(statistics);
        let callback = locked(&self.reports.on_moved).clone();
        callback.into_iter().for_each(|callback| callback(&moved));
        Ok(AcceptedMove::Moved)
    }

    /// Notes that the buffer cannot move at present. Its mates in the block may have moved, so it is not offered another place
    /// for a second, then for two, and so on.
    fn note_refused(&self) {
        let mut refused = locked(&self.refused);
        refused.wait = (refused.wait * 2).clamp(FIRST_WAIT, MOST_WAIT);
        refused.until = self.memory.allocator().pools.now().tick + refused.wait;
    }

    /// Copies the bytes to the new place.
    fn copy(&self, cell: &Arc<Cell<D, Buffers>>, open: &OpenMove<'_, D>) -> Result<(), DefragmentationError> {
        let Some(one) = open.offer.as_ref().map(Offer::one) else { return Ok(()) };
        let allocator = self.memory.allocator();
        let (Some(from), Some(to), Some(reserved)) =
            (one.from().mapped_ptr, one.to().mapped_ptr, one.reserved())
        else {
            return Err(DefragmentationError::Device(DeviceError::MapFailed));
        };
        let bytes = 0..self.buffer.size();
        let device_error = |error| match error {
            AccessError::Device { source, .. } => DefragmentationError::Device(source),
            // Of the rest only unmapped memory is possible: the range is the buffer's, and both places live with the offer.
            _ => DefragmentationError::Device(DeviceError::MapFailed),
        };
        // Not where only the CPU writes: it would lose what is not flushed yet.
        if self.may_be_written {
            let old =
                cell.with(|current| allocator.invalidate(current.resource().allocation(), bytes.clone()));
            old.map_err(device_error)?;
        }
        // SAFETY: both places are mapped, have at least these bytes, and live while the offer does. The owner is borrowed
        // exclusively, other threads get `AccessError::Moving`, and those with addresses of their own promised to access
        // the bytes no more.
        unsafe { copy_bytes(from, to, bytes.end as usize) };
        allocator.flush(reserved, bytes).map_err(device_error)
    }
}

impl<D: Device> Drop for Acceptor<D> {
    #[expect(
        clippy::disallowed_methods,
        reason = "it is counted in a report; the buffer is dropped either way"
    )]
    #[inline(never)]
    fn drop(&mut self) {
        let (allocator, id) = (self.memory.allocator(), self.buffer.id());
        if self.movability == Movability::Pinned {
            return;
        }
        allocator.allow_moves_of(id, Movability::Pinned, MoverId::PASSES);
        // A binding set may have the buffer still: then it stays in the block.
        let leaves = Arc::strong_count(&self.buffer) == 1;
        self.reports.add(allocator.withdraw_offer(id, leaves));
    }
}

/// A move that is being accepted. Dropped, the buffer stays in its place.
struct OpenMove<'a, D: Device> {
    memory: &'a OwningAllocator<D>,
    offer: Option<Offer<'a, D>>,
    created: [Option<NewResource<D>>; 1],
}

impl<D: Device> OpenMove<'_, D> {
    fn name(&self) {
        if let ([Some(new)], Some(offer)) = (&self.created, &self.offer) {
            new.name(self.memory.allocator(), offer.one());
        }
    }

    /// Gives the block up: the buffer cannot leave it.
    fn refuse(&mut self) {
        self.offer.iter_mut().for_each(Offer::refuse);
    }

    /// Ends the move. Returns what it left.
    fn end(
        mut self,
    ) -> (Option<OfferEnded<D>>, Vec<crate::memory::resource::relocation::new_resource::OldResource<D>>) {
        let mut left = Vec::new();
        let (Some(offer), Some(new)) = (self.offer.take(), self.created[0].take()) else {
            return (None, left);
        };
        let memory = self.memory;
        let leave = |released: Released, place: Allocation| match released {
            Released::Source => left.push(new.replace_old(place, None).0),
            Released::FreedSource => memory.allocator().free_own(place),
            Released::Destination => {
                new.destroy(memory.allocator().device());
                memory.allocator().free_own(place);
            }
        };
        (offer.accept(leave), left)
    }
}

impl<D: Device> Drop for OpenMove<'_, D> {
    fn drop(&mut self) {
        // No queue and no descriptor has it. Before the offer: its place may be free afterwards.
        let device = self.memory.allocator().device();
        self.created[0].take().into_iter().for_each(|new| new.destroy(device));
        drop(self.offer.take());
    }
}

/// Returns true if a queue can write to memory of this kind.
pub(super) fn queues_write(properties: MemoryProperties) -> bool {
    !properties.contains(MemoryProperties::DEVICE_READ_ONLY)
}
