//! The tied items that still wait: for points on the timelines of queues, or for recordings that are open.
//!
//! ```text
//!   queues       0: { 7: a d }{ 9: b }      a group for each point, in a heap: the lowest value is at the front
//!                1: { 3: c }
//!   recordings   { 12: e f }{ 15: g }       a group for each open recording, by number
//!   entries      [ a ][ b ][ c ][ d ] …     the items; those of one group are linked
//! ```
//!
//! Items that wait for the same are looked at together, and a queue's later points cannot be reached before its
//! earlier ones. So a look costs one comparison for each queue, however many items wait, and nothing for open
//! recordings as long as none was closed.
//!
//! # Cost
//!
//! Adding an item costs O(1), and O(log n) if it begins a group behind `n` others of its queue with higher values.
//! An item that is ready costs O(1), and a group O(log n). A look after recordings were closed asks once for each
//! recording that items wait for. An item takes its own size and 16 bytes.

use core::cmp::Reverse;
use core::mem;
use std::collections::{BinaryHeap, VecDeque};

use super::order::Places;
use super::registry::{RecordingId, RecordingStatus};
use super::shard::{Run, Tie, Tied};
use super::statistics::Reclaimed;
use super::timeline_points::TimelinePoints;
use super::tracker::{Reached, Statuses};
use crate::device::{QueueIndex, TimelinePoint, TimelineValue};

/// Initial capacity for groups, as for sealed runs.
const GROUPS: usize = 16;

/// The index of no entry.
const NONE: u32 = u32::MAX;

/// An item, or a vacant place.
#[derive(Debug)]
struct Entry<T> {
    item: Option<T>,
    order: u64,
    /// The next item of the group, or the next vacant place.
    next: u32,
}

/// Items that wait for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    /// The first and the last of its entries, which are linked.
    first: u32,
    last: u32,
    count: usize,
    /// Their bytes, as given by the retiring threads.
    bytes: u64,
    /// The time at which the first of them was retired, from the tracker's coarse clock.
    since: u64,
}

impl Group {
    fn run(&self) -> Run<()> {
        Run { mark: (), count: self.count, bytes: self.bytes, since: self.since }
    }
}

/// The items that wait for a queue.
#[derive(Debug)]
struct Line {
    queue: QueueIndex,
    /// The group that the last item joined, and its value. Most items join it.
    growing: Option<(u64, Group)>,
    /// The other groups, by value.
    groups: BinaryHeap<Reverse<(u64, Group)>>,
    /// The highest value of all groups; 0 if there are none.
    highest: u64,
}

impl Line {
    fn new(queue: QueueIndex) -> Self {
        Self { queue, growing: None, groups: BinaryHeap::with_capacity(GROUPS), highest: 0 }
    }

    /// Returns the groups with their values.
    fn each(&self) -> impl Iterator<Item = (u64, &Group)> {
        let growing = self.growing.iter().map(|(value, group)| (*value, group));
        growing.chain(self.groups.iter().map(|Reverse((value, group))| (*value, group)))
    }

    fn lowest(&self) -> Option<(u64, &Group)> {
        let others = self.groups.peek().map(|Reverse((value, group))| (*value, group));
        self.growing
            .iter()
            .map(|(value, group)| (*value, group))
            .chain(others)
            .min_by_key(|(value, _)| *value)
    }

    fn point(&self, value: u64) -> TimelinePoint {
        TimelinePoint { queue: self.queue, value: TimelineValue(value) }
    }

    /// Removes a group that is reached.
    fn take_reached(&mut self, reached: &Reached) -> Option<Group> {
        let is_reached = |value| reached.covers_point(self.point(value));
        let found = if self.growing.is_some_and(|(value, _)| is_reached(value)) {
            self.growing.take().map(|(_, group)| group)
        } else if self.groups.peek().is_some_and(|Reverse((value, _))| is_reached(*value)) {
            self.groups.pop().map(|Reverse((_, group))| group)
        } else {
            None
        };
        // Groups leave by their values, so the highest one is the last to leave.
        if self.growing.is_none() && self.groups.is_empty() {
            self.highest = 0;
        }
        found
    }
}

/// Items that wait for points and recordings. See the [module](self).
#[derive(Debug)]
pub(super) struct Waiting<T> {
    entries: Vec<Entry<T>>,
    /// The first vacant entry.
    vacant: u32,
    len: usize,
    /// By queue; one more for the queues that do not exist, whose points are never reached.
    queues: Vec<Line>,
    /// Sorted by number. All of them were open at the last look.
    recordings: Vec<(RecordingId, Group)>,
    /// The items that are tied to recordings of other trackers, which are never ready.
    never: Option<Group>,
    /// How many recordings were closed at the last look at `recordings`.
    closed: u64,
}

/// Where the items go that wait no longer.
pub(super) struct Outcome<'a, T> {
    pub(super) ready: &'a mut VecDeque<T>,
    pub(super) places: &'a mut Places,
    pub(super) reclaimed: &'a mut Reclaimed,
}

impl<T> Outcome<'_, T> {
    pub(super) fn push(&mut self, order: u64, item: T) {
        self.places.push_single(order);
        self.ready.push_back(item);
    }
}

impl<T> Waiting<T> {
    pub(super) fn new() -> Self {
        let (entries, queues, recordings) = (Vec::new(), Vec::new(), Vec::new());
        Self { entries, vacant: NONE, len: 0, queues, recordings, never: None, closed: 0 }
    }

    /// Returns the number of items.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of items that fit without an allocation.
    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// Makes room for as many items in total, which wait for this many queues.
    pub(super) fn reserve(&mut self, total: usize, queues: usize) {
        // Of each list at once: a queue may be late for the first time after an hour.
        if total > 0 && self.queues.is_empty() {
            self.queues.extend((0..queues).map(|queue| Line::new(QueueIndex(queue as u8))));
            self.recordings.reserve(GROUPS);
        }
        // Not exactly: a list that grows in each reclaim would be copied in each.
        self.entries.reserve(total.saturating_sub(self.entries.len()));
    }

    /// Adds an item. A recording that it is tied to was open after the last look at recordings.
    pub(super) fn add(&mut self, Tied { tie, order, bytes, since, item }: Tied<T>) {
        let at = self.enter(Entry { item: Some(item), order, next: NONE });
        self.join(tie, Group { first: at, last: at, count: 1, bytes, since });
    }

    /// Adds an item that is never ready.
    pub(super) fn add_for_good(&mut self, Tied { order, bytes, since, item, .. }: Tied<T>) {
        let at = self.enter(Entry { item: Some(item), order, next: NONE });
        let added = Group { first: at, last: at, count: 1, bytes, since };
        self.never = Some(match self.never {
            Some(never) => linked(&mut self.entries, never, added),
            None => added,
        });
    }

    fn enter(&mut self, entry: Entry<T>) -> u32 {
        self.len += 1;
        let at = self.vacant;
        if let Some(vacant) = self.entries.get_mut(at as usize) {
            self.vacant = vacant.next;
            *vacant = entry;
            return at;
        }
        let at = self.entries.len() as u32;
        assert!(at < NONE, "fewer than 2^32 items wait");
        self.entries.push(entry);
        at
    }

    /// Adds linked items.
    fn join(&mut self, tie: Tie, added: Group) {
        match tie {
            Tie::Point(point) => self.join_line(point, added),
            Tie::Recording(recording) => {
                // Items of the latest recording are the usual ones: the search begins at the end.
                let last = self.recordings.last().filter(|(last, _)| last.number <= recording.number);
                let found = match last {
                    Some((last, _)) if last.number == recording.number => Ok(self.recordings.len() - 1),
                    Some(_) => Err(self.recordings.len()),
                    None => self.recordings.binary_search_by_key(&recording.number, |(id, _)| id.number),
                };
                match found {
                    Ok(at) => {
                        let group = &mut self.recordings[at].1;
                        *group = linked(&mut self.entries, *group, added);
                    }
                    Err(at) => self.recordings.insert(at, (recording, added)),
                }
            }
        }
    }

    fn join_line(&mut self, TimelinePoint { queue, value }: TimelinePoint, added: Group) {
        let at = usize::from(queue.0).min(TimelinePoints::MAX_QUEUES);
        while self.queues.len() <= at {
            // Above the number of queues, so of none.
            self.queues.push(Line::new(QueueIndex(self.queues.len() as u8)));
        }
        let line = &mut self.queues[at];
        // Only the line of queues that do not exist is for several.
        line.queue = queue;
        line.highest = line.highest.max(value.0);
        match &mut line.growing {
            Some((growing, group)) if *growing == value.0 => {
                *group = linked(&mut self.entries, *group, added);
            }
            growing => line.groups.extend(growing.replace((value.0, added)).map(Reverse)),
        }
    }

    /// Returns whether items wait for recordings.
    pub(super) fn has_recordings(&self) -> bool {
        !self.recordings.is_empty()
    }

    /// Looks at the recordings: items whose recording was submitted wait for its point from now on, items of a
    /// discarded recording are ready. Passes items whose recording is not known any more to `unknown`, with their
    /// orders: one call for those of a recording.
    pub(super) fn look_at_recordings(
        &mut self,
        statuses: &Statuses<'_>,
        to: &mut Outcome<'_, T>,
        mut unknown: impl FnMut(Run<()>, &mut dyn Iterator<Item = (u64, T)>),
    ) {
        // A recording that was open at the last look still is, as long as none was closed.
        let closed = statuses.closed();
        if mem::replace(&mut self.closed, closed) == closed {
            return;
        }
        let mut recordings = mem::take(&mut self.recordings);
        recordings.retain(|&(recording, group)| {
            match statuses.of(recording) {
                RecordingStatus::Open | RecordingStatus::WrongTracker => return true,
                // From here on only the point matters: the status of the recording may be forgotten later.
                RecordingStatus::Submitted(point) => self.join_line(point, group),
                RecordingStatus::Discarded => self.release(group, to),
                RecordingStatus::Unknown => unknown(group.run(), &mut self.taken(group)),
            }
            false
        });
        self.recordings = recordings;
    }

    /// Takes the items whose points are reached.
    pub(super) fn take_reached(&mut self, reached: &Reached, to: &mut Outcome<'_, T>) {
        for queue in 0..self.queues.len() {
            while let Some(group) = self.queues[queue].take_reached(reached) {
                self.release(group, to);
            }
        }
    }

    fn release(&mut self, group: Group, to: &mut Outcome<'_, T>) {
        *to.reclaimed += Reclaimed { count: group.count as u64, bytes: group.bytes };
        self.taken(group).for_each(|(order, item)| to.push(order, item));
    }

    /// Removes the items of a group, which is in no list any more. Returns them with their orders.
    fn taken(&mut self, group: Group) -> impl Iterator<Item = (u64, T)> {
        let mut at = group.first;
        core::iter::from_fn(move || {
            let entry = self.entries.get_mut(at as usize)?;
            let item = entry.item.take()?;
            let next = mem::replace(&mut entry.next, self.vacant);
            self.vacant = mem::replace(&mut at, next);
            self.len -= 1;
            Some((entry.order, item))
        })
    }

    /// Returns the lowest point of each queue that an item waits for. That of the item that was retired first comes first.
    pub(super) fn lowest(&self) -> impl Iterator<Item = TimelinePoint> {
        let lowest = |line: &Line| {
            let (value, group) = line.lowest()?;
            let order = self.entries.get(group.first as usize)?.order;
            Some((order, line.point(value)))
        };
        let first = self.queues.iter().filter_map(lowest).min_by_key(|(order, _)| *order);
        let others = self
            .queues
            .iter()
            .filter_map(lowest)
            .filter(move |(order, _)| Some(*order) != first.map(|(order, _)| order));
        first.into_iter().chain(others).map(|(_, point)| point)
    }

    /// Returns the highest point of each queue that an item waits for.
    pub(super) fn highest(&self) -> impl Iterator<Item = TimelinePoint> {
        self.queues.iter().filter(|line| line.lowest().is_some()).map(|line| line.point(line.highest))
    }

    /// Returns the recordings that items wait for.
    pub(super) fn recordings(&self) -> impl Iterator<Item = RecordingId> {
        self.recordings.iter().map(|(recording, _)| *recording)
    }

    /// Returns whether items are never ready.
    pub(super) fn has_for_good(&self) -> bool {
        self.never.is_some()
    }

    /// Returns the items that wait for the same, in no particular order.
    pub(super) fn runs(&self) -> impl Iterator<Item = Run<()>> {
        self.groups().map(Group::run)
    }

    fn groups(&self) -> impl Iterator<Item = &Group> {
        let of_queues = self.queues.iter().flat_map(|line| line.each().map(|(_, group)| group));
        of_queues.chain(self.recordings.iter().map(|(_, group)| group)).chain(&self.never)
    }

    /// Frees spare capacity. Places in front of an item that waits stay.
    pub(super) fn trim(&mut self) {
        while self.entries.last().is_some_and(|entry| entry.item.is_none()) {
            self.entries.pop();
        }
        self.entries.shrink_to_fit();
        self.vacant = NONE;
        for (at, entry) in (0..).zip(&mut self.entries).filter(|(_, entry)| entry.item.is_none()) {
            entry.next = mem::replace(&mut self.vacant, at);
        }
        self.queues.iter_mut().for_each(|line| line.groups.shrink_to_fit());
        self.recordings.shrink_to_fit();
    }

    /// Removes all items, whatever they wait for.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = T> + use<T> {
        mem::replace(self, Self::new()).entries.into_iter().filter_map(|entry| entry.item)
    }

    pub(super) fn check_invariants(&self) {
        let following = |first: u32| {
            core::iter::successors(self.entries.get(first as usize), |entry| {
                self.entries.get(entry.next as usize)
            })
        };
        let mut count = 0;
        for group in self.groups() {
            assert_eq!(following(group.first).filter(|entry| entry.item.is_some()).count(), group.count);
            assert_eq!(following(group.first).count(), group.count);
            count += group.count;
        }
        assert_eq!(count, self.len);
        assert_eq!(
            following(self.vacant).filter(|entry| entry.item.is_none()).count(),
            self.entries.len() - count
        );
        for line in &self.queues {
            assert_eq!(line.each().map(|(value, _)| value).max().unwrap_or(0), line.highest);
        }
        assert!(self.recordings.is_sorted_by(|(a, _), (b, _)| a.number < b.number), "a group each");
    }
}

/// Appends a group to another.
fn linked<T>(entries: &mut [Entry<T>], before: Group, after: Group) -> Group {
    if let Some(last) = entries.get_mut(before.last as usize) {
        last.next = after.first;
    }
    Group {
        first: before.first,
        last: after.last,
        count: before.count + after.count,
        bytes: before.bytes + after.bytes,
        since: before.since.min(after.since),
    }
}

#[cfg(test)]
#[cfg(not(allotment_loom))]
mod tests {
    use super::*;
    use crate::lifetime::timeline_points::TimelinePoints;

    fn point(queue: u8, value: u64) -> TimelinePoint {
        TimelinePoint { queue: QueueIndex(queue), value: TimelineValue(value) }
    }

    fn add(waiting: &mut Waiting<u64>, at: TimelinePoint, item: u64) {
        let before = waiting.capacity();
        waiting.add(Tied { tie: Tie::Point(at), order: item, bytes: 1, since: 0, item });
        assert!(waiting.capacity() >= before);
        waiting.check_invariants();
    }

    /// Returns the items that are ready once the queues have come this far.
    fn reached(waiting: &mut Waiting<u64>, points: &[TimelinePoint]) -> Vec<u64> {
        let reached = Reached::Up(TimelinePoints::from_iter(points.iter().copied()));
        take(waiting, &reached)
    }

    fn take(waiting: &mut Waiting<u64>, reached: &Reached) -> Vec<u64> {
        let (mut ready, mut places, mut reclaimed) =
            (VecDeque::new(), Places::default(), Reclaimed::default());
        let to = &mut Outcome { ready: &mut ready, places: &mut places, reclaimed: &mut reclaimed };
        waiting.take_reached(reached, to);
        assert_eq!((reclaimed.count, reclaimed.bytes), (ready.len() as u64, ready.len() as u64));
        places.arrange(&mut ready);
        waiting.check_invariants();
        ready.into()
    }

    #[test]
    fn items_that_wait_for_one_point_are_looked_at_together() {
        let mut waiting = Waiting::new();
        (0..1000).for_each(|item| add(&mut waiting, point(0, 7), item));
        (1000..2000).for_each(|item| add(&mut waiting, point(1, 7), item));
        assert_eq!(waiting.groups().count(), 2);
        assert_eq!(reached(&mut waiting, &[point(0, 6), point(1, 6)]), []);
        assert_eq!(reached(&mut waiting, &[point(0, 6), point(1, 9)]), (1000..2000).collect::<Vec<_>>());
        assert_eq!(reached(&mut waiting, &[point(0, 7)]), (0..1000).collect::<Vec<_>>());
        assert_eq!(waiting.len(), 0);
    }

    #[test]
    fn points_in_any_sequence_are_reached_by_their_values() {
        let mut waiting = Waiting::new();
        for (item, value) in (0..).zip([5, 9, 5, 2, 2, 14, 9, 3]) {
            add(&mut waiting, point(3, value), item);
        }
        assert_eq!(
            waiting.lowest().chain(waiting.highest()).collect::<Vec<_>>(),
            [point(3, 2), point(3, 14)]
        );
        assert_eq!(reached(&mut waiting, &[point(3, 4)]), [3, 4, 7]);
        assert_eq!(reached(&mut waiting, &[point(3, 9)]), [0, 1, 2, 6]);
        add(&mut waiting, point(3, 11), 8);
        assert_eq!(waiting.highest().collect::<Vec<_>>(), [point(3, 14)]);
        assert_eq!(reached(&mut waiting, &[point(3, 14)]), [5, 8]);
        assert_eq!(waiting.highest().count(), 0);
    }

    #[test]
    fn a_queue_that_does_not_exist_reaches_no_point_until_the_device_is_lost() {
        let mut waiting = Waiting::new();
        (0..3).for_each(|item| add(&mut waiting, point(200, item), item));
        assert_eq!(reached(&mut waiting, &[point(0, 100)]), []);
        assert_eq!(waiting.lowest().collect::<Vec<_>>(), [point(200, 0)]);
        assert_eq!(take(&mut waiting, &Reached::Everything), [0, 1, 2]);
    }

    #[test]
    fn trimming_keeps_what_waits() {
        let mut waiting = Waiting::new();
        (0..100).for_each(|item| add(&mut waiting, point(0, item / 10), item));
        assert_eq!(reached(&mut waiting, &[point(0, 4)]).len(), 50);
        (100..103).for_each(|item| add(&mut waiting, point(0, 20), item));
        waiting.trim();
        waiting.check_invariants();
        assert_eq!(waiting.capacity(), 100, "places in front of an item that waits stay");
        (103..200).for_each(|item| add(&mut waiting, point(0, 20), item));
        assert_eq!(reached(&mut waiting, &[point(0, 20)]), (50..200).collect::<Vec<_>>());
        waiting.trim();
        assert_eq!(waiting.capacity(), 0);
    }
}
