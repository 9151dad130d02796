//! Analyses of a recording of GPU memory: any moment of it, fragmentation, leaks, differences, and advice with numbers.
//!
//! A [`Recording`](allotment_trace::recording::Recording) is a list of events. [`Timeline::new`] indexes it once; a
//! [`Cursor`] then is at any of its moments, and moves forwards and backwards. All analyses are functions of these
//! two. There is no user interface here: commands, reports and viewers draw what this crate counts.
//!
//! ```
//! use allotment::device::{MemoryTypeIndex, ResourceKind};
//! use allotment::Alignment;
//! use allotment_analyze::{BlockBytes, Cursor, Holes, Peaks, Scope, Timeline};
//! use allotment_trace::recording::*;
//!
//! let (block, pool, memory_type) = (BlockId(0), PoolId(0), MemoryTypeIndex(0));
//! let allocated = |key, offset| {
//!     Event::Allocated(Allocated {
//!         allocation: AllocationKey(key),
//!         block,
//!         offset,
//!         requested: 100,
//!         occupied: 128,
//!         user_data: 0,
//!         name: TextId::NONE,
//!         category: TextId::NONE,
//!         alignment: Alignment::ONE,
//!         usage: None,
//!         kind: ResourceKind::Buffer,
//!         placement: Placement::ExistingBlock,
//!         second_choice: false,
//!         movable: false,
//!     })
//! };
//! let recording = Recording {
//!     events: vec![
//!         Event::BlockAllocated { block, pool, memory_type, kind: BlockKind::Shared, size: 1024 },
//!         allocated(0, 0),
//!         allocated(1, 256),
//!         Event::FreeRequested { allocation: AllocationKey(0) },
//!         Event::Freed { allocation: AllocationKey(0) },
//!     ],
//!     ..Recording::default()
//! };
//! let timeline = Timeline::new(&recording);
//! assert_eq!(Peaks::of(&timeline, Scope::All).used.bytes, 200);
//!
//! // At the end, one allocation is left, with a hole on either side.
//! let mut cursor = Cursor::at(&timeline, timeline.end());
//! let bytes = BlockBytes::of_scope(&cursor, Scope::All);
//! assert_eq!((bytes.used, bytes.rounding, bytes.pending, bytes.free), (100, 28, 0, 896));
//! assert_eq!(Holes::of_scope(&cursor, Scope::All).sizes(), [640, 256]);
//!
//! // One event before, the other was released and waited for the GPU.
//! cursor.step_back();
//! let bytes = BlockBytes::of_scope(&cursor, Scope::All);
//! assert_eq!((bytes.used, bytes.rounding, bytes.pending), (100, 56, 100));
//! ```
//!
//! # Which analysis answers what?
//!
//! | question | answer |
//! |---|---|
//! | what existed at a moment, and where | [`Cursor`], [`Timeline::allocation_at`], [`Cursor::state`] |
//! | what the bytes of a block are, and of a heap, a memory type, a pool | [`BlockBytes`], [`segments()`], [`padding`], [`Scope`] |
//! | how memory grew | [`series()`], whose samples keep the peaks; [`Peaks`] |
//! | how fragmented it is, and what still fits | [`Holes`], [`fragmentation_over_time`] |
//! | what was never freed, and what made it | [`Leaks`] |
//! | what changed between two moments or two runs | [`Difference`] |
//! | what lived how long | [`LifetimeRule`] |
//! | what some allocations have in common, and when they came | [`AllocationGroups`] |
//! | how long the GPU kept released memory | [`ReleaseLatency`] |
//! | what shares bytes | [`Lanes`] |
//! | how full descriptor heaps are | [`DescriptorOccupancy`], [`DescriptorHistory`] |
//! | what to change | [`advice()`] |
//! | what other settings of the allocator would have done | [`what_if()`] |
//! | what to draw in few pixels, and what is under the mouse | [`pixel_runs`], [`hit_test`] |
//!
//! # Recordings that contradict themselves
//!
//! An imported recording may free what it never allocated, or allocate beyond a block. Such an event changes nothing
//! and is counted: [`Timeline::contradiction_count`]. Allocations that overlap are no contradiction, since resources may
//! alias: a byte that several occupy counts once, for what matters most ([`Class`]). No recording makes an analysis
//! panic, and sums stop at the largest number.
//!
//! # Cost
//!
//! The index takes one walk over the events, about 30 bytes for each allocation and 4 to 8 for each event.
//! `examples/ten_million.rs` measures it.

#![forbid(unsafe_code)]

mod advice;
mod aliasing;
mod block_bytes;
mod call_site;
mod coverage;
mod cursor;
mod descriptors;
mod difference;
mod fragmentation;
mod grouping;
mod groups;
mod leaks;
mod level_of_detail;
mod lifetime_rules;
mod release_latency;
mod running;
mod scope;
mod segments;
mod series;
mod timeline;
mod what_if;

pub use advice::{Advice, AdviceThresholds, Bytes, Commonest, advice};
pub use aliasing::Lanes;
pub use block_bytes::{BlockBytes, padding};
pub use call_site::short_call_site;
pub use cursor::Cursor;
pub use descriptors::{DescriptorHistory, DescriptorOccupancy};
pub use difference::{Amount, Difference, GroupDifference, Paired};
pub use fragmentation::{FragmentationSample, Holes, fragmentation_over_time};
pub use grouping::{Grouping, name_prefix};
pub use groups::{AllocationGroup, AllocationGroups, CommonName};
pub use leaks::Leaks;
pub use level_of_detail::{PixelRun, bytes_of_pixel, hit_test, pixel_runs};
pub use lifetime_rules::{LifetimeEnd, LifetimeRule};
pub use release_latency::ReleaseLatency;
pub use scope::Scope;
pub use segments::{Class, Placed, Segment, segments};
pub use series::{Peak, Peaks, Series, SeriesAxis, SeriesSample, series};
pub use timeline::{
    AllocationIndex, BlockIndex, BlockInfo, DescriptorHeapIndex, Lifetime, Place, PoolIndex, Status, Texts,
    Timeline,
};
pub use what_if::{WhatIf, WhatIfError, recorded_settings, what_if};

#[cfg(test)]
mod tests;
