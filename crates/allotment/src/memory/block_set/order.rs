//! The order in which the blocks of a set are searched: the shared ones that are not closed, the fullest first or nearly so.
//!
//! ```text
//!   list      [ 7: 0 ][ 2: 64K ][ 0: 0 ] … [ 5: 3M ] …      block: the largest free range at most
//!   maxima    [          64K           ]   [   3M  ]        of each 64 of the list, where it is longer than that
//!   places    block 0 is at 2, block 2 at 1, block 5 …
//! ```
//!
//! Each operation moves the block that it changed by at most one position, so no operation has to sort.
//!
//! # Invariants
//!
//! `places` names the position of each block in the list, and [`NOWHERE`] for all others. An entry of `maxima` is the
//! maximum of its 64; there is none where the list has at most 64.
//!
//! # Cost
//!
//! A search for the next block that may have room looks at a 64th of the list, and at 128 blocks. A change is O(1), or a look
//! at 64 blocks where the one with the most room has less now. To add or remove a block is O(blocks), which is little beside
//! the driver's call. 36 bytes a block.

use super::note_visits;
use super::search::BlockSummary;

/// The blocks that an entry of the maxima is about. Pools with at most as many have none.
const GROUP: usize = 64;

/// The place of a block that is not in the list.
const NOWHERE: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct BlockOrder {
    list: Vec<BlockSummary>,
    maxima: Vec<u64>,
    places: Vec<u32>,
}

impl BlockOrder {
    pub(super) fn iter(&self) -> impl Iterator<Item = &BlockSummary> {
        self.list.iter()
    }

    /// Returns the position of a block.
    fn place(&self, block: u32) -> Option<usize> {
        self.places.get(block as usize).filter(|&&at| at != NOWHERE).map(|&at| at as usize)
    }

    pub(super) fn contains(&self, block: u32) -> bool {
        self.place(block).is_some()
    }

    /// Returns true if a block is the only one in the list.
    pub(super) fn is_alone(&self, block: u32) -> bool {
        matches!(self.list[..], [BlockSummary { block: only, .. }] if only == block)
    }

    /// Returns the summary of a block.
    pub(super) fn get(&self, block: u32) -> Option<&BlockSummary> {
        self.list.get(self.place(block)?)
    }

    /// Returns the first position from `from` on whose block may have a free range of `size`, and the block.
    #[inline]
    pub(super) fn with_room(&self, size: u64, from: usize) -> Option<(usize, u32)> {
        let may = |summary: &BlockSummary| size <= summary.largest_free_at_most;
        if self.maxima.is_empty() {
            let at = from + self.list.get(from..)?.iter().position(may)?;
            note_visits(at + 1 - from);
            return Some((at, self.list[at].block));
        }
        self.with_room_in_groups(size, from)
    }

    /// Iterates over the groups of up to 64 blocks of which one may have a free range of `size`, in the order of the list.
    #[inline]
    pub(super) fn groups_with_room(&mut self, size: u64) -> impl Iterator<Item = &mut [BlockSummary]> {
        let Self { list, maxima, .. } = self;
        let groups = list.chunks_mut(GROUP).enumerate().filter(move |(group, _)| {
            note_visits(1);
            maxima.get(*group).is_none_or(|&most| size <= most)
        });
        groups.map(|(_, group)| {
            note_visits(group.len());
            group
        })
    }

    #[inline(never)]
    fn with_room_in_groups(&self, size: u64, from: usize) -> Option<(usize, u32)> {
        let mut from = from;
        while from < self.list.len() {
            let first = from / GROUP;
            let group = first + self.maxima[first..].iter().position(|&most| size <= most)?;
            from = from.max(group * GROUP);
            let rest = &self.list[from..self.list.len().min((group + 1) * GROUP)];
            note_visits(group + 1 - first + rest.len());
            if let Some(at) = rest.iter().position(|summary| size <= summary.largest_free_at_most) {
                return Some((from + at, self.list[from + at].block));
            }
            // What has room in the group is before `from`.
            from = (group + 1) * GROUP;
        }
        None
    }

    /// Adds a block at the end: where an empty one belongs, and from where any other moves with the next operations.
    pub(super) fn push(&mut self, summary: BlockSummary) {
        let (block, at) = (summary.block as usize, self.list.len());
        if self.places.len() <= block {
            self.places.resize(block + 1, NOWHERE);
        }
        debug_assert_eq!(self.places[block], NOWHERE, "a block is listed once");
        if self.list.capacity() == 0 {
            // Most pools of a thousand have one block, and a vector begins with four.
            self.list.reserve_exact(1);
        }
        self.places[block] = at as u32;
        self.list.push(summary);
        self.renew_maxima(at);
    }

    /// Takes a block out.
    pub(super) fn remove(&mut self, block: u32) {
        let Some(at) = self.place(block) else { return };
        self.places[block as usize] = NOWHERE;
        self.list.remove(at);
        self.renew_from(at);
    }

    /// Takes several blocks out, which takes as long as one.
    pub(super) fn remove_all(&mut self, blocks: &[u32]) {
        for &block in blocks {
            if let Some(place) = self.places.get_mut(block as usize) {
                *place = NOWHERE;
            }
        }
        let places = &self.places;
        self.list.retain(|summary| places[summary.block as usize] != NOWHERE);
        self.renew_from(0);
    }

    /// Notes what a block has now, and moves it by one position if it is out of order.
    #[inline(never)]
    pub(super) fn update(&mut self, block: u32, (free, largest_free_at_most): (u64, u64)) {
        let Some(at) = self.place(block) else { return };
        let Some(summary) = self.list.get_mut(at) else { return };
        let before = core::mem::replace(&mut summary.largest_free_at_most, largest_free_at_most);
        (summary.free, summary.sizes) = (free, BlockSummary::UNKNOWN);
        // Two ways, since few pools have so many blocks: the common one keeps nothing across a call.
        if self.maxima.is_empty() { self.mend(at, free) } else { self.mend_with_maximum(at, free, before) }
    }

    #[inline(never)]
    fn mend_with_maximum(&mut self, at: usize, free: u64, before: u64) {
        self.change_maximum(at, before);
        self.mend(at, free);
    }

    /// Moves the block at a position, which has `free` bytes, by one position if it is out of order.
    #[inline(always)]
    fn mend(&mut self, at: usize, free: u64) {
        // One position is enough: the order only says where to look first, and each operation mends it a little.
        if at > 0 && self.list[at - 1].free > free {
            self.swap(at - 1);
        } else if self.list.get(at + 1).is_some_and(|next| next.free < free) {
            self.swap(at);
        }
    }

    /// Swaps the block at a position with the next.
    #[inline(never)]
    fn swap(&mut self, at: usize) {
        self.list.swap(at, at + 1);
        for at in [at, at + 1] {
            self.places[self.list[at].block as usize] = at as u32;
        }
        if !self.maxima.is_empty() && (at + 1) % GROUP == 0 {
            [at, at + 1].into_iter().for_each(|at| self.maxima[at / GROUP] = self.maximum(at / GROUP));
        }
    }

    /// Corrects the maximum above a position whose block could have had a free range of `before`.
    fn change_maximum(&mut self, at: usize, before: u64) {
        let (group, now) = (at / GROUP, self.list[at].largest_free_at_most);
        let most = self.maxima[group];
        if now >= most {
            self.maxima[group] = now;
        } else if before == most {
            self.maxima[group] = self.maximum(group);
        }
    }

    fn maximum(&self, group: usize) -> u64 {
        let of_group = self.list[group * GROUP..].iter().take(GROUP);
        of_group.map(|summary| summary.largest_free_at_most).max().unwrap_or(0)
    }

    /// Makes the places and the maxima right from a position on.
    fn renew_from(&mut self, at: usize) {
        note_visits(self.list.len() - at);
        for at in at..self.list.len() {
            self.places[self.list[at].block as usize] = at as u32;
        }
        self.renew_maxima(at);
    }

    fn renew_maxima(&mut self, at: usize) {
        if self.list.len() <= GROUP {
            return self.maxima.clear();
        }
        let groups = self.list.len().div_ceil(GROUP);
        let first = self.maxima.len().min(at / GROUP);
        self.maxima.truncate(first);
        for group in first..groups {
            self.maxima.push(self.maximum(group));
        }
    }

    /// Frees host memory for more blocks than there are.
    pub(super) fn shrink_to_fit(&mut self) {
        let used = self.places.iter().rposition(|&at| at != NOWHERE).map_or(0, |last| last + 1);
        self.places.truncate(used);
        self.places.shrink_to_fit();
        self.list.shrink_to_fit();
        self.maxima.shrink_to_fit();
    }

    /// Checks the invariants, for tests.
    ///
    /// # Panics
    ///
    /// Panics if an invariant does not hold.
    pub(super) fn check_invariants(&self) {
        for (at, summary) in self.list.iter().enumerate() {
            assert_eq!(self.place(summary.block), Some(at), "a block is where its place says");
        }
        let listed = self.places.iter().filter(|&&at| at != NOWHERE).count();
        assert_eq!(listed, self.list.len(), "each place is that of a listed block");
        let groups = if self.list.len() <= GROUP { 0 } else { self.list.len().div_ceil(GROUP) };
        assert_eq!(self.maxima.len(), groups);
        for (group, &most) in self.maxima.iter().enumerate() {
            assert_eq!(most, self.maximum(group), "a maximum is that of its group");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(block: u32, room: u64) -> BlockSummary {
        BlockSummary { block, free: room, largest_free_at_most: room, sizes: BlockSummary::UNKNOWN }
    }

    #[test]
    fn the_next_block_with_room_is_found_whatever_was_added_changed_and_removed() {
        let (mut order, mut listed, mut step) = (BlockOrder::default(), Vec::new(), 1_u64);
        let mut random = |below: u64| {
            step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (step >> 33) % below
        };
        for round in 0..3000 {
            match random(8) {
                0 | 1 if listed.len() < 300 => {
                    let block = (0..).find(|block| !listed.contains(block)).unwrap_or(0);
                    listed.push(block);
                    order.push(summary(block, random(100)));
                }
                2 if !listed.is_empty() && round % 3 == 0 => {
                    let block = listed.swap_remove(random(listed.len() as u64) as usize);
                    order.remove(block);
                }
                3 if round % 100 == 0 => {
                    let half = listed.split_off(listed.len() / 2);
                    order.remove_all(&half);
                }
                _ if !listed.is_empty() => {
                    let block = listed[random(listed.len() as u64) as usize];
                    let room = random(100);
                    order.update(block, (room, room));
                }
                _ => {}
            }
            order.check_invariants();
            assert!(listed.iter().all(|&block| order.contains(block)));
            assert_eq!(order.iter().count(), listed.len());
            let (size, from) = (random(110), random(320) as usize);
            let all = order.iter().enumerate().skip(from);
            let expected =
                all.filter(|(_, at)| at.largest_free_at_most >= size).map(|(at, it)| (at, it.block));
            assert_eq!(order.with_room(size, from), expected.take(1).next());
            let all = order.iter().filter(|it| it.largest_free_at_most >= size);
            let with_room: Vec<_> = all.map(|it| it.block).collect();
            let in_groups = order.groups_with_room(size).flat_map(|group| group.iter());
            let visited: Vec<_> =
                in_groups.filter(|it| it.largest_free_at_most >= size).map(|it| it.block).collect();
            assert_eq!(visited, with_room);
        }
    }
}
