//! What an owner can do with the moves of a pass.

use allotment::device::simulated::SimulatedGpu;
use allotment::memory::defragmentation::Pass;
use allotment::memory::{AllocationId, Movability};

use crate::model::{Model, copy};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Act {
    Copied,
    Recreated,
    Ignored,
    Destroyed,
    Freed,
    Dropped,
    /// Each in turn.
    Mixed,
}

pub(crate) const ACTS: [Act; 7] =
    [Act::Copied, Act::Recreated, Act::Ignored, Act::Destroyed, Act::Freed, Act::Dropped, Act::Mixed];

impl Act {
    /// Returns the movability of the allocation of this number.
    pub(crate) fn movability(self, number: u32) -> Movability {
        let recreated = self == Act::Recreated || self == Act::Mixed && number % 3 == 0;
        if recreated { Movability::Recreated } else { Movability::Copied }
    }

    /// Everything moves.
    pub(crate) fn moves_all(self) -> bool {
        matches!(self, Act::Copied | Act::Recreated)
    }
}

impl Model<'_> {
    /// Does it with each move, and ends the pass or drops it. Returns the number of allocations that were freed.
    pub(crate) fn act(&mut self, mut pass: Pass<'_, SimulatedGpu>, all: Act) -> u32 {
        let (mut recreated, mut freed): (Vec<AllocationId>, _) = (Vec::new(), 0);
        for at in 0..pass.moves().len() {
            let one = &pass.moves()[at];
            let id = one.id();
            let act = if all == Act::Mixed { ACTS[self.random.below(5) as usize] } else { all };
            let held = self.position(id).unwrap();
            match act {
                Act::Ignored => pass.ignore(at),
                Act::Destroyed => {
                    let token = self.live.swap_remove(held).token;
                    pass.destroy(at, token).unwrap();
                    freed += 1;
                }
                Act::Freed => {
                    self.free(held);
                    freed += 1;
                }
                _ if one.contents() == Movability::Copied => copy(one),
                _ => recreated.push(id),
            }
            self.check_bytes();
            self.rig.check_invariants();
        }
        if all == Act::Dropped || all == Act::Mixed && self.random.below(8) == 0 {
            drop(pass);
        } else {
            pass.end();
        }
        self.make_anew(&recreated);
        self.check();
        freed
    }
}
