//! GPU work that reads through descriptors, with one interface for every device: for tests and examples.
//!
//! On Vulkan and Direct3D 12 a compute shader reads; the simulated GPU executes the reads itself.

#[cfg(windows)]
mod d3d12;
mod simulated;
mod vulkan;

#[cfg(windows)]
pub use d3d12::D3d12Reader;
pub use simulated::SimulatedReader;
pub use vulkan::VulkanReader;

use allotment::device::{DescriptorDevice, DeviceError, QueueIndex, TimelinePoint, TimelineValue};

/// A series of reads through descriptors.
#[derive(Debug)]
pub struct Read<'a, D: DescriptorDevice> {
    /// A shader-visible descriptor heap of resources. Each descriptor that is read names a buffer range of at
    /// least 4 bytes with [`BufferUse::ReadOnly`](allotment::device::BufferUse::ReadOnly).
    pub heap: &'a D::DescriptorHeap,
    /// 32-bit numbers, one per read: the index of a descriptor in the heap, read when the work runs.
    pub indices: &'a D::Buffer,
    /// Offset of the first index in bytes; a multiple of 256.
    pub indices_offset: u64,
    /// The number of indices; at least 1.
    pub count: u32,
    /// The destination: the first 4 bytes of what each descriptor names, in the order of the indices.
    pub to: &'a D::Buffer,
    /// Offset of the first byte that is written; a multiple of 256.
    pub to_offset: u64,
}

/// Reads through descriptors on the GPU: with a compute shader, or with the simulated GPU's replacement for one.
pub trait DescriptorReader<D: DescriptorDevice>: Sized + Send + Sync {
    /// Prepares to read through heaps of up to `capacity` descriptors.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    fn new(device: &D, capacity: u32) -> Result<Self, DeviceError>;

    /// Returns the description of a buffer of this size that can be read through descriptors, contain indices,
    /// or (if `written`) be written by reads. It can be copied from and to as well.
    fn buffer_info(&self, size: u64, written: bool) -> D::BufferInfo<'static>;

    /// Submits reads, in order. They begin after everything that was submitted to the queue before, and later
    /// submissions see what they wrote.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; nothing was submitted in that case.
    ///
    /// # Safety
    ///
    /// All named objects live until the value is reached, and so do the buffers that the read descriptors name.
    /// Nothing else writes to them, or reads what is written, in that time. The ranges lie in their buffers.
    unsafe fn submit(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        reads: &[Read<'_, D>],
    ) -> Result<TimelineValue, DeviceError>;
}
