//! Buffers: requirements, creation and destruction.

use std::sync::Arc;

use super::descriptors::GPU_ADDRESS;
use super::memory::MemoryObject;
use super::resources::{ResourceRange, dedicated_need};
use super::{SimulatedGpu, SimulatedMemory};
use crate::device::{
    AddressError, BufferDesc, BufferDevice, BufferViewUses, CopyError, DescriptionLimit, DeviceError,
    MemoryDesc, RangeBinding, Requirements, ResourceKind, SharingMode, TransferUsage,
};

/// A buffer of the simulated GPU.
#[derive(Clone, Debug)]
pub struct SimulatedBuffer {
    pub(super) range: ResourceRange,
    /// The copies that it was created for.
    copies: TransferUsage,
}

impl SimulatedBuffer {
    /// Checks a copy that uses the buffer.
    pub(super) fn check_usage(&self, copy: TransferUsage) -> Result<(), CopyError> {
        let missing = copy.difference(self.copies);
        if missing.is_empty() { Ok(()) } else { Err(CopyError::MissingUsage { missing }) }
    }
}

impl SimulatedGpu {
    /// Returns the memory requirements of a buffer.
    fn buffer_memory_requirements(&self, desc: &BufferDesc) -> Requirements {
        let own = Requirements::new(desc.size).with_dedicated(dedicated_need(desc.usage));
        // Without the profile's limits, so that a test can lay a buffer over memory that supports images only.
        if desc.usage & Self::ANYWHERE != 0 { own } else { self.requirements(ResourceKind::Buffer, own) }
    }

    fn buffer_at(
        &self,
        desc: &BufferDesc,
        memory: SimulatedMemory,
        offset: u64,
    ) -> Result<SimulatedBuffer, DeviceError> {
        let range = self.bind(
            "create_buffer",
            desc,
            desc.size,
            &self.buffer_memory_requirements(desc),
            (memory, offset),
            (None, desc.sharing_mode),
        )?;
        // Counted last, so that a refused buffer is not counted.
        self.shared.memories.count_buffer(1);
        Ok(SimulatedBuffer { range, copies: self.buffer_transfer_usage(desc) })
    }

    /// Makes a buffer of addresses that are a buffer's own.
    pub(super) fn buffer_of_addresses(
        &self,
        desc: &BufferDesc,
        addresses: Arc<MemoryObject>,
    ) -> SimulatedBuffer {
        let range = self.name_range(addresses, 0, desc.size, (None, desc.sharing_mode));
        self.shared.memories.count_buffer(1);
        SimulatedBuffer { range, copies: self.buffer_transfer_usage(desc) }
    }
}

// SAFETY: a buffer has the size and the usage of its description, and is bound to that many bytes of live memory.
unsafe impl BufferDevice for SimulatedGpu {
    type Buffer = SimulatedBuffer;
    type BufferInfo<'a> = BufferDesc;

    fn buffer_size(&self, desc: &BufferDesc) -> u64 {
        desc.size
    }

    fn buffer_transfer_usage(&self, desc: &BufferDesc) -> TransferUsage {
        let mut copies = TransferUsage::all();
        copies.set(TransferUsage::SRC, desc.usage & Self::NO_TRANSFER_SRC == 0);
        copies.set(TransferUsage::DST, desc.usage & Self::NO_TRANSFER_DST == 0);
        copies
    }

    fn buffer_view_uses(&self, desc: &BufferDesc) -> BufferViewUses {
        let mut uses = BufferViewUses::all() - BufferViewUses::ACCELERATION_STRUCTURE;
        if desc.usage & Self::NO_UNORDERED_ACCESS != 0 {
            uses -= BufferViewUses::READ_WRITE | BufferViewUses::STORAGE_TEXELS;
        }
        uses
    }

    /// All buffers with both transfer usages can be copied, as in Direct3D 12; whether a queue may read or write
    /// their memory is separate.
    fn relocatable_buffer_info(&self, desc: &BufferDesc) -> Option<BufferDesc> {
        self.buffer_transfer_usage(desc).is_all().then_some(*desc)
    }

    fn remappable_buffer_info(&self, desc: &BufferDesc) -> Option<BufferDesc> {
        Some(*desc)
    }

    fn queues_share_buffer(&self, desc: &BufferDesc) -> bool {
        desc.sharing_mode == SharingMode::Concurrent
    }

    fn queues_may_write(&self, desc: &BufferDesc) -> bool {
        self.buffer_transfer_usage(desc).contains(TransferUsage::DST)
    }

    fn check_device_address(&self, desc: &BufferDesc) -> Result<(), AddressError> {
        if desc.usage & Self::NO_DEVICE_ADDRESS == 0 { Ok(()) } else { Err(AddressError::MissingUsage) }
    }

    /// The address of the bytes for the CPU, with a bit that makes it invalid there.
    unsafe fn device_address(&self, buffer: &SimulatedBuffer) -> u64 {
        buffer.range.memory().address(buffer.range.offset) | GPU_ADDRESS
    }

    fn buffer_requirements(&self, desc: &BufferDesc) -> Result<Requirements, DeviceError> {
        self.shared.faults.check()?;
        let largest = self.shared.properties.limits.max_allocation_size;
        DescriptionLimit::check_buffer(desc.size, u64::MAX, Some(largest))?;
        Ok(self.buffer_memory_requirements(desc))
    }

    unsafe fn create_buffer(
        &self,
        desc: &BufferDesc,
        memory: SimulatedMemory,
        offset: u64,
    ) -> Result<SimulatedBuffer, DeviceError> {
        // A real driver has undefined behaviour here, which a test could not see.
        self.check_not_dedicated("create_buffer", desc, &self.buffer_memory_requirements(desc))?;
        self.buffer_at(desc, memory, offset)
    }

    fn create_dedicated_buffer(
        &self,
        desc: &BufferDesc,
        memory: &MemoryDesc<'_, ()>,
    ) -> Result<(SimulatedMemory, SimulatedBuffer), DeviceError> {
        let requirements = self.buffer_requirements(desc)?;
        self.create_dedicated(&requirements, memory, |memory| self.buffer_at(desc, memory, 0))
    }

    fn has_reserved_buffers(&self) -> bool {
        self.shared.profile.reserved_buffers.is_some()
    }

    fn create_reserved_buffer(
        &self,
        desc: &BufferDesc,
    ) -> Result<(SimulatedBuffer, Requirements), DeviceError> {
        self.reserved_buffer(desc)
    }

    unsafe fn bind_ranges(
        &self,
        buffer: &SimulatedBuffer,
        ranges: &[RangeBinding<SimulatedMemory>],
    ) -> Result<(), DeviceError> {
        self.bind_to_reserved(buffer, ranges)
    }

    unsafe fn destroy_buffer(&self, buffer: SimulatedBuffer) {
        buffer.unbind_ranges();
        self.unbind("destroy_buffer", buffer.range);
        self.shared.memories.count_buffer(-1);
    }
}
