//! Over a device and over the simulated device with its properties, an allocator makes the same decisions: what
//! is found out on the simulated device holds where it counts.
//!
//! Recorded traffic of real programs, with real buffers and images on the device of the test, and memory that
//! needs the same on the simulated one.

use std::path::{Path, PathBuf};

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{
    BufferDesc, BufferDevice as _, DedicatedNeed, Device, ImageDesc, ImageDevice as _, MemoryDevice as _,
    MemoryHeapIndex, MemoryTypeIndex, Requirements,
};
use allotment::memory::blocks::{ManualTime, TimeSource};
use allotment::memory::reports::LeakHandler;
use allotment::memory::{RawBuffer, RawImage};
use allotment::{Allocation, Allocator, AllocatorDesc, MemoryUsage};
use allotment_trace::{Op, Resource, ResourceKind as Recorded, Trace};

use crate::fixture::{Fixture, Outcome, Test, tests};
use crate::gpu::Gpu;

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        a_race_is_decided_as_on_the_simulated_device,
        a_vision_training_is_decided_as_on_the_simulated_device,
        a_language_training_is_decided_as_on_the_simulated_device,
        an_inference_is_decided_as_on_the_simulated_device,
        every_recorded_trace_is_decided_above,
    ]
}

const TRACES: [&str; 4] = ["fasterrcnn-infer", "gpt2-train", "resnet50-train", "supertuxkart-race"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../traces")
}

fn every_recorded_trace_is_decided_above<F: Fixture>(_: &Gpu<F>) {
    let names = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    let mut traces: Vec<_> =
        names.filter_map(|name| Some(name.strip_suffix(".csv.gz")?.to_owned())).collect();
    traces.sort();
    assert_eq!(traces, TRACES);
}

fn a_race_is_decided_as_on_the_simulated_device<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    decided_alike(gpu, TRACES[3])
}

fn a_vision_training_is_decided_as_on_the_simulated_device<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    decided_alike(gpu, TRACES[2])
}

fn a_language_training_is_decided_as_on_the_simulated_device<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    decided_alike(gpu, TRACES[1])
}

fn an_inference_is_decided_as_on_the_simulated_device<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    decided_alike(gpu, TRACES[0])
}

/// A recorded resource on the device of the test.
enum Made<D: Device> {
    Buffer(RawBuffer<D>),
    Image(RawImage<D>),
}

impl<D: Device> Made<D> {
    fn allocation(&self) -> &Allocation {
        match self {
            Self::Buffer(buffer) => buffer.allocation(),
            Self::Image(image) => image.allocation(),
        }
    }
}

/// The decision for a request.
#[derive(Debug, PartialEq, Eq)]
struct Decision {
    memory_type: MemoryTypeIndex,
    block: u32,
    block_size: u64,
    offset: u64,
    occupied: u64,
    dedicated: bool,
}

impl Decision {
    fn of<D: Device>(allocator: &Allocator<D>, allocation: &Allocation) -> Self {
        let place = allocator.location(allocation).unwrap();
        let info = allocator.info(allocation).unwrap();
        Self {
            memory_type: place.memory_type,
            block: info.block,
            block_size: info.block_size,
            offset: place.offset,
            occupied: info.occupied,
            dedicated: info.dedicated,
        }
    }
}

fn allocator<D: Device>(device: D) -> Allocator<D> {
    let mut desc = AllocatorDesc::default();
    desc.on_leak = LeakHandler::Ignore;
    // Two replays decide the same, however fast each is.
    desc.time = TimeSource::Manual(ManualTime::new());
    Allocator::new(device, desc).unwrap()
}

/// Returns the memory usage of a recorded buffer by Vulkan's usage flags: a buffer that is only copied from uploads, a
/// buffer that is only copied to reads back, and the CPU has no other way into one that is not copied to.
fn memory_usage(resource: &Resource) -> MemoryUsage {
    const COPIED_FROM: u32 = 1;
    const COPIED_TO: u32 = 2;
    match resource.kind() {
        Recorded::Buffer { usage: Some(COPIED_FROM) } => MemoryUsage::Upload,
        Recorded::Buffer { usage: Some(COPIED_TO) } => MemoryUsage::Readback,
        Recorded::Buffer { usage: Some(usage) } if usage & COPIED_TO == 0 => MemoryUsage::DeviceUpload,
        _ => MemoryUsage::GpuOnly,
    }
}

/// A recorded image as the device can have it; `None` for what it would be a buffer instead.
fn image<F: Fixture>(gpu: &Gpu<F>, resource: &Resource) -> Option<(ImageDesc, Requirements)> {
    let shape = resource.image_shape()?;
    let mut desc = ImageDesc::new(shape.extent[0], shape.extent[1], gpu.fixture().image_format());
    (desc.extent, desc.mip_levels, desc.array_layers) = (shape.extent, shape.mip_levels, shape.array_layers);
    let requirements = gpu.device().image_requirements(&desc.into()).ok()?;
    Some((desc, requirements))
}

fn decided_alike<F: Fixture>(gpu: &Gpu<F>, name: &str) -> Outcome {
    let trace = Trace::open(folder().join(format!("{name}.csv.gz"))).unwrap();
    let largest = gpu.properties().heaps.iter().map(|heap| heap.size).max().unwrap();
    if trace.peak_live_bytes() > largest {
        return Outcome::DoesNotApply("no heap is as large as what the recorded program used");
    }
    let needs = |resource| {
        image(gpu, resource)
            .map_or_else(|| gpu.requirements(resource.size()), |(_, requirements)| requirements)
    };
    if trace.resources().iter().any(|resource| needs(resource).dedicated != DedicatedNeed::None) {
        // The simulated device has no such wishes.
        return Outcome::DoesNotApply("the driver prefers dedicated memory for some of the resources");
    }
    let simulated = SimulatedGpu::new(Profile::of(gpu.properties()));
    for heap in (0..).map(MemoryHeapIndex).take(gpu.properties().heaps.len()) {
        simulated.set_budget(heap, gpu.device().heap_budget(heap).budget);
    }
    let real = allocator(gpu.device().clone());
    let simulated = allocator(simulated);
    let mut live: Vec<_> = trace.resources().iter().map(|_| None).collect();
    for event in trace.events() {
        match event.op {
            Op::Allocate(index) => {
                let resource = trace.resource(index);
                let options = memory_usage(resource).into();
                let (made, requirements) = match image(gpu, resource) {
                    Some((desc, requirements)) => {
                        (real.create_image(&desc.into(), &options).map(Made::Image), requirements)
                    }
                    None => {
                        let desc = BufferDesc::new(resource.size()).into();
                        let requirements = gpu.device().new_buffer_requirements(&desc).unwrap();
                        (real.create_buffer(&desc, &options).map(Made::Buffer), requirements)
                    }
                };
                let made = made.unwrap();
                let memory = simulated.allocate(&requirements, &options).unwrap();
                let decisions = (Decision::of(&real, made.allocation()), Decision::of(&simulated, &memory));
                assert_eq!(decisions.0, decisions.1, "{name}, line {}", event.line);
                live[index.as_usize()] = Some((made, memory));
            }
            Op::Free(index) => {
                if let Some((made, memory)) = live[index.as_usize()].take() {
                    give_back(&real, made);
                    simulated.free(memory).unwrap();
                }
            }
            Op::FrameEnd => {
                real.end_frame();
                simulated.end_frame();
            }
        }
    }
    let (left, right) = (real.statistics(), simulated.statistics());
    assert_eq!(left, right, "{name}, in the end");
    assert_eq!(real.reports().device_calls().memory(), simulated.reports().device_calls().memory(), "{name}");
    for (made, memory) in live.into_iter().flatten() {
        give_back(&real, made);
        simulated.free(memory).unwrap();
    }
    Outcome::Ran
}

fn give_back<D: Device>(allocator: &Allocator<D>, made: Made<D>) {
    let known = match made {
        Made::Buffer(buffer) => allocator.destroy_buffer(buffer).is_ok(),
        Made::Image(image) => allocator.destroy_image(image).is_ok(),
    };
    assert!(known);
}
