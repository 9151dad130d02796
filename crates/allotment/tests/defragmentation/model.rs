//! A second, naive picture of what is allocated, with all its bytes, that a defragmentation is held against.

use std::collections::{BTreeSet, HashMap};

use allotment::device::simulated::SimulatedGpu;
use allotment::device::{MemoryHandle, MemoryTypeIndex};
use allotment::memory::defragmentation::{Defragmentation, Move, NextPass, Pass};
use allotment::memory::reports::Statistics;
use allotment::memory::{AccessError, AllocationId, Movability};
use allotment::{Allocation, Pool};

use crate::bytes::{assert_same, pattern};
use crate::gains::Random;
use crate::rig::{AllocateWanted as _, Rig, Wanted, aligned, mapped_in};

/// Coherent host memory of [`DISCRETE`](crate::rig::DISCRETE).
pub(crate) const HOST: MemoryTypeIndex = MemoryTypeIndex(1);

/// A live allocation and its bytes.
pub(crate) struct Unique {
    pub(crate) token: Allocation,
    pub(crate) pool: Option<usize>,
    pub(crate) desc: Wanted,
    pub(crate) bytes: Vec<u8>,
    pub(crate) maps: u32,
    /// In which order they were made.
    pub(crate) serial: u32,
}

/// The live allocations.
pub(crate) struct Model<'a> {
    pub(crate) rig: &'a Rig,
    pub(crate) pools: &'a [Pool],
    pub(crate) live: Vec<Unique>,
    pub(crate) random: Random,
    serial: u32,
}

/// A movable buffer in host memory.
pub(crate) fn movable(size: u64) -> Wanted {
    mapped_in(size, HOST).with_movability(Movability::Copied)
}

pub(crate) fn movable_aligned(size: u64, alignment: u64) -> Wanted {
    let mut desc = movable(size);
    let memory_types = desc.requirements.memory_types;
    desc.requirements = aligned(size, alignment);
    desc.requirements.memory_types = memory_types;
    desc
}

/// Does what a queue would do for a move.
pub(crate) fn copy(one: &Move<SimulatedGpu>) {
    let (from, to) = (one.from(), one.to());
    let (source, target) = (from.mapped_ptr.unwrap(), to.mapped_ptr.unwrap());
    // SAFETY: both are mapped until the pass ends, nothing writes to the one and nothing else uses the other.
    unsafe { target.copy_from_nonoverlapping(source, one.size() as usize) };
}

impl<'a> Model<'a> {
    pub(crate) fn new(rig: &'a Rig, pools: &'a [Pool], seed: u64) -> Self {
        Self { rig, pools, live: Vec::new(), random: Random(seed), serial: 0 }
    }

    /// Allocates and fills it; false where there is no room.
    pub(crate) fn try_allocate(&mut self, pool: Option<usize>, desc: &Wanted) -> bool {
        let got = match pool {
            Some(at) => self.rig.allocate_wanted_in(&self.pools[at], desc),
            None => self.rig.allocate_wanted(desc),
        };
        let Ok(token) = got else { return false };
        let bytes = vec![0; desc.requirements.size as usize];
        self.serial += 1;
        self.live.push(Unique { token, pool, desc: desc.clone(), bytes, maps: 0, serial: self.serial });
        self.fill(self.live.len() - 1);
        true
    }

    pub(crate) fn allocate(&mut self, pool: Option<usize>, desc: &Wanted) {
        assert!(self.try_allocate(pool, desc), "{desc:?}");
    }

    /// Other bytes for an allocation. Refused where it is being moved.
    pub(crate) fn fill(&mut self, at: usize) {
        let seed = self.random.below(1 << 32);
        let held = &mut self.live[at];
        let bytes = pattern(seed, held.bytes.len() as u64);
        match self.rig.write(&held.token, 0, &bytes) {
            Ok(()) => held.bytes = bytes,
            Err(AccessError::Moving { .. }) => assert!(self.rig.info(&held.token).unwrap().moving),
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn free(&mut self, at: usize) {
        let held = self.live.swap_remove(at);
        self.rig.free(held.token).unwrap();
    }

    /// Frees some.
    pub(crate) fn free_where(&mut self, gone: impl Fn(&Unique) -> bool) {
        for at in (0..self.live.len()).rev() {
            if gone(&self.live[at]) {
                self.free(at);
            }
        }
    }

    /// Adds an allocation that was made for the model, and fills it.
    pub(crate) fn adopt(&mut self, pool: Option<usize>, desc: &Wanted, token: Allocation) {
        let bytes = vec![0; desc.requirements.size as usize];
        self.serial += 1;
        self.live.push(Unique { token, pool, desc: desc.clone(), bytes, maps: 0, serial: self.serial });
        self.fill(self.live.len() - 1);
    }

    /// Frees this number of a hundred.
    pub(crate) fn thin_out(&mut self, percent: u64) {
        for at in (0..self.live.len()).rev() {
            if self.random.below(100) < percent {
                self.free(at);
            }
        }
    }

    pub(crate) fn position(&self, id: AllocationId) -> Option<usize> {
        self.live.iter().position(|held| held.token.id() == id)
    }

    /// Checks the moves of a pass that empties blocks, before they are executed.
    pub(crate) fn check_moves(&self, pass: &Pass<'_, SimulatedGpu>) {
        for one in pass.moves() {
            assert_ne!(one.from().memory, one.to().memory, "what moves leaves its block");
        }
        self.check_places(pass);
    }

    /// Checks the moves of any pass before they are executed.
    pub(crate) fn check_places(&self, pass: &Pass<'_, SimulatedGpu>) {
        let mut taken = self.ranges();
        for one in pass.moves() {
            let held = &self.live[self.position(one.id()).expect("what is moved is live")];
            let info = self.rig.reports().info(one.id()).unwrap();
            let (from, to, now) = (one.from(), one.to(), self.rig.location(&held.token).unwrap());
            assert_eq!((from.memory, from.offset, from.size), (now.memory, now.offset, now.size));
            assert!(info.moving && held.maps == 0, "what is mapped stays");
            assert_eq!((to.size, one.size()), (now.size, held.bytes.len() as u64));
            assert_eq!((from.memory_type, to.memory_type), (now.memory_type, now.memory_type));
            assert_eq!((one.contents(), one.kind()), (held.desc.movability, held.desc.requirements.kind));
            assert!(held.desc.requirements.alignment.is_aligned(to.offset));
            assert!(held.desc.movability != Movability::Pinned);
            let written = self.rig.write(&held.token, 0, &[1]);
            assert!(matches!(written, Err(AccessError::Moving { .. })), "{written:?}");
            assert!(matches!(self.rig.map(&held.token), Err(AccessError::Moving { .. })));
            taken.push((to.memory.to_raw(), to.offset, to.offset + to.size));
        }
        check_apart(taken);
    }

    /// Ranges of memory objects that live allocations take.
    pub(crate) fn ranges(&self) -> Vec<(u64, u64, u64)> {
        let range = |held: &Unique| {
            let place = self.rig.location(&held.token).unwrap();
            (place.memory.to_raw(), place.offset, place.offset + place.size)
        };
        self.live.iter().map(range).collect()
    }

    /// Memory objects in which something is allocated.
    pub(crate) fn objects_in_use(&self) -> u32 {
        let objects: BTreeSet<_> = self.ranges().into_iter().map(|(memory, ..)| memory).collect();
        objects.len() as u32
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.live.iter().map(|held| held.bytes.len() as u64).sum()
    }

    /// All bytes of all allocations are theirs.
    pub(crate) fn check_bytes(&self) {
        for held in &self.live {
            let mut bytes = vec![0; held.bytes.len()];
            self.rig.read(&held.token, 0, &mut bytes).unwrap();
            assert_same(&bytes, &held.bytes, self.rig.info(&held.token));
        }
    }

    /// Checks what must hold while no pass is open.
    pub(crate) fn check(&self) -> Statistics {
        self.rig.check_invariants();
        check_apart(self.ranges());
        self.check_bytes();
        for held in &self.live {
            let info = self.rig.info(&held.token).unwrap();
            assert_eq!((info.size, info.maps, info.moving), (held.bytes.len() as u64, held.maps, false));
            assert!(
                held.desc.requirements.alignment.is_aligned(self.rig.location(&held.token).unwrap().offset)
            );
        }
        let statistics = self.rig.statistics();
        assert_eq!((statistics.blocks + statistics.dedicated, statistics.block_bytes), {
            let usage = self.rig.device.usage();
            (usage.memory_objects, usage.memory_bytes)
        });
        statistics
    }

    /// Checks that, where nothing but the model's is allocated either.
    pub(crate) fn check_alone(&self) -> Statistics {
        let statistics = self.check();
        assert_eq!(statistics.allocations as usize, self.live.len(), "no place stays reserved");
        assert_eq!(statistics.allocation_bytes, self.bytes());
        for (at, pool) in self.pools.iter().enumerate() {
            let of_pool = self.live.iter().filter(|held| held.pool == Some(at)).count();
            assert_eq!(self.rig.reports().pool_statistics(pool).unwrap().allocations as usize, of_pool);
        }
        statistics
    }

    /// After a pass: what was to be made anew is.
    pub(crate) fn make_anew(&mut self, recreated: &[AllocationId]) {
        for &id in recreated {
            if let Some(at) = self.position(id) {
                self.fill(at);
            }
        }
    }

    /// Runs all passes that there are, with copies, and checks after each.
    pub(crate) fn run(&mut self, defragmentation: &mut Defragmentation<'_, SimulatedGpu>) {
        let mut moved: HashMap<AllocationId, u32> = HashMap::new();
        loop {
            match defragmentation.next_pass() {
                NextPass::Moves(pass) => {
                    self.check_moves(&pass);
                    pass.moves().iter().for_each(copy);
                    pass.moves().iter().for_each(|one| *moved.entry(one.id()).or_default() += 1);
                    pass.end();
                    self.check();
                }
                NextPass::LimitReached => {}
                NextPass::Done => break,
            }
        }
        assert!(
            moved.values().all(|&times| times == 1),
            "nothing is moved twice where no other thread interferes"
        );
    }

    pub(crate) fn finish(mut self) {
        self.rig.free_all(self.live.drain(..).map(|held| held.token));
    }
}

/// No two allocations overlap.
fn check_apart(mut ranges: Vec<(u64, u64, u64)>) {
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        assert!(pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1, "{pair:?} overlap");
    }
}
