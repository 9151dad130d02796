//! Tests that the public functions would need a gigabyte of text for.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::read;
use crate::{HEADER, TraceError, TraceErrorKind};

const FRAMES: usize = 100_000;

fn long_text() -> Vec<u8> {
    format!("{HEADER}\n{}", "m,,,,,\n".repeat(FRAMES)).into_bytes()
}

fn assert_too_large(error: &TraceError, expected_limit: u64) {
    assert!(
        matches!(error.kind(), TraceErrorKind::TextTooLarge { limit } if *limit == expected_limit),
        "{error}"
    );
}

#[test]
fn text_of_exactly_the_limit_is_read() {
    let text = long_text();
    let trace = read(&mut text.as_slice(), text.len() as u64).unwrap();
    assert_eq!(trace.frames(), FRAMES);
}

#[test]
fn text_of_one_byte_more_than_the_limit_is_refused() {
    let text = long_text();
    let limit = text.len() as u64 - 1;
    let error = read(&mut text.as_slice(), limit).unwrap_err();
    assert_too_large(&error, limit);
    assert_eq!(error.line(), Some(FRAMES as u64 + 1));
}

#[test]
fn the_limit_counts_bytes_after_decompression() {
    let text = long_text();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&text).unwrap();
    let bomb = gzip.finish().unwrap();
    assert!(bomb.len() < text.len() / 100);

    let error = read(&mut bomb.as_slice(), 10_000).unwrap_err();
    assert_too_large(&error, 10_000);
}

#[test]
fn an_endless_source_is_refused_at_the_limit() {
    let header = format!("{HEADER}\n");
    let mut endless = std::io::Read::chain(header.as_bytes(), std::io::repeat(b'\n'));
    let error = read(&mut endless, 10_000).unwrap_err();
    assert_too_large(&error, 10_000);
}
