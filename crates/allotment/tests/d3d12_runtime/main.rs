//! Direct3D 12 over a runtime that stands between the backend and the machine's own.
//!
//! No one machine has all that the backend treats differently: resource heap tier 1 and 2, one memory or
//! two, GPU upload heaps, tight alignment, old interfaces and new ones, a memory that is full. The runtime of
//! these tests [can have each of them](runtime::Config). It passes calls on to the machine's own in terms
//! that every runtime knows, so heaps, resources, queues and bytes are real; and it
//!
//! - [records](runtime::calls) the calls that it gets, for tests to look at;
//! - [checks](runtime::checks) each call as the debug layer would, and a validation error fails the test;
//! - [refuses](runtime::faults) a call that a test chose, with the code that the test chose;
//! - [counts](runtime::live) what is alive, so that leaks fail the test.
//!
//! ```text
//!   runtime/   the runtime in between
//!   rig.rs     an allocator over it, which is checked when it goes, and short ways to say what is wanted
//!   *.rs       the tests, by what they are about
//! ```
//!
//! A machine without Direct3D 12 skips the tests and says so; with `ALLOTMENT_REQUIRE=d3d12` it fails them.
#![cfg(windows)]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![allow(clippy::disallowed_methods, reason = "a test counts what is kept")]

#[path = "../common/counting.rs"]
mod counting;
mod rig;
mod runtime;

mod alignment;
mod budgets;
mod clear_values;
mod descriptors;
mod failures;
mod fallback;
mod flags;
mod host_writes;
mod layouts;
mod lost;
mod names;
mod pools;
mod reserved;
mod residency;
mod steady;
mod tiers;
