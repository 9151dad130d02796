//! The group that each pixel of a block shows.

use core::ops::Range;

use crate::level_of_detail::bytes_of_pixel;
use crate::segments::Placed;

/// Returns the group that each of some pixels shows, when they show the bytes of `view`: of the allocations that have bytes in it,
/// the group with the most of them, the first of several; `None` where there is none. Allocations of no group are as if they were not
/// there.
///
/// The allocations are in the order of their offsets. Costs some nanoseconds for each that is in the view, and for each before it
/// where allocations overlap.
///
/// # Panics
///
/// If `group` returns a group of `groups` or more.
#[must_use]
pub fn group_pixels(
    placed: &[Placed],
    view: Range<u64>,
    pixels: u32,
    groups: usize,
    group: impl Fn(&Placed) -> Option<usize>,
) -> Vec<Option<u8>> {
    if view.is_empty() || pixels == 0 {
        return Vec::new();
    }
    let mut bytes = vec![0u64; pixels as usize * groups];
    let (size, count) = (u128::from(view.end - view.start), u128::from(pixels));
    for is in placed {
        let (start, end) = (is.offset.max(view.start), is.end().min(view.end));
        if start >= end {
            continue;
        }
        let Some(of) = group(is) else { continue };
        assert!(of < groups, "{of} is no group of {groups}");
        // A pixel has its bytes at least in part, so the one before may share the first of them.
        let first = (u128::from(start - view.start) * count / size).saturating_sub(1) as u32;
        for pixel in first..pixels {
            let covered = bytes_of_pixel(view.clone(), pixels, pixel);
            if covered.start >= end {
                break;
            }
            let shared = covered.end.min(end).saturating_sub(covered.start.max(start));
            let sum = &mut bytes[pixel as usize * groups + of];
            *sum = sum.saturating_add(shared);
        }
    }
    let most = |sums: &[u64]| {
        let most = sums.iter().copied().max().filter(|&most| most > 0)?;
        sums.iter().position(|&sum| sum == most).map(|group| group as u8)
    };
    bytes.chunks(groups.max(1)).map(most).collect()
}
