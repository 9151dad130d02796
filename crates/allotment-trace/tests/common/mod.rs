//! Shared test helpers.

#![allow(dead_code, reason = "each test file uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "all of this is test code, also outside of #[test]")]

pub(crate) mod recordings;

use std::collections::HashSet;
use std::io::Write;

use allotment_trace::{Op, Trace, TraceError};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Parses a trace from these lines after the header, which is line 1.
pub(crate) fn read_lines(lines: &[&str]) -> Result<Trace, TraceError> {
    let text = format!("op,id,size,alignment,kind,name\n{}\n", lines.join("\n"));
    Trace::read(text.as_bytes())
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Replays a trace naively, and compares all of its statistics.
pub(crate) fn check(trace: &Trace) {
    let mut live = HashSet::new();
    let (mut allocations, mut frees, mut frames) = (0, 0, 0);
    let (mut live_bytes, mut peak) = (0u128, 0u128);
    let mut last_line = 1;

    for event in trace.events() {
        assert!(event.line > last_line, "lines rise, and line 1 is the header");
        last_line = event.line;
        match event.op {
            Op::Allocate(index) => {
                assert_eq!(index.as_usize(), allocations, "indices are in the order of allocation");
                assert_eq!(index.as_u32() as usize, index.as_usize());
                assert!(live.insert(index));
                allocations += 1;
                live_bytes += u128::from(trace.resource(index).size());
            }
            Op::Free(index) => {
                assert!(live.remove(&index), "what is freed is live");
                frees += 1;
                live_bytes -= u128::from(trace.resource(index).size());
            }
            Op::FrameEnd => frames += 1,
        }
        peak = peak.max(live_bytes);
    }

    assert_eq!(trace.allocations(), allocations);
    assert_eq!(trace.resource_count(), allocations);
    assert_eq!(trace.resources().len(), allocations);
    assert_eq!(trace.frees(), frees);
    assert_eq!(trace.frames(), frames);
    assert_eq!(u128::from(trace.peak_live_bytes()), peak);
    assert!(trace.live_at_end().is_sorted());
    assert_eq!(trace.live_at_end().len(), live.len());
    assert!(trace.live_at_end().iter().all(|index| live.contains(index)));

    let mut ids = HashSet::new();
    for resource in trace.resources() {
        assert!(ids.insert(resource.id()), "ids are unique");
        assert!((1..=1 << 48).contains(&resource.size()));
        assert!(resource.alignment().is_power_of_two() && resource.alignment() <= 1 << 48);
        assert!(!resource.name().contains('\n'));
    }
}

/// Checks the form of an error's text.
pub(crate) fn check_error(error: &TraceError) {
    let text = error.to_string();
    assert!(!text.chars().any(char::is_control), "one line: {text:?}");
    assert!(!text.ends_with('.'), "no full stop: {text}");
    assert!(!text.starts_with(char::is_uppercase), "lower case: {text}");
    assert!(text.len() < 1000, "an excerpt, not the file: {text}");
}
