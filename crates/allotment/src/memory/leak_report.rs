//! What a leak report says, and where it goes. When one is made: `allocator/leaks.rs`.

use core::fmt;
use std::collections::HashSet;
use std::sync::Arc;

use crate::choices::call_site::CallSite;
use crate::device::{MemoryTypeIndex, ResourceKind};
use crate::memory::descriptors::LeakedDescriptors;
use crate::memory::{AllocationId, Name};

/// A live allocation, as a leak report shows it.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// let options = MemoryUsage::GpuOnly.with_name("sky").with_category("texture").with_user_data(4711);
/// let sky = allocator.allocate(&Requirements::new(1000), &options)?;
/// let leak = &allocator.reports().leaks()[0]; // live now: a leak if the allocator were dropped
/// assert_eq!((leak.size, leak.category, leak.user_data), (1000, "texture", 4711));
/// # allocator.free(sky)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leak {
    /// The allocation's name, if it has one.
    pub name: Option<Name>,
    /// Size in bytes, as requested.
    pub size: u64,
    /// The kind of resource that the allocation was made for.
    pub kind: ResourceKind,
    /// The allocation's category; empty for none.
    pub category: &'static str,
    /// The caller's user data.
    pub user_data: u64,
    /// The name of the custom pool, if the allocation is in one that has a name.
    pub pool: Option<Name>,
    /// The memory type of the allocation.
    pub memory_type: MemoryTypeIndex,
    /// Where the program made the allocation, if the allocator
    /// [stores](crate::memory::AllocatorDesc::call_sites) that.
    pub call_site: Option<CallSite>,
    /// The name of the [memory](crate::memory::Memory) in which the resource is placed, if it is. Its bytes are those of that
    /// memory, which a report lists beside it where the program holds it too.
    pub placed_in: Option<Name>,
    /// By which what is placed in it finds it: two may have one name, or none.
    pub(crate) id: AllocationId,
    /// The memory in which it is placed, and the offset there.
    pub(crate) place: Option<(AllocationId, u64)>,
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "\"{name}\"")?,
            None => f.write_str("(no name)")?,
        }
        write!(f, ": {} bytes of memory type {}", self.size, self.memory_type)?;
        if !self.category.is_empty() {
            write!(f, ", {}", self.category)?;
        }
        if let Some(pool) = &self.pool {
            write!(f, ", in pool \"{pool}\"")?;
        }
        if let Some(memory) = &self.placed_in {
            write!(f, ", placed in \"{memory}\"")?;
        }
        if let Some(call_site) = &self.call_site {
            write!(f, ", allocated at {call_site}")?;
        }
        Ok(())
    }
}

/// How many leaks a report shows. The largest come first; a long tail would hide them.
const SHOWN: usize = 20;

/// When a leak report was made.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// use allotment::memory::reports::{LeakMoment, LeakReport};
///
/// assert_eq!(LeakReport::of_device(&device).moment, LeakMoment::Asked);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeakMoment {
    /// The allocator was dropped.
    #[default]
    AllocatorDropped,
    /// The last clone of a [`Gpu`](crate::Gpu) was dropped. Its allocator lives as long as any of its resources: those that
    /// the program still has are destroyed when it drops them, and those that it forgot never are.
    LastGpuDropped,
    /// The program [asked](LeakReport::of_device).
    Asked,
}

/// All allocations and descriptors that were live when an allocator or the last `Gpu` was dropped, the largest allocations
/// first.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// use std::sync::{Arc, Mutex};
/// use allotment::memory::reports::{LeakHandler, LeakReport};
///
/// let found = Arc::new(Mutex::new(None));
/// let (mut desc, sink) = (AllocatorDesc::default(), Arc::clone(&found));
/// desc.on_leak = LeakHandler::Call(Arc::new(move |report: &LeakReport| *sink.lock().unwrap() = Some(report.clone())));
/// let allocator = Allocator::new(device, desc)?;
/// drop(allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.with_name("sky"))?);
/// drop(allocator);
/// assert_eq!(found.lock().unwrap().take().ok_or("a report")?.leaks.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeakReport {
    /// When it was made.
    pub moment: LeakMoment,
    /// The allocations.
    pub leaks: Vec<Leak>,
    /// The descriptors.
    pub descriptors: Vec<LeakedDescriptors>,
}

impl LeakReport {
    /// Returns true if nothing is live.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leaks.is_empty() && self.descriptors.is_empty()
    }

    /// Returns the bytes of all allocations, each once: those of memory that is in the list are those of what is placed there, and
    /// where it is not, what is placed there may overlap.
    fn bytes(&self) -> u64 {
        let (placed, others): (Vec<_>, Vec<_>) = self.leaks.iter().partition(|leak| leak.place.is_some());
        let listed: HashSet<_> = others.iter().map(|leak| leak.id).collect();
        let places = placed.iter().filter_map(|leak| Some((leak.place?, leak.size)));
        let mut ranges: Vec<_> = places
            .filter(|((memory, _), _)| !listed.contains(memory))
            .map(|((memory, start), size)| (memory, start, start + size))
            .collect();
        ranges.sort_unstable();
        let mut bytes: u64 = others.iter().map(|leak| leak.size).sum();
        let mut before = None;
        for (memory, start, end) in ranges {
            let counted = before.filter(|(last, _)| *last == memory).map_or(start, |(_, end)| start.max(end));
            bytes += end.saturating_sub(counted);
            before = Some((memory, end.max(counted)));
        }
        bytes
    }
}

impl fmt::Display for LeakReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes();
        let what = match self.moment {
            LeakMoment::AllocatorDropped => "were never freed",
            LeakMoment::LastGpuDropped => "are alive after the last `Gpu` was dropped",
            LeakMoment::Asked => "are alive",
        };
        if !self.leaks.is_empty() || self.descriptors.is_empty() {
            writeln!(f, "{} allocations of {bytes} bytes {what}:", self.leaks.len())?;
        }
        for leak in self.leaks.iter().take(SHOWN) {
            writeln!(f, "  {leak}")?;
            if let Some(backtrace) = leak.call_site.as_ref().and_then(CallSite::backtrace) {
                writeln!(f, "{backtrace}")?;
            }
        }
        if let more @ 1.. = self.leaks.len().saturating_sub(SHOWN) {
            writeln!(f, "  and {more} more")?;
        }
        if self.descriptors.is_empty() {
            return Ok(());
        }
        let count: u64 = self.descriptors.iter().map(|leak| u64::from(leak.count)).sum();
        writeln!(f, "{count} descriptors {what}:")?;
        for leak in self.descriptors.iter().take(SHOWN) {
            writeln!(f, "  {leak}")?;
        }
        match self.descriptors.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => writeln!(f, "  and {more} more"),
        }
    }
}

/// Destination of the leak report when an allocator, or the last [`Gpu`](crate::Gpu), is dropped with live allocations or
/// descriptors.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// use std::sync::{Arc, Mutex, Weak};
/// use allotment::memory::reports::LeakHandler;
///
/// let mut desc = AllocatorDesc::default();
/// desc.on_leak = LeakHandler::Call(Arc::new(|report| eprintln!("to the log: {report}")));
/// let allocator = Allocator::new(device, desc)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub enum LeakHandler {
    /// Prints the report to standard error.
    #[default]
    Print,
    /// Discards the report.
    Ignore,
    /// Calls a function. If the function panics, the allocator's memory is still freed to the driver.
    Call(Arc<dyn Fn(&LeakReport) + Send + Sync>),
}

impl fmt::Debug for LeakHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Print => "Print",
            Self::Ignore => "Ignore",
            Self::Call(_) => "Call",
        })
    }
}
