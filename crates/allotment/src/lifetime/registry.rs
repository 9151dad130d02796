//! The open recordings in the order in which they were opened, and the status of the closed ones.
//!
//! ```text
//!   slots   [ 7: open ][ 4: submitted ][ 9: open ][ 8: discarded ] …     the number is the recording's
//!   open      head ─► 7 ─► 9 ◄─ tail                                     linked, oldest first
//!   vacant    4, 8                                                       oldest first; used again last
//! ```
//!
//! Opening, closing and finding the oldest cost O(1), and nothing is allocated once the highest number of
//! simultaneously open recordings was reached. A slot keeps the status of its recording until another recording
//! reuses the slot, and at least [`REMEMBERED`] closed recordings are kept at any time. So this is no
//! [`Slab`](crate::slab::Slab), which forgets a removed value and reuses its index first.

use std::collections::VecDeque;
use std::time::Instant;

use super::timeline_points::TimelinePoints;
use crate::device::TimelinePoint;

/// Closed recordings whose status is kept at least. For older ones the status is unknown, and objects tied to them
/// wait for all queues.
const REMEMBERED: usize = 64;

const NONE: u32 = u32::MAX;

/// The id of a recording. It stays valid after the recording is closed.
///
/// ```
/// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
/// # let timelines = ManualTimelines::new(2);
/// # let tracker = SubmissionTracker::new(timelines.clone())?;
/// # let deferred = DeletionQueue::new(&tracker);
/// let recording = tracker.record("a frame");
/// let id = recording.id(); // copied to the threads that record
/// drop(recording);
/// deferred.retire_with(id, "valid after the end of the recording");
/// assert_eq!(deferred.reclaim().count, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordingId {
    /// The number of the tracker that opened it.
    tracker: u64,
    slot: u32,
    pub(super) number: u64,
}

/// The status of a recording.
///
/// ```
/// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
/// # let timelines = ManualTimelines::new(2);
/// # let tracker = SubmissionTracker::new(timelines.clone())?;
/// let recording = tracker.record("a query");
/// let id = recording.id();
/// let point = recording.submit(QueueIndex(0), |queue| Ok::<_, DeviceError>(timelines.submit(queue)))?;
/// match tracker.status(id) {
///     RecordingStatus::Submitted(at) => assert_eq!(at, point),
///     other => println!("nothing to wait for: {other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordingStatus {
    /// It is being recorded.
    Open,
    /// It was dropped without ever being submitted.
    Discarded,
    /// It was submitted once, and has completed when this point is reached.
    Submitted(TimelinePoint),
    /// It belongs to another tracker. Objects that are tied to it are never released.
    WrongTracker,
    /// It is closed, and was submitted several times, or so long ago that its status is no longer kept. All its
    /// submissions are among those that the queues have received by now.
    Unknown,
}

/// Whether retired objects wait for a recording while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// They do: it may use any object that is alive.
    Everything,
    /// They do not: it uses only the objects that it keeps.
    Nothing,
}

#[derive(Debug)]
struct Slot {
    number: u64,
    status: RecordingStatus,
    holds: Holds,
    /// Its commands may write to relocatable resources.
    writes: bool,
    label: &'static str,
    opened: Instant,
    /// Neighbours in the list of open recordings with [`Holds::Everything`].
    previous: u32,
    next: u32,
}

/// An open recording, for diagnostics.
///
/// ```
/// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
/// # let timelines = ManualTimelines::new(2);
/// # let tracker = SubmissionTracker::new(timelines.clone())?;
/// let forgotten = tracker.record("forgotten");
/// for open in tracker.open_recordings() {
///     println!("{} has been open for {:?}", open.label, open.age); // why nothing is reclaimed
/// }
/// # drop(forgotten);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenRecording {
    /// Its debug name.
    pub label: &'static str,
    /// How long it has been open.
    pub age: core::time::Duration,
}

#[derive(Debug)]
pub(super) struct Registry {
    /// The tracker's number.
    tracker: u64,
    slots: Vec<Slot>,
    vacant: VecDeque<u32>,
    /// The list of open recordings with [`Holds::Everything`]. Numbers grow from head to tail.
    head: u32,
    tail: u32,
    /// Open recordings with [`Holds::Everything`]; below, those with [`Holds::Nothing`].
    pub(super) open: u64,
    pub(super) open_explicit: u64,
    pub(super) submitted: u64,
    pub(super) discarded: u64,
    /// Open recordings that may write to relocatable resources, and all that there ever were.
    pub(super) open_writing: u64,
    pub(super) ever_writing: u64,
    /// The latest submissions of such recordings that are closed.
    pub(super) written: TimelinePoints,
    /// Passes that began while no such recording was open.
    pub(super) passes: u32,
}

impl Registry {
    pub(super) const fn new(tracker: u64) -> Self {
        Self {
            tracker,
            slots: Vec::new(),
            vacant: VecDeque::new(),
            head: NONE,
            tail: NONE,
            open: 0,
            open_explicit: 0,
            submitted: 0,
            discarded: 0,
            open_writing: 0,
            ever_writing: 0,
            written: TimelinePoints::EMPTY,
            passes: 0,
        }
    }

    /// Opens a recording. `number` is higher than all numbers before.
    // Inlined, as `close` is: each is called in one place, and the calls take 10 ns of 100.
    #[inline]
    pub(super) fn open(
        &mut self,
        number: u64,
        label: &'static str,
        holds: Holds,
        opened: Instant,
    ) -> RecordingId {
        let status = RecordingStatus::Open;
        let slot = Slot { number, status, holds, writes: true, label, opened, previous: NONE, next: NONE };
        self.open_writing += 1;
        self.ever_writing += 1;
        // The longest closed slot first, and only when more than `REMEMBERED` are closed: a status is lost when its
        // slot is reused.
        let vacant = if self.vacant.len() > REMEMBERED { self.vacant.pop_front() } else { None };
        let index = match vacant {
            Some(index) => {
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        // Explicit recordings are not linked: the head of the list must be the oldest recording that objects wait
        // for.
        match holds {
            Holds::Everything => {
                self.link(index);
                self.open += 1;
            }
            Holds::Nothing => self.open_explicit += 1,
        }
        RecordingId { tracker: self.tracker, slot: index, number }
    }

    /// Closes an open recording. `submitted` are the points that its commands may have been submitted at.
    #[inline]
    pub(super) fn close(&mut self, id: RecordingId, status: RecordingStatus, submitted: &TimelinePoints) {
        let slot = &mut self.slots[id.slot as usize];
        debug_assert!(
            slot.number == id.number && slot.status == RecordingStatus::Open,
            "{id:?} is closed once"
        );
        slot.status = status;
        if slot.writes {
            self.open_writing -= 1;
            submitted.points().for_each(|point| self.written.insert(point));
        }
        match slot.holds {
            Holds::Everything => {
                self.unlink(id.slot);
                self.open -= 1;
            }
            Holds::Nothing => self.open_explicit -= 1,
        }
        match status {
            RecordingStatus::Discarded => self.discarded += 1,
            _ => self.submitted += 1,
        }
        // At the back, so that its status is kept for as long as possible.
        self.vacant.push_back(id.slot);
    }

    /// Notes that an open recording writes to no relocatable resource, as if it had never been one that may.
    pub(super) fn only_reads(&mut self, id: RecordingId) {
        let slot = &mut self.slots[id.slot as usize];
        debug_assert!(slot.number == id.number && slot.status == RecordingStatus::Open, "{id:?} is open");
        if core::mem::replace(&mut slot.writes, false) {
            self.open_writing -= 1;
            self.ever_writing -= 1;
        }
    }

    pub(super) fn status(&self, id: RecordingId) -> RecordingStatus {
        // The number detects a slot that was reused for a later recording.
        if id.tracker != self.tracker {
            return RecordingStatus::WrongTracker;
        }
        match self.slots.get(id.slot as usize) {
            Some(slot) if slot.number == id.number => slot.status,
            _ => RecordingStatus::Unknown,
        }
    }

    /// Returns the number of the oldest open recording with [`Holds::Everything`].
    pub(super) fn oldest(&self) -> Option<u64> {
        self.slots.get(self.head as usize).map(|slot| slot.number)
    }

    /// Returns the recording that has been open for longest.
    pub(super) fn longest_open(&self) -> Option<OpenRecording> {
        let slot = self.slots.get(self.head as usize)?;
        Some(OpenRecording { label: slot.label, age: slot.opened.elapsed() })
    }

    /// Returns all open recordings, in no particular order.
    pub(super) fn all_open(&self) -> impl Iterator<Item = OpenRecording> {
        // All slots rather than the list, which lacks explicit recordings.
        let open = self.slots.iter().filter(|slot| slot.status == RecordingStatus::Open);
        open.map(|slot| OpenRecording { label: slot.label, age: slot.opened.elapsed() })
    }

    fn link(&mut self, index: u32) {
        // New recordings have the highest number, so appending keeps the list sorted.
        let last = self.slots.get(self.tail as usize);
        debug_assert!(
            last.is_none_or(|last| last.number < self.slots[index as usize].number),
            "numbers grow from the head to the tail"
        );
        self.slots[index as usize].previous = self.tail;
        match self.slots.get_mut(self.tail as usize) {
            Some(tail) => tail.next = index,
            None => self.head = index,
        }
        self.tail = index;
    }

    fn unlink(&mut self, index: u32) {
        let Slot { previous, next, .. } = self.slots[index as usize];
        let before = match self.slots.get_mut(previous as usize) {
            Some(slot) => core::mem::replace(&mut slot.next, next),
            None => core::mem::replace(&mut self.head, next),
        };
        let after = match self.slots.get_mut(next as usize) {
            Some(slot) => core::mem::replace(&mut slot.previous, previous),
            None => core::mem::replace(&mut self.tail, previous),
        };
        debug_assert_eq!((before, after), (index, index), "a linked recording is its neighbours' neighbour");
    }

    #[cfg(test)]
    fn check_invariants(&self) {
        let (mut at, mut previous, mut count) = (self.head, NONE, 0);
        while let Some(slot) = self.slots.get(at as usize) {
            assert_eq!(
                (slot.previous, slot.status, slot.holds),
                (previous, RecordingStatus::Open, Holds::Everything)
            );
            if let Some(before) = self.slots.get(previous as usize) {
                assert!(before.number < slot.number, "oldest first");
            }
            (previous, at, count) = (at, slot.next, count + 1);
        }
        assert_eq!((self.tail, self.open), (previous, count));
        let open = self.slots.iter().filter(|slot| slot.status == RecordingStatus::Open).count() as u64;
        assert_eq!(open, self.open + self.open_explicit);
        let writing = self.slots.iter().filter(|slot| slot.status == RecordingStatus::Open && slot.writes);
        assert_eq!(writing.count() as u64, self.open_writing);
        assert_eq!(self.slots.len() as u64, open + self.vacant.len() as u64);
    }
}

#[cfg(test)]
#[cfg(not(allotment_loom))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_oldest_open_recording_is_the_oldest_whatever_is_closed_first(
            steps in proptest::collection::vec((any::<bool>(), any::<bool>(), any::<usize>()), 1..400),
        ) {
            let (mut registry, mut open) = (Registry::new(7), Vec::new());
            let now = Instant::now();
            let mut closed = Vec::new();
            for (number, (opens, holds, which)) in (0..).zip(steps) {
                if opens || open.is_empty() {
                    let holds = if holds { Holds::Everything } else { Holds::Nothing };
                    open.push((registry.open(number, "", holds, now), holds));
                } else {
                    let (id, _) = open.remove(which % open.len());
                    registry.close(id, RecordingStatus::Discarded, &TimelinePoints::EMPTY);
                    closed.push(id);
                }
                registry.check_invariants();
                let oldest = open.iter().find(|(_, holds)| *holds == Holds::Everything);
                prop_assert_eq!(registry.oldest(), oldest.map(|(id, _)| id.number));
                for (id, _) in &open {
                    prop_assert_eq!(registry.status(*id), RecordingStatus::Open);
                }
                for id in closed.iter().rev().take(REMEMBERED) {
                    prop_assert_eq!(registry.status(*id), RecordingStatus::Discarded);
                }
                for id in &closed {
                    prop_assert_ne!(registry.status(*id), RecordingStatus::Open, "never mistaken for another recording");
                }
            }
        }
    }
}
