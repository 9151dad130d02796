//! Leak reports: the allocations that are live when an allocator is dropped.

use core::fmt;
use std::io::Write;
use std::sync::Arc;

use crate::device::{Device, MemoryTypeIndex, ResourceKind};
use crate::log::event;
use crate::memory::Name;
use crate::memory::allocator::Allocator;
use crate::memory::pool::{Detail, Label, PoolState};
use crate::memory::reports::call_site::CallSite;

/// A live allocation, as a leak report shows it.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// let options = MemoryUsage::GpuOnly.with_name("sky").with_category("texture").with_user_data(4711);
/// let sky = allocator.allocate(&Requirements::new(1000), &options)?;
/// let leak = &allocator.leaks()[0]; // live now: a leak if the allocator were dropped
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
        if let Some(call_site) = &self.call_site {
            write!(f, ", allocated at {call_site}")?;
        }
        Ok(())
    }
}

/// How many leaks a report shows. The largest come first; a long tail would hide them.
const SHOWN: usize = 20;

/// All allocations that were live when an allocator was dropped, largest first. Never empty.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// use std::sync::{Arc, Mutex};
/// use allotment::memory::{LeakHandler, LeakReport};
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeakReport {
    /// The allocations.
    pub leaks: Vec<Leak>,
}

impl fmt::Display for LeakReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: u64 = self.leaks.iter().map(|leak| leak.size).sum();
        writeln!(f, "{} allocations of {bytes} bytes were never freed:", self.leaks.len())?;
        for leak in self.leaks.iter().take(SHOWN) {
            writeln!(f, "  {leak}")?;
            if let Some(backtrace) = leak.call_site.as_ref().and_then(CallSite::backtrace) {
                writeln!(f, "{backtrace}")?;
            }
        }
        match self.leaks.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => writeln!(f, "  and {more} more"),
        }
    }
}

/// Destination of the leak report when an allocator is dropped with live allocations.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// use std::sync::Arc;
/// use allotment::memory::LeakHandler;
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

impl<D: Device> Allocator<D> {
    /// Returns all live allocations, largest first: the report that dropping the allocator now would make. Consistent, and
    /// locks, as [`allocations`](Self::allocations).
    ///
    /// ```
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    /// use allotment::memory::LeakHandler;
    /// use allotment::{Allocator, AllocatorDesc, MemoryUsage, Requirements};
    ///
    /// let device = SimulatedGpu::new(Profile::named("integrated").unwrap());
    /// let mut desc = AllocatorDesc::default();
    /// desc.on_leak = LeakHandler::Ignore;
    /// let allocator = Allocator::new(device, desc)?;
    /// let options = MemoryUsage::GpuOnly.with_name("shadow map");
    /// drop(allocator.allocate(&Requirements::new(64), &options)?);
    /// let leak = allocator.leaks()[0].to_string();
    /// assert!(leak.starts_with("\"shadow map\": 64 bytes of memory type 0"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    #[doc(alias = "report_memory_leaks")]
    #[must_use]
    pub fn leaks(&self) -> Vec<Leak> {
        let mut leaks = Vec::new();
        for slot in self.slots() {
            let leak = |state: &PoolState<D>, record, detail: &Detail| {
                let Label { name, user_data, category, call_site } = state.label(record).clone();
                Some(Leak {
                    name,
                    size: slot.records.get(record)?.size(),
                    kind: detail.kind(),
                    category,
                    user_data,
                    pool: state.rules.name.clone(),
                    memory_type: state.sets[usize::from(detail.set)].memory_type,
                    call_site,
                })
            };
            slot.each_live(leak, |leak| leaks.push(leak));
        }
        leaks.sort_by_key(|leak| core::cmp::Reverse(leak.size));
        leaks
    }
}

/// Passes a report of the live allocations to the leak handler, if there are any.
pub(in crate::memory) fn report_leaks<D: Device>(allocator: &Allocator<D>) {
    // The counters tell without a lock and without a walk.
    if allocator.statistics().allocations == 0 {
        return;
    }
    let report = LeakReport { leaks: allocator.leaks() };
    // An application that ignores leaks on purpose should not find them in its log either.
    if !matches!(allocator.desc().on_leak, LeakHandler::Ignore) {
        event!(WARN, "memory", %report, "an allocator was dropped with live allocations");
    }
    match &allocator.desc().on_leak {
        LeakHandler::Print => {
            // Standard error may be closed, and a drop has no caller to return the error to.
            let _ = write!(std::io::stderr(), "{report}");
        }
        LeakHandler::Ignore => {}
        LeakHandler::Call(call) => call(&report),
    }
}
