//! Allocation requests.

use crate::Alignment;

/// A request for a range.
///
/// ```
/// use allotment_suballoc::{Alignment, Request, FitStrategy};
///
/// let request = Request::new(1000).aligned(Alignment::new(64)?).with_strategy(FitStrategy::LeastMemory);
/// assert_eq!((request.size, request.alignment.get()), (1000, 64));
/// # Ok::<(), allotment_suballoc::AlignmentError>(())
/// ```
#[doc(alias("VmaVirtualAllocationCreateInfo", "VIRTUAL_ALLOCATION_DESC", "VirtualAllocationCreateInfo"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The size in units, 1 to [`MAX_SIZE`](crate::MAX_SIZE).
    pub size: u64,
    /// The offset is a multiple of this.
    pub alignment: Alignment,
    /// Which free region to prefer if several fit. Only TLSF has a choice.
    pub strategy: FitStrategy,
    /// The end of the free space to allocate from. Only the linear algorithm has a choice.
    pub side: StackSide,
}

impl Request {
    /// Creates a request for `size` units at any offset.
    #[must_use]
    pub const fn new(size: u64) -> Self {
        Self { size, alignment: Alignment::ONE, strategy: FitStrategy::Balanced, side: StackSide::Lower }
    }

    /// Requires a multiple of `alignment` as the offset.
    #[must_use]
    pub const fn aligned(self, alignment: Alignment) -> Self {
        Self { alignment, ..self }
    }

    /// Sets the strategy.
    #[must_use]
    pub const fn with_strategy(self, strategy: FitStrategy) -> Self {
        Self { strategy, ..self }
    }

    /// Sets the end of the free space to allocate from.
    #[must_use]
    pub const fn with_side(self, side: StackSide) -> Self {
        Self { side, ..self }
    }
}

/// Which free region to prefer if several fit. Buddy and linear have no choice and ignore it.
///
/// A strategy never decides *whether* a request succeeds, only where its range is placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FitStrategy {
    /// A near-best fit: of the request's own size class, where one fits, otherwise of the next larger class that has a
    /// region; of either, the smallest fit of up to 8. Where regions may be aligned wrongly, of up to 16 in each of four
    /// classes. The free region at the end of the block last. Use it unless measurements favour another.
    #[default]
    Balanced,
    /// The first region of the first size class whose regions are all large enough, without a search: O(1), at the price of
    /// more splitting.
    #[doc(alias(
        "VMA_ALLOCATION_CREATE_STRATEGY_MIN_TIME_BIT",
        "VMA_VIRTUAL_ALLOCATION_CREATE_STRATEGY_MIN_TIME_BIT",
        "VMA_ALLOCATION_CREATE_STRATEGY_FIRST_FIT_BIT",
        "ALLOCATION_FLAG_STRATEGY_MIN_TIME",
        "VIRTUAL_ALLOCATION_FLAG_STRATEGY_MIN_TIME",
        "ALLOCATION_FLAG_STRATEGY_FIRST_FIT"
    ))]
    LeastTime,
    /// The smallest region that fits (best fit), and the lowest of up to 136 that are equally small. Where more
    /// than 136 regions are large enough but aligned wrongly, the lowest that fits. Looks at up to 544 regions.
    #[doc(alias(
        "VMA_ALLOCATION_CREATE_STRATEGY_MIN_MEMORY_BIT",
        "VMA_VIRTUAL_ALLOCATION_CREATE_STRATEGY_MIN_MEMORY_BIT",
        "VMA_ALLOCATION_CREATE_STRATEGY_BEST_FIT_BIT",
        "ALLOCATION_FLAG_STRATEGY_MIN_MEMORY",
        "VIRTUAL_ALLOCATION_FLAG_STRATEGY_MIN_MEMORY",
        "ALLOCATION_FLAG_STRATEGY_BEST_FIT"
    ))]
    LeastMemory,
    /// The lowest offset that fits (address-ordered first fit): keeps the end of the block free, so that little
    /// has to move before the end can be released. O(log n), by an index of the free regions that the first search of more than
    /// 128 makes, in O(regions), and that is dropped once four regions for each in the block were used or freed without another
    /// such request. While there is one, requests with other strategies and frees take O(log n) as well.
    #[doc(alias(
        "VMA_ALLOCATION_CREATE_STRATEGY_MIN_OFFSET_BIT",
        "VMA_VIRTUAL_ALLOCATION_CREATE_STRATEGY_MIN_OFFSET_BIT",
        "ALLOCATION_FLAG_STRATEGY_MIN_OFFSET",
        "VIRTUAL_ALLOCATION_FLAG_STRATEGY_MIN_OFFSET"
    ))]
    LowestOffset,
}

/// The end of the free space that a range is allocated from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StackSide {
    /// Ascending offsets.
    #[default]
    Lower,
    /// Descending offsets from the end of the block: the second stack of the linear algorithm's double stack.
    /// The other algorithms return [`OneSided`](crate::AllocateError::OneSided).
    #[doc(alias("VMA_VIRTUAL_ALLOCATION_CREATE_UPPER_ADDRESS_BIT", "VIRTUAL_ALLOCATION_FLAG_UPPER_ADDRESS"))]
    Upper,
}
