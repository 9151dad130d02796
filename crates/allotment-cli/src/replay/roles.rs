//! The purpose of a recorded resource.

use allotment::{MemoryUsage, ResourceKind};
use allotment_trace::{Resource, ResourceKind as RecordedKind};

const TRANSFER_SRC: u32 = 1;
const TRANSFER_DST: u32 = 1 << 1;
const UNIFORM: u32 = 1 << 4;
const STORAGE: u32 = 1 << 5;
const INDEX: u32 = 1 << 6;
const VERTEX: u32 = 1 << 7;
const INDIRECT: u32 = 1 << 8;

/// Returns the display name of a resource: the recorded format and extent of an image, the usage of a buffer.
pub(crate) fn display_name(resource: &Resource) -> String {
    let RecordedKind::Buffer { usage: Some(usage) } = resource.kind() else {
        return resource.name().to_owned();
    };
    let flags = [
        (VERTEX, "vertex"),
        (INDEX, "index"),
        (UNIFORM, "uniform"),
        (STORAGE, "storage"),
        (INDIRECT, "indirect"),
        (TRANSFER_SRC, "transfer source"),
        (TRANSFER_DST, "transfer destination"),
    ];
    let named: Vec<_> = flags.iter().filter(|(flag, _)| usage & flag != 0).map(|(_, name)| *name).collect();
    if named.is_empty() {
        format!("buffer, usage {usage:#x}")
    } else {
        format!("{} buffer", named.join(", "))
    }
}

/// Returns the kind of a recorded resource, its memory usage, and a name for the latter.
///
/// A buffer's usage implies the memory usage: a program uploads from a buffer that is only a transfer source, and
/// reads back through one that is only a transfer destination.
pub(crate) fn roles(resource: &Resource) -> (ResourceKind, MemoryUsage, &'static str) {
    match resource.kind() {
        RecordedKind::Image => (ResourceKind::OptimalImage, MemoryUsage::GpuOnly, "image"),
        RecordedKind::Buffer { usage } => match usage {
            Some(TRANSFER_SRC) => (ResourceKind::Buffer, MemoryUsage::Upload, "staging"),
            Some(TRANSFER_DST) => (ResourceKind::Buffer, MemoryUsage::Readback, "readback"),
            // A buffer that is no transfer destination can only be written through host-visible memory.
            Some(usage) if usage & TRANSFER_DST == 0 => {
                (ResourceKind::Buffer, MemoryUsage::DeviceUpload, "dynamic buffer")
            }
            Some(usage) if usage & (INDEX | VERTEX) != 0 => {
                (ResourceKind::Buffer, MemoryUsage::GpuOnly, "mesh")
            }
            Some(usage) if usage & (UNIFORM | STORAGE) != 0 => {
                (ResourceKind::Buffer, MemoryUsage::GpuOnly, "shader data")
            }
            _ => (ResourceKind::Buffer, MemoryUsage::GpuOnly, "buffer"),
        },
    }
}
