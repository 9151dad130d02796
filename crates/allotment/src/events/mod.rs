//! What happens inside, as events: each change of state of the allocator and of what works with it.
//!
//! A program attaches a reader at any time ([`Gpu::subscribe`](crate::Gpu::subscribe),
//! [`Allocator::subscribe`](crate::Allocator::subscribe)). The reader gets the whole state first, as events too, and then
//! each change in its order. Without a reader, a change costs one branch.
//!
//! ```
//! # use allotment::device::simulated::{Profile, SimulatedGpu};
//! # use allotment::prelude::*;
//! # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
//! use allotment::events::{Event, EventBatch, SubscriptionDesc};
//!
//! let gpu = Gpu::new(device, GpuDesc::default())?;
//! let mut events = gpu.subscribe(&SubscriptionDesc::default())?;
//! let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
//!
//! let mut batch = EventBatch::new();
//! events.read(&mut batch); // now and then, for example once a frame
//! let mut names = Vec::new();
//! for event in batch.events() {
//!     if let Event::Allocated(allocated) = event {
//!         println!("{:?}: {} bytes", batch.text(allocated.name), allocated.requested);
//!         names.extend(batch.text(allocated.name));
//!     }
//! }
//! assert_eq!(names, ["mesh"]);
//!
//! // There is one reader at a time.
//! assert!(gpu.subscribe(&SubscriptionDesc::default()).is_err());
//! drop(events);
//! assert!(gpu.subscribe(&SubscriptionDesc::default()).is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # One reader at a time
//!
//! A second reader gets [`AlreadySubscribed`]. Most programs need no subscription of their own, since these are built on
//! one, and each counts as the reader while it works:
//!
//! | | of the crate | |
//! |---|---|---|
//! | `Recorder` | `allotment-trace` | writes the events to a file |
//! | `Collector` | `allotment-trace` | keeps the events in memory |
//! | `write_report` of a `Gpu` or an `Allocator` | `allotment-report` | reads the state and ends its subscription; while a recorder runs, write the report of its recording instead |
//!
//! # Ids and sizes
//!
//! Ids are unique among what exists at a moment, and used again later; sizes and offsets are in bytes.
//!
//! Not to be confused with the messages of the feature `tracing`, which are texts.

mod batch;
mod codes;
mod event;
mod kind;
mod lane;
mod log;
mod order;
mod packed;
mod parts;
mod subscription;

pub use batch::EventBatch;
pub use codes::{
    BlockKind, DeletionQueueKind, DescriptorKind, Placement, RefusalReason, RingKind, StallKind,
};
pub use event::{
    Allocated, AllocationKey, BlockId, BoundResource, Event, ObjectId, PoolId, RefusedRequest,
    RequestedOptions, StackId, TextId,
};
pub use kind::EventKind;
pub(crate) use lane::EventLane;
pub(crate) use log::{Announcement, EventLog, EventSource};
pub(crate) use parts::{Announces, Parts, lock_to_announce};
pub use subscription::{AlreadySubscribed, EventSubscription, Marker, SubscriptionDesc};
