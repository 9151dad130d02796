//! Analyses of a recording of GPU memory: any moment of it, fragmentation, leaks, differences, and advice with numbers.
//!
//! A [`Recording`](allotment_trace::recording::Recording) is a list of events. [`Timeline::new`] indexes it once; a
//! [`Cursor`] then is at any of its moments, and moves forwards and backwards. All analyses are functions of these
//! two. There is no user interface here: commands, reports and viewers draw what this crate counts, and [`tables`] has
//! the headings and cells that all of them show.
//!
//! ```
//! # use allotment::device::simulated::{Profile, SimulatedGpu};
//! # use allotment::prelude::*;
//! # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
//! use allotment_analyze::{BlockBytes, Cursor, Grouping, Leaks, Peaks, Scope, Timeline};
//! use allotment_trace::Collector;
//!
//! // A recording: of a file by `Recording::open(path)?`, of another tool by `import::open`, or of this program.
//! let allocator = Allocator::new(device, AllocatorDesc::default())?;
//! let collector = Collector::new(&allocator)?;
//! let mesh = allocator.allocate(&Requirements::new(1 << 20), &MemoryUsage::GpuOnly.with_name("mesh"))?;
//! let forgotten = allocator.allocate(&Requirements::new(4096), &MemoryUsage::GpuOnly.with_name("icon"))?;
//! allocator.free(mesh)?;
//! let recording = collector.into_recording();
//!
//! let timeline = Timeline::new(&recording);
//! println!("{} bytes in use at the peak", Peaks::of(&timeline, Scope::All).used.bytes);
//!
//! // At the end, one allocation was not freed.
//! let mut cursor = Cursor::at(&timeline, timeline.end());
//! let leaks = Leaks::at(&cursor, Grouping::Name);
//! assert_eq!((leaks.count, leaks.bytes), (1, 4096));
//! for group in &leaks.groups {
//!     println!("{} of {}: {} bytes", group.count, group.key, group.bytes);
//! }
//!
//! // Just before the mesh was freed, both were in use.
//! while BlockBytes::of_scope(&cursor, Scope::All).used == 4096 {
//!     cursor.step_back();
//! }
//! assert_eq!(BlockBytes::of_scope(&cursor, Scope::All).used, (1 << 20) + 4096);
//! # allocator.free(forgotten)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which analysis answers what?
//!
//! | question | answer |
//! |---|---|
//! | what existed at a moment, and where | [`Cursor`], [`Timeline::allocation_at`], [`Cursor::state`] |
//! | what the bytes of a block are, and of a heap, a memory type, a pool | [`BlockBytes`], [`segments()`], [`padding`], [`Scope`] |
//! | how memory grew | [`series()`] and [`series_within`], whose samples keep the peaks; [`Peaks`] |
//! | how fragmented it is, and what still fits | [`Holes`], [`fragmentation_over_time`], [`Figures`] |
//! | what was never freed, and what made it | [`Leaks`] |
//! | which calls allocated what, as a flame graph shows it | [`CallTree`] |
//! | what changed between two moments or two runs | [`Difference`] |
//! | what needs more than in an earlier run, and more than it may | [`Growth`], [`GrowthBound`] |
//! | what lived how long | [`LifetimeRule`] |
//! | what some allocations have in common, and when they came | [`AllocationGroups`] |
//! | how long the GPU kept released memory | [`ReleaseLatency`] |
//! | what shares bytes | [`Lanes`] |
//! | how little memory would do, had all lifetimes been known, and where all would be | [`OfflineMemory`], [`plan_all`], [`PlanPicture`] |
//! | how full descriptor heaps are | [`DescriptorOccupancy`], [`DescriptorHistory`] |
//! | what to change | [`advice()`] |
//! | what a defragmentation would move, and free | [`DefragmentationPreview`], [`LeastBlocks`] |
//! | what other settings of the allocator would have done | [`what_if()`] |
//! | which resources share an allocation, and what that saves | [`SharedMemory`], [`SharedHistory`] |
//! | which allocations have a name, a size or a place | [`AllocationSearch`] |
//! | what colours tell apart, and the bytes of each over time | [`ColourBy`], [`ColourGroups`], [`group_pixels`], [`bands_within`] |
//! | what to draw in few pixels, and what is under the mouse | [`ClassLevels`], [`pixel_runs`], [`rectangle_pixels`], [`hit_test`], [`TimeAxis`] |
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
mod call_tree;
mod class_levels;
mod colour;
mod coverage;
mod cursor;
mod defragmentation;
mod descriptors;
mod difference;
mod figures;
mod fragmentation;
mod grouping;
mod groups;
mod growth;
mod leaks;
mod level_of_detail;
mod lifetime_rules;
mod offline;
mod partition_point;
mod pixels;
mod release_latency;
mod running;
mod scope;
mod search;
mod segments;
mod series;
mod shared_history;
mod shared_memory;
pub mod tables;
mod time_axis;
mod timeline;
pub mod units;
mod what_if;

pub use advice::{Advice, AdviceThresholds, Bytes, Commonest, advice};
pub use aliasing::Lanes;
pub use block_bytes::{BlockBytes, padding};
pub use call_site::short_call_site;
pub use call_tree::{Call, CallNode, CallQuestion, CallTree, CallTreeDesc};
pub use class_levels::ClassLevels;
pub use colour::{BandSample, Bands, ColourBy, ColourGroup, ColourGroups, bands_within, group_pixels};
pub use cursor::Cursor;
pub use defragmentation::{
    BlockFate, DefragmentationPreview, DefragmentationVerdict, LeastBlocks, PreviewOptions, PreviewedBlock,
    PreviewedMove,
};
pub use descriptors::{DescriptorHistory, DescriptorOccupancy};
pub use difference::{Amount, Difference, GroupDifference, Paired};
pub use figures::Figures;
pub use fragmentation::{FragmentationSample, Holes, fragmentation_over_time};
pub use grouping::{Grouping, name_prefix};
pub use groups::{AllocationGroup, AllocationGroups, CommonName};
pub use growth::{GroupGrowth, Growth, GrowthBound, MostGrowth, Need};
pub use leaks::Leaks;
pub use level_of_detail::{PixelRun, bytes_of_pixel, hit_test, pixel_runs};
pub use lifetime_rules::{LifetimeEnd, LifetimeRule};
pub use offline::{OfflineError, OfflineMemory, PlacedItem, PlanLimits, PlanPicture, plan_all, proved};
pub use partition_point::partition_point_from;
pub use pixels::rectangle_pixels;
pub use release_latency::ReleaseLatency;
pub use scope::Scope;
pub use search::AllocationSearch;
pub use segments::{Class, Placed, Segment, segments};
pub use series::{Peak, Peaks, Series, SeriesAxis, SeriesSample, series, series_within};
pub use shared_history::SharedHistory;
pub use shared_memory::SharedMemory;
pub use time_axis::TimeAxis;
pub use timeline::{
    AllocationIndex, BlockIndex, BlockInfo, DescriptorHeapIndex, Lifetime, Place, PoolIndex, ResourceIndex,
    Status, Texts, Timeline,
};
pub use what_if::{PeakFigures, SettingChanges, WhatIf, WhatIfError, recorded_settings, what_if};

#[cfg(test)]
mod tests;
