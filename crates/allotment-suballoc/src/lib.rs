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
//! | lost inside a range | nothing (with [`Coalescing::Deferred`] up to a 16th) | up to half of it (a third on average) | alignment only |
//! | host memory per live range | 20–30 bytes + `T`, up to 70 among few | 80 bytes + `T` | 21 bytes + `T` |
//!
//! TLSF ("two-level segregated fit": Masmano, Ripoll, Crespo and Real, 2004) is the default of the crates built
//! on this one. Buddy (Knowlton, 1965) loses a third of the space to rounding on sizes that are not powers of
//! two; it exists for hardware that requires power-of-two cells, and as a baseline for measurements. Linear
//! serves upload rings and per-frame stacks.
//!
//! A TLSF block with room to spare, in which many ranges of few sizes come and go, can keep freed ranges for the next
//! requests of their sizes: [`Coalescing::Deferred`] takes a third of the time, and 7 to 60 % more space as long as there is
//! some. [`VirtualBlock::free_many`] frees many ranges of a large block in half the time.
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
//! | churn, 10^3 live | 47.8 (1.08) | 29.2 (0.66) | | 44.1 (1.00) | 88.9 (2.02) | 543 (12.31) |
//! | churn, 10^4 | 58.8 (1.24) | 62.9 (1.33) | | 47.3 (1.00) | 81.3 (1.72) | 1563 (33.05) |
//! | churn, 10^5 | 110 (1.34) | 116 (1.42) | | 82.1 (1.00) | 168 (2.05) | 7438 (90.58) |
//! | churn, 10^6 | 138 (1.42) | 158 (1.63) | | 97.1 (1.00) | 229 (2.35) | |
//! | small, 10^5 | 52.0 (0.97) | 58.5 (1.10) | | 53.4 (1.00) | 124 (2.32) | 6193 (116.05) |
//! | descriptors, 10^4 | 40.2 (0.94) | 33.6 (0.78) | | 42.9 (1.00) | 50.1 (1.17) | 895 (20.87) |
//! | mixed alignment, 10^5 | 95.7 (1.67) | 109 (1.90) | | 57.2 (1.00) | 147 (2.58) | 14380 (251.40) |
//! | textures by age | 51.3 (1.07) | 50.3 (1.05) | | 47.8 (1.00) | 54.6 (1.14) | 503 (10.53) |
//! | frames, first in first out | 42.7 (1.60) | 41.4 (1.55) | 15.3 (0.57) | 26.7 (1.00) | 34.7 (1.30) | 19.2 (0.72) |
//! | last in first out, 64 | 19.5 (0.52) | 27.2 (0.72) | 6.6 (0.18) | 37.7 (1.00) | 20.7 (0.55) | 9.9 (0.26) |
//! | pairs | 21.8 (0.94) | 16.0 (0.69) | 9.4 (0.41) | 23.1 (1.00) | 11.4 (0.49) | 12.1 (0.52) |
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
mod coalescing;
mod compaction;
mod error;
mod growth;
mod handle;
#[doc(hidden)]
pub mod json;
mod read_ahead;
mod region;
mod request;
mod shrink;
mod statistics;
mod virtual_block;

pub use algorithm::Algorithm;
pub use alignment::{Alignment, AlignmentError};
pub use coalescing::Coalescing;
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
