//! Reads what the commands inspect.
//!
//! ```text
//!   recording file ────────────────────────────────────▶ recording
//!   VMA, GFXReconstruct, PyTorch ──import──────────────▶ recording
//!   CSV trace ──replay on the simulated GPU, recorded──▶ recording
//! ```

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use allotment_analyze::Timeline;
use allotment_trace::Trace;
use allotment_trace::import::{self, ImportError, ImportErrorKind};
use allotment_trace::recording::{Damage, Extent, ReadError, Recording};

use super::args::{FileArgs, ReplayedArgs};
use crate::args::{Bytes, Chosen, Setup};
use crate::failure::Failure;
use crate::replay::{Options, Record, replay};
use crate::source::{STANDARD_INPUT, read_pipe, read_standard_input};
use crate::target::{Target, Task, on_device};

/// The error for a file of no known format. The importers' own knows neither recordings nor traces.
const NOT_READ: &str = "not a file that can be read: a recording (.altr), a JSON dump of VMA or D3D12MA, JSON lines of \
                        gfxrecon-convert, a PyTorch memory snapshot, a JSON report of gpu-allocator or wgpu, or a \
                        CSV trace";

/// A recording, and what the output calls it.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) title: String,
    pub(super) recording: Recording,
}

/// A file that is read several times, until its format is known.
#[derive(Debug)]
pub(super) struct Input {
    path: PathBuf,
    /// The bytes of what can be read once only: standard input (`-`), or a pipe.
    piped: Option<Vec<u8>>,
}

impl Input {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        if path == Path::new(STANDARD_INPUT) {
            let piped = Some(read_standard_input()?);
            return Ok(Self { path: PathBuf::from("standard input"), piped });
        }
        let is_pipe = |file: fs::Metadata| !file.is_file() && !file.is_dir();
        // What cannot be found is told when it is read.
        let piped = if fs::metadata(path).is_ok_and(is_pipe) { Some(read_pipe(path)?) } else { None };
        Ok(Self { path: path.to_owned(), piped })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it from its beginning.
    pub(super) fn reader(&self) -> io::Result<Box<dyn Read + '_>> {
        Ok(match &self.piped {
            Some(bytes) => Box::new(&**bytes),
            None => Box::new(File::open(&self.path)?),
        })
    }

    fn recording(&self) -> Result<(Recording, Option<Damage>), ReadError> {
        match &self.piped {
            Some(bytes) => Recording::read(&**bytes),
            None => Recording::open(&self.path),
        }
    }

    fn import(&self) -> Result<Recording, ImportError> {
        match &self.piped {
            Some(bytes) => import::read(&**bytes),
            None => import::open(&self.path),
        }
    }

    fn trace(&self) -> Result<Trace, Failure> {
        let trace = match &self.piped {
            Some(bytes) => Trace::read(&**bytes),
            None => Trace::open(&self.path),
        };
        trace.map_err(|error| self.failure(&error, error.path().is_some()))
    }

    /// The failure of reading it. Errors of files have the path, and those of bytes have none.
    fn failure(&self, error: &dyn core::fmt::Display, has_path: bool) -> Failure {
        Failure::Input(if has_path { error.to_string() } else { format!("{}: {error}", self.path.display()) })
    }
}

/// Loads a file.
pub(super) fn load(file: &FileArgs) -> Result<Loaded, Failure> {
    load_path(&file.path, &file.replayed)
}

/// As [`load`], where a command has two files.
pub(super) fn load_path(path: &Path, replayed: &ReplayedArgs) -> Result<Loaded, Failure> {
    // First: options that are wrong are told whether or not the file needs them.
    replayed.profile()?;
    load_input(&Input::open(path)?, replayed)
}

/// As [`load`], for a command that has looked at the file itself.
pub(super) fn load_input(input: &Input, replayed: &ReplayedArgs) -> Result<Loaded, Failure> {
    let (profile, setup) = (replayed.profile()?, replayed.setup());
    let path = input.path();
    let title = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let recording = match input.recording() {
        // The damage is in the recording as well.
        Ok((recording, _)) => recording,
        Err(ReadError::NotARecording) => match input.import() {
            Ok(recording) => recording,
            Err(error) if matches!(error.kind(), ImportErrorKind::IsTrace) => {
                on_device(Chosen::Simulated(profile), Replayed { trace: input.trace()?, setup })?
            }
            Err(error) if matches!(error.kind(), ImportErrorKind::UnknownFormat) => {
                return Err(input.failure(&NOT_READ, false));
            }
            Err(error) => return Err(input.failure(&error, error.path().is_some())),
        },
        Err(error) => return Err(input.failure(&error, false)),
    };
    Ok(Loaded { title, recording })
}

/// Fails for a dump of one moment. `what` is what it would have to say, after "it does not say".
pub(super) fn need_history(loaded: &Loaded, what: &str) -> Result<(), Failure> {
    match loaded.recording.header.extent {
        Extent::Moment => Err(Failure::Input(format!("{} {}", loaded.title, does_not_say(what)))),
        _ => Ok(()),
    }
}

/// Why a dump of one moment has no answer, after the name of the file.
pub(super) fn does_not_say(what: &str) -> String {
    format!("is a dump of one moment: it does not say {what}")
}

/// Indexes a recording.
pub(super) fn index(loaded: &Loaded) -> Timeline<'_> {
    Timeline::new(&loaded.recording)
}

/// A trace to be replayed without bytes, and recorded.
struct Replayed {
    trace: Trace,
    setup: Setup,
}

impl Task for Replayed {
    type Output = Recording;

    fn run(self, target: impl Target) -> Result<Recording, Failure> {
        let options =
            Options { bytes: Bytes::None, names: true, record: Record::Memory, ..Options::default() };
        let outcome = replay(&self.trace, target, &self.setup, options, |_| {})?;
        Ok(outcome.recording.unwrap_or_default())
    }
}
