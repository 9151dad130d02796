//! The locks, the tracker and the release queue in every order that the memory model allows, with two or three
//! threads: `.ci/loom`. Empty in ordinary builds.
//!
//! The uses of an object by pending or running commands are counted. The count is read with relaxed ordering when
//! the object is dropped, so it is right only if the library orders everything before the completion before the
//! drop.

#![cfg(allotment_loom)]
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]
#![allow(dead_code, unused_imports, reason = "not all of what is included is used")]

// The library's private modules: each refers to the first as `super::checked`.
#[path = "../src/sync/checked.rs"]
mod checked;
#[path = "../src/descriptor/free_slots.rs"]
mod free_slots;
#[path = "../src/sync/inbox.rs"]
mod inbox;
#[path = "../src/memory/token/memory_objects.rs"]
mod memory_objects;
#[path = "../src/events/order.rs"]
mod order;
#[path = "../src/sync/present.rs"]
mod present;
#[path = "../src/sync/sequence.rs"]
mod sequence;
#[path = "../src/sync/shards.rs"]
mod shards;
#[path = "../src/table.rs"]
mod table;
#[path = "../src/sync/try_lock.rs"]
mod try_lock;

/// At the library's path.
mod sync {
    pub(crate) use crate::checked;
}

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::AtomicU64 as PlainU64;

use allotment::device::{QueueIndex, TimelinePoint, TimelineValue};
use allotment::lifetime::{DeletionQueue, ManualTimelines, Recording, ReleaseQueue, SubmissionTracker};
use loom::sync::Mutex;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use loom::thread;

use free_slots::FreeSlots;
use inbox::Inbox;
use memory_objects::{MemoryObject, MemoryObjects};
use order::Order;
use present::Present;
use sequence::Sequence;
use shards::Shards;
use table::{Ahead, StableTable};
use try_lock::TryLock;

const QUEUE: QueueIndex = QueueIndex(0);
const LONG: Duration = Duration::from_secs(60);

/// Runs a model in every order, or in every order with a limited number of preemptions.
fn model(name: &str, preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    static ORDERS: PlainU64 = PlainU64::new(0);
    let _one_at_a_time = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    ORDERS.store(0, std::sync::atomic::Ordering::Relaxed);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 10_000;
    builder.check(move || {
        ORDERS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        model();
    });
    let orders = ORDERS.load(std::sync::atomic::Ordering::Relaxed);
    println!("{name}: {orders} orders, preemptions {preemptions:?}");
}

/// Serializes models, so that the number of orders belongs to one.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// The true state of an object.
#[derive(Debug)]
struct Truth {
    uses: AtomicUsize,
    drops: AtomicUsize,
}

/// An object that recordings use.
#[derive(Debug)]
struct Thing(Arc<Truth>);

impl Drop for Thing {
    fn drop(&mut self) {
        assert_eq!(self.0.uses.load(Relaxed), 0, "dropped in use");
        self.0.drops.fetch_add(1, Relaxed);
    }
}

fn thing() -> (Thing, Arc<Truth>) {
    let truth = Arc::new(Truth { uses: AtomicUsize::new(0), drops: AtomicUsize::new(0) });
    (Thing(Arc::clone(&truth)), truth)
}

/// Creates a queue with one shard and a tracker of one queue.
fn rig() -> (ManualTimelines, SubmissionTracker, Arc<ReleaseQueue<Thing>>) {
    let timelines = ManualTimelines::new(1);
    let tracker = SubmissionTracker::new(timelines.clone()).unwrap();
    let released = Arc::new(ReleaseQueue::with_shards(&tracker, 1));
    (timelines, tracker, released)
}

fn submit(recording: Recording, timelines: &ManualTimelines) {
    let done = recording.submit(QUEUE, |_| Ok::<_, ()>(timelines.submit(QUEUE)));
    assert_eq!(done.unwrap().queue, QUEUE);
}

#[test]
fn one_at_a_time_has_the_lock_and_sees_what_the_one_before_did() {
    model("TryLock", None, || {
        let lock = Arc::new(TryLock::new(0));
        let add = |lock: &TryLock<u32>| {
            let Some(mut value) = lock.try_lock() else { return 0 };
            *value += 1;
            1
        };
        let threads = [(); 2].map(|()| {
            let lock = Arc::clone(&lock);
            thread::spawn(move || add(&lock))
        });
        let mut added = add(&lock);
        threads.into_iter().for_each(|thread| added += thread.join().unwrap());
        assert_eq!(*lock.try_lock().unwrap(), added);
    });
}

#[test]
fn a_word_that_is_left_is_taken_once_with_all_that_was_done_before_it() {
    model("Inbox", Some(3), || {
        let inbox = Arc::new(Inbox::new());
        // What belongs to a word, written before it is left, and how often it was taken.
        let written: Arc<[AtomicU32; 3]> = Arc::new(core::array::from_fn(|_| AtomicU32::new(0)));
        let taken = Arc::new(Mutex::new([0; 3]));
        let take = {
            let (inbox, written, taken) = (Arc::clone(&inbox), Arc::clone(&written), Arc::clone(&taken));
            move |refused: u64| {
                let mut taken = taken.lock().unwrap();
                inbox.take(|word| {
                    assert_eq!(written[word as usize].load(Relaxed), 1);
                    if word != refused {
                        taken[word as usize] += 1;
                        written[word as usize].store(2, Relaxed);
                    }
                    word != refused
                });
            }
        };
        let leave = {
            let (inbox, written) = (Arc::clone(&inbox), Arc::clone(&written));
            move |word: u64| {
                written[word as usize].store(1, Relaxed);
                let left = inbox.add(word).is_some();
                if left && inbox.is_empty() {
                    assert_eq!(
                        written[word as usize].load(Relaxed),
                        2,
                        "what was taken is seen as it was done"
                    );
                }
                left
            }
        };
        let other = {
            let leave = leave.clone();
            thread::spawn(move || [0, 1].map(&leave))
        };
        let third = {
            let (leave, take) = (leave.clone(), take.clone());
            thread::spawn(move || {
                let left = leave(2);
                take(0);
                left
            })
        };
        take(u64::MAX);
        let [first, second] = other.join().unwrap();
        let third = third.join().unwrap();
        // One refusal at most stops a call.
        take(u64::MAX);
        assert!(inbox.is_empty());
        assert_eq!(*taken.lock().unwrap(), [first, second, third].map(u32::from));
    });
}

#[test]
fn what_is_put_into_shards_is_collected_once() {
    model("Shards", Some(4), || {
        let shards = Arc::new(Shards::with_count(2, || 0_u32));
        let threads = [(); 2].map(|()| {
            let shards = Arc::clone(&shards);
            thread::spawn(move || *shards.any() += 1)
        });
        let collect = || shards.each().map(|mut shard| core::mem::take(&mut *shard)).sum::<u32>();
        let early = collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(early + collect(), 2);
    });
}

/// An engine's only handle of an object; recording threads read it, and one thread takes it.
type Alive = Arc<Mutex<Option<Thing>>>;

/// Opens a recording, uses the object if it is alive, submits, and completes.
fn record_and_run(tracker: &SubmissionTracker, timelines: &ManualTimelines, alive: &Alive) {
    let recording = tracker.record("uses it");
    let used = alive.lock().unwrap().as_ref().map(|thing| Arc::clone(&thing.0));
    if let Some(truth) = &used {
        truth.uses.fetch_add(1, Relaxed);
    }
    submit(recording, timelines);
    if let Some(truth) = used {
        truth.uses.fetch_sub(1, Relaxed);
    }
    timelines.complete_all(QUEUE);
}

#[test]
fn a_thing_that_is_retired_while_somebody_records_is_dropped_after_the_use_and_once() {
    model("record and run against retire and reclaim", None, || {
        let (timelines, tracker, released) = rig();
        let (thing, truth) = thing();
        let alive: Alive = Arc::new(Mutex::new(Some(thing)));
        let recorder = {
            let (tracker, alive) = (tracker.clone(), Arc::clone(&alive));
            thread::spawn(move || record_and_run(&tracker, &timelines, &alive))
        };
        let taken = alive.lock().unwrap().take().unwrap();
        released.retire(taken);
        released.reclaim(drop);
        recorder.join().unwrap();
        assert_eq!(released.drain(LONG, drop).pending, 0);
        assert_eq!(truth.drops.load(Relaxed), 1);
    });
}

#[test]
fn it_is_the_same_where_a_third_thread_reclaims() {
    model("record and run against retire against reclaim", Some(3), || {
        let (timelines, tracker, released) = rig();
        let (thing, truth) = thing();
        let alive: Alive = Arc::new(Mutex::new(Some(thing)));
        let recorder = {
            let (tracker, alive) = (tracker.clone(), Arc::clone(&alive));
            thread::spawn(move || record_and_run(&tracker, &timelines, &alive))
        };
        let retirer = {
            let (released, alive) = (Arc::clone(&released), Arc::clone(&alive));
            thread::spawn(move || {
                let taken = alive.lock().unwrap().take().unwrap();
                released.retire(taken);
            })
        };
        released.reclaim(drop);
        recorder.join().unwrap();
        retirer.join().unwrap();
        assert_eq!(released.drain(LONG, drop).pending, 0);
        assert_eq!(truth.drops.load(Relaxed), 1);
    });
}

#[test]
fn what_is_retired_after_something_goes_after_it_wherever_the_two_are_put() {
    for tied in [false, true] {
        model("retire two against another that retires against reclaim", Some(3), move || {
            let tracker = SubmissionTracker::new(ManualTimelines::new(1)).unwrap();
            let released = Arc::new(ReleaseQueue::with_shards(&tracker, 2));
            let retirer = {
                let released = Arc::clone(&released);
                thread::spawn(move || {
                    released.retire(1);
                    if tied {
                        released.retire_after(TimelinePoint { queue: QUEUE, value: TimelineValue(0) }, 2);
                    } else {
                        released.retire(2);
                    }
                })
            };
            // Takes the shard of the thread that retires two objects.
            let other = {
                let released = Arc::clone(&released);
                thread::spawn(move || released.retire(0))
            };
            let mut came = Vec::new();
            released.reclaim(|item| came.push(item));
            retirer.join().unwrap();
            other.join().unwrap();
            released.reclaim(|item| came.push(item));
            came.retain(|item| *item > 0);
            assert_eq!(came, [1, 2]);
        });
    }
}

#[test]
fn who_seals_sees_what_a_recording_that_was_closed_meanwhile_was_submitted_as() {
    model("close against seal", None, || {
        let (timelines, tracker, released) = rig();
        let (thing, truth) = thing();
        truth.uses.store(1, Relaxed);
        let recording = tracker.record("submitted meanwhile");
        released.retire(thing);
        let closer = {
            let timelines = timelines.clone();
            thread::spawn(move || submit(recording, &timelines))
        };
        assert_eq!(released.reclaim(drop).count, 0);
        closer.join().unwrap();
        assert_eq!(released.reclaim(drop).count, 0, "the queue has it");
        truth.uses.store(0, Relaxed);
        timelines.complete_all(QUEUE);
        assert_eq!(released.reclaim(drop).count, 1);
    });
}

#[test]
fn what_is_tied_to_a_recording_that_is_closed_meanwhile_waits_for_its_submission() {
    for kept in [false, true] {
        model("close against untie", None, move || {
            let (timelines, tracker, released) = rig();
            let (thing, truth) = thing();
            truth.uses.store(1, Relaxed);
            let mut recording = tracker.record("submitted meanwhile");
            released.retire_with(recording.id(), thing);
            let closer = {
                let timelines = timelines.clone();
                thread::spawn(move || {
                    if kept {
                        recording.submit_and_keep(QUEUE, |_| Ok::<_, ()>(timelines.submit(QUEUE))).unwrap();
                    } else {
                        submit(recording, &timelines);
                    }
                })
            };
            assert_eq!(released.reclaim(drop).count, 0);
            closer.join().unwrap();
            truth.uses.store(0, Relaxed);
            timelines.complete_all(QUEUE);
            released.reclaim(drop);
            assert_eq!(truth.drops.load(Relaxed), 1);
        });
    }
}

#[test]
fn who_drops_comes_after_all_that_the_queue_did_before_it_completed() {
    model("complete against reclaim", None, || {
        let (timelines, tracker, released) = rig();
        let (thing, truth) = thing();
        truth.uses.store(1, Relaxed);
        submit(tracker.record("runs"), &timelines);
        released.retire(thing);
        let gpu = {
            let truth = Arc::clone(&truth);
            thread::spawn(move || {
                truth.uses.store(0, Relaxed);
                timelines.complete_all(QUEUE);
            })
        };
        let other = {
            let released = Arc::clone(&released);
            thread::spawn(move || released.reclaim(drop).count)
        };
        released.reclaim(drop);
        gpu.join().unwrap();
        other.join().unwrap();
        released.reclaim(drop);
        assert_eq!(truth.drops.load(Acquire), 1);
    });
}

/// Its home outlives the model: the last reference to it would put things in an order that is not to be relied on,
/// and that the checker does not know of, since it is the standard library's.
fn deletion_queue(tracker: &SubmissionTracker) -> DeletionQueue {
    let deletion_queue = DeletionQueue::new(tracker);
    core::mem::forget(deletion_queue.own(()));
    deletion_queue
}

#[test]
fn the_last_recording_and_the_end_drop_it_once_whichever_comes_last() {
    model("close against the end", None, || {
        let timelines = ManualTimelines::new(1);
        let tracker = SubmissionTracker::new(timelines).unwrap();
        let (thing, truth) = thing();
        let deletion_queue = deletion_queue(&tracker);
        let recording = tracker.record("closed meanwhile");
        deletion_queue.retire(thing);
        let closer = thread::spawn(move || drop(recording));
        drop(deletion_queue);
        closer.join().unwrap();
        assert_eq!(truth.drops.load(Relaxed), 1);
    });
}

#[test]
fn a_late_owner_and_the_end_leave_nothing_behind_whichever_comes_last() {
    model("a late owner against the end", Some(4), || {
        let timelines = ManualTimelines::new(1);
        let tracker = SubmissionTracker::new(timelines).unwrap();
        let (thing, truth) = thing();
        let deletion_queue = deletion_queue(&tracker);
        let owned = deletion_queue.own(thing);
        // Created before any thread: the queue of a type is created through `OnceLock`, which the checker does not
        // know.
        deletion_queue.retire(self::thing().0);
        deletion_queue.reclaim();
        let recording = tracker.record("closed after both");
        truth.uses.store(1, Relaxed);
        let owner = thread::spawn(move || drop(owned));
        drop(deletion_queue);
        owner.join().unwrap();
        truth.uses.store(0, Release);
        drop(recording);
        assert_eq!(truth.drops.load(Relaxed), 1);
    });
}

/// Two threads take slots of a set of one and give them back: what one did with the slot, the other sees, and never do
/// both have it.
#[test]
fn a_slot_is_one_threads_at_a_time_and_who_has_it_next_sees_what_was_done_there() {
    model("slot set", None, || {
        let set = Arc::new(FreeSlots::new());
        set.add(0..1);
        let slot = Arc::new(checked::UnsafeCell::new(0_u32));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (set, slot) = (Arc::clone(&set), Arc::clone(&slot));
                thread::spawn(move || {
                    let Some(taken) = set.take() else { return 0 };
                    slot.with_mut(|value| {
                        // SAFETY: the holder of the slot is alone, which is what the checker looks at.
                        unsafe { *value += 1 };
                    });
                    assert!(set.give_back(taken));
                    1
                })
            })
            .collect();
        let came: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        let counted = slot.with(|value| {
            // SAFETY: both threads are over.
            unsafe { *value }
        });
        assert!(came >= 1 && came == counted);
    });
}

/// An entry of a table, whose drop the checker takes for a write, and each use for a read.
struct Watched(checked::UnsafeCell<u32>);

impl Watched {
    fn new() -> Self {
        Self(checked::UnsafeCell::new(0))
    }

    fn read(&self) {
        let _ = self.0.with(|value| {
            // SAFETY: no thread writes until it is dropped, which is what the checker looks at.
            unsafe { *value }
        });
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.with_mut(|_| {});
    }
}

/// A pool's records, and which of the first two are used.
struct Records {
    used: Mutex<[bool; 2]>,
    table: StableTable<Watched>,
}

/// A thread allocates, reads its record without the lock, and frees; another trims. The record lives as long as it is read.
#[test]
fn the_end_of_a_table_is_freed_only_when_no_thread_reads_there() {
    model("records", Some(3), || {
        let records = Arc::new(Records { used: Mutex::new([false; 2]), table: StableTable::new() });
        let threads = [0, 1].map(|index| {
            let records = Arc::clone(&records);
            thread::spawn(move || {
                let mut used = records.used.lock().unwrap();
                // In chunks of their own.
                let at = [0, 32][index];
                assert!(records.table.get_or_append(at, &mut Ahead::new(), Watched::new).is_some());
                used[index] = true;
                drop(used);
                // As through a handle.
                records.table.get(at).unwrap().read();
                records.used.lock().unwrap()[index] = false;
            })
        });
        let used = records.used.lock().unwrap();
        let from = [0, 32, 96][used.iter().rposition(|&used| used).map_or(0, |last| last + 1)];
        // SAFETY: the lock is held, and each used entry is below.
        let freed = unsafe { records.table.free_from(from, |_| true) };
        drop(used);
        drop(freed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A page is removed while another thread allocates one of its slots: exactly one of them succeeds.
#[test]
fn a_page_that_is_given_back_and_a_slot_of_it_that_is_taken_exclude_each_other() {
    model("page of slots", None, || {
        let set = Arc::new(FreeSlots::new());
        set.add(0..64);
        let other = Arc::clone(&set);
        let taker = thread::spawn(move || other.take());
        let out = set.take_out(0, 64);
        let taken = taker.join().unwrap();
        assert!(!(out && taken.is_some()));
        assert_eq!(set.free(0, 64), if out { 0 } else { 64 - u32::from(taken.is_some()) });
    });
}

/// Ordinary memory: the model finds two threads of which one writes it while the other is there.
struct Memory(checked::UnsafeCell<u32>);

// SAFETY: who reads or writes it holds off who writes it, which the model checks.
unsafe impl Sync for Memory {}

impl Memory {
    fn read(&self) -> u32 {
        // SAFETY: no thread writes it meanwhile, which the model checks.
        self.0.with(|value| unsafe { *value })
    }

    fn write(&self, new: u32) {
        // SAFETY: no other thread is there, which the model checks.
        self.0.with_mut(|value| unsafe { *value = new });
    }
}

#[test]
fn a_value_is_replaced_while_no_thread_uses_it() {
    model("Present", Some(3), || {
        let present = Arc::new(Present::with_count(2, Memory(checked::UnsafeCell::new(1))));
        let user = {
            let present = Arc::clone(&present);
            thread::spawn(move || present.read().as_ref().unwrap().read())
        };
        let mut exclusive = present.exclusive();
        exclusive.get().unwrap().write(0);
        exclusive.replace(Some(Memory(checked::UnsafeCell::new(2))));
        drop(exclusive);
        assert_eq!(present.read().as_ref().unwrap().read(), 2);
        assert_ne!(user.join().unwrap(), 0, "it is replaced once it is written");
    });
}

/// A record as far as these models need it: where an allocation is, and its generation.
struct Located {
    sequence: Sequence,
    object: AtomicU32,
    offset: AtomicU64,
    generation: AtomicU32,
}

impl Located {
    fn at(object: u32, offset: u64) -> Self {
        Self {
            sequence: Sequence::default(),
            object: AtomicU32::new(object),
            offset: AtomicU64::new(offset),
            generation: AtomicU32::new(0),
        }
    }

    /// Returns the memory and the offset in it.
    fn read(&self, objects: &MemoryObjects) -> (u64, u64) {
        self.sequence.read(|| (objects.get(self.object.load(Relaxed)).memory, self.offset.load(Relaxed)))
    }
}

fn memory(memory: u64) -> MemoryObject {
    MemoryObject { memory, size: 0, address: None }
}

#[test]
fn a_reader_of_a_record_never_finds_the_memory_that_took_the_index_of_its_own() {
    model("a move, and other memory in the place of the old one", None, || {
        let objects = MemoryObjects::new();
        let (old, new) = (objects.register(memory(7)), objects.register(memory(8)));
        let located = Arc::new(Located::at(old.index(), 70));
        let mover = thread::spawn({
            let (located, objects) = (Arc::clone(&located), Arc::clone(&objects));
            move || {
                located.sequence.write(|| {
                    located.object.store(new.index(), Relaxed);
                    located.offset.store(80, Relaxed);
                });
                drop(old);
                (new, objects.register(memory(9)))
            }
        });
        let read = located.read(&objects);
        assert!(read == (7, 70) || read == (8, 80), "{read:?}");
        drop(mover.join().unwrap());
    });
}

#[test]
fn a_reader_of_the_record_of_an_ended_allocation_finds_its_handle_stale_before_other_memory() {
    model("an end, and other memory in the place of its own", None, || {
        let objects = MemoryObjects::new();
        let own = objects.register(memory(7));
        let located = Arc::new(Located::at(own.index(), 70));
        let ends = thread::spawn({
            let (located, objects) = (Arc::clone(&located), Arc::clone(&objects));
            move || {
                located.generation.store(1, Relaxed);
                drop(own);
                objects.register(memory(9))
            }
        });
        let read = located.read(&objects);
        if located.generation.load(Relaxed) == 0 {
            assert_eq!(read, (7, 70));
        }
        drop(ends.join().unwrap());
    });
}

/// What a list of [`Order`] was given, with the number of its run.
type Given = (u64, Vec<(u64, &'static str)>);

/// See `events/lane.rs`.
#[test]
fn a_turn_is_read_after_all_that_came_before_it_and_before_all_that_came_after_it() {
    model("two lists of events", Some(3), || {
        let lists = Arc::new((Order::new(), [(); 2].map(|()| Mutex::new(Given::default()))));
        let told = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let write = |lists: &(Order, [Mutex<Given>; 2]), list: usize, turn: bool, what| {
            let mut list = lists.1[list].lock().unwrap();
            if let Some(run) = lists.0.begins(list.0, turn) {
                list.0 = run;
            }
            let run = list.0;
            list.1.push((run, what));
        };
        let first = {
            let (lists, told) = (lists.clone(), told.clone());
            thread::spawn(move || {
                write(&lists, 0, false, "early");
                told[0].store(1, Release);
                if told[1].load(Acquire) == 1 {
                    write(&lists, 0, false, "after the turn");
                }
            })
        };
        let second = {
            let (lists, told) = (lists.clone(), told.clone());
            thread::spawn(move || {
                write(&lists, 1, false, "any time");
                if told[0].load(Acquire) == 1 {
                    write(&lists, 1, true, "turn");
                    told[1].store(1, Release);
                }
            })
        };
        let read = || {
            let mut all: Vec<_> = lists.1.iter().map(|list| list.lock().unwrap()).collect();
            let mut found: Vec<_> = all.iter_mut().flat_map(|list| core::mem::take(&mut list.1)).collect();
            // Of one run, a list has them in their order.
            found.sort_by_key(|&(run, _)| run);
            found.into_iter().map(|(_, what)| what)
        };
        let mut found: Vec<_> = read().collect();
        first.join().unwrap();
        second.join().unwrap();
        found.extend(read());
        let at = |what| found.iter().position(|found| *found == what);
        if let Some(turn) = at("turn") {
            assert!(at("early") < Some(turn) && at("any time") < Some(turn), "{found:?}");
            assert!(at("after the turn").is_none_or(|after| turn < after), "{found:?}");
        }
    });
}
