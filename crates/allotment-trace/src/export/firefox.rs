//! A processed profile of Firefox Profiler: live bytes as a call tree by call site, counters of each heap, and markers.
//!
//! The format is columns: a table is one array for each field. They are written by replaying the recording once for each
//! column (`walk`), so that no table is in memory. What a first pass collects are the stacks: a file, a call site in it,
//! and a name, as often as they differ.
//!
//! ```text
//!  stack   src/scene.rs ─ src/scene.rs:31:9 ─ mesh      bytes: +4096 where it is allocated, −4096 where it is freed
//!                                           └ decals
//! ```
//!
//! An allocation whose whole stack the recording has, has its calls in place of the file and the call site.
//!
//! This is version 63 of the format; the profiler upgrades older versions itself.

mod stacks;
mod walk;

use core::fmt::{self, Display};
use std::io;

use allotment_suballoc::json::Object;

use self::stacks::Stacks;
use self::walk::{Item, Marker, MarkerKind, Walk};
use super::Export;
use super::text::{Text, json};

type Json<'o, 'w, W> = Object<'o, Text<'w, W>>;

/// The version of the format, and that of Firefox's own format, which such a profile says as well.
const VERSION: u64 = 63;
const GECKO_VERSION: u64 = 30;

pub(super) fn write(export: Export<'_>, out: &mut impl io::Write) -> io::Result<()> {
    let walk = Walk::new(&export);
    let stacks = Stacks::of(&walk);
    json(out, |o| {
        meta(o, &export)?;
        o.array("libs", |_| Ok(()))?;
        o.object("shared", |o| stacks.write(o))?;
        o.array("counters", |counters| {
            walk.heaps().try_for_each(|heap| {
                counters.object(|o| counter(o, &walk, heap, "blocks", "Bytes of blocks"))?;
                counters.object(|o| counter(o, &walk, heap, "allocations", "Bytes as requested"))
            })
        })?;
        o.array("threads", |threads| threads.object(|o| thread(o, &walk, &stacks)))
    })
}

fn meta<W: io::Write>(o: &mut Json<'_, '_, W>, export: &Export<'_>) -> fmt::Result {
    let header = &export.recording.header;
    o.object("meta", |meta| {
        meta.number("interval", 1)?;
        meta.number("startTime", 0)?;
        meta.number("processType", 0)?;
        meta.text("product", if header.producer.is_empty() { "GPU memory" } else { &header.producer })?;
        meta.text("importedFrom", "Allotment")?;
        meta.text("device", &header.device)?;
        meta.number("stackwalk", 0)?;
        meta.number("version", GECKO_VERSION)?;
        meta.number("preprocessedProfileVersion", VERSION)?;
        for key in
            ["symbolicated", "usesOnlyOneStackType", "sourceCodeIsNotOnSearchfox", "keepProfileThreadOrder"]
        {
            meta.raw(key, true)?;
        }
        meta.array("initialVisibleThreads", |threads| threads.raw(0))?;
        meta.array("initialSelectedThreads", |threads| threads.raw(0))?;
        meta.array("categories", |categories| {
            categories.object(|category| {
                category.text("name", "Other")?;
                category.text("color", "grey")?;
                category.array("subcategories", |names| names.text("Other"))
            })
        })?;
        meta.array("markerSchema", |schemas| {
            MarkerKind::ALL.into_iter().try_for_each(|kind| schemas.object(|o| schema(o, kind)))
        })
    })
}

/// Writes how markers of a kind are shown.
fn schema<W: io::Write>(o: &mut Json<'_, '_, W>, kind: MarkerKind) -> fmt::Result {
    o.text("name", kind.name())?;
    for key in ["chartLabel", "tooltipLabel", "tableLabel"] {
        o.text(key, "{marker.data.text}")?;
    }
    o.array("display", |display| {
        ["marker-chart", "marker-table", "timeline-overview"].into_iter().try_for_each(|at| display.text(at))
    })?;
    o.array("fields", |fields| {
        [("text", "Text", "string"), ("value", kind.value(), kind.format())].into_iter().try_for_each(
            |(key, label, format)| {
                fields.object(|field| {
                    field.text("key", key)?;
                    field.text("label", label)?;
                    field.text("format", format)
                })
            },
        )
    })
}

/// Writes a counter of a heap. Its samples are changes.
fn counter<W: io::Write>(
    o: &mut Json<'_, '_, W>,
    walk: &Walk<'_>,
    heap: u8,
    what: &str,
    description: &str,
) -> fmt::Result {
    let change = |item: &Item| match *item {
        Item::Blocks { heap: of, bytes } if of == heap && what == "blocks" => Some(bytes),
        Item::Bytes { heap: of, bytes } if of == heap && what == "allocations" => Some(bytes),
        _ => None,
    };
    let name = format!("heap {heap}: {what}");
    o.text("name", &name)?;
    o.text("category", "Memory")?;
    o.text("description", description)?;
    o.text("pid", "1")?;
    o.number("mainThreadIndex", 0)?;
    o.object("display", |display| {
        display.text("graphType", "line-accumulated")?;
        display.text("unit", "bytes")?;
        display.text("color", if what == "blocks" { "green" } else { "red" })?;
        display.raw("markerSchemaLocation", "null")?;
        display.number("sortWeight", 20)?;
        display.text("label", &name)?;
        display.array("tooltipRows", |rows| {
            let sources = [("accumulated", "bytes at this time"), ("count-range", "range in graph")];
            sources.into_iter().try_for_each(|(source, label)| {
                rows.object(|row| {
                    row.text("type", "value")?;
                    row.text("source", source)?;
                    row.object("format", |format| format.text("unit", "bytes"))?;
                    row.text("label", label)
                })
            })
        })
    })?;
    o.object("samples", |samples| {
        column(samples, "time", walk, |time, item| change(item).map(|_| Milliseconds(time)))?;
        let rows = column(samples, "count", walk, |_, item| change(item))?;
        samples.number("length", rows)
    })
}

fn thread<W: io::Write>(o: &mut Json<'_, '_, W>, walk: &Walk<'_>, stacks: &Stacks<'_>) -> fmt::Result {
    o.text("processType", "default")?;
    o.text("name", "GPU memory")?;
    o.text("processName", "GPU memory")?;
    o.raw("isMainThread", true)?;
    o.text("pid", "1")?;
    o.number("tid", 1)?;
    o.number("processStartupTime", 0)?;
    o.raw("processShutdownTime", "null")?;
    o.number("registerTime", 0)?;
    o.raw("unregisterTime", "null")?;
    o.raw("showMarkersInTimeline", true)?;
    o.array("pausedRanges", |_| Ok(()))?;
    // Nothing samples the program: without samples, the profiler shows allocations.
    o.object("samples", |samples| {
        samples.array("stack", |_| Ok(()))?;
        samples.array("time", |_| Ok(()))?;
        samples.raw("weight", "null")?;
        samples.text("weightType", "samples")?;
        samples.number("length", 0)
    })?;
    o.object("nativeAllocations", |samples| {
        let sample = |item: &Item| match *item {
            Item::Sample(sample) => Some(sample),
            _ => None,
        };
        column(samples, "time", walk, |time, item| sample(item).map(|_| Milliseconds(time)))?;
        column(samples, "weight", walk, |_, item| sample(item).map(|sample| sample.bytes))?;
        samples.text("weightType", "bytes")?;
        column(samples, "stack", walk, |_, item| sample(item).map(|sample| stacks.get(sample)))?;
        // Not an address, but as unique: the profiler pairs what is freed with what was allocated by it.
        column(samples, "memoryAddress", walk, |_, item| sample(item).map(|sample| sample.number))?;
        let rows = column(samples, "threadId", walk, |_, item| sample(item).map(|_| 1))?;
        samples.number("length", rows)
    })?;
    o.object("markers", |markers| {
        markers.array("data", |array| walk.markers(|_, marker| array.object(|o| data(o, marker))))?;
        marker_column(markers, "name", walk, |_, marker| stacks.marker(marker.kind))?;
        marker_column(markers, "startTime", walk, |now, marker| Milliseconds(marker.begin.unwrap_or(now)))?;
        // Not read where a marker is an instant.
        marker_column(markers, "endTime", walk, |now, _| Milliseconds(now))?;
        // 0 is an instant, 1 an interval.
        marker_column(markers, "phase", walk, |_, marker| u8::from(marker.begin.is_some()))?;
        let rows = marker_column(markers, "category", walk, |_, _| 0)?;
        markers.number("length", rows)
    })
}

fn data<W: io::Write>(o: &mut Json<'_, '_, W>, marker: &Marker<'_>) -> fmt::Result {
    o.text("type", marker.kind.name())?;
    o.text("text", &marker.text)?;
    o.number("value", marker.value)
}

/// Writes a column, an array of what `value` returns for the items of a recording, and returns how many rows it has.
fn column<W: io::Write, V: Display>(
    table: &mut Json<'_, '_, W>,
    key: &str,
    walk: &Walk<'_>,
    value: impl Fn(u64, &Item) -> Option<V>,
) -> Result<u64, fmt::Error> {
    let mut rows = 0;
    table.array(key, |array| {
        walk.items(|now, item| {
            let Some(value) = value(now, item) else { return Ok(()) };
            rows += 1;
            array.raw(value)
        })
    })?;
    Ok(rows)
}

/// Writes a column of the markers, and returns how many there are.
fn marker_column<W: io::Write, V: Display>(
    table: &mut Json<'_, '_, W>,
    key: &str,
    walk: &Walk<'_>,
    value: impl Fn(u64, &Marker<'_>) -> V,
) -> Result<u64, fmt::Error> {
    let mut rows = 0;
    table.array(key, |array| {
        walk.markers(|now, marker| {
            rows += 1;
            array.raw(value(now, marker))
        })
    })?;
    Ok(rows)
}

/// Nanoseconds as a decimal number of milliseconds, the unit of the format.
struct Milliseconds(u64);

impl Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}
