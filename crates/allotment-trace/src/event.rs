//! One event of a trace.

use crate::resource::ResourceIndex;

/// Something that happened, and the line that says so. 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// The line of the uncompressed text this event was read from. The header is line 1.
    pub line: u64,
    /// What happened.
    pub op: Op,
}

/// What happened to a resource, or to time.
///
/// Not `#[non_exhaustive]`: a replayer that overlooks a kind of event replays something else, so a new
/// one has to break its `match`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// The resource was bound to memory. Happens exactly once to each resource of a trace, in the order
    /// of their indices.
    Allocate(ResourceIndex),
    /// The resource, which is live, was destroyed. Happens at most once to each resource.
    Free(ResourceIndex),
    /// A frame ended (present).
    FrameEnd,
}
