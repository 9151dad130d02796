//! Opening a file: on a thread, since a large one takes seconds.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use allotment_egui::AnalyzerView;
use allotment_trace::import::{self, Format};
use allotment_trace::recording::Recording;

/// A file that was opened: what it shows, and what could not be read of it.
pub(crate) struct Opened {
    pub(crate) view: AnalyzerView,
    pub(crate) damage: Option<String>,
}

/// A file that a thread reads.
pub(crate) struct Opening {
    path: PathBuf,
    answer: Receiver<Result<Opened, String>>,
}

impl Opening {
    pub(crate) fn new(path: PathBuf, ctx: eframe::egui::Context) -> Self {
        let (send, answer) = channel();
        let file = path.clone();
        std::thread::spawn(move || {
            // No one waits any more if another file was opened meanwhile.
            let _ = send.send(open(&file));
            ctx.request_repaint();
        });
        Self { path, answer }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the answer once it is there.
    pub(crate) fn poll(&self) -> Option<Result<Opened, String>> {
        match self.answer.try_recv() {
            Ok(answer) => Some(answer),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err("the file could not be read".to_owned())),
        }
    }
}

/// Reads a file of any format and indexes it.
pub(crate) fn open(path: &Path) -> Result<Opened, String> {
    let (recording, damage) = read(path)?;
    let title = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok(Opened { view: AnalyzerView::new(title, recording), damage })
}

fn read(path: &Path) -> Result<(Recording, Option<String>), String> {
    let mut start = Vec::new();
    let head = File::open(path).and_then(|file| file.take(4096).read_to_end(&mut start));
    head.map_err(|error| format!("{}: {error}", path.display()))?;
    if import::detect(&start) == Some(Format::Recording) {
        let (recording, damage) = Recording::open(path).map_err(|error| error.to_string())?;
        return Ok((recording, damage.map(|damage| damage.to_string())));
    }
    import::open(path).map(|recording| (recording, None)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_other_tools_are_opened_and_a_trace_is_refused_with_a_reason() {
        let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
        let opened =
            open(&traces.join("supertuxkart-race.gfxr.jsonl.gz")).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(opened.view.title(), "supertuxkart-race.gfxr.jsonl.gz");
        assert!(opened.view.position() > 1000 && opened.damage.is_none());
        let error = open(&traces.join("gpt2-train.csv.gz")).err().unwrap_or_default();
        assert!(error.contains("replay"), "{error}");
        let error = open(&traces.join("no-such-file")).err().unwrap_or_default();
        assert!(error.contains("no-such-file"), "{error}");
    }
}
