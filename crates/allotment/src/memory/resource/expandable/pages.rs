//! The pages of an expandable buffer: which pieces are in each, and which memory is bound to it.
//!
//! ```text
//!   pages (of addresses)   0: 2 pieces   1: 1 piece   2: none   3: none     4: 1 piece
//!                              │             │            │        ╳             │
//!   frames                    a, 0          b, 0         b, 1                   b, 2
//!   chunks                     a: used 1, the first, stays     b: used 2
//! ```
//!
//! A *frame* is a page of memory, a *chunk* is memory that was allocated at once. Page 2 is idle: its frame may go to a page that
//! lacks one, and stays there; `b` is freed once none of its frames is in use.
//!
//! # Invariants
//!
//! A frame is at one page at most. `used` of a chunk counts its frames at pages with pieces; `bound` and `idle` count pages with a
//! frame, and those of them without pieces. `State::check_invariants` counts all of it anew.

use core::fmt;
use core::ops::Range;
use std::sync::{Arc, Mutex};

use allotment_suballoc::{Handle, Request, VirtualBlock};

use super::super::unique::Allocations;
use super::super::{BoundRanges, ResourceError, Unique};
use super::ExpandableStatistics;
use crate::device::{Device, DeviceError, MemoryDevice, RangeBinding, Requirements};
use crate::memory::ShortName;
use crate::sync::locked;

/// What memory is bound in. Smaller pages lose less at the ends of pieces, and cost a binding each: on recorded traces of
/// 43 MiB to 3.6 GiB, pages of 512 KiB reserve 1.4 % more than is live and need 1.4 times as many calls as those of 2 MiB, which
/// reserve 2.8 % more. It is also what GPUs translate as one where memory is contiguous.
pub(super) const PAGE: u64 = 2 << 20;

/// New memory is at least this part of what there is: a third fewer calls on the same traces, for half a per cent.
const AHEAD: usize = 64;

/// The number of the memory that the buffer began with. It stays where it is.
const FIRST: u32 = 0;

/// The addresses and the memory of a buffer. The buffer's token keeps it, so that the memory is not freed before the buffer is
/// destroyed; so it holds neither buffer nor deletion queue.
pub(super) struct Space<D: Device> {
    /// Held by a thread that has the driver bind: a turn.
    pub(super) turn: Mutex<Turn>,
    pub(super) state: Mutex<State<D>>,
    /// What memory has to be, but for its size.
    pub(super) requirements: Requirements,
    /// Pages of addresses.
    pages: usize,
    /// Bytes of the largest heap that memory may come from.
    pub(super) most: u64,
}

/// What a thread knows that has the driver bind.
#[derive(Default)]
pub(super) struct Turn {
    /// The device was lost while it bound memory. What is bound where is not known since then, so nothing is bound any more.
    pub(super) is_lost: bool,
}

impl Turn {
    /// Returns an error where nothing is bound any more.
    pub(super) fn check(&self, name: ShortName) -> Result<(), ResourceError> {
        if self.is_lost { Err(ResourceError::from(DeviceError::Lost).of(name)) } else { Ok(()) }
    }
}

pub(super) struct State<D: Device> {
    pub(super) block: VirtualBlock<()>,
    /// By number, as far as they were ever used.
    pages: Vec<Page>,
    /// By number. A vacant one is used again.
    chunks: Vec<Option<Chunk<D>>>,
    /// Pages with memory that no piece is in.
    idle: usize,
    /// Pages with memory.
    bound: usize,
}

/// A page of addresses.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// Pieces that are in it, or that the GPU may still use.
    pieces: u32,
    /// Those that somebody has. Only their bytes may be used by what is recorded from now on: a recording that is opened after a
    /// piece was dropped does not keep its pages.
    live: u32,
    /// What is bound.
    frame: Option<Frame>,
}

/// A page of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) chunk: u32,
    pub(super) page: u32,
}

/// Memory that was allocated at once.
pub(super) struct Chunk<D: Device> {
    /// `None` for the memory that the buffer began with, which its token has.
    _memory: Option<Unique<D, Allocations>>,
    /// Where it is.
    pub(super) place: Place<D>,
    /// Its pages that a piece is in.
    used: u32,
}

/// Memory, and an offset in it.
pub(super) type Place<D> = (<D as MemoryDevice>::Memory, u64);

/// The addresses of a piece, which are free when this is dropped.
pub(in crate::memory::resource) struct AddressRange<D: Device> {
    space: Arc<Space<D>>,
    taken: Taken,
}

impl<D: Device> AddressRange<D> {
    pub(super) fn new(space: Arc<Space<D>>, taken: Taken) -> Self {
        Self { space, taken }
    }
}

/// A range of addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    handle: Handle,
    pub(super) offset: u64,
    /// Bytes, in whole atoms.
    size: u64,
}

impl<D: Device> Drop for AddressRange<D> {
    fn drop(&mut self) {
        self.space.give_back(&self.taken);
    }
}

/// A piece that somebody has.
pub(in crate::memory::resource) struct LivePiece<D: Device> {
    space: Arc<Space<D>>,
    taken: Taken,
}

impl<D: Device> LivePiece<D> {
    pub(super) fn new(space: Arc<Space<D>>, taken: Taken) -> Self {
        locked(&space.state).pages_mut(space.pages_of(&taken)).for_each(|page| page.live += 1);
        Self { space, taken }
    }
}

impl<D: Device> Drop for LivePiece<D> {
    fn drop(&mut self) {
        let pages = self.space.pages_of(&self.taken);
        locked(&self.space.state).pages_mut(pages).for_each(|page| page.live -= 1);
    }
}

/// Pages that a copy uses, whoever drops their pieces meanwhile.
struct HeldPages<D: Device> {
    space: Arc<Space<D>>,
    pages: Range<usize>,
}

impl<D: Device> Drop for HeldPages<D> {
    fn drop(&mut self) {
        locked(&self.space.state).vacate(self.pages.clone());
    }
}

/// What a thread that has the turn is about to bind.
#[derive(Default)]
pub(super) struct Plan {
    /// Pages of addresses, first those that lack memory, then those behind that may have it as well.
    pub(super) targets: Vec<usize>,
    /// How many of them lack it.
    pub(super) missing: usize,
    /// Memory that is taken from other pages.
    pub(super) moved: Vec<(usize, Frame)>,
}

impl<D: Device> Chunk<D> {
    pub(super) fn new(memory: Option<Unique<D, Allocations>>, place: Place<D>) -> Self {
        Self { _memory: memory, place, used: 0 }
    }
}

impl<D: Device> State<D> {
    /// Begins with a page of memory, which is bound to the first one of addresses.
    fn new(block: VirtualBlock<()>, first: Place<D>) -> Self {
        let pages = vec![Page { frame: Some(Frame { chunk: FIRST, page: 0 }), ..Page::default() }];
        Self { block, pages, chunks: vec![Some(Chunk::new(None, first))], idle: 1, bound: 1 }
    }

    fn page(&mut self, number: usize) -> &mut Page {
        if self.pages.len() <= number {
            self.pages.resize(number + 1, Page::default());
        }
        &mut self.pages[number]
    }

    pub(super) fn chunk(&mut self, number: u32) -> Option<&mut Chunk<D>> {
        self.chunks.get_mut(number as usize)?.as_mut()
    }

    /// Iterates over pages that a piece is in, all of which have an entry.
    fn pages_mut(&mut self, pages: Range<usize>) -> impl Iterator<Item = &mut Page> {
        self.pages[pages].iter_mut()
    }

    /// Notes a piece in these pages. Returns whether all of them have memory.
    fn occupy(&mut self, pages: Range<usize>) -> bool {
        let mut complete = true;
        for number in pages {
            let page = self.page(number);
            page.pieces += 1;
            match page.frame {
                Some(frame) if page.pieces == 1 => {
                    self.idle -= 1;
                    self.chunk(frame.chunk).into_iter().for_each(|chunk| chunk.used += 1);
                }
                Some(_) => {}
                None => complete = false,
            }
        }
        complete
    }

    /// Returns whether each of these pages has memory, and a piece that somebody has.
    fn are_live(&self, mut pages: Range<usize>) -> bool {
        pages.all(|number| self.pages.get(number).is_some_and(|page| page.live > 0 && page.frame.is_some()))
    }

    /// Ends what [`occupy`](Self::occupy) began.
    fn vacate(&mut self, pages: Range<usize>) {
        for number in pages {
            let page = self.page(number);
            page.pieces -= 1;
            if let Some(frame) = page.frame.filter(|_| page.pieces == 0) {
                self.idle += 1;
                self.chunk(frame.chunk).into_iter().for_each(|chunk| chunk.used -= 1);
            }
        }
    }

    /// Notes that a page of memory is bound to one of addresses.
    pub(super) fn put(&mut self, number: usize, frame: Frame) {
        let page = self.page(number);
        debug_assert!(page.frame.is_none(), "a page has one page of memory");
        page.frame = Some(frame);
        let used = page.pieces > 0;
        self.bound += 1;
        self.idle += usize::from(!used);
        self.chunk(frame.chunk).into_iter().for_each(|chunk| chunk.used += u32::from(used));
    }

    /// Takes the memory of a page that no piece is in, where it is of memory that `may` go.
    fn take_idle(&mut self, number: usize, may: impl FnOnce(&Chunk<D>) -> bool) -> Option<Frame> {
        let page = *self.pages.get(number)?;
        let frame = page.frame.filter(|frame| page.pieces == 0 && frame.chunk != FIRST)?;
        if !self.chunk(frame.chunk).is_some_and(|chunk| may(chunk)) {
            return None;
        }
        self.pages[number].frame = None;
        self.idle -= 1;
        self.bound -= 1;
        Some(frame)
    }

    /// Adds memory, and returns its number.
    pub(super) fn add(&mut self, chunk: Chunk<D>) -> u32 {
        let vacant = self.chunks.iter().position(Option::is_none).unwrap_or_else(|| {
            self.chunks.push(None);
            self.chunks.len() - 1
        });
        self.chunks[vacant] = Some(chunk);
        vacant as u32
    }

    /// Takes the memory that no piece is in, of chunks without any.
    pub(super) fn take_unused(&mut self) -> Vec<(usize, Frame)> {
        let mut taken = Vec::new();
        for number in 0..self.pages.len() {
            taken.extend(self.take_idle(number, |chunk| chunk.used == 0).map(|frame| (number, frame)));
        }
        taken
    }

    /// Removes the chunks of memory that was taken, all of each.
    pub(super) fn remove(&mut self, taken: &[(usize, Frame)]) -> Vec<Chunk<D>> {
        taken.iter().filter_map(|(_, frame)| self.chunks.get_mut(frame.chunk as usize)?.take()).collect()
    }

    pub(super) fn statistics(&self) -> ExpandableStatistics {
        let of_block = self.block.statistics();
        ExpandableStatistics {
            pieces: u64::from(of_block.allocation_count),
            bytes: of_block.allocated,
            address_bytes: self.block.size(),
            memory_bytes: self.bound as u64 * PAGE,
            idle_bytes: self.idle as u64 * PAGE,
            allocations: self.chunks.iter().flatten().count() as u32,
        }
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        self.block.check_invariants();
        let bound = || self.pages.iter().enumerate().filter_map(|(at, page)| Some((at, page, page.frame?)));
        assert_eq!(bound().count(), self.bound);
        assert_eq!(bound().filter(|(_, page, _)| page.pieces == 0).count(), self.idle);
        assert!(self.pages.iter().all(|page| page.live <= page.pieces), "what somebody has is in use");
        let mut frames: Vec<_> = bound().map(|(_, _, frame)| (frame.chunk, frame.page)).collect();
        frames.sort_unstable();
        frames.dedup();
        assert_eq!(frames.len(), self.bound, "a page of memory is bound once");
        for (number, chunk) in self.chunks.iter().enumerate() {
            let of_chunk = bound().filter(|(_, _, frame)| frame.chunk as usize == number);
            let used = of_chunk.filter(|(_, page, _)| page.pieces > 0).count();
            assert_eq!(chunk.as_ref().map_or(0, |chunk| chunk.used as usize), used);
        }
    }
}

impl<D: Device> Space<D> {
    /// Describes the addresses of `block`, to the first page of which the memory at `first` is bound.
    pub(super) fn new(
        block: VirtualBlock<()>,
        first: Place<D>,
        requirements: Requirements,
        most: u64,
    ) -> Self {
        let pages = (block.size() / PAGE) as usize;
        let state = Mutex::new(State::new(block, first));
        Self { turn: Mutex::default(), state, requirements, pages, most }
    }

    fn pages_of(&self, taken: &Taken) -> Range<usize> {
        pages_of(&(taken.offset..taken.offset + taken.size))
    }

    /// Takes the lowest addresses that have room, and returns whether they have memory. `None` where none have room. Gives
    /// `instead` back, without another thread finding it free in between: what had room has room still.
    pub(super) fn take(&self, request: &Request, instead: Option<Taken>) -> Option<(Taken, bool)> {
        let mut state = locked(&self.state);
        instead.into_iter().for_each(|before| self.free(&mut state, &before));
        let taken = state.block.allocate_if_it_fits(*request, ()).ok().flatten()?;
        let taken = Taken { handle: taken.handle, offset: taken.offset, size: request.size };
        let complete = state.occupy(self.pages_of(&taken));
        Some((taken, complete))
    }

    pub(super) fn give_back(&self, taken: &Taken) {
        self.free(&mut locked(&self.state), taken);
    }

    fn free(&self, state: &mut State<D>, taken: &Taken) {
        let freed = state.block.free(taken.handle);
        debug_assert!(freed.is_ok(), "a range is freed once");
        state.vacate(self.pages_of(taken));
    }

    /// Plans what to bind, so that all pages of a range have memory. Takes memory from pages that no piece is in.
    pub(super) fn plan(&self, taken: &Taken) -> Plan {
        let mut state = locked(&self.state);
        let pages = self.pages_of(taken);
        let end = pages.end;
        let mut targets: Vec<_> = pages.filter(|&number| state.page(number).frame.is_none()).collect();
        let missing = targets.len();
        let mut moved = Vec::new();
        // From the end, so that what stays is at the beginning, where the next pieces go.
        for number in (0..state.pages.len()).rev() {
            if moved.len() == missing || state.idle == 0 {
                break;
            }
            moved.extend(state.take_idle(number, |_| true).map(|frame| (number, frame)));
        }
        // So that neighbours are neighbours again, and need one binding.
        moved.reverse();
        let new = missing - moved.len();
        if new > 0 {
            let more = (state.bound / AHEAD).saturating_sub(new);
            // Not those whose memory was taken just now: one batch binds a page once.
            let is_moved = |number| moved.binary_search_by_key(&number, |&(moved, _)| moved).is_ok();
            let behind = (end..self.pages)
                .take_while(|&number| state.page(number).frame.is_none() && !is_moved(number));
            targets.extend(behind.take(more));
        }
        Plan { targets, missing, moved }
    }

    /// Puts memory back that a plan took.
    pub(super) fn undo(&self, moved: &[(usize, Frame)]) {
        let mut state = locked(&self.state);
        moved.iter().for_each(|&(number, frame)| state.put(number, frame));
    }

    /// Returns the binding of a page of addresses.
    pub(super) fn binding(
        &self,
        number: usize,
        place: Option<Place<D>>,
        page: u32,
    ) -> RangeBinding<D::Memory> {
        let memory = place.map(|(memory, offset)| (memory, offset + u64::from(page) * PAGE));
        RangeBinding { offset: number as u64 * PAGE, size: PAGE, memory }
    }
}

impl<D: Device> BoundRanges for Arc<Space<D>> {
    fn are_in_use(&self, bytes: Range<u64>) -> bool {
        locked(&self.state).are_live(pages_of(&bytes))
    }

    fn hold(&self, bytes: Range<u64>) -> Option<Box<dyn Send>> {
        let (pages, mut state) = (pages_of(&bytes), locked(&self.state));
        if !state.are_live(pages.clone()) {
            return None;
        }
        state.occupy(pages.clone());
        Some(Box::new(HeldPages { space: Arc::clone(self), pages }))
    }
}

/// Returns the pages that bytes are in.
fn pages_of(bytes: &Range<u64>) -> Range<usize> {
    (bytes.start / PAGE) as usize..bytes.end.div_ceil(PAGE) as usize
}

impl<D: Device> fmt::Debug for Space<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space").field("pages", &self.pages).finish_non_exhaustive()
    }
}

/// Joins a binding with the last one, where it goes on in both.
pub(super) fn join<M: PartialEq + Copy>(all: &mut Vec<RangeBinding<M>>, next: RangeBinding<M>) {
    if let Some(last) = all.last_mut() {
        let goes_on = match (last.memory, next.memory) {
            (Some((memory, at)), Some((other, next))) => memory == other && at + last.size == next,
            (None, None) => true,
            _ => false,
        };
        if goes_on && last.offset + last.size == next.offset {
            last.size += next.size;
            return;
        }
    }
    all.push(next);
}
