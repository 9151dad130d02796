//! The values that a chunk's records are differences from: the last values, and tables of the last blocks and shapes.
//!
//! Writer and reader keep the same context, and both begin each chunk with an empty one, so that a chunk can be read
//! without the chunks before it.

use allotment::Alignment;
use allotment::MemoryUsage;
use allotment::device::ResourceKind;
use allotment::events::{BlockId, Placement, TextId};

/// How many values a table holds; also the code of a value that is in no slot, and follows.
pub(super) const SLOTS: usize = 64;

/// The last values of a chunk.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) nanoseconds: u64,
    /// The number that the next frame's end has, if none is missing.
    pub(super) frame: u64,
    /// The upper halves of allocations, which are of pools, and the last lower half of each.
    pub(super) pools: Recent<Pool>,
    /// The slot of the last allocation's.
    pub(super) pool: usize,
    /// The last block that was written out, rather than as a slot.
    pub(super) block: u64,
    pub(super) name: u64,
    /// The last usage and budget of each heap, by the low four bits of its index.
    pub(super) budgets: [(u64, u64); 16],
    /// The last value of each queue, by the low four bits of its index.
    pub(super) submitted: [u64; 16],
    pub(super) completed: [u64; 16],
    pub(super) blocks: Recent<Place>,
    pub(super) shapes: Recent<Shape>,
}

impl Context {
    pub(super) fn new() -> Self {
        Self {
            nanoseconds: 0,
            frame: 0,
            pools: Recent::new(),
            pool: SLOTS,
            block: 0,
            name: 0,
            budgets: [(0, 0); 16],
            submitted: [0; 16],
            completed: [0; 16],
            blocks: Recent::new(),
            shapes: Recent::new(),
        }
    }
}

/// The upper half of some allocations' numbers, and the lower half of the last of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pool {
    pub(super) upper: u32,
    pub(super) lower: u32,
}

/// A block, and where the last allocation in it ended: the next one often begins there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) block: BlockId,
    pub(super) end: u64,
}

/// The values that many allocations have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) alignment: Alignment,
    pub(super) usage: Option<MemoryUsage>,
    pub(super) kind: ResourceKind,
    pub(super) placement: Placement,
    pub(super) flags: u8,
    pub(super) category: TextId,
}

/// The flags of a [`Shape`].
pub(super) mod flags {
    pub(in super::super) const SECOND_CHOICE: u8 = 1;
    pub(in super::super) const MOVABLE: u8 = 1 << 1;
    /// A name follows.
    pub(in super::super) const NAMED: u8 = 1 << 2;
    /// The program's number follows.
    pub(in super::super) const USER_DATA: u8 = 1 << 3;
    /// The occupied bytes differ from the requested ones, and follow.
    pub(in super::super) const PADDED: u8 = 1 << 4;
    /// The requested bytes are counted in units of the alignment.
    pub(in super::super) const SIZE_IN_UNITS: u8 = 1 << 5;
    /// The offset is counted in units of the alignment.
    pub(in super::super) const OFFSET_IN_UNITS: u8 = 1 << 6;
    pub(in super::super) const ALL: u8 = (1 << 7) - 1;
}

/// A table of the last [`SLOTS`] values that were written out. A new value replaces the oldest.
#[derive(Debug)]
pub(super) struct Recent<T> {
    values: Vec<T>,
    next: usize,
}

impl<T: Copy> Recent<T> {
    fn new() -> Self {
        Self { values: Vec::with_capacity(SLOTS), next: 0 }
    }

    /// Adds a value. Returns its slot.
    pub(super) fn add(&mut self, value: T) -> usize {
        let slot = self.next;
        if slot == self.values.len() {
            self.values.push(value);
        } else {
            self.values[slot] = value;
        }
        self.next = (slot + 1) % SLOTS;
        slot
    }

    #[inline]
    pub(super) fn get(&self, slot: usize) -> Option<&T> {
        self.values.get(slot)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut T> {
        self.values.get_mut(slot)
    }
}
