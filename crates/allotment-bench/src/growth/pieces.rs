//! Small buffers on a device that places each at a multiple of 64 KiB, as Direct3D 12 does: what each of them takes, and what a piece
//! of a larger one takes.

use core::time::Duration;

use allotment::Alignment;
use allotment::MemoryUsage;
use allotment::device::BufferDesc;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::gpu::{Gpu, GpuDesc};
use allotment::memory::BufferPieces;

use super::{setup, timed};
use crate::args::GrowthArgs;
use crate::failure::Failure;

const EACH: u64 = 4 << 10;

pub(super) fn run(args: &GrowthArgs) -> Result<(), Failure> {
    say!(
        "{:<34} {:>12} {:>10} {:>12} {:>12}",
        "small buffers",
        "reserved",
        "by asked",
        "ns to create",
        "to destroy"
    );
    let gpu = device()?;
    row(&gpu, "buffers of 4 KiB", args.small, || {
        gpu.create_buffer(&BufferDesc::new(EACH), &MemoryUsage::GpuOnly.into()).map_err(setup)
    })?;
    let gpu = device()?;
    let pieces = BufferPieces::new(gpu.memory(), BufferDesc::new(1 << 20), MemoryUsage::GpuOnly.into());
    row(&gpu, "pieces of 4 KiB in buffers of 1 MiB", args.small, || {
        pieces.create(EACH, Alignment::ONE).map_err(setup)
    })
}

fn device() -> Result<Gpu<SimulatedGpu>, Failure> {
    let profile = Profile::named("d3d12-tier-2").ok_or_else(|| setup("no such profile"))?;
    Gpu::new(SimulatedGpu::new(profile), GpuDesc::default()).map_err(setup)
}

fn row<T>(
    gpu: &Gpu<SimulatedGpu>,
    what: &str,
    count: u32,
    mut create: impl FnMut() -> Result<T, Failure>,
) -> Result<(), Failure> {
    let (creating, all) = timed(|| (0..count).map(|_| create()).collect::<Result<Vec<_>, _>>());
    let all = all?;
    let reserved = gpu.allocator().statistics().block_bytes;
    let (destroying, ()) = timed(|| {
        drop(all);
        gpu.reclaim();
    });
    let ns = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(count);
    let by_asked = reserved as f64 / (u64::from(count) * EACH) as f64;
    let mib = reserved as f64 / f64::from(1 << 20);
    say!("{what:<34} {mib:>8.1} MiB {by_asked:>10.2} {:>12.1} {:>12.1}", ns(creating), ns(destroying));
    Ok(())
}
