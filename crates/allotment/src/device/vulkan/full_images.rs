//! Copies of whole images, recorded together with the other [copies](super::copies) of a submission: their
//! transitions are part of its first and last barrier, and each has one copy command between them.
//!
//! ```text
//!   first barrier   from: before → TRANSFER_SRC;  to: UNDEFINED → TRANSFER_DST
//!   copy            a region per mip level, and plane, each with all array layers and all aspects
//!   last barrier    from: TRANSFER_SRC → before;  to: TRANSFER_DST → after
//! ```

use ash::vk;

use super::Device;
use super::copies::{Recording, UNUSABLE_LAYOUTS, WRITES, accesses};
use super::formats::{aspect_flag, barrier_aspects, texel_layout};
use crate::device::{CopyError, FullImageCopy, QueueKind, TexelLayout};

type Copy<'a> = FullImageCopy<'a, Device>;

const READ: vk::ImageLayout = vk::ImageLayout::TRANSFER_SRC_OPTIMAL;
const WRITTEN: vk::ImageLayout = vk::ImageLayout::TRANSFER_DST_OPTIMAL;

/// Returns an error for images that cannot be copied as a whole, whose contents are undefined, or that would be
/// left in an unusable layout; and, on queues without graphics, for depth, stencil and multisampled images,
/// which few such queues can copy.
pub(super) fn check(copies: &[Copy<'_>], kind: QueueKind) -> Result<(), CopyError> {
    for copy in copies {
        let raw = copy.info.raw();
        let plain =
            !texel_layout(raw.format).is_depth_stencil() && raw.samples == vk::SampleCountFlags::TYPE_1;
        if !copy.info.is_copyable() {
            return Err(CopyError::NotCopyable);
        }
        // The source returns to `before`, and nothing can be transitioned to these layouts.
        if [copy.before, copy.after].iter().any(|layout| UNUSABLE_LAYOUTS.contains(layout)) {
            return Err(CopyError::States);
        }
        if !plain && kind != QueueKind::Graphics {
            return Err(CopyError::NeedsGraphicsQueue);
        }
    }
    Ok(())
}

/// Returns the aspects that are copied with one region each, with the texels of the image, in width and in height, that one
/// of its own stands for: the planes, or all aspects of another format at once.
fn planes(format: vk::Format) -> impl Iterator<Item = (vk::ImageAspectFlags, [u32; 2])> {
    let texels = texel_layout(format);
    let is_planar = matches!(texels, TexelLayout::Planar(_));
    let planes = texels.aspects().filter(move |_| is_planar);
    let planes = planes.map(move |plane| (aspect_flag(plane), texels.subsampling(plane)));
    planes.chain((!is_planar).then(|| (barrier_aspects(&texels), [1, 1])))
}

/// Returns the region of all texels of a plane of a mip level.
fn region(
    raw: &vk::ImageCreateInfo<'_>,
    mip_level: u32,
    (aspect_mask, [wide, high]): (vk::ImageAspectFlags, [u32; 2]),
) -> vk::ImageCopy {
    let part = vk::ImageSubresourceLayers {
        aspect_mask,
        mip_level,
        base_array_layer: 0,
        layer_count: raw.array_layers,
    };
    // Mip levels round down and never reach 0, as the specification defines their size.
    let length = |whole: u32| (whole >> mip_level).max(1);
    let vk::Extent3D { width, height, depth } = raw.extent;
    // Both images have one description, so one `VkImageSubresourceLayers` fits both. Depth counts for 3D images,
    // layers for others; the other one is 1.
    vk::ImageCopy {
        src_subresource: part,
        src_offset: vk::Offset3D::default(),
        dst_subresource: part,
        dst_offset: vk::Offset3D::default(),
        extent: vk::Extent3D {
            width: length(width).div_ceil(wide),
            height: length(height).div_ceil(high),
            depth: length(depth),
        },
    }
}

/// Returns the barriers that transition the images of a copy to the transfer layouts.
pub(super) fn enter(copy: &Copy<'_>, kind: QueueKind) -> [vk::ImageMemoryBarrier<'static>; 2] {
    let from = barrier(*copy.from, copy)
        .old_layout(copy.before)
        .new_layout(READ)
        .src_access_mask(accesses(copy.before, kind) & WRITES)
        .dst_access_mask(vk::AccessFlags::TRANSFER_READ);
    let to = barrier(*copy.to, copy)
        // `UNDEFINED` discards what the memory held before, so no earlier access has to be made available. The
        // stages still wait for it.
        .old_layout(vk::ImageLayout::UNDEFINED)
        .new_layout(WRITTEN)
        .dst_access_mask(vk::AccessFlags::TRANSFER_WRITE);
    [from, to]
}

/// Returns the barriers that transition the images to their layouts after the copy.
pub(super) fn leave(copy: &Copy<'_>, kind: QueueKind) -> [vk::ImageMemoryBarrier<'static>; 2] {
    let from = barrier(*copy.from, copy)
        // No source access: the image was only read.
        .old_layout(READ)
        .new_layout(copy.before)
        .dst_access_mask(accesses(copy.before, kind));
    let to = barrier(*copy.to, copy)
        .old_layout(WRITTEN)
        .new_layout(copy.after)
        .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
        .dst_access_mask(accesses(copy.after, kind));
    [from, to]
}

/// Returns a barrier for a whole image without an ownership transfer.
fn barrier(image: vk::Image, copy: &Copy<'_>) -> vk::ImageMemoryBarrier<'static> {
    let raw = copy.info.raw();
    vk::ImageMemoryBarrier::default()
        .image(image)
        .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .subresource_range(vk::ImageSubresourceRange {
            aspect_mask: barrier_aspects(&texel_layout(raw.format)),
            base_mip_level: 0,
            level_count: raw.mip_levels,
            base_array_layer: 0,
            layer_count: raw.array_layers,
        })
}

impl Recording<'_> {
    pub(super) fn copy_whole_images(&mut self, copies: &[Copy<'_>]) {
        let regions = &mut self.scratch.whole_regions;
        for copy in copies {
            let (raw, from, to) = (copy.info.raw(), *copy.from, *copy.to);
            regions.clear();
            let levels = 0..raw.mip_levels;
            regions
                .extend(levels.flat_map(|mip_level| {
                    planes(raw.format).map(move |plane| region(raw, mip_level, plane))
                }));
            // SAFETY: both images are live and were created from the description, by the caller's promise; a
            // barrier has transitioned them to these layouts.
            unsafe { self.device.cmd_copy_image(self.commands, from, READ, to, WRITTEN, regions) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_the_planes_that_their_names_say() {
        for raw in (1..=184).chain(1_000_156_000..=1_000_156_033).chain(1_000_330_000..=1_000_330_003) {
            let format = vk::Format::from_raw(raw);
            let name = format!("{format:?}");
            let found: Vec<_> = planes(format).collect();
            let count = [(2, "2PLANE"), (3, "3PLANE")].into_iter().find(|(_, part)| name.contains(part));
            assert_eq!(found.len(), count.map_or(1, |(count, _)| count), "{name}");
            let chroma = match () {
                () if count.is_none() || name.contains("444") => [1, 1],
                () if name.contains("422") => [2, 1],
                () => [2, 2],
            };
            assert!(found[1..].iter().all(|(_, block)| *block == chroma), "{name}: {found:?}");
            assert_eq!(found[0].1, [1, 1]);
        }
    }

    #[test]
    fn a_region_is_all_of_a_mip_level() {
        let raw = vk::ImageCreateInfo::default()
            .format(vk::Format::R8G8B8A8_UNORM)
            .extent(vk::Extent3D { width: 20, height: 3, depth: 9 })
            .array_layers(1);
        let extents = [[20, 3, 9], [10, 1, 4], [5, 1, 2], [2, 1, 1], [1, 1, 1]];
        for (level, [width, height, depth]) in (0..).zip(extents) {
            let region = region(&raw, level, (vk::ImageAspectFlags::COLOR, [1, 1]));
            assert_eq!(region.extent, vk::Extent3D { width, height, depth });
            assert_eq!(region.src_subresource.mip_level, level);
        }
    }
}
