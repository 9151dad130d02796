//! Trace events as JSON: the format of `chrome://tracing`, and the JSON that Perfetto reads.
//!
//! ```text
//!  process "memory"            tracks frames, marks, refusals, stalls; counters of each heap and memory type
//!  process "other objects"     counters of queues, descriptor heaps, rings and deletion queues
//!  process "memory type 0"     a track for each block:
//!    block 7  ├───────────────────────────────────────────────────────┤   while the block exists: the outer slices
//!      lane 0   ├─ mesh ─────────┤├─ shadow map ─┤    ╭─► ├─ decals ─┤    one allocation after another
//!      lane 1       ├─ decals ────────────────────┤───╯                   a flow where one moved
//!    shadows in targets  ├──────────────────────────────┤                 a track for each resource that shares an
//!                        ├─ active ──┤     ├─ active ─┤                   allocation, with a slice while it is active
//! ```
//!
//! Allocations overlap in time without nesting, so each is an asynchronous slice (`b` and `e`) in a lane of its block
//! that no other allocation has meanwhile; the lane is the events' id. Perfetto names a track after its first slice and
//! merges tracks of one name, so that the slice of the block, first in each lane, makes one track of its lanes. It draws
//! flows between asynchronous slices by `bind_id` only.
//!
//! The values that are known when an allocation ends (its call site, its last name) are in the arguments of its `e`, which the
//! viewers merge with those of its `b`.
//!
//! Counters are written once for each time that the recording has: as often as they can be told apart. Where a recording
//! has no times, an event takes a microsecond. Fragmentation is written at the ends of some frames.

mod counters;
mod resources;
mod slices;

use core::fmt::{self, Display};
use std::io;

use allotment_suballoc::json::{Array, Object};

use self::counters::Counters;
use self::resources::Resources;
use self::slices::Slices;
use super::text::{Text, json};
use super::{Export, is_timed};
use crate::recording::{Event, Recording, TextId, Usage};

/// The process of frames, marks and the counters of memory.
const MEMORY: u32 = 1;
/// The process of the other counters.
const OBJECTS: u32 = 2;
/// The process of memory type 0. The others follow.
const FIRST_TYPE: u32 = 100;

/// The threads of [`MEMORY`].
const FRAMES: u32 = 1;
const MARKS: u32 = 2;
const REFUSALS: u32 = 3;
const STALLS: u32 = 4;

/// How often fragmentation is written, beside at the end: it takes a walk over all blocks. Measured with 20,000 live
/// allocations and a survey at each of 5,000 frames, those took 95 % of the time of an export.
const SURVEYS: u64 = 250;

pub(super) fn write(export: Export<'_>, out: &mut impl io::Write) -> io::Result<()> {
    let header = &export.recording.header;
    json(out, |o| {
        o.text("displayTimeUnit", "ns")?;
        o.object("otherData", |o| {
            o.text("producer", &header.producer)?;
            o.text("device", &header.device)?;
            o.text("driver", &header.driver)?;
            header.settings.iter().try_for_each(|(name, value)| o.text(name, value))
        })?;
        o.array("traceEvents", |events| {
            let mut writer = Writer { events, recording: export.recording, now: 0 };
            writer.names()?;
            write_events(&export, &mut writer)
        })
    })
}

fn write_events<W: io::Write>(export: &Export<'_>, writer: &mut Writer<'_, '_, '_, W>) -> fmt::Result {
    let mut usage = Usage::default();
    let mut counters = Counters::default();
    let mut slices = Slices::default();
    let mut resources = Resources::default();
    let timed = is_timed(export.events);
    let (mut frame_begin, mut next_survey) = (0, 0);
    for (index, event) in (0..).zip(export.events) {
        if timed {
            if let Event::Time { nanoseconds } = *event {
                counters.write(writer, &usage)?;
                // Time that went backwards in a damaged recording would end slices before they begin.
                writer.now = writer.now.max(nanoseconds);
            }
        } else {
            counters.write(writer, &usage)?;
            writer.now = index * 1000;
        }
        counters.note(usage.state(), event);
        slices.before(usage.state(), event);
        if usage.apply(event).is_err() {
            continue;
        }
        slices.after(writer, usage.state(), index, event)?;
        resources.after(writer, usage.state(), event)?;
        match *event {
            Event::FrameEnd { number } => {
                let duration = writer.now.saturating_sub(frame_begin);
                writer.at(frame_begin, "X", MEMORY, FRAMES, format_args!("frame {number}"), |o| {
                    o.raw("dur", Microseconds(duration))
                })?;
                frame_begin = writer.now;
                if index >= next_survey {
                    counters.write_fragmentation(writer, &usage)?;
                    next_survey = index + export.events.len() as u64 / SURVEYS;
                }
            }
            Event::Mark { text } => {
                let text = writer.recording.text(text).unwrap_or("mark");
                writer.instant(MARKS, text, |_| Ok(()))?;
            }
            Event::Lost => writer.instant(MARKS, "events were lost", |_| Ok(()))?,
            Event::Refused { reason, requested, available, largest_free, name } => {
                writer.instant(REFUSALS, reason, |args| {
                    args.number("requested", requested)?;
                    args.number("available", available)?;
                    args.number("largest free", largest_free)?;
                    writer_text(args, export.recording, "name", name)
                })?;
            }
            Event::Stalled { kind, nanoseconds } => {
                writer.instant(STALLS, kind, |args| args.number("nanoseconds", nanoseconds))?;
            }
            _ => {}
        }
    }
    counters.write(writer, &usage)?;
    counters.write_fragmentation(writer, &usage)?;
    resources.end(writer)?;
    slices.end(writer, usage.state())
}

/// Writes a text of the recording, where there is one.
fn writer_text<W: io::Write>(
    o: &mut Json<'_, '_, W>,
    recording: &Recording,
    key: &str,
    text: TextId,
) -> fmt::Result {
    recording.text(text).map_or(Ok(()), |text| o.text(key, text))
}

type Json<'o, 'w, W> = Object<'o, Text<'w, W>>;

/// Writes one trace event after another.
struct Writer<'e, 'o, 'w, W: io::Write> {
    events: &'e mut Array<'o, Text<'w, W>>,
    recording: &'e Recording,
    /// Nanoseconds.
    now: u64,
}

impl<W: io::Write> Writer<'_, '_, '_, W> {
    /// Names the processes and threads that every trace has.
    fn names(&mut self) -> fmt::Result {
        for (process, name) in [(MEMORY, "memory"), (OBJECTS, "other objects")] {
            self.process(process, name)?;
        }
        for (thread, name) in
            [(FRAMES, "frames"), (MARKS, "marks"), (REFUSALS, "refused requests"), (STALLS, "stalls")]
        {
            self.at(0, "M", MEMORY, thread, "thread_name", |o| {
                o.object("args", |args| args.text("name", name))
            })?;
        }
        Ok(())
    }

    fn process(&mut self, process: u32, name: impl Display) -> fmt::Result {
        self.at(0, "M", process, 0, "process_name", |o| o.object("args", |args| args.text("name", name)))?;
        self.at(0, "M", process, 0, "process_sort_index", |o| {
            o.object("args", |args| args.number("sort_index", process.into()))
        })
    }

    /// Writes an event of a time, with the members that `fill` adds.
    fn at(
        &mut self,
        nanoseconds: u64,
        phase: &str,
        process: u32,
        thread: u32,
        name: impl Display,
        fill: impl FnOnce(&mut Json<'_, '_, W>) -> fmt::Result,
    ) -> fmt::Result {
        self.events.object(|o| {
            o.text("ph", phase)?;
            o.number("pid", process.into())?;
            o.number("tid", thread.into())?;
            o.raw("ts", Microseconds(nanoseconds))?;
            o.text("name", name)?;
            fill(o)
        })
    }

    /// Writes an instant event of a thread of [`MEMORY`].
    fn instant(
        &mut self,
        thread: u32,
        name: impl Display,
        args: impl FnOnce(&mut Json<'_, '_, W>) -> fmt::Result,
    ) -> fmt::Result {
        self.at(self.now, "i", MEMORY, thread, name, |o| {
            o.text("s", "t")?;
            o.object("args", args)
        })
    }

    /// Writes the values of a counter.
    fn counter(&mut self, process: u32, name: impl Display, values: &[(&str, u64)]) -> fmt::Result {
        self.at(self.now, "C", process, 0, name, |o| {
            o.object("args", |args| values.iter().try_for_each(|(key, value)| args.number(key, *value)))
        })
    }
}

/// Nanoseconds as a decimal number of microseconds, the unit of the format.
struct Microseconds(u64);

impl Display for Microseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}
