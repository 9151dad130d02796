//! Relocation of buffers and images: created again in a new place, copied by a queue, and exchanged.
//!
//! | file | what it is |
//! |---|---|
//! | `accept.rs` | moves of mapped buffers, which their owners accept |
//! | `create.rs` | creates relocatable buffers and images |
//! | `cell.rs` | a relocatable resource, whose handle changes when it is moved |
//! | `defragmenter.rs` | the relocatable resources of an allocator |
//! | `passes.rs` | the passes of a step, of one run after the other; `rest.rs`: when the pools are surveyed again |
//! | `step.rs` | a pass: creates the new resources, submits the copies, replaces old by new |
//! | `making_room.rs` | resources that get their room by moving others |
//! | `new_resource.rs` | resources in their new places, until they replace the old ones |
//! | `follow.rs` | the descriptor heaps that have descriptors of relocatable resources, and follow their moves |

mod accept;
mod cell;
mod create;
mod defragmenter;
mod desc;
mod follow;
mod making_room;
mod new_resource;
mod passes;
mod rest;
mod step;

pub use accept::AcceptedMove;
pub(super) use accept::Acceptor;
pub(super) use cell::{Cell, Member};
pub use defragmenter::Defragmenter;
pub use desc::{DefragmentationStep, DefragmenterDesc, StepOutcome};
pub(crate) use follow::{CellKey, Follower, Following, NewHandle, NewPlace};
pub use making_room::MakingRoom;
pub(crate) use making_room::RoomOfGpu;
