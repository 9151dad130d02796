//! Transient resources: those of one frame, which share memory with others that are not alive at the same time.
//!
//! ```text
//!   passes     the passes of a frame, and which of them may run at the same time
//!   planner    TransientPlanner: what a program describes, and when it is planned anew
//!   planning   from passes and uses to offsets, and to waits
//!   plan       TransientPlan: what the planner found
//!   follow     whom each resource follows
//!   error      what it refuses
//! ```
//!
//! A frame graph's render targets live for a few passes each. Placed one after another they take several times the memory that is
//! alive at any moment. [`TransientPlanner`] gives each an offset such that no two overlap that may be in use at the same time, on
//! one queue or on several, and says how far the result is from the least that is possible.
//!
//! A planner knows sizes alone, and no device. [`TransientHeap`](crate::gpu::TransientHeap), which
//! [`Gpu::transient_heap`](crate::Gpu::transient_heap) returns, has one, and creates the buffers and images that a frame describes
//! where the planner puts them. Use a planner by itself where an engine creates its resources itself.

mod error;
mod follow;
mod passes;
mod plan;
mod planner;
mod planning;

pub use error::TransientError;
pub use plan::{Follow, FrameWait, Placement, PlannedHeap, TransientPlan};
pub use planner::{HeapLimits, TransientDesc, TransientPass, TransientPlanner, TransientResource};
