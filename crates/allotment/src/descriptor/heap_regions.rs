//! The regions of a shader-visible heap.
//!
//! ```text
//!   0        slots            tables              transient           capacity
//!   │ bindless slots │ long-lived tables │ chunks for recordings │ the driver's │
//! ```
//!
//! Slots come first, so that they keep their indices when the heap grows. Tables may move then, and a chunk
//! belongs to one heap of the device only.

use core::ops::Range;

use super::error::DescriptorError;
use super::heap_desc::ShaderVisibleHeapDesc;
use crate::device::ShaderVisibleHeapLimits;

/// The bounds of the regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Regions {
    pub(super) slots: u32,
    /// Begins at a multiple of the alignment.
    pub(super) tables: Range<u32>,
    /// Begins at a multiple of the alignment, and is a whole number of chunks.
    pub(super) transient: Range<u32>,
    /// A multiple of the alignment; at least 1.
    pub(super) chunk: u32,
    pub(super) alignment: u32,
    /// The size of the heap, including the descriptors that the driver reserves.
    pub(super) capacity: u32,
}

/// The maximum number of slots of a heap.
pub(super) const MOST_SLOTS: u32 = 1 << 24;

/// The maximum number of descriptors of a heap, whatever the device's limit, so that no sum of two counts
/// overflows.
pub(super) const MOST: u32 = 1 << 30;

impl Regions {
    pub(super) fn new(
        desc: &ShaderVisibleHeapDesc,
        limits: &ShaderVisibleHeapLimits,
    ) -> Result<Self, DescriptorError> {
        let alignment = u64::from(limits.table_alignment.max(1));
        let up = |value: u64| value.next_multiple_of(alignment);
        // The operands have 32 bits, so no sum of 64 bits overflows.
        // A chunk is no larger than its region: the limit then bounds the rounded chunk as well.
        let chunk = up(desc.chunk.min(desc.transient).max(1).into());
        let tables = up(desc.slots.into());
        let transient = up(tables + u64::from(desc.tables));
        let end = transient + u64::from(desc.transient).next_multiple_of(chunk);
        let (requested, reserved) = (end + u64::from(limits.reserved), limits.reserved);
        let limit = limits.max_capacity.min(MOST);
        // Before the sizes: whatever they are, the caller has to hear of the device.
        if limit == 0 {
            return Err(DescriptorError::NoHeaps);
        }
        let fits = desc.slots <= MOST_SLOTS && requested <= u64::from(limit);
        if !fits {
            return Err(DescriptorError::OverLimit { requested, reserved, limit });
        }
        if end == 0 {
            return Err(DescriptorError::Empty);
        }
        // All of these are at most `limit`, so they fit into 32 bits.
        Ok(Self {
            slots: desc.slots,
            tables: tables as u32..tables as u32 + desc.tables,
            transient: transient as u32..end as u32,
            chunk: chunk as u32,
            alignment: alignment as u32,
            capacity: requested as u32,
        })
    }

    /// Returns the number of descriptors before the chunks: those that the mirror contains.
    pub(super) fn kept(&self) -> u32 {
        self.tables.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ShaderVisibleHeapLimits =
        ShaderVisibleHeapLimits { max_capacity: 2048, reserved: 16, table_alignment: 4 };

    #[test]
    fn a_device_whose_shaders_see_no_heaps_is_named_as_the_reason() {
        let none = ShaderVisibleHeapLimits { max_capacity: 0, reserved: 0, table_alignment: 1 };
        for desc in [ShaderVisibleHeapDesc::resources(), ShaderVisibleHeapDesc::resources().within(&none)] {
            assert_eq!(Regions::new(&desc, &none), Err(DescriptorError::NoHeaps));
        }
    }

    #[test]
    fn regions_follow_each_other_at_their_alignment_and_leave_the_drivers_at_the_end() {
        let desc = ShaderVisibleHeapDesc::samplers().with_regions(10, 7, 33).with_chunk(9);
        let regions = Regions::new(&desc, &LIMITS).unwrap();
        assert_eq!((regions.slots, regions.tables.clone(), regions.transient.clone()), (10, 12..19, 20..56));
        assert_eq!((regions.chunk, regions.capacity), (12, 56 + 16));
    }

    #[test]
    fn regions_beyond_the_devices_limit_are_refused_with_the_numbers() {
        let desc = ShaderVisibleHeapDesc::samplers().with_regions(2000, 30, 0);
        let refused = DescriptorError::OverLimit { requested: 2048, reserved: 16, limit: 2047 };
        assert_eq!(
            Regions::new(&desc, &ShaderVisibleHeapLimits { max_capacity: 2047, ..LIMITS }),
            Err(refused)
        );
        assert!(Regions::new(&desc, &LIMITS).is_ok());
        let huge = desc.with_regions(u32::MAX, u32::MAX, u32::MAX);
        assert!(matches!(Regions::new(&huge, &LIMITS), Err(DescriptorError::OverLimit { .. })));
    }

    #[test]
    fn what_a_limit_makes_smaller_fits_and_what_fits_stays() {
        let descs = [
            ShaderVisibleHeapDesc::resources(),
            ShaderVisibleHeapDesc::samplers(),
            ShaderVisibleHeapDesc::resources()
                .with_regions(u32::MAX, u32::MAX, u32::MAX)
                .with_chunk(u32::MAX),
            ShaderVisibleHeapDesc::resources().with_regions(MOST_SLOTS + 1, 0, 7),
        ];
        for desc in descs {
            for table_alignment in [0, 1, 4, 64, 100] {
                for max_capacity in [500, 2048, 65_535, 131_072, 1_000_000, MOST, u32::MAX] {
                    let limits = ShaderVisibleHeapLimits { max_capacity, reserved: 32, table_alignment };
                    let within = desc.within(&limits);
                    let regions = Regions::new(&within, &limits);
                    assert!(regions.is_ok(), "{desc:?} within {limits:?} is {within:?}: {regions:?}");
                    assert_eq!(within == desc, Regions::new(&desc, &limits).is_ok());
                    assert!(within.slots <= desc.slots && within.tables <= desc.tables);
                    assert!(within.transient <= desc.transient && within.chunk <= desc.chunk);
                }
            }
        }
    }

    #[test]
    fn a_chunk_is_no_larger_than_its_region() {
        let desc = ShaderVisibleHeapDesc::samplers().with_chunk(u32::MAX);
        assert_eq!(Regions::new(&desc.with_regions(4, 4, 0), &LIMITS).unwrap().chunk, 4);
        assert_eq!(Regions::new(&desc.with_regions(4, 4, 9), &LIMITS).unwrap().transient, 8..20);
    }

    #[test]
    fn a_heap_of_nothing_is_refused() {
        let desc = ShaderVisibleHeapDesc::samplers().with_regions(0, 0, 0);
        assert_eq!(Regions::new(&desc, &LIMITS), Err(DescriptorError::Empty));
    }
}
