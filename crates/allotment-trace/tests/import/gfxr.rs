//! GFXReconstruct: the race against the CSV of the same session, and calls in all their forms.

use allotment_trace::import::{self, ImportErrorKind, Position};
use allotment_trace::recording::{Api, BlockKind, Event, Recording, RefusalReason, State};
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
                ResourceKind::Buffer { usage: Some(usage) } => usage.to_string(),
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
    assert_eq!(recording.text(live.is.category), Some("3"));
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
    let text = buffer(1, 2) + &call("vkFreeMemory", "", r#"{"memory":-1}"#);
    let error = import::read(text.as_bytes()).unwrap_err();
    assert_eq!(error.position(), Some(Position::Line(2)));
    let expected = "line 2: not JSON as the format has it: invalid type: integer `-1`, expected a number that is not \
                    negative at column 12";
    assert_eq!(error.to_string(), expected);
}
