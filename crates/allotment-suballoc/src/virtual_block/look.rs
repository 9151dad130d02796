//! What a block says of itself: statistics, its regions, JSON.

use core::fmt::{self, Write};

use super::VirtualBlock;
use crate::algorithm::{Engine, Ranges};
use crate::json::{self, Object};
use crate::{
    Algorithm, DetailedStatistics, Handle, HandleError, Region, RegionKind, Regions, SizeRange, Statistics,
};

impl<T> VirtualBlock<T> {
    /// Returns the algorithm that the block was created with.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.engine.algorithm()
    }

    /// Returns the size of the block, in units.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.engine.size()
    }

    /// Returns `true` if no range is allocated.
    #[doc(alias = "vmaIsVirtualBlockEmpty")]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.engine.tally().used_count == 0
    }

    /// Returns the largest size that a request at alignment 1 can get now. O(1); for TLSF with a look at up to 136 free
    /// regions.
    #[must_use]
    pub fn largest_free(&self) -> u64 {
        self.engine.largest_free()
    }

    /// Returns `false` if a request for `size` units is sure to fail. O(1).
    ///
    /// `true` is no guarantee: the test ignores the alignment, and compares with
    /// [`largest_free_at_most`](Self::largest_free_at_most).
    #[must_use]
    pub fn may_fit(&self, size: u64) -> bool {
        size <= self.largest_free_at_most()
    }

    /// Returns an upper bound of [`largest_free`](Self::largest_free) that is at most 3 % too large. O(1).
    #[must_use]
    pub fn largest_free_at_most(&self) -> u64 {
        self.engine.largest_free_at_most()
    }

    /// Returns the free units, and an upper bound of [`largest_free`](Self::largest_free) that is at most 1/32 too large: no less than
    /// [`largest_free_at_most`](Self::largest_free_at_most), and sooner. For an allocator over several blocks, which notes both after
    /// each change of a block. O(1).
    ///
    /// ```
    /// use allotment_suballoc::{Algorithm, Request, VirtualBlock};
    ///
    /// let mut block = VirtualBlock::new(1000, Algorithm::Tlsf)?;
    /// block.allocate(Request::new(900), ())?;
    /// assert_eq!(block.free_and_largest(), (100, 100));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn free_and_largest(&self) -> (u64, u64) {
        // Nearly all blocks are of this kind: the others are a call away.
        match &self.engine {
            Engine::Tlsf(ranges) => ranges.free_and_largest(),
            _ => self.free_and_largest_of_other(),
        }
    }

    #[inline(never)]
    fn free_and_largest_of_other(&self) -> (u64, u64) {
        (self.engine.tally().free, self.engine.largest_free_at_most())
    }

    /// Returns the statistics that are always up to date. O(1).
    #[doc(alias("vmaGetVirtualBlockStatistics", "GetStatistics"))]
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let tally = self.engine.tally();
        Statistics {
            size: self.engine.size(),
            allocation_count: tally.used_count,
            allocated: tally.used,
            padding: tally.padding,
            free: tally.free,
            free_range_count: tally.free_count,
        }
    }

    /// Returns sums and extremes from a walk over all regions. O(regions).
    #[doc(alias("vmaCalculateVirtualBlockStatistics", "CalculateStatistics"))]
    #[must_use]
    pub fn detailed_statistics(&self) -> DetailedStatistics {
        let mut detailed = DetailedStatistics {
            brief: self.statistics(),
            largest_free: self.largest_free(),
            ..DetailedStatistics::default()
        };
        // From the regions and not from counters: extremes cannot be kept up to date in O(1) when ranges are freed.
        for region in self.regions() {
            let range = match region.kind {
                RegionKind::Used { .. } => &mut detailed.allocation_size,
                RegionKind::Free => &mut detailed.free_size,
                RegionKind::Padding => continue,
            };
            *range = Some(SizeRange::including(*range, region.size));
        }
        detailed
    }

    /// Returns all regions in address order: live ranges, padding and free space, without a gap. No two free regions of a TLSF
    /// or linear block touch.
    ///
    /// ```
    /// use allotment_suballoc::{Algorithm, RegionKind, Request, VirtualBlock};
    ///
    /// let mut block = VirtualBlock::new(16, Algorithm::Buddy)?;
    /// block.allocate(Request::new(5), 'a')?;
    /// let regions: Vec<_> = block.regions().map(|region| match region.kind {
    ///     RegionKind::Used { data, .. } => (*data, region.size),
    ///     RegionKind::Padding => ('-', region.size),
    ///     _ => (' ', region.size),
    /// }).collect();
    /// assert_eq!(regions, [('a', 5), ('-', 3), (' ', 8)]);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn regions(&self) -> Regions<'_, T> {
        Regions::new(self)
    }

    /// Returns the regions behind a live range, in address order: for a caller that looks at a large block piece by piece, and
    /// goes on behind the last range of a piece that is still live. O(1).
    ///
    /// ```
    /// use allotment_suballoc::{Algorithm, Request, VirtualBlock};
    ///
    /// let mut block = VirtualBlock::new(64, Algorithm::Tlsf)?;
    /// let first = block.allocate(Request::new(16), ())?;
    /// block.allocate(Request::new(8), ())?;
    /// let behind: Vec<_> = block.regions_behind(first.handle)?.map(|region| region.offset).collect();
    /// assert_eq!(behind, [16, 24]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`HandleError`] if the handle is stale or belongs to another block.
    pub fn regions_behind(&self, handle: Handle) -> Result<Regions<'_, T>, HandleError> {
        self.check(handle)?;
        Ok(Regions::behind(self, handle.index))
    }

    /// Writes the block as one JSON object, in the format of the dumps of VMA and D3D12MA: `TotalBytes`,
    /// `UnusedBytes`, `Allocations`, `UnusedRanges`, and `Suballocations` with `Offset`, `Type` (`FREE`,
    /// `PADDING` or the one that `describe` writes) and `Size` of each region.
    ///
    /// `describe` writes the members of a live range from the data stored with it, `Type` among them.
    ///
    /// # Errors
    ///
    /// Errors of `out` only.
    ///
    /// ```
    /// use allotment_suballoc::{Algorithm, Request, VirtualBlock};
    ///
    /// let mut block = VirtualBlock::new(64, Algorithm::Tlsf)?;
    /// block.allocate(Request::new(48), "mesh")?;
    /// let mut json = String::new();
    /// block.write_json(&mut json, |name, o| {
    ///     o.text("Type", "BUFFER")?;
    ///     o.text("Name", name)
    /// })?;
    /// assert!(json.contains(r#"{"Offset":0,"Size":48,"Type":"BUFFER","Name":"mesh"}"#));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[doc(alias("vmaBuildVirtualBlockStatsString", "BuildStatsString"))]
    pub fn write_json<W: Write + ?Sized>(
        &self,
        out: &mut W,
        describe: impl FnMut(&T, &mut Object<'_, W>) -> fmt::Result,
    ) -> fmt::Result {
        json::object(out, |o| self.write_json_members(o, describe))
    }

    /// Writes the members of [`write_json`](Self::write_json) into an object that has other members as well.
    ///
    /// # Errors
    ///
    /// Errors of the output only.
    pub fn write_json_members<W: Write + ?Sized>(
        &self,
        object: &mut Object<'_, W>,
        mut describe: impl FnMut(&T, &mut Object<'_, W>) -> fmt::Result,
    ) -> fmt::Result {
        let statistics = self.statistics();
        object.number("TotalBytes", statistics.size)?;
        object.number("UnusedBytes", statistics.free)?;
        object.number("Allocations", statistics.allocation_count.into())?;
        object.number("UnusedRanges", statistics.free_range_count.into())?;
        object.array("Suballocations", |array| {
            self.regions().try_for_each(|Region { offset, size, kind }| {
                array.object(|o| {
                    o.number("Offset", offset)?;
                    o.number("Size", size)?;
                    match kind {
                        RegionKind::Used { data, .. } => describe(data, o),
                        RegionKind::Padding => o.text("Type", "PADDING"),
                        RegionKind::Free => o.text("Type", "FREE"),
                    }
                })
            })
        })
    }
}
