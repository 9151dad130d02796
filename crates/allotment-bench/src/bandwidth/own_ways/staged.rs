//! An upload through a staging buffer of two halves: the queue copies one while the CPU writes the other.

use core::time::Duration;
use std::time::Instant;

use allotment::MemoryUsage;
use allotment::device::TimelineValue;

use super::ours::Ours;
use super::{Bench, OwnWay};
use crate::failure::Failure;

/// Size of a half in bytes: the last copy, which overlaps with no write, is a few percent of an upload of 100 MB,
/// and a submission is a few percent of a chunk.
const CHUNK: usize = 4 << 20;

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<OwnWay>, Failure> {
    let staging = Ours::new(bench, MemoryUsage::Upload, 2 * CHUNK as u64)?;
    let device = Ours::new(bench, MemoryUsage::GpuOnly, bench.size())?;
    let index = staging.memory_type();
    // An upload cannot be faster than the slower of its two steps.
    let limit = bench.limit(index, |row| row.to_device.map(|copy| copy.min(row.write)));
    let by_write = bench.way("staged upload, write", index, limit, || {
        upload(bench, &staging, &device, |at, chunk| staging.write(at, chunk))
    })?;
    let by_address = bench.way("staged upload, by address", index, limit, || {
        upload(bench, &staging, &device, |at, chunk| staging.write_by_address(at, chunk))
    })?;

    let back = Ours::new(bench, MemoryUsage::Readback, bench.size())?;
    bench.copy(&device, &back)?;
    let mut target = vec![0xff; bench.source.len()];
    back.read(&mut target)?;
    if target != bench.source {
        return Err(Failure::Corrupt { memory_type: index });
    }
    Ok(by_write.into_iter().chain(by_address).collect())
}

fn upload(
    bench: &Bench<'_>,
    staging: &Ours<'_>,
    device: &Ours<'_>,
    write: impl Fn(u64, &[u8]) -> Result<(), Failure>,
) -> Result<Duration, Failure> {
    let start = Instant::now();
    // The point to wait for before a half is written again. Zero is always reached.
    let mut busy = [TimelineValue(0); 2];
    let mut done = 0;
    for (i, chunk) in bench.source.chunks(CHUNK).enumerate() {
        let half = i % 2;
        let (at, size) = ((half * CHUNK) as u64, chunk.len() as u64);
        bench.wait(busy[half])?;
        write(at, chunk)?;
        busy[half] = bench.submit((staging, at), (device, done), size)?;
        done += size;
    }
    for value in busy {
        bench.wait(value)?;
    }
    Ok(start.elapsed())
}
