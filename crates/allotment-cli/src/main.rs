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
//!   info/        what a device has, and what would be chosen for each intent
//!   profiles     the machines that the simulated device can be
//!   output       standard output that may end early
//! ```

#[macro_use]
mod output;

mod args;
mod compare;
mod defragment;
mod failure;
mod info;
mod profiles;
mod replay;
mod report;
mod source;
mod summary;
mod target;
mod units;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command, ReplayArgs};

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match args.command {
        None => summary::run(&ReplayArgs::default()),
        Some(Command::Replay(args)) => summary::run(&args),
        Some(Command::Compare(args)) => compare::run(&args),
        Some(Command::Defragment(args)) => defragment::run(&args),
        Some(Command::Info(args)) => info::run(&args),
        Some(Command::Profiles(args)) => profiles::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("allotment: {failure}");
            failure.exit_code()
        }
    }
}
