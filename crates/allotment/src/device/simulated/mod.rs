//! A simulated GPU: its memory is real memory, its queues are threads that execute copies asynchronously, and it
//! fails on demand.
//!
//! It does what a driver cannot be made to do on demand: run out of memory at the k-th call, lose the device,
//! have unusual limits, be a machine that is not available. A [`Profile`] defines its heaps, memory types and
//! limits.
//!
//! It also validates its use, like a validation layer: it records invalid calls for which a real driver has no
//! error (memory freed while a queue still uses it, a flush that is not aligned to atoms, a double map, a copy
//! of a buffer without the usage for it). [`SimulatedGpu::validation_errors`] returns them.
//!
//! Among them are hazards, as synchronization validation finds them: two queues access the same bytes, one of them
//! writes, and neither waits for the other, nor had the host seen the one completed when it submitted the other. They are
//! found by this order alone, so also where the queues happened to run one after the other and every byte is right. Within
//! one submission, whose copies run in any order, so are copies that access the same bytes. Accesses by the CPU are not
//! checked.
//!
//! So are copies of [exclusive](super::SharingMode::Exclusive) resources on a queue of a family that does not own the bytes
//! that it reads, and transfers of ownership without their other half, on devices with [families](QueueFamilies) of queues.
//!
//! Where memory is not host-coherent, the CPU and the queues see different bytes until a flush or an invalidate,
//! so a forgotten flush shows as wrong bytes.
//!
//! ```
//! use allotment::device::simulated::{SimulatedGpu, Profile};
//! use allotment::device::{DeviceError, MemoryDesc, MemoryDevice as _, MemoryTypeIndex};
//!
//! let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
//! device.fail_call(1, DeviceError::OutOfDeviceMemory);
//! let wanted = MemoryDesc::new(MemoryTypeIndex(0), 4096);
//! assert_eq!(device.allocate_memory(&wanted), Err(DeviceError::OutOfDeviceMemory));
//! assert!(device.allocate_memory(&wanted).is_ok(), "only that one call failed");
//! assert_eq!(device.usage().memory_objects, 1);
//! ```

mod buffers;
mod commands;
mod descriptors;
mod faults;
mod formats;
mod hazards;
mod images;
mod memory;
mod names;
mod ownership;
mod profile;
mod queues;
mod reads;
mod reserved;
mod resources;
mod sample_list;
mod samples;

use core::time::Duration;
use std::sync::{Arc, Mutex};

use super::{DeviceError, DeviceProperties, MemoryHeapIndex, Priority, Requirements, ResourceKind};
use crate::sync::locked;

pub use buffers::SimulatedBuffer;
pub use commands::CommandAllocator;
pub use descriptors::{SimulatedDescriptor, SimulatedDescriptorHeap, SimulatedImageUse, SimulatedSampler};
use faults::Faults;
pub use images::SimulatedImage;
use memory::Memories;
pub use memory::SimulatedMemory;
use names::Names;
pub use profile::{Profile, QueueFamilies};
use queues::Queues;
pub use reads::SimulatedRead;
use resources::Users;
pub use sample_list::SimulatedSampleList;
pub use samples::SimulatedSample;

/// The simulated GPU. A clone refers to the same device.
#[derive(Clone, Debug)]
pub struct SimulatedGpu {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    properties: DeviceProperties,
    profile: Profile,
    memories: Memories,
    /// The budgets set with [`SimulatedGpu::set_budget`], by heap.
    budgets: Mutex<Vec<u64>>,
    faults: Faults,
    queues: Queues,
    /// The user counts of destroyed resources, for reuse: so that the resources of a steady program cost no heap
    /// allocations here.
    spare_users: Mutex<Vec<Arc<Users>>>,
    /// The objects that descriptors can name.
    names: Arc<Names>,
    validation_errors: ValidationErrors,
}

/// The errors that a validation layer would have reported.
#[derive(Clone, Debug, Default)]
struct ValidationErrors(Arc<Mutex<Vec<String>>>);

impl ValidationErrors {
    fn add(&self, error: String) {
        locked(&self.0).push(error);
    }
}

/// The live objects of a device, and the number of calls made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimulatedUsage {
    /// Live memory objects.
    pub memory_objects: u32,
    /// Bytes in live memory objects.
    pub memory_bytes: u64,
    /// Live buffers.
    pub buffers: u64,
    /// Live images.
    pub images: u64,
    /// Live descriptor heaps.
    pub descriptor_heaps: u64,
    /// Live samplers.
    pub samplers: u32,
    /// Calls that allocated memory, successful or not, since the device was created.
    pub allocate_calls: u64,
    /// Calls that freed memory.
    pub free_calls: u64,
    /// Calls that mapped memory, successful or not.
    pub map_calls: u64,
    /// Calls that bound memory to ranges of reserved buffers.
    pub bind_calls: u64,
    /// Bytes in memory objects that are mapped.
    pub mapped_bytes: u64,
    /// Calls that copied descriptors, regardless of their number.
    pub descriptor_copies: u64,
}

impl SimulatedGpu {
    /// Creates a device with a profile. Its queues' threads start when they are first used.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        let properties = profile.properties();
        let validation_errors = ValidationErrors::default();
        let names = Arc::<Names>::default();
        let shared = Shared {
            memories: Memories::new(&properties, validation_errors.clone()),
            // Below the heap's size, as on a desktop where other programs use memory too.
            budgets: Mutex::new(properties.heaps.iter().map(|heap| heap.size / 10 * 9).collect()),
            faults: Faults::default(),
            queues: Queues::new(profile.families(), Arc::clone(&names), validation_errors.clone()),
            // Enough for the resources that most programs destroy at once; more than that grow it.
            spare_users: Mutex::new(Vec::with_capacity(1024)),
            names,
            validation_errors,
            properties,
            profile,
        };
        Self { shared: Arc::new(shared) }
    }

    /// A [usage](super::BufferDesc::usage) of this device's buffers: the buffer may be bound to any memory, including
    /// that of images. Tests use it to access the bytes of images directly.
    pub const ANYWHERE: u64 = 1;

    /// A [usage](super::BufferDesc::usage) of this device's buffers: the buffer cannot be a copy source, as in Vulkan
    /// without `VK_BUFFER_USAGE_TRANSFER_SRC_BIT`.
    pub const NO_TRANSFER_SRC: u64 = 1 << 1;

    /// A [usage](super::BufferDesc::usage) of this device's buffers: the buffer cannot be a copy destination, as in
    /// Vulkan without `VK_BUFFER_USAGE_TRANSFER_DST_BIT`.
    pub const NO_TRANSFER_DST: u64 = 1 << 2;

    /// A [usage](super::BufferDesc::usage) of this device's buffers: the buffer has no device address, as in Vulkan without
    /// `VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT`.
    pub const NO_DEVICE_ADDRESS: u64 = 1 << 5;

    /// A [usage](super::BufferDesc::usage) of this device's buffers: shaders may not write the buffer, as in Direct3D 12
    /// without `D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS`.
    pub const NO_UNORDERED_ACCESS: u64 = 1 << 6;

    /// A usage of this device's [buffers](super::BufferDesc::usage) and [images](super::ImageDesc::usage): the resource
    /// [requires](super::DedicatedNeed::Required) dedicated memory, as in Vulkan where the driver reports
    /// `requiresDedicatedAllocation`. Such a resource is created together with its memory
    /// ([`create_dedicated_buffer`](crate::device::BufferDevice::create_dedicated_buffer),
    /// [`create_dedicated_image`](crate::device::ImageDevice::create_dedicated_image)). The device refuses to bind it
    /// to other memory, and reports a [validation error](Self::validation_errors).
    pub const REQUIRES_DEDICATED: u64 = 1 << 3;

    /// Returns the profile that the device was created with.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.shared.profile
    }

    /// Returns the memory requirements of a resource of this kind, which by itself has the requirements `own`.
    #[must_use]
    pub fn requirements(&self, kind: ResourceKind, own: Requirements) -> Requirements {
        self.shared.profile.requirements(kind, own)
    }

    /// Returns the live objects and the number of calls so far.
    #[must_use]
    pub fn usage(&self) -> SimulatedUsage {
        self.shared.memories.usage()
    }

    /// Returns the residency priority of live memory that was set last; `None` if the memory is not live. The
    /// simulated GPU never evicts memory, so the priority has no effect.
    #[must_use]
    pub fn priority_of(&self, memory: SimulatedMemory) -> Option<Priority> {
        self.shared.memories.get(memory).map(|object| object.priority())
    }

    /// Returns the validation errors so far: the invalid uses that a validation layer would report. Empty for a
    /// correct program.
    #[must_use]
    pub fn validation_errors(&self) -> Vec<String> {
        locked(&self.shared.validation_errors.0).clone()
    }

    /// Returns the number of fallible calls so far.
    #[must_use]
    pub fn fallible_calls(&self) -> u64 {
        self.shared.faults.calls()
    }

    /// Makes the `k`-th fallible call from now, counted from 1, fail with `error`, and only that one.
    pub fn fail_call(&self, k: u64, error: DeviceError) {
        self.shared.faults.fail(k, 1, error);
    }

    /// Makes every fallible call, starting with the `k`-th from now, fail with `error`.
    pub fn fail_from(&self, k: u64, error: DeviceError) {
        self.shared.faults.fail(k, u64::MAX, error);
    }

    /// Removes the failures of [`fail_call`](Self::fail_call) and [`fail_from`](Self::fail_from). A lost device
    /// stays lost.
    pub fn clear_faults(&self) {
        self.shared.faults.clear_faults();
    }

    /// Loses the device: from now on every fallible call returns [`DeviceError::Lost`], and submitted work never
    /// completes.
    pub fn lose_device(&self) {
        self.shared.faults.lose_device();
        self.shared.queues.lose_device();
    }

    /// Sets the budget that the device reports for a heap. The default is nine tenths of the heap.
    pub fn set_budget(&self, heap: MemoryHeapIndex, bytes: u64) {
        if let Some(budget) = locked(&self.shared.budgets).get_mut(heap.get()) {
            *budget = bytes;
        }
    }

    /// Sets the bytes of memory that can be mapped together, as in a 32-bit program: a map that exceeds them fails with
    /// [`DeviceError::MapFailed`]. The default is no limit.
    pub fn set_address_space(&self, bytes: u64) {
        self.shared.memories.set_address_space(bytes);
    }

    /// Stops all queues before their next submission, until [`resume_queues`](Self::resume_queues).
    pub fn pause_queues(&self) {
        self.shared.queues.set_paused(true);
    }

    /// Resumes the queues after [`pause_queues`](Self::pause_queues).
    pub fn resume_queues(&self) {
        self.shared.queues.set_paused(false);
    }

    /// Sets the minimum duration of each submission, in addition to its copies. The default is zero.
    pub fn set_latency(&self, latency: Duration) {
        self.shared.queues.set_latency(latency);
    }

    fn report(&self, error: impl Into<String>) {
        self.shared.validation_errors.add(error.into());
    }
}
