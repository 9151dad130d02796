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
//! | host memory per live range | 20–30 bytes + `T`, up to 70 among few | 80 bytes + `T` | 21–24 bytes + `T` |
//!
//! TLSF ("two-level segregated fit": Masmano, Ripoll, Crespo and Real, 2004) is the default of the crates built
//! on this one. Buddy (Knowlton, 1965) loses a third of the space to rounding on sizes that are not powers of
//! two; it exists for hardware that requires power-of-two cells, and as a baseline for measurements. Linear
//! serves upload rings and per-frame stacks.
//!
//! [`VirtualBlock::free_many`] frees many ranges of a large block in half the time.
//!
//! Where all lifetimes are known in advance, [`plan`] finds offsets that are better than those of any of them.
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
//! | churn, 10^3 live | 20.7 (0.77) | 22.1 (0.82) | | 26.9 (1.00) | 51.9 (1.93) | 298 (11.07) |
//! | churn, 10^4 | 41.4 (1.32) | 42.5 (1.35) | | 31.4 (1.00) | 60.2 (1.91) | 1136 (36.14) |
//! | churn, 10^5 | 58.8 (1.05) | 64.4 (1.15) | | 56.2 (1.00) | 128 (2.28) | 4296 (76.40) |
//! | churn, 10^6 | 160 (1.16) | 197 (1.43) | | 138 (1.00) | | |
//! | small, 10^5 | 56.6 (0.92) | 62.3 (1.01) | | 61.9 (1.00) | 175 (2.83) | 4372 (70.67) |
//! | descriptors, 10^4 | 18.7 (0.94) | 17.7 (0.89) | | 19.9 (1.00) | 39.5 (1.98) | 616 (30.92) |
//! | mixed alignment, 10^5 | 77.9 (1.11) | 93.7 (1.33) | | 70.2 (1.00) | 145 (2.06) | 9268 (131.96) |
//! | textures by age | 25.7 (0.82) | 25.5 (0.82) | | 31.2 (1.00) | 41.5 (1.33) | 291 (9.30) |
//! | frames, first in first out | 29.7 (1.00) | 24.8 (0.83) | 13.0 (0.44) | 29.7 (1.00) | 42.3 (1.42) | 9.8 (0.33) |
//! | last in first out, 64 | 15.0 (0.53) | 18.4 (0.66) | 7.6 (0.27) | 28.1 (1.00) | 17.6 (0.63) | 6.0 (0.21) |
//! | pairs | 13.9 (0.56) | 18.1 (0.73) | 5.3 (0.21) | 24.8 (1.00) | 16.2 (0.65) | 8.3 (0.34) |
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
mod compaction;
mod error;
mod growth;
mod handle;
#[doc(hidden)]
pub mod json;
pub mod plan;
mod read_ahead;
mod region;
mod request;
mod shrink;
mod size_classes;
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
pub use request::{FitStrategy, Request, StackSide};
pub use size_classes::SizeClasses;
pub use statistics::{DetailedStatistics, SizeRange, Statistics};
pub use virtual_block::{Allocation, AllocationInfo, VirtualBlock};

/// The largest size of a block, and of every range in it: 2^48 units (256 TiB, if a unit is a byte).
///
/// Current graphics APIs address at most 2^47 bytes. The bound leaves 16 bits of headroom in a `u64`, so that
/// no sum in this crate can overflow.
pub const MAX_SIZE: u64 = 1 << 48;
