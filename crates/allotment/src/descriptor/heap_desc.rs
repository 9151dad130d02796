//! The descriptions that descriptor heaps are created from.

use super::fill::DescriptorFill;
use crate::device::{DescriptorHeapType, ShaderVisibleHeapType};

/// A shader-visible heap to be made: how many descriptors each region has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShaderVisibleHeapDesc {
    /// What it is of.
    pub heap_type: ShaderVisibleHeapType,
    /// Single slots whose index stays: bindless resources, samplers. At most 2^24.
    pub slots: u32,
    /// For ranges that live long: those of binding sets.
    pub tables: u32,
    /// For what recordings use and forget, in chunks.
    pub transient: u32,
    /// Descriptors of a chunk, which a recording has for itself: no more than `transient`, rounded up to the device's
    /// alignment of tables.
    pub chunk: u32,
    /// What is in tables that were handed out and not written.
    pub fill: DescriptorFill,
}

impl ShaderVisibleHeapDesc {
    /// A heap of resources: 131,072 slots, 16,384 in tables and 65,536 in chunks of 256.
    #[must_use]
    pub fn resources() -> Self {
        let (slots, tables, transient, chunk) = (131_072, 16_384, 65_536, 256);
        Self {
            heap_type: ShaderVisibleHeapType::Resource,
            slots,
            tables,
            transient,
            chunk,
            fill: DescriptorFill::default(),
        }
    }

    /// A heap of samplers: 1,536 slots, 192 in tables and 256 in chunks of 32, so that it fits where there are 2,048.
    #[must_use]
    pub fn samplers() -> Self {
        let (slots, tables, transient, chunk) = (1536, 192, 256, 32);
        Self {
            heap_type: ShaderVisibleHeapType::Sampler,
            slots,
            tables,
            transient,
            chunk,
            fill: DescriptorFill::default(),
        }
    }

    /// The same with regions of other sizes.
    #[must_use]
    pub fn with_regions(mut self, slots: u32, tables: u32, transient: u32) -> Self {
        (self.slots, self.tables, self.transient) = (slots, tables, transient);
        self
    }

    /// The same with chunks of another size.
    #[must_use]
    pub fn with_chunk(mut self, chunk: u32) -> Self {
        self.chunk = chunk;
        self
    }

    /// The same with something else in tables that were not written.
    #[must_use]
    pub fn with_fill(mut self, fill: DescriptorFill) -> Self {
        self.fill = fill;
        self
    }
}

/// A staging heap to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuDescriptorHeapDesc {
    /// What it is of.
    pub heap_type: DescriptorHeapType,
    /// Descriptors of a page: rounded up to a power of two, at least 64.
    pub page_size: u32,
    /// Pages that are kept though they are empty, of each sort.
    pub reserve: u32,
}

impl CpuDescriptorHeapDesc {
    /// A heap of a kind, with pages of a size that engines do well with: 8,192 resources, 1,024 of the others.
    #[must_use]
    pub fn new(heap_type: DescriptorHeapType) -> Self {
        let page_size = if heap_type == DescriptorHeapType::Resource { 8192 } else { 1024 };
        Self { heap_type, page_size, reserve: 1 }
    }

    /// The same with pages of another size.
    #[must_use]
    pub fn with_page_size(mut self, page_size: u32) -> Self {
        self.page_size = page_size;
        self
    }

    /// The same with so many empty pages kept.
    #[must_use]
    pub fn with_reserve(mut self, reserve: u32) -> Self {
        self.reserve = reserve;
        self
    }
}
