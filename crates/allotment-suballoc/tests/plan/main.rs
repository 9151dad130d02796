//! Plans of items with lifetimes: against naive references, with known optima, and refused.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../../../allotment/tests/common/amount.rs"]
mod amount;
mod cut;
mod exhaustive;
mod naive;

mod greedy;
mod problem;
mod search;
