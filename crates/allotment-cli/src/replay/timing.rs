//! The time of single operations.

use std::time::Instant;

/// Times operations one by one, minus the cost of reading the clock.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    nanoseconds: Vec<u64>,
    clock: u64,
}

/// Nanoseconds per operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
}

impl Stopwatch {
    /// Creates a stopwatch with capacity for a number of operations, so that it does not allocate between them.
    pub(crate) fn new(operations: usize) -> Self {
        // The median of 1,001 empty operations is the cost of reading the clock, which is subtracted from each.
        let mut empty = Self { nanoseconds: Vec::with_capacity(1001), clock: 0 };
        (0..1001).for_each(|_| empty.time(|| ()));
        Self { nanoseconds: Vec::with_capacity(operations), clock: empty.percentiles().p50 }
    }

    pub(crate) fn time<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = operation();
        let nanoseconds = start.elapsed().as_nanos() as u64;
        self.nanoseconds.push(nanoseconds.saturating_sub(self.clock));
        result
    }

    pub(crate) fn percentiles(&mut self) -> Percentiles {
        let sorted = &mut self.nanoseconds;
        sorted.sort_unstable();
        let at = |part: usize| sorted.get(sorted.len().saturating_sub(1) * part / 100).copied();
        Percentiles {
            p50: at(50).unwrap_or(0),
            p99: at(99).unwrap_or(0),
            max: sorted.last().copied().unwrap_or(0),
        }
    }
}
