//! A driver that refuses or is lost while blocks are emptied and given back.

use allotment::device::DeviceError;
use allotment::memory::blocks::{BlockSizes, EmptyBlockPolicy};
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStrategy, NextPass, PassLimits,
};

use crate::model::{HOST, Model, copy, movable};
use crate::rig::{DISCRETE, KIB, Rig, mapped_in, profile};

fn rig() -> Rig {
    Rig::with(profile(DISCRETE), |desc| {
        (desc.block_sizes, desc.empty_blocks, desc.threads) =
            (BlockSizes::fixed(32 * KIB), EmptyBlockPolicy::NONE, 1);
    })
}

fn fragmented(rig: &Rig) -> Model<'_> {
    let mut model = Model::new(rig, &[], 3);
    (0..60).for_each(|_| model.allocate(None, &movable(4 * KIB)));
    model.thin_out(60);
    rig.trim();
    model
}

fn desc() -> DefragmentationDesc {
    DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(PassLimits::NONE.with_moves(4))
}

/// Between any two steps others ask for memory that the driver refuses them.
#[test]
fn whichever_call_fails_while_blocks_are_emptied_nothing_leaks() {
    const ERRORS: [DeviceError; 4] = [
        DeviceError::OutOfDeviceMemory,
        DeviceError::OutOfHostMemory,
        DeviceError::MapFailed,
        DeviceError::Lost,
    ];
    for error in ERRORS {
        for k in 1..12 {
            for for_good in [false, true] {
                let rig = rig();
                let mut model = fragmented(&rig);
                if for_good {
                    rig.device.fail_from(k, error);
                } else {
                    rig.device.fail_call(k, error);
                }
                let mut defragmentation = Defragmentation::new(&rig, None, desc()).unwrap();
                let mut refused = 0;
                loop {
                    match defragmentation.next_pass() {
                        NextPass::Moves(pass) => {
                            model.check_moves(&pass);
                            pass.moves().iter().for_each(copy);
                            // More than any block has, and less.
                            for size in [40 * KIB, 28 * KIB, 6 * KIB] {
                                refused += u32::from(!model.try_allocate(None, &mapped_in(size, HOST)));
                                if model.random.below(2) == 0 {
                                    model.free(model.live.len() - 1);
                                }
                            }
                            pass.end();
                            model.check();
                        }
                        NextPass::LimitReached => {}
                        NextPass::Done => break,
                    }
                }
                assert!(!for_good || k > 6 || refused > 0);
                drop(defragmentation);
                model.check_alone();
                rig.device.clear_faults();
                model.finish();
            }
        }
    }
}

#[test]
fn blocks_that_are_emptied_on_a_lost_device_are_given_back() {
    for lost_after in 0..5 {
        let rig = rig();
        let model = fragmented(&rig);
        let before = rig.statistics().blocks;
        let mut defragmentation = Defragmentation::new(&rig, None, desc()).unwrap();
        let planned = defragmentation.plan().blocks_freed();
        assert!(planned > 2);
        let mut passes = 0;
        loop {
            if passes == lost_after {
                rig.device.lose_device();
            }
            match defragmentation.next_pass() {
                NextPass::Moves(pass) => {
                    passes += 1;
                    pass.moves().iter().for_each(copy);
                    pass.end();
                    model.check();
                }
                NextPass::LimitReached => {}
                NextPass::Done => break,
            }
        }
        assert_eq!(defragmentation.statistics().blocks_emptied, planned);
        drop(defragmentation);
        assert_eq!(model.check_alone().blocks, before - planned);
        model.finish();
    }
}
