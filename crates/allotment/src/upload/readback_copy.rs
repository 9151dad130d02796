//! A copy of a buffer's bytes to a readback ring, with every check that makes it safe.

use core::marker::PhantomData;

use super::{ReadbackRing, ReadbackTicket};
use crate::device::{
    BufferCopy, Device, DeviceError, MemoryProperties, MemoryTypeIndex, QueueIndex, Submission,
    TimelinePoint, TimelineValue, TransferUsage,
};
use crate::lifetime::{Recording, SubmissionTracker, WrongTracker};
use crate::memory::{AccessError, Allocator, Buffer, check_range};

/// Why bytes of a buffer cannot be copied.
pub(crate) enum SourceError {
    /// The range exceeds the buffer, or the buffer is of another allocator, is being moved, or is no copy source.
    Access(AccessError),
    /// The buffer's deletion queue would not wait for the recording.
    WrongTracker,
    /// Queues cannot read this memory type.
    WriteOnly(MemoryTypeIndex),
}

/// Bytes of a buffer that any queue can copy from, as long as a recording is open: until then a buffer that is dropped,
/// or that defragmentation moves, is not destroyed.
pub(crate) struct ReadbackSource<'a, D: Device> {
    recording: PhantomData<&'a Recording>,
    handle: D::Buffer,
    offset: u64,
    size: u64,
}

impl<'a, D: Device> ReadbackSource<'a, D> {
    /// Checks a range of a buffer, to be copied on a queue. `recording` is one of `tracker`.
    pub(crate) fn new(
        allocator: &Allocator<D>,
        tracker: &SubmissionTracker,
        _recording: &'a Recording,
        buffer: &Buffer<D>,
        (queue, offset, size): (QueueIndex, u64, u64),
    ) -> Result<Self, SourceError> {
        buffer.with_owned(|buffer, _| {
            let place = allocator.place_of_bound(buffer.allocation()).map_err(SourceError::Access)?;
            tracker.check_same(buffer.tracker()).map_err(|WrongTracker| SourceError::WrongTracker)?;
            // A buffer may be smaller than its allocation.
            check_range(offset, size, buffer.size().min(place.size)).map_err(SourceError::Access)?;
            buffer.check_usage(TransferUsage::SRC).map_err(SourceError::Access)?;
            buffer.check_queue(allocator.device(), queue).map_err(SourceError::Access)?;
            let found = allocator.device().properties().memory_type(place.memory_type);
            if found.is_some_and(|found| found.properties.contains(MemoryProperties::DEVICE_WRITE_ONLY)) {
                return Err(SourceError::WriteOnly(place.memory_type));
            }
            let handle = buffer.handle().clone();
            Ok(Self { recording: PhantomData, handle, offset, size })
        })
    }
}

impl<D: Device> ReadbackRing<D> {
    /// Submits a copy of `source` to the range of a ticket, which this ring has returned since it was closed last. The
    /// queue is one of the device of both.
    pub(crate) fn submit_copy(
        &self,
        device: &D,
        (queue, waits): (QueueIndex, &[TimelinePoint]),
        source: &ReadbackSource<'_, D>,
        ticket: &ReadbackTicket,
    ) -> Result<TimelineValue, DeviceError> {
        debug_assert_eq!(self.point(ticket), Ok(None), "the ticket is of the open frame");
        debug_assert_eq!(ticket.size(), source.size);
        let copy = BufferCopy {
            from: &source.handle,
            from_offset: source.offset,
            to: self.buffer(),
            to_offset: ticket.offset(),
            size: source.size,
        };
        // SAFETY: the source was checked, and an open recording keeps it from being destroyed; the ring gave the range,
        // and its buffer lives until the queue has completed what was submitted.
        unsafe { device.submit(queue, &Submission { waits, copies: &[copy], ..Submission::default() }) }
    }
}
