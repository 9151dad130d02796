//! The allocation algorithms: each decides which free region serves a request.
//!
//! An algorithm keeps an index over the free regions of the [`Chain`] and moves regions between free, used and
//! padding. Everything that is the same for all of them is in the chain and in
//! [`VirtualBlock`](crate::VirtualBlock).

mod bins;
mod buddy;
mod crowds;
mod free_lists;
mod linear;
mod tlsf;

use core::fmt;

use crate::chain::Chain;
use crate::{AllocateError, GrowError, Request};

use buddy::Buddy;
use linear::Linear;
use tlsf::Tlsf;

/// The algorithm by which a block allocates. The [crate's documentation](crate) helps to choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Two-level segregated fit: for any sizes and any order of frees.
    #[default]
    Tlsf,
    /// Cells of powers of two that split and merge: sizes are rounded up to the next power of two.
    Buddy,
    /// A stack, two stacks that grow towards each other, or a ring, depending on how the block is used.
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

/// The operations of an algorithm on the chain. [`VirtualBlock`](crate::VirtualBlock) has checked the
/// arguments, and a call that returns an error has changed nothing.
pub(crate) trait Policy {
    /// Finds a free region, splits the range off it and marks it as used; `None` if no free region fits.
    fn allocate(&mut self, chain: &mut Chain, request: &Request) -> Result<Option<u32>, AllocateError>;
    /// Returns the free region that [`allocate`](Self::allocate) would use.
    fn find(&self, chain: &Chain, request: &Request) -> Option<u32>;
    /// Returns the lowest free region in which the range, and the padding behind it, would end at or below
    /// `limit`. The linear algorithm has no choice of offsets and returns `None`.
    fn find_below(&self, chain: &Chain, request: &Request, limit: u64) -> Option<u32>;
    /// Splits the range off the free region `index`, which one of the searches returned for this request, and
    /// marks it as used.
    fn take(&mut self, chain: &mut Chain, index: u32, request: &Request) -> u32;
    /// Splits `size` units at `offset` off the free region `index`, which contains all of them, and marks them as used.
    /// `None`, with nothing changed, where the algorithm cannot have a range there.
    fn take_at(&mut self, chain: &mut Chain, index: u32, offset: u64, size: u64) -> Option<u32>;
    /// Frees the used region `index` and its padding.
    fn free(&mut self, chain: &mut Chain, index: u32);
    /// Resizes the used region `index` in place, or returns the largest size that it can have.
    fn resize(&mut self, chain: &mut Chain, index: u32, size: u64) -> Result<(), u64>;
    /// Adds `size` free units at the end.
    fn grow(&mut self, chain: &mut Chain, size: u64) -> Result<(), GrowError>;
    /// Returns the largest size that a request at alignment 1 can get now.
    fn largest_free(&self, chain: &Chain) -> u64;
    /// Returns an upper bound of [`largest_free`](Self::largest_free), in O(1).
    fn largest_free_at_most(&self, chain: &Chain) -> u64;
    /// Panics unless the index over the free regions agrees with the chain.
    fn check_invariants(&self, chain: &Chain);
}

/// The algorithm of one block. A closed set, so that a call is a branch and not an indirect call.
#[derive(Clone, Debug)]
pub(crate) enum Engine {
    Tlsf(Tlsf),
    Buddy(Buddy),
    Linear(Linear),
}

impl Engine {
    /// Creates the index over the chain's one free region.
    pub(crate) fn new(algorithm: Algorithm, chain: &mut Chain) -> Self {
        match algorithm {
            Algorithm::Tlsf => Self::Tlsf(Tlsf::new(chain)),
            Algorithm::Buddy => Self::Buddy(Buddy::new(chain)),
            Algorithm::Linear => Self::Linear(Linear::new(chain)),
        }
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        match self {
            Self::Tlsf(_) => Algorithm::Tlsf,
            Self::Buddy(_) => Algorithm::Buddy,
            Self::Linear(_) => Algorithm::Linear,
        }
    }
}

// Static dispatch: each algorithm's code is inlined into its branch, where a trait object would need a call
// through a table for operations that take few instructions.
macro_rules! each {
    ($engine:expr, $policy:ident => $call:expr) => {
        match $engine {
            Engine::Tlsf($policy) => $call,
            Engine::Buddy($policy) => $call,
            Engine::Linear($policy) => $call,
        }
    };
}

impl Policy for Engine {
    fn allocate(&mut self, chain: &mut Chain, request: &Request) -> Result<Option<u32>, AllocateError> {
        each!(self, policy => policy.allocate(chain, request))
    }

    fn find(&self, chain: &Chain, request: &Request) -> Option<u32> {
        each!(self, policy => policy.find(chain, request))
    }

    fn find_below(&self, chain: &Chain, request: &Request, limit: u64) -> Option<u32> {
        each!(self, policy => policy.find_below(chain, request, limit))
    }

    fn take(&mut self, chain: &mut Chain, index: u32, request: &Request) -> u32 {
        each!(self, policy => policy.take(chain, index, request))
    }

    fn take_at(&mut self, chain: &mut Chain, index: u32, offset: u64, size: u64) -> Option<u32> {
        each!(self, policy => policy.take_at(chain, index, offset, size))
    }

    fn free(&mut self, chain: &mut Chain, index: u32) {
        each!(self, policy => policy.free(chain, index));
    }

    fn resize(&mut self, chain: &mut Chain, index: u32, size: u64) -> Result<(), u64> {
        each!(self, policy => policy.resize(chain, index, size))
    }

    fn grow(&mut self, chain: &mut Chain, size: u64) -> Result<(), GrowError> {
        each!(self, policy => policy.grow(chain, size))
    }

    fn largest_free(&self, chain: &Chain) -> u64 {
        each!(self, policy => policy.largest_free(chain))
    }

    fn largest_free_at_most(&self, chain: &Chain) -> u64 {
        each!(self, policy => policy.largest_free_at_most(chain))
    }

    fn check_invariants(&self, chain: &Chain) {
        each!(self, policy => policy.check_invariants(chain));
    }
}
