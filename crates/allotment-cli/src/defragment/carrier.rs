//! Executes the moves of a pass: a queue copies between buffers that alias the old and the new locations.

use core::time::Duration;

use allotment::Allocator;
use allotment::device::simulated::SimulatedGpu;
use allotment::device::{
    BufferCopy, BufferDesc, BufferDevice, DeviceError, MemoryDevice as _, MemoryProperties, MemoryTypeIndex,
    QueueDevice as _, QueueIndex, Submission, TimelinePoint,
};
use allotment::memory::{MemoryLocation, Move, Pass};

use crate::failure::Failure;
use crate::replay::copy_queue;

pub(super) struct Carrier<'a> {
    device: &'a SimulatedGpu,
    queue: QueueIndex,
}

/// Buffers over both locations of a move.
struct Pair {
    from: <SimulatedGpu as BufferDevice>::Buffer,
    to: <SimulatedGpu as BufferDevice>::Buffer,
    size: u64,
}

impl<'a> Carrier<'a> {
    pub(super) fn new(allocator: &'a Allocator<SimulatedGpu>) -> Self {
        let device = allocator.device();
        Self { device, queue: copy_queue(device) }
    }

    /// Copies everything that the pass moves, and waits. Allocations in memory that cannot be copied are not moved.
    pub(super) fn carry(&self, pass: &mut Pass<'_, SimulatedGpu>) -> Result<(), Failure> {
        let mut pairs = Vec::new();
        let carried = self.carry_with(pass, &mut pairs);
        for Pair { from, to, .. } in pairs {
            // SAFETY: created here; the queue has completed its use, never received it, or is lost.
            unsafe { self.device.destroy_buffer(from) };
            // SAFETY: as above.
            unsafe { self.device.destroy_buffer(to) };
        }
        carried.map_err(|error| Failure::Unexpected(format!("moving: {error}")))
    }

    fn carry_with(
        &self,
        pass: &mut Pass<'_, SimulatedGpu>,
        pairs: &mut Vec<Pair>,
    ) -> Result<(), DeviceError> {
        for index in 0..pass.moves().len() {
            let moved = &pass.moves()[index];
            let (from, to) = (moved.from(), moved.to());
            if self.is_open_to_queues(from.memory_type) {
                pairs.push(self.pair(&from, &to)?);
            } else if !copy_by_cpu(moved) {
                pass.ignore(index);
            }
        }
        self.copy(pairs)
    }

    /// Returns false for memory that queues can only read or only write.
    fn is_open_to_queues(&self, memory_type: MemoryTypeIndex) -> bool {
        let one_way = MemoryProperties::DEVICE_READ_ONLY | MemoryProperties::DEVICE_WRITE_ONLY;
        let found = self.device.properties().memory_type(memory_type);
        found.is_some_and(|found| !found.properties.intersects(one_way))
    }

    fn pair(
        &self,
        from: &MemoryLocation<SimulatedGpu>,
        to: &MemoryLocation<SimulatedGpu>,
    ) -> Result<Pair, DeviceError> {
        let size = from.size;
        let from = self.buffer_over(from)?;
        match self.buffer_over(to) {
            Ok(to) => Ok(Pair { from, to, size }),
            Err(error) => {
                // SAFETY: created just now, and not used yet.
                unsafe { self.device.destroy_buffer(from) };
                Err(error)
            }
        }
    }

    fn buffer_over(
        &self,
        place: &MemoryLocation<SimulatedGpu>,
    ) -> Result<<SimulatedGpu as BufferDevice>::Buffer, DeviceError> {
        let desc = BufferDesc::new(place.size).with_usage(SimulatedGpu::ANYWHERE);
        // SAFETY: the location belongs to an allocation, or is reserved for one until the pass ends, which is after the
        // buffer is destroyed; and such a buffer may be placed anywhere.
        unsafe { self.device.create_buffer(&desc, place.memory, place.offset) }
    }

    fn copy(&self, pairs: &[Pair]) -> Result<(), DeviceError> {
        if pairs.is_empty() {
            return Ok(());
        }
        let copies: Vec<_> = pairs
            .iter()
            .map(|Pair { from, to, size }| BufferCopy { from, from_offset: 0, to, to_offset: 0, size: *size })
            .collect();
        let submission = Submission { copies: &copies, ..Submission::default() };
        // SAFETY: both buffers are as large as the copy; old and new locations do not overlap, as both are allocated; queues
        // read and write this memory; and the buffers live until the wait is over, or the device is lost.
        let value = unsafe { self.device.submit(self.queue, &submission) }?;
        let point = TimelinePoint { queue: self.queue, value };
        loop {
            match self.device.wait(point, Duration::from_secs(1)) {
                Ok(()) => return Ok(()),
                Err(DeviceError::Lost) => return Err(DeviceError::Lost),
                Err(_) => {}
            }
        }
    }
}

/// Copies within host-visible memory: upload and readback memory of Direct3D 12, which is coherent. Returns false
/// if the memory is not host-visible.
fn copy_by_cpu(moved: &Move<SimulatedGpu>) -> bool {
    let (Some(from), Some(to)) = (moved.from().mapped_ptr, moved.to().mapped_ptr) else { return false };
    // SAFETY: both places are mapped and of this size, they do not overlap, as both are taken, and nobody else uses them
    // until the pass ends.
    unsafe { to.copy_from_nonoverlapping(from, moved.size() as usize) };
    true
}
