//! Writes the whole state as JSON, in the schema that VMA and D3D12MA share (GpuMemDump), for the existing viewers. The
//! members of the schema are in `dump_schema`.
//!
//! The schema knows two APIs. A dump of a simulated GPU says Vulkan, since it has Vulkan's memory model; the field
//! `GPU` has the simulated GPU's own name.

use core::fmt;
use std::collections::HashMap;

use allotment_suballoc::json::{self, Object};
use allotment_suballoc::{Region, RegionKind};

use crate::device::{Api, Device, MemoryHeapIndex, MemoryTypeIndex, ResourceKind};
use crate::memory::Name;
use crate::memory::allocator::Allocator;
use crate::memory::block_set::{Block, Role};
use crate::memory::pool::{BlockSize, PoolState};
use crate::memory::reports::dump_schema::{self as schema, Flavor};
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
    #[doc(alias("vmaBuildStatsString", "BuildStatsString"))]
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
        let owners = &self.owners();
        let flavor = self.flavor();
        let limits = &properties.limits;
        let (granularity, atom) =
            (limits.buffer_image_granularity.get(), limits.non_coherent_atom_size.get());
        flavor.general(dump, &properties.name, granularity, atom, limits.max_allocation_count)?;
        let heaps = (0..).zip(&properties.heaps).map(|(index, heap)| {
            let report = self.heaps.report(MemoryHeapIndex(index));
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
                for slot in self.default_slots() {
                    let mut guard = locked(&slot.state);
                    let Some(state) = guard.as_mut().filter(|state| state.sets[0].memory_type == index)
                    else {
                        continue;
                    };
                    // Merges the ranges of the quick lists, which would show as allocations.
                    state.flush_quick_lists_and_say_so();
                    shown.extend(Drawn::of(state, 0, owners, flavor));
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
        for slot in self.slots() {
            let guard = locked(&slot.state);
            let Some(state) = guard.as_ref() else { continue };
            owners.extend(state.live().filter_map(|(record, detail)| {
                let offset = slot.records.get(record)?.offset();
                let (name, user_data) = (state.label(record).name.clone(), state.label(record).user_data);
                let place = (state.shards.index(detail.home), detail.set, detail.block, offset);
                Some((place, Owner { kind: detail.kind(), name, user_data }))
            }));
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
        for (index, slot) in self.custom_slots() {
            let mut guard = locked(&slot.state);
            let Some(state) = guard.as_mut() else { continue };
            state.flush_quick_lists_and_say_so();
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
                    Some((last, _, drawn)) if *last == name => {
                        drawn.extend(Drawn::of(state, set, owners, flavor));
                    }
                    _ => shown.push((name, size, Drawn::of(state, set, owners, flavor))),
                }
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

/// A memory object as JSON, written while its pool was locked.
enum Drawn {
    /// The members of a block.
    Block(String),
    /// The members of a dedicated allocation.
    Dedicated(String),
}

impl Drawn {
    /// All memory objects of one block set.
    fn of<D: Device>(state: &PoolState<D>, set: usize, owners: &Owners, flavor: Flavor) -> Vec<Self> {
        let pool = state.shards.index(state.shard as u8);
        let blocks = state.sets[set].blocks();
        let drawn = blocks.map(|(index, block)| {
            let owner = |offset| owners.get(&(pool, set as u8, index, offset));
            Self::of_block(block, owner, flavor)
        });
        drawn.collect()
    }

    fn of_block<'o, D: Device>(
        block: &Block<D>,
        owner: impl Fn(u64) -> Option<&'o Owner>,
        flavor: Flavor,
    ) -> Self {
        let describe = |offset: u64, o: &mut Object<'_, String>| {
            let owner = owner(offset);
            let kind = owner.map_or(ResourceKind::Unknown, |owner| owner.kind);
            let name = owner.and_then(|owner| owner.name.as_ref());
            // The memory layer does not know the API's usage flags.
            flavor.resource(o, kind, 0, name, owner.map_or(0, |owner| owner.user_data))
        };
        let mut text = String::new();
        if block.role != Role::Shared && !block.ranges.is_empty() {
            let used = block.ranges.regions().find_map(|region| match region.kind {
                RegionKind::Used { .. } => Some(region.offset),
                _ => None,
            });
            // Writing to a `String` never fails.
            let _ = json::object(&mut text, |o| {
                o.number("Size", block.memory.size())?;
                used.map_or(Ok(()), |offset| describe(offset, o))
            });
            return Self::Dedicated(text);
        }
        let _ = json::object(&mut text, |o| write_block(o, block, describe));
        Self::Block(text)
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

/// Writes a block. [`VirtualBlock::write_json_members`](allotment_suballoc::VirtualBlock::write_json_members) would
/// write padding as a type of its own, which the viewers do not know.
fn write_block<D: Device>(
    o: &mut Object<'_, String>,
    block: &Block<D>,
    describe: impl Fn(u64, &mut Object<'_, String>) -> fmt::Result,
) -> fmt::Result {
    let maps = u64::from(block.memory.address(0).is_some());
    schema::block(o, maps, &block.ranges.statistics(), |array| {
        block.ranges.regions().try_for_each(|Region { offset, size, kind }| {
            schema::range(array, offset, size, |o| match kind {
                RegionKind::Used { .. } => describe(offset, o),
                RegionKind::Padding => schema::padding(o),
                _ => schema::free(o),
            })
        })
    })
}
