//! Two-level segregated fit.
//!
//! Each free region is in the stack of its size class ([`SizeClasses`](crate::SizeClasses)), and a two-level bitmap marks the classes
//! that have any ([`Stacks`]), so two scans of a word find the first class that is sure to fit. A freed region is merged
//! with its free neighbours at once, so no two free regions ever touch.
//!
//! Where this differs from the published algorithm (Masmano et al., "TLSF: a new dynamic memory
//! allocator for real-time systems", 2004), and why:
//!
//! - **A request's own class is searched first.** The original rounds the request up to the next class
//!   and so never finds a region of exactly the right size. Looking at a bounded number of regions of the
//!   own class recovers nearly all of best fit: 7 % less space on mixed GPU-like traffic.
//! - **Stacks of entries instead of lists through the regions.** See [`stacks`].
//! - **The free region at the end of the block is in no class.** It is the last one to be used, so a search need not find
//!   it, and a block that is filled for the first time, or from its end, touches no stack. VMA calls it the null block.
//! - **Alignment is checked, not added.** A search for `size + alignment - 1` passes over regions that
//!   are aligned already. The padded search is only the fallback that is sure to fit.
//! - **A gap before an aligned range stays a free region.** Later requests can use it.
//!
//! # An example
//!
//! A block of 1,024 units in which ranges `A`, `B` and `C` are allocated, and a request for 100 units at alignment 64:
//!
//! ```text
//!               0       40                        200       300               900        1024
//!   before      │   A   │░░░░░░░ free, 160 ░░░░░░░│    B    │░░░ free, 600 ░░│░░░░ C ░░░░│
//!   classes     104: [40..200]   165: [300..900]
//!
//!               0       40      64            164 200       300               900        1024
//!   allocated   │   A   │░░ 24 ░│  the request  │░36░│  B   │░░░ free, 600 ░░│░░░░ C ░░░░│
//!   classes     24: [40..64]   36: [164..200]   165: [300..900]
//! ```
//!
//! 1. The request has class 82 (100 and 101 units). The bitmap says that the first class from there on that
//!    has regions is 104 (160 to 163 units).
//! 2. The first multiple of 64 in 40..200 is 64, and 64 + 100 is at most 200, so the region fits. (For 137 units it would
//!    not. Then `LeastTime` asks for a class that holds 137 + 63 units anywhere, and `Balanced` looks at some regions first.)
//! 3. The region leaves class 104. Splitting it at 64 leaves 24 units in front, splitting it at 164 leaves 36
//!    behind. Both remain free, in classes 24 and 36; what is between them is marked as used.
//!
//! Freeing the range merges in the opposite direction: 64..164 becomes free, its neighbour 40..64 leaves class 24 and is
//! absorbed, then 164..200 from class 36. The result, 40..200, has 160 units and enters class 104. `A` and `B` are used,
//! so the merge ends there.
//!
//! # Cost
//!
//! With `Balanced` and `LeastTime`, and without an alignment above that of all offsets, every request takes O(1), served or
//! refused: a look at up to 136 regions of its own class, where the first eight do not fit. With such an alignment, up to 64 regions
//! are looked at, then one is taken that surely fits, then the last one; where there is none, 128 more are looked at, and
//! then an index by address ([`by_address`]) finds the lowest in O(log n). `LeastMemory` looks at up to 136 regions of each
//! class, and at 544 before it asks that index. `LowestOffset` and a search below a limit ask it first, where there are more than
//! 128 regions. It is made as far as searches look, in O(regions).
//!
//! The classes take 6 KiB in a block of 256 MiB, 11 KiB in one of 2^48 units, and 144 bytes more (216 with wide numbers) for each
//! that ever had a region; all of it from the first free region on that is not at the end.

mod by_address;
mod nodes;
mod ranges;
mod search;
mod stacks;
#[cfg(test)]
mod tests;
mod width;

use super::Taken;
use crate::algorithm::NONE;
use crate::{Alignment, FitStrategy, Request, StackSide};
use by_address::{ByAddress, Change};
use nodes::{END, FIRST_GENERATION, LAST, Node, Nodes, USED};
use search::Search;
use stacks::{Choice, Found, Listed, Stacks};
pub(crate) use width::Width;

/// The last number of a block's epochs. Few in this crate's own tests and in fuzzers, so that blocks come to it there.
const LAST_EPOCH: u32 = if cfg!(any(test, fuzzing)) { 60 } else { u32::MAX };

/// Invariants: every free region but the one at the end has an entry in the stacks, and no two free regions are
/// neighbours.
#[derive(Clone, Debug)]
pub(crate) struct Tlsf<W> {
    nodes: Nodes<W>,
    stacks: Stacks<W>,
    by_address: ByAddress,
    /// The node of the free region at the end of the block, or [`END`] where the last region is used.
    last: u32,
    /// The generation of that node's next range.
    last_generation: u32,
    size: u64,
    used: u64,
    used_count: u32,
    /// Part of each handle: so the handles from before the block was cleared match none after.
    epoch: u32,
}

impl<W: Width> Tlsf<W> {
    pub(crate) fn new(size: u64) -> Self {
        Self {
            nodes: Nodes::new(size),
            stacks: Stacks::new(size),
            by_address: ByAddress::default(),
            last: 1,
            last_generation: FIRST_GENERATION,
            size,
            used: 0,
            used_count: 0,
            epoch: 0,
        }
    }

    /// Returns the same block with numbers of another width, still of its size.
    pub(crate) fn with_width<V: Width>(self, size: u64) -> Tlsf<V> {
        let mut nodes = self.nodes.with_width();
        let stacks = self.stacks.grown(&mut nodes, size);
        let Self { last, last_generation, size, used, used_count, epoch, .. } = self;
        // Indices by address are not carried over: the next search that needs one makes it.
        let by_address = ByAddress::default();
        Tlsf { nodes, stacks, by_address, last, last_generation, size, used, used_count, epoch }
    }

    /// Lists a free region that touches no other, and returns its tag. The caller writes the tag.
    #[inline(always)]
    #[must_use]
    fn insert(&mut self, region: Listed) -> u32 {
        if self.by_address.is_used() {
            self.note(region, true);
        }
        self.stacks.push(&mut self.nodes, region)
    }

    /// Takes a free region, which is not the last, out of its stack. Returns its size and the generation of its next range.
    #[inline(always)]
    fn remove(&mut self, node: u32) -> (u64, u32) {
        let slot = self.nodes.at(node).tag;
        let removed = self.stacks.remove(&mut self.nodes, slot);
        if self.by_address.is_used() {
            self.note(removed, false);
        }
        (removed.size, removed.generation)
    }

    /// Notes that a listed region entered its stack, or left it.
    #[cold]
    fn note(&mut self, region: Listed, entered: bool) {
        let Listed { node, offset, size, .. } = region;
        self.by_address.note(Change { node, offset, size, entered });
    }

    /// Makes `node`, which ends where the block ends, the last free region.
    #[inline]
    fn set_last(&mut self, node: u32, generation: u32) {
        self.nodes.at_mut(node).tag = LAST;
        self.last = node;
        self.last_generation = generation;
        self.note_last(true);
    }

    /// Notes that the last free region has another size from here on, or had until here.
    #[inline]
    fn note_last(&mut self, entered: bool) {
        if self.by_address.is_used() && self.last != END {
            let (node, offset) = (self.last, self.nodes.offset(self.last));
            self.by_address.note(Change { node, offset, size: self.size - offset, entered });
        }
    }

    #[inline]
    fn settle(&mut self) {
        if self.by_address.is_used() {
            self.by_address.settle(&self.nodes);
        }
    }

    /// Makes the used region `index` free: merges it with its free neighbours and lists the result.
    #[inline(always)]
    fn release(&mut self, index: u32) {
        // R is the range, F and G are free neighbours, and * marks the node that is kept; the others become vacant.
        //
        //   │ used │ R* │ used │   ──►  │ used │░ R ░│ used │        R enters a stack
        //   │░ F* ░│ R  │ used │   ──►  │░░ F + R ░░│ used │        F leaves its stack, the sum enters one
        //   │ used │ R* │░ G ░░│   ──►  │ used │░░ R + G ░░│        G leaves its stack
        //   │░ F* ░│ R  │░ G ░░│   ──►  │░░░ F + R + G ░░░░│        both leave
        //   │  …   │ R  │░last*│   ──►  │  …  │░ R + last ░│ END    the last region is in no stack: `join_last`
        //   │  …   │ R* │ END      ──►  │  …  │░░░░ R ░░░░░│ END    R becomes the last region
        //
        // The handle is stale in each case: the generation is one higher, also where the node becomes vacant.
        let (index, generation) = self.nodes.next_generation(index);
        let nodes = self.nodes.all_mut();
        let node = nodes[index as usize];
        // Copies, which are old from the first removal on: that moves another entry of the class, perhaps the one of the other
        // neighbour, whose tag changes. So `remove` reads the tag again. `LAST` never changes so, being in no stack.
        let (before, after) = (nodes[node.before as usize], nodes[node.after as usize]);
        let mut size = after.offset.wide() - node.offset.wide();
        self.used -= size;
        self.used_count -= 1;
        // One step in each direction is enough: no two free regions touched before, so the region beyond a free
        // neighbour is used. Each neighbour leaves its stack before its size, and so its class, is lost in the merge.
        let mut merged = (index, generation);
        let (mut offset, mut behind) = (node.offset, node.after);
        // What leaves is noted before what enters: an index by address then replaces one entry where it would remove one and
        // insert another. In the other order two entries would begin at the offset of F meanwhile.
        if before.is_free() {
            let (size_before, generation_before) = self.remove(node.before);
            size += size_before;
            self.nodes.vacate(index, generation);
            merged = (node.before, generation_before);
            offset = before.offset;
        }
        if after.is_free() {
            if after.tag == LAST {
                return self.join_last(merged, if before.is_free() { before } else { node });
            }
            let (size_after, generation_after) = self.remove(node.after);
            size += size_after;
            self.nodes.vacate(node.after, generation_after);
            behind = after.after;
        }
        let (index, generation) = merged;
        if behind == END {
            self.nodes.at_mut(index).after = END;
            self.nodes.at_mut(END).before = index;
            return self.set_last(index, generation);
        }
        let tag = self.insert(Listed { offset: offset.wide(), size, node: index, generation });
        let nodes = self.nodes.all_mut();
        let node = &mut nodes[index as usize];
        node.after = behind;
        node.tag = tag;
        nodes[behind as usize].before = index;
    }

    /// Adds the region before the last free one to it. `node` is what that region's node contained.
    #[inline]
    fn join_last(&mut self, (index, generation): (u32, u32), node: Node<W>) {
        // The last region keeps its node, since `last` names it and its generation is kept beside it and not in a stack:
        //   │ before │ R │░░ last* ░░│ END   ──►   │ before │░░░░ last* ░░░░│ END
        self.note_last(false);
        let last = self.nodes.at_mut(self.last);
        last.offset = node.offset;
        last.before = node.before;
        self.nodes.at_mut(node.before).after = self.last;
        self.nodes.vacate(index, generation);
        self.note_last(true);
    }

    /// Marks `size` units of a free region as used, from where `at` says, given its offset; what is before and after
    /// them remains free.
    #[inline]
    fn take_listed(&mut self, found: Found, at: impl FnOnce(u64) -> u64, size: u64) -> Taken {
        let removed = self.stacks.remove_found(&mut self.nodes, found);
        if self.by_address.is_used() {
            self.note(removed, false);
        }
        self.take_removed(removed, at, size)
    }

    /// Marks the first `size` units of a free region that left its stack as used.
    #[inline(always)]
    fn take_front(&mut self, removed: Listed, size: u64) -> Taken {
        //   │░░░░ F* ░░░░│   ──►   │ range* │░ rest ░│
        // The range takes the node of the region, and the rest a new one: nothing before the region has to be linked again.
        let Listed { offset, size: whole, node: index, generation } = removed;
        self.used += size;
        self.used_count += 1;
        self.nodes.at_mut(index).tag = USED | generation;
        if whole != size {
            // It cannot touch another free region, since the region that is split did not.
            self.split(index, offset + size, whole - size);
        }
        self.taken((index, generation), offset)
    }

    /// Marks `size` units of a free region that left its stack as used, from where `at` says.
    #[inline]
    fn take_removed(&mut self, removed: Listed, at: impl FnOnce(u64) -> u64, size: u64) -> Taken {
        // Where the range begins, the request says by its alignment, or the caller by an offset; from here on both are one.
        let Listed { offset: start, size: whole, node: index, generation } = removed;
        let offset = at(start);
        let gap = offset - start;
        if gap == 0 {
            return self.take_front(removed, size);
        }
        self.used += size;
        self.used_count += 1;
        let rest = whole - gap - size;
        let range = self.take_behind_gap((index, generation), (start, gap), (offset, size), rest);
        self.taken(range, offset)
    }

    /// Allocates from the top chunk of one class by `LeastTime`, or where regions may be aligned wrongly.
    #[inline(never)]
    fn allocate_almost_quickly(&mut self, request: &Request) -> Option<Taken> {
        let Request { size, alignment, strategy, .. } = *request;
        // The simple idea: a request nearly always finds its region in the top chunk of one class, so only that is looked at
        // here, and everything else is left to the search. Which class it is, is all that differs between the two.
        let (class, choice) = match strategy {
            FitStrategy::Balanced => (self.stacks.first_class(size), Choice::ClosestAligned(alignment)),
            FitStrategy::LeastTime => (self.stacks.first_sure_class(size), Choice::Top(alignment)),
            FitStrategy::LeastMemory | FitStrategy::LowestOffset => return None,
        };
        let Some(class) = class else {
            // `LeastTime` has passed over the size's own class.
            let has_none = strategy == FitStrategy::Balanced || self.stacks.first_class(size).is_none();
            let last = self.last_if_fits(size, alignment).filter(|_| has_none)?;
            let offset = alignment.align_up(self.nodes.offset(last));
            let range = self.take_from_last(offset, size);
            return Some(self.taken(range, offset));
        };
        let removed = self.stacks.take_of_top(&mut self.nodes, class, size, choice)?;
        Some(self.take_removed(removed, |offset| alignment.align_up(offset), size))
    }

    /// Does the same with the free region `index`, which may be the last one.
    #[inline]
    fn take_from(&mut self, index: u32, at: impl FnOnce(u64) -> u64, size: u64) -> Taken {
        // The last region has no entry in the stacks, so its tag must not be taken for a slot.
        let node = self.nodes.at(index);
        if node.tag == LAST {
            let offset = at(node.offset.wide());
            let range = self.take_from_last(offset, size);
            return self.taken(range, offset);
        }
        self.take_listed(self.stacks.found(node.tag), at, size)
    }

    #[inline(always)]
    fn taken(&self, (index, generation): (u32, u32), offset: u64) -> Taken {
        Taken { index, serial: self.serial_of(generation), offset }
    }

    /// Makes the units from `offset` on of the used region `index` a free region behind it.
    #[inline(always)]
    fn split(&mut self, index: u32, offset: u64, rest: u64) {
        self.note_offset(offset);
        let (new, generation) = self.nodes.take();
        let tag = self.insert(Listed { offset, size: rest, node: new, generation });
        self.link(index, new, Node { offset: W::narrow(offset), before: index, after: END, tag });
    }

    /// Notes the offset of a region.
    #[inline(always)]
    fn note_offset(&mut self, offset: u64) {
        // Called wherever a region begins at a new offset: a split, a shorter range, a range behind a gap. A place that is
        // forgotten lets a search take alignment for granted; `check_invariants` compares the grain with every region.
        if offset & self.stacks.grain() != 0 {
            self.stacks.refine(offset);
        }
    }

    /// Returns `true` if every region is aligned.
    #[inline(always)]
    fn is_met(&self, alignment: Alignment) -> bool {
        alignment.get() - 1 <= self.stacks.grain()
    }

    /// Returns the alignment that a search has to look at: [`ONE`](Alignment::ONE) where every region is aligned.
    fn unmet(&self, alignment: Alignment) -> Alignment {
        if self.is_met(alignment) { Alignment::ONE } else { alignment }
    }

    /// Puts `node` behind the region `index`, as the node `new`.
    #[inline(always)]
    fn link(&mut self, index: u32, new: u32, node: Node<W>) {
        let nodes = self.nodes.all_mut();
        let after = core::mem::replace(&mut nodes[index as usize].after, new);
        nodes[new as usize] = Node { before: index, after, ..node };
        nodes[after as usize].before = new;
    }

    /// Takes a range out of the middle of a region that left its stack: the region keeps its node for the gap in front.
    /// Returns the node of the range and its generation. (In registers: a caller that had to keep a place in memory for a
    /// larger result would use it for the common result as well.)
    #[cold]
    fn take_behind_gap(
        &mut self,
        (index, generation): (u32, u32),
        (start, gap): (u64, u64),
        (offset, size): (u64, u64),
        rest: u64,
    ) -> (u32, u32) {
        //   │░░░░░░░░ F* ░░░░░░░░░░│   ──►   │░ gap* ░│ range │░ rest ░│
        // The gap begins where the region began, so it keeps the node. It stays free for later requests, where other
        // allocators count it as lost until the range is freed.
        self.note_offset(offset);
        let (new, new_generation) = self.nodes.take();
        let tag = USED | new_generation;
        self.link(index, new, Node { offset: W::narrow(offset), before: index, after: END, tag });
        let tag = self.insert(Listed { offset: start, size: gap, node: index, generation });
        self.nodes.at_mut(index).tag = tag;
        if rest != 0 {
            self.split(new, offset + size, rest);
        }
        (new, new_generation)
    }

    /// Takes a range out of the last free region. The new node is that of the range, in front, so the last region keeps
    /// its own. Returns the node of the range and its generation.
    #[inline]
    fn take_from_last(&mut self, offset: u64, size: u64) -> (u32, u32) {
        //   │ before │░░░░░░░ last* ░░░░░░░│ END   ──►   │ before │░ gap ░│ range │░ last* ░│ END
        // A block that is filled for the first time does only this: no stack is touched as long as nothing is freed.
        self.used += size;
        self.used_count += 1;
        self.note_offset(offset);
        self.note_last(false);
        let last = self.last;
        let node = self.nodes.at(last);
        let gap = offset - node.offset.wide();
        let mut before = node.before;
        if gap != 0 {
            let (front, generation) = self.nodes.take();
            let offset = node.offset.wide();
            let tag = self.insert(Listed { offset, size: gap, node: front, generation });
            self.link(before, front, Node { tag, ..node });
            before = front;
        }
        if offset + size == self.size {
            // Nothing is left, and an empty region would break an invariant: the range takes the node, and there is no last
            // free region until something at the end is freed.
            let generation = self.last_generation;
            let node = self.nodes.at_mut(last);
            node.tag = USED | generation;
            node.offset = W::narrow(offset);
            self.last = END;
            return (last, generation);
        }
        let (new, generation) = self.nodes.take();
        self.link(before, new, Node { offset: W::narrow(offset), tag: USED | generation, ..node });
        self.nodes.at_mut(last).offset = W::narrow(offset + size);
        self.note_offset(offset + size);
        self.note_last(true);
        (new, generation)
    }

    /// Cuts a used region short at `end`, and makes what is behind free.
    fn shorten(&mut self, index: u32, end: u64) {
        let node = self.nodes.at(index);
        let rest = self.nodes.end(index) - end;
        // What is cut off becomes free, by what is behind the range:
        //   │ range │░ last* ░│ END   ──►   │ rang │░░ last* ░│ END     the last region begins earlier
        //   │ range │ END             ──►   │ rang │░│ END              a new last region
        //   │ range │░ G* ░░│         ──►   │ rang │░░ G* ░░│           G leaves its stack and enters that of its new size
        //   │ range │ used │          ──►   │ rang │░│ used │           a new region
        // The handle of the range stays valid, so the range keeps its node.
        self.used -= rest;
        self.note_offset(end);
        if node.after == self.last && node.after != END {
            self.note_last(false);
            self.nodes.at_mut(node.after).offset = W::narrow(end);
            self.note_last(true);
        } else if node.after == END {
            let (new, generation) = self.nodes.take();
            *self.nodes.at_mut(new) = Node { offset: W::narrow(end), before: index, after: END, tag: LAST };
            self.nodes.at_mut(index).after = new;
            self.nodes.at_mut(END).before = new;
            self.set_last(new, generation);
        } else if self.nodes.at(node.after).is_free() {
            let (size, generation) = self.remove(node.after);
            let tag = self.insert(Listed { offset: end, size: size + rest, node: node.after, generation });
            let after = self.nodes.at_mut(node.after);
            after.offset = W::narrow(end);
            after.tag = tag;
        } else {
            self.split(index, end, rest);
        }
    }

    /// Moves the end of a used region up by `more` of the `room` units of the free region behind it.
    fn lengthen(&mut self, index: u32, more: u64, room: u64) {
        //   │ range │░░ G* ░░│   ──►   │ range    │░ G* ░│     or, where all of G is needed:   │ range           │
        let after = self.nodes.at(index).after;
        self.used += more;
        let generation = if after == self.last {
            self.note_last(false);
            self.last_generation
        } else {
            self.remove(after).1
        };
        if more < room {
            let offset = self.nodes.offset(after) + more;
            self.note_offset(offset);
            self.nodes.at_mut(after).offset = W::narrow(offset);
            if after == self.last {
                self.note_last(true);
            } else {
                let tag = self.insert(Listed { offset, size: room - more, node: after, generation });
                self.nodes.at_mut(after).tag = tag;
            }
            return;
        }
        // An empty free region would break an invariant, so the region is absorbed whole.
        let behind = self.nodes.at(after).after;
        self.nodes.at_mut(index).after = behind;
        self.nodes.at_mut(behind).before = index;
        self.nodes.vacate(after, generation);
        if after == self.last {
            self.last = END;
        }
    }

    /// Returns a free region that serves the request.
    fn find(&self, request: &Request) -> Option<u32> {
        if request.side == StackSide::Upper {
            return None;
        }
        match self.search(request) {
            Search::Listed(found) => Some(self.stacks.node(found)),
            Search::Node(node) => Some(node),
            Search::Nothing => None,
            Search::Ask => {
                let (size, alignment) = (request.size, self.unmet(request.alignment));
                let lowest = self.by_address.lowest(&self.nodes, size, alignment, u64::MAX);
                // The index cannot be made here.
                lowest.unwrap_or_else(|_| self.find_lowest(size, alignment, self.size))
            }
        }
    }

    fn serial_of(&self, generation: u32) -> u64 {
        u64::from(self.epoch) << 32 | u64::from(generation)
    }

    /// Returns `END` as the index of no node, as others know it.
    fn outward(index: u32) -> u32 {
        if index == END { NONE } else { index }
    }

    /// Returns the free units, and an upper bound of the largest free region.
    #[inline(always)]
    pub(crate) fn free_and_largest(&self) -> (u64, u64) {
        (self.size - self.used, self.stacks.largest_of_class().max(self.last_size()))
    }

    #[inline]
    fn last_size(&self) -> u64 {
        // The offset of the node at the end is the size, so this is 0 where there is no last free region.
        self.size - self.nodes.offset(self.last)
    }
}
