//! Frames in which an allocator should not call the driver.

/// Finds frames that needed no more memory than an earlier frame: an allocator should not call the driver in them.
#[derive(Debug, Default)]
pub(super) struct SteadyFrames {
    /// The most live bytes up to the end of the previous frame.
    seen: u64,
    /// The most live bytes in this frame.
    here: u64,
    calls_before: u64,
    pub(super) most_calls: u64,
}

impl SteadyFrames {
    pub(super) fn live(&mut self, bytes: u64) {
        self.here = self.here.max(bytes);
    }

    pub(super) fn end(&mut self, live: u64, calls: u64) {
        // A frame within the memory of an earlier one could have been served from blocks that exist already.
        if self.here <= self.seen {
            self.most_calls = self.most_calls.max(calls - self.calls_before);
        }
        self.seen = self.seen.max(self.here);
        (self.here, self.calls_before) = (live, calls);
    }
}
