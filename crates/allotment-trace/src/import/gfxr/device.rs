//! The devices of a capture: which one the program used, its heaps, memory types and limits.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use allotment::device::MemoryHeapIndex;
use allotment::events::Event;

use super::super::builder::{Builder, cut};
use super::CallError;
use super::json::{Flags, Num, find};
use crate::recording::{Api, Header, Heap, Library, MemoryType};

/// The most heaps, and the most memory types twice: Vulkan's limits.
const MAX_HEAPS: usize = 16;
/// The most physical devices whose properties are kept. No machine has more.
const MAX_DEVICES: usize = 64;

const PROPERTY_NAMES: [&str; 7] = [
    "VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT",
    "VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT",
    "VK_MEMORY_PROPERTY_HOST_COHERENT_BIT",
    "VK_MEMORY_PROPERTY_HOST_CACHED_BIT",
    "VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT",
    "VK_MEMORY_PROPERTY_PROTECTED_BIT",
    "VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD",
];

/// The known properties of physical devices.
#[derive(Default)]
pub(super) struct Devices {
    known: HashMap<u64, Header>,
    /// The physical device of the first device that was created, or the first that was asked about.
    used: Option<u64>,
    created: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PropertiesArgs<'a> {
    physical_device: Num,
    #[serde(borrow)]
    p_properties: Option<Properties2<'a>>,
}

/// `VkPhysicalDeviceProperties`, or that in `VkPhysicalDeviceProperties2`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Properties2<'a> {
    properties: Option<Properties>,
    #[serde(default)]
    device_name: String,
    #[serde(default)]
    driver_version: Num,
    #[serde(default)]
    limits: Limits,
    #[serde(borrow)]
    p_next: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Properties {
    #[serde(default)]
    device_name: String,
    #[serde(default)]
    driver_version: Num,
    #[serde(default)]
    limits: Limits,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Limits {
    buffer_image_granularity: Num,
    non_coherent_atom_size: Num,
    max_memory_allocation_count: Num,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DriverProperties {
    #[serde(default)]
    driver_name: String,
    #[serde(default)]
    driver_info: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MemoryArgs<'a> {
    physical_device: Num,
    #[serde(borrow)]
    p_memory_properties: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MemoryProperties2<'a> {
    memory_properties: Option<MemoryProperties>,
    #[serde(borrow)]
    p_next: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MemoryProperties {
    memory_types: Vec<VkMemoryType>,
    memory_heaps: Vec<VkMemoryHeap>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VkMemoryType {
    property_flags: Flags,
    heap_index: Num,
}

#[derive(Deserialize)]
struct VkMemoryHeap {
    size: Num,
    #[serde(default)]
    flags: Flags,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MemoryBudget {
    heap_budget: Vec<Num>,
    heap_usage: Vec<Num>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreateDevice {
    physical_device: Num,
}

impl Devices {
    /// Notes a device that the program created.
    pub(super) fn created(&mut self, args: &str) -> serde_json::Result<()> {
        let args: CreateDevice = serde_json::from_str(args)?;
        if !self.created {
            self.created = true;
            self.used = Some(args.physical_device.0);
        }
        Ok(())
    }

    /// Notes properties of a physical device.
    pub(super) fn properties(&mut self, args: &str, builder: &Builder<'_>) -> Result<(), CallError> {
        let args: PropertiesArgs<'_> = serde_json::from_str(args)?;
        let Some(given) = args.p_properties else { return Ok(()) };
        let Some(header) = self.header(args.physical_device.0) else { return Ok(()) };
        let found = given.properties.unwrap_or(Properties {
            device_name: given.device_name,
            driver_version: given.driver_version,
            limits: given.limits,
        });
        header.device = cut(&found.device_name).to_owned();
        header.buffer_image_granularity = found.limits.buffer_image_granularity.0.max(1);
        header.non_coherent_atom_size = found.limits.non_coherent_atom_size.0.max(1);
        header.max_memory_objects =
            u32::try_from(found.limits.max_memory_allocation_count.0).unwrap_or(u32::MAX);
        if found.driver_version.0 != 0 && header.driver.is_empty() {
            header.driver = format!("driver version {:#x}", found.driver_version.0);
        }
        let s_type = "VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES";
        if let Some(driver) = find::<DriverProperties>(given.p_next, s_type, builder.budget)? {
            header.driver = cut(format!("{} {}", driver.driver_name, driver.driver_info).trim()).to_owned();
        }
        Ok(())
    }

    /// Notes heaps and memory types of a physical device, and its budgets at this moment.
    pub(super) fn memory(&mut self, args: &str, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let args: MemoryArgs<'_> = serde_json::from_str(args)?;
        let Some(raw) = args.p_memory_properties else { return Ok(()) };
        let both: MemoryProperties2<'_> = serde_json::from_str(raw.get())?;
        let found = match both.memory_properties {
            Some(found) => found,
            None => serde_json::from_str(raw.get())?,
        };
        let device = args.physical_device.0;
        if let Some(header) = self.header(device) {
            // Converters may write the unused rest of Vulkan's arrays.
            let heaps = found.memory_heaps.iter().take(MAX_HEAPS);
            header.heaps = heaps
                .map(|heap| Heap {
                    size: heap.size.0,
                    device_local: heap.flags.bits(&["VK_MEMORY_HEAP_DEVICE_LOCAL_BIT"]) & 1 != 0,
                })
                .collect();
            let types = found.memory_types.iter().take(2 * MAX_HEAPS);
            header.memory_types = types
                .map(|kind| MemoryType {
                    heap: u8::try_from(kind.heap_index.0).unwrap_or(u8::MAX),
                    // The bits have Vulkan's numbers; those that only Direct3D 12 needs are not Vulkan's.
                    properties: (kind.property_flags.bits(&PROPERTY_NAMES) & 0x7f) as u32,
                })
                .collect();
        }
        let s_type = "VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT";
        let found_budget = find::<MemoryBudget>(both.p_next, s_type, builder.budget)?;
        if let Some(budget) = found_budget.filter(|_| self.used == Some(device)) {
            let heaps = budget.heap_budget.iter().zip(&budget.heap_usage).zip(&found.memory_heaps);
            for (i, ((budget, usage), _)) in heaps.take(MAX_HEAPS).enumerate() {
                let heap = MemoryHeapIndex(i as u8);
                builder.push(Event::Budget { heap, usage: usage.0, budget: budget.0 })?;
            }
        }
        Ok(())
    }

    fn header(&mut self, device: u64) -> Option<&mut Header> {
        self.used.get_or_insert(device);
        if self.known.len() >= MAX_DEVICES && !self.known.contains_key(&device) {
            return None;
        }
        Some(self.known.entry(device).or_insert_with(empty))
    }

    /// Returns the header of the device that the program used.
    pub(super) fn into_header(mut self) -> Header {
        self.used.and_then(|used| self.known.remove(&used)).unwrap_or_else(empty)
    }
}

fn empty() -> Header {
    Header {
        api: Api::Vulkan,
        library: Library::Driver,
        buffer_image_granularity: 1,
        non_coherent_atom_size: 1,
        ..Header::default()
    }
}
