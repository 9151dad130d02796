//! The sums that a dump states of itself, against those of what was read.

use super::super::builder::Builder;
use super::super::json::{Fields, Json};
use super::ImportErrorKind;

/// Sums of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) blocks: u64,
    pub(super) block_bytes: u64,
    pub(super) used: Ranges,
    pub(super) free: Ranges,
}

/// Sums of ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ranges {
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Default for Ranges {
    fn default() -> Self {
        Self { count: 0, bytes: 0, min: u64::MAX, max: 0 }
    }
}

impl Ranges {
    pub(super) fn of(size: u64) -> Self {
        Self { count: 1, bytes: size, min: size, max: size }
    }

    pub(super) fn add(&mut self, more: Self) {
        self.count += more.count;
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.min = u64::min(self.min, more.min);
        self.max = u64::max(self.max, more.max);
    }
}

impl Sums {
    /// Returns the sums of a memory object that one allocation has alone.
    pub(super) fn dedicated(size: u64) -> Self {
        Self { blocks: 1, block_bytes: size, used: Ranges::of(size), free: Ranges::default() }
    }

    pub(super) fn add(&mut self, more: Self) {
        self.blocks += more.blocks;
        self.block_bytes = self.block_bytes.saturating_add(more.block_bytes);
        self.used.add(more.used);
        self.free.add(more.free);
    }

    /// Tells where the dump states other sums, in the words of VMA 2 or of VMA 3 and D3D12MA. `whose` are they, in a
    /// sentence: `of memory type 0`.
    pub(super) fn compare(
        self,
        stated: &Json<'_>,
        whose: &str,
        builder: &mut Builder<'_>,
    ) -> Result<(), ImportErrorKind> {
        let mut fields = Fields::new(stated, "statistics");
        let (used, free) = (self.used, self.free);
        for (key, read) in [
            ("Blocks", self.blocks),
            ("BlockCount", self.blocks),
            ("BlockBytes", self.block_bytes),
            ("Allocations", used.count),
            ("AllocationCount", used.count),
            ("UsedBytes", used.bytes),
            ("AllocationBytes", used.bytes),
            ("UnusedRanges", free.count),
            ("UnusedRangeCount", free.count),
            ("UnusedBytes", free.bytes),
            ("AllocationSizeMin", used.min),
            ("AllocationSizeMax", used.max),
            ("UnusedRangeSizeMin", free.min),
            ("UnusedRangeSizeMax", free.max),
        ] {
            if let Some(stated) = fields.number(key) {
                builder.differ(key, whose, stated, read)?;
            }
        }
        for (key, read) in [("AllocationSize", used), ("UnusedRangeSize", free)] {
            let Some(stated) = fields.group(key) else { continue };
            let mut fields = Fields::new(stated, "statistics");
            // As VMA rounds.
            let average = (read.bytes.saturating_add(read.count / 2)).checked_div(read.count).unwrap_or(0);
            for (part, read) in [("Min", read.min), ("Avg", average), ("Max", read.max)] {
                if let Some(stated) = fields.number(part) {
                    builder.differ(&format!("{key}.{part}"), whose, stated, read)?;
                }
            }
            fields.end(builder)?;
        }
        fields.end(builder)
    }
}
