//! What a recorded resource's memory is for, told from its usage.

use allotment_trace::{Resource, ResourceKind};

use crate::contender::{Kind, Request, Role};

// Vulkan's usage flags of a buffer.
const TRANSFER_SRC: u32 = 1;
const TRANSFER_DST: u32 = 1 << 1;

/// What is asked of a contender for a recorded resource.
///
/// A buffer that is only copied from is how a program uploads, one that is only copied to is how it reads
/// back; into one that is not copied to, the CPU must write by itself.
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
