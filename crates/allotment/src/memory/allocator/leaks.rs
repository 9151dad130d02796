//! Leak reports: the allocations and descriptors that are live when an allocator, or the last `Gpu`, is dropped.
//!
//! A buffer or an image keeps its allocator alive. One that is forgotten therefore keeps the allocator from ever reporting
//! it: so the last `Gpu` reports what it leaves behind, and a device, when it is asked, what all allocators over it have.

use core::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, Weak};

use crate::choices::call_site::CallSite;
use crate::device::{Device, MemoryTypeIndex, ResourceKind};
use crate::log::event;
use crate::memory::Name;
use crate::memory::allocator::Allocator;
use crate::memory::descriptors::LeakedDescriptors;
use crate::memory::pool::{Detail, Label, PoolState};
use crate::memory::token::Record;
use crate::sync::locked;

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
    /// Returns what is live over a device: in the allocators of all its `Gpu`s and
    /// [`OwningAllocator`](crate::memory::OwningAllocator)s, also of those that are gone but for what was forgotten. For the
    /// end of a program or a test. Takes O(allocations), and a lock of each pool.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// use allotment::memory::reports::{LeakHandler, LeakReport};
    ///
    /// let mut desc = AllocatorDesc::default();
    /// desc.on_leak = LeakHandler::Ignore;
    /// let gpu = Gpu::new(device.clone(), GpuDesc::default().with_allocator(desc))?;
    /// std::mem::forget(gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("sky"))?);
    /// drop(gpu);
    /// let report = LeakReport::of_device(&device);
    /// assert_eq!(report.leaks[0].name.as_ref().map(|name| name.as_str()), Some("sky"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn of_device<D: Device>(device: &D) -> Self {
        let known: Vec<_> = {
            let known = locked(&KNOWN);
            known.iter().filter(|known| known.device == device.id()).map(|it| it.allocator.clone()).collect()
        };
        let mut report = Self { moment: LeakMoment::Asked, ..Self::default() };
        // Without the lock: this may be the last reference to an allocator, whose drop reports leaks too.
        known.iter().filter_map(Weak::upgrade).for_each(|allocator| allocator.add_to(&mut report));
        report.leaks.sort_by_key(|leak| core::cmp::Reverse(leak.size));
        report
    }

    /// Returns true if nothing is live.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leaks.is_empty() && self.descriptors.is_empty()
    }
}

/// An allocator that resources keep alive.
struct Known {
    /// The id of its device, which no other device has as long as the allocator lives.
    device: u64,
    allocator: Weak<dyn HasLeaks>,
}

/// The allocators of all devices. A reference of an allocator that is gone is removed when another one is added.
static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// An allocator, whatever its device.
trait HasLeaks: Send + Sync {
    fn add_to(&self, report: &mut LeakReport);
}

impl<D: Device> HasLeaks for Allocator<D> {
    fn add_to(&self, report: &mut LeakReport) {
        report.leaks.extend(self.leaks_where(|record| !record.is_released()));
        report.descriptors.extend(self.descriptor_heaps.live());
    }
}

/// Lets [`LeakReport::of_device`] find an allocator.
pub(crate) fn make_known<D: Device>(allocator: &Arc<Allocator<D>>) {
    let new: Weak<dyn HasLeaks> = Arc::downgrade(allocator) as Weak<dyn HasLeaks>;
    let mut known = locked(&KNOWN);
    if !known.iter().any(|it| core::ptr::addr_eq(it.allocator.as_ptr(), new.as_ptr())) {
        known.retain(|it| it.allocator.strong_count() > 0);
        known.push(Known { device: allocator.device().id(), allocator: new });
    }
}

impl fmt::Display for LeakReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: u64 = self.leaks.iter().map(|leak| leak.size).sum();
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

impl<D: Device> Allocator<D> {
    /// Returns the live allocations whose records `shows` wants, largest first.
    pub(in crate::memory) fn leaks_where(&self, shows: impl Fn(&Record) -> bool) -> Vec<Leak> {
        let mut leaks = Vec::new();
        for slot in self.pools.slots() {
            let leak = |state: &PoolState<D>, record, detail: &Detail| {
                let Label { name, user_data, category, call_site } = state.label(record).clone();
                let size = slot.records.get(record).filter(|it| shows(it))?.size();
                Some(Leak {
                    name,
                    size,
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
pub(super) fn report_leaks<D: Device>(allocator: &Allocator<D>) {
    let descriptors = allocator.descriptor_heaps.take();
    // The counters tell without a lock and without a walk.
    if allocator.statistics().allocations == 0 && descriptors.is_empty() {
        return;
    }
    let report = LeakReport {
        moment: LeakMoment::AllocatorDropped,
        leaks: allocator.leaks_where(|_| true),
        descriptors,
    };
    hand_out(allocator, &report);
}

/// Passes a report of what is alive after the last `Gpu` to the leak handler, if there is anything. What waits for the GPU
/// is not: it is destroyed once the GPU is done with it.
pub(crate) fn report_left_by_gpu<D: Device>(allocator: &Arc<Allocator<D>>) {
    // The drop of the allocator comes next, and reports.
    if Arc::strong_count(allocator) == 1 {
        return;
    }
    let moment = LeakMoment::LastGpuDropped;
    let leaks = allocator.leaks_where(|record| !record.is_released());
    let report = LeakReport { moment, leaks, descriptors: allocator.descriptor_heaps.take() };
    if !report.is_empty() {
        hand_out(allocator, &report);
    }
}

fn hand_out<D: Device>(allocator: &Allocator<D>, report: &LeakReport) {
    // An application that ignores leaks on purpose should not find them in its log either.
    if !matches!(allocator.desc().on_leak, LeakHandler::Ignore) {
        event!(WARN, "memory", %report, "an allocator or the last `Gpu` was dropped with live allocations");
    }
    match &allocator.desc().on_leak {
        LeakHandler::Print => {
            // Standard error may be closed, and a drop has no caller to return the error to.
            let _ = write!(std::io::stderr(), "{report}");
        }
        LeakHandler::Ignore => {}
        LeakHandler::Call(call) => call(report),
    }
}
