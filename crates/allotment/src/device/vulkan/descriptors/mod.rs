//! Descriptor heaps over Vulkan, which has two models for shader-visible heaps.
//!
//! | | [`Buffer`](DescriptorModel::Buffer) | [`Sets`](DescriptorModel::Sets) |
//! |---|---|---|
//! | needs | `VK_EXT_descriptor_buffer`, buffer addresses, mutable types | descriptor indexing |
//! | shader-visible heap | a mapped buffer | one update-after-bind set |
//! | CPU descriptor heap | the same bytes in host memory | the values of later descriptor writes |
//! | write | the driver writes bytes | `vkUpdateDescriptorSets` |
//! | copy | bytes | `vkUpdateDescriptorSets`, many descriptors per call |
//!
//! ```text
//!   heap.rs      descriptor heaps, of any of the kinds below
//!   descriptor.rs  descriptor values: handles and ranges
//!   image_view.rs  views of images, created from descriptions that name no image
//!   samplers.rs  samplers
//!   static_samplers.rs  samplers of a pipeline layout
//!   layouts.rs   descriptor set layouts of heaps, for pipelines
//!   buffer.rs    heaps that consist of bytes
//!   sets.rs      heaps that are descriptor sets
//!   records.rs   heaps of recorded values: CPU heaps for sets, render targets, depth-stencil images
//! ```

mod buffer;
mod descriptor;
mod heap;
mod image_view;
mod layouts;
mod records;
mod samplers;
mod sets;
mod static_samplers;
mod texel_view;

use core::ops::Range;

use ash::vk;

use super::properties::alignment;
use super::{BufferInfo, Device, DeviceDesc, EnabledFeatures, Shared};
use crate::device::{
    BufferUse, DescriptionError, DescriptionLimit, DescriptorDevice, DescriptorHeapAddress,
    DescriptorHeapBacking, DescriptorHeapDesc, DescriptorHeapType, DescriptorHeapVisibility,
    DescriptorLimits, DescriptorTypeReason, DeviceError, ImageViewError, ImageViewParameters,
    ImageViewSupport, SamplerDesc, ShaderVisibleHeapLimits, ShaderVisibleHeapType, TexelBufferDesc,
    TexelBufferLimits, TexelBufferUse,
};
use buffer::DescriptorBuffers;
use descriptor::What;
use heap::Store;
use records::Records;
use samplers::SamplerLimits;

pub use descriptor::{Descriptor, TexelBuffer};
pub use heap::DescriptorHeap;
pub use image_view::{ImageView, ImageViewDesc};
pub use layouts::DescriptorSetLayout;
pub use samplers::Sampler;
pub use static_samplers::StaticSamplers;
pub use texel_view::TexelBufferView;

/// The implementation of shader-visible descriptor heaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DescriptorModel {
    /// Mapped buffers of `VK_EXT_descriptor_buffer`.
    Buffer,
    /// Sets of descriptor indexing.
    Sets,
}

/// The default types of resource descriptors: all of Vulkan 1.0. Storage buffers come first, since a [null
/// descriptor](DescriptorDevice::write_null_descriptors) is one of the first type.
pub(super) const ALL_TYPES: [vk::DescriptorType; 6] = [
    vk::DescriptorType::STORAGE_BUFFER,
    vk::DescriptorType::UNIFORM_BUFFER,
    vk::DescriptorType::SAMPLED_IMAGE,
    vk::DescriptorType::STORAGE_IMAGE,
    vk::DescriptorType::UNIFORM_TEXEL_BUFFER,
    vk::DescriptorType::STORAGE_TEXEL_BUFFER,
];

/// Returns why slots cannot have descriptors of a type.
fn reason_against(ty: vk::DescriptorType) -> DescriptorTypeReason {
    match ty {
        vk::DescriptorType::SAMPLER => DescriptorTypeReason::Sampler,
        vk::DescriptorType::COMBINED_IMAGE_SAMPLER => DescriptorTypeReason::CombinedImageSampler,
        vk::DescriptorType::INPUT_ATTACHMENT => DescriptorTypeReason::InputAttachment,
        vk::DescriptorType::ACCELERATION_STRUCTURE_KHR | vk::DescriptorType::ACCELERATION_STRUCTURE_NV => {
            DescriptorTypeReason::AccelerationStructure
        }
        vk::DescriptorType::INLINE_UNIFORM_BLOCK => DescriptorTypeReason::InlineUniformBlock,
        vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC | vk::DescriptorType::STORAGE_BUFFER_DYNAMIC => {
            DescriptorTypeReason::DynamicBuffer
        }
        _ => DescriptorTypeReason::Unknown,
    }
}

/// The descriptor limits and objects of a device.
pub(super) struct Descriptors {
    /// `None` if no model is enabled.
    model: Option<DescriptorModel>,
    /// `Some` if the model is [`DescriptorModel::Buffer`].
    buffers: Option<DescriptorBuffers>,
    /// The types of resource descriptors, each once.
    types: Box<[vk::DescriptorType]>,
    stages: vk::ShaderStageFlags,
    limits: DescriptorLimits,
    samplers: SamplerLimits,
    /// The maximum number of samplers that a stage of a pipeline sees without descriptor indexing.
    max_static_samplers: u32,
    /// The alignment of texel buffers in bytes, and their maximum number of texels.
    texels: (u64, u64),
    /// Whether null descriptors can be written as such.
    nulls: bool,
    /// The sampler of null sampler descriptors. Null if there are no shader-visible heaps.
    default_sampler: vk::Sampler,
    /// The bytes of null descriptors in descriptor buffers, by [`ShaderVisibleHeapType`].
    null_bytes: [Box<[u8]>; 2],
}

/// The parameters of a device that is being created.
struct Setup<'a> {
    instance: &'a ash::Instance,
    raw: &'a ash::Device,
    enabled: EnabledFeatures,
    types: &'a [vk::DescriptorType],
    stages: vk::ShaderStageFlags,
    max_buffer_size: u64,
}

impl Descriptors {
    /// Returns an error for a shader-visible heap or layout that the device does not have.
    fn check_capacity(&self, kind: ShaderVisibleHeapType, capacity: u32) -> Result<(), DeviceError> {
        // Without a model there are no such heaps at all, whatever their capacity.
        if self.model.is_none() {
            return Err(DeviceError::Unsupported);
        }
        Ok(DescriptionLimit::check_descriptors(capacity, self.limits.shader_visible(kind).max_capacity)?)
    }

    /// Queries the descriptor limits of the device and selects a model.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsupported`] if `desc` requests a model that is not enabled, [`DeviceError::InvalidDescription`] if it
    /// lists types that are not in Vulkan 1.0; otherwise the driver's error.
    ///
    /// # Safety
    ///
    /// The conditions of [`Device::new`] apply.
    pub(super) unsafe fn new(desc: &DeviceDesc, max_buffer_size: u64) -> Result<Self, DeviceError> {
        let DeviceDesc { instance, device: raw, enabled, descriptor_types: types, .. } = desc;
        let enabled = *enabled;
        let setup = Setup { instance, raw, enabled, types, stages: desc.descriptor_stages, max_buffer_size };
        // A type of an extension has no size in the descriptor buffer properties and no limit in descriptor
        // indexing; a repeated one would be two bindings.
        if let Some(&ty) = types.iter().find(|ty| !ALL_TYPES.contains(ty)) {
            let reason = reason_against(ty);
            return Err(DescriptionError::DescriptorType { ty: ty.as_raw(), reason }.into());
        }
        if types.is_empty() || types.iter().enumerate().any(|(i, ty)| types[..i].contains(ty)) {
            return Err(DescriptionError::DescriptorTypes.into());
        }
        let offers_buffers = enabled
            .contains(EnabledFeatures::DESCRIPTOR_BUFFER | EnabledFeatures::BUFFER_DEVICE_ADDRESS)
            // Mutable bindings exist for types that share a slot; a single type needs none.
            && (types.len() == 1 || enabled.contains(EnabledFeatures::MUTABLE_DESCRIPTOR_TYPE));
        let offers_sets = enabled.contains(EnabledFeatures::DESCRIPTOR_INDEXING);

        let mut of_buffers = vk::PhysicalDeviceDescriptorBufferPropertiesEXT::default();
        let mut of_sets = vk::PhysicalDeviceDescriptorIndexingProperties::default();
        // Property structures of extensions that are not enabled must not be chained.
        let mut answer = vk::PhysicalDeviceProperties2::default();
        if offers_buffers {
            answer = answer.push_next(&mut of_buffers);
        }
        if offers_sets {
            answer = answer.push_next(&mut of_sets);
        }
        let core = if offers_buffers || offers_sets {
            // SAFETY: the caller's promise; the chained structures belong to enabled features, of which there
            // are none below 1.1.
            unsafe { instance.get_physical_device_properties2(desc.physical_device, &mut answer) };
            answer.properties.limits
        } else {
            // SAFETY: as above.
            unsafe { instance.get_physical_device_properties(desc.physical_device) }.limits
        };

        // Descriptor buffers come first: there a copy between heaps moves bytes and calls no driver.
        let buffers = if offers_buffers && desc.descriptor_model != Some(DescriptorModel::Sets) {
            DescriptorBuffers::new(&setup, &of_buffers)?
        } else {
            None
        };
        let model = match (&buffers, desc.descriptor_model) {
            (Some(_), _) => Some(DescriptorModel::Buffer),
            (None, Some(DescriptorModel::Sets) | None) if offers_sets => Some(DescriptorModel::Sets),
            (None, None) => None,
            // An explicit wish for a model is not replaced by another: the application's shaders are written for
            // one of them.
            (None, Some(_)) => return Err(DeviceError::Unsupported),
        };
        let visible = |kind| {
            let limits = match (model, &buffers) {
                (Some(DescriptorModel::Buffer), Some(buffers)) => {
                    buffers.limits(&setup, &of_buffers, &core, kind)
                }
                (Some(DescriptorModel::Sets), _) => sets::limits(&setup, &of_sets, kind),
                _ => ShaderVisibleHeapLimits { max_capacity: 0, reserved: 0, table_alignment: 1 },
            };
            let Some(model) = model else { return Ok(limits) };
            let shape = layouts::Shape { model, types, stages: setup.stages };
            // The reported limits are only upper bounds: a layout of that many may still be refused.
            let max_capacity = shape.most(raw, kind, limits.max_capacity)?;
            Ok::<_, DeviceError>(ShaderVisibleHeapLimits { max_capacity, ..limits })
        };
        let stride = |kind| buffers.as_ref().map_or(Records::STRIDE, |buffers| buffers.stride(kind));
        let samplers = SamplerLimits::new(&core, enabled);
        let mut descriptors = Self {
            model,
            types: types.clone().into(),
            stages: desc.descriptor_stages,
            limits: DescriptorLimits {
                resources: visible(ShaderVisibleHeapType::Resource)?,
                samplers: visible(ShaderVisibleHeapType::Sampler)?,
                strides: DescriptorHeapType::ALL.map(|kind| match kind {
                    DescriptorHeapType::Resource => stride(ShaderVisibleHeapType::Resource),
                    DescriptorHeapType::Sampler => stride(ShaderVisibleHeapType::Sampler),
                    DescriptorHeapType::RenderTarget | DescriptorHeapType::DepthStencil => Records::STRIDE,
                }),
                // `maxSamplerAllocationCount` is guaranteed to be 4000 and no more, so even one counts.
                // The device itself creates one, the default sampler.
                max_samplers: core.max_sampler_allocation_count.saturating_sub(1),
                // Raw accesses are in words of four bytes, whatever smaller offset a driver supports.
                raw_buffer_alignment: alignment(core.min_storage_buffer_offset_alignment.max(4)),
                constants_alignment: alignment(core.min_uniform_buffer_offset_alignment),
                max_raw_range: core.max_storage_buffer_range.into(),
                max_constants_range: core.max_uniform_buffer_range.into(),
            },
            samplers,
            max_static_samplers: core.max_per_stage_descriptor_samplers,
            texels: (core.min_texel_buffer_offset_alignment.max(1), core.max_texel_buffer_elements.into()),
            nulls: enabled.contains(EnabledFeatures::NULL_DESCRIPTOR),
            default_sampler: vk::Sampler::null(),
            null_bytes: Default::default(),
            buffers,
        };
        if model.is_some() {
            // Created last of all objects that can fail, so that an error before leaks nothing.
            descriptors.default_sampler = samplers.create(raw, &SamplerDesc::default())?;
        }
        if let Some(buffers) = &descriptors.buffers {
            // The bytes of a null descriptor are constant, so that filling a heap calls no driver per slot.
            let bytes = |kind, what| buffers.bytes_of(raw, kind, &what);
            descriptors.null_bytes = [
                bytes(ShaderVisibleHeapType::Resource, What::Null(types[0])),
                bytes(ShaderVisibleHeapType::Sampler, What::Sampler(descriptors.default_sampler)),
            ];
        }
        Ok(descriptors)
    }

    /// Destroys all driver objects. Called once, when the device is dropped.
    pub(super) fn destroy(&self, raw: &ash::Device) {
        // SAFETY: the sampler is the device's own, or null, which is allowed. Heaps that contained it are no
        // longer used.
        unsafe { raw.destroy_sampler(self.default_sampler, None) };
    }

    /// Returns the value of null descriptors in heaps of recorded values and in sets; `None` for a null of every
    /// type.
    fn null_descriptor(&self, kind: DescriptorHeapType) -> Option<What> {
        (kind == DescriptorHeapType::Sampler).then_some(What::Sampler(self.default_sampler))
    }
}

impl Shared {
    /// Returns a buffer's device address if descriptors need one, otherwise 0.
    ///
    /// # Safety
    ///
    /// The conditions of [`Device::buffer_address`] apply, if the device uses descriptor buffers.
    unsafe fn address_for_descriptor(&self, buffer: vk::Buffer) -> u64 {
        // SAFETY: the caller's promise.
        let address = self.descriptors.buffers.as_ref().and_then(|_| unsafe { self.buffer_address(buffer) });
        address.unwrap_or(0)
    }
}

impl Device {
    /// Returns the model of shader-visible heaps; `None` if the device has none.
    #[must_use]
    pub fn descriptor_model(&self) -> Option<DescriptorModel> {
        self.shared.descriptors.model
    }

    /// Returns the types of resource descriptors: with sets, the first is binding 0 of the
    /// [layout](DescriptorSetLayout), and so on.
    #[must_use]
    pub fn descriptor_types(&self) -> &[vk::DescriptorType] {
        &self.shared.descriptors.types
    }

    /// Returns the functions of `VK_EXT_descriptor_buffer` if heaps are descriptor buffers.
    #[must_use]
    pub fn descriptor_buffer_functions(&self) -> Option<&ash::ext::descriptor_buffer::Device> {
        self.shared.descriptors.buffers.as_ref().map(|buffers| &buffers.functions)
    }

    /// Records commands that bind heaps, the first as set `first_set` of a pipeline layout, and so on, with the
    /// commands of the device's descriptor model. Pipelines for descriptor buffers are created with
    /// `VK_PIPELINE_CREATE_DESCRIPTOR_BUFFER_BIT_EXT`.
    ///
    /// ```no_run
    /// use allotment::device::vulkan::{DescriptorHeap, Device};
    /// use ash::vk;
    ///
    /// # fn example(
    /// #     device: &Device, commands: vk::CommandBuffer, pipeline: vk::Pipeline,
    /// #     resources: &DescriptorHeap, samplers: &DescriptorHeap,
    /// # ) -> Result<(), vk::Result> {
    /// // Once: set 0 has the resources, set 1 the samplers.
    /// let layouts = [resources, samplers].map(|heap| heap.layout().expect("both are shader-visible"));
    /// let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts);
    /// // SAFETY: a valid description.
    /// let layout = unsafe { device.raw().create_pipeline_layout(&info, None) }?;
    ///
    /// // In each command buffer:
    /// let point = vk::PipelineBindPoint::GRAPHICS;
    /// // SAFETY: the command buffer is being recorded, all objects are live, and the layout is the heaps'.
    /// unsafe { device.cmd_bind_descriptor_heaps(commands, point, layout, 0, &[resources, samplers]) };
    /// // SAFETY: as above.
    /// unsafe { device.raw().cmd_bind_pipeline(commands, point, pipeline) };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics for more than two heaps, and for one that is not shader-visible: there are two types, and drivers
    /// need not be able to bind two heaps of one type.
    ///
    /// # Safety
    ///
    /// The command buffer is being recorded, for a queue that supports the bind point. It and the heaps are of
    /// this device and live until the commands are complete, and the sets of the pipeline layout were created
    /// with the heaps' layouts.
    pub unsafe fn cmd_bind_descriptor_heaps(
        &self,
        commands: vk::CommandBuffer,
        point: vk::PipelineBindPoint,
        layout: vk::PipelineLayout,
        first_set: u32,
        heaps: &[&DescriptorHeap],
    ) {
        const NOT_SHADER_VISIBLE: &str = "the heap is not shader-visible";
        let count = heaps.len();
        assert!(count <= 2, "there are only two types of shader-visible heaps");
        // Without heaps both bind commands would have a count of 0, which Vulkan forbids.
        if count == 0 {
            return;
        }
        if let Some(functions) = self.descriptor_buffer_functions() {
            // Arrays of two, so that binding in every command buffer allocates nothing.
            let mut infos = [vk::DescriptorBufferBindingInfoEXT::default(); 2];
            for (info, heap) in infos.iter_mut().zip(heaps) {
                *info = heap.binding_info().expect(NOT_SHADER_VISIBLE);
            }
            // Bound together: a second `vkCmdBindDescriptorBuffersEXT` would unbind the buffers of the first.
            // SAFETY: the caller's promise.
            unsafe { functions.cmd_bind_descriptor_buffers(commands, &infos[..count]) };
            let (indices, offsets) = (&[0, 1][..count], &[0, 0][..count]);
            // SAFETY: as above; these buffers were bound just now, and offset 0 satisfies all alignments.
            unsafe {
                functions
                    .cmd_set_descriptor_buffer_offsets(commands, point, layout, first_set, indices, offsets);
            };
        } else {
            let mut sets = [vk::DescriptorSet::null(); 2];
            for (set, heap) in sets.iter_mut().zip(heaps) {
                *set = heap.set().expect(NOT_SHADER_VISIBLE);
            }
            let sets = &sets[..count];
            // SAFETY: as above.
            unsafe { self.raw().cmd_bind_descriptor_sets(commands, point, layout, first_set, sets, &[]) };
        }
    }
}

/// With [descriptor buffers](DescriptorModel::Buffer), buffers that descriptors refer to need
/// `VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT`.
///
/// **Null** descriptors of resources are null for the first of the device's
/// [types](super::DeviceDesc::with_descriptor_types), and with sets for every one of them. They need
/// [`EnabledFeatures::NULL_DESCRIPTOR`]. Without it, zeros are written into descriptor buffers and nothing into
/// sets, and accesses through them are undefined.
///
/// **Poisoned** descriptors are null descriptors: any other invalid value may crash the driver.
// SAFETY: a heap of bytes is as large as requested, with the stride that the driver reported; the others are
// arrays of the capacity. The limits are never written.
unsafe impl DescriptorDevice for Device {
    type DescriptorHeap = DescriptorHeap;
    type Descriptor<'a> = Descriptor<'a>;
    type Sampler = Sampler;
    type StaticSamplers = StaticSamplers;
    type TexelBufferView = TexelBufferView;
    type ImageViewInfo = ImageViewDesc;
    type ImageView = ImageView;

    fn descriptor_limits(&self) -> DescriptorLimits {
        self.shared.descriptors.limits
    }

    fn descriptors_have_addresses(&self) -> bool {
        self.shared.descriptors.buffers.is_some()
    }

    fn descriptor_kind(descriptor: &Descriptor<'_>) -> DescriptorHeapType {
        descriptor.what.kind()
    }

    /// Resources can only be written as one of the device's [types](Self::descriptor_types).
    fn can_write(&self, descriptor: &Descriptor<'_>) -> bool {
        descriptor.what.is_one_of(&self.shared.descriptors.types)
    }

    fn descriptor_heap_buffer(&self, desc: &DescriptorHeapDesc) -> Option<BufferInfo<'static>> {
        match (&self.shared.descriptors.buffers, desc.usage) {
            (Some(buffers), DescriptorHeapVisibility::ShaderVisible(kind)) => {
                Some(buffers.heap_buffer(kind, desc.capacity))
            }
            _ => None,
        }
    }

    unsafe fn create_descriptor_heap(
        &self,
        desc: &DescriptorHeapDesc,
        memory: Option<DescriptorHeapBacking<'_, Self>>,
    ) -> Result<DescriptorHeap, DeviceError> {
        let store = self.shared.create_heap(desc, memory)?;
        Ok(DescriptorHeap { usage: desc.usage, capacity: desc.capacity, store })
    }

    unsafe fn destroy_descriptor_heap(&self, heap: DescriptorHeap) {
        match heap.store {
            Store::Bytes(bytes) => {
                if let Some(bound) = bytes.bound() {
                    // SAFETY: the layout is the heap's own; pipeline layouts created with it do not need it any
                    // more.
                    unsafe { self.raw().destroy_descriptor_set_layout(bound.layout, None) };
                }
            }
            // SAFETY: the caller's promise.
            Store::Set(set) => unsafe { set.destroy(self.raw()) },
            Store::Records(_) => {}
        }
    }

    fn descriptor_heap_address(&self, heap: &DescriptorHeap) -> DescriptorHeapAddress {
        match &heap.store {
            Store::Bytes(bytes) => bytes.address(),
            Store::Set(_) | Store::Records(_) => DescriptorHeapAddress::default(),
        }
    }

    unsafe fn write_descriptor(&self, heap: &DescriptorHeap, at: u32, descriptor: &Descriptor<'_>) {
        let descriptors = &self.shared.descriptors;
        match (&heap.store, &descriptors.buffers) {
            (Store::Bytes(bytes), Some(buffers)) => {
                // SAFETY: the caller's promise.
                unsafe { buffers.write(self.raw(), bytes, at, &descriptor.what) };
            }
            (Store::Bytes(_), None) => debug_assert!(false, "the heap belongs to another device"),
            // SAFETY: as above.
            (Store::Set(set), _) => unsafe { set.write(self.raw(), descriptors, at, descriptor.what) },
            // SAFETY: as above.
            (Store::Records(records), _) => unsafe { records.fill(at..at + 1, Some(descriptor.what)) },
        }
    }

    unsafe fn write_null_descriptors(&self, heap: &DescriptorHeap, at: Range<u32>) {
        // SAFETY: the caller's promise.
        unsafe { self.shared.write_nulls(heap, at) };
    }

    unsafe fn poison_descriptors(&self, heap: &DescriptorHeap, at: Range<u32>) {
        // SAFETY: the caller's promise.
        unsafe { self.shared.write_nulls(heap, at) };
    }

    unsafe fn copy_descriptors(
        &self,
        from: &DescriptorHeap,
        from_at: u32,
        to: &DescriptorHeap,
        to_at: u32,
        count: u32,
    ) {
        let read = from_at..from_at + count;
        match (&from.store, &to.store) {
            // SAFETY: the caller's promise.
            (Store::Bytes(from), Store::Bytes(to)) => unsafe { from.copy_to(read, to, to_at) },
            // SAFETY: as above.
            (Store::Records(from), Store::Records(to)) => unsafe { from.copy_to(read, to, to_at) },
            (Store::Records(from), Store::Set(to)) => {
                // SAFETY: as above.
                let whats = unsafe { from.read(read) };
                // SAFETY: as above.
                unsafe { to.write_all(self.raw(), &self.shared.descriptors, to_at, whats) };
            }
            _ => debug_assert!(false, "{from:?} is not a CPU descriptor heap of the type of {to:?}"),
        }
    }

    fn create_sampler(&self, desc: &SamplerDesc) -> Result<Sampler, DeviceError> {
        self.shared.descriptors.samplers.create(self.raw(), desc).map(Sampler)
    }

    unsafe fn destroy_sampler(&self, sampler: Sampler) {
        // SAFETY: the caller's promise.
        unsafe { self.raw().destroy_sampler(sampler.0, None) };
    }

    unsafe fn sampler_descriptor<'a>(&self, sampler: &'a Sampler) -> Descriptor<'a> {
        // SAFETY: the caller's promise.
        unsafe { Descriptor::sampler(sampler.0) }
    }

    fn create_static_samplers(&self, samplers: &[SamplerDesc]) -> Result<StaticSamplers, DeviceError> {
        StaticSamplers::new(self, samplers)
    }

    unsafe fn destroy_static_samplers(&self, samplers: StaticSamplers) {
        // SAFETY: the caller's promise.
        unsafe { samplers.destroy(self.raw()) };
    }

    fn image_view_info(
        &self,
        image: &ImageViewSupport,
        view: &ImageViewParameters,
    ) -> Result<ImageViewDesc, ImageViewError> {
        self.describe_view(image, view)
    }

    unsafe fn create_image_view(
        &self,
        image: &vk::Image,
        info: &ImageViewDesc,
    ) -> Result<ImageView, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { ImageView::new(self, *image, info) }
    }

    unsafe fn destroy_image_view(&self, view: ImageView) {
        // SAFETY: the caller's promise.
        unsafe { view.destroy(self) };
    }

    unsafe fn image_descriptor<'a>(&self, _: &'a vk::Image, view: &'a ImageView) -> Descriptor<'a> {
        view.descriptor()
    }

    fn texel_buffer_limits(&self, format: u32, usage: TexelBufferUse) -> Option<TexelBufferLimits> {
        self.limits_of_texels(format, usage)
    }

    unsafe fn create_texel_buffer_view(
        &self,
        buffer: &vk::Buffer,
        desc: &TexelBufferDesc,
    ) -> Result<TexelBufferView, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { TexelBufferView::new(self, *buffer, desc) }
    }

    unsafe fn destroy_texel_buffer_view(&self, view: TexelBufferView) {
        // SAFETY: the caller's promise.
        unsafe { view.destroy(self) };
    }

    unsafe fn texel_buffer_descriptor<'a>(
        &self,
        buffer: &'a vk::Buffer,
        view: &'a TexelBufferView,
    ) -> Descriptor<'a> {
        // SAFETY: the caller's promise.
        unsafe { view.descriptor(self, buffer) }
    }

    unsafe fn buffer_descriptor<'a>(
        &self,
        buffer: &'a vk::Buffer,
        range: Range<u64>,
        usage: BufferUse,
    ) -> Descriptor<'a> {
        // SAFETY: the caller's promise.
        unsafe { Descriptor::buffer(self, buffer, range, usage) }
    }
}
