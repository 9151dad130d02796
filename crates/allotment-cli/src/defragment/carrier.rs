//! Executes the moves of a pass: creates each resource again in its new place, and a queue copies its bytes.
//!
//! ```text
//!   old place   [ buffer ]            [ image  ]         a buffer is copied by its own handles;
//!                   │ copy            ( buffer )         an image and plain memory by buffers that alias both places
//!                   ▼                     │ copy
//!   new place   [ buffer ]            ( buffer )
//!                                     [ image  ]         the new resources replace the old ones once the pass has ended
//! ```
//!
//! Where a queue cannot copy, the CPU does, if it can: in Direct3D 12's upload and readback heaps, which queues only read
//! or only write. All other moves are ignored.

use core::time::Duration;
use std::collections::HashMap;

use allotment::Allocator;
use allotment::device::{
    BufferCopy, Device, DeviceError, MemoryHandle as _, MemoryProperties, MemoryTypeIndex, QueueIndex,
    Submission, TimelinePoint,
};
use allotment::memory::MemoryLocation;
use allotment::memory::defragmentation::{Move, Pass};

use super::overlay::Overlay;
use super::playback::{Playback, Slot};
use super::recreated::Recreated;
use crate::failure::Failure;
use crate::replay::{Live, copy_queue, unexpected};
use crate::target::Target;

pub(super) struct Carrier<'a, D: Device> {
    allocator: &'a Allocator<D>,
    queue: QueueIndex,
    overlay_usage: u64,
    /// By memory object. A move never goes to a new one.
    memory_sizes: HashMap<u64, u64>,
}

/// A move whose new resource exists.
struct Carried<D: Device> {
    user_data: u64,
    new: Recreated<D>,
    /// `None` if the CPU has copied.
    copy: Option<Copy<D>>,
}

/// A copy by the queue.
struct Copy<D: Device> {
    from: D::Buffer,
    from_offset: u64,
    to: D::Buffer,
    to_offset: u64,
    size: u64,
    /// True if both buffers were created for the copy.
    is_temporary: bool,
}

impl<'a, D: Device> Carrier<'a, D> {
    pub(super) fn new<T: Target<Device = D>>(playback: &Playback<'a, T>) -> Self {
        let allocator = playback.allocator;
        let blocks = allocator.reports().blocks().into_iter();
        Self {
            allocator,
            queue: copy_queue(allocator.device()),
            overlay_usage: playback.target.overlay_usage(),
            memory_sizes: blocks.map(|block| (block.memory.to_raw(), block.ranges.size)).collect(),
        }
    }

    /// Makes all moves that can be made, and ends the pass. Returns the user data of the moved allocations.
    pub(super) fn carry<T: Target<Device = D>>(
        &self,
        playback: &mut Playback<'_, T>,
        mut pass: Pass<'_, D>,
    ) -> Result<Vec<u64>, Failure> {
        let device = self.allocator.device();
        let mut carried = Vec::with_capacity(pass.moves().len());
        let begun = self.begin(playback, &mut pass, &mut carried);
        let copied = begun.and_then(|()| self.copy(&carried).map_err(failed));
        carried.iter_mut().filter_map(|one| one.copy.take()).for_each(|copy| copy.end(device));
        if let Err(failure) = copied {
            // The pass is dropped, which cancels it: all resources stay where they are.
            carried.into_iter().for_each(|one| one.new.destroy(device));
            return Err(failure);
        }
        let owners = carried.iter().map(|one| one.user_data).collect();
        // Freed last: the old resources are bound to the old places until they are replaced.
        let mut places = Vec::with_capacity(pass.moves().len());
        pass.end_with(|place| places.push(place));
        let replaced = self.replace(playback, carried);
        let freed = places.into_iter().map(|place| self.allocator.free(place).map_err(unexpected));
        let freed = freed.fold(Ok(()), Result::and);
        replaced.and(freed).map(|()| owners)
    }

    /// Replaces the old resources by the new ones.
    fn replace<T: Target<Device = D>>(
        &self,
        playback: &mut Playback<'_, T>,
        carried: Vec<Carried<D>>,
    ) -> Result<(), Failure> {
        carried.into_iter().try_for_each(|Carried { user_data, new, .. }| {
            let Slot { live, .. } = playback.slot_of(user_data).ok_or_else(no_owner)?;
            new.replace(self.allocator, live)
        })
    }

    /// Creates what the moves need, and ignores those that cannot be made.
    fn begin<T: Target<Device = D>>(
        &self,
        playback: &mut Playback<'_, T>,
        pass: &mut Pass<'_, D>,
        carried: &mut Vec<Carried<D>>,
    ) -> Result<(), Failure> {
        for index in 0..pass.moves().len() {
            let moved = &pass.moves()[index];
            let slot = playback.slot_of(moved.user_data()).ok_or_else(no_owner)?;
            match self.begin_move(moved, slot)? {
                Some(one) => carried.push(one),
                None => pass.ignore(index),
            }
        }
        Ok(())
    }

    /// Returns `None` if the move cannot be made.
    fn begin_move(&self, moved: &Move<D>, slot: &Slot<D>) -> Result<Option<Carried<D>>, Failure> {
        let device = self.allocator.device();
        let Some(new) = possible(Recreated::new(device, &slot.plan, &moved.to()))? else { return Ok(None) };
        let copy = match self.copy_of(moved, &slot.live, &new) {
            Ok(Some(copy)) => Some(copy),
            Ok(None) if self.copy_by_cpu(moved) => None,
            Ok(None) => {
                new.destroy(device);
                return Ok(None);
            }
            Err(failure) => {
                new.destroy(device);
                return Err(failure);
            }
        };
        Ok(Some(Carried { user_data: moved.user_data(), new, copy }))
    }

    /// Returns the copy of a move, or `None` if the queue cannot make it.
    fn copy_of(
        &self,
        moved: &Move<D>,
        live: &Live<D>,
        new: &Recreated<D>,
    ) -> Result<Option<Copy<D>>, Failure> {
        let (from, to) = (moved.from(), moved.to());
        let one_way = MemoryProperties::DEVICE_READ_ONLY | MemoryProperties::DEVICE_WRITE_ONLY;
        if self.properties(from.memory_type).intersects(one_way) {
            return Ok(None);
        }
        if let (Live::Buffer(old), Recreated::Buffer(new)) = (live, new) {
            return Ok(Some(Copy {
                from: old.handle().clone(),
                from_offset: 0,
                to: new.clone(),
                to_offset: 0,
                size: old.size(),
                is_temporary: false,
            }));
        }
        // Memory that was allocated together with its resource takes no buffer.
        let info = self.allocator.info(live.allocation()).map_err(unexpected)?;
        if info.dedicated_to_resource {
            return Ok(None);
        }
        let Some(from) = self.overlay(&from)? else { return Ok(None) };
        let to = self.overlay(&to);
        let Ok(Some(to)) = to else {
            // SAFETY: created just now, and not used yet.
            unsafe { self.allocator.device().destroy_buffer(from.buffer) };
            return to.map(|_| None);
        };
        Ok(Some(Copy {
            from: from.buffer,
            from_offset: from.offset,
            to: to.buffer,
            to_offset: to.offset,
            size: moved.size(),
            is_temporary: true,
        }))
    }

    fn overlay(&self, location: &MemoryLocation<D>) -> Result<Option<Overlay<D>>, Failure> {
        let size = self.memory_sizes.get(&location.memory.to_raw()).copied().unwrap_or(0);
        let overlay = Overlay::over(self.allocator.device(), self.overlay_usage, location, size);
        possible(overlay).map(Option::flatten)
    }

    fn properties(&self, memory_type: MemoryTypeIndex) -> MemoryProperties {
        let found = self.allocator.device().properties().memory_type(memory_type);
        found.map_or(MemoryProperties::empty(), |found| found.properties)
    }

    /// Returns false where the CPU cannot access the memory, or would have to flush it.
    fn copy_by_cpu(&self, moved: &Move<D>) -> bool {
        let (from, to) = (moved.from(), moved.to());
        let is_coherent = self.properties(to.memory_type).contains(MemoryProperties::HOST_COHERENT);
        let (Some(from), Some(to), true) = (from.mapped_ptr, to.mapped_ptr, is_coherent) else {
            return false;
        };
        // SAFETY: both places are mapped and of this size, they do not overlap, as both are allocated, and nothing else
        // uses them until the pass ends.
        unsafe { to.copy_from_nonoverlapping(from, moved.size() as usize) };
        true
    }

    /// Submits all copies, and waits for them.
    fn copy(&self, carried: &[Carried<D>]) -> Result<(), DeviceError> {
        let copies = carried.iter().filter_map(|one| one.copy.as_ref());
        let copies: Vec<_> = copies.map(Copy::as_buffer_copy).collect();
        if copies.is_empty() {
            return Ok(());
        }
        let device = self.allocator.device();
        let submission = Submission { copies: &copies, ..Submission::default() };
        // SAFETY: both buffers have the copied range; old and new places do not overlap, as both are allocated; queues
        // read and write this memory; and the buffers live until the wait is over, or the device is lost.
        let value = unsafe { device.submit(self.queue, &submission) }?;
        let point = TimelinePoint { queue: self.queue, value };
        loop {
            match device.wait(point, Duration::from_secs(1)) {
                Ok(()) => return Ok(()),
                Err(DeviceError::Lost) => return Err(DeviceError::Lost),
                // A timeout: the queue still uses the buffers.
                Err(_) => {}
            }
        }
    }
}

impl<D: Device> Copy<D> {
    fn as_buffer_copy(&self) -> BufferCopy<'_, D> {
        let Self { from, from_offset, to, to_offset, size, .. } = self;
        BufferCopy { from, from_offset: *from_offset, to, to_offset: *to_offset, size: *size }
    }

    /// Destroys the temporary buffers. No queue uses them.
    fn end(self, device: &D) {
        if self.is_temporary {
            // SAFETY: created for this copy, which has completed, was never submitted, or is lost with the device.
            unsafe { device.destroy_buffer(self.from) };
            // SAFETY: as above.
            unsafe { device.destroy_buffer(self.to) };
        }
    }
}

/// Returns `None` for what the device does not support there: such a move is ignored. Other errors are failures.
fn possible<R>(result: Result<R, DeviceError>) -> Result<Option<R>, Failure> {
    match result {
        Ok(made) => Ok(Some(made)),
        Err(DeviceError::Unsupported | DeviceError::InvalidDescription(_)) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn failed(error: DeviceError) -> Failure {
    Failure::Unexpected(format!("moving: {error}"))
}

fn no_owner() -> Failure {
    unexpected("an allocation was moved that no resource has")
}
