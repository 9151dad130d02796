//! An index of the free regions in address order, which tells the lowest one with room for a range.
//!
//! A B-tree: each page contains up to 16 entries by offset, of free regions or of pages below, and for each the most room
//! that is there. *Room* of a region is the size of the largest range at the index's alignment.
//!
//! ```text
//!   root                      0: 96               640: 7     …                    offset: most room below
//!   leaves   [ 0: 40   128: 96   512: 8 ]   [ 640: 7   700: 2   …   ]             offset: room, and the node
//! ```
//!
//! A search for 50 units takes the first entry with so much room in each page, and so ends at 128.
//!
//! The index is made as far as searches ask, from the start of the block on: the lowest region is mostly near it.
//!
//! ```text
//!   offset    0 ──────────── frontier ──────────────────── end
//!             all in the index   │   not yet
//! ```
//!
//! A region that enters or leaves beyond the frontier is nothing to the index, and neither is one without room, of which a full
//! block has many where the alignment is large.
//!
//! A region that entered where one left needs one descent for both: the free region that a range is taken from, or that a
//! freed range is merged with, has no other free region between itself and what it becomes.
//!
//! # Cost
//!
//! O(log n) for a search and for a region that enters or leaves; mostly O(1) for a region that the frontier passes. An entry takes 21
//! bytes, and pages are at least a quarter full but where a whole page has no neighbour: 30 to 85 bytes a free region.

use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::super::nodes::{END, Nodes};
use super::super::width::Width;
use super::{Change, room_in};
use crate::Alignment;

/// The entries of a page at most. With pages of 8 and of 12, changes took 6 % more and 3 % fewer instructions among 10^3 regions,
/// and the time was the same.
const FANOUT: usize = 16;

/// The entries of a page below which it is merged with one beside it, if both have place in one.
const FEW: usize = FANOUT / 4;

/// A free region, or a page of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// The offset of the region; of a page, no more than that of its first one and more than that of any before.
    offset: u64,
    /// The most room that is there.
    room: u64,
    /// The node of the region, or the number of the page.
    below: u32,
}

#[derive(Clone, Debug)]
struct Page {
    len: usize,
    // An array for each number, and not one of entries: a search reads the rooms alone, two cache lines of a page.
    offsets: [u64; FANOUT],
    /// 0 behind the last entry.
    rooms: [u64; FANOUT],
    below: [u32; FANOUT],
}

#[derive(Clone, Debug)]
pub(super) struct Index {
    pub(super) alignment: Alignment,
    /// The changes since a search asked.
    pub(super) idle: u64,
    pages: Vec<Page>,
    vacant: Vec<u32>,
    root: u32,
    /// The pages between the root and a region, with the leaf: 0 where the root is the leaf.
    height: u32,
    /// The free regions that begin below are in the index. [`u64::MAX`] where all are.
    frontier: u64,
    /// The node of the region that begins there, unless it became part of another one since.
    next: u32,
}

/// What is done to one leaf.
#[derive(Clone, Copy)]
enum Edit {
    Insert(Entry),
    /// The entry of the region at the offset.
    Remove(u64),
    /// That entry becomes another one, and no region is between the two.
    Replace(u64, Entry),
}

impl Page {
    const EMPTY: Self = Self { len: 0, offsets: [0; FANOUT], rooms: [0; FANOUT], below: [0; FANOUT] };

    fn get(&self, at: usize) -> Entry {
        Entry { offset: self.offsets[at], room: self.rooms[at], below: self.below[at] }
    }

    fn set(&mut self, at: usize, entry: Entry) {
        self.offsets[at] = entry.offset;
        self.rooms[at] = entry.room;
        self.below[at] = entry.below;
    }

    fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        (0..self.len).map(|at| self.get(at))
    }

    /// Returns the position of the first entry behind an offset.
    fn behind(&self, offset: u64) -> usize {
        self.offsets[..self.len].partition_point(|&other| other <= offset)
    }

    fn most_room(&self) -> u64 {
        self.rooms.iter().copied().fold(0, u64::max)
    }

    fn insert(&mut self, at: usize, entry: Entry) {
        self.offsets.copy_within(at..self.len, at + 1);
        self.rooms.copy_within(at..self.len, at + 1);
        self.below.copy_within(at..self.len, at + 1);
        self.len += 1;
        self.set(at, entry);
    }

    fn remove(&mut self, at: usize) {
        self.offsets.copy_within(at + 1..self.len, at);
        self.rooms.copy_within(at + 1..self.len, at);
        self.below.copy_within(at + 1..self.len, at);
        self.len -= 1;
        // `most_room` looks at all sixteen, without a loop that ends early: what is behind the last entry must not count.
        self.rooms[self.len] = 0;
    }

    fn push(&mut self, entry: Entry) {
        self.set(self.len, entry);
        self.len += 1;
    }

    /// Moves the entries from `at` on to a new page.
    fn split_off(&mut self, at: usize) -> Self {
        let mut behind = Self::EMPTY;
        (at..self.len).for_each(|at| behind.push(self.get(at)));
        self.rooms[at..].fill(0);
        self.len = at;
        behind
    }
}

impl Index {
    /// Makes an index of nothing yet.
    pub(super) fn new(alignment: Alignment) -> Self {
        let pages = Vec::from([Page::EMPTY]);
        Self { alignment, idle: 0, pages, vacant: Vec::new(), root: 0, height: 0, frontier: 0, next: END }
    }

    /// Returns `true` if all free regions that begin below an offset are in the index.
    pub(super) fn reaches(&self, offset: u64) -> bool {
        self.frontier >= offset
    }

    /// Moves the frontier up by some regions.
    pub(super) fn extend<W: Width>(&mut self, nodes: &Nodes<W>, regions: usize) {
        let mut at = self.first_beyond(nodes);
        // A step for each region, used or free, so that the call is as short as was asked.
        for _ in 0..regions {
            if at == END {
                break;
            }
            let offset = nodes.offset(at);
            if offset >= self.frontier && nodes.at(at).is_free() {
                let entry = self.region(nodes, at);
                if entry.room != 0 {
                    self.append(entry);
                }
            }
            at = nodes.at(at).after;
        }
        // Perhaps below what it was, where all between the last entry and the frontier is used: that is as right.
        (self.frontier, self.next) = if at == END { (u64::MAX, END) } else { (nodes.offset(at), at) };
    }

    /// Returns the first node that may not be in the index.
    fn first_beyond<W: Width>(&self, nodes: &Nodes<W>) -> u32 {
        let is_there = |node: u32| node != END && nodes.get(node).is_some() && !nodes.is_vacant(node);
        if is_there(self.next) && nodes.offset(self.next) == self.frontier {
            return self.next;
        }
        // It became part of another region. No free region with room is between the last one that is in the index and the
        // frontier, so the walk may begin behind the last one again.
        let last = self.last().map_or(END, |last| last.below);
        if self.frontier == u64::MAX { END } else { nodes.at(last).after }
    }

    /// Returns the entry of the last region.
    fn last(&self) -> Option<Entry> {
        let mut page = &self.pages[self.root as usize];
        for _ in 0..self.height {
            page = &self.pages[page.below[page.len - 1] as usize];
        }
        Some(page.get(page.len.checked_sub(1)?))
    }

    fn region<W: Width>(&self, nodes: &Nodes<W>, node: u32) -> Entry {
        let offset = nodes.offset(node);
        self.entry(node, offset, nodes.end(node) - offset)
    }

    fn entry(&self, node: u32, offset: u64, size: u64) -> Entry {
        Entry { offset, room: room_in(offset, size, self.alignment), below: node }
    }

    /// Returns the entries of all free regions below the frontier, in address order.
    fn regions<W: Width>(&self, nodes: &Nodes<W>) -> impl Iterator<Item = Entry> {
        let all = core::iter::successors(Some(nodes.at(END).after), |&node| Some(nodes.at(node).after));
        let free = all.take_while(|&node| node != END).filter(|&node| nodes.at(node).is_free());
        let below =
            free.map(|node| self.region(nodes, node)).take_while(|entry| entry.offset < self.frontier);
        below.filter(|entry| entry.room != 0)
    }

    /// Returns the entry of a page, which is not empty, or the only one.
    fn entry_of(&self, page: u32) -> Entry {
        let Page { offsets, .. } = &self.pages[page as usize];
        Entry { offset: offsets[0], room: self.pages[page as usize].most_room(), below: page }
    }

    /// Calls `visit` with the nodes of the regions that have room, the lowest first, until it breaks.
    pub(super) fn visit<B>(
        &self,
        room: u64,
        visit: &mut impl FnMut(u32) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.visit_page((self.root, self.height), room, visit)
    }

    fn visit_page<B>(
        &self,
        (page, height): (u32, u32),
        room: u64,
        visit: &mut impl FnMut(u32) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        // First fit: the first entry with room in the root, then in the page below, and so on. Each page that is entered has a
        // region with room, so nothing is looked at in vain, and the visitor stops where it has what it wants.
        let page = &self.pages[page as usize];
        for at in 0..page.len {
            if page.rooms[at] < room {
                continue;
            }
            match height.checked_sub(1) {
                None => visit(page.below[at])?,
                Some(height) => self.visit_page((page.below[at], height), room, visit)?,
            }
        }
        ControlFlow::Continue(())
    }

    /// Makes the changes of an operation, in their order.
    pub(super) fn apply(&mut self, changes: &[Change]) {
        // The simple idea: an entry is removed for each region that left, and inserted for each that entered. But an operation
        // changes free units that lie side by side, with no other free region in between, so the entry of one that left last can
        // become that of the next one that enters, in its place:
        //
        //   allocate      left F [0..160]                 entered rest [64..160]              one replaced
        //   aligned       left F [40..200]                entered gap [40..64], rest [164..200]   one replaced, one inserted
        //   free          left F [0..40], G [50..90]      entered F + R + G [0..90]           one removed, one replaced
        //
        // A replaced entry keeps its position, so this is right only as long as no entry lies between what left and what
        // entered. An operation that changes two places of a block has to settle in between.
        let mut left: Option<&Change> = None;
        let frontier = self.frontier;
        for change in changes.iter().filter(|change| change.offset < frontier) {
            let entry = self.entry(change.node, change.offset, change.size);
            if entry.room == 0 {
                // In no entry, whether it enters or leaves.
                continue;
            }
            match left {
                Some(before) if change.entered => {
                    debug_assert!(change.overlaps(before), "what enters after another left is made of it");
                    self.edit(Edit::Replace(before.offset, entry));
                    left = None;
                }
                _ if change.entered => self.edit(Edit::Insert(entry)),
                _ => {
                    if let Some(before) = left.replace(change) {
                        self.edit(Edit::Remove(before.offset));
                    }
                }
            }
        }
        if let Some(before) = left {
            self.edit(Edit::Remove(before.offset));
        }
    }

    /// Adds an entry behind all others.
    fn append(&mut self, entry: Entry) {
        // Down the right edge, which is all that changes. A descent by `edit` takes four times as many instructions, and all
        // regions of the block may be appended in one call. The room above can only grow.
        let mut page = self.root;
        for _ in 0..self.height {
            let entries = &mut self.pages[page as usize];
            let last = entries.len - 1;
            entries.rooms[last] = entries.rooms[last].max(entry.room);
            page = entries.below[last];
        }
        let leaf = &mut self.pages[page as usize];
        if leaf.len < FANOUT { leaf.push(entry) } else { self.edit(Edit::Insert(entry)) }
    }

    fn edit(&mut self, edit: Edit) {
        // The root was split: a new one has both halves. So all leaves are at one height, always.
        if let Some(behind) = self.edit_below(self.root, self.height, edit) {
            let mut root = Page::EMPTY;
            root.push(self.entry_of(self.root));
            root.push(behind);
            self.root = self.add(root);
            self.height += 1;
        }
        // And where all but one page of the root were merged away, that one is the root.
        while self.height > 0 && self.pages[self.root as usize].len == 1 {
            self.vacant.push(self.root);
            self.root = self.pages[self.root as usize].below[0];
            self.height -= 1;
        }
    }

    /// Changes one leaf at or below a page. Returns the page that was split off behind it, if one was.
    fn edit_below(&mut self, page: u32, height: u32, edit: Edit) -> Option<Entry> {
        let entries = &mut self.pages[page as usize];
        let (Edit::Insert(Entry { offset, .. }) | Edit::Remove(offset) | Edit::Replace(offset, _)) = edit;
        let behind = entries.behind(offset);
        // The entry whose page contains the offset. Before the first entry there is none; a region there goes into the first
        // page, whose offset becomes less.
        let at = behind.saturating_sub(1);
        let Some(height) = height.checked_sub(1) else {
            // Offsets are unique: a region leaves before another one enters at its offset.
            match edit {
                Edit::Insert(entry) => return self.insert(page, behind, entry),
                Edit::Remove(_) => entries.remove(at),
                Edit::Replace(_, entry) => entries.set(at, entry),
            }
            return None;
        };
        let below = entries.below[at];
        let split = self.edit_below(below, height, edit);
        // On the way up: an empty page goes, a short one is merged, a split one gets its other half beside it. A page that is
        // merely changed gets a new maximum, without a test whether it is another one: first fit takes from the region with
        // most room too often for the test to pay (measured: 1 % more instructions with it).
        let len = self.pages[below as usize].len;
        if len == 0 {
            self.pages[page as usize].remove(at);
            self.vacant.push(below);
            return None;
        }
        let entry = self.entry_of(below);
        self.pages[page as usize].set(at, entry);
        match split {
            Some(entry) => self.insert(page, at + 1, entry),
            None => {
                if len < FEW {
                    self.merge(page, at);
                }
                None
            }
        }
    }

    /// Inserts an entry into a page. Returns the page that was split off behind it, if there was no place.
    fn insert(&mut self, page: u32, at: usize, entry: Entry) -> Option<Entry> {
        let entries = &mut self.pages[page as usize];
        if entries.len < FANOUT {
            entries.insert(at, entry);
            return None;
        }
        // Behind all others, as the regions come when the index is made, a page is left fuller.
        let half = if at == FANOUT { FANOUT * 3 / 4 } else { FANOUT / 2 };
        let mut behind = entries.split_off(half);
        if at > half {
            behind.insert(at - half, entry);
        } else {
            entries.insert(at, entry);
        }
        let behind = self.add(behind);
        Some(self.entry_of(behind))
    }

    /// Merges the page of an entry with the one beside it, if one page has place for both.
    fn merge(&mut self, page: u32, at: usize) {
        let entries = &self.pages[page as usize];
        for first in [Some(at), at.checked_sub(1)].into_iter().flatten() {
            if first + 1 >= entries.len {
                continue;
            }
            // With the page behind, and else with the one before.
            let [front, behind] = [first, first + 1].map(|at| entries.below[at]);
            //   │ a b │ c d e f │   ──►   │ a b c d e f │
            // A place to spare: a page that is full would be split by the next region.
            if self.pages[front as usize].len + self.pages[behind as usize].len < FANOUT {
                let moved = self.pages[behind as usize].clone();
                moved.entries().for_each(|entry| self.pages[front as usize].push(entry));
                let entry = self.entry_of(front);
                let entries = &mut self.pages[page as usize];
                entries.set(first, entry);
                entries.remove(first + 1);
                self.vacant.push(behind);
                return;
            }
        }
    }

    fn add(&mut self, page: Page) -> u32 {
        // Pages that were merged away come first: an index that changes without growing gets no memory from the heap.
        if let Some(vacant) = self.vacant.pop() {
            self.pages[vacant as usize] = page;
            return vacant;
        }
        self.pages.push(page);
        self.pages.len() as u32 - 1
    }

    /// Returns the number of pages that are in use.
    #[cfg(test)]
    pub(super) fn pages(&self) -> usize {
        self.pages.len() - self.vacant.len()
    }

    /// Panics unless the index is that of these free regions. O(nodes).
    pub(super) fn check_invariants<W: Width>(&self, nodes: &Nodes<W>) {
        let mut listed = Vec::new();
        let pages = self.check_page((self.root, self.height), &mut listed);
        assert!(self.regions(nodes).eq(listed), "each free region has one entry, in address order");
        assert_eq!(pages + self.vacant.len(), self.pages.len(), "a page is in the tree or vacant");
        let is_needed = self.height == 0 || self.pages[self.root as usize].len > 1;
        assert!(is_needed, "a root with one page below is not kept");
    }

    /// Adds the regions at or below a page to `listed`. Returns the number of pages.
    fn check_page(&self, (page, height): (u32, u32), listed: &mut Vec<Entry>) -> usize {
        let entries = &self.pages[page as usize];
        assert!(entries.rooms[entries.len..].iter().all(|&room| room == 0), "no room behind the last entry");
        let Some(height) = height.checked_sub(1) else {
            listed.extend(entries.entries());
            return 1;
        };
        assert_ne!(entries.len, 0, "only the root of an empty index is empty");
        let mut pages = 1;
        for entry in entries.entries() {
            assert_eq!(entry, self.entry_of(entry.below), "an entry is about the page below it");
            pages += self.check_page((entry.below, height), listed);
        }
        pages
    }
}
