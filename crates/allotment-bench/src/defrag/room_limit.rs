//! How well passes keep their time limit while they make room for a request among many allocations.

use core::time::Duration;

use allotment::device::MemoryTypeIndex;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::memory::Movability;
use allotment::memory::blocks::{BlockSize, EmptyBlockPolicy};
use allotment::memory::defragmentation::{DefragmentationDesc, NextPass, PassLimits, RequestDefragmentation};
use allotment::{Allocator, AllocatorDesc, MemoryUsage, PoolDesc, Requirements};
use serde::Serialize;

use super::ours::refused;
use super::times::{micros, quantile, share_within};
use crate::clock::thread_cpu_time;
use crate::failure::Failure;
use crate::rng::Rng;
use crate::units::bytes;

/// The average size of an allocation.
const SIZE: u32 = 1024;

/// Processor time of the calls until the request was served.
#[derive(Debug, Serialize)]
pub(super) struct RoomLimitRow {
    asked_bytes: u64,
    served: bool,
    limit_us: Option<u32>,
    calls: usize,
    within_share: f64,
    total_us: f64,
    p99_us: f64,
    longest_us: f64,
    /// Of the calls that moved nothing.
    longest_without_moves_us: f64,
    moves: u64,
}

/// One block with `live` allocations, half of which are freed; and requests of a 64th of it, and of nine tenths of what
/// is free.
pub(super) fn rows(live: u32) -> Result<Vec<RoomLimitRow>, Failure> {
    let mut rows = Vec::new();
    for part in [1.0 / 64.0, 0.45] {
        for limit in [None, Some(500), Some(1000)] {
            rows.push(row(live, part, limit)?);
        }
    }
    Ok(rows)
}

fn row(live: u32, part: f64, limit_us: Option<u32>) -> Result<RoomLimitRow, Failure> {
    let Some(profile) = Profile::named("discrete-large-bar") else { unreachable!("a built-in profile") };
    let allocator = Allocator::new(SimulatedGpu::new(profile), AllocatorDesc::default()).map_err(refused)?;
    let block = (u64::from(live) * u64::from(SIZE)).next_multiple_of(1 << 20);
    let mut desc = PoolDesc::new([MemoryTypeIndex(0)]);
    (desc.sizing, desc.max_blocks) = (Some(BlockSize::Fixed(block)), 1);
    desc.empty_blocks = EmptyBlockPolicy::NONE;
    let pool = allocator.create_pool(desc).map_err(refused)?;
    let options = MemoryUsage::GpuOnly.with_pool(&pool).with_movability(Movability::Copied);
    let (mut rng, mut all, mut used) = (Rng::new(5), Vec::new(), 0);
    loop {
        let size = 1 + u64::from(rng.below(2 * SIZE));
        match allocator.allocate(&Requirements::new(size), &options) {
            Ok(one) => all.push((one, size)),
            Err(_) => break,
        }
        used += size;
    }
    while used > block / 2 {
        let (gone, size) = all.swap_remove(rng.below(all.len() as u32) as usize);
        allocator.free(gone).map_err(refused)?;
        used -= size;
    }
    let asked_bytes = (block as f64 * part) as u64;
    let limits = match limit_us {
        None => PassLimits::NONE,
        Some(limit) => PassLimits::NONE.with_time(Duration::from_micros(limit.into())),
    };
    let desc = DefragmentationDesc::default().with_limits(limits);
    let mut room = RequestDefragmentation::new(&allocator, &Requirements::new(asked_bytes), &options, desc)
        .map_err(refused)?;
    let (mut times, mut without_moves, mut moves) = (Vec::new(), Duration::ZERO, 0);
    loop {
        let start = thread_cpu_time();
        let next = room.next_pass();
        let time = thread_cpu_time() - start;
        times.push(time);
        match next {
            NextPass::Moves(pass) => {
                moves += pass.moves().len() as u64;
                pass.end();
            }
            NextPass::LimitReached => without_moves = without_moves.max(time),
            NextPass::Done => break,
        }
    }
    let made = room.finish();
    let served = made.is_ok();
    let all = all.into_iter().map(|(one, _)| one).chain(made);
    all.into_iter().try_for_each(|one| allocator.free(one)).map_err(refused)?;
    drop(options);
    allocator.destroy_pool(pool).map_err(refused)?;
    let limit = Duration::from_micros(limit_us.unwrap_or(u32::MAX).into());
    let within_share = share_within(&times, limit);
    let total = times.iter().sum();
    times.sort_unstable();
    Ok(RoomLimitRow {
        asked_bytes,
        served,
        limit_us,
        calls: times.len(),
        within_share,
        total_us: micros(total),
        p99_us: micros(quantile(&times, 0.99)),
        longest_us: micros(quantile(&times, 1.0)),
        longest_without_moves_us: micros(without_moves),
        moves,
    })
}

impl RoomLimitRow {
    pub(super) fn print_head() {
        say!(
            "  {:>10} {:>6} {:>8} {:>6} {:>8} {:>9} {:>8} {:>8} {:>9} {:>7}",
            "asked",
            "served",
            "limit µs",
            "calls",
            "within",
            "total",
            "p99",
            "longest",
            "no moves",
            "moves"
        );
    }

    pub(super) fn print(&self) {
        say!(
            "  {:>10} {:>6} {:>8} {:>6} {:>7.2}% {:>9.0} {:>8.0} {:>8.0} {:>9.0} {:>7}",
            bytes(self.asked_bytes),
            self.served,
            self.limit_us.map_or("-".to_owned(), |limit| limit.to_string()),
            self.calls,
            self.within_share * 100.0,
            self.total_us,
            self.p99_us,
            self.longest_us,
            self.longest_without_moves_us,
            self.moves
        );
    }
}
