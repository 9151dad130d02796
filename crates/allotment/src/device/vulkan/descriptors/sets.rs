//! Heaps of descriptor indexing: a set that may be updated after it was bound, with an array for each of the device's
//! types. A slot is the same index in each of them.
//!
//! ```text
//!   binding 0  storage buffers   ░ ▓ ░ ░ ▓ ░
//!   binding 1  uniform buffers   ▓ ░ ░ ░ ░ ░
//!   binding 2  sampled images    ░ ░ ░ ▓ ░ ░
//!                                0 1 2 3 4 5   slots
//! ```
//!
//! It costs a descriptor of each type a slot. What a slot held as another type stays there, where no shader looks.

use core::ops::Range;

use ash::vk;

use super::super::refused;
use super::view::What;
use super::{Descriptors, Wanted};
use crate::device::{DeviceError, ShaderVisibleHeapLimits, ShaderVisibleHeapType};

/// A heap that is a set.
#[derive(Debug)]
pub(super) struct SetHeap {
    pool: vk::DescriptorPool,
    pub(super) set: vk::DescriptorSet,
    pub(super) layout: vk::DescriptorSetLayout,
}

/// Descriptors that are handed to the driver at once. What they are is kept on the stack meanwhile.
const MANY: usize = 64;

impl SetHeap {
    /// A set of a layout, which the heap has from then on.
    pub(super) fn new(
        raw: &ash::Device,
        types: &[vk::DescriptorType],
        capacity: u32,
        layout: vk::DescriptorSetLayout,
    ) -> Result<Self, DeviceError> {
        let sizes: Vec<_> = types
            .iter()
            .map(|&ty| vk::DescriptorPoolSize::default().ty(ty).descriptor_count(capacity))
            .collect();
        let info = vk::DescriptorPoolCreateInfo::default()
            .flags(vk::DescriptorPoolCreateFlags::UPDATE_AFTER_BIND)
            .max_sets(1)
            .pool_sizes(&sizes);
        // SAFETY: a valid description, whose features are enabled.
        let pool = unsafe { raw.create_descriptor_pool(&info, None) }.map_err(refused)?;
        let layouts = [layout];
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
        // SAFETY: the pool is new, and has room for exactly this set.
        match unsafe { raw.allocate_descriptor_sets(&info) } {
            Ok(sets) => Ok(Self { pool, set: sets[0], layout }),
            Err(error) => {
                // SAFETY: made above, and used by nobody.
                unsafe { raw.destroy_descriptor_pool(pool, None) };
                Err(refused(error))
            }
        }
    }

    /// # Safety
    ///
    /// Nobody uses the set any more.
    pub(super) unsafe fn destroy(self, raw: &ash::Device) {
        // SAFETY: the heap's own, by the caller's promise unused; the set goes with it.
        unsafe { raw.destroy_descriptor_pool(self.pool, None) };
        // SAFETY: as above.
        unsafe { raw.destroy_descriptor_set_layout(self.layout, None) };
    }

    /// Writes one descriptor.
    ///
    /// # Safety
    ///
    /// The slot is the heap's, nobody else uses it now, and what is written is live and of the heap's kind.
    pub(super) unsafe fn write(&self, raw: &ash::Device, device: &Descriptors, at: u32, what: What) {
        // SAFETY: the caller's promise.
        unsafe { self.write_run::<1>(raw, device, at, core::iter::once(what)) };
    }

    /// Writes the same into each slot of a range; nothing, as each of the device's types, where it is nothing.
    ///
    /// # Safety
    ///
    /// As for [`write`](Self::write).
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
            None => {
                for &ty in &*device.types {
                    // SAFETY: as above.
                    unsafe { self.write_run::<MANY>(raw, device, at.start, each(What::Null(ty))) };
                }
            }
        }
    }

    /// Writes what a staging heap remembers.
    ///
    /// # Safety
    ///
    /// As for [`write`](Self::write), for each of the slots.
    pub(super) unsafe fn write_all(
        &self,
        raw: &ash::Device,
        device: &Descriptors,
        at: u32,
        whats: &[Option<What>],
    ) {
        let mut at = at;
        let key = |what: &Option<What>| what.map(|what| (what.ty(), matches!(what, What::Null(_))));
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

    /// Writes descriptors of one type, `N` at a time: all of them null, or none.
    ///
    /// # Safety
    ///
    /// As for [`write`](Self::write), for each of the slots.
    unsafe fn write_run<const N: usize>(
        &self,
        raw: &ash::Device,
        device: &Descriptors,
        mut at: u32,
        whats: impl Iterator<Item = What>,
    ) {
        let mut whats = whats.peekable();
        let Some(ty) = whats.peek().and_then(What::ty) else { return };
        let binding = match ty {
            vk::DescriptorType::SAMPLER => Some(0),
            _ => (0..).zip(&*device.types).find(|(_, listed)| **listed == ty).map(|(number, _)| number),
        };
        let Some(binding) = binding else {
            debug_assert!(false, "{ty:?} is a type that the device does not have");
            return;
        };
        if !device.nulls && matches!(whats.peek(), Some(What::Null(_))) {
            return;
        }
        let mut images = [vk::DescriptorImageInfo::default(); N];
        let mut buffers = [vk::DescriptorBufferInfo::default(); N];
        let mut views = [vk::BufferView::null(); N];
        while whats.peek().is_some() {
            let mut count = 0;
            while count < N {
                let Some(what) = whats.next() else { break };
                match what {
                    What::Null(_) => {
                        images[count] = vk::DescriptorImageInfo::default();
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
            let mut write = vk::WriteDescriptorSet::default()
                .dst_set(self.set)
                .dst_binding(binding)
                .dst_array_element(at)
                .descriptor_type(ty)
                .image_info(&images)
                .buffer_info(&buffers)
                .texel_buffer_view(&views);
            // At most `N`; the setters above took all.
            write.descriptor_count = count as u32;
            // SAFETY: the set is live, and updated after it is bound: so other slots may be in use. The rest is the
            // caller's promise.
            unsafe { raw.update_descriptor_sets(&[write], &[]) };
            at += count as u32;
        }
    }
}

/// What a set can have: each binding counts as its type, and the set in all that is counted together.
pub(super) fn limits(
    wanted: &Wanted<'_>,
    said: &vk::PhysicalDeviceDescriptorIndexingProperties<'_>,
    kind: ShaderVisibleHeapType,
) -> ShaderVisibleHeapLimits {
    let types = match kind {
        ShaderVisibleHeapType::Resource => wanted.types,
        ShaderVisibleHeapType::Sampler => &[vk::DescriptorType::SAMPLER],
    };
    // Texels of buffers are counted as images.
    let of = |group: &[vk::DescriptorType]| types.iter().filter(|ty| group.contains(ty)).count() as u32;
    let images = of(&[vk::DescriptorType::SAMPLED_IMAGE, vk::DescriptorType::UNIFORM_TEXEL_BUFFER]);
    let stored = of(&[vk::DescriptorType::STORAGE_IMAGE, vk::DescriptorType::STORAGE_TEXEL_BUFFER]);
    let samplers = of(&[vk::DescriptorType::SAMPLER]);
    let together = types.len() as u32;
    let max_capacity = [
        (said.max_descriptor_set_update_after_bind_samplers, samplers),
        (said.max_per_stage_descriptor_update_after_bind_samplers, samplers),
        (said.max_descriptor_set_update_after_bind_sampled_images, images),
        (said.max_per_stage_descriptor_update_after_bind_sampled_images, images),
        (said.max_descriptor_set_update_after_bind_storage_images, stored),
        (said.max_per_stage_descriptor_update_after_bind_storage_images, stored),
        (
            said.max_descriptor_set_update_after_bind_uniform_buffers,
            of(&[vk::DescriptorType::UNIFORM_BUFFER]),
        ),
        (
            said.max_per_stage_descriptor_update_after_bind_uniform_buffers,
            of(&[vk::DescriptorType::UNIFORM_BUFFER]),
        ),
        (
            said.max_descriptor_set_update_after_bind_storage_buffers,
            of(&[vk::DescriptorType::STORAGE_BUFFER]),
        ),
        (
            said.max_per_stage_descriptor_update_after_bind_storage_buffers,
            of(&[vk::DescriptorType::STORAGE_BUFFER]),
        ),
        // Samplers are no resources.
        (said.max_per_stage_update_after_bind_resources, together - samplers),
        (said.max_update_after_bind_descriptors_in_all_pools, together),
    ]
    .into_iter()
    .filter_map(|(limit, bindings)| limit.checked_div(bindings))
    .min();
    ShaderVisibleHeapLimits { max_capacity: max_capacity.unwrap_or(0), reserved: 0, table_alignment: 1 }
}
