//! A moment of a recording, which moves forwards and backwards.

use allotment_trace::recording::{Block, Event, Moment, State};

use crate::segments::Placed;
use crate::timeline::{AllocationIndex, BlockIndex, LiveSet, NONE, Timeline};

/// A moment of a recording: which blocks and allocations exist, in time for each event and back.
///
/// A step costs some 0.2 µs in either direction. [`seek`](Self::seek) starts at the nearest checkpoint of the
/// [`Timeline`] and costs 30 ms with a hundred thousand allocations.
///
/// ```
/// use allotment_analyze::{Cursor, Timeline};
/// use allotment_trace::recording::{Event, Recording};
///
/// let events = vec![Event::FrameEnd { number: 0 }, Event::FrameEnd { number: 1 }];
/// let recording = Recording { events, ..Recording::default() };
/// let timeline = Timeline::new(&recording);
/// let mut cursor = Cursor::new(&timeline);
/// cursor.seek(2);
/// assert_eq!(cursor.moment().frame, 2);
/// cursor.step_back();
/// assert_eq!(cursor.moment().frame, 1);
/// ```
#[derive(Clone, Debug)]
pub struct Cursor<'t, 'a> {
    timeline: &'t Timeline<'a>,
    position: u32,
    blocks: LiveSet,
    /// The allocations that exist, by block, in no order.
    members: Vec<Vec<u32>>,
    /// Where each allocation is in its block's list; [`NONE`] for those that do not exist.
    places: Vec<u32>,
    count: usize,
}

impl<'t, 'a> Cursor<'t, 'a> {
    /// Creates a cursor before the first event. Costs 4 bytes for each allocation of the recording, and 28 for each
    /// block.
    #[must_use]
    pub fn new(timeline: &'t Timeline<'a>) -> Self {
        Self {
            timeline,
            position: 0,
            blocks: LiveSet::default(),
            members: vec![Vec::new(); timeline.blocks().len()],
            places: vec![NONE; timeline.allocation_count()],
            count: 0,
        }
    }

    /// Creates a cursor at a position.
    #[must_use]
    pub fn at(timeline: &'t Timeline<'a>, position: u64) -> Self {
        let mut cursor = Self::new(timeline);
        cursor.seek(position);
        cursor
    }

    /// Returns the timeline.
    #[must_use]
    pub const fn timeline(&self) -> &'t Timeline<'a> {
        self.timeline
    }

    /// Returns how many events came before.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position as u64
    }

    /// Returns the moment.
    #[must_use]
    pub fn moment(&self) -> Moment {
        self.timeline.moment(self.position())
    }

    /// Moves behind the next event and returns it. `None` at the end.
    pub fn step(&mut self) -> Option<&'a Event> {
        if self.position() == self.timeline.end() {
            return None;
        }
        let number = self.position;
        let event = self.timeline.event(number);
        self.position += 1;
        let target = self.timeline.target(number);
        match event {
            Event::Lost => self.clear(),
            _ if target == NONE => {}
            Event::Allocated(_) => self.insert(target),
            Event::Freed { .. } => self.remove(target, number),
            Event::BlockAllocated { .. } => self.blocks.insert(target),
            Event::BlockFreed { .. } => self.blocks.remove(target),
            Event::Exchanged { .. } => self.exchange(target, number, self.position),
            _ => {}
        }
        Some(event)
    }

    /// Moves before the last event and returns it. `None` at the beginning.
    pub fn step_back(&mut self) -> Option<&'a Event> {
        let number = self.position.checked_sub(1)?;
        let event = self.timeline.event(number);
        let target = self.timeline.target(number);
        match event {
            // All that was lost is in the checkpoint that the index made there.
            Event::Lost => self.restore(number),
            _ if target == NONE => {}
            Event::Allocated(_) => self.remove(target, self.position),
            Event::BlockAllocated { .. } => self.blocks.remove(target),
            Event::BlockFreed { .. } => self.blocks.insert(target),
            Event::Exchanged { .. } => self.exchange(target, self.position, number),
            _ => {}
        }
        self.position = number;
        if let (Event::Freed { .. }, true) = (event, target != NONE) {
            self.insert(target);
        }
        Some(event)
    }

    /// Moves to a position; the end, for one beyond it.
    pub fn seek(&mut self, position: u64) {
        let to = self.timeline.clamp(position);
        let checkpoints = self.timeline.checkpoints();
        let after = checkpoints.partition_point(|point| point.position < to);
        let nearest = [after.checked_sub(1), (after < checkpoints.len()).then_some(after)]
            .into_iter()
            .flatten()
            .map(|index| &checkpoints[index])
            .min_by_key(|point| point.position.abs_diff(to));
        let start = nearest.map_or(0, |point| point.position);
        // A checkpoint's rows have to be inserted, each at about the cost of a step; these steps are known to be needed.
        let restored = nearest.map_or(0, |point| point.allocations.len() + self.count);
        if u64::from(self.position.abs_diff(to)) > u64::from(start.abs_diff(to)) + restored as u64 {
            self.restore(start);
        }
        while self.position < to {
            self.step();
        }
        while self.position > to {
            self.step_back();
        }
    }

    /// Returns the blocks that exist, in the order in which they were allocated.
    #[must_use]
    pub fn blocks(&self) -> Vec<BlockIndex> {
        let mut blocks: Vec<_> = self.blocks.items().iter().map(|&row| BlockIndex(row)).collect();
        blocks.sort_unstable();
        blocks
    }

    /// Returns how many allocations exist, with reservations and those that wait for the GPU.
    #[must_use]
    pub const fn allocation_count(&self) -> usize {
        self.count
    }

    /// Returns the allocations that exist, in no order.
    pub fn allocations(&self) -> impl Iterator<Item = AllocationIndex> {
        let blocks = self.blocks.items().iter();
        blocks.flat_map(|&block| self.members[block as usize].iter().map(|&row| AllocationIndex(row)))
    }

    /// Returns how many allocations a block has.
    #[must_use]
    pub fn count_in(&self, block: BlockIndex) -> usize {
        self.members[block.0 as usize].len()
    }

    /// Returns the allocations of a block, by offset.
    #[must_use]
    pub fn placed(&self, block: BlockIndex) -> Vec<Placed> {
        let mut placed: Vec<_> = self.members[block.0 as usize]
            .iter()
            .filter_map(|&row| {
                let is = self.timeline.allocated(row)?;
                let place = self.timeline.place(row, self.position);
                Some(Placed {
                    allocation: AllocationIndex(row),
                    offset: place.offset,
                    requested: is.requested.min(place.occupied),
                    occupied: place.occupied,
                    alignment: is.alignment,
                    status: self.timeline.status(row, self.position),
                })
            })
            .collect();
        placed.sort_unstable_by_key(|placed| (placed.offset, placed.allocation));
        placed
    }

    /// Returns when a block became empty. `None` while it has allocations, and where it does not exist.
    #[must_use]
    pub fn empty_since(&self, block: BlockIndex) -> Option<Moment> {
        let exists = self.timeline.block_exists(block, self.position());
        (exists && self.count_in(block) == 0).then(|| self.timeline.block_emptied(block, self.position()))
    }

    /// Returns the whole state, as applying each event one after another gives it. Costs about a microsecond for each
    /// allocation that exists.
    #[must_use]
    pub fn state(&self) -> State {
        let timeline = self.timeline;
        let mut state = timeline.state_of_others(self.position);
        for block in self.blocks() {
            let info = timeline.block_info(block);
            let Event::BlockAllocated { pool, .. } = *timeline.event(info.allocated as u32) else { continue };
            let mut new = Block {
                pool,
                memory_type: info.memory_type,
                kind: timeline.block_kind_at(block, self.position()),
                size: timeline.block_size_at(block, self.position()),
                allocations: Default::default(),
                allocated: timeline.moment(info.allocated),
                empty_since: self.empty_since(block),
            };
            for &row in &self.members[block.0 as usize] {
                if let Some(live) = timeline.allocation_at(AllocationIndex(row), self.position()) {
                    new.allocations.insert((live.is.offset, live.is.allocation));
                    state.allocations.insert(live.is.allocation, live);
                }
            }
            state.blocks.insert(info.id, new);
        }
        state
    }

    /// Inserts an allocation where it is at the present position.
    fn insert(&mut self, row: u32) {
        let block = self.timeline.place(row, self.position).block;
        let members = &mut self.members[block.0 as usize];
        self.places[row as usize] = members.len() as u32;
        members.push(row);
        self.count += 1;
    }

    /// Removes an allocation from where it is at a position.
    fn remove(&mut self, row: u32, position: u32) {
        let members = &mut self.members[self.timeline.place(row, position).block.0 as usize];
        let place = core::mem::replace(&mut self.places[row as usize], NONE);
        members.swap_remove(place as usize);
        if let Some(&moved) = members.get(place as usize) {
            self.places[moved as usize] = place;
        }
        self.count -= 1;
    }

    /// Takes the two allocations of an exchange from their blocks at one position to those at another.
    fn exchange(&mut self, exchange: u32, from: u32, to: u32) {
        let [one, other] = self.timeline.exchange_of(exchange);
        if one == other {
            return;
        }
        let present = self.position;
        for row in [one, other] {
            self.remove(row, from);
        }
        self.position = to;
        for row in [one, other] {
            self.insert(row);
        }
        self.position = present;
    }

    fn clear(&mut self) {
        for &block in self.blocks.items() {
            for row in self.members[block as usize].drain(..) {
                self.places[row as usize] = NONE;
            }
        }
        self.blocks.clear();
        self.count = 0;
    }

    /// Goes to a checkpoint, or to the beginning.
    fn restore(&mut self, position: u32) {
        self.clear();
        self.position = position;
        let checkpoints = self.timeline.checkpoints();
        let Ok(index) = checkpoints.binary_search_by_key(&position, |point| point.position) else { return };
        let timeline = self.timeline;
        let point = &timeline.checkpoints()[index];
        for &block in &point.blocks {
            self.blocks.insert(block);
        }
        for &row in &point.allocations {
            self.insert(row);
        }
    }
}
