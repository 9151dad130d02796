//! Which descriptors are in use, and where the program allocated them: for leak reports.

use core::fmt;
use core::ops::RangeBounds;
use core::panic::Location;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use crate::choices::call_site::{CallSite, CallSites};
use crate::sync::locked;

/// Descriptors that a program has not given back, as a leak report shows them.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::device::DescriptorHeapType;
/// use allotment::memory::reports::LeakReport;
///
/// let targets = gpu.descriptors()?.cpu_heap(DescriptorHeapType::RenderTarget);
/// let views = targets.allocate(3)?;
/// let live = &LeakReport::of_device(&device).descriptors[0];
/// assert_eq!(live.count, 3);
/// println!("{live}"); // 3 CPU descriptors for render targets, allocated at src/main.rs:12:30
/// targets.free(views)?;
/// assert!(LeakReport::of_device(&device).descriptors.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeakedDescriptors {
    /// The heap that they are in: "CPU descriptors for render targets", for example.
    pub heap: &'static str,
    /// How many.
    pub count: u32,
    /// Where the program allocated them, if the allocator [stores](crate::memory::AllocatorDesc::call_sites) that. Without,
    /// all of a heap are one entry.
    pub call_site: Option<CallSite>,
}

impl fmt::Display for LeakedDescriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.count, self.heap)?;
        match &self.call_site {
            Some(call_site) => write!(f, ", allocated at {call_site}"),
            None => Ok(()),
        }
    }
}

/// A heap that knows which of its descriptors are in use.
pub(crate) trait HasDescriptors: Send + Sync {
    fn live(&self) -> Vec<LeakedDescriptors>;
}

/// The descriptor heaps of an allocator.
#[derive(Default)]
pub(crate) struct DescriptorHeaps {
    known: Mutex<Vec<Weak<dyn HasDescriptors>>>,
    /// What was in use when its heap was dropped.
    left: Mutex<Vec<LeakedDescriptors>>,
}

impl DescriptorHeaps {
    /// Adds a heap.
    pub(crate) fn add<H: HasDescriptors + 'static>(&self, heap: &Arc<H>) {
        let weak: Weak<dyn HasDescriptors> = Arc::downgrade(heap) as Weak<dyn HasDescriptors>;
        let mut known = locked(&self.known);
        known.retain(|heap| heap.strong_count() > 0);
        known.push(weak);
    }

    /// Notes what is in use in a heap that is being dropped.
    pub(crate) fn note_left(&self, mut left: Vec<LeakedDescriptors>) {
        locked(&self.left).append(&mut left);
    }

    /// Returns what is in use, and what was when its heap was dropped.
    pub(super) fn live(&self) -> Vec<LeakedDescriptors> {
        let mut live = locked(&self.left).clone();
        let heaps: Vec<_> = locked(&self.known).iter().filter_map(Weak::upgrade).collect();
        // Without the lock: this may be the last reference to a heap.
        heaps.iter().for_each(|heap| live.append(&mut heap.live()));
        live
    }

    /// Returns the same, and forgets the heaps that were dropped.
    pub(super) fn take(&self) -> Vec<LeakedDescriptors> {
        let live = self.live();
        locked(&self.left).clear();
        live
    }
}

impl fmt::Debug for DescriptorHeaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DescriptorHeaps").field("known", &locked(&self.known).len()).finish_non_exhaustive()
    }
}

/// Where the ranges of a heap that are in use were allocated.
#[derive(Debug)]
pub(crate) struct DescriptorSites {
    wanted: CallSites,
    /// Keeps its capacity, so that a steady program takes nothing from the heap for it.
    by_range: Mutex<HashMap<u64, (u32, CallSite)>>,
}

impl DescriptorSites {
    pub(crate) fn new(wanted: CallSites) -> Self {
        Self { wanted, by_range: Mutex::default() }
    }

    /// Returns true if call sites are stored.
    #[inline]
    pub(crate) fn are_stored(&self) -> bool {
        self.wanted != CallSites::None
    }

    /// Notes that a range of `count` descriptors was allocated.
    #[inline]
    #[track_caller]
    pub(crate) fn note(&self, range: u64, count: u32) {
        if self.are_stored() {
            self.store(range, count, Location::caller());
        }
    }

    #[cold]
    fn store(&self, range: u64, count: u32, location: &'static Location<'static>) {
        // Captured before the lock is taken: it takes microseconds.
        let site = CallSite::capture(self.wanted, location);
        locked(&self.by_range).insert(range, (count, site));
    }

    /// Notes that a range was freed, removed or retired.
    #[inline]
    pub(crate) fn forget(&self, range: u64) {
        if self.are_stored() {
            locked(&self.by_range).remove(&range);
        }
    }

    /// Returns what is in use of some ranges, each with its call site; where none are stored, `used` descriptors.
    pub(crate) fn live(
        &self,
        heap: &'static str,
        used: u32,
        ranges: impl RangeBounds<u64>,
    ) -> Vec<LeakedDescriptors> {
        if self.are_stored() {
            let by_range = locked(&self.by_range);
            let mut live: Vec<_> = by_range.iter().filter(|(range, _)| ranges.contains(range)).collect();
            live.sort_unstable_by_key(|(range, _)| **range);
            let leaked = |(_, (count, site)): (&u64, &(u32, CallSite))| LeakedDescriptors {
                heap,
                count: *count,
                call_site: Some(site.clone()),
            };
            return live.into_iter().map(leaked).collect();
        }
        let all = LeakedDescriptors { heap, count: used, call_site: None };
        if used == 0 { Vec::new() } else { vec![all] }
    }
}
