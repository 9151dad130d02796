//! Statistics: pending objects, their bytes and age, and recordings that stay open for long.

use core::time::Duration;
use std::thread::sleep;

use allotment::lifetime::{DeletionQueue, ManualTimelines, ReleaseQueue, SubmissionTracker, TimelinePoints};

use crate::rig::{OTHER, QUEUE, Rig, point};

const WHILE: Duration = Duration::from_millis(20);

#[test]
fn what_is_pending_is_counted_wherever_it_waits() {
    let rig = Rig::new(1);
    let released = ReleaseQueue::new(&rig.tracker);
    assert_eq!(released.statistics(), Default::default());
    let open = rig.tracker.record("open");
    let sealed = |bytes| {
        let statistics = released.statistics();
        assert_eq!((statistics.pending, statistics.bytes), (4, bytes));
        assert!(statistics.oldest.is_some());
    };
    released.retire_sized(rig.spy(1), 1);
    released.retire_sized(rig.spy(2), 10);
    released.retire_with_sized(open.id(), rig.spy(3), 100);
    released.retire_after(point(QUEUE, 1), rig.spy(4));
    sealed(111);
    released.reclaim(drop);
    sealed(111);
    let done = rig.submit(open, QUEUE);
    released.reclaim(drop);
    sealed(111);
    rig.complete(done);
    let reclaimed = released.reclaim(drop);
    assert_eq!((reclaimed.count, reclaimed.bytes), (4, 111));
    let statistics = released.statistics();
    assert_eq!((statistics.pending, statistics.bytes, statistics.oldest), (0, 0, None));
    assert_eq!(statistics.reclaimed, reclaimed);
}

#[test]
fn the_oldest_that_is_pending_and_the_recording_that_is_open_for_longest_have_their_age() {
    let rig = Rig::new(1);
    let deletion_queue = DeletionQueue::new(&rig.tracker);
    let longest = rig.tracker.record("open for longest");
    deletion_queue.retire(rig.spy(1));
    sleep(WHILE);
    let _second = rig.tracker.record("second");
    deletion_queue.retire(String::from("younger"));
    assert!(deletion_queue.statistics().oldest.unwrap() >= WHILE);
    let open = rig.tracker.statistics().longest_open.unwrap();
    assert!(open.label == "open for longest" && open.age >= WHILE, "{open:?}");
    drop(longest);
    deletion_queue.reclaim();
    assert_eq!(rig.dropped(), [1]);
    assert!(deletion_queue.statistics().oldest.unwrap() < Duration::from_secs(60));
    assert_eq!(rig.tracker.statistics().longest_open.unwrap().label, "second");
}

#[test]
fn recordings_are_counted_by_what_became_of_them() {
    let rig = Rig::new(1);
    let held = [rig.tracker.record("one"), rig.tracker.record("two")];
    let explicit = rig.tracker.record_explicit("three");
    let statistics = rig.tracker.statistics();
    assert_eq!((statistics.open, statistics.open_explicit), (2, 1));
    assert_eq!(statistics.longest_open.unwrap().label, "one");
    drop(held);
    rig.submit(explicit, QUEUE);
    let statistics = rig.tracker.statistics();
    assert_eq!((statistics.open, statistics.open_explicit), (0, 0));
    assert_eq!((statistics.submitted, statistics.discarded, statistics.longest_open), (1, 2, None));
}

#[test]
fn more_queues_than_can_be_kept_track_of_are_refused() {
    #[derive(Debug)]
    struct Many;
    impl allotment::lifetime::Timelines for Many {
        fn queue_count(&self) -> usize {
            17
        }
        fn submitted(&self, _: allotment::device::QueueIndex) -> allotment::device::TimelineValue {
            unreachable!()
        }
        fn completed(
            &self,
            _: allotment::device::QueueIndex,
        ) -> Result<allotment::device::TimelineValue, allotment::device::DeviceError> {
            unreachable!()
        }
        fn wait(
            &self,
            _: allotment::device::TimelinePoint,
            _: Duration,
        ) -> Result<(), allotment::device::DeviceError> {
            unreachable!()
        }
    }
    let limit = allotment::device::DescriptionLimit::TrackedQueues;
    let too_many = allotment::device::DescriptionError::AboveLimit { limit, requested: 17, most: 16 };
    assert_eq!(SubmissionTracker::new(Many).unwrap_err(), too_many);
    assert!(SubmissionTracker::new(ManualTimelines::new(16)).is_ok());
}

#[test]
fn sets_of_points_keep_the_later_of_two() {
    let set: TimelinePoints = [point(QUEUE, 3), point(OTHER, 1), point(QUEUE, 2)].into_iter().collect();
    assert!(set.points().eq([point(QUEUE, 3), point(OTHER, 1)]));
    assert!(TimelinePoints::from(point(QUEUE, 2)).is_within(&set) && !set.is_within(&TimelinePoints::EMPTY));
    assert!(TimelinePoints::from(point(QUEUE, 0)).is_empty());
}
