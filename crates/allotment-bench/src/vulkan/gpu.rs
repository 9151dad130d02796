//! An instance, a device and a queue for copies.

use core::ffi::CStr;
use std::sync::{Arc, Mutex};

use ash::vk;
use serde::Serialize;

use super::heap::with_heaps_of;
use crate::args::Common;
use crate::failure::Failure;
use crate::units::bytes;

/// A Vulkan device, with all that it hangs on. Destroyed when the last contender has let go of it.
pub(crate) struct Gpu {
    pub(crate) instance: ash::Instance,
    pub(crate) physical: vk::PhysicalDevice,
    pub(crate) device: ash::Device,
    pub(crate) queue: Mutex<vk::Queue>,
    pub(crate) queue_family: u32,
    pub(crate) info: GpuInfo,
    /// Keeps the loader's library in memory; the last of the fields to go.
    _entry: ash::Entry,
}

/// What a table says of the device it was measured on.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct GpuInfo {
    pub(crate) name: String,
    pub(crate) buffer_image_granularity: u64,
    /// What the queue family that copies can do.
    pub(crate) queue: String,
    /// By index.
    pub(crate) memory_types: Vec<MemoryTypeInfo>,
    /// Bytes, by index.
    pub(crate) heaps: Vec<u64>,
    /// The heap sizes are not what the driver says, but what was asked for.
    pub(crate) made_up_heaps: bool,
    /// The device is a program on the CPU.
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

/// Heaps of a software device are said to have so much; see `heap.rs`.
const SOFTWARE_HEAP_GIB: u32 = 16;

/// The version that is asked for. VMA must be told the same.
pub(crate) const API_VERSION: u32 = vk::API_VERSION_1_2;

impl Gpu {
    /// Opens the device that is asked for, or else the one that is most of a GPU.
    pub(crate) fn open(args: &Common) -> Result<Arc<Self>, Failure> {
        // SAFETY: loading the Vulkan loader runs its initialisers, as every Vulkan program does; the entry
        // outlives all that comes of it.
        let entry = unsafe { ash::Entry::load() }
            .map_err(|error| Failure::NoDevice(format!("there is no Vulkan loader: {error}")))?;
        let application = vk::ApplicationInfo::default().api_version(API_VERSION);
        let create = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the structs are valid and live for the call.
        let instance =
            unsafe { entry.create_instance(&create, None) }.map_err(Failure::vulkan("vkCreateInstance"))?;
        match Self::open_in(&entry, &instance, args) {
            Ok(gpu) => Ok(Arc::new(gpu)),
            Err(failure) => {
                // SAFETY: nothing was made of the instance, or `open_in` would have succeeded; `entry` keeps
                // the loader in memory.
                unsafe { instance.destroy_instance(None) };
                Err(failure)
            }
        }
    }

    fn open_in(entry: &ash::Entry, instance: &ash::Instance, args: &Common) -> Result<Self, Failure> {
        let physical = choose(instance, args.gpu.as_deref())?;
        // SAFETY: the physical device is the instance's.
        let properties = unsafe { instance.get_physical_device_properties(physical) };
        let software = properties.device_type == vk::PhysicalDeviceType::CPU;
        let heap_gib = args.heap_gib.unwrap_or(if software { SOFTWARE_HEAP_GIB } else { 0 });
        let made_up_heaps = heap_gib != 0;
        let instance =
            if made_up_heaps { with_heaps_of(u64::from(heap_gib) << 30, instance) } else { instance.clone() };
        let (queue_family, queue_flags) = copy_family(&instance, physical)?;
        let queues =
            [vk::DeviceQueueCreateInfo::default().queue_family_index(queue_family).queue_priorities(&[1.0])];
        let mut timelines = vk::PhysicalDeviceTimelineSemaphoreFeatures::default().timeline_semaphore(true);
        let create = vk::DeviceCreateInfo::default().queue_create_infos(&queues).push_next(&mut timelines);
        // SAFETY: the structs are valid and live for the call; timeline semaphores are a feature that all
        // devices of Vulkan 1.2 have.
        let device = unsafe { instance.create_device(physical, &create, None) }
            .map_err(Failure::vulkan("vkCreateDevice"))?;
        // SAFETY: the device was made with one queue of this family.
        let queue = unsafe { device.get_device_queue(queue_family, 0) };
        // SAFETY: the physical device is the instance's.
        let memory = unsafe { instance.get_physical_device_memory_properties(physical) };
        let info = GpuInfo {
            name: name_of(&properties),
            buffer_image_granularity: properties.limits.buffer_image_granularity,
            queue: format!("{queue_flags:?}"),
            memory_types: memory_types(&memory),
            heaps: memory.memory_heaps_as_slice().iter().map(|heap| heap.size).collect(),
            made_up_heaps,
            software,
        };
        Ok(Self {
            instance,
            physical,
            device,
            queue: Mutex::new(queue),
            queue_family,
            info,
            _entry: entry.clone(),
        })
    }
}

impl GpuInfo {
    /// What is to be known of the device beside its figures.
    pub(crate) fn notes(&self) -> Vec<String> {
        let heaps = || {
            let size = bytes(self.heaps.first().copied().unwrap_or(0));
            format!("heaps are said to have {size}, whatever the driver says (--heap-gib)")
        };
        let slow = || "built without optimisations: the times mean nothing".to_owned();
        let notes = [self.made_up_heaps.then(heaps), cfg!(debug_assertions).then(slow)];
        notes.into_iter().flatten().collect()
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: whoever made something of the device holds an `Arc` of it and destroys that thing first.
        unsafe { self.device.destroy_device(None) };
        // SAFETY: the device was all that was made of the instance.
        unsafe { self.instance.destroy_instance(None) };
    }
}

fn name_of(properties: &vk::PhysicalDeviceProperties) -> String {
    properties.device_name_as_c_str().map_or("unnamed".into(), CStr::to_string_lossy).into_owned()
}

/// The device whose name holds `wanted`; where nothing is wanted, a real GPU rather than a program.
fn choose(instance: &ash::Instance, wanted: Option<&str>) -> Result<vk::PhysicalDevice, Failure> {
    // SAFETY: the instance lives.
    let all = unsafe { instance.enumerate_physical_devices() }
        .map_err(Failure::vulkan("vkEnumeratePhysicalDevices"))?;
    let mut found = Vec::new();
    let mut names = Vec::new();
    for physical in all {
        // SAFETY: the physical device is the instance's.
        let properties = unsafe { instance.get_physical_device_properties(physical) };
        let name = name_of(&properties);
        let rank = match properties.device_type {
            vk::PhysicalDeviceType::DISCRETE_GPU => 0,
            vk::PhysicalDeviceType::INTEGRATED_GPU => 1,
            vk::PhysicalDeviceType::VIRTUAL_GPU => 2,
            _ => 3,
        };
        let is_wanted = wanted.is_none_or(|wanted| name.to_lowercase().contains(&wanted.to_lowercase()));
        if is_wanted && properties.api_version >= API_VERSION {
            found.push((rank, physical));
        }
        names.push(name);
    }
    let best = found.into_iter().min_by_key(|&(rank, _)| rank);
    best.map(|(_, physical)| physical).ok_or_else(|| {
        Failure::NoDevice(format!("no device of Vulkan 1.2 fits, among: {}", names.join(", ")))
    })
}

/// The family that does nothing but copy, where there is one; else any that can.
fn copy_family(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
) -> Result<(u32, vk::QueueFlags), Failure> {
    let working = vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE;
    // SAFETY: the physical device is the instance's.
    let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
    let copies = |flags: vk::QueueFlags| flags.intersects(working | vk::QueueFlags::TRANSFER);
    (0..)
        .zip(families.iter().map(|family| family.queue_flags))
        .filter(|&(_, flags)| copies(flags))
        .min_by_key(|&(_, flags)| flags.intersects(working))
        .ok_or_else(|| Failure::NoDevice("the device has no queue that copies".to_owned()))
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
