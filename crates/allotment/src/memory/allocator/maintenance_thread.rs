//! The ready-made thread that maintains an allocator.

use core::fmt;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::io;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::device::Device;
use crate::memory::allocator::Allocator;

/// A thread that [maintains](Allocator::maintain) an allocator until it is dropped.
///
/// ```
/// use std::sync::Arc;
///
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::memory::blocks::{MaintenanceThread, BlockGrowth, Watermark};
/// use allotment::{Allocator, AllocatorDesc};
///
/// let mut desc = AllocatorDesc::default();
/// desc.block_growth = BlockGrowth::Ahead(Watermark::default());
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let allocator = Arc::new(Allocator::new(device, desc)?);
/// let maintenance = MaintenanceThread::spawn(Arc::clone(&allocator))?;
/// // … frames …
/// drop(maintenance);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MaintenanceThread<D: Device> {
    allocator: Arc<Allocator<D>>,
    shared: Arc<MaintenanceShared>,
    thread: Option<JoinHandle<()>>,
}

/// State shared by a `MaintenanceThread` and its thread.
#[derive(Debug, Default)]
struct MaintenanceShared {
    stop: AtomicBool,
    panics: AtomicU64,
}

/// The longest sleep of the maintenance thread. A pool whose time passes without any call is still visited.
const LONGEST_SLEEP: Duration = Duration::from_millis(250);

impl<D: Device> MaintenanceThread<D> {
    /// Starts a maintenance thread.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = std::sync::Arc::new(Allocator::new(device, AllocatorDesc::default())?);
    /// use allotment::memory::blocks::MaintenanceThread;
    ///
    /// let maintenance = MaintenanceThread::spawn(allocator.clone())?;
    /// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
    /// allocator.free(mesh)?;
    /// assert_eq!(maintenance.panics(), 0);
    /// drop(maintenance); // waits until the thread has ended
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The system's error when it cannot start a thread.
    #[inline(never)]
    pub fn spawn(allocator: Arc<Allocator<D>>) -> io::Result<Self> {
        let shared = Arc::new(MaintenanceShared::default());
        let work = {
            let (allocator, shared) = (Arc::clone(&allocator), Arc::clone(&shared));
            move || {
                while !shared.stop.load(Relaxed) {
                    allocator.wait_for_maintenance(LONGEST_SLEEP);
                    // If a device's panic ended the thread, memory would pile up unnoticed.
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| allocator.maintain())) {
                        shared.panics.fetch_add(1, Relaxed);
                        // The payload's own drop may panic.
                        core::mem::forget(panic);
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("allotment maintenance".into()).spawn(work)?;
        Ok(Self { allocator, shared, thread: Some(thread) })
    }

    /// Returns how often [maintenance](Allocator::maintain) panicked since the thread started: 0, unless the device
    /// panics. The panic hook has reported each panic, and the thread continued after it.
    #[must_use]
    pub fn panics(&self) -> u64 {
        self.shared.panics.load(Relaxed)
    }
}

impl<D: Device> Drop for MaintenanceThread<D> {
    /// Stops the thread and waits for the maintenance in progress.
    #[inline(never)]
    fn drop(&mut self) {
        // Before the thread is woken. Should it miss the flag, it looks again after `LONGEST_SLEEP`.
        self.shared.stop.store(true, Relaxed);
        self.allocator.pools.request_maintenance();
        if let Some(thread) = self.thread.take() {
            // The thread catches panics, so joining it returns no error.
            let _ = thread.join();
        }
    }
}

impl<D: Device> fmt::Debug for MaintenanceThread<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaintenanceThread").field("panics", &self.panics()).finish_non_exhaustive()
    }
}
