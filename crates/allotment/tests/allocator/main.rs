//! The allocator on simulated devices: against a shadow model, against a hostile driver, and behaviour by
//! behaviour.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

mod access;
mod against_a_shadow;
mod aliasing;
mod arguments;
mod bad_input;
mod budgets;
mod choice;
mod dump;
mod faults;
mod forecast;
mod gated;
mod panics;
mod pools;
mod races;
mod reports;
mod resources;
mod retention;
mod rig;
mod shadow;
mod sharing;
mod threads;
mod transfer;
mod upkeep;
