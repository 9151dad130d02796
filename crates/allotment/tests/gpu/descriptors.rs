//! Descriptor heaps that are created on first use, and transient descriptors of frames.

use allotment::descriptor::{Binding, BindingSet, DescriptorError, ShaderVisibleHeapDesc};
use allotment::device::simulated::{Profile, SimulatedGpu, SimulatedRead};
use allotment::device::{BufferUse, DescriptorDevice as _, DescriptorHeapType, SamplerDesc};
use allotment::gpu::{Gpu, GpuDesc};
use allotment::memory::Buffer;

use crate::rig::{QUEUE, Rig};

#[test]
fn static_samplers_are_all_made_or_none_and_wait_for_the_gpu() {
    let rig = Rig::new();
    let samplers = rig.gpu.create_static_samplers(&[SamplerDesc::default(); 3]).unwrap();
    assert_eq!(&samplers[..], [SamplerDesc::default(); 3]);
    let recording = rig.gpu.record("uses them");
    drop(samplers);
    rig.gpu.reclaim();
    assert_eq!(rig.gpu.deletion_queue().statistics().pending, 1);
    drop(recording);
    rig.gpu.reclaim();
    assert_eq!(rig.gpu.deletion_queue().statistics().pending, 0);
    let wrong = SamplerDesc { max_anisotropy: 17, ..SamplerDesc::default() };
    let refused = rig.gpu.create_static_samplers(&[SamplerDesc::default(), wrong]).unwrap_err();
    assert!(matches!(refused, DescriptorError::InvalidSampler(_)), "{refused}");
    let refused = rig.gpu.create_static_samplers(&[SamplerDesc::default(); 17]).unwrap_err();
    assert!(refused.to_string().contains("17 static samplers exceed"), "{refused}");
    rig.finish();
}

#[test]
fn descriptor_heaps_are_created_on_first_use() {
    let rig = Rig::new();
    assert_eq!(rig.device.usage().descriptor_heaps, 0);
    rig.gpu.begin_frame().unwrap().end().unwrap();
    assert_eq!(rig.device.usage().descriptor_heaps, 0);
    let descriptors = rig.gpu.descriptors().unwrap();
    assert!(rig.device.usage().descriptor_heaps >= 2);
    for kind in DescriptorHeapType::ALL {
        assert_eq!(descriptors.cpu_heap(kind).heap_type(), kind);
    }
    let sampler = descriptors.samplers().get(&SamplerDesc::default()).unwrap();
    let same = descriptors.samplers().get(&SamplerDesc::default()).unwrap();
    assert_eq!(sampler.index(), same.index());
    drop((sampler, same));
    rig.finish();
}

#[test]
fn the_default_descriptor_heaps_fit_every_device() {
    for profile in Profile::all() {
        let name = profile.name;
        let device = SimulatedGpu::new(profile);
        let limits = device.descriptor_limits();
        let gpu = Gpu::new(device, GpuDesc::default()).unwrap();
        let descriptors = gpu.descriptors().unwrap();
        let (resources, samplers) = (descriptors.resources(), descriptors.samplers().heap());
        assert!(resources.statistics().capacity <= limits.resources.max_capacity, "{name}");
        assert!(samplers.statistics().capacity <= limits.samplers.max_capacity, "{name}");
    }
}

#[test]
fn heaps_that_the_program_described_are_not_made_smaller() {
    let phone = SimulatedGpu::new(Profile::named("mobile").unwrap());
    let heap = ShaderVisibleHeapDesc::resources();
    let gpu = Gpu::new(phone, GpuDesc::default().with_resource_descriptors(heap)).unwrap();
    let refused = gpu.descriptors().unwrap_err();
    assert!(matches!(refused, DescriptorError::OverLimit { limit: 131_072, .. }), "{refused}");
}

#[test]
fn a_layout_of_binding_sets_is_over_the_heaps_of_the_gpu() {
    let rig = Rig::new();
    let descriptors = rig.gpu.descriptors().unwrap();
    let layout = descriptors.binding_layout(&[Binding::mutable("a"), Binding::mutable("b")]).unwrap();
    let used = || descriptors.resources().statistics().tables.used;
    assert_eq!(used(), 0);
    let set = BindingSet::new(&layout).unwrap();
    assert_eq!(used(), 2);
    drop((set, layout));
    rig.gpu.reclaim();
    assert_eq!(used(), 0);
    rig.finish();
}

#[test]
fn work_reads_through_the_descriptors_of_its_frame() {
    let rig = Rig::new();
    let (numbers, found) = (rig.buffer(256), rig.buffer(256));
    rig.gpu.uploads().write_buffer(&numbers, 0, &7_u32.to_le_bytes()).unwrap();
    let read = |numbers: &Buffer<_>| {
        let frame = rig.gpu.begin_frame().unwrap();
        let mut transient = frame.transient_descriptors().unwrap();
        let mut table = transient.allocate(1).unwrap();
        let handle = numbers.handle();
        // SAFETY: the buffer is alive until the frame's submissions have completed.
        let descriptor = unsafe { rig.device.buffer_descriptor(&handle, 0..4, BufferUse::ReadOnly) };
        table.write(0, &descriptor).unwrap();
        let index = table.place().first;
        let indices = frame.upload(index.to_le_bytes()).unwrap();
        let heap = transient.heap();
        frame
            .submit(QUEUE, |queue, waits| {
                let read = SimulatedRead {
                    heap,
                    indices: &indices.buffer,
                    indices_offset: indices.offset,
                    count: 1,
                    to: &found.handle(),
                    to_offset: 0,
                };
                // SAFETY: all of it is alive until the frame's submissions have completed.
                unsafe { rig.device.submit_reads(queue, waits, &[read]) }
            })
            .unwrap();
        drop(transient);
        frame.end().unwrap();
        let mut bytes = [0; 4];
        rig.gpu.read_buffer(&found, 0, &mut bytes).unwrap();
        u32::from_le_bytes(bytes)
    };
    for _ in 0..100 {
        assert_eq!(read(&numbers), 7);
    }
    drop((numbers, found));
    rig.finish();
}
