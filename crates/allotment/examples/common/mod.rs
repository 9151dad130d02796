//! What the large examples share: the choice of a device, bytes and values that are known, and what a frame costs.

#![allow(dead_code, unused_imports, unused_macros, reason = "no example uses all of it")]

pub(crate) mod cells;
pub(crate) mod comparisons;
pub(crate) mod cost;
#[path = "../../tests/common/counting.rs"]
mod counting;
pub(crate) mod device;
pub(crate) mod harness;
pub(crate) mod known_bytes;
pub(crate) mod plain_device;
pub(crate) mod report;
pub(crate) mod trace;

/// What examples return: any error ends them.
pub(crate) type Outcome<T = ()> = Result<T, Box<dyn core::error::Error>>;
