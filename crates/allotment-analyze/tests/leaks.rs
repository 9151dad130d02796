//! Leaks of a program, as a recording of it has them.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use allotment::device::BufferDesc;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::{Gpu, GpuDesc, MemoryUsage};
use allotment_analyze::{Cursor, Grouping, Leaks, Timeline};
use allotment_trace::Collector;

#[test]
fn what_the_library_has_for_itself_is_told_apart_from_what_the_program_leaks() {
    let gpu = Gpu::new(SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap()), GpuDesc::default());
    let gpu = gpu.unwrap();
    let collector = Collector::new(&gpu).unwrap();
    let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh")).unwrap();
    // Through the library's own memory.
    gpu.uploads().write_buffer(&mesh, 0, &[1; 4096]).unwrap();
    gpu.begin_frame().unwrap().end().unwrap();
    let recording = collector.into_recording();
    let timeline = Timeline::new(&recording);
    let leaks = Leaks::at(&Cursor::at(&timeline, timeline.end()), Grouping::Name);
    assert_eq!((leaks.count, &*leaks.groups[0].key), (1, "mesh"));
    assert_eq!(leaks.library_count, gpu.allocator().statistics().allocations as u64 - 1);
    assert!(leaks.library_bytes >= 4096 && leaks.library_count > 0);
}
