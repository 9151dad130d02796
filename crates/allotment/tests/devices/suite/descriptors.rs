//! The promises of `DescriptorDevice`: what is written into heaps is what work reads through them.

use allotment::device::{
    AddressMode, BufferDevice as _, DescriptionError, DescriptionLimit, DescriptorDevice, DescriptorHeapDesc,
    DescriptorHeapType, DescriptorHeapVisibility, DeviceError, Filter, SamplerDesc, ShaderVisibleHeapType,
};

use super::descriptor_heaps::{
    a_draw_reads_what_its_set_had_bound, a_heap_is_replaced_after_a_batch_failed_whose_buffer_is_gone,
    a_heap_is_replaced_when_what_its_slots_pointed_at_is_gone,
    slots_tables_and_chunks_are_read_before_and_after_the_heap_is_replaced,
};
use super::descriptor_rig::{Descriptor, RESOURCES, Rig, STAGING, Sampler};
use super::following::{
    a_binding_set_and_a_bindless_slot_follow_what_defragmentation_moves,
    descriptors_follow_through_many_frames_of_moves_creations_and_drops,
};
use super::textures::{
    each_texel_of_each_mip_level_and_face_is_sampled_through_views,
    textures_are_sampled_through_their_descriptors_and_samplers,
};
use super::{buffer_views, views};
use crate::bytes::Random;
use crate::fixture::{DescriptorFixture, Outcome, Test};

/// As `tests!`, over a rig.
macro_rules! tests {
    ($fixture:ty: $($name:ident,)*) => {
        vec![$((
            stringify!($name),
            (|gpu| Rig::run(gpu, $name)) as fn(&$crate::gpu::Gpu<$fixture>) -> Outcome,
        ),)*]
    };
}

/// Those in which no shader reads.
pub(crate) fn without_shaders<F: DescriptorFixture>() -> Vec<Test<F>> {
    let mut all = views::all();
    all.extend(buffer_views::all());
    all
}

pub(crate) fn all<F: DescriptorFixture>() -> Vec<Test<F>> {
    let mut all = without_shaders();
    all.extend(tests![F:
        a_written_descriptor_is_read_by_work,
        a_descriptor_says_what_it_is_of,
        copies_to_where_shaders_see_them_arrive_wherever_they_begin_and_end,
        copies_between_staging_heaps_arrive,
        copies_within_a_staging_heap_arrive,
        a_copied_descriptor_stays_what_it_was_when_its_source_is_overwritten,
        any_order_of_writes_and_copies_leaves_what_a_model_says,
        a_descriptor_of_nothing_reads_zeros,
        what_is_overwritten_after_work_is_done_is_seen_by_the_next,
        one_submission_reads_through_several_heaps,
        descriptors_of_many_small_buffers_are_read_in_any_order,
        a_heap_of_100_000_descriptors_has_all_of_them,
        a_heap_of_one_descriptor_has_it,
        a_heap_at_the_limit_is_made_and_one_beyond_is_refused,
        a_heap_of_nothing_is_refused,
        there_are_staging_heaps_of_all_kinds,
        strides_and_addresses_say_where_each_descriptor_is,
        what_a_heap_stands_in_is_always_the_same,
        samplers_are_made_written_copied_and_destroyed,
        a_sampler_out_of_range_is_refused,
        threads_write_descriptors_of_one_heap_at_the_same_time,
        threads_copy_to_one_heap_at_the_same_time,
        threads_make_and_destroy_heaps_at_the_same_time,
        slots_tables_and_chunks_are_read_before_and_after_the_heap_is_replaced,
        a_heap_is_replaced_when_what_its_slots_pointed_at_is_gone,
        a_heap_is_replaced_after_a_batch_failed_whose_buffer_is_gone,
        a_draw_reads_what_its_set_had_bound,
        textures_are_sampled_through_their_descriptors_and_samplers,
        each_texel_of_each_mip_level_and_face_is_sampled_through_views,
        a_binding_set_and_a_bindless_slot_follow_what_defragmentation_moves,
        descriptors_follow_through_many_frames_of_moves_creations_and_drops,
    ]);
    all
}

/// Prime, so that a slot that is off by any few names another cell.
const CELLS: u32 = 4099;

/// The cell that slot `at` names in tests of many: far from those of the slots beside it.
fn cell(at: u32) -> u32 {
    (at.wrapping_mul(2_654_435_761) >> 7) % CELLS
}

fn shuffled(count: u32) -> Vec<u32> {
    let mut list: Vec<_> = (0..count).collect();
    let mut random = Random::new(u64::from(count));
    for end in (1..list.len()).rev() {
        list.swap(end, random.below(end as u64 + 1) as usize);
    }
    list
}

/// Compares long lists, and says where they differ.
fn assert_numbers(found: &[u32], expected: &[u32], what: impl core::fmt::Debug) {
    assert_eq!(found.len(), expected.len(), "{what:?}: length");
    if let Some(at) = (0..found.len()).find(|&i| found[i] != expected[i]) {
        let wrong = found.iter().zip(expected).filter(|(found, expected)| found != expected).count();
        panic!("{what:?}: {wrong} are wrong; at {at} is {}, not {}", found[at], expected[at]);
    }
}

fn a_written_descriptor_is_read_by_work<F: DescriptorFixture>(rig: &Rig<'_, F>) {
    let (heap, cells) = (rig.heap(RESOURCES, 8), rig.cells(1000, 8));
    for at in 0..8 {
        heap.write(at, &cells.descriptor(at ^ 5));
    }
    let expected: Vec<_> = (0..8).map(|at| cells.number(at ^ 5)).collect();
    assert_numbers(&rig.read(&heap, &[0, 1, 2, 3, 4, 5, 6, 7]), &expected, "each");
    assert_eq!(rig.read(&heap, &[3; 5]), [cells.number(3 ^ 5); 5], "one of them, again and again");
    assert_eq!(rig.read(&heap, &[7]), [cells.number(7 ^ 5)], "one, once");
}

fn a_descriptor_says_what_it_is_of<F: DescriptorFixture>(rig: &Rig<'_, F>) {
    let cells = rig.cells(0, 1);
    assert_eq!(F::Device::descriptor_kind(&cells.descriptor(0)), DescriptorHeapType::Resource);
    let sampler = rig.device().create_sampler(&SamplerDesc::default()).unwrap();
    // SAFETY: no heap gets it.
    let of_sampler = unsafe { rig.device().sampler_descriptor(&sampler) };
    assert_eq!(F::Device::descriptor_kind(&of_sampler), DescriptorHeapType::Sampler);
    assert!(rig.device().can_write(&of_sampler) && rig.device().can_write(&cells.descriptor(0)));
    drop(of_sampler);
    // SAFETY: no heap has it.
    unsafe { rig.device().destroy_sampler(sampler) };
}

fn copies_to_where_shaders_see_them_arrive_wherever_they_begin_and_end<F: DescriptorFixture>(
    rig: &Rig<'_, F>,
) -> Outcome {
    const ROOM: u32 = 10_030;
    if rig.usable(ShaderVisibleHeapType::Resource) < ROOM {
        return Outcome::DoesNotApply("the device's heaps are small");
    }
    let (staging, heap, cells) = (rig.heap(STAGING, ROOM), rig.heap(RESOURCES, ROOM), rig.cells(1, CELLS));
    for at in 0..ROOM {
        staging.write(at, &cells.descriptor(cell(at)));
        heap.write(at, &cells.descriptor(0));
    }
    let all: Vec<_> = (0..ROOM).collect();
    let mut expected = vec![cells.number(0); ROOM as usize];
    for count in [1, 2, 63, 64, 65, 10_000] {
        for (from_at, to_at) in [(0, 0), (7, 11), (ROOM - count, ROOM - count), (3, ROOM - count)] {
            staging.copy_to(from_at, &heap, to_at, count);
            for i in 0..count {
                expected[(to_at + i) as usize] = cells.number(cell(from_at + i));
            }
            assert_numbers(&rig.read(&heap, &all), &expected, (count, from_at, to_at));
        }
        heap.write(count, &cells.descriptor(0));
        expected[count as usize] = cells.number(0);
    }
    Outcome::Ran
}

fn copies_between_staging_heaps_arrive<F: DescriptorFixture>(rig: &Rig<'_, F>) {
    let [one, other] = [(); 2].map(|()| rig.heap(STAGING, 100));
    let (heap, cells) = (rig.heap(RESOURCES, 100), rig.cells(1, CELLS));
    for at in 0..100 {
        one.write(at, &cells.descriptor(cell(at)));
        other.write(at, &cells.descriptor(0));
    }
    one.copy_to(10, &other, 20, 70);
    other.copy_to(0, &heap, 0, 100);
    let number = |at: u32| cells.number(if (20..90).contains(&at) { cell(at - 10) } else { 0 });
    let all: Vec<_> = (0..100).collect();
    assert_numbers(&rig.read(&heap, &all), &all.iter().map(|&at| number(at)).collect::<Vec<_>>(), "all");
}

fn copies_within_a_staging_heap_arrive<F: DescriptorFixture>(rig: &Rig<'_, F>) {
    let (staging, heap, cells) = (rig.heap(STAGING, 100), rig.heap(RESOURCES, 100), rig.cells(1, CELLS));
    for at in 0..50 {
        staging.write(at, &cells.descriptor(cell(at)));
    }
    // Ranges that touch, and do not overlap.
    staging.copy_to(0, &staging, 50, 50);
    staging.copy_to(75, &staging, 0, 25);
    staging.copy_to(0, &heap, 0, 100);
    let source = |at: u32| if at < 25 { at + 25 } else { at % 50 };
    let expected: Vec<_> = (0..100).map(|at| cells.number(cell(source(at)))).collect();
    assert_numbers(&rig.read(&heap, &(0..100).collect::<Vec<_>>()), &expected, "all");
}

fn a_copied_descriptor_stays_what_it_was_when_its_source_is_overwritten<F: DescriptorFixture>(
    rig: &Rig<'_, F>,
) {
    let (staging, heap, cells) = (rig.heap(STAGING, 2), rig.heap(RESOURCES, 2), rig.cells(1, 4));
    for at in 0..2 {
        staging.write(at, &cells.descriptor(at));
    }
    staging.copy_to(0, &heap, 0, 2);
    staging.write(0, &cells.descriptor(2));
    staging.poison(1..2);
    assert_eq!(rig.read(&heap, &[0, 1]), [cells.number(0), cells.number(1)]);
    drop(staging);
    assert_eq!(rig.read(&heap, &[1, 0]), [cells.number(1), cells.number(0)], "nor when it is gone");
}

fn any_order_of_writes_and_copies_leaves_what_a_model_says<F: DescriptorFixture>(rig: &Rig<'_, F>) {
    const SLOTS: u32 = 300;
    let heaps = [STAGING, STAGING, RESOURCES].map(|usage| rig.heap(usage, SLOTS));
    let cells = rig.cells(1, CELLS);
    let mut models = [(); 3].map(|()| vec![0u32; SLOTS as usize]);
    for heap in &heaps {
        (0..SLOTS).for_each(|at| heap.write(at, &cells.descriptor(0)));
    }
    let all: Vec<_> = (0..SLOTS).collect();
    let mut random = Random::new(1);
    for round in 0..10 {
        for _ in 0..60 {
            let below = |random: &mut Random, end: u32| random.below(u64::from(end)) as u32;
            let count = 1 + below(&mut random, 90);
            let [from_at, to_at] = [(); 2].map(|()| below(&mut random, SLOTS - count + 1));
            let (from, to) = (below(&mut random, 2) as usize, below(&mut random, 3) as usize);
            match below(&mut random, 4) {
                0 => {
                    let cell = below(&mut random, CELLS);
                    heaps[to].write(to_at, &cells.descriptor(cell));
                    models[to][to_at as usize] = cell;
                }
                // Poisoned descriptors are written again before work reads them.
                1 => {
                    heaps[to].poison(to_at..to_at + count);
                    for at in to_at..to_at + count {
                        heaps[to].write(at, &cells.descriptor(cell(at)));
                        models[to][at as usize] = cell(at);
                    }
                }
                _ if from == to && from_at.abs_diff(to_at) < count => {}
                _ => {
                    heaps[from].copy_to(from_at, &heaps[to], to_at, count);
                    let copied = models[from][from_at as usize..][..count as usize].to_vec();
                    models[to][to_at as usize..][..count as usize].copy_from_slice(&copied);
                }
            }
        }
        let expected: Vec<_> = models[2].iter().map(|&cell| cells.number(cell)).collect();
        assert_numbers(&rig.read(&heaps[2], &all), &expected, round);
    }
}

fn a_descriptor_of_nothing_reads_zeros<F: DescriptorFixture>(rig: &Rig<'_, F>) -> Outcome {
    if !rig.gpu.fixture().null_reads_zeros() {
        return Outcome::DoesNotApply("nothing is promised of descriptors of nothing");
    }
    let (staging, heap, cells) = (rig.heap(STAGING, 100), rig.heap(RESOURCES, 200), rig.cells(1, 2));
    for at in 0..200 {
        heap.write(at, &cells.descriptor(1));
    }
    heap.write_null(10..11);
    heap.write_null(20..90);
    heap.write_null(95..95);
    staging.write_null(0..100);
    staging.write(50, &cells.descriptor(0));
    staging.copy_to(0, &heap, 100, 100);
    let number = |at| match at {
        10 | 20..90 => 0,
        0..100 => cells.number(1),
        150 => cells.number(0),
        _ => 0,
    };
    let all: Vec<_> = (0..200).collect();
    assert_numbers(&rig.read(&heap, &all), &all.iter().map(|&at| number(at)).collect::<Vec<_>>(), "all");
    heap.write(10, &cells.descriptor(1));
    assert_eq!(rig.read(&heap, &[10, 20]), [cells.number(1), 0], "written again");
    Outcome::Ran
}

fn what_is_overwritten_after_work_is_done_is_seen_by_the_next<F: DescriptorFixture>(rig: &Rig<'_, F>) {
    let (heap, cells) = (rig.heap(RESOURCES, 4), rig.cells(1, 40));
    heap.write(0, &cells.descriptor(39));
    for round in 0..20 {
        heap.write(3, &cells.descriptor(round));
        assert_eq!(rig.read(&heap, &[0, 3]), [cells.number(39), cells.number(round)]);
    }
    // Slots that the work in flight does not read may be written at any time.
    let reading = rig.submit(&[], &[(&heap, &[0, 3])]);
    heap.write(1, &cells.descriptor(30));
    heap.write(2, &cells.descriptor(31));
    assert_eq!(rig.read(&heap, &[1, 2]), [cells.number(30), cells.number(31)]);
    assert_eq!(reading.results(), [[cells.number(39), cells.number(19)]]);
}

fn one_submission_reads_through_several_heaps<F: DescriptorFixture>(rig: &Rig<'_, F>) {
    let cells = rig.cells(1, 100);
    let heaps = [20, 30, 40].map(|size| rig.heap(RESOURCES, size));
    for (which, heap) in (0..).zip(&heaps) {
        (0..20).for_each(|at| heap.write(at, &cells.descriptor(at + 30 * which)));
    }
    let list: Vec<_> = (0..20).rev().collect();
    let reads =
        [(&heaps[2], &list[..]), (&heaps[0], &list[5..]), (&heaps[2], &list[..1]), (&heaps[1], &list)];
    let found = rig.submit(&[], &reads).results();
    for ((found, (_, list)), which) in found.iter().zip(reads).zip([2, 0, 2, 1]) {
        let expected: Vec<_> = list.iter().map(|at| cells.number(at + 30 * which)).collect();
        assert_numbers(found, &expected, which);
    }
}

fn descriptors_of_many_small_buffers_are_read_in_any_order<F: DescriptorFixture>(
    rig: &Rig<'_, F>,
) -> Outcome {
    const COUNT: u32 = 2000;
    if rig.usable(ShaderVisibleHeapType::Resource) < COUNT {
        return Outcome::DoesNotApply("the device's heaps are small");
    }
    let heap = rig.heap(RESOURCES, COUNT);
    let buffers: Vec<_> = (0..COUNT).map(|i| rig.cells(10 * i, 1)).collect();
    for (at, buffer) in shuffled(COUNT).into_iter().zip(&buffers) {
        heap.write(at, &buffer.descriptor(0));
    }
    let mut numbers = vec![0; COUNT as usize];
    for (at, number) in shuffled(COUNT).into_iter().zip(0..) {
        numbers[at as usize] = 10 * number;
    }
    let order: Vec<_> = shuffled(COUNT).into_iter().rev().collect();
    let expected: Vec<_> = order.iter().map(|&at| numbers[at as usize]).collect();
    assert_numbers(&rig.read(&heap, &order), &expected, "each buffer");
    Outcome::Ran
}

fn a_heap_of_100_000_descriptors_has_all_of_them<F: DescriptorFixture>(rig: &Rig<'_, F>) -> Outcome {
    const COUNT: u32 = 100_000;
    if rig.usable(ShaderVisibleHeapType::Resource) < COUNT {
        return Outcome::DoesNotApply("the device's heaps are small");
    }
    let (staging, heap, cells) = (rig.heap(STAGING, COUNT), rig.heap(RESOURCES, COUNT), rig.cells(1, CELLS));
    // Half of them on their own, half by copies.
    for at in 0..COUNT {
        let descriptor = cells.descriptor(cell(at));
        if at < COUNT / 2 { heap.write(at, &descriptor) } else { staging.write(at, &descriptor) }
    }
    staging.copy_to(COUNT / 2, &heap, COUNT / 2, COUNT / 2);
    let order = shuffled(COUNT);
    let expected: Vec<_> = order.iter().map(|&at| cells.number(cell(at))).collect();
    assert_numbers(&rig.read(&heap, &order), &expected, "all");
    Outcome::Ran
}

fn a_heap_of_one_descriptor_has_it<F: DescriptorFixture>(rig: &Rig<'_, F>) {
    let (staging, heap, cells) = (rig.heap(STAGING, 1), rig.heap(RESOURCES, 1), rig.cells(7, 2));
    heap.write(0, &cells.descriptor(0));
    assert_eq!(rig.read(&heap, &[0, 0]), [7, 7]);
    staging.write(0, &cells.descriptor(1));
    staging.copy_to(0, &heap, 0, 1);
    assert_eq!(rig.read(&heap, &[0, 0]), [8, 8]);
}

fn a_heap_at_the_limit_is_made_and_one_beyond_is_refused<F: DescriptorFixture>(rig: &Rig<'_, F>) {
    let limits = rig.device().descriptor_limits();
    for kind in ShaderVisibleHeapType::ALL {
        let usage = DescriptorHeapVisibility::ShaderVisible(kind);
        let most = limits.shader_visible(kind).max_capacity;
        if most > 0 {
            let heap = rig.try_heap(DescriptorHeapDesc { usage, capacity: most });
            assert!(heap.is_ok(), "{kind:?}: {:?}", heap.err());
        }
        for beyond in [1, most, u32::MAX] {
            let capacity = most.saturating_add(beyond.max(1));
            if capacity == most {
                // There is no number beyond the limit.
                continue;
            }
            let refused = rig.try_heap(DescriptorHeapDesc { usage, capacity }).err();
            let (requested, limit) = (capacity.into(), DescriptionLimit::DescriptorHeapCapacity);
            let above = DescriptionError::AboveLimit { limit, requested, most: most.into() }.into();
            // A device without such heaps at all says so.
            let why = if most == 0 { DeviceError::Unsupported } else { above };
            assert_eq!(refused, Some(why), "{kind:?}: {capacity}");
        }
    }
}

fn a_heap_of_nothing_is_refused<F: DescriptorFixture>(rig: &Rig<'_, F>) {
    let staging = DescriptorHeapType::ALL.map(DescriptorHeapVisibility::CpuOnly);
    for usage in
        staging.into_iter().chain(ShaderVisibleHeapType::ALL.map(DescriptorHeapVisibility::ShaderVisible))
    {
        let refused = rig.try_heap(DescriptorHeapDesc { usage, capacity: 0 }).err();
        assert_eq!(refused, Some(DescriptionError::ZeroDescriptors.into()), "{usage:?}");
    }
}

fn there_are_staging_heaps_of_all_kinds<F: DescriptorFixture>(rig: &Rig<'_, F>) {
    for kind in DescriptorHeapType::ALL {
        let [from, to] = [(); 2].map(|()| rig.heap(DescriptorHeapVisibility::CpuOnly(kind), 50));
        from.write_null(0..50);
        to.write_null(0..10);
        from.copy_to(0, &to, 10, 40);
        to.poison(3..7);
        from.copy_to(49, &to, 3, 1);
    }
}

fn strides_and_addresses_say_where_each_descriptor_is<F: DescriptorFixture>(rig: &Rig<'_, F>) {
    let limits = rig.device().descriptor_limits();
    assert_eq!(limits, rig.device().descriptor_limits(), "they never change");
    let mut usages = DescriptorHeapType::ALL.map(DescriptorHeapVisibility::CpuOnly).to_vec();
    for kind in ShaderVisibleHeapType::ALL {
        assert!(limits.shader_visible(kind).table_alignment.is_power_of_two(), "{kind:?}");
        if limits.shader_visible(kind).max_capacity > 0 {
            usages.push(DescriptorHeapVisibility::ShaderVisible(kind));
        }
    }
    let heaps: Vec<_> = usages.iter().flat_map(|&usage| [10, 33].map(|size| rig.heap(usage, size))).collect();
    let mut spans = [Vec::new(), Vec::new()];
    for heap in &heaps {
        let DescriptorHeapDesc { usage, capacity } = heap.desc;
        let stride = limits.stride(usage.kind());
        assert!(stride >= 1, "{usage:?}");
        let address = rig.device().descriptor_heap_address(heap.raw());
        assert_eq!(address, rig.device().descriptor_heap_address(heap.raw()), "it never moves");
        if matches!(usage, DescriptorHeapVisibility::CpuOnly(_)) {
            assert_eq!(address.gpu, 0, "shaders do not see {usage:?}");
        }
        let size = u64::from(capacity) * u64::from(stride);
        for (spans, start) in spans.iter_mut().zip([address.cpu, address.gpu]) {
            if start != 0 {
                spans.push((start, start.checked_add(size).expect("the end has an address"), heap.desc));
            }
        }
    }
    for spans in &mut spans {
        spans.sort_by_key(|span| span.0);
        for pair in spans.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "{pair:?} overlap");
        }
    }
}

fn what_a_heap_stands_in_is_always_the_same<F: DescriptorFixture>(rig: &Rig<'_, F>) {
    let limits = rig.device().descriptor_limits();
    let staging = DescriptorHeapType::ALL.map(DescriptorHeapVisibility::CpuOnly);
    for usage in
        staging.into_iter().chain(ShaderVisibleHeapType::ALL.map(DescriptorHeapVisibility::ShaderVisible))
    {
        if let DescriptorHeapVisibility::ShaderVisible(kind) = usage {
            if limits.shader_visible(kind).max_capacity < 1000 {
                continue;
            }
        }
        let size = |capacity| {
            let info = rig.device().descriptor_heap_buffer(&DescriptorHeapDesc { usage, capacity })?;
            Some(rig.device().buffer_size(&info))
        };
        let some = size(1).is_some();
        for capacity in [1, 2, 100, 1000] {
            assert_eq!(size(capacity), size(capacity), "{usage:?}");
            assert_eq!(size(capacity).is_some(), some, "{usage:?}, whatever its capacity");
            let least = u64::from(capacity) * u64::from(limits.stride(usage.kind()));
            assert!(size(capacity).is_none_or(|size| size >= least), "{usage:?}, {capacity}");
        }
        let heap = rig.heap(usage, 20);
        assert_eq!(heap.memory.as_ref().map(|memory| memory.size()), size(heap.desc.capacity), "{usage:?}");
        if let Some(memory) = &heap.memory {
            let address = rig.device().descriptor_heap_address(heap.raw());
            assert_eq!(address.cpu, memory.address().addr().get() as u64, "it is in its memory");
        }
    }
}

/// Samplers that all devices can make, each different.
fn samplers() -> Vec<SamplerDesc> {
    let modes = [AddressMode::Repeat, AddressMode::MirroredRepeat, AddressMode::ClampToEdge];
    let desc = |i: usize| SamplerDesc {
        mag_filter: if i % 2 == 0 { Filter::Linear } else { Filter::Nearest },
        mip_filter: if i % 3 == 0 { Filter::Linear } else { Filter::Nearest },
        address: [modes[i % 3], modes[i / 3 % 3], modes[i / 9 % 3]],
        min_lod: i as f32 * 0.125,
        ..SamplerDesc::default()
    };
    (0..100).map(desc).collect()
}

fn samplers_are_made_written_copied_and_destroyed<F: DescriptorFixture>(rig: &Rig<'_, F>) {
    let samplers: Vec<Sampler<F>> =
        samplers().iter().map(|desc| rig.device().create_sampler(desc).unwrap()).collect();
    let staging = rig.heap(DescriptorHeapVisibility::CpuOnly(DescriptorHeapType::Sampler), 100);
    for (at, sampler) in (0..).zip(&samplers) {
        // SAFETY: of this device, and destroyed after the heaps.
        let descriptor: Descriptor<'_, F> = unsafe { rig.device().sampler_descriptor(sampler) };
        staging.write(at, &descriptor);
    }
    if rig.usable(ShaderVisibleHeapType::Sampler) >= 200 {
        let heap = rig.heap(DescriptorHeapVisibility::ShaderVisible(ShaderVisibleHeapType::Sampler), 200);
        heap.write_null(0..100);
        staging.copy_to(0, &heap, 100, 100);
        staging.copy_to(99, &heap, 0, 1);
        // SAFETY: as above.
        heap.write(1, &unsafe { rig.device().sampler_descriptor(&samplers[0]) });
        drop(heap);
    }
    drop(staging);
    for sampler in samplers {
        // SAFETY: no work was submitted that reads through it.
        unsafe { rig.device().destroy_sampler(sampler) };
    }
}

fn a_sampler_out_of_range_is_refused<F: DescriptorFixture>(rig: &Rig<'_, F>) {
    let valid = SamplerDesc::default();
    for desc in [
        SamplerDesc { lod_bias: f32::NAN, ..valid },
        SamplerDesc { lod_bias: 16.0, ..valid },
        SamplerDesc { min_lod: -1.0, ..valid },
        SamplerDesc { min_lod: 2.0, max_lod: 1.0, ..valid },
        SamplerDesc { max_lod: f32::INFINITY, ..valid },
        SamplerDesc { max_anisotropy: 0, ..valid },
        SamplerDesc { max_anisotropy: 17, ..valid },
    ] {
        let refused = rig.device().create_sampler(&desc).err();
        assert_eq!(refused, Some(DescriptionError::Sampler(desc.check().unwrap_err()).into()), "{desc:?}");
    }
}

fn threads_write_descriptors_of_one_heap_at_the_same_time<F: DescriptorFixture>(rig: &Rig<'_, F>) {
    const THREADS: u32 = 8;
    let count = rig.usable(ShaderVisibleHeapType::Resource).min(4000);
    let (heap, cells) = (rig.heap(RESOURCES, count), rig.cells(1, CELLS));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (heap, cells) = (&heap, &cells);
            // Each beside those of the others.
            scope.spawn(move || {
                for at in (thread..count).step_by(THREADS as usize) {
                    heap.write(at, &cells.descriptor(cell(at)));
                }
            });
        }
    });
    let expected: Vec<_> = (0..count).map(|at| cells.number(cell(at))).collect();
    assert_numbers(&rig.read(&heap, &(0..count).collect::<Vec<_>>()), &expected, "all");
}

fn threads_copy_to_one_heap_at_the_same_time<F: DescriptorFixture>(rig: &Rig<'_, F>) {
    const THREADS: u32 = 4;
    let each = (rig.usable(ShaderVisibleHeapType::Resource) / THREADS).min(1000);
    let count = THREADS * each;
    let (heap, staging, cells) = (rig.heap(RESOURCES, count), rig.heap(STAGING, count), rig.cells(1, CELLS));
    for at in 0..count {
        staging.write(at, &cells.descriptor(cell(at)));
    }
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (heap, staging) = (&heap, &staging);
            scope.spawn(move || {
                let (mut at, end) = (thread * each, (thread + 1) * each);
                while at < end {
                    let part = 7.min(end - at);
                    staging.copy_to(count - at - part, heap, at, part);
                    at += part;
                }
            });
        }
    });
    let source = |at: u32| {
        let (start, end) = (at / each * each, (at / each + 1) * each);
        let part = start + (at - start) / 7 * 7;
        count - part - 7.min(end - part) + (at - part)
    };
    let expected: Vec<_> = (0..count).map(|at| cells.number(cell(source(at)))).collect();
    assert_numbers(&rig.read(&heap, &(0..count).collect::<Vec<_>>()), &expected, "all");
}

fn threads_make_and_destroy_heaps_at_the_same_time<F: DescriptorFixture>(rig: &Rig<'_, F>) {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for round in 0..10 {
                    let (heap, cells) = (rig.heap(RESOURCES, 5 + round), rig.cells(100 * thread + round, 1));
                    let staging = rig.heap(STAGING, 3);
                    staging.write(2, &cells.descriptor(0));
                    staging.copy_to(2, &heap, 4, 1);
                    assert_eq!(rig.read(&heap, &[4]), [100 * thread + round]);
                }
            });
        }
    });
}
