//! What a recording of GPU memory shows.
//!
//! Each module is one analysis of a [`Recording`](allotment_trace::recording::Recording), over a [`Timeline`] of it.


mod block_bytes;
mod cursor;
mod fragmentation;
mod grouping;
mod leaks;
mod scope;
mod segments;
mod timeline;

pub use block_bytes::BlockBytes;
pub use cursor::Cursor;
pub use fragmentation::{FragmentationSample, Holes, fragmentation_over_time};
pub use grouping::{Grouping, name_prefix};
pub use leaks::{LeakGroup, Leaks};
pub use scope::Scope;
pub use segments::{Class, Placed, Segment, segments};
pub use timeline::{
    AllocationIndex, BlockIndex, BlockInfo, DescriptorHeapIndex, Lifetime, Place, PoolIndex, Status, Texts,
    Timeline,
};

#[cfg(test)]
mod tests;
