//! Vulkan 1.1 and up, over the application's own instance and device.
//!
//! [`Device`] is made of handles that the application has (`ash`'s tables of functions, a physical device, a
//! device, its queues) and of what it says is [enabled](Enabled). Nothing else is used: an extension that was
//! not named is never called, whatever the driver offers. What became core is used from the version on that
//! the application asked for.
//!
//! | what | with | without |
//! |---|---|---|
//! | budgets | `VK_EXT_memory_budget`: at most 1 ms old | own bytes, and 80 % of the heap |
//! | requirements | Vulkan 1.3 or `VK_KHR_maintenance4`: asked of a description | asked of a temporary object |
//! | priorities | `VK_EXT_memory_priority` | not passed on |
//! | queues | timeline semaphores, core since 1.2 | the device has none here; memory works all the same |
//!
//! Memory of protected and of device-coherent types exists only for who says that the feature is on: other
//! requests are refused before the driver sees them, and no resource's requirements name such a type.
//!
//! ```no_run
//! use allotment::device::vulkan::{Device, DeviceDesc, Enabled};
//! use allotment::{AllocationDesc, Allocator, AllocatorDesc, Intent, Requirements};
//! # fn engine() -> (ash::Instance, ash::vk::PhysicalDevice, ash::Device, ash::vk::Queue) { todo!() }
//!
//! let (instance, physical_device, device, queue) = engine();
//! let desc = DeviceDesc::new(instance, physical_device, device, ash::vk::API_VERSION_1_3)
//!     .with_enabled(Enabled::MEMORY_BUDGET | Enabled::TIMELINE_SEMAPHORE)
//!     .with_queue(queue, 0);
//! // SAFETY: the handles belong together, outlive the device, and what is said to be enabled is.
//! let device = unsafe { Device::new(desc) }?;
//! let allocator = Allocator::new(device, AllocatorDesc::default())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod budget;
mod buffers;
#[cfg(unix)]
mod external;
mod images;
mod memory;
mod names;
mod options;
mod properties;
mod queues;
mod requirements;
mod residency;
mod resources;

use core::any::Any;
use core::fmt;
use core::ops::Range;
use core::ptr::NonNull;
use core::time::Duration;
use std::sync::Arc;

use ash::vk;
use bitflags::bitflags;

use super::{
    Device as DeviceApi, DeviceError, DeviceProperties, HeapBudget, HeapIndex, MemoryDesc, QueueIndex,
    Requirements, ResourceKind, Submission, TimelinePoint, TimelineValue, Wait,
};

pub use buffers::BufferInfo;
pub use images::ImageInfo;
pub use options::{DedicatedTo, MemoryOptions};
pub use queues::QueueGuard;

use super::budget::Budgets;
use super::ledger::Ledger;
use queues::Queues;
use requirements::Maintenance4;
use resources::Bindable as _;

bitflags! {
    /// What the application enabled when it made its device, beside what its version makes core.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Enabled: u32 {
        /// `VK_EXT_memory_budget`.
        const MEMORY_BUDGET = 1;
        /// `VK_EXT_memory_priority` and its feature.
        const MEMORY_PRIORITY = 1 << 1;
        /// The feature `bufferDeviceAddress`, core (1.2) or of `VK_KHR_buffer_device_address`. All memory is
        /// then made so that buffers with addresses may stand in it.
        const BUFFER_DEVICE_ADDRESS = 1 << 2;
        /// The feature `deviceCoherentMemory` of `VK_AMD_device_coherent_memory`.
        const DEVICE_COHERENT_MEMORY = 1 << 3;
        /// The feature `timelineSemaphore`, core (1.2) or of `VK_KHR_timeline_semaphore`. Needed for queues.
        const TIMELINE_SEMAPHORE = 1 << 4;
        /// `VK_KHR_maintenance4` and its feature. Not needed from Vulkan 1.3 on.
        const MAINTENANCE4 = 1 << 5;
        /// `VK_KHR_external_memory_fd`.
        const EXTERNAL_MEMORY_FD = 1 << 6;
        /// `VK_EXT_external_memory_dma_buf`, and `VK_KHR_external_memory_fd` with it.
        const EXTERNAL_MEMORY_DMA_BUF = 1 << 7;
        /// The feature `protectedMemory`.
        const PROTECTED_MEMORY = 1 << 8;
        /// `VK_EXT_debug_utils` of the instance: what has a name is named to it.
        const DEBUG_UTILS = 1 << 9;
        /// `VK_EXT_pageable_device_local_memory` and its feature.
        const PAGEABLE_DEVICE_LOCAL_MEMORY = 1 << 10;
    }
}

/// What a [`Device`] is made of.
#[derive(Clone)]
#[non_exhaustive]
pub struct DeviceDesc {
    /// The functions of the application's instance.
    pub instance: ash::Instance,
    /// The physical device.
    pub physical_device: vk::PhysicalDevice,
    /// The functions of the application's device.
    pub device: ash::Device,
    /// The version that the application asked for (`VkApplicationInfo::apiVersion`), at least 1.1. What the
    /// physical device supports less is taken into account here.
    pub api_version: u32,
    /// What else was enabled.
    pub enabled: Enabled,
    /// Queues that may be submitted to, each with its family.
    pub queues: Vec<(vk::Queue, u32)>,
    /// Dropped after the last clone of the device: what destroys the application's device, say.
    pub owner: Option<Arc<dyn Any + Send + Sync>>,
}

impl DeviceDesc {
    /// A device of which nothing is enabled beside what is core in `api_version`, with no queues.
    #[must_use]
    pub fn new(
        instance: ash::Instance,
        physical_device: vk::PhysicalDevice,
        device: ash::Device,
        api_version: u32,
    ) -> Self {
        let (enabled, queues, owner) = (Enabled::empty(), Vec::new(), None);
        Self { instance, physical_device, device, api_version, enabled, queues, owner }
    }

    /// The same, and what was enabled.
    #[must_use]
    pub fn with_enabled(mut self, enabled: Enabled) -> Self {
        self.enabled |= enabled;
        self
    }

    /// The same with one more queue, of a family. It gets the next [`QueueIndex`].
    #[must_use]
    pub fn with_queue(mut self, queue: vk::Queue, family: u32) -> Self {
        self.queues.push((queue, family));
        self
    }

    /// The same, keeping `owner` until the last clone of the device is gone.
    #[must_use]
    pub fn kept_alive_by(mut self, owner: Arc<dyn Any + Send + Sync>) -> Self {
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
            .finish_non_exhaustive()
    }
}

/// A Vulkan device. A clone is the same device.
#[derive(Clone)]
pub struct Device {
    shared: Arc<Shared>,
}

struct Shared {
    instance: ash::Instance,
    physical_device: vk::PhysicalDevice,
    raw: ash::Device,
    enabled: Enabled,
    /// The version of Vulkan whose core may be used.
    version: u32,
    properties: DeviceProperties,
    /// Memory types that may be allocated: not those of features that are off.
    usable_types: u32,
    /// The most bytes of a buffer, where the driver says so.
    max_buffer_size: u64,
    /// The families of all queues, each once, in ascending order.
    families: Vec<u32>,
    maintenance4: Option<Maintenance4>,
    debug_utils: Option<ash::ext::debug_utils::Device>,
    pageable: Option<ash::ext::pageable_device_local_memory::Device>,
    #[cfg(unix)]
    external_memory_fd: Option<ash::khr::external_memory_fd::Device>,
    ledger: Ledger,
    budgets: Budgets,
    queues: Queues,
    /// Last, so that it goes after all else.
    owner: Option<Arc<dyn Any + Send + Sync>>,
}

impl Device {
    /// Makes a device of the application's own. A driver object a queue is made now: its
    /// semaphore.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsupported`] below Vulkan 1.1, for more than 256 queues, or for a queue that cannot
    /// copy, else what the driver refuses with.
    ///
    /// # Safety
    ///
    /// - The handles of `desc` belong together, and outlive all clones of the device, which an
    ///   [owner](DeviceDesc::owner) can see to.
    /// - What `desc` says is enabled is enabled, and `api_version` is no more than the instance was made
    ///   with.
    /// - Each queue was got from the device, of the family that is named with it, without flags; it is
    ///   named once, and whoever else uses it does so while holding [`lock_queue`](Self::lock_queue).
    pub unsafe fn new(desc: DeviceDesc) -> Result<Self, DeviceError> {
        let DeviceDesc { instance, physical_device, device: raw, api_version, enabled, queues, owner } = desc;
        // SAFETY: the physical device is of this instance.
        let supported = unsafe { instance.get_physical_device_properties(physical_device) }.api_version;
        let version = api_version.min(supported);
        if version < vk::API_VERSION_1_1 || queues.len() > 256 {
            return Err(DeviceError::Unsupported);
        }
        let maintenance4 = Maintenance4::of(&instance, &raw, version, enabled);
        // SAFETY: the caller's promise about the handles.
        let described = unsafe { properties::describe(&instance, physical_device, maintenance4.is_some()) };
        let (mut properties, max_buffer_size) = described;
        let usable_types = properties::usable_types(&properties, enabled);
        let queues = if enabled.contains(Enabled::TIMELINE_SEMAPHORE) { queues } else { Vec::new() };
        // SAFETY: as above.
        let kinds = unsafe { properties::queue_kinds(&instance, physical_device) };
        properties.queues = properties::queue_infos(&queues, &kinds)?;
        let mut families: Vec<u32> = queues.iter().map(|&(_, family)| family).collect();
        families.sort_unstable();
        families.dedup();
        let debug_utils = enabled
            .contains(Enabled::DEBUG_UTILS)
            .then(|| ash::ext::debug_utils::Device::new(&instance, &raw));
        #[cfg(unix)]
        let external_memory_fd = enabled
            .intersects(Enabled::EXTERNAL_MEMORY_FD | Enabled::EXTERNAL_MEMORY_DMA_BUF)
            .then(|| ash::khr::external_memory_fd::Device::new(&instance, &raw));
        let pageable = residency::functions(&instance, &raw, enabled);
        let queues = Queues::new(&instance, &raw, version, &queues)?;
        let shared = Shared {
            ledger: Ledger::new(&properties),
            budgets: Budgets::default(),
            version,
            queues,
            physical_device,
            raw,
            enabled,
            properties,
            usable_types,
            max_buffer_size,
            families,
            maintenance4,
            debug_utils,
            pageable,
            #[cfg(unix)]
            external_memory_fd,
            instance,
            owner,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The functions of the application's device.
    #[must_use]
    pub fn raw(&self) -> &ash::Device {
        &self.shared.raw
    }

    /// The physical device.
    #[must_use]
    pub fn physical_device(&self) -> vk::PhysicalDevice {
        self.shared.physical_device
    }

    /// What the application said is enabled.
    #[must_use]
    pub fn enabled(&self) -> Enabled {
        self.shared.enabled
    }

    /// Bytes of a heap that were got through this device and not given back: what is left behind, once all
    /// who use it have gone. 0 where there is no such heap.
    #[must_use]
    pub fn allocated_bytes(&self, heap: HeapIndex) -> u64 {
        self.shared.ledger.bytes(heap)
    }

    /// Takes a queue for the application's own use, as Vulkan wants it of who submits to it. Nobody submits
    /// through this device meanwhile: who holds the guard and submits through the device waits for itself. `None`
    /// where there is no such queue.
    #[must_use]
    pub fn lock_queue(&self, queue: QueueIndex) -> Option<QueueGuard<'_>> {
        self.shared.queues.lock(queue)
    }

    /// The semaphore whose timeline is the queue's, for work of the application's own that shall wait for
    /// copies: a submission to this device orders itself with other such submissions, and with nothing
    /// else. It belongs to the device: wait for it, never signal or destroy it.
    #[must_use]
    pub fn timeline(&self, queue: QueueIndex) -> Option<vk::Semaphore> {
        self.shared.queues.semaphore(queue)
    }

    /// What memory a buffer needs that was made without memory.
    ///
    /// # Safety
    ///
    /// `buffer` is live and of this device.
    #[must_use]
    pub unsafe fn requirements_of_buffer(&self, buffer: vk::Buffer) -> Requirements {
        buffer.needs(&self.shared)
    }

    /// What memory an image needs that was made without memory.
    ///
    /// # Safety
    ///
    /// `image` is live, of this device, and not disjoint.
    #[must_use]
    pub unsafe fn requirements_of_image(&self, image: vk::Image) -> Requirements {
        image.needs(&self.shared)
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
        // What destroys the application's device must find nothing of ours, whatever the order of fields.
        drop(self.owner.take());
    }
}

/// What a result of the driver means.
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

// SAFETY: the driver keeps memory valid until it is freed and handles unique meanwhile, all of the memory
// is mapped, and the properties are never written.
unsafe impl DeviceApi for Device {
    type Memory = vk::DeviceMemory;
    type Buffer = vk::Buffer;
    type Image = vk::Image;
    type BufferInfo<'a> = BufferInfo<'a>;
    type ImageInfo<'a> = ImageInfo<'a>;
    type MemoryOptions = MemoryOptions;

    fn properties(&self) -> &DeviceProperties {
        &self.shared.properties
    }

    fn heap_budget(&self, heap: HeapIndex) -> HeapBudget {
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
        }
        // SAFETY: the caller's promise: live, mapped, whole atoms.
        unsafe { self.shared.raw.invalidate_mapped_memory_ranges(&ranges) }.map_err(refused)
    }

    fn buffer_size(&self, info: &BufferInfo<'_>) -> u64 {
        info.size()
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

    fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError> {
        self.shared.queues.completed(&self.shared.raw, queue)
    }

    fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<Wait, DeviceError> {
        self.shared.queues.wait(&self.shared.raw, point, timeout)
    }
}
