//! A device that is gone uses nothing any more: waits return, and everything is dropped, once.

use core::time::Duration;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{DeviceError, QueueDevice as _, Submission};
use allotment::lifetime::{DeletionQueue, ReleaseQueue, SubmissionTracker, TimelinePoints};

use crate::rig::{OTHER, QUEUE, Rig, point};

const LONG: Duration = Duration::from_secs(60);

#[test]
fn device_lost_everything_is_dropped_once_and_waits_return() {
    let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    let tracker = SubmissionTracker::new(device.clone()).unwrap();
    let rig = Rig::new(1);
    let (released, deletion_queue) = (ReleaseQueue::new(&tracker), DeletionQueue::new(&tracker));
    device.pause_queues();
    let work = Submission::default();
    let recording = tracker.record("never completed");
    released.retire(rig.spy(1));
    released.retire_with(recording.id(), rig.spy(2));
    deletion_queue.retire(rig.spy(3));
    // SAFETY: there is nothing in it.
    let done = recording.submit(QUEUE, |queue| unsafe { device.submit(queue, &work) }).unwrap();
    released.retire_after(done, rig.spy(4));
    assert_eq!((released.reclaim(drop).count, deletion_queue.reclaim().count), (0, 0));
    assert!(tracker.wait(done, Duration::from_millis(1)).is_err_and(DeviceError::is_timeout));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| tracker.wait(done, LONG));
        std::thread::sleep(Duration::from_millis(20));
        device.lose_device();
        assert_eq!(waiting.join().unwrap(), Err(DeviceError::Lost));
    });
    assert_eq!(tracker.wait_all(&TimelinePoints::from(done), LONG), Err(DeviceError::Lost));
    assert_eq!(tracker.wait_idle(LONG), Err(DeviceError::Lost));
    assert!(tracker.is_lost() && tracker.is_reached(done) && tracker.timeline(QUEUE).lost);
    assert_eq!((released.reclaim(drop).count, deletion_queue.reclaim().count), (3, 1));
    let mut dropped = rig.dropped();
    dropped.sort_unstable();
    assert_eq!(dropped, [1, 2, 3, 4]);

    // What is recorded on goes by the same rule.
    let recording = tracker.record("refused");
    released.retire(rig.spy(5));
    assert_eq!(released.reclaim(drop).count, 0, "it may be looked at still");
    // SAFETY: there is nothing in it.
    let refused = recording.submit(QUEUE, |queue| unsafe { device.submit(queue, &work) }).unwrap_err();
    assert_eq!(refused.error, DeviceError::Lost);
    drop(refused);
    assert_eq!(released.reclaim(drop).count, 1);
}

#[test]
fn a_loss_is_noticed_by_who_reclaims() {
    let rig = Rig::new(2);
    let released = ReleaseQueue::new(&rig.tracker);
    rig.run(OTHER);
    released.retire(rig.spy(1));
    assert_eq!(released.reclaim(drop).count, 0);
    rig.timelines.lose_device();
    assert_eq!(released.reclaim(drop).count, 1);
}

#[test]
fn a_point_that_is_never_submitted_holds_nothing_on_a_lost_device() {
    let rig = Rig::new(1);
    let released = ReleaseQueue::new(&rig.tracker);
    released.retire_after(point(QUEUE, 1), rig.spy(1));
    assert_eq!(released.reclaim(drop).count, 0);
    rig.timelines.lose_device();
    assert_eq!(
        released.reclaim(drop).count,
        1,
        "no queue has anything in flight, and one will be given nothing"
    );
}

#[test]
fn an_end_after_a_loss_waits_for_nobody() {
    let rig = Rig::new(1);
    let deletion_queue = DeletionQueue::new(&rig.tracker);
    let late = deletion_queue.own(rig.spy(1));
    deletion_queue.retire(rig.spy(2));
    rig.run(QUEUE);
    rig.timelines.lose_device();
    drop(deletion_queue);
    assert_eq!(rig.dropped(), [2]);
    drop(late);
    assert_eq!(rig.dropped(), [2, 1]);
}
