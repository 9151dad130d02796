//! Allocations that share bytes, in lanes: two that overlap are in different lanes, so that a drawing shows both.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::segments::Placed;

/// The lanes of a block's allocations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lanes {
    /// The lane of each allocation, in the order of the allocations.
    pub lane: Vec<u32>,
    /// How many lanes there are: as many as allocations overlap at one byte, and no more.
    pub count: u32,
    /// Bytes that two or more allocations occupy.
    pub aliased: u64,
    /// Bytes that aliasing saves: what the allocations occupy together, less the bytes that they cover.
    pub saved: u64,
}

impl Lanes {
    /// Gives each allocation the lowest lane in which it overlaps none. The allocations are in the order of their
    /// offsets. Costs n log n.
    #[must_use]
    pub fn of(placed: &[Placed]) -> Self {
        let mut lanes = Self { lane: Vec::with_capacity(placed.len()), ..Self::default() };
        // Lanes in use, the one that ends first on top; lanes that are free again, the lowest on top.
        let mut ends: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
        let mut free: BinaryHeap<Reverse<u32>> = BinaryHeap::new();
        let mut swept = 0;
        for allocation in placed {
            // One of no bytes overlaps none.
            if allocation.occupied == 0 {
                lanes.count = lanes.count.max(1);
                lanes.lane.push(0);
                continue;
            }
            while let Some(&Reverse((end, lane))) = ends.peek() {
                if end > allocation.offset {
                    break;
                }
                lanes.sweep(&mut swept, end, ends.len());
                ends.pop();
                free.push(Reverse(lane));
            }
            lanes.sweep(&mut swept, allocation.offset, ends.len());
            let lane = free.pop().map_or(lanes.count, |Reverse(lane)| lane);
            lanes.count = lanes.count.max(lane + 1);
            lanes.lane.push(lane);
            ends.push(Reverse((allocation.end(), lane)));
        }
        while let Some(Reverse((end, _))) = ends.peek() {
            lanes.sweep(&mut swept, *end, ends.len());
            ends.pop();
        }
        lanes
    }

    /// Counts the bytes up to an offset, all of which the same number of allocations occupy.
    fn sweep(&mut self, swept: &mut u64, until: u64, depth: usize) {
        let bytes = until.saturating_sub(*swept);
        *swept = until.max(*swept);
        if depth > 1 {
            self.aliased += bytes;
            self.saved = self.saved.saturating_add(bytes.saturating_mul(depth as u64 - 1));
        }
    }
}
