//! The free regions of a block by size: a stack for each size class, with a two-level bitmap of the stacks that have any.
//!
//! ```text
//!   groups   …0 1 0 1                     bit g set ⇔ some class of group g has regions
//!                 │ └─ words[0]  …0 0 1 0     bit l set ⇔ class 32·g + l has regions
//!                 └─── words[2]  …1 0 0 0
//!   class 65     top ─► chunk 7  [ 131 ·· 130 ·· 131 ·· – ·· – ·· – ·· – ·· – ]   3 of 8 entries
//!                          below ─► chunk 2  [ 130 ·· 131 ·· … ]                  full, as all but the top one are
//! ```
//!
//! An entry contains the size of its region, its node, and the generation of the node's next range; the node's tag says where
//! the entry is. So a search reads a few sizes that lie side by side, and neither it nor a region that enters or leaves a
//! stack reads the nodes of other regions. Lists linked through the nodes, as in the published algorithm, read two more
//! nodes for each region that enters or leaves: most of the time of a block of 10^5 ranges.
//!
//! An entry is removed by moving the top entry into its place.
//!
//! # Crowded classes
//!
//! Programs that free every second of many nearly equal ranges have thousands of regions in one class, some a little too
//! small for a request. A class with more than [`CROWDED`] full chunks is divided into up to 32 *parts*, of equal widths, each of
//! which is a class of its own and can be divided in turn, until all regions of a class have one size. So no search looks
//! at more than [`CROWDED`] chunks to know whether there is a region of at least some size, and which is the smallest.
//!
//! # Invariants
//!
//! 1. Each free region of the block but the one at its end has one entry, in the class of its size, with its size. The
//!    tag of its node is the entry's slot.
//! 2. All chunks of a class but the top one are full. The places of a chunk without an entry contain a size just below
//!    the class, which no search takes.
//! 3. The bit of a class is set exactly if it has an entry or a part that has one; the bit of a group exactly if one of
//!    its classes has.
//! 4. A class that is divided has no entries of its own. It is no longer divided when its last part is empty.
//!
//! # Cost
//!
//! Every operation takes constant time. One that divides a class moves 136 entries, and at most nine times as many, where all
//! of them are in one part and that is divided in turn. A class takes 8 bytes, an entry 14 (19 in a block of 2^32 units or more) in chunks of 8. A class without entries
//! keeps its last chunk until another class needs one.

mod checks;

use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::super::bins::{class_of, class_that_surely_fits, smallest, width_log2};
use super::nodes::Nodes;
use super::width::{DEPTH, Width};
use crate::growth;

/// Full chunks of a class before it is divided. A search of them takes a fifth of a microsecond.
const CROWDED: u32 = 16;

/// Classes of a group, and parts of a divided class at most: the bits of one word.
const GROUP: usize = 32;

/// Groups of all classes up to those of [`MAX_SIZE`](crate::MAX_SIZE), rounded up to a power of two, so that a mask
/// proves an index to be within bounds.
const GROUPS: usize = 64;

/// The bit in [`Class::chunk`] that says that the class is divided. What remains is its number in [`Stacks::divisions`].
const DIVIDED: u32 = 1 << 31;

/// The index of no chunk.
const NONE: u32 = DIVIDED - 1;

#[derive(Clone, Copy, Debug)]
struct Chunk<W> {
    sizes: [W; DEPTH],
    nodes: [u32; DEPTH],
    generations: [u32; DEPTH],
    /// The next lower chunk of the class, or [`NONE`]. Of a vacant chunk: the next vacant one.
    below: u32,
    class: u32,
    /// The number of chunks below this one.
    height: u32,
    /// What is in the places without an entry.
    floor: W,
}

#[derive(Clone, Copy, Debug)]
struct Class {
    /// The top chunk, or [`NONE`] for a class that was never used; with [`DIVIDED`], the number of a division.
    chunk: u32,
    /// The entries of the top chunk. [`DEPTH`] where there is no chunk to push to: a full one, none, or a division.
    len: u32,
}

impl Class {
    const UNUSED: Self = Self { chunk: NONE, len: DEPTH as u32 };

    fn division(self) -> Option<usize> {
        (self.chunk & DIVIDED != 0).then_some((self.chunk & !DIVIDED) as usize)
    }
}

/// The parts of one class.
#[derive(Clone, Copy, Debug)]
struct Division {
    /// Bit `i` is set exactly if part `i` has entries, or parts that have.
    bits: u32,
    /// The class that is divided.
    parent: u32,
    /// The smallest size of that class.
    smallest: u64,
    /// The binary logarithm of the width of a part.
    width_log2: u32,
}

/// A region that left its stack.
pub(super) struct Removed {
    pub(super) size: u64,
    /// The generation of the next range of its node.
    pub(super) generation: u32,
}

/// An entry, as a search sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) slot: u32,
    pub(super) size: u64,
    pub(super) node: u32,
    /// The class or part. Entries of later classes are larger.
    pub(super) class: u32,
}

/// What a [visit](Stacks::visit) does after an entry.
pub(super) enum Next {
    Entry,
    /// Leaves out the other entries of the same class or part.
    Class,
    End,
}

/// Returns the number of classes for a block of `size` units: no free region is larger, so classes above never fill.
fn classes_for(size: u64) -> usize {
    // Whole groups, so that a block that grows needs others only where its size has doubled.
    (class_of(size) / GROUP + 1) * GROUP
}

#[derive(Clone, Debug)]
pub(super) struct Stacks<W> {
    /// Bit `g` is set exactly if `words[g]` is not 0.
    groups: u64,
    words: [u32; GROUPS],
    /// Bit `l` of word `g` is set exactly if class `32 * g + l` has a chunk, with entries or without.
    owners: [u32; GROUPS],
    /// The classes of [`bins`](super::super::bins), then 32 parts for each division.
    classes: Vec<Class>,
    /// The number of classes that are no parts.
    whole: u32,
    divisions: Vec<Division>,
    vacant_divisions: Vec<u32>,
    chunks: Vec<Chunk<W>>,
    /// The first vacant chunk, linked by `below`, or [`NONE`].
    vacant: u32,
    len: u32,
}

impl<W: Width> Stacks<W> {
    /// Creates empty stacks for the regions of a block of `size` units.
    pub(super) fn new(size: u64) -> Self {
        let mut stacks = Self {
            groups: 0,
            words: [0; GROUPS],
            owners: [0; GROUPS],
            classes: Vec::new(),
            whole: 0,
            divisions: Vec::new(),
            vacant_divisions: Vec::new(),
            chunks: Vec::new(),
            vacant: NONE,
            len: 0,
        };
        stacks.reset(size);
        stacks
    }

    /// Removes all entries. O(classes): what the entries took is kept for the next ones.
    pub(super) fn reset(&mut self, size: u64) {
        let whole = classes_for(size);
        self.groups = 0;
        self.words = [0; GROUPS];
        self.owners = [0; GROUPS];
        self.classes.clear();
        self.classes.resize(whole, Class::UNUSED);
        self.whole = whole as u32;
        self.divisions.clear();
        self.vacant_divisions.clear();
        self.chunks.clear();
        self.vacant = NONE;
        self.len = 0;
    }

    /// Returns `true` if there is a class for every region of a block of `size` units.
    pub(super) fn suit(&self, size: u64) -> bool {
        classes_for(size) <= self.whole as usize
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Returns the same entries for a larger block, with sizes of another width. O(classes and entries).
    pub(super) fn grown<V: Width>(&self, nodes: &mut Nodes<V>, size: u64) -> Stacks<V> {
        let mut grown = Stacks::new(size);
        let _ = self.visit(0, &mut |Entry { slot, size, node, .. }| {
            let generation = self.chunks[slot as usize / DEPTH].generations[slot as usize % DEPTH];
            grown.push(nodes, size, node, generation);
            Next::Entry
        });
        grown
    }

    /// Allocates host memory for that many further entries, as long as no class is divided.
    pub(super) fn reserve(&mut self, entries: usize) {
        // The top chunk of each class may be almost empty.
        let chunks = entries.min(self.whole as usize) + entries / DEPTH;
        self.chunks.reserve(chunks);
    }

    /// Adds the free region `node`. `generation` is that of the node's next range.
    #[inline(always)]
    pub(super) fn push(&mut self, nodes: &mut Nodes<W>, size: u64, node: u32, generation: u32) {
        let class = class_of(size);
        let top = &mut self.classes[class];
        if top.len as usize >= DEPTH {
            return self.push_further(nodes, class, size, node, generation);
        }
        let at = top.len as usize % DEPTH;
        top.len += 1;
        let chunk = top.chunk;
        self.words[class / GROUP % GROUPS] |= 1 << (class % GROUP);
        self.groups |= 1 << (class / GROUP);
        self.write(nodes, chunk, at, (size, node, generation));
    }

    #[inline(always)]
    fn write(
        &mut self,
        nodes: &mut Nodes<W>,
        chunk: u32,
        at: usize,
        (size, node, generation): (u64, u32, u32),
    ) {
        let entries = &mut self.chunks[chunk as usize];
        entries.sizes[at] = W::narrow(size);
        entries.nodes[at] = node;
        entries.generations[at] = generation;
        self.len += 1;
        nodes.at_mut(node).tag = chunk * DEPTH as u32 + at as u32;
    }

    /// Adds a region to a class whose top chunk has no place.
    #[inline(never)]
    fn push_further(&mut self, nodes: &mut Nodes<W>, class: usize, size: u64, node: u32, generation: u32) {
        self.words[class / GROUP % GROUPS] |= 1 << (class % GROUP);
        self.groups |= 1 << (class / GROUP);
        self.push_to(nodes, class, (size, node, generation));
    }

    /// Adds an entry to a class or part, whose bit is set.
    fn push_to(&mut self, nodes: &mut Nodes<W>, mut class: usize, entry: (u64, u32, u32)) {
        let size = entry.0;
        loop {
            let Class { chunk, len } = self.classes[class];
            if let Some(division) = self.classes[class].division() {
                let part = self.part_of(division, size);
                self.divisions[division].bits |= 1 << part;
                class = self.part(division, part);
            } else if (len as usize) < DEPTH {
                self.classes[class].len += 1;
                return self.write(nodes, chunk, len as usize, entry);
            } else if chunk != NONE
                && self.chunks[chunk as usize].height >= CROWDED
                && self.width_of(class) > 0
            {
                self.divide(nodes, class);
            } else {
                let height = if chunk == NONE { 0 } else { self.chunks[chunk as usize].height + 1 };
                let new = self.take_chunk(class, chunk, height);
                self.classes[class] = Class { chunk: new, len: 0 };
            }
        }
    }

    /// Takes a chunk for a class, with a place for each entry.
    fn take_chunk(&mut self, class: usize, below: u32, height: u32) -> u32 {
        let floor = W::narrow(self.smallest_of(class).saturating_sub(1));
        if self.vacant == NONE && self.chunks.len() == self.chunks.capacity() {
            self.take_unused_chunk();
        }
        if class < self.whole as usize {
            self.owners[class / GROUP % GROUPS] |= 1 << (class % GROUP);
        }
        let index = if self.vacant == NONE { self.chunks.len() as u32 } else { self.vacant };
        let (sizes, class) = ([floor; DEPTH], class as u32);
        let chunk =
            Chunk { sizes, nodes: [NONE; DEPTH], generations: [0; DEPTH], below, class, height, floor };
        match self.chunks.get_mut(index as usize) {
            Some(vacant) => {
                self.vacant = vacant.below;
                *vacant = chunk;
            }
            None => growth::push(&mut self.chunks, chunk),
        }
        index
    }

    /// Makes the chunk of a class without entries vacant, if there is one: before more host memory is allocated. So a block
    /// needs at most one chunk for each class that has entries, and one for each 8 entries.
    fn take_unused_chunk(&mut self) {
        let unused = self.owners.iter().zip(&self.words).map(|(owners, words)| owners & !words);
        let Some((group, classes)) = unused.enumerate().find(|&(_, classes)| classes != 0) else { return };
        let class = group * GROUP + classes.trailing_zeros() as usize;
        let Class { chunk, .. } = self.disown(class);
        self.drop_chunk(chunk);
    }

    /// Takes its chunks away from a class that is no part.
    fn disown(&mut self, class: usize) -> Class {
        self.owners[class / GROUP % GROUPS] &= !(1 << (class % GROUP));
        core::mem::replace(&mut self.classes[class], Class::UNUSED)
    }

    fn drop_chunk(&mut self, chunk: u32) {
        self.chunks[chunk as usize].below = self.vacant;
        self.vacant = chunk;
    }

    /// Removes the entry at a slot. The caller writes the tag of its node.
    #[inline(always)]
    pub(super) fn remove(&mut self, nodes: &mut Nodes<W>, slot: u32) -> Removed {
        let (chunk, at) = (slot as usize / DEPTH, slot as usize % DEPTH);
        let entries = &self.chunks[chunk];
        let (size, generation, class) =
            (entries.sizes[at].wide(), entries.generations[at], entries.class as usize);
        let top = &mut self.classes[class];
        let top_chunk = top.chunk as usize;
        let last = (top.len as usize).wrapping_sub(1) % DEPTH;
        top.len -= 1;
        let is_last = top.len == 0;
        // The top entry moves into the place, even where it is the removed one: a branch would be predicted wrongly more
        // often than it saves the copy.
        let entries = &mut self.chunks[top_chunk];
        let (moved_size, moved, moved_generation) =
            (entries.sizes[last], entries.nodes[last], entries.generations[last]);
        let below = entries.below;
        let floor = entries.floor;
        let entries = &mut self.chunks[chunk];
        entries.sizes[at] = moved_size;
        entries.nodes[at] = moved;
        entries.generations[at] = moved_generation;
        self.chunks[top_chunk].sizes[last] = floor;
        nodes.at_mut(moved).tag = slot;
        self.len -= 1;
        if is_last {
            self.emptied(class, top_chunk as u32, below);
        }
        Removed { size, generation }
    }

    /// Follows the removal of the last entry of the top chunk of a class.
    #[inline(always)]
    fn emptied(&mut self, class: usize, chunk: u32, below: u32) {
        if below != NONE {
            self.classes[class] = Class { chunk: below, len: DEPTH as u32 };
            self.drop_chunk(chunk);
        } else if class < self.whole as usize {
            // The chunk stays with the class: half of the classes of a small block have no entry, or one, in turn.
            self.clear_bit(class);
        } else {
            self.part_emptied(class);
        }
    }

    #[inline(always)]
    fn clear_bit(&mut self, class: usize) {
        let word = self.words[class / GROUP % GROUPS] & !(1 << (class % GROUP));
        self.words[class / GROUP % GROUPS] = word;
        // The group's bit covers all of its classes, so it is cleared with the last of them only.
        self.groups &= !(u64::from(word == 0) << (class / GROUP));
    }

    #[cold]
    fn part_emptied(&mut self, mut class: usize) {
        let Class { chunk, .. } = core::mem::replace(&mut self.classes[class], Class::UNUSED);
        self.drop_chunk(chunk);
        while let Some(part) = class.checked_sub(self.whole as usize) {
            let division = part / GROUP;
            self.divisions[division].bits &= !(1 << (part % GROUP));
            if self.divisions[division].bits != 0 {
                return;
            }
            // The last part: the class is whole again.
            for part in 0..GROUP {
                let part = self.part(division, part);
                let Class { chunk, .. } = core::mem::replace(&mut self.classes[part], Class::UNUSED);
                if chunk != NONE {
                    self.drop_chunk(chunk);
                }
            }
            class = self.divisions[division].parent as usize;
            self.classes[class] = Class::UNUSED;
            self.vacant_divisions.push(division as u32);
        }
        self.clear_bit(class);
    }

    /// Divides a class into parts, and moves its entries there.
    #[cold]
    fn divide(&mut self, nodes: &mut Nodes<W>, class: usize) {
        let parent = class as u32;
        let width_log2 = self.width_of(class).saturating_sub(GROUP.ilog2());
        let division = Division { bits: 0, parent, smallest: self.smallest_of(class), width_log2 };
        let index = match self.vacant_divisions.pop() {
            Some(index) => {
                self.divisions[index as usize] = division;
                index
            }
            None => {
                self.divisions.push(division);
                self.classes.resize(self.classes.len() + GROUP, Class::UNUSED);
                self.divisions.len() as u32 - 1
            }
        };
        let Class { mut chunk, .. } =
            if class < self.whole as usize { self.disown(class) } else { self.classes[class] };
        self.classes[class] = Class { chunk: DIVIDED | index, len: DEPTH as u32 };
        while chunk != NONE {
            let entries = self.chunks[chunk as usize];
            // The top chunk may not be full; places without an entry are below the class.
            for at in (0..DEPTH).filter(|&at| entries.sizes[at] != entries.floor) {
                self.len -= 1;
                self.push_to(
                    nodes,
                    class,
                    (entries.sizes[at].wide(), entries.nodes[at], entries.generations[at]),
                );
            }
            self.drop_chunk(chunk);
            chunk = entries.below;
        }
    }

    /// Returns the part of a division that contains a size.
    fn part_of(&self, division: usize, size: u64) -> usize {
        let Division { smallest, width_log2, .. } = self.divisions[division];
        ((size - smallest) >> width_log2) as usize
    }

    /// Returns the class that is a part of a division.
    fn part(&self, division: usize, part: usize) -> usize {
        self.whole as usize + division * GROUP + part
    }

    /// Returns the smallest size of a class or part.
    fn smallest_of(&self, class: usize) -> u64 {
        match class.checked_sub(self.whole as usize) {
            None => smallest(class),
            Some(part) => {
                let division = &self.divisions[part / GROUP];
                division.smallest + ((part as u64 % GROUP as u64) << division.width_log2)
            }
        }
    }

    /// Returns the binary logarithm of the number of sizes of a class or part.
    fn width_of(&self, class: usize) -> u32 {
        match class.checked_sub(self.whole as usize) {
            None => width_log2(class),
            Some(part) => self.divisions[part / GROUP].width_log2,
        }
    }

    /// Returns `true` if a class, which is no part, has entries.
    #[inline]
    fn has(&self, class: usize) -> bool {
        self.words[class / GROUP % GROUPS] >> (class % GROUP) & 1 != 0
    }

    /// Returns the first class that has entries, from a class on.
    #[inline]
    fn first_from(&self, class: usize) -> Option<usize> {
        let group = class / GROUP;
        // Classes below share the word and are masked out.
        let here = self.words[group % GROUPS] & (u32::MAX << (class % GROUP));
        if here != 0 {
            return Some(group * GROUP + here.trailing_zeros() as usize);
        }
        // Two shifts, since group 63 would need a shift by 64, which overflows.
        let later = self.groups & ((u64::MAX << (group % GROUPS)) << 1);
        if later == 0 {
            return None;
        }
        let group = later.trailing_zeros() as usize;
        Some(group * GROUP + self.words[group % GROUPS].trailing_zeros() as usize)
    }

    /// Returns the lowest part of a class that has entries; the class itself where it is not divided.
    #[inline]
    fn lowest_of(&self, class: usize) -> usize {
        let mut class = class;
        while let Some(division) = self.classes[class].division() {
            class = self.part(division, self.divisions[division].bits.trailing_zeros() as usize);
        }
        class
    }

    /// Returns an entry that surely holds `size` units: of the lowest class whose sizes are all as large. O(1).
    #[inline]
    pub(super) fn surely(&self, size: u64) -> Option<u32> {
        let class = self.lowest_of(self.first_from(class_that_surely_fits(size))?);
        let Class { chunk, len } = self.classes[class];
        Some(chunk * DEPTH as u32 + len - 1)
    }

    /// Returns an entry that holds `size` units closely: of its own class, if that has one, or else of the next that has
    /// entries; of either the closest of one chunk. `None` where there is none. O(1).
    #[inline(always)]
    pub(super) fn close(&self, size: u64) -> Option<u32> {
        if self.groups == 0 {
            return None;
        }
        let class = class_of(size);
        if self.has(class) {
            let close = self.close_in(class, size);
            if close.is_some() {
                return close;
            }
        }
        let class = self.lowest_of(self.first_from(class + 1)?);
        self.closest_of_chunk(self.classes[class].chunk, 0)
    }

    /// Returns the closest of the first chunk of a class that has one. The class has entries.
    #[inline(always)]
    fn close_in(&self, class: usize, size: u64) -> Option<u32> {
        let top = self.classes[class];
        if top.division().is_some() {
            return self.close_in_parts(class, size);
        }
        // Mostly the top chunk has one. A larger region is split only where no chunk of the class has any.
        let mut chunk = top.chunk;
        while chunk != NONE {
            let close = self.closest_of_chunk(chunk, size);
            if close.is_some() {
                return close;
            }
            chunk = self.chunks[chunk as usize].below;
        }
        None
    }

    #[cold]
    fn close_in_parts(&self, class: usize, size: u64) -> Option<u32> {
        let division = self.classes[class].division()?;
        let Division { bits, .. } = self.divisions[division];
        let part = self.part_of(division, size);
        if bits >> part & 1 != 0 {
            let close = self.close_in(self.part(division, part), size);
            if close.is_some() {
                return close;
            }
        }
        // All later parts are larger. Two shifts, since part 31 would need a shift by 32, which overflows.
        let later = bits & ((u32::MAX << part) << 1);
        if later == 0 {
            return None;
        }
        let part = self.lowest_of(self.part(division, later.trailing_zeros() as usize));
        self.closest_of_chunk(self.classes[part].chunk, 0)
    }

    /// Returns the entry of a chunk that holds `size` units most closely; the smallest of all where `size` is below the class.
    #[inline(always)]
    fn closest_of_chunk(&self, chunk: u32, size: u64) -> Option<u32> {
        let entries = &self.chunks[chunk as usize];
        // Not less than the class, or places without an entry would pass.
        let least = size.max(entries.floor.wide() + 1);
        let at = W::closest(&entries.sizes, W::narrow(least))?;
        Some(chunk * DEPTH as u32 + at as u32)
    }

    /// Returns the smallest entry that holds `size` units. Looks at no more than [`CROWDED`] chunks for each part.
    pub(super) fn closest(&self, size: u64) -> Option<u32> {
        let mut closest: Option<Entry> = None;
        let _ = self.visit(size, &mut |entry| {
            if closest.is_some_and(|closest| closest.class != entry.class) {
                return Next::End;
            }
            if entry.size >= size && closest.is_none_or(|closest| entry.size < closest.size) {
                closest = Some(entry);
                // A part whose regions all have one size may have any number of them.
                if entry.size == self.smallest_of(entry.class as usize).max(size) {
                    return Next::End;
                }
            }
            if self.width_of(entry.class as usize) == 0 { Next::Class } else { Next::Entry }
        });
        closest.map(|entry| entry.slot)
    }

    /// Returns the largest size of all entries. Looks at no more than [`CROWDED`] chunks.
    pub(super) fn largest(&self) -> u64 {
        let Some(class) = self.highest() else { return 0 };
        if self.width_of(class) == 0 {
            return self.smallest_of(class);
        }
        let mut largest = 0;
        let _ = self.visit_chunks(class, &mut |entry| {
            largest = largest.max(entry.size);
            Next::Entry
        });
        largest
    }

    /// Returns an upper bound of the largest size, at most 1/32 too large. O(1).
    pub(super) fn largest_at_most(&self) -> u64 {
        self.highest().map_or(0, |class| self.smallest_of(class) + ((1 << self.width_of(class)) - 1))
    }

    /// Returns the last class or part that has entries.
    fn highest(&self) -> Option<usize> {
        let group = self.groups.checked_ilog2()? as usize;
        let mut class = group * GROUP + self.words[group % GROUPS].ilog2() as usize;
        while let Some(division) = self.classes[class].division() {
            class = self.part(division, self.divisions[division].bits.ilog2() as usize);
        }
        Some(class)
    }

    /// Returns the entry at a slot.
    #[inline]
    pub(super) fn entry(&self, slot: u32) -> Entry {
        let (chunk, at) = (&self.chunks[slot as usize / DEPTH], slot as usize % DEPTH);
        Entry { slot, size: chunk.sizes[at].wide(), node: chunk.nodes[at], class: chunk.class }
    }

    /// Returns the node of the entry at a slot.
    #[inline]
    pub(super) fn node(&self, slot: u32) -> u32 {
        self.chunks[slot as usize / DEPTH].nodes[slot as usize % DEPTH]
    }

    /// Returns the size of the entry at a slot.
    #[inline]
    pub(super) fn size(&self, slot: u32) -> u64 {
        self.chunks[slot as usize / DEPTH].sizes[slot as usize % DEPTH].wide()
    }

    /// Calls `visit` with the entries of all classes from that of a size on, smaller classes and parts first.
    pub(super) fn visit(&self, from: u64, visit: &mut impl FnMut(Entry) -> Next) -> ControlFlow<()> {
        let mut next = self.first_from(class_of(from));
        while let Some(class) = next {
            self.visit_class(class, from, visit)?;
            next = self.first_from(class + 1);
        }
        ControlFlow::Continue(())
    }

    fn visit_class(&self, class: usize, from: u64, visit: &mut impl FnMut(Entry) -> Next) -> ControlFlow<()> {
        let Some(division) = self.classes[class].division() else { return self.visit_chunks(class, visit) };
        let Division { mut bits, smallest, .. } = self.divisions[division];
        if from > smallest {
            bits &= u32::MAX << self.part_of(division, from);
        }
        while bits != 0 {
            self.visit_class(self.part(division, bits.trailing_zeros() as usize), from, visit)?;
            bits &= bits - 1;
        }
        ControlFlow::Continue(())
    }

    fn visit_chunks(&self, class: usize, visit: &mut impl FnMut(Entry) -> Next) -> ControlFlow<()> {
        let Class { mut chunk, mut len } = self.classes[class];
        while chunk != NONE {
            for at in (0..len).rev() {
                match visit(self.entry(chunk * DEPTH as u32 + at)) {
                    Next::Entry => {}
                    Next::Class => return ControlFlow::Continue(()),
                    Next::End => return ControlFlow::Break(()),
                }
            }
            chunk = self.chunks[chunk as usize].below;
            len = DEPTH as u32;
        }
        ControlFlow::Continue(())
    }
}
