//! `growth`: the cost of calls in programs with very much of something, and how long another thread waits for them.
//!
//! On the simulated GPU. Calls are timed by the processor time of their thread, the waits of another thread by the wall clock:
//! the longest of them is also that of a thread for which no processor was free, so each is printed beside that of a thread
//! that nothing keeps waiting.
//!
//! ```text
//!   calls   frame ends with idle pools, operations and frame ends with pools in use, the host memory of a pool, a trim, a
//!           request among many blocks, the first lowest offset and the first refused aligned request among many ranges
//!   waits   each report, while another thread allocates and frees
//!   pieces  small buffers where the API places each at a multiple of 64 KiB, and pieces of larger ones
//! ```

mod calls;
mod pieces;
mod waits;

use core::fmt::Display;
use core::time::Duration;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::memory::NewBlocks;
use allotment::memory::blocks::BlockSizes;
use allotment::{
    Alignment, Allocation, AllocationError, AllocationOptions, Allocator, AllocatorDesc, MemoryUsage,
    Requirements,
};
use allotment_suballoc::FitStrategy;

use crate::args::GrowthArgs;
use crate::clock::thread_cpu_time;
use crate::failure::Failure;

const NAME: &str = "allotment";

pub(crate) fn run(args: &GrowthArgs) -> Result<(), Failure> {
    let chosen = |part: &str| args.only.as_deref().is_none_or(|only| part.starts_with(only));
    if chosen("calls") {
        calls::run(args)?;
    }
    if chosen("waits") {
        waits::run(args)?;
    }
    if chosen("pieces") {
        pieces::run(args)?;
    }
    Ok(())
}

fn setup(error: impl Display) -> Failure {
    Failure::Setup { contender: NAME, error: error.to_string() }
}

/// A device without a limit of memory objects.
fn device() -> Result<SimulatedGpu, Failure> {
    let mut profile = Profile::named("nvidia-h200").ok_or_else(|| setup("no such profile"))?;
    profile.limits.max_allocation_count = u32::MAX;
    Ok(SimulatedGpu::new(profile))
}

/// An allocator whose blocks all have one size.
fn allocator(block_size: u64) -> Result<Allocator<SimulatedGpu>, Failure> {
    let mut desc = AllocatorDesc::default();
    desc.block_sizes = BlockSizes::fixed(block_size);
    Allocator::new(device()?, desc).map_err(setup)
}

/// Options for a range at the lowest offset.
fn lowest() -> AllocationOptions {
    let mut options = AllocationOptions::from(MemoryUsage::GpuOnly);
    options.strategy = FitStrategy::LowestOffset;
    options
}

fn allocate(allocator: &Allocator<SimulatedGpu>, size: u64) -> Result<Allocation, Failure> {
    allocator.allocate(&Requirements::new(size), &MemoryUsage::GpuOnly.into()).map_err(setup)
}

/// The size of a free range of [`every_second_free`], whose offset is a multiple of 512 and 256 more.
const FREE: u64 = 768;

/// An allocator with one block of at least `ranges`, in which every second one is free, and the others.
fn every_second_free(ranges: u32) -> Result<(Allocator<SimulatedGpu>, Vec<Allocation>), Failure> {
    // Full, so that nothing is free behind the last one.
    let pairs = u64::from(ranges / 2).next_power_of_two();
    let allocator = allocator(pairs * (256 + FREE))?;
    let (mut kept, mut freed) = (Vec::new(), Vec::new());
    for _ in 0..pairs {
        kept.push(allocate(&allocator, 256)?);
        freed.push(allocate(&allocator, FREE)?);
    }
    freed.into_iter().try_for_each(|allocation| allocator.free(allocation).map_err(setup))?;
    Ok((allocator, kept))
}

/// Asks for a range at an alignment that no free one of [`every_second_free`] has.
fn refused(allocator: &Allocator<SimulatedGpu>) -> Result<(), Failure> {
    let mut options = AllocationOptions::from(MemoryUsage::GpuOnly);
    options.new_blocks = NewBlocks::NeverAllocate;
    let aligned = Requirements::new(FREE).with_alignment(Alignment::new(512).map_err(setup)?);
    match allocator.allocate(&aligned, &options) {
        Err(AllocationError::WouldGrow { .. }) => Ok(()),
        Err(error) => Err(setup(error)),
        Ok(_) => Err(setup("a free range is aligned")),
    }
}

fn timed<T>(call: impl FnOnce() -> T) -> (Duration, T) {
    let began = thread_cpu_time();
    let result = call();
    (thread_cpu_time() - began, result)
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn all_parts_run_where_there_is_little() {
        let few = [
            "growth",
            "--pools",
            "3",
            "--blocks",
            "20",
            "--ranges",
            "300",
            "--live",
            "2000",
            "--small",
            "100",
            "--wait-ms",
            "20",
        ];
        run(&GrowthArgs::parse_from(few)).unwrap();
    }
}
