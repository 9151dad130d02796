//! Copies of whole images, which stand among the [copies](super::copies) of a submission: all barriers before, a
//! command each, all barriers after.
//!
//! A placed render target or depth buffer holds nothing that may be read until it was cleared, discarded or copied
//! to as a whole: so that this is how the second image of a copy begins.

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::{
    DXGI_FORMAT_SAMPLER_FEEDBACK_MIN_MIP_OPAQUE, DXGI_FORMAT_SAMPLER_FEEDBACK_MIP_REGION_USED_OPAQUE,
};

use super::copies::{Recording, transition};
use super::{Device, ResourceInfo};
use crate::device::{DeviceError, FullImageCopy};

type Copy<'a> = FullImageCopy<'a, Device>;

const COMMON: D3D12_RESOURCE_STATES = D3D12_RESOURCE_STATE_COMMON;
const READ: D3D12_RESOURCE_STATES = D3D12_RESOURCE_STATE_COPY_SOURCE;
const WRITTEN: D3D12_RESOURCE_STATES = D3D12_RESOURCE_STATE_COPY_DEST;

/// What only the driver's own video engine touches.
const REFERENCE_ONLY: D3D12_RESOURCE_FLAGS = D3D12_RESOURCE_FLAGS(
    D3D12_RESOURCE_FLAG_VIDEO_DECODE_REFERENCE_ONLY.0 | D3D12_RESOURCE_FLAG_VIDEO_ENCODE_REFERENCE_ONLY.0,
);

/// True for buffers, but those of acceleration structures: they are in no state to be copied, and have copies of
/// their own.
pub(super) fn is_copyable_buffer(info: &ResourceInfo<'_>) -> bool {
    info.is_buffer() && !info.desc.Flags.contains(D3D12_RESOURCE_FLAG_RAYTRACING_ACCELERATION_STRUCTURE)
}

/// True for textures that `CopyResource` takes, and that begin in a state: barriers of states know of one layout only.
pub(super) fn is_copyable_image(info: &ResourceInfo<'_>) -> bool {
    let feedback =
        [DXGI_FORMAT_SAMPLER_FEEDBACK_MIN_MIP_OPAQUE, DXGI_FORMAT_SAMPLER_FEEDBACK_MIP_REGION_USED_OPAQUE];
    !info.is_buffer()
        && info.desc.Flags.0 & REFERENCE_ONLY.0 == 0
        && !feedback.contains(&info.desc.Format)
        && info.first_state().is_some()
}

/// Refuses images that cannot be copied so; on queues that are not for graphics those of depth or of several samples,
/// which few such queues copy; and on those for copies all that are in another state than `COMMON`.
pub(super) fn check(copies: &[Copy<'_>], kind: D3D12_COMMAND_LIST_TYPE) -> Result<(), DeviceError> {
    let possible = |copy: &Copy<'_>| {
        let desc = &copy.info.desc;
        let plain =
            desc.SampleDesc.Count == 1 && !desc.Flags.contains(D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL);
        let common = [first_state(copy), copy.before, copy.after] == [COMMON; 3];
        is_copyable_image(copy.info)
            && (plain || kind == D3D12_COMMAND_LIST_TYPE_DIRECT)
            && (common || kind != D3D12_COMMAND_LIST_TYPE_COPY)
    };
    if copies.iter().all(possible) { Ok(()) } else { Err(DeviceError::Unsupported) }
}

/// The state that the image to write is in, as it was made. All that can be copied have one.
fn first_state(copy: &Copy<'_>) -> D3D12_RESOURCE_STATES {
    copy.info.first_state().unwrap_or(COMMON)
}

/// An image, the state that it is in, and the one that it shall be in.
type Change<'a> = (&'a ID3D12Resource, D3D12_RESOURCE_STATES, D3D12_RESOURCE_STATES);

impl Recording<'_> {
    pub(super) fn copy_whole_images(&mut self, copies: &[Copy<'_>]) {
        self.change_whole(
            copies
                .iter()
                .flat_map(|copy| [(copy.from, copy.before, READ), (copy.to, first_state(copy), WRITTEN)]),
        );
        for copy in copies {
            // SAFETY: both are live and were made from the same description, by the caller's promise; they are in
            // the states to copy.
            unsafe { self.list.CopyResource(copy.to, copy.from) };
        }
        self.change_whole(
            copies.iter().flat_map(|copy| [(copy.from, READ, copy.before), (copy.to, WRITTEN, copy.after)]),
        );
    }

    fn change_whole<'c>(&mut self, changes: impl Iterator<Item = Change<'c>>) {
        let changes = changes.filter(|(_, before, after)| before != after);
        self.scratch.barriers.extend(changes.map(|(image, before, after)| {
            transition(image, D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES, before, after)
        }));
        self.say_barriers();
    }
}
