//! Any bytes as a PyTorch snapshot: an error, or a recording that applies to a state.
#![no_main]

#[path = "common/import.rs"]
mod import;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // Without the beginning that the format is found by, most inputs would be refused unread: a pickle of protocol 4.
    let bytes = &[b"\x80\x04".as_slice(), bytes].concat();
    import::check(bytes);
});
