//! `traces`: the memory that each contender reserves for recorded or generated traffic.

mod generated;
mod roles;
mod source;

use std::sync::Arc;
use std::time::Instant;

use allotment_trace::{Op, Trace};
use serde::Serialize;

use crate::args::TracesArgs;
use crate::contender::{
    Allotment, Blocks, Contender, ExpandableSegments, GpuAllocator, OwnExpandable, VkMem,
};
use crate::failure::Failure;
use crate::units::bytes;
use crate::vulkan::Gpu;
use roles::request;
use source::{generated_sources, sources};

#[derive(Serialize)]
struct Report {
    device: String,
    notes: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    trace: String,
    contender: &'static str,
    peak_reserved_bytes: u64,
    peak_live_bytes: u64,
    /// Calls up to the end of the trace; allocations still live then are not freed.
    driver_allocate_calls: u64,
    driver_free_calls: u64,
    /// Calls that bind memory to ranges of a sparse buffer.
    driver_bind_calls: u64,
    /// Wall time of the replay, with the driver's.
    milliseconds: f64,
    /// Refused allocations.
    refused: u64,
    /// The live bytes exceed the largest heap, which changes the behaviour of contenders.
    beyond_heap: bool,
}

pub(crate) fn run(args: &TracesArgs) -> Result<(), Failure> {
    let gpu = Gpu::open(&args.common)?;
    let largest_heap = gpu.info.heaps.iter().copied().max().unwrap_or(0);
    let notes = gpu.info.notes();
    let mut rows = Vec::new();
    let sources = if args.seeds.is_empty() {
        sources(&args.traces)?
    } else {
        generated_sources(&args.seeds, &args.only, args.write.as_deref())?
    };
    for source in sources {
        let mut of_trace = [
            replay(&source.trace, &Allotment::new(&gpu, Blocks::Default)?)?,
            replay(&source.trace, &VkMem::new(&gpu, Blocks::Default)?)?,
            replay(&source.trace, &GpuAllocator::new(&gpu, Blocks::Default)?)?,
            expandable(&gpu, &source.trace, largest_heap)?,
            replay(&source.trace, &ExpandableSegments::default())?,
        ];
        for row in &mut of_trace {
            row.trace.clone_from(&source.title);
            row.beyond_heap = row.peak_live_bytes > largest_heap;
        }
        rows.extend(of_trace);
    }
    let report = Report { device: gpu.info.name.clone(), notes, rows };
    if args.common.json {
        say!("{}", serde_json::to_string(&report)?);
    } else {
        report.print();
    }
    Ok(())
}

fn replay<C: Contender>(trace: &Trace, contender: &C) -> Result<Row, Failure> {
    let mut live: Vec<Option<C::Token>> = Vec::new();
    live.resize_with(trace.resource_count(), || None);
    let (mut peak_reserved_bytes, mut refused) = (0, 0);
    let start = Instant::now();
    for event in trace.events() {
        match event.op {
            Op::Allocate(index) => {
                match contender.allocate(&request(trace.resource(index))) {
                    Ok(token) => live[index.as_usize()] = Some(token),
                    Err(_) => refused += 1,
                }
                peak_reserved_bytes = contender.reading().reserved_bytes.max(peak_reserved_bytes);
            }
            Op::Free(index) => {
                if let Some(token) = live[index.as_usize()].take() {
                    free(contender, token)?;
                }
            }
            Op::FrameEnd => contender.end_frame(),
        }
    }
    let elapsed = start.elapsed();
    let end = contender.reading();
    live.into_iter().flatten().try_for_each(|token| free(contender, token))?;
    Ok(Row {
        trace: String::new(),
        contender: contender.name(),
        peak_reserved_bytes,
        peak_live_bytes: trace.peak_live_bytes(),
        driver_allocate_calls: end.allocate_calls,
        driver_free_calls: end.free_calls,
        driver_bind_calls: end.bind_calls,
        milliseconds: elapsed.as_secs_f64() * 1e3,
        refused,
        beyond_heap: false,
    })
}

/// Replays a trace with this library's expandable buffer: on the device, where that has such buffers.
fn expandable(gpu: &Arc<Gpu>, trace: &Trace, heap_bytes: u64) -> Result<Row, Failure> {
    match OwnExpandable::on_vulkan(gpu)? {
        Some(contender) => replay(trace, &contender),
        // The times of a simulation mean nothing.
        None => Ok(Row { milliseconds: 0.0, ..replay(trace, &OwnExpandable::simulated(heap_bytes)?)? }),
    }
}

fn free<C: Contender>(contender: &C, token: C::Token) -> Result<(), Failure> {
    contender.free(token).map_err(|refusal| Failure::Refused { contender: contender.name(), refusal })
}

impl Report {
    fn print(&self) {
        say!("{}", self.device);
        self.notes.iter().for_each(|note| say!("note: {note}"));
        let mut title = "";
        for row in &self.rows {
            if row.trace != title {
                title = &row.trace;
                self.print_head(row);
            }
            say!(
                "  {:14} {:>14} {:>8.3} {:>14} {:>8} {:>8} {:>8} {:>10.1}",
                row.contender,
                bytes(row.peak_reserved_bytes),
                row.peak_reserved_bytes as f64 / row.peak_live_bytes as f64,
                row.driver_allocate_calls,
                row.driver_free_calls,
                row.driver_bind_calls,
                row.refused,
                row.milliseconds
            );
        }
    }

    fn print_head(&self, row: &Row) {
        say!();
        say!("{}: at most {} live", row.trace, bytes(row.peak_live_bytes));
        if row.beyond_heap {
            say!("  more than the device's largest heap: VMA switches from blocks to dedicated memory there");
        }
        say!(
            "  {:14} {:>14} {:>8} {:>14} {:>8} {:>8} {:>8} {:>10}",
            "contender",
            "peak reserved",
            "by live",
            "driver allocs",
            "frees",
            "binds",
            "refused",
            "ms"
        );
    }
}
