//! Making room for a request: what has to move so that it fits.
//!
//! | file | what it is |
//! |---|---|
//! | `layout.rs` | the ranges of some blocks, on which a plan is tried out |
//! | `plan.rs` | which allocations move where, in which order |

mod layout;
mod plan;

#[cfg(test)]
mod tests;
