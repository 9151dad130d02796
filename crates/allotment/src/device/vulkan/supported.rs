//! What a physical device supports of all that this library can use, and how a device is created with it.

use core::ffi::CStr;
use core::fmt;

use ash::vk;

use super::descriptors::ALL_TYPES;
use super::{DeviceDesc, EnabledFeatures, refused};
use crate::device::DeviceError;

/// What a physical device supports of all that the library can use: which extensions to name, and which features to
/// turn on, when a device is created.
///
/// ```no_run
/// use allotment::device::vulkan::{Device, DeviceDesc, EnabledFeatures};
/// use ash::vk;
/// # fn engine() -> (ash::Instance, vk::PhysicalDevice) { todo!() }
///
/// let (instance, physical_device) = engine();
/// // SAFETY: the physical device is of the instance, which was created for this version.
/// let mut supported = unsafe { EnabledFeatures::supported(&instance, physical_device, vk::API_VERSION_1_3) }?;
/// // Features of the application's own.
/// supported.core_features().fill_mode_non_solid = vk::TRUE;
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
/// // SAFETY: one queue of the family was asked for.
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
    /// Those of descriptor indexing that are used.
    indexing: vk::PhysicalDeviceDescriptorIndexingFeatures<'static>,
    chain: Chain,
}

/// The structures of features. Their chain is made anew each time that it is used.
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
}

/// Adds those structures to a chain whose extensions are `on`.
macro_rules! push_all {
    ($head:expr, $chain:ident, $on:expr) => {{
        let (mut head, on) = ($head, $on);
        // Descriptor buffers want the extension of descriptor indexing, but none of its features.
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
        head
    }};
}

/// An extension that something needs, and the version that made it core.
type Needed = (EnabledFeatures, &'static CStr, u32);

/// No version made it core.
const NEVER: u32 = u32::MAX;

/// In the order in which they depend on each other.
const EXTENSIONS: [Needed; 16] = [
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
];

/// What cannot be on, or is of no use, without something else.
const DEPENDENT: [(EnabledFeatures, EnabledFeatures); 4] = [
    (EnabledFeatures::PAGEABLE_DEVICE_LOCAL_MEMORY, EnabledFeatures::MEMORY_PRIORITY),
    (EnabledFeatures::EXTERNAL_MEMORY_DMA_BUF, EnabledFeatures::EXTERNAL_MEMORY_FD),
    (EnabledFeatures::DESCRIPTOR_BUFFER, EnabledFeatures::BUFFER_DEVICE_ADDRESS),
    (EnabledFeatures::MUTABLE_DESCRIPTOR_TYPE, EnabledFeatures::DESCRIPTOR_BUFFER),
];

impl EnabledFeatures {
    /// Asks what a physical device supports of all that the library can use, so that a device is created with it. The
    /// instance was created for the version of Vulkan that is named (`VkApplicationInfo::apiVersion`, which cannot be
    /// asked for, and is 1.0 unless the application says more).
    ///
    /// Four are left to the application, which adds them where it turns them on itself:
    /// [`DEBUG_UTILS`](Self::DEBUG_UTILS) is the instance's, [`ROBUST_BUFFER_ACCESS`](Self::ROBUST_BUFFER_ACCESS) and
    /// [`PROTECTED_MEMORY`](Self::PROTECTED_MEMORY) change what its own shaders and queues do,
    /// [`DEVICE_COHERENT_MEMORY`](Self::DEVICE_COHERENT_MEMORY) is slow. On an instance of Vulkan 1.0 features can be
    /// asked for by an extension only, so that just [`DEDICATED_ALLOCATION`](Self::DEDICATED_ALLOCATION) and
    /// [`SAMPLER_ANISOTROPY`](Self::SAMPLER_ANISOTROPY) are found.
    ///
    /// # Errors
    ///
    /// What the driver refuses with.
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
        let version = api_version.min(properties.api_version);
        // SAFETY: as above.
        let offered = unsafe { instance.enumerate_device_extension_properties(physical_device) };
        let offered = offered.map_err(refused)?;
        let has = |name| offered.iter().any(|extension| extension.extension_name_as_c_str() == Ok(name));
        let mut there = Self::all() - NOT_ASKED;
        for (needing, name, core_since) in EXTENSIONS {
            if version < core_since && !has(name) {
                there -= needing;
            }
        }
        if version < vk::API_VERSION_1_1 {
            there &= Self::DEDICATED_ALLOCATION | Self::SAMPLER_ANISOTROPY;
        }
        let mut supported = Supported {
            enabled: there,
            version,
            core: vk::PhysicalDeviceFeatures::default(),
            indexing: vk::PhysicalDeviceDescriptorIndexingFeatures::default(),
            chain: Chain::default(),
        };
        // SAFETY: as above.
        unsafe { supported.ask(instance, physical_device) };
        Ok(supported)
    }
}

/// What is the application's own to turn on.
const NOT_ASKED: EnabledFeatures = EnabledFeatures::DEBUG_UTILS
    .union(EnabledFeatures::ROBUST_BUFFER_ACCESS)
    .union(EnabledFeatures::PROTECTED_MEMORY)
    .union(EnabledFeatures::DEVICE_COHERENT_MEMORY);

impl Supported {
    /// Keeps of what the extensions allow what has its features, too.
    ///
    /// # Safety
    ///
    /// As for [`EnabledFeatures::supported`].
    unsafe fn ask(&mut self, instance: &ash::Instance, physical_device: vk::PhysicalDevice) {
        if self.version < vk::API_VERSION_1_1 {
            // SAFETY: the caller's promise.
            let has = unsafe { instance.get_physical_device_features(physical_device) };
            self.enabled.set(EnabledFeatures::SAMPLER_ANISOTROPY, has.sampler_anisotropy == vk::TRUE);
        } else {
            let there = self.enabled;
            let chain = &mut Chain::default();
            let mut features = push_all!(vk::PhysicalDeviceFeatures2::default(), chain, there);
            // SAFETY: the caller's promise; the chain is of structures whose extensions are there or core.
            unsafe { instance.get_physical_device_features2(physical_device, &mut features) };
            let core = features.features;
            let is_on = [
                (EnabledFeatures::SAMPLER_ANISOTROPY, core.sampler_anisotropy),
                (EnabledFeatures::TIMELINE_SEMAPHORE, chain.timelines.timeline_semaphore),
                (EnabledFeatures::BUFFER_DEVICE_ADDRESS, chain.addresses.buffer_device_address),
                (EnabledFeatures::MAINTENANCE4, chain.maintenance4.maintenance4),
                (EnabledFeatures::MEMORY_PRIORITY, chain.priorities.memory_priority),
                (EnabledFeatures::PAGEABLE_DEVICE_LOCAL_MEMORY, chain.pageable.pageable_device_local_memory),
                (EnabledFeatures::DESCRIPTOR_BUFFER, chain.buffers.descriptor_buffer),
                (EnabledFeatures::MUTABLE_DESCRIPTOR_TYPE, chain.mutable.mutable_descriptor_type),
                (EnabledFeatures::NULL_DESCRIPTOR, chain.robustness.null_descriptor),
            ];
            for (flag, on) in is_on {
                self.enabled.set(flag, there.contains(flag) && on == vk::TRUE);
            }
            self.indexing = used(&chain.indexing);
            let types = ALL_TYPES.iter().any(|&ty| updates(&self.indexing, ty));
            let needed = [
                self.indexing.runtime_descriptor_array,
                self.indexing.descriptor_binding_partially_bound,
                self.indexing.descriptor_binding_update_unused_while_pending,
                // With it samplers may be, too.
                self.indexing.descriptor_binding_sampled_image_update_after_bind,
            ];
            if !types || needed.contains(&vk::FALSE) {
                self.enabled -= EnabledFeatures::DESCRIPTOR_INDEXING;
            }
        }
        self.settle();
    }

    /// Takes out what depends on something that is not there.
    fn settle(&mut self) {
        for (dependent, on) in DEPENDENT {
            if !self.enabled.contains(on) {
                self.enabled -= dependent;
            }
        }
        self.core.sampler_anisotropy = self.enabled.contains(EnabledFeatures::SAMPLER_ANISOTROPY).into();
    }

    /// The same with nothing beside what `wanted` names.
    #[must_use]
    pub fn only(mut self, wanted: EnabledFeatures) -> Self {
        self.enabled &= wanted;
        self.settle();
        self
    }

    /// What is supported: what a device has that is created with [these extensions](Self::extension_names) and [these
    /// features](Self::push_features).
    #[must_use]
    pub fn enabled(&self) -> EnabledFeatures {
        self.enabled
    }

    /// The device extensions to name (`VkDeviceCreateInfo::ppEnabledExtensionNames`), each once. What is core in the
    /// instance's version needs none.
    #[must_use]
    pub fn extension_names(&self) -> Vec<&'static CStr> {
        let mut names = Vec::new();
        for (needing, name, core_since) in EXTENSIONS {
            if self.enabled.contains(needing) && self.version < core_since && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Features of Vulkan 1.0, to which the application adds its own.
    pub fn core_features(&mut self) -> &mut vk::PhysicalDeviceFeatures {
        &mut self.core
    }

    /// Adds the features to what a device is created with. The application's own chain has none of these structures,
    /// and no `VkPhysicalDeviceFeatures2`, `VkPhysicalDeviceVulkan11Features` and so on; those of Vulkan 1.0 are set by
    /// [`core_features`](Self::core_features).
    pub fn push_features<'a>(&'a mut self, info: vk::DeviceCreateInfo<'a>) -> vk::DeviceCreateInfo<'a> {
        if self.version < vk::API_VERSION_1_1 {
            return info.enabled_features(&self.core);
        }
        let on = self.enabled;
        let is = |flag| vk::Bool32::from(on.contains(flag));
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
        push_all!(info.push_next(&mut chain.all), chain, on)
    }

    /// The types of descriptors that shader-visible heaps can have: all, or those that may be updated in a set that is
    /// bound, at least one. [`DeviceDesc::with_supported`] says so.
    #[must_use]
    pub fn descriptor_types(&self) -> Vec<vk::DescriptorType> {
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
    /// The same, and what is [supported](EnabledFeatures::supported): for a device that was created with all of it.
    #[must_use]
    pub fn with_supported(self, supported: &Supported) -> Self {
        self.with_enabled(supported.enabled()).with_descriptor_types(supported.descriptor_types())
    }
}

/// The features that are used: others cost something, or want more to be enabled.
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

/// Whether resources of a type may be updated in a set that is bound.
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
