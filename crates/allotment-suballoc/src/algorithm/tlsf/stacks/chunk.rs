//! Eight entries of a stack, and the choice of one of them.

use super::super::width::{DEPTH, Width};
use crate::Alignment;

/// A free region, as its entry contains it.
#[derive(Clone, Copy, Debug)]
pub(in crate::algorithm::tlsf) struct Listed {
    pub(in crate::algorithm::tlsf) offset: u64,
    pub(in crate::algorithm::tlsf) size: u64,
    pub(in crate::algorithm::tlsf) node: u32,
    /// The generation of the next range of its node.
    pub(in crate::algorithm::tlsf) generation: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk<W> {
    // Side by side, so that the sizes of a chunk are half of a cache line (a whole one with wide numbers), and a search reads
    // nothing else before it has found its entry.
    pub(super) sizes: [W; DEPTH],
    pub(super) offsets: [W; DEPTH],
    pub(super) nodes: [u32; DEPTH],
    pub(super) generations: [u32; DEPTH],
    /// The next lower chunk of the class, or [`NONE`]. Of a vacant chunk: the next vacant one.
    pub(super) below: u32,
    pub(super) class: u32,
    /// The number of chunks below this one.
    pub(super) height: u32,
    /// What is in the places without an entry.
    pub(super) floor: W,
}

impl<W: Width> Chunk<W> {
    /// Returns the position of the entry that holds `size` units most closely; of the smallest of all where `size` is below
    /// the class.
    #[inline(always)]
    pub(super) fn closest(&self, size: u64) -> Option<usize> {
        // Not less than the class, or places without an entry would pass.
        let least = size.max(self.floor.wide() + 1);
        W::closest(&self.sizes, W::narrow(least))
    }

    /// Returns the position of the entry that holds an aligned range of `size` units most closely.
    #[inline(always)]
    pub(super) fn closest_aligned(&self, size: u64, alignment: Alignment) -> Option<usize> {
        let least = size.max(self.floor.wide() + 1);
        // Where the size is below the class, the range may leave what the class is larger.
        W::closest_aligned(&self.sizes, &self.offsets, (W::narrow(least), W::narrow(size)), alignment)
    }

    #[inline(always)]
    pub(super) fn holds(&self, at: usize, size: u64, alignment: Alignment) -> bool {
        let gap = self.offsets[at].wide().wrapping_neg() & (alignment.get() - 1);
        gap + size <= self.sizes[at].wide()
    }

    #[inline(always)]
    pub(super) fn get(&self, at: usize) -> Listed {
        Listed {
            offset: self.offsets[at].wide(),
            size: self.sizes[at].wide(),
            node: self.nodes[at],
            generation: self.generations[at],
        }
    }

    #[inline(always)]
    pub(super) fn set(&mut self, at: usize, region: Listed) {
        self.sizes[at] = W::narrow(region.size);
        self.offsets[at] = W::narrow(region.offset);
        self.nodes[at] = region.node;
        self.generations[at] = region.generation;
    }
}
