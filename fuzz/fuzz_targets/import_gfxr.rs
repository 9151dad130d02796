//! Any bytes as lines of GFXReconstruct: an error, or a recording that applies to a state.
#![no_main]

#[path = "common/import.rs"]
mod import;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // Without the beginning that the format is found by, most inputs would be refused unread.
    let bytes = &[b"{\"vkFunc\":null}\n".as_slice(), bytes].concat();
    import::check(bytes);
});
