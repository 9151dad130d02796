//! JSON dumps: of this library against its own listing, and in the forms of VMA and D3D12MA.

use std::collections::BTreeMap;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::prelude::*;
use allotment::{Algorithm, AllocationOptions, PoolDesc, Requirements, ResourceKind};
use allotment_trace::import::{self, ImportErrorKind};
use allotment_trace::recording::{Api, BlockKind, Library, Recording, UnreadKind};

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
    assert_eq!((left_out(&recording), &*recording.unread), (vec![""; 0], &[][..]));
    assert_eq!(recording.header.library, Library::Allotment);
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
    assert_eq!(recording.unread, []);
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
    assert_eq!(
        (first.is.user_data, recording.text(first.is.category)),
        (0xbeef, Some("storage buffer, transfer destination"))
    );
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
    assert!(matches!(error.kind(), ImportErrorKind::DumpWithoutDetails { .. }));
}

#[test]
fn a_suballocation_beyond_its_block_is_left_out_and_told() {
    let text = std::fs::read_to_string(data("vma.json"))
        .unwrap()
        .replace("\"Offset\": 65536, \"Type\": \"IMAGE", "\"Offset\": 33554432, \"Type\": \"IMAGE");
    let recording = import::read(text.as_bytes()).unwrap();
    assert_eq!(applied(&recording).allocations.len(), 3);
    let beyond = "a range reaches beyond its block, and is left out: one of block 0 of pool 0";
    assert!(
        recording.unread.iter().any(|found| found.kind == UnreadKind::Contradicts && found.text == beyond)
    );
}

#[test]
fn whole_dumps_have_nothing_unread() {
    for name in ["vma.json", "d3d12ma.json"] {
        assert_eq!(import::open(data(name)).unwrap().unread, [], "{name}");
    }
}

#[test]
fn keys_types_flags_and_apis_that_are_not_known_are_told() {
    let text = std::fs::read_to_string(data("vma.json")).unwrap();
    for (from, to, said) in [
        ("\"PreferredBlockSize\"", "\"PreferedBlockSize\"", "`PreferedBlockSize` of a pool"),
        ("\"MapRefCount\": 0", "\"MapRefCount\": 0, \"Color\": 1", "`Color` of a block"),
        ("\"IMAGE_OPTIMAL\"", "\"IMAGE_OPAQUE\"", "type `IMAGE_OPAQUE`"),
        ("\"HOST_COHERENT\"", "\"HOST_COHORENT\"", "flag `HOST_COHORENT`"),
        ("\"API\": \"Vulkan\"", "\"API\": \"Vulcan\"", "`Vulcan`"),
        ("\"Size\": 4194304", "\"Size\": \"4194304\"", "`Size` of an allocation"),
        ("\"Type 1\": { \"Preferred", "\"Type 99\": { \"Preferred", "`Type 99`"),
    ] {
        assert!(text.contains(from), "{from}");
        let recording = import::read(text.replacen(from, to, 1).as_bytes()).unwrap();
        let mut told = recording.unread.iter().filter(|found| found.kind == UnreadKind::NotUnderstood);
        assert!(told.any(|found| found.text.contains(said)), "{from}: {:?}", recording.unread);
    }
}

#[test]
fn sums_that_a_dump_states_of_itself_are_compared_with_what_was_read() {
    let text = std::fs::read_to_string(data("vma.json")).unwrap();
    for (from, to) in [
        ("\"BlockCount\": 3", "\"BlockCount\": 4"),
        ("\"AllocationBytes\": 71434240", "\"AllocationBytes\": 71434241"),
        ("\"AllocationCount\": 3,", "\"AllocationCount\": 2,"),
        ("\"UnusedBytes\": 29294592", "\"UnusedBytes\": 29294593"),
        ("\"UnusedRanges\": 1", "\"UnusedRanges\": 2"),
        ("\"memoryHeapCount\": 2", "\"memoryHeapCount\": 3"),
        ("\"Size\": 4194304", "\"Size\": 4194305"),
        ("\"Offset\": 4259840", "\"Offset\": 4259841"),
    ] {
        assert!(text.contains(from), "{from}");
        let recording = import::read(text.replacen(from, to, 1).as_bytes()).unwrap();
        assert!(recording.unread.iter().any(|found| found.kind == UnreadKind::Contradicts), "{from}");
    }
}

#[test]
fn a_dump_in_utf_16_is_read_as_one_in_utf_8() {
    let text = std::fs::read_to_string(data("d3d12ma.json")).unwrap();
    let expected = import::read(text.as_bytes()).unwrap();
    let units: Vec<u16> = core::iter::once(0xfeff).chain(text.encode_utf16()).collect();
    let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
    for bytes in [&little[..], &little[2..], &big[..], &[&little[..], &[0, 0]].concat()] {
        assert_eq!(import::read(bytes).unwrap(), expected);
    }
}

#[test]
fn dedicated_allocations_that_d3d12ma_writes_with_each_pool_of_a_heap_type_are_read_once() {
    let list = "\"DedicatedAllocations\": [ {\"Type\": \"BUFFER\", \"Size\": 65536, \"Usage\": 0, \"Name\": \"staging\"} ]";
    let text = std::fs::read_to_string(data("d3d12ma.json")).unwrap();
    assert!(text.contains(list));
    let again = ["UPLOAD - Textures", "UPLOAD - Textures RT/DS"].map(|key| {
        format!(
            ", \"{key}\": {{ \"Flags\": [], \"PreferredBlockSize\": 67108864, \"Blocks\": {{}}, {list} }}"
        )
    });
    let text = text.replace(&format!("{list}\n    }}"), &format!("{list}\n    }}{}", again.concat()));
    let recording = import::read(text.as_bytes()).unwrap();
    let state = applied(&recording);
    assert_eq!((recording.unread.len(), state.pools.len(), state.allocations.len()), (0, 4, 3));
}

#[test]
fn a_virtual_block_is_one_pool_of_one_block() {
    let recording = import::open(data("vma-3.3.0-virtual.json")).unwrap();
    let state = applied(&recording);
    assert_eq!((state.pools.len(), state.blocks.len(), state.allocations.len()), (1, 1, 7));
    assert_eq!(state.blocks.values().next().unwrap().size, 1 << 20);
    assert_eq!(recording.unread, []);
    let live = state.allocations.values().find(|live| live.is.user_data == 2).unwrap();
    assert_eq!(live.is.kind, ResourceKind::Unknown);
    let linear = import::open(data("vma-3.3.0-virtual-linear.json")).unwrap();
    assert_eq!((applied(&linear).allocations.len(), linear.unread.len()), (3, 0));
    // D3D12MA's have numbers.
    let text = std::fs::read_to_string(data("vma-3.3.0-virtual.json")).unwrap();
    let text = text.replace("\"CustomData\": \"0x2\"", "\"CustomData\": 2");
    let recording = import::read(text.as_bytes()).unwrap();
    assert_eq!(recording.header.library, Library::D3d12MemoryAllocator);
}

#[test]
fn a_dump_of_vma_2_may_have_a_heap_without_memory_types() {
    let dump = r#"{"Total":{"Blocks":1,"Allocations":1,"UnusedRanges":1,"UsedBytes":60,"UnusedBytes":4},
        "Heap 0":{"Size":64,"Flags":["DEVICE_LOCAL"],"Stats":{"Blocks":1,"Allocations":1,"UsedBytes":60}},
        "DefaultPools":{"Type 0":{"PreferredBlockSize":64,"Blocks":{"0":{"TotalBytes":64,"UnusedBytes":4,"Allocations":1,
        "UnusedRanges":1,"Suballocations":[{"Offset":0,"Type":"BUFFER","Size":60,"Usage":9},
        {"Offset":60,"Type":"FREE","Size":4}]}}}}}"#;
    let recording = import::read(dump.as_bytes()).unwrap();
    assert_eq!((recording.unread.len(), applied(&recording).allocations.len()), (0, 1));
}

/// A report of two blocks, as `serde_json` writes the structures of gpu-allocator.
pub(super) const REPORT: &str = r#"{"gpu-allocator":{"total_allocated_bytes":69632,"total_capacity_bytes":131072,
    "blocks":[{"size":65536,"allocations":[0,2]},{"size":65536,"allocations":{"start":2,"end":3}}],
    "allocations":[{"name":"mesh","offset":0,"size":1024},{"name":"sky","offset":4096,"size":3072},
    {"name":"whole","offset":0,"size":65536}]}}"#;

#[test]
fn reports_of_gpu_allocator_and_wgpu_have_their_blocks_and_allocations() {
    let of_wgpu =
        REPORT.replace("gpu-allocator", "wgpu").replace("total_capacity_bytes", "total_reserved_bytes");
    for (text, library) in [(REPORT, Library::GpuAllocator), (&*of_wgpu, Library::Wgpu)] {
        assert_eq!(import::detect(text.as_bytes()), Some(import::Format::AllocatorReport));
        let recording = import::read(text.as_bytes()).unwrap();
        assert_eq!((recording.header.library, &*recording.unread), (library, &[][..]));
        let found = by_name(&recording);
        assert_eq!(found["sky"], (4096, 3072, ResourceKind::Unknown, BlockKind::Shared));
        assert_eq!(found["whole"], (0, 65536, ResourceKind::Unknown, BlockKind::Dedicated));
        assert_eq!(applied(&recording).blocks.len(), 2);
    }
}

#[test]
fn reports_that_contradict_themselves_say_so() {
    for (from, to) in [
        ("69632", "69633"),
        ("131072", "131073"),
        ("\"offset\":4096", "\"offset\":512"),
        ("\"end\":3", "\"end\":4"),
        ("[0,2]", "[0,1]"),
        ("\"size\":3072", "\"size\":\"x\""),
        ("\"size\":3072", "\"sise\":3072"),
    ] {
        assert!(REPORT.contains(from), "{from}");
        let recording = import::read(REPORT.replacen(from, to, 1).as_bytes()).unwrap();
        assert_ne!(recording.unread, [], "{from}");
        applied(&recording);
    }
}
