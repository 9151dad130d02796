//! `measure`: everything in one text, to be kept with the sources: what the device is, what its driver says
//! of budgets, and all the other commands' tables.
//!
//! ```text
//!   machine    heaps, types, limits, queues, and what the library would choose
//!   budget     what the driver and the library say before, with and after many allocations
//! ```

mod budget;
mod machine;

use std::time::Instant;

use clap::Parser;

use crate::args::{BandwidthArgs, Common, DeviceArgs, MeasureArgs, SteadyArgs, StreamingArgs, TracesArgs};
use crate::failure::Failure;
use crate::vulkan::Gpu;
use crate::{bandwidth, device, steady, streaming, traces};

/// Laps of gpu-allocator in `device`: they take seconds each.
const GPU_ALLOCATOR_LAPS: u32 = 5;

pub(crate) fn run(args: &MeasureArgs) -> Result<(), Failure> {
    let start = Instant::now();
    let common = || Common { gpu: args.gpu.clone(), heap_gib: args.heap_gib, json: false };
    let gpu = Gpu::open(&common())?;
    say!("# {}", gpu.info.name);
    say!();
    say!("By `{}`, version {}.", command(), env!("CARGO_PKG_VERSION"));
    chapter("Device", || machine::print(&gpu))?;
    chapter("Budgets", || budget::print(&gpu, args.budget_gib))?;
    drop(gpu);
    chapter("bandwidth", || bandwidth::run(&BandwidthArgs { common: common(), ..defaults() }))?;
    chapter("streaming", || streaming::run(&StreamingArgs { common: common(), ..defaults() }))?;
    chapter("traces", || traces::run(&TracesArgs { common: common(), ..defaults() }))?;
    chapter("steady", || steady::run(&SteadyArgs { common: common(), ..defaults() }))?;
    let laps = Some(GPU_ALLOCATOR_LAPS);
    chapter("device", || {
        device::run(&DeviceArgs { common: common(), gpu_allocator_repetitions: laps, ..defaults() })
    })?;
    say!();
    say!("All of it took {:.0} s.", start.elapsed().as_secs_f64());
    Ok(())
}

/// What a command runs with when nothing is said.
fn defaults<T: Parser>() -> T {
    T::parse_from(["allotment-bench"])
}

/// How this was called, without the path.
fn command() -> String {
    let arguments = std::env::args().skip(1);
    core::iter::once("allotment-bench".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

fn chapter(title: &str, print: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    say!();
    say!("## {title}");
    say!();
    say!("```text");
    let done = print();
    say!("```");
    done
}
