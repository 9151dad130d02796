//! Buffers and images that are moved for their owner: made again in the new place, copied by a queue, and handed over.
//!
//! `resource` is what an owner holds: a handle that is another after a move. `set` finds the moves
//! (`defragmentation`), makes the resources again, submits the copies and hands over.

mod error;
mod resource;
mod set;

pub use error::{MovableError, MoveError};
pub use resource::{Movable, MovableBuffer, MovableImage};
pub use set::{DefragmentationStep, MovableSet, MovableSetDesc, StepOutcome};
