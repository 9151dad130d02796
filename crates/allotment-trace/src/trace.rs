//! A whole CSV trace in memory.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::{TraceError, TraceErrorKind};
use crate::event::Event;
use crate::reader;
use crate::resource::{Resource, ResourceIndex};
use crate::text::MAX_TEXT_BYTES;

/// The requests of a program: a complete, checked CSV trace.
///
/// ```text
///  events     Allocate(0)  Allocate(1)  FrameEnd  Free(0)  Allocate(2)  …
///                  │            │                    │          │
///  resources      [0]          [1]                  [0]        [2]      …   in the order of allocation
/// ```
///
/// Invariants of every trace:
///
/// - the n-th `Allocate` carries index n, and there are as many as there are resources;
/// - `Free` carries the index of a resource that was allocated before and not freed since;
/// - sizes and alignments are in the ranges that [`Resource`] states, and at no moment do the live sizes
///   add up to more than a `u64` holds;
/// - the lines of the events are in increasing order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    pub(crate) resources: Vec<Resource>,
    pub(crate) events: Vec<Event>,
    /// In increasing order; exactly the resources that no event frees.
    pub(crate) live_at_end: Vec<ResourceIndex>,
    pub(crate) frames: usize,
    pub(crate) peak_live_bytes: u64,
}

impl Trace {
    /// Reads a trace from a file, plain or gzip-compressed. The first two bytes tell which, not the name.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is not a trace; see [`TraceErrorKind`]. The error has the path.
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

    /// Reads a trace from a source of bytes, plain or gzip-compressed, up to its end.
    ///
    /// The source need not be buffered.
    ///
    /// # Errors
    ///
    /// If the source fails, or does not contain a trace; see [`TraceErrorKind`].
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

    /// Returns the events, in order.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns every allocated resource, in the order of allocation.
    #[must_use]
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// Returns the resource that an event of this trace refers to.
    ///
    /// # Panics
    ///
    /// Panics if the index belongs to another trace with more resources than this one.
    #[must_use]
    pub fn resource(&self, index: ResourceIndex) -> &Resource {
        &self.resources[index.as_usize()]
    }

    /// Returns the number of resources. Equals [`allocations`](Self::allocations).
    #[must_use]
    pub fn resource_count(&self) -> usize {
        self.resources.len()
    }

    /// Returns how many times a resource was bound to memory.
    #[must_use]
    pub fn allocations(&self) -> usize {
        self.resources.len()
    }

    /// Returns how many resources were destroyed.
    #[must_use]
    pub fn frees(&self) -> usize {
        self.resources.len() - self.live_at_end.len()
    }

    /// Returns how many frames ended. 0 for programs without frames.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Returns the largest sum of the sizes of simultaneously live resources, in bytes. No allocator can replay the
    /// trace in less memory.
    #[must_use]
    pub fn peak_live_bytes(&self) -> u64 {
        self.peak_live_bytes
    }

    /// Returns the resources that were never freed, in the order of allocation.
    #[must_use]
    pub fn live_at_end(&self) -> &[ResourceIndex] {
        &self.live_at_end
    }
}
