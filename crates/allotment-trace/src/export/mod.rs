//! Exports of [recordings](crate::recording): files for other tools.
//!
//! | [`Format`] | for | what it has |
//! |---|---|---|
//! | [`VmaJson`](Format::VmaJson) | `GpuMemDumpVis`, the viewer of VMA and D3D12MA | every block at one moment |
//! | [`ChromeJson`](Format::ChromeJson) | Perfetto, `chrome://tracing`, Tracy's importer | everything over time |
//! | [`FirefoxJson`](Format::FirefoxJson) | Firefox Profiler | live bytes by call site, over time |
//! | [`AllocationsCsv`](Format::AllocationsCsv) | spreadsheets, databases | a row for each allocation |
//! | [`TrafficCsv`](Format::TrafficCsv) | [`Trace::read`](crate::Trace::read), replays | requests, frees and frames |
//!
//! Exports are written while the recording is replayed: they take memory for what exists at a moment, not for what they
//! write. Events that contradict those before them change nothing, as [`State::apply`](crate::recording::State::apply)
//! says, and are left out.
//!
//! ```
//! use allotment_trace::export::{Export, Format};
//! use allotment_trace::recording::{Event, Recording};
//!
//! let recording = Recording { events: vec![Event::FrameEnd { number: 0 }], ..Recording::default() };
//! let format: Format = "traffic-csv".parse()?;
//! let mut csv = Vec::new();
//! Export::of(&recording).write(format, &mut csv)?;
//! assert_eq!(csv, b"op,id,size,alignment,kind,name\nm,,,,,\n");
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod allocations_csv;
mod chrome;
mod firefox;
mod text;
mod traffic_csv;
mod vma;

use core::fmt;
use core::str::FromStr;
use std::io::{self, Write};

use allotment::ResourceKind;
use allotment::device::MemoryTypeIndex;

use crate::recording::{Allocated, Event, Placement, Recording};

/// A format of exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// The JSON dump of VMA and D3D12MA, of the state after the last exported event. Allocations that share bytes are
    /// one range in it, named after all of them, since its viewer draws ranges one after another.
    VmaJson,
    /// Trace events as JSON, the format of `chrome://tracing`, which Perfetto reads as well.
    ChromeJson,
    /// A processed profile of Firefox Profiler.
    FirefoxJson,
    /// A table of all allocations, those that were freed first.
    AllocationsCsv,
    /// The traffic format of this crate: what the program requested.
    TrafficCsv,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 5] =
        [Self::VmaJson, Self::ChromeJson, Self::FirefoxJson, Self::AllocationsCsv, Self::TrafficCsv];

    /// Returns the name that a command line gives it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::VmaJson => "vma",
            Self::ChromeJson => "chrome",
            Self::FirefoxJson => "firefox",
            Self::AllocationsCsv => "allocations-csv",
            Self::TrafficCsv => "traffic-csv",
        }
    }

    /// Returns the usual end of the names of such files, without a dot before it.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::VmaJson | Self::ChromeJson | Self::FirefoxJson => "json",
            Self::AllocationsCsv | Self::TrafficCsv => "csv",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Self::ALL.into_iter().find(|format| format.name() == name).ok_or(UnknownFormat)
    }
}

/// No format has the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownFormat;

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such format; there are")?;
        for (i, format) in Format::ALL.into_iter().enumerate() {
            write!(f, "{} {format}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownFormat {}

/// A recording to export, or its beginning.
#[derive(Clone, Copy, Debug)]
#[must_use = "an export writes nothing by itself"]
pub struct Export<'a> {
    recording: &'a Recording,
    events: &'a [Event],
}

impl<'a> Export<'a> {
    /// Exports a whole recording.
    pub fn of(recording: &'a Recording) -> Self {
        Self { recording, events: &recording.events }
    }

    /// Exports the first `events` events only, and thereby the state after them. A recording with fewer is exported as a
    /// whole.
    pub fn up_to(self, events: u64) -> Self {
        let count = usize::try_from(events).map_or(self.events.len(), |count| count.min(self.events.len()));
        Self { events: &self.events[..count], ..self }
    }

    /// Returns the heap of a memory type; 0 where it is not known.
    fn heap_of(&self, memory_type: MemoryTypeIndex) -> u8 {
        self.recording.header.memory_types.get(memory_type.get()).map_or(0, |of| of.heap)
    }

    /// Writes the export in a format. `out` is written in small pieces: buffer it.
    ///
    /// # Errors
    ///
    /// Those of `out`; and [`InvalidData`](io::ErrorKind::InvalidData) where the format cannot express the recording:
    /// [`TrafficCsv`](Format::TrafficCsv) ends at sizes and alignments of 2^48 bytes, and at 2^64 live bytes.
    pub fn write(self, format: Format, out: &mut impl Write) -> io::Result<()> {
        match format {
            Format::VmaJson => vma::write(self, out),
            Format::ChromeJson => chrome::write(self, out),
            Format::FirefoxJson => firefox::write(self, out),
            Format::AllocationsCsv => allocations_csv::write(self, out),
            Format::TrafficCsv => traffic_csv::write(self, out),
        }
    }
}

/// Returns true where a recording has times. Without, exports that need them give each event a microsecond.
fn is_timed(events: &[Event]) -> bool {
    events.iter().any(|event| matches!(event, Event::Time { nanoseconds } if *nanoseconds > 0))
}

/// Returns true where an allocation, which is the event `index`, is the destination of a move and none of the program's.
fn is_reservation(events: &[Event], index: usize, is: &Allocated) -> bool {
    let next = events.get(index + 1);
    is.placement == Placement::Destination
        || matches!(next, Some(Event::Reserved { reservation, .. }) if *reservation == is.allocation)
}

/// Returns what exports call a kind of resource.
const fn kind_name(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::Buffer => "buffer",
        ResourceKind::LinearImage => "linear image",
        ResourceKind::OptimalImage => "optimal image",
        ResourceKind::Unknown => "unknown",
    }
}
