//! The report of a running program.

use core::error::Error;
use core::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use allotment::events::AlreadySubscribed;
use allotment_trace::output::OutputFile;
use allotment_trace::{Collector, Observed};

use crate::write_report;

/// Writes a report of a running program's memory: of a [`Gpu`](allotment::Gpu) or an
/// [`Allocator`](allotment::Allocator).
pub trait WriteReport {
    /// Writes the report of this moment to a file. A file that exists is replaced once the page is whole, and stays as it is
    /// if there is an error.
    ///
    /// The page shows what exists now. To see what led to it, record the program
    /// ([`Recorder`](allotment_trace::Recorder)) and write the report of the recording.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::device::BufferDesc;
    /// # use allotment::{Gpu, GpuDesc, MemoryUsage};
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let path = std::env::temp_dir().join(format!("allotment-report-{}.html", std::process::id()));
    /// use allotment_report::WriteReport;
    ///
    /// let gpu = Gpu::new(device, GpuDesc::default())?;
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096).into(), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// gpu.write_report(&path)?; // for example when a key is pressed
    /// # assert!(std::fs::read_to_string(&path)?.starts_with("<!doctype html>"));
    /// # std::fs::remove_file(&path)?;
    /// # drop(mesh);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ReportError`], if another reader has the events, or the file cannot be written.
    fn write_report(&self, path: impl AsRef<Path>) -> Result<(), ReportError>;
}

impl<T: Observed> WriteReport for T {
    fn write_report(&self, path: impl AsRef<Path>) -> Result<(), ReportError> {
        let path = path.as_ref();
        let failed = |error| ReportError::Write { path: path.to_owned(), error };
        let output = OutputFile::new(path).map_err(failed)?;
        output.check().map_err(failed)?;
        // The collector ends here: while the page is written, the program pays for no events.
        let recording = Collector::new(self).map_err(ReportError::AlreadySubscribed)?.into_recording();
        let page = |file: &mut File| {
            let mut file = BufWriter::new(file);
            write_report(&program(), &recording, &mut file)?;
            file.flush()
        };
        output.replace(page).map_err(failed)
    }
}

/// Returns the name of the running program.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "running program".to_owned())
}

/// The error of writing the report of a running program.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReportError {
    /// Another subscription reads the events, for example a recorder. Write the report of its recording, or finish it
    /// first.
    AlreadySubscribed(AlreadySubscribed),
    /// The file cannot be written.
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadySubscribed(_) => f.write_str(
                "another reader has the events: write the report of its recording, or finish it first",
            ),
            Self::Write { path, error } => {
                write!(f, "the report {} cannot be written: {error}", path.display())
            }
        }
    }
}

impl Error for ReportError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::AlreadySubscribed(error) => Some(error),
            Self::Write { error, .. } => Some(error),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]
mod tests {
    use allotment::device::simulated::{Profile, SimulatedGpu};
    use allotment::{Gpu, GpuDesc};
    use allotment_trace::{Recorder, RingDesc};

    use super::*;

    #[test]
    fn a_report_that_is_refused_leaves_the_file_as_it_was() {
        let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
        let gpu = Gpu::new(device, GpuDesc::default()).unwrap();
        let path = std::env::temp_dir().join(format!("allotment-refused-report-{}.html", std::process::id()));
        gpu.write_report(&path).unwrap();
        let before = std::fs::read(&path).unwrap();

        let recorder = Recorder::ring(&gpu, &RingDesc::default()).unwrap();
        let error = gpu.write_report(&path).unwrap_err();
        assert!(matches!(error, ReportError::AlreadySubscribed(_)), "{error}");
        recorder.finish().unwrap();
        let recording = path.with_extension("altr");
        let recorder = Recorder::to_file(&gpu, &recording).unwrap();
        let error = gpu.write_report(&recording).unwrap_err();
        assert!(matches!(&error, ReportError::Write { path, .. } if *path == recording), "{error}");
        recorder.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), before);
        assert!(allotment_trace::recording::Recording::open(&recording).unwrap().1.is_none());
        std::fs::remove_file(path).unwrap();
        std::fs::remove_file(recording).unwrap();
    }
}
