//! Injected failures.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;

use super::DeviceError;
use crate::sync::locked;

/// Counts the fallible calls, and stores which of them fail.
#[derive(Debug, Default)]
pub(super) struct Faults {
    calls: AtomicU64,
    lost: AtomicBool,
    plan: Mutex<Option<Plan>>,
}

/// Calls `first` to `first + count - 1` fail, counted from 1 since the device was created.
#[derive(Clone, Copy, Debug)]
struct Plan {
    first: u64,
    count: u64,
    error: DeviceError,
}

impl Faults {
    /// Counts a call; returns the injected error if one applies to it.
    pub(super) fn check(&self) -> Result<(), DeviceError> {
        // Counted although the call fails, so that the k-th call is the same in each run of a test.
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        // A lost device stays lost, whatever else was planned.
        // `Relaxed`: the flag guards no data, and a call that races with the loss may go either way on a real
        // device too.
        if self.lost.load(Ordering::Relaxed) {
            return Err(DeviceError::Lost);
        }
        match *locked(&self.plan) {
            // A subtraction, since `first + count` overflows for "all calls from here on".
            Some(plan) if call >= plan.first && call - plan.first < plan.count => Err(plan.error),
            _ => Ok(()),
        }
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(super) fn fail(&self, k: u64, count: u64, error: DeviceError) {
        // Relative to now, so that a test need not know how many calls its set-up made.
        let first = self.calls().saturating_add(k);
        *locked(&self.plan) = Some(Plan { first, count, error });
    }

    pub(super) fn clear_faults(&self) {
        *locked(&self.plan) = None;
    }

    pub(super) fn lose_device(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }
}
