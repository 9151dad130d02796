//! Imports what other tools record as a [`Recording`].
//!
//! | format | from | what it has |
//! |---|---|---|
//! | [GFXReconstruct JSON lines](Format::GfxReconstruct) | `gfxrecon-convert --format jsonl` of any captured program of Vulkan or Direct3D 12 | every memory object or heap, resource, frame and submission |
//! | [JSON dump](Format::MemoryDump) | `vmaBuildStatsString` of VMA 2 and 3, D3D12MA's `BuildStatsString`, [`Reports::dump_json`](allotment::memory::reports::Reports::dump_json); of a virtual block too | one moment: pools, blocks, allocations, budgets |
//! | [PyTorch memory snapshot](Format::PyTorch) | `torch.cuda.memory._dump_snapshot` | the final state, and the events before it that its ring kept |
//! | [report](Format::AllocatorReport) | gpu-allocator's `generate_report`, wgpu's `generate_allocator_report`, written as JSON by [a few lines](#reports-of-gpu-allocator-and-wgpu) | one moment: blocks, allocations |
//!
//! Each may be gzip-compressed; dumps may be in UTF-8, in UTF-16 as D3D12MA writes them, or have names in Latin-1. Other
//! formats are recognised and answered with an error that says what to do: CSV traces, which have requests and no offsets
//! and must be [replayed](crate::Trace), recordings themselves, and [files of other tools](Foreign).
//!
//! ```
//! use allotment_trace::import;
//! use allotment_trace::recording::State;
//!
//! let line = r#"{"vkFunc":{"name":"vkAllocateMemory","return":"VK_SUCCESS","args":{
//!     "pAllocateInfo":{"allocationSize":65536,"memoryTypeIndex":0},"pMemory":7}}}"#;
//! let recording = import::read(line.replace('\n', " ").as_bytes())?;
//! let mut state = State::default();
//! for event in &recording.events {
//!     state.apply(event)?;
//! }
//! assert_eq!(state.blocks.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is kept of a file that contradicts itself?
//!
//! Files of real programs do: a game binds beyond its memory, a ring of events lost one. An event that cannot be
//! applied is left out, and a [`Mark`](allotment::events::Event::Mark) at its place says so; what is imported always
//! applies to a [`State`](crate::recording::State). What was left out, not understood or read in another way than it is
//! written is in [`Recording::unread`]: keys, types, flags and calls that are not known, and sums that the file states of
//! itself and that differ from what was read. A file whose *form* is wrong is an error, with the line or byte; the broken
//! JSON that VMA 2.0 and 3.0.0 write is mended, and told.
//!
//! # Reports of gpu-allocator and wgpu
//!
//! Both give a program a structure, and no file. This writes it, with the crate `serde_json`; of wgpu, `"wgpu"` is the key, and
//! `total_reserved_bytes` the sum of the blocks:
//!
//! ```ignore
//! let report = allocator.generate_report();
//! let blocks = report.blocks.iter().map(|block| {
//!     json!({ "size": block.size, "allocations": [block.allocations.start, block.allocations.end] })
//! });
//! let allocations = report.allocations.iter().map(|allocation| {
//!     json!({ "name": allocation.name, "offset": allocation.offset, "size": allocation.size })
//! });
//! let text = json!({ "gpu-allocator": {
//!     "total_allocated_bytes": report.total_allocated_bytes,
//!     "total_capacity_bytes": report.total_capacity_bytes,
//!     "blocks": blocks.collect::<Vec<_>>(),
//!     "allocations": allocations.collect::<Vec<_>>(),
//! } });
//! std::fs::write("report.json", text.to_string())?;
//! ```
//!
//! # Hostile files
//!
//! No file makes an importer panic, recurse without bound, or use more memory or time than [`Limits`] say.

mod builder;
mod d3d12_heaps;
mod error;
mod foreign;
mod gfxr;
mod json;
mod limits;
mod pytorch;
mod reports;
mod source;
mod text;
mod vma;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use error::{ImportError, ImportErrorKind, Position};
pub use foreign::Foreign;
use limits::Budget;
pub use limits::Limits;

use crate::fields::HEADER;
use crate::recording::Recording;
use source::Source;

/// A format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// A recording of this library. No importer reads it.
    Recording,
    /// A CSV [trace](crate::Trace). No importer reads it: it must be replayed.
    Trace,
    /// GFXReconstruct calls, one JSON object a line.
    GfxReconstruct,
    /// GFXReconstruct calls as one JSON document, which is not read.
    GfxReconstructDocument,
    /// A JSON dump of VMA, D3D12MA or this library.
    MemoryDump,
    /// A PyTorch memory snapshot.
    PyTorch,
    /// A report of gpu-allocator or wgpu, as JSON.
    AllocatorReport,
    /// A file of a tool that no importer reads.
    Foreign(Foreign),
}

/// Returns the format of a file by its first bytes, uncompressed; some 4 KiB are enough. `None` where no format begins
/// so.
#[must_use]
pub fn detect(start: &[u8]) -> Option<Format> {
    if start.starts_with(&crate::file::MAGIC) {
        return Some(Format::Recording);
    }
    // A pickle of protocol 2 or newer begins with the instruction PROTO.
    if let [0x80, 2..=5, ..] = start {
        return Some(Format::PyTorch);
    }
    if let Some(found) = Foreign::detect(start) {
        return Some(Format::Foreign(found));
    }
    // D3D12MA's strings are UTF-16.
    let decoded;
    let start = if text::is_utf16(start) {
        decoded = start.iter().copied().filter(|byte| byte.is_ascii() && *byte != 0).collect::<Vec<u8>>();
        &decoded
    } else {
        start
    };
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
    if start.starts_with(HEADER.as_bytes()) {
        return Some(Format::Trace);
    }
    let has = |text: &str| start.windows(text.len()).any(|window| window == text.as_bytes());
    let is_gfxr =
        ["gfxrecon-version", "vkFunc", "function", "method"].iter().any(|key| has(&format!("\"{key}\"")));
    match start.first()? {
        b'[' if is_gfxr => Some(Format::GfxReconstructDocument),
        b'{' if is_gfxr => Some(Format::GfxReconstruct),
        b'{' if is_report(start) => Some(Format::AllocatorReport),
        b'{' if has("\"traceEvents\"") => Some(Format::Foreign(Foreign::ChromeTrace)),
        // VMA 3 and D3D12MA begin with `General`, VMA 2 with `Total`, and virtual blocks with `Stats`.
        b'{' if ["General", "MemoryInfo", "DefaultPools", "Total", "Stats"]
            .iter()
            .any(|key| has(&format!("\"{key}\""))) =>
        {
            Some(Format::MemoryDump)
        }
        _ => None,
    }
}

/// Returns true for an object whose first key is the name of a library that has reports.
fn is_report(start: &[u8]) -> bool {
    let key = start.get(1..).unwrap_or_default().trim_ascii_start();
    let key = key.strip_prefix(b"\"").and_then(|key| key.split(|&byte| byte == b'"').next());
    reports::NAMES.iter().any(|(name, _)| key == Some(name.as_bytes()))
}

/// Imports a file, plain or gzip-compressed, with the default [`Limits`].
///
/// # Errors
///
/// [`ImportError`] with the path, if the file cannot be read, is of no known format, or is damaged.
pub fn open(path: impl AsRef<Path>) -> Result<Recording, ImportError> {
    let path = path.as_ref();
    let file =
        File::open(path).map_err(|error| ImportError::new(None, ImportErrorKind::Io(error)).at(path))?;
    read(file).map_err(|error| match (error.kind(), Foreign::of_name(path)) {
        (ImportErrorKind::UnknownFormat, Some(found)) => {
            ImportError::new(None, ImportErrorKind::Foreign(found)).at(path)
        }
        _ => error.at(path),
    })
}

/// Imports bytes, plain or gzip-compressed, with the default [`Limits`].
///
/// # Errors
///
/// [`ImportError`], as [`open`].
pub fn read(source: impl Read) -> Result<Recording, ImportError> {
    read_within(source, &Limits::default())
}

/// Imports bytes, plain or gzip-compressed.
///
/// # Errors
///
/// [`ImportError`], as [`open`], and where a limit is exceeded.
pub fn read_within(mut source: impl Read, limits: &Limits) -> Result<Recording, ImportError> {
    let whole = |kind| ImportError::new(None, kind);
    let budget = Budget::new(limits);
    let mut source = Source::new(&mut source, &budget).map_err(whole)?;
    let start = source.start();
    if start.is_empty() {
        return Err(whole(ImportErrorKind::Empty));
    }
    match detect(start) {
        Some(Format::GfxReconstruct) => gfxr::read(&mut source, &budget),
        Some(Format::MemoryDump) => vma::read(&mut source, &budget),
        Some(Format::PyTorch) => pytorch::read(&mut source, &budget),
        Some(Format::AllocatorReport) => reports::read(&mut source, &budget),
        Some(Format::Trace) => Err(whole(ImportErrorKind::IsTrace)),
        Some(Format::Recording) => Err(whole(ImportErrorKind::IsRecording)),
        Some(Format::GfxReconstructDocument) => Err(whole(ImportErrorKind::GfxrNotLines)),
        Some(Format::Foreign(found)) => Err(whole(ImportErrorKind::Foreign(found))),
        None if text::is_utf16(start) => Err(whole(ImportErrorKind::Utf16)),
        None => Err(whole(ImportErrorKind::UnknownFormat)),
    }
}
