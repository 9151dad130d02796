//! Any bytes are a sequence of operations on a `VirtualBlock`, checked against its model after each.
#![no_main]

#[path = "../../crates/allotment-suballoc/tests/shadow/mod.rs"]
mod shadow;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shadow::run(bytes));
