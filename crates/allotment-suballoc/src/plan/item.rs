//! What is to be placed.

use crate::Alignment;

/// The size, alignment and fixed offset of something to be placed. Its lifetime is a parameter of the [`Problem`].
///
/// ```
/// use allotment_suballoc::Alignment;
/// use allotment_suballoc::plan::Item;
///
/// let target = Item::new(8 << 20).aligned(Alignment::new(64 << 10)?);
/// let history = Item::new(8 << 20).pinned_at(0);
/// # Ok::<(), allotment_suballoc::AlignmentError>(())
/// ```
///
/// [`Problem`]: super::Problem
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Item {
    /// The size, in units: bytes, in most uses.
    pub size: u64,
    /// The offset is a multiple of this.
    pub alignment: Alignment,
    /// The offset, if it is fixed: the contents are there already.
    pub pin: Option<u64>,
}

impl Item {
    /// Returns an item of `size` units that may have any offset.
    #[must_use]
    pub const fn new(size: u64) -> Self {
        Self { size, alignment: Alignment::ONE, pin: None }
    }

    /// Returns the item with this alignment.
    #[must_use]
    pub const fn aligned(self, alignment: Alignment) -> Self {
        Self { alignment, ..self }
    }

    /// Returns the item with a fixed offset.
    #[must_use]
    pub const fn pinned_at(self, offset: u64) -> Self {
        Self { pin: Some(offset), ..self }
    }
}
