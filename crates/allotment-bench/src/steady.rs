//! `steady`: identical frames should not call the driver after the first ones.

use serde::Serialize;

use crate::args::SteadyArgs;
use crate::contender::{Allotment, Blocks, Contender, GpuAllocator, Kind, Request, Role, VkMem};
use crate::failure::Failure;
use crate::units::bytes;
use crate::vulkan::{Gpu, Reading};

/// Size of each allocation of a frame in bytes.
const SIZE: u64 = 512 << 10;
/// Number of allocations of a frame.
const COUNT: usize = 6;
/// Block size in bytes: two allocations fit.
const BLOCK: u64 = 1 << 20;

#[derive(Serialize)]
struct Report {
    device: String,
    notes: Vec<String>,
    frames: u32,
    allocations_per_frame: usize,
    allocation_bytes: u64,
    asked_block_bytes: u64,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    contender: &'static str,
    driver_allocate_calls: u64,
    driver_free_calls: u64,
    /// Allocations and frees after the first frame.
    calls_after_first_frame: u64,
    /// The peak of reserved bytes.
    peak_reserved_bytes: u64,
}

pub(crate) fn run(args: &SteadyArgs) -> Result<(), Failure> {
    let gpu = Gpu::open(&args.common)?;
    let blocks = Blocks::Fixed(BLOCK);
    let notes = gpu.info.notes();
    let rows = vec![
        frames(&Allotment::new(&gpu, blocks)?, args.frames)?,
        frames(&VkMem::new(&gpu, blocks)?, args.frames)?,
        frames(&GpuAllocator::new(&gpu, blocks)?, args.frames)?,
    ];
    let report = Report {
        device: gpu.info.name.clone(),
        notes,
        frames: args.frames,
        allocations_per_frame: COUNT,
        allocation_bytes: SIZE,
        asked_block_bytes: BLOCK,
        rows,
    };
    if args.common.json {
        say!("{}", serde_json::to_string(&report)?);
    } else {
        report.print();
    }
    Ok(())
}

fn frames<C: Contender>(contender: &C, frames: u32) -> Result<Row, Failure> {
    let refused = |refusal| Failure::Refused { contender: contender.name(), refusal };
    let request = Request { size: SIZE, alignment: 256, kind: Kind::Buffer, role: Role::Device };
    let mut peak_reserved_bytes = 0;
    let mut after_first = None;
    for _ in 0..frames {
        let tokens: Result<Vec<_>, _> = (0..COUNT).map(|_| contender.allocate(&request)).collect();
        peak_reserved_bytes = peak_reserved_bytes.max(contender.reading().reserved_bytes);
        for token in tokens.map_err(refused)? {
            contender.free(token).map_err(refused)?;
        }
        contender.end_frame();
        after_first.get_or_insert_with(|| contender.reading());
    }
    let last = contender.reading();
    let calls = |reading: Reading| reading.allocate_calls + reading.free_calls;
    Ok(Row {
        contender: contender.name(),
        driver_allocate_calls: last.allocate_calls,
        driver_free_calls: last.free_calls,
        calls_after_first_frame: calls(last) - after_first.map_or(0, calls),
        peak_reserved_bytes,
    })
}

impl Report {
    fn print(&self) {
        say!("{}", self.device);
        self.notes.iter().for_each(|note| say!("note: {note}"));
        say!();
        say!(
            "{} frames, each with {} allocations of {}; requested block size {}",
            self.frames,
            self.allocations_per_frame,
            bytes(self.allocation_bytes),
            bytes(self.asked_block_bytes)
        );
        say!(
            "  {:14} {:>14} {:>10} {:>24} {:>14}",
            "contender",
            "driver allocs",
            "frees",
            "both after first frame",
            "peak reserved"
        );
        for row in &self.rows {
            say!(
                "  {:14} {:>14} {:>10} {:>24} {:>14}",
                row.contender,
                row.driver_allocate_calls,
                row.driver_free_calls,
                row.calls_after_first_frame,
                bytes(row.peak_reserved_bytes)
            );
        }
    }
}
