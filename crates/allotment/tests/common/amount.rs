//! How much a test does, and where its random inputs begin.
//!
//! By hand, the tests with many inputs run a tenth of them: a run of `cargo test` should not take ten minutes. `.ci/run` runs
//! all of them, other ones for each commit. `ALLOTMENT_PERCENT` says how many.

/// The number of percent without `ALLOTMENT_PERCENT`.
const BY_HAND: u64 = 10;

fn percent() -> u64 {
    std::env::var("ALLOTMENT_PERCENT")
        .map_or(BY_HAND, |percent| percent.parse().expect("ALLOTMENT_PERCENT is a number of percent"))
}

/// Returns this part of `all`, at least 1: a tenth under a sanitizer, where everything takes ten times as long, and more than
/// all for a long run by hand.
#[allow(dead_code, reason = "not all of it is used by each program of tests")]
pub(crate) fn scaled(all: u64) -> u64 {
    (all * percent() / 100).max(1)
}

/// Returns whether a case of a list is run. Another first seed selects other cases.
///
/// The number is mixed (splitmix64): lists come from loops in loops, and a simple step would meet the same values of an inner loop
/// again and again.
#[allow(dead_code, reason = "not all of it is used by each program of tests")]
pub(crate) fn drawn(case: u64) -> bool {
    let mut mixed = case.wrapping_add(first_seed()).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 31) % 100 < percent()
}

/// Returns the seed where random inputs begin: 0, or `PROPTEST_RNG_SEED`, which `.ci/run` takes from the commit.
#[allow(dead_code, reason = "not all of it is used by each program of tests")]
pub(crate) fn first_seed() -> u64 {
    let seed = std::env::var("PROPTEST_RNG_SEED");
    // 32 bits, as the numbers of cases are added to it.
    seed.map_or(0, |seed| u64::from(seed.parse::<u32>().expect("PROPTEST_RNG_SEED is a number of 32 bits")))
}
