//! The device that all benchmarks use, and its description in tables.

use std::sync::Arc;

use allotment::device::vulkan::{self, DeviceDesc, EnabledFeatures};
use allotment::device::{MemoryDevice as _, QueueIndex, QueueKind};
use allotment_headless::DeviceChoice;
use allotment_headless::vulkan::{Headless, HeadlessDesc};
use ash::vk;
use serde::Serialize;

use super::Meter;
use super::granularity::with_granularity_of;
use super::heap::with_heaps_of;
use super::tight::with_tight_memory;
use crate::args::Common;
use crate::failure::Failure;
use crate::units::bytes;

/// A Vulkan device and everything that it depends on. Destroyed after the last contender.
pub(crate) struct Gpu {
    /// Reports modified heap sizes, if requested.
    pub(crate) instance: ash::Instance,
    pub(crate) physical: vk::PhysicalDevice,
    pub(crate) device: ash::Device,
    /// The queue for copies, among those of [`library`](Self::library).
    pub(crate) queue: QueueIndex,
    pub(crate) queue_family: u32,
    pub(crate) info: GpuInfo,
    /// Owns all of the above.
    headless: Headless,
}

/// The description of the device in tables.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct GpuInfo {
    pub(crate) name: String,
    pub(crate) buffer_image_granularity: u64,
    /// The kind of the queue for copies.
    pub(crate) queue: String,
    /// By index.
    pub(crate) memory_types: Vec<MemoryTypeInfo>,
    /// Sizes in bytes, by index.
    pub(crate) heaps: Vec<u64>,
    /// The heap sizes are those that were requested, not the driver's.
    pub(crate) made_up_heaps: bool,
    /// The device runs on the CPU.
    pub(crate) software: bool,
}

/// A memory type of the device.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MemoryTypeInfo {
    pub(crate) index: usize,
    pub(crate) heap: u32,
    pub(crate) properties: String,
    #[serde(skip)]
    pub(crate) flags: vk::MemoryPropertyFlags,
}

/// Heap size to report on a software device; see `heap.rs`.
const SOFTWARE_HEAP_GIB: u32 = 16;

/// The API version passed to contenders.
pub(crate) const API_VERSION: u32 = vk::API_VERSION_1_2;

impl Gpu {
    /// Opens the requested device, or the best one.
    pub(crate) fn open(args: &Common) -> Result<Arc<Self>, Failure> {
        let choice = args.gpu.clone().map_or(DeviceChoice::Best, DeviceChoice::Named);
        let headless = Headless::open(&HeadlessDesc::default().with_device(choice))?;
        if headless.api_version() < API_VERSION {
            return Err(Failure::NoDevice(format!("{} has no Vulkan 1.2", headless.name())));
        }
        let (instance, physical) = (headless.instance(), headless.physical_device());
        // SAFETY: the physical device is the instance's.
        let properties = unsafe { instance.get_physical_device_properties(physical) };
        let software = properties.device_type == vk::PhysicalDeviceType::CPU;
        let heap_gib = args.heap_gib.unwrap_or(if software { SOFTWARE_HEAP_GIB } else { 0 });
        let made_up_heaps = heap_gib != 0;
        let instance =
            if made_up_heaps { with_heaps_of(u64::from(heap_gib) << 30, instance) } else { instance.clone() };
        let (queue, kind) = copy_queue(headless.device())?;
        // SAFETY: the physical device is the instance's.
        let memory = unsafe { instance.get_physical_device_memory_properties(physical) };
        let info = GpuInfo {
            name: headless.name().to_owned(),
            buffer_image_granularity: properties.limits.buffer_image_granularity,
            queue: format!("{kind:?}").to_lowercase(),
            memory_types: memory_types(&memory),
            heaps: memory.memory_heaps_as_slice().iter().map(|heap| heap.size).collect(),
            made_up_heaps,
            software,
        };
        let queue_family = headless.queue_families()[usize::from(queue.0)];
        let device = headless.raw().clone();
        Ok(Arc::new(Self { instance, physical, device, queue, queue_family, info, headless }))
    }

    /// Opens the device with memory of which its heaps can be full ([`tight`](super::tight)).
    pub(crate) fn open_tight(args: &Common) -> Result<Arc<Self>, Failure> {
        let mut gpu = Self::open(args)?;
        let opened = Arc::get_mut(&mut gpu).ok_or_else(|| Failure::NoDevice("it is in use".to_owned()))?;
        (opened.instance, opened.device) = with_tight_memory(&opened.instance, &opened.device);
        opened.info.made_up_heaps = true;
        Ok(gpu)
    }

    /// Opens the best device; prints a note and returns `None` if there is none and none is required.
    #[cfg(test)]
    pub(crate) fn open_for_test() -> Option<Arc<Self>> {
        match Self::open(&Common::default()) {
            Ok(gpu) => Some(gpu),
            Err(why) => {
                let required = std::env::var("ALLOTMENT_REQUIRE").unwrap_or_default();
                assert!(!required.split(',').any(|one| one == "vulkan"), "{why}");
                eprintln!("skipped: {why}");
                None
            }
        }
    }

    /// Returns the device for the library, with its queues and all features, unmetered, and with the driver's heap
    /// sizes.
    pub(crate) fn library(&self) -> &vulkan::Device {
        self.headless.device()
    }

    /// Returns the device for the library as a contender: metered, with the heap sizes that all contenders see, and
    /// with `enabled` of its features. It has no queues, since nothing is copied.
    pub(crate) fn metered(self: &Arc<Self>, enabled: EnabledFeatures) -> Result<vulkan::Device, Failure> {
        let device = Meter::Allotment.on(self);
        let version = self.headless.api_version();
        let desc = DeviceDesc::new(self.instance.clone(), self.physical, device)
            .with_api_version(version)
            .with_enabled(enabled & self.library().enabled())
            .with_keep_alive(Arc::clone(self) as _);
        // SAFETY: the handles belong together and are kept alive by the owner; `headless` has enabled all features that
        // `enabled` may name; no queue is named.
        unsafe { vulkan::Device::new(desc) }
            .map_err(|error| Failure::Setup { contender: "allotment", error: error.to_string() })
    }

    /// Returns the device as [`metered`](Self::metered) does, with the queue that binds memory to sparse buffers. `None` where
    /// there is none, or the device has less than `addresses` bytes of addresses for them.
    pub(crate) fn metered_for_sparse(
        self: &Arc<Self>,
        addresses: u64,
    ) -> Result<Option<vulkan::Device>, Failure> {
        // SAFETY: the physical device is the instance's.
        let properties = unsafe { self.instance.get_physical_device_properties(self.physical) };
        let Some(queue) = self.sparse_queue() else { return Ok(None) };
        if properties.limits.sparse_address_space_size < addresses {
            return Ok(None);
        }
        let family = self.headless.queue_families()[usize::from(queue.0)];
        let device = Meter::OwnExpandable.on(self);
        let enabled = EnabledFeatures::SPARSE_BUFFERS | EnabledFeatures::TIMELINE_SEMAPHORE;
        // SAFETY: the device was created with one queue of each of these families.
        let queue = unsafe { device.get_device_queue(family, 0) };
        let desc = DeviceDesc::new(self.instance.clone(), self.physical, device)
            .with_api_version(self.headless.api_version())
            .with_enabled(enabled & self.library().enabled())
            .with_queue(queue, family)
            .with_keep_alive(Arc::clone(self) as _);
        // SAFETY: the handles belong together and are kept alive by the owner; the features are enabled; nothing else uses the queue
        // while a trace is replayed.
        let made = unsafe { vulkan::Device::new(desc) };
        let refused = |error: allotment::device::DeviceError| Failure::Setup {
            contender: "own-expandable",
            error: error.to_string(),
        };
        made.map(Some).map_err(refused)
    }

    /// Returns a queue that binds memory to sparse buffers with unbound parts, if the device has such buffers: preferably
    /// that for copies.
    pub(crate) fn sparse_queue(&self) -> Option<QueueIndex> {
        if !self.headless.sparse_residency_buffer() {
            return None;
        }
        // SAFETY: the physical device is the instance's.
        let families = unsafe { self.instance.get_physical_device_queue_family_properties(self.physical) };
        let binds = |queue: &QueueIndex| {
            let family = self.headless.queue_families().get(usize::from(queue.0));
            let family = family.and_then(|&family| families.get(family as usize));
            family.is_some_and(|family| family.queue_flags.contains(vk::QueueFlags::SPARSE_BINDING))
        };
        let all = (0..).map(QueueIndex).take(self.headless.queue_families().len());
        core::iter::once(self.queue).chain(all).find(binds)
    }

    /// Returns the instance; from now on all devices report this granularity.
    pub(crate) fn instance_with_granularity(&self, bytes: u64) -> ash::Instance {
        with_granularity_of(bytes, &self.instance)
    }

    /// Returns the extensions that the library may use on [`metered`](Self::metered) when it is not compared with
    /// others. Modified heap sizes have no budgets from the driver.
    pub(crate) fn usable(&self) -> EnabledFeatures {
        if self.info.made_up_heaps {
            EnabledFeatures::all() - EnabledFeatures::MEMORY_BUDGET
        } else {
            EnabledFeatures::all()
        }
    }
}

impl GpuInfo {
    /// Returns remarks about the device and the build.
    pub(crate) fn notes(&self) -> Vec<String> {
        let heaps = || {
            let size = bytes(self.heaps.first().copied().unwrap_or(0));
            format!("heaps report {size} instead of the driver's sizes (--heap-gib)")
        };
        let slow = || "built without optimizations: the times are meaningless".to_owned();
        let notes = [self.made_up_heaps.then(heaps), cfg!(debug_assertions).then(slow)];
        notes.into_iter().flatten().collect()
    }
}

/// Returns the transfer-only queue, or the first queue if there is none.
fn copy_queue(device: &vulkan::Device) -> Result<(QueueIndex, QueueKind), Failure> {
    let queues = (0..).map(QueueIndex).zip(device.properties().queues.iter().copied());
    let found = queues.min_by_key(|&(_, kind)| kind != QueueKind::Transfer);
    found.ok_or_else(|| Failure::NoDevice("the device has no queue for copies".to_owned()))
}

fn memory_types(memory: &vk::PhysicalDeviceMemoryProperties) -> Vec<MemoryTypeInfo> {
    let types = memory.memory_types_as_slice().iter().enumerate();
    types
        .map(|(index, found)| MemoryTypeInfo {
            index,
            heap: found.heap_index,
            properties: format!("{:?}", found.property_flags).to_lowercase().replace('_', "-"),
            flags: found.property_flags,
        })
        .collect()
}
