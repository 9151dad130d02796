//! Descriptor heaps of the runtime, which also provides their memory.
//!
//! | file | contents |
//! |---|---|
//! | `heap.rs` | a heap, and the handles of its descriptors |
//! | `image_view.rs` | descriptions of views of images, without the image |
//! | `descriptor.rs` | descriptor values |
//! | `sampler.rs` | samplers, converted to Direct3D's structures |

mod descriptor;
mod heap;
mod image_view;
mod sampler;
mod texel_view;

use core::num::NonZero;
use core::ops::Range;

use windows::Win32::Graphics::Direct3D12::*;

use super::properties::{Features, alignment};
use super::{Device, ResourceInfo};
use crate::device::{
    BufferUse, DescriptionLimit, DescriptorDevice, DescriptorHeapAddress, DescriptorHeapBacking,
    DescriptorHeapDesc, DescriptorHeapType, DescriptorHeapVisibility, DescriptorLimits, DeviceError,
    ImageViewError, ImageViewParameters, ImageViewSupport, SamplerDesc, ShaderVisibleHeapLimits,
    TexelBufferDesc, TexelBufferLimits, TexelBufferUse,
};

pub use descriptor::Descriptor;
pub use heap::DescriptorHeap;
pub use image_view::ImageViewDesc;
pub(super) use image_view::is_typeless;
pub use sampler::{Sampler, StaticSamplers};
pub use texel_view::TexelBufferView;

/// The maximum number of samplers that is reported for a shader-visible heap. Software devices report millions;
/// no application uses that many different ones, and one that creates a heap of the maximum size should not pay
/// for them.
const MOST_SAMPLERS: u32 = 1 << 16;

/// Converts a descriptor heap type.
fn heap_type(kind: DescriptorHeapType) -> D3D12_DESCRIPTOR_HEAP_TYPE {
    match kind {
        DescriptorHeapType::Resource => D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV,
        DescriptorHeapType::Sampler => D3D12_DESCRIPTOR_HEAP_TYPE_SAMPLER,
        DescriptorHeapType::RenderTarget => D3D12_DESCRIPTOR_HEAP_TYPE_RTV,
        DescriptorHeapType::DepthStencil => D3D12_DESCRIPTOR_HEAP_TYPE_DSV,
    }
}

/// Returns the descriptor limits. If the runtime does not report the size of heaps, the limits of all Direct3D
/// 12 devices apply.
pub(super) fn limits(device: &ID3D12Device, features: &Features) -> DescriptorLimits {
    let stride = |kind| {
        // SAFETY: the device is live.
        let stride = unsafe { device.GetDescriptorHandleIncrementSize(heap_type(kind)) };
        stride.max(1)
    };
    // The limit for heaps with static samplers: a larger heap cannot be set together with a root signature that
    // has static samplers, as most do.
    limits_of(features.max_views, features.max_samplers, DescriptorHeapType::ALL.map(stride))
}

/// Returns the limits for the reported heap sizes for views and samplers.
fn limits_of(views: u32, samplers: u32, strides: [u32; 4]) -> DescriptorLimits {
    let heaps = |max_capacity| ShaderVisibleHeapLimits { max_capacity, reserved: 0, table_alignment: 1 };
    // Runtimes without options 19 report 0; every device has at least the fixed limits.
    let samplers = samplers.clamp(D3D12_MAX_SHADER_VISIBLE_SAMPLER_HEAP_SIZE, MOST_SAMPLERS);
    DescriptorLimits {
        // Guaranteed on all resource binding tiers.
        resources: heaps(views.max(D3D12_MAX_SHADER_VISIBLE_DESCRIPTOR_HEAP_SIZE_TIER_1)),
        samplers: heaps(samplers),
        strides,
        // Samplers are no objects, only descriptors in heaps.
        max_samplers: u32::MAX,
        raw_buffer_alignment: alignment(D3D12_RAW_UAV_SRV_BYTE_ALIGNMENT),
        constants_alignment: alignment(D3D12_CONSTANT_BUFFER_DATA_PLACEMENT_ALIGNMENT),
        // A raw view counts 4-byte words in 32 bits, which is more than drivers guarantee to address.
        max_raw_range: 1 << 31,
        // 4096 vectors of 16 bytes.
        max_constants_range: descriptor::MOST_CONSTANTS,
    }
}

// SAFETY: the runtime creates heaps with the requested number of descriptors, at its increment; the limits are
// queried once.
unsafe impl DescriptorDevice for Device {
    type DescriptorHeap = DescriptorHeap;
    type Descriptor<'a> = Descriptor<'a>;
    type Sampler = Sampler;
    type StaticSamplers = StaticSamplers;
    type TexelBufferView = TexelBufferView;
    type ImageViewInfo = ImageViewDesc;
    /// Direct3D 12 has no view objects: the description is written into a slot with the resource.
    type ImageView = ImageViewDesc;

    fn descriptor_limits(&self) -> DescriptorLimits {
        self.shared.descriptor_limits
    }

    fn descriptor_kind(descriptor: &Descriptor<'_>) -> DescriptorHeapType {
        descriptor.kind()
    }

    /// Returns `None`: the runtime provides the memory of heaps.
    fn descriptor_heap_buffer(&self, _: &DescriptorHeapDesc) -> Option<ResourceInfo<'static>> {
        None
    }

    unsafe fn create_descriptor_heap(
        &self,
        desc: &DescriptorHeapDesc,
        _: Option<DescriptorHeapBacking<'_, Self>>,
    ) -> Result<DescriptorHeap, DeviceError> {
        let limits = &self.shared.descriptor_limits;
        let most = match desc.usage {
            DescriptorHeapVisibility::ShaderVisible(kind) => limits.shader_visible(kind).max_capacity,
            // CPU heaps are limited by memory only, and the runtime refuses them itself.
            DescriptorHeapVisibility::CpuOnly(_) => u32::MAX,
        };
        DescriptionLimit::check_descriptors(desc.capacity, most)?;
        DescriptorHeap::new(self.raw(), desc, limits.stride(desc.usage.kind()))
    }

    unsafe fn destroy_descriptor_heap(&self, heap: DescriptorHeap) {
        drop(heap);
    }

    fn descriptor_heap_address(&self, heap: &DescriptorHeap) -> DescriptorHeapAddress {
        heap.address()
    }

    unsafe fn write_descriptor(&self, heap: &DescriptorHeap, at: u32, descriptor: &Descriptor<'_>) {
        // SAFETY: the caller owns the slot, which is of the descriptor's type, by its promise.
        unsafe { descriptor.write(self.raw(), heap.slot(at)) };
    }

    /// A null resource descriptor is one of a raw buffer, a null render target or depth-stencil descriptor one
    /// of a texture with one sample: shaders read zeros, and draws are discarded.
    unsafe fn write_null_descriptors(&self, heap: &DescriptorHeap, at: Range<u32>) {
        let null = Descriptor::null(heap.kind());
        for at in at {
            // SAFETY: the caller's promise, and the descriptor is of the heap's type.
            unsafe { null.write(self.raw(), heap.slot(at)) };
        }
    }

    /// Writes [null descriptors](Self::write_null_descriptors): any invalid descriptor whose use the runtime
    /// detects also removes the device.
    unsafe fn poison_descriptors(&self, heap: &DescriptorHeap, at: Range<u32>) {
        // SAFETY: the caller's promise.
        unsafe { self.write_null_descriptors(heap, at) };
    }

    unsafe fn copy_descriptors(
        &self,
        from: &DescriptorHeap,
        from_at: u32,
        to: &DescriptorHeap,
        to_at: u32,
        count: u32,
    ) {
        // The destination comes first in Direct3D 12.
        let (from_slot, to_slot) = (from.slot(from_at), to.slot(to_at));
        // SAFETY: the ranges lie in live heaps of one type, of which the first is a CPU descriptor heap, by the
        // caller's promise.
        unsafe { self.raw().CopyDescriptorsSimple(count, to_slot, from_slot, heap_type(to.kind())) };
    }

    /// Filters are limited to those of Direct3D 12: with anisotropy above 1, minification and magnification are
    /// linear regardless of the description. The mip filter must then be linear too, unless the device supports
    /// anisotropic filters with the nearest mip level; otherwise the sampler is
    /// [refused](DeviceError::Unsupported).
    fn create_sampler(&self, desc: &SamplerDesc) -> Result<Sampler, DeviceError> {
        Sampler::new(desc, self.shared.features.nearest_mip_with_anisotropy)
    }

    unsafe fn destroy_sampler(&self, _: Sampler) {
        // A sampler is only a description.
    }

    unsafe fn sampler_descriptor<'a>(&self, sampler: &'a Sampler) -> Descriptor<'a> {
        sampler.descriptor()
    }

    fn create_static_samplers(&self, samplers: &[SamplerDesc]) -> Result<StaticSamplers, DeviceError> {
        StaticSamplers::new(samplers, self.shared.features.nearest_mip_with_anisotropy)
    }

    unsafe fn destroy_static_samplers(&self, _: StaticSamplers) {
        // They are only descriptions.
    }

    fn image_view_info(
        &self,
        image: &ImageViewSupport,
        view: &ImageViewParameters,
    ) -> Result<ImageViewDesc, ImageViewError> {
        ImageViewDesc::of(self.raw(), image, view)
    }

    unsafe fn create_image_view(
        &self,
        _: &ID3D12Resource,
        info: &ImageViewDesc,
    ) -> Result<ImageViewDesc, DeviceError> {
        Ok(*info)
    }

    unsafe fn destroy_image_view(&self, _: ImageViewDesc) {}

    unsafe fn image_descriptor<'a>(
        &self,
        image: &'a ID3D12Resource,
        view: &'a ImageViewDesc,
    ) -> Descriptor<'a> {
        // SAFETY: the caller's promise.
        unsafe { view.descriptor(image) }
    }

    fn texel_buffer_limits(&self, format: u32, usage: TexelBufferUse) -> Option<TexelBufferLimits> {
        texel_view::limits(self.raw(), format, usage)
    }

    unsafe fn create_texel_buffer_view(
        &self,
        _: &ID3D12Resource,
        desc: &TexelBufferDesc,
    ) -> Result<TexelBufferView, DeviceError> {
        Ok(TexelBufferView::new(desc))
    }

    unsafe fn destroy_texel_buffer_view(&self, _: TexelBufferView) {}

    unsafe fn texel_buffer_descriptor<'a>(
        &self,
        buffer: &'a ID3D12Resource,
        view: &'a TexelBufferView,
    ) -> Descriptor<'a> {
        // SAFETY: the caller's promise.
        unsafe { view.descriptor(buffer) }
    }

    unsafe fn buffer_descriptor<'a>(
        &self,
        buffer: &'a ID3D12Resource,
        range: Range<u64>,
        usage: BufferUse,
    ) -> Descriptor<'a> {
        // SAFETY: the caller's promise.
        unsafe { Descriptor::of_buffer(buffer, range, usage, None) }
    }

    unsafe fn structured_buffer_descriptor<'a>(
        &self,
        buffer: &'a ID3D12Resource,
        range: Range<u64>,
        usage: BufferUse,
        stride: u32,
    ) -> Descriptor<'a> {
        // SAFETY: the caller's promise.
        unsafe { Descriptor::of_buffer(buffer, range, usage, NonZero::new(stride)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_that_says_nothing_has_what_was_always_there() {
        let limits = limits_of(0, 0, [32; 4]);
        assert_eq!(limits.resources.max_capacity, 1_000_000);
        assert_eq!(limits.samplers.max_capacity, 2048);
        assert_eq!(limits.max_buffer_range(BufferUse::ReadWrite), 1 << 31);
        assert_eq!(limits.max_buffer_range(BufferUse::Constants), 65_536);
    }

    #[test]
    fn a_runtime_that_has_more_is_believed_but_nobody_has_millions_of_samplers() {
        let limits = limits_of(4_000_000, 4000, [32; 4]);
        assert_eq!(limits.resources.max_capacity, 4_000_000);
        assert_eq!(limits.samplers.max_capacity, 4000);
        assert_eq!(limits_of(0, 1 << 30, [32; 4]).samplers.max_capacity, MOST_SAMPLERS);
    }
}
