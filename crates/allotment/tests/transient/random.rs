//! Frames as they may be: passes on several queues, some of which wait for others; resources of several classes, some of them
//! kept for the next frame.

use allotment::Alignment;
use allotment::transient::TransientDesc;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::frames::{Frame, Pass, Resource};

#[derive(Clone, Debug)]
struct Drawn {
    /// Sizes of few values pack well; others do not.
    size: u64,
    log2: u8,
    class: u32,
    uses: Vec<prop::sample::Index>,
    reads: Vec<prop::sample::Index>,
}

fn resource() -> impl Strategy<Value = Drawn> {
    let size = prop_oneof![(1..8_u64).prop_map(|it| it * 16), 1..200_u64];
    let reads = prop_oneof![3 => Just(0..1), 1 => Just(1..3)]
        .prop_flat_map(|range| vec(any::<prop::sample::Index>(), range));
    (size, 0..5_u8, 0..2_u32, vec(any::<prop::sample::Index>(), 1..4), reads)
        .prop_map(|(size, log2, class, uses, reads)| Drawn { size, log2, class, uses, reads })
}

/// Returns frames with so many passes and resources at most.
pub(crate) fn frames(most_passes: usize, most_resources: usize) -> impl Strategy<Value = Frame> {
    // As many queues in each of them: most have one or two.
    let queues = prop_oneof![Just(1_u8), Just(2), Just(2), Just(3)];
    let pass = |queues: u8| (0..queues, vec(any::<prop::sample::Index>(), 0..2));
    let passes = queues.prop_flat_map(move |queues| vec(pass(queues), 1..=most_passes));
    (passes, vec(resource(), 1..=most_resources), any::<bool>()).prop_map(
        |(passes, resources, is_aligned)| {
            let passes: Vec<Pass> = (passes.into_iter().enumerate())
                .map(|(at, (queue, waits))| {
                    let waits = waits.into_iter().filter(|_| at > 0).map(|it| it.index(at)).collect();
                    Pass { queue, waits }
                })
                .collect();
            let all = |list: Vec<prop::sample::Index>| -> Vec<usize> {
                list.into_iter().map(|it| it.index(passes.len())).collect()
            };
            let resources = (0..).zip(resources).map(|(key, it)| {
                let log2 = if is_aligned { it.log2 } else { 0 };
                let desc = TransientDesc::new(key, it.size).of_class(it.class);
                let desc = desc.aligned(Alignment::new(1 << log2).unwrap());
                Resource { desc, uses: all(it.uses), reads: all(it.reads) }
            });
            Frame { resources: resources.collect(), passes: passes.clone() }
        },
    )
}
