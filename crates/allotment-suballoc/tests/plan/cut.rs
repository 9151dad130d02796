//! Problems whose optimum is known: a rectangle of memory and time, cut into items without a gap. The optimum is the bound.

use core::iter::once;

use allotment_suballoc::plan::Item;

use crate::naive::Set;

/// Numbers from a seed (splitmix64).
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// A start and an end in time, and in memory.
type Rectangle = [u64; 4];

/// Cuts the rectangle from edge to edge, again and again.
pub(crate) fn guillotine(seed: u64, items: usize, height: u64, time: u64) -> Set {
    let mut rng = Rng(seed);
    let mut all: Vec<Rectangle> = vec![[0, time, 0, height]];
    while all.len() < items {
        let which = rng.below(all.len() as u64) as usize;
        let [from, to, low, high] = all[which];
        if rng.below(2) == 0 && high - low > 1 {
            let cut = low + 1 + rng.below(high - low - 1);
            all[which][3] = cut;
            all.push([from, to, cut, high]);
        } else if to - from > 1 {
            let cut = from + 1 + rng.below(to - from - 1);
            all[which][1] = cut;
            all.push([cut, to, low, high]);
        }
    }
    set(&all)
}

/// Replaces rectangles by four around a fifth, which no cut from edge to edge makes.
pub(crate) fn pinwheels(seed: u64, items: usize, height: u64, time: u64) -> Set {
    let mut rng = Rng(seed);
    let mut all: Vec<Rectangle> = vec![[0, time, 0, height]];
    while all.len() < items {
        let which = rng.below(all.len() as u64) as usize;
        let [from, to, low, high] = all[which];
        if to - from < 3 || high - low < 3 {
            // Nothing can be cut out of it: begin anew with a rectangle that can.
            if all.iter().all(|&[from, to, low, high]| to - from < 3 || high - low < 3) {
                break;
            }
            continue;
        }
        let mut two = |from: u64, to: u64| {
            let first = from + 1 + rng.below(to - from - 2);
            (first, first + 1 + rng.below(to - first - 1))
        };
        let ((left, right), (below, above)) = (two(from, to), two(low, high));
        all[which] = [from, right, low, below];
        all.extend([
            [right, to, low, above],
            [left, to, above, high],
            [from, left, below, high],
            [left, right, below, above],
        ]);
    }
    set(&all)
}

fn set(rectangles: &[Rectangle]) -> Set {
    rectangles
        .iter()
        .map(|&[from, to, low, high]| (Item::new(high - low), once(from..to).collect()))
        .collect()
}
