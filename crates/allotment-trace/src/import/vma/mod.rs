//! JSON dumps of VMA (`vmaBuildStatsString` with the detailed map), of D3D12MA (`BuildStatsString`) and of this library
//! ([`Reports::dump_json`](allotment::memory::reports::Reports::dump_json)), which share a form: one moment becomes the events that
//! lead to it.
//!
//! | in the dump | becomes |
//! |---|---|
//! | an entry of `DefaultPools`, of `CustomPools` | a pool; custom ones have a name |
//! | an entry of `Blocks`, of `DedicatedAllocations` | a block, shared or dedicated |
//! | a suballocation that is not `FREE` | an allocation that was there before the recording began |
//! | its `Usage`, the API's flags | its category, as text: `usage 0x22` |
//! | `Budget` of a heap | a budget |
//! | `General`, `MemoryInfo` | the header |
//!
//! A dump does not say what was requested of an allocator, only what an allocation occupies, and not which algorithm a
//! pool has. This library's dumps show padding as ranges of their own; it is counted to the allocation before it.
//! Direct3D 12 has no memory types: D3D12MA's heap types take their place, in the order of [`HEAP_TYPES`].

mod dump;

use allotment::device::{MemoryHeapIndex, MemoryProperties, MemoryTypeIndex};
use allotment::events::{Allocated, BlockKind, Event, Placement, PoolId, TextId};
use allotment::{Alignment, ResourceKind};

use super::builder::{Builder, cut};
use super::limits::Budget;
use super::source::Source;
use super::{ImportError, ImportErrorKind, Position};
use crate::recording::{Api, Extent, Header, Heap, Library, MemoryType, Recording};
use crate::usage_flags;
use dump::{Dump, General, Kind, Pool, Suballocation, TypeInfo};

/// Of the limit of memory, the part that text may have: parsed, it takes less than 8 times its size.
const TEXT_SHARE: u64 = 16;

/// D3D12MA's heap types, and their properties in words of memory types.
const HEAP_TYPES: [(&str, MemoryProperties); 5] = [
    ("DEFAULT", MemoryProperties::DEVICE_LOCAL),
    ("UPLOAD", HOST.union(MemoryProperties::DEVICE_READ_ONLY)),
    ("READBACK", HOST.union(MemoryProperties::HOST_CACHED).union(MemoryProperties::DEVICE_WRITE_ONLY)),
    ("CUSTOM", MemoryProperties::empty()),
    ("GPU_UPLOAD", HOST.union(MemoryProperties::DEVICE_LOCAL)),
];
const D3D12_TEXTURE_LAYOUT_ROW_MAJOR: u8 = 1;
const HOST: MemoryProperties = MemoryProperties::HOST_VISIBLE.union(MemoryProperties::HOST_COHERENT);

pub(super) fn read(source: &mut Source<'_>, budget: &Budget) -> Result<Recording, ImportError> {
    let limits = budget.limits();
    source.limit(u64::min(limits.document_bytes, limits.memory_bytes / TEXT_SHARE));
    let dump: Dump = match serde_json::from_reader(&mut *source) {
        Ok(dump) => dump,
        Err(error) if error.is_io() => {
            let position = Some(Position::Byte(source.position()));
            return Err(ImportError::new(position, source.failure(error.into())));
        }
        Err(error) => {
            let position = Some(Position::Line(error.line() as u64));
            return Err(ImportError::new(position, ImportErrorKind::json(&error)));
        }
    };
    let whole = |kind| ImportError::new(None, kind);
    // What the parsed text may take.
    budget.charge((limits.memory_bytes / 2) as usize).map_err(whole)?;
    let mut builder = Builder::new(budget);
    import(&dump, &mut builder).map_err(whole)?;
    Ok(builder.recording)
}

fn import(dump: &Dump, builder: &mut Builder<'_>) -> Result<(), ImportErrorKind> {
    builder.recording.header = header(dump);
    let (Some(default), Some(custom)) = (&dump.default_pools, &dump.custom_pools) else {
        return Err(ImportErrorKind::DumpWithoutDetails);
    };
    let mut pools = 0;
    for (key, pool) in &default.0 {
        // Heap tier 1 has three pools for each heap type; their names tell them apart.
        let name = if key.contains(" - ") { builder.text(key)? } else { TextId::NONE };
        write_pool(builder, PoolId(pools), memory_type(key)?, name, false, pool)?;
        pools += 1;
    }
    for (key, of_type) in &custom.0 {
        for pool in of_type {
            let name = builder.text(pool_name(pool.name.as_deref().unwrap_or_default()))?;
            write_pool(builder, PoolId(pools), memory_type(key)?, name, true, pool)?;
            pools += 1;
        }
    }
    for (i, (_, heap)) in dump.memory_info.0.iter().enumerate() {
        // Not more than 255 heaps: each is in the header.
        let index = MemoryHeapIndex(i.try_into().unwrap_or(u8::MAX));
        if let Some(found) = &heap.budget {
            builder.push(Event::Budget { heap: index, usage: found.usage, budget: found.budget })?;
        }
    }
    Ok(())
}

fn write_pool(
    builder: &mut Builder<'_>,
    pool: PoolId,
    memory_type: MemoryTypeIndex,
    name: TextId,
    custom: bool,
    found: &Pool,
) -> Result<(), ImportErrorKind> {
    builder.push(Event::PoolCreated { pool, name, algorithm: None, custom })?;
    for (_, block) in &found.blocks.0 {
        let id = builder.new_block();
        let (kind, size) = (BlockKind::Shared, block.size);
        builder.push(Event::BlockAllocated { block: id, pool, memory_type, kind, size })?;
        // Our own dumps show padding as what looks like allocations, which the count does not include.
        let mut padding = (block.ranges.len() as u64).saturating_sub(block.allocations);
        let mut ranges = block.ranges.iter().peekable();
        while let Some(range) = ranges.next() {
            if padding > 0 && range.is_padding() {
                padding -= 1;
                continue;
            }
            let mut occupied = range.size;
            while padding > 0 {
                let end = range.offset + occupied;
                let Some(next) = ranges.peek().filter(|next| next.is_padding() && next.offset == end) else {
                    break;
                };
                occupied += next.size;
                padding -= 1;
                ranges.next();
            }
            write_allocation(builder, id, range, occupied)?;
        }
    }
    for range in &found.dedicated {
        let id = builder.new_block();
        let (kind, size) = (BlockKind::Dedicated, range.size);
        builder.push(Event::BlockAllocated { block: id, pool, memory_type, kind, size })?;
        write_allocation(builder, id, range, range.size)?;
    }
    Ok(())
}

fn write_allocation(
    builder: &mut Builder<'_>,
    block: allotment::events::BlockId,
    range: &Suballocation,
    occupied: u64,
) -> Result<(), ImportErrorKind> {
    let custom = range.custom_data.as_deref().unwrap_or_default();
    let user_data = u64::from_str_radix(custom.strip_prefix("0x").unwrap_or(custom), 16).ok();
    // VMA can keep a name as user data.
    let name = match (&range.name, user_data) {
        (Some(name), _) => builder.text(name)?,
        (None, Some(_)) => TextId::NONE,
        (None, None) => builder.text(custom)?,
    };
    let category = match range.usage.unwrap_or(0) {
        0 => TextId::NONE,
        usage => builder.text(&usage_flags::to_text(usage))?,
    };
    let allocation = builder.new_allocation();
    builder.push(Event::Allocated(Allocated {
        allocation,
        block,
        offset: range.offset,
        requested: range.size,
        occupied,
        user_data: user_data.unwrap_or(0),
        name,
        category,
        alignment: Alignment::ONE,
        usage: None,
        kind: match range.kind {
            Kind::Buffer => ResourceKind::Buffer,
            Kind::LinearImage => ResourceKind::LinearImage,
            Kind::Texture if range.layout == D3D12_TEXTURE_LAYOUT_ROW_MAJOR => ResourceKind::LinearImage,
            Kind::Texture | Kind::OptimalImage => ResourceKind::OptimalImage,
            Kind::Free | Kind::Unknown => ResourceKind::Unknown,
        },
        placement: Placement::Existing,
        second_choice: false,
        movable: false,
    }))
}

/// Returns the name of a custom pool without the number that dumps put before it: `0 - frames`, or `0` where it has no
/// name. Exports number the pools again.
fn pool_name(name: &str) -> &str {
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    match name.split_at(digits) {
        ("", name) => name,
        (_, "") => "",
        (_, rest) => rest.strip_prefix(" - ").unwrap_or(name),
    }
}

/// Returns the memory type of a key: `Type 3`, or a heap type of Direct3D 12.
fn memory_type(key: &str) -> Result<MemoryTypeIndex, ImportErrorKind> {
    let found = match key.strip_prefix("Type ") {
        Some(number) => number.parse().ok().filter(|&index: &u8| index < 32),
        None => {
            let key = key.split(" - ").next().unwrap_or(key);
            HEAP_TYPES.iter().position(|(name, _)| *name == key).map(|index| index as u8)
        }
    };
    let what = "a pool has neither a memory type nor a heap type as its key";
    found.map(MemoryTypeIndex).ok_or(ImportErrorKind::Invalid { what })
}

fn header(dump: &Dump) -> Header {
    let General { api, gpu, granularity, atom, most_objects, .. } = &dump.general;
    let mut header = Header {
        producer: "a JSON dump in the form of VMA".to_owned(),
        api: match &**api {
            "Vulkan" => Api::Vulkan,
            "Direct3D 12" => Api::Direct3D12,
            _ => Api::Other,
        },
        library: match &**api {
            "Vulkan" => Library::Vma,
            "Direct3D 12" => Library::D3d12MemoryAllocator,
            _ => Library::Unknown,
        },
        extent: Extent::Moment,
        device: cut(gpu).to_owned(),
        buffer_image_granularity: (*granularity).max(1),
        non_coherent_atom_size: (*atom).max(1),
        max_memory_objects: (*most_objects).try_into().unwrap_or(u32::MAX),
        ..Header::default()
    };
    for (i, (key, heap)) in dump.memory_info.0.iter().enumerate().take(usize::from(u8::MAX)) {
        let segment = key.strip_prefix('L').filter(|rest| *rest == "0" || *rest == "1");
        header.heaps.push(match segment {
            Some(segment) => d3d12_heap(&dump.general, segment == "1"),
            None => Heap { size: heap.size, device_local: heap.has("DEVICE_LOCAL") },
        });
        for (key, found) in &heap.types.0 {
            let Ok(MemoryTypeIndex(index)) = memory_type(key) else { continue };
            let index = usize::from(index);
            if header.memory_types.len() <= index {
                header.memory_types.resize(index + 1, MemoryType { heap: 0, properties: 0 });
            }
            let properties = match HEAP_TYPES.iter().find(|(name, _)| **name == **key) {
                Some((_, properties)) => properties.bits(),
                None => properties(found),
            };
            header.memory_types[index] = MemoryType { heap: i as u8, properties };
        }
    }
    header
}

/// Returns a memory segment group of Direct3D 12. An integrated GPU has only L0, for all memory.
fn d3d12_heap(general: &General, is_l1: bool) -> Heap {
    let size = match (is_l1, general.uma) {
        (true, _) => general.video,
        (false, true) => general.video.saturating_add(general.shared),
        (false, false) => general.shared,
    };
    Heap { size, device_local: is_l1 || general.uma }
}

fn properties(found: &TypeInfo) -> u32 {
    let all = MemoryProperties::all().iter_names();
    all.filter(|(name, _)| found.flags.iter().any(|flag| flag.strip_suffix("_AMD").unwrap_or(flag) == *name))
        .fold(0, |bits, (_, property)| bits | property.bits())
}
