//! What a caller asks for.

use crate::Alignment;

/// A range that is wanted.
///
/// ```
/// use allotment_suballoc::{Alignment, Request, Strategy};
///
/// let request = Request::new(1000).aligned(Alignment::new(64)?).with_strategy(Strategy::LeastMemory);
/// assert_eq!((request.size, request.alignment.get()), (1000, 64));
/// # Ok::<(), allotment_suballoc::AlignmentError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// How many units, 1 to [`MAX_SIZE`](crate::MAX_SIZE).
    pub size: u64,
    /// What the offset must be a multiple of.
    pub alignment: Alignment,
    /// Which free region to prefer where several would do. Only TLSF has a choice.
    pub strategy: Strategy,
    /// From which end of the free space. Only the linear algorithm has a choice.
    pub side: Side,
}

impl Request {
    /// A request for `size` units at any offset.
    #[must_use]
    pub const fn new(size: u64) -> Self {
        Self { size, alignment: Alignment::ONE, strategy: Strategy::Balanced, side: Side::Lower }
    }

    /// The same request at a multiple of `alignment`.
    #[must_use]
    pub const fn aligned(self, alignment: Alignment) -> Self {
        Self { alignment, ..self }
    }

    /// The same request by another strategy.
    #[must_use]
    pub const fn with_strategy(self, strategy: Strategy) -> Self {
        Self { strategy, ..self }
    }

    /// The same request from another end of the free space.
    #[must_use]
    pub const fn on(self, side: Side) -> Self {
        Self { side, ..self }
    }
}

/// Which free region to prefer where several would do. Buddy and linear leave no choice and ignore it.
///
/// A strategy never decides *whether* a request succeeds, only where it lands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// A near-best fit after a bounded search: the request's own size class first, then the next larger
    /// one. The right choice unless measured otherwise.
    #[default]
    Balanced,
    /// The first region that is sure to fit, without searching: O(1), at the price of more splitting.
    LeastTime,
    /// The smallest region that fits (best fit; the lowest of equals): searches one size class in full.
    LeastMemory,
    /// The lowest offset that fits (address-ordered first fit): keeps the end of the block free, so that
    /// the block can be cut short or moved cheaply. Looks at every free region that is large enough.
    LowestOffset,
}

/// From which end of the free space a range is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Side {
    /// Ascending offsets.
    #[default]
    Lower,
    /// Descending offsets from the end of the block: the second stack of the linear algorithm's double
    /// stack. The other algorithms refuse it.
    Upper,
}
