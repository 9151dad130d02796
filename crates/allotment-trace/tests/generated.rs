//! Generated traces, valid and corrupted: every valid one reads back equal, and none panics.

#![allow(clippy::unwrap_used, reason = "all of this is test code, also outside of #[test]")]

mod common;

use allotment_trace::{HEADER, Op, ResourceKind, Trace};
use common::{check, check_error, gzip};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// The event on the next line. Ids are assigned during writing, so that they are unique.
#[derive(Clone, Debug)]
enum Step {
    Allocate { id_step: u64, size: u64, log2_alignment: u32, image: bool, name: String },
    Free(Index),
    FrameEnd,
}

fn step() -> impl Strategy<Value = Step> {
    let name = prop_oneof![
        2 => Just(String::new()),
        2 => any::<u32>().prop_map(|usage| usage.to_string()),
        1 => "[ -~]{0,40}",
        // Any text without a line break that is not a number too large for usage flags.
        1 => "[^\n0-9]{0,20}",
    ];
    let name = name.prop_filter("a usage of more than 32 bits", |name| {
        !name.bytes().all(|byte| byte.is_ascii_digit()) || name.is_empty() || name.parse::<u32>().is_ok()
    });
    let size = prop_oneof![1..=1u64 << 48, 1..=65_536u64];
    prop_oneof![
        3 => (0..1u64 << 40, size, 0..=48u32, any::<bool>(), name).prop_map(
            |(id_step, size, log2_alignment, image, name)| Step::Allocate {
                id_step, size, log2_alignment, image, name
            }
        ),
        2 => any::<Index>().prop_map(Step::Free),
        1 => Just(Step::FrameEnd),
    ]
}

/// The expected event of a line.
#[derive(Clone, Debug, PartialEq)]
enum Line {
    Allocate { id: u64, size: u64, alignment: u64, kind: ResourceKind, name: String },
    Free { id: u64 },
    FrameEnd,
}

fn lines(steps: Vec<Step>) -> Vec<Line> {
    let mut next_id = 0;
    let mut live = Vec::new();
    let mut lines = Vec::new();
    for step in steps {
        match step {
            Step::Allocate { id_step, size, log2_alignment, image, name } => {
                let id = next_id + id_step;
                next_id = id + 1;
                live.push(id);
                let kind = if image {
                    ResourceKind::Image
                } else {
                    ResourceKind::Buffer {
                        usage: name
                            .bytes()
                            .all(|byte| byte.is_ascii_digit())
                            .then(|| name.parse().ok())
                            .flatten(),
                    }
                };
                lines.push(Line::Allocate { id, size, alignment: 1 << log2_alignment, kind, name });
            }
            Step::Free(_) if live.is_empty() => {}
            Step::Free(index) => {
                let id = live.swap_remove(index.index(live.len()));
                lines.push(Line::Free { id });
            }
            Step::FrameEnd => lines.push(Line::FrameEnd),
        }
    }
    lines
}

fn write(lines: &[Line], style: csv::QuoteStyle, terminator: csv::Terminator) -> Vec<u8> {
    let mut writer =
        csv::WriterBuilder::new().quote_style(style).terminator(terminator).from_writer(Vec::new());
    writer.write_record(HEADER.split(',')).unwrap();
    for line in lines {
        match line {
            Line::Allocate { id, size, alignment, kind, name } => {
                let kind = if *kind == ResourceKind::Image { "image" } else { "buffer" };
                let (id, size, alignment) = (id.to_string(), size.to_string(), alignment.to_string());
                writer.write_record(["a", &id, &size, &alignment, kind, name]).unwrap();
            }
            Line::Free { id } => writer.write_record(["f", &id.to_string(), "", "", "", ""]).unwrap(),
            Line::FrameEnd => writer.write_record(["m", "", "", "", "", ""]).unwrap(),
        }
    }
    writer.into_inner().unwrap()
}

fn told(trace: &Trace) -> Vec<Line> {
    trace
        .events()
        .iter()
        .map(|event| match event.op {
            Op::Allocate(index) => {
                let resource = trace.resource(index);
                Line::Allocate {
                    id: resource.id(),
                    size: resource.size(),
                    alignment: resource.alignment(),
                    kind: resource.kind(),
                    name: resource.name().to_owned(),
                }
            }
            Op::Free(index) => Line::Free { id: trace.resource(index).id() },
            Op::FrameEnd => Line::FrameEnd,
        })
        .collect()
}

fn read_anything(bytes: &[u8]) {
    match Trace::read(bytes) {
        Ok(trace) => check(&trace),
        Err(error) => check_error(&error),
    }
}

proptest! {
    #[test]
    fn a_written_trace_reads_back_equal(
        steps in vec(step(), 0..100),
        quote_all in any::<bool>(),
        windows in any::<bool>(),
    ) {
        let lines = lines(steps);
        let style = if quote_all { csv::QuoteStyle::Always } else { csv::QuoteStyle::Necessary };
        let terminator = if windows { csv::Terminator::CRLF } else { csv::Terminator::Any(b'\n') };
        let text = write(&lines, style, terminator);

        let trace = Trace::read(text.as_slice()).unwrap();
        check(&trace);
        prop_assert_eq!(told(&trace), lines);
        let numbers: Vec<u64> = trace.events().iter().map(|event| event.line).collect();
        prop_assert_eq!(numbers, (2..trace.events().len() as u64 + 2).collect::<Vec<_>>());
        prop_assert_eq!(Trace::read(gzip(&text).as_slice()).unwrap(), trace);
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..2000)) {
        read_anything(&bytes);
    }

    #[test]
    fn random_bytes_after_the_start_of_a_gzip_file_never_panic(bytes in vec(any::<u8>(), 0..2000)) {
        read_anything(&[&[0x1f, 0x8b, 8], bytes.as_slice()].concat());
    }

    #[test]
    fn random_lines_of_plausible_fields_never_panic(
        text in r#"((a|f|m|"|x)?,[0-3]?,[0-9]{0,2},(1|2|4|3)?,(buffer|image)?,[a-z0-9",]{0,4}\r?\n){0,8}"#,
    ) {
        read_anything(format!("{HEADER}\n{text}").as_bytes());
    }

    #[test]
    fn a_trace_with_some_bytes_changed_never_panics(
        steps in vec(step(), 0..40),
        changes in vec((any::<Index>(), prop_oneof![any::<u8>(), prop::sample::select(&b",\n\r\"afm0129"[..])], 0..3u8), 1..6),
        compress_before in any::<bool>(),
        compress_after in any::<bool>(),
    ) {
        let mut bytes = write(&lines(steps), csv::QuoteStyle::Necessary, csv::Terminator::Any(b'\n'));
        if compress_before {
            bytes = gzip(&bytes);
        }
        for (at, byte, change) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match change {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        read_anything(&bytes);
        if compress_after {
            read_anything(&gzip(&bytes));
        }
    }
}
