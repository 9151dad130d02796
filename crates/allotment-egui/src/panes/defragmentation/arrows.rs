//! The moves as arrows. Those that begin and end in the same few pixels share one.

use std::collections::HashMap;

use allotment_analyze::{AllocationIndex, Place};
use egui::{Pos2, Rangef};

use super::plan::Plan;

/// Columns of a strip. Two arrows with both of their ends in the same ones cannot be told apart: a column is a few pixels.
const COLUMNS: f32 = 256.0;

/// Square points of the pane for each arrow: where there are more, lines cover everything.
const AREA: f32 = 2500.0;

/// An arrow: from a place of a row to one of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arrow {
    pub(super) from_row: usize,
    pub(super) to_row: usize,
    /// The middles of the ranges, as shares of the width of a strip.
    pub(super) from: f32,
    pub(super) to: f32,
    /// Of all its moves.
    pub(super) bytes: u64,
    pub(super) count: u64,
    /// The allocation with the most bytes.
    pub(super) allocation: AllocationIndex,
    most: u64,
}

impl Arrow {
    /// The arrow of one move.
    pub(super) fn of(plan: &Plan, at: usize) -> Option<Self> {
        let is = plan.preview.moves.get(at)?;
        let (from_row, to_row) = (plan.row_of(is.from.block)?, plan.row_of(is.to.block)?);
        let share = |place: Place, size: u64| {
            ((place.offset as f64 + place.occupied as f64 / 2.0) / size.max(1) as f64) as f32
        };
        Some(Self {
            from_row,
            to_row,
            from: share(is.from, plan.rows[from_row].before.size),
            to: share(is.to, plan.rows[to_row].after.size),
            bytes: is.bytes,
            count: 1,
            allocation: is.allocation,
            most: is.bytes,
        })
    }

    fn add(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.count += 1;
        if other.most > self.most {
            (self.most, self.allocation) = (other.most, other.allocation);
            (self.from, self.to) = (other.from, other.to);
        }
    }
}

/// The arrows of a plan, the one with the most bytes first. A walk over all moves: for the thread that makes the plan.
pub(super) fn merged(plan: &Plan) -> Vec<Arrow> {
    let mut merged: HashMap<(usize, usize, u32, u32), Arrow> = HashMap::new();
    let column = |share: f32| (share * COLUMNS) as u32;
    for arrow in (0..plan.preview.moves.len()).filter_map(|at| Arrow::of(plan, at)) {
        let near = (arrow.from_row, arrow.to_row, column(arrow.from), column(arrow.to));
        merged.entry(near).and_modify(|known| known.add(&arrow)).or_insert(arrow);
    }
    let mut arrows: Vec<_> = merged.into_values().collect();
    arrows.sort_unstable_by_key(|arrow| (core::cmp::Reverse(arrow.bytes), arrow.allocation));
    arrows
}

/// The arrows that are drawn, and the number of those that are not.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Chosen {
    pub(super) arrows: Vec<Arrow>,
    /// Of all that cross the visible rows.
    pub(super) crossing: u64,
    /// Their bytes, and those of the arrows that are drawn.
    pub(super) crossing_bytes: u64,
    pub(super) bytes: u64,
}

impl Chosen {
    /// Chooses the largest of those that cross the visible rows, as many as an area has room for.
    pub(super) fn of(all: &[Arrow], rows: Rangef, area: f32) -> Self {
        let room = ((area / AREA) as usize).max(8);
        let mut chosen = Self::default();
        for arrow in all {
            let (low, high) = (arrow.from_row.min(arrow.to_row), arrow.from_row.max(arrow.to_row));
            if low as f32 > rows.max || ((high + 1) as f32) < rows.min {
                continue;
            }
            chosen.crossing += 1;
            chosen.crossing_bytes = chosen.crossing_bytes.saturating_add(arrow.bytes);
            if chosen.arrows.len() < room {
                chosen.arrows.push(*arrow);
                chosen.bytes = chosen.bytes.saturating_add(arrow.bytes);
            }
        }
        chosen
    }
}

/// The distance of a point from a line between two others.
pub(super) fn distance(point: Pos2, from: Pos2, to: Pos2) -> f32 {
    let along = to - from;
    let share = if along.length_sq() > 0.0 { (point - from).dot(along) / along.length_sq() } else { 0.0 };
    (from + along * share.clamp(0.0, 1.0)).distance(point)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrow(number: u32, from_row: usize, to_row: usize, bytes: u64) -> Arrow {
        let allocation = AllocationIndex(number);
        Arrow { from_row, to_row, from: 0.5, to: 0.5, bytes, count: 1, allocation, most: bytes }
    }

    #[test]
    fn of_thousands_of_arrows_the_largest_are_drawn_and_the_others_counted() {
        let all: Vec<_> = (0..5000).map(|number| arrow(number, 0, 1, u64::from(5000 - number))).collect();
        let chosen = Chosen::of(&all, Rangef::new(0.0, 10.0), 100.0 * AREA);
        assert_eq!((chosen.arrows.len(), chosen.crossing), (100, 5000));
        assert_eq!(chosen.arrows[99].bytes, 4901);
        assert!(chosen.bytes < chosen.crossing_bytes);
    }

    #[test]
    fn an_arrow_between_rows_that_are_not_visible_is_left_out_unless_it_crosses_the_view() {
        let all = [arrow(0, 0, 1, 9), arrow(1, 0, 90, 5), arrow(2, 80, 90, 7)];
        let chosen = Chosen::of(&all, Rangef::new(10.0, 20.0), 1e6);
        assert_eq!(chosen.arrows, [all[1]]);
    }

    #[test]
    fn the_distance_is_to_the_nearest_point_of_the_line() {
        let (from, to) = (Pos2::new(0.0, 0.0), Pos2::new(10.0, 0.0));
        assert_eq!(distance(Pos2::new(5.0, 3.0), from, to), 3.0);
        assert_eq!(distance(Pos2::new(14.0, 3.0), from, to), 5.0);
        assert_eq!(distance(Pos2::new(3.0, 4.0), from, from), 5.0);
    }
}
