//! The picture of a plan: time across, offsets up.
//!
//! ```text
//!  peak  ┌───────────────┬──────┐
//!        │      mesh     │ half │      Each item is a rectangle, as wide as it lives and as high as it is large. What is empty
//!  ------├──────┬────────┴──────┤      below the peak, no item has at that time.
//!        │ half │               │
//!     0  └──────┴───────────────┘
//!        begin                end
//! ```
//!
//! A window, a page and an SVG file draw the same rectangles in the same colours.

use core::ops::Range;

use allotment_suballoc::plan::{Plan, Problem};

/// A plan as rectangles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanPicture {
    /// When the first item begins and the last one ends.
    pub time: Range<u64>,
    /// The height, in bytes.
    pub peak: u64,
    /// No plan is lower.
    pub lower_bound: u64,
    /// The items that have a place, in the order of the problem's.
    pub items: Vec<PlacedItem>,
}

/// An item of a plan as a rectangle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedItem {
    /// Its index in the problem, by which the caller knows its name.
    pub item: usize,
    /// When it is live.
    pub life: Range<u64>,
    /// Its first byte.
    pub offset: u64,
    /// Its bytes.
    pub size: u64,
}

impl PlacedItem {
    /// Returns the angle of the colour on the circle of colours, in degrees. Items of one size have one colour.
    #[must_use]
    pub fn hue(&self) -> u16 {
        // A multiple that shares no divisor with 360 reaches each angle, and puts sizes that differ by little far apart.
        (self.size % 9973 * 137 % 360) as u16
    }
}

impl PlanPicture {
    /// Draws a plan. `lives` are those of the problem's items.
    pub fn new(problem: &Problem, plan: &Plan, lives: impl IntoIterator<Item = Range<u64>>) -> Self {
        let placed = lives.into_iter().enumerate().filter_map(|(item, life)| {
            Some(PlacedItem { item, life, offset: plan.offset(item)?, size: problem.item(item).size })
        });
        let items: Vec<_> = placed.collect();
        let begin = items.iter().map(|item| item.life.start).min().unwrap_or(0);
        let end = items.iter().map(|item| item.life.end).max().unwrap_or(0);
        Self { time: begin..end, peak: plan.peak(), lower_bound: plan.lower_bound(), items }
    }

    /// Returns where an item is: from where to where across, and from where to where down, each as a share of the picture.
    #[must_use]
    pub fn place(&self, item: &PlacedItem) -> (Range<f64>, Range<f64>) {
        let across = |time: u64| (time - self.time.start) as f64 / (self.time.end - self.time.start) as f64;
        let down = |offset: u64| 1.0 - offset as f64 / self.peak as f64;
        (across(item.life.start)..across(item.life.end), down(item.offset + item.size)..down(item.offset))
    }

    /// Returns how far down the lower bound is, as a share of the picture.
    #[must_use]
    pub fn bound(&self) -> f64 {
        1.0 - self.lower_bound.min(self.peak) as f64 / self.peak.max(1) as f64
    }

    /// Keeps the items that have the most bytes over the longest time, so that a picture of very many can be drawn. Returns how
    /// many there were.
    pub fn keep_largest(&mut self, most: usize) -> usize {
        let count = self.items.len();
        if count > most {
            let area =
                |item: &PlacedItem| u128::from(item.size) * u128::from(item.life.end - item.life.start);
            self.items.sort_by_key(|item| core::cmp::Reverse(area(item)));
            self.items.truncate(most);
            self.items.sort_unstable_by_key(|item| item.item);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use allotment_suballoc::plan::{Item, Solver};

    use super::*;
    use crate::rectangle_pixels;

    /// Two small ones after each other beside a large one, on the whole time of a fourth.
    fn picture() -> PlanPicture {
        let items = [(4, 10..14), (4, 14..18), (8, 10..18), (2, 10..11)];
        let problem =
            Problem::from_intervals(items.iter().map(|(size, life)| (Item::new(*size), life.clone())))
                .unwrap();
        let mut plan = Plan::new();
        Solver::new().greedy(&problem, u64::MAX, &mut plan);
        PlanPicture::new(&problem, &plan, items.into_iter().map(|(_, life)| life))
    }

    #[test]
    fn rectangles_are_where_the_plan_has_the_items() {
        let picture = picture();
        assert_eq!((&picture.time, picture.peak, picture.lower_bound), (&(10..18), 14, 14));
        assert_eq!(picture.items.len(), 4);
        for item in &picture.items {
            let (across, down) = picture.place(item);
            assert!(across.start >= 0.0 && across.end <= 1.0 && down.start >= -1e-9 && down.end <= 1.0);
            let width = (item.life.end - item.life.start) as f64 / 8.0;
            assert!((across.end - across.start - width).abs() < 1e-9, "{item:?}");
            assert!((down.end - down.start - item.size as f64 / 14.0).abs() < 1e-9, "{item:?}");
        }
        assert_eq!(picture.bound(), 0.0);
    }

    #[test]
    fn every_pixel_shows_the_item_that_is_there() {
        let picture = picture();
        let pixels = rectangle_pixels(picture.items.iter().map(|item| picture.place(item)), 8, 14);
        for (at, &pixel) in pixels.iter().enumerate() {
            // One pixel is a unit of time and a byte.
            let (time, byte) = (10 + at as u64 % 8, 13 - at as u64 / 8);
            let there = picture.items.iter().position(|item| {
                item.life.contains(&time) && (item.offset..item.offset + item.size).contains(&byte)
            });
            assert_eq!(there.map_or(u32::MAX, |there| there as u32), pixel, "at {time}, {byte}");
        }
    }

    #[test]
    fn the_largest_items_are_kept_in_their_order() {
        let mut picture = picture();
        assert_eq!(picture.keep_largest(9), 4);
        assert_eq!(picture.items.len(), 4);
        assert_eq!(picture.keep_largest(2), 4);
        assert_eq!(picture.items.iter().map(|item| item.item).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(picture.time, 10..18, "the picture keeps its scale");
    }

    #[test]
    fn a_plan_of_nothing_is_an_empty_picture() {
        let picture = PlanPicture::new(&Problem::default(), &Plan::new(), []);
        assert!(picture.items.is_empty());
        assert_eq!(picture.bound(), 1.0);
    }
}
