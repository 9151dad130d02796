//! The recording of a program whose allocations are scattered over its blocks, and which lets the library move them.

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::memory::blocks::{BlockSizes, EmptyBlockPolicy};
use allotment::memory::reports::{CallSites, LeakHandler};
use allotment::memory::{AllocatorDesc, Movability};
use allotment::{AllocationOptions, Allocator, MemoryUsage, Requirements};
use allotment_trace::Collector;
use allotment_trace::recording::{Event, Recording};

const KIB: u64 = 1 << 10;

/// Records a program that makes some meshes of different sizes in blocks of a size, and keeps one in so many. The
/// smallest mesh is a part of a block.
pub(crate) fn scattered(meshes: u64, block: u64, part: u64, kept: u64) -> Recording {
    let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    let mut desc = AllocatorDesc::default();
    (desc.block_sizes, desc.empty_blocks) = (BlockSizes::fixed(block), EmptyBlockPolicy::NONE);
    // A call site is an event. Builds of all profiles have the same number of events.
    (desc.on_leak, desc.call_sites) = (LeakHandler::Ignore, CallSites::Location);
    let allocator = Allocator::new(device, desc).unwrap();
    let collector = Collector::new(&allocator).unwrap();
    let mut live = Vec::new();
    for number in 0..meshes {
        let options = AllocationOptions::new(MemoryUsage::GpuOnly)
            .with_name(format!("mesh {number}"))
            .with_movability(Movability::Copied);
        let size = (block / part) * (1 + number % 7) + number % 5 * KIB;
        live.push(allocator.allocate(&Requirements::new(size), &options).unwrap());
        if number % 8 == 0 {
            allocator.end_frame();
        }
    }
    for (number, mesh) in (0..).zip(live) {
        if number % kept != 0 {
            allocator.free(mesh).unwrap();
        }
        if number % 8 == 0 {
            allocator.end_frame();
        }
    }
    let mut recording = collector.into_recording();
    // What the clock of this machine says is different each time.
    recording.events.retain(|event| !matches!(event, Event::Time { .. } | Event::Stalled { .. }));
    recording
}

/// Five blocks with some meshes in each.
pub(crate) fn town() -> Recording {
    scattered(80, 16 << 20, 64, 3)
}
