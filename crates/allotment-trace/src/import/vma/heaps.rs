//! The device of a dump: its heaps and memory types, and what the dump states of them.

use std::collections::BTreeMap;

use allotment::device::{MemoryHeapIndex, MemoryProperties, MemoryTypeIndex};
use allotment::events::Event;

use super::super::builder::{Builder, cut};
use super::super::d3d12_heaps::{CUSTOM, HEAP_TYPES, heaps_of};
use super::super::json::{Fields, Json, cut_key};
use super::ImportErrorKind;
use super::sums::Sums;
use crate::recording::{Api, Heap, Library, MemoryType, UnreadKind};

/// The most heaps, and the most memory types. Vulkan has at most 16 and 32.
const MOST: usize = 64;

/// The flags of pools that D3D12MA writes by name.
pub(super) const POOL_FLAGS: [&str; 18] = [
    "HEAP_FLAG_SHARED",
    "HEAP_FLAG_ALLOW_DISPLAY",
    "HEAP_FLAG_CROSS_ADAPTER",
    "HEAP_FLAG_HARDWARE_PROTECTED",
    "HEAP_FLAG_ALLOW_WRITE_WATCH",
    "HEAP_FLAG_ALLOW_SHADER_ATOMICS",
    "HEAP_FLAG_CREATE_NOT_RESIDENT",
    "HEAP_FLAG_CREATE_NOT_ZEROED",
    "HEAP_FLAG_DENY_BUFFERS",
    "HEAP_FLAG_DENY_RT_DS_TEXTURES",
    "HEAP_FLAG_DENY_NON_RT_DS_TEXTURES",
    "MEMORY_POOL_UNKNOWN",
    "MEMORY_POOL_L0",
    "MEMORY_POOL_L1",
    "CPU_PAGE_PROPERTY_UNKNOWN",
    "CPU_PAGE_PROPERTY_NOT_AVAILABLE",
    "CPU_PAGE_PROPERTY_WRITE_COMBINE",
    "CPU_PAGE_PROPERTY_WRITE_BACK",
];

/// The flags of heaps that VMA writes by name.
const HEAP_FLAGS: [&str; 2] = ["DEVICE_LOCAL", "MULTI_INSTANCE"];

/// What a dump says of its heaps, which is compared with what was read once that is known.
#[derive(Default)]
pub(super) struct Heaps<'j, 'a> {
    heaps: Vec<Stated<'j, 'a>>,
    /// By memory type: the heaps that have it, and the statistics.
    types: BTreeMap<u8, (usize, Option<&'j Json<'a>>)>,
    /// A heap type is in more than one heap, so that its blocks are of an unknown one.
    ambiguous: Option<u8>,
    /// The heap type `CUSTOM` of Direct3D 12, where the dump has it.
    custom: Option<u8>,
    /// The members of `General` that count heaps and memory types.
    counts: [Option<u64>; 2],
}

struct Stated<'j, 'a> {
    key: &'j str,
    statistics: Option<&'j Json<'a>>,
    /// Of the custom pools.
    custom: Option<&'j Json<'a>>,
    budget: Option<&'j Json<'a>>,
    types: Vec<u8>,
}

/// What D3D12MA says of the memory of the device: bytes of the GPU's, bytes of the system's, and whether it is one.
#[derive(Default)]
struct Adapter {
    video: u64,
    shared: u64,
    uma: bool,
}

impl<'j, 'a> Heaps<'j, 'a> {
    /// Reads what a dump says of the device into the header.
    pub(super) fn read(
        general: Option<&'j Json<'a>>,
        heaps: &[(&'j str, &'j Json<'a>)],
        builder: &mut Builder<'_>,
    ) -> Result<Self, ImportErrorKind> {
        let mut found = Self::default();
        let adapter = match general {
            Some(general) => found.general(general, builder)?,
            None => {
                builder.recording.header.api = Api::Vulkan;
                builder.recording.header.library = Library::Vma;
                builder.recording.header.producer = "a JSON dump of VMA 2".to_owned();
                Adapter::default()
            }
        };
        let header = &mut builder.recording.header;
        header.buffer_image_granularity = header.buffer_image_granularity.max(1);
        header.non_coherent_atom_size = header.non_coherent_atom_size.max(1);
        if heaps.len() > MOST {
            return Err(ImportErrorKind::Invalid { what: "the dump has more heaps than any device" });
        }
        for (index, (key, heap)) in heaps.iter().enumerate() {
            found.heap(index, key, heap, &adapter, builder)?;
        }
        Ok(found)
    }

    fn general(&mut self, general: &Json<'_>, builder: &mut Builder<'_>) -> Result<Adapter, ImportErrorKind> {
        let mut fields = Fields::new(general, "`General`");
        let api = fields.text("API").unwrap_or_default();
        let gpu = fields.text("GPU").unwrap_or_default();
        let granularity = fields.number("bufferImageGranularity");
        let atom = fields.number("nonCoherentAtomSize");
        let most_objects = fields.number("maxMemoryAllocationCount");
        self.counts = [fields.number("memoryHeapCount"), fields.number("memoryTypeCount")];
        let version = fields.text("apiVersion");
        let adapter = Adapter {
            video: fields.number("DedicatedVideoMemory").unwrap_or(0),
            shared: fields.number("SharedSystemMemory").unwrap_or(0),
            uma: fields.flag("UMA").unwrap_or(false),
        };
        fields.skip(&[
            "deviceType",
            "DedicatedSystemMemory",
            "ResourceHeapTier",
            "ResourceBindingTier",
            "TiledResourcesTier",
            "TileBasedRenderer",
            "CacheCoherentUMA",
            "GPUUploadHeapSupported",
            "TightAlignmentSupported",
        ]);
        fields.end(builder)?;
        // This library's dumps have the limits of the device without the version of the API.
        let own = granularity.is_some() && version.is_none();
        let header = &mut builder.recording.header;
        (header.api, header.library) = match api {
            "Vulkan" => (Api::Vulkan, Library::Vma),
            "Direct3D 12" => (Api::Direct3D12, Library::D3d12MemoryAllocator),
            _ => (Api::Other, Library::Unknown),
        };
        header.producer = match header.library {
            _ if own => "a JSON dump of Allotment",
            Library::Vma => "a JSON dump of VMA",
            Library::D3d12MemoryAllocator => "a JSON dump of D3D12MA",
            _ => "a JSON dump in the form of VMA",
        }
        .to_owned();
        if own {
            header.library = Library::Allotment;
        }
        header.device = cut(gpu).to_owned();
        header.buffer_image_granularity = granularity.unwrap_or(1);
        header.non_coherent_atom_size = atom.unwrap_or(1);
        header.max_memory_objects = most_objects.unwrap_or(0).try_into().unwrap_or(u32::MAX);
        if header.api == Api::Other {
            let text = format!("`{}` is an API that is not known", cut_key(api));
            builder.unread(UnreadKind::NotUnderstood, 1, &text)?;
        }
        Ok(adapter)
    }

    fn heap(
        &mut self,
        index: usize,
        key: &'j str,
        heap: &'j Json<'a>,
        adapter: &Adapter,
        builder: &mut Builder<'_>,
    ) -> Result<(), ImportErrorKind> {
        let mut fields = Fields::new(heap, "a heap");
        let (size, flags) = (fields.number("Size").unwrap_or(0), fields.group("Flags"));
        let (budget, statistics) = (fields.group("Budget"), fields.group("Stats"));
        let mut types: Vec<(&str, &Json<'_>)> =
            fields.group("MemoryPools").into_iter().flat_map(Json::entries).collect();
        // VMA 2 has the memory types beside the others.
        fields.rest(builder, |key, value| {
            let is_type = memory_type(key).is_some();
            if is_type {
                types.push((key, value));
            }
            is_type
        })?;
        let device_local = known_flags(flags, &HEAP_FLAGS, "a heap", builder)? & 1 != 0;
        let segment = key.strip_prefix('L').filter(|rest| *rest == "0" || *rest == "1");
        builder.recording.header.heaps.push(match segment {
            Some(segment) => {
                let both = heaps_of(adapter.video, adapter.shared, adapter.uma);
                *both.get(usize::from(segment == "1")).unwrap_or(&both[0])
            }
            None => Heap { size, device_local },
        });
        if segment.is_none() && key.strip_prefix("Heap ").is_none_or(|number| number != index.to_string()) {
            let text = format!("`{}` is not the name of heap {index}", cut_key(key));
            builder.unread(UnreadKind::NotUnderstood, 1, &text)?;
        }
        let mut stated = Stated { key, statistics, custom: None, budget, types: Vec::new() };
        for (key, found) in types {
            let Some(MemoryTypeIndex(of)) = memory_type(key) else {
                let text = format!("`{}` is neither a memory type nor a heap type", cut_key(key));
                builder.unread(UnreadKind::NotUnderstood, 1, &text)?;
                continue;
            };
            let mut fields = Fields::new(found, "a memory type");
            let (flags, statistics) = (fields.group("Flags"), fields.group("Stats"));
            fields.end(builder)?;
            let properties = match HEAP_TYPES.iter().find(|(name, _)| *name == key) {
                Some((_, properties)) => properties.bits(),
                None => properties(flags, builder)?,
            };
            let types = &mut builder.recording.header.memory_types;
            if types.len() <= usize::from(of) {
                types.resize(usize::from(of) + 1, MemoryType { heap: 0, properties: 0 });
            }
            types[usize::from(of)] = MemoryType { heap: index as u8, properties };
            stated.types.push(of);
            if key == CUSTOM {
                stated.custom = statistics;
                self.custom = Some(of);
            }
            let known = self.types.entry(of).or_insert((0, statistics));
            known.0 += 1;
            if known.0 > 1 {
                self.ambiguous = Some(of);
                if key != CUSTOM {
                    let text = format!("`{}` is a memory type of two heaps", cut_key(key));
                    builder.unread(UnreadKind::Contradicts, 1, &text)?;
                }
            }
        }
        self.heaps.push(stated);
        Ok(())
    }

    /// Tells where what was read differs from what the dump states of heaps and memory types, and writes the budgets.
    pub(super) fn finish(
        self,
        by_type: &BTreeMap<u8, Sums>,
        custom: &BTreeMap<u8, Sums>,
        builder: &mut Builder<'_>,
    ) -> Result<(), ImportErrorKind> {
        let sums = |of: u8| by_type.get(&of).copied().unwrap_or_default();
        for (&of, &(_, statistics)) in &self.types {
            if self.ambiguous == Some(of) || self.custom == Some(of) {
                continue;
            }
            let whose = format!("of memory type {of}");
            match statistics {
                Some(stated) => sums(of).compare(stated, &whose, builder)?,
                // VMA 2 leaves out the statistics of nothing.
                None => builder.differ("Blocks", &whose, 0, sums(of).blocks)?,
            }
        }
        // A heap without memory types says only what is in all of them, if it is the only one.
        let without_types = self.types.is_empty();
        for (&of, sums) in by_type {
            if !without_types && !self.types.contains_key(&of) && sums.blocks > 0 {
                let text = format!("memory type {of} has blocks, and is not among the memory types");
                builder.unread(UnreadKind::Contradicts, 1, &text)?;
            }
        }
        let [heap_count, type_count] = self.counts;
        for (key, stated, read) in [
            ("memoryHeapCount", heap_count, self.heaps.len()),
            ("memoryTypeCount", type_count, self.types.len()),
        ] {
            if let Some(stated) = stated {
                builder.differ(key, "of the device", stated, read as u64)?;
            }
        }
        for (index, heap) in self.heaps.iter().enumerate() {
            let mut all = Sums::default();
            heap.types.iter().for_each(|&of| all.add(sums(of)));
            if without_types && self.heaps.len() == 1 {
                by_type.values().for_each(|sums| all.add(*sums));
            }
            let whose = format!("of heap {}", cut_key(heap.key));
            let ambiguous = self.ambiguous.is_some_and(|of| heap.types.contains(&of) && sums(of).blocks > 0);
            match heap.statistics {
                _ if ambiguous || (without_types && self.heaps.len() > 1) => {}
                Some(stated) => all.compare(stated, &whose, builder)?,
                None => builder.differ("Blocks", &whose, 0, all.blocks)?,
            }
            // By the name of that heap type, D3D12MA has the sums of all custom pools of the heap, of whatever heap type.
            if let Some(stated) = heap.custom.filter(|_| !ambiguous) {
                let mut all = Sums::default();
                let of_heap = custom.iter().filter(|(of, _)| heap.types.contains(*of));
                of_heap.for_each(|(_, sums)| all.add(*sums));
                all.compare(stated, &format!("of the custom pools {whose}"), builder)?;
            }
            let Some(budget) = heap.budget else { continue };
            let mut fields = Fields::new(budget, "a budget");
            // Those of VMA 3, and those of VMA 2.3.
            let newer = (fields.number("BudgetBytes"), fields.number("UsageBytes"));
            let older = (fields.number("Budget"), fields.number("Usage"));
            if let Some(stated) = fields.number("BlockBytes") {
                builder.differ("BlockBytes", &whose, stated, all.block_bytes)?;
            }
            // Those of VMA 2.3 include allocations that became lost, which are nowhere else.
            fields.skip(&["AllocationBytes"]);
            fields.end(builder)?;
            if let (Some(budget), Some(usage)) = (newer.0.or(older.0), newer.1.or(older.1)) {
                builder.push(Event::Budget { heap: MemoryHeapIndex(index as u8), usage, budget })?;
            }
        }
        Ok(())
    }
}

/// Returns the memory type of a key: `Type 3`, or a heap type of Direct3D 12.
pub(super) fn memory_type(key: &str) -> Option<MemoryTypeIndex> {
    let found = match key.strip_prefix("Type ") {
        Some(number) => number.parse().ok().filter(|&index: &u8| index < 32 && number == index.to_string()),
        None => {
            let key = key.split(" - ").next().unwrap_or(key);
            HEAP_TYPES.iter().position(|(name, _)| *name == key).map(|index| index as u8)
        }
    };
    found.map(MemoryTypeIndex)
}

/// Returns the flags of a list by their index in `known`, and tells those that are not known. Flags without a name are
/// written as one number, which says nothing here.
pub(super) fn known_flags(
    flags: Option<&Json<'_>>,
    known: &[&str],
    what: &str,
    builder: &mut Builder<'_>,
) -> Result<u64, ImportErrorKind> {
    let mut found = 0;
    for flag in flags.map_or(&[][..], Json::list) {
        let index = match flag {
            Json::Number(_) => continue,
            Json::Text(name) => known.iter().position(|known| known == name),
            _ => None,
        };
        match index {
            Some(index) => found |= 1 << index,
            None => {
                let name = if let Json::Text(name) = flag { cut_key(name) } else { String::new() };
                let text = format!("flag `{name}` of {what} is not known");
                builder.unread(UnreadKind::NotUnderstood, 1, &text)?;
            }
        }
    }
    Ok(found)
}

fn properties(flags: Option<&Json<'_>>, builder: &mut Builder<'_>) -> Result<u32, ImportErrorKind> {
    let all: Vec<_> = MemoryProperties::all().iter_names().collect();
    // VMA writes AMD's with the end that they have in Vulkan.
    let names: Vec<String> =
        all.iter().flat_map(|(name, _)| [(*name).to_owned(), format!("{name}_AMD")]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let found = known_flags(flags, &names, "a memory type", builder)?;
    Ok(all.iter().enumerate().fold(
        0,
        |bits, (i, (_, property))| {
            if found >> (2 * i) & 3 != 0 { bits | property.bits() } else { bits }
        },
    ))
}
