//! The traces to replay.

use std::path::PathBuf;

use allotment_trace::Trace;

use crate::failure::Failure;

macro_rules! built_in {
    ($($name:literal),*) => {
        [$(($name, include_bytes!(concat!("../../../../traces/", $name, ".csv.gz")).as_slice())),*]
    };
}

/// The repository's traces, built in so that the program can run on another machine without them.
const BUILT_IN: [(&str, &[u8]); 4] =
    built_in!["supertuxkart-race", "resnet50-train", "gpt2-train", "fasterrcnn-infer"];

/// A trace and its title.
pub(super) struct Source {
    pub(super) title: String,
    pub(super) trace: Trace,
}

/// Opens the traces at these paths, or the built-in ones if there are none.
pub(super) fn sources(paths: &[PathBuf]) -> Result<Vec<Source>, Failure> {
    if paths.is_empty() {
        let read = |(name, bytes)| Ok(Source { title: str::to_owned(name), trace: Trace::read(bytes)? });
        return BUILT_IN.into_iter().map(read).collect();
    }
    let open = |path: &PathBuf| {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let title = name.trim_end_matches(".gz").trim_end_matches(".csv").to_owned();
        Ok(Source { title, trace: Trace::open(path)? })
    };
    paths.iter().map(open).collect()
}
