//! Writes of images by the CPU, without staging memory and without a queue, where the device can.
//!
//! Only texels of subresources that the GPU has never been given are written so: nothing has to be waited for, and what is
//! submitted later sees them. While a thread copies texels, the subresources are in a state of their own, in which other writes
//! wait for it; so two threads may write parts of one mip level. A write that stages its texels also says so when it begins,
//! since the subresource stays as it was until its first copy is recorded.

use super::error::UploadError;
use super::image_room::ReservedRoom;
use super::image_uploads::{Write, pieces};
use super::image_write::TexelSource;
use super::uploader::Uploader;
use crate::device::{Device, DeviceError, HostImageWrite, PartRegions};
use crate::memory::resource::{SubresourceState, Subresources, begin_copying, begin_staging};
use crate::sync::locked;

/// Most bytes that are copied by one call of the driver, unless a row of blocks has more: between two calls, a write can be
/// stopped.
const PIECE: u64 = 4 << 20;

/// The subresources into which a thread copies texels. When dropped, their states are known again.
struct Copying<'w, 'a, D: Device> {
    write: &'w Write<'a, D>,
    regions: PartRegions<'a>,
    of: Subresources,
    /// The regions that are in the state after the write.
    reached: usize,
    /// The others will be staged.
    stages_rest: bool,
}

impl<D: Device> Drop for Copying<'_, '_, D> {
    fn drop(&mut self) {
        let after = SubresourceState::Known(self.write.after);
        let count = self.regions.clone().count();
        let mut states = locked(self.write.part.states);
        if self.reached < count {
            for part in self.regions.clone().take(self.reached) {
                let (level, layer) = (part.region.mip_level, part.region.array_layer);
                states.replace(&(level..level + 1, layer..layer + 1), SubresourceState::Copying, after);
            }
        }
        // Only those that are left in it: the application may have said meanwhile what it does with the image.
        let rest = match (self.reached < count, self.stages_rest) {
            (false, _) => after,
            (true, true) => SubresourceState::Staging,
            (true, false) => SubresourceState::Initial,
        };
        states.replace(&self.of, SubresourceState::Copying, rest);
        drop(states);
        // A relocatable image may be moved from now on.
        self.write.to.with_states(|_| ());
    }
}

impl<D: Device> Uploader<D> {
    /// Copies the regions of a write into the image, where that is possible. Returns those that have to be staged, and the room
    /// that is reserved for them.
    pub(super) fn copy_regions<'a, 's>(
        &'s self,
        write: &Write<'a, D>,
        regions: PartRegions<'a>,
        source: &mut impl TexelSource,
        written: &mut u64,
    ) -> Result<(PartRegions<'a>, ReservedRoom<'s, D>), UploadError> {
        let device = self.memory.allocator().device();
        // A box without texels is one of all regions.
        let has_texels = regions.clone().next().is_some_and(|part| !part.region.extent.contains(&0));
        if !write.part.shape.is_host_writable || !has_texels {
            let room = self.reserve_room(write, regions.clone())?;
            return Ok((regions, room));
        }
        // On the way to another place, the copy of a move would overwrite what the CPU writes before it.
        let (image, is_moving) =
            write.to.with_owned(|owned, moved_at| (owned.handle().clone(), moved_at.is_some()));
        let of = regions.subresources();
        let may_copy = self.copies_from_host
            && source.bytes().is_some()
            && !is_moving
            // Only a command of a queue makes it valid.
            && !write.begins_whole
            && device.can_write_from_host(write.part.shape, write.after);
        if !may_copy || !begin_copying(write.part.states, &of) {
            // Before the states say that this write stages: it may be refused.
            let room = self.reserve_room(write, regions.clone())?;
            begin_staging(write.part.states, &of);
            return Ok((regions, room));
        }
        let mut copying = Copying { write, regions: regions.clone(), of, reached: 0, stages_rest: false };
        let (mut left, mut last) = (regions.clone(), None);
        for part in regions {
            let subresource = Some((part.region.mip_level, part.region.array_layer));
            // The aspects of a subresource follow each other, and the first of them has transitioned it.
            let mut before = if last == subresource { write.after } else { D::ImageState::default() };
            for (piece, (region, rows)) in pieces(&part, PIECE / part.row_bytes().max(1), false).enumerate() {
                self.check_open(write.handle)?;
                let size = part.row_bytes() * u64::from(rows) * u64::from(region.extent[2]);
                let Some(bytes) = source.bytes().and_then(|bytes| bytes.get(..size as usize)) else {
                    unreachable!("the bytes were counted before")
                };
                let now = HostImageWrite {
                    bytes,
                    image: &image,
                    region,
                    texels: write.part.texels,
                    before,
                    after: write.after,
                };
                // SAFETY: the image lives as long as its owner, and stays where it is: a recording is open that keeps a
                // relocatable one from being moved. The box was checked against the shape, and the bytes against the box. No
                // queue was given work with the subresource, whose state would not be the initial one then, and other writes
                // wait for this one.
                match unsafe { device.write_image_from_host(&now) } {
                    Ok(()) => {}
                    // The driver found no memory, say. Nothing of the region is written, and what the driver did to the
                    // subresource is discarded.
                    Err(error) if error != DeviceError::Lost && piece == 0 => {
                        let room = self.reserve_room(write, left.clone()).inspect_err(|_| {
                            // Refused as a whole: the image is as new as it was.
                            (copying.reached, *written) = (0, 0);
                        })?;
                        copying.stages_rest = true;
                        return Ok((left, room));
                    }
                    Err(error) => return Err(error.into()),
                }
                source.skip(size as usize);
                before = write.after;
                *written += size;
                self.count_host_copy(size);
            }
            copying.reached += 1;
            last = subresource;
            left.next();
        }
        Ok((left, ReservedRoom::NONE))
    }
}
