//! How much a test does, and where its random inputs begin.
//!
//! `cargo test` gives each rule a quarter of its inputs: they are there to find what nobody thought of, and a first run should
//! not take minutes. `.ci/run` gives it all of them, other ones for each commit. `ALLOTMENT_PERCENT` says how many.

/// The number of percent without `ALLOTMENT_PERCENT`.
const AT_FIRST: u64 = 25;

fn percent() -> u64 {
    std::env::var("ALLOTMENT_PERCENT")
        .map_or(AT_FIRST, |percent| percent.parse().expect("ALLOTMENT_PERCENT is a number of percent"))
}

/// Returns this part of `all`, at least 1: a tenth under a sanitizer, where everything takes ten times as long, and more than
/// all for a long run by hand.
#[allow(dead_code, reason = "not all of it is used by each program of tests")]
pub(crate) fn scaled(all: u64) -> u64 {
    (all * percent() / 100).max(1)
}

/// Returns true for the cases of a list that are run: this part of them, spread over the list, and other ones with another
/// first seed.
#[allow(dead_code, reason = "not all of it is used by each program of tests")]
pub(crate) fn drawn(case: u64) -> bool {
    (case + first_seed()).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 < (percent() << 32) / 100
}

/// Returns the seed where random inputs begin: 0, or `PROPTEST_RNG_SEED`, which `.ci/run` takes from the commit.
#[allow(dead_code, reason = "not all of it is used by each program of tests")]
pub(crate) fn first_seed() -> u64 {
    std::env::var("PROPTEST_RNG_SEED").map_or(0, |seed| seed.parse().expect("PROPTEST_RNG_SEED is a number"))
}
