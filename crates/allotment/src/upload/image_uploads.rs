//! Writes of images by an [`Uploader`]: which regions and in which states, piece by piece.
//!
//! ```text
//!   part of the image     mip levels, layers, aspects, or a box         ImageShape::regions, in the order of the bytes
//!     region              one aspect of one subresource                 checked against the image before anything is staged
//!       piece             as many rows of blocks as are staged at once  its copy is added to the batch that is open then
//! ```
//!
//! What can be copied by the CPU itself, into images that are new, is not staged: see `host_writes`.
//!
//! # States
//!
//! A copy has to name the state that the subresource is in. The library knows that state, unless the program said that it
//! changes it ([`Image::forget_state`]): then the whole subresource has to be written, with all its aspects, and what it had
//! before is discarded where the API can say so. Each piece takes the state when its copy is added to a batch, under the lock
//! of the lane, so copies of several threads are recorded in the order of their states.
//!
//! An exclusive image may belong to another family than the queue for images: `lane/hand_over.rs` says which queue copies to it
//! then.

use core::error::Error;
use std::io;
use std::sync::Arc;

use super::copied_part::CopiedPart;
use super::error::{FillError, UploadError};
use super::handle::UploadHandle;
use super::image_room::{ReservedRoom, StagedAt};
use super::image_write::{ImageRows, ImageWrite, InPlace, Reader, TexelSource};
use super::lane::{HeldLevels, LaneState, Level, Piece, StagedImage};
use super::uploader::{Stay, Uploader};
use crate::device::{Device, ImageCopyError, ImageRegion, PartRegion, QueueKind, TransferUsage};
use crate::lifetime::TimelinePoints;
use crate::memory::resource::SubresourceState;
use crate::memory::{Image, MappedBuffer, ShortName, WriteMark};
use crate::sync::locked;

/// A write of an image, once its part is known to be there.
pub(super) struct Write<'a, D: Device> {
    pub(super) to: &'a Image<D>,
    /// Keeps other uploaders from writing it meanwhile.
    mark: WriteMark,
    pub(super) part: CopiedPart<'a, D>,
    pub(super) after: D::ImageState,
    /// All aspects are written.
    all_aspects: bool,
    /// What the copies wait for, where the image has been used before.
    points: TimelinePoints,
    /// The subresources, where the queue for images is of another family than the one that uses the image.
    pub(super) held: Option<HeldLevels<'a, D>>,
    /// The queue for images cannot copy it in pieces.
    pub(super) is_at_home: bool,
    /// The first write of a subresource is one of all its texels, by one command: the image is in memory that resources share, and
    /// the API wants that of it ([`ImageShape::begins_whole`](crate::device::ImageShape::begins_whole)).
    pub(super) begins_whole: bool,
    pub(super) handle: Option<&'a UploadHandle>,
}

impl<D: Device> Uploader<D> {
    /// Writes a part of an image, or all of it. `bytes` has the texels of each mip level, array layer and aspect, in the order
    /// of the [part](crate::device::ImagePart): slice by slice, row by row, without padding; of a compressed format, rows of
    /// blocks. The bytes are in place when the points that [`submit`](Self::submit) returns are reached.
    ///
    /// The CPU copies them into the image at once where the device can and the image is new: no work was given what is written
    /// ([`UploaderDesc::copies_from_host`](super::UploaderDesc::copies_from_host)). Elsewhere they are staged. Where the image
    /// has been used before, the copies wait for all work that any queue was given before this call, except what is
    /// [streamed](UploadHandle::streamed) to others. A program whose own commands use an image before its first upload says so
    /// by [`Image::set_state`] or [`Image::forget_state`].
    ///
    /// A write that fails leaves the rest of the texels as they were; but where it writes all of a mip level of an
    /// [exclusive](crate::device::SharingMode::Exclusive) image over a queue of another family, the rest of that is undefined.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::upload::{ImageWrite, Uploader, UploaderDesc};
    ///
    /// let uploader = Uploader::new(gpu.memory(), UploaderDesc::default())?;
    /// // Three mip levels of 4 × 4, 2 × 2 and 1 texels of 4 bytes.
    /// let desc = ImageDesc::new(4, 4, 4).with_mip_levels(3);
    /// let albedo = gpu.create_image(&desc, &MemoryUsage::GpuOnly.with_name("albedo"))?;
    /// uploader.write_image(&albedo, &ImageWrite::default(), &[7; (16 + 4 + 1) * 4])?;
    /// gpu.wait(uploader.submit()?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`UploadError::ImageCopy`] where the image has no such part or cannot be written, or where the queue cannot leave it in
    /// the state after the write; [`UploadError::Size`] for another number of bytes; [`UploadError::UnknownState`] where texels
    /// would have to be kept of a mip level in a state that is not known. Nothing is staged then. The errors of
    /// [`initialize`](Self::initialize) else: where staging memory is [waited](super::WhenFull::Wait) for, some of the texels
    /// may be written. Where a write is [refused](super::WhenFull::Refuse), [`UploadError::Full`] says that nothing is staged.
    #[inline(never)]
    pub fn write_image(
        &self,
        to: &Image<D>,
        write: &ImageWrite<D::ImageState>,
        bytes: &[u8],
    ) -> Result<(), UploadError> {
        self.write_image_as(None, to, write, bytes)
    }

    /// Writes a part of an image with a handle.
    pub(crate) fn write_image_as(
        &self,
        handle: Option<&UploadHandle>,
        to: &Image<D>,
        write: &ImageWrite<D::ImageState>,
        bytes: &[u8],
    ) -> Result<(), UploadError> {
        let length = bytes.len() as u64;
        self.write_image_by(handle, to, write, Some(length), &mut &*bytes)
    }

    /// Writes a part of an image, or all of it, from a reader: a file, or a decompressor. It reads the texels straight into
    /// staging memory.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::upload::{ImageWrite, Uploader, UploaderDesc};
    ///
    /// let uploader = Uploader::new(gpu.memory(), UploaderDesc::default())?;
    /// let noise = gpu.create_image(&ImageDesc::new(64, 64, 4), &MemoryUsage::GpuOnly.with_name("noise"))?;
    /// let file = std::io::repeat(7); // a `std::fs::File`, say
    /// uploader.write_image_from(&noise, &ImageWrite::default(), file)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`write_image`](Self::write_image), and [`UploadError::Read`] where the reader fails or ends: the texels
    /// before may be written then.
    #[inline(never)]
    pub fn write_image_from(
        &self,
        to: &Image<D>,
        write: &ImageWrite<D::ImageState>,
        reader: impl io::Read,
    ) -> Result<(), UploadError> {
        self.write_image_from_as(None, to, write, reader)
    }

    /// Writes a part of an image from a reader, with a handle.
    pub(crate) fn write_image_from_as(
        &self,
        handle: Option<&UploadHandle>,
        to: &Image<D>,
        write: &ImageWrite<D::ImageState>,
        reader: impl io::Read,
    ) -> Result<(), UploadError> {
        self.write_image_by(handle, to, write, None, &mut Reader(reader))
    }

    /// Writes a part of an image, or all of it, by a closure that fills rows in staging memory: for a decompressor, whose
    /// output need not be copied. It is called in the order of the part, for each region once or several times, with as many
    /// rows as are staged at once; no lock is held meanwhile. Where it returns an error, the write ends.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::upload::{ImageWrite, Uploader, UploaderDesc};
    ///
    /// let uploader = Uploader::new(gpu.memory(), UploaderDesc::default())?;
    /// let ramp = gpu.create_image(&ImageDesc::new(64, 64, 4), &MemoryUsage::GpuOnly.with_name("ramp"))?;
    /// uploader.write_image_with(&ramp, &ImageWrite::default(), |rows| {
    ///     let first = rows.region().origin[1];
    ///     for (y, row) in (first..).zip(rows.rows_mut()) {
    ///         row.fill(y as u8);
    ///     }
    ///     Ok(()) // or an error of any type
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`FillError::Upload`] with the errors of [`write_image`](Self::write_image), and [`FillError::Fill`] with that of the
    /// closure: the texels before may be written then.
    #[inline(never)]
    pub fn write_image_with(
        &self,
        to: &Image<D>,
        write: &ImageWrite<D::ImageState>,
        fill: impl FnMut(&mut ImageRows<'_>) -> Result<(), Box<dyn Error + Send + Sync>>,
    ) -> Result<(), FillError> {
        self.write_image_with_as(None, to, write, fill)
    }

    /// Writes a part of an image by a closure, with a handle.
    pub(crate) fn write_image_with_as(
        &self,
        handle: Option<&UploadHandle>,
        to: &Image<D>,
        write: &ImageWrite<D::ImageState>,
        fill: impl FnMut(&mut ImageRows<'_>) -> Result<(), Box<dyn Error + Send + Sync>>,
    ) -> Result<(), FillError> {
        let mut source = InPlace::new(fill);
        let written = self.write_image_by(handle, to, write, None, &mut source);
        match source.error {
            Some(error) => Err(FillError::Fill { error, name: to.short_name() }),
            None => Ok(written?),
        }
    }

    fn write_image_by(
        &self,
        handle: Option<&UploadHandle>,
        to: &Image<D>,
        write: &ImageWrite<D::ImageState>,
        length: Option<u64>,
        source: &mut impl TexelSource,
    ) -> Result<(), UploadError> {
        // An owner may move an image, but its shape stays.
        let shape = to.with_owned(|owned, _| owned.shape().copied());
        let size = shape.and_then(|shape| shape.part_bytes(&write.part).ok()).unwrap_or(0);
        self.writing(to.short_name(), handle, size, |written| {
            let mut stay = Stay::default();
            if to.is_relocatable() {
                // From the first piece to the last: the state in which the next piece finds the image would not be that of
                // an image which a step moved in between without its contents.
                stay.open(self.tracker(), self.image_lane());
            }
            let is_shared = to.with_owned(|owned, _| {
                self.check_owner(owned.tracker(), owned.allocation())?;
                Ok::<_, UploadError>(owned.is_shared())
            })?;
            let mark = self.mark(to.id())?;
            // After the mark: until then, another resource that is placed there could get the bytes.
            self.memory.allocator().check_settled(to.id())?;
            // Only a texture has a shape: on Direct3D 12 a token may be of a buffer.
            let shape = shape.ok_or(ImageCopyError::NotAnImage)?;
            let after = write.after.unwrap_or_else(|| {
                self.memory.allocator().device().state_to_read(self.image_queue_kind(), &shape)
            });
            // A write in pieces copies boxes.
            let [_, queue] = self.queues();
            let is_at_home = !self.memory.allocator().device().copies_any_box(queue);
            let states = to.with_states(Arc::clone);
            let part = CopiedPart::new(&shape, &states, &write.part)?;
            let regions = part.regions.clone();
            let (all_aspects, points, held) = (
                write.part.aspect.is_none() || shape.texels.aspects().count() <= 1,
                TimelinePoints::EMPTY,
                None,
            );
            let begins_whole = shape.begins_whole && self.memory.allocator().is_placed(to.id());
            let mut write_of =
                Write { to, mark, part, after, all_aspects, points, held, is_at_home, begins_whole, handle };
            let is_used = self.check_regions(&write_of, length)?;
            if !is_shared && !is_at_home && self.image_lane().is_foreign() {
                write_of.held = Some(self.hold(&write_of, regions.clone())?);
            }
            // After that: what others copied on another queue is submitted.
            if is_used || write_of.held.is_some() && write_of.is_used(regions.clone()) {
                // It may be in use: by work of any queue. What is streamed to it goes over the same queue, where one lane has
                // it.
                let points = self.tracker().submitted();
                write_of.points =
                    if write_of.held.is_some() { points } else { self.without_streamed(points) };
            }
            let (regions, mut room) = self.copy_regions(&write_of, regions, source, written)?;
            for region in regions {
                self.stage_region(&write_of, &region, &mut room, source, written)?;
            }
            Ok(())
        })
    }

    /// Holds the subresources of a write, so that one queue copies to each of them.
    fn hold<'a>(
        &'a self,
        write: &Write<'a, D>,
        regions: impl Iterator<Item = PartRegion>,
    ) -> Result<HeldLevels<'a, D>, UploadError> {
        let device = self.memory.allocator().device();
        let mut held = self.image_lane().holder(&self.memory, write.handle)?;
        for part in regions {
            // The queue's family becomes the owner where nothing of the subresource is kept, or where no queue has used it.
            let may_be_here = || match write.part.known(&part) {
                SubresourceState::Initial | SubresourceState::Staging | SubresourceState::Copying => true,
                _ => write.is_whole(&part) && device.discards_from_any_state(),
            };
            held.hold(write.level(&part), may_be_here)?;
        }
        Ok(held)
    }

    /// Returns the kind of the queue that copies images.
    fn image_queue_kind(&self) -> QueueKind {
        let [_, queue] = self.queues();
        self.memory.allocator().device().properties().queues[usize::from(queue.0)]
    }

    /// Checks the regions before any of them is staged. Returns whether one has been used before.
    fn check_regions(&self, write: &Write<'_, D>, length: Option<u64>) -> Result<bool, UploadError> {
        let (device, [_, queue]) = (self.memory.allocator().device(), self.queues());
        let part = &write.part;
        let states = |found: &PartRegion| {
            Ok::<_, UploadError>([write.before(device, found, &found.region)?, write.after])
        };
        let wanted = part.check(device, queue, TransferUsage::DST, states)?;
        match length {
            Some(found) if found != wanted => {
                // They are too few, if one of the regions ends behind them.
                let mut end = 0_u64;
                let is_behind = |it: &PartRegion| {
                    end += it.bytes().unwrap_or(0);
                    end > found
                };
                let last = part.regions.clone().find(is_behind);
                let ends_in = last.map(|last| [last.region.mip_level, last.region.array_layer]);
                Err(UploadError::Size { wanted, found, ends_in, name: ShortName::NONE })
            }
            _ => Ok(write.is_used(part.regions.clone())),
        }
    }

    /// Stages a region, in pieces of as many rows of blocks as fit.
    fn stage_region<'a>(
        &'a self,
        write: &Write<'_, D>,
        part: &PartRegion,
        room: &mut ReservedRoom<'a, D>,
        source: &mut impl TexelSource,
        written: &mut u64,
    ) -> Result<(), UploadError> {
        let PartRegion { region, texel } = *part;
        let width = region.extent[0];
        if region.extent.contains(&0) {
            // As for buffers: no copy of size 0.
            return Ok(());
        }
        let limits = &self.memory.allocator().device().properties().limits;
        // Counted in rows of blocks: the APIs copy whole blocks, so a write of a compressed image is split only between
        // these. Rows are padded to the device's pitch in staging memory.
        let (row, pitch) = (part.row_bytes(), texel.row_pitch(width, limits));
        let at = self.staged_at(write, part);
        let StagedAt { lane, held, .. } = at;
        // All of it, where there is room for all of the write.
        let fit = lane.piece() / pitch.max(1);
        let is_first = !matches!(write.part.known(part), SubresourceState::Known(_));
        let is_whole = write.part.shape.whole_levels || write.begins_whole && is_first;
        for (now, count) in pieces(part, fit, is_whole) {
            let slices = now.extent[2];
            let bytes = pitch * u64::from(count) * u64::from(slices);
            let piece = Piece {
                // As `reserve_room` counts it.
                size: bytes + texel.offset(1, limits),
                alignment: limits.image_copy_offset_alignment,
                target: None,
                is_callers: is_callers(source),
                is_exclusive: held.is_some(),
                handle: write.handle,
            };
            let fill = |staging: &MappedBuffer<D>, at| {
                let at = texel.offset(at, limits);
                // SAFETY: this range of staging memory belongs to this thread until its copy is recorded: no queue
                // reads it and no thread writes it.
                let filled = unsafe {
                    staging.write_in_place(at, bytes as usize, |bytes| {
                        source.fill(&mut ImageRows::new(now, row as usize, pitch as usize, bytes))
                    })
                };
                filled?
            };
            let record = |batch: &mut LaneState<D>, from_offset| {
                // Before the lock of a relocatable image: a read that is being submitted may be waited for.
                write.to.with_owned(|owned, moved_at| {
                    self.check_owner(owned.tracker(), owned.allocation())?;
                    // Of now: another thread may have written it since the first look.
                    let device = self.memory.allocator().device();
                    let is_lost = |level| batch.is_first_copy(level) && write.is_whole(part);
                    let before = match held {
                        // It may belong to another family: what it has is not kept.
                        Some(level) if is_lost(level) && device.discards_from_any_state() => {
                            D::ImageState::default()
                        }
                        _ => write.before(device, part, &now)?,
                    };
                    // Another queue executes the copy by which defragmentation moved the target.
                    let read_at = locked(write.part.states).read_at();
                    let points = moved_at.into_iter().chain(write.points.points()).chain(read_at.points());
                    points.for_each(|point| batch.wait_for(point));
                    batch.add_image(StagedImage {
                        held,
                        image: owned.handle().clone(),
                        mark: write.mark.clone(),
                        states: Arc::clone(write.part.states),
                        was: write.part.known(part),
                        from_offset: texel.offset(from_offset, limits),
                        row_pitch: pitch,
                        rows: count,
                        mip_level: now.mip_level,
                        array_layer: now.array_layer,
                        aspect: now.aspect,
                        origin: now.origin,
                        extent: now.extent,
                        texels: write.part.texels,
                        before,
                        after: write.after,
                    });
                    Ok::<_, UploadError>(())
                })?;
                // Before a step can come: the recording is open that keeps it away.
                write.to.with_states(|_| ());
                Ok(())
            };
            lane.stage(&self.memory, &piece, at.room(room), fill, record)?;
            *written += row * u64::from(count) * u64::from(slices);
        }
        Ok(())
    }
}

/// Splits a region, with at least one texel, into boxes of as many rows of blocks of one slice as `fit`, or of all slices if
/// the whole region fits or is not to be split. Returns them with their rows of blocks.
pub(super) fn pieces(
    part: &PartRegion,
    fit: u64,
    is_whole: bool,
) -> impl Iterator<Item = (ImageRegion, u32)> + use<> {
    let PartRegion { region, texel } = *part;
    let ([width, height, depth], rows) = (region.extent, part.rows());
    let is_whole = is_whole || u64::from(rows) * u64::from(depth) <= fit;
    let fit = u32::try_from(fit).unwrap_or(u32::MAX);
    let (step, slices) = if is_whole { (rows, depth) } else { (fit.clamp(1, rows.max(1)), 1) };
    let starts = move |end: u32, step: u32| (0..end).step_by(step.max(1) as usize);
    starts(depth, slices).flat_map(move |z| {
        starts(rows, step).map(move |first| {
            let (count, y) = (step.min(rows - first), first * texel.height);
            let mut now = region;
            now.origin = [region.origin[0], region.origin[1] + y, region.origin[2] + z];
            now.extent = [width, (count * texel.height).min(height - y), slices];
            (now, count)
        })
    })
}

fn is_callers<S: TexelSource>(_: &S) -> bool {
    S::IS_CALLERS
}

impl<D: Device> Write<'_, D> {
    /// Returns the subresource of a region.
    pub(super) fn level(&self, part: &PartRegion) -> Level {
        (self.to.id(), part.region.array_layer, part.region.mip_level)
    }

    /// Returns whether all of a region's subresource is written.
    fn is_whole(&self, part: &PartRegion) -> bool {
        let region = &part.region;
        self.all_aspects && region.extent == self.part.shape.level_of(region.aspect, region.mip_level)
    }

    /// Returns whether one of the regions' subresources has been used before.
    fn is_used(&self, mut regions: impl Iterator<Item = PartRegion>) -> bool {
        regions.any(|part| {
            !matches!(self.part.known(&part), SubresourceState::Initial | SubresourceState::Staging)
        })
    }

    /// Returns the state that the copy of a piece of a region finds.
    fn before(
        &self,
        device: &D,
        part: &PartRegion,
        piece: &ImageRegion,
    ) -> Result<D::ImageState, UploadError> {
        let region = &part.region;
        // A piece is a box of its own to the API.
        let may_be_first = !self.begins_whole || self.is_whole(part) && piece.extent == region.extent;
        match self.part.known(part) {
            // What another thread copies now is known before this write begins.
            SubresourceState::Initial | SubresourceState::Staging | SubresourceState::Copying
                if may_be_first =>
            {
                Ok(D::ImageState::default())
            }
            SubresourceState::Known(state) => Ok(state),
            SubresourceState::Lost(state) if may_be_first => Ok(state),
            SubresourceState::Unknown if self.is_whole(part) && device.discards_from_any_state() => {
                Ok(D::ImageState::default())
            }
            _ => {
                let (mip_level, array_layer) = (region.mip_level, region.array_layer);
                Err(UploadError::UnknownState { mip_level, array_layer, name: ShortName::NONE })
            }
        }
    }
}
