//! What keepers are given to do.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};
use std::sync::Arc;

use allotment::lifetime::{DeletionQueue, ReleaseQueue};

use super::BATCH;
use super::keeper::{AtOnce, MaintenanceThread};
use super::object::{Object, dropped};
use super::ours::{Ours, Owners};
use super::two_stage::TwoStage;
use crate::race::Racer;

type Queued = Ours<ReleaseQueue<Object>>;
type Deferred = Ours<DeletionQueue>;
type Owned = Ours<Owners>;

/// What one thread does.
type Workload<K> = fn(&K, u64) -> u64;

/// The workloads of one thread, each with its contenders.
pub(super) fn alone(batches: u64) -> Vec<(&'static str, Vec<Racer>)> {
    vec![
        (
            "retire-reclaim",
            vec![
                racer::<AtOnce>(batches, idle),
                racer::<Queued>(batches, idle),
                racer::<Deferred>(batches, idle),
                racer::<Owned>(batches, idle),
                racer::<TwoStage>(batches, idle),
            ],
        ),
        (
            "retire-reclaim-recorded",
            vec![
                racer::<Queued>(batches, recorded),
                racer::<Deferred>(batches, recorded),
                racer::<Owned>(batches, recorded),
                racer::<TwoStage>(batches, recorded),
            ],
        ),
        (
            "retire-with",
            vec![
                racer::<Queued>(batches, tied),
                racer::<Deferred>(batches, tied),
                racer::<Owned>(batches, tied),
                racer::<TwoStage>(batches, tied),
            ],
        ),
        (
            "record-submit",
            vec![
                Racer::alone("allotment Recording", submitting::<Queued>(batches)),
                Racer::alone(<TwoStage as MaintenanceThread<Object>>::NAME, submitting::<TwoStage>(batches)),
            ],
        ),
    ]
}

/// Threads that retire, each contender's its own.
pub(super) fn on_threads(threads: u32, batches: u64) -> Vec<Racer> {
    vec![
        together::<Queued>(threads, batches),
        together::<Deferred>(threads, batches),
        together::<Owned>(threads, batches),
        together::<TwoStage>(threads, batches),
    ]
}

fn racer<K: MaintenanceThread<Object>>(batches: u64, workload: Workload<K>) -> Racer {
    let keeper = K::new();
    Racer::alone(K::NAME, move || workload(&keeper, batches))
}

/// Batches that are retired while nothing is recorded.
fn idle<K: MaintenanceThread<Object>>(keeper: &K, batches: u64) -> u64 {
    in_batches(batches, || idle_batch(keeper))
}

fn idle_batch<K: MaintenanceThread<Object>>(keeper: &K) {
    (0..BATCH).for_each(|handle| keeper.retire(Object::new(handle)));
    keeper.submit_other();
    keeper.complete();
    keeper.reclaim();
}

/// Batches that are retired while a recording is open, which is submitted then.
fn recorded<K: MaintenanceThread<Object>>(keeper: &K, batches: u64) -> u64 {
    in_batches(batches, || {
        let recording = keeper.record();
        (0..BATCH).for_each(|handle| keeper.retire(Object::new(handle)));
        keeper.submit(recording);
        keeper.complete();
        keeper.reclaim();
    })
}

/// Batches that go with one recording.
fn tied<K: MaintenanceThread<Object>>(keeper: &K, batches: u64) -> u64 {
    in_batches(batches, || {
        let recording = keeper.record();
        (0..BATCH).for_each(|handle| keeper.retire_with(&recording, Object::new(handle)));
        keeper.submit(recording);
        keeper.complete();
        keeper.reclaim();
    })
}

/// So many batches, of which nothing is left. Returns how many objects that were.
fn in_batches(batches: u64, batch: impl FnMut()) -> u64 {
    let before = dropped();
    core::iter::repeat_with(batch).take(batches as usize).for_each(drop);
    assert_eq!(dropped() - before, batches * BATCH, "what is retired is dropped once, in its batch");
    batches * BATCH
}

/// Opens and submits recordings with nothing in them.
fn submitting<K: MaintenanceThread<Object>>(batches: u64) -> impl FnMut() -> u64 + Send + 'static {
    let keeper = K::new();
    move || {
        for _ in 0..batches {
            (0..BATCH).for_each(|_| keeper.submit(keeper.record()));
            keeper.complete();
        }
        batches * BATCH
    }
}

/// Threads that retire so much each. The first one reclaims, after each batch of its own, and goes on with
/// both until the others have done theirs; so a lap leaves nothing to the next.
fn together<K: MaintenanceThread<Object>>(threads: u32, batches: u64) -> Racer {
    let keeper = Arc::new(K::new());
    let others = u64::from(threads) - 1;
    // Of all laps.
    let finished = Arc::new(AtomicU64::new(0));
    let mut laps: Vec<Box<dyn FnMut() -> u64 + Send>> = Vec::new();
    {
        let (keeper, finished) = (Arc::clone(&keeper), Arc::clone(&finished));
        let mut lap = 0;
        laps.push(Box::new(move || {
            lap += 1;
            let (before, mut done) = (dropped(), 0);
            loop {
                // What the others did before is reclaimed below.
                let last = done + 1 >= batches && finished.load(Acquire) == others * lap;
                idle_batch(&*keeper);
                done += 1;
                if last {
                    break;
                }
            }
            let retired = (done + others * batches) * BATCH;
            assert_eq!(dropped() - before, retired, "what all retire is dropped once, in its lap");
            done * BATCH
        }));
    }
    for _ in 0..others {
        let (keeper, finished) = (Arc::clone(&keeper), Arc::clone(&finished));
        laps.push(Box::new(move || {
            (0..batches * BATCH).for_each(|handle| keeper.retire(Object::new(handle)));
            finished.fetch_add(1, Release);
            batches * BATCH
        }));
    }
    Racer::together(K::NAME, laps)
}
