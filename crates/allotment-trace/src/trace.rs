//! A whole trace in memory.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::{TraceError, TraceErrorKind};
use crate::event::Event;
use crate::reader;
use crate::resource::{Resource, ResourceIndex};
use crate::text::MAX_TEXT_BYTES;

/// A recording that was read whole and checked.
///
/// ```text
///  events     Allocate(0)  Allocate(1)  FrameEnd  Free(0)  Allocate(2)  …
///                  │            │                    │          │
///  resources      [0]          [1]                  [0]        [2]      …   in the order of allocation
/// ```
///
/// What holds for every trace, whatever it was read from:
///
/// - the n-th `Allocate` carries index n, and there are as many as there are resources;
/// - `Free` carries the index of a resource that was allocated before and not freed since;
/// - sizes and alignments are in the ranges that [`Resource`] states, and at no moment do the live sizes
///   add up to more than a `u64` holds;
/// - the lines of the events rise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    pub(crate) resources: Vec<Resource>,
    pub(crate) events: Vec<Event>,
    /// Rising; exactly the resources that no event frees.
    pub(crate) live_at_end: Vec<ResourceIndex>,
    pub(crate) frames: usize,
    pub(crate) peak_live_bytes: u64,
}

impl Trace {
    /// Reads a trace from a file, plain or gzip-compressed. Which of the two it is, is told by the first
    /// two bytes and not by the name.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or when it is not a trace; see [`TraceErrorKind`]. The error knows
    /// the path.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use allotment_trace::Trace;
    ///
    /// let trace = Trace::open("traces/supertuxkart-race.csv.gz")?;
    /// println!("{} frames, at most {} bytes live", trace.frames(), trace.peak_live_bytes());
    /// # Ok::<(), allotment_trace::TraceError>(())
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let path = path.as_ref();
        File::open(path)
            .map_err(|error| TraceError::new(None, TraceErrorKind::Io(error)))
            .and_then(Self::read)
            .map_err(|error| error.at(path))
    }

    /// Reads a trace from anything that yields bytes, plain or gzip-compressed, up to its end.
    ///
    /// The source needs no buffer of its own.
    ///
    /// # Errors
    ///
    /// When the source fails, or when it does not yield a trace; see [`TraceErrorKind`].
    ///
    /// # Examples
    ///
    /// ```
    /// use allotment_trace::Trace;
    ///
    /// let csv = "op,id,size,alignment,kind,name\na,0,64,16,buffer,\nm,,,,,\n";
    /// let trace = Trace::read(csv.as_bytes())?;
    /// assert_eq!((trace.allocations(), trace.frames()), (1, 1));
    /// # Ok::<(), allotment_trace::TraceError>(())
    /// ```
    pub fn read(mut source: impl Read) -> Result<Self, TraceError> {
        reader::read(&mut source, MAX_TEXT_BYTES)
    }

    /// What happened, in order.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Every resource that was allocated, in the order of allocation.
    #[must_use]
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// The resource an event of this trace points at.
    ///
    /// # Panics
    ///
    /// If the index comes from another trace with more resources than this one.
    #[must_use]
    pub fn resource(&self, index: ResourceIndex) -> &Resource {
        &self.resources[index.as_usize()]
    }

    /// How many resources there are. Equals [`allocations`](Self::allocations).
    #[must_use]
    pub fn resource_count(&self) -> usize {
        self.resources.len()
    }

    /// How many times a resource was bound to memory.
    #[must_use]
    pub fn allocations(&self) -> usize {
        self.resources.len()
    }

    /// How many resources were destroyed.
    #[must_use]
    pub fn frees(&self) -> usize {
        self.resources.len() - self.live_at_end.len()
    }

    /// How many frames ended. 0 for programs without frames.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// The largest sum of the sizes of the resources live at one moment, in bytes. No allocator can
    /// replay the trace in less memory.
    #[must_use]
    pub fn peak_live_bytes(&self) -> u64 {
        self.peak_live_bytes
    }

    /// The resources that were never freed, in the order of allocation.
    #[must_use]
    pub fn live_at_end(&self) -> &[ResourceIndex] {
        &self.live_at_end
    }
}
