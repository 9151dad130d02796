//! Descriptors of a device.

use core::fmt::Debug;
use core::ops::Range;

use super::Device;
use crate::device::{
    BufferUse, DescriptorHeapAddress, DescriptorHeapBacking, DescriptorHeapDesc, DescriptorHeapType,
    DescriptorLimits, DeviceError, ImageViewError, ImageViewParameters, ImageViewSupport, SamplerDesc,
    TexelBufferDesc, TexelBufferLimits, TexelBufferUse,
};

/// A graphics API's descriptors, as the descriptor layer uses them.
///
/// Every method may be called from any thread at any time. Writes to different descriptors of one heap may happen at
/// the same time.
///
/// # Safety
///
/// Safe code relies on these promises of an implementation: a heap has as many descriptors as were requested,
/// those of different indices share no bytes, and [`descriptor_limits`](Self::descriptor_limits) never changes.
pub unsafe trait DescriptorDevice: Device + Sized {
    /// The API's descriptor heap.
    type DescriptorHeap: Debug + Send + Sync;
    /// A descriptor to write: a view of a resource, or a sampler, with the API's parameters.
    ///
    /// The code that creates one promises that the objects it names are of this device, and live until no heap
    /// contains the descriptor any more: until each slot, table or CPU descriptor range that it was written to
    /// was overwritten or freed. `'a` may end long before. Heaps are copied: from CPU heaps to shader-visible
    /// ones, and when they grow or are compacted. Where Vulkan uses descriptor sets, a copy passes the handles
    /// to the driver again.
    ///
    /// A device may require less: for Direct3D 12 and for the simulated GPU it is enough that the objects which
    /// a descriptor names are live while it is written. Objects that submitted work accesses through descriptors
    /// must live until that work is complete, on every device.
    type Descriptor<'a>: Clone + Debug;
    /// The API's sampler: a driver object, or its description.
    type Sampler: Debug + Send + Sync;
    /// A view of a buffer as texels: a driver object, or its description.
    type TexelBufferView: Debug + Send + Sync + 'static;
    /// Samplers that are a part of a pipeline layout: a descriptor set layout with immutable samplers, or the static samplers
    /// of a root signature.
    type StaticSamplers: Debug + Send + Sync + 'static;
    /// The API's description of how shaders see an image, without the image: so that the library can describe the image
    /// again after a move has given it another handle.
    type ImageViewInfo: Clone + Debug + Send + Sync + 'static;
    /// A view of an image: a driver object, or its description. Names the image no longer than its descriptors are
    /// read.
    type ImageView: Debug + Send + Sync + 'static;

    /// Returns the device's descriptor limits.
    fn descriptor_limits(&self) -> DescriptorLimits;

    /// Returns whether descriptors of buffers contain their [address](super::BufferDevice::device_address), so that a buffer
    /// without one has none.
    fn descriptors_have_addresses(&self) -> bool {
        false
    }

    /// Returns the heap type that a descriptor belongs to.
    fn descriptor_kind(descriptor: &Self::Descriptor<'_>) -> DescriptorHeapType;

    /// Returns whether heaps of this device accept such a descriptor. A descriptor that they do not accept is
    /// not written; tests and debug builds panic.
    fn can_write(&self, descriptor: &Self::Descriptor<'_>) -> bool {
        let _ = descriptor;
        true
    }

    /// Returns the description of the buffer that backs a heap, which has to be in mapped, host-coherent memory;
    /// `None` if the driver or the implementation provides the memory.
    fn descriptor_heap_buffer(&self, desc: &DescriptorHeapDesc) -> Option<Self::BufferInfo<'static>>;

    /// Creates a descriptor heap. Its descriptors are undefined.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; no heap exists in that case. [`DeviceError::InvalidDescription`] beyond the
    /// [limits](Self::descriptor_limits) and for a capacity of 0, [`DeviceError::Unsupported`] if the device has no such
    /// heaps.
    ///
    /// # Safety
    ///
    /// `memory` is `Some` exactly if [`descriptor_heap_buffer`](Self::descriptor_heap_buffer) returns a
    /// description: a live buffer created from that description in host-coherent memory, all of it mapped. Both
    /// outlive the heap, and nothing else uses them.
    unsafe fn create_descriptor_heap(
        &self,
        desc: &DescriptorHeapDesc,
        memory: Option<DescriptorHeapBacking<'_, Self>>,
    ) -> Result<Self::DescriptorHeap, DeviceError>;

    /// Destroys a descriptor heap. The buffer that backs it is not destroyed.
    ///
    /// # Safety
    ///
    /// `heap` is from this device, and neither a queue nor a thread uses it after this call.
    unsafe fn destroy_descriptor_heap(&self, heap: Self::DescriptorHeap);

    /// Returns the address of a heap's first descriptor.
    fn descriptor_heap_address(&self, heap: &Self::DescriptorHeap) -> DescriptorHeapAddress;

    /// Writes a descriptor.
    ///
    /// # Safety
    ///
    /// `heap` is live and from this device, `at` is below its capacity, and the descriptor is of the heap's
    /// type. No other thread writes this slot or copies from it during this call. No work that is submitted or
    /// being recorded reads the slot before it was written and expects the previous descriptor.
    unsafe fn write_descriptor(
        &self,
        heap: &Self::DescriptorHeap,
        at: u32,
        descriptor: &Self::Descriptor<'_>,
    );

    /// Writes null descriptors: shaders that read through them read zeros, where the API guarantees that. A null
    /// sampler is one with default values.
    ///
    /// # Safety
    ///
    /// The conditions of [`write_descriptor`](Self::write_descriptor) apply, for each slot of the range.
    unsafe fn write_null_descriptors(&self, heap: &Self::DescriptorHeap, at: Range<u32>);

    /// Overwrites unused descriptors so that accesses through them are noticed: the simulated GPU reports a
    /// validation error; other devices read nothing. For debugging.
    ///
    /// # Safety
    ///
    /// The conditions of [`write_descriptor`](Self::write_descriptor) apply, for each slot of the range.
    unsafe fn poison_descriptors(&self, heap: &Self::DescriptorHeap, at: Range<u32>);

    /// Copies descriptors, with their values at the time of the call.
    ///
    /// # Safety
    ///
    /// Both heaps are live, from this device and of the same type; `from` is a CPU descriptor heap. The ranges
    /// lie in them, do not overlap if they are the same heap, and each copied slot was written. No other thread
    /// writes the ranges during this call, or copies from `to`. The last promise of
    /// [`write_descriptor`](Self::write_descriptor) holds for the slots that are overwritten.
    unsafe fn copy_descriptors(
        &self,
        from: &Self::DescriptorHeap,
        from_at: u32,
        to: &Self::DescriptorHeap,
        to_at: u32,
        count: u32,
    );

    /// Creates a sampler.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; no sampler exists in that case. [`DeviceError::InvalidDescription`] if a parameter is out of range or
    /// above a limit of the device, [`DeviceError::Unsupported`] if the device has no such sampler.
    fn create_sampler(&self, desc: &SamplerDesc) -> Result<Self::Sampler, DeviceError>;

    /// Destroys a sampler.
    ///
    /// # Safety
    ///
    /// The sampler is from this device, and no queue uses it after this call, through a descriptor either.
    unsafe fn destroy_sampler(&self, sampler: Self::Sampler);

    /// Returns the descriptor of a sampler.
    ///
    /// # Safety
    ///
    /// The sampler is from this device, and the descriptor is written into heaps of this device only. The
    /// sampler lives for as long as [`Descriptor`](Self::Descriptor) requires.
    unsafe fn sampler_descriptor<'a>(&self, sampler: &'a Self::Sampler) -> Self::Descriptor<'a>;

    /// Creates samplers that are a part of a pipeline layout.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; none exists in that case. [`DeviceError::InvalidDescription`] for more than a pipeline can have, and
    /// otherwise as for [`create_sampler`](Self::create_sampler).
    fn create_static_samplers(&self, samplers: &[SamplerDesc]) -> Result<Self::StaticSamplers, DeviceError>;

    /// Destroys samplers that are a part of a pipeline layout.
    ///
    /// # Safety
    ///
    /// They are from this device, and no queue uses a pipeline of such a layout after this call.
    unsafe fn destroy_static_samplers(&self, samplers: Self::StaticSamplers);

    /// Returns the API's description of a view of an image.
    ///
    /// # Errors
    ///
    /// [`ImageViewError`], where the API has no such view of the image.
    fn image_view_info(
        &self,
        image: &ImageViewSupport,
        view: &ImageViewParameters,
    ) -> Result<Self::ImageViewInfo, ImageViewError> {
        let _ = (image, view);
        Err(ImageViewError::Unsupported)
    }

    /// Creates a view of an image.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; no view exists in that case.
    ///
    /// # Safety
    ///
    /// The image is live, from this device, and was created for such a view.
    unsafe fn create_image_view(
        &self,
        image: &Self::Image,
        info: &Self::ImageViewInfo,
    ) -> Result<Self::ImageView, DeviceError>;

    /// Destroys a view. Its image may have been destroyed before.
    ///
    /// # Safety
    ///
    /// The view is from this device, and no queue uses it after this call, through a descriptor either.
    unsafe fn destroy_image_view(&self, view: Self::ImageView);

    /// Returns the descriptor of an image, through a view of it.
    ///
    /// # Safety
    ///
    /// The view was created from this image by this device, and the descriptor is written into heaps of this device
    /// only. Both live for as long as [`Descriptor`](Self::Descriptor) requires.
    unsafe fn image_descriptor<'a>(
        &self,
        image: &'a Self::Image,
        view: &'a Self::ImageView,
    ) -> Self::Descriptor<'a>;

    /// Returns the limits of views of buffers as texels of a format. `None` where the device has none.
    fn texel_buffer_limits(&self, format: u32, usage: TexelBufferUse) -> Option<TexelBufferLimits> {
        let _ = (format, usage);
        None
    }

    /// Creates a view of a buffer as texels.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; no view exists in that case.
    ///
    /// # Safety
    ///
    /// The buffer is live, from this device, and was created for this use. The range lies in it and satisfies the
    /// [limits](Self::texel_buffer_limits), which the device has for the format.
    unsafe fn create_texel_buffer_view(
        &self,
        buffer: &Self::Buffer,
        desc: &TexelBufferDesc,
    ) -> Result<Self::TexelBufferView, DeviceError>;

    /// Destroys a view. Its buffer may have been destroyed before.
    ///
    /// # Safety
    ///
    /// The view is from this device, and no queue uses it after this call, through a descriptor either.
    unsafe fn destroy_texel_buffer_view(&self, view: Self::TexelBufferView);

    /// Returns the descriptor of a buffer, through a view of it as texels.
    ///
    /// # Safety
    ///
    /// The view was created from this buffer by this device, and the descriptor is written into heaps of this device
    /// only. Both live for as long as [`Descriptor`](Self::Descriptor) requires.
    unsafe fn texel_buffer_descriptor<'a>(
        &self,
        buffer: &'a Self::Buffer,
        view: &'a Self::TexelBufferView,
    ) -> Self::Descriptor<'a>;

    /// Returns the descriptor of a buffer range.
    ///
    /// # Safety
    ///
    /// The buffer is from this device, and was created for this use; the range lies in it, is not empty, and
    /// satisfies the rules of the [use](BufferUse). The descriptor is written into heaps of this device only.
    ///
    /// The buffer lives until no heap contains the descriptor any more: until each slot, table or CPU descriptor
    /// range that it was written to was overwritten or freed. [`Descriptor`](Self::Descriptor) says why, and
    /// which devices require less.
    unsafe fn buffer_descriptor<'a>(
        &self,
        buffer: &'a Self::Buffer,
        range: Range<u64>,
        usage: BufferUse,
    ) -> Self::Descriptor<'a>;

    /// Returns the descriptor of an array of structures in a buffer, where the API tells it from raw bytes.
    ///
    /// # Safety
    ///
    /// The conditions of [`buffer_descriptor`](Self::buffer_descriptor) apply. `stride` is a multiple of 4, and at most
    /// [`MAX_STRIDE`](crate::device::BufferViewDesc::MAX_STRIDE); the range starts and ends at multiples of it. The use is not
    /// [`Constants`](BufferUse::Constants).
    unsafe fn structured_buffer_descriptor<'a>(
        &self,
        buffer: &'a Self::Buffer,
        range: Range<u64>,
        usage: BufferUse,
        stride: u32,
    ) -> Self::Descriptor<'a> {
        let _ = stride;
        // SAFETY: the caller's promise.
        unsafe { self.buffer_descriptor(buffer, range, usage) }
    }
}
