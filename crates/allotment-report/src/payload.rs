//! Which columns the page gets. `assets/model.js` reads them by the same names.

use std::io::{self, Write};

use allotment::Algorithm;
use allotment::device::{MemoryProperties, ResourceKind};
use allotment_analyze::Timeline;
use allotment_analyze::tables::{self as declared, Table};
use allotment_trace::recording::{
    Api, BlockKind, DeletionQueueKind, DescriptorKind, Header, Placement, Recording, RefusalReason, RingKind,
    StallKind, TextId,
};

use crate::calls;
use crate::columns::ColumnWriter;
use crate::lives::{Lives, NEVER, ObjectLife, RangeLife, Sample};
use crate::planned::Planned;
use crate::shared::Shared;
use crate::tables;

/// What a page shows.
pub(crate) struct Content<'a> {
    pub(crate) title: &'a str,
    pub(crate) recording: &'a Recording,
    pub(crate) timeline: &'a Timeline<'a>,
    pub(crate) lives: Lives,
    pub(crate) leaks: Table,
    pub(crate) advice: Vec<String>,
    pub(crate) planned: Planned,
    pub(crate) shared: Shared,
}

/// Writes all columns. Columns of one table begin with its name and have equally many values.
pub(crate) fn write<W: Write>(content: &Content<'_>, out: &mut ColumnWriter<W>) -> io::Result<()> {
    let Content { title, recording, lives, advice, .. } = content;
    head(title, &recording.header, out)?;
    out.plain("events", [lives.events])?;
    out.plain("moment", [(!content.timeline.has_history()).into()])?;
    out.texts("unread", content.timeline.unread().iter().map(ToString::to_string))?;
    out.texts("texts", &recording.texts)?;
    out.texts("advice.text", advice)?;
    tables::write(content, out)?;
    pools(content, out)?;
    memory(lives, out)?;
    ranges(&lives.ranges, out)?;
    calls::write(recording, &lives.ranges, out)?;
    objects(lives, out)?;
    content.planned.write(content.timeline, out)?;
    content.shared.write(content.timeline, &lives.ranges, out)?;
    happenings(lives, out)
}

/// Where the recording was made, and the words for the codes that other columns have.
fn head<W: Write>(title: &str, header: &Header, out: &mut ColumnWriter<W>) -> io::Result<()> {
    out.texts("title", [title])?;
    let api = match header.api {
        Api::Simulated => "simulated GPU",
        Api::Vulkan => "Vulkan",
        Api::Direct3D12 => "Direct3D 12",
        Api::Cuda => "CUDA",
        _ => "",
    };
    out.texts("facts", [&*header.producer, api, &*header.device, &*header.driver])?;
    out.texts("setting.name", header.settings.iter().map(|(name, _)| name))?;
    out.texts("setting.value", header.settings.iter().map(|(_, value)| value))?;
    out.plain("heap.size", header.heaps.iter().map(|heap| heap.size))?;
    out.plain("heap.local", header.heaps.iter().map(|heap| heap.device_local.into()))?;
    out.plain("type.heap", header.memory_types.iter().map(|memory| memory.heap.into()))?;
    let properties: Vec<String> = header
        .memory_types
        .iter()
        .map(|memory| MemoryProperties::from_bits_truncate(memory.properties).to_string())
        .collect();
    out.texts("type.properties", &properties)?;

    words(out, "words.placement", Placement::ALL)?;
    words(out, "words.block", BlockKind::ALL)?;
    words(out, "words.refusal", RefusalReason::ALL)?;
    words(out, "words.stall", StallKind::ALL)?;
    words(out, "words.descriptors", DescriptorKind::ALL)?;
    words(out, "words.ring", RingKind::ALL)?;
    words(out, "words.queue", DeletionQueueKind::ALL)?;
    out.texts("words.algorithm", ["TLSF", "buddy", "linear", ""])?;
    let kinds = [ResourceKind::Buffer, ResourceKind::LinearImage, ResourceKind::OptimalImage];
    out.texts("words.kind", kinds.map(declared::kind).into_iter().chain(["not known"]))?;
    out.texts(
        "words.usage",
        ["not known", "GPU only", "upload", "readback", "device upload", "transient", "device mapped"],
    )
}

/// Writes the words of an enumeration whose codes are `0..`.
fn words<W: Write>(out: &mut ColumnWriter<W>, name: &str, all: &[impl ToString]) -> io::Result<()> {
    let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
    out.texts(name, &texts)
}

fn pools<W: Write>(content: &Content<'_>, out: &mut ColumnWriter<W>) -> io::Result<()> {
    let (timeline, pools) = (content.timeline, &content.lives.pools);
    // Both have the pools in the order in which they were created.
    let labels: Vec<_> = timeline.pools().map(|pool| timeline.pool_label(pool)).collect();
    out.texts("pool.label", labels)?;
    out.plain("pool.algorithm", pools.iter().map(|pool| algorithm(pool.algorithm)))?;
    out.plain("pool.custom", pools.iter().map(|pool| pool.custom.into()))
}

fn memory<W: Write>(lives: &Lives, out: &mut ColumnWriter<W>) -> io::Result<()> {
    let blocks = &lives.blocks;
    out.difference("block.id", blocks.iter().map(|block| block.id.0))?;
    out.plain("block.pool", blocks.iter().map(|block| block.pool.map_or(0, |pool| pool as u64 + 1)))?;
    out.plain("block.type", blocks.iter().map(|block| block.memory_type.into()))?;
    out.plain("block.kind", blocks.iter().map(|block| block.kind.code().into()))?;
    out.plain("block.size", blocks.iter().map(|block| block.size))?;
    out.difference("block.from", blocks.iter().map(|block| block.from))?;
    out.plain("block.life", blocks.iter().map(|block| life(block.from, block.to)))?;
    out.plain("block.aliased", blocks.iter().map(|block| block.aliased.into()))?;
    samples(out, "resize", &lives.resizes)?;
    // The ranges are in the order of the blocks.
    let mut ranges = vec![0; blocks.len()];
    for range in &lives.ranges {
        ranges[range.block as usize] += 1;
    }
    out.plain("block.ranges", ranges)
}

fn ranges<W: Write>(ranges: &[RangeLife], out: &mut ColumnWriter<W>) -> io::Result<()> {
    out.difference("range.offset", ranges.iter().map(|range| range.is.offset))?;
    out.plain("range.requested", ranges.iter().map(|range| range.is.requested))?;
    // Mostly none, so the bytes beyond the request are cheaper than all bytes.
    out.plain(
        "range.beyond",
        ranges.iter().map(|range| range.is.occupied.saturating_sub(range.is.requested)),
    )?;
    out.difference("range.from", ranges.iter().map(|range| range.from))?;
    out.plain("range.life", ranges.iter().map(|range| life(range.from, range.to)))?;
    // When the program released it, for the GPU to finish with: see `pending`.
    out.plain("range.pending", ranges.iter().map(pending))?;
    out.plain("range.flags", ranges.iter().map(flags))?;
    out.plain("range.name", ranges.iter().map(|range| text(range.is.name)))?;
    out.plain("range.category", ranges.iter().map(|range| text(range.is.category)))?;
    out.plain("range.site", ranges.iter().map(|range| text(range.call_site)))?;
    out.plain("range.alignment", ranges.iter().map(|range| range.is.alignment.log2().into()))?;
    out.plain("range.kind", ranges.iter().map(|range| kind(range.is.kind)))?;
    out.plain("range.usage", ranges.iter().map(usage))?;
    out.plain("range.placement", ranges.iter().map(|range| range.is.placement.code().into()))?;
    out.plain("range.before", ranges.iter().map(|range| range.before.into()))?;
    // Few ranges are reservations: which, and from when on.
    let reserved = ranges.iter().enumerate().filter(|(_, range)| range.reserved_from > 0);
    out.difference("reservation.range", reserved.clone().map(|(index, _)| index as u64))?;
    out.difference("reservation.from", reserved.map(|(_, range)| range.reserved_from))?;
    // The program's number may need all 64 bits.
    out.plain("range.user_low", ranges.iter().map(|range| range.is.user_data & u64::from(u32::MAX)))?;
    out.plain("range.user_high", ranges.iter().map(|range| range.is.user_data >> 32))
}

fn objects<W: Write>(lives: &Lives, out: &mut ColumnWriter<W>) -> io::Result<()> {
    object(out, "descriptors", &lives.heaps, |kind| kind.code())?;
    let slots = &lives.slots;
    out.plain("slots.of", slots.iter().map(|slots| slots.heap as u64))?;
    out.difference("slots.first", slots.iter().map(|slots| slots.first.into()))?;
    out.plain("slots.count", slots.iter().map(|slots| slots.count.into()))?;
    out.difference("slots.from", slots.iter().map(|slots| slots.from))?;
    out.plain("slots.life", slots.iter().map(|slots| life(slots.from, slots.to)))?;
    object(out, "ring", &lives.rings, |kind| kind.code())?;
    samples(out, "ring_used", &lives.ring_samples)?;
    object(out, "queue", &lives.queues, |kind| kind.code())?;
    samples(out, "queue_waiting", &lives.queue_samples)
}

fn object<W: Write, Kind: Copy>(
    out: &mut ColumnWriter<W>,
    table: &str,
    lives: &[ObjectLife<Kind>],
    code: impl Fn(Kind) -> u8,
) -> io::Result<()> {
    out.plain(&format!("{table}.kind"), lives.iter().map(|object| code(object.kind).into()))?;
    out.plain(&format!("{table}.name"), lives.iter().map(|object| text(object.name)))?;
    out.plain(&format!("{table}.capacity"), lives.iter().map(|object| object.capacity))?;
    out.difference(&format!("{table}.from"), lives.iter().map(|object| object.from))?;
    out.plain(&format!("{table}.life"), lives.iter().map(|object| life(object.from, object.to)))
}

/// What happened at moments: budgets, frames, times, marks, refusals, stalls, losses.
fn happenings<W: Write>(lives: &Lives, out: &mut ColumnWriter<W>) -> io::Result<()> {
    samples(out, "budget", &lives.budgets)?;
    out.plain("budget.limit", lives.budgets.iter().map(|sample| sample.values[1]))?;
    out.difference("frame.at", lives.frames.iter().map(|&(at, _)| at))?;
    out.difference("frame.number", lives.frames.iter().map(|&(_, frame)| frame))?;
    out.difference("time.at", lives.times.iter().map(|&(at, _)| at))?;
    out.difference("time.ns", lives.times.iter().map(|&(_, nanoseconds)| nanoseconds))?;
    out.difference("mark.at", lives.marks.iter().map(|&(at, _)| at))?;
    out.plain("mark.text", lives.marks.iter().map(|&(_, name)| text(name)))?;
    let refusals = &lives.refusals;
    out.difference("refusal.at", refusals.iter().map(|refusal| refusal.at))?;
    out.plain("refusal.reason", refusals.iter().map(|refusal| refusal.reason.code().into()))?;
    out.plain("refusal.requested", refusals.iter().map(|refusal| refusal.requested))?;
    out.plain("refusal.available", refusals.iter().map(|refusal| refusal.available))?;
    out.plain("refusal.largest", refusals.iter().map(|refusal| refusal.largest_free))?;
    out.plain("refusal.name", refusals.iter().map(|refusal| text(refusal.name)))?;
    out.difference("stall.at", lives.stalls.iter().map(|&(at, ..)| at))?;
    out.plain("stall.kind", lives.stalls.iter().map(|&(_, kind, _)| kind.code().into()))?;
    out.plain("stall.ns", lives.stalls.iter().map(|&(.., nanoseconds)| nanoseconds))?;
    out.difference("loss.at", lives.losses.iter().copied())
}

fn samples<W: Write>(out: &mut ColumnWriter<W>, table: &str, samples: &[Sample]) -> io::Result<()> {
    out.difference(&format!("{table}.at"), samples.iter().map(|sample| sample.at))?;
    out.plain(&format!("{table}.of"), samples.iter().map(|sample| sample.of))?;
    out.difference(&format!("{table}.value"), samples.iter().map(|sample| sample.values[0]))
}

pub(crate) fn text(id: TextId) -> u64 {
    id.0.into()
}

/// Moments from the beginning to the end of a life; 0 if it has not ended.
pub(crate) fn life(from: u64, to: u64) -> u64 {
    if to == NEVER { 0 } else { to - from }
}

/// 0 if the free of a range was not deferred, else moments from its beginning to the request to free it, plus 1.
fn pending(range: &RangeLife) -> u64 {
    match range.pending_from {
        0 => 0,
        // A range that its allocation moved to after the request is pending from its beginning.
        from => from.saturating_sub(range.from) + 1,
    }
}

fn flags(range: &RangeLife) -> u64 {
    u64::from(range.reserved_from > 0)
        | u64::from(range.mapped) << 1
        | u64::from(range.is.movable) << 2
        | u64::from(range.is.second_choice) << 3
        | u64::from(range.pending_from > 0) << 4
}

pub(crate) fn kind(kind: ResourceKind) -> u64 {
    match kind {
        ResourceKind::Buffer => 0,
        ResourceKind::LinearImage => 1,
        ResourceKind::OptimalImage => 2,
        _ => 3,
    }
}

fn usage(range: &RangeLife) -> u64 {
    let all = &allotment::memory::MemoryUsage::ALL;
    let index = range.is.usage.and_then(|usage| all.iter().position(|&each| each == usage));
    index.map_or(0, |index| index as u64 + 1)
}

fn algorithm(algorithm: Option<Algorithm>) -> u64 {
    match algorithm {
        Some(Algorithm::Tlsf) => 0,
        Some(Algorithm::Buddy) => 1,
        Some(_) => 2,
        None => 3,
    }
}
