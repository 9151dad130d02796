//! Rates as tables and as JSON.

use serde::Serialize;

use super::limits::{Limits, Rate};
use super::own_ways::OwnWay;
use crate::args::BandwidthArgs;
use crate::failure::Failure;
use crate::units::{bytes, rate};
use crate::vulkan::Gpu;

/// All figures of a run.
#[derive(Serialize)]
pub(super) struct Report {
    device: String,
    queue: String,
    repetitions: u32,
    sizes: Vec<OfSize>,
}

/// The figures for one transfer size.
#[derive(Serialize)]
struct OfSize {
    bytes: u64,
    /// Bytes per second, the best of all repetitions.
    rows: Vec<Limits>,
    allotment: Vec<OwnWay>,
}

impl Report {
    pub(super) fn new(gpu: &Gpu, args: &BandwidthArgs) -> Self {
        Self {
            device: gpu.info.name.clone(),
            queue: gpu.info.queue.clone(),
            repetitions: args.repetitions,
            sizes: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, mib: u32, rows: Vec<Limits>, allotment: Vec<OwnWay>) {
        self.sizes.push(OfSize { bytes: u64::from(mib) << 20, rows, allotment });
    }

    pub(super) fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            say!("{}", serde_json::to_string(self)?);
            return Ok(());
        }
        say!("{}, copies on its {} queue", self.device, self.queue);
        for size in &self.sizes {
            say!();
            say!("{} per transfer, one thread, best of {}", bytes(size.bytes), self.repetitions);
            say!();
            size.print();
        }
        Ok(())
    }
}

impl OfSize {
    fn print(&self) {
        say!(
            "  {:4} {:4} {:>14} {:>12} {:>12} {:>14} {:>14}   properties",
            "type",
            "heap",
            "first memcpy",
            "memcpy in",
            "memcpy out",
            "copy to dev.",
            "copy from dev."
        );
        let some = |found: Option<Rate>| found.map_or_else(|| "–".to_owned(), rate);
        for row in &self.rows {
            say!(
                "  {:4} {:4} {:>14} {:>12} {:>12} {:>14} {:>14}   {}",
                row.memory_type,
                row.heap,
                rate(row.first_write),
                rate(row.write),
                some(row.read),
                some(row.to_device),
                some(row.from_device),
                row.properties
            );
        }
        say!();
        say!(
            "Allotment's own ways, and the share of the plain way's best that they reach (staged: of the slower of"
        );
        say!("memcpy in and copy to device):");
        let heads = ["way", "type", "rate", "limit", "ratio", "longer by"];
        let [name, memory_type, own, limit, ratio, longer] = heads;
        say!("  {name:28} {memory_type:>4} {own:>12} {limit:>12} {ratio:>6} {longer:>12}");
        for way in &self.allotment {
            say!(
                "  {:28} {:>4} {:>12} {:>12} {:>6.2} {:>9.0} us",
                way.name,
                way.memory_type,
                rate(way.bytes_per_second),
                rate(way.limit),
                way.ratio,
                way.longer_us
            );
        }
    }
}
