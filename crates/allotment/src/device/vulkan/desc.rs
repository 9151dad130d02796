//! What a device is created from: the application's handles, and what the application enabled.

use core::any::Any;
use core::fmt;
use std::sync::Arc;

use ash::vk;
use bitflags::bitflags;

use super::DescriptorModel;
use super::descriptors::ALL_TYPES;

bitflags! {
    /// The features and extensions that the application enabled when it created its device, besides those that
    /// are core in its version.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct EnabledFeatures: u32 {
        /// `VK_EXT_memory_budget`. Not used below Vulkan 1.1.
        #[doc(alias = "VMA_ALLOCATOR_CREATE_EXT_MEMORY_BUDGET_BIT")]
        const MEMORY_BUDGET = 1;
        /// `VK_EXT_memory_priority` and its feature.
        #[doc(alias = "VMA_ALLOCATOR_CREATE_EXT_MEMORY_PRIORITY_BIT")]
        const MEMORY_PRIORITY = 1 << 1;
        /// The feature `bufferDeviceAddress`, core (1.2) or of `VK_KHR_buffer_device_address`. All memory is
        /// then allocated so that buffers with device addresses can be bound to it.
        #[doc(alias = "VMA_ALLOCATOR_CREATE_BUFFER_DEVICE_ADDRESS_BIT")]
        const BUFFER_DEVICE_ADDRESS = 1 << 2;
        /// The feature `deviceCoherentMemory` of `VK_AMD_device_coherent_memory`.
        #[doc(alias = "VMA_ALLOCATOR_CREATE_AMD_DEVICE_COHERENT_MEMORY_BIT")]
        const DEVICE_COHERENT_MEMORY = 1 << 3;
        /// The feature `timelineSemaphore`, core (1.2) or of `VK_KHR_timeline_semaphore`. Required for queues.
        const TIMELINE_SEMAPHORE = 1 << 4;
        /// `VK_KHR_maintenance4` and its feature. From Vulkan 1.3 on the feature alone: without it each buffer's memory
        /// requirements are asked for, where they follow from those of others.
        #[doc(alias = "VMA_ALLOCATOR_CREATE_KHR_MAINTENANCE4_BIT")]
        const MAINTENANCE4 = 1 << 5;
        /// `VK_KHR_external_memory_fd`.
        const EXTERNAL_MEMORY_FD = 1 << 6;
        /// `VK_EXT_external_memory_dma_buf`, and `VK_KHR_external_memory_fd` with it.
        const EXTERNAL_MEMORY_DMA_BUF = 1 << 7;
        /// The feature `protectedMemory`.
        const PROTECTED_MEMORY = 1 << 8;
        /// `VK_EXT_debug_utils` of the instance: debug names are passed to it.
        const DEBUG_UTILS = 1 << 9;
        /// `VK_EXT_pageable_device_local_memory` and its feature.
        const PAGEABLE_DEVICE_LOCAL_MEMORY = 1 << 10;
        /// `VK_EXT_descriptor_buffer` and its feature `descriptorBuffer`. Used along with
        /// [`BUFFER_DEVICE_ADDRESS`](Self::BUFFER_DEVICE_ADDRESS) and
        /// [`MUTABLE_DESCRIPTOR_TYPE`](Self::MUTABLE_DESCRIPTOR_TYPE).
        const DESCRIPTOR_BUFFER = 1 << 11;
        /// `VK_EXT_mutable_descriptor_type` and its feature. Needed for heaps in descriptor buffers of more than
        /// [one type](DeviceDesc::with_descriptor_types).
        const MUTABLE_DESCRIPTOR_TYPE = 1 << 12;
        /// Descriptor indexing, core (1.2) or of `VK_EXT_descriptor_indexing`, and these of its features:
        /// `descriptorBindingPartiallyBound`, `descriptorBindingUpdateUnusedWhilePending`, `runtimeDescriptorArray`,
        /// and those by which samplers (with sampled images) and each of the device's
        /// [types](DeviceDesc::with_descriptor_types) may be updated after they are bound. Where they are supported,
        /// [`Supported`](super::Supported) also enables the features by which shaders index sampled images and storage
        /// buffers non-uniformly.
        const DESCRIPTOR_INDEXING = 1 << 13;
        /// The feature `nullDescriptor` of `VK_EXT_robustness2`.
        const NULL_DESCRIPTOR = 1 << 14;
        /// The feature `samplerAnisotropy`.
        const SAMPLER_ANISOTROPY = 1 << 15;
        /// The feature `robustBufferAccess`, which makes descriptors in descriptor buffers larger. Must be
        /// listed if and only if it is enabled.
        const ROBUST_BUFFER_ACCESS = 1 << 16;
        /// `VK_KHR_dedicated_allocation`, and `VK_KHR_get_memory_requirements2` with it. Not needed from Vulkan 1.1 on.
        #[doc(alias = "VMA_ALLOCATOR_CREATE_KHR_DEDICATED_ALLOCATION_BIT")]
        const DEDICATED_ALLOCATION = 1 << 17;
        /// `VK_KHR_fragment_shading_rate` and its feature `attachmentFragmentShadingRate`. Images can be attachments of
        /// shading rates.
        const FRAGMENT_SHADING_RATE = 1 << 18;
        /// `VK_EXT_fragment_density_map` and its feature `fragmentDensityMap`. Images can be density maps.
        const FRAGMENT_DENSITY_MAP = 1 << 19;
        /// `VK_EXT_attachment_feedback_loop_layout` and its feature. Images can be attachments that their own passes read.
        const ATTACHMENT_FEEDBACK_LOOP = 1 << 20;
        /// The feature `hostImageCopy`, core (1.4) or of `VK_EXT_host_image_copy`. [Uploads](crate::upload::Uploader) copy
        /// texels without staging into images that have the usage `VK_IMAGE_USAGE_HOST_TRANSFER_BIT`. Images of an
        /// [`ImageDesc`](crate::device::ImageDesc) get it by themselves where it makes no use of them slower and leaves them
        /// the same memory types; other images where their description has it.
        const HOST_IMAGE_COPY = 1 << 21;
        /// The feature `imageCubeArray`, for views of arrays of cubes.
        const IMAGE_CUBE_ARRAY = 1 << 22;
        /// The features `sparseBinding` and `sparseResidencyBuffer`, for [reserved
        /// buffers](crate::device::BufferDevice::create_reserved_buffer), to which a queue of the device that has
        /// `VK_QUEUE_SPARSE_BINDING_BIT` binds memory.
        const SPARSE_BUFFERS = 1 << 23;
    }
}

/// Features that need the query functions of Vulkan 1.1.
pub(super) const NEEDS_VULKAN_1_1: EnabledFeatures = EnabledFeatures::MEMORY_BUDGET
    .union(EnabledFeatures::MAINTENANCE4)
    .union(EnabledFeatures::DESCRIPTOR_BUFFER)
    .union(EnabledFeatures::MUTABLE_DESCRIPTOR_TYPE)
    .union(EnabledFeatures::DESCRIPTOR_INDEXING)
    .union(EnabledFeatures::HOST_IMAGE_COPY);

/// The handles and settings that a [`Device`](super::Device) is created from.
#[derive(Clone)]
#[non_exhaustive]
pub struct DeviceDesc {
    /// The functions of the application's instance.
    pub instance: ash::Instance,
    /// The physical device.
    pub physical_device: vk::PhysicalDevice,
    /// The functions of the application's device.
    pub device: ash::Device,
    /// The highest version of Vulkan to use; see [`with_api_version`](Self::with_api_version).
    pub api_version: u32,
    /// The features and extensions that were enabled.
    pub enabled: EnabledFeatures,
    /// Queues to submit to, each with its family.
    pub queues: Vec<(vk::Queue, u32)>,
    /// The kind of shader-visible descriptor heaps. By default, descriptor buffers if they are enabled,
    /// otherwise descriptor sets.
    pub descriptor_model: Option<DescriptorModel>,
    /// The types of resource descriptors; see [`with_descriptor_types`](Self::with_descriptor_types).
    pub descriptor_types: Vec<vk::DescriptorType>,
    /// The stages that access shader-visible heaps; see
    /// [`with_descriptor_stages`](Self::with_descriptor_stages).
    pub descriptor_stages: vk::ShaderStageFlags,
    /// Dropped after the last clone of the device: an object that destroys the application's device, for
    /// example.
    pub owner: Option<Arc<dyn Any + Send + Sync>>,
}

impl DeviceDesc {
    /// Describes a device with nothing enabled besides the core of the version that the application requested,
    /// and without queues.
    #[must_use]
    pub fn new(instance: ash::Instance, physical_device: vk::PhysicalDevice, device: ash::Device) -> Self {
        Self {
            instance,
            physical_device,
            device,
            // The functions that the loader returned decide, see `version.rs`.
            api_version: u32::MAX,
            enabled: EnabledFeatures::empty(),
            queues: Vec::new(),
            descriptor_model: None,
            descriptor_types: ALL_TYPES.into(),
            // A layout must name no stage of a feature that is not enabled, so mesh and ray tracing stages are not
            // in here.
            descriptor_stages: vk::ShaderStageFlags::ALL_GRAPHICS | vk::ShaderStageFlags::COMPUTE,
            owner: None,
        }
    }

    /// Sets the highest version of Vulkan to use. Rarely needed: by default, the device uses what the physical
    /// device supports and `ash` found functions of, up to 1.3. If the application requested a lower version
    /// (`VkApplicationInfo::apiVersion`), loaders and drivers that follow the specification return no further
    /// functions; this is for those that do, as NVIDIA's, whose functions work all the same.
    #[must_use]
    pub fn with_api_version(mut self, api_version: u32) -> Self {
        self.api_version = api_version;
        self
    }

    /// Adds features and extensions that were enabled.
    #[must_use]
    pub fn with_enabled(mut self, enabled: EnabledFeatures) -> Self {
        self.enabled |= enabled;
        self
    }

    /// Adds a queue of a family, which gets the next [`QueueIndex`](crate::device::QueueIndex). Requires
    /// [`EnabledFeatures::TIMELINE_SEMAPHORE`]; without it, [`Device::new`](super::Device::new) returns an error.
    #[must_use]
    pub fn with_queue(mut self, queue: vk::Queue, family: u32) -> Self {
        self.queues.push((queue, family));
        self
    }

    /// Sets the kind of shader-visible descriptor heaps, which must be enabled.
    #[must_use]
    pub fn with_descriptor_model(mut self, model: DescriptorModel) -> Self {
        self.descriptor_model = Some(model);
        self
    }

    /// Sets the types of resource descriptors, in place of all types of Vulkan 1.0: storage and uniform buffers,
    /// sampled and storage images, uniform and storage texel buffers. Each type makes slots larger: with
    /// descriptor sets by one descriptor, with descriptor buffers only if it is larger than the others. Null
    /// descriptors are of the first type.
    #[must_use]
    pub fn with_descriptor_types(mut self, types: impl Into<Vec<vk::DescriptorType>>) -> Self {
        self.descriptor_types = types.into();
        self
    }

    /// Sets the stages that access shader-visible heaps: by default the graphics stages of Vulkan 1.0, and
    /// compute. Applications with mesh shaders or ray tracing add those stages.
    ///
    /// (Not `VK_SHADER_STAGE_ALL`: with descriptor buffers, lavapipe 25.0 crashes with it.)
    #[must_use]
    pub fn with_descriptor_stages(mut self, stages: vk::ShaderStageFlags) -> Self {
        self.descriptor_stages = stages;
        self
    }

    /// Keeps `owner` alive until the last clone of the device is dropped.
    #[must_use]
    pub fn with_keep_alive(mut self, owner: Arc<dyn Any + Send + Sync>) -> Self {
        self.owner = Some(owner);
        self
    }
}

impl fmt::Debug for DeviceDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceDesc")
            .field("physical_device", &self.physical_device)
            .field("device", &self.device.handle())
            .field("api_version", &self.api_version)
            .field("enabled", &self.enabled)
            .field("queues", &self.queues)
            .field("descriptor_model", &self.descriptor_model)
            .field("descriptor_types", &self.descriptor_types)
            .finish_non_exhaustive()
    }
}
