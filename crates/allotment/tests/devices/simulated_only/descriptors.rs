//! Descriptors of the simulated device: looked at when work runs, and what it says of their misuse.

use allotment::device::simulated::{
    Profile, SimulatedDescriptor, SimulatedDescriptorHeap, SimulatedGpu, SimulatedImageUse, SimulatedRead,
    SimulatedSample, SimulatedSampleList, SimulatedSampler,
};
use allotment::device::{
    AddressMode, BorderColor, BufferDesc, BufferDevice as _, BufferUse, Compare, DescriptionError,
    DescriptionLimit, DescriptorDevice, DescriptorHeapDesc, DescriptorHeapType, DescriptorHeapVisibility,
    DeviceError, ImageDesc, ImageDevice as _, ImageViewDimension, MemoryDesc, MemoryDevice as _,
    MemoryTypeIndex, QueueDevice as _, SamplerDesc, ShaderVisibleHeapType, TimelinePoint, TimelineValue,
};

use crate::fixture::{Outcome, Test};
use crate::gpu::Gpu;
use crate::kinds::simulated::SimulatedFixture;
use crate::suite::descriptor_rig::{FIRST, RESOURCES, Rig as AnyRig, STAGING};

type Rig<'g> = AnyRig<'g, SimulatedFixture>;
type Simulated = Gpu<SimulatedFixture>;

macro_rules! tests {
    ($($name:ident,)*) => {
        vec![$((stringify!($name), (|gpu| AnyRig::run(gpu, $name)) as fn(&Simulated) -> Outcome),)*]
    };
}

pub(super) fn all() -> Vec<Test<SimulatedFixture>> {
    tests![
        descriptors_are_looked_at_when_work_runs,
        a_slot_that_is_written_too_early_shows_as_wrong_numbers,
        indices_are_taken_when_work_runs,
        reads_wait_for_points_of_other_queues,
        poison_and_what_was_never_written_are_complaints_when_they_are_read,
        what_was_destroyed_or_freed_is_a_complaint_when_it_is_read,
        samplers_are_told_apart_by_work,
        a_descriptor_of_the_wrong_kind_is_a_complaint,
        slots_beyond_the_heap_are_complaints,
        copies_that_nothing_can_make_are_complaints,
        a_range_that_shaders_cannot_use_is_a_complaint,
        a_heap_that_is_destroyed_while_work_reads_it_is_a_complaint,
        a_heap_that_was_destroyed_is_a_complaint_wherever_it_is_used,
        reads_that_nothing_can_make_are_refused,
        a_texture_that_cannot_be_sampled_is_a_complaint,
        samples_that_nothing_can_make_are_refused,
        a_list_of_samples_that_nothing_can_make_is_refused_or_a_complaint,
        a_profile_may_have_smaller_limits,
        whichever_call_fails_no_heap_or_sampler_is_left_behind,
        a_lost_device_reads_nothing_and_lets_everything_go,
    ]
}

/// On a profile whose driver keeps descriptors for itself.
pub(super) fn about_what_the_driver_keeps() -> Vec<Test<SimulatedFixture>> {
    tests![descriptors_of_the_driver_are_not_touched,]
}

const MISSING: u32 = SimulatedGpu::NOT_READ;
const SAMPLERS: DescriptorHeapVisibility =
    DescriptorHeapVisibility::ShaderVisible(ShaderVisibleHeapType::Sampler);

fn descriptors_are_looked_at_when_work_runs(rig: &Rig<'_>) {
    let (heap, cells) = (rig.heap(RESOURCES, 2), rig.cells(10, 2));
    rig.device().pause_queues();
    let reading = rig.submit(&[], &[(&heap, &[0, 1])]);
    // They were not even written when it was submitted.
    heap.write(0, &cells.descriptor(1));
    heap.write(1, &cells.descriptor(0));
    rig.device().resume_queues();
    assert_eq!(reading.results(), [[11, 10]]);
}

fn a_slot_that_is_written_too_early_shows_as_wrong_numbers(rig: &Rig<'_>) {
    let (staging, heap, cells) = (rig.heap(STAGING, 1), rig.heap(RESOURCES, 3), rig.cells(10, 3));
    for at in 0..3 {
        heap.write(at, &cells.descriptor(at));
    }
    staging.write(0, &cells.descriptor(0));
    rig.device().pause_queues();
    let readings = [(); 2].map(|()| rig.submit(&[], &[(&heap, &[0, 1, 2])]));
    staging.copy_to(0, &heap, 1, 1);
    rig.device().resume_queues();
    assert_eq!(readings.map(|reading| reading.results().remove(0)), [[10, 10, 12]; 2]);
}

fn indices_are_taken_when_work_runs(rig: &Rig<'_>) {
    let (heap, cells) = (rig.heap(RESOURCES, 3), rig.cells(10, 3));
    (0..3).for_each(|at| heap.write(at, &cells.descriptor(at)));
    let numbers = |numbers: [u32; 2]| numbers.map(u32::to_ne_bytes).concat();
    let (indices, to) = (rig.written(&numbers([0, 1])), rig.written(&numbers([7, 7])));
    let read = SimulatedRead {
        heap: heap.raw(),
        indices: &indices.handle(),
        indices_offset: 0,
        count: 2,
        to: &to.handle(),
        to_offset: 0,
    };
    rig.device().pause_queues();
    // SAFETY: the ranges lie in their buffers, which live until the wait is over.
    let value = unsafe { rig.device().submit_reads(FIRST, &[], &[read]) }.unwrap();
    indices.write(4, &2u32.to_ne_bytes()).unwrap();
    rig.device().resume_queues();
    rig.gpu.wait(rig.gpu.submitted(FIRST, value));
    let mut found = [0; 8];
    to.read(0, &mut found).unwrap();
    assert_eq!(found[..], numbers([10, 12])[..]);
}

fn reads_wait_for_points_of_other_queues(rig: &Rig<'_>) {
    let (heap, cells) = (rig.heap(RESOURCES, 1), rig.cells(10, 2));
    heap.write(0, &cells.descriptor(0));
    let other = rig.gpu.queues().last().unwrap();
    let gate = TimelinePoint { queue: other, value: TimelineValue(1) };
    let reading = rig.submit(&[gate], &[(&heap, &[0])]);
    heap.write(0, &cells.descriptor(1));
    assert_eq!(rig.gpu.submit(other, &[], &[]), gate);
    assert_eq!(reading.results(), [[11]], "it ran when the other queue had got there");
}

fn poison_and_what_was_never_written_are_complaints_when_they_are_read(rig: &Rig<'_>) {
    let fixture = rig.gpu.fixture();
    let (staging, heap, cells) = (rig.heap(STAGING, 4), rig.heap(RESOURCES, 8), rig.cells(10, 1));
    for at in [0, 2] {
        heap.write(at, &cells.descriptor(0));
    }
    heap.poison(2..3);
    assert_eq!(fixture.complaints_about("read: "), 0, "no work has read them");
    assert_eq!(rig.read(&heap, &[0, 2, 3]), [10, MISSING, MISSING]);
    assert_eq!(fixture.complaints_about("read: "), 2);
    // Poison is copied as anything else is.
    staging.poison(0..4);
    staging.copy_to(0, &heap, 0, 4);
    assert_eq!(rig.read(&heap, &[0, 2]), [MISSING; 2]);
    assert_eq!(fixture.complaints_about("read: "), 4);
    heap.write(2, &cells.descriptor(0));
    assert_eq!(rig.read(&heap, &[2]), [10]);
    assert_eq!(fixture.complaints_about("read: "), 4);
}

fn what_was_destroyed_or_freed_is_a_complaint_when_it_is_read(rig: &Rig<'_>) {
    let device = rig.device();
    let heap = rig.heap(RESOURCES, 2);
    for (count, freed) in [(2, false), (4, true)] {
        let memory = device.allocate_memory(&MemoryDesc::new(MemoryTypeIndex(0), 4096)).unwrap();
        let desc = ImageDesc::new(4, 4, 4);
        // SAFETY: live, and large enough.
        let buffer = unsafe { device.create_buffer(&BufferDesc::new(64), memory, 0) }.unwrap();
        // SAFETY: live, and large enough.
        let image = unsafe { device.create_image(&desc, memory, 1024) }.unwrap();
        heap.write(
            0,
            &SimulatedDescriptor::Buffer { buffer: &buffer, range: 0..64, usage: BufferUse::ReadOnly },
        );
        heap.write(1, &SimulatedDescriptor::Image { image: &image, usage: SimulatedImageUse::Sampled });
        assert_eq!(rig.gpu.fixture().complaints_about("read: "), count - 2);
        let read = |rig: &Rig<'_>| rig.read(&heap, &[0, 1]);
        if freed {
            // SAFETY: live; that descriptors name it is what the device shall say.
            unsafe { device.free_memory(memory) };
            assert_eq!(read(rig), [MISSING; 2]);
        }
        // SAFETY: from this device, and no queue uses it.
        unsafe { device.destroy_buffer(buffer) };
        // SAFETY: as above.
        unsafe { device.destroy_image(image) };
        if !freed {
            assert_eq!(read(rig), [MISSING; 2]);
            // SAFETY: live, and no queue uses it.
            unsafe { device.free_memory(memory) };
        }
        assert_eq!(rig.gpu.fixture().complaints_about("read: "), count);
    }
}

fn sampler(rig: &Rig<'_>, desc: &SamplerDesc) -> SimulatedSampler {
    rig.device().create_sampler(desc).unwrap()
}

fn destroy(rig: &Rig<'_>, sampler: SimulatedSampler) {
    // SAFETY: no work in flight reads through it.
    unsafe { rig.device().destroy_sampler(sampler) };
}

fn samplers_are_told_apart_by_work(rig: &Rig<'_>) {
    let descs: Vec<_> =
        (0..100).map(|i| SamplerDesc { min_lod: i as f32, ..SamplerDesc::default() }).collect();
    let mut samplers: Vec<_> = descs.iter().map(|desc| sampler(rig, desc)).collect();
    let staging = rig.heap(DescriptorHeapVisibility::CpuOnly(DescriptorHeapType::Sampler), 100);
    let heap = rig.heap(SAMPLERS, 101);
    for (at, sampler) in (0..).zip(&samplers) {
        // SAFETY: of this device, to which it is enough that it is live now.
        staging.write(at, &unsafe { rig.device().sampler_descriptor(sampler) });
    }
    staging.copy_to(0, &heap, 0, 100);
    heap.write_null(100..101);
    let all: Vec<_> = (0..101).collect();
    let mut expected: Vec<_> = descs.iter().map(SimulatedGpu::sampler_mark).collect();
    expected.push(SimulatedGpu::sampler_mark(&SamplerDesc::default()));
    assert_eq!(rig.read(&heap, &all), expected);
    assert_eq!(rig.device().usage().samplers, 100);

    destroy(rig, samplers.remove(7));
    expected[7] = MISSING;
    assert_eq!(rig.read(&heap, &all), expected, "a sampler that was destroyed");
    assert_eq!(rig.gpu.fixture().complaints_about("read: "), 1);
    samplers.into_iter().for_each(|sampler| destroy(rig, sampler));
}

fn a_descriptor_of_the_wrong_kind_is_a_complaint(rig: &Rig<'_>) {
    let about = |count| {
        assert_eq!(rig.gpu.fixture().complaints_about("write_descriptor: "), count);
    };
    let (cells, desc) = (rig.cells(10, 1), SamplerDesc::default());
    let sampler = sampler(rig, &desc);
    let resources = rig.heap(RESOURCES, 2);
    let samplers = rig.heap(SAMPLERS, 2);
    let targets = rig.heap(DescriptorHeapVisibility::CpuOnly(DescriptorHeapType::RenderTarget), 2);
    resources.write(0, &cells.descriptor(0));
    // SAFETY: the sampler and the heaps are of this device.
    let of_sampler = unsafe { rig.device().sampler_descriptor(&sampler) };
    samplers.write(0, &of_sampler);
    about(0);
    resources.write(0, &of_sampler);
    about(1);
    samplers.write(0, &cells.descriptor(0));
    about(2);
    targets.write(0, &cells.descriptor(0));
    about(3);
    assert_eq!(rig.read(&resources, &[0]), [10], "nothing was written");
    assert_eq!(rig.read(&samplers, &[0]), [SimulatedGpu::sampler_mark(&desc)]);
    destroy(rig, sampler);
}

fn slots_beyond_the_heap_are_complaints(rig: &Rig<'_>) {
    let (staging, heap, cells) = (rig.heap(STAGING, 4), rig.heap(RESOURCES, 4), rig.cells(10, 1));
    (0..4).for_each(|at| staging.write(at, &cells.descriptor(0)));
    let validation_errors = || rig.device().validation_errors().len();
    let wrong: [(&'static str, &dyn Fn()); 6] = [
        ("write_descriptor: ", &|| heap.write(4, &cells.descriptor(0))),
        ("write_null_descriptors: ", &|| heap.write_null(3..5)),
        ("poison_descriptors: ", &|| heap.poison(u32::MAX - 1..u32::MAX)),
        ("copy_descriptors: ", &|| staging.copy_to(1, &heap, 0, 4)),
        ("copy_descriptors: ", &|| staging.copy_to(0, &heap, 1, 4)),
        ("copy_descriptors: ", &|| staging.copy_to(u32::MAX, &heap, 0, 2)),
    ];
    for (i, (about, wrong)) in wrong.into_iter().enumerate() {
        rig.gpu.fixture().complaints_about(about);
        wrong();
        assert_eq!(validation_errors(), i + 1, "{about}");
    }
    assert_eq!(rig.read(&heap, &[0, 3, 4, u32::MAX]), [MISSING; 4], "nothing was written");
    assert_eq!(rig.gpu.fixture().complaints_about("read: "), 4);
}

fn copies_that_nothing_can_make_are_complaints(rig: &Rig<'_>) {
    let validation_errors = || rig.gpu.fixture().complaints_about("copy_descriptors: ");
    let (staging, heap, cells) = (rig.heap(STAGING, 8), rig.heap(RESOURCES, 8), rig.cells(10, 8));
    let samplers = rig.heap(DescriptorHeapVisibility::CpuOnly(DescriptorHeapType::Sampler), 8);
    samplers.write_null(0..8);
    for at in 0..8 {
        staging.write(at, &cells.descriptor(at));
        heap.write(at, &cells.descriptor(at));
    }
    heap.copy_to(0, &staging, 1, 1);
    assert_eq!(validation_errors(), 1, "out of a heap that the device reads");
    heap.copy_to(0, &heap, 1, 1);
    assert_eq!(validation_errors(), 2, "the same within one");
    samplers.copy_to(0, &staging, 0, 1);
    assert_eq!(validation_errors(), 3, "samplers among resources");
    staging.copy_to(0, &staging, 3, 4);
    staging.copy_to(4, &staging, 1, 4);
    assert_eq!(validation_errors(), 5, "onto themselves");
    staging.copy_to(0, &staging, 4, 4);
    assert_eq!(validation_errors(), 5, "beside themselves");
    staging.copy_to(0, &heap, 0, 8);
    assert_eq!(rig.read(&heap, &[0, 1, 2, 3, 4, 5, 6, 7]), [10, 11, 12, 13, 10, 11, 12, 13]);
}

fn a_range_that_shaders_cannot_use_is_a_complaint(rig: &Rig<'_>) {
    let (heap, buffer) = (rig.heap(RESOURCES, 1), rig.written(&[0; 1024]));
    let raw = BufferUse::ReadOnly;
    let write = |range, usage| {
        heap.write(0, &SimulatedDescriptor::Buffer { buffer: &buffer.handle(), range, usage });
        rig.gpu.fixture().complaints_about("write_descriptor: ")
    };
    assert_eq!(write(1020..1024, raw), 0);
    assert_eq!(write(256..1024, BufferUse::Constants), 0);
    for (count, (range, usage)) in (1..).zip([
        (0..0, raw),
        (1020..1028, raw),
        (2..6, BufferUse::ReadWrite),
        (4..7, raw),
        (4..260, BufferUse::Constants),
        (0..16, BufferUse::Constants),
    ]) {
        assert_eq!(write(range.clone(), usage), count, "{range:?} {usage:?}");
    }
}

fn a_heap_that_is_destroyed_while_work_reads_it_is_a_complaint(rig: &Rig<'_>) {
    let validation_errors = || rig.gpu.fixture().complaints_about("destroy_descriptor_heap: ");
    let cells = rig.cells(10, 1);
    let heaps = [(); 2].map(|()| rig.heap(RESOURCES, 1));
    heaps.iter().for_each(|heap| heap.write(0, &cells.descriptor(0)));
    drop(rig.read(&heaps[0], &[0]));
    rig.device().pause_queues();
    // Only the second is read by work that is not over.
    let reading = rig.submit(&[], &[(&heaps[1], &[0])]);
    let names: Vec<SimulatedDescriptorHeap> = heaps.iter().map(|heap| heap.raw().clone()).collect();
    let destroy = |heap| {
        // SAFETY: from this device; that work reads it is what the device shall say.
        unsafe { rig.device().destroy_descriptor_heap(heap) };
        validation_errors()
    };
    let counts: Vec<_> = names.into_iter().map(destroy).collect();
    rig.device().resume_queues();
    assert_eq!(counts, [0, 1]);
    assert_eq!(reading.results(), [[10]], "its bytes live as long as work reads them");
    drop(reading);
    heaps.into_iter().for_each(|heap| drop(heap.disown()));
}

fn a_heap_that_was_destroyed_is_a_complaint_wherever_it_is_used(rig: &Rig<'_>) {
    let (device, cells, staging) = (rig.device(), rig.cells(10, 1), rig.heap(STAGING, 1));
    staging.write(0, &cells.descriptor(0));
    let heap = rig.heap(RESOURCES, 1);
    // SAFETY: no work reads it.
    unsafe { device.destroy_descriptor_heap(heap.raw().clone()) };
    let wrong: [(&'static str, &dyn Fn()); 5] = [
        ("write_descriptor: ", &|| heap.write(0, &cells.descriptor(0))),
        ("write_null_descriptors: ", &|| heap.write_null(0..1)),
        ("poison_descriptors: ", &|| heap.poison(0..1)),
        ("copy_descriptors: ", &|| staging.copy_to(0, &heap, 0, 1)),
        // SAFETY: that it was destroyed before is what the device shall say.
        ("destroy_descriptor_heap: ", &|| unsafe { device.destroy_descriptor_heap(heap.raw().clone()) }),
    ];
    for (about, wrong) in wrong {
        assert_eq!(rig.gpu.fixture().complaints_about(about), 0);
        wrong();
        assert_eq!(rig.gpu.fixture().complaints_about(about), 1, "{about}");
    }
    assert_eq!(device.usage().descriptor_heaps, 1);
    drop(heap.disown());
}

fn reads_that_nothing_can_make_are_refused(rig: &Rig<'_>) {
    let (staging, heap, cells) = (rig.heap(STAGING, 1), rig.heap(RESOURCES, 1), rig.cells(10, 1));
    heap.write(0, &cells.descriptor(0));
    let small = rig.written(&[0; 64]);
    let good = SimulatedRead {
        heap: heap.raw(),
        indices: &small.handle(),
        indices_offset: 0,
        count: 8,
        to: &small.handle(),
        to_offset: 32,
    };
    let submit = |reads: &[SimulatedRead<'_>]| {
        // SAFETY: the device refuses what is wrong; the rest is waited for.
        unsafe { rig.device().submit_reads(FIRST, &[], reads) }
    };
    let beyond = |offset, size| DeviceError::OutOfRange { offset, size, available: 64 };
    for (count, (wrong, why)) in (1..).zip([
        (SimulatedRead { heap: staging.raw(), ..good }, DeviceError::NotShaderVisible),
        (SimulatedRead { indices_offset: 36, ..good }, beyond(36, 32)),
        (SimulatedRead { to_offset: 33, ..good }, beyond(33, 32)),
        (SimulatedRead { to_offset: u64::MAX, ..good }, beyond(u64::MAX, 32)),
        (SimulatedRead { count: u32::MAX, ..good }, beyond(0, 4 * u64::from(u32::MAX))),
    ]) {
        assert_eq!(submit(&[good, wrong]), Err(why), "{wrong:?}");
        assert_eq!(rig.gpu.fixture().complaints_about("submit_reads: "), count);
    }
    assert_eq!(rig.device().submitted(FIRST), TimelineValue(0), "the good ones neither");
    let value = submit(&[good]).unwrap();
    rig.gpu.wait(rig.gpu.submitted(FIRST, value));
}

/// Has work sample 2 × 1 texels, and returns them.
fn sampled(rig: &Rig<'_>, sample: SimulatedSample<'_>) -> [u32; 2] {
    // SAFETY: the picture lies in its buffer, and everything lives until the wait is over; wrong descriptors are what
    // the device shall report.
    let value = unsafe { rig.device().submit_samples(FIRST, &[], &[sample]) }.unwrap();
    rig.gpu.wait(rig.gpu.submitted(FIRST, value));
    let read = SimulatedDescriptor::Buffer { buffer: sample.to, range: 0..4, usage: BufferUse::ReadOnly };
    let second = SimulatedDescriptor::Buffer { buffer: sample.to, range: 4..8, usage: BufferUse::ReadOnly };
    let heap = rig.heap(RESOURCES, 2);
    heap.write(0, &read);
    heap.write(1, &second);
    rig.read(&heap, &[0, 1]).try_into().unwrap()
}

fn a_texture_that_cannot_be_sampled_is_a_complaint(rig: &Rig<'_>) {
    let device = rig.device();
    let memory = device.allocate_memory(&MemoryDesc::new(MemoryTypeIndex(0), 4096)).unwrap();
    let create = |desc: ImageDesc, offset| {
        // SAFETY: live, and large enough.
        unsafe { device.create_image(&desc, memory, offset) }.unwrap()
    };
    let images = [create(ImageDesc::new(1, 1, 4), 0), create(ImageDesc::new(4, 4, 8), 1024)];
    let [image, wide] = &images;
    let border = SamplerDesc {
        address: [AddressMode::ClampToBorder; 3],
        border: BorderColor::OpaqueWhite,
        ..SamplerDesc::default()
    };
    let descs = [
        border,
        SamplerDesc { compare: Some(Compare::Less), ..border },
        SamplerDesc { min_lod: 1.0, ..border },
    ];
    let made = descs.map(|desc| sampler(rig, &desc));
    let (heap, samplers, to) = (rig.heap(RESOURCES, 5), rig.heap(SAMPLERS, 5), rig.written(&[1; 8]));
    let of = |image, usage| SimulatedDescriptor::Image { image, usage };
    heap.write(0, &of(image, SimulatedImageUse::Sampled));
    heap.write(1, &of(image, SimulatedImageUse::Storage));
    heap.write(2, &of(wide, SimulatedImageUse::Sampled));
    heap.write_null(3..4);
    for (at, sampler) in (0..).zip(&made) {
        // SAFETY: of this device, to which it is enough that it is live now.
        samplers.write(at, &unsafe { device.sampler_descriptor(sampler) });
    }
    let sample = |texture, sampler| {
        let (resources, samplers, to) = (heap.raw(), samplers.raw(), to.handle());
        let extent = [2, 1];
        let sample = SimulatedSample { resources, texture, samplers, sampler, extent, to: &to, to_offset: 0 };
        sampled(rig, sample)
    };
    let complaints = || rig.gpu.fixture().complaints_about("sample: ");
    assert_eq!((sample(0, 0), complaints()), ([0, u32::MAX], 0), "the texel, and the border beside it");
    for (count, (texture, sampler)) in
        (1..).zip([(1, 0), (2, 0), (3, 0), (4, 0), (9, 0), (0, 1), (0, 2), (0, 4)])
    {
        assert_eq!(sample(texture, sampler), [MISSING; 2], "{texture}, {sampler}");
        assert_eq!(complaints(), count, "{texture}, {sampler}");
    }
    let [first, others @ ..] = made;
    destroy(rig, first);
    assert_eq!((sample(0, 0), complaints()), ([MISSING; 2], 9), "its sampler was destroyed");
    others.into_iter().for_each(|sampler| destroy(rig, sampler));
    for image in images {
        // SAFETY: from this device, and no queue uses it, as below.
        unsafe { device.destroy_image(image) };
    }
    // SAFETY: as above.
    unsafe { device.free_memory(memory) };
    assert_eq!((sample(0, 3), complaints()), ([MISSING; 2], 11), "both were destroyed or never written");
}

fn samples_that_nothing_can_make_are_refused(rig: &Rig<'_>) {
    let (staging, heap, samplers) = (rig.heap(STAGING, 1), rig.heap(RESOURCES, 1), rig.heap(SAMPLERS, 1));
    let to = rig.written(&[0; 64]);
    let good = SimulatedSample {
        resources: heap.raw(),
        texture: 0,
        samplers: samplers.raw(),
        sampler: 0,
        extent: [4, 4],
        to: &to.handle(),
        to_offset: 0,
    };
    let beyond = |offset, size| DeviceError::OutOfRange { offset, size, available: 64 };
    for (count, (wrong, why)) in (1..).zip([
        (SimulatedSample { resources: staging.raw(), ..good }, DeviceError::NotShaderVisible),
        (SimulatedSample { samplers: staging.raw(), ..good }, DeviceError::NotShaderVisible),
        (SimulatedSample { to_offset: 1, ..good }, beyond(1, 64)),
        (SimulatedSample { to_offset: u64::MAX, ..good }, beyond(u64::MAX, 64)),
        (SimulatedSample { extent: [u32::MAX; 2], ..good }, beyond(0, u64::MAX)),
    ]) {
        // SAFETY: the device refuses what is wrong.
        let refused = unsafe { rig.device().submit_samples(FIRST, &[], &[wrong]) };
        assert_eq!(refused, Err(why), "{wrong:?}");
        assert_eq!(rig.gpu.fixture().complaints_about("submit_samples: "), count);
    }
}

fn a_list_of_samples_that_nothing_can_make_is_refused_or_a_complaint(rig: &Rig<'_>) {
    let device = rig.device();
    let memory = device.allocate_memory(&MemoryDesc::new(MemoryTypeIndex(0), 4096)).unwrap();
    // SAFETY: live, and large enough.
    let image = unsafe { device.create_image(&ImageDesc::new(1, 1, 4), memory, 0) }.unwrap();
    let (staging, heap, samplers) = (rig.heap(STAGING, 1), rig.heap(RESOURCES, 2), rig.heap(SAMPLERS, 1));
    heap.write(0, &SimulatedDescriptor::Image { image: &image, usage: SimulatedImageUse::Sampled });
    heap.write_null(1..2);
    samplers.write_null(0..1);
    // The middle of the first level: two entries, of which the second is for a texel that the picture does not have.
    let entry = |to: u32| [0.5_f32.to_bits(), 0.5_f32.to_bits(), 0, 0, to].map(u32::to_ne_bytes).concat();
    let list = rig.written(&[entry(1), entry(2)].concat());
    let to = rig.written(&[1; 8]);
    let good = SimulatedSampleList {
        resources: heap.raw(),
        texture: 0,
        dimension: ImageViewDimension::D2,
        samplers: samplers.raw(),
        sampler: 0,
        coordinates: &list.handle(),
        coordinates_offset: 0,
        count: 1,
        to: &to.handle(),
    };
    // SAFETY: everything lives until the wait below; what is wrong the device refuses or reports.
    let submit = |list| unsafe { device.submit_sample_lists(FIRST, &[], &[list]) };
    let beyond = |offset, size| DeviceError::OutOfRange { offset, size, available: 40 };
    for (count, (wrong, why)) in (1..).zip([
        (SimulatedSampleList { resources: staging.raw(), ..good }, DeviceError::NotShaderVisible),
        (SimulatedSampleList { samplers: staging.raw(), ..good }, DeviceError::NotShaderVisible),
        (SimulatedSampleList { dimension: ImageViewDimension::D3, ..good }, DeviceError::Unsupported),
        (SimulatedSampleList { count: 3, ..good }, beyond(0, 60)),
        (SimulatedSampleList { coordinates_offset: 21, ..good }, beyond(21, 20)),
    ]) {
        assert_eq!(submit(wrong), Err(why), "{wrong:?}");
        assert_eq!(rig.gpu.fixture().complaints_about("submit_sample_lists: "), count);
    }
    for (count, list) in [
        (0, good),
        (1, SimulatedSampleList { texture: 1, ..good }),
        (2, SimulatedSampleList { dimension: ImageViewDimension::Cube, ..good }),
        (3, SimulatedSampleList { sampler: 1, ..good }),
        (4, SimulatedSampleList { count: 2, ..good }),
    ] {
        let value = submit(list).unwrap();
        rig.gpu.wait(rig.gpu.submitted(FIRST, value));
        assert_eq!(rig.gpu.fixture().complaints_about("sample: "), count, "{list:?}");
    }
    // SAFETY: from this device, and no queue uses it, as below.
    unsafe { device.destroy_image(image) };
    // SAFETY: as above.
    unsafe { device.free_memory(memory) };
}

fn a_profile_may_have_smaller_limits(rig: &Rig<'_>) {
    let mut profile: Profile = rig.device().profile().clone();
    profile.descriptors.resources.max_capacity = 5;
    profile.descriptors.samplers.max_capacity = 0;
    profile.descriptors.max_samplers = 3;
    let gpu = Gpu::new(SimulatedFixture::new(profile));
    let small = Rig::new(&gpu);
    let try_heap = |usage, capacity| small.try_heap(DescriptorHeapDesc { usage, capacity }).err();
    let too_many = |requested, most| {
        let limit = DescriptionLimit::DescriptorHeapCapacity;
        DescriptionError::AboveLimit { limit, requested, most }.into()
    };
    assert_eq!(try_heap(RESOURCES, 5), None);
    assert_eq!(try_heap(RESOURCES, 6), Some(too_many(6, 5)));
    assert_eq!(try_heap(SAMPLERS, 1), Some(too_many(1, 0)));
    assert_eq!(try_heap(STAGING, 1000), None, "only what shaders see is limited");
    let desc = SamplerDesc::default();
    let samplers = [(); 3].map(|()| sampler(&small, &desc));
    assert_eq!(gpu.device().create_sampler(&desc).err(), Some(DeviceError::TooManyAllocations));
    samplers.into_iter().for_each(|sampler| destroy(&small, sampler));
    destroy(&small, sampler(&small, &desc));
    drop(small);
    gpu.finish().unwrap();
}

fn whichever_call_fails_no_heap_or_sampler_is_left_behind(rig: &Rig<'_>) {
    let device = rig.device();
    let refused = DeviceError::Other { code: -7 };
    let script = || -> Result<(), DeviceError> {
        let heap = rig.try_heap(DescriptorHeapDesc { usage: RESOURCES, capacity: 3 })?;
        let staging = rig.try_heap(DescriptorHeapDesc { usage: STAGING, capacity: 3 })?;
        let sampler = device.create_sampler(&SamplerDesc::default())?;
        let other = device.create_sampler(&SamplerDesc::default());
        destroy(rig, sampler);
        destroy(rig, other?);
        drop((heap, staging));
        Ok(())
    };
    for k in 1..=4 {
        device.fail_call(k, refused);
        assert_eq!(script(), Err(refused), "call {k}");
        let usage = device.usage();
        assert_eq!((usage.descriptor_heaps, usage.samplers), (0, 0), "call {k}");
        assert_eq!(script(), Ok(()), "only call {k} was to fail");
    }
    device.fail_call(5, refused);
    assert_eq!(script(), Ok(()), "there are four calls that can fail");
    device.clear_faults();
    let desc = SamplerDesc { max_anisotropy: 0, ..SamplerDesc::default() };
    assert_eq!(
        device.create_sampler(&desc).err(),
        Some(DescriptionError::Sampler(desc.check().unwrap_err()).into())
    );
    assert_eq!(device.usage().samplers, 0);
}

fn a_lost_device_reads_nothing_and_lets_everything_go(rig: &Rig<'_>) {
    // A device of its own, since what is lost is not given back by tests.
    let gpu = Gpu::new(SimulatedFixture::new(rig.device().profile().clone()));
    let lost = Rig::new(&gpu);
    let (heap, cells) = (lost.heap(RESOURCES, 1), lost.cells(10, 1));
    heap.write(0, &cells.descriptor(0));
    let device = gpu.device();
    device.pause_queues();
    let reading = lost.submit(&[], &[(&heap, &[0])]);
    device.lose_device();
    let again = SimulatedRead {
        heap: heap.raw(),
        indices: &cells.buffer.handle(),
        indices_offset: 0,
        count: 1,
        to: &cells.buffer.handle(),
        to_offset: 4,
    };
    // SAFETY: the ranges lie in the buffer, and a lost device uses nothing.
    assert_eq!(unsafe { device.submit_reads(FIRST, &[], &[again]) }, Err(DeviceError::Lost));
    assert_eq!(device.create_sampler(&SamplerDesc::default()).err(), Some(DeviceError::Lost));
    let desc = DescriptorHeapDesc { usage: STAGING, capacity: 1 };
    assert_eq!(lost.try_heap(desc).err(), Some(DeviceError::Lost));
    drop(reading);
    drop((heap, cells));
    drop(lost);
    gpu.finish().unwrap();
}

fn descriptors_of_the_driver_are_not_touched(rig: &Rig<'_>) {
    let limits = *rig.device().descriptor_limits().shader_visible(ShaderVisibleHeapType::Resource);
    assert!(limits.reserved > 0, "the profile has none, so that this is about nothing");
    let (heap, cells) = (rig.heap(RESOURCES, 4), rig.cells(10, 1));
    assert_eq!(heap.desc.capacity, 4 + limits.reserved);
    heap.write(3, &cells.descriptor(0));
    heap.write(4, &cells.descriptor(0));
    assert_eq!(rig.gpu.fixture().complaints_about("write_descriptor: "), 1);
    heap.write_null(3..5);
    assert_eq!(rig.gpu.fixture().complaints_about("write_null_descriptors: "), 1);
    assert_eq!(rig.read(&heap, &[3, 4, 35, 36]), [10, MISSING, MISSING, MISSING]);
    assert_eq!(rig.gpu.fixture().complaints_about("read: "), 3);
    // Staging heaps keep nothing alive.
    rig.heap(STAGING, 4).write(3, &cells.descriptor(0));
}
