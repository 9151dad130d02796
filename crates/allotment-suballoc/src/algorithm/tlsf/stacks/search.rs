//! The searches of the stacks.

use core::ops::ControlFlow;

use super::super::width::{DEPTH, Width};
use super::{CLOSE, Class, Classes, Division, Entry, Found, GROUP, GROUPS, NONE, Next, Stacks};
use crate::Alignment;

impl<W: Width> Stacks<W> {
    /// Returns the first class that has entries, from a class on.
    #[inline(always)]
    pub(super) fn first_from(&self, class: usize) -> Option<usize> {
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
    pub(super) fn lowest_of(&self, class: usize) -> usize {
        let mut class = class;
        while let Some(division) = self.classes[class].division() {
            class = self.part(division, self.divisions[division].bits.trailing_zeros() as usize);
        }
        class
    }

    /// Returns an entry that surely holds `size` units: of the lowest class whose sizes are all as large. O(1).
    #[inline]
    pub(in crate::algorithm::tlsf) fn surely(&self, size: u64) -> Option<Found> {
        let class = self.lowest_of(self.first_sure_class(size)?);
        let Class { chunk, len } = self.classes[class];
        Some(Found { class, chunk, at: (len as usize - 1) % DEPTH })
    }

    /// Returns the first class that may have an entry of `size` units.
    #[inline(always)]
    pub(in crate::algorithm::tlsf) fn first_class(&self, size: u64) -> Option<usize> {
        self.first_from(Classes::class_of(size))
    }

    /// Returns which coarse classes have entries, of the eight octaves from 2^`from_log2` units on; bit 63 stands for all that
    /// are larger as well.
    pub(in crate::algorithm::tlsf) fn coarse_classes(&self, from_log2: u32) -> u64 {
        // A group is an octave, and four classes of it are one coarse class.
        let first = Classes::class_of(1 << from_log2) / GROUP;
        let mut coarse = 0;
        let mut octaves = self.groups >> first & 0xff;
        while octaves != 0 {
            let octave = octaves.trailing_zeros() as usize;
            octaves &= octaves - 1;
            let mut word = self.words[(first + octave) % GROUPS];
            // abcd efgh … ─► ...x ...y … ─► xy…: each step halves the distance of the bits that stand for four.
            word = (word | word >> 1 | word >> 2 | word >> 3) & 0x1111_1111;
            word = (word | word >> 3) & 0x0303_0303;
            word = (word | word >> 6) & 0x000f_000f;
            coarse |= u64::from((word | word >> 12) & 0xff) << (8 * octave);
        }
        let larger = self.groups >> (first + 8) != 0;
        coarse | u64::from(larger) << 63
    }

    /// Returns the first class that has entries all of which have `size` units.
    #[inline(always)]
    pub(in crate::algorithm::tlsf) fn first_sure_class(&self, size: u64) -> Option<usize> {
        self.first_from(Classes::class_that_surely_fits(size))
    }

    /// Returns `true` if the region of an entry holds an aligned range.
    pub(in crate::algorithm::tlsf) fn holds(&self, found: Found, size: u64, alignment: Alignment) -> bool {
        self.chunks[found.chunk as usize].holds(found.at % DEPTH, size, alignment)
    }

    /// Returns an entry that holds an aligned range closely, of those in one or two chunks of a few classes.
    ///
    /// A region that is larger than the range by half of the alignment holds it with a probability of one half, wherever it
    /// lies, and so on. So a search that went from class to class would look at many regions in vain where the alignment is
    /// large beside the size; this one goes on by a growing share of the alignment.
    pub(in crate::algorithm::tlsf) fn close_aligned(&self, size: u64, alignment: Alignment) -> Option<Found> {
        // For 100 units at an alignment of 64: classes from 100 units on, then from 108, 116 and 132.
        let mut from = 0;
        for share_log2 in [u32::MAX, 3, 2, 1] {
            let more = alignment.get().checked_shr(share_log2).unwrap_or(0);
            let class = self.first_from(Classes::class_of(size + more).max(from))?;
            from = class + 1;
            let part = self.lowest_of(class);
            let mut chunk = self.classes[part].chunk;
            for _ in 0..CLOSE {
                let Some(entries) = self.chunks.get(chunk as usize) else { break };
                if let Some(at) = entries.closest_aligned(size, alignment) {
                    return Some(Found { class: part, chunk, at });
                }
                chunk = entries.below;
            }
        }
        None
    }

    /// Returns an entry that holds `size` units closely: of its own class, if that has one, or else of the next that has
    /// entries; of either the closest of one chunk. `None` where there is none. O(1).
    pub(in crate::algorithm::tlsf) fn close(&self, size: u64) -> Option<Found> {
        // The first class with entries may be the size's own, some of which are too small, or a larger one, where all fit. One
        // search for both: `closest` compares with the smallest size of the class where that is larger.
        let class = self.first_class(size)?;
        self.close_in(class, size).or_else(|| {
            let class = self.lowest_of(self.first_from(class + 1)?);
            self.closest_of_chunk(class, self.classes[class].chunk, 0)
        })
    }

    /// Returns the closest of the first chunk of a class that has one. The class has entries.
    pub(super) fn close_in(&self, class: usize, size: u64) -> Option<Found> {
        let top = self.classes[class];
        if top.division().is_some() {
            return self.close_in_parts(class, size);
        }
        // A larger region is split only where no chunk of the class has any.
        let mut chunk = top.chunk;
        if self.only_size(class).is_some_and(|only| only < size) {
            return None;
        }
        while chunk != NONE {
            let close = self.closest_of_chunk(class, chunk, size);
            if close.is_some() {
                return close;
            }
            chunk = self.chunks[chunk as usize].below;
        }
        None
    }

    #[cold]
    pub(super) fn close_in_parts(&self, class: usize, size: u64) -> Option<Found> {
        let division = self.classes[class].division()?;
        let Division { bits, smallest, .. } = self.divisions[division];
        // All parts are larger than a size below the class.
        let part = self.part_of(division, size.max(smallest));
        if bits >> part & 1 != 0 {
            let close = self.close_in(self.part(division, part), size);
            if close.is_some() {
                return close;
            }
        }
        // The part of the size itself may have only smaller regions.
        // All later parts are larger. Two shifts, since part 31 would need a shift by 32, which overflows.
        let later = bits & ((u32::MAX << part) << 1);
        if later == 0 {
            return None;
        }
        let part = self.lowest_of(self.part(division, later.trailing_zeros() as usize));
        self.closest_of_chunk(part, self.classes[part].chunk, 0)
    }

    /// Returns the entry of a chunk of `class` that holds `size` units most closely.
    pub(super) fn closest_of_chunk(&self, class: usize, chunk: u32, size: u64) -> Option<Found> {
        let at = self.chunks[chunk as usize].closest(size)?;
        Some(Found { class, chunk, at })
    }

    /// Returns the smallest entry that holds `size` units. Looks at no more than [`CROWDED`] chunks for each part.
    pub(in crate::algorithm::tlsf) fn closest(&self, size: u64) -> Option<Found> {
        // Classes and parts are visited from the smallest on, so the first one that has a fit has the closest, and the search
        // ends where the next one begins.
        let mut closest: Option<Entry> = None;
        let _ = self.visit(size, &mut |entry| {
            if closest.is_some_and(|closest| closest.class != entry.class) {
                return Next::End;
            }
            if entry.size >= size && closest.is_none_or(|closest| entry.size < closest.size) {
                closest = Some(entry);
                if entry.size == self.smallest_of(entry.class as usize).max(size) {
                    return Next::End;
                }
            }
            // A class whose regions all have one size may have any number of them.
            if self.only_size(entry.class as usize).is_some() { Next::Class } else { Next::Further }
        });
        closest.map(Entry::found)
    }

    /// Returns the largest size of all entries. Looks at no more than [`CROWDED`] chunks.
    pub(in crate::algorithm::tlsf) fn largest(&self) -> u64 {
        // In the highest class or part; a class that is not divided has 136 entries at most.
        let Some(class) = self.highest() else { return 0 };
        if let Some(only) = self.only_size(class) {
            return only;
        }
        let mut largest = 0;
        let _ = self.visit_stack(class, &mut |_, chunk, len| {
            let sizes = &self.chunks[chunk as usize].sizes[..len as usize];
            largest = sizes.iter().fold(largest, |largest, size| largest.max(size.wide()));
            Next::Further
        });
        largest
    }

    /// Returns an upper bound of the largest size, at most 1/32 too large. O(1).
    pub(in crate::algorithm::tlsf) fn largest_at_most(&self) -> u64 {
        let Some(class) = self.highest() else { return 0 };
        self.only_size(class).unwrap_or_else(|| self.smallest_of(class) + ((1 << self.width_of(class)) - 1))
    }

    /// Returns such a bound, sooner and not as close.
    #[inline]
    pub(in crate::algorithm::tlsf) fn largest_of_class(&self) -> u64 {
        // Of the class, also where that is divided: asked after every change of a block, so that shorter is better than closer.
        self.highest_class().map_or(0, |class| Classes::smallest(class + 1) - 1)
    }

    /// Returns the last class that has entries and is no part.
    #[inline]
    fn highest_class(&self) -> Option<usize> {
        let group = self.groups.checked_ilog2()? as usize;
        // The group has a class, so the bit of one is set.
        let bit = self.words[group % GROUPS].leading_zeros() ^ (GROUP as u32 - 1);
        Some(group * GROUP + bit as usize)
    }

    /// Returns the last class or part that has entries.
    pub(super) fn highest(&self) -> Option<usize> {
        let mut class = self.highest_class()?;
        while let Some(division) = self.classes[class].division() {
            class = self.part(division, self.divisions[division].bits.ilog2() as usize);
        }
        Some(class)
    }

    /// Returns the entry at a slot.
    #[inline]
    pub(in crate::algorithm::tlsf) fn entry(&self, slot: u32) -> Entry {
        let (chunk, at) = (&self.chunks[slot as usize / DEPTH], slot as usize % DEPTH);
        let (size, offset) = (chunk.sizes[at].wide(), chunk.offsets[at].wide());
        Entry { slot, size, offset, node: chunk.nodes[at], class: chunk.class }
    }

    /// Returns the node of an entry.
    #[inline]
    pub(in crate::algorithm::tlsf) fn node(&self, found: Found) -> u32 {
        self.chunks[found.chunk as usize].nodes[found.at % DEPTH]
    }

    /// Calls `visit` with the entries of all classes from that of a size on, smaller classes and parts first.
    pub(in crate::algorithm::tlsf) fn visit(
        &self,
        from: u64,
        visit: &mut impl FnMut(Entry) -> Next,
    ) -> ControlFlow<()> {
        self.visit_chunks(from, &mut |class, chunk, len| self.visit_entries(class, (chunk, len), visit))
    }

    pub(super) fn visit_entries(
        &self,
        class: usize,
        (chunk, len): (u32, u32),
        visit: &mut impl FnMut(Entry) -> Next,
    ) -> Next {
        // From the top on: what was freed last is the most likely to be in a cache.
        for at in (0..len).rev() {
            match visit(Entry { class: class as u32, ..self.entry(chunk * DEPTH as u32 + at) }) {
                Next::Further => {}
                other => return other,
            }
        }
        Next::Further
    }

    /// Calls `visit` with all classes and parts from that of a size on, their chunks, and their numbers of entries.
    pub(super) fn visit_chunks(
        &self,
        from: u64,
        visit: &mut impl FnMut(usize, u32, u32) -> Next,
    ) -> ControlFlow<()> {
        let mut next = self.first_from(Classes::class_of(from));
        while let Some(class) = next {
            self.visit_class(class, from, visit)?;
            next = self.first_from(class + 1);
        }
        ControlFlow::Continue(())
    }

    pub(super) fn visit_class(
        &self,
        class: usize,
        from: u64,
        visit: &mut impl FnMut(usize, u32, u32) -> Next,
    ) -> ControlFlow<()> {
        let Some(division) = self.classes[class].division() else { return self.visit_stack(class, visit) };
        let Division { mut bits, smallest, .. } = self.divisions[division];
        // In the own class of the size, parts that are smaller are left out; in larger ones, none is.
        if from > smallest {
            bits &= u32::MAX << self.part_of(division, from);
        }
        while bits != 0 {
            self.visit_class(self.part(division, bits.trailing_zeros() as usize), from, visit)?;
            bits &= bits - 1;
        }
        ControlFlow::Continue(())
    }

    pub(super) fn visit_stack(
        &self,
        class: usize,
        visit: &mut impl FnMut(usize, u32, u32) -> Next,
    ) -> ControlFlow<()> {
        let top = self.classes[class];
        // The top chunk may have any number of entries; those below it are full.
        let (mut chunk, mut len) = (top.chunk, top.len());
        while chunk != NONE {
            match visit(class, chunk, len) {
                Next::Further => {}
                Next::Class => return ControlFlow::Continue(()),
                Next::End => return ControlFlow::Break(()),
            }
            chunk = self.chunks[chunk as usize].below;
            len = DEPTH as u32;
        }
        ControlFlow::Continue(())
    }
}
