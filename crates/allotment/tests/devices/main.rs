//! The promises of `Device`, written once and checked on every kind of device.
//!
//! ```text
//!   suite/       the promises: generic tests over a `Fixture`, which has a `Device`; those about descriptors
//!                over a `DescriptorFixture`, and listed apart
//!   kinds/       one file per kind of device: which devices the suite runs on, or why there is none
//!   simulated_only/   what the simulated device promises beyond the trait
//!   vulkan_only/ what Vulkan promises beyond it
//!   d3d12_only/  what Direct3D 12 promises beyond it
//!   gpu.rs       what the tests say to a device, without `unsafe` and without leaks
//!   runner.rs    names, counts, skips, and `ALLOTMENT_REQUIRE`
//! ```
//!
//! A device that is not here is a skip, and the last lines of the output say so. With
//! `ALLOTMENT_REQUIRE=simulated,vulkan`, a skip of one of these kinds is a failure.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![allow(clippy::disallowed_methods, reason = "a test counts what is kept")]

#[path = "../common/amount.rs"]
mod amount;
#[path = "../common/bytes.rs"]
mod bytes;
#[cfg(windows)]
mod d3d12_only;
mod fixture;
mod gpu;
mod kinds;
mod runner;
mod simulated_only;
mod suite;
mod vulkan_only;

use std::process::ExitCode;

fn main() -> ExitCode {
    runner::run(kinds::all())
}
