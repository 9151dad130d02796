//! Any bytes are a sequence of safe calls on the simulated device, whose bytes are checked; a call that is refused is
//! fine, and everything else that is wrong is a crash.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let tally = allotment_stress::play_bytes(bytes, 1);
    assert!(tally.findings().is_empty(), "{tally}");
});
