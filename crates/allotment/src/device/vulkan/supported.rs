//! Features and extensions that a physical device supports, and how to create a device with them.

mod merge;

use core::ffi::CStr;
use core::fmt;

use ash::vk;

use super::descriptors::ALL_TYPES;
use super::{DeviceDesc, EnabledFeatures, refused};
use crate::device::DeviceError;

pub use merge::FeatureStructure;

/// The features and extensions that a physical device supports, of all that the library can use: the extensions
/// and features to create a device with.
///
/// ```no_run
/// use allotment::device::vulkan::{Device, DeviceDesc, EnabledFeatures};
/// use ash::vk;
/// # fn engine() -> (ash::Instance, vk::PhysicalDevice) { todo!() }
///
/// let (instance, physical_device) = engine();
/// // SAFETY: the physical device is of the instance, which was created for this version.
/// let mut supported = unsafe { EnabledFeatures::supported(&instance, physical_device, vk::API_VERSION_1_3) }?;
/// // The application's own extensions.
/// let mut extensions: Vec<_> = supported.extension_names().iter().map(|name| name.as_ptr()).collect();
/// extensions.push(ash::khr::swapchain::NAME.as_ptr());
///
/// let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(0).queue_priorities(&[1.0])];
/// let info = vk::DeviceCreateInfo::default()
///     .queue_create_infos(&queues)
///     .enabled_extension_names(&extensions);
/// let info = supported.push_features(info);
/// // SAFETY: extensions and features are ones that the physical device supports.
/// let raw = unsafe { instance.create_device(physical_device, &info, None) }?;
/// // SAFETY: the device was created with one queue of the family.
/// let queue = unsafe { raw.get_device_queue(0, 0) };
///
/// let desc = DeviceDesc::new(instance, physical_device, raw).with_supported(&supported).with_queue(queue, 0);
/// // SAFETY: the handles belong together and outlive the device; what is supported was enabled.
/// let device = unsafe { Device::new(desc) }?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Supported {
    enabled: EnabledFeatures,
    version: u32,
    /// Features of Vulkan 1.0.
    core: vk::PhysicalDeviceFeatures,
    /// The descriptor indexing features that are used.
    indexing: vk::PhysicalDeviceDescriptorIndexingFeatures<'static>,
    /// Features that are set in structures of the application's own chain.
    merged: EnabledFeatures,
    /// Whether the features of Vulkan 1.0 are in a structure of the application.
    core_is_merged: bool,
    chain: Chain,
}

/// The feature structures. They are chained anew for each use.
#[derive(Default)]
struct Chain {
    all: vk::PhysicalDeviceFeatures2<'static>,
    timelines: vk::PhysicalDeviceTimelineSemaphoreFeatures<'static>,
    addresses: vk::PhysicalDeviceBufferDeviceAddressFeatures<'static>,
    maintenance4: vk::PhysicalDeviceMaintenance4Features<'static>,
    priorities: vk::PhysicalDeviceMemoryPriorityFeaturesEXT<'static>,
    pageable: vk::PhysicalDevicePageableDeviceLocalMemoryFeaturesEXT<'static>,
    indexing: vk::PhysicalDeviceDescriptorIndexingFeatures<'static>,
    buffers: vk::PhysicalDeviceDescriptorBufferFeaturesEXT<'static>,
    mutable: vk::PhysicalDeviceMutableDescriptorTypeFeaturesEXT<'static>,
    robustness: vk::PhysicalDeviceRobustness2FeaturesEXT<'static>,
    host_copies: vk::PhysicalDeviceHostImageCopyFeaturesEXT<'static>,
}

/// Adds the structures whose features are in `on` to a chain.
macro_rules! push_all {
    ($head:expr, $chain:ident, $on:expr) => {{
        let (mut head, on) = ($head, $on);
        // Descriptor buffers require the descriptor indexing extension, but none of its features.
        let indexing = on.contains(EnabledFeatures::DESCRIPTOR_INDEXING);
        if on.contains(EnabledFeatures::TIMELINE_SEMAPHORE) {
            head = head.push_next(&mut $chain.timelines);
        }
        if on.contains(EnabledFeatures::BUFFER_DEVICE_ADDRESS) {
            head = head.push_next(&mut $chain.addresses);
        }
        if on.contains(EnabledFeatures::MAINTENANCE4) {
            head = head.push_next(&mut $chain.maintenance4);
        }
        if on.contains(EnabledFeatures::MEMORY_PRIORITY) {
            head = head.push_next(&mut $chain.priorities);
        }
        if on.contains(EnabledFeatures::PAGEABLE_DEVICE_LOCAL_MEMORY) {
            head = head.push_next(&mut $chain.pageable);
        }
        if indexing {
            head = head.push_next(&mut $chain.indexing);
        }
        if on.contains(EnabledFeatures::DESCRIPTOR_BUFFER) {
            head = head.push_next(&mut $chain.buffers);
        }
        if on.contains(EnabledFeatures::MUTABLE_DESCRIPTOR_TYPE) {
            head = head.push_next(&mut $chain.mutable);
        }
        if on.contains(EnabledFeatures::NULL_DESCRIPTOR) {
            head = head.push_next(&mut $chain.robustness);
        }
        if on.contains(EnabledFeatures::HOST_IMAGE_COPY) {
            head = head.push_next(&mut $chain.host_copies);
        }
        head
    }};
}

/// A feature, an extension that it needs, and the version in which the extension became core.
type Needed = (EnabledFeatures, &'static CStr, u32);

/// Extensions that are not core in any version.
const NEVER: u32 = u32::MAX;

/// `ash` has no constant for it.
const API_VERSION_1_4: u32 = vk::make_api_version(0, 1, 4, 0);

/// In the order of their dependencies.
const EXTENSIONS: [Needed; 19] = [
    (EnabledFeatures::DEDICATED_ALLOCATION, ash::khr::get_memory_requirements2::NAME, vk::API_VERSION_1_1),
    (EnabledFeatures::DEDICATED_ALLOCATION, ash::khr::dedicated_allocation::NAME, vk::API_VERSION_1_1),
    (EnabledFeatures::TIMELINE_SEMAPHORE, ash::khr::timeline_semaphore::NAME, vk::API_VERSION_1_2),
    (EnabledFeatures::BUFFER_DEVICE_ADDRESS, ash::khr::buffer_device_address::NAME, vk::API_VERSION_1_2),
    (EnabledFeatures::MAINTENANCE4, ash::khr::maintenance4::NAME, vk::API_VERSION_1_3),
    (EnabledFeatures::MEMORY_BUDGET, ash::ext::memory_budget::NAME, NEVER),
    (EnabledFeatures::MEMORY_PRIORITY, ash::ext::memory_priority::NAME, NEVER),
    (EnabledFeatures::PAGEABLE_DEVICE_LOCAL_MEMORY, ash::ext::pageable_device_local_memory::NAME, NEVER),
    (EnabledFeatures::EXTERNAL_MEMORY_FD, ash::khr::external_memory_fd::NAME, NEVER),
    (EnabledFeatures::EXTERNAL_MEMORY_DMA_BUF, ash::ext::external_memory_dma_buf::NAME, NEVER),
    (EnabledFeatures::DESCRIPTOR_INDEXING, ash::ext::descriptor_indexing::NAME, vk::API_VERSION_1_2),
    (EnabledFeatures::DESCRIPTOR_BUFFER, ash::ext::descriptor_indexing::NAME, vk::API_VERSION_1_2),
    (EnabledFeatures::DESCRIPTOR_BUFFER, ash::khr::synchronization2::NAME, vk::API_VERSION_1_3),
    (EnabledFeatures::DESCRIPTOR_BUFFER, ash::ext::descriptor_buffer::NAME, NEVER),
    (EnabledFeatures::MUTABLE_DESCRIPTOR_TYPE, ash::ext::mutable_descriptor_type::NAME, NEVER),
    (EnabledFeatures::NULL_DESCRIPTOR, ash::ext::robustness2::NAME, NEVER),
    (EnabledFeatures::HOST_IMAGE_COPY, ash::khr::copy_commands2::NAME, vk::API_VERSION_1_3),
    (EnabledFeatures::HOST_IMAGE_COPY, ash::khr::format_feature_flags2::NAME, vk::API_VERSION_1_3),
    (EnabledFeatures::HOST_IMAGE_COPY, ash::ext::host_image_copy::NAME, API_VERSION_1_4),
];

/// Features that cannot be enabled, or are useless, without another one.
const DEPENDENT: [(EnabledFeatures, EnabledFeatures); 4] = [
    (EnabledFeatures::PAGEABLE_DEVICE_LOCAL_MEMORY, EnabledFeatures::MEMORY_PRIORITY),
    (EnabledFeatures::EXTERNAL_MEMORY_DMA_BUF, EnabledFeatures::EXTERNAL_MEMORY_FD),
    (EnabledFeatures::DESCRIPTOR_BUFFER, EnabledFeatures::BUFFER_DEVICE_ADDRESS),
    (EnabledFeatures::MUTABLE_DESCRIPTOR_TYPE, EnabledFeatures::DESCRIPTOR_BUFFER),
];

impl EnabledFeatures {
    /// Queries what a physical device supports of all that the library can use, so that a device can be created
    /// with it. `api_version` is the version of Vulkan that the instance was created for
    /// (`VkApplicationInfo::apiVersion`, which cannot be queried, and is 1.0 unless the application sets it).
    ///
    /// Some features are left to the application. It adds these, by [`DeviceDesc::with_enabled`], if it enables
    /// them: [`FRAGMENT_SHADING_RATE`](Self::FRAGMENT_SHADING_RATE), [`FRAGMENT_DENSITY_MAP`](Self::FRAGMENT_DENSITY_MAP)
    /// and [`ATTACHMENT_FEEDBACK_LOOP`](Self::ATTACHMENT_FEEDBACK_LOOP), which the
    /// library itself does not use; [`DEBUG_UTILS`](Self::DEBUG_UTILS), without which names do not reach the validation layer,
    /// belongs to the instance, [`PROTECTED_MEMORY`](Self::PROTECTED_MEMORY) changes how queues and resources are created, and
    /// [`DEVICE_COHERENT_MEMORY`](Self::DEVICE_COHERENT_MEMORY) is slow.
    /// [`ROBUST_BUFFER_ACCESS`](Self::ROBUST_BUFFER_ACCESS) changes the application's shaders; it is noticed in
    /// [`core_features`](Supported::core_features), and in structures that are [merged](Supported::merge_into). On an instance
    /// of Vulkan 1.0 features can be queried with an extension only, so that just
    /// [`DEDICATED_ALLOCATION`](Self::DEDICATED_ALLOCATION),
    /// [`SAMPLER_ANISOTROPY`](Self::SAMPLER_ANISOTROPY), [`IMAGE_CUBE_ARRAY`](Self::IMAGE_CUBE_ARRAY) and
    /// [`SPARSE_BUFFERS`](Self::SPARSE_BUFFERS) are found.
    ///
    /// # Errors
    ///
    /// The driver's error.
    ///
    /// # Safety
    ///
    /// `physical_device` is of `instance`, which is live and was created for `api_version` or a later one.
    pub unsafe fn supported(
        instance: &ash::Instance,
        physical_device: vk::PhysicalDevice,
        api_version: u32,
    ) -> Result<Supported, DeviceError> {
        // SAFETY: the caller's promise.
        let properties = unsafe { instance.get_physical_device_properties(physical_device) };
        // A device may support a later version than the application asked for, whose functions must not be used
        // then.
        let version = api_version.min(properties.api_version);
        // SAFETY: as above.
        let offered = unsafe { instance.enumerate_device_extension_properties(physical_device) };
        let offered = offered.map_err(refused)?;
        let has = |name| offered.iter().any(|extension| extension.extension_name_as_c_str() == Ok(name));
        // Assumed available until an extension or a feature is missing, so that the two tables below list only
        // what is needed.
        let mut available = Self::all() - LEFT_TO_APPLICATION;
        for (needing, name, core_since) in EXTENSIONS {
            // A feature may need several extensions: without one of them, it is not available.
            if version < core_since && !has(name) {
                available -= needing;
            }
        }
        if version < vk::API_VERSION_1_1 {
            // Below 1.1 features of extensions cannot be queried without `VK_KHR_get_physical_device_properties2`,
            // which only the application can enable on the instance.
            available &= Self::DEDICATED_ALLOCATION
                | Self::SAMPLER_ANISOTROPY
                | Self::IMAGE_CUBE_ARRAY
                | Self::SPARSE_BUFFERS;
        }
        let mut supported = Supported {
            enabled: available,
            version,
            core: vk::PhysicalDeviceFeatures::default(),
            indexing: vk::PhysicalDeviceDescriptorIndexingFeatures::default(),
            merged: Self::empty(),
            core_is_merged: false,
            chain: Chain::default(),
        };
        // SAFETY: as above.
        unsafe { supported.query_features(instance, physical_device) };
        Ok(supported)
    }
}

/// Features that only the application can decide to enable.
const LEFT_TO_APPLICATION: EnabledFeatures = EnabledFeatures::DEBUG_UTILS
    .union(EnabledFeatures::ROBUST_BUFFER_ACCESS)
    .union(EnabledFeatures::PROTECTED_MEMORY)
    .union(EnabledFeatures::DEVICE_COHERENT_MEMORY)
    .union(EnabledFeatures::FRAGMENT_SHADING_RATE)
    .union(EnabledFeatures::FRAGMENT_DENSITY_MAP)
    .union(EnabledFeatures::ATTACHMENT_FEEDBACK_LOOP);

impl Supported {
    /// Removes the features that the device does not support, although their extensions exist.
    ///
    /// # Safety
    ///
    /// The conditions of [`EnabledFeatures::supported`] apply.
    unsafe fn query_features(&mut self, instance: &ash::Instance, physical_device: vk::PhysicalDevice) {
        if self.version < vk::API_VERSION_1_1 {
            // SAFETY: the caller's promise.
            let has = unsafe { instance.get_physical_device_features(physical_device) };
            self.enabled.set(EnabledFeatures::SAMPLER_ANISOTROPY, has.sampler_anisotropy == vk::TRUE);
            self.enabled.set(EnabledFeatures::IMAGE_CUBE_ARRAY, has.image_cube_array == vk::TRUE);
            self.enabled.set(EnabledFeatures::SPARSE_BUFFERS, sparse_buffers(&has) == vk::TRUE);
        } else {
            let available = self.enabled;
            let chain = &mut Chain::default();
            let mut features = push_all!(vk::PhysicalDeviceFeatures2::default(), chain, available);
            // SAFETY: the caller's promise; the chain contains only structures whose extensions are supported or
            // core.
            unsafe { instance.get_physical_device_features2(physical_device, &mut features) };
            let core = features.features;
            let is_on = [
                (EnabledFeatures::SAMPLER_ANISOTROPY, core.sampler_anisotropy),
                (EnabledFeatures::IMAGE_CUBE_ARRAY, core.image_cube_array),
                (EnabledFeatures::SPARSE_BUFFERS, sparse_buffers(&core)),
                (EnabledFeatures::TIMELINE_SEMAPHORE, chain.timelines.timeline_semaphore),
                (EnabledFeatures::BUFFER_DEVICE_ADDRESS, chain.addresses.buffer_device_address),
                (EnabledFeatures::MAINTENANCE4, chain.maintenance4.maintenance4),
                (EnabledFeatures::MEMORY_PRIORITY, chain.priorities.memory_priority),
                (EnabledFeatures::PAGEABLE_DEVICE_LOCAL_MEMORY, chain.pageable.pageable_device_local_memory),
                (EnabledFeatures::DESCRIPTOR_BUFFER, chain.buffers.descriptor_buffer),
                (EnabledFeatures::MUTABLE_DESCRIPTOR_TYPE, chain.mutable.mutable_descriptor_type),
                (EnabledFeatures::NULL_DESCRIPTOR, chain.robustness.null_descriptor),
                (EnabledFeatures::HOST_IMAGE_COPY, chain.host_copies.host_image_copy),
            ];
            for (flag, on) in is_on {
                self.enabled.set(flag, available.contains(flag) && on == vk::TRUE);
            }
            self.indexing = used(&chain.indexing);
            let types = ALL_TYPES.iter().any(|&ty| updates(&self.indexing, ty));
            // These four are what `layouts.rs` sets on each binding.
            let needed = [
                self.indexing.runtime_descriptor_array,
                self.indexing.descriptor_binding_partially_bound,
                self.indexing.descriptor_binding_update_unused_while_pending,
                // With this feature, samplers may be updated too.
                self.indexing.descriptor_binding_sampled_image_update_after_bind,
            ];
            if !types || needed.contains(&vk::FALSE) {
                self.enabled -= EnabledFeatures::DESCRIPTOR_INDEXING;
            }
        }
        self.remove_unmet_dependencies();
    }

    /// Removes features whose dependencies are not enabled.
    fn remove_unmet_dependencies(&mut self) {
        // In the order of the table: a feature that falls takes the ones that depend on it along.
        for (dependent, on) in DEPENDENT {
            if !self.enabled.contains(on) {
                self.enabled -= dependent;
            }
        }
        self.core.sampler_anisotropy = self.enabled.contains(EnabledFeatures::SAMPLER_ANISOTROPY).into();
        self.core.image_cube_array = self.enabled.contains(EnabledFeatures::IMAGE_CUBE_ARRAY).into();
        let sparse = self.enabled.contains(EnabledFeatures::SPARSE_BUFFERS).into();
        (self.core.sparse_binding, self.core.sparse_residency_buffer) = (sparse, sparse);
    }

    /// Removes everything that is not in `wanted`.
    #[must_use]
    pub fn only(mut self, wanted: EnabledFeatures) -> Self {
        self.enabled &= wanted;
        self.remove_unmet_dependencies();
        self
    }

    /// Returns the features of a device that is created with [these extensions](Self::extension_names) and
    /// [these features](Self::push_features). [`ROBUST_BUFFER_ACCESS`](EnabledFeatures::ROBUST_BUFFER_ACCESS) is one
    /// of them where the application has set it in [`core_features`](Self::core_features) or in what was
    /// [merged](Self::merge_into).
    #[must_use]
    pub fn enabled(&self) -> EnabledFeatures {
        let mut enabled = self.enabled;
        enabled.set(EnabledFeatures::ROBUST_BUFFER_ACCESS, self.core.robust_buffer_access == vk::TRUE);
        enabled
    }

    /// Returns the device extensions to enable (`VkDeviceCreateInfo::ppEnabledExtensionNames`), each once.
    /// Extensions that are core in the instance's version are not listed.
    #[must_use]
    pub fn extension_names(&self) -> Vec<&'static CStr> {
        let mut names = Vec::new();
        for (needing, name, core_since) in EXTENSIONS {
            // `VK_EXT_descriptor_indexing` is listed for two features, and a name must be enabled once.
            if self.enabled.contains(needing) && self.version < core_since && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Returns the features of Vulkan 1.0, to which the application adds its own.
    pub fn core_features(&mut self) -> &mut vk::PhysicalDeviceFeatures {
        &mut self.core
    }

    /// Sets the features of Allotment in a structure that the application chains to `VkDeviceCreateInfo` itself, beside
    /// those that it has set there. [`push_features`](Self::push_features) then leaves that structure, and those that
    /// must not stand beside it, out.
    ///
    /// To be called once for each such structure, before the application pushes it: for those of
    /// `VkPhysicalDeviceVulkan11Features` and later versions, for `VkPhysicalDeviceFeatures2`, for the structures of the
    /// [extensions](Self::extension_names), and for `VkPhysicalDeviceFeatures` where `pEnabledFeatures` refers to it. A
    /// structure that the version of Vulkan does not have is left as it is.
    ///
    /// ```no_run
    /// # use allotment::device::vulkan::{DeviceDesc, EnabledFeatures, Supported};
    /// # use ash::vk;
    /// # fn example(instance: ash::Instance, physical_device: vk::PhysicalDevice, mut supported: Supported) {
    /// // What the application uses.
    /// let mut vulkan_12 = vk::PhysicalDeviceVulkan12Features::default().draw_indirect_count(true);
    /// let mut vulkan_13 =
    ///     vk::PhysicalDeviceVulkan13Features::default().dynamic_rendering(true).synchronization2(true);
    /// // And what Allotment does.
    /// supported.merge_into(&mut vulkan_12);
    /// supported.merge_into(&mut vulkan_13);
    /// # let info = vk::DeviceCreateInfo::default();
    /// let info = info.push_next(&mut vulkan_12).push_next(&mut vulkan_13);
    /// let info = supported.push_features(info);
    /// // SAFETY: the features are supported.
    /// let device = unsafe { instance.create_device(physical_device, &info, None) }.unwrap();
    /// let desc = DeviceDesc::new(instance, physical_device, device).with_supported(&supported);
    /// # }
    /// ```
    pub fn merge_into(&mut self, own: &mut impl FeatureStructure) {
        own.merge(self);
    }

    /// Adds the features to the creation parameters of a device. A structure of features that the application's own
    /// chain has already must be [merged](Self::merge_into) before; Vulkan allows each only once. Features of Vulkan 1.0
    /// can also be set with [`core_features`](Self::core_features).
    pub fn push_features<'a>(&'a mut self, info: vk::DeviceCreateInfo<'a>) -> vk::DeviceCreateInfo<'a> {
        // Below 1.1 the chain of features is not valid, so the plain structure is used.
        if self.version < vk::API_VERSION_1_1 {
            return if self.core_is_merged { info } else { info.enabled_features(&self.core) };
        }
        let on = self.enabled - self.merged;
        let is = |flag| vk::Bool32::from(on.contains(flag));
        // Chained from scratch: a second call would otherwise link the structures to those of the first.
        self.chain = Chain {
            all: vk::PhysicalDeviceFeatures2::default().features(self.core),
            indexing: self.indexing,
            ..Chain::default()
        };
        let chain = &mut self.chain;
        chain.timelines.timeline_semaphore = is(EnabledFeatures::TIMELINE_SEMAPHORE);
        chain.addresses.buffer_device_address = is(EnabledFeatures::BUFFER_DEVICE_ADDRESS);
        chain.maintenance4.maintenance4 = is(EnabledFeatures::MAINTENANCE4);
        chain.priorities.memory_priority = is(EnabledFeatures::MEMORY_PRIORITY);
        chain.pageable.pageable_device_local_memory = is(EnabledFeatures::PAGEABLE_DEVICE_LOCAL_MEMORY);
        chain.buffers.descriptor_buffer = is(EnabledFeatures::DESCRIPTOR_BUFFER);
        chain.mutable.mutable_descriptor_type = is(EnabledFeatures::MUTABLE_DESCRIPTOR_TYPE);
        chain.robustness.null_descriptor = is(EnabledFeatures::NULL_DESCRIPTOR);
        chain.host_copies.host_image_copy = is(EnabledFeatures::HOST_IMAGE_COPY);
        let info = if self.core_is_merged { info } else { info.push_next(&mut chain.all) };
        push_all!(info, chain, on)
    }

    /// Returns the types of resource descriptors that shader-visible heaps can have: all, or those that may be
    /// updated after the set is bound, at least one. [`DeviceDesc::with_supported`] sets them.
    #[must_use]
    pub fn descriptor_types(&self) -> Vec<vk::DescriptorType> {
        // Descriptor buffers are memory that may be written at any time, so no update-after-bind feature applies.
        let buffers = EnabledFeatures::DESCRIPTOR_BUFFER | EnabledFeatures::MUTABLE_DESCRIPTOR_TYPE;
        let any =
            self.enabled.contains(buffers) || !self.enabled.contains(EnabledFeatures::DESCRIPTOR_INDEXING);
        ALL_TYPES.into_iter().filter(|&ty| any || updates(&self.indexing, ty)).collect()
    }
}

impl fmt::Debug for Supported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supported")
            .field("enabled", &self.enabled)
            .field("extension_names", &self.extension_names())
            .finish_non_exhaustive()
    }
}

impl DeviceDesc {
    /// Enables everything that is [supported](EnabledFeatures::supported), for a device that was created with
    /// it. [`DEBUG_UTILS`](EnabledFeatures::DEBUG_UTILS) is not in it, since the application enables that on the instance,
    /// before there is a device: [`with_enabled`](Self::with_enabled) adds it, for names in the validation layer's messages.
    #[must_use]
    pub fn with_supported(self, supported: &Supported) -> Self {
        self.with_enabled(supported.enabled()).with_descriptor_types(supported.descriptor_types())
    }
}

/// Returns whether both features of sparse buffers are there.
fn sparse_buffers(features: &vk::PhysicalDeviceFeatures) -> vk::Bool32 {
    features.sparse_binding & features.sparse_residency_buffer
}

/// Returns the features that are used: others have a cost, or require further features.
fn used(
    all: &vk::PhysicalDeviceDescriptorIndexingFeatures<'_>,
) -> vk::PhysicalDeviceDescriptorIndexingFeatures<'static> {
    let is = |feature| feature == vk::TRUE;
    vk::PhysicalDeviceDescriptorIndexingFeatures::default()
        .shader_storage_buffer_array_non_uniform_indexing(is(
            all.shader_storage_buffer_array_non_uniform_indexing
        ))
        .shader_sampled_image_array_non_uniform_indexing(is(
            all.shader_sampled_image_array_non_uniform_indexing
        ))
        .runtime_descriptor_array(is(all.runtime_descriptor_array))
        .descriptor_binding_partially_bound(is(all.descriptor_binding_partially_bound))
        .descriptor_binding_update_unused_while_pending(
            is(all.descriptor_binding_update_unused_while_pending),
        )
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
        ))
}

/// Returns whether descriptors of a type may be updated after the set is bound.
fn updates(indexing: &vk::PhysicalDeviceDescriptorIndexingFeatures<'_>, ty: vk::DescriptorType) -> bool {
    let feature = match ty {
        vk::DescriptorType::SAMPLED_IMAGE => indexing.descriptor_binding_sampled_image_update_after_bind,
        vk::DescriptorType::STORAGE_IMAGE => indexing.descriptor_binding_storage_image_update_after_bind,
        vk::DescriptorType::UNIFORM_BUFFER => indexing.descriptor_binding_uniform_buffer_update_after_bind,
        vk::DescriptorType::STORAGE_BUFFER => indexing.descriptor_binding_storage_buffer_update_after_bind,
        vk::DescriptorType::UNIFORM_TEXEL_BUFFER => {
            indexing.descriptor_binding_uniform_texel_buffer_update_after_bind
        }
        vk::DescriptorType::STORAGE_TEXEL_BUFFER => {
            indexing.descriptor_binding_storage_texel_buffer_update_after_bind
        }
        _ => vk::FALSE,
    };
    feature == vk::TRUE
}
