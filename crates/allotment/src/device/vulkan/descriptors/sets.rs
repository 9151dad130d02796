//! Heaps of descriptor indexing: an update-after-bind set with one array for each of the device's types. A slot is the
//! same index in each array.
//!
//! ```text
//!   binding 0  storage buffers   ░ ▓ ░ ░ ▓ ░
//!   binding 1  uniform buffers   ▓ ░ ░ ░ ░ ░
//!   binding 2  sampled images    ░ ░ ░ ▓ ░ ░
//!                                0 1 2 3 4 5   slots
//! ```
//!
//! A slot costs one descriptor of each type. A previous descriptor of another type stays in the slot's other arrays,
//! where no shader reads it.

use core::ops::Range;

use ash::vk;

use super::super::refused;
use super::descriptor::What;
use super::{Descriptors, Setup};
use crate::device::{DeviceError, ShaderVisibleHeapLimits, ShaderVisibleHeapType};

/// A heap that is a descriptor set.
#[derive(Debug)]
pub(super) struct SetHeap {
    pool: vk::DescriptorPool,
    pub(super) set: vk::DescriptorSet,
    pub(super) layout: vk::DescriptorSetLayout,
}

/// Descriptors per driver call. The structures are on the stack.
const MANY: usize = 64;

impl SetHeap {
    /// Allocates a set of a layout, which the heap owns from then on.
    pub(super) fn new(
        raw: &ash::Device,
        types: &[vk::DescriptorType],
        capacity: u32,
        layout: vk::DescriptorSetLayout,
    ) -> Result<Self, DeviceError> {
        // One pool per set: pools cannot be enlarged, and a heap is destroyed as a whole.
        let sizes: Vec<_> = types
            .iter()
            .map(|&ty| vk::DescriptorPoolSize::default().ty(ty).descriptor_count(capacity))
            .collect();
        let info = vk::DescriptorPoolCreateInfo::default()
            // A set of an update-after-bind layout must come from a pool with this flag (VUID 03044).
            .flags(vk::DescriptorPoolCreateFlags::UPDATE_AFTER_BIND)
            .max_sets(1)
            .pool_sizes(&sizes);
        // SAFETY: a valid description, whose features are enabled.
        let pool = unsafe { raw.create_descriptor_pool(&info, None) }.map_err(refused)?;
        let layouts = [layout];
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
        // SAFETY: the pool is new, and large enough for exactly this set.
        match unsafe { raw.allocate_descriptor_sets(&info) } {
            Ok(sets) => Ok(Self { pool, set: sets[0], layout }),
            Err(error) => {
                // SAFETY: created above and used by no other code.
                unsafe { raw.destroy_descriptor_pool(pool, None) };
                Err(refused(error))
            }
        }
    }

    /// # Safety
    ///
    /// Neither a thread nor a queue uses the set any more.
    pub(super) unsafe fn destroy(self, raw: &ash::Device) {
        // SAFETY: the pool is the heap's own and unused by the caller's promise; the set is freed with it.
        unsafe { raw.destroy_descriptor_pool(self.pool, None) };
        // SAFETY: as above.
        unsafe { raw.destroy_descriptor_set_layout(self.layout, None) };
    }

    /// Writes one descriptor.
    ///
    /// # Safety
    ///
    /// The slot is in the heap, no other thread uses it now, and what is written is live and of the heap's type.
    pub(super) unsafe fn write(&self, raw: &ash::Device, device: &Descriptors, at: u32, what: What) {
        // SAFETY: the caller's promise.
        unsafe { self.write_run::<1>(raw, device, at, core::iter::once(what)) };
    }

    /// Writes the same descriptor into each slot of a range; for `None`, a null of each of the device's types.
    ///
    /// # Safety
    ///
    /// The conditions of [`write`](Self::write) apply.
    pub(super) unsafe fn fill(
        &self,
        raw: &ash::Device,
        device: &Descriptors,
        at: Range<u32>,
        what: Option<What>,
    ) {
        let each = |what| core::iter::repeat_n(what, (at.end - at.start) as usize);
        match what {
            // SAFETY: the caller's promise.
            Some(what) => unsafe { self.write_run::<MANY>(raw, device, at.start, each(what)) },
            // The next reader may read the slot as any type, so each array gets its null.
            None => {
                for &ty in &*device.types {
                    // SAFETY: as above.
                    unsafe { self.write_run::<MANY>(raw, device, at.start, each(What::Null(ty))) };
                }
            }
        }
    }

    /// Writes the values of a CPU descriptor heap.
    ///
    /// # Safety
    ///
    /// The conditions of [`write`](Self::write) apply, for each of the slots.
    pub(super) unsafe fn write_all(
        &self,
        raw: &ash::Device,
        device: &Descriptors,
        at: u32,
        whats: &[Option<What>],
    ) {
        let mut at = at;
        let key = |what: &Option<What>| what.map(|what| (what.ty(), matches!(what, What::Null(_))));
        // One `VkWriteDescriptorSet` has one type, so slots are grouped into runs of equal type.
        for run in whats.chunk_by(|a, b| key(a) == key(b)) {
            let len = run.len() as u32;
            if run[0].is_some() {
                let whats = run.iter().copied().flatten();
                // SAFETY: the caller's promise.
                unsafe { self.write_run::<MANY>(raw, device, at, whats) };
            } else {
                // SAFETY: as above.
                unsafe { self.fill(raw, device, at..at + len, None) };
            }
            at += len;
        }
    }

    /// Writes descriptors of one type, `N` per call: either all null or none.
    ///
    /// # Safety
    ///
    /// The conditions of [`write`](Self::write) apply, for each of the slots.
    unsafe fn write_run<const N: usize>(
        &self,
        raw: &ash::Device,
        device: &Descriptors,
        mut at: u32,
        whats: impl Iterator<Item = What>,
    ) {
        let mut whats = whats.peekable();
        let Some(ty) = whats.peek().and_then(What::ty) else { return };
        // The number of a binding is the type's position in the device's list, as in `layouts.rs`.
        let binding = match ty {
            vk::DescriptorType::SAMPLER => Some(0),
            _ => (0..).zip(&*device.types).find(|(_, listed)| **listed == ty).map(|(number, _)| number),
        };
        let Some(binding) = binding else {
            debug_assert!(false, "the device was not created with descriptors of type {ty:?}");
            return;
        };
        // Without the feature a null handle is invalid; the slot keeps its previous descriptor.
        if !device.nulls && matches!(whats.peek(), Some(What::Null(_))) {
            return;
        }
        let mut images = [vk::DescriptorImageInfo::default(); N];
        let mut buffers = [vk::DescriptorBufferInfo::default(); N];
        let mut views = [vk::BufferView::null(); N];
        // Batches of `N` on the stack: a heap of a million slots must not allocate as many structures.
        while whats.peek().is_some() {
            let mut count = 0;
            while count < N {
                let Some(what) = whats.next() else { break };
                match what {
                    What::Null(_) => {
                        images[count] = vk::DescriptorImageInfo::default();
                        // For a null buffer Vulkan requires offset 0 and `VK_WHOLE_SIZE` (VUID 02999 of
                        // `VkDescriptorBufferInfo`).
                        buffers[count] = vk::DescriptorBufferInfo::default().range(vk::WHOLE_SIZE);
                        views[count] = vk::BufferView::null();
                    }
                    What::Image { view, layout, .. } => {
                        images[count] = images[count].image_view(view).image_layout(layout);
                    }
                    What::Sampler(sampler) => images[count] = images[count].sampler(sampler),
                    What::Buffer { buffer, range: [start, size], .. } => {
                        buffers[count] = buffers[count].buffer(buffer).offset(start).range(size);
                    }
                    What::Texels { view, .. } => views[count] = view,
                    What::RenderTarget(_) | What::DepthStencil(_) => {}
                }
                count += 1;
            }
            // All three lists are passed; the driver reads the one that the type names.
            let mut write = vk::WriteDescriptorSet::default()
                .dst_set(self.set)
                .dst_binding(binding)
                .dst_array_element(at)
                .descriptor_type(ty)
                .image_info(&images)
                .buffer_info(&buffers)
                .texel_buffer_view(&views);
            // At most `N`; the setters above set it to `N`.
            write.descriptor_count = count as u32;
            // SAFETY: the set is live and update-after-bind, so other slots may be in use. The rest is the
            // caller's promise.
            unsafe { raw.update_descriptor_sets(&[write], &[]) };
            at += count as u32;
        }
    }
}

/// Returns the limits of a set: each binding counts towards its type, and the set towards the limits for all
/// types.
pub(super) fn limits(
    setup: &Setup<'_>,
    properties: &vk::PhysicalDeviceDescriptorIndexingProperties<'_>,
    kind: ShaderVisibleHeapType,
    // Every slot costs a descriptor in each binding of a limit's group, so a limit is divided by the number of
    // bindings that share it.
) -> ShaderVisibleHeapLimits {
    let types = match kind {
        ShaderVisibleHeapType::Resource => setup.types,
        ShaderVisibleHeapType::Sampler => &[vk::DescriptorType::SAMPLER],
    };
    // Texel buffers count as images.
    let of = |group: &[vk::DescriptorType]| types.iter().filter(|ty| group.contains(ty)).count() as u32;
    let images = of(&[vk::DescriptorType::SAMPLED_IMAGE, vk::DescriptorType::UNIFORM_TEXEL_BUFFER]);
    let stored = of(&[vk::DescriptorType::STORAGE_IMAGE, vk::DescriptorType::STORAGE_TEXEL_BUFFER]);
    let samplers = of(&[vk::DescriptorType::SAMPLER]);
    let together = types.len() as u32;
    let max_capacity = [
        (properties.max_descriptor_set_update_after_bind_samplers, samplers),
        (properties.max_per_stage_descriptor_update_after_bind_samplers, samplers),
        (properties.max_descriptor_set_update_after_bind_sampled_images, images),
        (properties.max_per_stage_descriptor_update_after_bind_sampled_images, images),
        (properties.max_descriptor_set_update_after_bind_storage_images, stored),
        (properties.max_per_stage_descriptor_update_after_bind_storage_images, stored),
        (
            properties.max_descriptor_set_update_after_bind_uniform_buffers,
            of(&[vk::DescriptorType::UNIFORM_BUFFER]),
        ),
        (
            properties.max_per_stage_descriptor_update_after_bind_uniform_buffers,
            of(&[vk::DescriptorType::UNIFORM_BUFFER]),
        ),
        (
            properties.max_descriptor_set_update_after_bind_storage_buffers,
            of(&[vk::DescriptorType::STORAGE_BUFFER]),
        ),
        (
            properties.max_per_stage_descriptor_update_after_bind_storage_buffers,
            of(&[vk::DescriptorType::STORAGE_BUFFER]),
        ),
        // Samplers do not count as resources.
        (properties.max_per_stage_update_after_bind_resources, together - samplers),
        (properties.max_update_after_bind_descriptors_in_all_pools, together),
    ]
    .into_iter()
    .filter_map(|(limit, bindings)| limit.checked_div(bindings))
    .min();
    ShaderVisibleHeapLimits { max_capacity: max_capacity.unwrap_or(0), reserved: 0, table_alignment: 1 }
}
