//! Destructors that retire, re-enter and panic: they run with no lock held, once each.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::Arc;

use allotment::lifetime::{DeletionQueue, Owned, ReleaseQueue};

use crate::rig::{QUEUE, Rig, Spy, point};

/// Retires its content when dropped, into a queue of another type.
struct Nested {
    spy: Option<Spy>,
    inner: Option<Box<Nested>>,
    deletion_queue: DeletionQueue,
}

impl Drop for Nested {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            self.deletion_queue.retire(*inner);
        }
        // Of another type, which may have been processed already.
        self.deletion_queue.retire(self.spy.take());
    }
}

fn nested(rig: &Rig, deletion_queue: &DeletionQueue, depth: u32) -> Nested {
    let inner = (depth > 1).then(|| Box::new(nested(rig, deletion_queue, depth - 1)));
    Nested { spy: Some(rig.spy(depth)), inner, deletion_queue: deletion_queue.clone() }
}

#[test]
fn nested_release_3_deep_terminates() {
    let rig = Rig::new(1);
    let deletion_queue = DeletionQueue::new(&rig.tracker);
    deletion_queue.retire(None::<Spy>);
    deletion_queue.retire(nested(&rig, &deletion_queue, 3));
    let left = deletion_queue.drain(Duration::from_secs(10));
    assert_eq!(left.pending, 0);
    assert_eq!(rig.dropped(), [3, 2, 1]);
}

#[test]
fn what_a_destructor_retires_goes_with_a_later_reclaim_and_by_the_same_rule() {
    let rig = Rig::new(1);
    let deletion_queue = DeletionQueue::new(&rig.tracker);
    deletion_queue.retire(nested(&rig, &deletion_queue, 2));
    deletion_queue.reclaim();
    assert!(rig.dropped().is_empty(), "what a destructor retires is not looked at in the same call");
    let recording = rig.tracker.record("opened before the second is dropped");
    deletion_queue.reclaim();
    deletion_queue.reclaim();
    assert_eq!(deletion_queue.statistics().pending, 1);
    drop(recording);
    deletion_queue.reclaim();
    assert_eq!(rig.dropped(), [2, 1]);
}

/// Calls every method when dropped.
struct Reenters {
    released: Arc<ReleaseQueue<Option<Reenters>>>,
    deletion_queue: DeletionQueue,
    spy: Option<Spy>,
}

impl Drop for Reenters {
    fn drop(&mut self) {
        let tracker = self.released.tracker().clone();
        let recording = tracker.record("within a destructor");
        self.released.retire(None);
        self.deletion_queue.retire(self.spy.take());
        self.released.retire_with(recording.id(), None);
        drop(self.deletion_queue.own(7_u64));
        self.released.reclaim(drop);
        self.deletion_queue.reclaim();
        drop(recording);
        self.released.reclaim(drop);
        self.released.drain(Duration::ZERO, drop);
        self.released.trim();
        let _ = (self.released.statistics(), self.deletion_queue.statistics(), tracker.statistics());
    }
}

#[test]
fn a_destructor_that_re_enters_does_not_deadlock() {
    let rig = Rig::new(1);
    let deletion_queue = DeletionQueue::new(&rig.tracker);
    let released = Arc::new(ReleaseQueue::new(&rig.tracker));
    for name in 0..4 {
        let (released, deletion_queue) = (Arc::clone(&released), deletion_queue.clone());
        let spy = Some(rig.spy(name));
        let in_another = Arc::clone(&released);
        let thing = Reenters { released, deletion_queue, spy };
        in_another.retire(Some(thing));
    }
    released.reclaim(drop);
    released.drain(Duration::from_secs(10), drop);
    deletion_queue.drain(Duration::from_secs(10));
    assert_eq!((released.statistics().pending, deletion_queue.statistics().pending), (0, 0));
    assert_eq!(rig.dropped().len(), 4);
}

/// Panics when dropped, if so configured.
struct Explosive {
    _spy: Spy,
    panics: bool,
}

impl Drop for Explosive {
    fn drop(&mut self) {
        assert!(!self.panics, "on purpose");
    }
}

fn explosive(rig: &Rig, name: u32, panics: bool) -> Explosive {
    Explosive { _spy: rig.spy(name), panics }
}

#[test]
fn a_panic_in_a_destructor_drops_everything_else_once() {
    let rig = Rig::new(1);
    let released = ReleaseQueue::new(&rig.tracker);
    for name in 0..10 {
        released.retire(explosive(&rig, name, name == 3));
    }
    released.retire_after(point(QUEUE, 1), explosive(&rig, 10, false));
    catch_unwind(AssertUnwindSafe(|| released.reclaim(drop))).unwrap_err();
    assert_eq!(rig.dropped(), (0..10).collect::<Vec<_>>(), "what was ready, each once");
    rig.complete(rig.run(QUEUE));
    assert_eq!(released.reclaim(drop).count, 1, "the queue goes on");
    released.retire(explosive(&rig, 11, false));
    assert_eq!(released.reclaim(drop).count, 1);
    assert_eq!(rig.dropped(), (0..12).collect::<Vec<_>>());
}

#[test]
fn a_panic_in_a_destructor_leaves_other_types_for_the_next_reclaim() {
    let rig = Rig::new(1);
    let deletion_queue = DeletionQueue::new(&rig.tracker);
    deletion_queue.retire(explosive(&rig, 1, true));
    deletion_queue.retire(rig.spy(2));
    catch_unwind(AssertUnwindSafe(|| deletion_queue.reclaim())).unwrap_err();
    deletion_queue.reclaim();
    assert_eq!(rig.dropped(), [1, 2]);
    assert_eq!(deletion_queue.statistics().pending, 0);
}

#[test]
fn a_panic_while_the_queue_ends_pulls_nothing_from_under_the_gpu() {
    let rig = Rig::new(1);
    let released = ReleaseQueue::new(&rig.tracker);
    released.retire_after(point(QUEUE, 1), explosive(&rig, 1, false));
    released.retire(explosive(&rig, 2, true));
    let _open = rig.tracker.record("open");
    released.retire(explosive(&rig, 3, false));
    catch_unwind(AssertUnwindSafe(|| drop(released))).unwrap_err();
    assert_eq!(rig.dropped(), [2], "the others are in use, and leaked");
}

/// Retires itself again a few times: a late end is still an end.
struct Stubborn {
    again: Arc<AtomicU32>,
    deletion_queue: DeletionQueue,
}

impl Drop for Stubborn {
    fn drop(&mut self) {
        if self.again.fetch_sub(1, Ordering::Relaxed) > 1 {
            self.deletion_queue
                .retire(Self { again: Arc::clone(&self.again), deletion_queue: self.deletion_queue.clone() });
        }
    }
}

#[test]
fn draining_goes_on_for_as_long_as_destructors_retire_and_no_longer_than_it_may() {
    let rig = Rig::new(1);
    let deletion_queue = DeletionQueue::new(&rig.tracker);
    let again = Arc::new(AtomicU32::new(100));
    deletion_queue.retire(Stubborn { again: Arc::clone(&again), deletion_queue: deletion_queue.clone() });
    assert_eq!(deletion_queue.drain(Duration::from_secs(10)).reclaimed.count, 100);
    again.store(u32::MAX, Ordering::Relaxed);
    deletion_queue.retire(Stubborn { again: Arc::clone(&again), deletion_queue: deletion_queue.clone() });
    assert_eq!(deletion_queue.drain(Duration::from_millis(20)).pending, 1);
    again.store(1, Ordering::Relaxed);
    assert_eq!(deletion_queue.drain(Duration::from_secs(10)).pending, 0);
}

#[test]
fn an_owner_within_an_owner_is_retired_after_it() {
    struct Outer {
        _spy: Spy,
        _inner: Owned<Spy>,
    }
    let rig = Rig::new(1);
    let deletion_queue = DeletionQueue::new(&rig.tracker);
    let inner = deletion_queue.own(rig.spy(1));
    drop(deletion_queue.own(Outer { _spy: rig.spy(2), _inner: inner }));
    assert_eq!(deletion_queue.drain(Duration::from_secs(10)).pending, 0);
    assert_eq!(rig.dropped(), [2, 1]);
    // SAFETY: no recording is open.
    let spy = unsafe { deletion_queue.own(rig.spy(3)).into_inner() };
    assert!(spy.dropped_now(), "nothing is retired");
    assert_eq!(deletion_queue.statistics().reclaimed.count, 2);
}

impl Spy {
    fn dropped_now(self) -> bool {
        drop(self);
        true
    }
}
