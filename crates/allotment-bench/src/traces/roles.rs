//! The memory usage of a recorded resource, derived from its buffer usage.

use allotment_trace::{Resource, ResourceKind};

use crate::contender::{Kind, Request, Role};

// Vulkan's usage flags of a buffer.
const TRANSFER_SRC: u32 = 1;
const TRANSFER_DST: u32 = 1 << 1;

/// Returns the request to a contender for a recorded resource.
///
/// A program uploads from a buffer that is only a transfer source, and reads back through one that is only a
/// transfer destination; a buffer that is no transfer destination is written by the CPU.
pub(super) fn request(resource: &Resource) -> Request {
    let (kind, role) = match resource.kind() {
        ResourceKind::Image => (Kind::Image, Role::Device),
        ResourceKind::Buffer { usage } => {
            let role = match usage {
                Some(TRANSFER_SRC) => Role::Upload,
                Some(TRANSFER_DST) => Role::Readback,
                Some(usage) if usage & TRANSFER_DST == 0 => Role::DeviceUpload,
                _ => Role::Device,
            };
            (Kind::Buffer, role)
        }
    };
    Request { size: resource.size(), alignment: resource.alignment(), kind, role }
}
