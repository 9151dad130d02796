//! Relocatable buffers and images: recreated in a new place, copied by a queue, and exchanged.
//!
//! `resource` is the owner's object: its handle changes when the resource is moved. `set` finds the moves
//! (`defragmentation`), creates the new resources, submits the copies and exchanges old for new.

mod error;
mod resource;
mod set;

pub use error::{MovableError, MoveError};
pub use resource::{Movable, MovableBuffer, MovableImage};
pub use set::{DefragmentationStep, MovableSet, MovableSetDesc, StepOutcome};
