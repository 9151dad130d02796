//! One event of a trace.

use crate::resource::ResourceIndex;

/// An event and its line. 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// The line of the uncompressed text with this event. The header is line 1.
    pub line: u64,
    /// The operation.
    pub op: Op,
}

/// The operation of an event.
///
/// Not `#[non_exhaustive]`: a replayer that ignores a kind of event replays another program, so a new kind must
/// break its `match`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// The resource was bound to memory. Occurs exactly once for each resource of a trace, in the order of their
    /// indices.
    Allocate(ResourceIndex),
    /// The live resource was destroyed. Occurs at most once for each resource.
    Free(ResourceIndex),
    /// A frame ended (present).
    FrameEnd,
}
