//! Heaps of `VK_EXT_descriptor_buffer`: the driver defines the bytes of a descriptor, and shaders read them directly
//! from the buffer.
//!
//! ```text
//!   the buffer  │ pad │ lead │ slot 0 │ slot 1 │ slot 2 │ …
//!                     └ base, which commands bind: a multiple of the offset alignment
//! ```
//!
//! A slot is as large as the largest of the device's types. `lead` is the offset of a set's only binding; it is 0 for
//! all drivers that we know. CPU descriptor heaps are the same slots in host memory, so a copy moves bytes.

use core::alloc::Layout;
use core::ops::Range;
use core::ptr::NonNull;
use std::alloc::{alloc_zeroed, dealloc};

use ash::vk;

use super::super::{BufferInfo, Device, EnabledFeatures};
use super::descriptor::What;
use super::{DescriptorModel, Setup, layouts};
use crate::device::{
    BufferDesc, DescriptorHeapAddress, DescriptorHeapBacking, DeviceError, ShaderVisibleHeapLimits,
    ShaderVisibleHeapType, write_bytes,
};

/// The properties of descriptor buffers, and the extension's functions.
pub(super) struct DescriptorBuffers {
    pub(super) functions: ash::ext::descriptor_buffer::Device,
    /// Bytes per descriptor, by the number of its type; 0 for types that the device does not use.
    sizes: [usize; TYPES],
    /// By [`ShaderVisibleHeapType`].
    shapes: [Shape; 2],
    /// Alignment of bindings and tables in bytes.
    alignment: u64,
    /// Whether null descriptors are written as such, otherwise as zeros.
    nulls: bool,
}

/// Number of descriptor types of Vulkan 1.0.
const TYPES: usize = 11;

/// Alignment of host memory: a cache line.
const LINE: usize = 64;

/// The slots of one heap type.
#[derive(Clone, Copy, Debug)]
struct Shape {
    stride: u32,
    /// Bytes before the first slot.
    lead: u64,
}

/// A heap that consists of bytes.
pub(super) struct ByteHeap {
    /// Address of the first slot.
    first: NonNull<u8>,
    stride: u32,
    backing: Backing,
}

/// The memory of a heap.
enum Backing {
    /// Host memory, allocated with this layout.
    Host(Layout),
    /// A buffer that the caller owns.
    Buffer(Bound),
}

/// The parameters for binding a heap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    base: u64,
    lead: u64,
    usage: vk::BufferUsageFlags,
    pub(super) layout: vk::DescriptorSetLayout,
}

// SAFETY: the heap owns the bytes; code that writes a slot promises that no other thread uses it meanwhile.
unsafe impl Send for ByteHeap {}
// SAFETY: as above.
unsafe impl Sync for ByteHeap {}

impl DescriptorBuffers {
    /// Returns `None` if the device's types cannot share a slot.
    ///
    /// # Errors
    ///
    /// The driver's error for a layout.
    pub(super) fn new(
        setup: &Setup<'_>,
        properties: &vk::PhysicalDeviceDescriptorBufferPropertiesEXT<'_>,
    ) -> Result<Option<Self>, DeviceError> {
        let sizes = sizes(properties, setup.types, setup.enabled);
        let functions = ash::ext::descriptor_buffer::Device::new(setup.instance, setup.raw);
        let shape = |kind, types: &[vk::DescriptorType]| {
            // `VK_EXT_mutable_descriptor_type` gives each descriptor of a mutable binding the room of its largest
            // type.
            let largest = types.iter().map(|ty| sizes[index(*ty)]).max().unwrap_or(0);
            measure(setup, &functions, kind, largest)
        };
        let resources = shape(ShaderVisibleHeapType::Resource, setup.types)?;
        let samplers = shape(ShaderVisibleHeapType::Sampler, &[vk::DescriptorType::SAMPLER])?;
        let (Some(resources), Some(samplers)) = (resources, samplers) else { return Ok(None) };
        Ok(Some(Self {
            functions,
            sizes,
            shapes: [resources, samplers],
            alignment: properties.descriptor_buffer_offset_alignment.max(1),
            nulls: setup.enabled.contains(EnabledFeatures::NULL_DESCRIPTOR),
        }))
    }

    pub(super) fn limits(
        &self,
        setup: &Setup<'_>,
        properties: &vk::PhysicalDeviceDescriptorBufferPropertiesEXT<'_>,
        core: &vk::PhysicalDeviceLimits,
        kind: ShaderVisibleHeapType,
    ) -> ShaderVisibleHeapLimits {
        let Shape { stride, lead } = self.shapes[kind as usize];
        let (range, space, only) = match kind {
            ShaderVisibleHeapType::Resource => (
                properties.max_resource_descriptor_buffer_range,
                properties.resource_descriptor_buffer_address_space_size,
                setup.types,
            ),
            ShaderVisibleHeapType::Sampler => (
                properties.max_sampler_descriptor_buffer_range,
                properties.sampler_descriptor_buffer_address_space_size,
                &[vk::DescriptorType::SAMPLER][..],
            ),
        };
        // The buffer must fit each limit: its bound range, the address space of its class, and that of all classes
        // together.
        let bytes =
            range.min(space).min(properties.descriptor_buffer_address_space_size).min(setup.max_buffer_size);
        let slots = bytes.saturating_sub(self.alignment - 1 + lead) / u64::from(stride);
        // No limit counts descriptors of a mutable type; those of a single type count as usual.
        // The last bytes of the range are lost to rounding the base up, since a driver may place the buffer at any
        // address.
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

    /// Describes the buffer of a heap, with room to align its base.
    pub(super) fn heap_buffer(&self, kind: ShaderVisibleHeapType, capacity: u32) -> BufferInfo<'static> {
        let Shape { stride, lead } = self.shapes[kind as usize];
        let size = self.alignment - 1 + lead + u64::from(capacity) * u64::from(stride);
        let usage = heap_usage(kind) | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        BufferInfo::from(BufferDesc::new(size)).used_exactly(usage)
    }

    /// Creates a heap in a buffer of [`heap_buffer`](Self::heap_buffer)'s description with this address.
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
        // Less than `alignment + lead`, which the size of the buffer includes.
        let before = (base - address + lead) as usize;
        // SAFETY: the caller's promise.
        let first = unsafe { memory.address.add(before) };
        ByteHeap {
            first,
            stride,
            backing: Backing::Buffer(Bound { base, lead, usage: heap_usage(kind), layout }),
        }
    }

    /// Creates a heap in host memory.
    pub(super) fn cpu_heap(
        &self,
        kind: ShaderVisibleHeapType,
        capacity: u32,
    ) -> Result<ByteHeap, DeviceError> {
        let stride = self.shapes[kind as usize].stride;
        // `Layout` of size 0 must not be passed to the allocator.
        let bytes = u64::from(stride) * u64::from(capacity.max(1));
        let layout = usize::try_from(bytes).ok().and_then(|bytes| Layout::from_size_align(bytes, LINE).ok());
        let layout = layout.ok_or(DeviceError::OutOfHostMemory)?;
        // SAFETY: not of size 0.
        let first = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(DeviceError::OutOfHostMemory)?;
        Ok(ByteHeap { first, stride, backing: Backing::Host(layout) })
    }

    /// Writes a descriptor with the driver.
    ///
    /// # Safety
    ///
    /// The slot is in the heap, no other thread uses it now, and what is written is live and of the heap's type.
    pub(super) unsafe fn write(&self, raw: &ash::Device, heap: &ByteHeap, at: u32, what: &What) {
        // SAFETY: the caller's promise.
        let to = unsafe { heap.slot(at) };
        // SAFETY: a slot is large enough for each type whose size is not 0.
        unsafe { self.write_to(raw, to, what) };
    }

    /// # Safety
    ///
    /// `to` has room for the descriptor, and no other thread uses it; what is written is live.
    unsafe fn write_to(&self, raw: &ash::Device, to: NonNull<u8>, what: &What) {
        // Render targets have no descriptor type; they end as a type of size 0.
        let ty = what.ty().unwrap_or(vk::DescriptorType::COMBINED_IMAGE_SAMPLER);
        let size = self.sizes.get(index(ty)).copied().unwrap_or(0);
        if size == 0 {
            debug_assert!(false, "{what:?} is of a type that the device does not have");
            return;
        }
        let (image, address, handle);
        // Declared here, since `VkDescriptorDataEXT` has pointers to them that must live until the call.
        let data = match *what {
            Null(_) if !self.nulls => {
                // SAFETY: the caller's promise.
                return unsafe { zero(to, size) };
            }
            // All pointers null: the value of a null descriptor.
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
                // Descriptor buffers store the address and not the handle, so offset and range are resolved here.
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
        // Called through the function pointer, since `ash` takes a slice: a queue may read the bytes during the call,
        // which a reference rules out.
        // SAFETY: what `info` points to lives in this function, `size` is the type's, and `to` has room for it.
        unsafe { write(raw.handle(), &raw const info, size, to.as_ptr().cast()) };
    }

    /// Returns the bytes of a slot that contains `what`, padded with zeros.
    pub(super) fn bytes_of(&self, raw: &ash::Device, kind: ShaderVisibleHeapType, what: &What) -> Box<[u8]> {
        let mut bytes = vec![0; self.stride(kind) as usize].into_boxed_slice();
        if let Some(first) = NonNull::new(bytes.as_mut_ptr()) {
            // SAFETY: as large as a slot, and used by no other code.
            unsafe { self.write_to(raw, first, what) };
        }
        bytes
    }
}

use What::Null;

impl ByteHeap {
    /// # Safety
    ///
    /// The slot is in the heap.
    unsafe fn slot(&self, at: u32) -> NonNull<u8> {
        // SAFETY: the heap's bytes are one object, and the slot lies in it by the caller's promise.
        unsafe { self.first.add(at as usize * self.stride as usize) }
    }

    /// Writes the same bytes, of a slot's size, into each slot.
    ///
    /// # Safety
    ///
    /// The slots are in the heap, and no other thread uses them now.
    pub(super) unsafe fn fill(&self, at: Range<u32>, bytes: &[u8]) {
        for at in at {
            // SAFETY: the caller's promise.
            let to = unsafe { self.slot(at) };
            // SAFETY: as above.
            unsafe { write_bytes(to, bytes) };
        }
    }

    /// Copies slots from this CPU descriptor heap.
    ///
    /// # Safety
    ///
    /// The slots lie in their heaps, which are of one type, and do not overlap. No thread writes those of this
    /// heap now, which is not shader-visible, and no other thread uses those of the other.
    pub(super) unsafe fn copy_to(&self, from: Range<u32>, to: &Self, to_at: u32) {
        // A plain slice is enough for the source: no queue reads a CPU heap, and no thread writes it now.
        let bytes = (from.end - from.start) as usize * self.stride as usize;
        // SAFETY: the caller's promise.
        let source = unsafe { self.slot(from.start) };
        // SAFETY: as above; the bytes were initialised to zeros.
        let source = unsafe { core::slice::from_raw_parts(source.as_ptr(), bytes) };
        // SAFETY: as above.
        let to = unsafe { to.slot(to_at) };
        // SAFETY: as above.
        unsafe { write_bytes(to, source) };
    }

    /// Returns the parameters for binding the heap if it is shader-visible.
    pub(super) fn bound(&self) -> Option<&Bound> {
        match &self.backing {
            Backing::Host(_) => None,
            Backing::Buffer(bound) => Some(bound),
        }
    }

    pub(super) fn address(&self) -> DescriptorHeapAddress {
        let gpu = self.bound().map_or(0, |bound| bound.base + bound.lead);
        DescriptorHeapAddress { cpu: self.first.addr().get() as u64, gpu }
    }

    /// Returns the bytes of `slots` slots.
    pub(super) fn bytes(&self, slots: u32) -> u64 {
        u64::from(slots) * u64::from(self.stride)
    }
}

impl Bound {
    /// Returns the argument for `vkCmdBindDescriptorBuffersEXT`.
    pub(super) fn binding_info(&self) -> vk::DescriptorBufferBindingInfoEXT<'static> {
        // The binding names the usage of the buffer's creation, and `heap_buffer` added the address flag there.
        let usage = self.usage | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        vk::DescriptorBufferBindingInfoEXT::default().address(self.base).usage(usage)
    }
}

impl Drop for ByteHeap {
    fn drop(&mut self) {
        if let Backing::Host(layout) = self.backing {
            // SAFETY: allocated with this layout, and freed once.
            unsafe { dealloc(self.first.as_ptr(), layout) };
        }
    }
}

/// # Safety
///
/// `to` is valid for writes of `bytes` bytes, and no other thread uses them.
unsafe fn zero(to: NonNull<u8>, bytes: usize) {
    // On the stack and in pieces, so that a null descriptor of any size costs no heap allocation.
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

/// Returns the index of a type; for types of extensions, that of a type without a size.
fn index(ty: vk::DescriptorType) -> usize {
    let other = vk::DescriptorType::COMBINED_IMAGE_SAMPLER.as_raw();
    let number = if (0..TYPES as i32).contains(&ty.as_raw()) { ty.as_raw() } else { other };
    number.unsigned_abs() as usize
}

/// Returns the bytes per descriptor for some types, and for samplers.
fn sizes(
    properties: &vk::PhysicalDeviceDescriptorBufferPropertiesEXT<'_>,
    types: &[vk::DescriptorType],
    enabled: EnabledFeatures,
) -> [usize; TYPES] {
    // With `robustBufferAccess` the driver stores bounds in descriptors of buffers, so their size differs.
    // `vkGetDescriptorEXT` requires exactly that size.
    let robust = enabled.contains(EnabledFeatures::ROBUST_BUFFER_ACCESS);
    let either = |plain, with_bounds| if robust { with_bounds } else { plain };
    let size = |ty| match ty {
        vk::DescriptorType::SAMPLED_IMAGE => properties.sampled_image_descriptor_size,
        vk::DescriptorType::STORAGE_IMAGE => properties.storage_image_descriptor_size,
        vk::DescriptorType::UNIFORM_TEXEL_BUFFER => either(
            properties.uniform_texel_buffer_descriptor_size,
            properties.robust_uniform_texel_buffer_descriptor_size,
        ),
        vk::DescriptorType::STORAGE_TEXEL_BUFFER => either(
            properties.storage_texel_buffer_descriptor_size,
            properties.robust_storage_texel_buffer_descriptor_size,
        ),
        vk::DescriptorType::UNIFORM_BUFFER => either(
            properties.uniform_buffer_descriptor_size,
            properties.robust_uniform_buffer_descriptor_size,
        ),
        vk::DescriptorType::STORAGE_BUFFER => either(
            properties.storage_buffer_descriptor_size,
            properties.robust_storage_buffer_descriptor_size,
        ),
        _ => 0,
    };
    let mut sizes = [0; TYPES];
    for &ty in types {
        sizes[index(ty)] = size(ty);
    }
    sizes[index(vk::DescriptorType::SAMPLER)] = properties.sampler_descriptor_size;
    sizes
}

/// Measures a layout. Returns `None` if its descriptors are not `largest` bytes apart, as the specification
/// requires.
fn measure(
    setup: &Setup<'_>,
    functions: &ash::ext::descriptor_buffer::Device,
    kind: ShaderVisibleHeapType,
    largest: usize,
) -> Result<Option<Shape>, DeviceError> {
    /// So many that a wrong stride adds up to more than the rounding of a layout's size.
    const MANY: u32 = 1024;
    let shape = layouts::Shape { model: DescriptorModel::Buffer, types: setup.types, stages: setup.stages };
    let layout = shape.create(setup.raw, kind, MANY)?;
    // SAFETY: the layout is live, and created for descriptor buffers.
    let size = unsafe { functions.get_descriptor_set_layout_size(layout) };
    // SAFETY: as above; it has a binding 0.
    let lead = unsafe { functions.get_descriptor_set_layout_binding_offset(layout, 0) };
    // SAFETY: created above and used by no other code.
    unsafe { setup.raw.destroy_descriptor_set_layout(layout, None) };
    let many = u64::from(MANY);
    let stride = size.saturating_sub(lead) / many;
    // The specification fixes the stride of an array to the type's size. A driver that deviates would make tables
    // unusable, so its heaps are sets.
    let as_specified = stride == largest as u64 && stride > 0;
    Ok(u32::try_from(stride).ok().filter(|_| as_specified).map(|stride| Shape { stride, lead }))
}

/// Returns how many descriptors of a type, without update-after-bind, a pipeline can access.
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

/// Returns the smallest number of descriptors whose bytes are a multiple of the alignment, a power of two.
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
