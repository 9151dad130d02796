//! The processor time of calls.

use core::time::Duration;

use allotment::device::{MemoryDesc, MemoryDevice as _, MemoryTypeIndex};
use allotment::gpu::{Gpu, GpuDesc};
use allotment::{MemoryUsage, PoolDesc, Requirements};

use super::{allocate, allocator, device, micros, setup, timed};
use crate::args::GrowthArgs;
use crate::failure::Failure;
use crate::host_heap;
use crate::rng::Rng;

const KIB: u64 = 1 << 10;

pub(super) fn run(args: &GrowthArgs) -> Result<(), Failure> {
    say!("{:<56} {:>12}", "call, median of its repetitions", "CPU us");
    for pools in [64.min(args.pools), args.pools] {
        row(&format!("end of a frame, {pools} idle pools"), frame_ends(pools)?);
    }
    for pools in [1, args.pools] {
        let in_use = pools_in_use(pools, LIVE)?;
        row(&format!("operation in one of {pools} pools in use"), in_use.operations);
        row(&format!("end of a frame with 1000 of them, {pools} pools in use"), in_use.frame_ends);
        bytes_row(&format!("host memory of one of {pools} pools in use"), in_use.bytes_of_a_pool);
        let pairs = pools_in_use(pools, 0)?;
        row(&format!("operation in one of {pools} pools, empty but for it"), pairs.operations);
        row(&format!("end of a frame with 1000 of them, {pools} such pools"), pairs.frame_ends);
    }
    for (live, what) in [(0, "no"), (1, "one")] {
        let what = format!("host memory of one of {} pools with {what} allocation", args.pools);
        bytes_row(&what, host_memory(args.pools, live)?);
    }
    row(&format!("trim, {} empty blocks", args.blocks), trims(args.blocks)?);
    row("… of which the simulated GPU, which unmaps their pages", frees_of_the_device(args.blocks)?);
    for (size, what) in [(64 * KIB, "64 KiB"), (500 * KIB, "500 KiB")] {
        row(&format!("request of {what}, {} blocks", args.blocks), requests(args.blocks, size)?);
    }
    row(&format!("first lowest offset, {} ranges", args.ranges), lowest_of_many(args.ranges)?);
    row(&format!("first refused aligned request, {} ranges", args.ranges), refused_among_many(args.ranges)?);
    Ok(())
}

fn row(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    say!("{what:<56} {:>12.3}", micros(times[times.len() / 2]));
}

fn bytes_row(what: &str, bytes: u64) {
    say!("{what:<56} {bytes:>10} B");
}

fn frame_ends(pools: u32) -> Result<Vec<Duration>, Failure> {
    let gpu = Gpu::new(device()?, GpuDesc::default()).map_err(setup)?;
    let mut held = Vec::new();
    for _ in 0..pools {
        let pool = gpu.allocator().create_pool(PoolDesc::new([MemoryTypeIndex(0)])).map_err(setup)?;
        let options = MemoryUsage::GpuOnly.with_pool(&pool);
        let allocation = gpu.allocator().allocate(&Requirements::new(4 * KIB), &options).map_err(setup)?;
        held.push((pool, allocation));
    }
    let frame = || -> Result<Duration, Failure> {
        let frame = gpu.begin_frame().map_err(setup)?;
        let (time, ended) = timed(|| frame.end());
        ended.map_err(setup)?;
        Ok(time)
    };
    // Until what the requests left is over.
    for _ in 0..600 {
        frame()?;
    }
    let times = (0..300).map(|_| frame()).collect::<Result<Vec<_>, _>>()?;
    for (pool, allocation) in held {
        gpu.allocator().free(allocation).map_err(setup)?;
        gpu.allocator().destroy_pool(pool).map_err(setup)?;
    }
    Ok(times)
}

struct PoolsInUse {
    /// Of an allocation or a free, by the thousand.
    operations: Vec<Duration>,
    frame_ends: Vec<Duration>,
    bytes_of_a_pool: u64,
}

/// Allocations that each pool in use keeps.
const LIVE: u32 = 16;

/// Allocations and frees in random pools, of which each keeps some allocations of some sizes; without any, allocations that are
/// freed at once.
fn pools_in_use(count: u32, live_each: u32) -> Result<PoolsInUse, Failure> {
    const OPERATIONS: u32 = 1000;
    let allocator = allocator(KIB * KIB)?;
    let mut rng = Rng::new(count.into());
    let before = host_heap::bytes();
    let pools = (0..count).map(|_| allocator.create_pool(PoolDesc::new([MemoryTypeIndex(0)])));
    let pools = pools.collect::<Result<Vec<_>, _>>().map_err(setup)?;
    let options: Vec<_> = pools.iter().map(|pool| MemoryUsage::GpuOnly.with_pool(pool)).collect();
    let allocate = |rng: &mut Rng, pool: usize| {
        allocator.allocate(&Requirements::new(256 << rng.below(6)), &options[pool]).map_err(setup)
    };
    let mut live = Vec::new();
    for pool in 0..pools.len() {
        live.push((0..live_each).map(|_| allocate(&mut rng, pool)).collect::<Result<Vec<_>, _>>()?);
    }
    let (mut operations, mut frame_ends) = (Vec::new(), Vec::new());
    for frame in 0..400 {
        let (time, done) = timed(|| -> Result<(), Failure> {
            for _ in 0..OPERATIONS / 2 {
                let (pool, at) = (rng.below(count) as usize, rng.below(LIVE) as usize);
                if live_each == 0 {
                    allocator.free(allocate(&mut rng, pool)?).map_err(setup)?;
                    continue;
                }
                allocator.free(live[pool].swap_remove(at)).map_err(setup)?;
                live[pool].push(allocate(&mut rng, pool)?);
            }
            Ok(())
        });
        done?;
        let (end, ()) = timed(|| allocator.end_frame());
        if frame >= 100 {
            operations.push(time / OPERATIONS);
            frame_ends.push(end);
        }
    }
    let bytes_of_a_pool = (host_heap::bytes() - before) / u64::from(count);
    drop(options);
    for (pool, live) in pools.into_iter().zip(live) {
        live.into_iter().try_for_each(|it| allocator.free(it)).map_err(setup)?;
        allocator.destroy_pool(pool).map_err(setup)?;
    }
    Ok(PoolsInUse { operations, frame_ends, bytes_of_a_pool })
}

/// The bytes of host memory of a pool, with the memory object of a simulated GPU.
fn host_memory(count: u32, live: u32) -> Result<u64, Failure> {
    let allocator = allocator(KIB * KIB)?;
    let mut pools = Vec::with_capacity(count as usize);
    let mut held = Vec::with_capacity((count * live) as usize);
    let before = host_heap::bytes();
    for _ in 0..count {
        let pool = allocator.create_pool(PoolDesc::new([MemoryTypeIndex(0)])).map_err(setup)?;
        let options = MemoryUsage::GpuOnly.with_pool(&pool);
        for _ in 0..live {
            held.push(allocator.allocate(&Requirements::new(KIB), &options).map_err(setup)?);
        }
        pools.push(pool);
    }
    let bytes = (host_heap::bytes() - before) / u64::from(count);
    held.into_iter().try_for_each(|it| allocator.free(it)).map_err(setup)?;
    pools.into_iter().try_for_each(|pool| allocator.destroy_pool(pool)).map_err(setup)?;
    Ok(bytes)
}

fn trims(blocks: u32) -> Result<Vec<Duration>, Failure> {
    let allocator = allocator(64 * KIB)?;
    let mut times = Vec::new();
    for _ in 0..5 {
        let full = (0..blocks).map(|_| allocate(&allocator, 64 * KIB)).collect::<Result<Vec<_>, _>>()?;
        full.into_iter().try_for_each(|allocation| allocator.free(allocation).map_err(setup))?;
        let (time, _) = timed(|| allocator.trim());
        times.push(time);
    }
    Ok(times)
}

/// What a trim asks of the device, without the allocator.
fn frees_of_the_device(blocks: u32) -> Result<Vec<Duration>, Failure> {
    let device = device()?;
    let desc = MemoryDesc::new(MemoryTypeIndex(0), 64 * KIB);
    let mut times = Vec::new();
    for _ in 0..5 {
        let memories = (0..blocks)
            .map(|_| device.allocate_memory(&desc).map_err(setup))
            .collect::<Result<Vec<_>, _>>()?;
        let (time, ()) = timed(|| {
            for memory in memories {
                // SAFETY: the memory object is of this device, and nothing was placed into it.
                unsafe { device.free_memory(memory) };
            }
        });
        times.push(time);
    }
    Ok(times)
}

fn requests(blocks: u32, size: u64) -> Result<Vec<Duration>, Failure> {
    let block = size.next_power_of_two();
    let allocator = allocator(block)?;
    let mut full = (0..blocks).map(|_| allocate(&allocator, block)).collect::<Result<Vec<_>, _>>()?;
    let mut times = Vec::new();
    for round in 0..300 {
        let freed = full.swap_remove(round * 7919 % full.len());
        allocator.free(freed).map_err(setup)?;
        let (time, allocation) = timed(|| allocate(&allocator, size));
        full.push(allocation?);
        times.push(time);
    }
    full.into_iter().try_for_each(|allocation| allocator.free(allocation).map_err(setup))?;
    Ok(times)
}

/// The first such request of an allocator with one block, in which every second range is free.
fn lowest_of_many(ranges: u32) -> Result<Vec<Duration>, Failure> {
    let mut times = Vec::new();
    for _ in 0..3 {
        let (allocator, mut kept) = super::every_second_free(ranges)?;
        let options = super::lowest();
        let (time, allocation) = timed(|| allocator.allocate(&Requirements::new(256), &options));
        times.push(time);
        kept.push(allocation.map_err(setup)?);
        kept.into_iter().try_for_each(|allocation| allocator.free(allocation).map_err(setup))?;
    }
    Ok(times)
}

/// The first such request of an allocator with one block, in which every second range is free, and none aligned.
fn refused_among_many(ranges: u32) -> Result<Vec<Duration>, Failure> {
    let mut times = Vec::new();
    for _ in 0..3 {
        let (allocator, kept) = super::every_second_free(ranges)?;
        let (time, refused) = timed(|| super::refused(&allocator));
        refused?;
        times.push(time);
        kept.into_iter().try_for_each(|allocation| allocator.free(allocation).map_err(setup))?;
    }
    Ok(times)
}
