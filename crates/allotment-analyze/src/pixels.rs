//! What each pixel shows of a picture of very many rectangles.

use core::ops::Range;

/// Returns what each pixel of a picture of `width` times `height` shows, row by row from the top: the index of a rectangle, or
/// `u32::MAX`.
///
/// A rectangle is from where to where across, and from where to where down, both as shares of the picture; what is not between 0 and
/// 1 is not seen. A later one hides those before it. One that is smaller than a pixel is shown where nothing larger is.
///
/// O(rectangles + pixels), unless rectangles hide each other.
///
/// ```
/// use allotment_analyze::rectangle_pixels;
///
/// let left = (0.0..0.5, 0.0..1.0);
/// let small = (0.6..0.6001, 0.0..1.0);
/// let pixels = rectangle_pixels([left, small].into_iter(), 4, 1);
/// assert_eq!(pixels, [0, 0, 1, u32::MAX]);
/// ```
#[must_use]
pub fn rectangle_pixels(
    rectangles: impl Iterator<Item = (Range<f64>, Range<f64>)> + Clone,
    width: usize,
    height: usize,
) -> Vec<u32> {
    let mut pixels = vec![u32::MAX; width * height];
    if pixels.is_empty() {
        return pixels;
    }
    let rounded = |range: &Range<f64>, most: usize| {
        // What is below 0 becomes 0.
        let edge = |share: f64| ((share * most as f64).round() as usize).min(most);
        edge(range.start)..edge(range.end)
    };
    // A rectangle that has no pixel of its own gets one before the others are drawn.
    for small in [true, false] {
        for (index, (across, down)) in (0..).zip(rectangles.clone()) {
            if [&across, &down].into_iter().any(is_outside) {
                continue;
            }
            let (mut x, mut y) = (rounded(&across, width), rounded(&down, height));
            if small != (x.is_empty() || y.is_empty()) {
                continue;
            }
            for (range, most) in [(&mut x, width), (&mut y, height)] {
                if range.start >= range.end {
                    range.start = range.start.min(most - 1);
                    range.end = range.start + 1;
                }
            }
            for row in y {
                pixels[row * width..][x.clone()].fill(index);
            }
        }
    }
    pixels
}

/// Returns true if nothing of a range is between 0 and 1. A range without a length is there also at the ends.
fn is_outside(range: &Range<f64>) -> bool {
    let is_before = range.end < 0.0 || (range.end <= 0.0 && range.start < 0.0);
    let is_behind = range.start > 1.0 || (range.start >= 1.0 && range.end > 1.0);
    is_before || is_behind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_rectangle_hides_those_before_it() {
        let below = (0.0..1.0, 0.0..1.0);
        let above = (0.25..0.75, 0.5..1.0);
        let pixels = rectangle_pixels([below, above].into_iter(), 4, 2);
        assert_eq!(pixels, [0, 0, 0, 0, 0, 1, 1, 0]);
    }

    #[test]
    fn what_is_smaller_than_a_pixel_is_shown_where_nothing_else_is() {
        let large = (0.0..0.2, 0.0..1.0);
        let small = (0.99999..0.999991, 0.5..0.5001);
        let hidden = (0.1..0.1001, 0.5..0.5001);
        let pixels = rectangle_pixels([large, small, hidden].into_iter(), 10, 10);
        assert_eq!(pixels.iter().filter(|&&pixel| pixel == 1).count(), 1, "one pixel, not none");
        assert_eq!(pixels.iter().filter(|&&pixel| pixel == 0).count(), 20, "the third is not seen");
    }

    #[test]
    fn a_part_of_a_larger_picture_shows_what_is_in_it() {
        let before = (-2.0..0.0, 0.0..1.0);
        let across = (-1.0..0.5, 0.0..0.5);
        let behind = (1.0..3.0, 0.0..1.0);
        let above = (0.0..1.0, -4.0..-3.0);
        let pixels = rectangle_pixels([before, across, behind, above].into_iter(), 4, 2);
        assert_eq!(pixels, [1, 1, u32::MAX, u32::MAX, u32::MAX, u32::MAX, u32::MAX, u32::MAX]);
    }

    #[test]
    fn what_begins_and_ends_at_an_end_has_a_pixel_there() {
        let [first, last] = [0.0, 1.0].map(|at| (at..at, 0.0..1.0));
        assert_eq!(rectangle_pixels([first, last].into_iter(), 3, 1), [0, u32::MAX, 1]);
    }

    #[test]
    fn a_picture_without_pixels_is_empty() {
        let all = || core::iter::once((0.0..1.0, 0.0..1.0));
        assert!(rectangle_pixels(all(), 0, 10).is_empty() && rectangle_pixels(all(), 10, 0).is_empty());
    }
}
