//! The HTML report of a replay: a single page that opens in any browser and loads nothing from elsewhere.
//!
//! The template is `assets/report.html`; this module inserts the data.

pub(crate) mod defragmentation;

use core::hash::Hash;
use std::collections::HashMap;

use serde::Serialize;

use crate::args::Setup;
use crate::failure::Failure;
use crate::output_file::OutputFile;
use crate::replay::{Block, Outcome, Sample, display_name};
use crate::source::Source;
use crate::target::Machine;

const PAGE: &str = include_str!("../../assets/report.html");

/// The placeholder in the template for the data.
const PLACE: &str = "/*ALLOTMENT_REPORT_DATA*/null";

/// Most points of a curve.
const MOST_SAMPLES: usize = 4000;

#[derive(Serialize)]
struct Data<'a> {
    format: u32,
    title: &'a str,
    device: &'static str,
    /// The profile of the simulated GPU.
    profile: Option<&'static str>,
    /// The name that the device reports.
    device_name: &'a str,
    algorithm: String,
    events: usize,
    /// The index of the event that ends each frame.
    frames: Vec<usize>,
    summary: &'a [(String, String)],
    timeline: Timeline,
    heaps: Vec<Heap>,
    blocks: Vec<BlockRow>,
    allocations: Allocations,
    names: Vec<String>,
    categories: Vec<&'static str>,
    peak: usize,
}

/// The curves, column by column.
#[derive(Default, Serialize)]
struct Timeline {
    at: Vec<usize>,
    live: Vec<u64>,
    reserved: Vec<u64>,
    padding: Vec<u64>,
    rounding: Vec<u64>,
    free: Vec<u64>,
    device_calls: Vec<u64>,
}

#[derive(Serialize)]
struct Heap {
    index: usize,
    name: &'static str,
    size: u64,
    budget: u64,
}

#[derive(Serialize)]
struct BlockRow {
    id: usize,
    pool: String,
    memory_type: u8,
    heap: u8,
    size: u64,
    dedicated: bool,
    from: usize,
    to: Option<usize>,
}

/// The allocations, column by column.
#[derive(Default, Serialize)]
struct Allocations {
    block: Vec<usize>,
    offset: Vec<u64>,
    size: Vec<u64>,
    requested: Vec<u64>,
    from: Vec<usize>,
    /// -1 if it was never freed.
    to: Vec<i64>,
    /// 0 for a buffer, 1 for an image.
    kind: Vec<u8>,
    name: Vec<usize>,
    id: Vec<u64>,
    category: Vec<usize>,
}

/// Writes the report.
pub(crate) fn write(
    file: &OutputFile,
    source: &Source,
    machine: &Machine,
    setup: &Setup,
    outcome: &Outcome,
    summary: &[(String, String)],
) -> Result<(), Failure> {
    let data = Data::new(source, machine, setup, outcome, summary);
    // Escaped, since the HTML parser ends a script element at the first `</script`, even inside a string.
    let json = serde_json::to_string(&data)?.replace('<', "\\u003c");
    file.write(PAGE.replacen(PLACE, &json, 1).as_bytes())
}

/// A list without duplicates, in insertion order. A trace may have a different name for each resource.
#[derive(Debug)]
struct Interned<T> {
    list: Vec<T>,
    positions: HashMap<T, usize>,
}

impl<T: Clone + Eq + Hash> Interned<T> {
    fn new() -> Self {
        Self { list: Vec::new(), positions: HashMap::new() }
    }

    /// Returns the position of `item`, which is appended if missing.
    fn position(&mut self, item: T) -> usize {
        let next = self.list.len();
        let position = *self.positions.entry(item.clone()).or_insert(next);
        if position == next {
            self.list.push(item);
        }
        position
    }
}

impl<'a> Data<'a> {
    fn new(
        source: &'a Source,
        machine: &'a Machine,
        setup: &Setup,
        outcome: &'a Outcome,
        summary: &'a [(String, String)],
    ) -> Self {
        let trace = &source.trace;
        let (mut names, mut categories) = (Interned::new(), Interned::new());
        let mut allocations = Allocations::default();
        for allocated in &outcome.history.allocations {
            let resource = trace.resource(allocated.resource);
            allocations.block.push(allocated.block);
            allocations.offset.push(allocated.offset);
            allocations.size.push(allocated.occupied);
            allocations.requested.push(allocated.requested);
            allocations.from.push(allocated.from);
            allocations.to.push(allocated.to.map_or(-1, |to| to as i64));
            let image = matches!(resource.kind(), allotment_trace::ResourceKind::Image);
            allocations.kind.push(image.into());
            allocations.name.push(names.position(display_name(resource)));
            allocations.id.push(resource.id());
            allocations.category.push(categories.position(allocated.category));
        }
        let frames = trace.events().iter().enumerate();
        let frames = frames.filter(|(_, event)| event.op == allotment_trace::Op::FrameEnd);
        let blocks = outcome.history.blocks.iter().enumerate();
        Self {
            format: 1,
            title: &source.title,
            device: machine.device,
            profile: machine.profile,
            device_name: &machine.properties.name,
            algorithm: setup.algorithm.to_string(),
            events: trace.events().len(),
            frames: frames.map(|(index, _)| index).collect(),
            summary,
            timeline: Timeline::new(&outcome.history.samples, outcome.peak_event),
            heaps: heaps(machine),
            blocks: blocks.map(|(id, block)| BlockRow::new(id, block, machine)).collect(),
            allocations,
            names: names.list,
            categories: categories.list,
            peak: outcome.peak_event,
        }
    }
}

impl Timeline {
    /// Takes every n-th sample, and the peak, the first and the last.
    fn new(samples: &[Sample], peak: usize) -> Self {
        let step = samples.len().div_ceil(MOST_SAMPLES).max(1);
        let mut timeline = Self::default();
        for (i, sample) in samples.iter().enumerate() {
            if i % step == 0 || sample.event == peak || i + 1 == samples.len() {
                let statistics = &sample.statistics;
                timeline.at.push(sample.event);
                timeline.live.push(statistics.allocation_bytes);
                timeline.reserved.push(statistics.block_bytes);
                timeline.padding.push(statistics.padding);
                timeline.rounding.push(statistics.rounding);
                timeline.free.push(statistics.free());
                timeline.device_calls.push(sample.device_calls);
            }
        }
        timeline
    }
}

fn heaps(machine: &Machine) -> Vec<Heap> {
    let heaps = machine.properties.heaps.iter().zip(&machine.budgets).enumerate();
    let heaps = heaps.map(|(index, (heap, budget))| Heap {
        index,
        name: if heap.device_local { "device-local" } else { "host" },
        size: heap.size,
        budget: budget.budget,
    });
    heaps.collect()
}

impl BlockRow {
    fn new(id: usize, block: &Block, machine: &Machine) -> Self {
        let properties = machine.properties.memory_types[usize::from(block.memory_type)].properties;
        Self {
            id,
            pool: format!("type {} ({properties}), {}", block.memory_type, block.pool),
            memory_type: block.memory_type,
            heap: block.heap,
            size: block.size,
            dedicated: block.dedicated,
            from: block.from,
            to: block.to,
        }
    }
}
