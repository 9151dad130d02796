//! As `safe_calls`, with the calls made by three threads at once. What it finds may take several runs to come again.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let tally = allotment_stress::play_bytes(bytes, 3);
    assert!(tally.findings().is_empty(), "{tally}");
});
