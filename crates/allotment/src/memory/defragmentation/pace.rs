//! Computations that pause when the time of a pass is over, and go on in the next.
//!
//! A plan for 100,000 allocations takes tens of milliseconds, a pass half of one. So the functions that plan are
//! asynchronous ones: not to wait for anything, but since the compiler then keeps their state where they pause. No thread
//! and no executor takes part; a pass polls the plan until its time is over.
//!
//! ```text
//!   pass      ├─ survey ─┤├ plan ┤        ├─ plan ─┤        ├ plan ┤├─ moves ─┤
//!   Paced     new ────────┘ go_on: None     go_on: None      go_on: Some(plan)
//! ```

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::stopwatch::Readings;

/// Elements that are sorted at once: some ten microseconds.
const SORTED_AT_ONCE: usize = 256;

/// Nanoseconds after `began` at which a computation pauses.
#[derive(Clone, Debug)]
struct End {
    began: Instant,
    nanoseconds: Arc<AtomicU64>,
}

impl End {
    fn set(&self, end: Option<Instant>) {
        let after = end.map(|end| end.saturating_duration_since(self.began));
        let nanoseconds = after.map_or(u64::MAX, |after| u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
        self.nanoseconds.store(nanoseconds, Ordering::Relaxed);
    }

    fn is_over(&self, now: Instant) -> bool {
        // Relaxed, here and above: the number guards no data.
        match self.nanoseconds.load(Ordering::Relaxed) {
            u64::MAX => false,
            end => now.saturating_duration_since(self.began) >= Duration::from_nanos(end),
        }
    }
}

/// The time of a computation, which tells it when to pause.
#[derive(Debug)]
pub(super) struct Pace {
    end: End,
    readings: Readings,
}

impl Pace {
    /// Pauses if the time is over. Call it after each small piece of work.
    #[inline]
    pub(super) async fn step(&mut self) {
        if self.readings.are_due() {
            self.step_now().await;
        }
    }

    /// Pauses if the time is over. Call it after each larger piece of work.
    async fn step_now(&mut self) {
        if self.end.is_over(self.readings.read().0) {
            pause().await;
            // The time that passed meanwhile is not that of a step.
            self.readings = Readings::new();
        }
    }

    /// Collects values, each of which is a small piece of work.
    pub(super) async fn collect<T>(&mut self, values: impl Iterator<Item = T>) -> Vec<T> {
        let mut collected = Vec::with_capacity(values.size_hint().0);
        for value in values {
            collected.push(value);
            self.step().await;
        }
        collected
    }

    /// Sorts values as `sort_by_key` does, in small pieces.
    pub(super) async fn sort_by_key<T: Copy, K: Ord>(&mut self, values: &mut Vec<T>, key: impl Fn(&T) -> K) {
        // A merge sort from the bottom up: pieces are sorted by the standard library, and then merged in pairs, value by
        // value. A sort of all values at once would take milliseconds for as many as a large level has, with no place to pause
        // in.
        for chunk in values.chunks_mut(SORTED_AT_ONCE) {
            chunk.sort_by_key(&key);
            self.step_now().await;
        }
        let mut sorted = SORTED_AT_ONCE;
        let mut merged = Vec::with_capacity(values.len());
        while sorted < values.len() {
            merged.clear();
            for pair in values.chunks(2 * sorted) {
                let (mut first, mut second) = pair.split_at(sorted.min(pair.len()));
                loop {
                    let from_first = match (first.first(), second.first()) {
                        (Some(one), Some(other)) => key(one) <= key(other),
                        (one, other) if one.is_none() && other.is_none() => break,
                        (one, _) => one.is_some(),
                    };
                    let from = if from_first { &mut first } else { &mut second };
                    merged.push(from[0]);
                    *from = &from[1..];
                    self.step().await;
                }
            }
            core::mem::swap(values, &mut merged);
            sorted *= 2;
        }
    }
}

/// Returns control to the caller of [`Paced::go_on`] once.
async fn pause() {
    let mut paused = false;
    core::future::poll_fn(|_| {
        if core::mem::replace(&mut paused, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

type Computation<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A computation that goes on whenever it is given time.
pub(super) struct Paced<T> {
    /// Locked by its owner only; it makes the owner `Sync`.
    computation: Mutex<Computation<T>>,
    end: End,
}

impl<T> Paced<T> {
    pub(super) fn new<F: Future<Output = T> + Send + 'static>(begin: impl FnOnce(Pace) -> F) -> Self {
        let end = End { began: Instant::now(), nanoseconds: Arc::new(AtomicU64::new(0)) };
        let pace = Pace { end: end.clone(), readings: Readings::new() };
        Self { computation: Mutex::new(Box::pin(begin(pace))), end }
    }

    /// Goes on until a moment, if there is one. Returns the result once it is there; not to be called after that.
    pub(super) fn go_on(&mut self, until: Option<Instant>) -> Option<T> {
        self.end.set(until);
        let computation = self.computation.get_mut().unwrap_or_else(PoisonError::into_inner);
        // It waits for nothing, so nothing wakes it.
        match computation.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }
}

impl<T> fmt::Debug for Paced<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paced").field("end", &self.end).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_sorted_as_by_the_standard_library_however_often_the_sort_pauses() {
        for count in [0, 1, 255, 256, 257, 1000, 5000] {
            let values: Vec<(u32, u32)> =
                (0..count).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 25, at)).collect();
            let mut expected = values.clone();
            expected.sort_by_key(|value| value.0);
            let mut sort = Paced::new(|mut pace| async move {
                let mut values = values;
                pace.sort_by_key(&mut values, |value| value.0).await;
                values
            });
            let mut pauses = 0;
            let sorted = loop {
                // Over before it began.
                match sort.go_on(Some(sort.end.began)) {
                    Some(sorted) => break sorted,
                    None => pauses += 1,
                }
            };
            assert_eq!(sorted, expected);
            assert!(pauses >= count / SORTED_AT_ONCE as u32, "{pauses} pauses for {count}");
        }
    }
}
