//! `device`: the time of an operation with warm memory.
//!
//! ```text
//!   sequence   the operations, generated beforehand, the same for all
//!   race       contenders in turns, a lap each, on threads of their own, in rotating order
//!   report     medians, as tables and as JSON
//! ```

mod cold;
mod race;
mod report;
mod sequence;

use std::sync::Arc;

use crate::args::DeviceArgs;
use crate::contender::{Allotment, Blocks, Empty, GpuAllocator, VkMem};
use crate::failure::Failure;
use crate::vulkan::Gpu;
use cold::{Cold, fill_and_clear};
use race::{Outcome, Racer, Runner, race};
use report::Report;
use sequence::Work;
pub(crate) use sequence::{Op, Sequence, request};

pub(crate) fn run(args: &DeviceArgs) -> Result<(), Failure> {
    let gpu = Gpu::open(&args.common)?;
    let mut report = Report::new(&gpu, args);
    for (work, live) in works(args) {
        let of = |seed| Arc::new(Sequence::new(work, seed, live, args.pairs * 2));
        let lanes: Vec<_> = [1, 2].map(of).into();
        let one = heat(&gpu, &lanes[..1], args)?;
        let two = heat(&gpu, &lanes, args)?;
        report.add(&work.name(live), &lanes, &one, &two);
    }
    if args.cold != 0 {
        report.add_cold(args.cold, cold(&gpu, args)?);
    }
    report.print(args.common.json)
}

/// Returns all traffic, with the numbers of allocations that live meanwhile.
fn works(args: &DeviceArgs) -> Vec<(Work, u32)> {
    let churn = args.live.iter().map(|&live| (Work::Churn, live));
    let others = [
        (Work::ChurnLarge, 200),
        (Work::Waves(1000), 0),
        (Work::Waves(10_000), 0),
        (Work::WavesMiddle(1000), 0),
        (Work::Bursts(1000), 1000),
    ];
    churn.chain(others).filter(|&(work, live)| work.name(live).contains(&args.only)).collect()
}

/// Fills new contenders in turn, and empties them.
fn cold(gpu: &Arc<Gpu>, args: &DeviceArgs) -> Result<Vec<(&'static str, Vec<Cold>)>, Failure> {
    let sequence = Sequence::new(Work::Churn, 1, args.cold, 0);
    let mut all = vec![("allotment", Vec::new()), ("vk-mem", Vec::new()), ("vk-mem*", Vec::new())];
    for _ in 0..args.repetitions {
        all[0].1.push(fill_and_clear(&Allotment::new(gpu, Blocks::Default)?, &sequence)?);
        all[1].1.push(fill_and_clear(&VkMem::new(gpu, Blocks::Default)?, &sequence)?);
        if ignores_granularity(gpu) {
            all[2].1.push(fill_and_clear(&VkMem::for_buffers(gpu)?, &sequence)?);
        }
    }
    all.retain(|(_, laps)| !laps.is_empty());
    Ok(all)
}

/// Returns whether VMA is raced with the granularity ignored as well.
fn ignores_granularity(gpu: &Gpu) -> bool {
    gpu.info.buffer_image_granularity > VkMem::GRANULARITY_IGNORED
}

/// Creates all contenders and races them over the same sequences: one per thread.
fn heat(gpu: &Arc<Gpu>, lanes: &[Arc<Sequence>], args: &DeviceArgs) -> Result<Vec<Outcome>, Failure> {
    let gpu_allocator = GpuAllocator::new(gpu, Blocks::Default)?;
    let mut racers: Vec<Box<dyn Racer>> = vec![
        Box::new(Runner::new(Empty, lanes)),
        Box::new(Runner::new(Allotment::new(gpu, Blocks::Default)?, lanes)),
        Box::new(Runner::new(VkMem::new(gpu, Blocks::Default)?, lanes)),
        Box::new(Runner::new(gpu_allocator, lanes).at_most(args.gpu_allocator_repetitions)),
    ];
    if ignores_granularity(gpu) {
        racers.push(Box::new(Runner::new(VkMem::for_buffers(gpu)?, lanes)));
    }
    race(&mut racers, args.repetitions)
}
