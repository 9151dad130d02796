//! `measure`: everything in one text, to be kept with the sources: the device, its budgets, and the tables of all
//! other commands.
//!
//! ```text
//!   machine    heaps, types, limits, queues, and the library's candidates for each memory usage
//!   budget     the budgets of driver and library before, with and after many allocations
//! ```

mod budget;
mod machine;

use std::time::Instant;

use clap::Parser;

use crate::args::{BandwidthArgs, Common, DeviceArgs, MeasureArgs, SteadyArgs, StreamingArgs, TracesArgs};
use crate::failure::Failure;
use crate::vulkan::Gpu;
use crate::{bandwidth, device, steady, streaming, traces};

/// Laps of gpu-allocator in `device`: each takes seconds.
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

/// Returns the default options of a command.
fn defaults<T: Parser>() -> T {
    T::parse_from(["allotment-bench"])
}

/// Returns the command line, without the path.
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
