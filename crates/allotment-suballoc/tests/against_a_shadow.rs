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
