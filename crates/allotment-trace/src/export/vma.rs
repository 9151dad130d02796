//! The JSON dump of VMA and D3D12MA: every block at one moment.
//!
//! Its members are those of the allocator's own dump (`dump_schema`). A block is a list of ranges that cover it:
//!
//! ```text
//!  the state    [ mesh: 1000 of 1024 ][ free ][ a: 512 [ b, which aliases a: 512 ]    ]
//!  the dump     [ mesh 1000 ][padding][ FREE ][ "a | b", UNKNOWN                      ]
//! ```

use core::fmt;
use std::collections::BTreeMap;
use std::io;

use allotment::device::{MemoryProperties, MemoryTypeIndex, ResourceKind};
use allotment::memory::dump_schema::{self as schema, Flavor};
use allotment::memory::reports::DetailedStatistics;
use allotment_suballoc::json::Object;
use allotment_suballoc::{SizeRange, Statistics};

use super::Export;
use super::text::{Text, json};
use crate::recording::{Api, Block, BlockId, BlockKind, Live, PoolId, Recording, Span, State};
use crate::usage_flags;

/// The most names that are written of allocations that share bytes; the others are counted.
const NAMES: usize = 8;

pub(super) fn write(export: Export<'_>, out: &mut impl io::Write) -> io::Result<()> {
    let mut state = State::default();
    for event in export.events {
        // An event that contradicts those before it changes nothing.
        let _ = state.apply(event);
    }
    let flavor = match export.recording.header.api {
        Api::Direct3D12 => Flavor::Direct3D12,
        _ => Flavor::Vulkan,
    };
    let dump = Dump { recording: export.recording, state: &state, flavor };
    json(out, |o| dump.write(o))
}

struct Dump<'a> {
    recording: &'a Recording,
    state: &'a State,
    flavor: Flavor,
}

/// Blocks, by id once all are there.
type Blocks<'a> = Vec<(BlockId, &'a Block)>;

/// A range of a block, as a dump has it.
#[derive(Clone, Copy)]
struct Range<'s, 'a> {
    offset: u64,
    size: u64,
    what: What<'s, 'a>,
}

#[derive(Clone, Copy)]
enum What<'s, 'a> {
    Free,
    Padding,
    /// At least one. Several share bytes.
    Allocations(&'s [&'a Live]),
}

impl<'a> Dump<'a> {
    fn write<W: io::Write>(&self, dump: &mut Object<'_, Text<'_, W>>) -> fmt::Result {
        let header = &self.recording.header;
        let (granularity, atom) = (header.buffer_image_granularity, header.non_coherent_atom_size);
        let max = header.max_memory_objects;
        self.flavor.general(dump, &header.device, granularity.max(1), atom.max(1), max)?;

        let types = self.memory_types();
        let heap_count = types.iter().map(|of| of.heap + 1).max().unwrap_or(0).max(header.heaps.len());
        let heaps: Vec<_> = (0..heap_count).map(|heap| self.heap(heap, &types)).collect();
        schema::memory_info(dump, &heaps, &types)?;

        // By memory type; then, for the program's own pools, by pool.
        let mut default: BTreeMap<MemoryTypeIndex, Blocks<'a>> = BTreeMap::new();
        let mut custom: BTreeMap<MemoryTypeIndex, BTreeMap<PoolId, Blocks<'a>>> = BTreeMap::new();
        for (&id, block) in &self.state.blocks {
            let of_type = if self.state.pools.get(&block.pool).is_some_and(|pool| pool.custom) {
                custom.entry(block.memory_type).or_default().entry(block.pool).or_default()
            } else {
                default.entry(block.memory_type).or_default()
            };
            of_type.push((id, block));
        }
        default.values_mut().chain(custom.values_mut().flat_map(BTreeMap::values_mut)).for_each(|blocks| {
            blocks.sort_unstable_by_key(|(id, _)| *id);
        });

        dump.object("DefaultPools", |pools| {
            default.iter().try_for_each(|(&index, blocks)| {
                pools.object(&schema::type_key(index), |o| self.pool(o, blocks))
            })
        })?;
        dump.object("CustomPools", |types| {
            custom.iter().try_for_each(|(&index, pools)| {
                types.array(&schema::type_key(index), |array| {
                    pools.iter().try_for_each(|(&id, blocks)| {
                        array.object(|o| {
                            let name =
                                self.state.pools.get(&id).and_then(|pool| self.recording.text(pool.name));
                            // Viewers identify a pool by its name, so it begins with a number.
                            match name {
                                Some(name) => o.text("Name", format_args!("{} - {name}", id.0))?,
                                None => o.text("Name", id.0)?,
                            }
                            self.pool(o, blocks)
                        })
                    })
                })
            })
        })
    }

    /// Returns the memory types of the header, and those that blocks have beyond them.
    fn memory_types(&self) -> Vec<schema::MemoryType> {
        let header = &self.recording.header;
        let used = self.state.blocks.values().map(|block| block.memory_type.get() + 1).max().unwrap_or(0);
        let mut types: Vec<_> = (0..used.max(header.memory_types.len()))
            .map(|index| {
                let known = header.memory_types.get(index);
                schema::MemoryType {
                    heap: known.map_or(0, |of| of.heap.into()),
                    properties: MemoryProperties::from_bits_truncate(known.map_or(0, |of| of.properties)),
                    statistics: DetailedStatistics::default(),
                }
            })
            .collect();
        for block in self.state.blocks.values() {
            let sum = &mut types[block.memory_type.get()].statistics;
            if self.dedicated(block) {
                sum.brief.dedicated += 1;
            } else {
                sum.brief.blocks += 1;
            }
            sum.brief.block_bytes = sum.brief.block_bytes.saturating_add(block.size);
            sum.empty_blocks += u32::from(block.allocations.is_empty());
            let _ = self.ranges(block, |range| {
                match range.what {
                    What::Free => {
                        sum.free_ranges += 1;
                        sum.free_size = Some(SizeRange::including(sum.free_size, range.size));
                    }
                    What::Padding => {}
                    What::Allocations(_) => {
                        sum.brief.allocations += 1;
                        sum.brief.allocation_bytes = sum.brief.allocation_bytes.saturating_add(range.size);
                        sum.allocation_size = Some(SizeRange::including(sum.allocation_size, range.size));
                    }
                }
                Ok(())
            });
        }
        types
    }

    fn heap(&self, index: usize, types: &[schema::MemoryType]) -> schema::Heap {
        let known = self.recording.header.heaps.get(index);
        let size = known.map_or(0, |heap| heap.size);
        let sampled = u8::try_from(index).ok().and_then(|index| self.state.budgets.get(&index));
        let of_heap = types.iter().filter(|of| of.heap == index);
        let usage = of_heap.map(|of| of.statistics.brief.block_bytes).fold(0, u64::saturating_add);
        schema::Heap {
            device_local: known.is_some_and(|heap| heap.device_local),
            size,
            // Without a sample of the driver's budget, what is known: the size, and the bytes of the recording's blocks.
            budget: sampled.map_or(size, |sample| sample.budget),
            usage: sampled.map_or(usage, |sample| sample.usage),
        }
    }

    fn pool<W: io::Write>(
        &self,
        o: &mut Object<'_, Text<'_, W>>,
        blocks: &[(BlockId, &'a Block)],
    ) -> fmt::Result {
        let shared = || blocks.iter().filter(|(_, block)| !self.dedicated(block));
        // A recording does not say how large the next block is. The largest is the best guess.
        let block_size = shared().map(|(_, block)| block.size).max().unwrap_or(0);
        let write_blocks = |o: &mut Object<'_, Text<'_, W>>| {
            shared().try_for_each(|(id, block)| o.object(&id.0.to_string(), |o| self.block(o, block)))
        };
        schema::pool(o, block_size, write_blocks, |array| {
            blocks.iter().filter(|(_, block)| self.dedicated(block)).try_for_each(|(_, block)| {
                array.object(|o| {
                    // As in the allocator's dump: its memory object is all its own.
                    o.number("Size", block.size)?;
                    let keys = block.allocations.iter();
                    let live: Vec<_> = keys.filter_map(|(_, key)| self.state.allocations.get(key)).collect();
                    self.describe(o, &live)
                })
            })
        })
    }

    fn block<W: io::Write>(&self, o: &mut Object<'_, Text<'_, W>>, block: &'a Block) -> fmt::Result {
        let mut sums = Statistics { size: block.size, ..Statistics::default() };
        self.ranges(block, |range| {
            match range.what {
                What::Free => {
                    sums.free += range.size;
                    sums.free_range_count += 1;
                }
                What::Padding => {}
                What::Allocations(_) => sums.allocation_count += 1,
            }
            Ok(())
        })?;
        let keys = block.allocations.iter();
        let maps =
            keys.filter_map(|(_, key)| self.state.allocations.get(key)).map(|live| u64::from(live.maps));
        schema::block(o, maps.sum(), &sums, |ranges| {
            self.ranges(block, |range| {
                schema::range(ranges, range.offset, range.size, |o| match range.what {
                    What::Free => schema::free(o),
                    What::Padding => schema::padding(o),
                    What::Allocations(live) => self.describe(o, live),
                })
            })
        })
    }

    /// Calls `each` for the ranges of a block, by offset.
    fn ranges(&self, block: &'a Block, mut each: impl FnMut(Range<'_, 'a>) -> fmt::Result) -> fmt::Result {
        self.state.spans(block).try_for_each(|Span { offset, size, allocations }| {
            if allocations.is_empty() {
                return each(Range { offset, size, what: What::Free });
            }
            let used = match &*allocations {
                // An allocation of no bytes would be no range, so it gets those that it occupies.
                [live] if live.is.requested > 0 => live.is.requested.min(size),
                _ => size,
            };
            each(Range { offset, size: used, what: What::Allocations(&allocations) })?;
            if used == size {
                return Ok(());
            }
            each(Range { offset: offset + used, size: size - used, what: What::Padding })
        })
    }

    /// Writes what the allocations of a range are.
    fn describe<W: io::Write>(&self, o: &mut Object<'_, Text<'_, W>>, live: &[&Live]) -> fmt::Result {
        let name = |live: &Live| {
            if live.reservation { Some("reserved for a move") } else { self.recording.text(live.is.name) }
        };
        if let [one] = live {
            let (api, category) = (self.recording.header.api, self.recording.text(one.is.category));
            let usage = category.and_then(|category| usage_flags::from_text(api, one.is.kind, category));
            let usage = usage.unwrap_or(0);
            return self.flavor.resource(o, one.is.kind, usage, name(one), one.is.user_data);
        }
        let mut names: Vec<_> = live.iter().take(NAMES).map(|live| name(live).unwrap_or("unnamed")).collect();
        let more = format!("{} more", live.len().saturating_sub(NAMES));
        if live.len() > NAMES {
            names.push(&more);
        }
        let mut kinds = live.iter().map(|live| live.is.kind);
        let first = kinds.next().unwrap_or(ResourceKind::Unknown);
        let kind = if kinds.all(|kind| kind == first) { first } else { ResourceKind::Unknown };
        self.flavor.resource(o, kind, 0, Some(names.join(" | ")), 0)
    }

    /// Returns true where the schema has a block as one allocation. A cached block without one is a block.
    fn dedicated(&self, block: &Block) -> bool {
        let mut keys = block.allocations.iter().filter_map(|(_, key)| self.state.allocations.get(key));
        let occupies = keys.next().is_some_and(|live| live.is.occupied > 0);
        block.kind != BlockKind::Shared && occupies && keys.next().is_none()
    }
}
