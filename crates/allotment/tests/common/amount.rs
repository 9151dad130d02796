//! How much a test does, and where its random inputs begin.

/// Returns `usual` scaled by `ALLOTMENT_PERCENT`, at least 1: less under a sanitizer, where everything takes ten times as long, and
/// more for a long run by hand.
pub(crate) fn scaled(usual: u64) -> u64 {
    let percent: u64 = std::env::var("ALLOTMENT_PERCENT")
        .map_or(100, |percent| percent.parse().expect("a number of percent"));
    (usual * percent / 100).max(1)
}

/// Returns the seed where random inputs begin: 0, or `PROPTEST_RNG_SEED`, which `.ci/run` takes from the commit.
pub(crate) fn first_seed() -> u64 {
    std::env::var("PROPTEST_RNG_SEED").map_or(0, |seed| seed.parse().expect("a number"))
}
