//! Times as a table and as JSON.

use serde::Serialize;

use super::Row;
use crate::args::TexturesArgs;
use crate::failure::Failure;
use crate::units::{bytes, rate};
use crate::vulkan::Gpu;

/// All figures of a run.
#[derive(Serialize)]
pub(super) struct Report {
    device: String,
    repetitions: u32,
    rows: Vec<Row>,
}

impl Report {
    pub(super) fn new(gpu: &Gpu, args: &TexturesArgs) -> Self {
        Self { device: gpu.info.name.clone(), repetitions: args.repetitions, rows: Vec::new() }
    }

    pub(super) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub(super) fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            say!("{}", serde_json::to_string(self)?);
            return Ok(());
        }
        say!(
            "{}: new textures with all mip levels, for one of them the median of {}",
            self.device,
            self.repetitions
        );
        say!();
        say!(
            "  {:8} {:>5} {:>10} {:>12} {:>12} {:>12} {:>12} {:>12} {:>11}",
            "format",
            "side",
            "bytes",
            "staged",
            "there",
            "copied",
            "there",
            "rate copied",
            "by itself"
        );
        let some = |us: Option<f64>| us.map_or_else(|| "–".to_owned(), |us| format!("{us:.1} us"));
        for row in &self.rows {
            let per_second = row.copied_write_us.map(|us| rate(row.bytes as f64 / us * 1e6));
            say!(
                "  {:8} {:>5} {:>10} {:>12} {:>12} {:>12} {:>12} {:>12} {:>11}",
                row.format,
                row.side,
                bytes(row.bytes),
                some(Some(row.staged_write_us)),
                some(Some(row.staged_there_us)),
                some(row.copied_write_us),
                some(row.copied_there_us),
                per_second.unwrap_or_else(|| "–".to_owned()),
                if row.by_itself { "yes" } else { "no" }
            );
        }
        Ok(())
    }
}
