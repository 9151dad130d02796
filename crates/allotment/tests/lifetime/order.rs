//! Objects of one type that become ready together are dropped in the order in which they were retired.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::scope;

use allotment::lifetime::{DeletionQueue, RecordingId, ReleaseQueue};

use crate::rig::{OTHER, QUEUE, Random, Rig, point, scaled};

/// Returns a recording that was submitted several times: its status is unknown.
fn submitted_twice(rig: &Rig) -> RecordingId {
    let mut recording = rig.tracker.record("submitted twice");
    recording.submit_and_keep(QUEUE, |queue| Ok::<_, ()>(rig.timelines.submit(queue))).unwrap();
    let id = recording.id();
    rig.submit(recording, QUEUE);
    id
}

#[test]
fn whichever_way_things_were_retired_they_go_in_that_order() {
    let rig = Rig::new(2);
    let released = ReleaseQueue::new(&rig.tracker);
    let (open, unknown) = (rig.tracker.record_explicit("a frame"), submitted_twice(&rig));
    released.retire(0);
    released.retire_with(open.id(), 1);
    released.retire(2);
    released.retire(3);
    released.retire_after(point(OTHER, 1), 4);
    released.retire_with(unknown, 5);
    released.retire_with(open.id(), 6);
    released.retire(7);
    let discarded = rig.tracker.record_explicit("discarded").id();
    released.retire_with(discarded, 8);
    released.retire(9);
    rig.submit(open, QUEUE);
    rig.run(OTHER);
    rig.complete_all();
    released.check_invariants();
    let mut came = Vec::new();
    released.reclaim(|item| came.push(item));
    assert_eq!(came, (0..10).collect::<Vec<_>>());
    released.check_invariants();
}

#[test]
fn threads_that_retire_one_after_the_other_are_not_interleaved() {
    let rig = Rig::new(1);
    let deletion_queue = DeletionQueue::new(&rig.tracker);
    let open = rig.tracker.record("open");
    for name in 0..200 {
        let retire = || deletion_queue.retire(rig.spy(name));
        // Threads have shards of their own, if several can run at once.
        scope(|scope| scope.spawn(retire).join().unwrap());
    }
    assert_eq!(deletion_queue.reclaim().count, 0);
    drop(open);
    assert_eq!(deletion_queue.reclaim().count, 200);
    assert_eq!(rig.dropped(), (0..200).collect::<Vec<_>>());
}

#[test]
fn what_is_ready_together_is_in_order_whatever_went_before() {
    for seed in 0..scaled(200) as u64 {
        let (rig, mut random) = (Rig::new(2), Random::new(seed));
        let released = ReleaseQueue::new(&rig.tracker);
        let (mut recordings, mut ids, mut submitted) = (Vec::new(), vec![submitted_twice(&rig)], [2, 0]);
        let mut came = 0;
        for name in 0..300_u32 {
            let (way, with) = (random.below(4), ids[random.below(ids.len())]);
            let after = point(QUEUE, random.next() % (submitted[0] + 2));
            let retire = || match way {
                0 => released.retire_with(with, name),
                1 => released.retire_after(after, name),
                _ => released.retire(name),
            };
            if random.one_in(3) {
                scope(|scope| scope.spawn(retire).join().unwrap());
            } else {
                retire();
            }
            if random.one_in(4) {
                recordings.push(rig.tracker.record("a frame"));
                ids.extend(recordings.last().map(allotment::lifetime::Recording::id));
            }
            if random.one_in(4) && !recordings.is_empty() {
                let recording = recordings.swap_remove(random.below(recordings.len()));
                if random.one_in(3) {
                    drop(recording);
                } else {
                    let queue = random.below(2);
                    rig.submit(recording, [QUEUE, OTHER][queue]);
                    submitted[queue] += 1;
                }
            }
            if random.one_in(5) {
                rig.timelines.complete(QUEUE, point(QUEUE, random.next() % (submitted[0] + 1)).value);
                rig.timelines.complete(OTHER, point(OTHER, random.next() % (submitted[1] + 1)).value);
            }
            if random.one_in(8) {
                let mut together = Vec::new();
                released.reclaim(|name| together.push(name));
                assert!(together.is_sorted(), "seed {seed}: {together:?}");
                came += together.len();
                released.check_invariants();
            }
        }
        drop(recordings);
        while submitted[0] < 500 {
            rig.run(QUEUE);
            submitted[0] += 1;
        }
        rig.complete_all();
        let mut together = Vec::new();
        released.reclaim(|name| together.push(name));
        assert!(together.is_sorted(), "seed {seed}: {together:?}");
        assert_eq!(came + together.len(), 300, "each once");
    }
}

/// Two threads retire objects by turns, each after the other; a third one reclaims meanwhile.
fn by_turns(name: &str, retire_all: impl FnOnce(&ReleaseQueue<u32>) + Send) {
    let rig = Rig::new(1);
    let released = ReleaseQueue::new(&rig.tracker);
    let mut last = None;
    let mut collect = || {
        released.reclaim(|object| {
            assert!(last.is_none_or(|last| last < object), "{name}: {object} after {last:?}");
            last = Some(object);
        });
        released.check_invariants();
    };
    scope(|scope| {
        let threads = scope.spawn(|| retire_all(&released));
        while !threads.is_finished() {
            collect();
            // So that several objects of both threads come together.
            std::thread::yield_now();
        }
        threads.join().unwrap();
    });
    collect();
    assert!(last.is_some());
}

#[test]
fn a_child_goes_before_its_parent_that_another_thread_retires_once_the_first_is_joined() {
    let pairs = scaled(2_000) as u32;
    by_turns("join", |released| {
        for child in (0..pairs).map(|pair| pair * 2) {
            // Once the other thread is first, once this one.
            if child % 4 == 0 {
                scope(|scope| scope.spawn(|| released.retire(child)).join().unwrap());
                released.retire(child + 1);
            } else {
                released.retire(child);
                scope(|scope| scope.spawn(|| released.retire(child + 1)).join().unwrap());
            }
        }
    });
}

#[test]
fn a_child_goes_before_its_parent_that_another_thread_retires_once_it_has_a_message() {
    let objects = scaled(100_000) as u32;
    by_turns("channel", |released| {
        let ((to_here, here), (to_there, there)) = (channel(), channel());
        // One thread retires more than the other, so that counting the objects of each is not enough.
        let answer = |each: u32, from: Receiver<u32>, to: Sender<u32>| {
            for first in from {
                (first..first + each).for_each(|object| released.retire(object));
                if first >= objects || to.send(first + each).is_err() {
                    break;
                }
            }
        };
        to_here.send(0).unwrap();
        scope(|scope| {
            scope.spawn(|| answer(3, there, to_here));
            answer(1, here, to_there);
        });
    });
}

#[test]
fn what_follows_something_goes_after_it_while_threads_meet_in_shards() {
    let each = scaled(40_000) as u64;
    let rig = Rig::new(1);
    let released = ReleaseQueue::new(&rig.tracker);
    // What a thread retires follows on what any thread has retired with the lock held.
    let (next, over) = (Mutex::new(0_u64), AtomicBool::new(false));
    let mut last = None;
    let mut collect = || {
        released.reclaim(|name| {
            assert!(last.is_none_or(|last| last < name), "{name} after {last:?}");
            last = Some(name);
        })
    };
    scope(|scope| {
        let meddler = scope.spawn(|| {
            while !over.load(Relaxed) {
                drop(rig.tracker.record("another thread's"));
                // So that shards are taken.
                let _ = released.statistics();
            }
        });
        let threads = [(); 3].map(|()| {
            scope.spawn(|| {
                for _ in 0..each {
                    let mut next = next.lock().unwrap();
                    released.retire(*next);
                    *next += 1;
                }
            })
        });
        while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            collect();
        }
        over.store(true, Relaxed);
        meddler.join().unwrap();
    });
    collect();
    assert_eq!(last, Some(3 * each - 1));
}
