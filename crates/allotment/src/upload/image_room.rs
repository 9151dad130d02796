//! Room in staging memory for all regions of an image write at once, where it is staged whole or not at all.
//!
//! ```text
//!   one range of a lane   [ mip 0 ........ ┊ mip 1 .. ┊ mip 2 ┊ … ]     reserved before the first is staged
//!                           each takes its part from the front
//! ```
//!
//! A part that is not used up is free again when the write ends, whatever ended it.

use super::error::UploadError;
use super::image_uploads::Write;
use super::lane::{Lane, Level, Piece, Reservation};
use super::uploader::Uploader;
use crate::device::{Device, Limits, PartRegion, PartRegions};

/// What is reserved of the lanes for images and at home. Nothing where each piece takes room for itself.
pub(super) struct ReservedRoom<'a, D: Device>([Option<Reservation<'a, D>>; 2]);

impl<'a, D: Device> ReservedRoom<'a, D> {
    pub(super) const NONE: Self = Self([None, None]);
}

/// Where the copies to a region are staged.
pub(super) struct StagedAt<'a, D: Device> {
    pub(super) lane: &'a Lane<D>,
    /// It is the lane at home.
    is_home: bool,
    /// The subresource, if the write holds it on the lane for images.
    pub(super) held: Option<Level>,
}

impl<'a, D: Device> StagedAt<'a, D> {
    /// Returns what is reserved there.
    pub(super) fn room<'r>(&self, room: &'r mut ReservedRoom<'a, D>) -> Option<&'r mut Reservation<'a, D>> {
        room.0[usize::from(self.is_home)].as_mut()
    }
}

impl<D: Device> Uploader<D> {
    /// Returns where the copies to a region are staged.
    pub(super) fn staged_at(&self, write: &Write<'_, D>, part: &PartRegion) -> StagedAt<'_, D> {
        let level = write.level(part);
        let is_home = match &write.held {
            Some(held) => held.is_at_home(level),
            None => write.is_at_home,
        };
        let lane = if is_home { self.home_lane() } else { self.image_lane() };
        StagedAt { lane, is_home, held: write.held.as_ref().filter(|_| !is_home).map(|_| level) }
    }

    /// Reserves room for all of these regions, where a write is refused as a whole: once the first is staged, none of the others
    /// may be refused.
    pub(super) fn reserve_room<'a>(
        &'a self,
        write: &Write<'_, D>,
        regions: PartRegions<'_>,
    ) -> Result<ReservedRoom<'a, D>, UploadError> {
        let mut room = ReservedRoom::NONE;
        if !self.image_lane().refuses() {
            return Ok(room);
        }
        let limits = &self.memory.allocator().device().properties().limits;
        let mut lanes = [None, None];
        for part in regions.filter(|part| !part.region.extent.contains(&0)) {
            let StagedAt { lane, is_home, .. } = self.staged_at(write, &part);
            let (_, total) = lanes[usize::from(is_home)].get_or_insert((lane, 0));
            *total = Reservation::<D>::behind(
                *total,
                staged_size(&part, limits),
                limits.image_copy_offset_alignment,
            );
        }
        for (lane, room) in lanes.into_iter().zip(&mut room.0) {
            let Some((lane, size)) = lane else { continue };
            let alignment = limits.image_copy_offset_alignment;
            let (handle, is_exclusive) = (write.handle, write.held.is_some());
            // The chunk of small pieces is not for those that are filled one by one.
            let piece = Piece { size, alignment, target: None, is_callers: true, is_exclusive, handle };
            *room = Some(lane.reserve(&self.memory, &piece)?);
        }
        Ok(room)
    }
}

/// Returns the bytes of a region in staging memory.
fn staged_size(part: &PartRegion, limits: &Limits) -> u64 {
    let PartRegion { region, texel } = part;
    let [width, _, depth] = region.extent;
    let bytes = texel.row_pitch(width, limits).saturating_mul(u64::from(part.rows()));
    // If the offset alignment is not a power of two, the aligned offset may lie further in: request that many bytes more.
    bytes.saturating_mul(u64::from(depth)).saturating_add(texel.offset(1, limits))
}
