//! The heaps of `descriptor` on any device: what work reads through slots, tables and chunks, also when the heap was
//! replaced and what was in it is gone.

use std::sync::Arc;

use allotment::descriptor::{
    Binding, BindingLayout, BindingSet, CpuDescriptorHeap, CpuDescriptorHeapDesc, DescriptorError,
    DescriptorRange, KeepAlive, SamplerCache, ShaderVisibleHeap, ShaderVisibleHeapDesc, TransientDescriptors,
};
use allotment::device::{DescriptorDevice as _, DescriptorHeapType, SamplerDesc, TimelinePoint};
use allotment::lifetime::{Recording, SubmissionTracker};

use super::descriptor_rig::{FIRST, Rig};
use crate::fixture::{DescriptorFixture, Fixture};

type Device<F> = <F as Fixture>::Device;

fn heap<F: DescriptorFixture>(
    rig: &Rig<'_, F>,
    tracker: &SubmissionTracker,
) -> Arc<ShaderVisibleHeap<Device<F>>> {
    let desc = ShaderVisibleHeapDesc::resources().with_regions(64, 96, 128).with_chunk(16);
    Arc::new(ShaderVisibleHeap::new(&rig.allocator, tracker, desc).unwrap())
}

fn staging<F: DescriptorFixture>(
    rig: &Rig<'_, F>,
    tracker: &SubmissionTracker,
) -> Arc<CpuDescriptorHeap<Device<F>>> {
    let desc = CpuDescriptorHeapDesc::new(DescriptorHeapType::Resource).with_page_size(64);
    Arc::new(CpuDescriptorHeap::new(&rig.allocator, tracker, desc).unwrap())
}

/// Submits a recording that reads, and returns what it finds.
fn read<F: DescriptorFixture>(
    rig: &Rig<'_, F>,
    recording: Recording,
    view: &TransientDescriptors<Device<F>>,
    indices: &[u32],
) -> Vec<u32> {
    let mut reading = None;
    let submitted = recording.submit(FIRST, |_| {
        let submitted = rig.submit_raw(&[], &[(view.heap(), indices)]);
        let value = submitted.point.value;
        reading = Some(submitted);
        Ok::<_, ()>(value)
    });
    let TimelinePoint { .. } = submitted.unwrap();
    reading.unwrap().results().remove(0)
}

fn table<F: DescriptorFixture>(
    heap: &ShaderVisibleHeap<Device<F>>,
    cells: &super::descriptor_rig::Cells<'_, '_, F>,
    numbers: core::ops::Range<u32>,
) -> DescriptorRange<Device<F>> {
    let mut range = heap.allocate(numbers.len() as u32).unwrap();
    for (at, cell) in (0..).zip(numbers) {
        range.write(at, &cells.descriptor(cell)).unwrap();
    }
    range
}

pub(crate) fn slots_tables_and_chunks_are_read_before_and_after_the_heap_is_replaced<F: DescriptorFixture>(
    rig: &Rig<'_, F>,
) {
    let tracker = SubmissionTracker::new(rig.device().clone()).unwrap();
    let cells = rig.cells(1000, 200);
    let heap = heap(rig, &tracker);
    let slots: Vec<_> = (0..64).map(|cell| heap.insert(&cells.descriptor(cell), None).unwrap()).collect();
    let tables: Vec<_> = (0..8).map(|i| table::<F>(&heap, &cells, i * 10..i * 10 + 9)).collect();
    let tables: Vec<_> = tables.into_iter().enumerate().filter(|(i, _)| i % 2 == 1).collect();
    for sizes in [None, Some((64, 96, 128)), Some((100, 200, 256))] {
        if let Some((slots, tables, transient)) = sizes {
            heap.grow(slots, tables, transient).unwrap();
        }
        let recording = tracker.record("a frame");
        let mut view = heap.begin(&recording).unwrap();
        let (mut indices, mut expected) = (Vec::new(), Vec::new());
        for (slot, cell) in slots.iter().zip(0..) {
            indices.push(slot.index());
            expected.push(cells.number(cell));
        }
        for (i, table) in &tables {
            let place = view.place(table).unwrap();
            indices.extend(place.first..place.first + place.count);
            expected.extend((0..9).map(|at| cells.number(*i as u32 * 10 + at)));
        }
        for draw in 0..14 {
            let mut own = view.allocate(5).unwrap();
            for at in 0..5 {
                own.write(at, &cells.descriptor(100 + draw + at)).unwrap();
                indices.push(own.place().first + at);
                expected.push(cells.number(100 + draw + at));
            }
        }
        assert_eq!(read(rig, recording, &view, &indices), expected, "{sizes:?}");
        drop(view);
        heap.reclaim();
    }
    drop((tables, heap));
}

pub(crate) fn a_heap_is_replaced_when_what_its_slots_pointed_at_is_gone<F: DescriptorFixture>(
    rig: &Rig<'_, F>,
) {
    let tracker = SubmissionTracker::new(rig.device().clone()).unwrap();
    let stays = rig.cells(5, 1);
    let heap = heap(rig, &tracker);
    let staging = staging(rig, &tracker);
    let left = heap.insert(&stays.descriptor(0), None).unwrap();
    {
        let goes = rig.cells(9, 20);
        let slots: Vec<_> = (0..10).map(|cell| heap.insert(&goes.descriptor(cell), None).unwrap()).collect();
        let table = table::<F>(&heap, &goes, 10..20);
        let mut run = staging.allocate(3).unwrap();
        staging.write(&mut run, 1, &goes.descriptor(3)).unwrap();
        staging.free(run).unwrap();
        slots.into_iter().for_each(|slot| heap.remove(slot).unwrap());
        drop(table);
        heap.reclaim();
    }
    // The descriptors there named buffers that were destroyed.
    let mut fresh = heap.allocate(4).unwrap();
    let run = staging.allocate(3).unwrap();
    fresh.copy_from(0, &staging, &run).unwrap();
    staging.free(run).unwrap();
    heap.compact().unwrap();
    fresh.renew().unwrap();
    let recording = tracker.record("a frame");
    let view = heap.begin(&recording).unwrap();
    assert_eq!(read(rig, recording, &view, &[left.index()]), [stays.number(0)]);
    drop((view, fresh));

    let samplers = ShaderVisibleHeapDesc::samplers().with_regions(8, 0, 0);
    let samplers = ShaderVisibleHeap::new(&rig.allocator, &tracker, samplers).unwrap();
    let cache = SamplerCache::new(samplers).unwrap();
    let kept = cache.get(&SamplerDesc::default()).unwrap();
    drop(cache.get(&SamplerDesc { min_lod: 1.0, ..SamplerDesc::default() }).unwrap());
    cache.reclaim();
    assert_eq!(cache.len(), 1);
    cache.heap().compact().unwrap();
    drop(kept);
}

pub(crate) fn a_heap_is_replaced_after_a_batch_failed_whose_buffer_is_gone<F: DescriptorFixture>(
    rig: &Rig<'_, F>,
) {
    let tracker = SubmissionTracker::new(rig.device().clone()).unwrap();
    let heap = heap(rig, &tracker);
    let stays = rig.cells(5, 1);
    let left = heap.insert(&stays.descriptor(0), None).unwrap();
    let sampler = rig.device().create_sampler(&SamplerDesc::default()).unwrap();
    {
        let goes = rig.cells(9, 4);
        // SAFETY: no heap gets it: it is of another kind.
        let wrong = unsafe { rig.device().sampler_descriptor(&sampler) };
        let batch: Vec<_> = (0..4).map(|cell| goes.descriptor(cell)).chain([wrong]).collect();
        let refused = heap.insert_all(batch.into_iter().map(|descriptor| (descriptor, None)));
        assert!(matches!(refused, Err(DescriptorError::WrongKind { .. })), "{refused:?}");
        let batch = (0..4).map(|cell| match cell {
            3 => panic!("of the test"),
            cell => (goes.descriptor(cell), None),
        });
        let caught = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| heap.insert_all(batch)));
        assert!(caught.is_err());
    }
    // SAFETY: no heap has it.
    unsafe { rig.device().destroy_sampler(sampler) };
    // What the batches wrote were descriptors of buffers that were destroyed.
    heap.compact().unwrap();
    let recording = tracker.record("a frame");
    let view = heap.begin(&recording).unwrap();
    assert_eq!(read(rig, recording, &view, &[left.index()]), [stays.number(0)]);
}

pub(crate) fn a_draw_reads_what_its_set_had_bound<F: DescriptorFixture>(rig: &Rig<'_, F>) {
    let tracker = SubmissionTracker::new(rig.device().clone()).unwrap();
    let cells = rig.cells(300, 200);
    let (heap, staging) = (heap(rig, &tracker), staging(rig, &tracker));
    let bindings = [
        Binding::mutable("material").array(2),
        Binding::static_("sky"),
        Binding::dynamic("instance").array(2),
    ];
    let layout = BindingLayout::new(&heap, &staging, &bindings).unwrap();
    layout.bind_static(1, 0, &cells.descriptor(199), None).unwrap();
    let mut set = BindingSet::new(&layout).unwrap();
    let keep: KeepAlive = Arc::new(());
    for frame in 0..4 {
        let recording = tracker.record("a frame");
        let mut view = heap.begin(&recording).unwrap();
        set.bind(0, 0, &cells.descriptor(frame), Some(keep.clone())).unwrap();
        set.bind(0, 1, &cells.descriptor(frame + 1), None).unwrap();
        let (mut indices, mut expected) = (Vec::new(), Vec::new());
        for draw in 0..10 {
            set.bind(2, draw % 2, &cells.descriptor(100 + draw), None).unwrap();
            set.bind(2, 1 - draw % 2, &cells.descriptor(50 + draw), None).unwrap();
            let committed = set.commit(&mut view).unwrap();
            for place in [committed.table.unwrap(), committed.dynamic.unwrap()] {
                indices.extend(place.first..place.first + place.count);
            }
            let dynamic = if draw % 2 == 0 { [100 + draw, 50 + draw] } else { [50 + draw, 100 + draw] };
            expected
                .extend([199, frame, frame + 1].into_iter().chain(dynamic).map(|cell| cells.number(cell)));
        }
        assert_eq!(read(rig, recording, &view, &indices), expected, "frame {frame}");
    }
    drop((set, layout));
    heap.reclaim();
    assert_eq!((heap.statistics().tables.used, Arc::strong_count(&keep)), (0, 1));
}
