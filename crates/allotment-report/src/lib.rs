//! A recording as one HTML page that any browser opens and that loads nothing from elsewhere: the block map at any
//! moment, memory over time, tables, leaks, differences.
//!
//! ```
//! use allotment_report::write_report;
//! use allotment_trace::recording::Recording;
//!
//! let recording = Recording::default();
//! let mut page = Vec::new();
//! write_report("my program", &recording, &mut page)?;
//! assert!(page.starts_with(b"<!doctype html>"));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # How it works
//!
//! The page gets no list of events but what they led to: for each range of a block, which allocation had it, from when
//! and to when (`lives`). These are sorted by block and offset, so that the page finds what exists at a moment, in the
//! order in which it draws it, in one pass. They are written as columns of variable-length integers (`columns`),
//! deflated, in base64; the page (`page`, and the folder `assets`) inflates them with the browser's own
//! `DecompressionStream`. A name is never part of the HTML, so none can break the page.
//!
//! A million allocations are about 10 MB of HTML.

#![forbid(unsafe_code)]

mod calls;
mod columns;
mod lives;
mod page;
mod payload;
mod planned;
mod report;
mod running;
mod shared;
mod tables;

pub use report::write_report;
pub use running::{ReportError, WriteReport};

/// The code of the guide, compiled and run as doctests.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../docs/guide/seeing-memory.md")]
    struct SeeingMemory;
}
