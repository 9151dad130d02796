//! Compaction: moves live ranges towards the start of their block, so that the free space becomes one region.
//!
//! ```text
//!   before    │ A │░░░│ B │░░░│ C │░░░│ D │░░░│
//!   run             ◄─────────────────── D        the highest range first, to the lowest free range that holds
//!                           ◄──── C               it and ends below it; then the next lower one
//!   after     │ A │ D │ B │ C │░░░░░░░░░░░░░░░│
//! ```
//!
//! A block copies no bytes. [`next_move`](VirtualBlock::next_move) reserves a destination, the caller copies,
//! and [`finish_move`](VirtualBlock::finish_move) frees the source. Until then both are allocated and never
//! overlap, so a copy may take any time, on a GPU too, and any number of moves may be open.
//!
//! # The result of a run
//!
//! A run looks once at each range that was live when it began. Each move leaves a hole that may fit a range
//! that the run has passed already, so one run may not be enough. A run that returns no move has found that no
//! range that it may move can move lower. Each move brings a range lower, so repeated runs reach that state if
//! no ranges are allocated or freed meanwhile. Then every free region is smaller than every movable range above
//! it (TLSF, alignment 1). If all ranges have one size and alignment, one run is enough. Pinned ranges keep the
//! free space fragmented, and so do ranges whose only lower destination would overlap their source.
//!
//! # Invariants
//!
//! 1. The source and the destination of an open move are both in [`Moves::open`], and no run returns either as a
//!    source meanwhile.
//! 2. Every range at or above a run's `below` was looked at, or was allocated after the run began.
//!
//! # Cost
//!
//! A run takes 32 bytes and a move 56, both stored by the caller. A step of the cursor is O(1). Each range that
//! the cursor reaches costs a search of the free regions that are large enough for it, as
//! [`allocate_below`](VirtualBlock::allocate_below) does. `next_move` continues until it has found a range that
//! can move, so a call that finds none has looked at all remaining ranges: let `alignment_of` pin ranges that
//! are not worth a move, such as small ones. The cursor continues from the region it looked at last while that
//! is part of the chain, and otherwise walks down from the end of the block, in O(regions) without a search.
//! `finish_move` and `cancel_move` cost as much as a free.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::mem;

use crate::algorithm::{Engine, Ranges};
use crate::algorithm::{NONE, State};
use crate::handle::BlockId;
use crate::{Algorithm, Alignment, CompactionError, Handle, MoveError, Request, Unfinished, VirtualBlock};

/// One run of moves through a block, from its end to its start.
///
/// A run stays valid while ranges are allocated, freed and resized between its moves; it does not move ranges
/// allocated after it began. It holds no resources of the block and may be dropped at any time.
///
/// ```
/// use allotment_suballoc::{Algorithm, Alignment, Compaction, Request, VirtualBlock};
///
/// let mut bytes = vec![0; 100];
/// let mut block = VirtualBlock::new(100, Algorithm::Tlsf)?;
/// let mut ranges = Vec::new();
/// for letter in b'a'..=b'j' {
///     let range = block.allocate(Request::new(10), letter)?;
///     bytes[range.offset as usize..][..10].fill(letter);
///     ranges.push(range.handle);
/// }
/// // Every second range is freed: half of the block is free, in pieces.
/// for handle in ranges.into_iter().step_by(2) {
///     block.free(handle)?;
/// }
/// assert_eq!((block.statistics().free, block.largest_free()), (50, 10));
/// assert_eq!(block.largest_free_at_best(), 50);
///
/// let mut compaction = Compaction::new();
/// while let Some(step) = block.next_move(&mut compaction, |_| Some(Alignment::ONE))? {
///     let from = step.from_offset() as usize;
///     bytes.copy_within(from..from + step.size() as usize, step.to_offset() as usize);
///     // From here on the range has another handle and another offset.
///     let handle = block.finish_move(step)?;
///     let range = block.get(handle)?;
///     assert_eq!(bytes[range.offset as usize], *range.data);
/// }
/// assert_eq!(block.largest_free(), 50);
/// assert_eq!(&bytes[..50], b"jjjjjjjjjjbbbbbbbbbbhhhhhhhhhhddddddddddffffffffff");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Compaction {
    /// Set by the block that the run is used with first; `None` before that.
    cursor: Option<Cursor>,
}

impl Compaction {
    /// Creates a run that begins at the end of the block it is used with first.
    #[must_use]
    pub const fn new() -> Self {
        Self { cursor: None }
    }
}

/// What a block knows of its ranges for the sake of runs. Empty in a block that was never compacted.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// The runs that began so far.
    runs: u64,
    /// By the index of its region: the runs that had begun when a range was allocated. Without an entry: none had.
    born: Vec<u64>,
    /// The regions of open moves, both of each.
    open: BTreeSet<u32>,
}

impl Moves {
    /// Follows an allocation.
    #[inline]
    pub(crate) fn allocated(&mut self, index: u32) {
        if self.runs != 0 {
            self.note_born(index);
        }
    }

    #[cold]
    fn note_born(&mut self, index: u32) {
        // By index, so an entry may be that of a range which was freed: it is written anew with the next range there.
        let at = index as usize;
        if at >= self.born.len() {
            self.born.resize(at + 1, 0);
        }
        self.born[at] = self.runs;
    }

    /// Follows a free.
    #[inline]
    pub(crate) fn freed(&mut self, index: u32) {
        if !self.open.is_empty() {
            self.open.remove(&index);
        }
    }

    /// Follows the free of all ranges.
    pub(crate) fn cleared(&mut self) {
        self.open.clear();
    }

    /// Forgets the ranges at `capacity` and above, where none is live.
    pub(crate) fn shrink(&mut self, capacity: usize) {
        self.born.truncate(capacity);
        self.born.shrink_to_fit();
    }

    /// Returns `true` if a range existed when a run began.
    fn is_known(&self, index: u32, run: u64) -> bool {
        self.born.get(index as usize).is_none_or(|&born| born < run)
    }
}

#[derive(Debug)]
struct Cursor {
    block: BlockId,
    /// The number of the run. Ranges that were allocated since it began are not moved: the destinations of the run's own
    /// moves are among them.
    run: u64,
    /// The offset of the range that was looked at last: the remaining ranges begin below it.
    below: u64,
    /// The region that was looked at last, or [`NONE`]. A hint only: the index may be that of another region since.
    at: u32,
}

impl Cursor {
    fn at_the_end_of<T>(block: &mut VirtualBlock<T>) -> Self {
        block.moves.runs += 1;
        Self { block: block.id, run: block.moves.runs, below: u64::MAX, at: NONE }
    }

    /// Moves to the next lower range that may be a source.
    fn step(&mut self, engine: &Engine, moves: &Moves) -> Option<u32> {
        if self.below == 0 {
            return None;
        }
        //   │ A │░░│ B │░░░│ C │░│ D │       the cursor comes from the right: D, C, B, A
        //                ▲ below
        // Down from the end: the highest ranges keep the free space apart from the end of the block.
        let mut index = self.start(engine);
        while index != NONE {
            let place = engine.place(index);
            // Ranges that are newer than the run are left alone, or a run would move its own destinations for ever.
            let known = place.state == State::Used && moves.is_known(index, self.run);
            if known && place.offset < self.below && !moves.open.contains(&index) {
                (self.below, self.at) = (place.offset, index);
                return Some(index);
            }
            index = place.before;
        }
        self.below = 0;
        None
    }

    /// Returns a region from which a walk down meets every range that begins below the cursor.
    fn start(&self, engine: &Engine) -> u32 {
        if self.at == NONE || self.at as usize >= engine.capacity() {
            return engine.last();
        }
        // The hint saves a walk from the end of the block for each step, which would make a run O(n²). It is checked, since the
        // index may be that of any region by now, or of none.
        // A freed region is merged with its neighbours, so it may begin lower now. If it reaches up to the
        // cursor, no remaining range lies above it.
        let place = engine.place(self.at);
        let reaches = place.state != State::Vacant && place.end() >= self.below;
        if reaches { self.at } else { engine.last() }
    }
}

/// A move of a range to a lower offset. Source and destination are both allocated until the move is
/// [finished](VirtualBlock::finish_move) or [cancelled](VirtualBlock::cancel_move).
///
/// Dropping the move does neither: its destination stays allocated, and its source is not moved again, until
/// they are freed by their handles or the block is [cleared](VirtualBlock::clear).
#[must_use = "a move that is neither finished nor cancelled keeps its place in use"]
#[derive(Debug, PartialEq, Eq)]
pub struct Move {
    from: Handle,
    to: Handle,
    from_offset: u64,
    to_offset: u64,
    size: u64,
}

impl Move {
    /// Returns the handle of the source.
    #[must_use]
    pub fn from(&self) -> Handle {
        self.from
    }

    /// Returns the handle of the reserved destination, which becomes the range's handle when the move is
    /// finished.
    #[must_use]
    pub fn to(&self) -> Handle {
        self.to
    }

    /// Returns the offset of the source, in units.
    #[must_use]
    pub fn from_offset(&self) -> u64 {
        self.from_offset
    }

    /// Returns the offset of the destination, in units. The destination ends at or below
    /// [`from_offset`](Self::from_offset).
    #[must_use]
    pub fn to_offset(&self) -> u64 {
        self.to_offset
    }

    /// Returns the size of both when the move began, in units.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl<T> VirtualBlock<T> {
    /// Returns a move of the next lower range that fits at a lower offset, and reserves the destination: the
    /// lowest free range that holds the source and does not overlap it. `None` if no such range is left.
    ///
    /// `alignment_of` returns the alignment of a range from the data stored with it, since a block does not
    /// store alignments; `None` pins the range. It is called once per run for each range that was live when the
    /// run began, unless a move of the range is open.
    ///
    /// The destination is an ordinary range, with a clone of the source's data. The source still belongs to its
    /// owner, who may free it; a move whose source was freed or resized meanwhile cannot be finished, only
    /// cancelled.
    ///
    /// # Errors
    ///
    /// [`CompactionError`] if the block is linear, if the run was begun on another block, or if the block
    /// cannot have another region. Nothing has changed.
    pub fn next_move(
        &mut self,
        compaction: &mut Compaction,
        mut alignment_of: impl FnMut(&T) -> Option<Alignment>,
    ) -> Result<Option<Move>, CompactionError>
    where
        T: Clone,
    {
        if self.algorithm() == Algorithm::Linear {
            return Err(CompactionError::InOrder);
        }
        if self.engine.is_full() {
            return Err(CompactionError::TooManyRegions);
        }
        let cursor = compaction.cursor.get_or_insert_with(|| Cursor::at_the_end_of(self));
        if cursor.block != self.id {
            return Err(CompactionError::WrongBlock);
        }
        // Each range once, whether it moves or not: a run ends after as many steps as there are ranges, whatever the caller does in
        // between.
        while let Some(source) = cursor.step(&self.engine, &self.moves) {
            let Some(data) = self.data_at(source) else { continue };
            let Some(alignment) = alignment_of(data) else { continue };
            let place = self.engine.place(source);
            let request = Request::new(place.size).aligned(alignment);
            // The limit is the source's own offset, so the destination never overlaps it: a copy on a GPU has no defined
            // order, and an overlapping one would read bytes that it has overwritten.
            let Some(destination) = self.engine.find_below(&request, place.offset) else {
                continue;
            };
            // A clone may panic, so it is made before anything changes.
            let Some(data) = self.data_at(source).cloned() else { continue };
            return Ok(Some(self.begin_move(source, destination, &request, data)));
        }
        Ok(None)
    }

    fn begin_move(&mut self, source: u32, destination: u32, request: &Request, data: T) -> Move {
        // The destination is stored as a range of its own until the move ends, with a number higher than the run's, so the run
        // passes it over.
        let destination = self.engine.take(destination, request);
        let to = self.store(destination, request.size, data);
        let destination = to.handle.index;
        debug_assert!(!self.moves.open.contains(&source), "a range has one open move at most");
        // Neither may become the source of another move before this one ends.
        self.moves.open.extend([source, destination]);
        Move {
            from: self.handle_at(source),
            to: to.handle,
            from_offset: self.engine.place(source).offset,
            to_offset: to.offset,
            size: to.size,
        }
    }

    /// Finishes a move whose units the caller has copied: frees the source and returns the range's new handle.
    /// The data stored with the source, in its present state, moves to the destination.
    ///
    /// # Errors
    ///
    /// [`Unfinished`] if either range was freed or resized since the move began, or if the move belongs to
    /// another block. It returns the move, for [`cancel_move`](Self::cancel_move). Nothing has changed.
    pub fn finish_move(&mut self, moved: Move) -> Result<Handle, Unfinished> {
        if let Err(error) = self.check_move(&moved) {
            return Err(Unfinished { error, moved });
        }
        // Data moves from the source to the destination, and only then is the source freed: the block has the data of every live
        // range at each step.
        let Move { from, to, .. } = moved;
        let data = self.data[from.index as usize].take();
        // The data as it is now, and not the clone of `next_move`: the owner may have changed it during the copy.
        let copy = mem::replace(&mut self.data[to.index as usize], data);
        self.moves.freed(from.index);
        self.engine.free(from.index);
        self.moves.open.remove(&to.index);
        // The caller's destructor may panic, so it runs after every change.
        drop(copy);
        Ok(to)
    }

    fn check_move(&self, moved: &Move) -> Result<(), MoveError> {
        if moved.from.block != self.id {
            return Err(MoveError::WrongBlock);
        }
        self.check(moved.from).map_err(|_| MoveError::SourceFreed)?;
        self.check(moved.to).map_err(|_| MoveError::PlaceFreed)?;
        let [from, to] = [moved.from, moved.to].map(|handle| self.engine.place(handle.index).size);
        if from == to { Ok(()) } else { Err(MoveError::Resized { from, to }) }
    }

    /// Cancels a move: frees the destination. The source, unless it was freed, stays where it is and keeps its
    /// handle.
    ///
    /// # Errors
    ///
    /// [`Unfinished`] if the move belongs to another block. It returns the move.
    pub fn cancel_move(&mut self, moved: Move) -> Result<(), Unfinished> {
        if moved.from.block != self.id {
            return Err(Unfinished { error: MoveError::WrongBlock, moved });
        }
        // The source may be another range by now, whose mark is not this move's to clear.
        // Its mark is what keeps a range from being a source twice at a time.
        if self.check(moved.from).is_ok() {
            self.moves.open.remove(&moved.from.index);
        }
        // The destination may have been freed already, by its handle or with the whole block.
        let _ = self.free(moved.to);
        Ok(())
    }

    /// Returns an upper bound of [`largest_free`](Self::largest_free) after all ranges were moved together. For
    /// a linear block, the present value. O(1).
    ///
    /// Pinned ranges may keep it from being reached, and so may ranges whose only destination would overlap
    /// them.
    #[must_use]
    pub fn largest_free_at_best(&self) -> u64 {
        match self.algorithm() {
            Algorithm::Tlsf => self.engine.tally().free,
            // The largest cell that the free units can form.
            Algorithm::Buddy => self.engine.tally().free.checked_ilog2().map_or(0, |order| 1 << order),
            Algorithm::Linear => self.largest_free(),
        }
    }
}
