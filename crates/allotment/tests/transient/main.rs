//! Transient resources: plans against naive references, and what they cost.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

#[path = "../common/amount.rs"]
mod amount;
#[path = "../common/counting.rs"]
mod counting;
mod frames;
mod heap;
mod in_turn;
mod memory;
mod plans;
mod random;
mod rig;
mod unrolled;
