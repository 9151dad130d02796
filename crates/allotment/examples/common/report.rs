//! What an example prints, and its last check.

use core::fmt::Display;
use std::sync::Arc;

use allotment::{Device, Gpu};

use super::Outcome;

/// Prints a figure.
pub(crate) fn row(what: &str, how_much: impl Display) {
    println!("{what:32}{how_much}");
}

pub(crate) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Drops a `Gpu` of which all else is dropped already, and with it pages, rings and staging memory. Nothing may be left.
pub(crate) fn check_that_nothing_is_left<D: Device>(gpu: Gpu<D>) -> Outcome {
    gpu.wait_idle()?;
    let pending = gpu.deletion_queue().statistics().pending;
    let allocator = Arc::clone(gpu.allocator());
    drop(gpu);
    let allocations = allocator.statistics().allocations;
    if pending > 0 || allocations > 0 {
        return Err(format!("{pending} resources are pending, and {allocations} allocations are left").into());
    }
    Ok(())
}
