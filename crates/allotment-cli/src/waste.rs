//! Waste, as every command means it: the most that is reserved less the most that is live, as a share of the former.
//!
//! Both are peaks, and need not be of one moment: so it says how much smaller the memory of a program could be that
//! never reserved more than it needs. What is lost at a moment, and to what, are padding, rounding and free bytes.

use crate::replay::Outcome;
use crate::units::{bytes, percent};

/// What the help says of it.
pub(crate) const HELP: &str = "Waste is peak reserved less peak live bytes, as a share of peak reserved.";

/// The waste of a replay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waste {
    /// Bytes.
    pub(crate) wasted: u64,
    reserved: u64,
}

impl Waste {
    pub(crate) fn of(outcome: &Outcome) -> Self {
        let reserved = outcome.peak.block_bytes;
        Self { wasted: reserved.saturating_sub(outcome.peak_live), reserved }
    }

    /// As a share.
    pub(crate) fn share(&self) -> String {
        percent(self.wasted, self.reserved)
    }

    /// In bytes and as a share.
    pub(crate) fn told(&self) -> String {
        format!("{} ({})", bytes(self.wasted), self.share())
    }
}
