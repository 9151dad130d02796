//! Several movers of one allocator: sets of resources, each with its `Defragmenter`, and passes of the program. Each has
//! blocks of its own.

mod cancelled;
mod generated;
mod ideal;
mod left;
mod threads;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use allotment::device::simulated::SimulatedGpu;
use allotment::device::{BufferDesc, MemoryHandle as _};
use allotment::lifetime::{DeletionQueue, SubmissionTracker};
use allotment::memory::blocks::{BlockSizes, EmptyBlockPolicy, ManualTime, TimeSource};
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStatistics, DefragmentationStrategy, Defragmenter,
    DefragmenterDesc, NextPass, PassLimits, StepOutcome,
};
use allotment::memory::reports::LeakHandler;
use allotment::memory::{Buffer, Movability, NewBlocks, OwningAllocator};
use allotment::{AllocationOptions, Allocator, AllocatorDesc, MemoryUsage};

use crate::bytes::{assert_same, pattern};
use crate::model::copy;
use crate::rig::{DISCRETE, KIB, aligned, profile};

/// Sixteen of these fill a block.
const SIZE: u64 = 4 * KIB;
const BLOCK: u64 = 64 * KIB;

/// An allocation of one of the movers.
enum Thing {
    /// A resource of a `Defragmenter`.
    Buffer(Buffer<SimulatedGpu>),
    /// A buffer that passes of the program may move.
    Allocation(allotment::Allocation),
}

struct Held {
    /// The set, if it is of one.
    set: Option<usize>,
    thing: Thing,
    bytes: Vec<u8>,
}

/// An allocator, its `Defragmenter`s, and everything that is allocated with all its bytes.
struct World {
    time: ManualTime,
    tracker: SubmissionTracker,
    memory: OwningAllocator<SimulatedGpu>,
    sets: Vec<Defragmenter<SimulatedGpu>>,
    live: Vec<Held>,
    serial: u64,
}

fn options() -> AllocationOptions {
    MemoryUsage::Upload.with_name("shared").with_movability(Movability::Copied)
}

fn full() -> DefragmentationDesc {
    DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(PassLimits::NONE)
}

impl World {
    fn new(sets: &[DefragmentationStrategy]) -> Self {
        let device = SimulatedGpu::new(profile(DISCRETE));
        let tracker = SubmissionTracker::new(device.clone()).unwrap();
        let time = ManualTime::new();
        let mut desc = AllocatorDesc::default();
        (desc.block_sizes, desc.empty_blocks) = (BlockSizes::fixed(BLOCK), EmptyBlockPolicy::NONE);
        (desc.threads, desc.time) = (1, TimeSource::Manual(time.clone()));
        desc.on_leak = LeakHandler::Ignore;
        let allocator = Arc::new(Allocator::new(device, desc).unwrap());
        let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker)).unwrap();
        let of = |strategy: &DefragmentationStrategy| {
            let desc = DefragmenterDesc::new(DefragmentationDesc::new(*strategy));
            Defragmenter::new(&memory, desc).unwrap()
        };
        let sets = sets.iter().map(of).collect();
        Self { time, tracker, memory, sets, live: Vec::new(), serial: 0 }
    }

    fn allocator(&self) -> &Allocator<SimulatedGpu> {
        self.memory.allocator()
    }

    /// Creates a buffer of a set, or of the passes of the program, and fills it.
    fn create(&mut self, set: Option<usize>, size: u64) {
        self.serial += 1;
        let bytes = pattern(self.serial, size);
        let thing = match set {
            Some(set) => {
                let buffer = self.sets[set].create_buffer(&BufferDesc::new(size), &options()).unwrap();
                buffer.write(0, &bytes).unwrap();
                Thing::Buffer(buffer)
            }
            None => {
                let token = self.allocator().allocate(&aligned(size, 256), &options()).unwrap();
                self.allocator().write(&token, 0, &bytes).unwrap();
                Thing::Allocation(token)
            }
        };
        self.live.push(Held { set, thing, bytes });
    }

    fn free(&mut self, at: usize) {
        match self.live.swap_remove(at).thing {
            Thing::Buffer(buffer) => drop(buffer),
            Thing::Allocation(token) => self.allocator().free(token).unwrap(),
        }
    }

    /// Fills `blocks` blocks, the movers by turns, and keeps the first `kept` of each sixteen.
    fn interleave(&mut self, blocks: u64, movers: &[Option<usize>], kept: u64) {
        for at in 0..blocks * 16 {
            self.create(movers[at as usize % movers.len()], SIZE);
        }
        for at in (0..self.live.len()).rev().filter(|at| *at as u64 % 16 >= kept) {
            self.free(at);
        }
        self.settle();
        assert_eq!(u64::from(self.allocator().statistics().blocks), blocks);
    }

    /// Waits for the GPU, and destroys what it no longer uses.
    fn settle(&self) {
        self.tracker.wait_idle(Duration::from_secs(10)).unwrap();
        self.memory.deletion_queue().reclaim();
    }

    /// Does a step of a set, whose copies complete. Returns false once there is nothing to do.
    fn step(&self, set: usize, limits: PassLimits) -> bool {
        let outcome = self.sets[set].step(limits).unwrap().outcome;
        self.settle();
        self.allocator().check_invariants();
        outcome != StepOutcome::Idle
    }

    fn step_until_idle(&self, set: usize) {
        for _ in 0..10_000 {
            if !self.step(set, PassLimits::NONE) {
                return;
            }
        }
        panic!("there is no end");
    }

    /// Executes the next pass of a run. Returns false once there is nothing to do.
    fn pass(&self, run: &mut Defragmentation<'_, SimulatedGpu>) -> bool {
        match run.next_pass() {
            NextPass::Moves(pass) => {
                pass.moves().iter().for_each(copy);
                pass.end();
            }
            NextPass::LimitReached => {}
            NextPass::Done => return false,
        }
        self.allocator().check_invariants();
        true
    }

    /// Executes all passes of a run that there are.
    fn passes(&self) -> DefragmentationStatistics {
        let mut run = Defragmentation::new(self.allocator(), None, full()).unwrap();
        while self.pass(&mut run) {}
        run.statistics()
    }

    fn check_bytes(&self) {
        for Held { thing, bytes, .. } in &self.live {
            let mut found = vec![0; bytes.len()];
            match thing {
                Thing::Buffer(buffer) => buffer.read(0, &mut found).unwrap(),
                Thing::Allocation(token) => self.allocator().read(token, 0, &mut found).unwrap(),
            }
            assert_same(&found, bytes, "another allocation's bytes");
        }
    }

    /// Checks what must hold when no run is open, and all movers were told to stop.
    fn check_at_rest(&self) {
        self.settle();
        self.allocator().check_invariants();
        self.check_bytes();
        let statistics = self.allocator().statistics();
        assert_eq!(statistics.allocations as usize, self.live.len(), "no place stays reserved");
        assert_eq!(statistics.blocks, self.blocks_in_use(), "what is empty is given back");
        // Larger than any hole: the refusal says what is free in the blocks that are open.
        let request = allotment::Requirements::new(BLOCK);
        let never = options().with_new_blocks(NewBlocks::NeverAllocate);
        match self.allocator().allocate(&request, &never) {
            Err(allotment::AllocationError::WouldGrow { free, .. }) => {
                assert_eq!(free, statistics.free(), "no block stays closed");
            }
            refused => panic!("{refused:?}"),
        }
    }

    /// Blocks in which something is allocated.
    fn blocks_in_use(&self) -> u32 {
        self.blocks().into_iter().collect::<BTreeSet<_>>().len() as u32
    }

    /// Returns the block in which each allocation is.
    fn blocks(&self) -> Vec<u64> {
        self.live.iter().map(|held| self.block_of(held)).collect()
    }

    fn block_of(&self, held: &Held) -> u64 {
        match &held.thing {
            Thing::Buffer(buffer) => buffer.location().memory.to_raw(),
            Thing::Allocation(token) => self.allocator().location(token).unwrap().memory.to_raw(),
        }
    }

    /// Checks that no block has allocations of two movers.
    fn assert_blocks_of_their_own(&self) {
        let mut movers = BTreeMap::new();
        for held in &self.live {
            let first = *movers.entry(self.block_of(held)).or_insert(held.set);
            assert_eq!(first, held.set, "a block of two movers");
        }
    }

    /// Checks that each block of those in `before` was left by all allocations or by none.
    fn assert_whole_blocks_were_left(&self, before: &[u64]) {
        let mut left = BTreeMap::new();
        for (&before, now) in before.iter().zip(self.blocks()) {
            let moved = before != now;
            let all = *left.entry(before).or_insert(moved);
            assert_eq!(all, moved, "bytes were copied out of a block that stays");
        }
    }

    /// Returns the least number of blocks in which the allocations of each mover fit.
    fn ideal(&self) -> u64 {
        let mut bytes = BTreeMap::new();
        self.live.iter().for_each(|held| *bytes.entry(held.set).or_insert(0) += held.bytes.len() as u64);
        bytes.into_values().map(|bytes: u64| bytes.div_ceil(BLOCK)).sum()
    }

    fn assert_ideal(&self) {
        assert_eq!(u64::from(self.allocator().statistics().blocks), self.ideal());
        self.assert_blocks_of_their_own();
        self.check_bytes();
    }

    /// Returns the sums of all sets.
    fn sums(&self) -> DefragmentationStatistics {
        self.sets.iter().fold(DefragmentationStatistics::default(), |sum, set| sum + set.statistics())
    }

    /// Stops all sets, and frees everything.
    fn finish(mut self) {
        self.sets.iter().for_each(Defragmenter::stop);
        self.check_at_rest();
        (0..self.live.len()).rev().for_each(|at| self.free(at));
        self.settle();
        assert_eq!(self.allocator().statistics().allocations, 0);
        assert_eq!(self.allocator().statistics().blocks, 0);
    }
}

/// Copies no byte more than were in the blocks that became free.
fn assert_frugal(sums: DefragmentationStatistics, freed: u64, bytes: u64) {
    assert_eq!(u64::from(sums.blocks_emptied), freed, "each counts once: {sums:?}");
    assert_eq!((sums.bytes_moved, sums.blocks_kept, sums.ignored), (bytes, 0, 0), "{sums:?}");
}
