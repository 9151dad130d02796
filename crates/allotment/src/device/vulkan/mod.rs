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
//! | images written by the CPU | `hostImageCopy` of Vulkan 1.4 or of `VK_EXT_host_image_copy`: without staging | staged |
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
mod buffer_classes;
mod buffers;
mod commands;
mod copies;
mod desc;
mod descriptors;
#[cfg(unix)]
mod external;
mod families;
mod formats;
mod full_images;
mod host_copies;
mod images;
mod memory;
mod names;
mod options;
mod ownership;
mod properties;
mod queues;
mod requirements;
mod reserved;
mod residency;
mod resources;
mod supported;
mod version;

use core::any::Any;
use core::fmt;
use core::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ash::vk;

use super::{
    DescriptionLimit, DeviceError, DeviceProperties, MemoryHeapIndex, QueueIndex, Requirements,
    TimelinePoint, TimelineValue,
};

pub use buffers::BufferInfo;
pub use commands::CommandAllocator;
pub use desc::{DeviceDesc, EnabledFeatures};
pub use descriptors::{
    Descriptor, DescriptorHeap, DescriptorModel, DescriptorSetLayout, ImageView, ImageViewDesc, Sampler,
    StaticSamplers, TexelBuffer, TexelBufferView,
};
pub use images::ImageInfo;
pub(crate) use options::DedicatedTo;
pub use options::MemoryOptions;
pub use queues::QueueGuard;
pub use supported::{FeatureStructure, Supported};

use super::budget::Budgets;
use super::ledger::Ledger;
use super::queue::binding_queue;
use buffer_classes::BufferClasses;
use buffers::Addresses;
use desc::NEEDS_VULKAN_1_1;
use descriptors::Descriptors;
use host_copies::HostCopies;
use options::Sharing;
use queues::Queues;
use requirements::{Maintenance4, RequirementsOf};
use resources::Bindable as _;

/// A Vulkan device. A clone refers to the same device.
///
/// The last clone that is dropped submits an empty batch to each queue, if any was used, and waits for it for at most five
/// seconds: no other code uses the queues at that time, nor calls `vkDeviceWaitIdle`.
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
    buffer_classes: BufferClasses,
    host_copies: Option<HostCopies>,
    requirements: RequirementsOf,
    addresses: Option<Addresses>,
    debug_utils: Option<ash::ext::debug_utils::Device>,
    pageable: Option<ash::ext::pageable_device_local_memory::Device>,
    #[cfg(unix)]
    external_memory_fd: Option<ash::khr::external_memory_fd::Device>,
    ledger: Ledger<Sharing>,
    budgets: Budgets,
    /// Vulkan forbids that memory is mapped, or its priority set, while another thread binds a resource to it. Binds share
    /// this lock. It is one for all memory: no call under it takes long, and little memory is mapped once a program runs.
    memory: RwLock<()>,
    descriptors: Descriptors,
    queues: Queues,
    /// The queue that binds memory to reserved buffers, if the device has them.
    binding_queue: Option<QueueIndex>,
    /// Their addresses.
    reserved: reserved::Addresses,
    /// The last field, so that it is dropped after all others.
    owner: Option<Arc<dyn Any + Send + Sync>>,
}

impl Shared {
    /// For a call that binds a resource to memory.
    fn memory_shared(&self) -> RwLockReadGuard<'_, ()> {
        self.memory.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// For a call during which nothing else may be done with its memory.
    fn memory_alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.memory.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Device {
    /// Creates a device over the application's own. Creates one driver object per queue: its timeline semaphore.
    ///
    /// # Errors
    ///
    /// [`DeviceError::TimelineSemaphoreNotEnabled`] for queues without [`EnabledFeatures::TIMELINE_SEMAPHORE`].
    /// [`DeviceError::InvalidDescription`] for more than 256 queues, or for descriptor types that are not in Vulkan 1.0 or
    /// are listed twice. [`DeviceError::QueueCannotCopy`]. [`DeviceError::Unsupported`] for a [descriptor
    /// model](DeviceDesc::with_descriptor_model) that is not enabled; otherwise the driver's error.
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
        // Three bounds: the instance's version limits what the application may call, the physical device's what
        // the driver has, and the application may want less.
        // SAFETY: the physical device is of this instance.
        let version = unsafe { version::found(&desc.instance, desc.physical_device, &desc.device) };
        let version = version.min(desc.api_version).min(supported.api_version);
        // A queue index has 8 bits.
        DescriptionLimit::Queues.check(desc.queues.len() as u64, 256)?;
        if version < vk::API_VERSION_1_1 {
            // The functions that query them are missing.
            desc.enabled -= NEEDS_VULKAN_1_1;
        }
        let DeviceDesc { instance, physical_device, device: raw, enabled, queues, owner, .. } = desc.clone();
        // Loaded through the instance, since `ash` resolves device functions with it.
        let maintenance4 = Maintenance4::of(&instance, &raw, version, enabled);
        // SAFETY: the caller's promise about the handles.
        let described =
            unsafe { properties::describe(&instance, physical_device, version, maintenance4.is_some()) };
        let (mut properties, max_buffer_size) = described;
        // SAFETY: as above.
        let host_copies = unsafe { HostCopies::new(&instance, physical_device, &raw, enabled) };
        let usable_types = properties::usable_types(&properties, enabled);
        // Completion is told by timelines alone, so queues without them are refused at once and not at the first
        // submission.
        if !queues.is_empty() && !enabled.contains(EnabledFeatures::TIMELINE_SEMAPHORE) {
            return Err(DeviceError::TimelineSemaphoreNotEnabled);
        }
        // SAFETY: as above.
        let of_families = unsafe { properties::families(&instance, physical_device) };
        let kinds = properties::family_kinds(&of_families);
        properties.queues = properties::queue_kinds(&queues, &kinds)?;
        let any_box = |family| properties::copies_any_box(&of_families, family);
        let binding_queue = binding_queue(&properties.queues, |queue| {
            enabled.contains(EnabledFeatures::SPARSE_BUFFERS)
                && properties::binds_ranges(&of_families, queues[queue].1)
        });
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
        // A descriptor buffer is one buffer in one memory object: both limits apply.
        let largest = max_buffer_size.min(properties.limits.max_allocation_size);
        // SAFETY: the caller's promise.
        let descriptors = unsafe { Descriptors::new(&desc, largest) }?;
        let queues = Queues::new(&instance, &raw, version, &queues, &properties.queues, any_box)
            // Descriptors own a sampler by now, which nothing else would destroy.
            .inspect_err(|_| descriptors.destroy(&raw))?;
        let shared = Shared {
            ledger: Ledger::new(&properties),
            budgets: Budgets::default(),
            memory: RwLock::default(),
            descriptors,
            version,
            queues,
            binding_queue,
            reserved: reserved::Addresses::new(supported.limits.sparse_address_space_size),
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
            buffer_classes: BufferClasses::default(),
            host_copies,
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
    /// through the device deadlocks. So does one that opens a recording, where another thread is about to submit the
    /// copies of a [defragmentation](crate::memory::Defragmenter::step) to this queue; and, where this queue binds memory to
    /// sparse buffers, one that creates a piece of an [expandable buffer](crate::memory::ExpandableBuffer) or trims it. Returns
    /// `None` if the queue does not exist.
    #[must_use]
    pub fn lock_queue(&self, queue: QueueIndex) -> Option<QueueGuard<'_>> {
        self.shared.queues.lock(queue)
    }

    /// Submits the application's own command buffers. They execute once the waits are satisfied, and the queue's
    /// timeline reaches the returned value when all of them are complete, as with
    /// [`submit`](crate::device::QueueDevice::submit). The waits apply to all stages of all commands. Without commands,
    /// only the value is signalled.
    ///
    /// Submissions that need more (swapchain semaphores, for example) are made under
    /// [`lock_queue`](Self::lock_queue), and recorded with [`QueueGuard::submitted`].
    ///
    /// ```no_run
    /// use allotment::device::vulkan::Device;
    /// use allotment::device::{CommandAllocator as _, CommandDevice as _, QueueIndex};
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

    /// Binds a buffer that the application created.
    ///
    /// # Safety
    ///
    /// It is live, of this device and not bound; its memory requirements hold at `offset`.
    pub(crate) unsafe fn bind_existing_buffer(
        &self,
        buffer: vk::Buffer,
        memory: vk::DeviceMemory,
        offset: u64,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { buffer.bind(&self.shared, memory, offset) }.map_err(refused)
    }

    /// Binds an image that the application created.
    ///
    /// # Safety
    ///
    /// It is live, of this device, not bound and not disjoint; its memory requirements hold at `offset`.
    pub(crate) unsafe fn bind_existing_image(
        &self,
        image: vk::Image,
        memory: vk::DeviceMemory,
        offset: u64,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { image.bind(&self.shared, memory, offset) }.map_err(refused)
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
        // Queues first: they wait for the work that may still use the samplers.
        self.queues.destroy(&self.raw);
        self.descriptors.destroy(&self.raw);
        // The owner may destroy the application's device, so all objects of this crate are destroyed before,
        // independent of the field order.
        drop(self.owner.take());
    }
}

/// Converts a result of the driver to an error.
pub(crate) fn refused(result: vk::Result) -> DeviceError {
    // Both errors of memory matter to callers: on `OUT_OF_DEVICE_MEMORY` the allocator tries other heaps.
    match result {
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY => DeviceError::OutOfDeviceMemory,
        vk::Result::ERROR_OUT_OF_HOST_MEMORY => DeviceError::OutOfHostMemory,
        // Returned where `maxMemoryAllocationCount` is reached, which larger blocks avoid.
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
