//! What a pass did.

use core::fmt;

use super::{DefragmentationStatistics, Move};
use crate::device::Device;

/// A pass that has ended: what it moved, and its sums. Borrows the list of its moves, so it takes no memory.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// # use allotment::memory::Movability;
/// # use allotment::memory::defragmentation::{
/// #     Defragmentation, DefragmentationDesc, DefragmentationStatistics, NextPass, PassLimits,
/// # };
/// let options = MemoryUsage::GpuOnly.with_name("tile").with_user_data(7).with_movability(Movability::Copied);
/// let mut tiles = allocator.allocate_many(&Requirements::new(1 << 20), &options, 5)?; // two blocks of 4 MiB
/// allocator.free(tiles.remove(0))?;
///
/// let (mut sums, mut all) = (DefragmentationStatistics::default(), Vec::new()); // of all passes
/// let mut run = Defragmentation::new(&allocator, None, DefragmentationDesc::default().with_limits(PassLimits::NONE))?;
/// while let NextPass::Moves(pass) = run.next_pass() {
///     let ended = pass.end();
///     for one in ended.moved {
///         println!("{}: {} bytes from {:?} to {:?}", one.user_data(), one.size(), one.from(), one.to());
///         all.push((one.id(), one.user_data()));
///     }
///     sums = sums + ended.statistics;
/// }
/// assert_eq!(all, [(tiles[3].id(), 7)]);
/// assert_eq!(sums, run.statistics());
/// # drop(run);
/// # drop(allocator.free_many(tiles));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
pub struct EndedPass<'d, D: Device> {
    /// What moved: all moves of the pass but those that were ignored, and those of allocations that their owners freed
    /// or pinned meanwhile.
    pub moved: &'d [Move<D>],
    /// The sums of this pass, from the end of the pass before.
    ///
    /// What [`next_pass`](super::Defragmentation::next_pass) finds after the last pass, such as a block that stays, is in
    /// the [sums of the defragmentation](super::Defragmentation::statistics) alone. So is a pass that was dropped.
    pub statistics: DefragmentationStatistics,
}

impl<D: Device> fmt::Debug for EndedPass<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { moved, statistics } = self;
        f.debug_struct("EndedPass").field("moved", moved).field("statistics", statistics).finish()
    }
}
