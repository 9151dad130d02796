//! When may something be used again? When the GPU is done with it, and with no rule for the application to
//! break.
//!
//! ```text
//!   SubmissionTracker     which recordings are open; what each queue was given, and has completed
//!   ├── Recording         commands on their way: opened, carried over threads and frames, submitted or dropped
//!   ├── ReleaseQueue<T>    keeps things until nothing that may use them is open or in flight
//!   ├── DeletionQueue      the same for anything at all; its Owned<T> retires by being dropped
//!   ├── Recycler<T>       hands things out again; CommandAllocatorPool is one
//!   └── FramesInFlight        at most so many frames in flight
//! ```
//!
//! # The rule
//!
//! Whoever releases something stamps it with the clock, which goes on with each recording that is opened. It
//! is sealed once every recording that was open at that moment is submitted or discarded; it then takes each
//! queue's last submission, and goes when all of these are completed. Recordings may cross frames and threads,
//! command lists may be submitted late or never, helpers may submit what they like meanwhile: what is used by
//! something that can still run is still there. A queue that has nothing to do is waited for by nobody.
//!
//! The rule knows of recordings that were open when something was released. A descriptor that outlives what it
//! points at can be used by a recording that is opened later, so whatever holds one owns what it points at, by
//! an `Arc`.
//!
//! # Which one?
//!
//! | what you have | what you use |
//! |---|---|
//! | an object with a destructor, shared or not | [`DeletionQueue::own`]; drop it where you like |
//! | a buffer or an image and its memory | `memory::OwningAllocator`, which does that |
//! | tokens of one type, given back somewhere | [`ReleaseQueue::retire`], [`ReleaseQueue::reclaim`] |
//! | something that one recording alone uses | [`ReleaseQueue::retire_with`]: goes with that submission, at once if it is discarded |
//! | command pools, allocators, lists | [`CommandAllocatorPool`] |
//! | other things that are used again | [`Recycler`] |
//! | a recording that stays open for minutes | [`SubmissionTracker::record_explicit`], which holds back nothing but what it keeps |

mod command_allocator;
mod deletion_queue;
mod frames_in_flight;
mod order;
mod orphan;
mod owned;
mod recording;
mod recycler;
mod registry;
mod release_queue;
mod shard;
mod statistics;
mod timeline_points;
mod timelines;
mod tracker;
mod wait_for;

pub use command_allocator::{CommandAllocatorPool, PooledCommandAllocator};
pub use deletion_queue::DeletionQueue;
pub use frames_in_flight::FramesInFlight;
pub use owned::Owned;
pub use recording::{Recording, Refused};
pub use recycler::{Recycler, RecyclerStatistics};
pub use registry::{OpenRecording, RecordingId, RecordingStatus};
pub use release_queue::ReleaseQueue;
pub use statistics::{Reclaimed, ReleaseStatistics};
pub use timeline_points::{MAX_QUEUES, TimelinePoints};
pub use timelines::{ManualTimelines, Progress, Timeline, Timelines};
pub use tracker::{SubmissionTracker, TooManyQueues, TrackerStatistics};
pub use wait_for::WaitFor;
