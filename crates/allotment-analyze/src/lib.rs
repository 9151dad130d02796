//! What a recording of GPU memory shows.
//!
//! Each module is one analysis of a [`Recording`](allotment_trace::recording::Recording), over a [`Timeline`] of it.

#![forbid(unsafe_code)]

mod aliasing;
mod block_bytes;
mod coverage;
mod cursor;
mod descriptors;
mod difference;
mod fragmentation;
mod grouping;
mod leaks;
mod level_of_detail;
mod lifetime_rules;
mod release_latency;
mod running;
mod scope;
mod segments;
mod series;
mod timeline;

pub use aliasing::Lanes;
pub use block_bytes::BlockBytes;
pub use cursor::Cursor;
pub use descriptors::{DescriptorHistory, DescriptorOccupancy};
pub use difference::{Amount, Difference, GroupDifference, Paired};
pub use fragmentation::{FragmentationSample, Holes, fragmentation_over_time};
pub use grouping::{Grouping, name_prefix};
pub use leaks::{LeakGroup, Leaks};
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

#[cfg(test)]
mod tests;
