//! Leak reports: the allocations and descriptors that are live when an allocator, or the last `Gpu`, is dropped.
//!
//! A buffer or an image keeps its allocator alive. One that is forgotten therefore keeps the allocator from ever reporting
//! it: so the last `Gpu` reports what it leaves behind, and a device, when it is asked, what all allocators over it have.

use std::io::Write;
use std::sync::{Arc, Mutex, Weak};

use crate::device::Device;
use crate::log::event;
use crate::memory::allocator::Allocator;
use crate::memory::leak_report::{Leak, LeakHandler, LeakMoment, LeakReport};
use crate::memory::pool::{Detail, Label, PoolState};
use crate::memory::token::{AllocationId, Record};
use crate::sync::locked;

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
        report.leaks.extend(self.held_by_program());
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

impl<D: Device> Allocator<D> {
    /// Returns the live allocations whose records `shows` wants, largest first.
    pub(in crate::memory) fn leaks_where(&self, shows: impl Fn(&Record) -> bool) -> Vec<Leak> {
        let mut leaks = Vec::new();
        for (pool, slot) in self.settled().indexed_slots() {
            let leak = |state: &PoolState<D>, record, detail: &Detail| {
                let Label { name, user_data, category, call_site } = state.label(record).clone();
                let entry = slot.records.get(record).filter(|it| shows(it))?;
                let generation = entry.generation();
                Some(Leak {
                    name,
                    size: entry.size(),
                    kind: detail.kind(),
                    category,
                    user_data,
                    pool: state.rules.name.clone(),
                    memory_type: state.sets[usize::from(detail.set)].memory_type,
                    call_site,
                    placed_in: None,
                    id: AllocationId { allocator: self.id(), pool, record, generation },
                    place: None,
                })
            };
            slot.each_live(leak, |leak| leaks.push(leak));
        }
        self.add_placed_leaks(&mut leaks, shows);
        leaks.sort_by_key(|leak| core::cmp::Reverse(leak.size));
        leaks
    }

    /// Returns the live allocations that the program has not released, largest first.
    fn held_by_program(&self) -> Vec<Leak> {
        let mut leaks = self.leaks_where(|record| !record.is_released());
        // Memory is released with the last resource in it, but the leaks are those resources, if the program dropped it.
        self.retain_held_memory(&mut leaks);
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
#[expect(clippy::disallowed_methods, reason = "only a report depends on the count")]
pub(crate) fn report_left_by_gpu<D: Device>(allocator: &Arc<Allocator<D>>) {
    // The drop of the allocator comes next, and reports.
    if Arc::strong_count(allocator) == 1 {
        return;
    }
    let moment = LeakMoment::LastGpuDropped;
    let leaks = allocator.held_by_program();
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
