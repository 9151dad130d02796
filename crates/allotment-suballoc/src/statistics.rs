//! Statistics of a block: those kept up to date, and those that need a walk.

/// Statistics of a block that are always up to date, in O(1).
///
/// `allocated + padding + free == size`, always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The size of the block, in units.
    pub size: u64,
    /// The number of live ranges.
    pub allocation_count: u32,
    /// The units in live ranges, as requested.
    pub allocated: u64,
    /// The units lost to alignment or rounding until their ranges are freed.
    pub padding: u64,
    /// The units not allocated.
    pub free: u64,
    /// The number of free regions.
    pub free_range_count: u32,
}

/// Statistics from a walk over all regions, in O(regions).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DetailedStatistics {
    /// The statistics that need no walk.
    pub brief: Statistics,
    /// The smallest and the largest live range; `None` if there is none.
    pub allocation_size: Option<SizeRange>,
    /// The smallest and the largest free region; `None` if there is none.
    pub free_size: Option<SizeRange>,
    /// The largest size that a request at alignment 1 can get now. Less than the largest free region only in a
    /// linear block, where a hole cannot be used until it touches the gap.
    pub largest_free: u64,
}

impl DetailedStatistics {
    /// Returns the part of the free space that one large request cannot use: `1 - largest_free / free`.
    ///
    /// 0 if all of it is in one region (or there is none), close to 1 if it is scattered.
    #[must_use]
    pub fn fragmentation(&self) -> f64 {
        if self.brief.free == 0 {
            return 0.0;
        }
        1.0 - self.largest_free as f64 / self.brief.free as f64
    }
}

/// The smallest and the largest of several sizes, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeRange {
    /// The smallest size.
    pub min: u64,
    /// The largest size.
    pub max: u64,
}

impl SizeRange {
    /// Returns `range` extended to include `size`; `None` is the empty range.
    #[must_use]
    pub fn including(range: Option<Self>, size: u64) -> Self {
        match range {
            None => Self { min: size, max: size },
            Some(range) => Self { min: range.min.min(size), max: range.max.max(size) },
        }
    }
}
