//! The algorithms over the [`Chain`]: buddy, with what an algorithm would share with it.

use super::{Place, Ranges, Taken};
use crate::chain::{Chain, NONE, Tally};
use crate::read_ahead::Reach;
use crate::{AllocateError, GrowError, Request};

/// The operations of an algorithm on the chain. An algorithm keeps an index over the chain's free regions and moves
/// regions between free, used and padding. See [`Ranges`] for what each operation does.
pub(crate) trait Policy: Sized {
    /// Creates the index over the chain's one free region.
    fn new(chain: &mut Chain) -> Self;
    fn allocate(&mut self, chain: &mut Chain, request: &Request) -> Result<Option<u32>, AllocateError>;
    fn find(&self, chain: &Chain, request: &Request) -> Option<u32>;
    fn find_below(&self, chain: &Chain, request: &Request, limit: u64) -> Option<u32>;
    fn take(&mut self, chain: &mut Chain, index: u32, request: &Request) -> u32;
    fn take_at(&mut self, chain: &mut Chain, index: u32, offset: u64, size: u64) -> Option<u32>;
    fn free(&mut self, chain: &mut Chain, index: u32);
    fn resize(&mut self, chain: &mut Chain, index: u32, size: u64) -> Result<(), u64>;
    fn grow(&mut self, chain: &mut Chain, size: u64) -> Result<(), GrowError>;
    fn largest_free(&self, chain: &Chain) -> u64;
    fn largest_free_at_most(&self, chain: &Chain) -> u64;
    fn check_invariants(&self, chain: &Chain);
}

/// A chain with the index of an algorithm.
#[derive(Clone, Debug)]
pub(crate) struct Chained<P> {
    chain: Chain,
    policy: P,
}

impl<P: Policy> Chained<P> {
    pub(crate) fn new(size: u64) -> Self {
        let mut chain = Chain::new(size);
        let policy = P::new(&mut chain);
        Self { chain, policy }
    }

    fn taken(&self, index: u32) -> Taken {
        let node = self.chain.node(index);
        Taken { index, serial: node.serial(), offset: node.offset }
    }
}

impl<P: Policy> Ranges for Chained<P> {
    fn allocate(&mut self, request: &Request) -> Result<Option<Taken>, AllocateError> {
        let index = self.policy.allocate(&mut self.chain, request)?;
        Ok(index.map(|index| self.taken(index)))
    }

    fn room_for(&self, request: &Request) -> Option<u64> {
        self.policy.find(&self.chain, request).map(|found| self.place(found).size)
    }

    fn find_below(&mut self, request: &Request, limit: u64) -> Option<u32> {
        self.policy.find_below(&self.chain, request, limit)
    }

    fn take(&mut self, index: u32, request: &Request) -> Taken {
        let index = self.policy.take(&mut self.chain, index, request);
        self.taken(index)
    }

    fn take_at(&mut self, index: u32, offset: u64, size: u64) -> Option<Taken> {
        let index = self.policy.take_at(&mut self.chain, index, offset, size)?;
        Some(self.taken(index))
    }

    fn free(&mut self, index: u32) {
        self.policy.free(&mut self.chain, index);
    }

    fn resize(&mut self, index: u32, size: u64) -> Result<(), u64> {
        self.policy.resize(&mut self.chain, index, size)
    }

    fn grow(&mut self, more: u64) -> Result<(), GrowError> {
        self.policy.grow(&mut self.chain, more)
    }

    fn clear(&mut self) -> bool {
        self.chain.clear();
        self.policy = P::new(&mut self.chain);
        true
    }

    fn largest_free(&self) -> u64 {
        self.policy.largest_free(&self.chain)
    }

    fn largest_free_at_most(&self) -> u64 {
        self.policy.largest_free_at_most(&self.chain)
    }

    fn used(&self, index: u32, serial: u64) -> bool {
        self.chain.used(index, serial).is_some()
    }

    fn serial(&self, index: u32) -> u64 {
        self.chain.node(index).serial()
    }

    fn place(&self, index: u32) -> Place {
        let node = self.chain.node(index);
        let (offset, size, before, after) = (node.offset, node.size, node.before, node.after);
        Place { offset, size, state: node.state(), before, after }
    }

    fn first(&self) -> u32 {
        self.chain.first()
    }

    fn last(&self) -> u32 {
        self.chain.last()
    }

    fn tally(&self) -> Tally {
        *self.chain.tally()
    }

    fn size(&self) -> u64 {
        self.chain.size()
    }

    fn capacity(&self) -> usize {
        self.chain.capacity()
    }

    fn is_full(&self) -> bool {
        self.chain.is_full()
    }

    fn reserve(&mut self, regions: usize) {
        // The padding behind a range is a node as well.
        self.chain.reserve(2 * regions);
    }

    fn shrink(&mut self) {
        if self.chain.tally().used_count == 0 {
            self.clear();
        }
        self.chain.shrink();
    }

    fn read_around(&self, index: u32, reach: Reach) -> u64 {
        let node = self.chain.node(index);
        let neighbours = [node.before, node.after].into_iter().filter(|&index| index != NONE);
        let neighbours = neighbours.map(|index| self.chain.node(index));
        match reach {
            Reach::Range => node.size,
            Reach::Neighbours => neighbours.fold(0, |sum, neighbour| sum ^ neighbour.size),
            Reach::Lists => {
                let listed = neighbours.filter(|neighbour| neighbour.is_free());
                let beside = listed.flat_map(|neighbour| neighbour.link).filter(|&index| index != NONE);
                beside.fold(0, |sum, index| sum ^ self.chain.node(index).size)
            }
        }
    }

    fn check_invariants(&self) {
        self.chain.check_invariants();
        self.policy.check_invariants(&self.chain);
    }
}
