//! Compaction in steps: tables move to lower places of the heap that they are in.
//!
//! ```text
//!   before      [ A ][   free   ][ B ][ free ][ C ]
//!   a step      [ A ][ C′][ free ][ B ][ free ][ C ]     C′ is a copy; recordings that begin now are given it
//!   later       [ A ][ C ][ free ][ B ][    free    ]     the GPU has finished with the recordings before
//! ```
//!
//! A [replacement](super::replacement) packs all tables at once, needs twice the memory meanwhile, and keeps every writer
//! waiting while it copies all descriptors. Here the memory is the heap's own, and a step copies as much as its caller allows.
//! No recording notices: it is given the location of a table when it asks for it, and the old range is reused once all
//! recordings that are open have completed, as that of a table that is released.

use core::mem;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use super::Shared;
use super::mirror::{Clearing, WriteTarget};
use crate::descriptor::error::DescriptorError;
use crate::descriptor::range::DescriptorRange;
use crate::descriptor::tables::Lower;
use crate::device::DescriptorDevice;

/// What a [step of compaction](super::ShaderVisibleHeap::compact_step) has moved.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let heap = gpu.descriptors()?.resources();
/// let step = heap.compact_step(1000)?;
/// assert_eq!((step.tables, step.descriptors), (0, 0), "there are no tables");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionStep {
    /// Tables that moved: ranges and binding sets. 0 where none can move lower now.
    pub tables: u32,
    /// Their descriptors.
    pub descriptors: u32,
}

impl<D: DescriptorDevice> Shared<D> {
    /// Moves tables lower until `most` descriptors have moved, or no table can.
    pub(super) fn compact_step(self: &Arc<Self>, most: u32) -> Result<CompactionStep, DescriptorError> {
        // The old ranges of earlier steps are places for this one.
        self.reclaim();
        // Declared before the lock, which retiring them takes again.
        let mut old = Vec::new();
        let mut step = CompactionStep::default();
        // No thread writes a table while it is copied.
        let exclusive = self.live.exclusive();
        let live = exclusive.get().ok_or(DescriptorError::HeapGone)?;
        if self.poisoned.load(Relaxed) {
            return Err(DescriptorError::Poisoned);
        }
        let mut too_large = u32::MAX;
        let (mut goes_on, mut is_second) = (self.tables.begin_run(), false);
        while step.descriptors < most && goes_on {
            let Some(lower) = self.tables.take_lower(live.current.number, &mut too_large) else {
                // What has moved in this call leaves no room before the next one. Where nothing has, what became free since the run
                // began may be room for a table that an earlier call passed over.
                goes_on = !mem::replace(&mut is_second, true) && step.tables == 0 && self.tables.begin_run();
                too_large = u32::MAX;
                continue;
            };
            let Lower { entry, new, from, to, count } = lower;
            // Before anything can fail: what is dropped with this is whichever range `new` has then.
            old.push(DescriptorRange::new(Arc::clone(self), new, count));
            // Where the device panics, the mirror names what may be destroyed before the range is cleared.
            let clearing = Clearing(&self.poisoned);
            // SAFETY: all of the mirror is written, and no thread writes it while the lock is held; the new range is not in
            // use, and no recording was given its location.
            let copied = unsafe { live.current.heap.copy_from(&live.mirror, from, to, count) };
            // SAFETY: as above. Second, so that an error leaves the mirror as it is.
            let copied =
                copied.and_then(|()| unsafe { live.mirror.copy_from(&live.mirror, from, to, count) });
            mem::forget(clearing);
            copied?;
            self.tables.swap(entry, new);
            // At once, since nothing rewrites descriptors there whose resource moves.
            self.clear_in(live, WriteTarget::Table { entry: new, at: 0 }, count);
            step.tables += 1;
            step.descriptors += count;
        }
        Ok(step)
    }
}
