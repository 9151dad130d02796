//! The times as tables and as JSON.

use core::time::Duration;

use ash::vk;
use serde::Serialize;

use super::buffer::{Binder, SparseBuffer};
use crate::failure::Failure;
use crate::units::bytes;
use crate::vulkan::Gpu;

/// All figures of a run.
#[derive(Serialize)]
pub(super) struct Report {
    device: String,
    notes: Vec<String>,
    queue: String,
    page_bytes: u64,
    address_space_bytes: u64,
    buffer_bytes: u64,
    buffer_created_us: f64,
    memory_types: Vec<OfType>,
}

#[derive(Serialize)]
struct OfType {
    memory_type: usize,
    properties: String,
    rows: Vec<Row>,
}

/// An operation on so many MiB.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) mib: u64,
    pub(super) median_us: f64,
    pub(super) worst_us: f64,
}

impl Report {
    pub(super) fn new(gpu: &Gpu, space: &SparseBuffer, created: Duration) -> Self {
        // SAFETY: the physical device is the instance's.
        let properties: vk::PhysicalDeviceProperties =
            unsafe { gpu.instance.get_physical_device_properties(gpu.physical) };
        Self {
            device: gpu.info.name.clone(),
            notes: gpu.info.notes(),
            queue: Binder::queue_kind(gpu),
            page_bytes: space.needs.alignment,
            address_space_bytes: properties.limits.sparse_address_space_size,
            buffer_bytes: space.size,
            buffer_created_us: created.as_secs_f64() * 1e6,
            memory_types: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, memory_type: usize, rows: Vec<Row>) {
        self.memory_types.push(OfType { memory_type, properties: String::new(), rows });
    }

    pub(super) fn print(&mut self, gpu: &Gpu, json: bool) -> Result<(), Failure> {
        for found in &mut self.memory_types {
            found.properties.clone_from(&gpu.info.memory_types[found.memory_type].properties);
        }
        if json {
            say!("{}", serde_json::to_string(self)?);
            return Ok(());
        }
        say!("{}, bound on its {} queue", self.device, self.queue);
        self.notes.iter().for_each(|note| say!("note: {note}"));
        say!("pages are multiples of {}", bytes(self.page_bytes));
        say!("all sparse resources: {} of addresses", bytes(self.address_space_bytes));
        say!(
            "a buffer of {} of addresses: created in {:.1} us",
            bytes(self.buffer_bytes),
            self.buffer_created_us
        );
        for found in &self.memory_types {
            say!();
            say!("memory type {}: {}", found.memory_type, found.properties);
            say!("  {:34} {:>6} {:>12} {:>12}", "", "MiB", "median us", "worst us");
            for row in &found.rows {
                say!("  {:34} {:>6} {:>12.1} {:>12.1}", row.what, row.mib, row.median_us, row.worst_us);
            }
        }
        Ok(())
    }
}
