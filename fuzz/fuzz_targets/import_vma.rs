//! Any bytes as a JSON dump: an error, or a recording that applies to a state.
#![no_main]

#[path = "common/import.rs"]
mod import;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    import::check(bytes);
});
