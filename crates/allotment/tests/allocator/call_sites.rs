//! Where allocations were made, in leak reports and in the information about an allocation.

use std::sync::Arc;

use allotment::device::simulated::SimulatedGpu;
use allotment::device::{BufferDesc, ImageDesc};
use allotment::gpu::{Gpu, GpuDesc};
use allotment::lifetime::{DeletionQueue, SubmissionTracker};
use allotment::memory::defragmentation::{Defragmenter, DefragmenterDesc};
use allotment::memory::reports::{CallSites, LeakHandler};
use allotment::memory::{MappedBuffer, OwningAllocator};
use allotment::{Allocator, AllocatorDesc, MemoryUsage, Requirements};

use crate::rig::{DISCRETE, profile};

fn desc(call_sites: CallSites) -> AllocatorDesc {
    let mut desc = AllocatorDesc::default();
    (desc.call_sites, desc.on_leak) = (call_sites, LeakHandler::Ignore);
    desc
}

fn allocator(call_sites: CallSites) -> Arc<Allocator<SimulatedGpu>> {
    Arc::new(Allocator::new(SimulatedGpu::new(profile(DISCRETE)), desc(call_sites)).unwrap())
}

/// The lines of this file at which what is live was made.
fn lines(allocator: &Allocator<SimulatedGpu>) -> Vec<u32> {
    let leaks = allocator.reports().leaks();
    let call_sites = leaks.iter().map(|leak| leak.call_site.as_ref().expect("a call site is stored"));
    let mut lines: Vec<_> = call_sites
        .map(|call_site| {
            let location = call_site.location();
            assert!(location.file().ends_with("call_sites.rs"), "{call_site}");
            location.line()
        })
        .collect();
    lines.sort_unstable();
    lines
}

#[test]
fn every_call_that_allocates_stores_the_line_that_called_it() {
    let allocator = allocator(CallSites::Location);
    let tracker = SubmissionTracker::new(allocator.device().clone()).unwrap();
    let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker)).unwrap();
    let defragmenter = Defragmenter::new(&memory, DefragmenterDesc::default()).unwrap();
    let (size, options) = (Requirements::new(256), &MemoryUsage::Upload.into());
    let (buffer, image) = (&BufferDesc::new(256), &ImageDesc::new(16, 16, 4));
    let of_api = &();
    let first = line!() + 1;
    let tokens = (
        allocator.allocate(&size, options).unwrap(),
        allocator.allocate_many(&size, options, 1).unwrap(),
        allocator.with_memory_options(of_api).allocate(&size, options).unwrap(),
        allocator.create_buffer(buffer, options).unwrap(),
        allocator.create_image(image, options).unwrap(),
        allocator.with_memory_options(of_api).create_buffer(buffer, options).unwrap(),
        allocator.with_memory_options(of_api).create_image(image, options).unwrap(),
        MappedBuffer::new(&allocator, buffer, options).unwrap(),
        memory.allocate(&size, options).unwrap(),
        memory.create_buffer(buffer, options).unwrap(),
        memory.create_image(image, options).unwrap(),
        defragmenter.create_buffer(buffer, options).unwrap(),
        defragmenter.create_image(image, options).unwrap(),
    );
    assert_eq!(lines(&allocator), (first + 1..first + 14).collect::<Vec<_>>());
    let info = allocator.info(&tokens.0).unwrap();
    assert_eq!(info.call_site.unwrap().location().line(), first + 1);
}

#[test]
fn a_gpu_stores_the_line_that_called_it() {
    let device = SimulatedGpu::new(profile(DISCRETE));
    let gpu = Gpu::new(device, GpuDesc::default().with_allocator(desc(CallSites::Location))).unwrap();
    let options = MemoryUsage::GpuOnly.with_name("mesh");
    let line = line!();
    let pinned = gpu.create_buffer(&BufferDesc::new(256), &options).unwrap();
    let moving = gpu.create_buffer(&BufferDesc::new(256), &options.clone().relocatable()).unwrap();
    let image = gpu.create_image(&ImageDesc::new(16, 16, 4), &options).unwrap();
    let moving_image = gpu.create_image(&ImageDesc::new(16, 16, 4), &options.relocatable()).unwrap();
    assert_eq!(lines(gpu.allocator()), (line + 1..line + 5).collect::<Vec<_>>());
    assert_eq!(pinned.info().call_site.unwrap().location().line(), line + 1);
    drop((pinned, moving, image, moving_image));
}

#[test]
fn a_leak_is_reported_with_its_line_and_on_request_with_the_calls_before_it() {
    for call_sites in [CallSites::None, CallSites::Location, CallSites::Backtrace] {
        let allocator = allocator(call_sites);
        let (size, options) = (Requirements::new(64), MemoryUsage::GpuOnly.with_name("lost"));
        let line = line!() + 1;
        let lost = allocator.allocate(&size, &options).unwrap();
        let leak = &allocator.reports().leaks()[0];
        let shown = format!("allocated at {}:{line}:", file!());
        assert_eq!(leak.to_string().contains(&shown), call_sites != CallSites::None, "{leak}");
        let mut report = allotment::memory::reports::LeakReport::default();
        report.leaks.push(leak.clone());
        let report = report.to_string();
        let caller = "a_leak_is_reported_with_its_line_and_on_request_with_the_calls_before_it";
        assert_eq!(report.contains(caller), call_sites == CallSites::Backtrace, "{report}");
        drop(lost);
    }
}

#[test]
fn memory_that_is_reused_has_the_call_site_of_its_new_use() {
    let allocator = allocator(CallSites::Location);
    let (size, options) = (Requirements::new(64), MemoryUsage::GpuOnly.into());
    for _ in 0..3 {
        let first = allocator.allocate(&size, &options).unwrap();
        assert_eq!(lines(&allocator), [line!() - 1]);
        allocator.free(first).unwrap();
        let second = allocator.allocate(&size, &options).unwrap();
        assert_eq!(lines(&allocator), [line!() - 1]);
        allocator.free(second).unwrap();
    }
}
