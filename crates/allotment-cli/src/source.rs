//! The trace that a command replays, and standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use allotment_trace::Trace;

use crate::failure::Failure;
use crate::output_file::OutputFile;

/// A recorded race of SuperTuxKart, built in, so that the command has real data on every machine.
const BUILT_IN: &[u8] = include_bytes!("../assets/supertuxkart-race.csv.gz");

/// What a command takes for standard input, wherever it takes a file to read.
pub(crate) const STANDARD_INPUT: &str = "-";

/// The most bytes of what can be read once only, and is kept whole until its format is known: 4 GiB, twice the largest
/// document that an importer takes.
const MOST_PIPED: u64 = 4 << 30;

/// Reads a pipe to its end. `name` is what an error calls it.
pub(crate) fn read_piped(pipe: impl Read, name: &str, most: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = pipe.take(most.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| Failure::Input(format!("{name}: {error}")))?;
    if bytes.len() as u64 > most {
        let text = format!("{name}: more than {most} bytes, which are kept in memory; write them to a file");
        return Err(Failure::Input(text));
    }
    Ok(bytes)
}

/// Reads a file that is no regular one: a pipe, or a device.
pub(crate) fn read_pipe(path: &Path) -> Result<Vec<u8>, Failure> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| Failure::Input(format!("{name}: {error}")))?;
    read_piped(file, &name, MOST_PIPED)
}

/// Reads standard input to its end. It can be read once: of two files, one may be it.
pub(crate) fn read_standard_input() -> Result<Vec<u8>, Failure> {
    let bytes = read_piped(io::stdin().lock(), "standard input", MOST_PIPED)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_without_an_end_is_refused_and_not_kept() {
        let error = read_piped(io::repeat(1), "pipe", 1000).unwrap_err().to_string();
        assert!(error.contains("pipe: more than 1000 bytes"), "{error}");
        assert_eq!(read_piped(&[1; 1000][..], "pipe", 1000).unwrap(), [1; 1000]);
    }
}
