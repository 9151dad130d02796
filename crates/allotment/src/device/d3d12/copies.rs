//! The commands that a submission's copies are recorded as.
//!
//! Buffers are in the state `COMMON` when a list begins and decay to it when it was executed. The first copy
//! promotes them implicitly; later changes within the list need barriers. Images are transitioned from the state
//! `before` to a copy state, and from there to the state `after`, wave by wave.

use core::fmt;
use std::collections::HashMap;

use windows::Win32::Graphics::Direct3D12::*;
use windows::core::Interface as _;

use super::Device;
use super::buffers::BUFFER;
use super::create;
use super::formats::{footprint_format, plane_slice, plane_slices};
use crate::device::waves::{Wave, waves};
use crate::device::{BufferCopy, CopyDirection, CopyError, DeviceError, ImageCopy, Submission, TexelBlock};

/// Size in bytes of the buffer through which copies within one buffer go, in pieces. Created for the first such
/// copy on a queue; only the system's usage counts it.
const STAGING_SIZE: u64 = 1 << 20;

const OFFSETS: u64 = D3D12_TEXTURE_DATA_PLACEMENT_ALIGNMENT as u64;
const PITCHES: u64 = D3D12_TEXTURE_DATA_PITCH_ALIGNMENT as u64;

/// Objects and lists that are reused by every recording, so that a steady frame allocates nothing.
#[derive(Default)]
pub(super) struct Scratch {
    staging: Option<ID3D12Resource>,
    /// By the address of a buffer, the state to which the copies so far transitioned it.
    states: HashMap<usize, D3D12_RESOURCE_STATES>,
    pub(super) barriers: Vec<D3D12_RESOURCE_BARRIER>,
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch").field("staging", &self.staging).finish_non_exhaustive()
    }
}

/// A command list that copies are recorded into.
pub(super) struct Recording<'a> {
    pub(super) list: &'a ID3D12GraphicsCommandList,
    pub(super) scratch: &'a mut Scratch,
}

/// Returns an error for copies that the runtime would reject only when the list is closed: misaligned texels in
/// a buffer; depth and stencil on a queue without graphics, or parts of their mip levels; and on a copy queue images in
/// another state than `COMMON`, their state between its lists.
pub(super) fn check(
    copies: &[ImageCopy<'_, Device>],
    kind: D3D12_COMMAND_LIST_TYPE,
) -> Result<(), DeviceError> {
    for copy in copies {
        let &ImageCopy { texels, aspect, buffer_offset: offset, row_pitch, rows, before, after, .. } = copy;
        if texels.block(aspect).is_none() {
            return Err(CopyError::NoSuchAspect { aspect }.into());
        }
        if copy.block().is_none() {
            return Err(CopyError::WrongTexel.into());
        }
        if aspect.needs_graphics() && kind != D3D12_COMMAND_LIST_TYPE_DIRECT {
            return Err(CopyError::NeedsGraphicsQueue.into());
        }
        if aspect.needs_graphics() && !is_whole(copy) {
            return Err(CopyError::PartOfLevel { mip_level: copy.mip_level }.into());
        }
        if offset % OFFSETS != 0 {
            return Err(DeviceError::Misaligned { offset, alignment: OFFSETS });
        }
        // `D3D12_SUBRESOURCE_FOOTPRINT::RowPitch` has 32 bits.
        if row_pitch % PITCHES != 0 || row_pitch > u32::MAX.into() {
            return Err(CopyError::Rows { row_pitch, rows }.into());
        }
        let common = [before, after] == [D3D12_RESOURCE_STATE_COMMON; 2];
        if !common && kind == D3D12_COMMAND_LIST_TYPE_COPY {
            return Err(CopyError::States.into());
        }
    }
    Ok(())
}

/// Returns true if a copy is of a whole mip level of depth or stencil, or of nothing.
fn is_whole(copy: &ImageCopy<'_, Device>) -> bool {
    // SAFETY: the image is live, by the caller's promise.
    let desc = unsafe { copy.image.GetDesc() };
    let side = |side: u64| side.checked_shr(copy.mip_level).unwrap_or(0).max(1);
    let level = [side(desc.Width), side(desc.Height.into()), 1];
    copy.extent.contains(&0) || (copy.origin == [0; 3] && copy.extent.map(u64::from) == level)
}

/// Creates a staging buffer that a queue can both read and write, if there are copies within one buffer.
pub(super) fn prepare(
    device: &ID3D12Device,
    scratch: &mut Scratch,
    copies: &[BufferCopy<'_, Device>],
) -> Result<(), DeviceError> {
    // Recording itself has no step that can fail, so this buffer is created before it.
    let within_one = copies.iter().any(|copy| copy.from == copy.to && copy.size > 0);
    if !within_one || scratch.staging.is_some() {
        return Ok(());
    }
    // A default heap: no queue writes to an upload heap, and none reads from a readback heap.
    let heap = D3D12_HEAP_PROPERTIES { Type: D3D12_HEAP_TYPE_DEFAULT, ..Default::default() };
    let desc = D3D12_RESOURCE_DESC { Width: STAGING_SIZE, ..BUFFER };
    let (flags, state) = (D3D12_HEAP_FLAG_NONE, D3D12_RESOURCE_STATE_COMMON);
    let created = create(|resource| {
        // SAFETY: the device is live, and the runtime checks the description.
        unsafe { device.CreateCommittedResource(&heap, flags, &desc, state, None, resource) }
    });
    scratch.staging = Some(created?);
    Ok(())
}

impl Recording<'_> {
    /// Records all copies, which were [checked](check), as were the [whole images](super::full_images::check),
    /// and [prepared](prepare).
    pub(super) fn record(&mut self, submission: &Submission<'_, Device>) {
        // Buffers decay to `COMMON` after each list, so the states of the last one say nothing.
        self.scratch.states.clear();
        if submission.aliases {
            // SAFETY: the list is being recorded, and the barrier names no resource.
            unsafe { self.list.ResourceBarrier(&[aliasing()]) };
        }
        for copy in submission.copies.iter().filter(|copy| copy.size > 0) {
            match self.scratch.staging.clone().filter(|_| copy.from == copy.to) {
                Some(staging) => self.copy_within(copy, &staging),
                None => self.copy(copy.from, copy.from_offset, copy.to, copy.to_offset, copy.size),
            }
        }
        self.copy_whole_images(submission.full_images);
        for wave in waves(submission.image_copies) {
            self.enter(&wave);
            // Direct3D 12 has no copy of an empty box; the barriers before and after are still needed.
            for copy in wave.copies.iter().filter(|copy| !copy.extent.contains(&0)) {
                self.copy_image(copy);
            }
            self.leave(&wave);
        }
    }

    fn copy(
        &mut self,
        from: &ID3D12Resource,
        from_offset: u64,
        to: &ID3D12Resource,
        to_offset: u64,
        size: u64,
    ) {
        // Legacy barriers also order the copies: a write followed by a read of the same buffer changes its state
        // in between.
        self.transition_buffer(from, D3D12_RESOURCE_STATE_COPY_SOURCE);
        self.transition_buffer(to, D3D12_RESOURCE_STATE_COPY_DEST);
        // SAFETY: the buffers are live and the ranges lie in them, by the caller's promise.
        unsafe { self.list.CopyBufferRegion(to, to_offset, from, from_offset, size) };
    }

    /// Copies within one buffer. One copy cannot use a buffer in both states, so the bytes go through the
    /// staging buffer.
    fn copy_within(&mut self, copy: &BufferCopy<'_, Device>, staging: &ID3D12Resource) {
        let mut done = 0;
        while done < copy.size {
            let size = STAGING_SIZE.min(copy.size - done);
            self.copy(copy.from, copy.from_offset + done, staging, 0, size);
            self.copy(staging, 0, copy.to, copy.to_offset + done, size);
            done += size;
        }
    }

    fn transition_buffer(&mut self, buffer: &ID3D12Resource, state: D3D12_RESOURCE_STATES) {
        let before = self.scratch.states.insert(buffer.as_raw().addr(), state);
        // The first use in a list needs no barrier: a buffer in `COMMON` is promoted implicitly.
        let Some(before) = before.filter(|before| *before != state) else { return };
        let barrier = transition(buffer, D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES, before, state);
        // SAFETY: the list is being recorded, and the buffer is live and in the state `before`.
        unsafe { self.list.ResourceBarrier(&[barrier]) };
    }

    /// Transitions the subresources of a wave to the copy states.
    fn enter(&mut self, wave: &Wave<'_, Device>) {
        let changes = wave.changes().map(|change| {
            let copied_in = copied_in(change.first.direction);
            (change.first, change.first.before, copied_in)
        });
        self.transition_images(changes);
    }

    /// Transitions the subresources of a wave to their states after the copies.
    fn leave(&mut self, wave: &Wave<'_, Device>) {
        self.transition_images(wave.changes().map(|change| {
            let copied_in = copied_in(change.first.direction);
            (change.first, copied_in, change.after)
        }));
    }

    fn transition_images<'c>(
        &mut self,
        changes: impl Iterator<Item = (&'c ImageCopy<'c, Device>, D3D12_RESOURCE_STATES, D3D12_RESOURCE_STATES)>,
    ) {
        let barriers = &mut self.scratch.barriers;
        // A barrier between equal states is an error of the debug layer.
        for (copy, before, after) in changes.filter(|(_, before, after)| before != after) {
            // SAFETY: the image is live, by the caller's promise.
            let desc = unsafe { copy.image.GetDesc() };
            // All aspects change their state together, as on Vulkan, though each plane slice has a state of its own here.
            let slices = 0..plane_slices(&copy.texels);
            barriers.extend(
                slices.map(|slice| transition(copy.image, subresource(copy, slice, &desc), before, after)),
            );
        }
        self.record_barriers();
    }

    /// Records the collected image barriers.
    pub(super) fn record_barriers(&mut self) {
        let barriers = &mut self.scratch.barriers;
        if !barriers.is_empty() {
            // SAFETY: the list is being recorded, and the images are live and in the states that the barriers
            // name, by the caller's promise.
            unsafe { self.list.ResourceBarrier(barriers) };
        }
        barriers.clear();
    }

    fn copy_image(&mut self, copy: &ImageCopy<'_, Device>) {
        // SAFETY: the image is live, by the caller's promise.
        let desc = unsafe { copy.image.GetDesc() };
        self.transition_buffer(
            copy.buffer,
            match copy.direction {
                CopyDirection::IntoImage => D3D12_RESOURCE_STATE_COPY_SOURCE,
                CopyDirection::OutOfImage => D3D12_RESOURCE_STATE_COPY_DEST,
            },
        );
        let Some(texel) = copy.block() else { return };
        let format = footprint_format(desc.Format, copy.aspect, texel);
        // The runtime takes no box for depth and stencil, not even one around all texels.
        let is_whole = copy.aspect.needs_graphics();
        let boxed = |part| Some(part).filter(|_| !is_whole);
        for footprint in Footprint::of(copy, texel).into_iter().flatten() {
            let [x, y, z] = copy.origin;
            let z = z + footprint.first_slice;
            let (texels, bytes) = (in_image(copy, &desc), footprint.in_buffer(copy, format));
            let [width, height] = footprint.blocks;
            match copy.direction {
                CopyDirection::IntoImage => {
                    let part = boxed(cuboid([0, footprint.lead, 0], [width, height, footprint.depth]));
                    let part = part.as_ref().map(core::ptr::from_ref);
                    // SAFETY: both are live and the boxes lie in them, by the caller's promise; they are in the
                    // copy states.
                    unsafe { self.list.CopyTextureRegion(&texels, x, y, z, &bytes, part) };
                }
                CopyDirection::OutOfImage => {
                    let part = boxed(cuboid([x, y, z], [width, height, footprint.depth]));
                    let part = part.as_ref().map(core::ptr::from_ref);
                    let lead = footprint.lead;
                    // SAFETY: as above.
                    unsafe { self.list.CopyTextureRegion(&bytes, 0, lead, 0, &texels, part) };
                }
            }
        }
    }
}

/// Slices of a copy with a common footprint.
#[derive(Clone, Copy, Debug)]
struct Footprint {
    offset: u64,
    first_slice: u32,
    depth: u32,
    /// Width and height of the box in texels: whole blocks.
    blocks: [u32; 2],
    /// Rows of texels in the footprint above the box.
    lead: u32,
    /// Height of the footprint in texels, which determines the distance of slices.
    height: u32,
}

impl Footprint {
    /// Returns the footprints of a copy. A footprint must not exceed its buffer, not even with rows that are not
    /// copied. So if slices are further apart than they are high, the last slice has a footprint of its own; and
    /// if that would start off the alignment, it starts one row earlier.
    fn of(copy: &ImageCopy<'_, Device>, texel: TexelBlock) -> [Option<Self>; 2] {
        let [width, height, depth] = copy.extent;
        let rows = texel.rows(height);
        // Block-compressed levels below one block still consist of a whole block.
        let blocks = [width.div_ceil(texel.width) * texel.width, rows * texel.height];
        let (offset, lead, height) = (copy.buffer_offset, 0, blocks[1]);
        let all = Self { offset, first_slice: 0, depth, blocks, lead, height };
        // With one slice, or with no gap between slices, no row beyond the copied ones is part of the footprint.
        if depth == 1 || rows == copy.rows {
            return [Some(all), None];
        }
        let most = Self { depth: depth - 1, height: copy.rows * texel.height, ..all };
        let rows_before = u64::from(depth - 1) * u64::from(copy.rows);
        let begins = offset + rows_before * copy.row_pitch;
        // Pitches are multiples of 256 and offsets of 512, so one row more is enough.
        let early = if begins % OFFSETS == 0 { 0 } else { 1 };
        let lead = early * texel.height;
        let last = Self {
            offset: begins - u64::from(early) * copy.row_pitch,
            first_slice: depth - 1,
            depth: 1,
            lead,
            height: lead + height,
            ..all
        };
        [Some(most), Some(last)]
    }

    fn in_buffer(
        &self,
        copy: &ImageCopy<'_, Device>,
        format: windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT,
    ) -> D3D12_TEXTURE_COPY_LOCATION {
        D3D12_TEXTURE_COPY_LOCATION {
            // SAFETY: the interface is borrowed without a reference, and not released with the location.
            pResource: unsafe { core::mem::transmute_copy(copy.buffer) },
            Type: D3D12_TEXTURE_COPY_TYPE_PLACED_FOOTPRINT,
            Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 {
                PlacedFootprint: D3D12_PLACED_SUBRESOURCE_FOOTPRINT {
                    Offset: self.offset,
                    Footprint: D3D12_SUBRESOURCE_FOOTPRINT {
                        Format: format,
                        Width: self.blocks[0],
                        Height: self.height,
                        Depth: self.depth,
                        // Checked by `check`.
                        RowPitch: copy.row_pitch as u32,
                    },
                },
            },
        }
    }
}

fn in_image(copy: &ImageCopy<'_, Device>, desc: &D3D12_RESOURCE_DESC) -> D3D12_TEXTURE_COPY_LOCATION {
    D3D12_TEXTURE_COPY_LOCATION {
        // SAFETY: the interface is borrowed without a reference, and not released with the location.
        pResource: unsafe { core::mem::transmute_copy(copy.image) },
        Type: D3D12_TEXTURE_COPY_TYPE_SUBRESOURCE_INDEX,
        Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 {
            SubresourceIndex: subresource(copy, plane_slice(copy.aspect), desc),
        },
    }
}

/// Returns the index of a plane slice of a copy's subresource in its image.
fn subresource(copy: &ImageCopy<'_, Device>, slice: u32, desc: &D3D12_RESOURCE_DESC) -> u32 {
    // A 3D image has one layer, and its depth in the same field.
    let is_3d = desc.Dimension == D3D12_RESOURCE_DIMENSION_TEXTURE3D;
    let layers = if is_3d { 1 } else { u32::from(desc.DepthOrArraySize) };
    copy.mip_level + (copy.array_layer + slice * layers) * u32::from(desc.MipLevels)
}

fn copied_in(direction: CopyDirection) -> D3D12_RESOURCE_STATES {
    match direction {
        CopyDirection::IntoImage => D3D12_RESOURCE_STATE_COPY_DEST,
        CopyDirection::OutOfImage => D3D12_RESOURCE_STATE_COPY_SOURCE,
    }
}

fn cuboid([left, top, front]: [u32; 3], [width, height, depth]: [u32; 3]) -> D3D12_BOX {
    D3D12_BOX { left, top, front, right: left + width, bottom: top + height, back: front + depth }
}

/// A barrier between any resources that share bytes.
fn aliasing() -> D3D12_RESOURCE_BARRIER {
    D3D12_RESOURCE_BARRIER {
        Type: D3D12_RESOURCE_BARRIER_TYPE_ALIASING,
        Flags: D3D12_RESOURCE_BARRIER_FLAG_NONE,
        Anonymous: D3D12_RESOURCE_BARRIER_0 { Aliasing: core::mem::ManuallyDrop::default() },
    }
}

pub(super) fn transition(
    resource: &ID3D12Resource,
    subresource: u32,
    before: D3D12_RESOURCE_STATES,
    after: D3D12_RESOURCE_STATES,
) -> D3D12_RESOURCE_BARRIER {
    let transition = D3D12_RESOURCE_TRANSITION_BARRIER {
        // SAFETY: the interface is borrowed without a reference, and not released with the barrier.
        pResource: unsafe { core::mem::transmute_copy(resource) },
        Subresource: subresource,
        StateBefore: before,
        StateAfter: after,
    };
    D3D12_RESOURCE_BARRIER {
        Type: D3D12_RESOURCE_BARRIER_TYPE_TRANSITION,
        Flags: D3D12_RESOURCE_BARRIER_FLAG_NONE,
        Anonymous: D3D12_RESOURCE_BARRIER_0 { Transition: core::mem::ManuallyDrop::new(transition) },
    }
}
