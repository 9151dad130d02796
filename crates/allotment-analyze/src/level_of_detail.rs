//! A block in few pixels, without losing what matters: each pixel shows the class that matters most of all bytes that it
//! covers, at least in part.
//!
//! At low zoom a pixel shows many KiB. Were it coloured by most of its bytes, small allocations in a free block
//! would vanish, and the block would look empty. Here one used byte makes its pixel used.

use core::ops::Range;

use crate::segments::{Class, Placed, Segment};

/// Neighbouring pixels of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PixelRun {
    /// The first pixel.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// The most important class among the bytes of each.
    pub class: Class,
}

/// Returns the bytes that a pixel covers at least in part, when `pixels` of them show the bytes of `view`. Every byte
/// is covered by at least one pixel, and every pixel covers at least one byte unless the view is empty.
#[must_use]
pub fn bytes_of_pixel(view: Range<u64>, pixels: u32, pixel: u32) -> Range<u64> {
    let size = u128::from(view.end.saturating_sub(view.start));
    let at = |pixel: u32| u128::from(pixel) * size;
    let pixels = u128::from(pixels.max(1));
    // The sums are at most the end of the view.
    let start = view.start + (at(pixel) / pixels) as u64;
    let end = view.start + at(pixel + 1).div_ceil(pixels) as u64;
    start..end.min(view.end)
}

/// Returns what each of `pixels` pixels shows that together show the bytes of `view`, as runs of equal pixels that
/// cover all of them. None where the view or the number of pixels is 0.
///
/// The segments are those of [`segments`](crate::segments::segments()); bytes beyond them count as free. Costs
/// log segments and, for those in the view, a few nanoseconds each.
///
/// ```
/// use allotment_analyze::{Class, Segment, pixel_runs};
///
/// let segments = [
///     Segment { start: 0, end: 1, class: Class::Used, depth: 1 },
///     Segment { start: 1, end: 1000, class: Class::Free, depth: 0 },
/// ];
/// let runs = pixel_runs(&segments, 0..1000, 10);
/// assert_eq!((runs[0].first, runs[0].count, runs[0].class), (0, 1, Class::Used));
/// assert_eq!((runs[1].first, runs[1].count, runs[1].class), (1, 9, Class::Free));
/// ```
#[must_use]
pub fn pixel_runs(segments: &[Segment], view: Range<u64>, pixels: u32) -> Vec<PixelRun> {
    let mut runs: Vec<PixelRun> = Vec::new();
    if view.is_empty() {
        return runs;
    }
    let mut next = segments.partition_point(|segment| segment.end <= view.start);
    for pixel in 0..pixels {
        let bytes = bytes_of_pixel(view.clone(), pixels, pixel);
        // Pixels overlap in one byte where their borders lie within it, so the last segment may belong to the next.
        while segments.get(next).is_some_and(|segment| segment.end <= bytes.start) {
            next += 1;
        }
        let covered = segments[next..].iter().take_while(|segment| segment.start < bytes.end);
        let class = covered.map(|segment| segment.class).max().unwrap_or(Class::Free);
        match runs.last_mut() {
            Some(last) if last.class == class => last.count += 1,
            _ => runs.push(PixelRun { first: pixel, count: 1, class }),
        }
    }
    runs
}

/// Returns the allocations that occupy some of the bytes of a range, what matters most first, and larger ones before
/// smaller ones. More than one at a single byte where they alias.
///
/// The allocations are in the order of their offsets. Linear in those before the end of the range, since any of them
/// may reach into it.
#[must_use]
pub fn hit_test(placed: &[Placed], bytes: Range<u64>) -> Vec<Placed> {
    let before = placed.partition_point(|placed| placed.offset < bytes.end);
    let mut hits: Vec<Placed> =
        placed[..before].iter().filter(|placed| placed.end() > bytes.start).copied().collect();
    let class = |placed: &Placed| {
        let ranges = placed.ranges().into_iter();
        ranges
            .filter(|&(start, end, _)| start.max(bytes.start) < end.min(bytes.end))
            .map(|range| range.2)
            .max()
    };
    hits.retain(|placed| class(placed).is_some());
    hits.sort_by(|a, b| (class(b), b.occupied, a.offset).cmp(&(class(a), a.occupied, b.offset)));
    hits
}
