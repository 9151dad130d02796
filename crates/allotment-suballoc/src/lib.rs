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
//! | allocate, free | O(1) | O(log size) | O(1) |
//! | any order of frees | yes | yes | yes, but a hole is reused only once it joins the gap |
//! | lost inside a range | nothing | up to half of it (a third on average) | alignment only |
//! | host memory per live range | 20–30 bytes + `T` | 80 bytes + `T` | 21 bytes + `T` |
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
//! In the rows of churn, random ranges of 256 B to 64 KiB are freed and replaced; a frame allocates 500 of them, and
//! frees those of two frames ago. The README of `allotment-bench` describes the other rows, and what is not equal among
//! the contenders.
//!
//! <!-- begin of the table of `allotment-bench ranges --table` -->
//!
//! Measured on 2026-11-25 by `allotment-bench ranges --table`: nanoseconds of processor
//! time per allocation or free, without the harness, and in parentheses the ratio to offset-allocator.
//!
//! | | TLSF | TLSF, `LeastTime` | linear | offset-allocator 0.2 | VMA (`vk-mem` 0.5) | range-alloc 0.1 |
//! |---|---|---|---|---|---|---|
//! | churn, 10^3 live | 37.9 (1.60) | 50.0 (2.11) | | 23.7 (1.00) | 45.7 (1.92) | 306 (12.87) |
//! | churn, 10^4 | 39.0 (1.41) | 50.5 (1.83) | | 27.6 (1.00) | 44.1 (1.60) | 1098 (39.80) |
//! | churn, 10^5 | 76.7 (1.79) | 132 (3.09) | | 42.8 (1.00) | 117 (2.73) | 4481 (104.64) |
//! | churn, 10^6 | 162 (1.09) | 300 (2.01) | | 149 (1.00) | 243 (1.63) | |
//! | small, 10^5 | 67.9 (1.56) | 96.5 (2.22) | | 43.6 (1.00) | 139 (3.19) | 4482 (102.85) |
//! | descriptors, 10^4 | 31.4 (1.52) | 29.0 (1.41) | | 20.6 (1.00) | 43.2 (2.09) | 660 (31.95) |
//! | mixed alignment, 10^5 | 92.1 (2.22) | 135 (3.26) | | 41.4 (1.00) | 144 (3.47) | 9535 (230.16) |
//! | textures by age | 45.7 (1.61) | 52.5 (1.85) | | 28.4 (1.00) | 40.3 (1.42) | 295 (10.39) |
//! | frames, first in first out | 39.2 (1.80) | 37.0 (1.71) | 21.8 (1.00) | 21.7 (1.00) | 25.9 (1.19) | 8.8 (0.40) |
//! | last in first out, 64 | 18.5 (0.90) | 17.4 (0.85) | 22.9 (1.11) | 20.6 (1.00) | 10.3 (0.50) | 5.5 (0.27) |
//! | pairs | 21.0 (1.21) | 19.0 (1.09) | 23.6 (1.36) | 17.4 (1.00) | 10.9 (0.63) | 7.2 (0.41) |
//!
//! <!-- end of the table of `allotment-bench ranges --table` -->
//!
//! # How it is built
//!
//! An algorithm keeps the regions of the block (used, free or padding), linked in address order, and decides which free
//! region serves a request. Handles, statistics, the region iterator, compaction and the JSON dump are implemented once, over
//! what every algorithm can tell of its regions. TLSF stores its regions in 16 bytes each, linear only its
//! ranges, in 20 bytes each; buddy has a structure of its own, the *chain*.
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
mod growth;
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
