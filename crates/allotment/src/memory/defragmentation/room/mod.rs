//! Making room for a request: what has to move so that it fits.
//!
//! | file | what it is |
//! |---|---|
//! | `layout.rs` | the ranges of some blocks, on which a plan is tried out |
//! | `plan.rs` | which allocations move where, in which order |
//! | `execution.rs` | carries out a plan, batch by batch; `holders.rs`: which allocation is before a place |
//! | `run.rs` | survey, plan, execution, and the request in the room |
//! | `window.rs`, `slide.rs`, `exchange.rs`, `repack.rs` | the ways to make room in the blocks that there are, from the one that copies least to the one that always finds it |
//! | `replace.rs` | the way where there is none: blocks are emptied and freed for a larger one |
//! | `whole_heap.rs` | the same with the blocks of all pools over the heap, where those of the request's own pool are too few |

mod error;
mod exchange;
mod execution;
mod holders;
mod layout;
mod plan;
mod repack;
mod replace;
mod run;
mod slide;
mod whole_heap;
mod window;

pub(crate) use error::Asked;
pub use error::RoomError;
pub(super) use run::{NoRoom, RoomRun};

#[cfg(test)]
mod tests;
