//! Custom pools.

use allotment::device::MemoryTypeIndex;
use allotment::memory::DestroyPoolError;
use allotment::memory::blocks::BlockSize;
use allotment::{Algorithm, PoolDesc, Requirements};

use super::Player;
use crate::Stressed;
use crate::world::Marked;

impl<D: Stressed> Player<'_, D> {
    pub(super) fn create_pool(&mut self) {
        let types = self.world.device.properties().memory_types.len() as u64;
        let last = if self.input.once_in(32) { types } else { types - 1 };
        let first = MemoryTypeIndex(self.input.below(last + 1) as u8);
        let second = MemoryTypeIndex(self.input.below(last + 1) as u8);
        let mut desc = match self.input.below(8) {
            0 => PoolDesc::new([first, second]),
            1 => PoolDesc::new([]),
            _ => PoolDesc::new([first]),
        };
        desc.algorithm =
            self.input.pick(&[Algorithm::Tlsf, Algorithm::Tlsf, Algorithm::Buddy, Algorithm::Linear]);
        desc.sizing = match self.input.below(8) {
            0 => Some(BlockSize::Fixed(self.input.pick(&[0, 1, u64::MAX, 4096, 1 << 50]))),
            1..=5 => Some(BlockSize::Fixed(1 << (14 + self.input.below(5)))),
            _ => None,
        };
        desc.min_blocks = self.input.below(3) as u32;
        desc.max_blocks = self.input.pick(&[u32::MAX, 4, 1, 2]);
        desc.alignment = self.alignment();
        let made = if self.input.once_in(8) {
            let memory_options = D::memory_options(&mut self.input);
            self.world.allocator.with_memory_options(&memory_options).create_pool(desc)
        } else {
            self.world.allocator.create_pool(desc)
        };
        if let Some(pool) = self.done(made) {
            // A dropped pool lives as long as its allocator.
            drop(self.world.pools.put(pool));
        }
    }

    pub(super) fn some_pool(&mut self) -> Option<allotment::Pool> {
        let all = self.world.pools.all();
        let index = if all.is_empty() { return None } else { self.input.index(all.len()) };
        all.get(index).cloned()
    }

    pub(super) fn allocate_in_pool(&mut self) {
        let Some(pool) = self.some_pool() else { return };
        let size = self.small_size();
        let (requirements, options) = (Requirements::new(size), self.options().with_pool(&pool));
        if self.input.once_in(32)
            && let Ok(token) = self.world.other.allocate(&requirements, &options)
        {
            self.tally.find("a pool of another allocator was allocated from".to_owned());
            drop(self.world.other.free(token));
        }
        if let Some(token) = self.done(self.world.allocator.allocate(&requirements, &options)) {
            self.keep_token(Marked::new(token));
        }
    }

    pub(super) fn reset_pool(&mut self) {
        // All allocations of the pool become stale, wherever they are.
        if let Some(pool) = self.some_pool() {
            self.done(self.world.allocator.reset_pool(&pool));
        }
    }

    pub(super) fn destroy_pool(&mut self) {
        let Some(pool) = self.world.pools.take(&mut self.input) else { return };
        match self.world.allocator.destroy_pool(pool) {
            Ok(()) => self.tally.made(self.call),
            // Other threads and options have clones, and others may have allocated from it.
            Err(DestroyPoolError::InUse { pool, .. } | DestroyPoolError::Cloned { pool, .. }) => {
                self.tally.refused(self.call, &"InUse");
                drop(self.world.pools.put(pool));
            }
            Err(error) => self.tally.find(format!("a pool was not destroyed: {error:?}")),
        }
    }
}
