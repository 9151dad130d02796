//! The rule against an oracle that knows every use: which recording uses which object, and what was submitted and
//! completed. Steps are random, as an engine could take them: only live objects are used.

use core::cell::RefCell;
use core::time::Duration;
use std::sync::Arc;

use allotment::device::{QueueIndex, TimelinePoint};
use allotment::lifetime::{
    DeletionQueue, ManualTimelines, Owned, Recording, RecordingId, ReleaseQueue, SubmissionTracker,
};

use crate::rig::{Random, point, scaled};

const QUEUES: usize = 3;

/// The number of retirements of the test.
const RETIREMENTS: usize = 1_000_000;

thread_local! {
    /// Dropped objects that the oracle has not processed yet.
    static DROPPED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// An object that recordings use, identified by a number.
#[derive(Debug)]
struct Thing(usize);

impl Drop for Thing {
    fn drop(&mut self) {
        DROPPED.with_borrow_mut(|dropped| dropped.push(self.0));
    }
}

/// How the engine owns a live object.
enum Handle {
    Bare(Thing),
    Shared(Arc<Thing>),
    Owned(Owned<Thing>),
}

/// The true state of an object.
#[derive(Default)]
struct Truth {
    /// Recordings that use it.
    users: Vec<usize>,
    retired: bool,
    dropped: bool,
    /// The recording or point that it was tied to may come later than all uses.
    tied: bool,
}

/// The true state of a recording.
struct Recorded {
    id: RecordingId,
    open: bool,
    points: Vec<TimelinePoint>,
}

/// An open recording.
struct Open {
    recording: Recording,
    index: usize,
    explicit: bool,
}

/// How a world ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// Everything is closed and completed.
    Tidy,
    /// The device is lost, with recordings open and work in flight.
    Lost,
    /// No reclaim any more, with open recordings and live owners.
    Abrupt,
}

struct World {
    random: Random,
    timelines: ManualTimelines,
    tracker: SubmissionTracker,
    bare: ReleaseQueue<Thing>,
    shared: ReleaseQueue<Arc<Thing>>,
    deletion_queue: DeletionQueue,
    things: Vec<Truth>,
    alive: Vec<(usize, Handle)>,
    recordings: Vec<Recorded>,
    open: Vec<Open>,
    submitted: [u64; QUEUES],
    completed: [u64; QUEUES],
    /// The highest points of later submissions that objects are tied to.
    promised: [u64; QUEUES],
    lost: bool,
    retirements: usize,
}

fn queue(index: usize) -> QueueIndex {
    QueueIndex(index as u8)
}

impl World {
    fn new(seed: u64) -> Self {
        let timelines = ManualTimelines::new(QUEUES);
        let tracker = SubmissionTracker::new(timelines.clone()).unwrap();
        Self {
            random: Random::new(seed),
            timelines,
            bare: ReleaseQueue::new(&tracker),
            shared: ReleaseQueue::new(&tracker),
            deletion_queue: DeletionQueue::new(&tracker),
            tracker,
            things: Vec::new(),
            alive: Vec::new(),
            recordings: Vec::new(),
            open: Vec::new(),
            submitted: [0; QUEUES],
            completed: [0; QUEUES],
            promised: [0; QUEUES],
            lost: false,
            retirements: 0,
        }
    }

    /// Returns whether pending or running commands use the object.
    fn is_used(&self, thing: usize) -> bool {
        let completed = |point: &TimelinePoint| self.completed[usize::from(point.queue.0)] >= point.value.0;
        self.things[thing]
            .users
            .iter()
            .map(|user| &self.recordings[*user])
            .any(|recorded| recorded.open || (!self.lost && !recorded.points.iter().all(completed)))
    }

    /// Checks the objects dropped since the last call.
    fn judge(&mut self) {
        while let Some(thing) = DROPPED.with_borrow_mut(Vec::pop) {
            assert!(!self.is_used(thing), "thing {thing} is dropped in use");
            let truth = &mut self.things[thing];
            assert!(truth.retired, "thing {thing} is dropped without being retired");
            assert!(!truth.dropped, "thing {thing} is dropped twice");
            truth.dropped = true;
        }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..21 => self.create(),
            21..29 => self.record(),
            29..49 => self.use_something(),
            49..71 => self.retire_something(),
            71..79 => self.submit(),
            79..81 => self.discard(),
            81..83 => self.submit_and_keep(),
            83 => self.submit_together(),
            84 => self.refuse(),
            85..92 => self.complete(),
            92..99 => self.reclaim(),
            _ => self.look(),
        }
        self.judge();
    }

    fn create(&mut self) {
        if self.alive.len() > 100 {
            return;
        }
        let thing = Thing(self.things.len());
        self.things.push(Truth::default());
        let handle = match self.random.below(3) {
            0 => Handle::Bare(thing),
            1 => Handle::Shared(Arc::new(thing)),
            _ => Handle::Owned(self.deletion_queue.own(thing)),
        };
        self.alive.push((self.things.len() - 1, handle));
    }

    fn record(&mut self) {
        let explicit = self.random.one_in(4);
        let recording =
            if explicit { self.tracker.record_explicit("explicit") } else { self.tracker.record("holding") };
        self.recordings.push(Recorded { id: recording.id(), open: true, points: Vec::new() });
        self.open.push(Open { recording, index: self.recordings.len() - 1, explicit });
    }

    fn use_something(&mut self) {
        if self.open.is_empty() || self.alive.is_empty() {
            return;
        }
        let open = &self.open[self.random.below(self.open.len())];
        let (thing, handle) = &self.alive[self.random.below(self.alive.len())];
        match handle {
            Handle::Shared(shared) if open.explicit => self.deletion_queue.keep(&open.recording, shared),
            // An explicit recording must not use an object that it cannot keep.
            _ if open.explicit => return,
            _ => {}
        }
        self.things[*thing].users.push(open.index);
    }

    fn retire_something(&mut self) {
        if self.alive.is_empty() {
            return;
        }
        let (thing, handle) = self.alive.swap_remove(self.random.below(self.alive.len()));
        self.retirements += 1;
        self.things[thing].retired = true;
        let after = self.point_after_all(thing);
        let with = self.only_user(thing);
        match (self.random.below(4), after, with) {
            (0, Some(after), _) => self.retire_after(thing, handle, after),
            (1, _, Some(with)) => self.retire_with(thing, handle, with),
            _ => self.retire(handle),
        }
    }

    /// Returns the only recording that uses an object; any recording if none does.
    fn only_user(&mut self, thing: usize) -> Option<usize> {
        let (first, rest) = match self.things[thing].users.split_first() {
            Some(split) => split,
            None if self.recordings.is_empty() => return None,
            None => return Some(self.random.below(self.recordings.len())),
        };
        rest.iter().all(|user| user == first).then_some(*first)
    }

    /// Returns a point after which the object is not used, if there is one; it may belong to a later submission.
    fn point_after_all(&mut self, thing: usize) -> Option<TimelinePoint> {
        let mut latest: Option<TimelinePoint> = None;
        for recorded in self.things[thing].users.iter().map(|user| &self.recordings[*user]) {
            if recorded.open {
                return None;
            }
            for point in &recorded.points {
                match &mut latest {
                    Some(latest) if latest.queue != point.queue => return None,
                    Some(latest) => latest.value = latest.value.max(point.value),
                    None => latest = Some(*point),
                }
            }
        }
        let mut latest = latest.unwrap_or_else(|| point(queue(self.random.below(QUEUES)), 0));
        latest.value.0 += if self.random.one_in(2) { self.random.next() % 3 } else { 0 };
        Some(latest)
    }

    fn retire(&mut self, handle: Handle) {
        match handle {
            Handle::Bare(thing) if self.random.one_in(2) => self.bare.retire(thing),
            Handle::Bare(thing) => self.deletion_queue.retire(thing),
            Handle::Shared(shared) if self.random.one_in(2) => self.shared.retire(shared),
            Handle::Shared(shared) => self.deletion_queue.retire_sized(shared, 100),
            Handle::Owned(owned) => drop(owned),
        }
    }

    fn retire_with(&mut self, thing: usize, handle: Handle, with: usize) {
        self.things[thing].tied = true;
        let with = self.recordings[with].id;
        match handle {
            Handle::Bare(thing) => self.bare.retire_with(with, thing),
            Handle::Shared(shared) => self.deletion_queue.retire_with(with, shared),
            // SAFETY: the oracle detects any other use.
            Handle::Owned(owned) => unsafe { owned.retire_with(with) },
        }
    }

    fn retire_after(&mut self, thing: usize, handle: Handle, after: TimelinePoint) {
        self.things[thing].tied = true;
        let promised = &mut self.promised[usize::from(after.queue.0)];
        *promised = after.value.0.max(*promised);
        match handle {
            Handle::Bare(thing) => self.deletion_queue.retire_after(after, thing),
            Handle::Shared(shared) => self.shared.retire_after(after, shared),
            // Its owner knows only of recordings.
            Handle::Owned(owned) => drop(owned),
        }
    }

    fn take_open(&mut self) -> Option<Open> {
        if self.open.is_empty() || self.lost {
            return None;
        }
        let which = self.random.below(self.open.len());
        Some(self.open.remove(which))
    }

    /// Submits empty work to a queue.
    fn next_point(&mut self) -> TimelinePoint {
        let index = self.random.below(QUEUES);
        self.submitted[index] += 1;
        point(queue(index), self.submitted[index])
    }

    fn submit(&mut self) {
        let Some(Open { recording, index, .. }) = self.take_open() else { return };
        let point = self.next_point();
        let submit = |_| Ok::<_, ()>(self.timelines.submit(point.queue));
        assert_eq!(recording.submit(point.queue, submit).unwrap(), point);
        self.recordings[index].points.push(point);
        self.recordings[index].open = false;
    }

    fn submit_and_keep(&mut self) {
        let Some(mut open) = self.take_open() else { return };
        let point = self.next_point();
        let submit = |_| Ok::<_, ()>(self.timelines.submit(point.queue));
        assert_eq!(open.recording.submit_and_keep(point.queue, submit).unwrap(), point);
        self.recordings[open.index].points.push(point);
        self.open.push(open);
    }

    fn submit_together(&mut self) {
        if self.open.len() < 3 || self.lost {
            return;
        }
        let (mut together, indices): (Vec<_>, Vec<_>) =
            self.open.drain(..3).map(|open| (open.recording, open.index)).unzip();
        let point = self.next_point();
        let submit = |_| Ok::<_, ()>(self.timelines.submit(point.queue));
        Recording::submit_together(&mut together, point.queue, submit).unwrap();
        for index in indices {
            self.recordings[index].points.push(point);
            self.recordings[index].open = false;
        }
    }

    fn refuse(&mut self) {
        let Some(Open { recording, index, explicit }) = self.take_open() else { return };
        let refused = recording.submit(queue(0), |_| Err(())).unwrap_err();
        self.open.push(Open { recording: refused.recording, index, explicit });
    }

    fn discard(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let which = self.random.below(self.open.len());
        let Open { recording, index, .. } = self.open.remove(which);
        self.recordings[index].open = false;
        drop(recording);
    }

    fn complete(&mut self) {
        let index = self.random.below(QUEUES);
        let in_flight = self.submitted[index] - self.completed[index];
        self.completed[index] += self.random.next() % (in_flight + 1);
        self.timelines.complete(queue(index), point(queue(index), self.completed[index]).value);
    }

    fn reclaim(&mut self) {
        match self.random.below(3) {
            0 => self.bare.reclaim(drop),
            1 => self.shared.reclaim(drop),
            _ => self.deletion_queue.reclaim(),
        };
    }

    fn look(&mut self) {
        match self.random.below(8) {
            0 => self.deletion_queue.trim(),
            1 => self.bare.trim(),
            2 => drop(self.deletion_queue.drain(Duration::from_secs(60))),
            3 => drop(self.shared.drain(Duration::ZERO, drop)),
            4 => self.settle(),
            _ => {
                let pending = self.bare.statistics().pending + self.shared.statistics().pending;
                assert!(pending <= self.retirements as u64);
                assert_eq!(self.tracker.statistics().open + self.tracker.statistics().open_explicit, {
                    self.open.len() as u64
                });
            }
        }
    }

    /// Checks that one reclaim releases everything if nothing is open or in flight, except objects tied to a point
    /// that was not submitted yet.
    fn settle(&mut self) {
        while !self.open.is_empty() {
            self.discard();
        }
        for index in 0..QUEUES {
            self.completed[index] = self.submitted[index];
            self.timelines.complete_all(queue(index));
        }
        self.bare.reclaim(drop);
        self.shared.reclaim(drop);
        self.deletion_queue.reclaim();
        self.judge();
        let late = |truth: &Truth| truth.retired && !truth.dropped && !truth.tied;
        assert!(!self.things.iter().any(late), "no object waits without a reason");
    }

    /// Ends the world. Everything is dropped exactly once.
    fn end(mut self, end: End) -> usize {
        match end {
            End::Tidy => self.keep_promises(),
            End::Lost => {
                self.lost = true;
                self.timelines.lose_device();
                self.bare.drain(Duration::ZERO, drop);
                self.shared.drain(Duration::ZERO, drop);
                self.deletion_queue.reclaim();
                self.judge();
            }
            End::Abrupt => {}
        }
        self.retirements += self.alive.len();
        for (thing, _) in &self.alive {
            self.things[*thing].retired = true;
        }
        if end == End::Abrupt {
            self.end_abruptly();
        } else {
            while let Some((_, handle)) = self.alive.pop() {
                self.retire(handle);
                self.judge();
            }
            while !self.open.is_empty() {
                self.discard();
                self.judge();
            }
            let long = Duration::from_secs(60);
            let (bare, shared) = (self.bare.drain(long, drop), self.shared.drain(long, drop));
            let deletion_queue = self.deletion_queue.drain(long);
            assert_eq!(bare.pending + shared.pending + deletion_queue.pending, 0, "{end:?}");
        }
        self.judge();
        assert!(self.things.iter().all(|truth| truth.dropped), "{end:?}: everything goes");
        self.retirements
    }

    /// Submits and completes all points that objects are tied to.
    fn keep_promises(&mut self) {
        for index in 0..QUEUES {
            while self.submitted[index] < self.promised[index] {
                self.submitted[index] += 1;
                self.timelines.submit(queue(index));
            }
            self.completed[index] = self.submitted[index];
            self.timelines.complete_all(queue(index));
        }
    }

    /// Drops the last clone of everything while recordings are open and owners are alive.
    fn end_abruptly(&mut self) {
        self.keep_promises();
        let (mut owners, mut others): (Vec<_>, Vec<_>) =
            self.alive.drain(..).partition(|(_, handle)| matches!(handle, Handle::Owned(_)));
        others.drain(..).for_each(|(_, handle)| match handle {
            Handle::Bare(thing) => self.deletion_queue.retire(thing),
            Handle::Shared(shared) => self.deletion_queue.retire(shared),
            Handle::Owned(_) => unreachable!("it is among the owners"),
        });
        let nobody = DeletionQueue::new(&self.tracker);
        drop(core::mem::replace(&mut self.deletion_queue, nobody));
        self.judge();
        while !self.open.is_empty() || !owners.is_empty() {
            if self.random.one_in(2) {
                drop(owners.pop());
            } else {
                self.discard();
            }
            self.judge();
        }
        self.bare.drain(Duration::from_secs(60), drop);
        self.shared.drain(Duration::from_secs(60), drop);
    }
}

/// Runs a world for a number of steps. Returns the number of retirements.
fn happen(seed: u64, steps: usize) -> usize {
    DROPPED.with_borrow_mut(Vec::clear);
    let mut world = World::new(seed);
    (0..steps).for_each(|_| world.step());
    world.end([End::Tidy, End::Lost, End::Abrupt][seed as usize % 3])
}

#[test]
fn over_any_retirements_nothing_is_dropped_in_use_and_everything_is_dropped_once() {
    let wanted = scaled(RETIREMENTS);
    let (mut retirements, mut seed) = (0, 0);
    while retirements < wanted {
        // Short ones first: what fails there is easier to read.
        let steps = (10 + 10 * seed).min(20_000);
        let happened = std::panic::catch_unwind(|| happen(seed, steps as usize));
        retirements += happened.unwrap_or_else(|panic| {
            println!("in the world of seed {seed}, of {steps} steps, after {retirements} retirements:");
            std::panic::resume_unwind(panic)
        });
        seed += 1;
    }
    println!("{retirements} retirements in {seed} worlds");
    assert!(retirements >= wanted);
}
