//! Memory requirements of resources, queried from the description if the version allows, otherwise from a
//! temporary object.

use ash::vk;

use super::properties::alignment;
use super::{EnabledFeatures, Shared};
use crate::device::{DedicatedNeed, MemoryTypeMask, Requirements, ResourceKind};

/// The functions that return memory requirements without an object: core in 1.3, from `VK_KHR_maintenance4`
/// before.
pub(super) enum Maintenance4 {
    Core,
    Extension(ash::khr::maintenance4::Device),
}

impl Maintenance4 {
    pub(super) fn of(
        instance: &ash::Instance,
        device: &ash::Device,
        version: u32,
        enabled: EnabledFeatures,
    ) -> Option<Self> {
        if version >= vk::API_VERSION_1_3 {
            Some(Self::Core)
        // The extension depends on Vulkan 1.1, so it is not loaded below.
        } else if version >= vk::API_VERSION_1_1 && enabled.contains(EnabledFeatures::MAINTENANCE4) {
            Some(Self::Extension(ash::khr::maintenance4::Device::new(instance, device)))
        } else {
            None
        }
    }

    /// # Safety
    ///
    /// The description is valid for creating a buffer with `device`.
    pub(super) unsafe fn buffer(
        &self,
        device: &ash::Device,
        info: &vk::DeviceBufferMemoryRequirements<'_>,
        answer: &mut vk::MemoryRequirements2<'_>,
    ) {
        match self {
            // SAFETY: the caller's promise.
            Self::Core => unsafe { device.get_device_buffer_memory_requirements(info, answer) },
            Self::Extension(functions) => {
                // SAFETY: the caller's promise.
                unsafe { functions.get_device_buffer_memory_requirements(info, answer) };
            }
        }
    }

    /// # Safety
    ///
    /// The description is valid for creating an image with `device`.
    pub(super) unsafe fn image(
        &self,
        device: &ash::Device,
        info: &vk::DeviceImageMemoryRequirements<'_>,
        answer: &mut vk::MemoryRequirements2<'_>,
    ) {
        match self {
            // SAFETY: the caller's promise.
            Self::Core => unsafe { device.get_device_image_memory_requirements(info, answer) },
            Self::Extension(functions) => {
                // SAFETY: the caller's promise.
                unsafe { functions.get_device_image_memory_requirements(info, answer) };
            }
        }
    }
}

/// The functions that return an object's memory requirements: core in 1.1, from
/// `VK_KHR_get_memory_requirements2` before; else those of 1.0, which do not report dedicated memory.
pub(super) enum RequirementsOf {
    Core,
    Extension(ash::khr::get_memory_requirements2::Device),
    First,
}

impl RequirementsOf {
    pub(super) fn new(
        instance: &ash::Instance,
        device: &ash::Device,
        version: u32,
        enabled: EnabledFeatures,
    ) -> Self {
        if version >= vk::API_VERSION_1_1 {
            Self::Core
        } else if enabled.contains(EnabledFeatures::DEDICATED_ALLOCATION) {
            Self::Extension(ash::khr::get_memory_requirements2::Device::new(instance, device))
        } else {
            Self::First
        }
    }

    /// Returns whether dedicated memory can be allocated for a resource.
    // `vkGetBufferMemoryRequirements` of 1.0 cannot report dedication, and memory could not be dedicated either.
    pub(super) fn has_dedicated(&self) -> bool {
        !matches!(self, Self::First)
    }

    /// # Safety
    ///
    /// The buffer is live and of `device`.
    pub(super) unsafe fn buffer(
        &self,
        device: &ash::Device,
        buffer: vk::Buffer,
        answer: &mut vk::MemoryRequirements2<'_>,
    ) {
        let wanted = vk::BufferMemoryRequirementsInfo2::default().buffer(buffer);
        match self {
            // SAFETY: the caller's promise.
            Self::Core => unsafe { device.get_buffer_memory_requirements2(&wanted, answer) },
            Self::Extension(functions) => {
                // SAFETY: the caller's promise.
                unsafe { functions.get_buffer_memory_requirements2(&wanted, answer) };
            }
            // SAFETY: the caller's promise.
            Self::First => unsafe {
                answer.memory_requirements = device.get_buffer_memory_requirements(buffer);
            },
        }
    }

    /// # Safety
    ///
    /// The image is live, of `device`, and not disjoint.
    pub(super) unsafe fn image(
        &self,
        device: &ash::Device,
        image: vk::Image,
        answer: &mut vk::MemoryRequirements2<'_>,
    ) {
        let wanted = vk::ImageMemoryRequirementsInfo2::default().image(image);
        match self {
            // SAFETY: the caller's promise.
            Self::Core => unsafe { device.get_image_memory_requirements2(&wanted, answer) },
            Self::Extension(functions) => {
                // SAFETY: the caller's promise.
                unsafe { functions.get_image_memory_requirements2(&wanted, answer) };
            }
            // SAFETY: the caller's promise.
            Self::First => unsafe {
                answer.memory_requirements = device.get_image_memory_requirements(image);
            },
        }
    }
}

impl Shared {
    /// Calls a query of memory requirements of a resource of this kind, and converts its result.
    pub(super) fn query_requirements(
        &self,
        kind: ResourceKind,
        ask: impl FnOnce(&mut vk::MemoryRequirements2<'_>),
    ) -> Requirements {
        // Stays all false where the query ignores it, which is the answer for 1.0.
        let mut dedicated = vk::MemoryDedicatedRequirements::default();
        let mut answer = vk::MemoryRequirements2::default().push_next(&mut dedicated);
        ask(&mut answer);
        let requirements = answer.memory_requirements;
        Requirements {
            size: requirements.size,
            alignment: alignment(requirements.alignment),
            // Types of features that are not enabled are taken out here, so that no allocation can choose one.
            memory_types: MemoryTypeMask(requirements.memory_type_bits & self.usable_types),
            // A driver that requires it also reports that it prefers it, so the stronger need is read first.
            dedicated: if dedicated.requires_dedicated_allocation == vk::TRUE {
                DedicatedNeed::Required
            } else if dedicated.prefers_dedicated_allocation == vk::TRUE {
                DedicatedNeed::Preferred
            } else {
                DedicatedNeed::None
            },
            kind,
        }
    }
}
