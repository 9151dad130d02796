//! Any bytes are a sequence of operations on a TLSF block, checked against its model after each.
#![no_main]

#[path = "../../crates/allotment-suballoc/tests/shadow/mod.rs"]
mod shadow;

use allotment_suballoc::Algorithm;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shadow::run_on(Algorithm::Tlsf, bytes));
