//! Hazards: accesses to the same bytes, at least one of which writes, that no wait orders.
//!
//! What a real GPU would do then depends on its speed, so a test rarely sees it in the bytes. Here it is found by the
//! order alone, as synchronization validation does it, however the threads of the queues happen to run:
//!
//! ```text
//!   queue 0   1 ─────────► 2                   2 comes after 1: a queue executes its submissions in order
//!   queue 1        3 waits for (0, 1)          3 comes after 1, and after all that 1 comes after
//!   the host       sees (1, 3) completed       what is submitted from now on comes after 3
//! ```
//!
//! Each submission has a *clock*: for each queue, the last value that it comes after. An access is ordered behind one of
//! queue `q` at value `v` if `clock[q] >= v`. Accesses are compared when their submission begins to run, since the clocks
//! of all that it waits for are known then; so of two submissions without an order the one that runs later is reported.
//!
//! For each range of memory that was accessed, the last read and the last write of each queue are kept: an earlier one of
//! the same queue is ordered before anything that the last one is ordered before. Ranges whose accesses come before all
//! that can still be submitted are forgotten.
//!
//! # What is not checked
//!
//! Accesses by the CPU, since it has addresses, but for its [writes of images](super::images); and accesses of one queue to
//! what an earlier submission of it accessed: every backend separates its own submissions by barriers, and how the
//! application's commands do that is not known.

use core::ops::Range;
use std::sync::Arc;

use super::memory::MemoryObject;
use super::queues::Task;
use crate::device::{QueueIndex, TimelinePoint, TimelineValue};
use crate::sync::locked;

/// Clocks that are kept for each queue. A wait for an older point counts as one for the oldest of these.
const CLOCKS: u64 = 1024;

/// Ranges of a memory object that are kept before those are forgotten whose accesses are ordered before everything.
const RANGES: usize = 256;

/// Joins a clock into another one: the first comes after both from now on.
pub(super) fn join(clock: &mut [u64], other: &[u64]) {
    clock.iter_mut().zip(other).for_each(|(mine, other)| *mine = (*mine).max(*other));
}

/// The clocks of the last submissions of a queue that began to run.
#[derive(Debug, Default)]
pub(super) struct History {
    last: u64,
    /// A ring of clocks, one after the other.
    clocks: Vec<u64>,
}

impl History {
    pub(super) fn reserve(&mut self, queues: usize) {
        self.clocks.resize(CLOCKS as usize * queues, 0);
    }

    /// Returns the value of the last submission that began to run.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Returns the clock of the submission with this value, which has begun to run; nothing before the first.
    pub(super) fn get(&self, value: u64, queues: usize) -> &[u64] {
        if value == 0 {
            return &[];
        }
        let kept = value.clamp(self.last.saturating_sub(CLOCKS - 1), self.last);
        let first = (kept % CLOCKS) as usize * queues;
        self.clocks.get(first..first + queues).unwrap_or(&[])
    }

    /// Adds the clock of the next submission, which comes after the last one.
    pub(super) fn push(&mut self, queue: usize, clock: &mut [u64]) {
        join(clock, self.get(self.last, clock.len()));
        self.last += 1;
        clock[queue] = self.last;
        let first = (self.last % CLOCKS) as usize * clock.len();
        if let Some(kept) = self.clocks.get_mut(first..first + clock.len()) {
            kept.copy_from_slice(clock);
        }
    }
}

/// What an access does, and to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    /// Those of one submission run in the order given, as far as they meet.
    ReadTexels,
    WriteTexels,
}

impl Access {
    fn writes(self) -> bool {
        matches!(self, Self::Write | Self::WriteTexels)
    }

    fn has_order(self) -> bool {
        matches!(self, Self::ReadTexels | Self::WriteTexels)
    }
}

/// The submission that accesses something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accessor<'a> {
    pub(super) point: TimelinePoint,
    pub(super) clock: &'a [u64],
    /// What all submissions from now on come after.
    pub(super) floor: &'a [u64],
}

/// Two accesses without an order.
#[derive(Clone, Copy, Debug)]
struct Conflict {
    start: u64,
    end: u64,
    earlier: TimelinePoint,
    earlier_writes: bool,
}

/// The last accesses to the ranges of a memory object.
#[derive(Debug, Default)]
pub(super) struct LastAccesses {
    /// Start and end, sorted; no two overlap.
    ranges: Vec<(u64, u64)>,
    /// For each range the values of the last read of each queue, then those of the last write.
    values: Vec<u64>,
    most: usize,
}

impl LastAccesses {
    /// Notes an access. Returns the first one to the same bytes that has no order with it.
    fn note(&mut self, range: Range<u64>, by: &Accessor<'_>, writes: bool) -> Option<Conflict> {
        let queues = by.clock.len();
        if self.ranges.len() >= self.most {
            self.forget(by.floor);
        }
        let mut found = None;
        let mut at = range.start;
        let mut index = self.ranges.partition_point(|&(_, end)| end <= at);
        while at < range.end {
            match self.ranges.get(index).copied() {
                Some((start, _)) if start < at => {
                    self.split(index, at, queues);
                    index += 1;
                    continue;
                }
                Some((start, end)) if start == at => {
                    if end > range.end {
                        self.split(index, range.end, queues);
                    }
                }
                next => {
                    let end = next.map_or(range.end, |(start, _)| start.min(range.end));
                    self.insert(index, (at, end), queues);
                }
            }
            let (start, end) = self.ranges[index];
            let values = &mut self.values[index * 2 * queues..][..2 * queues];
            found = found.or_else(|| {
                let (queue, value, earlier_writes) = conflict(values, by, writes)?;
                let earlier = TimelinePoint { queue, value };
                Some(Conflict { start, end, earlier, earlier_writes })
            });
            let own = usize::from(by.point.queue.0) + if writes { queues } else { 0 };
            values[own] = by.point.value.0;
            at = end;
            index += 1;
        }
        found
    }

    fn split(&mut self, index: usize, at: u64, queues: usize) {
        let (start, end) = self.ranges[index];
        self.ranges[index].1 = at;
        self.insert(index + 1, (at, end), queues);
        let stride = 2 * queues;
        debug_assert!(start < at && at < end);
        self.values.copy_within(index * stride..(index + 1) * stride, (index + 1) * stride);
    }

    fn insert(&mut self, index: usize, range: (u64, u64), queues: usize) {
        let (stride, len) = (2 * queues, self.values.len());
        self.ranges.insert(index, range);
        self.values.resize(len + stride, 0);
        self.values.copy_within(index * stride..len, (index + 1) * stride);
        self.values[index * stride..(index + 1) * stride].fill(0);
    }

    /// Forgets ranges whose accesses come before all that can still be submitted, and joins equal neighbours.
    fn forget(&mut self, floor: &[u64]) {
        let stride = 2 * floor.len();
        let mut kept = 0_usize;
        for index in 0..self.ranges.len() {
            let values = &self.values[index * stride..(index + 1) * stride];
            if values.iter().zip(floor.iter().chain(floor)).all(|(value, floor)| value <= floor) {
                continue;
            }
            let (start, end) = self.ranges[index];
            let last = kept.checked_sub(1);
            let joins = last.is_some_and(|last| {
                self.ranges[last].1 == start && self.values[last * stride..(last + 1) * stride] == *values
            });
            if let Some(last) = last.filter(|_| joins) {
                self.ranges[last].1 = end;
            } else {
                self.ranges[kept] = (start, end);
                self.values.copy_within(index * stride..(index + 1) * stride, kept * stride);
                kept += 1;
            }
        }
        self.ranges.truncate(kept);
        self.values.truncate(kept * stride);
        // So that most calls find room, and the list does not grow in a steady program.
        self.most = self.most.max(RANGES).max(2 * kept);
        self.ranges.reserve(self.most + 2 - kept);
        self.values.reserve((self.most + 2 - kept) * stride);
    }
}

/// Returns an earlier access of another queue that has no order with this one, and whether it writes.
fn conflict(values: &[u64], by: &Accessor<'_>, writes: bool) -> Option<(QueueIndex, TimelineValue, bool)> {
    let (reads, written) = values.split_at(by.clock.len());
    let unordered = |values: &[u64]| {
        let other = |queue: usize| queue != usize::from(by.point.queue.0);
        let queue = (0..values.len()).find(|&queue| other(queue) && values[queue] > by.clock[queue])?;
        Some((QueueIndex(queue as u8), TimelineValue(values[queue])))
    };
    let written = unordered(written).map(|(queue, value)| (queue, value, true));
    written.or_else(|| unordered(reads).filter(|_| writes).map(|(queue, value)| (queue, value, false)))
}

/// Notes an access of a submission. Returns the validation error if it is a hazard.
pub(super) fn note(
    memory: &MemoryObject,
    range: Range<u64>,
    by: &Accessor<'_>,
    access: Access,
) -> Option<String> {
    // One queue executes in order.
    if by.clock.len() < 2 || range.is_empty() {
        return None;
    }
    let found = locked(&memory.accesses).note(range, by, access.writes())?;
    let does = |writes| if writes { "writes" } else { "reads" };
    let Conflict { start, end, earlier, earlier_writes } = found;
    let point = by.point;
    Some(format!(
        "hazard: submission {} of queue {} {} the bytes {start}..{end} of memory of type {}, which submission {} of \
         queue {} {}, and no wait orders the two",
        point.value.0,
        point.queue.0,
        does(access.writes()),
        memory.memory_type(),
        earlier.value.0,
        earlier.queue.0,
        does(earlier_writes),
    ))
}

/// Returns whether a queue has accessed any of these bytes in a submission that the host has not seen to be completed, of the
/// accesses that are [noted](note).
pub(super) fn is_in_use(memory: &MemoryObject, range: &Range<u64>, seen: &[u64]) -> bool {
    let accesses = locked(&memory.accesses);
    let first = accesses.ranges.partition_point(|&(_, end)| end <= range.start);
    let met = accesses.ranges[first..].iter().take_while(|&&(start, _)| start < range.end).count();
    let stride = 2 * seen.len();
    let values = &accesses.values[first * stride..(first + met) * stride];
    values.iter().zip(seen.iter().cycle()).any(|(value, seen)| value > seen)
}

/// A range that a task of a submission accesses, by the address of its memory object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    memory: usize,
    start: u64,
    end: u64,
    writes: bool,
    has_order: bool,
}

/// Looks for bytes that several tasks of one submission access, which run in any order.
#[derive(Debug, Default)]
pub(super) struct InOneSubmission {
    /// Kept to reuse its memory.
    entries: Vec<Entry>,
}

impl InOneSubmission {
    pub(super) fn reserve(&mut self, tasks: usize) {
        self.entries.reserve(2 * tasks);
    }

    /// Returns the validation error of a submission's tasks, if any.
    pub(super) fn check(&mut self, tasks: &[Task], point: TimelinePoint) -> Option<String> {
        if tasks.len() < 2 {
            return None;
        }
        self.entries.clear();
        // A transfer of ownership is in order with the copies.
        for task in tasks.iter().filter(|task| !matches!(task, Task::HandOver(_))) {
            task.each_access(|memory, range, access| {
                if !range.is_empty() {
                    self.entries.push(Entry {
                        memory: Arc::as_ptr(memory).addr(),
                        start: range.start,
                        end: range.end,
                        writes: access.writes(),
                        has_order: access.has_order(),
                    });
                }
            });
        }
        self.entries.sort_unstable();
        // The ends of the ranges so far, by whether they write and have an order among themselves.
        let mut ends = [[0; 2]; 2];
        let mut memory = 0;
        for entry in &self.entries {
            if entry.memory != memory {
                (memory, ends) = (entry.memory, [[0; 2]; 2]);
            }
            let meets = |has_order: usize, writes: usize| {
                (entry.writes || writes == 1)
                    && !(entry.has_order && has_order == 1)
                    && ends[has_order][writes] > entry.start
            };
            if [(0, 0), (0, 1), (1, 0), (1, 1)].into_iter().any(|(order, writes)| meets(order, writes)) {
                return Some(format!(
                    "hazard: submission {} of queue {} writes the byte {} of a memory object that it accesses by \
                     another of its copies, and copies run in any order",
                    point.value.0, point.queue.0, entry.start
                ));
            }
            let end = &mut ends[usize::from(entry.has_order)][usize::from(entry.writes)];
            *end = (*end).max(entry.end);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes an access by a queue at a value, after what the clock says.
    fn note(
        accesses: &mut LastAccesses,
        (queue, value): (u8, u64),
        clock: [u64; 3],
        range: Range<u64>,
        writes: bool,
    ) -> Option<(u64, u64, u8, u64, bool)> {
        let point = TimelinePoint { queue: QueueIndex(queue), value: TimelineValue(value) };
        let by = Accessor { point, clock: &clock, floor: &[0; 3] };
        let found = accesses.note(range, &by, writes)?;
        Some((found.start, found.end, found.earlier.queue.0, found.earlier.value.0, found.earlier_writes))
    }

    #[test]
    fn of_two_accesses_one_has_to_write_the_same_bytes_on_another_queue_without_an_order() {
        let mut accesses = LastAccesses::default();
        assert_eq!(note(&mut accesses, (0, 1), [1, 0, 0], 0..100, true), None);
        assert_eq!(note(&mut accesses, (1, 1), [0, 1, 0], 100..200, true), None, "other bytes");
        assert_eq!(note(&mut accesses, (0, 2), [2, 0, 0], 50..150, false), Some((100, 150, 1, 1, true)));
        assert_eq!(note(&mut accesses, (2, 1), [2, 1, 1], 0..200, false), None, "behind all of them");
        assert_eq!(note(&mut accesses, (1, 2), [1, 2, 0], 0..50, false), None, "two reads");
        assert_eq!(note(&mut accesses, (1, 3), [1, 3, 0], 40..60, true), Some((40, 50, 2, 1, false)));
        assert_eq!(note(&mut accesses, (2, 2), [2, 2, 2], 20..50, true), Some((40, 50, 1, 3, true)));
        assert_eq!(note(&mut accesses, (2, 3), [2, 2, 3], 0..40, true), None);
    }

    #[test]
    fn ranges_are_forgotten_whose_accesses_come_before_all_that_follows() {
        let mut accesses = LastAccesses::default();
        for value in 1..=10_000 {
            let point = TimelinePoint { queue: QueueIndex(0), value: TimelineValue(value) };
            // The host is ten submissions behind.
            let (clock, floor) = ([value, 0], [value.saturating_sub(10), 0]);
            let by = Accessor { point, clock: &clock, floor: &floor };
            assert!(accesses.note(value * 10..value * 10 + 5, &by, true).is_none());
            assert!(accesses.ranges.len() <= RANGES && accesses.ranges.len() * 4 == accesses.values.len());
        }
    }

    #[test]
    fn a_clock_has_all_that_a_submission_comes_after() {
        let mut history = History::default();
        history.reserve(2);
        assert!(history.get(0, 2).is_empty(), "nothing was submitted");
        let mut clock = [0, 3];
        history.push(0, &mut clock);
        assert_eq!(clock, [1, 3]);
        let mut clock = [0, 0];
        history.push(0, &mut clock);
        assert_eq!((clock, history.get(1, 2)), ([2, 3], &[1, 3][..]), "a queue executes in order");
        for _ in 0..2 * CLOCKS {
            history.push(0, &mut [0, 5]);
        }
        assert_eq!(history.get(2, 2), [CLOCKS + 3, 5], "the oldest that is kept");
    }
}
