//! Which copies of images run with no barrier between them.
//!
//! ```text
//!   given   A→ B→ C→ A→ A← D→        → into the image, ← out of it; the same letter is the same subresource
//!   waves   [A→ B→ C→ A→] [A← D→]    the two boxes of A in the first wave do not overlap
//! ```
//!
//! Each subresource of a wave changes its state once before the copies and once after them, all of them in one
//! call. Copies of one subresource that must be seen in their order stand in different waves.

use super::{CopyDirection, Device, ImageCopy};

/// Copies of a wave, at most: each is compared with all others of its wave, and a barrier for so many copies
/// is nothing beside them.
const MOST: usize = 64;

/// Copies that run with no barrier between them.
pub(super) struct Wave<'a, D: Device> {
    pub(super) copies: &'a [ImageCopy<'a, D>],
}

/// A subresource that a wave copies.
pub(super) struct Change<'a, D: Device> {
    /// The wave's first copy of it, whose state before is the subresource's.
    pub(super) first: &'a ImageCopy<'a, D>,
    /// The state that it shall be in after the wave.
    pub(super) after: D::ImageState,
}

/// All copies in their order, as few waves as there can be in a row.
pub(super) fn waves<'a, D: Device>(copies: &'a [ImageCopy<'a, D>]) -> impl Iterator<Item = Wave<'a, D>>
where
    D::Image: PartialEq,
{
    let mut rest = copies;
    core::iter::from_fn(move || {
        let fits = |&at: &usize| rest[..at].iter().all(|earlier| go_together(earlier, &rest[at]));
        let count = (0..rest.len().min(MOST)).take_while(fits).count();
        let (copies, others) = rest.split_at(count);
        rest = others;
        (count > 0).then_some(Wave { copies })
    })
}

impl<'a, D: Device> Wave<'a, D>
where
    D::Image: PartialEq,
{
    /// Each subresource once.
    pub(super) fn changes(&self) -> impl Iterator<Item = Change<'a, D>> + use<'a, D> {
        let copies = self.copies;
        copies.iter().enumerate().filter_map(move |(at, first)| {
            if copies[..at].iter().any(|earlier| same_subresource(earlier, first)) {
                return None;
            }
            let last = copies[at..].iter().rfind(|copy| same_subresource(first, copy));
            Some(Change { first, after: last.unwrap_or(first).after })
        })
    }
}

fn same_subresource<D: Device>(one: &ImageCopy<'_, D>, other: &ImageCopy<'_, D>) -> bool
where
    D::Image: PartialEq,
{
    one.mip_level == other.mip_level && one.array_layer == other.array_layer && one.image == other.image
}

/// True where nobody can tell which of the two ran first, and the subresource is in one state for both.
fn go_together<D: Device>(one: &ImageCopy<'_, D>, other: &ImageCopy<'_, D>) -> bool
where
    D::Image: PartialEq,
{
    !same_subresource(one, other)
        || one.direction == other.direction
            && (one.direction == CopyDirection::OutOfImage || !overlap(one, other))
}

/// True where a texel is in both boxes.
fn overlap<D: Device>(one: &ImageCopy<'_, D>, other: &ImageCopy<'_, D>) -> bool {
    let meets = |axis: usize| {
        let end = |copy: &ImageCopy<'_, D>| u64::from(copy.origin[axis]) + u64::from(copy.extent[axis]);
        u64::from(one.origin[axis]) < end(other) && u64::from(other.origin[axis]) < end(one)
    };
    (0..3).all(meets)
}

// Whose images are mere numbers.
#[cfg(all(test, feature = "vulkan"))]
mod tests {
    use ash::vk;
    use ash::vk::Handle as _;

    use super::*;
    use crate::device::TexelBlock;
    use crate::device::vulkan::Device as Vulkan;

    const BEFORE: vk::ImageLayout = vk::ImageLayout::GENERAL;

    /// Names a copy of 4 × 4 texels by its image, mip level, way and origin.
    fn copies(named: &[(usize, u32, CopyDirection, u32)], f: impl FnOnce(&[ImageCopy<'_, Vulkan>])) {
        let buffer = vk::Buffer::null();
        let images: Vec<_> = (0..100).map(|raw| vk::Image::from_raw(raw + 1)).collect();
        let copy = |&(image, mip_level, direction, x): &(usize, u32, CopyDirection, u32)| ImageCopy::<Vulkan> {
            buffer: &buffer,
            buffer_offset: 0,
            row_pitch: 16,
            rows: 4,
            image: &images[image],
            mip_level,
            array_layer: 0,
            origin: [x, 0, 0],
            extent: [4, 4, 1],
            texel: TexelBlock::new(4),
            direction,
            before: BEFORE,
            after: vk::ImageLayout::from_raw(x as i32),
        };
        f(&named.iter().map(copy).collect::<Vec<_>>());
    }

    use CopyDirection::{IntoImage, OutOfImage};

    /// Copies a wave.
    fn lengths(named: &[(usize, u32, CopyDirection, u32)]) -> Vec<usize> {
        let mut lengths = Vec::new();
        copies(named, |copies| lengths.extend(waves(copies).map(|wave| wave.copies.len())));
        assert_eq!(lengths.iter().sum::<usize>(), named.len(), "every copy is in a wave");
        lengths
    }

    #[test]
    fn copies_of_different_subresources_stand_in_one_wave() {
        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(lengths(&[(0, 0, IntoImage, 0), (1, 0, OutOfImage, 0), (0, 1, OutOfImage, 0)]), [3]);
    }

    #[test]
    fn boxes_that_overlap_stand_in_one_wave_only_if_they_are_read() {
        assert_eq!(lengths(&[(0, 0, IntoImage, 0), (0, 0, IntoImage, 4), (0, 0, IntoImage, 8)]), [3]);
        assert_eq!(lengths(&[(0, 0, IntoImage, 0), (0, 0, IntoImage, 4), (0, 0, IntoImage, 7)]), [2, 1]);
        assert_eq!(lengths(&[(0, 0, OutOfImage, 0), (0, 0, OutOfImage, 0)]), [2]);
    }

    #[test]
    fn a_subresource_is_read_and_written_in_different_waves() {
        assert_eq!(lengths(&[(0, 0, IntoImage, 0), (0, 0, OutOfImage, 8)]), [1, 1]);
        assert_eq!(lengths(&[(0, 0, OutOfImage, 0), (1, 0, IntoImage, 0), (0, 0, IntoImage, 8)]), [2, 1]);
    }

    #[test]
    fn a_wave_has_a_limit() {
        let many: Vec<_> = (0..100).map(|image| (image, 0, IntoImage, 0)).collect();
        assert_eq!(lengths(&many), [MOST, 100 - MOST]);
    }

    #[test]
    fn a_subresource_changes_its_state_once_whatever_is_copied_of_it() {
        let named = [(0, 0, IntoImage, 0), (1, 0, IntoImage, 0), (0, 0, IntoImage, 4), (0, 0, IntoImage, 8)];
        copies(&named, |copies| {
            let wave = waves(copies).next().unwrap();
            let changes: Vec<_> = wave.changes().collect();
            let told = changes.iter().map(|change| (change.first.image.as_raw(), change.first.origin[0]));
            assert_eq!(told.collect::<Vec<_>>(), [(1, 0), (2, 0)], "each by its first copy");
            assert_eq!(changes[0].after.as_raw(), 8, "as the last one leaves it");
            assert_eq!(changes[1].after.as_raw(), 0);
        });
    }
}
