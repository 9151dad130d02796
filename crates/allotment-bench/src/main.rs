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
//!   lifetime/    what it costs to keep things until the GPU is done with them, without a GPU
//!   descriptor/  what it costs to hand out descriptors and to copy them, without a GPU
//!   defrag/      what defragmentation gains and copies, and how long it keeps others waiting
//!   race/        contenders in turns, and a row for each
//!   team, gate   threads that do what they are told, and start together
//!   host_heap    counts what each thread allocates on the host
//!   clock, rng, units, output    small things
//! ```

#[macro_use]
mod output;

mod args;
mod bandwidth;
mod clock;
mod contender;
mod defrag;
mod descriptor;
mod device;
mod failure;
mod gate;
mod host_heap;
mod lifetime;
mod measure;
mod race;
mod rng;
mod steady;
mod streaming;
mod team;
mod traces;
mod units;
mod vulkan;

use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use failure::Failure;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) if error.use_stderr() => error.exit(),
        // `--help`, whose writes are checked like any other.
        Err(error) => {
            output::check(|| error.print().and_then(|()| stdout().flush()));
            return end(Ok(()));
        }
    };
    end(match &args.command {
        Command::Device(args) => device::run(args),
        Command::Traces(args) => traces::run(args),
        Command::Steady(args) => steady::run(args),
        Command::Bandwidth(args) => bandwidth::run(args),
        Command::Streaming(args) => streaming::run(args),
        Command::Measure(args) => measure::run(args),
        Command::Lifetime(args) => lifetime::run(args),
        Command::Descriptor(args) => descriptor::run(args),
        Command::Defrag(args) => defrag::run(args),
    })
}

/// The exit code, when a failure has been told.
fn end(done: Result<(), Failure>) -> ExitCode {
    let done = match (done, output::finish()) {
        (Ok(()), Some(error)) => Err(Failure::Output(error)),
        (done, _) => done,
    };
    let Err(failure) = done else { return ExitCode::SUCCESS };
    // Not by `eprintln!`, which panics where it cannot be written either; the code tells it still.
    let _ = writeln!(stderr(), "allotment-bench: {failure}");
    ExitCode::FAILURE
}
