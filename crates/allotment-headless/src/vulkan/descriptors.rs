//! What of descriptors a device is opened with.

use ash::vk;

use allotment::device::vulkan::{DescriptorModel, DeviceDesc, Enabled};

/// What is enabled for descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Descriptors {
    /// All that there is: buffers where the device has them, else sets.
    #[default]
    Best,
    /// The same, and heaps are of one model, without which no device is opened.
    Model(DescriptorModel),
    /// Nothing.
    Off,
}

/// The extensions, where they are there or core, and the features of them that are used.
#[derive(Default)]
pub(super) struct Features {
    pub(super) has_indexing: bool,
    pub(super) has_buffers: bool,
    pub(super) has_mutable: bool,
    pub(super) has_robustness: bool,
    indexing: vk::PhysicalDeviceDescriptorIndexingFeatures<'static>,
    buffers: vk::PhysicalDeviceDescriptorBufferFeaturesEXT<'static>,
    mutable: vk::PhysicalDeviceMutableDescriptorTypeFeaturesEXT<'static>,
    robustness: vk::PhysicalDeviceRobustness2FeaturesEXT<'static>,
}

impl Features {
    /// Asks which features there are, and keeps those that are used: others cost something, or want more to be enabled.
    pub(super) fn ask(&mut self, instance: &ash::Instance, physical_device: vk::PhysicalDevice) {
        let mut asked = Self {
            has_indexing: self.has_indexing,
            has_buffers: self.has_buffers,
            has_mutable: self.has_mutable,
            has_robustness: self.has_robustness,
            ..Self::default()
        };
        let mut features = asked.chain(vk::PhysicalDeviceFeatures2::default());
        // SAFETY: the physical device is of the instance; the chain is of structures that it knows.
        unsafe { instance.get_physical_device_features2(physical_device, &mut features) };
        let is = |feature| feature == vk::TRUE;
        let all = &asked.indexing;
        self.indexing = vk::PhysicalDeviceDescriptorIndexingFeatures::default()
            .shader_storage_buffer_array_non_uniform_indexing(is(
                all.shader_storage_buffer_array_non_uniform_indexing
            ))
            .shader_sampled_image_array_non_uniform_indexing(is(
                all.shader_sampled_image_array_non_uniform_indexing
            ))
            .runtime_descriptor_array(is(all.runtime_descriptor_array))
            .descriptor_binding_partially_bound(is(all.descriptor_binding_partially_bound))
            .descriptor_binding_update_unused_while_pending(is(
                all.descriptor_binding_update_unused_while_pending
            ))
            .descriptor_binding_sampled_image_update_after_bind(is(
                all.descriptor_binding_sampled_image_update_after_bind
            ))
            .descriptor_binding_storage_image_update_after_bind(is(
                all.descriptor_binding_storage_image_update_after_bind
            ))
            .descriptor_binding_uniform_buffer_update_after_bind(is(
                all.descriptor_binding_uniform_buffer_update_after_bind
            ))
            .descriptor_binding_storage_buffer_update_after_bind(is(
                all.descriptor_binding_storage_buffer_update_after_bind
            ))
            .descriptor_binding_uniform_texel_buffer_update_after_bind(is(
                all.descriptor_binding_uniform_texel_buffer_update_after_bind
            ))
            .descriptor_binding_storage_texel_buffer_update_after_bind(is(
                all.descriptor_binding_storage_texel_buffer_update_after_bind
            ));
        self.buffers.descriptor_buffer = asked.buffers.descriptor_buffer;
        self.mutable.mutable_descriptor_type = asked.mutable.mutable_descriptor_type;
        self.robustness.null_descriptor = asked.robustness.null_descriptor;
    }

    /// Adds what is there to a chain.
    pub(super) fn chain<'a>(
        &'a mut self,
        mut features: vk::PhysicalDeviceFeatures2<'a>,
    ) -> vk::PhysicalDeviceFeatures2<'a> {
        if self.has_indexing {
            features = features.push_next(&mut self.indexing);
        }
        if self.has_buffers {
            features = features.push_next(&mut self.buffers);
        }
        if self.has_mutable {
            features = features.push_next(&mut self.mutable);
        }
        if self.has_robustness {
            features = features.push_next(&mut self.robustness);
        }
        features
    }

    /// Whether resources of a type may be updated in a set that is bound.
    fn updates(&self, ty: vk::DescriptorType) -> bool {
        let feature = match ty {
            vk::DescriptorType::SAMPLED_IMAGE => {
                self.indexing.descriptor_binding_sampled_image_update_after_bind
            }
            vk::DescriptorType::STORAGE_IMAGE => {
                self.indexing.descriptor_binding_storage_image_update_after_bind
            }
            vk::DescriptorType::UNIFORM_BUFFER => {
                self.indexing.descriptor_binding_uniform_buffer_update_after_bind
            }
            vk::DescriptorType::STORAGE_BUFFER => {
                self.indexing.descriptor_binding_storage_buffer_update_after_bind
            }
            vk::DescriptorType::UNIFORM_TEXEL_BUFFER => {
                self.indexing.descriptor_binding_uniform_texel_buffer_update_after_bind
            }
            vk::DescriptorType::STORAGE_TEXEL_BUFFER => {
                self.indexing.descriptor_binding_storage_texel_buffer_update_after_bind
            }
            _ => vk::FALSE,
        };
        feature == vk::TRUE
    }

    fn enabled(&self) -> Enabled {
        let all = &self.indexing;
        let sets = [
            all.runtime_descriptor_array,
            all.descriptor_binding_partially_bound,
            all.descriptor_binding_update_unused_while_pending,
            // What shaders read with, and what tests read.
            all.descriptor_binding_sampled_image_update_after_bind,
            all.descriptor_binding_storage_buffer_update_after_bind,
        ];
        let is = |has: bool, enabled| if has { enabled } else { Enabled::empty() };
        is(sets.iter().all(|&feature| feature == vk::TRUE), Enabled::DESCRIPTOR_INDEXING)
            | is(self.buffers.descriptor_buffer == vk::TRUE, Enabled::DESCRIPTOR_BUFFER)
            | is(self.mutable.mutable_descriptor_type == vk::TRUE, Enabled::MUTABLE_DESCRIPTOR_TYPE)
            | is(self.robustness.null_descriptor == vk::TRUE, Enabled::NULL_DESCRIPTOR)
    }

    /// Tells the device what is enabled.
    pub(super) fn describe(&self, wanted: Descriptors, desc: DeviceDesc) -> DeviceDesc {
        let mut desc = desc.with_enabled(self.enabled());
        if let Descriptors::Model(model) = wanted {
            desc = desc.with_descriptor_model(model);
        }
        let needed =
            Enabled::BUFFER_DEVICE_ADDRESS | Enabled::DESCRIPTOR_BUFFER | Enabled::MUTABLE_DESCRIPTOR_TYPE;
        if !desc.enabled.contains(needed) && self.has_indexing {
            desc.descriptor_types.retain(|&ty| self.updates(ty));
            // Where nothing is left there are no sets either.
            if desc.descriptor_types.is_empty() {
                desc.descriptor_types.push(vk::DescriptorType::STORAGE_BUFFER);
            }
        }
        desc
    }
}
