//! Immutable samplers: those of a descriptor set layout, so that no descriptor is written or copied for them.

use core::fmt;

use ash::vk;

use super::super::{Device, refused};
use super::DescriptorModel;
use crate::device::{DescriptionLimit, DeviceError, SamplerDesc};

/// The samplers of a pipeline layout. Binding `i` of its set is the `i`-th sampler.
///
/// With [descriptor buffers](DescriptorModel::Buffer) they are embedded in the layout, otherwise in a descriptor set with
/// immutable samplers. [`Device::cmd_bind_static_samplers`] binds either.
pub struct StaticSamplers {
    samplers: Vec<vk::Sampler>,
    layout: vk::DescriptorSetLayout,
    /// The set and its pool, unless the samplers are embedded.
    set: Option<(vk::DescriptorPool, vk::DescriptorSet)>,
}

impl StaticSamplers {
    /// Returns the layout of the set, for pipeline layouts. It belongs to the samplers: do not destroy it.
    #[must_use]
    pub fn layout(&self) -> vk::DescriptorSetLayout {
        self.layout
    }

    /// Returns the descriptor set; `None` if the samplers are embedded in the layout.
    #[must_use]
    pub fn set(&self) -> Option<vk::DescriptorSet> {
        self.set.map(|(_, set)| set)
    }

    /// Creates samplers, and their layout.
    pub(super) fn new(device: &Device, descs: &[SamplerDesc]) -> Result<Self, DeviceError> {
        let raw = device.raw();
        let mut new = Self { samplers: Vec::new(), layout: vk::DescriptorSetLayout::null(), set: None };
        let created = new.create(device, descs);
        match created {
            Ok(()) => Ok(new),
            Err(error) => {
                // SAFETY: created above, and used by no other code.
                unsafe { new.destroy(raw) };
                Err(error)
            }
        }
    }

    fn create(&mut self, device: &Device, descs: &[SamplerDesc]) -> Result<(), DeviceError> {
        let (raw, descriptors) = (device.raw(), &device.shared.descriptors);
        let count = descs.len() as u64;
        DescriptionLimit::StaticSamplers.check(count, descriptors.max_static_samplers.into())?;
        for desc in descs {
            self.samplers.push(descriptors.samplers.create(raw, desc)?);
        }
        let bindings: Vec<_> = (0..)
            .zip(&self.samplers)
            .map(|(number, sampler)| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(number)
                    .descriptor_type(vk::DescriptorType::SAMPLER)
                    .descriptor_count(1)
                    .stage_flags(descriptors.stages)
                    .immutable_samplers(core::slice::from_ref(sampler))
            })
            .collect();
        let is_embedded = descriptors.model == Some(DescriptorModel::Buffer);
        let flags = if is_embedded {
            vk::DescriptorSetLayoutCreateFlags::DESCRIPTOR_BUFFER_EXT
                | vk::DescriptorSetLayoutCreateFlags::EMBEDDED_IMMUTABLE_SAMPLERS_EXT
        } else {
            vk::DescriptorSetLayoutCreateFlags::empty()
        };
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings).flags(flags);
        // SAFETY: a valid description, within the limit of each stage.
        self.layout = unsafe { raw.create_descriptor_set_layout(&info, None) }.map_err(refused)?;
        // A set needs no pool sizes for nothing, and a pool has at least one.
        if is_embedded || descs.is_empty() {
            return Ok(());
        }
        let sizes = [vk::DescriptorPoolSize::default()
            .ty(vk::DescriptorType::SAMPLER)
            .descriptor_count(descs.len() as u32)];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
        // SAFETY: a valid description.
        let pool = unsafe { raw.create_descriptor_pool(&info, None) }.map_err(refused)?;
        self.set = Some((pool, vk::DescriptorSet::null()));
        let layouts = [self.layout];
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
        // SAFETY: the pool is new, and large enough for exactly this set.
        let sets = unsafe { raw.allocate_descriptor_sets(&info) }.map_err(refused)?;
        self.set = Some((pool, sets[0]));
        Ok(())
    }

    /// # Safety
    ///
    /// No queue uses the samplers, the layout or the set any more.
    pub(super) unsafe fn destroy(self, raw: &ash::Device) {
        if let Some((pool, _)) = self.set {
            // SAFETY: the caller's promise; the set is freed with it.
            unsafe { raw.destroy_descriptor_pool(pool, None) };
        }
        // SAFETY: as above; null is allowed.
        unsafe { raw.destroy_descriptor_set_layout(self.layout, None) };
        for sampler in self.samplers {
            // SAFETY: as above.
            unsafe { raw.destroy_sampler(sampler, None) };
        }
    }
}

impl fmt::Debug for StaticSamplers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticSamplers").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl Device {
    /// Records the command that binds static samplers as a set of a pipeline layout. Does nothing where there are none.
    ///
    /// # Safety
    ///
    /// The command buffer is being recorded, for a queue that supports the bind point. It and the samplers are of this device
    /// and live until the commands are complete, and set `set` of the pipeline layout was created with the samplers'
    /// [layout](StaticSamplers::layout).
    pub unsafe fn cmd_bind_static_samplers(
        &self,
        commands: vk::CommandBuffer,
        point: vk::PipelineBindPoint,
        layout: vk::PipelineLayout,
        set: u32,
        samplers: &StaticSamplers,
    ) {
        match (samplers.set, self.descriptor_buffer_functions()) {
            // SAFETY: the caller's promise.
            (Some((_, bound)), _) => unsafe {
                self.raw().cmd_bind_descriptor_sets(commands, point, layout, set, &[bound], &[]);
            },
            (None, Some(functions)) if !samplers.samplers.is_empty() => {
                // SAFETY: as above; the layout has embedded samplers.
                unsafe {
                    functions.cmd_bind_descriptor_buffer_embedded_samplers(commands, point, layout, set);
                };
            }
            (None, _) => {}
        }
    }
}
