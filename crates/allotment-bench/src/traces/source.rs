//! The traces to replay.

use std::path::{Path, PathBuf};

use allotment_trace::Trace;

use super::generated::Traffic;
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

/// Generates a trace of each seed and each kind with `only` in its name; writes them as well, if there is a directory for them.
pub(super) fn generated_sources(
    seeds: &[u64],
    only: &str,
    directory: Option<&Path>,
) -> Result<Vec<Source>, Failure> {
    let mut sources = Vec::new();
    for kind in Traffic::ALL.into_iter().filter(|kind| kind.name().contains(only)) {
        for &seed in seeds {
            let title = format!("{}-{seed}", kind.name());
            if let Some(directory) = directory {
                let path = directory.join(&title).with_extension("csv");
                std::fs::write(&path, kind.text(seed)).map_err(|error| Failure::Write { path, error })?;
            }
            sources.push(Source { title, trace: kind.trace(seed) });
        }
    }
    Ok(sources)
}
