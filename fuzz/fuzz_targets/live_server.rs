//! Any bytes are what a program, its viewers and strangers do, one after another: a viewer that reads on knows the state in
//! the end, strangers disturb nobody, and the server keeps no more than it may.
#![no_main]

use allotment_trace::live::in_memory::run;

libfuzzer_sys::fuzz_target!(|script: &[u8]| {
    let _ = run(script);
});
