//! What a recorded resource was for.

use allotment::{MemoryUsage, ResourceKind};
use allotment_trace::{Resource, ResourceKind as RecordedKind};

const TRANSFER_SRC: u32 = 1;
const TRANSFER_DST: u32 = 1 << 1;
const UNIFORM: u32 = 1 << 4;
const STORAGE: u32 = 1 << 5;
const INDEX: u32 = 1 << 6;
const VERTEX: u32 = 1 << 7;
const INDIRECT: u32 = 1 << 8;

/// What a resource is called where people look: an image by its format and extent, as recorded, a buffer
/// by what it may be used for.
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
        (TRANSFER_SRC, "copied from"),
        (TRANSFER_DST, "copied to"),
    ];
    let named: Vec<_> = flags.iter().filter(|(flag, _)| usage & flag != 0).map(|(_, name)| *name).collect();
    if named.is_empty() {
        format!("buffer, usage {usage:#x}")
    } else {
        format!("{} buffer", named.join(", "))
    }
}

/// What a recorded resource is, what its memory is for, and what to call that.
///
/// A buffer's usage tells: one that is only copied from is how a program uploads, one that is only copied
/// to is how it reads back.
pub(crate) fn roles(resource: &Resource) -> (ResourceKind, MemoryUsage, &'static str) {
    match resource.kind() {
        RecordedKind::Image => (ResourceKind::OptimalImage, MemoryUsage::GpuOnly, "image"),
        RecordedKind::Buffer { usage } => match usage {
            Some(TRANSFER_SRC) => (ResourceKind::Buffer, MemoryUsage::Upload, "staging"),
            Some(TRANSFER_DST) => (ResourceKind::Buffer, MemoryUsage::Readback, "readback"),
            // The CPU has no other way into a buffer that is not copied to.
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
