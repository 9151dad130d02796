//! Waste, as every command means it: memory that is reserved and holds no live bytes, at the moment when most is
//! reserved, and as a share of what is reserved then.

use allotment::memory::Statistics;
use serde::Serialize;

use crate::units::{bytes, percent};

/// What the help says of it.
pub(crate) const HELP: &str = "\
Waste is memory that is reserved and holds no live bytes, at the moment when most is reserved, as a share of what is \
reserved then: padding (lost to alignment), rounding (lost to granularity and powers of two) and free (in no \
allocation).";

/// Bytes.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Waste {
    padding: u64,
    rounding: u64,
    free: u64,
    #[serde(skip)]
    reserved: u64,
}

impl Waste {
    /// What is wasted when most is reserved.
    pub(crate) fn at(peak: &Statistics) -> Self {
        let Statistics { padding, rounding, block_bytes: reserved, .. } = *peak;
        Self { padding, rounding, free: peak.free(), reserved }
    }

    /// All of it, as a share.
    pub(crate) fn share(&self) -> String {
        percent(self.total(), self.reserved)
    }

    fn total(&self) -> u64 {
        self.padding + self.rounding + self.free
    }

    /// The sum and its parts, each with its share.
    pub(crate) fn rows(&self) -> [(&'static str, String); 4] {
        let told = |part| format!("{} ({})", bytes(part), percent(part, self.reserved));
        [
            ("Waste", told(self.total())),
            ("… padding", told(self.padding)),
            ("… rounding", told(self.rounding)),
            ("… free", told(self.free)),
        ]
    }
}
