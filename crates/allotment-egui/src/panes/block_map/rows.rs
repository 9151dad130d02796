//! The rows of the map: blocks below the headings of their groups.

use core::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use allotment_analyze::BlockIndex;

use super::{HEADING, ROW};
use crate::state::State;
use crate::text;

/// The blocks of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Grouped {
    #[default]
    Heap,
    MemoryType,
    Pool,
    /// In the order in which they were allocated.
    Age,
    /// Most free bytes first.
    Waste,
    /// The largest first.
    Size,
}

impl Grouped {
    pub(crate) const ALL: [Self; 6] =
        [Self::Heap, Self::MemoryType, Self::Pool, Self::Age, Self::Waste, Self::Size];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::MemoryType => "memory type",
            Self::Pool => "pool",
            Self::Age => "age",
            Self::Waste => "most free",
            Self::Size => "largest",
        }
    }
}

/// A row.
#[derive(Clone, Debug)]
pub(crate) enum Row {
    Heading { text: String, sum: String },
    Block { block: BlockIndex, size: u64 },
}

impl Row {
    pub(crate) fn height(&self, stretch: f32) -> f32 {
        match self {
            Self::Heading { .. } => HEADING,
            Self::Block { .. } => ROW * stretch,
        }
    }
}

/// The rows of a moment.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// The moment, the order, and whether all was known that the order needs.
    of: Option<(u64, Grouped, bool)>,
    pub(crate) all: Vec<Row>,
    /// Bytes of the largest block.
    pub(crate) largest: u64,
    /// The number of headings and of blocks above each block, and its size.
    places: HashMap<BlockIndex, (u32, u32, u64)>,
}

impl Rows {
    /// Makes the rows of the moment, where they are those of another.
    pub(crate) fn update(&mut self, state: &State, grouped: Grouped) {
        // Blocks are looked at in slices, and until all were, those that were not are below.
        let of =
            Some((state.moment.version, grouped, grouped != Grouped::Waste || state.moment.is_complete()));
        if self.of == of {
            return;
        }
        self.of = of;
        let (timeline, position) = (state.loaded.timeline(), state.position());
        // Groups in the order of their numbers; a group of blocks without a number is the last.
        let mut groups: BTreeMap<u64, (String, Vec<(BlockIndex, u64)>)> = BTreeMap::new();
        for &block in &state.moment.blocks {
            let info = timeline.block_info(block);
            let key = match grouped {
                Grouped::Heap => timeline.heap_of(info.memory_type).map_or(u64::MAX, u64::from),
                Grouped::MemoryType => info.memory_type.get() as u64,
                Grouped::Pool => info.pool.map_or(u64::MAX, |pool| u64::from(pool.0)),
                Grouped::Age | Grouped::Waste | Grouped::Size => 0,
            };
            let group = groups.entry(key).or_insert_with(|| {
                let text = match grouped {
                    Grouped::Heap => timeline
                        .heap_of(info.memory_type)
                        .map_or("heap not known".to_owned(), |heap| text::heap(&state.loaded, heap)),
                    Grouped::MemoryType => text::memory_type(&state.loaded, info.memory_type),
                    Grouped::Pool => {
                        let memory_type = text::memory_type(&state.loaded, info.memory_type);
                        format!("{}, {memory_type}", text::pool(&state.loaded, block))
                    }
                    Grouped::Age => "all blocks, the oldest first".to_owned(),
                    Grouped::Waste => "all blocks, the most free bytes first".to_owned(),
                    Grouped::Size => "all blocks, the largest first".to_owned(),
                };
                (text::sentence(&text), Vec::new())
            });
            group.1.push((block, timeline.block_size_at(block, position)));
        }
        (self.largest, self.all, self.places) = (0, Vec::new(), HashMap::new());
        let (mut headings, mut blocks) = (0, 0);
        for (text, mut members) in groups.into_values() {
            // Stable sorts: of equal ones the older first.
            match grouped {
                Grouped::Waste => {
                    let free = |block| state.moment.known(block).map_or(0, |known| known.bytes.free);
                    members.sort_by_cached_key(|&(block, _)| Reverse(free(block)));
                }
                Grouped::Size => members.sort_by_key(|&(_, size)| Reverse(size)),
                _ => {}
            }
            let bytes = members.iter().fold(0u64, |sum, &(_, size)| sum.saturating_add(size));
            let sum = format!("{} in {}", text::bytes(bytes), text::plural(members.len() as u64, "block"));
            self.all.push(Row::Heading { text, sum });
            headings += 1;
            for (block, size) in members {
                self.largest = self.largest.max(size);
                self.places.insert(block, (headings, blocks, size));
                self.all.push(Row::Block { block, size });
                blocks += 1;
            }
        }
    }

    /// The height of all rows.
    pub(crate) fn height(&self, stretch: f32) -> f32 {
        self.all.iter().map(|row| row.height(stretch)).sum()
    }

    /// The top of a block's row below the top of the first row.
    pub(crate) fn y_of(&self, block: BlockIndex, stretch: f32) -> Option<f32> {
        let &(headings, blocks, _) = self.places.get(&block)?;
        Some(headings as f32 * HEADING + blocks as f32 * ROW * stretch)
    }

    pub(crate) fn size_of(&self, block: BlockIndex) -> u64 {
        self.places.get(&block).map_or(0, |&(_, _, size)| size)
    }

    /// The block whose row is at a height.
    pub(crate) fn block_at(&self, y: f32, stretch: f32) -> Option<(BlockIndex, u64)> {
        let mut top = 0.0;
        for row in &self.all {
            let bottom = top + row.height(stretch);
            if y < bottom {
                return match *row {
                    Row::Block { block, size } if y >= top => Some((block, size)),
                    _ => None,
                };
            }
            top = bottom;
        }
        None
    }
}
