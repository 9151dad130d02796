//! Hands out ranges of an integer space.
//!
//! A [`VirtualBlock`] manages the numbers `0..size`. It gives out ranges of them and takes them back,
//! and never touches what they stand for: bytes of a memory block, elements of one large buffer,
//! descriptors of a heap, rows of an atlas. There is no `unsafe` code, no dependency and no `std` here.
//!
//! ```
//! use allotment_suballoc::{Algorithm, Alignment, Request, VirtualBlock};
//!
//! let mut block = VirtualBlock::new(1 << 20, Algorithm::Tlsf)?;
//! let mesh = block.allocate(Request::new(4096).aligned(Alignment::new(256)?), "mesh")?;
//! assert_eq!(mesh.offset % 256, 0);
//! assert_eq!(*block.get(mesh.handle)?.data, "mesh");
//!
//! block.free(mesh.handle)?;
//! assert!(block.free(mesh.handle).is_err(), "a stale handle is an error, never somebody else's range");
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Which algorithm should I use?
//!
//! | | [`Tlsf`](Algorithm::Tlsf) | [`Buddy`](Algorithm::Buddy) | [`Linear`](Algorithm::Linear) |
//! |---|---|---|---|
//! | use it for | everything else | sizes that are powers of two by nature | a stack, two stacks, or a ring |
//! | allocate, free | O(1) but for a bounded search | O(log size) | O(1) |
//! | any order of frees | yes | yes | yes, but a hole is reused only once it joins the gap |
//! | lost inside a range | nothing | up to half of it (a third on average) | alignment only |
//! | host memory per live range | 40 bytes + `T` | 80 bytes + `T` | 40–80 bytes + `T` |
//!
//! TLSF ("two-level segregated fit": Masmano, Ripoll, Crespo and Real, 2004) is the default of the
//! layers above. Buddy (Knowlton, 1965) loses a third of the space to rounding on sizes that are not
//! powers of two; it is here because some hardware wants it and to be measured against. Linear is what
//! an upload ring or a per-frame stack is made of.
//!
//! A block in which ranges have come and gone in any order has its free space in pieces. A [`Compaction`]
//! says which range can move to which lower place, and the caller copies.
//!
//! # How it is built
//!
//! All three algorithms share one structure, the *chain*: every region of the block, used, free
//! or padding, linked in address order. Handles, statistics, the region iterator and the JSON dump are
//! written once, over the chain. An algorithm is only the answer to "which free region next?".
//!
//! # Sizes
//!
//! Every size and offset is at most [`MAX_SIZE`] and every alignment a power of two no larger than that.
//! This is checked once, at the door. Past it, the sum of any three such numbers fits into a `u64`, so
//! no sum in this crate can overflow.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod algorithm;
mod alignment;
mod chain;
mod compaction;
mod error;
mod handle;
pub mod json;
mod region;
mod request;
mod statistics;
mod virtual_block;

pub use algorithm::Algorithm;
pub use alignment::{Alignment, AlignmentError};
pub use compaction::{Compaction, Move};
pub use error::{
    AllocateError, CompactionError, CreateError, GrowError, HandleError, MoveError, Refused, ResizeError,
    Unfinished,
};
pub use handle::Handle;
pub use region::{Region, RegionKind, Regions};
pub use request::{Request, Side, Strategy};
pub use statistics::{DetailedStatistics, SizeRange, Statistics};
pub use virtual_block::{Allocation, AllocationInfo, VirtualBlock};

/// The largest size of a block, and so of everything in it: 2^48 units (256 TiB, where a unit is a byte).
///
/// The graphics APIs of today address at most 2^47 bytes. The bound leaves 16 bits of headroom in a
/// `u64`, which is what makes every sum in this crate safe.
pub const MAX_SIZE: u64 = 1 << 48;
