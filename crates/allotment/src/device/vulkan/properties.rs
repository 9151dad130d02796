//! Properties of a physical device, converted to this crate's types.

use ash::vk;

use super::EnabledFeatures;
use crate::device::{
    Api, DeviceError, DeviceProperties, Limits, MemoryHeap, MemoryHeapIndex, MemoryProperties, MemoryType,
    QueueIndex, QueueKind,
};
use allotment_suballoc::Alignment;

/// Returns the properties of a physical device, without queues, and the maximum size of a buffer.
///
/// # Safety
///
/// `physical_device` is of `instance`, both support this version of Vulkan, and a device with maintenance4 if
/// `maintenance4` is true.
pub(super) unsafe fn describe(
    instance: &ash::Instance,
    physical_device: vk::PhysicalDevice,
    version: u32,
    maintenance4: bool,
) -> (DeviceProperties, u64) {
    let mut third = vk::PhysicalDeviceMaintenance3Properties::default();
    let mut fourth = vk::PhysicalDeviceMaintenance4Properties::default();
    let mut answer = vk::PhysicalDeviceProperties2::default().push_next(&mut third);
    // Chained only with maintenance4: another driver would leave the limit 0.
    if maintenance4 {
        answer = answer.push_next(&mut fourth);
    }
    let own = if version >= vk::API_VERSION_1_1 {
        // SAFETY: the caller's promise; the chained structures are core or enabled.
        unsafe { instance.get_physical_device_properties2(physical_device, &mut answer) };
        answer.properties
    } else {
        // SAFETY: as above.
        unsafe { instance.get_physical_device_properties(physical_device) }
    };
    // SAFETY: as above.
    let memory = unsafe { instance.get_physical_device_memory_properties(physical_device) };

    let heaps = memory.memory_heaps_as_slice().iter().map(|heap| MemoryHeap {
        size: heap.size,
        device_local: heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL),
    });
    let types = memory.memory_types_as_slice().iter().map(|memory_type| MemoryType {
        // There are at most 16 heaps.
        heap: MemoryHeapIndex(memory_type.heap_index as u8),
        properties: properties_of(memory_type.property_flags),
    });
    let largest_heap = memory.memory_heaps_as_slice().iter().map(|heap| heap.size).max();
    // A name that is not valid UTF-8 or has no end is no reason to fail.
    let name = own.device_name_as_c_str().map_or_else(|_| "?".into(), |name| name.to_string_lossy());
    let properties = DeviceProperties {
        name: name.into_owned(),
        api: Api::Vulkan,
        heaps: heaps.collect(),
        memory_types: types.collect(),
        limits: Limits {
            buffer_image_granularity: alignment(own.limits.buffer_image_granularity),
            non_coherent_atom_size: alignment(own.limits.non_coherent_atom_size),
            max_allocation_count: own.limits.max_memory_allocation_count,
            max_allocation_size: if version >= vk::API_VERSION_1_1 {
                third.max_memory_allocation_size
            } else {
                // Vulkan 1.0 has no other limit.
                largest_heap.unwrap_or(0)
            },
            // 4 is the requirement of transfer-only queues.
            image_copy_offset_alignment: alignment(own.limits.optimal_buffer_copy_offset_alignment.max(4)),
            image_copy_row_alignment: alignment(own.limits.optimal_buffer_copy_row_pitch_alignment),
            // 16 is the largest requirement that no limit has: of vertices with 64-bit components 8, and of what shaders reach by an
            // address 16, unless they say otherwise.
            buffer_offset_alignment: alignment(
                own.limits
                    .min_uniform_buffer_offset_alignment
                    .max(own.limits.min_storage_buffer_offset_alignment)
                    .max(own.limits.min_texel_buffer_offset_alignment)
                    .max(16),
            ),
        },
        queues: Vec::new(),
    };
    // Without maintenance4 nothing tells the limit; the allocation size bounds buffers then.
    let max_buffer_size = if maintenance4 { fourth.max_buffer_size } else { u64::MAX };
    (properties, max_buffer_size)
}

/// Converts an alignment. Drivers report powers of two, as the specification requires; a 0 would mean no
/// constraint.
pub(super) fn alignment(bytes: u64) -> Alignment {
    Alignment::new(bytes.checked_next_power_of_two().unwrap_or(1)).unwrap_or(Alignment::ONE)
}

fn properties_of(flags: vk::MemoryPropertyFlags) -> MemoryProperties {
    const PAIRS: [(vk::MemoryPropertyFlags, MemoryProperties); 8] = [
        (vk::MemoryPropertyFlags::DEVICE_LOCAL, MemoryProperties::DEVICE_LOCAL),
        (vk::MemoryPropertyFlags::HOST_VISIBLE, MemoryProperties::HOST_VISIBLE),
        (vk::MemoryPropertyFlags::HOST_COHERENT, MemoryProperties::HOST_COHERENT),
        (vk::MemoryPropertyFlags::HOST_CACHED, MemoryProperties::HOST_CACHED),
        (vk::MemoryPropertyFlags::LAZILY_ALLOCATED, MemoryProperties::LAZILY_ALLOCATED),
        (vk::MemoryPropertyFlags::PROTECTED, MemoryProperties::PROTECTED),
        // Both belong to the same extension and are equally slow.
        (vk::MemoryPropertyFlags::DEVICE_COHERENT_AMD, MemoryProperties::DEVICE_COHERENT),
        (vk::MemoryPropertyFlags::DEVICE_UNCACHED_AMD, MemoryProperties::DEVICE_COHERENT),
    ];
    let has = PAIRS.into_iter().filter(|(flag, _)| flags.contains(*flag));
    has.map(|(_, property)| property).collect()
}

/// Returns the mask of the memory types that may be allocated: all except those of features that are not
/// enabled.
pub(super) fn usable_types(properties: &DeviceProperties, enabled: EnabledFeatures) -> u32 {
    // A type of a feature that is not enabled must not be allocated (VUIDs 01872 and 02790 name protected and
    // coherent memory).
    let mut off = MemoryProperties::empty();
    if !enabled.contains(EnabledFeatures::PROTECTED_MEMORY) {
        off |= MemoryProperties::PROTECTED;
    }
    if !enabled.contains(EnabledFeatures::DEVICE_COHERENT_MEMORY) {
        off |= MemoryProperties::DEVICE_COHERENT;
    }
    let usable = properties.indexed_types().filter(|(_, has)| !has.properties.intersects(off));
    usable.fold(0, |mask, (index, _)| mask | 1 << index.0)
}

/// Returns what the driver says of each queue family.
///
/// # Safety
///
/// `physical_device` is of `instance`.
pub(super) unsafe fn families(
    instance: &ash::Instance,
    physical_device: vk::PhysicalDevice,
) -> Vec<vk::QueueFamilyProperties> {
    // SAFETY: the caller's promise.
    unsafe { instance.get_physical_device_queue_family_properties(physical_device) }
}

/// Returns the kind of the queues of each family. `None` for families that cannot copy: video-only ones, for
/// example.
pub(super) fn family_kinds(families: &[vk::QueueFamilyProperties]) -> Vec<Option<QueueKind>> {
    families.iter().map(|family| queue_kind(family.queue_flags)).collect()
}

/// Returns whether queues of a family bind memory to sparse resources.
pub(super) fn binds_ranges(families: &[vk::QueueFamilyProperties], family: u32) -> bool {
    let family = families.get(family as usize);
    family.is_some_and(|family| family.queue_flags.contains(vk::QueueFlags::SPARSE_BINDING))
}

/// Returns whether queues of a family copy any box of an image.
pub(super) fn copies_any_box(families: &[vk::QueueFamilyProperties], family: u32) -> bool {
    let one = vk::Extent3D { width: 1, height: 1, depth: 1 };
    families.get(family as usize).is_some_and(|family| family.min_image_transfer_granularity == one)
}

/// Returns the kind of a queue. Graphics and compute queues can copy without the transfer flag.
fn queue_kind(flags: vk::QueueFlags) -> Option<QueueKind> {
    // Graphics before compute: the more capable kind decides which copies and accesses are allowed.
    let kinds = [
        (vk::QueueFlags::GRAPHICS, QueueKind::Graphics),
        (vk::QueueFlags::COMPUTE, QueueKind::Compute),
        (vk::QueueFlags::TRANSFER, QueueKind::Transfer),
    ];
    kinds.into_iter().find(|&(flag, _)| flags.contains(flag)).map(|(_, kind)| kind)
}

/// Returns the kinds of the queues that the application listed.
pub(super) fn queue_kinds(
    queues: &[(vk::Queue, u32)],
    kinds: &[Option<QueueKind>],
) -> Result<Vec<QueueKind>, DeviceError> {
    let kind = |(queue, &(_, family)): (u8, &(vk::Queue, u32))| {
        let kind = kinds.get(family as usize).copied().flatten();
        let queue = QueueIndex(queue);
        kind.ok_or(DeviceError::QueueCannotCopy { queue })
    };
    // A device has at most 256 queues.
    (0..=u8::MAX).zip(queues).map(kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amds_two_kinds_of_coherence_are_one_here() {
        let flags = vk::MemoryPropertyFlags::DEVICE_LOCAL | vk::MemoryPropertyFlags::DEVICE_UNCACHED_AMD;
        assert_eq!(properties_of(flags), MemoryProperties::DEVICE_LOCAL | MemoryProperties::DEVICE_COHERENT);
    }

    #[test]
    fn properties_that_are_not_known_here_are_left_out() {
        let flags = vk::MemoryPropertyFlags::RDMA_CAPABLE_NV | vk::MemoryPropertyFlags::HOST_VISIBLE;
        assert_eq!(properties_of(flags), MemoryProperties::HOST_VISIBLE);
    }

    #[test]
    fn queues_that_cannot_copy_are_of_no_kind() {
        let video = vk::QueueFlags::VIDEO_DECODE_KHR;
        assert_eq!(queue_kind(video), None);
        assert_eq!(queue_kind(video | vk::QueueFlags::TRANSFER), Some(QueueKind::Transfer));
        assert_eq!(queue_kind(vk::QueueFlags::COMPUTE), Some(QueueKind::Compute));
    }

    #[test]
    fn types_of_features_that_are_off_are_not_usable() {
        let memory_type = |properties| MemoryType { heap: MemoryHeapIndex(0), properties };
        let properties = DeviceProperties {
            name: String::new(),
            api: Api::Vulkan,
            heaps: vec![MemoryHeap { size: 1, device_local: true }],
            memory_types: vec![
                memory_type(MemoryProperties::DEVICE_LOCAL),
                memory_type(MemoryProperties::DEVICE_LOCAL | MemoryProperties::PROTECTED),
                memory_type(MemoryProperties::DEVICE_LOCAL | MemoryProperties::DEVICE_COHERENT),
            ],
            limits: Limits {
                buffer_image_granularity: Alignment::ONE,
                non_coherent_atom_size: Alignment::ONE,
                max_allocation_count: 1,
                max_allocation_size: 1,
                image_copy_offset_alignment: Alignment::ONE,
                image_copy_row_alignment: Alignment::ONE,
                buffer_offset_alignment: Alignment::ONE,
            },
            queues: Vec::new(),
        };
        assert_eq!(usable_types(&properties, EnabledFeatures::empty()), 0b001);
        assert_eq!(usable_types(&properties, EnabledFeatures::PROTECTED_MEMORY), 0b011);
        assert_eq!(usable_types(&properties, EnabledFeatures::DEVICE_COHERENT_MEMORY), 0b101);
        assert_eq!(usable_types(&properties, EnabledFeatures::all()), 0b111);
    }
}
