//! The descriptions that descriptor heaps are created from.

use super::fill::DescriptorFill;
use super::heap_regions::{MOST, MOST_SLOTS, Regions};
use crate::device::{DescriptorHeapType, ShaderVisibleHeapLimits, ShaderVisibleHeapType};

/// The description of a shader-visible heap: its type, and the size of each region.
///
/// ```
/// use allotment::descriptor::ShaderVisibleHeapDesc;
///
/// let desc = ShaderVisibleHeapDesc::resources()
///     .with_regions(4096, 1024, 8192) // bindless slots, long-lived tables, tables of one recording
///     .with_chunk(512); // descriptors that a recording takes at once
/// assert_eq!((desc.slots, desc.tables, desc.transient), (4096, 1024, 8192));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShaderVisibleHeapDesc {
    /// The type of its descriptors.
    pub heap_type: ShaderVisibleHeapType,
    /// Single slots with a constant index: bindless resources, samplers. At most 2^24.
    pub slots: u32,
    /// Descriptors for long-lived ranges: the tables of binding sets.
    pub tables: u32,
    /// Descriptors for transient tables, which recordings allocate in chunks.
    pub transient: u32,
    /// Descriptors per chunk. A recording has a chunk to itself. At most `transient`, rounded up to the
    /// device's table alignment.
    pub chunk: u32,
    /// The contents of tables that were allocated and not yet written.
    pub fill: DescriptorFill,
}

impl ShaderVisibleHeapDesc {
    /// Describes a heap of resources: 131,072 slots, 16,384 descriptors in tables and 65,536 in chunks of 256.
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

    /// Describes a heap of samplers: 1,536 slots, 192 descriptors in tables and 256 in chunks of 32, which fits
    /// devices with a limit of 2,048.
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

    /// Sets the sizes of the regions.
    #[must_use]
    pub fn with_regions(mut self, slots: u32, tables: u32, transient: u32) -> Self {
        (self.slots, self.tables, self.transient) = (slots, tables, transient);
        self
    }

    /// Sets the size of a chunk.
    #[must_use]
    pub fn with_chunk(mut self, chunk: u32) -> Self {
        self.chunk = chunk;
        self
    }

    /// Makes the regions smaller, each in proportion, where the device's limit is lower than what is described. Limits
    /// are in [`DescriptorLimits::shader_visible`](crate::device::DescriptorLimits::shader_visible).
    ///
    /// ```
    /// use allotment::descriptor::ShaderVisibleHeapDesc;
    /// use allotment::device::DescriptorDevice as _;
    /// use allotment::device::simulated::{Profile, SimulatedGpu};
    ///
    /// let phone = SimulatedGpu::new(Profile::named("mobile").unwrap());
    /// let limits = phone.descriptor_limits().resources;
    /// assert_eq!(limits.max_capacity, 131_072);
    /// let desc = ShaderVisibleHeapDesc::resources().within(&limits);
    /// assert_eq!((desc.slots, desc.tables, desc.transient), (80_656, 10_080, 40_192));
    /// ```
    #[must_use]
    pub fn within(mut self, limits: &ShaderVisibleHeapLimits) -> Self {
        // A description that fits stays as it is: shrinking rounds, and would take descriptors away for nothing.
        if Regions::new(&self, limits).is_ok() {
            return self;
        }
        let alignment = u64::from(limits.table_alignment.max(1));
        let sum = [self.slots, self.tables, self.transient].map(u64::from).iter().sum::<u64>().max(1);
        let room = u64::from(limits.max_capacity.min(MOST).saturating_sub(limits.reserved)).min(sum);
        // Rounded down, so that the regions fit side by side once each begins at a multiple of the alignment. At most
        // `room`, since no size exceeds the sum.
        let part = |size: u32| (u64::from(size) * room / sum / alignment * alignment) as u32;
        let transient = part(self.transient);
        self.chunk = self.chunk.min(transient).max(1);
        let chunk = u64::from(self.chunk).next_multiple_of(alignment);
        let transient = (u64::from(transient) / chunk * chunk) as u32;
        self.with_regions(part(self.slots).min(MOST_SLOTS), part(self.tables), transient)
    }

    /// Sets the contents of tables that were not yet written.
    #[must_use]
    pub fn with_fill(mut self, fill: DescriptorFill) -> Self {
        self.fill = fill;
        self
    }
}

/// The description of a CPU descriptor heap.
///
/// ```
/// use allotment::descriptor::CpuDescriptorHeapDesc;
/// use allotment::device::DescriptorHeapType;
///
/// let desc = CpuDescriptorHeapDesc::new(DescriptorHeapType::RenderTarget).with_page_size(256).with_reserve(1);
/// assert_eq!(desc.page_size, 256);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuDescriptorHeapDesc {
    /// The type of its descriptors.
    pub heap_type: DescriptorHeapType,
    /// Descriptors per page: rounded up to a power of two, at least 64.
    pub page_size: u32,
    /// Empty pages to keep, for single slots and for ranges each.
    pub reserve: u32,
}

impl CpuDescriptorHeapDesc {
    /// Describes a heap of this type with pages of 8,192 descriptors for resources and 1,024 for the other
    /// types.
    #[must_use]
    pub fn new(heap_type: DescriptorHeapType) -> Self {
        let page_size = if heap_type == DescriptorHeapType::Resource { 8192 } else { 1024 };
        Self { heap_type, page_size, reserve: 1 }
    }

    /// Sets the size of a page.
    #[must_use]
    pub fn with_page_size(mut self, page_size: u32) -> Self {
        self.page_size = page_size;
        self
    }

    /// Sets the number of empty pages to keep.
    #[must_use]
    pub fn with_reserve(mut self, reserve: u32) -> Self {
        self.reserve = reserve;
        self
    }
}
