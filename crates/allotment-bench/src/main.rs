//! Compares whole GPU memory allocators: the same work, on the same Vulkan device, in one process. `README.md`
//! beside this explains what is measured and which conditions are not equal.
//!
//! ```text
//!   args         command-line arguments
//!   vulkan/      the device; meters that count the memory that each contender allocates from the driver
//!   contender/   one allocator per file, behind one trait
//!   device/      time of an operation: warm blocks, random traffic, one and two threads
//!   buffers/     time to create and destroy a buffer with memory, in each contender's own way
//!   traces/      recorded traffic: how much memory each contender reserves for it
//!   steady       driver calls of identical frames
//!   bandwidth/   the machine's best transfer rates, and the library's share of them
//!   textures/    the first upload of textures: staged, and copied by the CPU into the images
//!   uploads/     what streamed textures cost frames, and their share of the queue's rate
//!   streaming/   how long the frames of a streamed scene wait, by the thread that allocates blocks
//!   sparse/      time to bind memory to a range of a sparse buffer, beside the time to allocate it
//!   measure/     the device, its budgets, and all of the above in one text
//!   lifetime/    the cost of deferred destruction, without a GPU
//!   descriptor/  the cost of allocating, copying and binding descriptors, without a GPU
//!   defrag/      gain and cost of defragmentation, and the time for which it holds the lock
//!   ranges/      allocators of ranges, without a GPU: time, latency, fragmentation, host memory, threads
//!   threads/     the throughput of threads that share an allocator, without a GPU
//!   growth/      the cost of calls with very many pools, blocks and ranges, and what other threads wait for reports, without a GPU
//!   plans/       how tight plans of items with known lifetimes are, after how much time, without a GPU
//!   recording    the cost of an operation while a recorder writes it, without a GPU
//!   race/        runs contenders in turns, and prints a row for each
//!   team, start_barrier   threads that execute jobs, and start together
//!   host_heap    counts the host allocations of each thread
//!   clock, rng, units, output    helpers
//!   vma_dump/    tests: dumps of the real VMA against the importer and the exporter
//! ```

#[macro_use]
mod output;

mod args;
mod bandwidth;
mod buffers;
mod clock;
mod contender;
mod defrag;
mod descriptor;
mod device;
mod failure;
mod growth;
mod host_heap;
mod lifetime;
mod measure;
mod plans;
mod pressure;
mod race;
mod ranges;
mod recording;
mod rng;
mod sparse;
mod start_barrier;
mod steady;
mod streaming;
mod team;
mod textures;
mod threads;
mod traces;
mod units;
mod uploads;
#[cfg(test)]
mod vma_dump;
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
        // `--help`: its writes are checked like all others.
        Err(error) => {
            output::check(|| error.print().and_then(|()| stdout().flush()));
            return end(Ok(()));
        }
    };
    end(match &args.command {
        Command::Device(args) => device::run(args),
        Command::Buffers(args) => buffers::run(args),
        Command::Traces(args) => traces::run(args),
        Command::Steady(args) => steady::run(args),
        Command::Bandwidth(args) => bandwidth::run(args),
        Command::Streaming(args) => streaming::run(args),
        Command::Textures(args) => textures::run(args),
        Command::Uploads(args) => uploads::run(args),
        Command::Sparse(args) => sparse::run(args),
        Command::Measure(args) => measure::run(args),
        Command::Lifetime(args) => lifetime::run(args),
        Command::Descriptor(args) => descriptor::run(args),
        Command::Ranges(args) => ranges::run(args),
        Command::Threads(args) => threads::run(args),
        Command::Defrag(args) => defrag::run(args),
        Command::Growth(args) => growth::run(args),
        Command::Pressure(args) => pressure::run(args),
        Command::Plans(args) => plans::run(args),
        Command::Recording(args) => recording::run(args),
    })
}

/// Prints a failure, and returns the exit code.
fn end(done: Result<(), Failure>) -> ExitCode {
    let done = match (done, output::finish()) {
        (Ok(()), Some(error)) => Err(Failure::Output(error)),
        (done, _) => done,
    };
    let Err(failure) = done else { return ExitCode::SUCCESS };
    // Not `eprintln!`, which panics if standard error cannot be written; the exit code still reports the failure.
    let _ = writeln!(stderr(), "allotment-bench: {failure}");
    ExitCode::FAILURE
}
