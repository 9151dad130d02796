//! Groups of image copies that need no barrier between them.
//!
//! ```text
//!   given   A→ B→ C→ A→ A← D→        → into the image, ← out of it; the same letter is the same subresource
//!   waves   [A→ B→ C→ A→] [A← D→]    the two boxes of A in the first wave do not overlap
//! ```
//!
//! Each subresource of a wave is transitioned once before the copies and once after them, all of them with one
//! barrier call. Copies of one subresource whose order matters are in different waves.

use super::{CopyDirection, Device, ImageCopy};

/// The maximum number of copies in a wave. Each copy is compared with all others of its wave, and the cost of
/// one barrier is negligible beside 64 copies.
const MOST: usize = 64;

/// Copies that need no barrier between them.
pub(super) struct Wave<'a, D: Device> {
    pub(super) copies: &'a [ImageCopy<'a, D>],
}

/// The state transition of a subresource in a wave.
pub(super) struct Change<'a, D: Device> {
    /// The wave's first copy of the subresource, whose `before` is the state before the wave.
    pub(super) first: &'a ImageCopy<'a, D>,
    /// The state after the wave.
    pub(super) after: D::ImageState,
}

/// Splits the copies, in their order, into as few waves as possible.
pub(super) fn waves<'a, D: Device>(copies: &'a [ImageCopy<'a, D>]) -> impl Iterator<Item = Wave<'a, D>>
where
    D::Image: PartialEq,
{
    let mut rest = copies;
    core::iter::from_fn(move || {
        // Compared with every copy of the wave, not only the last: subresources may repeat in any order.
        let fits = |&at: &usize| rest[..at].iter().all(|earlier| go_together(earlier, &rest[at]));
        // Greedy: a wave ends at the first copy that does not fit, since copies keep their order.
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
    /// Returns each subresource once.
    pub(super) fn changes(&self) -> impl Iterator<Item = Change<'a, D>> + use<'a, D> {
        let copies = self.copies;
        copies.iter().enumerate().filter_map(move |(at, first)| {
            if copies[..at].iter().any(|earlier| same_subresource(earlier, first)) {
                return None;
            }
            // The last copy decides the state after the wave; those between transition nothing.
            let last = copies[at..].iter().rfind(|copy| same_subresource(first, copy));
            Some(Change { first, after: last.unwrap_or(first).after })
        })
    }
}

/// Returns true for copies of one subresource, of whichever aspects: a barrier transitions all of them.
fn same_subresource<D: Device>(one: &ImageCopy<'_, D>, other: &ImageCopy<'_, D>) -> bool
where
    D::Image: PartialEq,
{
    // Numbers first: they are cheaper to compare than images, and usually differ.
    one.mip_level == other.mip_level && one.array_layer == other.array_layer && one.image == other.image
}

/// Returns true if the order of the two copies does not matter, and both need the subresource in one state.
fn go_together<D: Device>(one: &ImageCopy<'_, D>, other: &ImageCopy<'_, D>) -> bool
where
    D::Image: PartialEq,
{
    !same_subresource(one, other)
        || one.direction == other.direction
            // Copies that only read a subresource may overlap: they need it in one state and change nothing.
            && (one.direction == CopyDirection::OutOfImage || !overlap(one, other))
}

/// Returns true if the boxes of one subresource share a texel.
fn overlap<D: Device>(one: &ImageCopy<'_, D>, other: &ImageCopy<'_, D>) -> bool {
    let meets = |axis: usize| {
        // In 64 bits: origin and extent are any numbers, and their sum may pass 2^32.
        let end = |copy: &ImageCopy<'_, D>| u64::from(copy.origin[axis]) + u64::from(copy.extent[axis]);
        u64::from(one.origin[axis]) < end(other) && u64::from(other.origin[axis]) < end(one)
    };
    // Aspects have bytes of their own, and planes also coordinates of their own.
    one.aspect == other.aspect && (0..3).all(meets)
}

// Uses Vulkan, whose image handles are plain numbers.
#[cfg(all(test, feature = "vulkan"))]
mod tests {
    use ash::vk;
    use ash::vk::Handle as _;

    use super::*;
    use crate::device::vulkan::Device as Vulkan;
    use crate::device::{ImageAspect, TexelBlock};

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
            texels: TexelBlock::new(4).into(),
            aspect: ImageAspect::Color,
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
            let firsts = changes.iter().map(|change| (change.first.image.as_raw(), change.first.origin[0]));
            assert_eq!(firsts.collect::<Vec<_>>(), [(1, 0), (2, 0)], "each by its first copy");
            assert_eq!(changes[0].after.as_raw(), 8, "as the last one leaves it");
            assert_eq!(changes[1].after.as_raw(), 0);
        });
    }
}
