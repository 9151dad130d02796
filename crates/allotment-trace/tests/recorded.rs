//! The recorded traces of this repository.

#![allow(clippy::unwrap_used, reason = "all of this is test code, also outside of #[test]")]

mod common;

use std::fs;
use std::io::Read;
use std::path::PathBuf;

use allotment_trace::{Op, ResourceKind, Trace, TraceErrorKind};
use common::{check, check_error};

const ALL: [&str; 4] = ["supertuxkart-race", "resnet50-train", "gpt2-train", "fasterrcnn-infer"];

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../../traces/{name}.csv.gz"))
}

fn open(name: &str) -> Trace {
    let trace = Trace::open(path(name)).unwrap();
    check(&trace);
    trace
}

/// Allocations, frees, frames, resources live at the end, peak in bytes. The expected numbers were computed by
/// another program.
fn numbers(trace: &Trace) -> (usize, usize, usize, usize, u64) {
    (trace.allocations(), trace.frees(), trace.frames(), trace.live_at_end().len(), trace.peak_live_bytes())
}

#[test]
fn supertuxkart_reads_with_its_frames_images_and_buffers() {
    let trace = open("supertuxkart-race");
    assert_eq!(numbers(&trace), (858, 587, 3460, 271, 83_018_652));

    let first = &trace.resources()[0];
    assert_eq!((first.id(), first.size(), first.alignment()), (0, 307_200, 16));
    assert_eq!(first.kind(), ResourceKind::Image);
    assert_eq!(first.name(), "VK_FORMAT_D32_SFLOAT 320x240x1 mips=1 layers=1");

    let images = trace.resources().iter().filter(|resource| resource.kind() == ResourceKind::Image).count();
    assert_eq!(images, 307);
    let buffers = trace.resources().iter().filter(|resource| resource.usage().is_some()).count();
    assert_eq!(buffers, 858 - 307);
}

#[test]
fn every_image_of_supertuxkart_has_a_shape() {
    let trace = open("supertuxkart-race");
    let images = trace.resources().iter().filter(|resource| resource.kind() == ResourceKind::Image);
    let shapes: Vec<_> = images.map(|image| image.image_shape().unwrap()).collect();
    assert!(shapes.iter().all(|shape| shape.format.starts_with("VK_FORMAT_")));
    assert_eq!(shapes.iter().filter(|shape| shape.array_layers == 6).count(), 1, "one cube");
    assert_eq!(shapes.iter().map(|shape| shape.mip_levels).max(), Some(12));
}

#[test]
fn resnet50_reads_with_three_resources_that_stay() {
    let trace = open("resnet50-train");
    assert_eq!(numbers(&trace), (10_671, 10_668, 0, 3, 3_851_628_336));
    let ids: Vec<u64> = trace.live_at_end().iter().map(|&index| trace.resource(index).id()).collect();
    assert_eq!(ids, [579, 580, 589]);
}

#[test]
fn gpt2_reads() {
    assert_eq!(numbers(&open("gpt2-train")), (10_216, 10_216, 0, 0, 3_270_056_968));
}

#[test]
fn faster_r_cnn_reads() {
    assert_eq!(numbers(&open("fasterrcnn-infer")), (3435, 3435, 0, 0, 724_117_891));
}

#[test]
fn every_line_says_what_another_csv_reader_says() {
    for name in ALL {
        let trace = open(name);
        let bytes = fs::read(path(name)).unwrap();
        let mut reader = csv::Reader::from_reader(flate2::read::GzDecoder::new(bytes.as_slice()));
        let records: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(trace.events().len(), records.len(), "{name}");

        for (event, record) in trace.events().iter().zip(&records) {
            assert_eq!(event.line, record.position().unwrap().line());
            let fields: Vec<String> = match event.op {
                Op::Allocate(index) => {
                    let resource = trace.resource(index);
                    let kind = match resource.kind() {
                        ResourceKind::Buffer { .. } => "buffer",
                        ResourceKind::Image => "image",
                    };
                    vec![
                        "a".into(),
                        resource.id().to_string(),
                        resource.size().to_string(),
                        resource.alignment().to_string(),
                        kind.into(),
                        resource.name().into(),
                    ]
                }
                Op::Free(index) => {
                    let id = trace.resource(index).id().to_string();
                    vec!["f".into(), id, String::new(), String::new(), String::new(), String::new()]
                }
                Op::FrameEnd => {
                    let mut fields = vec![String::new(); 6];
                    fields[0] = "m".into();
                    fields
                }
            };
            assert_eq!(record, &csv::StringRecord::from(fields), "{name}");
        }
    }
}

#[test]
fn uncompressed_they_read_the_same() {
    for name in ALL {
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(fs::File::open(path(name)).unwrap()).read_to_end(&mut text).unwrap();
        assert_eq!(Trace::read(text.as_slice()).unwrap(), open(name), "{name}");
    }
}

#[test]
fn cut_short_anywhere_they_are_refused() {
    // Fewer positions in long traces, since each requires reading up to it.
    for (name, step) in [("supertuxkart-race", 13), ("fasterrcnn-infer", 197), ("resnet50-train", 1999)] {
        let bytes = fs::read(path(name)).unwrap();
        let spread = (0..bytes.len()).step_by(step);
        let around_the_checksum = bytes.len() - 10..bytes.len();
        for length in spread.chain(around_the_checksum) {
            let error = Trace::read(&bytes[..length]).unwrap_err();
            check_error(&error);
            match length {
                0 => assert!(matches!(error.kind(), TraceErrorKind::Empty), "{error}"),
                _ => assert!(matches!(error.kind(), TraceErrorKind::GzipTruncated), "{length}: {error}"),
            }
        }
    }
}

#[test]
fn with_any_byte_changed_the_shortest_is_refused_or_reads_the_same() {
    let bytes = fs::read(path("supertuxkart-race")).unwrap();
    let expected = open("supertuxkart-race");
    for at in (0..bytes.len()).step_by(29) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x55;
        match Trace::read(changed.as_slice()) {
            // The gzip header contains a time and a system, which do not affect the text.
            Ok(trace) => {
                assert!(at < 32, "byte {at} is not in the header");
                assert_eq!(trace, expected);
            }
            Err(error) => check_error(&error),
        }
    }
}
