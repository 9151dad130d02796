//! Heaps of `VK_EXT_descriptor_buffer`: the driver says what the bytes of a descriptor are, and shaders read them where
//! they stand.
//!
//! ```text
//!   the buffer  │ pad │ lead │ slot 0 │ slot 1 │ slot 2 │ …
//!                     └ base, which commands bind: a multiple of the offset alignment
//! ```
//!
//! A slot has room for each of the device's types: it is as large as the largest. `lead` is what a driver puts before a
//! set's only binding; none that we know puts anything there. Staging heaps are the same slots in ordinary memory, so a
//! copy moves bytes.

use core::alloc::Layout;
use core::ops::Range;
use core::ptr::NonNull;
use std::alloc::{alloc_zeroed, dealloc};

use ash::vk;

use super::super::{BufferInfo, Device, EnabledFeatures};
use super::view::What;
use super::{DescriptorModel, Wanted, layouts};
use crate::device::{
    BufferDesc, DescriptorHeapAddress, DescriptorHeapBacking, DeviceError, ShaderVisibleHeapLimits,
    ShaderVisibleHeapType, write_bytes,
};

/// What the driver says of descriptor buffers, and its functions.
pub(super) struct DescriptorBuffers {
    pub(super) functions: ash::ext::descriptor_buffer::Device,
    /// Bytes of a descriptor by the number of its type, 0 for types that the device does not have.
    sizes: [usize; TYPES],
    /// By [`ShaderVisibleHeapType`].
    shapes: [Shape; 2],
    /// What bindings and tables begin at multiples of.
    alignment: u64,
    /// Null descriptors are written as such, else as zeros.
    nulls: bool,
}

/// The types that Vulkan 1.0 has, by number.
const TYPES: usize = 11;

/// Ordinary memory begins at multiples of this: a line of the cache.
const LINE: usize = 64;

/// The slots of a kind.
#[derive(Clone, Copy, Debug)]
struct Shape {
    stride: u32,
    /// Bytes before the first slot.
    lead: u64,
}

/// A heap that is bytes.
pub(super) struct ByteHeap {
    /// Of the first slot.
    first: NonNull<u8>,
    stride: u32,
    place: Place,
}

/// Where the bytes are.
enum Place {
    /// In memory that this layout was got with.
    Host(Layout),
    /// In a buffer of somebody else's.
    Buffer(Bound),
}

/// How commands bind a heap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    base: u64,
    lead: u64,
    usage: vk::BufferUsageFlags,
    pub(super) layout: vk::DescriptorSetLayout,
}

// SAFETY: the bytes are the heap's; who writes a slot promises that nobody else uses it meanwhile.
unsafe impl Send for ByteHeap {}
// SAFETY: as above.
unsafe impl Sync for ByteHeap {}

impl DescriptorBuffers {
    /// `None` where the device's types cannot stand in one slot.
    ///
    /// # Errors
    ///
    /// What the driver refuses a layout with.
    pub(super) fn new(
        wanted: &Wanted<'_>,
        said: &vk::PhysicalDeviceDescriptorBufferPropertiesEXT<'_>,
    ) -> Result<Option<Self>, DeviceError> {
        let sizes = sizes(said, wanted.types, wanted.enabled);
        let functions = ash::ext::descriptor_buffer::Device::new(wanted.instance, wanted.raw);
        let shape = |kind, types: &[vk::DescriptorType]| {
            let largest = types.iter().map(|ty| sizes[index(*ty)]).max().unwrap_or(0);
            measure(wanted, &functions, kind, largest)
        };
        let resources = shape(ShaderVisibleHeapType::Resource, wanted.types)?;
        let samplers = shape(ShaderVisibleHeapType::Sampler, &[vk::DescriptorType::SAMPLER])?;
        let (Some(resources), Some(samplers)) = (resources, samplers) else { return Ok(None) };
        Ok(Some(Self {
            functions,
            sizes,
            shapes: [resources, samplers],
            alignment: said.descriptor_buffer_offset_alignment.max(1),
            nulls: wanted.enabled.contains(EnabledFeatures::NULL_DESCRIPTOR),
        }))
    }

    pub(super) fn limits(
        &self,
        wanted: &Wanted<'_>,
        said: &vk::PhysicalDeviceDescriptorBufferPropertiesEXT<'_>,
        core: &vk::PhysicalDeviceLimits,
        kind: ShaderVisibleHeapType,
    ) -> ShaderVisibleHeapLimits {
        let Shape { stride, lead } = self.shapes[kind as usize];
        let (range, space, only) = match kind {
            ShaderVisibleHeapType::Resource => (
                said.max_resource_descriptor_buffer_range,
                said.resource_descriptor_buffer_address_space_size,
                wanted.types,
            ),
            ShaderVisibleHeapType::Sampler => (
                said.max_sampler_descriptor_buffer_range,
                said.sampler_descriptor_buffer_address_space_size,
                &[vk::DescriptorType::SAMPLER][..],
            ),
        };
        let bytes =
            range.min(space).min(said.descriptor_buffer_address_space_size).min(wanted.max_buffer_size);
        let slots = bytes.saturating_sub(self.alignment - 1 + lead) / u64::from(stride);
        // Layouts of a mutable type are counted nowhere; those of one type are, as any others.
        let counted = match *only {
            [only] => counted(core, only),
            _ => u32::MAX,
        };
        ShaderVisibleHeapLimits {
            max_capacity: u32::try_from(slots).unwrap_or(u32::MAX).min(counted),
            reserved: 0,
            table_alignment: table_alignment(self.alignment, stride),
        }
    }

    pub(super) fn stride(&self, kind: ShaderVisibleHeapType) -> u32 {
        self.shapes[kind as usize].stride
    }

    /// The buffer of a heap, with room for its base to be aligned.
    pub(super) fn heap_buffer(&self, kind: ShaderVisibleHeapType, capacity: u32) -> BufferInfo<'static> {
        let Shape { stride, lead } = self.shapes[kind as usize];
        let size = self.alignment - 1 + lead + u64::from(capacity) * u64::from(stride);
        let usage = heap_usage(kind) | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        BufferInfo::from(BufferDesc::new(size)).used_exactly(usage)
    }

    /// A heap of a layout, in a buffer as [`heap_buffer`](Self::heap_buffer) describes it, which has this address.
    ///
    /// # Safety
    ///
    /// The buffer is live and mapped as a whole.
    pub(super) unsafe fn heap_in(
        &self,
        memory: &DescriptorHeapBacking<'_, Device>,
        address: u64,
        kind: ShaderVisibleHeapType,
        layout: vk::DescriptorSetLayout,
    ) -> ByteHeap {
        let Shape { stride, lead } = self.shapes[kind as usize];
        let base = address.next_multiple_of(self.alignment);
        // Less than `alignment + lead`, for which there is room.
        let before = (base - address + lead) as usize;
        // SAFETY: the caller's promise.
        let first = unsafe { memory.address.add(before) };
        ByteHeap {
            first,
            stride,
            place: Place::Buffer(Bound { base, lead, usage: heap_usage(kind), layout }),
        }
    }

    /// A heap in ordinary memory.
    pub(super) fn staging_heap(
        &self,
        kind: ShaderVisibleHeapType,
        capacity: u32,
    ) -> Result<ByteHeap, DeviceError> {
        let stride = self.shapes[kind as usize].stride;
        let bytes = u64::from(stride) * u64::from(capacity.max(1));
        let layout = usize::try_from(bytes).ok().and_then(|bytes| Layout::from_size_align(bytes, LINE).ok());
        let layout = layout.ok_or(DeviceError::OutOfHostMemory)?;
        // SAFETY: not of size 0.
        let first = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(DeviceError::OutOfHostMemory)?;
        Ok(ByteHeap { first, stride, place: Place::Host(layout) })
    }

    /// Has the driver write a descriptor.
    ///
    /// # Safety
    ///
    /// The slot is the heap's, nobody else uses it now, and what is written is live and of the heap's kind.
    pub(super) unsafe fn write(&self, raw: &ash::Device, heap: &ByteHeap, at: u32, what: &What) {
        // SAFETY: the caller's promise.
        let to = unsafe { heap.slot(at) };
        // SAFETY: a slot has room for each type that has a size.
        unsafe { self.write_to(raw, to, what) };
    }

    /// # Safety
    ///
    /// There is room for the descriptor, and nobody else uses it; what is written is live.
    unsafe fn write_to(&self, raw: &ash::Device, to: NonNull<u8>, what: &What) {
        let ty = what.ty().unwrap_or(vk::DescriptorType::COMBINED_IMAGE_SAMPLER);
        let size = self.sizes.get(index(ty)).copied().unwrap_or(0);
        if size == 0 {
            debug_assert!(false, "{what:?} is of a type that the device does not have");
            return;
        }
        let (image, address, handle);
        let data = match *what {
            Null(_) if !self.nulls => {
                // SAFETY: the caller's promise.
                return unsafe { zero(to, size) };
            }
            // No pointer to anything.
            Null(_) => vk::DescriptorDataEXT::default(),
            What::Image { ty, view, layout } => {
                image = vk::DescriptorImageInfo::default().image_view(view).image_layout(layout);
                if ty == vk::DescriptorType::STORAGE_IMAGE {
                    vk::DescriptorDataEXT { p_storage_image: &raw const image }
                } else {
                    vk::DescriptorDataEXT { p_sampled_image: &raw const image }
                }
            }
            What::Buffer { ty, address: first, range: [start, size], .. } => {
                address = vk::DescriptorAddressInfoEXT::default().address(first + start).range(size);
                if ty == vk::DescriptorType::UNIFORM_BUFFER {
                    vk::DescriptorDataEXT { p_uniform_buffer: &raw const address }
                } else {
                    vk::DescriptorDataEXT { p_storage_buffer: &raw const address }
                }
            }
            What::Texels { ty, address: first, size, format, .. } => {
                address = vk::DescriptorAddressInfoEXT::default().address(first).range(size).format(format);
                if ty == vk::DescriptorType::UNIFORM_TEXEL_BUFFER {
                    vk::DescriptorDataEXT { p_uniform_texel_buffer: &raw const address }
                } else {
                    vk::DescriptorDataEXT { p_storage_texel_buffer: &raw const address }
                }
            }
            What::Sampler(sampler) => {
                handle = sampler;
                vk::DescriptorDataEXT { p_sampler: &raw const handle }
            }
            What::RenderTarget(_) | What::DepthStencil(_) => return,
        };
        let info = vk::DescriptorGetInfoEXT::default().ty(ty).data(data);
        let write = self.functions.fp().get_descriptor_ext;
        // By address, since the bytes may be read by a queue meanwhile, which a reference rules out.
        // SAFETY: what `info` points at lives here, `size` is the type's, and there is room for it.
        unsafe { write(raw.handle(), &raw const info, size, to.as_ptr().cast()) };
    }

    /// What a slot holds with `what` in it, and zeros behind that.
    pub(super) fn bytes_of(&self, raw: &ash::Device, kind: ShaderVisibleHeapType, what: &What) -> Box<[u8]> {
        let mut bytes = vec![0; self.stride(kind) as usize].into_boxed_slice();
        if let Some(first) = NonNull::new(bytes.as_mut_ptr()) {
            // SAFETY: as large as a slot, and nobody else's.
            unsafe { self.write_to(raw, first, what) };
        }
        bytes
    }
}

use What::Null;

impl ByteHeap {
    /// # Safety
    ///
    /// The slot is the heap's.
    unsafe fn slot(&self, at: u32) -> NonNull<u8> {
        // SAFETY: the heap's bytes are one object, of which this is a part by the caller's promise.
        unsafe { self.first.add(at as usize * self.stride as usize) }
    }

    /// Writes the same bytes, as many as a slot has, into slots.
    ///
    /// # Safety
    ///
    /// The slots are the heap's, and nobody else uses them now.
    pub(super) unsafe fn fill(&self, at: Range<u32>, bytes: &[u8]) {
        for at in at {
            // SAFETY: the caller's promise.
            let to = unsafe { self.slot(at) };
            // SAFETY: as above.
            unsafe { write_bytes(to, bytes) };
        }
    }

    /// Copies slots out of a staging heap.
    ///
    /// # Safety
    ///
    /// The slots lie in their heaps, which are of one kind, and do not overlap. Nobody writes those of this heap now,
    /// which is no shader-visible one, and nobody else uses those of the other.
    pub(super) unsafe fn copy_to(&self, from: Range<u32>, to: &Self, to_at: u32) {
        let bytes = (from.end - from.start) as usize * self.stride as usize;
        // SAFETY: the caller's promise.
        let source = unsafe { self.slot(from.start) };
        // SAFETY: as above; the bytes were zeros at first.
        let source = unsafe { core::slice::from_raw_parts(source.as_ptr(), bytes) };
        // SAFETY: as above.
        let to = unsafe { to.slot(to_at) };
        // SAFETY: as above.
        unsafe { write_bytes(to, source) };
    }

    /// How commands bind it, where shaders see it.
    pub(super) fn bound(&self) -> Option<&Bound> {
        match &self.place {
            Place::Host(_) => None,
            Place::Buffer(bound) => Some(bound),
        }
    }

    pub(super) fn address(&self) -> DescriptorHeapAddress {
        let gpu = self.bound().map_or(0, |bound| bound.base + bound.lead);
        DescriptorHeapAddress { cpu: self.first.addr().get() as u64, gpu }
    }

    /// Bytes of slots.
    pub(super) fn bytes(&self, slots: u32) -> u64 {
        u64::from(slots) * u64::from(self.stride)
    }
}

impl Bound {
    /// What `vkCmdBindDescriptorBuffersEXT` takes.
    pub(super) fn binding_info(&self) -> vk::DescriptorBufferBindingInfoEXT<'static> {
        let usage = self.usage | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        vk::DescriptorBufferBindingInfoEXT::default().address(self.base).usage(usage)
    }
}

impl Drop for ByteHeap {
    fn drop(&mut self) {
        if let Place::Host(layout) = self.place {
            // SAFETY: got with this layout, and given back once.
            unsafe { dealloc(self.first.as_ptr(), layout) };
        }
    }
}

/// # Safety
///
/// There are so many bytes, and nobody else uses them.
unsafe fn zero(to: NonNull<u8>, bytes: usize) {
    const ZEROS: [u8; 256] = [0; 256];
    for at in (0..bytes).step_by(ZEROS.len()) {
        // SAFETY: the caller's promise.
        let to = unsafe { to.add(at) };
        // SAFETY: as above.
        unsafe { write_bytes(to, &ZEROS[..ZEROS.len().min(bytes - at)]) };
    }
}

fn heap_usage(kind: ShaderVisibleHeapType) -> vk::BufferUsageFlags {
    match kind {
        ShaderVisibleHeapType::Resource => vk::BufferUsageFlags::RESOURCE_DESCRIPTOR_BUFFER_EXT,
        ShaderVisibleHeapType::Sampler => vk::BufferUsageFlags::SAMPLER_DESCRIPTOR_BUFFER_EXT,
    }
}

/// The number of a type; one without a size, for those that extensions added.
fn index(ty: vk::DescriptorType) -> usize {
    let other = vk::DescriptorType::COMBINED_IMAGE_SAMPLER.as_raw();
    let number = if (0..TYPES as i32).contains(&ty.as_raw()) { ty.as_raw() } else { other };
    number.unsigned_abs() as usize
}

/// Bytes of the descriptors of some types, and of samplers.
fn sizes(
    said: &vk::PhysicalDeviceDescriptorBufferPropertiesEXT<'_>,
    types: &[vk::DescriptorType],
    enabled: EnabledFeatures,
) -> [usize; TYPES] {
    let robust = enabled.contains(EnabledFeatures::ROBUST_BUFFER_ACCESS);
    let either = |plain, with_bounds| if robust { with_bounds } else { plain };
    let size = |ty| match ty {
        vk::DescriptorType::SAMPLED_IMAGE => said.sampled_image_descriptor_size,
        vk::DescriptorType::STORAGE_IMAGE => said.storage_image_descriptor_size,
        vk::DescriptorType::UNIFORM_TEXEL_BUFFER => either(
            said.uniform_texel_buffer_descriptor_size,
            said.robust_uniform_texel_buffer_descriptor_size,
        ),
        vk::DescriptorType::STORAGE_TEXEL_BUFFER => either(
            said.storage_texel_buffer_descriptor_size,
            said.robust_storage_texel_buffer_descriptor_size,
        ),
        vk::DescriptorType::UNIFORM_BUFFER => {
            either(said.uniform_buffer_descriptor_size, said.robust_uniform_buffer_descriptor_size)
        }
        vk::DescriptorType::STORAGE_BUFFER => {
            either(said.storage_buffer_descriptor_size, said.robust_storage_buffer_descriptor_size)
        }
        _ => 0,
    };
    let mut sizes = [0; TYPES];
    for &ty in types {
        sizes[index(ty)] = size(ty);
    }
    sizes[index(vk::DescriptorType::SAMPLER)] = said.sampler_descriptor_size;
    sizes
}

/// Looks whether a layout's descriptors are `largest` bytes apart, as the specification says; `None` where they are not.
fn measure(
    wanted: &Wanted<'_>,
    functions: &ash::ext::descriptor_buffer::Device,
    kind: ShaderVisibleHeapType,
    largest: usize,
) -> Result<Option<Shape>, DeviceError> {
    /// Enough that a wrong distance is larger than what layouts are rounded up to.
    const MANY: u32 = 1024;
    let shape = layouts::Shape { model: DescriptorModel::Buffer, types: wanted.types, stages: wanted.stages };
    let layout = shape.make(wanted.raw, kind, MANY)?;
    // SAFETY: the layout is live, and made for descriptor buffers.
    let size = unsafe { functions.get_descriptor_set_layout_size(layout) };
    // SAFETY: as above; it has a binding 0.
    let lead = unsafe { functions.get_descriptor_set_layout_binding_offset(layout, 0) };
    // SAFETY: made above, and used by nobody.
    unsafe { wanted.raw.destroy_descriptor_set_layout(layout, None) };
    let many = u64::from(MANY);
    let stride = size.saturating_sub(lead) / many;
    let as_said = stride == largest as u64 && stride > 0;
    Ok(u32::try_from(stride).ok().filter(|_| as_said).map(|stride| Shape { stride, lead }))
}

/// How many descriptors of a type a pipeline can see that are not updated after they are bound.
fn counted(core: &vk::PhysicalDeviceLimits, ty: vk::DescriptorType) -> u32 {
    match ty {
        vk::DescriptorType::SAMPLER => {
            core.max_per_stage_descriptor_samplers.min(core.max_descriptor_set_samplers)
        }
        vk::DescriptorType::SAMPLED_IMAGE | vk::DescriptorType::UNIFORM_TEXEL_BUFFER => {
            core.max_per_stage_descriptor_sampled_images.min(core.max_descriptor_set_sampled_images)
        }
        vk::DescriptorType::STORAGE_IMAGE | vk::DescriptorType::STORAGE_TEXEL_BUFFER => {
            core.max_per_stage_descriptor_storage_images.min(core.max_descriptor_set_storage_images)
        }
        vk::DescriptorType::UNIFORM_BUFFER => {
            core.max_per_stage_descriptor_uniform_buffers.min(core.max_descriptor_set_uniform_buffers)
        }
        _ => core.max_per_stage_descriptor_storage_buffers.min(core.max_descriptor_set_storage_buffers),
    }
}

/// The fewest descriptors whose bytes are a multiple of the alignment, a power of two.
fn table_alignment(alignment: u64, stride: u32) -> u32 {
    let shared = 1 << alignment.trailing_zeros().min(stride.trailing_zeros());
    u32::try_from(alignment / shared).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_begin_where_the_driver_can_bind_them_and_no_rarer() {
        for (alignment, stride, expected) in
            [(64, 32, 2), (64, 64, 1), (64, 16, 4), (1, 24, 1), (64, 24, 8), (16, 128, 1), (256, 4, 64)]
        {
            let found = table_alignment(alignment, stride);
            assert_eq!(found, expected, "{alignment}, {stride}");
            assert_eq!(u64::from(found * stride) % alignment, 0);
        }
    }

    #[test]
    fn sizes_are_those_of_robust_access_where_that_is_enabled() {
        let said = vk::PhysicalDeviceDescriptorBufferPropertiesEXT {
            storage_buffer_descriptor_size: 16,
            robust_storage_buffer_descriptor_size: 32,
            sampler_descriptor_size: 4,
            ..Default::default()
        };
        let types = [vk::DescriptorType::STORAGE_BUFFER];
        let plain = sizes(&said, &types, EnabledFeatures::empty());
        let robust = sizes(&said, &types, EnabledFeatures::ROBUST_BUFFER_ACCESS);
        assert_eq!((plain[7], robust[7]), (16, 32));
        assert_eq!((plain[0], robust[0]), (4, 4));
        assert_eq!(plain[index(vk::DescriptorType::ACCELERATION_STRUCTURE_KHR)], 0);
    }
}
