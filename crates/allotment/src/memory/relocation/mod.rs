//! Relocatable buffers and images: recreated in a new place, copied by a queue, and exchanged.
//!
//! `resource` is the owner's object: its handle changes when the resource is moved. `set` finds the moves
//! (`defragmentation`). `step` creates the new resources (`new_resource`), submits the copies and replaces old by new.

mod error;
mod new_resource;
mod resource;
mod set;
mod set_desc;
mod step;

pub use error::{MovableError, MoveError};
pub use resource::{Movable, MovableBuffer, MovableImage};
pub use set::MovableSet;
pub use set_desc::{DefragmentationStep, MovableSetDesc, StepOutcome};
