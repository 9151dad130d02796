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
//! An entry contains the size and the offset of its region, its node, and the generation of the node's next range; the node's
//! tag says where the entry is. So a search reads a few sizes that lie side by side, and offsets only where the range must
//! be aligned, and neither it nor a region that enters or leaves a
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
//! All sizes are multiples of the block's *grain*, the lowest bit that is set in any offset. A class that is no wider than the grain
//! has one size only, and is not divided however many regions it has. The grain may become finer later:
//!
//! ```text
//!   grain 256       class 1024–1055 ─► 40 chunks, all of them 1024 units
//!   grain 16        … ─► the same, *guarded*: a push compares the size
//!   push of 1040    … ─► division ─► part 0 ─► the 40 chunks
//!                                 ─► part 16 ─► 1 chunk
//! ```
//!
//! The chunks go to their part as they are, so a chunk may name a class of which its own is a part.
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
//! 5. The entries of a class with more than `CROWDED + 1` chunks have one size. It is guarded if it is no part and wider than the
//!    grain, so that every push which could break this goes through [`push_to`](Stacks::push_to).
//!
//! # Cost
//!
//! Every operation takes constant time. One that divides a class moves 136 entries, once: where all of them are in one part, and
//! that is divided in turn, their chunks are handed down as they are, and where there are more, one size's, none is even looked at. A class takes 8 bytes, an entry 18 (27 in a block of 2^32 units or more) in chunks of 8. A class without entries
//! keeps its last chunk.

mod checks;
mod chunk;
mod divisions;
mod search;

use alloc::vec::Vec;

use super::nodes::Nodes;
use super::width::{DEPTH, Width};
use crate::{Alignment, MAX_SIZE, SizeClasses, growth};
use chunk::Chunk;
pub(super) use chunk::Listed;
use divisions::Division;

/// A class is never wider than a 32nd of its sizes, so the first region of the class that surely fits wastes no more than that.
// Brittle: the classes of `MAX_SIZE` take 45 of the 64 groups below. With a bit more they would take 87, and the masks that prove
// an index to be within bounds would send large sizes to the classes of small ones.
type Classes = SizeClasses<5>;

/// Full chunks of a class before it is divided. A search of them takes a fifth of a microsecond.
// Brittle: so a class has up to (16 + 1) · 8 = 136 entries before it is divided. `OF_CLASS` in search.rs, the documentation of
// `FitStrategy`, `VirtualBlock`, `reserve` and `largest_free`, and the tests in tests/tlsf.rs and tests/host_memory.rs count on that.
const CROWDED: u32 = 16;

/// Chunks of a class that a search for an aligned range looks at before it goes on to a larger class.
const CLOSE: u32 = 2;

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
struct Class {
    /// The top chunk, or [`NONE`] for a class that was never used; with [`DIVIDED`], the number of a division.
    chunk: u32,
    /// The entries of the top chunk; [`DEPTH`] where there is no chunk to push to: a full one, none, or a division. Also
    /// [`KEPT`] where the class keeps the top chunk without entries. So 0 says that the chunk must go, and one test finds that
    /// out: it is rare, where an empty chunk is not. And [`GUARDED`].
    len: u32,
}

/// The bit in [`Class::len`] of a class, which is no part, that has one chunk.
const KEPT: u32 = 2 * DEPTH as u32;

/// The bit in [`Class::len`] of a class, which is no part, whose entries have one size although it could have others.
const GUARDED: u32 = 2 * KEPT;

impl Class {
    const UNUSED: Self = Self { chunk: NONE, len: DEPTH as u32 };

    fn len(self) -> u32 {
        self.len % KEPT
    }

    fn has_place(self) -> bool {
        self.len & (DEPTH as u32 | GUARDED) == 0
    }

    fn division(self) -> Option<usize> {
        (self.chunk & DIVIDED != 0).then_some((self.chunk & !DIVIDED) as usize)
    }
}

/// Where an entry is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// The class or part; or, where that is divided, one of its parts contains the entry.
    class: usize,
    chunk: u32,
    /// The position in the chunk.
    at: usize,
}

/// An entry, as a search sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) slot: u32,
    pub(super) size: u64,
    pub(super) offset: u64,
    pub(super) node: u32,
    /// The class or part. Entries of later classes are larger.
    pub(super) class: u32,
}

impl Entry {
    /// Returns `true` if the region holds an aligned range of `size` units.
    #[inline]
    pub(super) fn fits(&self, size: u64, alignment: Alignment) -> bool {
        let gap = self.offset.wrapping_neg() & (alignment.get() - 1);
        gap + size <= self.size
    }

    fn found(self) -> Found {
        let (chunk, at) = (self.slot / DEPTH as u32, self.slot as usize % DEPTH);
        Found { class: self.class as usize, chunk, at }
    }
}

/// Which entry of a chunk is taken.
#[derive(Clone, Copy)]
pub(super) enum Choice {
    /// The one that holds a range of the size most closely.
    Closest,
    /// The one that holds an aligned range of the size most closely.
    ClosestAligned(Alignment),
    /// The top one, if it holds an aligned range of the size.
    Top(Alignment),
}

/// What a [visit](Stacks::visit) does next.
pub(super) enum Next {
    Further,
    /// Leaves out the other entries of the same class or part.
    Class,
    End,
}

/// Returns the number of classes for a block of `size` units: no free region is larger, so classes above never fill.
fn classes_for(size: u64) -> usize {
    // Whole groups, so that a block that grows needs others only where its size has doubled.
    (Classes::class_of(size) / GROUP + 1) * GROUP
}

#[derive(Clone, Debug)]
pub(super) struct Stacks<W> {
    /// Bit `g` is set exactly if `words[g]` is not 0.
    groups: u64,
    words: [u32; GROUPS],
    /// The classes of sizes, then 32 parts for each division. Empty until the first region is listed.
    classes: Vec<Class>,
    /// The number of classes that are no parts.
    whole: u32,
    divisions: Vec<Division>,
    vacant_divisions: Vec<u32>,
    chunks: Vec<Chunk<W>>,
    /// The first vacant chunk, linked by `below`, or [`NONE`].
    vacant: u32,
    /// The chunks for which [`reserve`](Self::reserve) has allocated host memory.
    reserved: usize,
    /// The class at which the next search for a chunk without entries begins.
    cursor: usize,
    len: u32,
    /// Ones below the lowest bit that is set in the offset of any region since the block was cleared. An alignment no larger
    /// than that needs no check: in the block of a pool, whose sizes are multiples of a page, hardly any does.
    grain: u64,
}

impl<W: Width> Stacks<W> {
    /// Creates empty stacks for the regions of a block of `size` units.
    pub(super) fn new(size: u64) -> Self {
        let mut stacks = Self {
            groups: 0,
            words: [0; GROUPS],
            classes: Vec::new(),
            whole: 0,
            divisions: Vec::new(),
            vacant_divisions: Vec::new(),
            chunks: Vec::new(),
            vacant: NONE,
            reserved: 0,
            cursor: 0,
            len: 0,
            grain: 0,
        };
        stacks.reset(size);
        stacks
    }

    /// Removes all entries. What they took is kept for the next ones.
    pub(super) fn reset(&mut self, size: u64) {
        self.groups = 0;
        self.words = [0; GROUPS];
        self.classes.clear();
        self.whole = classes_for(size) as u32;
        self.divisions.clear();
        self.vacant_divisions.clear();
        self.chunks.clear();
        self.vacant = NONE;
        self.len = 0;
        self.grain = MAX_SIZE - 1;
    }

    /// Returns ones below the lowest bit that is set in any offset.
    #[inline(always)]
    pub(super) fn grain(&self) -> u64 {
        self.grain
    }

    /// Notes that a region begins at an offset that is no multiple of the grain. O(classes).
    #[cold]
    pub(super) fn refine(&mut self, offset: u64) {
        // At most once for each bit of an offset, mostly before anything is listed.
        self.grain = (1 << offset.trailing_zeros()) - 1;
        let mut next = self.first_from(0);
        while let Some(class) = next {
            let top = self.classes[class];
            if top.division().is_none() {
                self.classes[class].len |= self.guard(class, self.height(top));
            }
            next = self.first_from(class + 1);
        }
    }

    /// Returns [`GUARDED`] if a class whose top chunk has so many below it must be.
    fn guard(&self, class: usize, height: u32) -> u32 {
        let is_guarded = height > CROWDED && class < self.whole as usize && !self.has_one_size(class);
        if is_guarded { GUARDED } else { 0 }
    }

    /// Returns the number of chunks below the top one of a class that is not divided.
    fn height(&self, top: Class) -> u32 {
        self.chunks.get(top.chunk as usize).map_or(0, |chunk| chunk.height)
    }

    /// Returns `true` if a class is not wide enough for two sizes.
    fn has_one_size(&self, class: usize) -> bool {
        (1 << self.width_of(class)) - 1 <= self.grain
    }

    /// Returns the size of all entries of a class that is not divided, where it is known that they have only one.
    fn only_size(&self, class: usize) -> Option<u64> {
        let Class { chunk, .. } = self.classes[class];
        // The first place is the last one that becomes empty, so it has an entry.
        let top = self.chunks.get(chunk as usize)?;
        (top.height > CROWDED || self.has_one_size(class)).then(|| top.sizes[0].wide())
    }

    /// Makes the classes, unless there are some.
    fn make_classes(&mut self) {
        // Not with the block: one with a few ranges and no hole between them lists no region, and an allocator may have thousands
        // of such blocks.
        if self.classes.is_empty() {
            self.classes.resize(self.whole as usize, Class::UNUSED);
        }
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
        // Pushed one by one. Entries keep no order but that of their classes, so a search may take another one of equal size
        // than before; and divisions are made again where there are still so many regions.
        let mut grown = Stacks::new(size);
        grown.grain = self.grain;
        let _ = self.visit(0, &mut |Entry { slot, node, .. }| {
            let region = self.chunks[slot as usize / DEPTH].get(slot as usize % DEPTH);
            let slot = grown.push(nodes, region);
            nodes.at_mut(node).tag = slot;
            Next::Further
        });
        grown
    }

    /// Allocates host memory for that many further entries, as long as no class is divided.
    pub(super) fn reserve(&mut self, entries: usize) {
        self.make_classes();
        // The top chunk of each class may be almost empty. Chunks that classes keep without entries do not count: see
        // `take_chunk`.
        let chunks = entries.min(self.whole as usize) + entries / DEPTH;
        self.chunks.reserve(chunks);
        self.reserved = self.chunks.capacity();
    }

    /// Frees host memory behind what there is.
    pub(super) fn shrink(&mut self) {
        // A reservation ends here: chunks without entries stay with their classes again.
        self.classes.shrink_to_fit();
        self.divisions.shrink_to_fit();
        self.vacant_divisions.shrink_to_fit();
        self.chunks.shrink_to_fit();
        self.reserved = 0;
    }

    /// Adds a free region. Returns the slot, which the caller makes the tag of the node; other nodes may get other slots.
    #[inline(always)]
    #[must_use]
    pub(super) fn push(&mut self, nodes: &mut Nodes<W>, region: Listed) -> u32 {
        // The simple idea: write the entry behind the last one of the class's top chunk, and set the bit of the class. All else,
        // a full chunk, a class that is new or divided, says that it has no place and takes the other way.
        debug_assert_eq!(region.size & self.grain, 0, "a size is a multiple of the grain");
        let class = Classes::class_of(region.size);
        let Some(top) = self.classes.get(class).copied().filter(|top| top.has_place()) else {
            let Listed { offset, size, node, generation } = region;
            return self.push_further(nodes, (offset, size), (node, generation));
        };
        self.classes[class].len = top.len + 1;
        self.set_bit(class);
        self.write(top.chunk, top.len as usize % DEPTH, region)
    }

    #[inline(always)]
    fn set_bit(&mut self, class: usize) {
        self.words[class / GROUP % GROUPS] |= 1 << (class % GROUP);
        self.groups |= 1 << (class / GROUP % GROUPS);
    }

    #[inline(always)]
    fn write(&mut self, chunk: u32, at: usize, region: Listed) -> u32 {
        self.chunks[chunk as usize].set(at, region);
        self.len += 1;
        chunk * DEPTH as u32 + at as u32
    }

    /// Adds a region to a class whose top chunk has no place. (In registers: a caller that had to keep a region in memory for
    /// it would do so for the common push as well.)
    #[inline(never)]
    fn push_further(
        &mut self,
        nodes: &mut Nodes<W>,
        (offset, size): (u64, u64),
        (node, generation): (u32, u32),
    ) -> u32 {
        self.make_classes();
        let class = Classes::class_of(size);
        self.set_bit(class);
        self.push_to(nodes, class, Listed { offset, size, node, generation })
    }

    /// Adds an entry to a class or part, whose bit is set.
    fn push_to(&mut self, nodes: &mut Nodes<W>, mut class: usize, region: Listed) -> u32 {
        // Each round either writes the entry or comes one step closer to a chunk with a place: down to the part that contains
        // the size, or to a class that was divided a moment ago.
        loop {
            let top = self.classes[class];
            let chunk = top.chunk;
            if let Some(division) = self.classes[class].division() {
                let part = self.part_of(division, region.size);
                self.divisions[division].bits |= 1 << part;
                class = self.part(division, part);
            } else if self.is_divided_for(class, top, region.size) {
                self.divide(nodes, class);
            } else if top.len() < DEPTH as u32 {
                self.classes[class].len += 1;
                return self.write(chunk, top.len() as usize, region);
            } else {
                let height = if chunk == NONE { 0 } else { self.chunks[chunk as usize].height + 1 };
                let new = self.take_chunk(class, chunk, height);
                let len = 1 | self.kept(class, new) | self.guard(class, height);
                self.classes[class] = Class { chunk: new, len };
                return self.write(new, 0, region);
            }
        }
    }

    /// Returns `true` if a class must be divided before another size is pushed to it.
    fn is_divided_for(&self, class: usize, top: Class, size: u64) -> bool {
        // Of regions that all have one size, the first is as good as any: such a class is never divided, however many it has.
        match self.height(top) {
            ..CROWDED => false,
            CROWDED => top.len() == DEPTH as u32 && !self.has_one_size(class),
            _ => self.chunks[top.chunk as usize].sizes[0].wide() != size,
        }
    }

    /// Returns [`KEPT`] if a chunk is to stay with its class.
    fn kept(&self, class: usize, chunk: u32) -> u32 {
        // The last chunk of a class stays where the class is likely to need it again: half of the classes of a small block have
        // one region, or none, in turn. A part gives it back, so that its division can end.
        let is_kept = class < self.whole as usize && self.chunks[chunk as usize].below == NONE;
        if is_kept { KEPT } else { 0 }
    }

    /// Takes a chunk for a class, with a place for each entry.
    fn take_chunk(&mut self, class: usize, below: u32, height: u32) -> u32 {
        let floor = self.floor_of(class);
        // Only then: a class whose chunk is taken away needs another one soon.
        if self.vacant == NONE
            && self.chunks.len() == self.chunks.capacity()
            && self.chunks.len() <= self.reserved
        {
            self.take_unused_chunk();
        }
        let index = if self.vacant == NONE { self.chunks.len() as u32 } else { self.vacant };
        let (sizes, class) = ([floor; DEPTH], class as u32);
        let (offsets, nodes, generations) = ([W::default(); DEPTH], [NONE; DEPTH], [0; DEPTH]);
        let chunk = Chunk { sizes, offsets, nodes, generations, below, class, height, floor };
        match self.chunks.get_mut(index as usize) {
            Some(vacant) => {
                self.vacant = vacant.below;
                *vacant = chunk;
            }
            None => growth::push(&mut self.chunks, chunk),
        }
        index
    }

    /// Returns what is in the places without an entry of a class's chunks.
    fn floor_of(&self, class: usize) -> W {
        // Just below the class: too small for every search there, and close enough for `Width::closest`, which compares
        // differences. A floor of 0 would wrap round to a size that is large enough.
        W::narrow(self.smallest_of(class).saturating_sub(1))
    }

    /// Makes the chunk of a class without entries vacant, if there is one, rather than to allocate more host memory than was
    /// reserved.
    #[cold]
    fn take_unused_chunk(&mut self) {
        // From where the last search ended, so that the empty chunks before it are not passed again and again.
        let whole = self.whole as usize;
        let classes = (self.cursor..whole).chain(0..self.cursor.min(whole));
        let Some(class) = classes.into_iter().find(|&class| self.classes[class].len == KEPT) else { return };
        self.cursor = class + 1;
        let Class { chunk, .. } = core::mem::replace(&mut self.classes[class], Class::UNUSED);
        self.drop_chunk(chunk);
    }

    fn drop_chunk(&mut self, chunk: u32) {
        self.chunks[chunk as usize].below = self.vacant;
        self.vacant = chunk;
    }

    /// Removes the entry at a slot. The caller writes the tag of its node.
    #[inline(always)]
    pub(super) fn remove(&mut self, nodes: &mut Nodes<W>, slot: u32) -> Listed {
        self.remove_found(nodes, self.found(slot))
    }

    /// Returns where the entry at a slot is.
    #[inline(always)]
    pub(super) fn found(&self, slot: u32) -> Found {
        let (chunk, at) = (slot / DEPTH as u32, slot as usize % DEPTH);
        Found { class: self.chunks[chunk as usize].class as usize, chunk, at }
    }

    /// Removes an entry that was found. The caller writes the tag of its node.
    #[inline(always)]
    pub(super) fn remove_found(&mut self, nodes: &mut Nodes<W>, found: Found) -> Listed {
        //   top chunk     [ a  b  c  – … ]            [ a  b  –  – … ]
        //   chunk below   [ d  X  e  f … ]   ──►      [ d  c  e  f … ]
        //
        // The node of `c` gets another tag, though nothing happens to its region. Callers that hold a copy of a node must read
        // its tag again after a removal; `check_invariants` finds a node that does not know its slot.
        let Found { class, chunk, at } = found;
        let at = at % DEPTH;
        let chunks = self.chunks.as_mut_slice();
        let top = &mut self.classes[class];
        let Class { chunk: top_chunk, len } = *top;
        let len = len.wrapping_sub(1);
        let last = len as usize % DEPTH;
        // Of a class that was divided since, the number is above those of all chunks.
        let Some(top_entries) = chunks.get(top_chunk as usize) else {
            return self.remove_from_part(nodes, found);
        };
        top.len = len;
        // The top entry moves into the place, even where it is the removed one: a branch would be predicted wrongly more
        // often than it saves the copy.
        let moved = top_entries.get(last);
        let place = &mut chunks[chunk as usize];
        let removed = place.get(at);
        place.set(at, moved);
        let entries = &mut chunks[top_chunk as usize];
        entries.sizes[last] = entries.floor;
        nodes.at_mut(moved.node).tag = chunk * DEPTH as u32 + at as u32;
        self.len -= 1;
        if len & !GUARDED == 0 {
            self.emptied(class, top_chunk);
        } else {
            self.clear_bit_if(len == KEPT, class);
        }
        removed
    }

    /// Removes the entry of the top chunk of a class that `choice` is about. `None`, with nothing changed, where there is
    /// none, and where the class is divided. The caller writes the tag of the node.
    #[inline(always)]
    pub(super) fn take_of_top(
        &mut self,
        nodes: &mut Nodes<W>,
        class: usize,
        size: u64,
        choice: Choice,
    ) -> Option<Listed> {
        let top = self.classes[class];
        // The number of a division has the highest bit set, and so has none of a chunk: no test for it is needed.
        let entries = self.chunks.get(top.chunk as usize)?;
        let at = match choice {
            Choice::Closest => entries.closest(size)?,
            Choice::ClosestAligned(alignment) => entries.closest_aligned(size, alignment)?,
            Choice::Top(alignment) => {
                let last = (top.len as usize).checked_sub(1)? % DEPTH;
                entries.holds(last, size, alignment).then_some(last)?
            }
        };
        Some(self.remove_found(nodes, Found { class, chunk: top.chunk, at }))
    }

    /// Clears the bit of a class that is no part, where `is_emptied`. Without a branch: half of the classes of a small block
    /// have no entry, or one, in turn. The chunk stays with the class.
    #[inline(always)]
    fn clear_bit_if(&mut self, is_emptied: bool, class: usize) {
        let group = class / GROUP % GROUPS;
        let word = self.words[group] & !(u32::from(is_emptied) << (class % GROUP));
        self.words[group] = word;
        // The group's bit covers all of its classes, so it is cleared with the last of them only.
        self.groups &= !(u64::from(word == 0) << group);
    }

    /// Follows the removal of the last entry of the top chunk of a class that has others below it, or is a part.
    #[inline(never)]
    fn emptied(&mut self, class: usize, chunk: u32) {
        let below = self.chunks[chunk as usize].below;
        if below == NONE {
            // The only chunk of a class that is no part has the bit `KEPT`, so its length never comes to 0.
            return self.part_emptied(class);
        }
        // Others are below, all of them full: the next one is the top now.
        let guard = self.guard(class, self.chunks[below as usize].height);
        self.classes[class] = Class { chunk: below, len: DEPTH as u32 | self.kept(class, below) | guard };
        self.drop_chunk(chunk);
    }
}
