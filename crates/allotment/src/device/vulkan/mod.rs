//! Vulkan 1.0 and later, over the application's own instance and device.
//!
//! A [`Device`] is created from handles that the application owns (`ash`'s function tables, a physical device, a
//! device, its queues) and from a list of what it has [enabled](EnabledFeatures). Nothing else is used: an
//! extension that is not listed is never called, whatever the driver supports. [`EnabledFeatures::supported`]
//! queries what the physical device supports, and returns the extensions and the chain of features to create a
//! device with. Functions that became core are used where `ash` found them, which loaders and drivers return to an
//! application that requested the version.
//!
//! | what | with | without |
//! |---|---|---|
//! | budgets | Vulkan 1.1, `VK_EXT_memory_budget`: at most 1 ms old | own bytes, and 80 % of the heap |
//! | requirements | Vulkan 1.3 or `VK_KHR_maintenance4`: queried from a description | queried from a temporary object |
//! | dedicated memory | Vulkan 1.1 or `VK_KHR_dedicated_allocation`: as the driver requires or prefers | never required |
//! | largest memory object | Vulkan 1.1: the driver's limit | as large as the largest heap |
//! | shared memory | Vulkan 1.1, `VK_KHR_external_memory_fd` | none |
//! | priorities | `VK_EXT_memory_priority` | ignored |
//! | queues | timeline semaphores, core since 1.2 | no queues; memory works all the same |
//! | descriptors | Vulkan 1.1, `VK_EXT_descriptor_buffer`, else descriptor indexing | CPU descriptor heaps only |
//!
//! Memory of protected and device-coherent types is available only if the application lists the feature as
//! enabled: other requests are refused before the driver is called, and no resource's requirements name such a type.
//!
//! ```no_run
//! use allotment::device::vulkan::{Device, DeviceDesc, EnabledFeatures};
//! use allotment::{Allocator, AllocatorDesc, MemoryUsage};
//! # fn engine() -> (ash::Instance, ash::vk::PhysicalDevice, ash::Device, ash::vk::Queue) { todo!() }
//!
//! let (instance, physical_device, device, queue) = engine();
//! let desc = DeviceDesc::new(instance, physical_device, device)
//!     .with_enabled(EnabledFeatures::MEMORY_BUDGET | EnabledFeatures::TIMELINE_SEMAPHORE)
//!     .with_queue(queue, 0);
//! // SAFETY: the handles belong together, outlive the device, and everything listed as enabled is.
//! let device = unsafe { Device::new(desc) }?;
//! let allocator = Allocator::new(device, AllocatorDesc::default())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod budget;
mod buffers;
mod commands;
mod copies;
mod descriptors;
#[cfg(unix)]
mod external;
mod families;
mod full_images;
mod images;
mod memory;
mod names;
mod options;
mod properties;
mod queues;
mod requirements;
mod residency;
mod resources;
mod supported;
mod version;

use core::any::Any;
use core::fmt;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::AtomicBool;
use core::time::Duration;
use std::sync::Arc;

use ash::vk;
use bitflags::bitflags;

use super::{
    Device as DeviceApi, DeviceError, DeviceProperties, MemoryDesc, MemoryHeapBudget, MemoryHeapIndex,
    MissingFeature, Priority, PrioritySupport, QueueIndex, Requirements, ResourceKind, Submission,
    TimelinePoint, TimelineValue, TransferUsage,
};

pub use buffers::BufferInfo;
pub use commands::CommandAllocator;
pub use descriptors::{
    Descriptor, DescriptorHeap, DescriptorModel, DescriptorSetLayout, Sampler, TexelBuffer,
};
pub use images::ImageInfo;
pub use options::{DedicatedTo, MemoryOptions};
pub use queues::QueueGuard;
pub use supported::Supported;

use super::budget::Budgets;
use super::ledger::Ledger;
use buffers::Addresses;
use descriptors::Descriptors;
use options::Sharing;
use queues::Queues;
use requirements::{Maintenance4, RequirementsOf};
use resources::Bindable as _;

bitflags! {
    /// The features and extensions that the application enabled when it created its device, besides those that
    /// are core in its version.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct EnabledFeatures: u32 {
        /// `VK_EXT_memory_budget`. Not used below Vulkan 1.1.
        const MEMORY_BUDGET = 1;
        /// `VK_EXT_memory_priority` and its feature.
        const MEMORY_PRIORITY = 1 << 1;
        /// The feature `bufferDeviceAddress`, core (1.2) or of `VK_KHR_buffer_device_address`. All memory is
        /// then allocated so that buffers with device addresses can be bound to it.
        const BUFFER_DEVICE_ADDRESS = 1 << 2;
        /// The feature `deviceCoherentMemory` of `VK_AMD_device_coherent_memory`.
        const DEVICE_COHERENT_MEMORY = 1 << 3;
        /// The feature `timelineSemaphore`, core (1.2) or of `VK_KHR_timeline_semaphore`. Required for queues.
        const TIMELINE_SEMAPHORE = 1 << 4;
        /// `VK_KHR_maintenance4` and its feature. Not needed from Vulkan 1.3 on.
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
        /// [types](DeviceDesc::with_descriptor_types) may be updated after they are bound.
        const DESCRIPTOR_INDEXING = 1 << 13;
        /// The feature `nullDescriptor` of `VK_EXT_robustness2`.
        const NULL_DESCRIPTOR = 1 << 14;
        /// The feature `samplerAnisotropy`.
        const SAMPLER_ANISOTROPY = 1 << 15;
        /// The feature `robustBufferAccess`, which makes descriptors in descriptor buffers larger. Must be
        /// listed if and only if it is enabled.
        const ROBUST_BUFFER_ACCESS = 1 << 16;
        /// `VK_KHR_dedicated_allocation`, and `VK_KHR_get_memory_requirements2` with it. Not needed from Vulkan 1.1 on.
        const DEDICATED_ALLOCATION = 1 << 17;
    }
}

/// Features that need the query functions of Vulkan 1.1.
const NEEDS_VULKAN_1_1: EnabledFeatures = EnabledFeatures::MEMORY_BUDGET
    .union(EnabledFeatures::MAINTENANCE4)
    .union(EnabledFeatures::DESCRIPTOR_BUFFER)
    .union(EnabledFeatures::MUTABLE_DESCRIPTOR_TYPE)
    .union(EnabledFeatures::DESCRIPTOR_INDEXING);

/// The handles and settings that a [`Device`] is created from.
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
            api_version: u32::MAX,
            enabled: EnabledFeatures::empty(),
            queues: Vec::new(),
            descriptor_model: None,
            descriptor_types: descriptors::ALL_TYPES.into(),
            descriptor_stages: vk::ShaderStageFlags::ALL_GRAPHICS | vk::ShaderStageFlags::COMPUTE,
            owner: None,
        }
    }

    /// Sets the highest version of Vulkan to use. Rarely needed: by default, the device uses what the physical
    /// device supports and `ash` found functions of, up to 1.3. If the application requested a lower version
    /// (`VkApplicationInfo::apiVersion`), loaders and drivers that follow the specification return no further
    /// functions; this is for those that do.
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

    /// Adds a queue of a family, which gets the next [`QueueIndex`]. Requires
    /// [`EnabledFeatures::TIMELINE_SEMAPHORE`]; without it, [`Device::new`] returns an error.
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

/// A Vulkan device. A clone refers to the same device.
#[derive(Clone)]
pub struct Device {
    shared: Arc<Shared>,
}

struct Shared {
    instance: ash::Instance,
    physical_device: vk::PhysicalDevice,
    raw: ash::Device,
    enabled: EnabledFeatures,
    /// The version of Vulkan whose core functions may be used.
    version: u32,
    properties: DeviceProperties,
    /// Memory types that may be allocated: all except those of features that are not enabled.
    usable_types: u32,
    /// The driver's maximum size of a buffer in bytes; `u64::MAX` if unknown.
    max_buffer_size: u64,
    /// Maximum width and height of an attachment.
    max_framebuffer: [u32; 2],
    /// Whether shared memory was ever allocated. Set before any other code can have such memory's handle.
    shares_memory: AtomicBool,
    /// The families of all queues, each once, in ascending order.
    families: Vec<u32>,
    maintenance4: Option<Maintenance4>,
    requirements: RequirementsOf,
    addresses: Option<Addresses>,
    debug_utils: Option<ash::ext::debug_utils::Device>,
    pageable: Option<ash::ext::pageable_device_local_memory::Device>,
    #[cfg(unix)]
    external_memory_fd: Option<ash::khr::external_memory_fd::Device>,
    ledger: Ledger<Sharing>,
    budgets: Budgets,
    descriptors: Descriptors,
    queues: Queues,
    /// The last field, so that it is dropped after all others.
    owner: Option<Arc<dyn Any + Send + Sync>>,
}

impl Device {
    /// Creates a device over the application's own. Creates one driver object per queue: its timeline semaphore.
    ///
    /// # Errors
    ///
    /// [`DeviceError::NotEnabled`] for queues without [`EnabledFeatures::TIMELINE_SEMAPHORE`].
    /// [`DeviceError::Unsupported`] for more than 256 queues, for a queue that cannot copy, for a [descriptor
    /// model](DeviceDesc::with_descriptor_model) that is not enabled, or for descriptor types that are not in
    /// Vulkan 1.0 or are listed twice; otherwise the driver's error.
    ///
    /// # Safety
    ///
    /// - The handles of `desc` belong together, and outlive all clones of the device, which an
    ///   [owner](DeviceDesc::owner) can ensure.
    /// - Everything that `desc` lists as enabled is enabled. The instance was created for the version whose
    ///   functions the loader returned, or `desc` [names](DeviceDesc::with_api_version) its version.
    /// - Each queue was retrieved from the device, of the family that is named with it, without flags; it is
    ///   listed once, and all other code uses it only while holding [`lock_queue`](Self::lock_queue).
    pub unsafe fn new(mut desc: DeviceDesc) -> Result<Self, DeviceError> {
        // SAFETY: the physical device is of this instance.
        let supported = unsafe { desc.instance.get_physical_device_properties(desc.physical_device) };
        let version = version::found(&desc.instance, &desc.device);
        let version = version.min(desc.api_version).min(supported.api_version);
        // A queue index has 8 bits.
        if desc.queues.len() > 256 {
            return Err(DeviceError::Unsupported);
        }
        if version < vk::API_VERSION_1_1 {
            // The functions that query them are missing.
            desc.enabled -= NEEDS_VULKAN_1_1;
        }
        let DeviceDesc { instance, physical_device, device: raw, enabled, queues, owner, .. } = desc.clone();
        let maintenance4 = Maintenance4::of(&instance, &raw, version, enabled);
        // SAFETY: the caller's promise about the handles.
        let described =
            unsafe { properties::describe(&instance, physical_device, version, maintenance4.is_some()) };
        let (mut properties, max_buffer_size) = described;
        let usable_types = properties::usable_types(&properties, enabled);
        if !queues.is_empty() && !enabled.contains(EnabledFeatures::TIMELINE_SEMAPHORE) {
            return Err(DeviceError::NotEnabled(MissingFeature::TimelineSemaphore));
        }
        // SAFETY: as above.
        let kinds = unsafe { properties::queue_kinds(&instance, physical_device) };
        properties.queues = properties::queue_infos(&queues, &kinds)?;
        let mut families: Vec<u32> = queues.iter().map(|&(_, family)| family).collect();
        // Vulkan requires the families of concurrent sharing to be unique.
        families.sort_unstable();
        families.dedup();
        let debug_utils = enabled
            .contains(EnabledFeatures::DEBUG_UTILS)
            .then(|| ash::ext::debug_utils::Device::new(&instance, &raw));
        #[cfg(unix)]
        let external_memory_fd = enabled
            .intersects(EnabledFeatures::EXTERNAL_MEMORY_FD | EnabledFeatures::EXTERNAL_MEMORY_DMA_BUF)
            .then(|| ash::khr::external_memory_fd::Device::new(&instance, &raw));
        let pageable = residency::functions(&instance, &raw, enabled);
        let largest = max_buffer_size.min(properties.limits.max_allocation_size);
        // SAFETY: the caller's promise.
        let descriptors = unsafe { Descriptors::new(&desc, largest) }?;
        let queues = Queues::new(&instance, &raw, version, &queues, &properties.queues)
            .inspect_err(|_| descriptors.destroy(&raw))?;
        let shared = Shared {
            ledger: Ledger::new(&properties),
            budgets: Budgets::default(),
            descriptors,
            version,
            queues,
            physical_device,
            raw,
            enabled,
            properties,
            usable_types,
            max_buffer_size,
            max_framebuffer: [
                supported.limits.max_framebuffer_width,
                supported.limits.max_framebuffer_height,
            ],
            shares_memory: AtomicBool::new(false),
            families,
            maintenance4,
            requirements: RequirementsOf::new(&instance, &desc.device, version, enabled),
            addresses: Addresses::of(&instance, &desc.device, version, enabled),
            debug_utils,
            pageable,
            #[cfg(unix)]
            external_memory_fd,
            instance,
            owner,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns the functions of the application's device.
    #[must_use]
    pub fn raw(&self) -> &ash::Device {
        &self.shared.raw
    }

    /// Returns the physical device.
    #[must_use]
    pub fn physical_device(&self) -> vk::PhysicalDevice {
        self.shared.physical_device
    }

    /// Returns the version of Vulkan whose core is used: at most 1.3, and at most what the application
    /// requested.
    #[must_use]
    pub fn api_version(&self) -> u32 {
        self.shared.version
    }

    /// Returns what the application listed as enabled, without what the version cannot use.
    #[must_use]
    pub fn enabled(&self) -> EnabledFeatures {
        self.shared.enabled
    }

    /// Returns the bytes of a heap that were allocated through this device and not freed: after all its users
    /// are dropped, the bytes that were leaked. 0 if the heap does not exist.
    #[must_use]
    pub fn allocated_bytes(&self, heap: MemoryHeapIndex) -> u64 {
        self.shared.ledger.bytes(heap)
    }

    /// Locks a queue for the application's own use, since Vulkan requires external synchronisation of
    /// submissions. Submissions through this device block meanwhile: a thread that holds the guard and submits
    /// through the device deadlocks. Returns `None` if the queue does not exist.
    #[must_use]
    pub fn lock_queue(&self, queue: QueueIndex) -> Option<QueueGuard<'_>> {
        self.shared.queues.lock(queue)
    }

    /// Submits the application's own command buffers. They execute once the waits are satisfied, and the queue's
    /// timeline reaches the returned value when all of them are complete, as with [`submit`](DeviceApi::submit).
    /// The waits apply to all stages of all commands. Without commands, only the value is signalled.
    ///
    /// Submissions that need more (swapchain semaphores, for example) are made under
    /// [`lock_queue`](Self::lock_queue), and recorded with [`QueueGuard::submitted`].
    ///
    /// ```no_run
    /// use allotment::device::vulkan::Device;
    /// use allotment::device::{CommandAllocator as _, QueueIndex};
    /// # fn record(device: &ash::Device, commands: ash::vk::CommandBuffer) {}
    /// # fn example(device: &Device) -> Result<(), allotment::device::DeviceError> {
    /// let queue = QueueIndex(0);
    /// let mut memory = device.create_command_allocator(queue)?;
    /// let commands = memory.next()?;
    /// record(device.raw(), commands);
    /// // SAFETY: the commands are recorded, and what they use lives until the value is reached.
    /// let value = unsafe { device.submit_commands(queue, &[], &[commands]) }?;
    /// # let _ = value;
    /// // …and when it is:
    /// memory.reset()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; nothing was submitted in that case.
    ///
    /// # Safety
    ///
    /// The command buffers are primary ones of this device and of the queue's family, recorded and ended, and
    /// valid to submit. They, the [allocators](CommandAllocator) that they were recorded into, and everything
    /// that they use stay alive and are not reset until the returned value is reached.
    pub unsafe fn submit_commands(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        commands: &[vk::CommandBuffer],
    ) -> Result<TimelineValue, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.queues.submit_commands(&self.shared.raw, queue, waits, commands) }
    }

    /// Returns the timeline semaphore of a queue, for the application's own submissions that wait for copies:
    /// submissions through this device are ordered with other such submissions only. The semaphore belongs to
    /// the device: wait for it, never destroy it, and signal it only as [`QueueGuard::submitted`] describes.
    #[must_use]
    pub fn timeline(&self, queue: QueueIndex) -> Option<vk::Semaphore> {
        self.shared.queues.semaphore(queue)
    }

    /// Returns a buffer's device address; `None` without [`EnabledFeatures::BUFFER_DEVICE_ADDRESS`].
    ///
    /// # Safety
    ///
    /// `buffer` is live, of this device, bound, and was created with
    /// `VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT`.
    #[must_use]
    pub unsafe fn buffer_address(&self, buffer: vk::Buffer) -> Option<vk::DeviceAddress> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.buffer_address(buffer) }
    }

    /// Returns the memory requirements of a buffer that the application created.
    ///
    /// # Safety
    ///
    /// `buffer` is live and of this device.
    #[must_use]
    pub unsafe fn requirements_of_buffer(&self, buffer: vk::Buffer) -> Requirements {
        buffer.memory_requirements(&self.shared)
    }

    /// Returns the memory requirements of an image that the application created. The kind is
    /// [`Unknown`](crate::device::ResourceKind::Unknown), since an image does not tell how it is tiled.
    ///
    /// # Safety
    ///
    /// `image` is live, of this device, and not disjoint.
    #[must_use]
    pub unsafe fn requirements_of_image(&self, image: vk::Image) -> Requirements {
        image.memory_requirements(&self.shared)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("device", &self.shared.raw.handle())
            .field("name", &self.shared.properties.name)
            .field("enabled", &self.shared.enabled)
            .finish_non_exhaustive()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.queues.destroy(&self.raw);
        self.descriptors.destroy(&self.raw);
        // The owner may destroy the application's device, so all objects of this crate are destroyed before,
        // independent of the field order.
        drop(self.owner.take());
    }
}

/// Converts a result of the driver to an error.
pub(crate) fn refused(result: vk::Result) -> DeviceError {
    match result {
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY => DeviceError::OutOfDeviceMemory,
        vk::Result::ERROR_OUT_OF_HOST_MEMORY => DeviceError::OutOfHostMemory,
        vk::Result::ERROR_TOO_MANY_OBJECTS => DeviceError::TooManyAllocations,
        vk::Result::ERROR_MEMORY_MAP_FAILED => DeviceError::MapFailed,
        vk::Result::ERROR_DEVICE_LOST => DeviceError::Lost,
        vk::Result::ERROR_FEATURE_NOT_PRESENT
        | vk::Result::ERROR_EXTENSION_NOT_PRESENT
        | vk::Result::ERROR_FORMAT_NOT_SUPPORTED => DeviceError::Unsupported,
        other => DeviceError::Other { code: other.as_raw() },
    }
}

impl From<vk::Result> for DeviceError {
    fn from(result: vk::Result) -> Self {
        refused(result)
    }
}

// SAFETY: the driver keeps memory valid until it is freed and handles unique meanwhile, all of the memory is
// mapped, and the properties are never written.
unsafe impl DeviceApi for Device {
    type Memory = vk::DeviceMemory;
    type Buffer = vk::Buffer;
    type Image = vk::Image;
    type BufferInfo<'a> = BufferInfo<'a>;
    type ImageInfo<'a> = ImageInfo<'a>;
    type MemoryOptions = MemoryOptions;
    /// The default is `UNDEFINED`, the initial layout of images, from which a transition may discard the
    /// contents.
    type ImageState = vk::ImageLayout;

    fn properties(&self) -> &DeviceProperties {
        &self.shared.properties
    }

    fn id(&self) -> u64 {
        Arc::as_ptr(&self.shared).addr() as u64
    }

    fn heap_budget(&self, heap: MemoryHeapIndex) -> MemoryHeapBudget {
        self.shared.heap_budget(heap)
    }

    fn allocate_memory(&self, desc: &MemoryDesc<'_, MemoryOptions>) -> Result<vk::DeviceMemory, DeviceError> {
        self.shared.allocate(desc, DedicatedTo::Nothing)
    }

    unsafe fn free_memory(&self, memory: vk::DeviceMemory) {
        // SAFETY: the caller's promise.
        unsafe { self.shared.free(memory) };
    }

    unsafe fn map_memory(&self, memory: vk::DeviceMemory) -> Result<NonNull<u8>, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.map(memory) }
    }

    unsafe fn unmap_memory(&self, memory: vk::DeviceMemory) {
        // SAFETY: the caller's promise.
        unsafe { self.shared.raw.unmap_memory(memory) };
    }

    unsafe fn flush_memory(&self, memory: vk::DeviceMemory, range: Range<u64>) -> Result<(), DeviceError> {
        let ranges = [memory::mapped_range(memory, &range)];
        if range.is_empty() {
            return Ok(());
            // Vulkan forbids a range of size 0.
        }
        // SAFETY: the caller's promise: live, mapped, whole atoms.
        unsafe { self.shared.raw.flush_mapped_memory_ranges(&ranges) }.map_err(refused)
    }

    unsafe fn invalidate_memory(
        &self,
        memory: vk::DeviceMemory,
        range: Range<u64>,
    ) -> Result<(), DeviceError> {
        let ranges = [memory::mapped_range(memory, &range)];
        if range.is_empty() {
            return Ok(());
            // Vulkan forbids a range of size 0.
        }
        // SAFETY: the caller's promise: live, mapped, whole atoms.
        unsafe { self.shared.raw.invalidate_mapped_memory_ranges(&ranges) }.map_err(refused)
    }

    fn buffer_size(&self, info: &BufferInfo<'_>) -> u64 {
        info.size()
    }

    fn buffer_transfer_usage(&self, info: &BufferInfo<'_>) -> TransferUsage {
        info.transfer_usage()
    }

    fn relocatable_buffer_info(&self, info: &BufferInfo<'_>) -> Option<BufferInfo<'static>> {
        info.relocatable()
    }

    fn buffer_requirements(&self, info: &BufferInfo<'_>) -> Result<Requirements, DeviceError> {
        self.shared.buffer_requirements(info)
    }

    unsafe fn create_buffer(
        &self,
        info: &BufferInfo<'_>,
        memory: vk::DeviceMemory,
        offset: u64,
    ) -> Result<vk::Buffer, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.create_buffer(info, memory, offset) }
    }

    fn create_dedicated_buffer(
        &self,
        info: &BufferInfo<'_>,
        memory: &MemoryDesc<'_, MemoryOptions>,
    ) -> Result<(vk::DeviceMemory, vk::Buffer), DeviceError> {
        self.shared.create_dedicated_buffer(info, memory)
    }

    unsafe fn destroy_buffer(&self, buffer: vk::Buffer) {
        // SAFETY: the caller's promise.
        unsafe { self.shared.raw.destroy_buffer(buffer, None) };
    }

    fn image_requirements(&self, info: &ImageInfo<'_>) -> Result<Requirements, DeviceError> {
        self.shared.image_requirements(info)
    }

    unsafe fn create_image(
        &self,
        info: &ImageInfo<'_>,
        memory: vk::DeviceMemory,
        offset: u64,
    ) -> Result<vk::Image, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.create_image(info, memory, offset) }
    }

    fn create_dedicated_image(
        &self,
        info: &ImageInfo<'_>,
        memory: &MemoryDesc<'_, MemoryOptions>,
    ) -> Result<(vk::DeviceMemory, vk::Image), DeviceError> {
        self.shared.create_dedicated_image(info, memory)
    }

    unsafe fn destroy_image(&self, image: vk::Image) {
        // SAFETY: the caller's promise.
        unsafe { self.shared.raw.destroy_image(image, None) };
    }

    fn image_kind(&self, info: &ImageInfo<'_>) -> ResourceKind {
        info.kind()
    }

    fn relocatable_image_info(&self, info: &ImageInfo<'_>) -> Option<ImageInfo<'static>> {
        info.relocatable()
    }

    fn priority_support(&self) -> PrioritySupport {
        if self.shared.pageable.is_some() {
            PrioritySupport::AnyTime
        } else if self.shared.enabled.contains(EnabledFeatures::MEMORY_PRIORITY) {
            PrioritySupport::WhenAllocated
        } else {
            PrioritySupport::Ignored
        }
    }

    unsafe fn set_memory_priority(
        &self,
        memory: vk::DeviceMemory,
        priority: Priority,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.set_priority(memory, priority) }
    }

    unsafe fn name_memory(&self, memory: vk::DeviceMemory, name: &str) {
        self.shared.name(memory, name);
    }

    unsafe fn name_buffer(&self, buffer: &vk::Buffer, name: &str) {
        self.shared.name(*buffer, name);
    }

    unsafe fn name_image(&self, image: &vk::Image, name: &str) {
        self.shared.name(*image, name);
    }

    unsafe fn submit(
        &self,
        queue: QueueIndex,
        submission: &Submission<'_, Self>,
    ) -> Result<TimelineValue, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.queues.submit(&self.shared.raw, queue, submission) }
    }

    fn submitted(&self, queue: QueueIndex) -> TimelineValue {
        self.shared.queues.submitted(queue)
    }

    fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError> {
        self.shared.queues.completed(&self.shared.raw, queue)
    }

    fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError> {
        self.shared.queues.wait(&self.shared.raw, point, timeout)
    }
}
