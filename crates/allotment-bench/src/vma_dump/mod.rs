//! The importer and the exporter of JSON dumps against the real VMA: a program allocates with it, and what the importer
//! reads from VMA's dump is what VMA's functions say of each allocation.
//!
//! With `ALLOTMENT_DUMPS=folder` the test writes VMA's dump and the export of it there, for VMA's own viewer.

mod ffi;
mod program;

use allotment_trace::export::{Export, Format};
use allotment_trace::import;
use allotment_trace::recording::{BlockKind, Recording, State};
use ash::vk;
use serde_json::Value;

use crate::vulkan::Gpu;
use program::{Described, Object, Program, kind_name};

fn state_of(recording: &Recording) -> State {
    let mut state = State::default();
    recording.events.iter().for_each(|event| state.apply(event).unwrap());
    state
}

/// Returns the usage flags that words say, of those that the program uses.
fn usage_of(words: &str) -> u64 {
    let flag = |word| match word {
        "transfer destination" => 0x2, // of buffers and of images
        "sampled" => u64::from(vk::ImageUsageFlags::SAMPLED.as_raw()),
        "vertex buffer" => u64::from(vk::BufferUsageFlags::VERTEX_BUFFER.as_raw()),
        other => panic!("{other} is no usage of the program"),
    };
    words.split(", ").map(flag).sum()
}

/// Returns the blocks that have allocations, sorted, as [`Program::objects`] does.
fn objects(recording: &Recording, state: &State) -> Vec<Object> {
    let blocks = state.blocks.values().filter(|block| !block.allocations.is_empty());
    let mut found: Vec<_> = blocks
        .map(|block| {
            let allocations = block.allocations.iter().map(|(_, key)| {
                let is = &state.allocations[key].is;
                assert_eq!(is.requested, is.occupied, "VMA's dumps do not say what was requested");
                let usage = recording.text(is.category).map_or(0, usage_of);
                Described {
                    offset: is.offset,
                    size: is.occupied,
                    name: recording.text(is.name).map(str::to_owned),
                    user_data: is.user_data,
                    kind: kind_name(is.kind),
                    usage,
                }
            });
            let pool = &state.pools[&block.pool];
            let mut object = Object {
                memory_type: u32::from(block.memory_type.0),
                size: block.size,
                dedicated: block.kind == BlockKind::Dedicated,
                pool: pool.custom.then(|| recording.text(pool.name).unwrap_or_default().to_owned()),
                allocations: allocations.collect(),
            };
            object.allocations.sort();
            object
        })
        .collect();
    found.sort();
    found
}

/// The counts of VMA's own statistics, and of a state.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    blocks: u64,
    block_bytes: u64,
    allocations: u64,
    allocation_bytes: u64,
    free_ranges: u64,
    smallest_free: u64,
    largest_free: u64,
}

fn counts_of_vma(program: &Program) -> Counts {
    let total = program.allocator.calculate_statistics().unwrap().total;
    Counts {
        blocks: total.statistics.blockCount.into(),
        block_bytes: total.statistics.blockBytes,
        allocations: total.statistics.allocationCount.into(),
        allocation_bytes: total.statistics.allocationBytes,
        free_ranges: total.unusedRangeCount.into(),
        smallest_free: total.unusedRangeSizeMin,
        largest_free: total.unusedRangeSizeMax,
    }
}

fn counts_of(state: &State) -> Counts {
    let mut counts = Counts { smallest_free: u64::MAX, ..Counts::default() };
    for block in state.blocks.values() {
        counts.blocks += 1;
        counts.block_bytes += block.size;
        for free in state.spans(block).filter(|span| span.is_free()) {
            counts.free_ranges += 1;
            counts.smallest_free = counts.smallest_free.min(free.size);
            counts.largest_free = counts.largest_free.max(free.size);
        }
    }
    counts.allocations = state.allocations.len() as u64;
    counts.allocation_bytes = state.allocations.values().map(|live| live.is.occupied).sum();
    counts
}

/// Changes a dump to what every dump of the same memory must be equal in. The members that a recording does not have are
/// removed:
///
/// - which device it was, beyond its name and limits;
/// - heap flags other than the GPU's own memory, and how large the next block of a pool is;
/// - how often the CPU has mapped a block, which belongs to no allocation;
/// - pools without memory; the numbers of pools and of blocks, which other dumps count differently.
fn comparable(mut dump: Value) -> Value {
    let general = dump["General"].as_object_mut().unwrap();
    for key in ["apiVersion", "deviceType", "memoryHeapCount", "memoryTypeCount"] {
        general.remove(key);
    }
    for heap in dump["MemoryInfo"].as_object_mut().unwrap().values_mut() {
        let flags = heap["Flags"].as_array_mut().unwrap();
        flags.retain(|flag| flag == "DEVICE_LOCAL");
    }
    let default = dump["DefaultPools"].as_object_mut().unwrap();
    default.values_mut().for_each(comparable_pool);
    default.retain(|_, pool| has_memory(pool));
    let custom = dump["CustomPools"].as_object_mut().unwrap();
    for pools in custom.values_mut() {
        let pools = pools.as_array_mut().unwrap();
        pools.iter_mut().for_each(comparable_pool);
        pools.retain(has_memory);
        for pool in pools {
            let name = pool["Name"].as_str().unwrap();
            pool["Name"] = name.split_once(" - ").map_or("", |(_, name)| name).into();
        }
    }
    dump
}

fn has_memory(pool: &Value) -> bool {
    ["Blocks", "DedicatedAllocations"].iter().any(|key| !pool[key].as_array().unwrap().is_empty())
}

fn comparable_pool(pool: &mut Value) {
    pool.as_object_mut().unwrap().remove("PreferredBlockSize");
    let mut blocks: Vec<_> = pool["Blocks"].as_object().unwrap().values().cloned().collect();
    for block in &mut blocks {
        block.as_object_mut().unwrap().remove("MapRefCount");
        block["Suballocations"].as_array_mut().unwrap().iter_mut().for_each(comparable_range);
    }
    // The members of an object have no order.
    blocks.sort_by_key(Value::to_string);
    pool["Blocks"] = blocks.into();
    pool["DedicatedAllocations"].as_array_mut().unwrap().iter_mut().for_each(comparable_range);
}

/// Pointers are written by the C library, with or without `0x`.
fn comparable_range(range: &mut Value) {
    if let Some(data) = range.get_mut("CustomData") {
        let digits = data.as_str().unwrap();
        let digits = digits.strip_prefix("0x").unwrap_or(digits).trim_start_matches('0').to_lowercase();
        *data = digits.into();
    }
}

fn export(recording: &Recording) -> String {
    let mut out = Vec::new();
    Export::of(recording).write(Format::VmaJson, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_dump_of_the_real_vma_has_what_vma_says_of_each_allocation_and_comes_back() {
    let Some(gpu) = Gpu::open_for_test() else { return };
    let mut program = Program::new(&gpu);
    program.run();
    let dump = ffi::dump(&program.allocator);
    let recording = import::read(dump.as_bytes()).unwrap();
    let state = state_of(&recording);

    let expected = program.objects();
    assert_eq!(objects(&recording, &state), expected);
    assert!(expected.iter().filter(|object| object.dedicated).count() >= 3);
    assert_eq!(counts_of(&state), counts_of_vma(&program));
    for (index, budget) in program.allocator.get_heap_budgets().unwrap().iter().enumerate() {
        let imported = state.budgets[&(index as u8)];
        assert_eq!((imported.usage, imported.budget), (budget.usage, budget.budget));
        assert_eq!(recording.header.heaps[index].size, gpu.info.heaps[index]);
    }
    let types: Vec<_> = gpu.info.memory_types.iter().map(|of| (of.heap, of.flags.as_raw())).collect();
    let imported = recording.header.memory_types.iter().map(|of| (u32::from(of.heap), of.properties));
    assert_eq!(imported.collect::<Vec<_>>(), types);
    assert_eq!(recording.header.device, gpu.info.name);
    assert_eq!(recording.header.buffer_image_granularity, gpu.info.buffer_image_granularity);

    let exported = export(&recording);
    if let Some(folder) = std::env::var_os("ALLOTMENT_DUMPS") {
        let folder = std::path::Path::new(&folder);
        std::fs::write(folder.join("vma.json"), &dump).unwrap();
        std::fs::write(folder.join("exported.json"), &exported).unwrap();
    }
    let [of_vma, ours] = [&dump, &exported].map(|text| comparable(serde_json::from_str(text).unwrap()));
    for member in of_vma.as_object().unwrap().keys() {
        assert_eq!(ours[member], of_vma[member], "{member}");
    }
    assert_eq!(ours, of_vma);
    // A second round changes nothing at all.
    assert_eq!(export(&import::read(exported.as_bytes()).unwrap()), exported);
}
