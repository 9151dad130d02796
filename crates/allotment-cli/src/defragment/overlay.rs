//! A buffer that aliases the memory of a location, whatever resource is bound there.

use allotment::device::{BufferDesc, Device, DeviceError};
use allotment::memory::MemoryLocation;

/// A buffer over a location.
pub(super) struct Overlay<D: Device> {
    pub(super) buffer: D::Buffer,
    /// The location's offset in the buffer: the buffer begins earlier where its alignment requires that.
    pub(super) offset: u64,
}

impl<D: Device> Overlay<D> {
    /// Creates the buffer. `None` where the device allows no buffer there: in memory for textures on Direct3D 12's
    /// resource heap tier 1, for example, or where the buffer's rounded size exceeds the `memory_size`.
    pub(super) fn over(
        device: &D,
        usage: u64,
        location: &MemoryLocation<D>,
        memory_size: u64,
    ) -> Result<Option<Self>, DeviceError> {
        let info = |size| BufferDesc::new(size).with_usage(usage).into();
        let first = device.buffer_requirements(&info(location.size))?.alignment.align_down(location.offset);
        let offset = location.offset - first;
        let info = info(offset + location.size);
        let needs = device.buffer_requirements(&info)?;
        let fits = first.checked_add(needs.size).is_some_and(|end| end <= memory_size);
        if !fits || !needs.memory_types.contains(location.memory_type) || !needs.alignment.is_aligned(first) {
            return Ok(None);
        }
        // SAFETY: the location belongs to an allocation, or is reserved for one until the pass ends, which is after the
        // buffer is destroyed; the requirements were just checked.
        let buffer = unsafe { device.create_buffer(&info, location.memory, first) }?;
        Ok(Some(Self { buffer, offset }))
    }
}
