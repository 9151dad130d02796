//! Maintenance: the work that may wait for the driver, in a thread that has the time.
//!
//! A driver takes milliseconds to allocate a block of device memory and up to four frames to allocate one of host
//! memory. So a thread that may wait allocates the next block before a request needs it (`ahead.rs`), and frees
//! blocks that no request needs: a thread of the caller that calls [`Allocator::maintain`] from time to time, or the
//! ready-made [`MaintenanceThread`](crate::memory::MaintenanceThread).
//!
//! With [`BlockGrowth::Ahead`](crate::memory::BlockGrowth::Ahead) neither a free nor the end of a frame frees memory to
//! the driver; they only request maintenance.

use core::time::Duration;

use crate::device::Device;
use crate::events::Event;
use crate::log::event;
use crate::memory::allocator::Allocator;

/// Result of one call of [`Allocator::maintain`].
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// let report = allocator.maintain();
/// println!("{} blocks of {} bytes allocated, {} freed", report.blocks, report.bytes, report.returned);
/// assert_eq!(report.blocks, 0, "blocks grow on demand here");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MaintenanceReport {
    /// Blocks that were allocated.
    pub blocks: u32,
    /// Bytes of these blocks.
    pub bytes: u64,
    /// Memory objects that were freed to the driver.
    pub returned: u32,
}

impl<D: Device> Allocator<D> {
    /// Allocates the blocks that will be needed next and frees those that no request needs, in all pools. Takes as long
    /// as the driver calls take; holds no lock meanwhile. Call it from a thread that may wait. Several threads may call
    /// it at once.
    ///
    /// ```
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    /// use allotment::memory::blocks::{BlockGrowth, Watermark};
    /// use allotment::{Allocator, AllocatorDesc, MemoryUsage, Requirements};
    ///
    /// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let mut desc = AllocatorDesc::default();
    /// desc.block_growth = BlockGrowth::Ahead(Watermark::default());
    /// let allocator = Allocator::new(device, desc)?;
    ///
    /// // The first request waits for its block; the next block is allocated ahead of demand.
    /// let (tile, options) = (Requirements::new(3 << 20), MemoryUsage::GpuOnly.into());
    /// let first = allocator.allocate(&tile, &options)?;
    /// assert_eq!(allocator.reports().stalls().count, 1);
    /// assert!(allocator.maintain().blocks > 0);
    /// let second = allocator.allocate(&tile, &options)?;
    /// assert_eq!(allocator.reports().stalls().count, 1, "the second request did not wait");
    /// # allocator.free(first)?;
    /// # allocator.free(second)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    pub fn maintain(&self) -> MaintenanceReport {
        self.take_left_frees();
        self.announce_if_asked();
        // Cleared before the work, so that a request made meanwhile is not lost.
        self.pools.begin_maintenance();
        let mut done = MaintenanceReport { returned: self.return_memory(), ..MaintenanceReport::default() };
        let now = self.pools.now();
        let mut time_passed = false;
        self.pools.each_to_maintain(now, |slot| {
            time_passed |= slot.pass_time(now);
            // Growth first: requests may be waiting for the block, while freeing can wait.
            // This ends: each block adds room, and after a refusal the pool is not asked again in this frame.
            while let Some(bytes) = self.grow_ahead(slot) {
                done.blocks += 1;
                done.bytes += bytes;
            }
            done.returned += self.release_each(|| slot.take_unwanted());
        });
        if (time_passed || done != MaintenanceReport::default()) && self.events().is_read() {
            self.events().push_always(|_| Event::Maintained);
        }
        if done != MaintenanceReport::default() {
            event!(
                DEBUG,
                "memory",
                blocks = done.blocks,
                bytes = done.bytes,
                freed = done.returned,
                "maintained"
            );
        }
        done
    }

    /// Waits until [`maintain`](Self::maintain) has work, for at most `timeout`. Returns true when there is work.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// use core::time::Duration;
    /// use allotment::memory::blocks::{BlockGrowth, Watermark};
    ///
    /// let mut desc = AllocatorDesc::default();
    /// desc.block_growth = BlockGrowth::Ahead(Watermark::default());
    /// let allocator = Allocator::new(device, desc)?;
    /// let mesh = allocator.allocate(&Requirements::new(3 << 20), &MemoryUsage::GpuOnly.into())?;
    /// // In a thread of the program:
    /// while allocator.wait_for_maintenance(Duration::from_millis(1)) {
    ///     allocator.maintain();
    /// }
    /// # allocator.free(mesh)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_for_maintenance(&self, timeout: Duration) -> bool {
        self.pools.wait_for_maintenance(timeout)
    }

    /// Frees the memory that waits for it. Returns the number of memory objects.
    pub(super) fn return_memory(&self) -> u32 {
        let memory = self.pools.take_left_to_maintenance();
        let count = memory.len() as u32;
        self.free_all(memory);
        count
    }
}
