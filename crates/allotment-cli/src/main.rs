//! The `allotment` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    allotment_cli::main()
}
