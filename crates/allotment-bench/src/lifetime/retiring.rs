//! The workloads of deferred destruction.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};
use std::sync::Arc;

use allotment::lifetime::{DeletionQueue, ReleaseQueue};

use super::BATCH;
use super::deferred::{AtOnce, DeferredDestruction};
use super::object::{Object, dropped};
use super::ours::{Ours, Owners};
use super::two_stage::TwoStage;
use crate::race::Racer;

type Queued = Ours<ReleaseQueue<Object>>;
type Deferred = Ours<DeletionQueue>;
type Owned = Ours<Owners>;

/// Objects that wait while others are reclaimed.
const WAITING: u64 = 100_000;

/// The operations of one thread.
type Workload<K> = fn(&K, u64) -> u64;

/// Returns the workloads of one thread, each with its contenders.
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
            "reclaim-waiting",
            vec![
                waiting::<Queued>(batches, Wait::All),
                waiting::<Deferred>(batches, Wait::All),
                waiting::<TwoStage>(batches, Wait::All),
            ],
        ),
        (
            "reclaim-waiting-with",
            vec![
                waiting::<Queued>(batches, Wait::Recording),
                waiting::<Deferred>(batches, Wait::Recording),
                waiting::<TwoStage>(batches, Wait::Recording),
            ],
        ),
        (
            "reclaim-waiting-after",
            vec![
                waiting::<Queued>(batches, Wait::Point),
                waiting::<Deferred>(batches, Wait::Point),
                waiting::<TwoStage>(batches, Wait::Point),
            ],
        ),
        (
            "record-submit",
            vec![
                Racer::alone("allotment Recording", submitting::<Queued>(batches)),
                Racer::alone(
                    <TwoStage as DeferredDestruction<Object>>::NAME,
                    submitting::<TwoStage>(batches),
                ),
            ],
        ),
    ]
}

/// Returns racers whose threads share a contender.
pub(super) fn on_threads(threads: u32, batches: u64) -> Vec<Racer> {
    vec![
        together::<Queued>(threads, batches),
        together::<Deferred>(threads, batches),
        together::<Owned>(threads, batches),
        together::<TwoStage>(threads, batches),
    ]
}

fn racer<K: DeferredDestruction<Object>>(batches: u64, workload: Workload<K>) -> Racer {
    let contender = K::new();
    Racer::alone(K::NAME, move || workload(&contender, batches))
}

/// Retires batches while nothing is recorded.
fn idle<K: DeferredDestruction<Object>>(contender: &K, batches: u64) -> u64 {
    in_batches(batches, || idle_batch(contender))
}

fn idle_batch<K: DeferredDestruction<Object>>(contender: &K) {
    (0..BATCH).for_each(|handle| contender.retire(Object::new(handle)));
    contender.submit_other();
    contender.complete();
    contender.reclaim();
}

/// Retires batches while a recording is open, then submits it.
fn recorded<K: DeferredDestruction<Object>>(contender: &K, batches: u64) -> u64 {
    in_batches(batches, || {
        let recording = contender.record();
        (0..BATCH).for_each(|handle| contender.retire(Object::new(handle)));
        contender.submit(recording);
        contender.complete();
        contender.reclaim();
    })
}

/// Retires batches with one recording.
fn tied<K: DeferredDestruction<Object>>(contender: &K, batches: u64) -> u64 {
    in_batches(batches, || {
        let recording = contender.record();
        (0..BATCH).for_each(|handle| contender.retire_with(&recording, Object::new(handle)));
        contender.submit(recording);
        contender.complete();
        contender.reclaim();
    })
}

/// What objects wait for.
#[derive(Clone, Copy)]
enum Wait {
    All,
    Recording,
    Point,
}

/// A contender with objects that wait while it lives.
struct Waiting<K: DeferredDestruction<Object>> {
    contender: K,
    /// Open if objects wait for it.
    recording: Option<K::Recording>,
}

impl<K: DeferredDestruction<Object>> Drop for Waiting<K> {
    fn drop(&mut self) {
        // A contender that is dropped waits for its objects.
        self.recording.take().into_iter().for_each(|recording| self.contender.submit(recording));
        self.contender.complete();
    }
}

/// Reclaims while [`WAITING`] objects wait, of which none is ready.
fn waiting<K: DeferredDestruction<Object, Recording: Send>>(batches: u64, wait: Wait) -> Racer {
    let contender = K::new();
    contender.submit_other();
    let recording = contender.record();
    for handle in 0..WAITING {
        let object = Object::new(handle);
        match wait {
            Wait::All => contender.retire(object),
            Wait::Recording => contender.retire_with(&recording, object),
            Wait::Point => contender.retire_after(object),
        }
    }
    let waiting = Waiting { contender, recording: Some(recording) };
    Racer::alone(K::NAME, move || {
        let before = dropped();
        (0..batches * BATCH).for_each(|_| waiting.contender.reclaim());
        assert_eq!(dropped(), before, "no object is ready");
        batches * BATCH
    })
}

/// Runs batches, after which no object is left. Returns the number of objects.
fn in_batches(batches: u64, batch: impl FnMut()) -> u64 {
    let before = dropped();
    core::iter::repeat_with(batch).take(batches as usize).for_each(drop);
    assert_eq!(dropped() - before, batches * BATCH, "what is retired is dropped once, in its batch");
    batches * BATCH
}

/// Opens and submits empty recordings.
fn submitting<K: DeferredDestruction<Object>>(batches: u64) -> impl FnMut() -> u64 + Send + 'static {
    let contender = K::new();
    move || {
        for _ in 0..batches {
            (0..BATCH).for_each(|_| contender.submit(contender.record()));
            contender.complete();
        }
        batches * BATCH
    }
}

/// Runs threads that retire a number of objects each. The first one reclaims after each of its batches, and
/// continues with both until the others have finished, so that a lap leaves no objects behind.
fn together<K: DeferredDestruction<Object>>(threads: u32, batches: u64) -> Racer {
    let contender = Arc::new(K::new());
    let others = u64::from(threads) - 1;
    // Over all laps.
    let finished = Arc::new(AtomicU64::new(0));
    let mut laps: Vec<Box<dyn FnMut() -> u64 + Send>> = Vec::new();
    {
        let (contender, finished) = (Arc::clone(&contender), Arc::clone(&finished));
        let mut lap = 0;
        laps.push(Box::new(move || {
            lap += 1;
            let (before, mut done) = (dropped(), 0);
            loop {
                // Objects of finished threads are reclaimed below.
                let last = done + 1 >= batches && finished.load(Acquire) == others * lap;
                idle_batch(&*contender);
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
        let (contender, finished) = (Arc::clone(&contender), Arc::clone(&finished));
        laps.push(Box::new(move || {
            (0..batches * BATCH).for_each(|handle| contender.retire(Object::new(handle)));
            finished.fetch_add(1, Release);
            batches * BATCH
        }));
    }
    Racer::together(K::NAME, laps)
}
