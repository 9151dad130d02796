//! Making room for a request: what has to move so that it fits.
//!
//! | file | what it is |
//! |---|---|
//! | `layout.rs` | the ranges of some blocks, on which a plan is tried out |
//! | `plan.rs` | which allocations move where, in which order |
//! | `window.rs`, `slide.rs`, `exchange.rs`, `repack.rs` | the ways to make room, from the one that copies least to the one that always finds it |

mod exchange;
mod layout;
mod plan;
mod repack;
mod slide;
mod window;

#[cfg(test)]
mod tests;
