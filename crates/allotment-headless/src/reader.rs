//! What GPU work sees through descriptors: the same on every device, for tests and examples.

use allotment::device::{DescriptorDevice, DeviceError, QueueIndex, TimelinePoint, TimelineValue};

/// One piece of work that reads through descriptors.
#[derive(Debug)]
pub struct Read<'a, D: DescriptorDevice> {
    /// A shader-visible heap of resources. Each descriptor that is read is of a buffer of at least 4 bytes, made with
    /// [`BufferUse::ReadOnly`](allotment::device::BufferUse::ReadOnly).
    pub heap: &'a D::DescriptorHeap,
    /// Numbers of 32 bits, one a read: the index of a descriptor in the heap, taken when the work runs.
    pub indices: &'a D::Buffer,
    /// The first of these that is read, in bytes; a multiple of 256.
    pub indices_offset: u64,
    /// How many there are; at least 1.
    pub count: u32,
    /// The first 4 bytes of what each descriptor names go here, in the order of the indices.
    pub to: &'a D::Buffer,
    /// The first byte that is written; a multiple of 256.
    pub to_offset: u64,
}

/// Has the GPU read through descriptors: by a compute shader, or what the simulated device has for one.
pub trait DescriptorReader<D: DescriptorDevice>: Sized + Send + Sync {
    /// Gets ready to read through heaps of up to `capacity` descriptors.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    fn new(device: &D, capacity: u32) -> Result<Self, DeviceError>;

    /// What buffers of this size are made as that are read through descriptors or as lists of indices, or (where
    /// `written`) written to. They can be copied both ways as well.
    fn buffer_info(&self, size: u64, written: bool) -> D::BufferInfo<'static>;

    /// Submits reads, in order. Everything that was submitted to the queue before is over before they begin, and what is
    /// submitted later sees what they wrote.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; nothing was submitted then.
    ///
    /// # Safety
    ///
    /// All that is named lives until the value is reached, and so do the buffers that descriptors name which are read;
    /// nobody else writes there, or reads what is written, meanwhile. The ranges lie in their buffers.
    unsafe fn submit(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        reads: &[Read<'_, D>],
    ) -> Result<TimelineValue, DeviceError>;
}
