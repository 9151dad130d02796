//! Who forgot what.

use core::fmt;
use std::io::Write;
use std::sync::Arc;

use super::Name;
use super::allocator::Allocator;
use crate::device::{Device, MemoryTypeIndex, ResourceKind};
use crate::sync::locked;

/// An allocation that is live, as a leak report tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leak {
    /// Its name, if it has one.
    pub name: Option<Name>,
    /// Bytes, as asked for.
    pub size: u64,
    /// What stands there.
    pub kind: ResourceKind,
    /// Its category; empty for none.
    pub category: &'static str,
    /// The caller's own number.
    pub user_data: u64,
    /// The name of its custom pool, if it is in one that has a name.
    pub pool: Option<Name>,
    /// Where it is.
    pub memory_type: MemoryTypeIndex,
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
        Ok(())
    }
}

/// Everything that was live when an allocator went, largest first. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeakReport {
    /// The allocations.
    pub leaks: Vec<Leak>,
}

impl fmt::Display for LeakReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 20;
        let bytes: u64 = self.leaks.iter().map(|leak| leak.size).sum();
        writeln!(f, "{} allocations of {bytes} bytes were never freed:", self.leaks.len())?;
        for leak in self.leaks.iter().take(SHOWN) {
            writeln!(f, "  {leak}")?;
        }
        match self.leaks.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => writeln!(f, "  and {more} more"),
        }
    }
}

/// Who is told of leaks when an allocator goes.
#[derive(Clone, Default)]
pub enum LeakHandler {
    /// Standard error.
    #[default]
    Print,
    /// Nobody.
    Ignore,
    /// A function. Where it panics, the allocator's memory goes back to the driver all the same.
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
    /// All live allocations, largest first: what would be reported if the allocator went now.
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
    /// assert_eq!(allocator.leaks()[0].to_string(), "\"shadow map\": 64 bytes of memory type 0");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn leaks(&self) -> Vec<Leak> {
        let mut leaks = Vec::new();
        for slot in self.slots() {
            let guard = locked(&slot.state);
            let Some(state) = guard.as_ref() else { continue };
            leaks.extend(state.live().map(|(record, detail)| Leak {
                name: state.label(record).name.clone(),
                size: detail.sizes.requested,
                kind: detail.kind,
                category: state.label(record).category,
                user_data: state.label(record).user_data,
                pool: state.rules.name.clone(),
                memory_type: state.sets[usize::from(detail.set)].memory_type,
            }));
        }
        leaks.sort_by_key(|leak| core::cmp::Reverse(leak.size));
        leaks
    }
}

/// Tells the handler of what is live, if anything is.
pub(super) fn report_leaks<D: Device>(allocator: &Allocator<D>) {
    if allocator.statistics().allocations == 0 {
        return;
    }
    let report = LeakReport { leaks: allocator.leaks() };
    match &allocator.desc().on_leak {
        LeakHandler::Print => {
            // Nobody is left to be told that standard error is closed.
            let _ = write!(std::io::stderr(), "{report}");
        }
        LeakHandler::Ignore => {}
        LeakHandler::Call(call) => call(&report),
    }
}
