//! Every error of reading a trace: its kind, its line, and its text.

#![allow(clippy::unwrap_used, reason = "all of this is test code, also outside of #[test]")]

mod common;

use core::error::Error;
use std::io;
use std::path::Path;

use allotment_trace::{Column, MAX_LINE_BYTES, Trace, TraceError, TraceErrorKind as Kind};
use common::{check_error, gzip, read_lines};

/// Checks the error of these lines after the header: its text and its kind.
#[track_caller]
fn assert_refused(lines: &[&str], words: &str, fits: impl Fn(&Kind) -> bool) {
    let error = read_lines(lines).unwrap_err();
    assert_error(&error, words, fits);
}

#[track_caller]
fn assert_error(error: &TraceError, words: &str, fits: impl Fn(&Kind) -> bool) {
    check_error(error);
    assert_eq!(error.to_string(), words);
    assert!(fits(error.kind()), "{:?}", error.kind());
    if let Some((line, _)) = words.strip_prefix("line ").and_then(|rest| rest.split_once(':')) {
        assert_eq!(error.line(), Some(line.parse().unwrap()));
    }
}

#[test]
fn a_size_that_is_no_number_is_refused() {
    assert_refused(
        &["m,,,,,", "a,0,12x,16,buffer,"],
        r#"line 3: size "12x" is not a whole number of bytes"#,
        |kind| matches!(kind, Kind::NotANumber { column: Column::Size, text } if &**text == "12x"),
    );
    for size in ["-1", "+1", " 1", "1 ", "1.5", "0x10", "1_000", "١"] {
        assert_refused(
            &[&format!("a,0,{size},16,buffer,")],
            &format!("line 2: size {size:?} is not a whole number of bytes"),
            |kind| matches!(kind, Kind::NotANumber { column: Column::Size, .. }),
        );
    }
}

#[test]
fn a_missing_number_is_refused() {
    for (line, column) in [
        ("a,,1,1,buffer,", Column::Id),
        ("a,0,,1,buffer,", Column::Size),
        ("a,0,1,,buffer,", Column::Alignment),
        ("f,,,,,", Column::Id),
    ] {
        assert_refused(
            &[line],
            &format!("line 2: {column} is missing"),
            |kind| matches!(kind, Kind::NotANumber { column: found, .. } if *found == column),
        );
    }
}

#[test]
fn an_id_that_is_no_number_is_refused() {
    for line in ["a,x,1,1,buffer,", "f,x,,,,"] {
        assert_refused(&[line], r#"line 2: id "x" is not a whole number"#, |kind| {
            matches!(kind, Kind::NotANumber { column: Column::Id, .. })
        });
    }
}

#[test]
fn a_number_above_its_limit_is_refused() {
    for (line, words) in [
        (
            "a,18446744073709551616,1,1,buffer,",
            "id 18446744073709551616 is larger than 18446744073709551615, the most it can be",
        ),
        (
            "a,0,281474976710657,1,buffer,",
            "size 281474976710657 is larger than 281474976710656, the most it can be",
        ),
        (
            "a,0,99999999999999999999,1,buffer,",
            "size 99999999999999999999 is larger than 281474976710656, the most it can be",
        ),
        (
            "a,0,1,562949953421312,buffer,",
            "alignment 562949953421312 is larger than 281474976710656, the most it can be",
        ),
        (
            "a,0,1,1,buffer,4294967296",
            "buffer usage 4294967296 is larger than 4294967295, the most it can be",
        ),
    ] {
        assert_refused(&[line], &format!("line 2: {words}"), |kind| {
            matches!(kind, Kind::NumberTooLarge { .. })
        });
    }
}

#[test]
fn a_size_of_zero_is_refused() {
    assert_refused(&["a,0,0,16,buffer,"], "line 2: size is 0 bytes, but must be at least 1", |kind| {
        matches!(kind, Kind::ZeroSize)
    });
}

#[test]
fn an_alignment_that_is_no_power_of_two_is_refused() {
    for bad in [0, 3, 48, (1 << 48) - 1] {
        assert_refused(
            &[&format!("a,0,1,{bad},buffer,")],
            &format!("line 2: alignment {bad} is not a power of two"),
            |kind| matches!(kind, Kind::AlignmentNotPowerOfTwo { alignment } if *alignment == bad),
        );
    }
}

#[test]
fn an_unknown_kind_is_refused() {
    for kind in ["", "Buffer", "texture"] {
        assert_refused(
            &[&format!("a,0,1,1,{kind},")],
            &format!(r#"line 2: kind "{kind}" is neither "buffer" nor "image""#),
            |found| matches!(found, Kind::UnknownKind { .. }),
        );
    }
}

#[test]
fn an_unknown_op_is_refused() {
    for op in ["", "A", "alloc", "op"] {
        assert_refused(
            &["m,,,,,", "", &format!("{op},0,1,1,buffer,")],
            &format!(r#"line 4: op "{op}" is none of "a", "f" and "m""#),
            |kind| matches!(kind, Kind::UnknownOp { .. }),
        );
    }
}

#[test]
fn a_wrong_number_of_fields_is_refused() {
    for (line, count) in [("m", "1 field"), ("f,0", "2 fields"), ("a,0,1,1,image,4x4, mips=1", "7 fields")] {
        assert_refused(
            &[line],
            &format!("line 2: {count} instead of 6; empty ones need their commas too"),
            |kind| matches!(kind, Kind::FieldCount { .. }),
        );
    }
}

#[test]
fn a_field_that_has_no_use_must_be_empty() {
    assert_refused(
        &["a,0,1,1,image,", "f,0,,16,,"],
        r#"line 3: alignment is "16", but must be empty where op is "f""#,
        |kind| matches!(kind, Kind::UnusedField { op: 'f', column: Column::Alignment, .. }),
    );
    assert_refused(&["m,0,,,,"], r#"line 2: id is "0", but must be empty where op is "m""#, |kind| {
        matches!(kind, Kind::UnusedField { op: 'm', column: Column::Id, .. })
    });
}

#[test]
fn a_quotation_mark_out_of_place_is_refused() {
    for line in [
        r#"a,0,1,1,image,"open"#,
        r#"a,0,1,1,image,""#,
        r#"a,0,1,1,image,5" screen"#,
        r#"a,0,1,1,image,"closed" and on"#,
        r#"a,0,1,1,"image,x"#,
    ] {
        let error = read_lines(&[line]).unwrap_err();
        check_error(&error);
        assert!(matches!(error.kind(), Kind::Quote), "{error}");
        assert_eq!(error.line(), Some(2));
    }
}

#[test]
fn an_id_that_is_live_is_not_allocated_again() {
    assert_refused(
        &["m,,,,,", "a,7,1,1,image,", "a,7,1,1,image,"],
        "line 4: id 7 was already allocated on line 3; an id is never used again",
        |kind| matches!(kind, Kind::IdReused { id: 7, first: 3 }),
    );
}

#[test]
fn an_id_that_was_freed_is_not_allocated_again() {
    assert_refused(
        &["a,7,1,1,image,", "f,7,,,,", "a,7,1,1,image,"],
        "line 4: id 7 was already allocated on line 2; an id is never used again",
        |kind| matches!(kind, Kind::IdReused { id: 7, first: 2 }),
    );
}

#[test]
fn an_id_that_was_never_allocated_is_not_freed() {
    assert_refused(
        &["f,9,,,,", "a,9,1,1,image,"],
        "line 2: id 9 is freed, but was not allocated before",
        |kind| matches!(kind, Kind::FreeOfUnknown { id: 9 }),
    );
}

#[test]
fn an_id_is_not_freed_twice() {
    assert_refused(
        &["a,7,1,1,image,", "f,7,,,,", "m,,,,,", "f,7,,,,"],
        "line 5: id 7 was already freed on line 3",
        |kind| matches!(kind, Kind::FreedTwice { id: 7, first: 3 }),
    );
}

#[test]
fn live_bytes_that_no_integer_holds_are_refused() {
    let mut lines: Vec<String> = (0..1 << 16).map(|id| format!("a,{id},{},1,buffer,", 1u64 << 48)).collect();
    let last = lines.pop().unwrap();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert_eq!(read_lines(&lines).unwrap().peak_live_bytes(), u64::MAX - (1 << 48) + 1);

    let too_many = [lines.as_slice(), &[&last]].concat();
    assert_refused(&too_many, "line 65537: the live resources add up to 2^64 bytes or more", |kind| {
        matches!(kind, Kind::TooManyLiveBytes)
    });
    let one_freed_before = [lines.as_slice(), &["f,17,,,,", &last]].concat();
    assert!(read_lines(&one_freed_before).is_ok());
}

#[test]
fn a_file_without_the_header_is_refused() {
    let error = Trace::read(&b"a,0,37632,256,buffer,\n"[..]).unwrap_err();
    assert_error(
        &error,
        r#"line 1: the header is "a,0,37632,256,buffer,", but must be "op,id,size,alignment,kind,name""#,
        |kind| matches!(kind, Kind::Header { .. }),
    );
    for header in
        ["op,id,size,alignment,kind", "op,id,size,align,kind,name", "op,id,size,alignment,kind,name,"]
    {
        let error = Trace::read(header.as_bytes()).unwrap_err();
        check_error(&error);
        assert!(matches!(error.kind(), Kind::Header { .. }), "{error}");
    }
}

#[test]
fn a_file_of_another_format_is_told_by_what_it_seems_to_be() {
    let expected = |format: &str| {
        format!(
            "this looks like {format}; a trace is csv, plain or compressed by gzip, that begins with the header \
             \"op,id,size,alignment,kind,name\""
        )
    };
    let long = format!("{{\"Total\":[{}]}}", "1,".repeat(100_000));
    let mut tar = [b"trace.csv".to_vec(), vec![0; 248], b"ustar".to_vec()].concat();
    tar.resize(100_000, 0);
    for (bytes, format) in [
        (long.as_bytes(), "JSON"),
        (b"{\n  \"General\": {}\n}\n", "JSON"),
        (b"\n\n  [1, 2]", "JSON"),
        (b"<!DOCTYPE html>\n<html>", "an HTML page"),
        (b"<?xml version=\"1.0\"?>", "XML"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
            "a pointer of Git LFS, not the file itself",
        ),
        (b"PK\x03\x04\x14\x00\xff\xff", "a zip archive"),
        (b"\x28\xb5\x2f\xfd\x04\x58\xff", "compressed by zstd"),
        (b"BZh91AY&SY\xff", "compressed by bzip2"),
        (b"\xfd7zXZ\0\0\x04\xe6", "compressed by xz"),
        (&gzip(b"op,id"), "compressed by gzip twice"),
        (b"\x7fELF\x02\x01\x01\xff", "a program"),
        (b"\xff\xfeo\0p\0,\0", "text in UTF-16"),
        (&tar, "a tar archive"),
    ] {
        // Uncompressed, and compressed.
        let twice = gzip(bytes);
        let all = if format.contains("gzip") { vec![&twice[..]] } else { vec![bytes, &twice] };
        for bytes in all {
            let error = Trace::read(bytes).unwrap_err();
            assert_error(&error, &expected(format), |kind| matches!(kind, Kind::OtherFormat { .. }));
            assert_eq!(error.line(), None);
        }
    }
    // Later lines are parsed as events.
    let error = read_lines(&["{"]).unwrap_err();
    assert!(matches!(error.kind(), Kind::FieldCount { .. }), "{error}");
}

#[test]
fn a_long_text_is_quoted_only_in_part() {
    let error = Trace::read("é".repeat(10_000).as_bytes()).unwrap_err();
    assert_error(
        &error,
        &format!(
            r#"line 1: the header is "{}…", but must be "op,id,size,alignment,kind,name""#,
            "é".repeat(40)
        ),
        |kind| matches!(kind, Kind::Header { .. }),
    );
}

#[test]
fn an_empty_file_is_refused() {
    for bytes in [Vec::new(), b"\n\r\n\n".to_vec(), gzip(b"")] {
        let error = Trace::read(bytes.as_slice()).unwrap_err();
        assert_error(
            &error,
            r#"the trace is empty, without even the header "op,id,size,alignment,kind,name""#,
            |kind| matches!(kind, Kind::Empty),
        );
        assert_eq!(error.line(), None);
    }
}

#[test]
fn text_that_is_not_utf_8_is_refused() {
    let error = Trace::read(&b"op,id,size,alignment,kind,name\na,0,1,1,image,caf\xe9\n"[..]).unwrap_err();
    assert_error(
        &error,
        "line 2: the line is not utf-8; a trace is csv, plain or compressed by gzip",
        |kind| matches!(kind, Kind::NotUtf8),
    );
}

#[test]
fn a_line_of_the_longest_length_is_read_and_a_longer_one_refused() {
    let start = "a,0,1,1,image,";
    let longest = format!("{start}{}", "x".repeat(MAX_LINE_BYTES as usize - start.len() - 1));
    assert_eq!(longest.len() as u64 + 1, MAX_LINE_BYTES);
    assert!(read_lines(&[&longest]).is_ok());
    assert_refused(
        &[&format!("{longest}x")],
        "line 2: the line is longer than 65536 bytes, the most that is read",
        |kind| matches!(kind, Kind::LineTooLong),
    );
}

#[test]
fn an_endless_line_is_refused_without_being_read_whole() {
    let error = Trace::read(io::repeat(b'x')).unwrap_err();
    assert!(matches!(error.kind(), Kind::LineTooLong), "{error}");
}

#[test]
fn a_gzip_file_that_was_cut_short_is_refused() {
    let text = format!("op,id,size,alignment,kind,name\n{}", "m,,,,,\n".repeat(1000));
    let bytes = gzip(text.as_bytes());
    // The checksum and the length at the end are required as well: all of the text may have arrived, but nothing
    // proves it.
    for missing in [1, 4, 8, 9, bytes.len() - 2] {
        let error = Trace::read(&bytes[..bytes.len() - missing]).unwrap_err();
        check_error(&error);
        assert!(matches!(error.kind(), Kind::GzipTruncated), "{missing} bytes missing: {error}");
        assert!(error.line().is_some());
        assert!(error.source().is_none());
    }
}

#[test]
fn a_gzip_file_with_a_wrong_checksum_is_refused() {
    let mut bytes = gzip(b"op,id,size,alignment,kind,name\nm,,,,,\n");
    let checksum = bytes.len() - 8;
    bytes[checksum] ^= 1;
    let error = Trace::read(bytes.as_slice()).unwrap_err();
    assert_error(&error, "line 3: the gzip data is damaged; copy the file again", |kind| {
        matches!(kind, Kind::GzipCorrupt(_))
    });
    assert!(error.source().is_some());
}

#[test]
fn bytes_after_the_end_of_a_gzip_file_are_refused() {
    let mut bytes = gzip(b"op,id,size,alignment,kind,name\nm,,,,,\n");
    bytes.extend(b"and on it goes, without compression");
    let error = Trace::read(bytes.as_slice()).unwrap_err();
    check_error(&error);
    assert!(matches!(error.kind(), Kind::GzipCorrupt(_)), "{error}");
}

#[test]
fn a_file_that_does_not_exist_is_named_in_the_error() {
    let path = Path::new("no/such/trace.csv.gz");
    let error = Trace::open(path).unwrap_err();
    assert_error(
        &error,
        "no/such/trace.csv.gz: cannot read the trace: no such file",
        |kind| matches!(kind, Kind::Io(error) if error.kind() == io::ErrorKind::NotFound),
    );
    assert_eq!(error.path(), Some(path));
    assert_eq!(error.line(), None);
    let source = error.source().unwrap().downcast_ref::<io::Error>().unwrap();
    assert_eq!(source.kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_folder_is_refused() {
    let error = Trace::open(env!("CARGO_MANIFEST_DIR")).unwrap_err();
    check_error(&error);
    assert!(matches!(error.kind(), Kind::Io(_)), "{error}");
}

#[test]
fn an_error_in_a_file_names_the_file_and_the_line() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let error = Trace::open(&path).unwrap_err();
    let words = r#"line 1: the header is "[package]", but must be "op,id,size,alignment,kind,name""#;
    assert_eq!(error.to_string(), format!("{}: {words}", path.display()));
    assert_eq!(error.line(), Some(1));
}

#[cfg(unix)]
#[test]
fn a_path_with_a_line_break_leaves_the_error_on_one_line() {
    check_error(&Trace::open("no\nsuch\u{7f}file").unwrap_err());
}

/// Yields some bytes and then fails, with an error kind that decompression uses as well.
struct Failing<'a>(&'a [u8], io::ErrorKind);

impl io::Read for Failing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::Error::new(self.1, "the cable\nwas pulled")),
            read => Ok(read),
        }
    }
}

#[test]
fn a_source_that_fails_is_not_taken_for_a_damaged_file() {
    let text = format!("op,id,size,alignment,kind,name\n{}", "m,,,,,\n".repeat(1000)).into_bytes();
    let compressed = gzip(&text);
    for kind in [io::ErrorKind::UnexpectedEof, io::ErrorKind::InvalidInput, io::ErrorKind::TimedOut] {
        for bytes in [&text[..0], &text[..1], &text[..500], &compressed[..2], &compressed[..40], &compressed]
        {
            let error = Trace::read(Failing(bytes, kind)).unwrap_err();
            check_error(&error);
            assert!(matches!(error.kind(), Kind::Io(found) if found.kind() == kind), "{error}");
            assert_eq!(error.source().unwrap().to_string(), "the cable\nwas pulled");
        }
    }
}
