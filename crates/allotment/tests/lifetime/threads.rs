//! Eight threads record, submit, retire and reclaim, and a ninth plays the GPU. Each object counts the recordings
//! and submissions that use it; the count must be zero when it is dropped.

use core::ops::Deref;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread::scope;

use allotment::device::{QueueIndex, TimelineValue};
use allotment::lifetime::{
    DeletionQueue, ManualTimelines, Owned, Recording, ReleaseQueue, SubmissionTracker,
};

use crate::rig::{Random, scaled};

const THREADS: u64 = 8;
const QUEUES: usize = 3;
/// Live objects that all threads use.
const SHARED: usize = 64;
/// Recordings to be submitted, by any thread.
const WAITING: usize = 16;

/// The number of recordings and submissions that use an object. Outlives it.
#[derive(Debug, Default)]
struct Uses(AtomicU64);

/// Objects created and dropped.
#[derive(Debug, Default)]
struct Counts {
    made: AtomicU64,
    dropped: AtomicU64,
    dropped_in_use: AtomicU64,
}

#[derive(Debug)]
struct Thing {
    uses: Arc<Uses>,
    counts: Arc<Counts>,
}

impl Drop for Thing {
    fn drop(&mut self) {
        self.counts.dropped.fetch_add(1, Relaxed);
        if self.uses.0.load(Acquire) > 0 {
            // Counted instead of panicking: the test reports the number.
            self.counts.dropped_in_use.fetch_add(1, Relaxed);
        }
    }
}

/// How an object that all threads use is owned.
enum Handle {
    Bare(Thing),
    Owned(Owned<Thing>),
    Shared(Arc<Owned<Thing>>),
}

impl Deref for Handle {
    type Target = Thing;

    fn deref(&self) -> &Thing {
        match self {
            Self::Bare(thing) => thing,
            Self::Owned(thing) => thing,
            Self::Shared(thing) => thing,
        }
    }
}

/// A recording to be submitted, and the objects that it uses.
struct Waiting {
    recording: Recording,
    uses: Vec<Arc<Uses>>,
}

/// Submitted and not completed work of a queue.
#[derive(Default)]
struct InFlight {
    submissions: VecDeque<(TimelineValue, Vec<Arc<Uses>>)>,
    lost: bool,
}

struct World {
    timelines: ManualTimelines,
    tracker: SubmissionTracker,
    released: ReleaseQueue<Thing>,
    deletion_queue: DeletionQueue,
    things: Mutex<Vec<Handle>>,
    waiting: Mutex<Vec<Waiting>>,
    queues: [Mutex<InFlight>; QUEUES],
    counts: Arc<Counts>,
}

fn forget(uses: Vec<Arc<Uses>>) {
    for uses in uses {
        uses.0.fetch_sub(1, Release);
    }
}

impl World {
    fn new() -> Self {
        let timelines = ManualTimelines::new(QUEUES);
        let tracker = SubmissionTracker::new(timelines.clone()).unwrap();
        let world = Self {
            timelines,
            released: ReleaseQueue::new(&tracker),
            deletion_queue: DeletionQueue::new(&tracker),
            tracker,
            things: Mutex::default(),
            waiting: Mutex::default(),
            queues: Default::default(),
            counts: Arc::default(),
        };
        let things = (0..SHARED).map(|i| world.make(i)).collect();
        *world.things.lock().unwrap() = things;
        world
    }

    fn thing(&self) -> Thing {
        self.counts.made.fetch_add(1, Relaxed);
        Thing { uses: Arc::default(), counts: Arc::clone(&self.counts) }
    }

    fn make(&self, i: usize) -> Handle {
        match i % 3 {
            0 => Handle::Bare(self.thing()),
            1 => Handle::Owned(self.deletion_queue.own(self.thing())),
            _ => Handle::Shared(Arc::new(self.deletion_queue.own(self.thing()))),
        }
    }

    /// Records some uses of live objects.
    fn record(&self, random: &mut Random) -> Waiting {
        let explicit = random.one_in(4);
        let recording =
            if explicit { self.tracker.record_explicit("explicit") } else { self.tracker.record("holding") };
        let mut uses = Vec::new();
        for _ in 0..1 + random.below(4) {
            let things = self.things.lock().unwrap();
            let handle = &things[random.below(SHARED)];
            match handle {
                Handle::Shared(shared) if explicit => self.deletion_queue.keep(&recording, shared),
                // An explicit recording must not use an object that it cannot keep.
                _ if explicit => continue,
                _ => {}
            }
            handle.uses.0.fetch_add(1, Relaxed);
            uses.push(Arc::clone(&handle.uses));
        }
        // An object that only this recording uses: retired with it.
        let own = self.thing();
        own.uses.0.fetch_add(1, Relaxed);
        uses.push(Arc::clone(&own.uses));
        match random.below(3) {
            0 => self.released.retire_with(recording.id(), own),
            // SAFETY: the object's count reveals any other use.
            1 => unsafe { self.deletion_queue.own(own).retire_with(recording.id()) },
            _ if explicit => self.deletion_queue.retire_with(recording.id(), own),
            _ => self.released.retire(own),
        }
        Waiting { recording, uses }
    }

    fn submit(&self, waiting: Waiting, random: &mut Random) {
        let Waiting { mut recording, uses } = waiting;
        if random.one_in(8) {
            forget(uses);
            return drop(recording);
        }
        let index = random.below(QUEUES);
        let queue = QueueIndex(index as u8);
        let give = |uses: Vec<Arc<Uses>>| {
            let mut in_flight = self.queues[index].lock().unwrap();
            if in_flight.lost {
                return Err(uses);
            }
            let value = self.timelines.submit(queue);
            in_flight.submissions.push_back((value, uses));
            Ok(value)
        };
        if random.one_in(6) {
            for uses in &uses {
                uses.0.fetch_add(1, Relaxed);
            }
            let kept = recording.submit_and_keep(queue, |_| give(uses.clone()));
            if let Err(uses) = kept {
                forget(uses);
            }
        }
        match recording.submit(queue, |_| give(uses)) {
            Ok(done) if random.one_in(2) => self.released.retire_after(done, self.thing()),
            Ok(_) => {}
            Err(refused) => {
                forget(refused.error);
                drop(refused.recording);
            }
        }
    }

    /// Replaces an object, and retires the old one.
    fn replace(&self, random: &mut Random) {
        let which = random.below(SHARED);
        let new = self.make(random.below(3));
        let old = core::mem::replace(&mut self.things.lock().unwrap()[which], new);
        match old {
            Handle::Bare(thing) if random.one_in(2) => self.released.retire(thing),
            Handle::Bare(thing) => self.deletion_queue.retire(thing),
            Handle::Owned(owned) => drop(owned),
            Handle::Shared(shared) => drop(shared),
        }
    }

    fn work(&self, seed: u64, rounds: usize) {
        let mut random = Random::new(seed);
        for _ in 0..rounds {
            match random.below(16) {
                0..5 => {
                    let new = self.record(&mut random);
                    let mut waiting = self.waiting.lock().unwrap();
                    let old = (waiting.len() >= WAITING).then(|| waiting.swap_remove(random.below(WAITING)));
                    waiting.push(new);
                    drop(waiting);
                    if let Some(old) = old {
                        self.submit(old, &mut random);
                    }
                }
                5 => {
                    let waiting = self.waiting.lock().unwrap().pop();
                    if let Some(waiting) = waiting {
                        self.submit(waiting, &mut random);
                    }
                }
                6..14 => self.replace(&mut random),
                14 => drop(self.released.reclaim(drop)),
                _ => drop(self.deletion_queue.reclaim()),
            }
        }
    }

    /// Completes submitted work until there is none left and no thread that submits more.
    fn play_the_gpu(&self, nobody_submits: &AtomicBool) {
        loop {
            let last_look = nobody_submits.load(Acquire);
            let mut idle = true;
            for (queue, in_flight) in (0..).map(QueueIndex).zip(&self.queues) {
                // Under the lock, or the device could be lost between what was taken out and what is forgotten.
                let mut in_flight = in_flight.lock().unwrap();
                let next = in_flight.submissions.pop_front().map(|(value, uses)| {
                    forget(uses);
                    value
                });
                drop(in_flight);
                if let Some(value) = next {
                    idle = false;
                    self.timelines.complete(queue, value);
                }
            }
            if idle && last_look {
                return;
            }
            if idle {
                std::thread::yield_now();
            }
        }
    }

    /// Loses the device, with everything in flight.
    fn lose_device(&self) {
        let mut queues = self.queues.each_ref().map(|queue| queue.lock().unwrap());
        for in_flight in &mut queues {
            in_flight.lost = true;
            in_flight.submissions.drain(..).for_each(|(_, uses)| forget(uses));
        }
        self.timelines.lose_device();
    }
}

fn eight_threads(rounds: usize, is_lost: bool) {
    let world = World::new();
    let nobody_submits = AtomicBool::new(false);
    scope(|scope| {
        let world = &world;
        scope.spawn(|| world.play_the_gpu(&nobody_submits));
        let workers: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || world.work(thread, rounds))).collect();
        if is_lost {
            // In the midst of the work; or after it, where the GPU was too late for so many drops.
            let works = |worker: &std::thread::ScopedJoinHandle<'_, ()>| !worker.is_finished();
            while world.counts.dropped.load(Relaxed) < rounds as u64 && workers.iter().any(works) {
                std::thread::yield_now();
            }
            world.lose_device();
        }
        let joined: Vec<_> = workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        // Before anything is unwrapped, or the GPU would play for ever.
        nobody_submits.store(true, Release);
        joined.into_iter().for_each(|joined| joined.unwrap());
    });
    for Waiting { recording, uses } in world.waiting.into_inner().unwrap() {
        forget(uses);
        drop(recording);
    }
    for handle in world.things.into_inner().unwrap() {
        match handle {
            Handle::Bare(thing) => world.deletion_queue.retire(thing),
            Handle::Owned(owned) => drop(owned),
            Handle::Shared(shared) => drop(shared),
        }
    }
    let long = Duration::from_secs(60);
    assert_eq!(world.released.drain(long, drop).pending, 0);
    assert_eq!(world.deletion_queue.drain(long).pending, 0);
    let Counts { made, dropped, dropped_in_use } = &*world.counts;
    let [made, dropped, dropped_in_use] = [made, dropped, dropped_in_use].map(|count| count.load(Acquire));
    println!("{made} things, {dropped} dropped");
    assert_eq!(dropped_in_use, 0, "of {made} things are dropped in use");
    assert_eq!(dropped, made, "each once");
    assert!(made > rounds as u64, "there was something to drop");
}

#[test]
fn eight_threads_and_a_gpu_drop_nothing_in_use_and_everything_once() {
    eight_threads(scaled(60_000), false);
}

#[test]
fn eight_threads_and_a_gpu_that_is_lost_drop_nothing_in_use_and_everything_once() {
    for _ in 0..4 {
        eight_threads(scaled(10_000), true);
    }
}

#[test]
fn owners_that_are_dropped_on_many_threads_while_everything_ends_go_once() {
    for round in 0..scaled(300) as u64 {
        let timelines = ManualTimelines::new(1);
        let tracker = SubmissionTracker::new(timelines).unwrap();
        let counts = Arc::new(Counts::default());
        let deletion_queue = DeletionQueue::new(&tracker);
        let own = |_| {
            counts.made.fetch_add(1, AcqRel);
            deletion_queue.own(Thing { uses: Arc::default(), counts: Arc::clone(&counts) })
        };
        let owners: Vec<Vec<_>> = (0..4).map(|_| (0..20).map(own).collect()).collect();
        scope(|scope| {
            let tracker = &tracker;
            for (i, owners) in owners.into_iter().enumerate() {
                scope.spawn(move || {
                    let mut random = Random::new(round * 4 + i as u64);
                    for owned in owners {
                        let recording = tracker.record("while everything ends");
                        if random.one_in(2) {
                            // SAFETY: as above.
                            unsafe { owned.retire_with(recording.id()) };
                        } else {
                            drop(owned);
                        }
                    }
                });
            }
            scope.spawn(move || drop(deletion_queue));
        });
        let [made, dropped] = [&counts.made, &counts.dropped].map(|count| count.load(Acquire));
        assert_eq!(made, dropped, "round {round}");
    }
}
