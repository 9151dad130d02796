//! The schema that the JSON dumps of VMA and D3D12MA share (GpuMemDump), wherever the data come from: the dump of an
//! allocator and the export of a recording write the same members.
//!
//! Hidden from the documentation, and not part of the stable interface.
//!
//! The existing viewer (`GpuMemDumpVis`) stops at a type that it does not know, and Direct3D 12's types differ from
//! Vulkan's. It draws the ranges of a block one after another and ignores their offsets, so a dump has a range for every
//! byte of a block.

use core::fmt::{self, Display, Write};

use allotment_suballoc::Statistics;
use allotment_suballoc::json::{Array, Object};

use crate::device::{MemoryProperties, MemoryTypeIndex, ResourceKind};
use crate::memory::DetailedStatistics;

/// Which of the two APIs of the schema a dump is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// Vulkan, and everything else.
    Vulkan,
    /// Direct3D 12.
    Direct3D12,
}

impl Flavor {
    /// Writes which device the dump is of. A limit of 0 is not known.
    ///
    /// # Errors
    ///
    /// Those of the output only; so it is with all functions here.
    pub fn general<W: Write>(
        self,
        dump: &mut Object<'_, W>,
        gpu: impl Display,
        granularity: u64,
        atom: u64,
        max_objects: u32,
    ) -> fmt::Result {
        dump.object("General", |general| {
            general.text("API", if self == Self::Direct3D12 { "Direct3D 12" } else { "Vulkan" })?;
            general.text("GPU", gpu)?;
            general.number("bufferImageGranularity", granularity)?;
            general.number("nonCoherentAtomSize", atom)?;
            general.number("maxMemoryAllocationCount", max_objects.into())
        })
    }

    /// Writes what an allocation is: the members of a range or of a dedicated allocation after its size. `usage` are the
    /// API's flags, which the viewers insist on: 0 where they are not known.
    ///
    /// # Errors
    ///
    /// Those of the output only.
    pub fn resource<W: Write>(
        self,
        o: &mut Object<'_, W>,
        kind: ResourceKind,
        usage: u64,
        name: Option<impl Display>,
        user_data: u64,
    ) -> fmt::Result {
        o.text("Type", self.type_of(kind))?;
        o.number("Usage", usage)?;
        if let Some(name) = name {
            o.text("Name", name)?;
        }
        if user_data != 0 {
            o.text("CustomData", format_args!("{user_data:x}"))?;
        }
        Ok(())
    }

    const fn type_of(self, kind: ResourceKind) -> &'static str {
        match (kind, self) {
            (ResourceKind::Buffer, _) => "BUFFER",
            (ResourceKind::LinearImage, Self::Vulkan) => "IMAGE_LINEAR",
            (ResourceKind::OptimalImage, Self::Vulkan) => "IMAGE_OPTIMAL",
            // The memory layer does not know how many dimensions a texture has. Most have two.
            (ResourceKind::LinearImage | ResourceKind::OptimalImage, Self::Direct3D12) => "TEXTURE2D",
            (ResourceKind::Unknown, _) => "UNKNOWN",
        }
    }
}

/// A heap, as a dump describes it.
#[derive(Clone, Copy, Debug)]
pub struct Heap {
    /// It is memory of the GPU.
    pub device_local: bool,
    /// Bytes.
    pub size: u64,
    /// Bytes that the process should not exceed.
    pub budget: u64,
    /// Bytes that the process uses.
    pub usage: u64,
}

/// A memory type, as a dump describes it.
#[derive(Clone, Copy, Debug)]
pub struct MemoryType {
    /// The index of its heap.
    pub heap: usize,
    /// Its properties.
    pub properties: MemoryProperties,
    /// What is allocated of it.
    pub statistics: DetailedStatistics,
}

/// Returns the key of a memory type.
#[must_use]
pub fn type_key(index: MemoryTypeIndex) -> String {
    format!("Type {index}")
}

/// Writes the sums of all memory types, and the heaps with their memory types.
///
/// # Errors
///
/// Those of the output only.
pub fn memory_info<W: Write>(dump: &mut Object<'_, W>, heaps: &[Heap], types: &[MemoryType]) -> fmt::Result {
    let sum = |heap: Option<usize>| -> DetailedStatistics {
        types.iter().filter(|of| heap.is_none_or(|heap| of.heap == heap)).map(|of| of.statistics).sum()
    };
    dump.object("Total", |stats| statistics(stats, &sum(None)))?;
    dump.object("MemoryInfo", |info| {
        heaps.iter().enumerate().try_for_each(|(index, heap)| {
            info.object(&format!("Heap {index}"), |o| {
                o.array(
                    "Flags",
                    |flags| {
                        if heap.device_local { flags.text("DEVICE_LOCAL") } else { Ok(()) }
                    },
                )?;
                o.number("Size", heap.size)?;
                o.object("Budget", |budget| {
                    budget.number("BudgetBytes", heap.budget)?;
                    budget.number("UsageBytes", heap.usage)
                })?;
                o.object("Stats", |stats| statistics(stats, &sum(Some(index))))?;
                o.object("MemoryPools", |pools| {
                    let mut of_heap = (0..).zip(types).filter(|(_, of)| of.heap == index);
                    of_heap.try_for_each(|(i, of)| {
                        pools.object(&type_key(MemoryTypeIndex(i)), |o| {
                            o.array("Flags", |flags| {
                                of.properties.iter_names().try_for_each(|(name, _)| flags.text(name))
                            })?;
                            o.object("Stats", |stats| statistics(stats, &of.statistics))
                        })
                    })
                })
            })
        })
    })
}

fn statistics<W: Write>(o: &mut Object<'_, W>, detailed: &DetailedStatistics) -> fmt::Result {
    let brief = &detailed.brief;
    o.number("BlockCount", u64::from(brief.blocks) + u64::from(brief.dedicated))?;
    o.number("BlockBytes", brief.block_bytes)?;
    o.number("AllocationCount", brief.allocations.into())?;
    o.number("AllocationBytes", brief.allocation_bytes)?;
    o.number("UnusedRangeCount", detailed.free_ranges.into())?;
    if let Some(range) = detailed.allocation_size {
        o.number("AllocationSizeMin", range.min)?;
        o.number("AllocationSizeMax", range.max)?;
    }
    if let Some(range) = detailed.free_size {
        o.number("UnusedRangeSizeMin", range.min)?;
        o.number("UnusedRangeSizeMax", range.max)?;
    }
    Ok(())
}

/// Writes the memory objects of a pool: the largest block that it allocates, in bytes, its blocks, and its dedicated
/// allocations.
///
/// # Errors
///
/// Those of the output only.
pub fn pool<W: Write>(
    o: &mut Object<'_, W>,
    block_size: u64,
    blocks: impl FnOnce(&mut Object<'_, W>) -> fmt::Result,
    dedicated: impl FnOnce(&mut Array<'_, W>) -> fmt::Result,
) -> fmt::Result {
    o.number("PreferredBlockSize", block_size)?;
    o.object("Blocks", blocks)?;
    o.array("DedicatedAllocations", dedicated)
}

/// Writes the members of a block. `ranges` writes each of its ranges, in the order of their offsets.
///
/// # Errors
///
/// Those of the output only.
pub fn block<W: Write>(
    o: &mut Object<'_, W>,
    maps: u64,
    statistics: &Statistics,
    ranges: impl FnOnce(&mut Array<'_, W>) -> fmt::Result,
) -> fmt::Result {
    o.number("MapRefCount", maps)?;
    o.number("TotalBytes", statistics.size)?;
    o.number("UnusedBytes", statistics.free)?;
    o.number("Allocations", statistics.allocation_count.into())?;
    o.number("UnusedRanges", statistics.free_range_count.into())?;
    o.array("Suballocations", ranges)
}

/// Writes a range of a block. `describe` writes what it is: a [resource](Flavor::resource), [`free`] or [`padding`].
///
/// # Errors
///
/// Those of the output only.
pub fn range<W: Write>(
    ranges: &mut Array<'_, W>,
    offset: u64,
    size: u64,
    describe: impl FnOnce(&mut Object<'_, W>) -> fmt::Result,
) -> fmt::Result {
    ranges.object(|o| {
        o.number("Offset", offset)?;
        o.number("Size", size)?;
        describe(o)
    })
}

/// Writes that a range is free.
///
/// # Errors
///
/// Those of the output only.
pub fn free<W: Write>(o: &mut Object<'_, W>) -> fmt::Result {
    o.text("Type", "FREE")
}

/// Writes that a range is lost to alignment or rounding. The viewers know no type for that.
///
/// # Errors
///
/// Those of the output only.
pub fn padding<W: Write>(o: &mut Object<'_, W>) -> fmt::Result {
    o.text("Type", "UNKNOWN")?;
    o.number("Usage", 0)?;
    o.text("Name", "padding")
}
