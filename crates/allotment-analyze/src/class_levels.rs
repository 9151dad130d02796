//! The most important class of many segments at once, so that a frame costs as much as it has pixels, however many
//! allocations it shows.
//!
//! ```text
//! level 1   | most of 256 segments               | …
//! level 0   | most of 16 | most of 16 | …        | …
//! segments  | used | free | rounding | used | …
//! ```
//!
//! A pixel covers the segments `i..j`. Their most important class is that of the segments up to a multiple of 16, of
//! the elements between, and of the segments after: at most 30 looks a level, and a block with a million segments has
//! five levels.
//!
//! Where each group of 16 begins is in a list of its own, which fits a processor's cache when the segments do not. A pixel
//! that has a whole group with used bytes in it, as most have that show many segments, is used: no segment is looked at.

use core::ops::Range;

use crate::level_of_detail::{PixelRun, bytes_of_pixel};
use crate::partition_point::partition_point_from;
use crate::segments::{Class, Segment};

/// Segments, or elements of a level, that one element of the next level stands for.
const FAN: usize = 16;

/// The segments of a block, and what is most important among many of them.
///
/// ```
/// use allotment_analyze::{Class, ClassLevels, Segment};
///
/// let segments = vec![
///     Segment { start: 0, end: 1, class: Class::Used, depth: 1 },
///     Segment { start: 1, end: 1000, class: Class::Free, depth: 0 },
/// ];
/// let runs = ClassLevels::new(segments).pixel_runs(0..1000, 10);
/// assert_eq!((runs[0].first, runs[0].count, runs[0].class), (0, 1, Class::Used));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ClassLevels {
    segments: Vec<Segment>,
    /// The first level has the most important class of each `FAN` segments, each other one of `FAN` elements of the
    /// level before. The last has fewer than `FAN` elements.
    levels: Vec<Box<[Class]>>,
    /// The first byte of each `FAN` segments.
    starts: Box<[u64]>,
}

impl ClassLevels {
    /// Creates the levels of the segments of one block, as [`segments`](crate::segments()) returns them. Costs some
    /// nanoseconds a segment.
    #[must_use]
    pub fn new(segments: Vec<Segment>) -> Self {
        let most = |classes: &[Class]| classes.iter().copied().max().unwrap_or(Class::Free);
        let mut levels: Vec<Box<[Class]>> = Vec::new();
        let of_segments = |some: &[Segment]| some.iter().map(|is| is.class).max().unwrap_or(Class::Free);
        let mut level: Box<[Class]> = segments.chunks(FAN).map(of_segments).collect();
        while level.len() >= FAN {
            let next = level.chunks(FAN).map(most).collect();
            levels.push(core::mem::replace(&mut level, next));
        }
        levels.push(level);
        let starts = segments.chunks(FAN).map(|some| some[0].start).collect();
        Self { segments, levels, starts }
    }

    /// Returns the segments.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns what [`pixel_runs`](crate::pixel_runs()) returns. Costs the logarithm of the segments a pixel, instead
    /// of their number.
    #[must_use]
    pub fn pixel_runs(&self, view: Range<u64>, pixels: u32) -> Vec<PixelRun> {
        let mut runs: Vec<PixelRun> = Vec::new();
        if view.is_empty() {
            return runs;
        }
        let mut group = 0;
        for pixel in 0..pixels {
            let bytes = bytes_of_pixel(view.clone(), pixels, pixel);
            // The first group that begins behind the pixel's first byte, and the first that begins behind the pixel.
            group = partition_point_from(&self.starts, group, |&start| start <= bytes.start);
            let behind = partition_point_from(&self.starts, group, |&start| start < bytes.end);
            // The last group before `behind` may reach beyond the pixel.
            let whole = group..behind.saturating_sub(1).max(group);
            let class = if self.levels[0][whole].contains(&Class::Used) {
                Class::Used
            } else {
                self.most(
                    self.first_of(group, |segment| segment.end <= bytes.start),
                    self.first_of(behind, |segment| segment.start < bytes.end),
                )
            };
            match runs.last_mut() {
                Some(last) if last.class == class => last.count += 1,
                _ => runs.push(PixelRun { first: pixel, count: 1, class }),
            }
        }
        runs
    }

    /// The first segment that does not pass, when all that pass come first: in the group before this one, or the first
    /// of this one.
    fn first_of(&self, group: usize, passes: impl Fn(&Segment) -> bool) -> usize {
        let Some(before) = group.checked_sub(1) else { return 0 };
        let end = (group * FAN).min(self.segments.len());
        before * FAN + self.segments[before * FAN..end].partition_point(passes)
    }

    /// The most important class of the segments `first..end`.
    fn most(&self, mut first: usize, mut end: usize) -> Class {
        let mut most = Class::Free;
        // Nothing matters more than used bytes, so the search ends with the first of them.
        let mut look = |class: Class| {
            most = most.max(class);
            most == Class::Used
        };
        while first < end && first % FAN != 0 {
            if look(self.segments[first].class) {
                return Class::Used;
            }
            first += 1;
        }
        while first < end && end % FAN != 0 {
            end -= 1;
            if look(self.segments[end].class) {
                return Class::Used;
            }
        }
        for (number, level) in self.levels.iter().enumerate() {
            (first, end) = (first / FAN, end / FAN);
            let last = number + 1 == self.levels.len();
            while first < end && (last || first % FAN != 0) {
                if look(level[first]) {
                    return Class::Used;
                }
                first += 1;
            }
            while first < end && end % FAN != 0 {
                end -= 1;
                if look(level[end]) {
                    return Class::Used;
                }
            }
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::level_of_detail::pixel_runs;

    proptest! {
        #[test]
        fn levels_show_what_looking_at_every_segment_shows(
            parts in prop::collection::vec((1..40u64, 0..5usize), 0..6000),
            from in 0..200_000u64,
            bytes in 1..200_000u64,
            pixels in 1..300u32,
        ) {
            let mut start = 0;
            let mut segments = Vec::new();
            for (size, class) in parts {
                // Mostly free, or the first used segment would end each search.
                let class = if size % 7 == 0 { Class::ALL[class] } else { Class::Free };
                segments.push(Segment { start, end: start + size, class, depth: 1 });
                start += size;
            }
            let view = from..from + bytes;
            let expected = pixel_runs(&segments, view.clone(), pixels);
            prop_assert_eq!(ClassLevels::new(segments).pixel_runs(view, pixels), expected);
        }
    }
}
