//! Generated operations, each algorithm against its naive model after every step.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../../allotment/tests/common/amount.rs"]
mod amount;
mod shadow;

use std::path::Path;

use allotment_suballoc::{Algorithm, StackSide};
use proptest::collection::vec;
use proptest::prelude::*;
use shadow::Op;

use crate::amount::scaled;

fn operations() -> impl Strategy<Value = Vec<Op>> {
    vec(any::<[u8; 8]>().prop_map(Op::decode), 0..200)
}

/// Holes of nearly equal sizes, and requests and frees of about their size.
fn among_slivers() -> impl Strategy<Value = Vec<Op>> {
    let slivers = (1..40u64, 1..8u64, 0..5u32, 130..290u64)
        .prop_map(|(size, spread, log2, count)| Op::Slivers { size, spread, alignment: 1 << log2, count });
    let strategies = prop_oneof![
        Just(allotment_suballoc::FitStrategy::Balanced),
        Just(allotment_suballoc::FitStrategy::LeastTime),
        Just(allotment_suballoc::FitStrategy::LeastMemory),
    ];
    let requests = (1..60u64, 0..8u32, strategies).prop_map(|(size, log2, strategy)| {
        let side = StackSide::Lower;
        Op::Allocate { size, alignment: 1 << log2, strategy, side }
    });
    let frees = any::<usize>().prop_map(|which| Op::Free { which });
    let resizes = (any::<usize>(), 1..60u64).prop_map(|(which, size)| Op::Resize { which, size });
    let op = prop_oneof![2 => slivers, 40 => requests, 20 => frees, 4 => resizes];
    vec(op, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(300) as u32, ..ProptestConfig::default() })]

    /// Whatever fits is found, and whatever does not is refused: by a look at all holes.
    #[test]
    fn among_many_slivers_tlsf_never_refuses_what_would_fit(size in 1000..8000u64, ops in among_slivers()) {
        shadow::run_ops(Algorithm::Tlsf, size, &ops);
    }
}

/// Thousands of holes of one size class, which a search cannot look at one by one. The sizes differ by less than 300 units:
/// with a `log2` of 20, by less than a 32nd of a class.
fn among_holes_of_one_class(log2: u32) -> impl Strategy<Value = Vec<Op>> {
    let holes =
        (1..4u64, 1..300u64, 0..3u32, 300..900u64).prop_map(move |(size, spread, alignment, count)| {
            Op::Slivers { size: size << log2, spread, alignment: 1 << alignment, count }
        });
    let strategies = prop_oneof![
        4 => Just(allotment_suballoc::FitStrategy::Balanced),
        1 => Just(allotment_suballoc::FitStrategy::LeastTime),
        1 => Just(allotment_suballoc::FitStrategy::LeastMemory),
    ];
    let sizes = (1..4u64, 0..310u64).prop_map(move |(size, more)| (size << log2) + more - 5);
    let requests = (sizes.clone(), 0..4u32, strategies).prop_map(|(size, log2, strategy)| {
        let side = StackSide::Lower;
        Op::Allocate { size, alignment: 1 << log2, strategy, side }
    });
    let frees = any::<usize>().prop_map(|which| Op::Free { which });
    let resizes = (any::<usize>(), sizes).prop_map(|(which, size)| Op::Resize { which, size });
    let op = prop_oneof![2 => holes, 40 => requests, 30 => frees, 4 => resizes];
    vec(op, 0..150)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(60) as u32, ..ProptestConfig::default() })]

    #[test]
    fn among_thousands_of_holes_of_one_class_tlsf_equals_its_model(size in 1..4u64, ops in among_holes_of_one_class(10)) {
        shadow::run_ops(Algorithm::Tlsf, size << 20, &ops);
    }

    #[test]
    fn among_thousands_of_holes_of_nearly_one_size_tlsf_equals_its_model(ops in among_holes_of_one_class(20)) {
        shadow::run_ops(Algorithm::Tlsf, 3 << 30, &ops);
    }

    #[test]
    fn a_block_whose_numbers_take_more_than_32_bits_equals_its_model(ops in operations()) {
        shadow::run_ops(Algorithm::Tlsf, (1 << 32) + 5, &ops);
    }
}

/// Operations whose sizes and places are all multiples of a power of two, and then some whose are not.
fn in_pages_and_then_in_units() -> impl Strategy<Value = Vec<Op>> {
    let in_pages = |op: Op, log2: u32| match op {
        Op::Allocate { size, alignment, strategy, .. } => {
            Op::Allocate { size: (size % 300) << log2, alignment, strategy, side: StackSide::Lower }
        }
        Op::AllocateBelow { size, alignment, limit } => {
            Op::AllocateBelow { size: (size % 300) << log2, alignment, limit: limit << log2 }
        }
        Op::AllocateAt { size, alignment, which, distance } => {
            Op::AllocateAt { size: (size % 300) << log2, alignment, which, distance: distance << log2 }
        }
        Op::Resize { which, size } => Op::Resize { which, size: size << log2 },
        Op::Grow { by } => Op::Grow { by: by << log2 },
        other => other,
    };
    (1..9u32, operations(), operations()).prop_map(move |(log2, first, then)| {
        let first = first.into_iter().filter(|op| !matches!(op, Op::Slivers { .. }));
        first.map(|op| in_pages(op, log2)).chain(then).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(300) as u32, ..ProptestConfig::default() })]

    #[test]
    fn tlsf_equals_its_model_also_once_the_first_size_is_no_multiple_of_the_others(
        size in 1..6000u64,
        ops in in_pages_and_then_in_units(),
    ) {
        shadow::run_ops(Algorithm::Tlsf, size << 4, &ops);
    }
}

/// Hundreds of holes of one size, which is a multiple of a power of two, and then requests, frees and holes of nearly that size.
fn among_holes_of_one_size_and_then_of_nearly_that() -> impl Strategy<Value = Vec<Op>> {
    let strategies = prop_oneof![
        4 => Just(allotment_suballoc::FitStrategy::Balanced),
        1 => Just(allotment_suballoc::FitStrategy::LeastTime),
        2 => Just(allotment_suballoc::FitStrategy::LeastMemory),
    ];
    // From 64 units on a class has two sizes, from 2,048 on more than 32, so that parts are divided as well.
    (6..13u32, 1..4u64).prop_flat_map(move |(log2, size)| {
        let size = size << log2;
        let first = (1..3u64, 280..700u64).prop_map(move |(times, count)| Op::Slivers {
            size: size * times,
            spread: 1,
            alignment: 1 << log2,
            count,
        });
        let near = move || (0..90u64).prop_map(move |more| (size + more).saturating_sub(20).max(1));
        let holes = (near(), 1..8u64, 0..4u32, 100..400u64).prop_map(|(size, spread, log2, count)| {
            Op::Slivers { size, spread, alignment: 1 << log2, count }
        });
        let sizes = prop_oneof![3 => near(), 1 => Just(size), 1 => 1..90u64];
        let requests = (sizes, 0..5u32, strategies.clone()).prop_map(|(size, log2, strategy)| Op::Allocate {
            size,
            alignment: 1 << log2,
            strategy,
            side: StackSide::Lower,
        });
        let frees = any::<usize>().prop_map(|which| Op::Free { which });
        let resizes = (any::<usize>(), near()).prop_map(|(which, size)| Op::Resize { which, size });
        let then = prop_oneof![2 => holes, 40 => requests, 30 => frees, 20 => resizes, 1 => Just(Op::Shrink)];
        (vec(first, 1..4), vec(then, 0..150)).prop_map(|(first, then)| [first, then].concat())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(60) as u32, ..ProptestConfig::default() })]

    #[test]
    fn among_hundreds_of_holes_of_one_size_tlsf_equals_its_model_also_once_there_are_others(
        pages in 1000..4000u64,
        ops in among_holes_of_one_size_and_then_of_nearly_that(),
    ) {
        shadow::run_ops(Algorithm::Tlsf, pages << 12, &ops);
    }
}

/// Hundreds of ranges at a time in a linear block: runs of freed ones between live ones, both sides, and round after round.
fn in_a_linear_block() -> impl Strategy<Value = Vec<Op>> {
    let slivers = (1..20u64, 1..8u64, 0..3u32, 32..200u64)
        .prop_map(|(size, spread, log2, count)| Op::Slivers { size, spread, alignment: 1 << log2, count });
    let side = prop_oneof![3 => Just(StackSide::Lower), 1 => Just(StackSide::Upper)];
    let requests = (1..90u64, 0..6u32, side).prop_map(|(size, log2, side)| {
        let strategy = allotment_suballoc::FitStrategy::Balanced;
        Op::Allocate { size, alignment: 1 << log2, strategy, side }
    });
    let frees = any::<usize>().prop_map(|which| Op::Free { which });
    let runs = (any::<usize>(), 1..150usize, any::<bool>()).prop_map(|(which, count, down)| Op::FreeRun {
        which,
        count,
        down,
    });
    let oldest = (1..150usize).prop_map(|count| Op::FreeRun { which: 0, count, down: false });
    let resizes = (any::<usize>(), 1..90u64).prop_map(|(which, size)| Op::Resize { which, size });
    let grow = (1..300u64).prop_map(|by| Op::Grow { by });
    let op = prop_oneof![
        4 => slivers, 40 => requests, 10 => frees, 4 => runs, 3 => oldest, 6 => resizes, 1 => grow, 1 => Just(Op::Clear), 2 => Just(Op::Shrink)
    ];
    vec(op, 0..150)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(200) as u32, ..ProptestConfig::default() })]

    #[test]
    fn a_linear_block_of_hundreds_of_ranges_equals_its_model(size in 100..6000u64, ops in in_a_linear_block()) {
        shadow::run_ops(Algorithm::Linear, size, &ops);
    }

    #[test]
    fn a_linear_block_whose_numbers_take_more_than_32_bits_equals_its_model(ops in operations()) {
        shadow::run_ops(Algorithm::Linear, (1 << 32) + 5, &ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(600) as u32, ..ProptestConfig::default() })]

    #[test]
    fn tlsf_equals_its_model_after_every_operation(size in 1..6000u64, ops in operations()) {
        shadow::run_ops(Algorithm::Tlsf, size, &ops);
    }

    #[test]
    fn buddy_equals_its_model_after_every_operation(size in 1..6000u64, ops in operations()) {
        shadow::run_ops(Algorithm::Buddy, size, &ops);
    }

    #[test]
    fn linear_equals_its_model_after_every_operation(size in 1..6000u64, ops in operations()) {
        shadow::run_ops(Algorithm::Linear, size, &ops);
    }
}

/// Ranges of few sizes that come and go, so that most are those of others before, and now and then a large one.
fn of_few_sizes() -> impl Strategy<Value = Vec<Op>> {
    let strategies = prop_oneof![
        8 => Just(allotment_suballoc::FitStrategy::Balanced),
        2 => Just(allotment_suballoc::FitStrategy::LeastTime),
        1 => Just(allotment_suballoc::FitStrategy::LeastMemory),
        1 => Just(allotment_suballoc::FitStrategy::LowestOffset),
    ];
    let sizes = prop_oneof![20 => 30..60u64, 10 => 1..6u64, 1 => 200..3000u64];
    let requests = (sizes.clone(), 0..5u32, strategies).prop_map(|(size, log2, strategy)| Op::Allocate {
        size,
        alignment: 1 << log2,
        strategy,
        side: StackSide::Lower,
    });
    let frees = any::<usize>().prop_map(|which| Op::Free { which });
    let runs = (any::<usize>(), 1..30usize).prop_map(|(which, count)| Op::FreeRun {
        which,
        count,
        down: which % 2 == 0,
    });
    let resizes = (any::<usize>(), sizes).prop_map(|(which, size)| Op::Resize { which, size });
    let grow = (1..900u64).prop_map(|by| Op::Grow { by });
    let slivers = (1..40u64, 1..8u64, 20..60u64).prop_map(|(size, spread, count)| Op::Slivers {
        size,
        spread,
        alignment: 1,
        count,
    });
    let op = prop_oneof![
        60 => requests, 50 => frees, 3 => runs, 6 => resizes, 1 => grow, 1 => slivers, 1 => Just(Op::Clear), 2 => Just(Op::Shrink)
    ];
    vec(op, 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(300) as u32, ..ProptestConfig::default() })]

    #[test]
    fn a_block_whose_ranges_have_few_sizes_equals_its_model(size in 1..6000u64, ops in of_few_sizes()) {
        shadow::run_ops(Algorithm::Tlsf, size, &ops);
    }
}

#[test]
fn every_case_of_the_fuzzers_seed_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/ranges");
    let mut cases = 0;
    for entry in std::fs::read_dir(&corpus).expect("the seed corpus is part of the repository") {
        shadow::run(&std::fs::read(entry.unwrap().path()).unwrap());
        cases += 1;
    }
    assert!(cases >= 8, "the corpus has {cases} cases");
}
