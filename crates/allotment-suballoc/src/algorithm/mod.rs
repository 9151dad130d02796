//! The allocation algorithms: each decides which free region serves a request.
//!
//! [`VirtualBlock`](crate::VirtualBlock) knows an algorithm by what it does with regions: [`Ranges`]. Each keeps its
//! regions itself, as small as it can.

mod buddy;
mod linear;
mod tlsf;

use core::fmt;

use crate::read_ahead::Reach;
use crate::{AllocateError, CreateError, GrowError, MAX_SIZE, Request, SizeClasses};

use buddy::Buddy;
use linear::Linear;
use tlsf::{Tlsf, Width};

/// The algorithm by which a block allocates. The [crate's documentation](crate) helps to choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Two-level segregated fit: for any sizes and any order of frees.
    #[default]
    Tlsf,
    /// Cells of powers of two that split and merge: sizes are rounded up to the next power of two.
    Buddy,
    /// A stack, two stacks that grow towards each other, or a ring, depending on how the block is used.
    #[doc(alias("VMA_VIRTUAL_BLOCK_CREATE_LINEAR_ALGORITHM_BIT", "VIRTUAL_BLOCK_FLAG_ALGORITHM_LINEAR"))]
    Linear,
}

impl Algorithm {
    /// All algorithms, for tests and comparisons.
    pub const ALL: [Self; 3] = [Self::Tlsf, Self::Buddy, Self::Linear];
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tlsf => "tlsf",
            Self::Buddy => "buddy",
            Self::Linear => "linear",
        })
    }
}

/// Returns the class of a size of at least 2^`from_log2` units, of 64 from there on, eight an octave; the last one is that of all
/// larger sizes.
#[inline]
fn coarse_class(size: u64, from_log2: u32) -> usize {
    type Coarse = SizeClasses<3>;
    (Coarse::class_of(size) - Coarse::class_of(1 << from_log2)).min(63)
}

/// The index of no region.
pub(crate) const NONE: u32 = u32::MAX;

/// The state of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// No region: the index is kept for another one.
    Vacant = 0,
    Free = 1,
    Used = 2,
    /// Lost to alignment or rounding until its owner is freed.
    Padding = 3,
}

/// The number and size of the regions in each state, updated by every change of state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) used_count: u32,
    /// Free regions, without the gap of the linear algorithm where that is empty.
    pub(crate) free_count: u32,
    pub(crate) used: u64,
    pub(crate) padding: u64,
    pub(crate) free: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, state: State, size: u64) {
        match state {
            State::Vacant => {}
            State::Free => {
                self.free += size;
                self.free_count += 1;
            }
            State::Used => {
                self.used += size;
                self.used_count += 1;
            }
            State::Padding => self.padding += size,
        }
    }

    pub(crate) fn remove(&mut self, state: State, size: u64) {
        match state {
            State::Vacant => {}
            State::Free => {
                self.free -= size;
                self.free_count -= 1;
            }
            State::Used => {
                self.used -= size;
                self.used_count -= 1;
            }
            State::Padding => self.padding -= size,
        }
    }
}

/// A region, as every algorithm tells of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) state: State,
    /// The neighbour at the lower address, or [`NONE`].
    pub(crate) before: u32,
    /// The neighbour at the higher address, or [`NONE`].
    pub(crate) after: u32,
}

impl Place {
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.size
    }
}

/// A range that was allocated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) index: u32,
    /// The serial number of the allocation; never 0.
    pub(crate) serial: u64,
    pub(crate) offset: u64,
}

/// The regions of a block and the operations on them. [`VirtualBlock`](crate::VirtualBlock) has checked the arguments, and a
/// call that returns an error has changed nothing. An index names a region until the region is freed or merged.
pub(crate) trait Ranges {
    /// Allocates where that takes few steps. Where it returns `None`, [`allocate`](Self::allocate) may succeed. The arguments
    /// need no check.
    #[inline(always)]
    fn allocate_quickly(&mut self, _request: &Request) -> Option<Taken> {
        None
    }
    /// Finds a free region, splits the range off it and marks it as used; `None` if no free region fits.
    fn allocate(&mut self, request: &Request) -> Result<Option<Taken>, AllocateError>;
    /// Returns the size of the free region that serves the request.
    fn room_for(&self, request: &Request) -> Option<u64>;
    /// Returns [`VirtualBlock::free_size_classes`](crate::VirtualBlock::free_size_classes).
    fn free_size_classes(&self, from_log2: u32) -> u64 {
        // All that may be.
        let largest = self.largest_free_at_most();
        if largest >> from_log2 == 0 { 0 } else { u64::MAX >> (63 - coarse_class(largest, from_log2)) }
    }
    /// Returns the lowest free region in which the range, and the padding behind it, would end at or below
    /// `limit`.
    fn find_below(&mut self, _request: &Request, _limit: u64) -> Option<u32> {
        None
    }
    /// Does a part of the work that some searches have to do once, about `regions` regions. Returns `true` if nothing is left of it
    /// for this request.
    fn prepare(&mut self, _request: &Request, _regions: usize) -> bool {
        true
    }
    /// Splits the range off the free region `index`, which one of the searches returned for this request, and
    /// marks it as used.
    fn take(&mut self, _index: u32, _request: &Request) -> Taken {
        unreachable!("an algorithm that searches takes what it found")
    }
    /// Splits `size` units at `offset` off the free region `index`, which contains all of them, and marks them as used.
    /// `None`, with nothing changed, where the algorithm cannot have a range there.
    fn take_at(&mut self, _index: u32, _offset: u64, _size: u64) -> Option<Taken> {
        None
    }
    /// Frees the used region `index` and its padding.
    fn free(&mut self, index: u32);
    /// Resizes the used region `index` in place, or returns the largest size that it can have.
    fn resize(&mut self, index: u32, size: u64) -> Result<(), u64>;
    /// Adds `more` free units at the end.
    fn grow(&mut self, more: u64) -> Result<(), GrowError>;
    /// Frees all ranges, in less time than one by one. `false`, with nothing changed, where that is not possible.
    fn clear(&mut self) -> bool;
    /// Returns the largest size that a request at alignment 1 can get now.
    fn largest_free(&self) -> u64;
    /// Returns an upper bound of [`largest_free`](Self::largest_free), in O(1).
    fn largest_free_at_most(&self) -> u64;
    /// Returns `true` if the region `index` is used, and by the allocation with this serial number.
    fn used(&self, index: u32, serial: u64) -> bool;
    /// Returns the serial number of the allocation that uses the region `index`: not 0.
    fn serial(&self, index: u32) -> u64;
    /// Returns a region, or what is left of it.
    fn place(&self, index: u32) -> Place;
    /// Returns the region at offset 0.
    fn first(&self) -> u32;
    /// Returns the region at the end of the block.
    fn last(&self) -> u32;
    fn tally(&self) -> Tally;
    fn size(&self) -> u64;
    /// Returns a number above every index.
    fn capacity(&self) -> usize;
    /// Returns a number above every index after so many further allocations.
    fn capacity_with(&self, ranges: usize) -> usize {
        self.capacity() + ranges
    }
    /// Returns `true` if the indices could run out during one more operation.
    fn is_full(&self) -> bool;
    /// Allocates host memory for further regions.
    fn reserve(&mut self, regions: usize);
    /// Frees host memory for more regions than there are. Indices of live regions and serial numbers stay.
    fn shrink(&mut self);
    /// Reads what a free of the region `index` is going to read.
    fn read_around(&self, index: u32, reach: Reach) -> u64;
    /// Panics unless all structures agree with each other.
    fn check_invariants(&self);
}

/// The algorithm of one block, with its regions. A closed set, so that a call is a branch and not an indirect call.
#[derive(Clone, Debug)]
pub(crate) enum Engine {
    /// TLSF, with 32 bits for each number.
    Tlsf(Tlsf<u32>),
    /// TLSF, with 64 bits for each number.
    WideTlsf(Tlsf<u64>),
    Buddy(Buddy),
    /// Linear, with 32 bits for each number.
    Linear(Linear<u32>),
    /// Linear, with 64 bits for each number.
    WideLinear(Linear<u64>),
}

impl Engine {
    pub(crate) fn new(algorithm: Algorithm, size: u64) -> Result<Self, CreateError> {
        match size {
            0 => Err(CreateError::ZeroSize),
            size if size > MAX_SIZE => Err(CreateError::TooLarge { size }),
            // 32 bits for each number where they hold the size of the block, which no offset in it exceeds: nearly every block
            // is one of these, and its regions take two thirds of the host memory.
            size => Ok(match algorithm {
                Algorithm::Tlsf if size <= <u32 as Width>::MAX => Self::Tlsf(Tlsf::new(size)),
                Algorithm::Tlsf => Self::WideTlsf(Tlsf::new(size)),
                Algorithm::Buddy => Self::Buddy(Buddy::new(size)),
                Algorithm::Linear if size <= <u32 as Width>::MAX => Self::Linear(Linear::new(size)),
                Algorithm::Linear => Self::WideLinear(Linear::new(size)),
            }),
        }
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        match self {
            Self::Tlsf(_) | Self::WideTlsf(_) => Algorithm::Tlsf,
            Self::Buddy(_) => Algorithm::Buddy,
            Self::Linear(_) | Self::WideLinear(_) => Algorithm::Linear,
        }
    }

    /// Makes the numbers of the block wide enough for `size` units.
    fn widen_for(&mut self, size: u64) {
        if size <= <u32 as Width>::MAX {
            return;
        }
        // Before the block grows, so that no algorithm has to deal with two widths. Indices, generations and serial numbers stay
        // as they are, so all handles do.
        match self {
            Self::Tlsf(narrow) => {
                *self = Self::WideTlsf(core::mem::replace(narrow, Tlsf::new(1)).with_width(size));
            }
            Self::Linear(narrow) => {
                *self = Self::WideLinear(core::mem::replace(narrow, Linear::new(1)).with_width());
            }
            Self::WideTlsf(_) | Self::WideLinear(_) | Self::Buddy(_) => {}
        }
    }
}

// Static dispatch: each algorithm's code is inlined into its branch, where a trait object would need a call
// through a table for operations that take few instructions.
macro_rules! each {
    ($engine:expr, $ranges:ident => $call:expr) => {
        match $engine {
            $crate::algorithm::Engine::Tlsf($ranges) => $call,
            $crate::algorithm::Engine::WideTlsf($ranges) => $call,
            $crate::algorithm::Engine::Buddy($ranges) => $call,
            $crate::algorithm::Engine::Linear($ranges) => $call,
            $crate::algorithm::Engine::WideLinear($ranges) => $call,
        }
    };
}
pub(crate) use each;

macro_rules! forward {
    ($($(#[$inline:meta])* fn $name:ident(&self $(, $argument:ident: $kind:ty)*) $(-> $result:ty)?;)*) => {
        $(
            $(#[$inline])*
            fn $name(&self $(, $argument: $kind)*) $(-> $result)? {
                each!(self, ranges => ranges.$name($($argument),*))
            }
        )*
    };
}

macro_rules! forward_mut {
    ($($(#[$inline:meta])* fn $name:ident(&mut self $(, $argument:ident: $kind:ty)*) $(-> $result:ty)?;)*) => {
        $(
            $(#[$inline])*
            fn $name(&mut self $(, $argument: $kind)*) $(-> $result)? {
                each!(self, ranges => ranges.$name($($argument),*))
            }
        )*
    };
}

impl Ranges for Engine {
    forward_mut! {
        fn allocate(&mut self, request: &Request) -> Result<Option<Taken>, AllocateError>;
        fn take(&mut self, index: u32, request: &Request) -> Taken;
        fn take_at(&mut self, index: u32, offset: u64, size: u64) -> Option<Taken>;
        fn free(&mut self, index: u32);
        fn resize(&mut self, index: u32, size: u64) -> Result<(), u64>;
        fn clear(&mut self) -> bool;
        fn find_below(&mut self, request: &Request, limit: u64) -> Option<u32>;
        fn reserve(&mut self, regions: usize);
        fn shrink(&mut self);
    }

    forward! {
        fn room_for(&self, request: &Request) -> Option<u64>;
        fn free_size_classes(&self, from_log2: u32) -> u64;
        fn largest_free(&self) -> u64;
        #[inline]
        fn largest_free_at_most(&self) -> u64;
        #[inline]
        fn used(&self, index: u32, serial: u64) -> bool;
        #[inline]
        fn serial(&self, index: u32) -> u64;
        #[inline]
        fn place(&self, index: u32) -> Place;
        fn first(&self) -> u32;
        fn last(&self) -> u32;
        fn tally(&self) -> Tally;
        fn size(&self) -> u64;
        #[inline]
        fn capacity(&self) -> usize;
        fn capacity_with(&self, ranges: usize) -> usize;
        #[inline]
        fn is_full(&self) -> bool;
        fn read_around(&self, index: u32, reach: Reach) -> u64;
        fn check_invariants(&self);
    }

    fn grow(&mut self, more: u64) -> Result<(), GrowError> {
        // Not back again where the block is cleared: it never shrinks.
        self.widen_for(self.size() + more);
        each!(self, ranges => ranges.grow(more))
    }
}
