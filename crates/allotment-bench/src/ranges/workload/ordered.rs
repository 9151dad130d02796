//! Ranges that are freed in an order: by age, frame by frame, or the last one first.

use std::collections::VecDeque;

use super::{Build, Plan, Scale, Sizes};
use crate::rng::Rng;

/// Operations per lap, roughly.
const OPERATIONS: u32 = 200_000;

pub(super) fn plans() -> Vec<Plan> {
    vec![
        Plan::new("textures", textures),
        Plan::new("frames", frames),
        Plan::new("lifo-64", |scale| lifo(scale, 64)),
        Plan::new("pairs", |scale| lifo(scale, 1)),
    ]
}

/// A streamed world: textures are visited at random, mostly ones that were visited lately; one that is absent is
/// loaded, for which the ones that were not visited for the longest time are freed. 6 GiB of 8 are live.
fn textures(scale: Scale) -> Build {
    const LIVE_BYTES: u64 = 6 << 30;
    const SPACE: u64 = 8 << 30;
    const COUNT: u32 = 2000;
    let sizes = Sizes::TEXTURES;
    let mut rng = Rng::new(0x7e87);
    let of: Vec<_> = (0..COUNT).map(|_| sizes.draw(&mut rng)).collect();
    let mut build = Build::default();
    // The least recently visited first. Short enough for a search.
    let mut recent = VecDeque::new();
    let mut visit = |build: &mut Build, recent: &mut VecDeque<u32>| {
        let texture = rng.below(COUNT);
        if let Some(at) = recent.iter().position(|&other| other == texture) {
            recent.remove(at);
        } else {
            let size = u64::from(of[texture as usize].0);
            while build.live_bytes + size > LIVE_BYTES
                && let Some(oldest) = recent.pop_front()
            {
                build.free(oldest);
            }
            build.allocate(texture, of[texture as usize]);
        }
        recent.push_back(texture);
    };
    // From an empty space to an empty space, so that the lap can be repeated.
    build.begin_lap();
    while build.lap.len() < scale.of(OPERATIONS) as usize {
        visit(&mut build, &mut recent);
    }
    recent.into_iter().for_each(|texture| build.free(texture));
    build.in_space(SPACE, sizes.unit)
}

/// Each frame allocates a burst, and frees that of the frame before the last one, in the order of allocation.
fn frames(scale: Scale) -> Build {
    const BURST: u32 = 500;
    const IN_FLIGHT: u32 = 2;
    let sizes = Sizes::BUFFERS;
    let mut rng = Rng::new(0xf4a3);
    let mut build = Build::default();
    build.begin_lap();
    let count = scale.of(OPERATIONS / 2 / BURST);
    for frame in 0..count + IN_FLIGHT {
        let slots = |frame: u32| (0..BURST).map(move |i| frame % (IN_FLIGHT + 1) * BURST + i);
        if frame < count {
            slots(frame).for_each(|slot| build.allocate(slot, sizes.draw(&mut rng)));
        }
        if let Some(old) = frame.checked_sub(IN_FLIGHT) {
            slots(old).for_each(|slot| build.free(slot));
        }
    }
    Build { is_ordered: true, ..build }.in_roomy_space(sizes.unit)
}

/// A stack that grows to a depth and shrinks to nothing.
fn lifo(scale: Scale, depth: u32) -> Build {
    let sizes = Sizes::BUFFERS;
    let mut rng = Rng::new(u64::from(depth));
    let mut build = Build::default();
    build.begin_lap();
    for _ in 0..scale.of(OPERATIONS) / 2 / depth {
        (0..depth).for_each(|slot| build.allocate(slot, sizes.draw(&mut rng)));
        (0..depth).rev().for_each(|slot| build.free(slot));
    }
    Build { is_ordered: true, ..build }.in_space(64 << 20, sizes.unit)
}
