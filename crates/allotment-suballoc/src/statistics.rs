//! What is known about a block: cheaply, and by a walk.

/// What a block knows about itself at any moment, in O(1).
///
/// `allocated + padding + free == size`, always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Units in the block.
    pub size: u64,
    /// Live ranges.
    pub allocation_count: u32,
    /// Units in live ranges, as they were asked for.
    pub allocated: u64,
    /// Units lost to alignment or rounding while their live ranges last.
    pub padding: u64,
    /// Units handed out to nobody.
    pub free: u64,
    /// In how many regions the free units lie.
    pub free_range_count: u32,
}

/// What a walk over all regions finds out, in O(regions).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DetailedStatistics {
    /// What is known without a walk.
    pub brief: Statistics,
    /// Smallest and largest live range; `None` when there is none.
    pub allocation_size: Option<SizeRange>,
    /// Smallest and largest free region; `None` when there is none.
    pub free_size: Option<SizeRange>,
    /// The largest size that a request at alignment 1 could get now. Less than the largest free region
    /// only in a linear block, where a hole must wait.
    pub largest_free: u64,
}

impl DetailedStatistics {
    /// How much of the free space is out of reach of one large request: `1 - largest_free / free`.
    ///
    /// 0 when all of it is in one region (or there is none), close to 1 when it is scattered.
    #[must_use]
    pub fn fragmentation(&self) -> f64 {
        if self.brief.free == 0 { 0.0 } else { 1.0 - self.largest_free as f64 / self.brief.free as f64 }
    }
}

/// The smallest and the largest of some sizes, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeRange {
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
}

impl SizeRange {
    /// The range that also holds `size`, for building one up from nothing.
    #[must_use]
    pub fn including(range: Option<Self>, size: u64) -> Self {
        match range {
            None => Self { min: size, max: size },
            Some(range) => Self { min: range.min.min(size), max: range.max.max(size) },
        }
    }
}
