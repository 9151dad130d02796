//! The device's properties, as the library sees them.

use allotment::device::{BufferDesc, BufferDevice as _, ImageDesc, ImageDevice as _, MemoryDevice as _};
use allotment::memory::preview::{MemoryTypeCandidate, Suitability};
use allotment::{Allocator, AllocatorDesc, MemoryUsage, ResourceKind};
use ash::vk;

use crate::failure::Failure;
use crate::units::bytes;
use crate::vulkan::Gpu;

pub(super) fn print(gpu: &Gpu) -> Result<(), Failure> {
    let device = gpu.library();
    let properties = device.properties();
    // SAFETY: the physical device is the instance's.
    let raw = unsafe { gpu.instance.get_physical_device_properties(gpu.physical) };
    let version = raw.api_version;
    say!(
        "{}, Vulkan {}.{}.{}, driver version {:#x}",
        properties.name,
        vk::api_version_major(version),
        vk::api_version_minor(version),
        vk::api_version_patch(version),
        raw.driver_version
    );
    say!("used: {:?}", device.enabled());
    let queues: Vec<_> = properties.queues.iter().map(|kind| format!("{kind:?}")).collect();
    say!("queues: {}", queues.join(", ").to_lowercase());
    let limits = properties.limits;
    say!(
        "granularity {}, atom {}, at most {} allocations of at most {}",
        limits.buffer_image_granularity.get(),
        limits.non_coherent_atom_size.get(),
        limits.max_allocation_count,
        bytes(limits.max_allocation_size)
    );
    say!();
    for (index, heap) in properties.heaps.iter().enumerate() {
        let place = if heap.device_local { "device" } else { "host" };
        say!("heap {index}: {} {place} memory", bytes(heap.size));
    }
    for (index, found) in properties.indexed_types() {
        say!("type {index}: heap {}, {}", found.heap, found.properties);
    }
    print_choices(gpu)
}

/// Prints the memory types that are tried for each memory usage, in order, with the reasons against each.
fn print_choices(gpu: &Gpu) -> Result<(), Failure> {
    let failed =
        |error: &dyn core::fmt::Display| Failure::Setup { contender: "allotment", error: error.to_string() };
    let device = gpu.library();
    let allocator =
        Allocator::new(device.clone(), AllocatorDesc::default()).map_err(|error| failed(&error))?;
    let buffer =
        device.buffer_requirements(&BufferDesc::new(65536).into()).map_err(|error| failed(&error))?;
    let format = vk::Format::R8G8B8A8_UNORM.as_raw() as u32;
    let image = device
        .image_requirements(&ImageDesc::new(256, 256, format).into())
        .map_err(|error| failed(&error))?;
    for (what, requirements, kind) in
        [("a buffer", buffer, ResourceKind::Buffer), ("an optimal image", image, ResourceKind::OptimalImage)]
    {
        say!();
        say!("for {what}, in this order:");
        for memory_usage in MemoryUsage::ALL {
            let choices = allocator.explain(&requirements.with_kind(kind), &memory_usage.into());
            let suits =
                |choice: &&MemoryTypeCandidate| matches!(choice.suitability, Suitability::Suitable { .. });
            let tried: Vec<_> = choices
                .iter()
                .filter(suits)
                .map(|choice| format!("{} ({})", choice.memory_type, choice.suitability))
                .collect();
            say!("  {:24} type {}", memory_usage, tried.join("; "));
        }
    }
    Ok(())
}
