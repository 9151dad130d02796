//! Descriptors on the simulated device: each row that the design asks for as a test named after it, shadow models, what
//! queues read, and failures at every call.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]
#![allow(clippy::disallowed_methods, reason = "a test counts what is kept")]

#[path = "../common/amount.rs"]
mod amount;
mod beside_a_step;
mod bindings;
#[path = "../common/bytes.rs"]
mod bytes;
#[path = "../common/counting.rs"]
mod counting;
mod extremes;
mod failures;
mod following;
#[path = "../common/hooked_device.rs"]
mod hooked_device;
mod model;
mod panicking;
mod ranges;
mod reads;
mod replacing;
mod rig;
mod samplers;
mod slots;
mod staging;
mod steady;
mod threads;
mod transient;
mod views;
