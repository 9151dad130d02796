//! Tables are read back by another reader of CSV, and traffic by the trace reader of this crate.

use std::collections::HashMap;
use std::io::ErrorKind;

use allotment::device::MemoryTypeIndex;
use allotment::memory::MemoryUsage;
use allotment::{Alignment, ResourceKind};
use allotment_trace::export::{Export, Format};
use allotment_trace::recording::{
    Allocated, AllocationKey, BlockId, BlockKind, Event, Placement, PoolId, Recording, State, TextId,
};
use allotment_trace::{Op, Trace};
use proptest::prelude::*;

use crate::amount::scaled;
use crate::common::recordings::{Shape, recording};
use crate::{exported, state};

type Row = HashMap<String, String>;

fn rows(recording: &Recording) -> Vec<Row> {
    let text = exported(recording, Format::AllocationsCsv);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(|row| row.unwrap()).collect()
}

fn number(row: &Row, column: &str) -> u64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} is {:?}", row[column]))
}

/// How many allocations of the program a recording has, with the bytes that it requested at each frame's end.
fn traffic(recording: &Recording) -> (usize, Vec<u64>) {
    let (mut state, mut count, mut live) = (State::default(), 0, Vec::new());
    for event in &recording.events {
        state.apply(event).unwrap();
        match event {
            Event::Allocated(is) if is.placement != Placement::Destination => count += 1,
            Event::FrameEnd { .. } => {
                let own = state.allocations.values().filter(|live| !live.reservation);
                live.push(own.map(|live| live.is.requested).sum());
            }
            _ => {}
        }
    }
    (count, live)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(64) as u32))]

    #[test]
    fn the_table_has_each_allocation_once_and_the_alive_ones_as_the_state_has_them(
        seed: u64, aliasing: bool, lost: bool,
    ) {
        let recording = recording(seed, Shape { aliasing, lost, ..Shape::default() });
        let (rows, state) = (rows(&recording), state(&recording));
        let allocated = recording.events.iter().filter(|event| matches!(event, Event::Allocated(_))).count();
        prop_assert_eq!(rows.len(), allocated);
        let freed = recording.events.iter().filter(|event| matches!(event, Event::Freed { .. })).count();
        prop_assert_eq!(rows.iter().filter(|row| row["end"] == "freed").count(), freed);

        let alive: Vec<_> = rows.iter().filter(|row| row["end"] == "alive").collect();
        prop_assert_eq!(alive.len(), state.allocations.len());
        for row in alive {
            let place = (number(row, "block"), number(row, "offset"), number(row, "allocated_event"));
            let live = state.allocations.values().find(|live| {
                (live.is.block.0, live.is.offset, live.allocated.event) == place
            });
            let live = live.unwrap();
            prop_assert_eq!(number(row, "requested"), live.is.requested);
            prop_assert_eq!(number(row, "occupied"), live.is.occupied);
            prop_assert_eq!(&row["name"], recording.text(live.is.name).unwrap_or_default());
            prop_assert_eq!(&row["call_site"], recording.text(live.call_site).unwrap_or_default());
            prop_assert_eq!(number(row, "memory_type"), state.blocks[&live.is.block].memory_type.get() as u64);
            prop_assert_eq!(&row["end_event"], "");
        }
    }

    #[test]
    fn traffic_reads_back_as_a_trace_with_the_same_live_bytes_in_each_frame(seed: u64, aliasing: bool) {
        let recording = recording(seed, Shape { aliasing, steps: 600, ..Shape::default() });
        let trace = Trace::read(exported(&recording, Format::TrafficCsv).as_bytes()).unwrap();
        let (count, expected) = traffic(&recording);
        prop_assert_eq!(trace.allocations(), count);
        let (mut live, mut of_frames) = (0, Vec::new());
        for event in trace.events() {
            match event.op {
                Op::Allocate(index) => live += trace.resource(index).size(),
                Op::Free(index) => live -= trace.resource(index).size(),
                Op::FrameEnd => of_frames.push(live),
            }
        }
        prop_assert_eq!(of_frames, expected);
    }
}

/// A recording of one allocation.
fn one(requested: u64, name: &str, kind: ResourceKind) -> Recording {
    let (block, pool, memory_type) = (BlockId(0), PoolId(0), MemoryTypeIndex(0));
    let allocated = Allocated {
        allocation: AllocationKey(0),
        block,
        offset: 0,
        requested,
        occupied: requested,
        user_data: 0,
        name: TextId(1),
        category: TextId::NONE,
        alignment: Alignment::new(1).unwrap(),
        usage: Some(MemoryUsage::GpuOnly),
        kind,
        placement: Placement::NewBlock,
        second_choice: false,
        movable: false,
    };
    let kind = BlockKind::Shared;
    let events = vec![
        Event::BlockAllocated { block, pool, memory_type, kind, size: u64::MAX },
        Event::Allocated(allocated),
    ];
    Recording { texts: vec![name.to_owned()], events, ..Recording::default() }
}

#[test]
fn names_that_the_trace_format_cannot_have_are_changed_as_little_as_needed() {
    let long = "ü".repeat(20_000);
    for (name, expected) in [
        ("mesh", "mesh"),
        ("a \"quoted\", name", "a \"quoted\", name"),
        ("two\nlines\r", "two lines\r"),
        ("17", "17"),
        ("99999999999999999999", "_99999999999999999999"),
        (&long, &long[..16 << 10]),
        (&"\"".repeat(40_000), &"\"".repeat(16 << 10)),
    ] {
        let text = exported(&one(64, name, ResourceKind::Buffer), Format::TrafficCsv);
        assert_eq!(Trace::read(text.as_bytes()).unwrap().resources()[0].name(), expected);
    }
}

#[test]
fn traffic_that_the_trace_format_cannot_have_is_refused() {
    for (size, fits) in [(1 << 48, true), ((1 << 48) + 1, false)] {
        let recording = one(size, "large", ResourceKind::OptimalImage);
        let result = Export::of(&recording).write(Format::TrafficCsv, &mut Vec::new());
        assert_eq!(
            result.map_err(|error| error.kind()),
            if fits { Ok(()) } else { Err(ErrorKind::InvalidData) }
        );
    }
}
