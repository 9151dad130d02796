//! Sub-allocation of ranges within an integer space: TLSF, buddy and linear algorithms behind one type.
//!
//! A [`VirtualBlock`] manages the numbers `0..size`. It allocates ranges of them and frees ranges again, and
//! never accesses the memory behind them: bytes of a memory block, elements of one large buffer, descriptors of
//! a heap, rows of an atlas. The crate has no `unsafe` code, no dependency and does not use `std`.
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
//! assert!(block.free(mesh.handle).is_err(), "a stale handle is an error, never another range");
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
//! TLSF ("two-level segregated fit": Masmano, Ripoll, Crespo and Real, 2004) is the default of the crates built
//! on this one. Buddy (Knowlton, 1965) loses a third of the space to rounding on sizes that are not powers of
//! two; it exists for hardware that requires power-of-two cells, and as a baseline for measurements. Linear
//! serves upload rings and per-frame stacks.
//!
//! Ranges freed in arbitrary order leave the free space of a block fragmented. A [`Compaction`] names the
//! ranges that can move to a lower offset; the caller copies their contents.
//!
//! # How fast is it?
//!
//! Compared with other crates on one machine, by one of the programs beside this crate. In the first four rows random
//! ranges of 256 B to 64 KiB are freed and replaced; a frame allocates 500 and frees those of two frames ago.
//! The README of `allotment-bench` describes the other rows, and what is not equal among the contenders: here all
//! handles and alignments are checked.
//!
//! <!-- begin of the table of `allotment-bench ranges --table` -->
//! <!-- end of the table of `allotment-bench ranges --table` -->
//!
//! # How it is built
//!
//! All three algorithms share one structure, the *chain*: every region of the block (used, free or padding),
//! linked in address order. Handles, statistics, the region iterator and the JSON dump are implemented once,
//! over the chain. An algorithm only decides which free region serves a request.
//!
//! # Sizes
//!
//! Every size and offset is at most [`MAX_SIZE`] and every alignment a power of two no larger than that. The
//! public methods check this once. After the check, the sum of any three such numbers fits into a `u64`, so no
//! sum in this crate can overflow.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod algorithm;
mod alignment;
mod chain;
mod compaction;
mod error;
mod handle;
#[doc(hidden)]
pub mod json;
mod read_ahead;
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
#[doc(hidden)]
pub use read_ahead::Reach;
pub use region::{Region, RegionKind, Regions};
pub use request::{Request, Side, Strategy};
pub use statistics::{DetailedStatistics, SizeRange, Statistics};
pub use virtual_block::{Allocation, AllocationInfo, VirtualBlock};

/// The largest size of a block, and of every range in it: 2^48 units (256 TiB, if a unit is a byte).
///
/// Current graphics APIs address at most 2^47 bytes. The bound leaves 16 bits of headroom in a `u64`, so that
/// no sum in this crate can overflow.
pub const MAX_SIZE: u64 = 1 << 48;
