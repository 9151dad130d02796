//! Power-of-two alignments of offsets.

use core::fmt;

use crate::MAX_SIZE;

/// A power of two from 1 to [`MAX_SIZE`], in the units of the block.
///
/// ```
/// use allotment_suballoc::Alignment;
///
/// let page = Alignment::new(4096)?;
/// assert_eq!(page.align_up(5000), 8192);
/// assert_eq!(page.align_down(5000), 4096);
/// assert!(Alignment::new(3).is_err());
/// # Ok::<(), allotment_suballoc::AlignmentError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Alignment {
    /// The exponent. One byte that is valid by construction is smaller than a `u64` and needs no check on use.
    log2: u8,
}

impl Alignment {
    /// No alignment constraint: every offset is a multiple of 1.
    pub const ONE: Self = Self { log2: 0 };

    /// Creates an alignment of `value` units.
    ///
    /// # Errors
    ///
    /// [`AlignmentError`] unless `value` is a power of two from 1 to [`MAX_SIZE`].
    pub const fn new(value: u64) -> Result<Self, AlignmentError> {
        if value.is_power_of_two() && value <= MAX_SIZE {
            // At most 48, so it fits.
            Ok(Self { log2: value.trailing_zeros() as u8 })
        } else {
            Err(AlignmentError { value })
        }
    }

    /// Returns the alignment in units.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u64 {
        1 << self.log2
    }

    /// Returns the exponent: `self.get() == 1 << self.log2()`.
    #[must_use]
    #[inline]
    pub const fn log2(self) -> u32 {
        self.log2 as u32
    }

    /// Returns the lowest multiple of this alignment that is at least `offset` (at most 2^63).
    #[must_use]
    #[inline]
    pub const fn align_up(self, offset: u64) -> u64 {
        // Adding the mask carries into the next multiple unless `offset` is one already. The sum is at most
        // 2^63 + 2^48, so it does not overflow.
        let mask = self.get() - 1;
        (offset + mask) & !mask
    }

    /// Returns the highest multiple of this alignment that is at most `offset`.
    #[must_use]
    #[inline]
    pub const fn align_down(self, offset: u64) -> u64 {
        offset & !(self.get() - 1)
    }

    /// Returns `true` if `offset` is a multiple of this alignment.
    #[must_use]
    #[inline]
    pub const fn is_aligned(self, offset: u64) -> bool {
        offset & (self.get() - 1) == 0
    }
}

impl Default for Alignment {
    fn default() -> Self {
        Self::ONE
    }
}

impl TryFrom<u64> for Alignment {
    type Error = AlignmentError;

    fn try_from(value: u64) -> Result<Self, AlignmentError> {
        Self::new(value)
    }
}

impl fmt::Debug for Alignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Alignment({})", self.get())
    }
}

impl fmt::Display for Alignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// The error for a number that is not a valid alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlignmentError {
    /// The rejected number.
    pub value: u64,
}

impl fmt::Display for AlignmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "alignment of {} bytes is not a power of two from 1 to {MAX_SIZE} bytes", self.value)
    }
}

impl core::error::Error for AlignmentError {}
