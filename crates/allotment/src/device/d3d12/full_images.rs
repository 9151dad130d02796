//! Copies of whole images, recorded together with the other [copies](super::copies) of a submission: all
//! barriers before, one command each, all barriers after.
//!
//! A placed render target or depth buffer has to be initialised with a clear, a discard or a copy of the whole
//! resource before it is used: this copy initialises the second image.

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::{
    DXGI_FORMAT_SAMPLER_FEEDBACK_MIN_MIP_OPAQUE, DXGI_FORMAT_SAMPLER_FEEDBACK_MIP_REGION_USED_OPAQUE,
};

use super::copies::{Recording, transition};
use super::{Device, ResourceInfo};
use crate::device::{CopyError, FullImageCopy};

type Copy<'a> = FullImageCopy<'a, Device>;

const COMMON: D3D12_RESOURCE_STATES = D3D12_RESOURCE_STATE_COMMON;
const READ: D3D12_RESOURCE_STATES = D3D12_RESOURCE_STATE_COPY_SOURCE;
const WRITTEN: D3D12_RESOURCE_STATES = D3D12_RESOURCE_STATE_COPY_DEST;

/// Resources that only the driver's video engine accesses.
const REFERENCE_ONLY: D3D12_RESOURCE_FLAGS = D3D12_RESOURCE_FLAGS(
    D3D12_RESOURCE_FLAG_VIDEO_DECODE_REFERENCE_ONLY.0 | D3D12_RESOURCE_FLAG_VIDEO_ENCODE_REFERENCE_ONLY.0,
);

/// Returns true for all buffers except those of acceleration structures, which are not in a copyable state, and
/// have copy commands of their own.
pub(super) fn is_copyable_buffer(info: &ResourceInfo<'_>) -> bool {
    // The state `RAYTRACING_ACCELERATION_STRUCTURE` is fixed at creation, so a copy could never transition such a
    // buffer.
    info.is_buffer() && !info.desc.Flags.contains(D3D12_RESOURCE_FLAG_RAYTRACING_ACCELERATION_STRUCTURE)
}

/// Returns true for textures that `CopyResource` supports and that have an initial state: legacy barriers can
/// express only the layout `COMMON`.
pub(super) fn is_copyable_image(info: &ResourceInfo<'_>) -> bool {
    // Sampler feedback is opaque: its contents are decoded and encoded with `ResolveSubresourceRegion`.
    let feedback =
        [DXGI_FORMAT_SAMPLER_FEEDBACK_MIN_MIP_OPAQUE, DXGI_FORMAT_SAMPLER_FEEDBACK_MIP_REGION_USED_OPAQUE];
    !info.is_buffer()
        && info.desc.Flags.0 & REFERENCE_ONLY.0 == 0
        && !feedback.contains(&info.desc.Format)
        && info.initial_state().is_some()
}

/// Returns an error for images that cannot be copied as a whole; on queues without graphics for depth-stencil
/// and multisampled images, which few such queues can copy; and on copy queues for images in another state than
/// `COMMON`.
pub(super) fn check(copies: &[Copy<'_>], kind: D3D12_COMMAND_LIST_TYPE) -> Result<(), CopyError> {
    for copy in copies {
        let desc = &copy.info.desc;
        let plain =
            desc.SampleDesc.Count == 1 && !desc.Flags.contains(D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL);
        let common = [initial_state(copy), copy.before, copy.after] == [COMMON; 3];
        if !is_copyable_image(copy.info) {
            return Err(CopyError::NotCopyable);
        }
        if !plain && kind != D3D12_COMMAND_LIST_TYPE_DIRECT {
            return Err(CopyError::NeedsGraphicsQueue);
        }
        if !common && kind == D3D12_COMMAND_LIST_TYPE_COPY {
            return Err(CopyError::States);
        }
    }
    Ok(())
}

/// Returns the initial state of the destination image. All copyable images have one.
fn initial_state(copy: &Copy<'_>) -> D3D12_RESOURCE_STATES {
    copy.info.initial_state().unwrap_or(COMMON)
}

/// An image, its current state, and its next state.
type Transition<'a> = (&'a ID3D12Resource, D3D12_RESOURCE_STATES, D3D12_RESOURCE_STATES);

impl Recording<'_> {
    pub(super) fn copy_whole_images(&mut self, copies: &[Copy<'_>]) {
        self.transition_whole(
            copies
                .iter()
                .flat_map(|copy| [(copy.from, copy.before, READ), (copy.to, initial_state(copy), WRITTEN)]),
        );
        for copy in copies {
            // SAFETY: both are live and were created from the same description, by the caller's promise; they
            // are in the copy states.
            unsafe { self.list.CopyResource(copy.to, copy.from) };
        }
        self.transition_whole(
            copies.iter().flat_map(|copy| [(copy.from, READ, copy.before), (copy.to, WRITTEN, copy.after)]),
        );
    }

    fn transition_whole<'c>(&mut self, changes: impl Iterator<Item = Transition<'c>>) {
        // A barrier between equal states is an error of the debug layer.
        let changes = changes.filter(|(_, before, after)| before != after);
        self.scratch.barriers.extend(changes.map(|(image, before, after)| {
            transition(image, D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES, before, after)
        }));
        self.record_barriers();
    }
}
