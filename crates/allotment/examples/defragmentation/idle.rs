//! How much of the blocks is idle, and how much of them must be.
//!
//! What moves, what is pinned, and what is in another pool or memory type have blocks of their own. Each such group has
//! a last block that is not full, however well the others are filled: that much is idle with the least blocks, too.

use allotment::device::{DescriptorDevice, MemoryTypeIndex};
use allotment::prelude::*;

use crate::common::Outcome;

/// The largest part of the blocks that may be idle at any time and on average, with defragmentation. It is 4 to 5 % on
/// average, 9 to 10 % at most, and would be about 1 % with the least blocks.
const MOST_IDLE: f64 = 0.13;
const MOST_IDLE_ON_AVERAGE: f64 = 0.065;

/// Things that share blocks, and the bytes that they take at least.
pub(crate) struct Group {
    pub(crate) pool: &'static str,
    pub(crate) memory_type: MemoryTypeIndex,
    pub(crate) moves: bool,
    pub(crate) live: u64,
    /// Bytes of a block.
    pub(crate) block: u64,
}

/// What was measured after each frame.
#[derive(Default)]
pub(crate) struct Idle {
    /// The part of the blocks in which nothing lives, and what it would be with the least blocks.
    shares: Vec<f64>,
    least: Vec<f64>,
    /// The free part of the blocks: without what has gone or moved, and that the GPU may use still.
    free: Vec<f64>,
    /// The pinned part of the live bytes.
    pinned: Vec<f64>,
    pub(crate) most_blocks: usize,
}

impl Idle {
    pub(crate) fn measure<D: DescriptorDevice>(&mut self, gpu: &Gpu<D>, groups: &[Group]) {
        // Lists have dedicated memory, and what is read back has a memory type of its own on most devices.
        let has_things = |memory_type| groups.iter().any(|group| group.memory_type == memory_type);
        let blocks = gpu.allocator().reports().blocks();
        let mut blocks: Vec<_> = blocks.iter().filter(|block| !block.dedicated).collect();
        blocks.retain(|block| has_things(block.memory_type));
        let readback = gpu.allocator().explain(&Requirements::new(256), &MemoryUsage::Readback.into());
        let is_beside = readback.first().is_some_and(|found| has_things(found.memory_type));
        let read_back = if is_beside { gpu.reads().statistics().bytes } else { 0 };
        let live: u64 = groups.iter().map(|group| group.live).sum::<u64>() + read_back;
        let pinned: u64 = groups.iter().filter(|group| !group.moves).map(|group| group.live).sum();
        let least: u64 = groups.iter().map(|group| group.live.next_multiple_of(group.block)).sum();
        let all: u64 = blocks.iter().map(|block| block.ranges.size).sum();
        self.most_blocks = self.most_blocks.max(blocks.len());
        self.free.push(blocks.iter().map(|block| block.ranges.free).sum::<u64>() as f64 / all as f64);
        self.shares.push(1.0 - live as f64 / all as f64);
        self.least.push(1.0 - live as f64 / least as f64);
        self.pinned.push(pinned as f64 / live as f64);
    }

    /// The frames in which it was measured.
    pub(crate) fn frames(&self) -> usize {
        self.shares.len()
    }

    pub(crate) fn at_the_end(&self) -> f64 {
        self.shares.last().copied().unwrap_or_default()
    }

    pub(crate) fn on_average(&self) -> f64 {
        average(&self.shares)
    }

    pub(crate) fn at_most(&self) -> f64 {
        self.shares.iter().copied().fold(0.0, f64::max)
    }

    pub(crate) fn with_least_blocks(&self) -> f64 {
        average(&self.least)
    }

    pub(crate) fn free(&self) -> f64 {
        average(&self.free)
    }

    pub(crate) fn pinned(&self) -> f64 {
        average(&self.pinned)
    }

    /// Refuses what a town with defragmentation must not have.
    pub(crate) fn check(&self) -> Outcome {
        let (average, most) = (self.on_average(), self.at_most());
        if average > MOST_IDLE_ON_AVERAGE || most > MOST_IDLE {
            let what =
                format!("{} of the memory was idle on average, {} at most", percent(average), percent(most));
            return Err(what.into());
        }
        Ok(())
    }
}

fn average(shares: &[f64]) -> f64 {
    shares.iter().sum::<f64>() / shares.len() as f64
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
