//! A file with a line of JSON for each run, which only grows.
//!
//! A line is written by one call, to a file that is opened to append: runs at the same time do not mix theirs on a local file
//! system, and nothing that is there changes. A line that was cut stays as it is, and the next begins behind it.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write, stderr};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use allotment_analyze::{Cursor, Figures, Grouping, Leaks, Need, Peaks, Scope, Timeline};
use allotment_trace::output::OutputFile;
use serde::Serialize;
use serde_json::Value;

use super::rule::Rule;
use crate::failure::Failure;
use crate::inspect::args::TrendArgs;
use crate::units::count;

/// A file of lines, which was found readable, and to be one.
pub(super) struct Trend {
    path: PathBuf,
    file: OutputFile,
}

/// Keys that each line has. Files of other programs have lines of JSON as well.
const KEYS: [&str; 3] = ["time", "ok", "peak_blocks"];

impl Trend {
    /// Looks at the lines that are there. Those that are damaged are told; a file that has nothing but such is another kind of
    /// file, and is refused.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let failed = |error| Failure::write(path, error);
        let bytes = match File::open(path) {
            // What is no file, such as a pipe, cannot be looked at without taking from it.
            Ok(file) if !file.metadata().map_err(failed)?.is_file() => Vec::new(),
            Ok(mut file) => {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).map_err(failed)?;
                bytes
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(error)),
        };
        let (mut whole, mut damaged) = (0, Vec::new());
        for (number, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            match serde_json::from_slice(line) {
                Ok(Value::Object(line)) if KEYS.iter().all(|key| line.contains_key(*key)) => whole += 1,
                _ => damaged.push(number + 1),
            }
        }
        if whole == 0 && !damaged.is_empty() {
            let text = format!(
                "{} has no line that --trend wrote: it is another file, and stays as it is",
                path.display()
            );
            return Err(Failure::Usage(text));
        }
        if let Some(first) = damaged.first() {
            let others = match damaged.len() - 1 {
                0 => String::new(),
                others => format!(", as {} others", count(others as u64)),
            };
            // Not `eprintln!`, which panics if standard error cannot be written.
            let _ = writeln!(
                stderr(),
                "allotment: {}: line {first} is damaged{others}, and stays as it is",
                path.display()
            );
        }
        Ok(Self { path: path.to_owned(), file: OutputFile::new(path).map_err(failed)? })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether both are the same file.
    pub(super) fn is(&self, other: &Path) -> bool {
        self.file.is(other)
    }

    /// Appends a line.
    pub(super) fn append(&self, line: &TrendLine<'_>) -> Result<(), Failure> {
        let text = format!("{}\n", serde_json::to_string(line)?);
        self.append_text(text).map_err(|error| Failure::write(&self.path, error))
    }

    /// Returns true if the file is empty, or its last line is whole.
    fn ends_with_a_line(&self) -> io::Result<bool> {
        let mut file = File::open(&self.path)?;
        if file.metadata()?.len() == 0 {
            return Ok(true);
        }
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        Ok(last == *b"\n")
    }

    fn append_text(&self, mut text: String) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(&self.path)?;
        let is_file = file.metadata()?.is_file();
        // Looked at now: another run may have written since.
        if is_file && !self.ends_with_a_line()? {
            text.insert(0, '\n');
        }
        file.write_all(text.as_bytes())?;
        if is_file { file.sync_data() } else { Ok(()) }
    }
}

/// A line. The keys are stable: `docs/guide/the-command.md` lists them.
#[derive(Serialize)]
pub(super) struct TrendLine<'a> {
    /// Seconds since 1970, UTC.
    time: u64,
    commit: Option<&'a str>,
    label: Option<&'a str>,
    file: &'a str,
    ok: bool,
    failed: BTreeSet<&'static str>,
    unread: u64,
    frames: u64,
    /// A dump of one moment has no peak, and does not say what leaks.
    peak_blocks: Option<u64>,
    peak_used: Option<u64>,
    peak_requested: Option<u64>,
    allocations: u64,
    allocations_per_frame: Option<f64>,
    leaks: Option<u64>,
    leaked_bytes: Option<u64>,
    end_blocks: u64,
    end_fragmentation: f64,
}

impl<'a> TrendLine<'a> {
    pub(super) fn new(args: &'a TrendArgs, file: &'a str, timeline: &Timeline<'_>, rules: &[Rule]) -> Self {
        let end = Cursor::at(timeline, timeline.end());
        let (peaks, leaks) = (Peaks::of(timeline, Scope::All), Leaks::at(&end, Grouping::CallSite));
        let figures = Figures::of_all(&end);
        let need = Need::of(timeline);
        let of_history = |number: u64| timeline.has_history().then_some(number);
        let failed: BTreeSet<_> = rules.iter().filter(|rule| !rule.ok).map(|rule| rule.rule).collect();
        Self {
            // A clock before 1970 is no clock.
            time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            commit: args.commit.as_deref(),
            label: args.label.as_deref(),
            file,
            ok: failed.is_empty(),
            failed,
            unread: timeline.unread().iter().fold(0, |sum, it| sum.saturating_add(it.count.max(1))),
            frames: timeline.frame_count(),
            peak_blocks: of_history(peaks.blocks.bytes),
            peak_used: of_history(peaks.used.bytes),
            peak_requested: of_history(need.peak.bytes),
            allocations: need.allocations,
            allocations_per_frame: need.per_frame,
            leaks: of_history(leaks.count),
            leaked_bytes: of_history(leaks.bytes),
            end_blocks: figures.bytes.size,
            end_fragmentation: figures.fragmentation(),
        }
    }
}
