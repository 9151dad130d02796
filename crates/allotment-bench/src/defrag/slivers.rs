//! Requests among holes of which none, or one, is large enough: how long a call takes, however many holes there are.
//!
//! A block of ranges of 1,024 units of which every second is free, and requests for 1,025; or of ranges of an odd size at
//! an alignment of 256, and requests that would fit each hole at another offset.

use std::time::Instant;

use allotment::device::MemoryTypeIndex;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::memory::blocks::{BlockSize, EmptyBlockPolicy};
use allotment::{Allocator, AllocatorDesc, MemoryUsage, PoolDesc, Requirements};
use allotment_suballoc::{Algorithm, Alignment, Request, VirtualBlock};
use serde::Serialize;

use super::ours::refused;
use super::times::{micros, quantile};
use crate::failure::Failure;

/// Live ranges, of which half are freed.
const COUNTS: [u32; 3] = [2_000, 20_000, 1_000_000];

const CALLS: usize = 2000;

/// The times of calls of one kind.
#[derive(Debug, Serialize)]
pub(super) struct SliversRow {
    what: &'static str,
    count: u32,
    /// Wall time in nanoseconds.
    median_ns: f64,
    p999_ns: f64,
    longest_ns: f64,
}

pub(super) fn rows() -> Result<Vec<SliversRow>, Failure> {
    let mut rows = Vec::new();
    for count in COUNTS {
        let mut block = block(count, 1024, 1)?;
        rows.push(timed("a little larger, refused", count, || {
            _ = block.allocate_if_it_fits(Request::new(1025), ());
            Ok(())
        })?);
        rows.push(timed("the same, with an error", count, || {
            _ = block.allocate(Request::new(1025), ());
            Ok(())
        })?);
        let mut apart = self::block(count, 1000, 256)?;
        let aligned = Alignment::new(512).map_err(refused)?;
        rows.push(timed("aligned differently", count, || {
            if let Ok(range) = apart.allocate(Request::new(1000).aligned(aligned), ()) {
                apart.free(range.handle).map_err(refused)?;
            }
            Ok(())
        })?);
        rows.push(pool(count)?);
    }
    Ok(rows)
}

/// Returns a block without other free units than those of every second range.
fn block(count: u32, size: u64, alignment: u64) -> Result<VirtualBlock<()>, Failure> {
    let alignment = Alignment::new(alignment).map_err(refused)?;
    let bytes = alignment.align_up(size) * u64::from(count);
    let mut block = VirtualBlock::new(bytes, Algorithm::Tlsf).map_err(refused)?;
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(block.allocate(Request::new(size).aligned(alignment), ()).map_err(refused)?);
    }
    for range in all.iter().step_by(2) {
        block.free(range.handle).map_err(refused)?;
    }
    Ok(block)
}

/// The same in a pool that may not grow, whose blocks have 64 MiB.
fn pool(count: u32) -> Result<SliversRow, Failure> {
    let Some(profile) = Profile::named("discrete-large-bar") else { unreachable!("a built-in profile") };
    let allocator = Allocator::new(SimulatedGpu::new(profile), AllocatorDesc::default()).map_err(refused)?;
    let size = (64 << 20).min(u64::from(count) << 10);
    let mut desc = PoolDesc::new([MemoryTypeIndex(0)]);
    desc.sizing = Some(BlockSize::Fixed(size));
    desc.max_blocks = (u64::from(count) << 10).div_ceil(size) as u32;
    let fill = u64::from(desc.max_blocks) * (size >> 10);
    desc.empty_blocks = EmptyBlockPolicy::NONE;
    let pool = allocator.create_pool(desc).map_err(refused)?;
    let options = MemoryUsage::GpuOnly.with_pool(&pool);
    let mut live = Vec::new();
    for _ in 0..fill {
        live.push(Some(allocator.allocate(&Requirements::new(1024), &options).map_err(refused)?));
    }
    for gone in live.iter_mut().step_by(2) {
        gone.take().map_or(Ok(()), |gone| allocator.free(gone)).map_err(refused)?;
    }
    let wanted = Requirements::new(1025);
    let row = timed("in a pool, refused", count, || {
        _ = allocator.allocate(&wanted, &options);
        Ok(())
    })?;
    live.into_iter().flatten().try_for_each(|one| allocator.free(one)).map_err(refused)?;
    drop(options);
    allocator.destroy_pool(pool).map_err(refused)?;
    Ok(row)
}

fn timed(
    what: &'static str,
    count: u32,
    mut call: impl FnMut() -> Result<(), Failure>,
) -> Result<SliversRow, Failure> {
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let start = Instant::now();
        call()?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let ns = |share| micros(quantile(&times, share)) * 1e3;
    Ok(SliversRow { what, count, median_ns: ns(0.5), p999_ns: ns(0.999), longest_ns: ns(1.0) })
}

impl SliversRow {
    pub(super) fn print_head() {
        say!("  {:26} {:>9} {:>10} {:>10} {:>10}", "request", "ranges", "median ns", "p99.9", "longest");
    }

    pub(super) fn print(&self) {
        say!(
            "  {:26} {:>9} {:>10.0} {:>10.0} {:>10.0}",
            self.what,
            self.count,
            self.median_ns,
            self.p999_ns,
            self.longest_ns
        );
    }
}
