//! Generated operations, each algorithm against its naive model after every step.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod shadow;

use std::path::Path;

use allotment_suballoc::Algorithm;
use proptest::collection::vec;
use proptest::prelude::*;
use shadow::Op;

fn operations() -> impl Strategy<Value = Vec<Op>> {
    vec(any::<[u8; 8]>().prop_map(Op::decode), 0..200)
}

/// Holes of nearly equal sizes, and requests and frees of about their size.
fn among_slivers() -> impl Strategy<Value = Vec<Op>> {
    let slivers = (1..40u64, 1..8u64, 0..5u32, 130..290u64)
        .prop_map(|(size, spread, log2, count)| Op::Slivers { size, spread, alignment: 1 << log2, count });
    let strategies = prop_oneof![
        Just(allotment_suballoc::Strategy::Balanced),
        Just(allotment_suballoc::Strategy::LeastTime),
        Just(allotment_suballoc::Strategy::LeastMemory),
    ];
    let requests = (1..60u64, 0..8u32, strategies).prop_map(|(size, log2, strategy)| {
        let side = allotment_suballoc::Side::Lower;
        Op::Allocate { size, alignment: 1 << log2, strategy, side }
    });
    let frees = any::<usize>().prop_map(|which| Op::Free { which });
    let resizes = (any::<usize>(), 1..60u64).prop_map(|(which, size)| Op::Resize { which, size });
    let op = prop_oneof![2 => slivers, 40 => requests, 20 => frees, 4 => resizes];
    vec(op, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

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
        4 => Just(allotment_suballoc::Strategy::Balanced),
        1 => Just(allotment_suballoc::Strategy::LeastTime),
        1 => Just(allotment_suballoc::Strategy::LeastMemory),
    ];
    let sizes = (1..4u64, 0..310u64).prop_map(move |(size, more)| (size << log2) + more - 5);
    let requests = (sizes.clone(), 0..4u32, strategies).prop_map(|(size, log2, strategy)| {
        let side = allotment_suballoc::Side::Lower;
        Op::Allocate { size, alignment: 1 << log2, strategy, side }
    });
    let frees = any::<usize>().prop_map(|which| Op::Free { which });
    let resizes = (any::<usize>(), sizes).prop_map(|(which, size)| Op::Resize { which, size });
    let op = prop_oneof![2 => holes, 40 => requests, 30 => frees, 4 => resizes];
    vec(op, 0..150)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

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

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

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

#[test]
fn every_case_of_the_fuzzers_seed_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/virtual_block");
    let mut cases = 0;
    for entry in std::fs::read_dir(&corpus).expect("the seed corpus is part of the repository") {
        shadow::run(&std::fs::read(entry.unwrap().path()).unwrap());
        cases += 1;
    }
    assert!(cases >= 8, "the corpus has {cases} cases");
}
