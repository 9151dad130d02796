//! The bytes of every block, event by event, forwards.

use std::collections::HashMap;

use allotment_trace::recording::Event;

use crate::block_bytes::BlockBytes;
use crate::coverage::Coverage;
use crate::cursor::Cursor;
use crate::segments::{Class, Placed};
use crate::timeline::{AllocationIndex, NONE, Timeline};

/// A walk over all events that keeps the bytes of every block. The figures `padding` and `aliased` are not kept.
#[derive(Debug)]
pub(crate) struct Running<'t, 'a> {
    timeline: &'t Timeline<'a>,
    position: u32,
    blocks: Vec<BlockBytes>,
    /// Blocks whose allocations overlap at some moment, where sums would count bytes twice.
    aliased: HashMap<u32, Coverage>,
    /// The blocks that the last event changed, and what they were.
    changed: Vec<(u32, BlockBytes)>,
}

impl<'t, 'a> Running<'t, 'a> {
    pub(crate) fn new(timeline: &'t Timeline<'a>) -> Self {
        let mut edges: HashMap<u32, Vec<u64>> = HashMap::new();
        for block in timeline.blocks() {
            if timeline.block_info(block).aliased {
                edges.insert(block.0, Vec::new());
            }
        }
        if !edges.is_empty() {
            for (allocation, life) in timeline.lifetimes() {
                let requested = timeline.requested(allocation);
                let first = (life.allocated, timeline.place_at(allocation, life.allocated));
                for (_, place) in core::iter::once(first).chain(timeline.moves_of(allocation)) {
                    if let Some(edges) = edges.get_mut(&place.block.0) {
                        let (start, end) = (place.offset, place.offset + place.occupied);
                        edges.extend([start, start + requested.min(place.occupied), end]);
                    }
                }
            }
        }
        Self {
            timeline,
            position: 0,
            blocks: vec![BlockBytes::default(); timeline.blocks().len()],
            aliased: edges.into_iter().map(|(block, edges)| (block, Coverage::new(edges))).collect(),
            changed: Vec::new(),
        }
    }

    /// Begins behind some events, with the bytes that the blocks have there.
    pub(crate) fn at(timeline: &'t Timeline<'a>, position: u64) -> Self {
        let mut running = Self::new(timeline);
        if position == 0 {
            return running;
        }
        let cursor = Cursor::at(timeline, position);
        // The timeline has fewer events than an index can have.
        running.position = cursor.position() as u32;
        for block in cursor.blocks() {
            let size = timeline.block_size_at(block, position);
            running.blocks[block.0 as usize] = BlockBytes { size, free: size, ..BlockBytes::default() };
        }
        for allocation in cursor.allocations() {
            running.change(allocation.0, running.position, true);
        }
        running.changed.clear();
        running
    }

    /// Returns the blocks that have bytes.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (u32, &BlockBytes)> {
        (0..).zip(&self.blocks).filter(|(_, bytes)| **bytes != BlockBytes::default())
    }

    /// Applies the next event. `None` at the end.
    pub(crate) fn step(&mut self) -> Option<&'a Event> {
        self.changed.clear();
        if u64::from(self.position) == self.timeline.end() {
            return None;
        }
        let number = self.position;
        let event = self.timeline.event(number);
        let target = self.timeline.target(number);
        self.position += 1;
        match event {
            Event::Lost => self.lose(),
            _ if target == NONE => {}
            Event::BlockAllocated { size, .. } => {
                self.touch(target);
                let (size, free) = (*size, *size);
                self.blocks[target as usize] = BlockBytes { size, free, ..BlockBytes::default() };
            }
            Event::BlockResized { size, .. } => {
                self.touch(target);
                let bytes = &mut self.blocks[target as usize];
                bytes.free = *size - (bytes.size - bytes.free);
                bytes.size = *size;
            }
            Event::BlockFreed { .. } => {
                self.touch(target);
                self.blocks[target as usize] = BlockBytes::default();
            }
            Event::Allocated(_) => self.change(target, number + 1, true),
            Event::Freed { .. } => self.change(target, number, false),
            Event::FreeRequested { .. } | Event::Reserved { .. } => {
                self.change(target, number, false);
                self.change(target, number + 1, true);
            }
            Event::Exchanged { .. } => {
                let rows = self.timeline.exchange_of(target);
                if rows[0] != rows[1] {
                    for row in rows {
                        self.change(row, number, false);
                    }
                    for row in rows {
                        self.change(row, number + 1, true);
                    }
                }
            }
            _ => {}
        }
        Some(event)
    }

    /// Returns how many events came before.
    pub(crate) const fn position(&self) -> u32 {
        self.position
    }

    /// Returns the blocks that the last event changed, with their bytes before it and after it. A block may come twice
    /// or more; the first has what it was.
    pub(crate) fn changed(&self) -> impl Iterator<Item = (u32, BlockBytes, BlockBytes)> {
        self.changed.iter().map(|&(block, before)| (block, before, self.blocks[block as usize]))
    }

    fn touch(&mut self, block: u32) {
        if self.changed.iter().all(|&(known, _)| known != block) {
            self.changed.push((block, self.blocks[block as usize]));
        }
    }

    fn change(&mut self, row: u32, position: u32, add: bool) {
        let Some(is) = self.timeline.allocated(row) else { return };
        let place = self.timeline.place(row, position);
        let block = place.block.0;
        self.touch(block);
        let placed = Placed {
            allocation: AllocationIndex(row),
            offset: place.offset,
            requested: is.requested.min(place.occupied),
            occupied: place.occupied,
            alignment: is.alignment,
            status: self.timeline.status(row, position),
        };
        let bytes = &mut self.blocks[block as usize];
        bytes.allocations = if add { bytes.allocations + 1 } else { bytes.allocations - 1 };
        if let Some(coverage) = self.aliased.get_mut(&block) {
            for (start, end, class) in placed.ranges() {
                coverage.change(start, end, class, add);
            }
            bytes.used = coverage.bytes(Class::Used);
            bytes.pending = coverage.bytes(Class::Pending);
            bytes.reserved = coverage.bytes(Class::Reserved);
            bytes.rounding = coverage.bytes(Class::Rounding);
            bytes.free = bytes.size - (bytes.used + bytes.pending + bytes.reserved + bytes.rounding);
            return;
        }
        for (start, end, class) in placed.ranges() {
            let sum = match class {
                Class::Used => &mut bytes.used,
                Class::Pending => &mut bytes.pending,
                Class::Reserved => &mut bytes.reserved,
                Class::Rounding => &mut bytes.rounding,
                Class::Free => continue,
            };
            if add {
                *sum += end - start;
                bytes.free -= end - start;
            } else {
                *sum -= end - start;
                bytes.free += end - start;
            }
        }
    }

    fn lose(&mut self) {
        for (block, bytes) in self.blocks.iter_mut().enumerate() {
            let before = core::mem::take(bytes);
            if before != BlockBytes::default() {
                self.changed.push((block as u32, before));
                if let Some(coverage) = self.aliased.get_mut(&(block as u32)) {
                    coverage.clear();
                }
            }
        }
    }
}
