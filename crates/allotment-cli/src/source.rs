//! The trace that a command replays.

use std::path::Path;

use allotment_trace::Trace;

use crate::failure::Failure;
use crate::output_file::OutputFile;

/// A recorded race of SuperTuxKart, built in, so that the command has real data on every machine.
const BUILT_IN: &[u8] = include_bytes!("../assets/supertuxkart-race.csv.gz");

/// A trace and its title.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) title: String,
    pub(crate) trace: Trace,
}

impl Source {
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, Failure> {
        match path {
            None => Ok(Self { title: "supertuxkart-race".to_owned(), trace: Trace::read(BUILT_IN)? }),
            Some(path) => {
                let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
                let title = name.trim_end_matches(".gz").trim_end_matches(".csv").to_owned();
                Ok(Self { title, trace: Trace::open(path)? })
            }
        }
    }
}

/// Returns a usage error if an output file is the trace itself.
pub(crate) fn keep<'a>(
    trace: Option<&Path>,
    outputs: impl IntoIterator<Item = Option<&'a OutputFile>>,
) -> Result<(), Failure> {
    match trace {
        Some(trace) if outputs.into_iter().flatten().any(|output| output.is(trace)) => {
            Err(Failure::Usage(format!("{} is the trace and would be overwritten", trace.display())))
        }
        _ => Ok(()),
    }
}
