//! The library's buffers with destructors, and its queue.

use core::fmt;
use core::ptr::NonNull;
use core::time::Duration;
use std::time::Instant;

use allotment::device::vulkan::Device;
use allotment::device::{
    BufferCopy, BufferDesc, MemoryDevice as _, MemoryProperties, QueueDevice as _, Submission, TimelinePoint,
    TimelineValue,
};
use allotment::memory::{MemoryLocation, RawBuffer};
use allotment::{Allocation, AllocationOptions, Allocator, MemoryUsage};

use super::Bench;
use crate::failure::Failure;
use crate::vulkan::Transfer;

/// Wraps an error of the library.
pub(super) fn failed(error: impl fmt::Display) -> Failure {
    Failure::Setup { contender: "allotment", error: error.to_string() }
}

/// A buffer of the library.
pub(super) struct Ours<'a> {
    allocator: &'a Allocator<Device>,
    /// Taken when dropped.
    buffer: Option<RawBuffer<Device>>,
    place: MemoryLocation<Device>,
}

impl<'a> Ours<'a> {
    pub(super) fn new(bench: &'a Bench<'_>, memory_usage: MemoryUsage, size: u64) -> Result<Self, Failure> {
        let allocator = &bench.allocator;
        let desc = AllocationOptions::new(memory_usage);
        let buffer = allocator.create_buffer(&BufferDesc::new(size).into(), &desc).map_err(failed)?;
        let place = allocator.location(buffer.allocation()).map_err(failed)?;
        Ok(Self { allocator, buffer: Some(buffer), place })
    }

    fn buffer(&self) -> Result<&RawBuffer<Device>, Failure> {
        self.buffer.as_ref().ok_or_else(|| failed("a buffer is gone"))
    }

    fn allocation(&self) -> Result<&Allocation, Failure> {
        Ok(self.buffer()?.allocation())
    }

    pub(super) fn memory_type(&self) -> usize {
        self.place.memory_type.get()
    }

    /// Returns whether it is in host-visible device-local memory.
    pub(super) fn is_mapped_device_memory(&self) -> bool {
        let found = self.allocator.device().properties().memory_type(self.place.memory_type);
        let local = found.is_some_and(|found| found.properties.contains(MemoryProperties::DEVICE_LOCAL));
        local && self.place.mapped_ptr.is_some()
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.allocator.write(self.allocation()?, offset, bytes).map_err(failed)
    }

    pub(super) fn read(&self, bytes: &mut [u8]) -> Result<(), Failure> {
        self.allocator.read(self.allocation()?, 0, bytes).map_err(failed)
    }

    /// Writes with one plain `memcpy` to the mapped address, and flushes. The device must not use these bytes at
    /// the same time.
    pub(super) fn write_by_address(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        let first = self.place.mapped_ptr.ok_or_else(|| failed("memory is not mapped"))?;
        let end = offset + bytes.len() as u64;
        if end > self.place.size {
            return Err(failed("the bytes exceed the buffer"));
        }
        // SAFETY: the offset lies within the allocation, all of which is mapped.
        let address = unsafe { first.add(offset as usize) };
        // SAFETY: the bytes lie within the allocation, as checked, and do not overlap the slice; submissions that read
        // them were waited for.
        unsafe { address.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        self.allocator.flush(self.allocation()?, offset..end).map_err(failed)
    }
}

impl Drop for Ours<'_> {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            // Cannot fail: the buffer was created by this allocator.
            let _ = self.allocator.destroy_buffer(buffer);
        }
    }
}

impl Bench<'_> {
    /// Submits a copy of `size` bytes between two buffers at these offsets. Neither may be dropped before it was
    /// [waited](Self::wait) for.
    pub(super) fn submit(
        &self,
        (from, from_offset): (&Ours<'_>, u64),
        (to, to_offset): (&Ours<'_>, u64),
        size: u64,
    ) -> Result<TimelineValue, Failure> {
        let (from, to) = (from.buffer()?.handle(), to.buffer()?.handle());
        let copy = BufferCopy { from, from_offset, to, to_offset, size };
        let submission = Submission { copies: &[copy], ..Submission::default() };
        // SAFETY: the callers copy inside their buffers, and wait before they drop them.
        unsafe { self.gpu.library().submit(self.gpu.queue, &submission) }.map_err(failed)
    }

    pub(super) fn wait(&self, value: TimelineValue) -> Result<(), Failure> {
        let point = TimelinePoint { queue: self.gpu.queue, value };
        self.gpu.library().wait(point, Duration::from_secs(10)).map_err(failed)
    }

    /// Copies from the start of one buffer to the start of another, and waits.
    pub(super) fn copy(&self, from: &Ours<'_>, to: &Ours<'_>) -> Result<Duration, Failure> {
        let start = Instant::now();
        self.wait(self.submit((from, 0), (to, 0), self.size())?)?;
        Ok(start.elapsed())
    }

    /// Copies between the same buffers as the reference does: one command buffer, a fence, and no timeline.
    pub(super) fn copy_plainly(
        &self,
        transfer: &mut Transfer,
        from: &Ours<'_>,
        to: &Ours<'_>,
    ) -> Result<Duration, Failure> {
        let (from, to) = (from.buffer()?.handle(), to.buffer()?.handle());
        // SAFETY: the library's buffers are bound, and can be copied on all queues; each has this many bytes.
        unsafe { transfer.copy_between(*from, *to, self.size()) }
    }
}
