//! Buffers and images that are moved for their owner: made again in the new place, copied by a queue, and handed over.
//!
//! ```text
//!   frame n     recordings use the old buffer
//!   step        new buffer in the reserved place ── copy ──► submitted; handle() is the new one from here on
//!   frame n+1   recordings use the new buffer
//!   later       the GPU is done with frame n and the copy: the old buffer and its place go, and with the last one of
//!               a block the block
//! ```
//!
//! Nothing waits: the copy is work like any other, and the old resource is retired like any other
//! ([`lifetime`](crate::lifetime)).

mod error;
mod resource;
mod set;

pub use error::{MovableError, MoveError};
pub use resource::{Movable, MovableBuffer, MovableImage};
pub use set::{DefragmentationStep, MovableSet, MovableSetDesc, StepOutcome};
