//! Setting features in structures that the application chains itself.
//!
//! Vulkan allows each structure once in a chain, and forbids the structure of a version beside those of the extensions
//! that it replaces. So a feature is set in the application's structure, and left out of the library's own chain.

use ash::vk;

use super::{Supported, used};
use crate::device::vulkan::EnabledFeatures;

/// A structure of features for [`Supported::merge_into`].
///
/// Implemented for those that have features that Allotment uses, and for `VkPhysicalDeviceVulkan11Features`.
pub trait FeatureStructure: Merge {}

impl<S: Merge> FeatureStructure for S {}

/// Only this crate can implement it.
pub trait Merge {
    /// Sets the features that are enabled.
    fn merge(&mut self, supported: &mut Supported);
}

/// Implements [`Merge`] for a structure that a version of Vulkan, or an extension (of any version), has.
macro_rules! merge {
    ($structure:ident since $version:ident: $($flag:ident in $member:ident),* $(; and $more:ident)?) => {
        impl Merge for vk::$structure<'_> {
            fn merge(&mut self, supported: &mut Supported) {
                // What has no such structure ignores it, so that the features stay in the library's own.
                if supported.version < vk::$version {
                    return;
                }
                $(if supported.enabled.contains(EnabledFeatures::$flag) {
                    self.$member = vk::TRUE;
                    supported.merged |= EnabledFeatures::$flag;
                })*
                $(if supported.enabled.contains(EnabledFeatures::DESCRIPTOR_INDEXING) {
                    $more!(self, used(&supported.indexing));
                    supported.merged |= EnabledFeatures::DESCRIPTOR_INDEXING;
                })?
            }
        }
    };
}

/// Sets the descriptor indexing features that are used: those that [`used`] keeps.
macro_rules! indexing {
    ($own:ident, $used:expr) => {{
        let used = $used;
        indexing!($own, used:
            shader_storage_buffer_array_non_uniform_indexing, shader_sampled_image_array_non_uniform_indexing,
            runtime_descriptor_array, descriptor_binding_partially_bound,
            descriptor_binding_update_unused_while_pending, descriptor_binding_sampled_image_update_after_bind,
            descriptor_binding_storage_image_update_after_bind,
            descriptor_binding_uniform_buffer_update_after_bind,
            descriptor_binding_storage_buffer_update_after_bind,
            descriptor_binding_uniform_texel_buffer_update_after_bind,
            descriptor_binding_storage_texel_buffer_update_after_bind);
    }};
    ($own:ident, $used:ident: $($member:ident),*) => { $($own.$member |= $used.$member;)* };
}

merge!(PhysicalDeviceVulkan11Features since API_VERSION_1_2:);
merge!(PhysicalDeviceVulkan12Features since API_VERSION_1_2:
    TIMELINE_SEMAPHORE in timeline_semaphore, BUFFER_DEVICE_ADDRESS in buffer_device_address; and indexing);
merge!(PhysicalDeviceVulkan13Features since API_VERSION_1_3: MAINTENANCE4 in maintenance4);
merge!(PhysicalDeviceTimelineSemaphoreFeatures since API_VERSION_1_0: TIMELINE_SEMAPHORE in timeline_semaphore);
merge!(PhysicalDeviceBufferDeviceAddressFeatures since API_VERSION_1_0:
    BUFFER_DEVICE_ADDRESS in buffer_device_address);
merge!(PhysicalDeviceMaintenance4Features since API_VERSION_1_0: MAINTENANCE4 in maintenance4);
merge!(PhysicalDeviceMemoryPriorityFeaturesEXT since API_VERSION_1_0: MEMORY_PRIORITY in memory_priority);
merge!(PhysicalDevicePageableDeviceLocalMemoryFeaturesEXT since API_VERSION_1_0:
    PAGEABLE_DEVICE_LOCAL_MEMORY in pageable_device_local_memory);
merge!(PhysicalDeviceDescriptorIndexingFeatures since API_VERSION_1_0: ; and indexing);
merge!(PhysicalDeviceDescriptorBufferFeaturesEXT since API_VERSION_1_0: DESCRIPTOR_BUFFER in descriptor_buffer);
merge!(PhysicalDeviceMutableDescriptorTypeFeaturesEXT since API_VERSION_1_0:
    MUTABLE_DESCRIPTOR_TYPE in mutable_descriptor_type);
merge!(PhysicalDeviceRobustness2FeaturesEXT since API_VERSION_1_0: NULL_DESCRIPTOR in null_descriptor);
merge!(PhysicalDeviceHostImageCopyFeaturesEXT since API_VERSION_1_0: HOST_IMAGE_COPY in host_image_copy);

impl Merge for vk::PhysicalDeviceFeatures {
    fn merge(&mut self, supported: &mut Supported) {
        self.sampler_anisotropy |= supported.core.sampler_anisotropy;
        self.image_cube_array |= supported.core.image_cube_array;
        self.sparse_binding |= supported.core.sparse_binding;
        self.sparse_residency_buffer |= supported.core.sparse_residency_buffer;
        // The library must know of this one, and cannot see the structure later.
        supported.core.robust_buffer_access |= self.robust_buffer_access;
        supported.core_is_merged = true;
    }
}

impl Merge for vk::PhysicalDeviceFeatures2<'_> {
    fn merge(&mut self, supported: &mut Supported) {
        if supported.version >= vk::API_VERSION_1_1 {
            self.features.merge(supported);
        }
    }
}
