//! Many threads at one heap, with a queue that reads.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use allotment::descriptor::{DescriptorError, SamplerCache, ShaderVisibleHeapDesc};
use allotment::device::SamplerDesc;

use crate::rig::{PATIENCE, Rig, value};

/// A thread that stands still with an open recording holds everything back that others retire meanwhile.
fn patiently<T>(attempt: impl Fn() -> Result<T, DescriptorError>) -> T {
    let began = std::time::Instant::now();
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(DescriptorError::Exhausted { .. }) if began.elapsed() < PATIENCE => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn threads_record_write_and_give_back_while_the_heap_is_replaced() {
    let rig = Rig::new();
    let heap = rig.resources(256, 512, 2048);
    let staging = rig.staging(64);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4_u32)
            .map(|thread| {
                let (rig, heap, staging) = (&rig, &heap, &staging);
                scope.spawn(move || {
                    for round in 0..150_u32 {
                        let number = (thread * 1000 + round * 3) % 4000;
                        // The recording first: what it sees is the heap of this moment, where later tables are not.
                        let slot = patiently(|| heap.insert(&rig.number(number), None));
                        let mut table = patiently(|| heap.allocate(3));
                        let mut staged = staging.allocate(1).unwrap();
                        staging.write(&mut staged, 0, &rig.number(number + 1)).unwrap();
                        table.copy_from(1, staging, &staged).unwrap();
                        let recording = rig.record();
                        let mut view = heap.begin(&recording).unwrap();
                        let place = match view.place(&table) {
                            Ok(place) => place,
                            Err(error) => panic!("{error}"),
                        };
                        let mut own = match view.allocate(5) {
                            Ok(own) => own,
                            Err(DescriptorError::Replaced | DescriptorError::Exhausted { .. }) => {
                                staging.free(staged).unwrap();
                                heap.remove(slot).unwrap();
                                continue;
                            }
                            Err(error) => panic!("{error}"),
                        };
                        own.copy_from(2, staging, &staged).unwrap();
                        let indices = [slot.index(), place.first + 1, own.place().first + 2];
                        staging.free(staged).unwrap();
                        let reading = rig.submit_reads(recording, view.heap(), &indices);
                        heap.remove(slot).unwrap();
                        drop((table, view));
                        assert_eq!(reading.wait(), [number, number + 1, number + 1].map(value));
                        heap.reclaim();
                    }
                })
            })
            .collect();
        let (rig, heap, done) = (&rig, &heap, &done);
        let replacing = scope.spawn(move || {
            let mut replaced = 0;
            while !done.load(Relaxed) {
                heap.compact_step(10).unwrap();
                match heap.compact() {
                    Ok(()) => replaced += 1,
                    Err(DescriptorError::StillReplacing { .. }) => std::thread::yield_now(),
                    Err(error) => panic!("{error}"),
                }
                std::thread::sleep(core::time::Duration::from_millis(1));
            }
            rig.wait_idle();
            replaced
        });
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Relaxed);
        assert!(replacing.join().unwrap() > 0);
        results.into_iter().for_each(|result| result.unwrap());
    });
    rig.wait_idle();
    heap.reclaim();
    let statistics = heap.statistics();
    assert_eq!((statistics.slots.used, statistics.tables.used, statistics.transient.used), (0, 0, 0));
    assert_eq!(staging.statistics().used, 0);
    rig.assert_no_complaints();
}

#[test]
fn threads_that_want_the_same_sampler_have_the_same_slot() {
    let rig = Rig::new();
    let cache = SamplerCache::new(rig.heap(ShaderVisibleHeapDesc::samplers())).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..2000_u32 {
                    let desc = SamplerDesc { min_lod: (round % 5) as f32, ..SamplerDesc::default() };
                    let (one, two) = (cache.get(&desc).unwrap(), cache.get(&desc).unwrap());
                    assert_eq!((one.index(), one.desc()), (two.index(), &desc));
                    if round % 64 == 0 {
                        cache.reclaim();
                    }
                }
            });
        }
    });
    cache.reclaim();
    assert!(cache.is_empty());
    assert_eq!((rig.device.usage().samplers, cache.heap().statistics().slots.used), (0, 0));
    rig.assert_no_complaints();
}
