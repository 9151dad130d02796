//! The blocks at a moment, as the library's planner takes them.

use std::collections::{HashMap, HashSet};

use allotment::device::{MemoryProperties, MemoryTypeIndex, ResourceKind};
use allotment::memory::Movability;
use allotment::memory::defragmentation::layout::{BlockLayout, LayoutAllocation, LayoutArena, LayoutBlock};
use allotment::{Algorithm, Alignment};
use allotment_trace::recording::{BlockKind, Event, Live, PoolId, Recording};

use super::preview::PreviewOptions;
use crate::cursor::Cursor;
use crate::scope::Scope;
use crate::segments::Placed;
use crate::timeline::{BlockIndex, PoolIndex, Timeline};

/// More bytes than a layout may have: an alignment cannot take a larger size beyond 64 bits.
const IMPOSSIBLE: u64 = 1 << 61;

/// The layout of some blocks, with what each of its entries is in the recording.
pub(super) struct Described {
    pub(super) layout: BlockLayout,
    pub(super) blocks: Vec<BlockIndex>,
    /// The allocations of each block, by offset. The layout has them in the same order, one block after the other.
    pub(super) placed: Vec<Vec<Placed>>,
    /// Allocations that the recording says can be moved.
    pub(super) movable: u64,
}

/// Blocks among which allocations move: the copies of a pool count as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ArenaKey {
    pool: Option<PoolId>,
    memory_type: MemoryTypeIndex,
    /// The pool keeps movable allocations apart, and these are theirs.
    of_movable: bool,
}

/// What the recording says of a pool.
#[derive(Clone, Copy, Debug)]
struct PoolFacts {
    id: Option<PoolId>,
    algorithm: Algorithm,
    least_blocks: u32,
    first_type: Option<MemoryTypeIndex>,
    separate_movable: bool,
    /// Optimal images take whole pages.
    in_pages: bool,
}

impl Described {
    pub(super) fn of(cursor: &Cursor<'_, '_>, scope: Scope, options: PreviewOptions) -> Self {
        let timeline = cursor.timeline();
        let mut pools: HashMap<Option<PoolIndex>, PoolFacts> = HashMap::new();
        let mut arenas: HashMap<ArenaKey, u32> = HashMap::new();
        let mut counted: HashSet<Option<PoolIndex>> = HashSet::new();
        let blocks: Vec<BlockIndex> = scope.blocks(cursor).collect();
        let mut described = Self { layout: BlockLayout::default(), blocks, placed: Vec::new(), movable: 0 };
        for (number, &block) in (0..).zip(&described.blocks) {
            let info = timeline.block_info(block);
            let facts = *pools.entry(info.pool).or_insert_with(|| PoolFacts::of(timeline, info.pool));
            let placed = cursor.placed(block);
            let overlaps = overlapping(&placed);
            let mut any_movable = false;
            for (one, shares) in placed.iter().zip(overlaps) {
                let live = timeline.allocation_at(one.allocation, cursor.position());
                let is_movable = live.as_ref().is_some_and(can_move) && !shares;
                any_movable |= is_movable;
                described.movable += u64::from(is_movable);
                // A reservation is a part of a move, and what shares bytes would have to move together.
                let as_if = options.all_movable && !shares && live.as_ref().is_some_and(|is| !is.reservation);
                let elsewhere = live.map_or(one.occupied, |live| {
                    facts
                        .multiple(timeline.recording(), info.memory_type, &live)
                        .align_up(one.requested.min(IMPOSSIBLE))
                });
                described.layout.allocations.push(LayoutAllocation {
                    block: number,
                    offset: one.offset,
                    occupied: one.occupied,
                    size: elsewhere,
                    alignment: one.alignment,
                    movability: if is_movable || as_if { Movability::Copied } else { Movability::Pinned },
                });
            }
            let of_movable = facts.separate_movable && any_movable;
            let key = ArenaKey { pool: facts.id, memory_type: info.memory_type, of_movable };
            let list = &mut described.layout.arenas;
            let arena = *arenas.entry(key).or_insert_with(|| {
                list.push(LayoutArena { algorithm: facts.algorithm, least_blocks: 0 });
                list.len() as u32 - 1
            });
            // The minimum is of the pool's first memory type.
            let is_first = facts.first_type.is_none_or(|first| first == info.memory_type);
            if is_first && counted.insert(info.pool) {
                let least = &mut list[arena as usize].least_blocks;
                *least = least.saturating_add(facts.least_blocks);
            }
            let shared = timeline.block_kind_at(block, cursor.position()) == BlockKind::Shared;
            let size = timeline.block_size_at(block, cursor.position());
            described.layout.blocks.push(LayoutBlock { arena, size, shared });
            described.placed.push(placed);
        }
        described
    }
}

impl PoolFacts {
    fn of(timeline: &Timeline<'_>, pool: Option<PoolIndex>) -> Self {
        let mut facts = Self {
            id: None,
            algorithm: Algorithm::Tlsf,
            least_blocks: 0,
            first_type: None,
            separate_movable: false,
            in_pages: true,
        };
        let Some((id, is)) = pool.and_then(|pool| timeline.pool_info(pool)) else { return facts };
        // Of other libraries it is not known; nearly all of them use a form of TLSF.
        (facts.id, facts.algorithm) = (Some(id), is.algorithm.unwrap_or(Algorithm::Tlsf));
        for event in &is.description {
            match *event {
                Event::PoolServes { first, first_type, optimal_images, .. } => {
                    (facts.id, facts.first_type) = (Some(first), Some(first_type));
                    // Where images have pools of their own, no page has both kinds.
                    facts.in_pages &= !optimal_images;
                }
                Event::PoolSized { min_blocks, .. } => facts.least_blocks = min_blocks,
                Event::PoolRules { separate_movable, ignores_granularity, .. } => {
                    facts.separate_movable = separate_movable;
                    facts.in_pages &= !ignores_granularity;
                }
                _ => {}
            }
        }
        facts
    }

    /// Returns what the size of an allocation is a multiple of, in a block that it shares.
    fn multiple(&self, recording: &Recording, memory_type: MemoryTypeIndex, live: &Live) -> Alignment {
        let alignment = |bytes| Alignment::new(bytes).unwrap_or(Alignment::ONE);
        let page = if self.in_pages && live.is.kind == ResourceKind::OptimalImage {
            alignment(recording.header.buffer_image_granularity)
        } else {
            Alignment::ONE
        };
        let known = recording.header.memory_types.get(memory_type.get());
        let properties = known.map_or(0, |known| known.properties);
        let needs_flush = MemoryProperties::from_bits_truncate(properties).needs_flush();
        let atom =
            if needs_flush { alignment(recording.header.non_coherent_atom_size) } else { Alignment::ONE };
        page.max(atom)
    }
}

/// Returns true if the library would move an allocation: a mapped one has a pointer to it outside.
fn can_move(live: &Live) -> bool {
    live.is.movable && live.maps == 0 && !live.reservation
}

/// Returns which allocations share bytes with another. They are in the order of their offsets.
fn overlapping(placed: &[Placed]) -> Vec<bool> {
    let mut overlaps = vec![false; placed.len()];
    let mut furthest: Option<(u64, usize)> = None;
    for (index, one) in placed.iter().enumerate() {
        if let Some((end, before)) = furthest.filter(|&(end, _)| end > one.offset) {
            (overlaps[index], overlaps[before]) = (true, true);
            furthest = Some(if one.end() > end { (one.end(), index) } else { (end, before) });
        } else {
            furthest = Some((one.end(), index));
        }
    }
    overlaps
}
