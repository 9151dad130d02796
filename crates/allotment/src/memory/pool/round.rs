//! Step 1 in a pool: a request is rounded to what the pool and its memory need.

use allotment_suballoc::{Algorithm, Alignment, Request, Side};

use super::{BlockSize, PoolState};
use crate::device::{DedicatedNeed, Device, Priority, ResourceKind};
use crate::memory::block_set::Sizes;
use crate::memory::{AllocationDesc, AllocationError, Dedicated};

/// A request as one block set sees it.
#[derive(Clone, Copy, Debug)]
pub(in crate::memory) struct Fitted {
    pub(in crate::memory) request: Request,
    pub(in crate::memory) sizes: Sizes,
    /// Bytes of the block that the set would get next.
    pub(in crate::memory) block_size: u64,
    /// It shall have a memory object of its own.
    pub(in crate::memory) own_memory: bool,
    /// Nobody shall ever share or inherit that.
    pub(in crate::memory) tied: bool,
    /// Nor may anything else stand in it, since it is made together with its resource.
    pub(in crate::memory) exclusive: bool,
    /// Of memory of its own.
    pub(in crate::memory) priority: Priority,
}

impl<D: Device> PoolState<D> {
    /// Rounds a request up to what the pool and its memory want.
    ///
    /// `scarce` says whether memory objects are.
    pub(in crate::memory) fn fit(
        &self,
        set: usize,
        desc: &AllocationDesc,
        heap_size: u64,
        scarce: bool,
    ) -> Result<Fitted, AllocationError> {
        let needs = &desc.requirements;
        if desc.side == Side::Upper && self.rules.algorithm != Algorithm::Linear {
            return Err(AllocationError::UpperSide);
        }
        let (occupied, alignment) = self.rounded(set, desc);
        let tied = desc.dedicated == Dedicated::Always || needs.dedicated == DedicatedNeed::Required;
        let block_size = match self.rules.sizing {
            // One block less or more matters now, not the waste inside it.
            BlockSize::Growing(sizes) if scarce => sizes.largest_in(heap_size),
            _ => self.next_block_size(set, heap_size),
        };
        let own_memory = match self.rules.sizing {
            BlockSize::Fixed(_) if tied => return Err(AllocationError::DedicatedInFixedPool),
            BlockSize::Fixed(_) => false,
            BlockSize::Growing(_) if desc.dedicated == Dedicated::Never => {
                if needs.dedicated == DedicatedNeed::Required {
                    return Err(AllocationError::DedicatedRequired);
                }
                false
            }
            BlockSize::Growing(sizes) => {
                let large =
                    if scarce { occupied > block_size } else { sizes.is_own_memory(occupied, block_size) };
                tied || needs.dedicated == DedicatedNeed::Preferred || large
            }
        };
        let request = Request { size: occupied, alignment, strategy: desc.strategy, side: desc.side };
        let sizes = Sizes { requested: needs.size, occupied };
        let priority = desc.priority;
        Ok(Fitted { request, sizes, block_size, own_memory, tied, exclusive: false, priority })
    }

    /// The size and alignment of what a request gets.
    pub(super) fn rounded(&self, set: usize, desc: &AllocationDesc) -> (u64, Alignment) {
        let needs = &desc.requirements;
        let unit = self.unit(set, desc.kind);
        // The size passed the door, so that rounding it up stays far below 2^64.
        (unit.align_up(needs.size), needs.alignment.max(self.rules.alignment).max(unit))
    }

    /// What the sizes of resources of a kind are rounded up to.
    pub(in crate::memory) fn unit(&self, set: usize, kind: ResourceKind) -> Alignment {
        let granularity = if kind.is_optimal() { self.rules.granularity } else { Alignment::ONE };
        granularity.max(self.sets[set].atom)
    }
}
