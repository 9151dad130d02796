//! JSON dumps: of this library against its own listing, and in the forms of VMA and D3D12MA.

use std::collections::BTreeMap;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::prelude::*;
use allotment::{Algorithm, AllocationOptions, PoolDesc, Requirements, ResourceKind};
use allotment_trace::import::{self, ImportErrorKind, Position};
use allotment_trace::recording::{Api, BlockKind, Recording};

use super::{applied, data, left_out};

/// Offset, size and kind of each allocation, by name.
fn by_name(recording: &Recording) -> BTreeMap<String, (u64, u64, ResourceKind, BlockKind)> {
    let state = applied(recording);
    let found = state.allocations.values().map(|live| {
        let name = recording.text(live.is.name).unwrap_or_default().to_owned();
        let kind = state.blocks[&live.is.block].kind;
        (name, (live.is.offset, live.is.requested, live.is.kind, kind))
    });
    found.collect()
}

#[test]
fn a_dump_of_this_library_has_each_allocation_where_its_token_says() {
    let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    let allocator = Allocator::new(device, AllocatorDesc::default()).unwrap();
    let mut expected = BTreeMap::new();
    let mut tokens = Vec::new();
    for i in 0..200_u64 {
        let size = 1 + (i * 7919) % 300_000 + if i % 50 == 0 { 40 << 20 } else { 0 };
        let usage = if i % 3 == 0 { MemoryUsage::Upload } else { MemoryUsage::GpuOnly };
        let name = format!("resource {i} \"quoted\"");
        let options = AllocationOptions::from(usage).with_name(name);
        tokens.push(allocator.allocate(&Requirements::new(size), &options).unwrap());
    }
    for token in tokens.split_off(150) {
        allocator.free(token).unwrap();
    }
    for (i, token) in tokens.iter().enumerate() {
        let info = allocator.info(token).unwrap();
        expected.insert(format!("resource {i} \"quoted\""), (info.offset, info.size));
    }
    let recording = import::read(allocator.reports().dump_json().as_bytes()).unwrap();
    assert_eq!(left_out(&recording), [""; 0]);
    let found = by_name(&recording);
    let found: BTreeMap<_, _> =
        found.into_iter().map(|(name, (offset, size, ..))| (name, (offset, size))).collect();
    assert_eq!(found, expected);
    let state = applied(&recording);
    let statistics = allocator.statistics();
    assert_eq!(state.blocks.values().map(|block| block.size).sum::<u64>(), statistics.block_bytes);
    assert_eq!(recording.header.heaps.len(), state.budgets.len());
    assert!(!recording.header.memory_types.is_empty());
    for token in tokens {
        allocator.free(token).unwrap();
    }
}

#[test]
fn padding_in_a_dump_of_this_library_is_overhead_of_the_allocation_before() {
    let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    let allocator = Allocator::new(device, AllocatorDesc::default()).unwrap();
    let memory_type = allocator.explain(&Requirements::new(1), &MemoryUsage::GpuOnly.into())[0].memory_type;
    let mut desc = PoolDesc::new([memory_type]);
    desc.algorithm = Algorithm::Buddy;
    let pool = allocator.create_pool(desc).unwrap();
    let options = MemoryUsage::GpuOnly.with_pool(&pool).with_name("odd");
    let token = allocator.allocate(&Requirements::new(5000), &options).unwrap();
    let recording = import::read(allocator.reports().dump_json().as_bytes()).unwrap();
    let state = applied(&recording);
    let live = state.allocations.values().next().unwrap();
    assert_eq!((state.allocations.len(), live.is.requested, live.is.occupied), (1, 5000, 8192));
    allocator.free(token).unwrap();
}

#[test]
fn a_dump_of_vma_has_pools_blocks_dedicated_memory_names_and_budgets() {
    let recording = import::open(data("vma.json")).unwrap();
    let header = &recording.header;
    assert_eq!((header.api, header.device.as_str()), (Api::Vulkan, "A GPU"));
    assert_eq!((header.buffer_image_granularity, header.max_memory_objects), (1024, 4096));
    assert_eq!(
        header.memory_types.iter().map(|kind| (kind.heap, kind.properties)).collect::<Vec<_>>(),
        [(0, 1), (1, 6)]
    );
    let found = by_name(&recording);
    assert_eq!(found["sky"], (65536, 4_194_304, ResourceKind::OptimalImage, BlockKind::Shared));
    assert_eq!(found["shadow"], (0, 67_108_864, ResourceKind::OptimalImage, BlockKind::Dedicated));
    assert_eq!(found["ring"].2, ResourceKind::Buffer);
    let state = applied(&recording);
    assert_eq!((state.allocations.len(), state.blocks.len(), state.pools.len()), (4, 3, 3));
    let custom = state.pools.values().find(|pool| pool.custom).unwrap();
    assert_eq!(recording.text(custom.name), Some("frames"), "without the number");
    assert_eq!((state.budgets[&0].usage, state.budgets[&0].budget), (100_000_000, 800_000_000));
    let first = state.allocations.values().find(|live| live.is.name.is_none()).unwrap();
    assert_eq!((first.is.user_data, recording.text(first.is.category)), (0xbeef, Some("usage 0x22")));
}

#[test]
fn a_dump_of_d3d12ma_has_heap_types_as_memory_types() {
    let recording = import::open(data("d3d12ma.json")).unwrap();
    let header = &recording.header;
    assert_eq!(header.api, Api::Direct3D12);
    assert_eq!(header.heaps.iter().map(|heap| heap.device_local).collect::<Vec<_>>(), [false, true]);
    assert_eq!(header.heaps[1].size, 8_000_000_000);
    let heaps: Vec<_> = header.memory_types.iter().map(|kind| kind.heap).collect();
    assert_eq!(heaps[..3], [1, 0, 0]);
    let found = by_name(&recording);
    assert_eq!(found["albedo"].2, ResourceKind::OptimalImage);
    assert_eq!(found["linear"].2, ResourceKind::LinearImage);
    let state = applied(&recording);
    let upload = state.blocks.values().find(|block| block.memory_type.0 == 1).unwrap();
    assert_eq!(upload.size, 65536);
}

#[test]
fn a_dump_without_allocations_says_how_to_write_one_with_them() {
    let error = import::read(&br#"{"General":{"API":"Vulkan","GPU":""},"Total":{},"MemoryInfo":{}}"#[..])
        .unwrap_err();
    assert!(matches!(error.kind(), ImportErrorKind::DumpWithoutDetails));
}

#[test]
fn a_suballocation_beyond_its_block_is_an_error_with_its_line() {
    let text = std::fs::read_to_string(data("vma.json"))
        .unwrap()
        .replace("\"Offset\": 65536", "\"Offset\": 33554432");
    let error = import::read(text.as_bytes()).unwrap_err();
    assert!(matches!(error.position(), Some(Position::Line(2..))), "{error}");
    assert!(error.to_string().contains("a suballocation reaches beyond its block"), "{error}");
}
