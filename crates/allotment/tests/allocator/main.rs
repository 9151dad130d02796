//! The allocator on simulated devices: against a shadow model, against a hostile driver, and behaviour by
//! behaviour.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

mod access;
mod against_a_shadow;
mod aliasing;
#[path = "../common/amount.rs"]
mod amount;
mod arguments;
mod bad_input;
mod block_sizes;
mod budgets;
mod call_sites;
mod candidates;
mod empty_blocks;
mod faults;
mod gated;
#[path = "../common/hooked_device.rs"]
mod hooked_device;
mod ladder;
mod maintenance;
mod mapping;
mod panics;
mod pools;
mod preview;
mod races;
mod reports;
mod resources;
mod rig;
mod shadow;
mod sharing;
mod threads;
mod traffic;
mod transfer;
