//! Deferred destruction: when does the GPU no longer use a resource?
//!
//! ```text
//!   SubmissionTracker     which recordings are open; what each queue was given, and has completed
//!   ├── Recording         commands being recorded: opened, carried over threads and frames, submitted or dropped
//!   ├── ReleaseQueue<T>   keeps values of one type until no open recording or submission in flight can use them
//!   ├── DeletionQueue     the same for values of any type; its Owned<T> retires its value when dropped
//!   ├── Recycler<T>       a pool of reusable objects; CommandAllocatorPool is built on it
//!   └── FramesInFlight    limits how many frames the CPU may be ahead of the GPU
//! ```
//!
//! # The rule
//!
//! Its sources, its figures and what was tried: `docs/design/lifetime.md`.
//!
//! Each retired object is stamped with the tracker's clock, which advances by one with each recording that is
//! opened. The object is *sealed* once every recording that was open at that moment is submitted or discarded. It
//! then takes the last submitted value of each queue, and is destroyed when every queue has completed its value. So
//! recordings may cross frames and threads, command lists may be submitted late or never, and other threads may
//! submit at any time: an object that a pending command can use is alive. An idle queue delays nothing.
//!
//! The rule covers recordings that were open when the object was retired. A descriptor can outlive the resource it
//! references and be used by a recording that is opened later. So the owner of a descriptor owns that resource too,
//! through an `Arc`.
//!
//! # Which one?
//!
//! | you have | use |
//! |---|---|
//! | an object with a destructor, shared or not | [`DeletionQueue::own`]; drop it anywhere |
//! | a buffer or an image with its memory | `memory::OwningAllocator`, which does that |
//! | plain handles of one type, released later in a batch | [`ReleaseQueue::retire`], [`ReleaseQueue::reclaim`] |
//! | an object that only one recording uses | [`ReleaseQueue::retire_with`]: released when that submission completes, or at once if it is discarded |
//! | command pools, command allocators, command lists | [`CommandAllocatorPool`] |
//! | other reusable objects | [`Recycler`] |
//! | a recording that stays open for minutes | [`SubmissionTracker::record_explicit`], which delays only the objects it keeps |

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
mod waiting;

pub use command_allocator::{CommandAllocatorPool, PooledCommandAllocator};
pub use deletion_queue::DeletionQueue;
pub(crate) use deletion_queue::WeakDeletionQueue;
pub use frames_in_flight::FramesInFlight;
pub use owned::Owned;
pub use recording::{NotSubmitted, Recording};
pub use recycler::{Recycler, RecyclerStatistics};
pub use registry::{OpenRecording, RecordingId, RecordingStatus};
pub use release_queue::ReleaseQueue;
pub use statistics::{Reclaimed, ReleaseStatistics, TrackerStatistics};
pub use timeline_points::TimelinePoints;
pub use timelines::{ManualTimelines, Timeline, Timelines};
pub(crate) use tracker::WrongTracker;
pub use tracker::{SubmissionTracker, WrongDevice};
pub use wait_for::WaitFor;
