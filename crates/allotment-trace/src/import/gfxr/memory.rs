//! Memory objects of a capture, and what is bound to them: they become blocks and allocations.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;
use serde_json::value::RawValue;

use allotment::Alignment;
use allotment::device::MemoryTypeIndex;
use allotment::events::{
    Allocated, AllocationKey, BlockId, BlockKind, Event, Placement, PoolId, RefusalReason, TextId,
};

use super::super::builder::{Builder, cut};
use super::json::{Num, find, present};
use super::resources::{CreateBuffer, CreateImage, GetRequirements, Handle, Resource};
use super::{Call, CallError};
use crate::recording::UnreadKind;

/// The memory of a memory object in the tables, about; and of an allocation.
const MEMORY_BYTES: usize = 256;
const BOUND_BYTES: usize = 160;

/// The most allocations that are looked at for mappings of one memory object.
const MOST_MAP_WORK: u64 = 1 << 20;

/// The structure that names the resource of a dedicated allocation, and its name before Vulkan 1.1.
const DEDICATED: [&str; 2] = [
    "VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO",
    "VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO_KHR",
];

#[derive(Default)]
pub(super) struct MemoryObjects {
    memories: HashMap<u64, MemoryObject>,
    resources: HashMap<Handle, Resource>,
    /// The pools that exist: one for each memory type.
    pools: BTreeSet<u8>,
}

struct MemoryObject {
    block: BlockId,
    size: u64,
    dedicated: bool,
    /// The bound resources, with offset and size and the resource.
    bound: BTreeMap<AllocationKey, Bound>,
    /// The mapped range, while it is.
    mapped: Option<(u64, u64)>,
    /// How many allocations were looked at for mappings.
    map_work: u64,
}

struct Bound {
    offset: u64,
    size: u64,
    resource: Handle,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AllocateMemory<'a> {
    #[serde(borrow)]
    p_allocate_info: AllocateInfo<'a>,
    /// A call that failed may lack it.
    #[serde(default, deserialize_with = "present")]
    p_memory: Option<Num>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AllocateInfo<'a> {
    allocation_size: Num,
    memory_type_index: Num,
    #[serde(borrow)]
    p_next: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Dedicated {
    buffer: Num,
    image: Num,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bind {
    #[serde(default)]
    buffer: Num,
    #[serde(default)]
    image: Num,
    memory: Num,
    memory_offset: Num,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bind2 {
    p_bind_infos: Option<Vec<Bind>>,
}

/// The arguments of `vkMapMemory` and `vkUnmapMemory`, and the structures of their newer forms.
#[derive(Deserialize)]
struct Map {
    memory: Num,
    #[serde(default, deserialize_with = "present")]
    offset: Option<Num>,
    #[serde(default, deserialize_with = "present")]
    size: Option<Num>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Map2 {
    #[serde(alias = "pMemoryUnmapInfo")]
    p_memory_map_info: Option<Map>,
}

#[derive(Deserialize)]
struct FreeMemory {
    memory: Num,
}

#[derive(Deserialize)]
struct Destroy {
    #[serde(default, deserialize_with = "present")]
    buffer: Option<Num>,
    #[serde(default, deserialize_with = "present")]
    image: Option<Num>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetName {
    p_name_info: NameInfo,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NameInfo {
    object_type: String,
    #[serde(alias = "object", default)]
    object_handle: Num,
    #[serde(default)]
    p_object_name: Option<String>,
}

impl MemoryObjects {
    pub(super) fn create_buffer(&mut self, args: &str, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let args: CreateBuffer = serde_json::from_str(args)?;
        let handle = Handle::Buffer(args.p_buffer.0);
        self.create(handle, args.into_resource(), builder)
    }

    pub(super) fn create_image(&mut self, args: &str, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let args: CreateImage = serde_json::from_str(args)?;
        let handle = Handle::Image(args.p_image.0);
        self.create(handle, args.into_resource(), builder)
    }

    fn create(&mut self, handle: Handle, new: Resource, builder: &mut Builder<'_>) -> Result<(), CallError> {
        // A capture that was cut can lack the end of the resource that had this handle.
        self.destroy(handle, builder)?;
        builder.budget.charge(new.bytes())?;
        self.resources.insert(handle, new);
        Ok(())
    }

    pub(super) fn requirements(&mut self, args: &str) -> Result<(), CallError> {
        let args: GetRequirements = serde_json::from_str(args)?;
        let Some((handle, required)) = args.found() else { return Ok(()) };
        if let Some(resource) = self.resources.get_mut(&handle) {
            resource.size = Some(required.size.0);
            resource.alignment = Alignment::new(required.alignment.0).unwrap_or(Alignment::ONE);
        }
        Ok(())
    }

    pub(super) fn allocate(&mut self, call: &Call<'_>, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let args: AllocateMemory<'_> = serde_json::from_str(call.args())?;
        let size = args.p_allocate_info.allocation_size.0;
        if call.failed() {
            let reason = match call.result() {
                "VK_ERROR_OUT_OF_DEVICE_MEMORY" | "VK_ERROR_OUT_OF_HOST_MEMORY" => RefusalReason::OutOfMemory,
                "VK_ERROR_TOO_MANY_OBJECTS" => RefusalReason::TooManyBlocks,
                _ => RefusalReason::Other,
            };
            let name = builder.text(call.result())?;
            builder.push(Event::Refused { reason, requested: size, available: 0, largest_free: 0, name })?;
            return Ok(());
        }
        let Some(Num(handle)) = args.p_memory else {
            return Err(CallError::Form("it has no memory"));
        };
        self.free_handle(handle, builder)?;
        let next = args.p_allocate_info.p_next;
        let mut dedicated: Option<Dedicated> = None;
        for s_type in DEDICATED {
            dedicated =
                dedicated.map_or_else(|| find(next, s_type, builder.budget), |found| Ok(Some(found)))?;
        }
        let dedicated = dedicated.is_some_and(|info| info.buffer.0 | info.image.0 != 0);
        // Vulkan has at most 32 memory types.
        let memory_type = u8::try_from(args.p_allocate_info.memory_type_index.0).unwrap_or(u8::MAX);
        let pool = PoolId(u32::from(memory_type));
        if self.pools.insert(memory_type) {
            let name = TextId::NONE;
            builder.push(Event::PoolCreated { pool, name, algorithm: None, custom: false })?;
        }
        let block = builder.new_block();
        let kind = if dedicated { BlockKind::DedicatedToResource } else { BlockKind::Shared };
        let memory_type = MemoryTypeIndex(memory_type);
        builder.push(Event::BlockAllocated { block, pool, memory_type, kind, size })?;
        builder.budget.charge(MEMORY_BYTES)?;
        let bound = BTreeMap::new();
        self.memories
            .insert(handle, MemoryObject { block, size, dedicated, bound, mapped: None, map_work: 0 });
        Ok(())
    }

    pub(super) fn free(&mut self, args: &str, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let FreeMemory { memory: Num(handle) } = serde_json::from_str(args)?;
        if handle != 0 && !self.memories.contains_key(&handle) {
            builder.leave_out("import: memory was freed that was not allocated")?;
        }
        self.free_handle(handle, builder)
    }

    fn free_handle(&mut self, handle: u64, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let Some(memory) = self.memories.remove(&handle) else { return Ok(()) };
        // Vulkan allows that resources are destroyed after their memory: their bytes end here.
        for (&allocation, bound) in &memory.bound {
            builder.push(Event::Freed { allocation })?;
            if let Some(resource) = self.resources.get_mut(&bound.resource) {
                // A damaged file binds one resource again and again.
                builder.budget.work(resource.bound.len())?;
                resource.bound.retain(|&(key, _)| key != allocation);
            }
        }
        builder.budget.refund(MEMORY_BYTES + BOUND_BYTES * memory.bound.len());
        builder.push(Event::BlockFreed { block: memory.block })?;
        Ok(())
    }

    pub(super) fn bind(&mut self, call: &Call<'_>, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let bind = serde_json::from_str(call.args())?;
        self.bind_one(&bind, builder)
    }

    pub(super) fn bind_several(
        &mut self,
        call: &Call<'_>,
        builder: &mut Builder<'_>,
    ) -> Result<(), CallError> {
        let args: Bind2 = serde_json::from_str(call.args())?;
        for bind in args.p_bind_infos.unwrap_or_default() {
            self.bind_one(&bind, builder)?;
        }
        Ok(())
    }

    fn bind_one(&mut self, bind: &Bind, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let handle = match (bind.buffer.0, bind.image.0) {
            (0, image) => Handle::Image(image),
            (buffer, _) => Handle::Buffer(buffer),
        };
        // An image of a swapchain is bound to no memory.
        if bind.memory.0 == 0 {
            return Ok(());
        }
        let Some(resource) = self.resources.get_mut(&handle) else {
            builder.leave_out("import: a resource was bound that was not created")?;
            return Ok(());
        };
        let Some(memory) = self.memories.get_mut(&bind.memory.0) else {
            builder.leave_out("import: a resource was bound to memory that was not allocated")?;
            return Ok(());
        };
        let offset = bind.memory_offset.0;
        // A program that never asks what the driver requires knows it from another resource, or from its dedicated
        // memory.
        let size = resource.size.or_else(|| memory.dedicated.then_some(memory.size));
        let (size, is_known) = (size.unwrap_or(0), size.is_some());
        if offset.checked_add(size).is_none_or(|end| end > memory.size) {
            builder.leave_out("import: a resource was bound beyond its memory")?;
            return Ok(());
        }
        if !is_known {
            let text = "images whose size the capture does not say, as the program never called \
                        `vkGetImageMemoryRequirements` for them, are shown with 0 bytes";
            builder.unread(UnreadKind::NotUnderstood, 1, text)?;
        }
        let category = builder.text(&resource.shape)?;
        let name = match &resource.name {
            Some(name) => builder.text(name)?,
            None => category,
        };
        builder.budget.charge(BOUND_BYTES)?;
        let allocation = builder.new_allocation();
        builder.push(Event::Allocated(Allocated {
            allocation,
            block: memory.block,
            offset,
            requested: size,
            occupied: size,
            user_data: 0,
            name,
            category,
            alignment: resource.alignment,
            usage: None,
            kind: resource.kind,
            placement: if memory.dedicated { Placement::DedicatedToResource } else { Placement::Unknown },
            second_choice: false,
            movable: false,
        }))?;
        let bound = Bound { offset, size, resource: handle };
        if memory.maps(&bound) {
            builder.push(Event::Mapped { allocation, count: 1 })?;
        }
        memory.bound.insert(allocation, bound);
        resource.bound.push((allocation, bind.memory.0));
        Ok(())
    }

    pub(super) fn destroy_one(&mut self, args: &str, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let args: Destroy = serde_json::from_str(args)?;
        let handle = match (args.buffer, args.image) {
            (Some(Num(0)), _) | (None, Some(Num(0))) => return Ok(()),
            (Some(Num(buffer)), _) => Handle::Buffer(buffer),
            (None, Some(Num(image))) => Handle::Image(image),
            (None, None) => return Err(CallError::Form("it has no resource")),
        };
        if !self.resources.contains_key(&handle) {
            builder.leave_out("import: a resource was destroyed that was not created")?;
        }
        self.destroy(handle, builder)
    }

    fn destroy(&mut self, handle: Handle, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let Some(resource) = self.resources.remove(&handle) else { return Ok(()) };
        builder.budget.refund(resource.bytes());
        builder.budget.work(resource.bound.len())?;
        for (allocation, memory) in resource.bound {
            let memory = self.memories.get_mut(&memory);
            if memory.is_some_and(|memory| memory.bound.remove(&allocation).is_some()) {
                builder.budget.refund(BOUND_BYTES);
                builder.push(Event::Freed { allocation })?;
            }
        }
        Ok(())
    }

    pub(super) fn map(&mut self, args: &str, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let map: Map = serde_json::from_str(args)?;
        self.set_mapped(&map, true, builder)
    }

    pub(super) fn unmap(&mut self, args: &str, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let map: Map = serde_json::from_str(args)?;
        self.set_mapped(&map, false, builder)
    }

    pub(super) fn map2(&mut self, args: &str, is: bool, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let map: Map2 = serde_json::from_str(args)?;
        map.p_memory_map_info.map_or(Ok(()), |map| self.set_mapped(&map, is, builder))
    }

    fn set_mapped(&mut self, map: &Map, is: bool, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let range = match (map.offset, map.size) {
            // `VK_WHOLE_SIZE` is the largest number: the end saturates.
            (Some(Num(offset)), Some(Num(size))) if is => Some((offset, offset.saturating_add(size))),
            _ if is => return Err(CallError::Form("it has no range")),
            _ => None,
        };
        let Some(memory) = self.memories.get_mut(&map.memory.0) else {
            return Ok(builder.leave_out("import: memory was mapped or unmapped that was not allocated")?);
        };
        if memory.map_work > MOST_MAP_WORK {
            return Ok(());
        }
        memory.map_work += memory.bound.len() as u64 + 1;
        if memory.map_work > MOST_MAP_WORK {
            let what = "the mappings of a memory object are no longer followed";
            builder.mark(&format!("import: {what}"))?;
            builder.unread(UnreadKind::NotUnderstood, 1, &format!("{what}; it is mapped too often"))?;
            return Ok(());
        }
        builder.budget.work(memory.bound.len())?;
        let was = memory.mapped;
        let mut changed: Vec<AllocationKey> = Vec::new();
        memory.mapped = range;
        for (&allocation, bound) in &memory.bound {
            if overlaps(was, bound) != overlaps(memory.mapped, bound) {
                changed.push(allocation);
            }
        }
        for allocation in changed {
            builder.push(Event::Mapped { allocation, count: u32::from(is) })?;
        }
        Ok(())
    }

    pub(super) fn name(&mut self, args: &str, builder: &mut Builder<'_>) -> Result<(), CallError> {
        let NameInfo { object_type, object_handle, p_object_name } =
            serde_json::from_str::<SetName>(args)?.p_name_info;
        let handle = match object_type.as_str() {
            "VK_OBJECT_TYPE_BUFFER" | "VK_DEBUG_REPORT_OBJECT_TYPE_BUFFER_EXT" => {
                Handle::Buffer(object_handle.0)
            }
            "VK_OBJECT_TYPE_IMAGE" | "VK_DEBUG_REPORT_OBJECT_TYPE_IMAGE_EXT" => {
                Handle::Image(object_handle.0)
            }
            _ => return Ok(()),
        };
        let Some(resource) = self.resources.get_mut(&handle) else { return Ok(()) };
        builder.budget.refund(resource.bytes());
        resource.name = p_object_name.filter(|name| !name.is_empty()).map(|name| cut(&name).to_owned());
        builder.budget.charge(resource.bytes())?;
        let category = builder.text(&resource.shape)?;
        let name = match &resource.name {
            Some(name) => builder.text(name)?,
            None => category,
        };
        for &(allocation, _) in &resource.bound {
            builder.push(Event::Labelled { allocation, name, category, user_data: 0 })?;
        }
        Ok(())
    }
}

impl MemoryObject {
    fn maps(&self, bound: &Bound) -> bool {
        overlaps(self.mapped, bound)
    }
}

fn overlaps(mapped: Option<(u64, u64)>, bound: &Bound) -> bool {
    mapped.is_some_and(|(start, end)| start < bound.offset + bound.size && bound.offset < end)
}
