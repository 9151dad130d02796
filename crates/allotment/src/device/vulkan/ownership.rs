//! The barriers by which one family of queues hands exclusive resources over to another.
//!
//! ```text
//!   queue of the family `from`   copies │ release: from ► to │ signals
//!   queue of the family `to`                          waits │ acquire: from ► to │ uses
//! ```
//!
//! The two halves are one barrier, recorded twice: same part, families and layouts. The layout does not change by it, since
//! the copies leave each image in the layout that its user expects.

use ash::vk;

use super::copies::{UNUSABLE_LAYOUTS, WRITES, accesses};
use super::formats::barrier_aspects;
use super::{Device, copies};
use crate::device::{CopyError, DeviceError, OwnedPart, OwnershipTransfer, QueueIndex, QueueKind};

/// Half of a transfer of ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    /// On a queue of the family that owns the part.
    Release,
    /// On a queue of the family that is going to own it.
    Acquire,
}

/// Barriers, in lists that are reused.
#[derive(Default)]
pub(super) struct Barriers {
    pub(super) buffers: Vec<vk::BufferMemoryBarrier<'static>>,
    pub(super) images: Vec<vk::ImageMemoryBarrier<'static>>,
}

/// Returns an error for transfers on a queue of a family that they do not name, and for images in a layout without
/// contents.
pub(super) fn check(
    half: Half,
    transfers: &[OwnershipTransfer<'_, Device>],
    family: u32,
    family_of: impl Fn(QueueIndex) -> Result<u32, DeviceError>,
) -> Result<(), DeviceError> {
    for transfer in transfers {
        let (from, to) = (family_of(transfer.from)?, family_of(transfer.to)?);
        if family != if half == Half::Release { from } else { to } {
            return Err(CopyError::OtherFamily.into());
        }
        match transfer.part {
            OwnedPart::Image { state, .. } if UNUSABLE_LAYOUTS.contains(&state) => {
                return Err(CopyError::States.into());
            }
            OwnedPart::Image { .. } | OwnedPart::Buffer { .. } => {}
        }
    }
    Ok(())
}

impl Barriers {
    pub(super) fn is_empty(&self) -> bool {
        self.buffers.is_empty() && self.images.is_empty()
    }

    /// Makes them those of transfers, which were checked. A family hands nothing over to itself.
    pub(super) fn set(
        &mut self,
        half: Half,
        transfers: &[OwnershipTransfer<'_, Device>],
        kind: QueueKind,
        family_of: impl Fn(QueueIndex) -> Option<u32>,
    ) {
        self.buffers.clear();
        self.images.clear();
        // The accesses of the other half are ignored by Vulkan. Those of this half are not known here: whatever wrote before,
        // and whatever uses it afterwards, as far as the layout of an image says.
        let of_half = |used| match half {
            Half::Release => (used & WRITES, vk::AccessFlags::empty()),
            Half::Acquire => (vk::AccessFlags::empty(), used),
        };
        for transfer in transfers {
            let (Some(from), Some(to)) = (family_of(transfer.from), family_of(transfer.to)) else { continue };
            if from == to {
                continue;
            }
            match transfer.part {
                OwnedPart::Buffer { buffer, offset, size } => {
                    let (before, after) =
                        of_half(vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE);
                    self.buffers.push(
                        vk::BufferMemoryBarrier::default()
                            .src_access_mask(before)
                            .dst_access_mask(after)
                            .src_queue_family_index(from)
                            .dst_queue_family_index(to)
                            .buffer(*buffer)
                            .offset(offset)
                            .size(size),
                    );
                }
                OwnedPart::Image { image, texels, mip_level, array_layer, state } => {
                    // The copy's own barrier has made its writes available, and the change to this layout.
                    let (before, after) = of_half(accesses(state, kind));
                    self.images.push(
                        vk::ImageMemoryBarrier::default()
                            .src_access_mask(before)
                            .dst_access_mask(after)
                            .old_layout(state)
                            .new_layout(state)
                            .src_queue_family_index(from)
                            .dst_queue_family_index(to)
                            .image(*image)
                            .subresource_range(vk::ImageSubresourceRange {
                                aspect_mask: barrier_aspects(&texels),
                                base_mip_level: mip_level,
                                level_count: 1,
                                base_array_layer: array_layer,
                                layer_count: 1,
                            }),
                    );
                }
            }
        }
    }
}

impl copies::Recording<'_> {
    /// Records half of transfers of ownership. What is not known may have used the parts before, and may use them afterwards.
    pub(super) fn transfer_ownership(
        &mut self,
        half: Half,
        transfers: &[OwnershipTransfer<'_, Device>],
        family_of: impl Fn(QueueIndex) -> Option<u32>,
    ) {
        let barriers = &mut self.scratch.ownership;
        barriers.set(half, transfers, self.kind, family_of);
        if barriers.is_empty() {
            return;
        }
        // All stages at both ends: at the one the semaphores of the submission wait and signal, with all stages as well.
        let stages = vk::PipelineStageFlags::ALL_COMMANDS;
        let none = vk::DependencyFlags::empty();
        // SAFETY: the command buffer is being recorded, the resources are live, the images are in these layouts and the
        // queue's family takes part in each transfer, by the caller's promise and as was checked.
        unsafe {
            self.device.cmd_pipeline_barrier(
                self.commands,
                stages,
                stages,
                none,
                &[],
                &barriers.buffers,
                &barriers.images,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use ash::vk::Handle as _;

    use super::*;
    use crate::device::{TexelBlock, TexelLayout};

    /// Two queues of family 3, then one of family 5.
    const FAMILIES: [u32; 3] = [3, 3, 5];

    fn family_of(queue: QueueIndex) -> Option<u32> {
        FAMILIES.get(usize::from(queue.0)).copied()
    }

    fn checked(half: Half, transfer: OwnershipTransfer<'_, Device>, family: u32) -> Result<(), DeviceError> {
        let of = |queue| family_of(queue).ok_or(DeviceError::NoSuchQueue { queue });
        check(half, &[transfer], family, of)
    }

    fn image_part(image: &vk::Image, state: vk::ImageLayout) -> OwnedPart<'_, Device> {
        let texels = TexelLayout::from(TexelBlock::new(4));
        OwnedPart::Image { image, texels, mip_level: 2, array_layer: 7, state }
    }

    #[test]
    fn both_halves_name_the_same_part_families_and_layouts() {
        let (buffer, image) = (vk::Buffer::from_raw(11), vk::Image::from_raw(12));
        let layout = vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL;
        let (from, to) = (QueueIndex(2), QueueIndex(1));
        let range = OwnedPart::Buffer { buffer: &buffer, offset: 256, size: 100 };
        let transfers = [range, image_part(&image, layout)];
        let transfers = transfers.map(|part| OwnershipTransfer::<Device> { part, from, to });
        let [mut release, mut acquire] = [Barriers::default(), Barriers::default()];
        release.set(Half::Release, &transfers, QueueKind::Transfer, family_of);
        acquire.set(Half::Acquire, &transfers, QueueKind::Graphics, family_of);
        for barriers in [&release, &acquire] {
            let [of_buffer] = barriers.buffers[..] else { panic!("one range of a buffer") };
            assert_eq!((of_buffer.buffer, of_buffer.offset, of_buffer.size), (buffer, 256, 100));
            assert_eq!((of_buffer.src_queue_family_index, of_buffer.dst_queue_family_index), (5, 3));
            let [of_image] = barriers.images[..] else { panic!("one subresource") };
            assert_eq!((of_image.image, of_image.old_layout, of_image.new_layout), (image, layout, layout));
            assert_eq!((of_image.src_queue_family_index, of_image.dst_queue_family_index), (5, 3));
            let range = of_image.subresource_range;
            assert_eq!(range.aspect_mask, vk::ImageAspectFlags::COLOR);
            assert_eq!((range.base_mip_level, range.level_count), (2, 1));
            assert_eq!((range.base_array_layer, range.layer_count), (7, 1));
        }
        // Each half has the accesses of its own queue.
        let (none, written) = (vk::AccessFlags::empty(), vk::AccessFlags::MEMORY_WRITE);
        assert_eq!((release.buffers[0].src_access_mask, release.buffers[0].dst_access_mask), (written, none));
        // In this layout an image is read.
        assert_eq!((release.images[0].src_access_mask, release.images[0].dst_access_mask), (none, none));
        let used = vk::AccessFlags::MEMORY_READ | written;
        assert_eq!((acquire.buffers[0].src_access_mask, acquire.buffers[0].dst_access_mask), (none, used));
        let read = vk::AccessFlags::SHADER_READ | vk::AccessFlags::INPUT_ATTACHMENT_READ;
        assert_eq!((acquire.images[0].src_access_mask, acquire.images[0].dst_access_mask), (none, read));
    }

    #[test]
    fn nothing_is_recorded_between_queues_of_one_family() {
        let buffer = vk::Buffer::from_raw(11);
        let part = OwnedPart::Buffer { buffer: &buffer, offset: 0, size: 4 };
        let transfer = OwnershipTransfer::<Device> { part, from: QueueIndex(0), to: QueueIndex(1) };
        for half in [Half::Release, Half::Acquire] {
            assert_eq!(checked(half, transfer, 3), Ok(()));
            let mut barriers = Barriers::default();
            barriers.set(half, &[transfer], QueueKind::Graphics, family_of);
            assert!(barriers.is_empty());
        }
    }

    #[test]
    fn a_half_on_a_queue_of_another_family_and_a_layout_without_contents_are_refused() {
        let image = vk::Image::from_raw(12);
        let part = image_part(&image, vk::ImageLayout::GENERAL);
        let transfer = OwnershipTransfer::<Device> { part, from: QueueIndex(2), to: QueueIndex(0) };
        assert_eq!(checked(Half::Release, transfer, 5), Ok(()));
        assert_eq!(checked(Half::Acquire, transfer, 3), Ok(()));
        let other = Err(CopyError::OtherFamily.into());
        assert_eq!(checked(Half::Release, transfer, 3), other);
        assert_eq!(checked(Half::Acquire, transfer, 5), other);
        let part = image_part(&image, vk::ImageLayout::UNDEFINED);
        let undefined = OwnershipTransfer { part, ..transfer };
        assert_eq!(checked(Half::Release, undefined, 5), Err(CopyError::States.into()));
        let nowhere = OwnershipTransfer { to: QueueIndex(9), ..transfer };
        let queue = QueueIndex(9);
        assert_eq!(checked(Half::Release, nowhere, 5), Err(DeviceError::NoSuchQueue { queue }));
    }
}
