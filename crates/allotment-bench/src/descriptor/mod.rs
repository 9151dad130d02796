//! `descriptor`: the cost of allocating, copying and binding descriptors.
//!
//! No GPU takes part: the device is the simulated GPU, and its queue completes at once.
//!
//! ```text
//!   rig             the simulated GPU with the objects that the library's ways need
//!   transient       ranges of one recording
//!   staging         slots of CPU descriptors
//!   commit          the descriptors of a draw
//!   copy            many descriptors at once, compared with memcpy
//!   compacting      tables that are brought together
//!   bindless        slots with an index, and samplers
//!   locked_ranges   the peer: a range allocator behind a mutex
//!   bit_pages       the peer: pages of 64 bits behind a mutex
//!   sets            the peer: gpu-descriptor
//!   report          rows and ratios, as a table and as JSON
//! ```

mod bindless;
mod bit_pages;
mod commit;
mod compacting;
mod copy;
mod locked_ranges;
mod report;
mod rig;
mod sets;
mod staging;
#[cfg(test)]
mod tests;
mod transient;

use serde::Serialize;

use crate::args::DescriptorArgs;
use crate::failure::Failure;
use crate::race::{Clock, Racer, race};
use report::Report;
use staging::Order;
use transient::Between;

/// Operations per batch.
const BATCH: u64 = 1000;

/// The dimensions of the workloads. Counts are in descriptors unless stated otherwise.
#[derive(Serialize)]
struct Dimensions {
    /// Batches of 1,000 operations per lap and thread.
    batches: u32,
    /// Per thread in `staging`, in total in `bindless`.
    live: u32,
    /// Size of a descriptor in bytes.
    stride: u32,
    /// Shared by all recordings.
    transient_region: u32,
    /// Taken by a recording at once.
    transient_chunk: u32,
    /// Per recording in `transient`.
    transient_ranges: u32,
    /// The largest range.
    transient_largest: u32,
    staging_page: u32,
    commit_draws_per_recording: u32,
    commit_mutable: u32,
    commit_dynamic: u32,
    copied: u32,
    /// Number of tables in `copy-tables`.
    copied_tables: u32,
    /// Number of different samplers.
    samplers: u16,
    /// Number of tables in `compact`.
    compacted_tables: u32,
}

impl Dimensions {
    fn new(args: &DescriptorArgs) -> Result<Self, Failure> {
        let heap = rig::Rig::heap_desc();
        let staging = allotment::descriptor::CpuDescriptorHeapDesc::new(
            allotment::device::DescriptorHeapType::Resource,
        );
        Ok(Self {
            batches: args.batches,
            live: args.live,
            stride: rig::Rig::new()?.stride(),
            transient_region: heap.transient,
            transient_chunk: heap.chunk,
            transient_ranges: transient::RANGES,
            transient_largest: transient::LARGEST,
            staging_page: staging.page_size,
            commit_draws_per_recording: commit::DRAWS,
            commit_mutable: commit::MUTABLE,
            commit_dynamic: commit::DYNAMIC,
            copied: copy::COUNT,
            copied_tables: copy::TABLES,
            samplers: bindless::SAMPLERS,
            compacted_tables: compacting::TABLES,
        })
    }
}

pub(crate) fn run(args: &DescriptorArgs) -> Result<(), Failure> {
    measure(args)?.print(args.json)
}

fn measure(args: &DescriptorArgs) -> Result<Report, Failure> {
    let dimensions = Dimensions::new(args)?;
    let mut report = Report::new(args.repetitions, dimensions);
    let mut add = |workload: &'static str, threads, make: &dyn Fn(&Dimensions) -> _| {
        if args.workload.as_ref().is_some_and(|wanted| !workload.starts_with(wanted)) {
            return Ok(());
        }
        let racers: Vec<Racer> = make(&report.dimensions)?;
        let outcomes = race(&racers, args.repetitions)?;
        let clock = if threads == 1 { Clock::ThreadCpu } else { Clock::Wall };
        report.rows.add(workload, clock, &outcomes);
        Ok::<_, Failure>(())
    };
    for (workload, between) in [("transient", Between::Nothing), ("transient-apart", Between::Other)] {
        for &threads in &args.threads {
            add(workload, threads, &|dimensions| transient::racers(threads, dimensions, between))?;
        }
    }
    for (workload, order) in [("staging-lifo", Order::Lifo), ("staging-random", Order::Random)] {
        for &threads in &args.threads {
            add(workload, threads, &|dimensions| staging::racers(threads, dimensions, order))?;
        }
    }
    add("commit", 1, &commit::racers)?;
    add("copy", 1, &|dimensions| copy::racers(1, dimensions))?;
    add("copy-tables", 1, &|dimensions| copy::racers(copy::TABLES, dimensions))?;
    add("bindless", 1, &bindless::racers)?;
    add("sampler", 1, &bindless::samplers)?;
    add("compact", 1, &compacting::racers)?;
    Ok(report)
}
