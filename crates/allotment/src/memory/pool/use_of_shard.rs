//! Whether threads allocate from a shard at present.
//!
//! Reading the clock costs as much as a small allocation, so a request is only counted. Whoever has the time at hand (the
//! end of a frame, a free that reads the clock, `maintain`, and each survey of a defragmentation) compares the count with
//! that of the time before:
//!
//! ```text
//!   requests   ▮▮▮ ▮ ▮▮                ▮
//!   looks      │     │     │     │     │     │
//!   unused           └─────────────┘   └──────── since the first look that found no new request
//! ```
//!
//! So a shard is never taken for unused too early; it may be taken for used a little too long. The end of a frame looks at one of 64
//! shards that are in use, so that it may be a second.

/// Ticks (sixtieths of a second) without a request after which a shard is idle: longer than most pauses of a program that
/// allocates in each frame, short beside the time for which its blocks could be missed.
const IDLE_TICKS: u64 = 60;

/// Counts the requests of a shard.
#[derive(Debug, Default)]
pub(crate) struct UseOfShard {
    /// Requests so far, whether they found room or not. Frees do not count: a thread that only frees fills no block. It may
    /// wrap around: a look that finds exactly the count of the one before takes a shard for unused, which costs time alone.
    requests: u32,
    /// Those of the last look that found new ones, and its tick (sixtieths of a second).
    seen: u32,
    unused_since: u64,
}

impl UseOfShard {
    /// Counts a request.
    #[inline]
    pub(super) fn count_request(&mut self) {
        self.requests = self.requests.wrapping_add(1);
    }

    /// Returns the number of requests so far.
    pub(super) fn requests(&self) -> u32 {
        self.requests
    }

    /// Returns true if a look has seen all requests.
    pub(super) fn is_seen(&self) -> bool {
        self.requests == self.seen
    }

    /// Notes at `tick` whether requests came.
    pub(super) fn look(&mut self, tick: u64) {
        if self.requests != self.seen {
            (self.seen, self.unused_since) = (self.requests, tick);
        }
    }

    /// Returns true where no request came for a second.
    pub(super) fn is_idle(&mut self, tick: u64) -> bool {
        self.look(tick);
        tick.saturating_sub(self.unused_since) >= IDLE_TICKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_idle_once_a_second_passed_after_the_look_that_found_its_last_request() {
        let mut shard = UseOfShard::default();
        assert!(!shard.is_idle(59), "nobody knows what was before");
        shard.count_request();
        assert!(!shard.is_idle(1000), "the request came at an unknown time before");
        shard.look(1030);
        assert!(!shard.is_idle(1059));
        assert!(shard.is_idle(1060));
        shard.count_request();
        assert!(!shard.is_idle(1061));
        shard.count_request();
        assert!(!shard.is_idle(5000), "used all the time, as far as the looks tell");
    }
}
