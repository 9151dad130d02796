//! How full a heap is.

/// How full a heap is, or one of its regions. All counts are of descriptors but where they say otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DescriptorHeapStatistics {
    /// That there are.
    pub capacity: u32,
    /// In use: handed out, and not come back yet.
    pub used: u32,
    /// The most that were in use at once.
    pub peak: u32,
    /// Not in use.
    pub free: u32,
    /// The largest range of them that could be handed out at once.
    pub largest_free: u32,
    /// Of those in use, given back by their owner and waiting for the GPU.
    pub retiring: u32,
    /// Heaps of the driver that these stand in.
    pub pages: u32,
    /// Requests refused so far.
    pub failures: u64,
}

impl DescriptorHeapStatistics {
    /// How much of what is free cannot be had in one piece: 0 for none of it, nearly 1 for nearly all.
    #[must_use]
    pub fn fragmentation(&self) -> f64 {
        match self.free {
            0 => 0.0,
            free => 1.0 - f64::from(self.largest_free) / f64::from(free),
        }
    }
}

/// Counts that are kept while things come and go.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) used: u32,
    pub(super) peak: u32,
    pub(super) retiring: u32,
    pub(super) failures: u64,
}

impl Usage {
    pub(super) fn take(&mut self, count: u32) {
        self.used += count;
        self.peak = self.peak.max(self.used);
    }

    pub(super) fn give_back(&mut self, count: u32) {
        self.used -= count;
    }

    pub(super) fn statistics(
        &self,
        capacity: u32,
        largest_free: u32,
        pages: u32,
    ) -> DescriptorHeapStatistics {
        let Self { used, peak, retiring, failures } = *self;
        let free = capacity - used;
        DescriptorHeapStatistics { capacity, used, peak, free, largest_free, retiring, pages, failures }
    }
}
