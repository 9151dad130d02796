//! Generated operations on every profile, with room and without, for each algorithm and empty-block policy.

use allotment::Algorithm;
use allotment::memory::blocks::EmptyBlockPolicy;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::amount::scaled;
use crate::shadow::{self, Op};

fn operations() -> impl Strategy<Value = Vec<Op>> {
    vec(any::<[u8; 12]>().prop_map(Op::decode), 0..120)
}

/// One test a combination, so that a failure names it.
macro_rules! equals_its_model {
    ($($name:ident: $algorithm:ident, $empty_blocks:expr;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: scaled(200) as u32, ..ProptestConfig::default() })]

            $(#[test]
            fn $name(machine in any::<u8>(), tight in any::<bool>(), ops in operations()) {
                shadow::run(Algorithm::$algorithm, $empty_blocks, machine, tight, &ops);
            })*
        }
    };
}

equals_its_model! {
    over_tlsf_it_equals_its_model_after_every_operation: Tlsf, EmptyBlockPolicy::default();
    over_tlsf_that_keeps_nothing_it_equals_its_model_after_every_operation: Tlsf, EmptyBlockPolicy::NONE;
    over_buddy_it_equals_its_model_after_every_operation: Buddy, EmptyBlockPolicy::default();
    over_buddy_that_keeps_nothing_it_equals_its_model_after_every_operation: Buddy, EmptyBlockPolicy::NONE;
    over_linear_it_equals_its_model_after_every_operation: Linear, EmptyBlockPolicy::default();
    over_linear_that_keeps_nothing_it_equals_its_model_after_every_operation: Linear, EmptyBlockPolicy::NONE;
}
