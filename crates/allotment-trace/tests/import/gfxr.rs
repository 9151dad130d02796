//! GFXReconstruct: the race against the CSV of the same session, and calls in all their forms.

use allotment_trace::import::{self, ImportErrorKind, Position};
use allotment_trace::recording::{Api, BlockKind, Event, Recording, RefusalReason, State, UnreadKind};
use allotment_trace::{Op, ResourceKind, Trace};

use super::{applied, left_out, trace};

fn race() -> Recording {
    import::open(trace("supertuxkart-race.gfxr.jsonl.gz")).unwrap()
}

/// The events that a CSV has as well, with the order of allocation for an id.
#[derive(Debug, PartialEq)]
enum Common {
    Allocated { size: u64, alignment: u64, is_buffer: bool, name: String },
    Freed(usize),
    Frame,
}

/// The usage of a buffer in words, of the bits that the race has.
fn words(usage: u32) -> String {
    const WORDS: [(u32, &str); 6] = [
        (8, "indirect buffer"),
        (7, "vertex buffer"),
        (6, "index buffer"),
        (5, "storage buffer"),
        (4, "uniform buffer"),
        (1, "transfer destination"),
    ];
    let words = WORDS.into_iter().chain([(0, "transfer source")]);
    words.filter(|(bit, _)| usage >> bit & 1 == 1).map(|(_, word)| word).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_race_has_the_same_events_as_the_csv_of_the_same_session() {
    let csv = Trace::open(trace("supertuxkart-race.csv.gz")).unwrap();
    let recording = race();
    assert_eq!(left_out(&recording), [""; 0]);

    let mut keys = std::collections::HashMap::new();
    let imported = recording.events.iter().filter_map(|event| match event {
        Event::Allocated(is) => {
            assert_eq!(is.occupied, is.requested);
            keys.insert(is.allocation, keys.len());
            Some(Common::Allocated {
                size: is.requested,
                alignment: is.alignment.get(),
                is_buffer: is.kind == allotment::ResourceKind::Buffer,
                name: recording.text(is.name).unwrap_or_default().to_owned(),
            })
        }
        Event::Freed { allocation } => Some(Common::Freed(keys[allocation])),
        Event::FrameEnd { .. } => Some(Common::Frame),
        _ => None,
    });
    let imported: Vec<_> = imported.collect();
    let expected = csv.events().iter().map(|event| match event.op {
        Op::Allocate(index) => {
            let resource = csv.resource(index);
            let name = match resource.kind() {
                ResourceKind::Buffer { usage: Some(usage) } => words(usage),
                _ => resource.name().to_owned(),
            };
            let is_buffer = matches!(resource.kind(), ResourceKind::Buffer { .. });
            Common::Allocated { size: resource.size(), alignment: resource.alignment(), is_buffer, name }
        }
        Op::Free(index) => Common::Freed(index.as_usize()),
        Op::FrameEnd => Common::Frame,
    });
    let expected: Vec<_> = expected.collect();
    assert_eq!(imported.len(), expected.len());
    for (i, (imported, expected)) in imported.iter().zip(&expected).enumerate() {
        assert_eq!(imported, expected, "event {i}");
    }
}

#[test]
fn the_race_has_the_same_peak_and_counts_as_the_csv() {
    let csv = Trace::open(trace("supertuxkart-race.csv.gz")).unwrap();
    let recording = race();
    let (mut state, mut live, mut peak, mut allocations, mut frees) = (State::default(), 0, 0, 0, 0);
    for event in &recording.events {
        if let Event::Freed { allocation } = event {
            live -= state.allocations[allocation].is.requested;
            frees += 1;
        }
        state.apply(event).unwrap();
        if let Event::Allocated(is) = event {
            live += is.requested;
            allocations += 1;
        }
        peak = u64::max(peak, live);
    }
    assert_eq!((allocations, frees), (csv.allocations(), csv.frees()));
    assert_eq!(peak, csv.peak_live_bytes());
    assert_eq!(state.now.frame, csv.frames() as u64);
    assert_eq!(state.allocations.len(), csv.live_at_end().len());
}

#[test]
fn the_race_has_its_blocks_heaps_mappings_and_submissions() {
    let recording = race();
    let state = applied(&recording);
    let header = &recording.header;
    assert_eq!(
        (header.api, header.producer.as_str()),
        (Api::Vulkan, "GFXReconstruct 0.9.18-unknown (unknown-build-source)")
    );
    assert_eq!((header.heaps.len(), header.heaps[0].size, header.heaps[0].device_local), (1, 2 << 30, true));
    assert_eq!((header.memory_types[0].heap, header.memory_types[0].properties), (0, 15));
    let mut sizes: Vec<_> = state.blocks.values().map(|block| block.size).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [7_171_228, 32 << 20, 64 << 20]);
    let mapped = state.allocations.values().filter(|live| live.maps > 0).count();
    assert!(mapped > 0 && mapped < state.allocations.len());
    // The 3,988 submissions of one queue, of which the last that a fence proves are complete.
    let (submitted, completed) = state.queues[&0];
    assert_eq!(submitted, 3988);
    assert!(completed > 3900 && completed <= submitted, "{completed}");
}

fn call(name: &str, result: &str, args: &str) -> String {
    format!(r#"{{"index":1,"vkFunc":{{"name":"{name}","return":"{result}","args":{args}}}}}"#) + "\n"
}

fn import(lines: &[String]) -> Recording {
    import::read(lines.concat().as_bytes()).unwrap()
}

fn memory(handle: u64, size: u64, next: &str) -> String {
    let info = format!(r#"{{"pNext":{next},"allocationSize":{size},"memoryTypeIndex":1}}"#);
    call("vkAllocateMemory", "VK_SUCCESS", &format!(r#"{{"pAllocateInfo":{info},"pMemory":{handle}}}"#))
}

fn buffer(handle: u64, size: u64) -> String {
    let args = format!(r#"{{"pCreateInfo":{{"size":{size},"usage":3}},"pBuffer":{handle}}}"#);
    call("vkCreateBuffer", "VK_SUCCESS", &args)
}

fn bind(buffer: u64, memory: u64, offset: u64) -> String {
    let args = format!(r#"{{"buffer":{buffer},"memory":{memory},"memoryOffset":{offset}}}"#);
    call("vkBindBufferMemory", "VK_SUCCESS", &args)
}

/// A program of Vulkan that allocates, binds, maps and frees.
pub(super) fn vulkan() -> Vec<String> {
    vec![
        call(
            "vkGetPhysicalDeviceMemoryProperties",
            "",
            r#"{"physicalDevice":3,"pMemoryProperties":{"memoryTypeCount":2,"memoryTypes":[{"propertyFlags":1,"heapIndex":0},{"propertyFlags":15,"heapIndex":0}],"memoryHeapCount":1,"memoryHeaps":[{"size":2147483648,"flags":1}]}}"#,
        ),
        memory(16, 1 << 20, "null"),
        buffer(20, 4096),
        bind(20, 16, 0),
        buffer(21, 65536),
        bind(21, 16, 4096),
        call("vkMapMemory", "VK_SUCCESS", r#"{"memory":16,"offset":0,"size":65536,"ppData":"0x1000"}"#),
        call("vkUnmapMemory", "", r#"{"memory":16}"#),
        call("vkDestroyBuffer", "", r#"{"buffer":20}"#),
        call("vkDestroyBuffer", "", r#"{"buffer":21}"#),
        call("vkFreeMemory", "", r#"{"memory":16}"#),
        call("vkQueuePresentKHR", "VK_SUCCESS", r#"{"queue":5}"#),
    ]
}

#[test]
fn memory_that_is_freed_with_bound_resources_frees_their_allocations_once() {
    let recording = import(&[
        memory(1, 4096, "null"),
        buffer(2, 100),
        bind(2, 1, 256),
        call("vkFreeMemory", "", r#"{"memory":1}"#),
        call("vkDestroyBuffer", "", r#"{"buffer":2}"#),
    ]);
    let state = applied(&recording);
    assert!(state.blocks.is_empty() && state.allocations.is_empty());
    assert_eq!(recording.events.iter().filter(|event| matches!(event, Event::Freed { .. })).count(), 1);
}

#[test]
fn dedicated_memory_names_and_newer_calls_are_known() {
    let dedicated = r#"{"sType":"VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO","handleTypes":1,
        "pNext":{"sType":"VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO","pNext":null,"image":0,"buffer":"0x2"}}"#;
    let recording = import(&[
        buffer(2, 100),
        call(
            "vkGetBufferMemoryRequirements2",
            "",
            r#"{"pInfo":{"buffer":2},"pMemoryRequirements":{"memoryRequirements":{"size":128,"alignment":64}}}"#,
        ),
        memory(1, 128, &dedicated.replace('\n', " ")),
        call("vkMapMemory2KHR", "VK_SUCCESS", r#"{"pMemoryMapInfo":{"memory":1,"offset":0,"size":128}}"#),
        call(
            "vkBindBufferMemory2",
            "VK_SUCCESS",
            r#"{"pBindInfos":[{"buffer":"0x2","memory":"0x1","memoryOffset":0}]}"#,
        ),
        call(
            "vkSetDebugUtilsObjectNameEXT",
            "VK_SUCCESS",
            r#"{"pNameInfo":{"objectType":"VK_OBJECT_TYPE_BUFFER","objectHandle":2,"pObjectName":"sky"}}"#,
        ),
    ]);
    let state = applied(&recording);
    let block = state.blocks.values().next().unwrap();
    assert_eq!((block.kind, block.size, block.memory_type.0), (BlockKind::DedicatedToResource, 128, 1));
    let live = state.allocations.values().next().unwrap();
    assert_eq!((live.is.requested, live.is.alignment.get(), live.maps), (128, 64, 1));
    assert_eq!(recording.text(live.is.name), Some("sky"));
    assert_eq!(recording.text(live.is.category), Some("transfer destination, transfer source"));
}

#[test]
fn a_failed_allocation_is_a_refusal() {
    let args = r#"{"pAllocateInfo":{"allocationSize":99,"memoryTypeIndex":0},"pMemory":null}"#;
    let recording = import(&[call("vkAllocateMemory", "VK_ERROR_OUT_OF_DEVICE_MEMORY", args)]);
    let [Event::Refused { reason, requested, .. }] = recording.events[..] else { panic!() };
    assert_eq!((reason, requested), (RefusalReason::OutOfMemory, 99));
}

#[test]
fn a_resource_that_is_bound_beyond_its_memory_is_marked_and_left_out() {
    let recording =
        import(&[memory(1, 64, "null"), buffer(2, 100), bind(2, 1, 0), bind(2, 9, 0), bind(9, 1, 0)]);
    assert_eq!(left_out(&recording).len(), 3);
    assert!(applied(&recording).allocations.is_empty());
}

#[test]
fn memory_that_is_mapped_again_and_again_does_not_fill_the_recording() {
    let mut lines = vec![memory(1, 1 << 30, "null")];
    for i in 2..2000 {
        lines.extend([buffer(i, 100), bind(i, 1, i * 256)]);
    }
    let map = call("vkMapMemory", "VK_SUCCESS", r#"{"memory":1,"offset":0,"size":1000000}"#);
    let unmap = call("vkUnmapMemory", "", r#"{"memory":1}"#);
    lines.extend((0..2000).flat_map(|_| [map.clone(), unmap.clone()]));
    let recording = import(&lines);
    assert!(recording.events.len() < 1 << 21);
    assert_eq!(left_out(&recording), ["import: the mappings of a memory object are no longer followed"]);
    applied(&recording);
}

#[test]
fn the_header_is_of_the_device_that_was_created() {
    let properties = |device: u32, name: &str| {
        let limits =
            r#"{"bufferImageGranularity":1024,"nonCoherentAtomSize":64,"maxMemoryAllocationCount":4096}"#;
        call(
            "vkGetPhysicalDeviceProperties",
            "",
            &format!(
                r#"{{"physicalDevice":{device},"pProperties":{{"deviceName":"{name}","limits":{limits}}}}}"#
            ),
        )
    };
    let budget = r#"{"sType":"VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT","pNext":null,
        "heapBudget":[900],"heapUsage":[100]}"#;
    let heaps = r#"{"memoryTypeCount":1,"memoryTypes":[{"heapIndex":0,"propertyFlags":
        "VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT|VK_MEMORY_PROPERTY_HOST_CACHED_BIT"}],"memoryHeaps":[{"size":1000,"flags":1}]}"#;
    let recording = import(&[
        properties(1, "first"),
        properties(2, "second"),
        call("vkCreateDevice", "VK_SUCCESS", r#"{"physicalDevice":2,"pDevice":9}"#),
        call(
            "vkGetPhysicalDeviceMemoryProperties2",
            "",
            &format!(
                r#"{{"physicalDevice":2,"pMemoryProperties":{{"pNext":{budget},"memoryProperties":{heaps}}}}}"#
            )
            .replace('\n', " "),
        ),
    ]);
    let header = &recording.header;
    assert_eq!((header.device.as_str(), header.buffer_image_granularity), ("second", 1024));
    assert_eq!((header.non_coherent_atom_size, header.max_memory_objects), (64, 4096));
    assert_eq!(header.memory_types[0].properties, 1 | 8);
    let state = applied(&recording);
    assert_eq!((state.budgets[&0].usage, state.budgets[&0].budget), (100, 900));
}

#[test]
fn errors_name_the_line() {
    let text = buffer(1, 2) + "\n" + &buffer(3, 4) + "{\"vkFunc\":\n";
    let error = import::read(text.as_bytes()).unwrap_err();
    assert_eq!(error.position(), Some(Position::Line(4)));
    assert!(matches!(error.kind(), ImportErrorKind::JsonTruncated));
    let text = buffer(1, 2) + "{\"vkFunc\":7}\n";
    let error = import::read(text.as_bytes()).unwrap_err();
    let expected =
        "line 2: not JSON as the format has it: invalid type: integer `7`, expected struct Call at column 11";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn null_handles_are_read_in_each_form_that_converters_write() {
    for null in ["null", "0", "\"0x0\"", "\"VK_NULL_HANDLE\""] {
        let recording = import(&[
            memory(1, 4096, "null"),
            buffer(2, 100),
            bind(2, 1, 256),
            call(
                "vkQueueSubmit",
                "VK_SUCCESS",
                &format!(r#"{{"queue":4,"submitCount":0,"pSubmits":null,"fence":{null}}}"#),
            ),
            call("vkFreeMemory", "", &format!(r#"{{"device":3,"memory":{null},"pAllocator":null}}"#)),
            call("vkDestroyBuffer", "", &format!(r#"{{"device":3,"buffer":{null}}}"#)),
            call("vkDestroyImage", "", &format!(r#"{{"device":3,"image":{null}}}"#)),
            call(
                "vkBindImageMemory",
                "VK_SUCCESS",
                &format!(r#"{{"image":7,"memory":{null},"memoryOffset":0}}"#),
            ),
            call("vkDestroyFence", "", &format!(r#"{{"fence":{null}}}"#)),
            memory(
                5,
                64,
                &format!(
                    r#"{{"sType":"VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO","pNext":null,"image":{null},"buffer":{null}}}"#
                ),
            ),
        ]);
        assert_eq!(recording.unread, [], "{null}");
        let state = applied(&recording);
        assert_eq!((state.blocks.len(), state.allocations.len()), (2, 1), "{null}");
        assert!(state.blocks.values().all(|block| block.kind == BlockKind::Shared), "{null}");
    }
}

#[test]
fn a_call_of_an_unknown_form_is_left_out_and_told_with_its_line() {
    let recording = import(&[
        memory(1, 4096, "null"),
        call("vkCreateBuffer", "VK_SUCCESS", r#"{"pCreateInfo":{"size":"many"},"pBuffer":2}"#),
        memory(3, 64, "null"),
        call("vkQueueBindSparse", "VK_SUCCESS", "{}"),
    ]);
    assert_eq!(applied(&recording).blocks.len(), 2);
    let texts: Vec<_> = recording.unread.iter().map(|found| (found.kind, &*found.text)).collect();
    assert_eq!(texts.len(), 2);
    assert_eq!(texts[0].0, UnreadKind::NotUnderstood);
    assert!(texts[0].1.contains("`vkCreateBuffer`") && texts[0].1.contains("line 2"), "{}", texts[0].1);
    assert_eq!(texts[1].1, "sparse bindings are not imported");
}

fn method(object: (&str, u64), name: &str, result: &str, args: &str) -> String {
    let (kind, handle) = object;
    let object = format!(r#"{{"type":"{kind}","handle":{handle}}}"#);
    format!(
        r#"{{"index":1,"method":{{"name":"{name}","thread":1,"object":{object},"return":{result},"args":{args}}}}}"#
    ) + "\n"
}

const DEVICE: (&str, u64) = ("ID3D12Device", 3);
const TEXTURE: &str = r#"{"Dimension":"D3D12_RESOURCE_DIMENSION_TEXTURE2D","Alignment":0,"Width":256,"Height":128,
    "DepthOrArraySize":1,"MipLevels":3,"Format":"DXGI_FORMAT_R8G8B8A8_UNORM","SampleDesc":{"Count":1,"Quality":0},
    "Layout":"D3D12_TEXTURE_LAYOUT_UNKNOWN","Flags":"D3D12_RESOURCE_FLAG_NONE"}"#;

/// The calls of a program: two heaps, of which one is used, and a committed buffer.
pub(super) fn direct3d12() -> Vec<String> {
    let texture = TEXTURE.replace('\n', " ");
    let buffer = r#"{"Dimension":"D3D12_RESOURCE_DIMENSION_BUFFER","Width":100000,"Height":1,
        "Layout":"D3D12_TEXTURE_LAYOUT_ROW_MAJOR","Flags":"D3D12_RESOURCE_FLAG_NONE"}"#
        .replace('\n', " ");
    let heap = |handle: u64, kind: &str| {
        let desc = format!(
            r#"{{"SizeInBytes":1048576,"Properties":{{"Type":"D3D12_HEAP_TYPE_{kind}"}},"Flags":"0"}}"#
        );
        method(DEVICE, "CreateHeap", "\"S_OK\"", &format!(r#"{{"pDesc":{desc},"ppvHeap":{handle}}}"#))
    };
    let placed = |handle: u64, offset: u64| {
        let args =
            format!(r#"{{"pHeap":10,"HeapOffset":{offset},"pDesc":{texture},"ppvResource":{handle}}}"#);
        method(("ID3D12Device8", 3), "CreatePlacedResource1", "\"S_OK\"", &args)
    };
    let upload = r#"{"Type":"D3D12_HEAP_TYPE_UPLOAD","CPUPageProperty":"D3D12_CPU_PAGE_PROPERTY_UNKNOWN"}"#;
    let committed = format!(r#"{{"pHeapProperties":{upload},"pDesc":{buffer},"ppvResource":30}}"#);
    let (queue, fence) = (("ID3D12CommandQueue", 40), ("ID3D12Fence", 41));
    vec![
        r#"{"index":1,"meta":{"name":"DxgiAdapterInfo","args":{"adapter_desc":{"Description":"A GPU","DedicatedVideoMemory":8589934592,"SharedSystemMemory":17179869184}}}}"#
            .to_owned()
            + "\n",
        heap(10, "DEFAULT"),
        heap(11, "READBACK"),
        method(DEVICE, "GetResourceAllocationInfo", r#"{"SizeInBytes":196608,"Alignment":65536}"#, &format!(r#"{{"visibleMask":"0b1","numResourceDescs":1,"pResourceDescs":[{texture}]}}"#)),
        placed(20, 0),
        placed(21, 262_144),
        method(DEVICE, "CreateCommittedResource", "\"S_OK\"", &committed),
        method(("ID3D12Object", 20), "SetName", "\"S_OK\"", r#"{"Name":"albedo"}"#),
        method(("ID3D12Resource", 30), "Map", "\"S_OK\"", r#"{"Subresource":0,"pReadRange":null,"ppData":"0x1"}"#),
        method(queue, "ExecuteCommandLists", "null", r#"{"NumCommandLists":1,"ppCommandLists":[50]}"#),
        method(queue, "Signal", "\"S_OK\"", r#"{"pFence":41,"Value":7}"#),
        method(queue, "ExecuteCommandLists", "null", r#"{"NumCommandLists":1,"ppCommandLists":[51]}"#),
        method(fence, "GetCompletedValue", "7", "{}"),
        method(("IDXGISwapChain3", 60), "Present", "\"S_OK\"", r#"{"SyncInterval":1,"Flags":0}"#),
    ]
}

#[test]
fn calls_of_direct3d_12_become_heaps_and_resources() {
    let recording = import(&direct3d12());
    assert_eq!(recording.unread, []);
    let header = &recording.header;
    assert_eq!((header.api, &*header.device), (Api::Direct3D12, "A GPU"));
    assert_eq!((header.heaps.len(), header.heaps[1].size, header.heaps[1].device_local), (2, 8 << 30, true));
    assert_eq!(header.memory_types.iter().map(|kind| kind.heap).collect::<Vec<_>>(), [1, 0, 0, 1, 1]);
    let state = applied(&recording);
    let mut blocks: Vec<_> =
        state.blocks.values().map(|block| (block.memory_type.0, block.size, block.kind)).collect();
    blocks.sort_unstable_by_key(|block| block.0);
    let shared = BlockKind::Shared;
    // A buffer is a multiple of 64 KiB.
    assert_eq!(
        blocks,
        [(0, 1 << 20, shared), (1, 131_072, BlockKind::DedicatedToResource), (2, 1 << 20, shared)]
    );
    let mut found: Vec<_> = state
        .allocations
        .values()
        .map(|live| {
            (recording.text(live.is.name).unwrap_or_default(), live.is.offset, live.is.requested, live.maps)
        })
        .collect();
    found.sort_unstable();
    let texture = "DXGI_FORMAT_R8G8B8A8_UNORM 256x128x1 mips=3";
    assert_eq!(
        found,
        [
            // A buffer without flags and without a name.
            ("", 0, 131_072, 1),
            (texture, 262_144, 196_608, 0),
            ("albedo", 0, 196_608, 0),
        ]
    );
    assert_eq!((state.now.frame, state.queues[&0]), (1, (2, 1)));
}

#[test]
fn a_heap_of_direct3d_12_stays_as_long_as_a_resource_in_it() {
    let release = |handle: u64, left: u64| method(("IUnknown", handle), "Release", &left.to_string(), "{}");
    let mut calls = direct3d12();
    let blocks = |calls: &[String]| applied(&import(calls)).blocks.len();
    for (handle, left, expected) in
        [(11, 0, 2), (10, 1, 2), (10, 0, 2), (20, 0, 2), (21, 1, 2), (21, 0, 1), (30, 0, 0)]
    {
        calls.push(release(handle, left));
        assert_eq!(blocks(&calls), expected, "{handle} {left}");
    }
}

#[test]
fn resources_of_direct3d_12_that_cannot_be_placed_are_left_out_and_told() {
    let texture = TEXTURE.replace('\n', " ");
    let placed = |heap: u64, offset: u64| {
        let args = format!(r#"{{"pHeap":{heap},"HeapOffset":{offset},"pDesc":{texture},"ppvResource":99}}"#);
        method(DEVICE, "CreatePlacedResource", "\"S_OK\"", &args)
    };
    let default = r#"{"Type":"D3D12_HEAP_TYPE_DEFAULT"}"#;
    let other = texture.replace("256", "512");
    let committed = format!(r#"{{"pHeapProperties":{default},"pDesc":{other},"ppvResource":98}}"#);
    for (call, kind, said) in [
        (placed(77, 0), UnreadKind::Contradicts, "a heap that was not created"),
        (placed(10, 1 << 20), UnreadKind::Contradicts, "beyond its heap"),
        (
            method(DEVICE, "CreateCommittedResource", "\"S_OK\"", &committed),
            UnreadKind::NotUnderstood,
            "GetResourceAllocationInfo",
        ),
    ] {
        let calls = [direct3d12(), vec![call]].concat();
        let recording = import(&calls);
        assert_eq!(applied(&recording).allocations.len(), 3, "{said}");
        assert!(
            matches!(&*recording.unread, [found] if found.kind == kind && found.text.contains(said)),
            "{:?}",
            recording.unread
        );
    }
    let failed = method(DEVICE, "CreateCommittedResource", "\"E_OUTOFMEMORY\"", &committed);
    let recording = import(&[failed]);
    assert!(matches!(recording.events[..], [Event::Refused { reason: RefusalReason::OutOfMemory, .. }]));
}

#[test]
fn a_heap_of_direct3d_12_ends_with_its_last_resource_also_where_its_handle_is_used_again() {
    let calls = direct3d12();
    let [first, placed] = [&calls[1], &calls[4]];
    let released = |kind, handle| method((kind, handle), "Release", "0", "{}");
    let mut lines = vec![
        first.clone(),
        calls[3].clone(),
        placed.clone(),
        released("ID3D12Heap", 10),
        first.clone(),
        released("ID3D12Resource", 20),
    ];
    let recording = import(&lines);
    assert_eq!(recording.unread, []);
    assert_eq!(applied(&recording).blocks.len(), 1, "of two heaps of one handle the second one is left");
    lines.push(released("ID3D12Heap", 10));
    assert_eq!(applied(&import(&lines)).blocks.len(), 0);
}

#[test]
fn a_call_that_asks_whether_a_heap_or_a_resource_could_be_created_creates_none() {
    let calls = direct3d12();
    let ask = |call: &str, pointer: &str, handle: u64| {
        call.replace(&format!("\"{pointer}\":{handle}"), &format!("\"{pointer}\":null"))
            .replace("S_OK", "S_FALSE")
    };
    let lines = [calls[3].clone(), ask(&calls[1], "ppvHeap", 10), ask(&calls[6], "ppvResource", 30)];
    let recording = import(&lines);
    assert_eq!(applied(&recording).blocks.len(), 0);
}

#[test]
fn a_heap_is_rounded_up_as_direct3d_12_does_and_a_test_of_presenting_is_no_frame() {
    let heap =
        r#"{"pDesc":{"SizeInBytes":1000000,"Properties":{"Type":"D3D12_HEAP_TYPE_DEFAULT"}},"ppvHeap":10}"#;
    let placed = r#"{"pHeap":10,"HeapOffset":0,"pDesc":{"Dimension":"D3D12_RESOURCE_DIMENSION_BUFFER","Width":1000000},"ppvResource":20}"#;
    let device = ("ID3D12Device", 3);
    let present = |flags: &str| {
        method(
            ("IDXGISwapChain3", 60),
            "Present",
            "\"S_OK\"",
            &format!(r#"{{"SyncInterval":1,"Flags":{flags}}}"#),
        )
    };
    let recording = import(&[
        method(device, "CreateHeap", "\"S_OK\"", heap),
        method(device, "CreatePlacedResource", "\"S_OK\"", placed),
        present("0"),
        present("1"),
        present("\"DXGI_PRESENT_TEST\""),
    ]);
    assert_eq!(recording.unread, []);
    let sizes: Vec<u64> = recording
        .events
        .iter()
        .filter_map(|event| match event {
            Event::BlockAllocated { size, .. } => Some(*size),
            Event::Allocated(allocated) => Some(allocated.requested),
            _ => None,
        })
        .collect();
    assert_eq!(sizes, [1 << 20; 2]);
    let frames = recording.events.iter().filter(|event| matches!(event, Event::FrameEnd { .. })).count();
    assert_eq!(frames, 1);
}

#[test]
fn a_program_that_asks_for_the_data_of_a_removed_device_is_read_whole() {
    let heap =
        r#"{"pDesc":{"SizeInBytes":65536,"Properties":{"Type":"D3D12_HEAP_TYPE_DEFAULT"}},"ppvHeap":10}"#;
    let settings = ("ID3D12DeviceRemovedExtendedDataSettings1", 70);
    let recording = import(&[
        method(settings, "SetAutoBreadcrumbsEnablement", "null", r#"{"Enablement":2}"#),
        method(("ID3D12DeviceFactory", 71), "InitializeFromGlobalState", "\"S_OK\"", "{}"),
        method(("ID3D12Device10", 3), "CreateHeap", "\"S_OK\"", heap),
    ]);
    assert_eq!(recording.unread, []);
    let unknown = import(&[method(("ID3D12Device10", 3), "CreateSomethingNew", "\"S_OK\"", "{}")]);
    assert!(unknown.unread[0].text.contains("`CreateSomethingNew` is a method of the device"));
}
