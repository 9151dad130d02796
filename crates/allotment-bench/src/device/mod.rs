//! `device`: the time of an operation with warm memory.
//!
//! ```text
//!   sequence   the operations, generated beforehand, the same for all
//!   race       contenders in turns, a lap each, on threads of their own, in rotating order
//!   report     medians, as tables and as JSON
//! ```

mod race;
mod report;
mod sequence;

use std::sync::Arc;

use crate::args::DeviceArgs;
use crate::contender::{Allotment, Blocks, Empty, GpuAllocator, VkMem};
use crate::failure::Failure;
use crate::vulkan::Gpu;
use race::{Outcome, Racer, Runner, race};
use report::Report;
pub(crate) use sequence::Sequence;

pub(crate) fn run(args: &DeviceArgs) -> Result<(), Failure> {
    let gpu = Gpu::open(&args.common)?;
    let mut report = Report::new(&gpu, args);
    for &live in &args.live {
        let lanes: Vec<_> = [1, 2].map(|seed| Arc::new(Sequence::churn(seed, live, args.pairs))).into();
        let one = heat(&gpu, &lanes[..1], args)?;
        let two = heat(&gpu, &lanes, args)?;
        report.add(&format!("churn-{live}"), &lanes, &one, &two);
    }
    report.print(args.common.json)
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
    if gpu.info.buffer_image_granularity > VkMem::GRANULARITY_IGNORED {
        racers.push(Box::new(Runner::new(VkMem::for_buffers(gpu)?, lanes)));
    }
    race(&mut racers, args.repetitions)
}
