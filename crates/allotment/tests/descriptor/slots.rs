//! Bindless slots.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;

use allotment::MemoryUsage;
use allotment::descriptor::{DescriptorError, KeepAlive};
use allotment::device::simulated::SimulatedDescriptor;
use allotment::device::{BufferUse, DescriptorDevice as _, SamplerDesc};

use crate::rig::{Heap, Rig, mapped, numbers_of, value};

#[test]
fn a_slot_is_read_at_its_index() {
    let rig = Rig::new();
    let heap = rig.resources(100, 0, 16);
    let slots: Vec<_> = (0..100).map(|i| heap.insert(&rig.number(i), None).unwrap()).collect();
    let indices: Vec<_> = slots.iter().rev().map(|slot| slot.index()).collect();
    assert_eq!(rig.read(&heap, &indices), (0..100).rev().map(value).collect::<Vec<_>>());
}

#[test]
fn a_slot_that_was_removed_is_stale_and_nothing_changes() {
    let rig = Rig::new();
    let (heap, other) = (rig.resources(4, 0, 0), rig.resources(4, 0, 0));
    let slot = heap.insert(&rig.number(0), None).unwrap();
    // One of the other heap has the same index and the same number.
    other.insert(&rig.number(0), None).unwrap();
    let before = other.statistics();
    assert_eq!(other.remove(slot), Err(DescriptorError::WrongHeap));
    assert_eq!(other.replace(slot, &rig.number(1), None), Err(DescriptorError::WrongHeap));
    assert_eq!(other.statistics(), before);
    heap.remove(slot).unwrap();
    let before = heap.statistics();
    assert_eq!(heap.remove(slot), Err(DescriptorError::Stale));
    assert_eq!(heap.replace(slot, &rig.number(1), None), Err(DescriptorError::Stale));
    assert_eq!(heap.statistics(), before);
    heap.reclaim();
    let again = heap.insert(&rig.number(2), None).unwrap();
    assert_eq!(again.index(), slot.index());
    assert_eq!(heap.remove(slot), Err(DescriptorError::Stale), "though the index is in use again");
}

#[test]
fn a_slot_and_what_it_points_at_stay_as_long_as_a_recording_that_was_open() {
    let rig = Rig::new();
    let heap = rig.resources(1, 0, 16);
    let keep: Arc<u32> = Arc::new(7);
    let slot = heap.insert(&rig.number(5), Some(keep.clone() as KeepAlive)).unwrap();
    let recording = rig.record();
    let transient = heap.begin(&recording).unwrap();
    heap.remove(slot).unwrap();
    heap.reclaim();
    assert_eq!(Arc::strong_count(&keep), 2);
    assert_eq!(numbers_of(heap.insert(&rig.number(6), None)), [1, 0, 0, 1]);
    rig.device.pause_queues();
    let reading = rig.submit_reads(recording, transient.heap(), &[slot.index()]);
    heap.reclaim();
    assert_eq!(numbers_of(heap.insert(&rig.number(6), None)), [1, 0, 0, 1], "the queue has not read it yet");
    rig.device.resume_queues();
    assert_eq!(reading.wait(), [value(5)]);
    drop(transient);
    let new = heap.insert(&rig.number(6), None).unwrap();
    assert_eq!((Arc::strong_count(&keep), new.index()), (1, slot.index()));
    assert_eq!(rig.read(&heap, &[new.index()]), [value(6)]);
}

#[test]
fn a_replaced_slot_is_another_one_and_the_old_one_is_read_until_then() {
    let rig = Rig::new();
    let heap = rig.resources(8, 0, 16);
    let old = heap.insert(&rig.number(1), None).unwrap();
    let recording = rig.record();
    let transient = heap.begin(&recording).unwrap();
    let new = heap.replace(old, &rig.number(2), None).unwrap();
    assert_ne!(old.index(), new.index());
    let reading = rig.submit_reads(recording, transient.heap(), &[old.index(), new.index()]);
    assert_eq!(reading.wait(), [value(1), value(2)]);
}

#[test]
fn a_batch_is_all_or_nothing() {
    let rig = Rig::new();
    let heap = rig.resources(2048, 0, 16);
    let some = (0..2047).map(|i| (rig.number(i), None));
    let slots = heap.insert_all(some).unwrap();
    let before = heap.statistics();
    // What another allocator did in this very place was to write past the end.
    let refused = heap.insert_all((0..13).map(|i| (rig.number(i), None)));
    assert_eq!(numbers_of(refused), [13, 1, 1, 0]);
    let mut after = heap.statistics();
    after.slots.failures -= 1;
    assert_eq!(after, before);
    assert!(heap.insert(&rig.number(9), None).is_ok(), "the one that is left");
    let indices: Vec<_> = slots.iter().map(|slot| slot.index()).collect();
    assert_eq!(rig.read(&heap, &indices), (0..2047).map(value).collect::<Vec<_>>());
}

#[test]
fn a_batch_with_a_descriptor_of_another_kind_takes_nothing() {
    let rig = Rig::new();
    let heap = rig.resources(16, 0, 0);
    let sampler = rig.device.create_sampler(&SamplerDesc::default()).unwrap();
    let wrong = SimulatedDescriptor::Sampler(&sampler);
    let batch = [(rig.number(0), None), (wrong, None), (rig.number(2), None)];
    let refused = heap.insert_all(batch.into_iter()).unwrap_err();
    assert!(matches!(refused, DescriptorError::WrongKind { .. }));
    assert_eq!(heap.statistics().slots.used, 0);
    assert_eq!(heap.insert_all((0..16).map(|i| (rig.number(i), None))).unwrap().len(), 16);
    // SAFETY: nothing uses it.
    unsafe { rig.device.destroy_sampler(sampler) };
    rig.assert_no_complaints();
}

/// A batch whose descriptors are of a buffer that its caller destroys when the batch fails, as it may.
fn a_failing_batch(rig: &Rig, heap: &Heap, how: &str) {
    let goes = mapped(&rig.allocator, 64, MemoryUsage::Upload);
    goes.write(0, &[9; 64]).unwrap();
    let keep = Arc::new(goes);
    let sampler = rig.device.create_sampler(&SamplerDesc::default()).unwrap();
    {
        let handle = keep.handle();
        // SAFETY: the buffer lives until its batch has failed, and the range lies in it.
        let of = |at| unsafe { rig.device.buffer_descriptor(&handle, at..at + 4, BufferUse::ReadOnly) };
        let good = (0..5_u32).map(|i| (of(u64::from(i) * 4), Some(keep.clone() as KeepAlive)));
        let wrong = (SimulatedDescriptor::Sampler(&sampler), None);
        match how {
            "a descriptor of another kind" => {
                let batch: Vec<_> = good.chain([wrong]).collect();
                let refused = heap.insert_all(batch.into_iter());
                assert!(matches!(refused, Err(DescriptorError::WrongKind { .. })), "{refused:?}");
            }
            "a panic" => {
                let batch =
                    good.enumerate().map(|(i, item)| if i == 3 { panic!("of the test") } else { item });
                let caught = catch_unwind(AssertUnwindSafe(|| heap.insert_all(batch)));
                assert!(caught.is_err());
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(Arc::strong_count(&keep), 1, "{how}");
    // SAFETY: no slot has it.
    unsafe { rig.device.destroy_sampler(sampler) };
}

#[test]
fn a_batch_that_fails_or_panics_leaves_no_descriptor_that_a_later_heap_would_get() {
    for how in ["a descriptor of another kind", "a panic"] {
        let rig = Rig::new();
        let heap = rig.resources(8, 4, 16);
        let stays = heap.insert(&rig.number(1), None).unwrap();
        let before = heap.statistics();
        a_failing_batch(&rig, &heap, how);
        assert_eq!(heap.statistics(), before, "{how}");
        for replace in [Heap::compact, |heap: &Heap| heap.grow(16, 4, 16)] {
            replace(&heap).unwrap();
            let recording = rig.record();
            let view = heap.begin(&recording).unwrap();
            // No shader reads these slots, which have no handle; a test may.
            let found = rig.submit_reads(recording, view.heap(), &[0, 1, 2, 3, 4, 5, 6, 7]).wait();
            assert_eq!(found, [value(1), 0, 0, 0, 0, 0, 0, 0], "{how}");
        }
        assert_eq!(stays.index(), 0);
        assert_eq!(heap.insert_all((0..15).map(|i| (rig.number(i), None))).unwrap().len(), 15, "{how}");
        rig.assert_no_complaints();
    }
}

#[test]
fn a_batch_that_has_fewer_descriptors_than_it_says_takes_as_many_slots() {
    struct Fewer(u32);
    impl Iterator for Fewer {
        type Item = u32;
        fn next(&mut self) -> Option<u32> {
            self.0 = self.0.checked_sub(1)?;
            Some(self.0)
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            (8, Some(8))
        }
    }
    impl ExactSizeIterator for Fewer {}
    let rig = Rig::new();
    let heap = rig.resources(8, 0, 16);
    let slots = heap.insert_all(Fewer(3).map(|i| (rig.number(i), None))).unwrap();
    assert_eq!((slots.len(), heap.statistics().slots.used), (3, 3));
    let indices: Vec<_> = slots.iter().map(|slot| slot.index()).collect();
    assert_eq!(rig.read(&heap, &indices), [value(2), value(1), value(0)]);
    assert_eq!(heap.insert_all((0..5).map(|i| (rig.number(i), None))).unwrap().len(), 5);
}

/// The object that a slot keeps alive, with an action when it is dropped.
struct Goodbye(Box<dyn FnMut() + Send + Sync>);

impl Drop for Goodbye {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn what_a_slot_keeps_may_come_back_to_the_heap_when_it_is_dropped_three_deep() {
    let rig = Rig::new();
    let heap = Arc::new(rig.resources(8, 16, 16));
    let inner: Arc<u32> = Arc::new(0);
    let mut keep: KeepAlive = inner.clone();
    for number in 0..3 {
        let slot = heap.insert(&rig.number(number), Some(keep)).unwrap();
        let heap = Arc::downgrade(&heap);
        keep = Arc::new(Goodbye(Box::new(move || {
            let heap = heap.upgrade().unwrap();
            heap.remove(slot).unwrap();
            drop(heap.allocate(3).unwrap());
            let _ = heap.statistics();
        })));
    }
    let slot = heap.insert(&rig.number(9), Some(keep)).unwrap();
    heap.remove(slot).unwrap();
    assert_eq!(heap.drain(crate::rig::PATIENCE).pending, 0);
    let statistics = heap.statistics();
    assert_eq!((statistics.slots.used, statistics.tables.used), (0, 0));
    assert_eq!(Arc::strong_count(&inner), 1);
}

#[test]
fn a_destructor_that_panics_loses_neither_its_slot_nor_what_is_behind_it() {
    let rig = Rig::new();
    let heap = rig.resources(8, 16, 16);
    let after: Arc<u32> = Arc::new(0);
    let bad: KeepAlive = Arc::new(Goodbye(Box::new(|| panic!("as it should"))));
    let first = heap.insert(&rig.number(1), Some(bad)).unwrap();
    let second = heap.insert(&rig.number(2), Some(after.clone())).unwrap();
    heap.remove(first).unwrap();
    heap.remove(second).unwrap();
    let caught = catch_unwind(AssertUnwindSafe(|| heap.reclaim()));
    assert!(caught.is_err());
    assert_eq!((Arc::strong_count(&after), heap.statistics().slots.used), (1, 0));
    assert!(heap.insert(&rig.number(3), None).is_ok(), "and the heap goes on");
}

#[test]
fn nothing_is_copied_that_points_at_what_is_gone() {
    let rig = Rig::new();
    let heap = rig.resources(8, 16, 16);
    let (slot, stays) =
        (heap.insert(&rig.number(1), None).unwrap(), heap.insert(&rig.number(2), None).unwrap());
    heap.remove(slot).unwrap();
    heap.reclaim();
    heap.compact().unwrap();
    // No shader reads the slot, which has no handle; a test may.
    assert_eq!(rig.read(&heap, &[slot.index(), stays.index()]), [0, value(2)]);
    rig.assert_no_complaints();
}
