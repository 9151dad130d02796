//! The thread that takes events out of the library and puts them into the recording.

use core::time::Duration;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Instant;

use allotment::events::{Event, EventSubscription, StackId, TextId};

use super::error::RecordError;
use super::intake::{Intake, TakesEvents};
use super::ring::Ring;
use crate::output::replace_recording;
use crate::recording::{RecordingWriter, StackFrame, Summary};

/// How long the thread waits for events before it looks for commands: at most so long, [`finish`] waits.
///
/// [`finish`]: super::Recorder::finish
const PATIENCE: Duration = Duration::from_millis(20);

/// How old events become before they are written to the file: what the sudden end of a program can cost.
const FLUSH_EVERY: Duration = Duration::from_millis(80);

/// The same where chunks cannot be written in place: each ends one, and a file has so many that its index fits.
const FLUSH_PIPE_EVERY: Duration = Duration::from_secs(1);

/// A request to the thread.
#[derive(Debug)]
pub(super) enum Command {
    Write(PathBuf, SyncSender<Result<Summary, RecordError>>),
    Finish,
}

/// Where events go.
#[derive(Debug)]
pub(super) enum Target {
    File { writer: Box<RecordingWriter<File>>, path: PathBuf, in_place: bool },
    Ring(Box<Ring>),
}

impl TakesEvents for Target {
    fn text(&mut self, text: &str) -> TextId {
        match self {
            Self::File { writer, .. } => writer.text(text),
            Self::Ring(ring) => ring.composer.text(text),
        }
    }

    fn stack(&mut self, frame: StackFrame) -> StackId {
        match self {
            Self::File { writer, .. } => writer.stack(frame),
            Self::Ring(ring) => ring.composer.stack(frame),
        }
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        match self {
            Self::File { writer, .. } => writer.event(event),
            Self::Ring(ring) => ring.composer.event(event),
        }
    }

    fn forget(&mut self) -> io::Result<bool> {
        Ok(match self {
            Self::File { .. } => false,
            Self::Ring(ring) => ring.forget(),
        })
    }
}

impl Target {
    const fn flush_every(&self) -> Duration {
        match self {
            Self::File { in_place: false, .. } => FLUSH_PIPE_EVERY,
            _ => FLUSH_EVERY,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File { writer, in_place: true, .. } => writer.flush_in_place(),
            Self::File { writer, .. } => writer.flush(),
            Self::Ring(_) => Ok(()),
        }
    }

    fn error(&self, error: io::Error) -> RecordError {
        let path = match self {
            Self::File { path, .. } => path.clone(),
            Self::Ring(_) => PathBuf::new(),
        };
        RecordError::Write { path, error }
    }

    fn finish(self) -> Result<Summary, RecordError> {
        match self {
            Self::File { writer, path, .. } => match writer.finish() {
                Ok((_, summary)) => Ok(summary),
                Err(error) => Err(RecordError::Write { path, error }),
            },
            Self::Ring(ring) => Ok(ring.summary()),
        }
    }
}

/// The thread's own.
#[derive(Debug)]
pub(super) struct Worker {
    target: Target,
    intake: Intake,
}

impl Worker {
    pub(super) fn new(target: Target) -> Self {
        Self { target, intake: Intake::default() }
    }

    /// Records until the recorder finishes, the allocator is gone, or the file cannot be written. The events end then.
    pub(super) fn run(
        mut self,
        mut events: EventSubscription,
        commands: &Receiver<Command>,
    ) -> Result<Summary, RecordError> {
        let mut flushed = Instant::now();
        loop {
            let alive = events.wait(&mut self.intake.batch, PATIENCE);
            self.record()?;
            if flushed.elapsed() >= self.target.flush_every() {
                self.target.flush().map_err(|error| self.target.error(error))?;
                flushed = Instant::now();
            }
            while let Ok(command) = commands.try_recv() {
                // What happened before the command was given is recorded before it.
                events.read(&mut self.intake.batch);
                self.record()?;
                if !self.obey(command)? {
                    return self.target.finish();
                }
            }
            if !alive {
                break;
            }
        }
        drop(events);
        // A ring can still be written when the allocator is gone; a file is whole at once.
        if let Target::Ring(_) = self.target {
            while let Ok(command) = commands.recv() {
                if !self.obey(command)? {
                    break;
                }
            }
        }
        self.target.finish()
    }

    /// Records the batch.
    fn record(&mut self) -> Result<(), RecordError> {
        self.intake.pass_on(&mut self.target).map_err(|error| self.target.error(error))
    }

    /// Does what a command says. Returns false where that is the end.
    fn obey(&mut self, command: Command) -> Result<bool, RecordError> {
        match command {
            Command::Write(path, answer) => {
                let written = match &mut self.target {
                    Target::Ring(ring) => write_ring(ring, &path),
                    Target::File { .. } => Err(RecordError::NotARing),
                };
                // No receiver is left where the time of a panic was over.
                let _ = answer.send(written);
            }
            Command::Finish => return Ok(false),
        }
        Ok(true)
    }
}

fn write_ring(ring: &mut Ring, path: &Path) -> Result<Summary, RecordError> {
    replace_recording(path, |file| ring.write(BufWriter::new(file)))
}
