//! The ring in handwritten cases, and against a model that maps each byte.

use proptest::prelude::*;

use super::*;
use crate::device::{QueueIndex, TimelineValue};

fn point(value: u64) -> TimelinePoint {
    point_of(0, value)
}

fn point_of(queue: u8, value: u64) -> TimelinePoint {
    TimelinePoint { queue: QueueIndex(queue), value: TimelineValue(value) }
}

fn align(value: u64) -> Alignment {
    Alignment::new(value).unwrap()
}

const ONE: Alignment = Alignment::ONE;

/// `used` and `padding`.
fn bytes(ring: &Ring) -> (u64, u64) {
    ring.check_invariants();
    let RingStatistics { used, padding, .. } = ring.statistics();
    (used, padding)
}

/// Returns what a refused request waits for.
fn wait(ring: &mut Ring, size: u64) -> WaitFor {
    match ring.allocate(size, ONE) {
        Err(RingError::FullForNow { wait, .. }) => wait,
        other => panic!("not refused for now: {other:?}"),
    }
}

#[test]
fn the_gap_at_the_end_is_charged_to_the_frame_that_wraps() {
    let mut ring = Ring::new(1024);
    assert_eq!(ring.allocate(600, ONE), Ok(0));
    ring.close(point(1));
    assert_eq!(ring.allocate(100, ONE), Ok(600));
    ring.close(point(2));
    assert_eq!(ring.reclaim(|at| at == point(1)), 600);
    assert_eq!(ring.allocate(500, ONE), Ok(0));
    assert_eq!(bytes(&ring), (924, 324), "100 in flight, a gap of 324, and 500");
    ring.close(point(3));
    assert_eq!(ring.reclaim(|at| at == point(2)), 100);
    assert_eq!(bytes(&ring), (824, 324), "the gap stays with its frame");
    assert_eq!(ring.reclaim(|_| true), 824);
    assert_eq!(bytes(&ring), (0, 0));
    assert_eq!(ring.statistics().peak, 924);
}

#[test]
fn full_for_now_and_never_fits_are_told_apart() {
    let mut ring = Ring::new(1024);
    ring.allocate(700, ONE).unwrap();
    ring.close(point(7));
    let full = |wait| RingError::FullForNow { requested: 400, free: 324, largest: 324, wait };
    assert_eq!(ring.allocate(400, ONE), Err(full(WaitFor::Point(point(7)))));
    assert_eq!(ring.allocate(1025, ONE), Err(RingError::NeverFits { requested: 1025, capacity: 1024 }));
    assert_eq!(bytes(&ring), (700, 0));
    assert_eq!(ring.statistics().failures, 2);
}

#[test]
fn the_whole_capacity_fits_an_idle_ring_wherever_it_was_left() {
    let mut ring = Ring::new(1024);
    for size in [1, 333, 1023, 1024] {
        ring.allocate(size, ONE).unwrap();
        ring.close(point(1));
        ring.reclaim(|_| true);
        assert_eq!(ring.allocate(1024, align(1 << 48)), Ok(0), "after {size}");
        ring.discard();
        assert_eq!(bytes(&ring), (0, 0));
    }
}

#[test]
fn a_frame_with_nothing_in_it_leaves_nothing_behind() {
    let mut ring = Ring::new(1024);
    ring.close(point(1));
    assert_eq!(ring.statistics().frames, 0);
    ring.allocate(10, ONE).unwrap();
    ring.close(point(2));
    ring.close(point(3));
    assert_eq!(ring.statistics().frames, 1);
    ring.reclaim(|at| at == point(2));
    assert_eq!(bytes(&ring), (0, 0));
}

#[test]
fn full_and_empty_are_told_apart_where_head_and_tail_meet() {
    let mut ring = Ring::new(100);
    ring.allocate(60, ONE).unwrap();
    ring.close(point(1));
    ring.allocate(40, ONE).unwrap();
    ring.close(point(2));
    ring.reclaim(|at| at == point(1));
    assert_eq!(ring.allocate(60, ONE), Ok(0));
    assert_eq!(bytes(&ring), (100, 0));
    assert_eq!(wait(&mut ring, 1), WaitFor::Point(point(2)));
    ring.close(point(3));
    ring.reclaim(|_| true);
    assert_eq!(bytes(&ring), (0, 0));
}

#[test]
fn sizes_near_the_largest_number_never_fit_and_change_nothing() {
    for used in [0, 16] {
        let mut ring = Ring::new(1024);
        ring.allocate(16, ONE).unwrap();
        ring.close(point(1));
        ring.reclaim(|_| used == 0);
        for size in [1025, u64::MAX - 16, u64::MAX - 15, u64::MAX - 3, u64::MAX] {
            for alignment in [1, 16, 1 << 48] {
                let never = RingError::NeverFits { requested: size, capacity: 1024 };
                assert_eq!(ring.allocate(size, align(alignment)), Err(never));
            }
        }
        assert_eq!(bytes(&ring), (used, 0));
        assert_eq!(ring.allocate(1, ONE), Ok(used));
    }
}

#[test]
fn no_sum_overflows_in_a_ring_of_all_numbers() {
    let mut ring = Ring::new(u64::MAX);
    assert_eq!(ring.allocate(u64::MAX - 5, ONE), Ok(0));
    ring.close(point(1));
    assert_eq!(wait(&mut ring, 6), WaitFor::Point(point(1)));
    assert!(ring.allocate(1, align(1 << 48)).is_err(), "the next multiple is beyond the last number");
    assert_eq!(ring.allocate(3, align(2)), Ok(u64::MAX - 5));
    ring.reclaim(|_| true);
    assert_eq!(ring.allocate(u64::MAX - 5, align(1 << 48)), Ok(0));
    assert_eq!(bytes(&ring), (u64::MAX, 2));
}

#[test]
fn a_request_of_no_bytes_is_refused_full_or_idle() {
    let mut ring = Ring::new(8);
    assert_eq!(ring.allocate(0, ONE), Err(RingError::ZeroSize));
    ring.allocate(8, ONE).unwrap();
    assert_eq!(ring.allocate(0, align(8)), Err(RingError::ZeroSize));
    assert_eq!(Ring::new(0).allocate(0, ONE), Err(RingError::ZeroSize));
    assert_eq!(Ring::new(0).allocate(1, ONE), Err(RingError::NeverFits { requested: 1, capacity: 0 }));
}

#[test]
fn no_wait_helps_where_the_open_frame_holds_the_room() {
    let mut ring = Ring::new(100);
    ring.allocate(20, ONE).unwrap();
    ring.close(point(1));
    ring.allocate(60, ONE).unwrap();
    assert_eq!(wait(&mut ring, 20 + 1), WaitFor::Submission);
    assert_eq!(ring.allocate(20, ONE), Ok(80));
    assert_eq!(wait(&mut ring, 20), WaitFor::Point(point(1)));
    ring.discard();
    assert_eq!(ring.allocate(80, ONE), Ok(20));
    ring.check_invariants();
}

#[test]
fn what_is_discarded_was_never_there_even_when_it_passed_the_end() {
    let mut ring = Ring::new(100);
    ring.allocate(50, ONE).unwrap();
    ring.close(point(1));
    ring.allocate(30, ONE).unwrap();
    ring.close(point(2));
    ring.reclaim(|at| at == point(1));
    assert_eq!(ring.allocate(40, align(4)), Ok(0));
    assert_eq!(bytes(&ring), (90, 20));
    ring.discard();
    assert_eq!(bytes(&ring), (30, 0));
    assert_eq!(ring.allocate(20, ONE), Ok(80));
    ring.discard();
    ring.reclaim(|_| true);
    assert_eq!(bytes(&ring), (0, 0));
    assert_eq!(ring.statistics().peak, 90);
}

#[test]
fn of_several_queues_that_one_is_named_which_holds_the_oldest_frame() {
    let mut ring = Ring::new(100);
    for (queue, value) in [(0, 1), (1, 1), (0, 2)] {
        ring.allocate(30, ONE).unwrap();
        ring.close(point_of(queue, value));
    }
    assert_eq!(wait(&mut ring, 90), WaitFor::Point(point_of(0, 1)));
    ring.reclaim(|at| at.queue == QueueIndex(0));
    assert_eq!(wait(&mut ring, 90), WaitFor::Point(point_of(1, 1)));
    ring.reclaim(|_| true);
    assert_eq!(ring.allocate(90, ONE), Ok(0));
}

#[test]
fn a_ring_is_whole_where_the_question_whether_a_point_is_reached_panics() {
    let mut ring = Ring::new(100);
    for value in 1..=3 {
        ring.allocate(30, ONE).unwrap();
        ring.close(point(value));
    }
    let asked = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        ring.reclaim(|at| if at == point(3) { panic!("asked") } else { true })
    }));
    assert!(asked.is_err());
    assert_eq!(bytes(&ring), (30, 0));
    assert_eq!(ring.allocate(60, ONE), Ok(0));
}

/// A model of a ring: the owner of each byte. It has neither a tail nor a wrap flag.
#[derive(Clone)]
struct Model {
    /// The owner of each byte; `None` if it is free.
    owners: Vec<Option<Owner>>,
    head: usize,
    /// The head at the start of the open frame.
    start: usize,
    /// Closed frames, oldest first.
    frames: Vec<(u64, TimelinePoint)>,
    open: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Owner {
    frame: u64,
    padding: bool,
}

impl Model {
    fn new(capacity: usize) -> Self {
        Self { owners: vec![None; capacity], head: 0, start: 0, frames: Vec::new(), open: 0 }
    }

    fn is_free(&self, range: core::ops::Range<usize>) -> bool {
        self.owners.get(range).is_some_and(|bytes| bytes.iter().all(Option::is_none))
    }

    fn take(&mut self, range: core::ops::Range<usize>, padding: bool) {
        assert!(self.is_free(range.clone()), "{range:?} overlaps");
        self.owners[range].fill(Some(Owner { frame: self.open, padding }));
    }

    /// Returns the offset of a request, and records its cost; `None` if there is no room.
    fn allocate(&mut self, size: usize, alignment: usize) -> Option<usize> {
        let (head, capacity) = (self.head, self.owners.len());
        let offset = head.next_multiple_of(alignment);
        if self.is_free(head..offset + size) {
            self.take(head..offset, true);
            self.take(offset..offset + size, false);
            self.head = offset + size;
            return Some(offset);
        }
        if self.is_free(head..capacity) && size <= head && self.is_free(0..size) {
            self.take(head..capacity, true);
            self.take(0..size, false);
            self.head = size;
            return Some(0);
        }
        None
    }

    fn forget(&mut self, frame: u64) {
        self.owners.iter_mut().filter(|byte| byte.is_some_and(|byte| byte.frame == frame)).for_each(|byte| {
            *byte = None;
        });
        if self.owners.iter().all(Option::is_none) {
            (self.head, self.start) = (0, 0);
        }
    }

    fn close(&mut self, point: TimelinePoint) {
        if self.owners.iter().flatten().any(|byte| byte.frame == self.open) {
            self.frames.push((self.open, point));
            self.open += 1;
            self.start = self.head;
        }
    }

    fn discard(&mut self) {
        self.head = self.start;
        self.forget(self.open);
    }

    fn reclaim(&mut self, reached: impl Fn(TimelinePoint) -> bool) {
        while self.frames.first().is_some_and(|&(_, point)| reached(point)) {
            let (frame, _) = self.frames.remove(0);
            self.forget(frame);
        }
    }

    fn count(&self, which: impl Fn(&Owner) -> bool) -> u64 {
        self.owners.iter().flatten().filter(|byte| which(byte)).count() as u64
    }

    fn largest(&self) -> u64 {
        let runs = self.owners.split(Option::is_some);
        runs.map(<[_]>::len).max().unwrap_or(0) as u64
    }
}

#[derive(Clone, Debug)]
enum Step {
    Allocate {
        size: usize,
        alignment: u32,
    },
    Close {
        queue: u8,
    },
    Discard,
    /// Completes `more` further values of the queue.
    Reach {
        queue: u8,
        values: u64,
    },
    Reclaim,
}

fn steps(queues: u8) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..40usize, 0..5u32).prop_map(|(size, alignment)| Step::Allocate { size, alignment }),
        1 => (0..120usize, 0..9u32).prop_map(|(size, alignment)| Step::Allocate { size, alignment }),
        4 => (0..queues).prop_map(|queue| Step::Close { queue }),
        1 => Just(Step::Discard),
        3 => (0..queues, 1..4u64).prop_map(|(queue, values)| Step::Reach { queue, values }),
        3 => Just(Step::Reclaim),
    ];
    prop::collection::vec(step, 1..200)
}

/// The ring, its model, and the progress of the queues.
struct Pair {
    ring: Ring,
    model: Model,
    submitted: [u64; 3],
    reached: [u64; 3],
    peak: u64,
    failures: u64,
}

impl Pair {
    fn run(&mut self, step: &Step) {
        match *step {
            Step::Allocate { size, alignment } => self.allocate(size, 1 << alignment),
            Step::Close { queue } => {
                self.submitted[usize::from(queue)] += 1;
                let point = point_of(queue, self.submitted[usize::from(queue)]);
                self.ring.close(point);
                self.model.close(point);
            }
            Step::Discard => {
                self.ring.discard();
                self.model.discard();
            }
            Step::Reach { queue, values } => {
                let queue = usize::from(queue);
                self.reached[queue] = (self.reached[queue] + values).min(self.submitted[queue]);
            }
            Step::Reclaim => {
                let before = self.model.count(|_| true);
                let reached = is_reached(self.reached);
                self.model.reclaim(reached);
                let freed = before - self.model.count(|_| true);
                assert_eq!(self.ring.reclaim(is_reached(self.reached)), freed);
            }
        }
        self.check();
    }

    fn allocate(&mut self, size: usize, alignment: usize) {
        let offset = if size == 0 { None } else { self.model.allocate(size, alignment) };
        let alignment = align(alignment as u64);
        match (self.ring.allocate(size as u64, alignment), offset) {
            (Ok(found), Some(offset)) => assert_eq!(found, offset as u64),
            (Err(error), None) => {
                self.failures += 1;
                self.check_refusal(error, size as u64, alignment);
            }
            (found, offset) => panic!("{size} at {alignment}: {found:?}, the model says {offset:?}"),
        }
    }

    fn check_refusal(&self, error: RingError, size: u64, alignment: Alignment) {
        let capacity = self.model.owners.len() as u64;
        match error {
            RingError::ZeroSize => assert_eq!(size, 0),
            RingError::NeverFits { requested, capacity: whole } => {
                assert_eq!((requested, whole), (size, capacity));
                assert!(size > capacity);
            }
            RingError::FullForNow { requested, free, largest, wait } => {
                assert!(size <= capacity);
                assert_eq!(requested, size);
                assert_eq!(free, capacity - self.model.count(|_| true));
                assert_eq!(largest, self.model.largest());
                self.check_wait(wait, size, alignment);
            }
        }
    }

    /// Returns whether a request succeeds when these values are reached.
    fn would_fit(&self, reached: [u64; 3], size: u64, alignment: Alignment) -> bool {
        let mut model = self.model.clone();
        model.reclaim(is_reached(reached));
        model.allocate(size as usize, alignment.get() as usize).is_some()
    }

    /// Checks that the named point is necessary, and together with those named afterwards sufficient.
    fn check_wait(&self, first: WaitFor, size: u64, alignment: Alignment) {
        // Progress since the last reclaim is unknown, so the check starts at 0.
        let (mut ring, mut reached, mut wait) = (self.ring.clone(), [0; 3], first);
        let mut waits = 0;
        while let WaitFor::Point(TimelinePoint { queue, value }) = wait {
            let queue = usize::from(queue.0);
            let mut all_but = [u64::MAX; 3];
            all_but[queue] = value.0 - 1;
            assert!(!self.would_fit(all_but, size, alignment), "{wait:?} was not needed");
            assert!(value.0 > reached[queue], "{wait:?} brings nothing");
            reached[queue] = value.0;
            waits += 1;
            ring.reclaim(is_reached(reached));
            match ring.allocate(size, alignment) {
                Ok(_) => {
                    assert!(self.would_fit(reached, size, alignment));
                    let queues: std::collections::BTreeSet<_> =
                        self.model.frames.iter().map(|(_, point)| point.queue.0).collect();
                    assert!(waits == 1 || queues.len() > 1, "one wait is enough for one queue");
                    return;
                }
                Err(RingError::FullForNow { wait: next, .. }) => wait = next,
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(waits, 0, "a wait was named and did not help");
        assert!(!self.would_fit([u64::MAX; 3], size, alignment), "a wait would have helped");
    }

    fn check(&mut self) {
        self.ring.check_invariants();
        let used = self.model.count(|_| true);
        self.peak = self.peak.max(used);
        let expected = RingStatistics {
            capacity: self.model.owners.len() as u64,
            used,
            padding: self.model.count(|byte| byte.padding),
            peak: self.peak,
            frames: self.model.frames.len(),
            failures: self.failures,
        };
        assert_eq!(self.ring.statistics(), expected);
    }
}

fn is_reached(reached: [u64; 3]) -> impl Fn(TimelinePoint) -> bool {
    move |point| point.value.0 <= reached[usize::from(point.queue.0)]
}

fn agree(capacity: usize, steps: &[Step]) {
    let mut pair = Pair {
        ring: Ring::new(capacity as u64),
        model: Model::new(capacity),
        submitted: [0; 3],
        reached: [0; 3],
        peak: 0,
        failures: 0,
    };
    steps.iter().for_each(|step| pair.run(step));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn the_ring_agrees_with_a_map_of_its_bytes(capacity in 1..130usize, steps in steps(1)) {
        agree(capacity, &steps);
    }

    #[test]
    fn the_ring_agrees_with_a_map_of_its_bytes_over_three_queues(capacity in 1..130usize, steps in steps(3)) {
        agree(capacity, &steps);
    }
}
