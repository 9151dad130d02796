//! Extreme arguments: each call succeeds or returns an error, and none panics or overflows.

use core::time::Duration;

use super::*;
use crate::lifetime::DeletionQueue;
use crate::memory::OwningAllocator;

const SIZES: [u64; 8] = [0, 1, 2, 3, 63, 1 << 48, 1 << 63, u64::MAX];

#[test]
fn a_ring_of_any_capacity_serves_or_refuses_requests_of_any_size_and_alignment() {
    for capacity in SIZES {
        for (first, second) in SIZES.into_iter().flat_map(|first| SIZES.map(|second| (first, second))) {
            for shift in [0, 6, 32, 48] {
                let mut ring = Ring::new(capacity);
                let results = [ring.allocate(first, align(1 << shift)), ring.allocate(second, ONE)];
                for (size, result) in [first, second].into_iter().zip(results) {
                    let what = format!("{size} of {capacity}: {result:?}");
                    match result {
                        Ok(offset) => assert!(offset.checked_add(size).unwrap() <= capacity, "{what}"),
                        Err(RingError::ZeroSize) => assert_eq!(size, 0, "{what}"),
                        Err(RingError::NeverFits { .. }) => assert!(size > capacity, "{what}"),
                        Err(RingError::FullForNow { free, .. }) => assert!(free <= capacity, "{what}"),
                    }
                }
                ring.check_invariants();
                ring.close(point(u64::MAX));
                ring.check_invariants();
                ring.reclaim(|_| true);
                ring.discard();
                ring.check_invariants();
                assert_eq!(ring.statistics().used, 0);
            }
        }
    }
}

#[test]
fn rings_over_buffers_of_any_capacity_are_made_or_refused() {
    let rig = Rig::new("integrated");
    for capacity in SIZES {
        for usage in [0, u64::MAX] {
            let up = RingDesc::upload(capacity).with_usage(usage);
            if let Ok(mut ring) = UploadRing::new(&rig.allocator, &rig.tracker, &up) {
                assert!((1..=63).contains(&capacity));
                SIZES.into_iter().for_each(|size| _ = ring.allocate(size, align(1 << 48)).map(drop));
            }
            let down = RingDesc::readback(capacity).with_usage(usage);
            if let Ok(mut ring) = ReadbackRing::new(&rig.allocator, &rig.tracker, &down) {
                SIZES.into_iter().for_each(|size| _ = ring.allocate(size, align(1 << 48)).map(drop));
                ring.check_invariants();
            }
        }
    }
}

#[test]
fn pools_of_any_page_size_serve_or_refuse_requests_of_any_size() {
    let rig = Rig::new("integrated");
    for (page_size, kept) in SIZES.into_iter().flat_map(|size| [0, 1, u64::MAX].map(|kept| (size, kept))) {
        let desc = UploadPoolDesc::default().with_page_size(page_size).with_kept_bytes(kept);
        let pool = UploadPool::new(&rig.allocator, &rig.tracker, desc).unwrap();
        for _ in 0..2 {
            let recording = rig.tracker.record("a frame");
            let mut arena = pool.arena(recording.id());
            for size in SIZES {
                let allocated = arena.allocate(size, align(1 << 48)).map(|slice| slice.size());
                assert_eq!(allocated.is_ok(), (1..=63).contains(&size) && page_size <= 63, "{allocated:?}");
            }
            drop((arena, recording));
            pool.reclaim();
            pool.check_invariants();
        }
        pool.trim();
        pool.check_invariants();
    }
}

#[test]
fn an_uploader_with_any_amount_of_staging_writes_or_refuses_any_number_of_bytes() {
    let rig = Rig::new("discrete-no-bar");
    let memory = OwningAllocator::new(&rig.allocator, &DeletionQueue::new(&rig.tracker)).unwrap();
    let desc = AllocationOptions::new(MemoryUsage::GpuOnly);
    for staging in SIZES {
        for when_full in [
            WhenFull::Refuse,
            WhenFull::Wait(LONG),
            WhenFull::Wait(Duration::MAX),
            WhenFull::Wait(Duration::ZERO),
        ] {
            let mut uploader_desc = UploaderDesc::default();
            (uploader_desc.staging, uploader_desc.when_full) = (staging, when_full);
            let uploader = Uploader::new(&memory, uploader_desc).unwrap();
            let target = memory.create_buffer(&BufferDesc::new(100), &desc).unwrap();
            let what = format!("{staging} bytes, {when_full:?}");
            for offset in [0, 50, 100] {
                assert_eq!(uploader.update(&target, offset, &[]), Ok(()), "{what}");
                assert_eq!(uploader.initialize(&target, offset, &[]), Ok(()), "{what}");
            }
            for (offset, size) in [(101, 0), (u64::MAX, 0), (u64::MAX, 1), (100, 1), (0, 101)] {
                let refused = uploader.update(&target, offset, &vec![1; size]);
                assert!(matches!(refused, Err(UploadError::Access(_))), "{what}: {refused:?}");
            }
            assert_eq!(uploader.statistics().open_bytes, 0, "{what}");
            match uploader.update(&target, 0, &[7; 100]) {
                Ok(()) => {
                    let there = uploader.submit().unwrap();
                    assert_eq!(rig.tracker.wait_all(&there, LONG), Ok(()));
                    let mut found = [0; 100];
                    target.read(0, &mut found).unwrap_or_else(|_| {
                        let mut transfer =
                            crate::memory::Transfer::new(memory.allocator(), QUEUE, 100).unwrap();
                        target.with_raw(|raw| transfer.download(raw.allocation(), 0, &mut found)).unwrap();
                    });
                    assert_eq!(found, [7; 100], "{what}");
                }
                Err(
                    UploadError::Full { .. }
                    | UploadError::Resource(_)
                    | UploadError::TimedOut { .. }
                    | UploadError::Interrupted { .. },
                ) => {
                    uploader.discard();
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
    assert_eq!(memory.deletion_queue().drain(LONG).pending, 0);
}
