//! Writes the whole state as JSON, in the schema that VMA and D3D12MA share (GpuMemDump), for the existing viewers.
//!
//! The schema knows two APIs. A dump of a simulated GPU says Vulkan, since it has Vulkan's memory model; the field
//! `GPU` has the simulated GPU's own name.

use core::fmt;

use allotment_suballoc::json::{self, Object};
use allotment_suballoc::{Region, RegionKind, VirtualBlock};

use crate::device::{Api, Device, MemoryHeapIndex, MemoryTypeIndex};
use crate::memory::allocator::Allocator;
use crate::memory::block_set::{Block, Role};
use crate::memory::pool::{BlockSize, Detail, Label, PoolState};
use crate::memory::reports::statistics::DetailedStatistics;
use crate::sync::locked;

impl<D: Device> Allocator<D> {
    /// Returns all allocations, with location and name, as JSON in the GpuMemDump schema.
    ///
    /// O(regions), locking one pool after the other; changes that other threads make meanwhile may show in part.
    ///
    /// ```
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    /// use allotment::{Allocator, AllocatorDesc, MemoryUsage, Requirements};
    ///
    /// let device = SimulatedGpu::new(Profile::named("integrated").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let sky = allocator.allocate(&Requirements::new(4096), &MemoryUsage::GpuOnly.with_name("sky"))?;
    /// assert!(allocator.dump_json().contains(r#""Type":"BUFFER","Usage":0,"Name":"sky""#));
    /// allocator.free(sky)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn dump_json(&self) -> String {
        let mut text = String::new();
        // Writing to a string never fails.
        let _ = json::object(&mut text, |dump| self.dump(dump));
        text
    }

    fn dump(&self, dump: &mut Object<'_, String>) -> fmt::Result {
        let properties = self.device().properties();
        let by_type = self.detailed_statistics();
        let types_of =
            |heap: usize| properties.indexed_types().filter(move |(_, found)| found.heap.get() == heap);
        dump.object("General", |general| {
            let api = if properties.api == Api::Direct3D12 { "Direct3D 12" } else { "Vulkan" };
            general.text("API", api)?;
            general.text("GPU", &properties.name)?;
            general.number("bufferImageGranularity", properties.limits.buffer_image_granularity.get())?;
            general.number("nonCoherentAtomSize", properties.limits.non_coherent_atom_size.get())?;
            general.number("maxMemoryAllocationCount", properties.limits.max_allocation_count.into())
        })?;
        dump.object("Total", |stats| write_stats(stats, &sum(by_type.iter())))?;
        dump.object("MemoryInfo", |info| {
            properties.heaps.iter().enumerate().try_for_each(|(i, heap)| {
                info.object(&format!("Heap {i}"), |o| {
                    o.array(
                        "Flags",
                        |flags| {
                            if heap.device_local { flags.text("DEVICE_LOCAL") } else { Ok(()) }
                        },
                    )?;
                    o.number("Size", heap.size)?;
                    let report = self.heaps.report(MemoryHeapIndex(i as u8));
                    o.object("Budget", |budget| {
                        budget.number("BudgetBytes", report.budget)?;
                        budget.number("UsageBytes", report.usage)
                    })?;
                    o.object("Stats", |stats| {
                        write_stats(stats, &sum(types_of(i).map(|(index, _)| &by_type[index.get()])))
                    })?;
                    o.object("MemoryPools", |types| {
                        types_of(i).try_for_each(|(index, found)| {
                            types.object(&type_name(index), |o| {
                                o.array("Flags", |flags| {
                                    found.properties.iter_names().try_for_each(|(name, _)| flags.text(name))
                                })?;
                                o.object("Stats", |stats| write_stats(stats, &by_type[index.get()]))
                            })
                        })
                    })
                })
            })
        })?;
        dump.object("DefaultPools", |pools| {
            properties.indexed_types().try_for_each(|(index, _)| {
                let mut shown = Vec::new();
                for slot in self.default_slots() {
                    let mut guard = locked(&slot.state);
                    let Some(state) = guard.as_mut().filter(|state| state.sets[0].memory_type == index)
                    else {
                        continue;
                    };
                    // Merges the ranges of the quick lists, which would show as allocations.
                    state.flush_quick_lists();
                    shown.extend(Drawn::of(state, 0));
                }
                if shown.is_empty() {
                    return Ok(());
                }
                pools.object(&type_name(index), |o| {
                    o.number("PreferredBlockSize", self.desc().block_sizes.largest)?;
                    write_blocks(o, &shown)
                })
            })
        })?;
        dump.object("CustomPools", |pools| {
            properties.indexed_types().try_for_each(|(index, _)| self.dump_custom_pools(pools, index))
        })
    }

    fn dump_custom_pools(&self, pools: &mut Object<'_, String>, memory_type: MemoryTypeIndex) -> fmt::Result {
        let mut shown: Vec<(String, u64, Vec<Drawn>)> = Vec::new();
        for (index, slot) in self.custom_slots() {
            let mut guard = locked(&slot.state);
            let Some(state) = guard.as_mut() else { continue };
            state.flush_quick_lists();
            // The index of shard 0 stays that of the pool. The other shards follow it.
            let number = index - state.shard - self.default_pool_count();
            for set in (0..state.sets.len()).filter(|&set| state.sets[set].memory_type == memory_type) {
                let size = match state.rules.sizing {
                    BlockSize::Fixed(size) => size,
                    BlockSize::Growing(sizes) => sizes.largest,
                };
                // Viewers identify a pool by its name, so pools of the same name are numbered, and all shards of a pool
                // are shown as one.
                let name = state.rules.name.as_ref().map(|name| format!(" - {name}")).unwrap_or_default();
                let name = format!("{number}{name}");
                match shown.last_mut() {
                    Some((last, _, drawn)) if *last == name => drawn.extend(Drawn::of(state, set)),
                    _ => shown.push((name, size, Drawn::of(state, set))),
                }
            }
        }
        if shown.is_empty() {
            return Ok(());
        }
        pools.array(&type_name(memory_type), |array| {
            shown.iter().try_for_each(|(name, block_size, drawn)| {
                array.object(|o| {
                    o.text("Name", name)?;
                    o.number("PreferredBlockSize", *block_size)?;
                    write_blocks(o, drawn)
                })
            })
        })
    }
}

/// A memory object as JSON, written while its pool was locked.
enum Drawn {
    /// The members of a block.
    Block(String),
    /// The members of a dedicated allocation.
    Dedicated(String),
}

impl Drawn {
    /// All memory objects of one block set.
    fn of<D: Device>(state: &PoolState<D>, set: usize) -> Vec<Self> {
        state.sets[set].blocks().map(|(_, block)| Self::of_block(state, block)).collect()
    }

    fn of_block<D: Device>(state: &PoolState<D>, block: &Block<D>) -> Self {
        let describe = |record: &u32, o: &mut Object<'_, String>| match state.detail(*record) {
            Some(detail) => write_detail(o, detail, state.label(*record)),
            None => o.text("Type", "UNKNOWN"),
        };
        let mut text = String::new();
        if block.role != Role::Shared && !block.ranges.is_empty() {
            let record = block.ranges.regions().find_map(|region| match region.kind {
                RegionKind::Used { data, .. } => Some(*data),
                _ => None,
            });
            // Writing to a `String` never fails.
            let _ = json::object(&mut text, |o| {
                o.number("Size", block.memory.size())?;
                record.map_or(Ok(()), |record| describe(&record, o))
            });
            return Self::Dedicated(text);
        }
        let _ = json::object(&mut text, |o| {
            let maps = u64::from(block.memory.address(0).is_some());
            o.number("MapRefCount", maps)?;
            write_ranges(o, &block.ranges, describe)
        });
        Self::Block(text)
    }
}

fn write_blocks(o: &mut Object<'_, String>, drawn: &[Drawn]) -> fmt::Result {
    o.object("Blocks", |blocks| {
        let shared = drawn.iter().filter_map(|drawn| match drawn {
            Drawn::Block(text) => Some(text),
            Drawn::Dedicated(_) => None,
        });
        shared.enumerate().try_for_each(|(i, text)| blocks.raw(&i.to_string(), text))
    })?;
    o.array("DedicatedAllocations", |array| {
        drawn.iter().try_for_each(|drawn| match drawn {
            Drawn::Dedicated(text) => array.raw(text),
            Drawn::Block(_) => Ok(()),
        })
    })
}

/// Writes the ranges of a block. [`VirtualBlock::write_json_members`] would write padding as a type of its own, which
/// the viewers do not know.
fn write_ranges(
    o: &mut Object<'_, String>,
    ranges: &VirtualBlock<u32>,
    describe: impl Fn(&u32, &mut Object<'_, String>) -> fmt::Result,
) -> fmt::Result {
    let statistics = ranges.statistics();
    o.number("TotalBytes", statistics.size)?;
    o.number("UnusedBytes", statistics.free)?;
    o.number("Allocations", statistics.allocation_count.into())?;
    o.number("UnusedRanges", statistics.free_range_count.into())?;
    o.array("Suballocations", |array| {
        ranges.regions().try_for_each(|Region { offset, size, kind }| {
            array.object(|o| {
                o.number("Offset", offset)?;
                o.number("Size", size)?;
                match kind {
                    RegionKind::Used { data, .. } => describe(data, o),
                    RegionKind::Padding => {
                        o.text("Type", "UNKNOWN")?;
                        o.number("Usage", 0)?;
                        o.text("Name", "padding")
                    }
                    _ => o.text("Type", "FREE"),
                }
            })
        })
    })
}

fn write_detail(o: &mut Object<'_, String>, detail: &Detail, label: &Label) -> fmt::Result {
    o.text("Type", detail.kind.dump_name())?;
    // The viewers insist on the API's usage flags, which the memory layer does not know.
    o.number("Usage", 0)?;
    if let Some(name) = &label.name {
        o.text("Name", name)?;
    }
    if label.user_data != 0 {
        o.text("CustomData", format_args!("{:x}", label.user_data))?;
    }
    Ok(())
}

fn type_name(index: MemoryTypeIndex) -> String {
    format!("Type {index}")
}

fn sum<'a>(parts: impl Iterator<Item = &'a DetailedStatistics>) -> DetailedStatistics {
    parts.fold(DetailedStatistics::default(), |mut sum, part| {
        sum.add(part);
        sum
    })
}

fn write_stats(o: &mut Object<'_, String>, detailed: &DetailedStatistics) -> fmt::Result {
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
