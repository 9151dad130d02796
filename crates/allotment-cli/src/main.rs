//! The `allotment` command: replays recorded GPU memory traffic through the library and shows where the
//! bytes went. `allotment --help` lists what it does.
//!
//! ```text
//!   args         what can be asked for
//!   target/      the devices, and what a recorded resource becomes on each
//!   source       which trace: the one that is built in, or a file
//!   replay/      a trace through an allocator, with every byte uploaded and verified
//!   report/      what was seen, as one page that opens in any browser
//!   summary      what was seen, as a table and as JSON
//!   compare      one trace under every algorithm and several block sizes
//!   defragment/  what a defragmentation does at one moment of a trace
//!   info/        what a device has, and what would be chosen for each memory usage
//!   profiles     the machines that the simulated device can be
//!   output       standard output, checked
//!   progress     how far a command is, where somebody sees it
//!   waste        what is reserved beyond what is needed, defined once
//!   output_file  files, written whole or not at all
//! ```

#[macro_use]
mod output;

mod args;
mod compare;
mod defragment;
mod failure;
mod info;
mod output_file;
mod profiles;
mod progress;
mod replay;
mod report;
mod source;
mod summary;
mod target;
mod units;
mod waste;

use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command, ReplayArgs};
use failure::Failure;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) if error.use_stderr() => error.exit(),
        // `--help` and `--version`, whose writes are checked like any other.
        Err(error) => {
            output::check(|| error.print().and_then(|()| stdout().flush()));
            return end(Ok(()));
        }
    };
    end(match args.command {
        None => summary::run(&ReplayArgs::default()),
        Some(Command::Replay(args)) => summary::run(&args),
        Some(Command::Compare(args)) => compare::run(&args),
        Some(Command::Defragment(args)) => defragment::run(&args),
        Some(Command::Info(args)) => info::run(&args),
        Some(Command::Profiles(args)) => profiles::run(&args),
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
    let _ = writeln!(stderr(), "allotment: {failure}");
    failure.exit_code()
}
