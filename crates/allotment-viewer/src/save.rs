//! Writing what is shown to a file: on a thread, since a long recording takes seconds.

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use allotment_egui::SharedRecording;
use allotment_trace::output::OutputFile;
use allotment_trace::recording::{Recording, Summary};
use eframe::egui::Context;

/// A file that a thread writes.
pub(crate) struct Saving {
    path: PathBuf,
    answer: Receiver<io::Result<Summary>>,
}

impl Saving {
    pub(crate) fn new(recording: SharedRecording, path: PathBuf, ctx: Context) -> Self {
        let (send, answer) = channel();
        let file = path.clone();
        std::thread::spawn(move || {
            // The window may be closed: the file is written all the same.
            let _ = send.send(save(&recording, &file));
            ctx.request_repaint();
        });
        Self { path, answer }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what has been written, or why not, once it is known.
    pub(crate) fn poll(&self) -> Option<Result<Summary, String>> {
        let failed = |error: String| format!("{} could not be written: {error}", self.path.display());
        match self.answer.try_recv() {
            Ok(answer) => Some(answer.map_err(|error| failed(error.to_string()))),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(failed("its thread has ended".to_owned()))),
        }
    }
}

/// Writes a recording. One that cannot be written whole replaces no file.
fn save(recording: &Recording, path: &Path) -> io::Result<Summary> {
    OutputFile::new(path)?.replace(|file| recording.write(BufWriter::new(file)))
}
