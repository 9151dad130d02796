//! Descriptors: what shader-visible heaps are on Vulkan, which knows two ways.
//!
//! | | [`Buffer`](DescriptorModel::Buffer) | [`Sets`](DescriptorModel::Sets) |
//! |---|---|---|
//! | needs | `VK_EXT_descriptor_buffer`, buffer addresses, mutable types | descriptor indexing |
//! | shader-visible heap | a mapped buffer | one set that is updated after it is bound |
//! | staging heap | the same bytes in ordinary memory | what would be written |
//! | write | the driver writes bytes | `vkUpdateDescriptorSets` |
//! | copy | bytes | `vkUpdateDescriptorSets`, many at a time |
//!
//! ```text
//!   view.rs      what is written: handles and ranges
//!   samplers.rs  samplers
//!   layouts.rs   what heaps look like to pipelines
//!   buffer.rs    heaps that are bytes
//!   sets.rs      heaps that are sets
//!   records.rs   heaps that remember: staging for sets, render targets, depth images
//! ```

mod buffer;
mod layouts;
mod records;
mod samplers;
mod sets;
mod view;

use core::fmt;
use core::ops::Range;

use ash::vk;

use super::properties::alignment;
use super::{BufferInfo, Device, DeviceDesc, EnabledFeatures, Shared};
use crate::device::{
    BufferUse, DescriptorDevice, DescriptorHeapAddress, DescriptorHeapBacking, DescriptorHeapDesc,
    DescriptorHeapType, DescriptorHeapVisibility, DescriptorLimits, DeviceError, SamplerDesc,
    ShaderVisibleHeapLimits, ShaderVisibleHeapType,
};
use buffer::{ByteHeap, DescriptorBuffers};
use records::Records;
use samplers::SamplerLimits;
use sets::SetHeap;
use view::What;

pub use layouts::DescriptorSetLayout;
pub use samplers::Sampler;
pub use view::{Descriptor, TexelBuffer};

/// What shader-visible heaps are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DescriptorModel {
    /// Mapped buffers of `VK_EXT_descriptor_buffer`.
    Buffer,
    /// Sets of descriptor indexing.
    Sets,
}

/// The types that resources have where nobody says otherwise: all that Vulkan 1.0 has descriptors of. Storage buffers
/// come first, since a [null descriptor](DescriptorDevice::write_null_descriptors) is one of the first type.
pub(super) const ALL_TYPES: [vk::DescriptorType; 6] = [
    vk::DescriptorType::STORAGE_BUFFER,
    vk::DescriptorType::UNIFORM_BUFFER,
    vk::DescriptorType::SAMPLED_IMAGE,
    vk::DescriptorType::STORAGE_IMAGE,
    vk::DescriptorType::UNIFORM_TEXEL_BUFFER,
    vk::DescriptorType::STORAGE_TEXEL_BUFFER,
];

/// What a device knows of descriptors.
pub(super) struct Descriptors {
    /// None where nothing is enabled.
    model: Option<DescriptorModel>,
    /// There, where the model is [`DescriptorModel::Buffer`].
    buffers: Option<DescriptorBuffers>,
    /// What descriptors of resources may be, each once.
    types: Box<[vk::DescriptorType]>,
    stages: vk::ShaderStageFlags,
    limits: DescriptorLimits,
    samplers: SamplerLimits,
    /// Nothing can be written as such.
    nulls: bool,
    /// What stands where no sampler does. Null where there are no shader-visible heaps.
    default_sampler: vk::Sampler,
    /// In descriptor buffers, the bytes of slots of nothing; by [`ShaderVisibleHeapType`].
    empty: [Box<[u8]>; 2],
}

/// What descriptors are made for: a device that is being made.
struct Wanted<'a> {
    instance: &'a ash::Instance,
    raw: &'a ash::Device,
    enabled: EnabledFeatures,
    types: &'a [vk::DescriptorType],
    stages: vk::ShaderStageFlags,
    max_buffer_size: u64,
}

impl Descriptors {
    /// Sees what the device has.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsupported`] where `desc` asks for a model that is not enabled, or for types that are not
    /// Vulkan 1.0's; else what the driver refuses with.
    ///
    /// # Safety
    ///
    /// As for [`Device::new`].
    pub(super) unsafe fn new(desc: &DeviceDesc, max_buffer_size: u64) -> Result<Self, DeviceError> {
        let DeviceDesc { instance, device: raw, enabled, descriptor_types: types, .. } = desc;
        let enabled = *enabled;
        let wanted =
            Wanted { instance, raw, enabled, types, stages: desc.descriptor_stages, max_buffer_size };
        let mut listed = types.iter().enumerate();
        if types.is_empty() || !listed.all(|(i, ty)| ALL_TYPES.contains(ty) && !types[..i].contains(ty)) {
            return Err(DeviceError::Unsupported);
        }
        let offers_buffers = enabled
            .contains(EnabledFeatures::DESCRIPTOR_BUFFER | EnabledFeatures::BUFFER_DEVICE_ADDRESS)
            && (types.len() == 1 || enabled.contains(EnabledFeatures::MUTABLE_DESCRIPTOR_TYPE));
        let offers_sets = enabled.contains(EnabledFeatures::DESCRIPTOR_INDEXING);

        let mut of_buffers = vk::PhysicalDeviceDescriptorBufferPropertiesEXT::default();
        let mut of_sets = vk::PhysicalDeviceDescriptorIndexingProperties::default();
        let mut answer = vk::PhysicalDeviceProperties2::default();
        if offers_buffers {
            answer = answer.push_next(&mut of_buffers);
        }
        if offers_sets {
            answer = answer.push_next(&mut of_sets);
        }
        let core = if offers_buffers || offers_sets {
            // SAFETY: the caller's promise; the chained structures are of what is enabled, which is nothing below 1.1.
            unsafe { instance.get_physical_device_properties2(desc.physical_device, &mut answer) };
            answer.properties.limits
        } else {
            // SAFETY: as above.
            unsafe { instance.get_physical_device_properties(desc.physical_device) }.limits
        };

        let buffers = if offers_buffers && desc.descriptor_model != Some(DescriptorModel::Sets) {
            DescriptorBuffers::new(&wanted, &of_buffers)?
        } else {
            None
        };
        let model = match (&buffers, desc.descriptor_model) {
            (Some(_), _) => Some(DescriptorModel::Buffer),
            (None, Some(DescriptorModel::Sets) | None) if offers_sets => Some(DescriptorModel::Sets),
            (None, None) => None,
            (None, Some(_)) => return Err(DeviceError::Unsupported),
        };
        let visible = |kind| {
            let limits = match (model, &buffers) {
                (Some(DescriptorModel::Buffer), Some(buffers)) => {
                    buffers.limits(&wanted, &of_buffers, &core, kind)
                }
                (Some(DescriptorModel::Sets), _) => sets::limits(&wanted, &of_sets, kind),
                _ => ShaderVisibleHeapLimits { max_capacity: 0, reserved: 0, table_alignment: 1 },
            };
            let Some(model) = model else { return Ok(limits) };
            let shape = layouts::Shape { model, types, stages: wanted.stages };
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
                // One is the device's own.
                max_samplers: core.max_sampler_allocation_count.saturating_sub(1),
                raw_buffer_alignment: alignment(core.min_storage_buffer_offset_alignment.max(4)),
                constants_alignment: alignment(core.min_uniform_buffer_offset_alignment),
                max_raw_range: core.max_storage_buffer_range.into(),
                max_constants_range: core.max_uniform_buffer_range.into(),
            },
            samplers,
            nulls: enabled.contains(EnabledFeatures::NULL_DESCRIPTOR),
            default_sampler: vk::Sampler::null(),
            empty: Default::default(),
            buffers,
        };
        if model.is_some() {
            descriptors.default_sampler = samplers.create(raw, &SamplerDesc::default())?;
        }
        if let Some(buffers) = &descriptors.buffers {
            let bytes = |kind, what| buffers.bytes_of(raw, kind, &what);
            descriptors.empty = [
                bytes(ShaderVisibleHeapType::Resource, What::Null(types[0])),
                bytes(ShaderVisibleHeapType::Sampler, What::Sampler(descriptors.default_sampler)),
            ];
        }
        Ok(descriptors)
    }

    /// Gives all driver objects back. Called once, at the end.
    pub(super) fn destroy(&self, raw: &ash::Device) {
        // SAFETY: the device's own; null is no mistake. Nobody uses heaps any more, where it stands.
        unsafe { raw.destroy_sampler(self.default_sampler, None) };
    }

    /// What stands in slots of nothing, in heaps that remember and in sets.
    fn nothing(&self, kind: DescriptorHeapType) -> Option<What> {
        (kind == DescriptorHeapType::Sampler).then_some(What::Sampler(self.default_sampler))
    }
}

impl Shared {
    /// The address of a buffer where descriptors need one, else 0.
    ///
    /// # Safety
    ///
    /// As for [`Device::buffer_address`], where the device has descriptor buffers.
    unsafe fn address_for_descriptor(&self, buffer: vk::Buffer) -> u64 {
        // SAFETY: the caller's promise.
        let address = self.descriptors.buffers.as_ref().and_then(|_| unsafe { self.buffer_address(buffer) });
        address.unwrap_or(0)
    }
}

/// A heap of descriptors. [`destroy_descriptor_heap`](DescriptorDevice::destroy_descriptor_heap) takes it back.
#[must_use]
pub struct DescriptorHeap {
    usage: DescriptorHeapVisibility,
    capacity: u32,
    store: Store,
}

/// What a heap is.
enum Store {
    Bytes(ByteHeap),
    Set(SetHeap),
    Records(Records),
}

impl DescriptorHeap {
    /// Who reads it, and what it is of.
    #[must_use]
    pub fn usage(&self) -> DescriptorHeapVisibility {
        self.usage
    }

    /// Descriptors.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// What `vkCmdBindDescriptorBuffersEXT` takes; `None` where shaders do not see the heap by a buffer.
    #[must_use]
    pub fn binding_info(&self) -> Option<vk::DescriptorBufferBindingInfoEXT<'static>> {
        match &self.store {
            Store::Bytes(heap) => heap.bound().map(buffer::Bound::binding_info),
            Store::Set(_) | Store::Records(_) => None,
        }
    }

    /// What `vkCmdSetDescriptorBufferOffsetsEXT` takes for a table that begins with a slot, a multiple of
    /// [`table_alignment`](ShaderVisibleHeapLimits::table_alignment). 0 where the heap stands in no buffer.
    #[must_use]
    pub fn table_offset(&self, first: u32) -> u64 {
        match &self.store {
            Store::Bytes(heap) => heap.bytes(first),
            Store::Set(_) | Store::Records(_) => 0,
        }
    }

    /// The set that shaders see the heap by; `None` where they do so by a buffer, or not at all.
    #[must_use]
    pub fn set(&self) -> Option<vk::DescriptorSet> {
        match &self.store {
            Store::Set(heap) => Some(heap.set),
            Store::Bytes(_) | Store::Records(_) => None,
        }
    }

    /// The [layout](DescriptorSetLayout) of the whole heap, where shaders see it. It is the heap's, and goes with it.
    #[must_use]
    pub fn layout(&self) -> Option<vk::DescriptorSetLayout> {
        match &self.store {
            Store::Bytes(heap) => heap.bound().map(|bound| bound.layout),
            Store::Set(heap) => Some(heap.layout),
            Store::Records(_) => None,
        }
    }

    /// What was written into a slot of a staging heap of render targets or of depth images, for
    /// `VkRenderingAttachmentInfo` or a framebuffer. Null where nothing was written, and in other heaps.
    ///
    /// # Safety
    ///
    /// Nobody writes the slot meanwhile.
    ///
    /// # Panics
    ///
    /// When there is no such slot.
    #[must_use]
    pub unsafe fn image_view(&self, at: u32) -> vk::ImageView {
        assert!(at < self.capacity, "slot {at} of a heap of {}", self.capacity);
        let Store::Records(records) = &self.store else { return vk::ImageView::null() };
        // SAFETY: the caller's promise.
        match unsafe { records.read(at..at + 1) } {
            [Some(What::RenderTarget(view) | What::DepthStencil(view))] => *view,
            _ => vk::ImageView::null(),
        }
    }
}

impl fmt::Debug for DescriptorHeap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let store = match self.store {
            Store::Bytes(_) => "bytes",
            Store::Set(_) => "a set",
            Store::Records(_) => "records",
        };
        f.debug_struct("DescriptorHeap")
            .field("usage", &self.usage)
            .field("capacity", &self.capacity)
            .field("store", &store)
            .finish_non_exhaustive()
    }
}

impl Device {
    /// What shader-visible heaps are; `None` where there are none.
    #[must_use]
    pub fn descriptor_model(&self) -> Option<DescriptorModel> {
        self.shared.descriptors.model
    }

    /// What descriptors of resources may be: with sets, the first is binding 0 of the
    /// [layout](DescriptorSetLayout), and so on.
    #[must_use]
    pub fn descriptor_types(&self) -> &[vk::DescriptorType] {
        &self.shared.descriptors.types
    }

    /// The functions of `VK_EXT_descriptor_buffer`, where heaps are buffers.
    #[must_use]
    pub fn descriptor_buffer_functions(&self) -> Option<&ash::ext::descriptor_buffer::Device> {
        self.shared.descriptors.buffers.as_ref().map(|buffers| &buffers.functions)
    }

    /// Records that shaders see heaps, the first as the set `first_set` of a pipeline layout, and so on, in whichever
    /// way the device has. Pipelines for descriptor buffers are made with
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
    /// let layouts = [resources, samplers].map(|heap| heap.layout().expect("shaders see both"));
    /// let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts);
    /// // SAFETY: a valid description.
    /// let layout = unsafe { device.raw().create_pipeline_layout(&info, None) }?;
    ///
    /// // In each command buffer:
    /// let point = vk::PipelineBindPoint::GRAPHICS;
    /// // SAFETY: the commands are being recorded, all is live, and the layout is as the heaps are.
    /// unsafe { device.cmd_bind_descriptor_heaps(commands, point, layout, 0, &[resources, samplers]) };
    /// // SAFETY: as above.
    /// unsafe { device.raw().cmd_bind_pipeline(commands, point, pipeline) };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// With more than two heaps, and with one that shaders do not see: there are not more kinds, and drivers need not
    /// be able to bind two of one kind.
    ///
    /// # Safety
    ///
    /// The command buffer is being recorded, for a queue that can do such work. It and the heaps are of this device and
    /// live until the commands are done, and the sets of the pipeline layout are made with the heaps' layouts.
    pub unsafe fn cmd_bind_descriptor_heaps(
        &self,
        commands: vk::CommandBuffer,
        point: vk::PipelineBindPoint,
        layout: vk::PipelineLayout,
        first_set: u32,
        heaps: &[&DescriptorHeap],
    ) {
        const NOT_SEEN: &str = "shaders see the heap";
        let count = heaps.len();
        assert!(count <= 2, "there are no more than two kinds of shader-visible heaps");
        if count == 0 {
            return;
        }
        if let Some(functions) = self.descriptor_buffer_functions() {
            let mut infos = [vk::DescriptorBufferBindingInfoEXT::default(); 2];
            for (info, heap) in infos.iter_mut().zip(heaps) {
                *info = heap.binding_info().expect(NOT_SEEN);
            }
            // SAFETY: the caller's promise.
            unsafe { functions.cmd_bind_descriptor_buffers(commands, &infos[..count]) };
            let (indices, offsets) = (&[0, 1][..count], &[0, 0][..count]);
            // SAFETY: as above; these buffers were bound just now, and a base is a multiple of all alignments.
            unsafe {
                functions
                    .cmd_set_descriptor_buffer_offsets(commands, point, layout, first_set, indices, offsets);
            };
        } else {
            let mut sets = [vk::DescriptorSet::null(); 2];
            for (set, heap) in sets.iter_mut().zip(heaps) {
                *set = heap.set().expect(NOT_SEEN);
            }
            let sets = &sets[..count];
            // SAFETY: as above.
            unsafe { self.raw().cmd_bind_descriptor_sets(commands, point, layout, first_set, sets, &[]) };
        }
    }
}

impl Shared {
    fn create_heap(
        &self,
        desc: &DescriptorHeapDesc,
        memory: Option<DescriptorHeapBacking<'_, Device>>,
    ) -> Result<Store, DeviceError> {
        let descriptors = &self.descriptors;
        let capacity = desc.capacity;
        let kind = match desc.usage {
            _ if capacity == 0 => return Err(DeviceError::Unsupported),
            DescriptorHeapVisibility::ShaderVisible(kind) => kind,
            DescriptorHeapVisibility::CpuOnly(kind) => {
                let visible = match kind {
                    DescriptorHeapType::Resource => Some(ShaderVisibleHeapType::Resource),
                    DescriptorHeapType::Sampler => Some(ShaderVisibleHeapType::Sampler),
                    DescriptorHeapType::RenderTarget | DescriptorHeapType::DepthStencil => None,
                };
                return match (&descriptors.buffers, visible) {
                    (Some(buffers), Some(kind)) => buffers.staging_heap(kind, capacity).map(Store::Bytes),
                    _ => Ok(Store::Records(Records::new(capacity))),
                };
            }
        };
        if capacity > descriptors.limits.shader_visible(kind).max_capacity {
            return Err(DeviceError::Unsupported);
        }
        let layout = self.set_layout(kind, capacity)?;
        let made = match (&descriptors.buffers, memory) {
            (Some(buffers), Some(memory)) => {
                // SAFETY: live and made to have an address, as who makes the heap promises.
                let address = unsafe { self.address_for_descriptor(*memory.buffer) };
                // SAFETY: mapped, by the same promise.
                Ok(Store::Bytes(unsafe { buffers.heap_in(&memory, address, kind, layout) }))
            }
            (None, None) => {
                let types = match kind {
                    ShaderVisibleHeapType::Resource => &*descriptors.types,
                    ShaderVisibleHeapType::Sampler => &[vk::DescriptorType::SAMPLER],
                };
                SetHeap::new(&self.raw, types, capacity, layout).map(Store::Set)
            }
            (Some(_), None) | (None, Some(_)) => Err(DeviceError::Unsupported),
        };
        made.inspect_err(|_| {
            // SAFETY: made above, and used by nobody.
            unsafe { self.raw.destroy_descriptor_set_layout(layout, None) };
        })
    }

    /// # Safety
    ///
    /// As for [`write_null_descriptors`](DescriptorDevice::write_null_descriptors).
    unsafe fn empty(&self, heap: &DescriptorHeap, at: Range<u32>) {
        let descriptors = &self.descriptors;
        let kind = heap.usage.kind();
        match &heap.store {
            Store::Bytes(bytes) => {
                let empty = &descriptors.empty[usize::from(kind == DescriptorHeapType::Sampler)];
                // SAFETY: the caller's promise.
                unsafe { bytes.fill(at, empty) };
            }
            // SAFETY: as above.
            Store::Set(set) => unsafe { set.fill(&self.raw, descriptors, at, descriptors.nothing(kind)) },
            // SAFETY: as above.
            Store::Records(records) => unsafe { records.fill(at, descriptors.nothing(kind)) },
        }
    }
}

/// With [descriptor buffers](DescriptorModel::Buffer), buffers that descriptors are made of need
/// `VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT`.
///
/// **Null** descriptors of resources are null as the first of the device's
/// [types](super::DeviceDesc::with_descriptor_types), and with sets as every one of them. For that
/// [`EnabledFeatures::NULL_DESCRIPTOR`] must be said. Without it, zeros are written into descriptor buffers and nothing into sets:
/// what reads through them is undefined.
///
/// **Poisoned** descriptors are null ones: what else a driver would be given to read may crash it.
// SAFETY: a heap of bytes is as large as it was asked for, with slots apart by what the driver said; the others are
// arrays of the capacity. The limits are never written.
unsafe impl DescriptorDevice for Device {
    type DescriptorHeap = DescriptorHeap;
    type Descriptor<'a> = Descriptor<'a>;
    type Sampler = Sampler;

    fn descriptor_limits(&self) -> DescriptorLimits {
        self.shared.descriptors.limits
    }

    fn descriptor_kind(descriptor: &Descriptor<'_>) -> DescriptorHeapType {
        descriptor.what.kind()
    }

    /// Resources are written as one of the device's [types](Self::descriptor_types), and as no other.
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
                    // SAFETY: the heap's own; pipeline layouts need it no more.
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
            (Store::Bytes(_), None) => debug_assert!(false, "the heap is another device's"),
            // SAFETY: as above.
            (Store::Set(set), _) => unsafe { set.write(self.raw(), descriptors, at, descriptor.what) },
            // SAFETY: as above.
            (Store::Records(records), _) => unsafe { records.fill(at..at + 1, Some(descriptor.what)) },
        }
    }

    unsafe fn write_null_descriptors(&self, heap: &DescriptorHeap, at: Range<u32>) {
        // SAFETY: the caller's promise.
        unsafe { self.shared.empty(heap, at) };
    }

    unsafe fn poison_descriptors(&self, heap: &DescriptorHeap, at: Range<u32>) {
        // SAFETY: the caller's promise.
        unsafe { self.shared.empty(heap, at) };
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
            _ => debug_assert!(false, "{from:?} is no staging heap of the kind of {to:?}"),
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
