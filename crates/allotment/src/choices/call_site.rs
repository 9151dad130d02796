//! Where in the program an allocation was made.

use core::fmt;
use core::panic::Location;
use std::backtrace::Backtrace;
use std::sync::Arc;

/// Whether an allocator stores where allocations are made. [Leaks](crate::memory::reports::Leak) and
/// [`AllocationInfo`](crate::memory::AllocationInfo) show it.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// use allotment::memory::reports::CallSites;
///
/// let mut desc = AllocatorDesc::default();
/// desc.call_sites = CallSites::Location; // in release builds, too
/// let allocator = Allocator::new(device, desc)?;
/// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
/// println!("{}", allocator.reports().leaks()[0]); // …, allocated at src/meshes.rs:12:30
/// # assert!(allocator.reports().leaks()[0].to_string().contains("allocated at"));
/// # allocator.free(mesh)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallSites {
    /// Nothing.
    None,
    /// The line of the program that called the library; for buffers that the library creates for itself, such as those
    /// of rings and heaps, its own line. About 20 ns an allocation.
    Location,
    /// The line, and a backtrace. Some microseconds and some kilobytes of host memory an allocation, and an
    /// allocation of host memory each. Recordings have the whole stack then ([`Event::Stack`](crate::events::Event::Stack)).
    #[doc(alias("store_stack_traces", "log_stack_traces"))]
    Backtrace,
}

impl Default for CallSites {
    /// The line in builds with debug assertions; nothing in others, where an allocation takes tens of nanoseconds.
    fn default() -> Self {
        if cfg!(debug_assertions) { Self::Location } else { Self::None }
    }
}

/// Where an allocation was made.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let mut desc = AllocatorDesc::default();
/// # desc.call_sites = allotment::memory::reports::CallSites::Location;
/// let allocator = Allocator::new(device, desc)?;
/// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
/// let site = allocator.info(&mesh)?.call_site.ok_or("the allocator stores call sites")?;
/// assert_eq!(site.location().line(), line!() - 2);
/// assert!(site.backtrace().is_none(), "`CallSites::Backtrace` asks for one");
/// # allocator.free(mesh)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct CallSite {
    location: &'static Location<'static>,
    backtrace: Option<Arc<Backtrace>>,
}

impl CallSite {
    /// Captures what is wanted.
    pub(crate) fn capture(wanted: CallSites, location: &'static Location<'static>) -> Self {
        let backtrace = (wanted == CallSites::Backtrace).then(|| Arc::new(Backtrace::force_capture()));
        Self { location, backtrace }
    }

    /// Returns the file, line and column of the call.
    #[must_use]
    pub fn location(&self) -> &'static Location<'static> {
        self.location
    }

    pub(crate) fn shared_backtrace(&self) -> Option<&Arc<Backtrace>> {
        self.backtrace.as_ref()
    }

    /// Returns the backtrace, where [`CallSites::Backtrace`] asked for it.
    #[must_use]
    pub fn backtrace(&self) -> Option<&Backtrace> {
        self.backtrace.as_deref()
    }
}

/// Two call sites are equal if they are the same line and column, by whatever way the program came there.
impl PartialEq for CallSite {
    fn eq(&self, other: &Self) -> bool {
        self.location == other.location
    }
}

impl Eq for CallSite {}

/// The location alone.
impl fmt::Display for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.location.fmt(f)
    }
}
