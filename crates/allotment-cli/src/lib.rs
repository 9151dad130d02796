//! The `allotment` command: replays recorded GPU memory traffic through the library and shows where the memory
//! went. `allotment --help` lists its commands.
//!
//! It is a library of one function, so that the tests, which are a package of their own, can build the same program. The function is
//! no stable interface. The command's arguments, output and exit codes are.
//!
//! ```text
//!   args         command-line arguments
//!   target/      the devices, and the resources that each creates for a recorded one
//!   source       the trace: built in, or a file
//!   replay/      replays a trace through an allocator, with every byte uploaded and verified
//!   report/      the HTML pages: of a recording or a replay, and of a defragmentation
//!   summary      the replay command: its table and its JSON
//!   compare      the compare command: one trace with every algorithm and several block sizes
//!   defragment/  the defragment command: a defragmentation at one frame of a trace
//!   info/        the info command: a device's properties, and the memory types for each memory usage
//!   attach       the attach command: records a running program that serves its events
//!   profiles     the profiles command: the profiles of the simulated GPU
//!   shell        the completions and man commands: for a shell, and for `man`
//!   inspect/     the commands that inspect recordings: stats, map, leaks, calls, lifetimes, diff, export, report, check, advise, whatif, alias
//!   output       standard output with checked writes
//!   progress     the progress bar
//!   waste        the definition of waste
//!   output_file  files, written completely or not at all
//! ```

#[macro_use]
mod output;

mod args;
mod attach;
mod compare;
mod defragment;
mod failure;
mod info;
mod inspect;
mod output_file;
mod profiles;
mod progress;
mod replay;
mod report;
mod shell;
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

/// Runs the command with the arguments of this process, prints to its standard output and standard error, and returns its exit
/// code: 0; 2 for arguments that make no sense and for a recording that cannot be read; 1 for all other failures.
///
/// Arguments that cannot be read, `--help` too, end the process.
pub fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) if error.use_stderr() => error.exit(),
        // `--help` and `--version`: their writes are checked like all others.
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
        Some(Command::Attach(args)) => attach::run(&args),
        Some(Command::Stats(args)) => inspect::stats::run(&args),
        Some(Command::Map(args)) => inspect::map::run(&args),
        Some(Command::Leaks(args)) => inspect::leaks::run(&args),
        Some(Command::Calls(args)) => inspect::calls::run(&args),
        Some(Command::Lifetimes(args)) => inspect::lifetimes::run(&args),
        Some(Command::Diff(args)) => inspect::diff::run(&args),
        Some(Command::Export(args)) => inspect::export::run(&args),
        Some(Command::Advise(args)) => inspect::advise::run(&args),
        Some(Command::Whatif(args)) => inspect::what_if::run(&args),
        Some(Command::Alias(args)) => inspect::alias::run(&args),
        Some(Command::Report(args)) => inspect::report::run(&args),
        Some(Command::Check(args)) => inspect::check::run(&args),
        Some(Command::Profiles(args)) => profiles::run(&args),
        Some(Command::Completions(args)) => shell::completions(&args),
        Some(Command::Man(args)) => shell::man(&args),
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
    let _ = writeln!(stderr(), "allotment: {failure}");
    failure.exit_code()
}
