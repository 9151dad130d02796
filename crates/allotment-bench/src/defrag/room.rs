//! Requests that find no room in a pool that is nearly full: how many get it by moves, and how much is copied for them.

use core::time::Duration;

use allotment::device::MemoryTypeIndex;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::memory::Movability;
use allotment::memory::blocks::{BlockSize, EmptyBlockPolicy};
use allotment::memory::defragmentation::{
    DefragmentationDesc, NextPass, PassLimits, RequestDefragmentation, RoomError,
};
use allotment::{Allocation, Allocator, AllocatorDesc, MemoryUsage, PoolDesc, Requirements};
use serde::Serialize;

use super::ours::refused;
use super::times::{micros, quantile};
use crate::clock::thread_cpu_time;
use crate::failure::Failure;
use crate::rng::Rng;
use crate::units::bytes;

/// Bytes of a block: some 3,000 allocations.
const BLOCK: u64 = 4 << 20;

/// Requests that are served before those that count.
const WARM_UP: u32 = 4000;

const OCCUPANCIES: [u64; 3] = [85, 95, 99];

const BLOCKS: [u32; 2] = [1, 4];

/// The results for an occupancy.
#[derive(Serialize)]
pub(super) struct RoomRow {
    /// Percent of the pool that are allocated with a request.
    pub(super) occupancy: u64,
    pub(super) blocks: u32,
    pub(super) requests: u32,
    /// Requests that no free range could serve.
    pub(super) without_room: u32,
    /// Of those: served after moves.
    pub(super) served: u32,
    /// Bytes that they asked for, and that were copied for them.
    pub(super) asked_bytes: u64,
    pub(super) copied_bytes: u64,
    pub(super) moves: u64,
    pub(super) passes: u64,
    /// Processor time of a request that was served by moves, without the copies.
    pub(super) median_us: f64,
    pub(super) longest_us: f64,
}

pub(super) fn rows(requests: u32) -> Result<Vec<RoomRow>, Failure> {
    let cases = OCCUPANCIES.iter().flat_map(|&occupancy| BLOCKS.map(|blocks| (occupancy, blocks)));
    cases.map(|(occupancy, blocks)| row(occupancy, blocks, requests)).collect()
}

/// Random traffic: nine of ten requests are small, the others up to an eighth of the pool. Before each, random
/// allocations are freed until the pool is as full as it may be with the request.
fn row(occupancy: u64, blocks: u32, requests: u32) -> Result<RoomRow, Failure> {
    let Some(profile) = Profile::named("discrete-large-bar") else { unreachable!("a built-in profile") };
    let allocator = Allocator::new(SimulatedGpu::new(profile), AllocatorDesc::default()).map_err(refused)?;
    let mut desc = PoolDesc::new([MemoryTypeIndex(0)]);
    (desc.sizing, desc.max_blocks) = (Some(BlockSize::Fixed(BLOCK)), blocks);
    desc.empty_blocks = EmptyBlockPolicy::NONE;
    let pool = allocator.create_pool(desc).map_err(refused)?;
    let options = MemoryUsage::GpuOnly.with_pool(&pool).with_movability(Movability::Copied);
    let capacity = BLOCK * u64::from(blocks);
    let (mut rng, mut live, mut used) = (Rng::new(occupancy), Vec::<(Allocation, u64)>::new(), 0);
    let mut row = RoomRow {
        occupancy,
        blocks,
        requests,
        without_room: 0,
        served: 0,
        asked_bytes: 0,
        copied_bytes: 0,
        moves: 0,
        passes: 0,
        median_us: 0.0,
        longest_us: 0.0,
    };
    let mut times: Vec<Duration> = Vec::new();
    for number in 0..WARM_UP + requests {
        let most = if rng.below(10) == 0 { capacity / 8 } else { BLOCK / 2048 };
        let size = 1 + u64::from(rng.below(most as u32));
        while used + size > capacity * occupancy / 100 {
            let (gone, size) = live.swap_remove(rng.below(live.len() as u32) as usize);
            allocator.free(gone).map_err(refused)?;
            used -= size;
        }
        let wanted = Requirements::new(size);
        let allocation = match allocator.allocate(&wanted, &options) {
            Ok(allocation) => Some(allocation),
            Err(_) => {
                let began = thread_cpu_time();
                let limits = DefragmentationDesc::default().with_limits(PassLimits::NONE);
                let mut room =
                    RequestDefragmentation::new(&allocator, &wanted, &options, limits).map_err(refused)?;
                while let NextPass::Moves(pass) = room.next_pass() {
                    pass.end();
                }
                let sums = room.statistics();
                let made = room.finish();
                if number >= WARM_UP {
                    times.push(thread_cpu_time() - began);
                    row.without_room += 1;
                    row.served += u32::from(made.is_ok());
                    row.asked_bytes += size;
                    row.copied_bytes += sums.bytes_moved;
                    row.moves += u64::from(sums.moves);
                    row.passes += u64::from(sums.passes);
                }
                match made {
                    Ok(allocation) => Some(allocation),
                    Err(RoomError::NothingHelps { .. }) => None,
                    Err(error) => return Err(refused(error)),
                }
            }
        };
        if let Some(allocation) = allocation {
            live.push((allocation, size));
            used += size;
        }
    }
    times.sort_unstable();
    row.median_us = micros(quantile(&times, 0.5));
    row.longest_us = micros(quantile(&times, 1.0));
    for (allocation, _) in live {
        allocator.free(allocation).map_err(refused)?;
    }
    drop(options);
    allocator.destroy_pool(pool).map_err(refused)?;
    Ok(row)
}

impl RoomRow {
    pub(super) fn print_head() {
        say!(
            "  {:>9} {:>6} {:>8} {:>12} {:>6} {:>10} {:>10} {:>6} {:>7} {:>6} {:>9} {:>9}",
            "occupancy",
            "blocks",
            "requests",
            "without room",
            "served",
            "asked",
            "copied",
            "ratio",
            "moves",
            "passes",
            "median",
            "longest"
        );
    }

    pub(super) fn print(&self) {
        say!(
            "  {:>8}% {:>6} {:>8} {:>12} {:>6} {:>10} {:>10} {:>6.2} {:>7} {:>6} {:>9.0} {:>9.0}",
            self.occupancy,
            self.blocks,
            self.requests,
            self.without_room,
            self.served,
            bytes(self.asked_bytes),
            bytes(self.copied_bytes),
            self.copied_bytes as f64 / self.asked_bytes.max(1) as f64,
            self.moves,
            self.passes,
            self.median_us,
            self.longest_us
        );
    }
}
