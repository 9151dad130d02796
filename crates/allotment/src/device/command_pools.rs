//! Pools for the command buffers that the device layer records itself, reused once the queue has executed them.
//!
//! ```text
//!   current   ▓▓▓▓▓░░░      a pool that 32 submissions are recorded into, reset as a whole
//!   in flight ▓▓▓▓ ▓▓▓▓ …   oldest first; each with the timeline value of its last submission
//!   spare     ░░░░          at most four
//! ```
//!
//! Commands are recorded and submitted exactly once, so a pool is reset with one call, the cheapest way for
//! drivers. There are as many pools as were ever in flight at once, and not more.

use std::collections::VecDeque;

use super::DeviceError;

/// Submissions that are recorded into a pool before it is reset.
const RECORDINGS_A_POOL: u32 = 32;

/// The minimum number of pools. Even a queue that is fast enough for one pool gets two: otherwise the second one
/// would be created in the first frame in which the queue is slow.
const POOLS_IN_TURN: usize = 2;

/// Reset pools that are kept while nothing is in flight: enough for 128 submissions per frame.
const SPARE_POOLS: usize = 4;

/// Creates, resets and destroys a driver's pools `P`.
pub(crate) trait PoolMaker<P> {
    /// Creates a pool.
    fn make(&self) -> Result<P, DeviceError>;
    /// Returns the value that the queue's timeline has reached.
    fn reached(&self) -> Result<u64, DeviceError>;
    /// Resets a pool that no queue uses any more. Returns `None` if the driver refuses; the pool is destroyed
    /// then.
    fn reset(&self, pool: P) -> Option<P>;
    /// Destroys a pool that no queue uses any more.
    fn destroy(&self, pool: P);
}

/// The pools of a queue.
#[derive(Debug)]
pub(crate) struct CommandPools<P> {
    current: Option<Pool<P>>,
    /// Full pools, oldest first.
    in_flight: VecDeque<Pool<P>>,
    /// Pools that are reset.
    spare: Vec<P>,
}

#[derive(Debug)]
struct Pool<P> {
    raw: P,
    used: u32,
    /// The queue no longer uses the pool once its timeline reaches this value.
    last: u64,
}

impl<P> Default for CommandPools<P> {
    fn default() -> Self {
        Self { current: None, in_flight: VecDeque::new(), spare: Vec::new() }
    }
}

impl<P> CommandPools<P> {
    /// Returns the pool for the next recording. The recording counts whether or not it is submitted.
    pub(crate) fn next(&mut self, driver: &impl PoolMaker<P>) -> Result<&mut P, DeviceError> {
        if self.current.as_ref().is_none_or(|pool| pool.used == RECORDINGS_A_POOL) {
            let raw = self.fresh(driver)?;
            self.current = Some(Pool { raw, used: 0, last: 0 });
        }
        // The branch above has set `current`; an error is cheaper to prove right than a panic.
        let pool = self.current.as_mut().ok_or(DeviceError::OutOfHostMemory)?;
        // Counted before recording: a recording that fails has used memory of the pool all the same.
        pool.used += 1;
        Ok(&mut pool.raw)
    }

    /// Records that the last recording is complete when the timeline reaches `value`.
    pub(crate) fn submitted(&mut self, value: u64) {
        if let Some(pool) = &mut self.current {
            pool.last = value;
        }
    }

    fn fresh(&mut self, driver: &impl PoolMaker<P>) -> Result<P, DeviceError> {
        // Full: nothing more is recorded into it until it is reset.
        self.in_flight.extend(self.current.take());
        // The timeline is only queried when a pool is full: once per 32 submissions.
        if !self.in_flight.is_empty() {
            // A lost device is reported here, before a new pool would be created for it.
            let reached = driver.reached()?;
            // Oldest first: pools are completed in the order in which they were filled.
            while self.in_flight.front().is_some_and(|pool| pool.last <= reached) {
                self.spare.extend(self.in_flight.pop_front().and_then(|pool| driver.reset(pool.raw)));
            }
        }
        let enough = self.in_flight.len() + self.spare.len() >= POOLS_IN_TURN;
        // Below the minimum a new pool is created although a spare one exists: the spare one is the reserve for
        // a slow frame.
        let pool = match if enough { self.spare.pop() } else { None } {
            Some(pool) => pool,
            None => driver.make()?,
        };
        // A burst leaves many pools behind; all but a few are destroyed once they are reset.
        for surplus in self.spare.drain(SPARE_POOLS.min(self.spare.len())..) {
            driver.destroy(surplus);
        }
        Ok(pool)
    }

    /// Destroys all pools. The queue uses none of them any more, or is lost.
    #[cfg(any(feature = "vulkan", test))] // what Direct3D 12 records into is freed when it is dropped
    pub(crate) fn destroy(&mut self, driver: &impl PoolMaker<P>) {
        // Pools in flight are included: the caller has waited for the queue, or the device is lost.
        let used = self.current.take().into_iter().chain(self.in_flight.drain(..)).map(|pool| pool.raw);
        for pool in used.chain(self.spare.drain(..)) {
            driver.destroy(pool);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    /// Pools are numbers, made in order.
    #[derive(Default)]
    struct Driver {
        made: Cell<u32>,
        live: Cell<u32>,
        reached: Cell<u64>,
        refuses: Cell<bool>,
    }

    impl PoolMaker<u32> for Driver {
        fn make(&self) -> Result<u32, DeviceError> {
            self.made.set(self.made.get() + 1);
            self.live.set(self.live.get() + 1);
            Ok(self.made.get())
        }

        fn reached(&self) -> Result<u64, DeviceError> {
            Ok(self.reached.get())
        }

        fn reset(&self, pool: u32) -> Option<u32> {
            if self.refuses.get() {
                self.destroy(pool);
                return None;
            }
            Some(pool)
        }

        fn destroy(&self, _: u32) {
            self.live.set(self.live.get() - 1);
        }
    }

    /// Records and submits `count` times; the values go on from `value`.
    fn submit(pools: &mut CommandPools<u32>, driver: &Driver, value: u64, count: u64) -> u64 {
        for value in value..value + count {
            pools.next(driver).unwrap();
            pools.submitted(value + 1);
        }
        value + count
    }

    #[test]
    fn a_pool_is_used_again_only_when_the_queue_has_passed_its_last_submission() {
        let (mut pools, driver) = (CommandPools::default(), Driver::default());
        let value = submit(&mut pools, &driver, 0, 64);
        assert_eq!(driver.made.get(), 2);
        driver.reached.set(31);
        let value = submit(&mut pools, &driver, value, 32);
        assert_eq!(driver.made.get(), 3, "the first pool's last submission runs still");
        driver.reached.set(32);
        submit(&mut pools, &driver, value, 32);
        assert_eq!(driver.made.get(), 3, "the first pool is free");
    }

    #[test]
    fn a_queue_that_is_quick_at_first_has_two_pools_before_it_is_slow() {
        let (mut pools, driver) = (CommandPools::default(), Driver::default());
        let mut value = 0;
        for _ in 0..3 {
            driver.reached.set(value);
            value = submit(&mut pools, &driver, value, 32);
        }
        assert_eq!(driver.made.get(), 2);
        submit(&mut pools, &driver, value, 1);
        assert_eq!(driver.made.get(), 2, "though the queue has not begun with the last 32");
    }

    #[test]
    fn what_a_burst_took_is_given_back_but_for_four_pools() {
        let (mut pools, driver) = (CommandPools::default(), Driver::default());
        let value = submit(&mut pools, &driver, 0, 32 * 20);
        assert_eq!(driver.live.get(), 20);
        driver.reached.set(value);
        submit(&mut pools, &driver, value, 1);
        assert_eq!(driver.live.get(), 5, "the current one and four spare ones");
    }

    #[test]
    fn a_pool_that_cannot_be_reset_is_replaced() {
        let (mut pools, driver) = (CommandPools::default(), Driver::default());
        let value = submit(&mut pools, &driver, 0, 32);
        driver.reached.set(value);
        driver.refuses.set(true);
        submit(&mut pools, &driver, value, 1);
        assert_eq!((driver.made.get(), driver.live.get()), (2, 1));
        pools.destroy(&driver);
        assert_eq!(driver.live.get(), 0);
    }
}
