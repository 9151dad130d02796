//! Writes the whole state as JSON, in the schema that VMA and D3D12MA share (GpuMemDump), for the existing viewers. The
//! members of the schema are in `dump_schema`.
//!
//! The schema knows two APIs. A dump of a simulated GPU says Vulkan, since it has Vulkan's memory model; the field
//! `GPU` has the simulated GPU's own name.

use core::fmt;
use std::collections::HashMap;

use allotment_suballoc::Statistics as RangeStatistics;
use allotment_suballoc::json::{self, Object};

use super::Reports;
use crate::choices::blocks::BlockSize;
use crate::device::{Api, Device, MemoryHeapIndex, MemoryTypeIndex, ResourceKind};
use crate::memory::Name;
use crate::memory::allocator::Allocator;
use crate::memory::block_set::{Block, Role};
use crate::memory::pool::{Description, Detail, PoolSlot, PoolState, SeenKind, SeenRegion};
use crate::memory::reports::dump_schema::{self as schema, Flavor};

impl<D: Device> Reports<'_, D> {
    /// Returns all allocations, with location and name, as JSON in the GpuMemDump schema.
    ///
    /// O(regions). Exact where no other thread changes a pool meanwhile; else what they change may show in part. Locks one pool
    /// after the other, for some hundred regions at a time: other threads wait for less than 200 µs.
    ///
    /// ```
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    /// use allotment::{Allocator, AllocatorDesc, MemoryUsage, Requirements};
    ///
    /// let device = SimulatedGpu::new(Profile::named("integrated").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let sky = allocator.allocate(&Requirements::new(4096), &MemoryUsage::GpuOnly.with_name("sky"))?;
    /// assert!(allocator.reports().dump_json().contains(r#""Type":"BUFFER","Usage":0,"Name":"sky""#));
    /// allocator.free(sky)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    #[doc(alias("vmaBuildStatsString", "BuildStatsString"))]
    #[must_use]
    pub fn dump_json(&self) -> String {
        let mut text = String::new();
        // Writing to a string never fails.
        let _ = json::object(&mut text, |dump| self.allocator().dump(dump));
        text
    }
}

impl<D: Device> Allocator<D> {
    fn dump(&self, dump: &mut Object<'_, String>) -> fmt::Result {
        let properties = self.device().properties();
        let by_type = self.reports().detailed_statistics();
        let owners = &self.owners();
        let flavor = self.flavor();
        let limits = &properties.limits;
        let (granularity, atom) =
            (limits.buffer_image_granularity.get(), limits.non_coherent_atom_size.get());
        flavor.general(dump, &properties.name, granularity, atom, limits.max_allocation_count)?;
        let heaps = (0..).zip(&properties.heaps).map(|(index, heap)| {
            let report = self.heaps().report(MemoryHeapIndex(index));
            let (budget, usage) = (report.budget, report.usage);
            schema::Heap { device_local: heap.device_local, size: heap.size, budget, usage }
        });
        let types = properties.indexed_types().map(|(index, found)| schema::MemoryType {
            heap: found.heap.get(),
            properties: found.properties,
            statistics: by_type[index.get()],
        });
        schema::memory_info(dump, &heaps.collect::<Vec<_>>(), &types.collect::<Vec<_>>())?;
        dump.object("DefaultPools", |pools| {
            properties.indexed_types().try_for_each(|(index, _)| {
                let mut shown = Vec::new();
                for slot in self.settled().default_slots(index).filter(|slot| slot.has_memory()) {
                    shown.extend(Seen::blocks_of(slot).iter().map(|seen| seen.draw(slot, owners, flavor)));
                }
                if shown.is_empty() {
                    return Ok(());
                }
                let block_size = self.desc().block_sizes_of(index).largest;
                pools.object(&schema::type_key(index), |o| write_pool(o, block_size, &shown))
            })
        })?;
        dump.object("CustomPools", |pools| {
            properties.indexed_types().try_for_each(|(index, _)| self.dump_custom_pools(pools, owners, index))
        })
    }

    fn flavor(&self) -> Flavor {
        if self.device().properties().api == Api::Direct3D12 { Flavor::Direct3D12 } else { Flavor::Vulkan }
    }

    /// Returns whose each range is. Read before the blocks: the record of an allocation may be in another shard than its
    /// block.
    fn owners(&self) -> Owners {
        let mut owners = Owners::new();
        for slot in self.settled().slots() {
            let read = |state: &PoolState<D>, record, detail: &Detail| {
                let offset = slot.records.get(record)?.offset();
                let (name, user_data) = (state.label(record).name.clone(), state.label(record).user_data);
                let place = (state.shards.index(detail.home), detail.set, detail.block, offset);
                Some((place, Owner { kind: detail.kind(), name, user_data }))
            };
            slot.each_live(read, |(place, owner)| _ = owners.insert(place, owner));
        }
        owners
    }

    fn dump_custom_pools(
        &self,
        pools: &mut Object<'_, String>,
        owners: &Owners,
        memory_type: MemoryTypeIndex,
    ) -> fmt::Result {
        let flavor = self.flavor();
        let mut shown: Vec<(String, u64, Vec<Drawn>)> = Vec::new();
        for (_, slot) in self.settled().custom_slots() {
            let Some(Description { first, sizing, name, memory_types }) = slot.describe() else { continue };
            let sets = (0..).zip(memory_types).filter(|(_, of)| *of == memory_type);
            let sets: Vec<usize> = sets.map(|(set, _)| set).collect();
            if sets.is_empty() {
                continue;
            }
            // The index of shard 0 stays that of the pool. The others are anywhere among those of other pools.
            let number = first - self.pools.default_pool_count();
            let size = match sizing {
                BlockSize::Fixed(size) => size,
                BlockSize::Growing(sizes) => sizes.largest,
            };
            let blocks = Seen::blocks_of(slot);
            let blocks = blocks.iter().filter(|seen| sets.contains(&seen.place.0));
            let drawn = blocks.map(|seen| seen.draw(slot, owners, flavor));
            // Viewers identify a pool by its name, so pools of the same name are numbered, and all shards of a pool are shown
            // as one.
            let name = format!("{number}{}", name.map(|name| format!(" - {name}")).unwrap_or_default());
            match shown.iter_mut().find(|(other, ..)| *other == name) {
                Some((_, _, shown)) => shown.extend(drawn),
                None => shown.push((name, size, drawn.collect())),
            }
        }
        if shown.is_empty() {
            return Ok(());
        }
        pools.array(&schema::type_key(memory_type), |array| {
            shown.iter().try_for_each(|(name, block_size, drawn)| {
                array.object(|o| {
                    o.text("Name", name)?;
                    write_pool(o, *block_size, drawn)
                })
            })
        })
    }
}

/// An allocation, as far as it is shown.
struct Owner {
    kind: ResourceKind,
    name: Option<Name>,
    user_data: u64,
}

/// The allocations by place: the index of the pool, the block set, the block, and the offset.
type Owners = HashMap<(u32, u8, u32, u64), Owner>;

/// A memory object as JSON.
enum Drawn {
    /// The members of a block.
    Block(String),
    /// The members of a dedicated allocation.
    Dedicated(String),
}

/// What a block is, but for its regions.
struct Seen {
    /// The index of the pool.
    pool: u32,
    /// The block set, the block, and its memory object.
    place: (usize, u32, u32),
    size: u64,
    shared: bool,
    mapped: bool,
    statistics: RangeStatistics,
}

impl Seen {
    /// All memory objects of a pool.
    fn blocks_of<D: Device>(slot: &PoolSlot<D>) -> Vec<Self> {
        let mut seen = Vec::new();
        let read = |state: &PoolState<D>, set: usize, index, block: &Block<D>| Self {
            pool: state.shards.index(state.shard as u8),
            place: (set, index, block.object()),
            size: block.memory.size(),
            shared: block.role == Role::Shared,
            mapped: block.address().is_some(),
            statistics: block.ranges.statistics(),
        };
        slot.each_block(read, |block| seen.push(block));
        seen
    }

    fn draw<D: Device>(&self, slot: &PoolSlot<D>, owners: &Owners, flavor: Flavor) -> Drawn {
        let (set, index, _) = self.place;
        let describe = |offset: u64, o: &mut Object<'_, String>| {
            let owner = owners.get(&(self.pool, set as u8, index, offset));
            let kind = owner.map_or(ResourceKind::Unknown, |owner| owner.kind);
            let name = owner.and_then(|owner| owner.name.as_ref());
            // The memory layer does not know the API's usage flags.
            flavor.resource(o, kind, 0, name, owner.map_or(0, |owner| owner.user_data))
        };
        let mut regions: Vec<SeenRegion> = Vec::new();
        slot.each_region(self.place, |region| {
            // What was seen from there on is seen once more.
            while regions.last().is_some_and(|last| last.end() > region.offset) {
                regions.pop();
            }
            regions.push(region);
        });
        let mut text = String::new();
        if !self.shared && self.statistics.allocation_count != 0 {
            let used = regions.iter().find(|region| region.kind == SeenKind::Used);
            // Writing to a `String` never fails.
            let _ = json::object(&mut text, |o| {
                o.number("Size", self.size)?;
                used.map_or(Ok(()), |region| describe(region.offset, o))
            });
            return Drawn::Dedicated(text);
        }
        let _ = json::object(&mut text, |o| self.write_block(o, &regions, describe));
        Drawn::Block(text)
    }

    /// Writes a block. [`VirtualBlock::write_json_members`](allotment_suballoc::VirtualBlock::write_json_members) would
    /// write padding as a type of its own, which the viewers do not know.
    fn write_block(
        &self,
        o: &mut Object<'_, String>,
        regions: &[SeenRegion],
        describe: impl Fn(u64, &mut Object<'_, String>) -> fmt::Result,
    ) -> fmt::Result {
        schema::block(o, u64::from(self.mapped), &self.statistics, |array| {
            regions.iter().try_for_each(|&SeenRegion { offset, size, kind }| {
                schema::range(array, offset, size, |o| match kind {
                    SeenKind::Used => describe(offset, o),
                    SeenKind::Padding => schema::padding(o),
                    SeenKind::Free => schema::free(o),
                })
            })
        })
    }
}

fn write_pool(o: &mut Object<'_, String>, block_size: u64, drawn: &[Drawn]) -> fmt::Result {
    let blocks = |blocks: &mut Object<'_, String>| {
        let shared = drawn.iter().filter_map(|drawn| match drawn {
            Drawn::Block(text) => Some(text),
            Drawn::Dedicated(_) => None,
        });
        shared.enumerate().try_for_each(|(i, text)| blocks.raw(&i.to_string(), text))
    };
    schema::pool(o, block_size, blocks, |array| {
        drawn.iter().try_for_each(|drawn| match drawn {
            Drawn::Dedicated(text) => array.raw(text),
            Drawn::Block(_) => Ok(()),
        })
    })
}
