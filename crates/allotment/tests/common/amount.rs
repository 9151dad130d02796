//! How much a test does, and where its random inputs begin.

/// Returns as much of the usual amount as the environment's `ALLOTMENT_PERCENT` says: less under a sanitizer, where everything
/// takes ten times as long, and more for a long run by hand.
pub(crate) fn scaled(usual: u64) -> u64 {
    let percent: u64 = std::env::var("ALLOTMENT_PERCENT")
        .map_or(100, |percent| percent.parse().expect("a number of percent"));
    (usual * percent / 100).max(1)
}

/// Returns where random inputs begin: with the same numbers in each run, and with others for each commit in continuous
/// integration, which says them as it does to proptest.
pub(crate) fn first_seed() -> u64 {
    std::env::var("PROPTEST_RNG_SEED").map_or(0, |seed| seed.parse().expect("a number"))
}
