//! Records a running program.
//!
//! ```text
//!   threads of the program ──events──▶ log (in the library) ──batches──▶ the recorder's thread ──chunks──▶ file, or ring
//! ```
//!
//! The threads of the program copy 72 bytes an event. All else, from numbering texts to writing, is the recorder's
//! thread's.

pub(crate) mod backtrace;
mod error;
mod intake;
mod observed;
mod ring;
mod settings;
mod thread;

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::io::Seek;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::{env, panic};

use allotment::events::{Marker, SubscriptionDesc};
use allotment::memory::names::Name;

use crate::output::OutputFile;
use crate::recording::{RecordingWriter, Summary, WriterDesc};
pub use error::RecordError;
pub(crate) use intake::{Intake, TakesEvents};
pub use observed::{Observed, device_header};
use ring::Ring;
pub use settings::{allocator_settings, desc_of_settings};
use thread::{Command, Target, Worker};

/// The environment variable that [`Recorder::from_env`] reads: the path of the recording.
pub const ENVIRONMENT_VARIABLE: &str = "ALLOTMENT_TRACE";

/// How long a panic waits until the ring is written.
const PANIC_PATIENCE: Duration = Duration::from_secs(10);

/// Options of a ring.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RingDesc {
    /// Bytes of host memory that the events may have. A state of more than these keeps its own size: about 30 bytes an
    /// allocation.
    pub bytes: u64,
}

impl Default for RingDesc {
    /// The last 64 MiB, about ten million events.
    fn default() -> Self {
        Self { bytes: 64 << 20 }
    }
}

impl RingDesc {
    /// Sets the bytes.
    #[must_use]
    pub const fn with_bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }
}

/// Records the events of a [`Gpu`](allotment::Gpu) or an [`Allocator`](allotment::Allocator): to a file, or to a ring in
/// memory that is written when something goes wrong.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::device::BufferDesc;
/// # use allotment::{Gpu, GpuDesc, MemoryUsage};
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let path = std::env::temp_dir().join(format!("allotment-doc-{}.altr", std::process::id()));
/// use allotment_trace::Recorder;
/// use allotment_trace::recording::{Event, Recording};
///
/// let gpu = Gpu::new(device, GpuDesc::default())?;
/// let recorder = Recorder::to_file(&gpu, &path)?; // from here on, and what there was before
///
/// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// recorder.mark("the mesh is loaded");
/// recorder.finish()?; // or drop it
///
/// let (recording, damage) = Recording::open(&path)?;
/// assert!(damage.is_none());
/// assert!(recording.events.iter().any(|event| match event {
///     Event::Allocated(allocated) => recording.text(allocated.name) == Some("mesh"),
///     _ => false,
/// }));
/// # std::fs::remove_file(&path)?;
/// # drop(mesh);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Events are in the file 100 ms after they happened at the latest, or when there are 4 KiB of them. If the program ends suddenly, the file can be read
/// up to there. Dropping the recorder finishes it, and ignores errors.
///
/// # Keeping the last events in memory
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::{Gpu, GpuDesc};
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device, GpuDesc::default())?;
/// # let path = std::env::temp_dir().join(format!("allotment-doc-ring-{}.altr", std::process::id()));
/// # fn render() -> Result<(), std::fmt::Error> { Err(std::fmt::Error) }
/// use allotment_trace::{Recorder, RingDesc};
///
/// let recorder = Recorder::ring(&gpu, &RingDesc::default())?;
/// recorder.write_on_panic("crash.altr");
/// if let Err(error) = render() {
///     eprintln!("{error}; see {}", path.display());
///     recorder.write_to(&path)?; // device loss, a frame that took too long, a key that was pressed
/// }
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Recorder {
    commands: Sender<Command>,
    marker: Marker,
    thread: Option<JoinHandle<Result<Summary, RecordError>>>,
}

impl Recorder {
    /// Records to a new file. A file that exists is replaced, once nothing can refuse any more: a recording that is begun
    /// in vain costs none that was made before. The file has its name from then on and grows, so that others can read it
    /// while it does.
    ///
    /// # Errors
    ///
    /// [`RecordError`], if the file cannot be created, another recorder writes it, or another reader has the events.
    /// Nothing has changed then.
    pub fn to_file(of: &impl Observed, path: impl AsRef<Path>) -> Result<Self, RecordError> {
        let path = path.as_ref();
        let created = OutputFile::new(path).and_then(|output| {
            let special = output.special().is_some();
            output.create().map(|created| (created, special))
        });
        let ((file, unnamed), special) = created.map_err(|error| RecordError::create(path, error))?;
        // What was written to a pipe, or at the end of a file that the program has open, cannot be written again with more
        // events.
        let in_place = !special && (&file).stream_position().is_ok();
        let begun = RecordingWriter::new(file, &of.header(), &WriterDesc::default());
        let writer = begun.map(Box::new);
        let writer = writer.map_err(|error| RecordError::Write { path: path.to_owned(), error })?;
        let mut recorder = Self::start(of, Target::File { writer, path: path.to_owned(), in_place })?;
        // Last: until here, a file that has the name is as it was.
        match unnamed.take_name() {
            Ok(()) => Ok(recorder),
            Err(error) => {
                // Its recording goes with the file, which has no name.
                let _ = recorder.end();
                Err(RecordError::create(path, error))
            }
        }
    }

    /// Records to the file that the environment variable `ALLOTMENT_TRACE` names. `None` where it is not set, or empty.
    ///
    /// # Errors
    ///
    /// Those of [`to_file`](Self::to_file).
    pub fn from_env(of: &impl Observed) -> Result<Option<Self>, RecordError> {
        let path = env::var_os(ENVIRONMENT_VARIABLE).filter(|path| !path.is_empty());
        path.map(|path| Self::to_file(of, path)).transpose()
    }

    /// Records to memory, and forgets the oldest events. [`write_to`](Self::write_to) writes them.
    ///
    /// # Errors
    ///
    /// [`RecordError`], if another reader has the events.
    pub fn ring(of: &impl Observed, desc: &RingDesc) -> Result<Self, RecordError> {
        Self::start(of, Target::Ring(Box::new(Ring::new(of.header(), desc.bytes))))
    }

    fn start(of: &impl Observed, target: Target) -> Result<Self, RecordError> {
        let events = of.subscribe(&SubscriptionDesc::default())?;
        let marker = events.marker();
        let (commands, received): (_, Receiver<Command>) = channel();
        let worker = Worker::new(target);
        let thread = Builder::new().name("allotment-recorder".to_owned());
        let thread = thread.spawn(move || worker.run(events, &received)).map_err(RecordError::Thread)?;
        Ok(Self { commands, marker, thread: Some(thread) })
    }

    /// Marks this moment in the recording, with a text of up to 4 KiB: after all that has happened until now. Does
    /// nothing once the recording has ended, or the allocator is gone.
    pub fn mark(&self, text: impl Into<Name>) {
        self.marker.mark(text);
    }

    /// Writes what the ring keeps to a file, and goes on. Waits until it is written. A file that exists is replaced once the
    /// new one is whole.
    ///
    /// Works after the allocator is gone, too.
    ///
    /// # Errors
    ///
    /// [`RecordError`], if the file cannot be written, or this recorder is no ring.
    pub fn write_to(&self, path: impl AsRef<Path>) -> Result<Summary, RecordError> {
        write(&self.commands, path.as_ref(), None)
    }

    /// Writes what the ring keeps to a file whenever a thread of the program panics, until the recorder is finished.
    ///
    /// Adds to the program's panic hook, which runs first. A panic waits for the file up to ten seconds. With
    /// `panic = "abort"` it works as well; a program that is killed does not panic.
    ///
    /// # Panics
    ///
    /// In a thread that is panicking.
    pub fn write_on_panic(&self, path: impl Into<PathBuf>) {
        let (commands, path) = (self.commands.clone(), path.into());
        let recorder = self.thread.as_ref().map(|thread| thread.thread().id());
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            before(info);
            // The recorder's own thread cannot wait for itself.
            if recorder != Some(std::thread::current().id()) {
                // A hook cannot return an error.
                let _ = write(&commands, &path, Some(PANIC_PATIENCE));
            }
        }));
    }

    /// Ends the recording: records what has happened until now, and waits until it is written. What a ring keeps is
    /// forgotten.
    ///
    /// # Errors
    ///
    /// [`RecordError::Write`], if something could not be written, now or before.
    pub fn finish(mut self) -> Result<Summary, RecordError> {
        self.end()
    }

    fn end(&mut self) -> Result<Summary, RecordError> {
        // The thread may have ended by itself.
        let _ = self.commands.send(Command::Finish);
        let ended = self.thread.take().map(JoinHandle::join);
        ended.and_then(Result::ok).unwrap_or(Err(RecordError::Ended))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // `finish` returns errors; a drop cannot.
            let _ = self.end();
        }
    }
}

/// Asks a recorder's thread to write its ring.
fn write(
    commands: &Sender<Command>,
    path: &Path,
    patience: Option<Duration>,
) -> Result<Summary, RecordError> {
    let (answer, answered) = sync_channel(1);
    commands.send(Command::Write(path.to_owned(), answer)).map_err(|_| RecordError::Ended)?;
    let answer = match patience {
        Some(patience) => answered.recv_timeout(patience),
        None => answered.recv().map_err(|_| RecvTimeoutError::Disconnected),
    };
    answer.unwrap_or(Err(RecordError::Ended))
}
