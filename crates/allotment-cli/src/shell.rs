//! `allotment completions` and `allotment man`: what a shell and `man` want to know of this command.

use std::io::{Write as _, stdout};

use clap::CommandFactory as _;

use crate::args::{Args, CompletionsArgs, ManArgs};
use crate::failure::Failure;
use crate::output;

pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    // In memory first: the generator panics where a write fails.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "allotment", &mut script);
    output::check(|| stdout().write_all(&script));
    Ok(())
}

pub(crate) fn man(args: &ManArgs) -> Result<(), Failure> {
    let mut command = Args::command();
    // So that the commands have their full names, "allotment-report", as `man` calls them.
    command.build();
    if let Some(name) = &args.command {
        let Some(found) = command.find_subcommand(name) else {
            return Err(Failure::Usage(format!("there is no command {name}; `allotment --help` lists them")));
        };
        command = found.clone();
    }
    let page = clap_mangen::Man::new(command);
    output::check(|| page.render(&mut stdout()));
    Ok(())
}
