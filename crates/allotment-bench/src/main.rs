//! Whole GPU memory allocators side by side: the same work, on the same Vulkan device, in one process.
//! `README.md` beside this says what is measured and what is not equal.
//!
//! ```text
//!   args         what can be asked for
//!   vulkan/      the device; meters that count what each contender gets from its driver
//!   contender/   one allocator a file, behind one trait
//!   device/      time an operation: warm blocks, random traffic, one and two threads
//!   traces/      recorded traffic: how much memory each contender reserves for it
//!   steady       driver calls of frames that all do the same
//!   bandwidth/   how fast this machine moves bytes at best, and how near the library comes
//!   streaming/   how long the frames of a streamed scene wait, by who gets memory from the driver
//!   measure/     the device, its budgets, and all of the above in one text
//!   clock, rng, units, output    small things
//! ```

#[macro_use]
mod output;

mod args;
mod bandwidth;
mod clock;
mod contender;
mod device;
mod failure;
mod measure;
mod rng;
mod steady;
mod streaming;
mod traces;
mod units;
mod vulkan;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match &args.command {
        Command::Device(args) => device::run(args),
        Command::Traces(args) => traces::run(args),
        Command::Steady(args) => steady::run(args),
        Command::Bandwidth(args) => bandwidth::run(args),
        Command::Streaming(args) => streaming::run(args),
        Command::Measure(args) => measure::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("allotment-bench: {failure}");
            ExitCode::FAILURE
        }
    }
}
