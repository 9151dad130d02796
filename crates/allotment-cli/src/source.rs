//! The trace that a command replays, and standard input.

use std::io::{self, Read};
use std::path::Path;

use allotment_trace::Trace;

use crate::failure::Failure;
use crate::output_file::OutputFile;

/// A recorded race of SuperTuxKart, built in, so that the command has real data on every machine.
const BUILT_IN: &[u8] = include_bytes!("../assets/supertuxkart-race.csv.gz");

/// What a command takes for standard input, wherever it takes a file to read.
pub(crate) const STANDARD_INPUT: &str = "-";

/// Reads standard input to its end. It can be read once: of two files, one may be it.
pub(crate) fn read_standard_input() -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut bytes);
    read.map_err(|error| Failure::Input(format!("standard input: {error}")))?;
    if bytes.is_empty() {
        let text = "standard input is empty, or was read before: of two files, one may be `-`";
        return Err(Failure::Input(text.to_owned()));
    }
    Ok(bytes)
}

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
            Some(path) if path == Path::new(STANDARD_INPUT) => {
                let trace = Trace::read(read_standard_input()?.as_slice());
                let trace = trace.map_err(|error| Failure::Input(format!("standard input: {error}")))?;
                Ok(Self { title: "standard input".to_owned(), trace })
            }
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
