//! What pools are called, so that no two are called the same.

use std::collections::HashMap;

use allotment::device::MemoryProperties;
use allotment_trace::recording::Event;

use super::{PoolIndex, Timeline};
use crate::units::bytes;

/// What the blocks of a pool have in common.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    smallest: u64,
    largest: u64,
    /// `None` where they are of several.
    memory_type: Option<u8>,
}

impl Timeline<'_> {
    /// Returns what a pool is called: its name, with its number where several have that name; of one without a name, its
    /// number, and what its blocks are: `pool 3 (256 MiB blocks, device-local)`. The same in all views.
    #[must_use]
    pub fn pool_label(&self, pool: PoolIndex) -> &str {
        let labels = self.pool_labels.get_or_init(|| self.make_pool_labels());
        labels.get(pool.0 as usize).map_or("", |label| label)
    }

    fn make_pool_labels(&self) -> Box<[String]> {
        let known = |pool: &PoolIndex| {
            let &Event::PoolCreated { pool, name, custom, .. } =
                self.event(self.pools[pool.0 as usize].created)
            else {
                return (0, "", false);
            };
            (pool.0, self.recording().text(name).unwrap_or(""), custom)
        };
        let mut with_name: HashMap<&str, u32> = HashMap::new();
        let pools: Vec<_> = self.pools().map(|pool| known(&pool)).collect();
        for (_, name, _) in &pools {
            *with_name.entry(name).or_default() += 1;
        }
        let blocks = self.blocks_of_pools();
        let label = |(index, &(id, name, custom)): (usize, &(_, &str, bool))| match name {
            "" if custom => format!("pool {id}{}", self.in_words(blocks.get(&(index as u32)))),
            "" => format!("default pool {id}"),
            name if with_name[name] > 1 => format!("{name} (pool {id})"),
            name => name.to_owned(),
        };
        pools.iter().enumerate().map(label).collect()
    }

    fn blocks_of_pools(&self) -> HashMap<u32, Blocks> {
        let mut all: HashMap<u32, Blocks> = HashMap::new();
        for block in self.blocks() {
            let info = self.block_info(block);
            let (Some(pool), memory_type) = (info.pool, info.memory_type.get() as u8) else { continue };
            let size = self.block_size_at(block, info.allocated + 1);
            let known = Blocks { smallest: size, largest: size, memory_type: Some(memory_type) };
            let blocks = all.entry(pool.0).or_insert(known);
            (blocks.smallest, blocks.largest) = (blocks.smallest.min(size), blocks.largest.max(size));
            blocks.memory_type = blocks.memory_type.filter(|&is| is == memory_type);
        }
        all
    }

    fn in_words(&self, blocks: Option<&Blocks>) -> String {
        let Some(&Blocks { smallest, largest, memory_type }) = blocks else { return String::new() };
        let sizes = if smallest == largest {
            format!("{} blocks", bytes(largest))
        } else {
            format!("blocks of {} to {}", bytes(smallest), bytes(largest))
        };
        let types = &self.recording().header.memory_types;
        let memory = match memory_type.map(|index| (index, types.get(usize::from(index)))) {
            Some((_, Some(known))) => {
                let is = MemoryProperties::from_bits_truncate(known.properties);
                let device_local = is.contains(MemoryProperties::DEVICE_LOCAL);
                if device_local { "device-local".to_owned() } else { "host".to_owned() }
            }
            Some((index, None)) => format!("memory type {index}"),
            None => "several memory types".to_owned(),
        };
        format!(" ({sizes}, {memory})")
    }
}

#[cfg(test)]
mod tests {
    use allotment::device::MemoryTypeIndex;
    use allotment_trace::recording::{BlockId, BlockKind, MemoryType, PoolId, Recording, TextId};

    use super::*;

    #[test]
    fn pools_of_one_name_have_their_numbers_and_those_without_a_name_are_told_by_their_blocks() {
        let mut recording = Recording { texts: vec!["textures".to_owned()], ..Recording::default() };
        let bits = MemoryProperties::DEVICE_LOCAL.bits();
        recording.header.memory_types = vec![MemoryType { heap: 0, properties: bits }];
        let pools = [(0, 1, true), (1, 1, true), (2, 0, true), (3, 0, true), (4, 0, true), (5, 0, false)];
        for (pool, name, custom) in pools {
            let (pool, name, algorithm) = (PoolId(pool), TextId(name), None);
            recording.events.push(Event::PoolCreated { pool, name, algorithm, custom });
        }
        for (block, pool, memory_type, size) in
            [(0, 2, 0, 256 << 20), (1, 2, 0, 256 << 20), (2, 3, 7, 1 << 20), (3, 3, 7, 2 << 20)]
        {
            let (block, pool, kind) = (BlockId(block), PoolId(pool), BlockKind::Shared);
            let memory_type = MemoryTypeIndex(memory_type);
            recording.events.push(Event::BlockAllocated { block, pool, memory_type, kind, size });
        }
        let timeline = Timeline::new(&recording);
        let labels: Vec<_> = timeline.pools().map(|pool| timeline.pool_label(pool)).collect();
        assert_eq!(
            labels,
            [
                "textures (pool 0)",
                "textures (pool 1)",
                "pool 2 (256 MiB blocks, device-local)",
                "pool 3 (blocks of 1.00 MiB to 2.00 MiB, memory type 7)",
                "pool 4",
                "default pool 5",
            ]
        );
    }
}
