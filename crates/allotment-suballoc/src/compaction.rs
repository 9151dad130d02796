//! Moves live ranges towards the start of their block, so that the free space becomes one region.
//!
//! ```text
//!   before    │ A │░░░│ B │░░░│ C │░░░│ D │░░░│
//!   run             ◄─────────────────── D        the highest range first, to the lowest place that holds
//!                           ◄──── C               it and ends below it; then the next lower one
//!   after     │ A │ D │ B │ C │░░░░░░░░░░░░░░░│
//! ```
//!
//! A block moves no bytes. [`next_move`](VirtualBlock::next_move) reserves a place, the caller copies,
//! and [`finish_move`](VirtualBlock::finish_move) frees the old range. In between both are used and never
//! overlap, so a copy may take as long as it likes, on a GPU too, and any number of moves may be open.
//!
//! # What a run comes to
//!
//! A run looks once at each range that was live when it began. What it moves leaves a hole that may serve
//! a range that it has passed already, so one run need not be the end of it. A run that gives no move says
//! that no range it was allowed to move could go lower; each move brings a range lower, so runs in a row
//! come to that, where nobody else allocates or frees meanwhile. Then every free region is smaller than
//! every movable range above it (TLSF, alignment 1). Where all ranges have one size and alignment, one run
//! is enough. What keeps free space in pieces is what was pinned, and what could only slide into a place
//! that overlaps its own.
//!
//! # Invariants
//!
//! 1. A range and the place that is reserved for it carry [`MOVING`] while their move is open, and neither
//!    is given as a source meanwhile, by no run.
//! 2. What begins at or above a run's `below` was looked at, or was handed out after the run began.
//!
//! # Cost
//!
//! A run takes 32 bytes and a move 56, both kept by the caller. A step of the cursor is O(1). A range that is
//! looked at costs a search of the free regions that are large enough for it, as
//! [`allocate_below`](VirtualBlock::allocate_below) does. `next_move` goes on until it has found a range
//! that can move, so the call that finds none has looked at all ranges that are left: let `alignment_of`
//! pin what is not worth a move, the small ranges for one. The cursor goes on from the region it looked at
//! last as long as that stands in the chain, and otherwise walks down from the end of the block, in
//! O(regions) without a search. `finish_move` and `cancel_move` cost what a free costs.

use core::mem;

use crate::algorithm::Policy;
use crate::chain::{Chain, MOVING, NONE, State};
use crate::handle::BlockId;
use crate::{Algorithm, Alignment, CompactionError, Handle, MoveError, Request, Unfinished, VirtualBlock};

/// One run of moves through a block, from its end to its start: how far it has got.
///
/// A run stays good while ranges are allocated, freed and resized between its moves; what was handed out
/// after it began it leaves alone. It holds nothing of the block and may be dropped at any time.
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
/// // Every second range goes: half of the block is free, in pieces.
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
///     // From here on the range has another handle and another place.
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
    /// Of the block that it is used with first; `None` before that.
    cursor: Option<Cursor>,
}

impl Compaction {
    /// A run that begins at the end of the block it is used with first.
    #[must_use]
    pub const fn new() -> Self {
        Self { cursor: None }
    }
}

#[derive(Debug)]
struct Cursor {
    block: BlockId,
    /// The serial number of the latest allocation when the run began. What is newer is left alone: the
    /// places of the run's own moves are among it.
    newest: u64,
    /// Where the range that was looked at last begins: only what begins lower is still looked at.
    below: u64,
    /// The node that was looked at last, or [`NONE`]: a hint, since it may have become anything.
    at: u32,
}

impl Cursor {
    fn at_the_end_of<T>(block: &VirtualBlock<T>) -> Self {
        Self { block: block.id, newest: block.chain.serial(), below: u64::MAX, at: NONE }
    }

    /// Steps to the next lower range that may be a source.
    fn step(&mut self, chain: &Chain) -> Option<u32> {
        if self.below == 0 {
            return None;
        }
        let mut index = self.start(chain);
        while index != NONE {
            let node = chain.node(index);
            let known = node.state() == State::Used && node.serial() <= self.newest;
            if known && node.offset < self.below && node.link[1] != MOVING {
                (self.below, self.at) = (node.offset, index);
                return Some(index);
            }
            index = node.before;
        }
        self.below = 0;
        None
    }

    /// A region from which a walk down meets all that begins below the cursor.
    fn start(&self, chain: &Chain) -> u32 {
        if self.at == NONE {
            return chain.last();
        }
        // A freed region joins its neighbours, so it may begin lower now. Where it reaches up to the
        // cursor, nothing that is still to be looked at lies above it.
        let node = chain.node(self.at);
        let reaches = node.state() != State::Vacant && node.end() >= self.below;
        if reaches { self.at } else { chain.last() }
    }
}

/// A range on its way to a lower place: the old and the new one are both in use until the move is
/// [finished](VirtualBlock::finish_move) or [cancelled](VirtualBlock::cancel_move).
///
/// Dropping it does neither: its place stays in use, and its range is not moved again, until they are
/// freed by their handles or the block is [cleared](VirtualBlock::clear).
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
    /// The range that moves.
    #[must_use]
    pub fn from(&self) -> Handle {
        self.from
    }

    /// The place that is reserved for it; what names the range once the move is finished.
    #[must_use]
    pub fn to(&self) -> Handle {
        self.to
    }

    /// Where the range begins, in units.
    #[must_use]
    pub fn from_offset(&self) -> u64 {
        self.from_offset
    }

    /// Where its place begins, in units. The place ends at or below [`from_offset`](Self::from_offset).
    #[must_use]
    pub fn to_offset(&self) -> u64 {
        self.to_offset
    }

    /// How long both were when the move began, in units.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl<T> VirtualBlock<T> {
    /// The next lower range that can go to a lower place, which is reserved for it: the lowest that holds
    /// it and does not overlap it. `None` when no range is left that can.
    ///
    /// `alignment_of` says what the offset of a range must be a multiple of, from what is kept with it,
    /// since a block does not keep that; `None` where the range must stay. It is asked once a run about
    /// each range that was live when the run began, unless a move of it is open.
    ///
    /// The place is a range as any other, with a clone of what is kept with the one that moves. That one
    /// stays its owner's, to be freed too; a move of a range that was freed or resized meanwhile cannot be
    /// finished, only cancelled.
    ///
    /// # Errors
    ///
    /// [`CompactionError`] when the block is linear, when the run was begun on another block, or when the
    /// block has no room for another region. Nothing has changed.
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
        if self.chain.is_full() {
            return Err(CompactionError::TooManyRegions);
        }
        let cursor = compaction.cursor.get_or_insert_with(|| Cursor::at_the_end_of(self));
        if cursor.block != self.id {
            return Err(CompactionError::WrongBlock);
        }
        while let Some(source) = cursor.step(&self.chain) {
            let Some(data) = self.data_at(source) else { continue };
            let Some(alignment) = alignment_of(data) else { continue };
            let node = self.chain.node(source);
            let request = Request::new(node.size).aligned(alignment);
            let Some(place) = self.engine.find_below(&self.chain, &request, node.offset) else { continue };
            // A clone may panic, so it is made before anything has changed.
            let data = data.clone();
            return Ok(Some(self.begin_move(source, place, &request, data)));
        }
        Ok(None)
    }

    fn begin_move(&mut self, source: u32, place: u32, request: &Request, data: T) -> Move {
        let place = self.engine.take(&mut self.chain, place, request);
        let to = self.keep(place, data);
        self.chain.set_link(source, 1, MOVING);
        self.chain.set_link(place, 1, MOVING);
        Move {
            from: self.handle_at(source),
            to: to.handle,
            from_offset: self.chain.node(source).offset,
            to_offset: to.offset,
            size: to.size,
        }
    }

    /// The units are copied: frees the old range and returns the handle that names the range from now on.
    /// What is kept with the old range goes along, as it is now.
    ///
    /// # Errors
    ///
    /// [`Unfinished`] when either range was freed or resized since the move began, or when the move belongs
    /// to another block. It gives the move back, for [`cancel_move`](Self::cancel_move). Nothing has
    /// changed.
    pub fn finish_move(&mut self, moved: Move) -> Result<Handle, Unfinished> {
        if let Err(error) = self.check_move(&moved) {
            return Err(Unfinished { error, moved });
        }
        let Move { from, to, .. } = moved;
        let data = self.data[from.index as usize].take();
        let copy = mem::replace(&mut self.data[to.index as usize], data);
        self.engine.free(&mut self.chain, from.index);
        self.chain.set_link(to.index, 1, NONE);
        // It is the caller's and may panic, so it goes last.
        drop(copy);
        Ok(to)
    }

    fn check_move(&self, moved: &Move) -> Result<(), MoveError> {
        if moved.from.block != self.id {
            return Err(MoveError::WrongBlock);
        }
        let from = self.node(moved.from).map_err(|_| MoveError::SourceFreed)?.size;
        let to = self.node(moved.to).map_err(|_| MoveError::PlaceFreed)?.size;
        if from == to { Ok(()) } else { Err(MoveError::Resized { from, to }) }
    }

    /// Frees the place that was reserved. The range stays where it is, unless it was freed, and keeps its
    /// handle.
    ///
    /// # Errors
    ///
    /// [`Unfinished`] when the move belongs to another block. It gives the move back.
    pub fn cancel_move(&mut self, moved: Move) -> Result<(), Unfinished> {
        if moved.from.block != self.id {
            return Err(Unfinished { error: MoveError::WrongBlock, moved });
        }
        if self.node(moved.from).is_ok() {
            self.chain.set_link(moved.from.index, 1, NONE);
        }
        // The place may be gone already: freed by its handle, or with the whole block.
        let _ = self.free(moved.to);
        Ok(())
    }

    /// What [`largest_free`](Self::largest_free) could become at best if all ranges were moved together. Of
    /// a linear block, what it is. O(1).
    ///
    /// A bound and no promise: ranges that must stay keep it from being reached, and so do ranges that only
    /// a place overlapping theirs would serve.
    #[must_use]
    pub fn largest_free_at_best(&self) -> u64 {
        let free = self.chain.tally().free;
        match self.algorithm() {
            Algorithm::Tlsf => free,
            Algorithm::Buddy => free.checked_ilog2().map_or(0, |order| 1 << order),
            Algorithm::Linear => self.largest_free(),
        }
    }
}
