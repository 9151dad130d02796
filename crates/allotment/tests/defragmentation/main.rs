//! Defragmentation: what it gains, what it costs, and that nothing is lost by it.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

#[path = "../common/amount.rs"]
mod amount;
#[path = "../common/bytes.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod bytes;
#[path = "../allocator/rig.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod rig;

mod acts;
mod bound;
mod cancelled;
mod faults;
mod gains;
mod generated;
mod handles;
mod joined;
mod limits;
mod matrix;
mod model;
mod moved;
mod movers;
mod owned;
mod paused;
mod pinned;
mod room;
mod room_heap;
mod room_matrix;
mod threads;
mod worked_example;
