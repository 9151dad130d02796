//! Waste, as all commands define it: peak reserved bytes less peak live bytes, as a share of the former.
//!
//! The two peaks need not coincide: waste tells how much smaller a program's memory could be if it never reserved
//! more than it needed. Padding, rounding and free bytes break down the loss at one moment.

use crate::replay::Outcome;
use crate::units::{bytes, percent};

/// The definition in the help text.
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

    /// Returns the share of peak reserved.
    pub(crate) fn share(&self) -> String {
        percent(self.wasted, self.reserved)
    }

    /// Formats bytes and share.
    pub(crate) fn text(&self) -> String {
        format!("{} ({})", bytes(self.wasted), self.share())
    }
}
