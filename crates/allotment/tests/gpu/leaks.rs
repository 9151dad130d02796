//! What a program forgets of its `Gpu`: named when the last one is dropped, and by the device when it is asked.

use core::mem::forget;
use std::sync::{Arc, Mutex};

use allotment::descriptor::{Binding, BindingSet};
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{
    BufferDesc, BufferUse, BufferViewDesc, DescriptorHeapType, Filter, ImageDesc, ImageViewDesc, SamplerDesc,
    TexelBufferDesc, TexelBufferUse,
};
use allotment::memory::names::Name;
use allotment::memory::reports::{CallSites, LeakHandler, LeakMoment, LeakReport};
use allotment::{AllocatorDesc, Gpu, GpuDesc, MemoryUsage};

type Reports = Arc<Mutex<Vec<LeakReport>>>;

fn device() -> SimulatedGpu {
    SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap())
}

/// A `Gpu` that writes down what it reports.
fn watched(device: &SimulatedGpu, call_sites: CallSites) -> (Gpu<SimulatedGpu>, Reports) {
    let reports = Reports::default();
    let kept = Arc::clone(&reports);
    let mut desc = AllocatorDesc::default();
    desc.call_sites = call_sites;
    desc.on_leak = LeakHandler::Call(Arc::new(move |report| kept.lock().unwrap().push(report.clone())));
    (Gpu::new(device.clone(), GpuDesc::default().with_allocator(desc)).unwrap(), reports)
}

fn names(report: &LeakReport) -> Vec<&str> {
    let mut names: Vec<_> =
        report.leaks.iter().map(|leak| leak.name.as_ref().map_or("", Name::as_str)).collect();
    names.sort_unstable();
    names
}

#[test]
fn what_is_alive_when_the_last_gpu_is_dropped_is_named_with_its_call_site() {
    let device = device();
    let (gpu, reports) = watched(&device, CallSites::Location);
    let options = |name| MemoryUsage::GpuOnly.with_name(name);
    let pinned = gpu.create_buffer(&BufferDesc::new(4096), &options("pinned")).unwrap();
    let moves = options("relocatable").relocatable();
    let line = line!() + 1;
    let relocatable = gpu.create_buffer(&BufferDesc::new(4096), &moves).unwrap();
    let image = gpu.create_image(&ImageDesc::new(16, 16, 4), &options("image")).unwrap();
    let mapped = MemoryUsage::Upload.with_name("mapped");
    let mapped = gpu.create_mapped_buffer(&BufferDesc::new(4096), &mapped).unwrap();
    // What the `Gpu` has for itself, and what waits for the GPU, is no leak.
    gpu.begin_frame().unwrap().upload([1; 64]).unwrap();
    let recording = gpu.record("may use what is dropped next");
    drop(gpu.create_buffer(&BufferDesc::new(4096), &options("dropped")).unwrap());
    drop(gpu.descriptors().unwrap().samplers().get(&Default::default()).unwrap());
    let other = gpu.clone();
    drop(gpu);
    assert!(reports.lock().unwrap().is_empty(), "it is not the last");
    forget(Arc::new(pinned));
    drop(other);
    {
        let reports = reports.lock().unwrap();
        let [report] = &reports[..] else { panic!("{reports:?}") };
        assert_eq!(report.moment, LeakMoment::LastGpuDropped);
        assert_eq!(names(report), ["image", "mapped", "pinned", "relocatable"]);
        assert!(report.descriptors.is_empty(), "{report}");
        let text = report.to_string();
        assert!(text.contains("4 allocations") && text.contains("last `Gpu`"), "{text}");
        assert!(text.contains(&format!("{}:{line}:", file!())), "{text}");
    }
    drop((relocatable, image, mapped, recording));
    let left = LeakReport::of_device(&device);
    assert_eq!((left.moment, names(&left)), (LeakMoment::Asked, vec!["pinned"]));
}

#[test]
fn a_gpu_that_leaves_nothing_reports_nothing() {
    let device = device();
    for call_sites in [CallSites::None, CallSites::Location] {
        let (gpu, reports) = watched(&device, call_sites);
        let options = MemoryUsage::GpuOnly.with_name("numbers").relocatable();
        let buffer = Arc::new(gpu.create_buffer(&BufferDesc::new(4096), &options).unwrap());
        let descriptors = gpu.descriptors().unwrap();
        let bindings = [Binding::mutable("of a set"), Binding::dynamic("of a draw")];
        let mut set = BindingSet::new(&descriptors.binding_layout(&bindings).unwrap()).unwrap();
        set.bind_buffer(0, 0, &buffer, 0..256, BufferUse::ReadOnly).unwrap();
        let slot = descriptors.resources().insert_buffer(&buffer, 0..256, BufferUse::ReadOnly);
        descriptors.resources().remove(slot.unwrap()).unwrap();
        let range = descriptors.resources().allocate(4).unwrap();
        let targets = descriptors.cpu_heap(DescriptorHeapType::RenderTarget);
        for count in [1, 3] {
            let views = targets.allocate(count).unwrap();
            targets.free(views).unwrap();
            let views = targets.allocate(count).unwrap();
            targets.retire(views).unwrap();
            drop(targets.allocate(count).unwrap());
        }
        let sampler = descriptors.samplers().get(&Default::default()).unwrap();
        drop((set, range, sampler, buffer));
        assert!(LeakReport::of_device(&device).descriptors.is_empty());
        drop(gpu);
        assert!(reports.lock().unwrap().is_empty(), "{:?}", reports.lock().unwrap());
    }
}

/// The descriptors of each heap in a report.
fn counts(report: &LeakReport) -> Vec<(&'static str, u32)> {
    let mut counts: Vec<(&str, u32)> = Vec::new();
    for leak in &report.descriptors {
        match counts.iter_mut().find(|(heap, _)| *heap == leak.heap) {
            Some((_, count)) => *count += leak.count,
            None => counts.push((leak.heap, leak.count)),
        }
    }
    counts.sort_unstable();
    counts
}

#[test]
fn as_many_descriptors_are_reported_with_call_sites_as_without() {
    for call_sites in [CallSites::None, CallSites::Location] {
        let device = device();
        let (gpu, reports) = watched(&device, call_sites);
        let descriptors = gpu.descriptors().unwrap();
        let bindings = [Binding::mutable("of a set").array(2), Binding::dynamic("of a draw").array(3)];
        let set = BindingSet::new(&descriptors.binding_layout(&bindings).unwrap()).unwrap();
        let targets = descriptors.cpu_heap(DescriptorHeapType::RenderTarget);
        let views = [targets.allocate(1).unwrap(), targets.allocate(3).unwrap()];
        targets.free(targets.allocate(1).unwrap()).unwrap();
        targets.retire(targets.allocate(1).unwrap()).unwrap();
        let samplers = descriptors.samplers();
        let plain = samplers.get(&Default::default()).unwrap();
        let users = [plain.clone(), samplers.get(&Default::default()).unwrap()];
        let nearest = SamplerDesc { mag_filter: Filter::Nearest, ..SamplerDesc::default() };
        let other = samplers.get(&nearest).unwrap();
        let expected = [
            ("CPU descriptors for render targets", 1 + 3),
            ("CPU descriptors for resources", 3),
            ("samplers of a sampler cache", 2),
            ("shader-visible resource descriptors (ranges and binding sets)", 2),
        ];
        assert_eq!(counts(&LeakReport::of_device(&device)), expected, "{call_sites:?}");
        drop(other);
        forget((set, users, views));
        drop((plain, gpu));
        let reports = reports.lock().unwrap();
        let [report] = &reports[..] else { panic!("{reports:?}") };
        let expected =
            expected.map(|(heap, count)| (heap, if heap.contains("samplers") { 1 } else { count }));
        assert_eq!(counts(report), expected, "{call_sites:?}");
        let sites = report.descriptors.iter().filter_map(|leak| leak.call_site.as_ref());
        let own = sites.filter(|site| site.location().file() == file!()).count();
        assert_eq!(own, if call_sites == CallSites::None { 0 } else { report.descriptors.len() });
    }
}

#[test]
fn descriptors_that_are_not_given_back_are_named_with_their_call_sites() {
    let device = device();
    let (gpu, reports) = watched(&device, CallSites::Location);
    let options = MemoryUsage::GpuOnly.with_name("numbers");
    let buffer = Arc::new(gpu.create_buffer(&BufferDesc::new(4096), &options).unwrap());
    let descriptors = gpu.descriptors().unwrap();
    let set = BindingSet::new(&descriptors.binding_layout(&[Binding::mutable("a")]).unwrap()).unwrap();
    let first = line!();
    descriptors.resources().insert_buffer(&buffer, 0..256, BufferUse::ReadOnly).unwrap();
    let range = descriptors.resources().allocate(4).unwrap();
    let targets = descriptors.cpu_heap(DescriptorHeapType::RenderTarget);
    let views = [targets.allocate(1).unwrap(), targets.allocate(3).unwrap()];
    let seen = MemoryUsage::GpuOnly.with_name("seen");
    let image = Arc::new(gpu.create_image(&ImageDesc::new(16, 16, 4), &seen).unwrap());
    let target = gpu.create_image_view(&image, &ImageViewDesc::depth_stencil()).unwrap();
    let seen = BufferViewDesc::new(0..256, BufferUse::Constants);
    let constants = gpu.create_buffer_view(&buffer, &seen).unwrap();
    let texels = TexelBufferDesc::new(0..256, 16, TexelBufferUse::Uniform);
    let texels = gpu.create_texel_buffer_view(&buffer, &texels).unwrap();
    let last = line!();
    let live = LeakReport::of_device(&device);
    assert_eq!(
        live.descriptors.iter().map(|leak| leak.count).sum::<u32>(),
        1 + 1 + 4 + 1 + 3 + 1 + 2,
        "{live}"
    );
    forget((set, range, views, target, constants, texels));
    drop((buffer, image, gpu));
    let reports = reports.lock().unwrap();
    let [report] = &reports[..] else { panic!("{reports:?}") };
    assert_eq!(report.moment, LeakMoment::LastGpuDropped);
    let count = |heap: &str| {
        let of_heap = report.descriptors.iter().filter(|leak| leak.heap.contains(heap));
        of_heap.map(|leak| leak.count).sum::<u32>()
    };
    assert_eq!(count("shader-visible resource descriptors (slots)"), 1, "{report}");
    assert_eq!(count("ranges and binding sets"), 1 + 4, "{report}");
    assert_eq!(count("render targets"), 1 + 3, "{report}");
    assert_eq!(count("depth and stencil"), 1, "{report}");
    assert_eq!(count("CPU descriptors for resources"), 2, "{report}");
    // The forgotten views keep them.
    assert!(names(report).contains(&"seen") && names(report).contains(&"numbers"), "{report}");
    for leak in &report.descriptors {
        let location = leak.call_site.as_ref().unwrap().location();
        assert_eq!(location.file(), file!());
        assert!((first - 3..last).contains(&location.line()), "{leak}");
    }
}
