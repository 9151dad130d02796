//! What is planned.

use core::iter::once;
use core::ops::Range;
use std::path::Path;

use allotment_suballoc::Alignment;
use allotment_suballoc::plan::Item;

use crate::failure::Failure;
use crate::rng::Rng;

pub(super) struct Instance {
    pub(super) name: String,
    pub(super) items: Vec<(Item, Vec<Range<u64>>)>,
    /// One in which a plan exists.
    pub(super) capacity: Option<u64>,
}

/// The height of a rectangle that is cut, and its length in time.
const SIDE: u64 = 1 << 20;

/// The granule of frames.
const PAGE: u64 = 64 << 10;

/// Reads `id,lower,upper,size` below a line of names. A number in the name of the file, as in `A.1048576.csv`, is a capacity.
pub(super) fn read(path: &Path) -> Result<Instance, Failure> {
    let text =
        std::fs::read_to_string(path).map_err(|error| Failure::File { path: path.to_owned(), error })?;
    let bad = |line: usize| {
        let error = std::io::Error::other(format!("line {}: not an id and three numbers", line + 1));
        Failure::File { path: path.to_owned(), error }
    };
    let mut items = Vec::new();
    for (number, line) in text.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty()) {
        let fields: Result<Vec<u64>, _> = line.split(',').skip(1).map(|field| field.trim().parse()).collect();
        let Ok([lower, upper, size]) = fields.as_deref() else { return Err(bad(number)) };
        items.push((Item::new(*size), Vec::from_iter(once(*lower..*upper))));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let capacity = name.split('.').nth(1).and_then(|capacity| capacity.parse().ok());
    Ok(Instance { name, items, capacity })
}

/// A rectangle of memory and time, cut from edge to edge again and again.
pub(super) fn cut(seed: u64, count: usize) -> Instance {
    let mut rng = Rng::new(seed);
    let mut all = vec![[0, SIDE, 0, SIDE]];
    while all.len() < count {
        let which = largest_of_four(&mut rng, &all);
        let [from, to, low, high] = all[which];
        if rng.below(2) == 0 && high - low > 1 {
            let cut = between(&mut rng, low, high);
            all[which][3] = cut;
            all.push([from, to, cut, high]);
        } else if to - from > 1 {
            let cut = between(&mut rng, from, to);
            all[which][1] = cut;
            all.push([cut, to, low, high]);
        }
    }
    rectangles(format!("cut {count} #{seed}"), &all)
}

/// The same, where each rectangle becomes four around a fifth, which no cut from edge to edge can make.
pub(super) fn pinwheels(seed: u64, count: usize) -> Instance {
    let mut rng = Rng::new(seed);
    let mut all = vec![[0, SIDE, 0, SIDE]];
    while all.len() < count {
        let which = largest_of_four(&mut rng, &all);
        let [from, to, low, high] = all[which];
        if to - from < 3 || high - low < 3 {
            continue;
        }
        let left = between(&mut rng, from, to - 1);
        let right = between(&mut rng, left, to);
        let below = between(&mut rng, low, high - 1);
        let above = between(&mut rng, below, high);
        all[which] = [from, right, low, below];
        all.extend([
            [right, to, low, above],
            [left, to, above, high],
            [from, left, below, high],
            [left, right, below, above],
        ]);
    }
    rectangles(format!("pinwheels {count} #{seed}"), &all)
}

/// Returns the largest of four random rectangles, so that small ones are not cut to nothing.
fn largest_of_four(rng: &mut Rng, all: &[[u64; 4]]) -> usize {
    let mut which = 0;
    let mut largest = 0;
    for _ in 0..4 {
        let index = rng.below(all.len() as u32) as usize;
        let [from, to, low, high] = all[index];
        let area = (to - from) * (high - low);
        if area > largest {
            (which, largest) = (index, area);
        }
    }
    which
}

/// Returns a number above `low` and below `high`, which is at least 2 more.
fn between(rng: &mut Rng, low: u64, high: u64) -> u64 {
    // At most 2^20.
    low + 1 + u64::from(rng.below((high - low - 1) as u32))
}

fn rectangles(name: String, all: &[[u64; 4]]) -> Instance {
    let item = |&[from, to, low, high]: &[u64; 4]| (Item::new(high - low), Vec::from_iter(once(from..to)));
    Instance { name, items: all.iter().map(item).collect(), capacity: Some(SIDE) }
}

/// A frame graph of 30 to 150 passes with 30 to 180 resources: targets at the size of the screen and less, shadow maps, buffers.
/// 15 % are long-lived; a few are kept for the next frame. In one frame of three some are in use on another queue as well.
pub(super) fn frame(seed: u64) -> Instance {
    let mut rng = Rng::new(seed);
    let passes = 30 + u64::from(rng.below(121));
    let count = 30 + rng.below(151);
    let (width, height) = [(1920, 1080), (2560, 1440), (3840, 2160)][rng.below(3) as usize];
    let two_queues = seed.is_multiple_of(3);
    let page = Alignment::new(PAGE).unwrap_or(Alignment::ONE);
    let items = (0..count).map(|_| {
        let size = match rng.below(10) {
            0..=6 => {
                let scale = [1, 1, 2, 4, 8][rng.below(5) as usize];
                let texel = [1, 2, 4, 4, 4, 8, 8, 16][rng.below(8) as usize];
                (width / scale) * (height / scale) * texel
            }
            7 => (512u64 << rng.below(4)).pow(2) * [2, 4][rng.below(2) as usize],
            _ => 1 << (12 + rng.below(12)),
        };
        let first = u64::from(rng.below(passes as u32));
        let long = rng.below(100) < 15;
        let length = if long {
            passes / 3 + u64::from(rng.below(passes as u32 / 2))
        } else {
            1 + u64::from(rng.below(6))
        };
        let mut lifetime = Vec::from_iter(once(first..(first + 1 + length).min(passes)));
        if rng.below(100) < 3 {
            lifetime = vec![passes - 1 - u64::from(rng.below(6))..passes, 0..1 + u64::from(rng.below(6))];
        } else if two_queues && rng.below(10) == 0 {
            // On the other queue, a few passes later.
            let first = (first + length + 2).min(passes - 1);
            lifetime.push(first..(first + 1 + u64::from(rng.below(4))).min(passes));
        }
        (Item::new(size.next_multiple_of(PAGE)).aligned(page), lifetime)
    });
    Instance { name: format!("frame #{seed}"), items: items.collect(), capacity: None }
}

/// So many items over as many units of time, a few of them long-lived.
pub(super) fn growing(count: usize) -> Instance {
    let mut rng = Rng::new(count as u64);
    let items = (0..count).map(|_| {
        let first = u64::from(rng.below(count as u32));
        let length = 1 + u64::from(if rng.below(20) == 0 { rng.below(250) } else { rng.below(40) });
        let limit = 1 << (8 + rng.below(12));
        (Item::new(1 + u64::from(rng.below(limit))), Vec::from_iter(once(first..first + length)))
    });
    Instance { name: format!("growing {count}"), items: items.collect(), capacity: None }
}
