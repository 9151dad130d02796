//! Random ranges are freed and replaced by ones of other sizes, while the number of live ones stays.

use super::{Build, Plan, Scale, Sizes, Workload};
use crate::rng::Rng;

/// Pairs of a free and an allocation per lap.
const PAIRS: u32 = 100_000;

pub(super) fn plans() -> Vec<Plan> {
    let roomy = |name: &str, sizes: Sizes, live: u32| {
        Plan::new(name, move |scale| churn(sizes, scale.of(live), scale).in_roomy_space(sizes.unit))
    };
    vec![
        roomy("churn-1e3", Sizes::BUFFERS, 1000),
        roomy("churn-1e4", Sizes::BUFFERS, 10_000),
        roomy("churn-1e5", Sizes::BUFFERS, 100_000),
        roomy("churn-1e6", Sizes::BUFFERS, 1_000_000),
        roomy("small-1e5", Sizes::SMALL, 100_000),
        roomy("descriptors-1e4", Sizes::DESCRIPTORS, 10_000),
        roomy("mixed-1e5", Sizes::MIXED, 100_000),
        Plan::new("frees-2e5", |scale| frees(scale, 200_000)),
    ]
}

/// All ranges are freed in random order, then allocated again.
fn frees(scale: Scale, count: u32) -> Build {
    let (count, sizes) = (scale.of(count), Sizes::BUFFERS);
    let mut rng = Rng::new(0xf4ee);
    let mut build = Build { is_about_frees: true, ..Build::default() };
    (0..count).for_each(|slot| build.allocate(slot, sizes.draw(&mut rng)));
    build.begin_lap();
    let mut slots: Vec<u32> = (0..count).collect();
    for left in (1..=count).rev() {
        build.free(slots.swap_remove(rng.below(left) as usize));
    }
    (0..count).for_each(|slot| build.allocate(slot, sizes.draw(&mut rng)));
    build.in_roomy_space(sizes.unit)
}

/// Churn in a space that is little larger than what is live.
pub(super) fn tight_plans() -> Vec<Plan> {
    let tight = |name: &str, live: u32, percent: u64| {
        Plan::new(name, move |scale| {
            let sizes = Sizes::BUFFERS;
            let build = churn(sizes, scale.of(live), scale);
            let unit = u64::from(sizes.unit);
            let size = (build.peak_bytes * percent / 100).next_multiple_of(unit);
            Build { may_refuse: true, ..build }.in_space(size, sizes.unit)
        })
    };
    vec![tight("tight-1e4", 10_000, 110), tight("tight-1e5", 100_000, 108)]
}

/// The sequence of one of several threads.
pub(in crate::ranges) fn lane(scale: Scale) -> Workload {
    churn(Sizes::BUFFERS, scale.of(1000), scale)
        .in_roomy_space(Sizes::BUFFERS.unit)
        .finish("mutex".to_owned())
}

fn churn(sizes: Sizes, live: u32, scale: Scale) -> Build {
    let mut rng = Rng::new(u64::from(live) ^ u64::from(sizes.most) << 32);
    let mut build = Build::default();
    for slot in 0..live {
        build.allocate(slot, sizes.draw(&mut rng));
    }
    let mut replace = |build: &mut Build| {
        let slot = rng.below(live);
        build.free(slot);
        build.allocate(slot, sizes.draw(&mut rng));
    };
    // A replacement of each on average, so that the holes are those of traffic and not those of the fill.
    (0..live).for_each(|_| replace(&mut build));
    build.begin_lap();
    (0..scale.of(PAIRS.max(live / 2))).for_each(|_| replace(&mut build));
    build
}
