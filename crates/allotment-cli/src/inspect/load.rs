//! Reads what the commands inspect.
//!
//! ```text
//!   recording file ────────────────────────────────────▶ recording
//!   VMA, GFXReconstruct, PyTorch ──import──────────────▶ recording
//!   CSV trace ──replay on the simulated GPU, recorded──▶ recording
//! ```

use std::io::{Write, stderr};
use std::path::Path;

use allotment_analyze::Timeline;
use allotment_trace::Trace;
use allotment_trace::import::{self, ImportErrorKind};
use allotment_trace::recording::{Damage, ReadError, Recording};

use super::args::{FileArgs, ReplayedArgs};
use crate::args::{Bytes, Chosen, Setup};
use crate::failure::Failure;
use crate::replay::{Options, Record, replay};
use crate::target::{Target, Task, on_device};

/// The error for a file of no known format. The importers' own knows neither recordings nor traces.
const NOT_READ: &str = "not a file that can be read: a recording (.altr), a JSON dump of VMA or D3D12MA, JSON lines of \
                        gfxrecon-convert, a PyTorch memory snapshot, or a CSV trace";

/// A recording, and what the output calls it.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) title: String,
    pub(super) recording: Recording,
}

/// Loads a file. A warning on standard error says what could not be read.
pub(super) fn load(file: &FileArgs) -> Result<Loaded, Failure> {
    load_path(&file.path, &file.replayed)
}

/// As [`load`], where a command has two files.
pub(super) fn load_path(path: &Path, replayed: &ReplayedArgs) -> Result<Loaded, Failure> {
    // First: options that are wrong are told whether or not the file needs them.
    let (profile, setup) = (replayed.profile()?, replayed.setup());
    let title = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let failure = |what: &dyn core::fmt::Display| Failure::Input(format!("{}: {what}", path.display()));
    let recording = match Recording::open(path) {
        Ok((recording, damage)) => {
            if let Some(damage) = damage {
                warn_of_damage(path, damage, recording.events.len());
            }
            recording
        }
        Err(ReadError::NotARecording) => match import::open(path) {
            Ok(recording) => recording,
            Err(error) if matches!(error.kind(), ImportErrorKind::IsTrace) => {
                let trace = Trace::open(path).map_err(|error| Failure::Input(error.to_string()))?;
                on_device(Chosen::Simulated(profile), Replayed { trace, setup })?
            }
            Err(error) if matches!(error.kind(), ImportErrorKind::UnknownFormat) => {
                return Err(failure(&NOT_READ));
            }
            Err(error) => return Err(Failure::Input(error.to_string())),
        },
        Err(error) => return Err(failure(&error)),
    };
    Ok(Loaded { title, recording })
}

/// Indexes a recording. A warning on standard error says how many events make no sense.
pub(super) fn index(loaded: &Loaded) -> Timeline<'_> {
    let timeline = Timeline::new(&loaded.recording);
    let wrong = timeline.contradiction_count();
    if let Some(first) = timeline.contradictions().first() {
        warn(format_args!("{}: {wrong} events are left out; the first: {first}", loaded.title));
    }
    timeline
}

fn warn_of_damage(path: &Path, damage: Damage, events: usize) {
    warn(format_args!("{}: {damage}; the {events} events before are used", path.display()));
}

fn warn(what: core::fmt::Arguments<'_>) {
    // Not `eprintln!`, which panics if standard error cannot be written.
    let _ = writeln!(stderr(), "allotment: warning: {what}");
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
