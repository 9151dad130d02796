//! Many threads on one allocator: bytes stay whose they are, and looking never hurts.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::scope;

use allotment::device::MemoryTypeIndex;
use allotment::device::simulated::SimulatedGpu;
use allotment::memory::ExpectedLifetime;
use allotment::memory::blocks::{BlockSize, EmptyBlockPolicy};
use allotment::{Algorithm, Allocation, Allocator, MemoryUsage, PoolDesc, Requirements};

use crate::rig::{
    AllocateWanted as _, DISCRETE, KIB, MIB, MOBILE, Rig, Wanted, profile, small_blocks, wanted,
};

const THREADS: u64 = 8;

/// Numbers that look like chance and are the same each time.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 11
}

fn random_wish(state: &mut u64) -> Wanted {
    let size = 1 + next(state) % if next(state) % 50 == 0 { 700 * KIB } else { 5 * KIB };
    let memory_usage = [MemoryUsage::Upload, MemoryUsage::Readback][next(state) as usize % 2];
    let lifetime = [ExpectedLifetime::Long, ExpectedLifetime::Short][next(state) as usize % 2];
    wanted(size, memory_usage).with_lifetime(lifetime)
}

/// Tells other threads to stop, even when the one that works panics.
struct StopWhenDropped<'a>(&'a AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Fills an allocation's ends with a byte, or checks that they still hold it.
fn mark(allocator: &Allocator<SimulatedGpu>, allocation: &Allocation, byte: u8, check: bool) {
    let size = allocator.location(allocation).unwrap().size;
    let len = size.min(64) as usize;
    for offset in [0, size - len as u64] {
        if check {
            let mut bytes = [0; 64];
            allocator.read(allocation, offset, &mut bytes[..len]).unwrap();
            assert!(bytes[..len].iter().all(|&found| found == byte), "bytes of another allocation");
        } else {
            allocator.write(allocation, offset, &[byte; 64][..len]).unwrap();
        }
    }
}

/// Allocates, writes, reads and frees, and never holds more than 30 at once.
fn work(thread: u64, rounds: u64, allocate: impl Fn(&Wanted) -> Allocation, rig: &Rig) {
    let mut state = (thread + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut live: Vec<(Allocation, u8)> = Vec::new();
    for round in 0..rounds {
        if live.len() < 30 && next(&mut state) % 3 != 0 {
            let byte = (thread * 31 + round) as u8;
            let allocation = allocate(&random_wish(&mut state));
            mark(rig, &allocation, byte, false);
            live.push((allocation, byte));
        } else if !live.is_empty() {
            let (allocation, byte) = live.swap_remove(next(&mut state) as usize % live.len());
            mark(rig, &allocation, byte, true);
            rig.free(allocation).unwrap();
        }
    }
    for (allocation, byte) in live {
        mark(rig, &allocation, byte, true);
        rig.free(allocation).unwrap();
    }
}

#[test]
fn eight_threads_allocate_write_read_and_free_without_meeting_each_other() {
    for name in [DISCRETE, MOBILE] {
        for (algorithm, empty_blocks) in
            [(Algorithm::Tlsf, EmptyBlockPolicy::default()), (Algorithm::Buddy, EmptyBlockPolicy::NONE)]
        {
            let rig = Rig::with(profile(name), |desc| {
                (desc.algorithm, desc.empty_blocks) = (algorithm, empty_blocks);
                desc.block_sizes = small_blocks(64 * KIB, 256 * KIB);
            });
            scope(|scope| {
                for thread in 0..THREADS {
                    let rig = &rig;
                    scope.spawn(move || work(thread, 400, |desc| rig.allocate_wanted(desc).unwrap(), rig));
                }
            });
            rig.check_invariants();
        }
    }
}

#[test]
fn threads_share_a_custom_pool() {
    let rig = Rig::new(MOBILE);
    let mut desc = PoolDesc::new([1, 0].map(MemoryTypeIndex));
    desc.empty_blocks = EmptyBlockPolicy::NONE;
    let pool = rig.create_pool(desc).unwrap();
    scope(|scope| {
        for thread in 0..THREADS {
            let (rig, pool) = (&rig, &pool);
            scope.spawn(move || work(thread, 300, |desc| rig.allocate_wanted_in(pool, desc).unwrap(), rig));
        }
    });
    rig.destroy_pool(pool).unwrap();
}

/// Looks at a custom pool and tidies it while threads that split it into shards allocate and free.
#[test]
fn threads_that_split_a_custom_pool_leave_it_with_its_minimum_of_blocks() {
    let rig = Rig::with(profile(DISCRETE), |desc| desc.threads = 4);
    let mut desc = PoolDesc::new([MemoryTypeIndex(1)]);
    desc.sizing = Some(BlockSize::Growing(small_blocks(64 * KIB, 256 * KIB)));
    (desc.empty_blocks, desc.min_blocks) = (EmptyBlockPolicy::NONE, 3);
    let pool = rig.create_pool(desc).unwrap();
    let done = AtomicBool::new(false);
    scope(|scope| {
        let (rig, pool) = (&rig, &pool);
        let _stop = StopWhenDropped(&done);
        let workers = [0, 1, 2, 3].map(|thread| {
            scope.spawn(move || {
                work(thread, 2000, |desc| rig.allocate_wanted_in(pool, desc).unwrap(), rig);
            })
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let statistics = rig.reports().pool_statistics(pool).unwrap();
                assert!(statistics.free() <= statistics.block_bytes);
                rig.reports().detailed_pool_statistics(pool).unwrap();
                serde_json::from_str::<serde_json::Value>(&rig.reports().dump_json())
                    .expect("a dump is JSON");
                let options = MemoryUsage::Upload.with_pool(pool);
                rig.preview(&Requirements::new(KIB), &options).unwrap();
                rig.end_frame();
                rig.maintain();
                rig.trim();
            }
        });
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
    rig.check_invariants();
    rig.trim();
    let statistics = rig.reports().pool_statistics(&pool).unwrap();
    assert_eq!((statistics.blocks, statistics.dedicated, rig.objects()), (3, 0, 3));
    rig.destroy_pool(pool).unwrap();
}

/// Whatever is asked, while others allocate and free, is answered without a panic, and every answer is
/// possible.
#[test]
fn looking_trimming_and_ending_frames_while_others_allocate_never_hurts() {
    let rig = Rig::with(profile(DISCRETE), |desc| {
        desc.block_sizes = small_blocks(64 * KIB, 256 * KIB);
        desc.threads = 2;
    });
    // At most 30 are live in each thread, and each shard is looked at in a moment of its own.
    let most = 90 * 2;
    let done = AtomicBool::new(false);
    scope(|scope| {
        let rig = &rig;
        let _stop = StopWhenDropped(&done);
        let workers = [0, 1, 2].map(|thread| {
            scope.spawn(move || work(thread, 3000, |desc| rig.allocate_wanted(desc).unwrap(), rig))
        });
        let look = || {
            while !done.load(Ordering::Relaxed) {
                let statistics = rig.statistics();
                assert!(statistics.allocations <= most && statistics.free() <= statistics.block_bytes);
                assert!(rig.reports().leaks().len() <= most as usize);
                assert!(
                    rig.reports().memory_heaps().iter().all(|report| report.reserved <= report.peak_reserved)
                );
                serde_json::from_str::<serde_json::Value>(&rig.reports().dump_json())
                    .expect("a dump is JSON");
                let _ = rig.preview_wanted(&wanted(KIB, MemoryUsage::Upload));
                rig.refresh_budgets();
            }
        };
        let tidy = || {
            while !done.load(Ordering::Relaxed) {
                rig.end_frame();
                rig.trim();
                std::thread::yield_now();
            }
        };
        scope.spawn(look);
        scope.spawn(tidy);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

/// Frees that find the lock taken are left to the thread that has it: bytes stay whose they are, and whoever has freed sees it.
#[test]
fn what_other_threads_free_is_free_for_whoever_looks() {
    let rig = Rig::with(profile(DISCRETE), |desc| {
        desc.block_sizes = small_blocks(64 * KIB, 256 * KIB);
        desc.threads = 2;
    });
    let ended = AtomicBool::new(false);
    scope(|scope| {
        let rig = &rig;
        let _stop = StopWhenDropped(&ended);
        let pairs = [0, 1, 2].map(|pair: u64| {
            let (send, receive) = sync_channel::<(Allocation, u8)>(100);
            let allocates = scope.spawn(move || {
                let mut state = (pair + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                for round in 0..6000 {
                    let (byte, mut desc) = ((pair * 31 + round) as u8, random_wish(&mut state));
                    if next(&mut state) % 9 == 0 {
                        desc = desc.with_name("handed over");
                    }
                    let allocation = rig.allocate_wanted(&desc).unwrap();
                    mark(rig, &allocation, byte, false);
                    send.send((allocation, byte)).unwrap();
                }
            });
            let frees = scope.spawn(move || {
                for (at, (allocation, byte)) in receive.into_iter().enumerate() {
                    mark(rig, &allocation, byte, true);
                    let id = allocation.id();
                    rig.free(allocation).unwrap();
                    if at % 500 == 0 {
                        assert!(rig.reports().info(id).is_err(), "the thread that freed it sees that");
                    }
                }
            });
            [allocates, frees]
        });
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                rig.end_frame();
                rig.trim();
                assert!(rig.reports().leaks().len() < 3 * 200, "those on the way, and no others");
                std::thread::yield_now();
            }
        });
        pairs.into_iter().flatten().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!(rig.statistics().allocations, 0);
    rig.check_invariants();
}

/// A place is read without a lock, while its neighbours come and go in the same records.
#[test]
fn a_place_reads_the_same_whatever_others_do() {
    let rig = Rig::new(DISCRETE);
    let done = AtomicBool::new(false);
    let kept = rig.allocate_wanted(&wanted(KIB, MemoryUsage::Upload)).unwrap();
    let expected = rig.location(&kept).unwrap();
    let (memory, offset) = (expected.memory, expected.offset);
    scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let place = rig.location(&kept).unwrap();
                    assert_eq!((place.memory, place.offset, place.size), (memory, offset, KIB));
                }
            });
        }
        let _stop = StopWhenDropped(&done);
        work(1, 3000, |desc| rig.allocate_wanted(desc).unwrap(), &rig);
    });
    rig.free(kept).unwrap();
}

#[test]
fn what_one_thread_allocates_another_frees() {
    let rig = Rig::new(DISCRETE);
    let (send, receive) = sync_channel::<(Allocation, u8)>(100);
    scope(|scope| {
        scope.spawn(|| {
            for (allocation, byte) in receive {
                mark(&rig, &allocation, byte, true);
                rig.free(allocation).unwrap();
            }
        });
        let mut state = 7;
        for round in 0..3000 {
            let allocation = rig.allocate_wanted(&random_wish(&mut state)).unwrap();
            mark(&rig, &allocation, round as u8, false);
            send.send((allocation, round as u8)).unwrap();
        }
        drop(send);
    });
}

#[test]
fn a_request_for_all_that_was_freed_is_served_although_another_thread_frees_all_the_time() {
    const SIZES: [u64; 5] = [100, 400, 1500, 3000, 9000];
    let rig = Rig::new(DISCRETE);
    let mut desc = PoolDesc::new([MemoryTypeIndex(0)]);
    (desc.sizing, desc.max_blocks) = (Some(BlockSize::Fixed(4 * MIB)), 1);
    for round in 0..20 {
        let pool = rig.create_pool(desc.clone()).unwrap();
        let in_pool = |size| rig.allocate_wanted_in(&pool, &wanted(size, MemoryUsage::GpuOnly));
        // The lower three quarters of the block are this thread's, the upper quarter is the other's.
        let mut own: Vec<Allocation> = Vec::new();
        let mut bytes = 0;
        for &size in SIZES.iter().cycle().skip(round) {
            if bytes + size > 3 * MIB {
                break;
            }
            own.push(in_pool(size).unwrap());
            bytes += size;
        }
        let rest = in_pool(4 * MIB - bytes).unwrap();
        let (done, begun) = (AtomicBool::new(false), AtomicBool::new(false));
        scope(|scope| {
            let _stop = StopWhenDropped(&done);
            let other = scope.spawn(|| {
                rig.free(rest).unwrap();
                while !done.load(Ordering::Relaxed) {
                    let few: Vec<_> = SIZES.iter().filter_map(|&size| in_pool(size).ok()).collect();
                    few.into_iter().for_each(|allocation| rig.free(allocation).unwrap());
                    begun.store(true, Ordering::Relaxed);
                }
            });
            while !begun.load(Ordering::Relaxed) && !other.is_finished() {
                std::thread::yield_now();
            }
            own.into_iter().for_each(|allocation| rig.free(allocation).unwrap());
            // The other thread has five small ranges at most, wherever they are: of the parts between them, one is
            // larger than this.
            let most = (4 * MIB - SIZES.iter().sum::<u64>()) / 6;
            let all = in_pool(most).expect("the ranges of the quick lists make room");
            rig.free(all).unwrap();
        });
        rig.check_invariants();
        rig.destroy_pool(pool).unwrap();
    }
}

/// Threads that free and allocate at random among allocations of their own, more of them than shards: each is served,
/// the bytes stay whose they are, and all shards together hold no more than the bound derived below.
#[test]
fn more_threads_than_shards_are_all_served_and_the_memory_stays_compact() {
    const CROWD: u64 = 12;
    const LIVE: usize = 250;
    for shards in [1, 3, 64] {
        let rig = Rig::with(profile(DISCRETE), |desc| {
            (desc.threads, desc.block_sizes) = (shards, small_blocks(64 * KIB, 256 * KIB));
        });
        let gate = std::sync::Barrier::new(CROWD as usize + 1);
        scope(|scope| {
            let threads: Vec<_> = (0..CROWD)
                .map(|thread| {
                    let (rig, gate) = (&rig, &gate);
                    scope.spawn(move || {
                        let mut state = (thread + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                        let allocate = |state: &mut u64| {
                            let size = 64 + next(state) % (4 * KIB);
                            let got = rig.allocate_wanted(&wanted(size, MemoryUsage::Upload)).unwrap();
                            mark(rig, &got, thread as u8, false);
                            got
                        };
                        let mut live: Vec<_> = (0..LIVE).map(|_| allocate(&mut state)).collect();
                        for _ in 0..2000 {
                            let at = next(&mut state) as usize % LIVE;
                            let freed = core::mem::replace(&mut live[at], allocate(&mut state));
                            mark(rig, &freed, thread as u8, true);
                            rig.free(freed).unwrap();
                        }
                        gate.wait();
                        // All are live here.
                        gate.wait();
                        for allocation in live {
                            mark(rig, &allocation, thread as u8, true);
                            rig.free(allocation).unwrap();
                        }
                    })
                })
                .collect();
            gate.wait();
            rig.check_invariants();
            let statistics = rig.statistics();
            gate.wait();
            assert_eq!(u64::from(statistics.allocations), CROWD * LIVE as u64);
            let copies = u64::from(shards).min(CROWD);
            // All threads begin in the first shard. A thread may leave it only after all allocations were made, so the
            // first shard can keep blocks for all of them, and each other shard has blocks for its own threads. When a
            // thread leaves depends on the load of the machine. We add a quarter for holes, and one partly filled block
            // for each shard.
            let live = statistics.allocation_bytes;
            let in_shards = live + live * (copies - 1) / copies;
            let most = if copies == 1 { live * 3 / 2 } else { in_shards * 5 / 4 } + copies * 256 * KIB;
            assert!(statistics.block_bytes <= most, "{shards} shards: {statistics:?}, at most {most}");
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        rig.check_invariants();
    }
}

/// Reserved memory of threads with little each: contention alone does not give each of them a block.
#[test]
fn threads_with_few_small_allocations_share_their_blocks_however_much_they_contend() {
    const CROWD: u64 = 16;
    let rig = Rig::with(profile(DISCRETE), |desc| {
        (desc.threads, desc.block_sizes) = (64, small_blocks(MIB, MIB));
    });
    let gate = std::sync::Barrier::new(CROWD as usize);
    let most = scope(|scope| {
        let threads: Vec<_> = (0..CROWD)
            .map(|thread| {
                let (rig, gate) = (&rig, &gate);
                scope.spawn(move || {
                    let one = wanted(256, MemoryUsage::Upload);
                    let mut live: Vec<_> = (0..16).map(|_| rig.allocate_wanted(&one).unwrap()).collect();
                    gate.wait();
                    let mut most = 0;
                    for round in 0..5000 {
                        let freed =
                            core::mem::replace(&mut live[round % 16], rig.allocate_wanted(&one).unwrap());
                        rig.free(freed).unwrap();
                        if round % 100 == thread as usize {
                            most = most.max(rig.statistics().block_bytes);
                        }
                    }
                    gate.wait();
                    live.into_iter().for_each(|allocation| rig.free(allocation).unwrap());
                    most
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap()
    });
    assert_eq!(most, MIB, "one block for 64 KiB");
}
