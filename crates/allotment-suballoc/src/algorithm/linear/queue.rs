//! The ranges of a linear block, as a queue with two open ends: entries in chunks of one vector.
//!
//! ```text
//!   chunk 0   │ ⇄ │   │   │ B │ C │ D │      the first entry is B
//!   chunk 1   │ ⇄ │ K │ L │   │   │   │      the last entry is L
//!   chunk 2   │ ⇄ │ E │ F │ G │ H │ J │      the order of the chunks is 0, 2, 1
//! ```
//!
//! The entry at the front of each chunk is its *header*, which links to the chunks before and behind it. So an entry
//! never moves, and its index is good for a handle; the next entry is nearly always at the next index. A chunk that becomes
//! empty is kept for the next one that is needed, at either end: a queue that goes round and round in a block uses as many
//! entries as it is long, and two chunks.
//!
//! An entry in the middle whose range is freed is *dead*: it stays until the end of the queue comes to it. Dead entries side by
//! side are one run, the first and the last of which link to each other, so the run is crossed, or dropped, in O(1).
//!
//! # Invariants
//!
//! 1. The first and the last entry are not dead, and all chunks between theirs are full.
//! 2. No serial number but those of live entries is other than 0: it makes the handles of all others stale.
//! 3. An empty queue has its first index behind the last, both in one chunk.

use alloc::vec::Vec;

use crate::algorithm::NONE;
use crate::algorithm::tlsf::Width;
use crate::growth;

/// Entries of a chunk, with its header. Two chunks are what a short queue costs at most, and a long one pays for each
/// header; 32 entries are 640 bytes, and a thirtieth.
// A power of two, and a chunk begins at a multiple of it: `header_of` clears bits, and `next` looks at them.
pub(super) const CHUNK: u32 = 32;

/// A range. 20 bytes in a block of fewer than 2^32 units, else 32.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry<W> {
    offset: W,
    end: W,
    /// Where the padding of the range begins, if it is before the range, or ends, if it is behind.
    padding: W,
    /// In bytes, so that an entry of small numbers is as small as its parts. 0 where the entry is dead, vacant or a header.
    serial: [u8; 8],
}

impl<W: Width> Entry<W> {
    /// Returns an entry whose padding begins at `padding`, on the lower side, or ends there, on the upper side.
    #[inline]
    pub(super) fn new(offset: u64, end: u64, padding: u64, serial: u64) -> Self {
        let [offset, end, padding] = [offset, end, padding].map(W::narrow);
        Self { offset, end, padding, serial: serial.to_ne_bytes() }
    }

    #[inline]
    pub(super) fn offset(&self) -> u64 {
        self.offset.wide()
    }

    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.end.wide()
    }

    #[inline]
    pub(super) fn size(&self) -> u64 {
        self.end() - self.offset()
    }

    /// Returns where the range begins, or the padding before it.
    #[inline]
    pub(super) fn from(&self) -> u64 {
        self.padding.wide().min(self.offset())
    }

    /// Returns where the range ends, or the padding behind it.
    #[inline]
    pub(super) fn to(&self) -> u64 {
        self.padding.wide().max(self.end())
    }

    /// Returns the units of padding, on whichever side of the range.
    #[inline]
    pub(super) fn padding(&self) -> u64 {
        self.to() - self.from() - self.size()
    }

    #[inline]
    pub(super) fn is_upper(&self) -> bool {
        // A range is not empty, so where there is no padding, the end of an upper one is above its offset nevertheless.
        self.padding.wide() > self.offset()
    }

    /// Moves the end. An upper range gives up its padding if it is cut short, and has none if it grows.
    pub(super) fn set_end(&mut self, end: u64) {
        if self.is_upper() {
            self.padding = W::narrow(end);
        }
        self.end = W::narrow(end);
    }

    #[inline]
    pub(super) fn serial(&self) -> u64 {
        u64::from_ne_bytes(self.serial)
    }

    /// Returns `true` if the entry is dead, vacant or a header.
    #[inline]
    pub(super) fn is_dead(&self) -> bool {
        self.serial() == 0
    }

    fn widened<V: Width>(self) -> Entry<V> {
        let [offset, end, padding] =
            [self.offset, self.end, self.padding].map(|number| V::narrow(number.wide()));
        Entry { offset, end, padding, serial: self.serial }
    }

    // What an entry that is not live contains, in place of its numbers.

    /// The other end of a run of dead entries, of the entries at its two ends; the chunk before, of a header.
    #[inline]
    fn link(&self) -> u32 {
        self.offset.wide() as u32
    }

    fn set_link(&mut self, to: u32) {
        self.offset = W::narrow(to.into());
    }

    /// The chunk behind, of a header.
    fn next(&self) -> u32 {
        self.end.wide() as u32
    }

    fn set_next(&mut self, to: u32) {
        self.end = W::narrow(to.into());
    }
}

#[derive(Clone, Debug)]
pub(super) struct Queue<W> {
    entries: Vec<Entry<W>>,
    first: u32,
    last: u32,
    /// The header of the first vacant chunk, or [`NONE`].
    vacant: u32,
}

/// Returns the header of an entry's chunk.
fn header_of(index: u32) -> u32 {
    index & !(CHUNK - 1)
}

impl<W: Width> Queue<W> {
    /// Creates an empty queue, which has no host memory yet.
    pub(super) const fn new() -> Self {
        Self { entries: Vec::new(), first: 1, last: 0, vacant: NONE }
    }

    /// Makes the queue empty. Keeps the host memory.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        (self.first, self.last, self.vacant) = (1, 0, NONE);
    }

    /// Frees host memory behind the last chunk that has entries, which is all of a queue that was cleared. O(chunks).
    pub(super) fn shrink(&mut self) {
        if !self.entries.is_empty() {
            let (mut chunk, mut end) = (header_of(self.first), header_of(self.last));
            while chunk != header_of(self.last) {
                end = end.max(chunk);
                chunk = self.at(chunk).next();
            }
            // The vacant chunks before that one stay, since an index is an offset in the vector and a live entry cannot move.
            let mut vacant = core::mem::replace(&mut self.vacant, NONE);
            while vacant != NONE {
                let next = self.at(vacant).next();
                if vacant < end {
                    self.vacate(vacant, vacant);
                }
                vacant = next;
            }
            self.entries.truncate((end + CHUNK) as usize);
        }
        self.entries.shrink_to_fit();
    }

    #[inline]
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    #[inline]
    pub(super) fn last(&self) -> u32 {
        self.last
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        // An index that is followed by the first one of another chunk is not that of the last entry: a header is between them.
        self.first == self.last + 1
    }

    /// Returns a number above every index.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns a number above every index after so many further entries at both ends.
    pub(super) fn len_with(&self, entries: usize) -> usize {
        // At either end, a chunk that is not full.
        let chunks = entries.div_ceil(CHUNK as usize - 1) + 2;
        self.len().saturating_add(chunks.saturating_mul(CHUNK as usize))
    }

    pub(super) fn reserve(&mut self, entries: usize) {
        self.entries.reserve(self.len_with(entries) - self.len());
    }

    #[inline]
    pub(super) fn at(&self, index: u32) -> Entry<W> {
        self.entries[index as usize]
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&Entry<W>> {
        self.entries.get(index as usize)
    }

    #[inline]
    pub(super) fn at_mut(&mut self, index: u32) -> &mut Entry<W> {
        &mut self.entries[index as usize]
    }

    /// Returns the entry before one that is not the first.
    #[inline]
    pub(super) fn before(&self, index: u32) -> u32 {
        debug_assert_ne!(index, self.first, "nothing is before the first entry");
        // In the same chunk but for the first entry of one, whose header leads to the chunk before.
        let header = header_of(index);
        if index - 1 != header { index - 1 } else { self.at(header).link() + (CHUNK - 1) }
    }

    /// Returns the entry behind one that is not the last.
    #[inline]
    pub(super) fn after(&self, index: u32) -> u32 {
        debug_assert_ne!(index, self.last, "nothing is behind the last entry");
        let next = index + 1;
        if next % CHUNK != 0 { next } else { self.at(header_of(index)).next() + 1 }
    }

    /// Returns the other end of the run of dead entries of which `index` is one end.
    #[inline]
    pub(super) fn across(&self, index: u32) -> u32 {
        debug_assert!(self.at(index).is_dead(), "a run has dead entries only");
        self.at(index).link()
    }

    /// Returns the index of the next entry at the end, where the vector has a place for it and the chunk too.
    #[inline(always)]
    pub(super) fn next(&self) -> Option<u32> {
        let index = self.last + 1;
        (index % CHUNK != 0 && (index as usize) < self.entries.len()).then_some(index)
    }

    /// Writes the entry of which [`next`](Self::next) returned the index.
    #[inline(always)]
    pub(super) fn push_next(&mut self, index: u32, entry: Entry<W>) {
        debug_assert_eq!(index, self.last + 1, "the entry comes behind the last one");
        self.last = index;
        *self.at_mut(index) = entry;
    }

    /// Adds an entry behind the last one, and returns its index.
    pub(super) fn push_back(&mut self, entry: Entry<W>) -> u32 {
        //   │ ⇄ │ … │ L │   ──►   │ ⇄ │ … │ L │ ⇄ │ ⇄ │ new │  –  │  –  │
        if (self.last + 1) % CHUNK == 0 {
            let full = header_of(self.last);
            if self.is_empty() {
                // The chunk is used again from its start: a queue that fills and empties needs no second one.
                (self.first, self.last) = (full + 1, full);
            } else {
                let new = self.take_chunk();
                self.link_chunks(full, new);
                self.last = new;
            }
        }
        let index = self.last + 1;
        self.extend_to(index);
        self.push_next(index, entry);
        index
    }

    /// Adds an entry before the first one, and returns its index.
    pub(super) fn push_front(&mut self, entry: Entry<W>) -> u32 {
        if self.is_empty() {
            return self.push_back(entry);
        }
        let header = header_of(self.first);
        // A new chunk is filled from its end, since the next entry at this end comes before this one.
        //   │ ⇄ │ F │ … │   ──►   │ ⇄ │  –  │  –  │ new │ ⇄ │ ⇄ │ F │ … │
        if self.first - 1 == header {
            let new = self.take_chunk();
            self.link_chunks(new, header);
            self.first = new + CHUNK;
        }
        self.first -= 1;
        self.extend_to(self.first);
        *self.at_mut(self.first) = entry;
        self.first
    }

    /// Removes the only entry.
    #[inline]
    pub(super) fn remove_only(&mut self) {
        debug_assert_eq!(self.first, self.last, "it is the only entry");
        self.kill(self.last);
        self.last -= 1;
    }

    /// Removes the last entry, where the one before is in the same chunk and not dead.
    #[inline]
    pub(super) fn pop_back(&mut self) {
        self.kill(self.last);
        self.last -= 1;
    }

    /// Makes `index`, which is not dead, the last entry. What is behind it has been killed.
    #[inline]
    pub(super) fn cut_behind(&mut self, index: u32) {
        // The chunks behind that of `index` have no entry any more. They are linked already, so all of them become vacant in one
        // step.
        let (first, last) = (header_of(index), header_of(self.last));
        self.last = index;
        if first != last {
            self.vacate(self.at(first).next(), last);
        }
    }

    /// Makes `index`, which is not dead, the first entry. What is before it has been killed.
    #[inline]
    pub(super) fn cut_before(&mut self, index: u32) {
        let (first, last) = (header_of(self.first), header_of(index));
        self.first = index;
        if first != last {
            self.vacate(first, self.at(last).link());
        }
    }

    /// Makes the handle of an entry stale.
    #[inline]
    pub(super) fn kill(&mut self, index: u32) {
        self.at_mut(index).serial = [0; 8];
    }

    /// Makes the entries from `first` to `last`, all of which are dead, one run.
    #[inline]
    pub(super) fn join(&mut self, first: u32, last: u32) {
        // The links of entries inside the run are those of older runs, and never read: `across` starts at an end.
        self.at_mut(first).set_link(last);
        self.at_mut(last).set_link(first);
    }

    /// Keeps the chunks from `first` to `last`, which are linked, for later.
    #[cold]
    fn vacate(&mut self, first: u32, last: u32) {
        let vacant = self.vacant;
        self.at_mut(last).set_next(vacant);
        self.vacant = first;
    }

    /// Returns the header of a chunk without entries.
    fn take_chunk(&mut self) -> u32 {
        let mut header = self.vacant;
        if header == NONE {
            // The block checked before the operation that there are indices left.
            header = (self.entries.len() as u32).next_multiple_of(CHUNK);
            self.extend_to(header);
        } else {
            self.vacant = self.at(header).next();
        }
        header
    }

    fn link_chunks(&mut self, before: u32, behind: u32) {
        self.at_mut(before).set_next(behind);
        self.at_mut(behind).set_link(before);
    }

    /// Lets the vector contain the entry `index`, and the rest of its chunk where that is not the first: many blocks never
    /// have more than one range, and in those that do, the next entry then is there.
    fn extend_to(&mut self, index: u32) {
        let end = if index <= 1 { index + 1 } else { (index | (CHUNK - 1)) + 1 };
        while self.entries.len() < end as usize {
            growth::push(&mut self.entries, Entry::default());
        }
    }

    /// Returns the same ranges with offsets of another width.
    pub(super) fn with_width<V: Width>(self) -> Queue<V> {
        let Self { entries, first, last, vacant } = self;
        Queue { entries: entries.into_iter().map(Entry::widened).collect(), first, last, vacant }
    }

    /// Panics unless the invariants hold. O(entries).
    pub(super) fn check_invariants(&self) {
        let mut live = 0;
        let mut linked = 0;
        if self.is_empty() {
            assert_eq!(header_of(self.first), header_of(self.last), "an empty queue is in one chunk");
            linked += usize::from(!self.entries.is_empty());
        } else {
            assert!(!self.at(self.first).is_dead() && !self.at(self.last).is_dead(), "the ends are live");
            let mut index = self.first;
            linked += 1;
            loop {
                live += usize::from(!self.at(index).is_dead());
                if index == self.last {
                    break;
                }
                let after = self.after(index);
                assert_eq!(self.before(after), index, "chunks are linked both ways");
                linked += usize::from(header_of(after) != header_of(index));
                index = after;
            }
        }
        let mut vacant = self.vacant;
        while vacant != NONE {
            linked += 1;
            vacant = self.at(vacant).next();
        }
        assert_eq!(linked, self.entries.len().div_ceil(CHUNK as usize), "no chunk is lost");
        let serials = self.entries.iter().filter(|entry| !entry.is_dead()).count();
        assert_eq!(serials, live, "only live entries have a serial number");
    }
}
