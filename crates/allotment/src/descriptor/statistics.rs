//! Statistics of descriptor heaps.

/// Statistics of a descriptor heap, or of one of its regions. Counts of descriptors unless stated otherwise.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let heap = gpu.descriptors()?.resources();
/// let table = heap.allocate(16)?;
/// let tables = heap.statistics().tables;
/// assert_eq!((tables.used, tables.free), (16, tables.capacity - 16));
/// println!("{:.0} % fragmented", tables.fragmentation() * 100.0);
/// # drop(table);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DescriptorHeapStatistics {
    /// The size of the heap or region.
    pub capacity: u32,
    /// In use: allocated, and not reusable yet.
    pub used: u32,
    /// The maximum in use at once.
    pub peak: u32,
    /// Not in use.
    pub free: u32,
    /// The largest free range.
    pub largest_free: u32,
    /// Of those in use, released by their owner and waiting for the GPU.
    pub retiring: u32,
    /// The number of the driver's heaps that these descriptors are in.
    pub pages: u32,
    /// The number of refused requests so far.
    pub failures: u64,
}

impl DescriptorHeapStatistics {
    /// Returns the part of the free descriptors that one large request cannot use: 0 if all are in one range,
    /// close to 1 if they are scattered.
    #[must_use]
    pub fn fragmentation(&self) -> f64 {
        match self.free {
            0 => 0.0,
            free => 1.0 - f64::from(self.largest_free) / f64::from(free),
        }
    }
}

/// Counters that are updated with each operation.
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
