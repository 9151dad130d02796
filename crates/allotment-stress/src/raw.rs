//! All `unsafe` code of this crate: operations that safe code cannot do, and without which there would be nothing
//! to test.
#![expect(unsafe_code, reason = "the one place where it stands")]

use core::ops::Range;

use allotment::device::{
    BufferCopy, BufferUse, DescriptorDevice, Device, DeviceError, QueueIndex, Submission, TimelinePoint,
    TimelineValue,
};
use allotment::lifetime::TimelinePoints;
use allotment::memory::defragmentation::Move;
use allotment::memory::{Buffer, Image};

/// Submits work without commands.
pub(crate) fn submit_nothing<D: Device>(
    device: &D,
    queue: QueueIndex,
    waits: &[TimelinePoint],
) -> Result<TimelineValue, DeviceError> {
    // SAFETY: the submission is empty.
    unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) }
}

/// Copies the first bytes of one buffer to another one. Both were taken while the recording that is submitted was open, and
/// have at least these bytes.
pub(crate) fn copy<D: Device>(
    device: &D,
    queue: QueueIndex,
    waits: &TimelinePoints,
    (from, to): (&D::Buffer, &D::Buffer),
    size: u64,
) -> Result<TimelineValue, DeviceError> {
    let mut room = TimelinePoints::ROOM;
    let copies = [BufferCopy { from, from_offset: 0, to, to_offset: 0, size }];
    let work = Submission { waits: waits.as_slice(&mut room), copies: &copies, ..Submission::default() };
    // SAFETY: as said above; the open recording keeps both buffers until its submission has completed.
    unsafe { device.submit(queue, &work) }
}

/// Destroys a buffer that was created in an allocation just now.
pub(crate) fn destroy_new_buffer<D: Device>(device: &D, buffer: D::Buffer) {
    // SAFETY: its caller created it and has given it to no queue.
    unsafe { device.destroy_buffer(buffer) };
}

/// Destroys an image that was created in an allocation just now.
pub(crate) fn destroy_new_image<D: Device>(device: &D, image: D::Image) {
    // SAFETY: as above.
    unsafe { device.destroy_image(image) };
}

/// Returns the descriptor of a buffer created with
/// [`Stressed::DESCRIPTOR_USAGE`](crate::Stressed::DESCRIPTOR_USAGE). A caller that writes it to a slot must keep
/// the buffer alive through the slot; tables and chunks get a buffer that outlives all heaps.
pub(crate) fn buffer_descriptor<'a, D: DescriptorDevice>(
    device: &D,
    buffer: &'a D::Buffer,
    range: Range<u64>,
) -> D::Descriptor<'a> {
    // SAFETY: the buffer is live, its range is one of 256 bytes that it has, and it lives as said above.
    unsafe { device.buffer_descriptor(buffer, range, BufferUse::ReadOnly) }
}

/// Returns a sampler's descriptor. It is never written: each heap refuses it as a descriptor of another type.
pub(crate) fn sampler_descriptor<'a, D: DescriptorDevice>(
    device: &D,
    sampler: &'a D::Sampler,
) -> D::Descriptor<'a> {
    // SAFETY: the sampler is live, and lives until its world is torn down.
    unsafe { device.sampler_descriptor(sampler) }
}

/// Destroys a sampler without a descriptor in any heap.
pub(crate) fn destroy_sampler<D: DescriptorDevice>(device: &D, sampler: D::Sampler) {
    // SAFETY: as said above, nothing was ever written that names it.
    unsafe { device.destroy_sampler(sampler) };
}

/// Copies the bytes of a move of a default pool, which cannot be reset, with the CPU. Returns false if the memory
/// is not host-visible.
pub(crate) fn carry<D: Device>(device: &D, moved: &Move<D>) -> bool {
    let properties = device.properties().memory_type(moved.to().memory_type).map(|found| found.properties);
    let is_coherent = properties.is_some_and(|found| !found.needs_flush());
    let (Some(from), Some(to)) = (moved.from().mapped_ptr, moved.to().mapped_ptr) else { return false };
    if is_coherent {
        // SAFETY: both locations are mapped and reserved while the pass is open; writes to the old one through its
        // allocation are refused meanwhile, and no other code knows of the new one.
        unsafe { to.copy_from_nonoverlapping(from, moved.size() as usize) };
    }
    is_coherent
}

/// Binds 256 bytes of a buffer created with the usage for descriptors.
pub(crate) fn bind_buffer<D: DescriptorDevice>(
    set: &mut allotment::descriptor::BindingSet<D>,
    binding: usize,
    at: u32,
    buffer: &std::sync::Arc<Buffer<D>>,
    range: Range<u64>,
) -> Result<(), allotment::descriptor::DescriptorError> {
    set.bind_buffer(binding, at, buffer, range, BufferUse::ReadOnly)
}

/// Inserts a descriptor of 256 bytes of a buffer that was created with the usage for descriptors.
pub(crate) fn insert_buffer<D: DescriptorDevice>(
    heap: &allotment::descriptor::ShaderVisibleHeap<D>,
    buffer: &std::sync::Arc<Buffer<D>>,
    range: Range<u64>,
) -> Result<allotment::descriptor::DescriptorSlot, allotment::descriptor::DescriptorError> {
    heap.insert_buffer(buffer, range, BufferUse::ReadOnly)
}

/// Returns a description of a buffer in the API's own terms, with exactly these usages.
#[cfg(feature = "vulkan")]
pub(crate) fn vulkan_buffer(
    size: u64,
    usage: ash::vk::BufferUsageFlags,
) -> allotment::device::vulkan::BufferInfo<'static> {
    let info = ash::vk::BufferCreateInfo::default().size(size.max(1)).usage(usage);
    // SAFETY: nothing is chained, the size is not 0, and each device knows the usages that are passed here.
    unsafe { allotment::device::vulkan::BufferInfo::from_raw(info) }
}

/// Says that an image is in the state which it was in before the library was told to forget it.
pub(crate) fn set_state<D: Device>(image: &Image<D>, state: D::ImageState) {
    // SAFETY: only uploads of this library have used the image, and they leave it in this state.
    unsafe { image.set_state(state) };
}
