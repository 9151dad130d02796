//! A part of an image that is copied, to it or from it: its regions, and what is known of their states.
//!
//! Writes and reads ask here whether a queue can make the copies, before any of them is staged or submitted.

use crate::device::{
    Device, ImageCopyError, ImagePart, ImageShape, PartRegion, PartRegions, QueueIndex, TexelLayout,
    TransferUsage,
};
use crate::memory::resource::{SharedStates, SubresourceState};
use crate::sync::locked;

/// A part of an image that has this part.
pub(super) struct CopiedPart<'a, D: Device> {
    pub(super) shape: &'a ImageShape,
    pub(super) states: &'a SharedStates<D::ImageState>,
    /// The texels of the format, also of one that the library does not know.
    pub(super) texels: TexelLayout,
    /// In the order of the bytes.
    pub(super) regions: PartRegions<'a>,
}

impl<'a, D: Device> CopiedPart<'a, D> {
    /// Describes a part of an image of this shape. Returns an error where the image has no such part.
    pub(super) fn new(
        shape: &'a ImageShape,
        states: &'a SharedStates<D::ImageState>,
        part: &ImagePart,
    ) -> Result<Self, ImageCopyError> {
        let texels = match part.texel {
            // The caller says what the texels of an extension's format are.
            Some(texel) if shape.texels == TexelLayout::Unknown => texel.into(),
            _ => shape.texels,
        };
        Ok(Self { shape, states, texels, regions: shape.regions(part)? })
    }

    /// Returns the regions that have texels: the APIs have no copy of size 0.
    pub(super) fn regions_with_texels(&self) -> impl Iterator<Item = PartRegion> + use<'a, D> {
        self.regions.clone().filter(|found| !found.region.extent.contains(&0))
    }

    /// Returns what is known of the state of a region's subresource.
    pub(super) fn known(&self, found: &PartRegion) -> SubresourceState<D::ImageState> {
        locked(self.states).of(found.region.mip_level, found.region.array_layer)
    }

    /// Checks that a queue can copy each region, between the states that `states` returns for it. Returns the bytes of all.
    pub(super) fn check<E: From<ImageCopyError>>(
        &self,
        device: &D,
        queue: QueueIndex,
        usage: TransferUsage,
        mut states: impl FnMut(&PartRegion) -> Result<[D::ImageState; 2], E>,
    ) -> Result<u64, E> {
        let kind = device.properties().queues[usize::from(queue.0)];
        let mut size = 0_u64;
        for found in self.regions.clone() {
            let aspect = found.region.aspect;
            self.shape.check_copy(&found.region, found.texel, usage)?;
            if !device.can_copy_aspect(kind, aspect) {
                return Err(ImageCopyError::NeedsGraphicsQueue { aspect, queue }.into());
            }
            check_states(device, queue, states(&found)?)?;
            size = found.bytes().and_then(|bytes| size.checked_add(bytes)).ok_or(ImageCopyError::TooLarge)?;
        }
        Ok(size)
    }
}

/// Checks that a queue can transition a subresource between the states before and after a copy. It would refuse the whole
/// batch, also what others copy.
pub(super) fn check_states<D: Device>(
    device: &D,
    queue: QueueIndex,
    [before, after]: [D::ImageState; 2],
) -> Result<(), ImageCopyError> {
    let kind = device.properties().queues[usize::from(queue.0)];
    if device.can_copy_between_states(kind, before, after) {
        Ok(())
    } else {
        Err(ImageCopyError::States { queue })
    }
}
