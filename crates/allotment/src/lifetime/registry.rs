//! Which recordings are open, in the order in which they were opened, and what became of the others.
//!
//! ```text
//!   slots   [ 7: open ][ 4: submitted ][ 9: open ][ 8: discarded ] …     the number is the recording's
//!   open      head ─► 7 ─► 9 ◄─ tail                                     linked, oldest first
//!   vacant    4, 8                                                       oldest first; used again last
//! ```
//!
//! Opening, closing and asking for the oldest cost O(1), and nothing is allocated once there were as many
//! recordings at a time as there ever will be. A slot keeps the fate of its recording until another needs it,
//! and at least [`REMEMBERED`] are kept at any time.

use std::collections::VecDeque;
use std::time::Instant;

use crate::device::TimelinePoint;

/// Fates that are remembered at least. Who asks later is told that nothing is known, and waits longer.
const REMEMBERED: usize = 64;

const NONE: u32 = u32::MAX;

/// Names a recording without owning it. Good for as long as anybody cares to keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordingId {
    /// Whose recording it is.
    tracker: u32,
    slot: u32,
    pub(super) number: u64,
}

/// What became of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordingStatus {
    /// Nothing yet.
    Open,
    /// It was dropped, and no queue has ever seen it.
    Discarded,
    /// It was submitted, once, and is done at this point.
    Submitted(TimelinePoint),
    /// It is another tracker's: nothing is known of it, and what is tied to it here never goes.
    Foreign,
    /// It is closed, and was perhaps submitted several times, or so long ago that it is forgotten. All that it
    /// was submitted as is among what queues were given by now.
    Unknown,
}

/// Whether a recording holds back what is retired while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// It may use anything that is alive.
    Everything,
    /// It uses what it keeps itself, and nothing else.
    Nothing,
}

#[derive(Debug)]
struct Slot {
    number: u64,
    fate: RecordingStatus,
    holds: Holds,
    label: &'static str,
    opened: Instant,
    /// Neighbours among the open ones that hold something.
    previous: u32,
    next: u32,
}

/// An open recording, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenRecording {
    /// What it was called.
    pub label: &'static str,
    /// How long it is open.
    pub age: core::time::Duration,
}

#[derive(Debug)]
pub(super) struct Registry {
    /// The tracker's number.
    tracker: u32,
    slots: Vec<Slot>,
    vacant: VecDeque<u32>,
    /// Of the open recordings that hold something. Their numbers grow from head to tail.
    head: u32,
    tail: u32,
    /// Open recordings, by whether they hold something.
    pub(super) open: u64,
    pub(super) open_owning: u64,
    pub(super) submitted: u64,
    pub(super) discarded: u64,
}

impl Registry {
    pub(super) const fn new(tracker: u32) -> Self {
        Self {
            tracker,
            slots: Vec::new(),
            vacant: VecDeque::new(),
            head: NONE,
            tail: NONE,
            open: 0,
            open_owning: 0,
            submitted: 0,
            discarded: 0,
        }
    }

    /// `number` is above all that were given before.
    pub(super) fn open(
        &mut self,
        number: u64,
        label: &'static str,
        holds: Holds,
        opened: Instant,
    ) -> RecordingId {
        let slot =
            Slot { number, fate: RecordingStatus::Open, holds, label, opened, previous: NONE, next: NONE };
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
        match holds {
            Holds::Everything => {
                self.link(index);
                self.open += 1;
            }
            Holds::Nothing => self.open_owning += 1,
        }
        RecordingId { tracker: self.tracker, slot: index, number }
    }

    /// Closes an open recording.
    pub(super) fn close(&mut self, id: RecordingId, fate: RecordingStatus) {
        let slot = &mut self.slots[id.slot as usize];
        debug_assert!(
            slot.number == id.number && slot.fate == RecordingStatus::Open,
            "{id:?} is closed once"
        );
        slot.fate = fate;
        match slot.holds {
            Holds::Everything => {
                self.unlink(id.slot);
                self.open -= 1;
            }
            Holds::Nothing => self.open_owning -= 1,
        }
        match fate {
            RecordingStatus::Discarded => self.discarded += 1,
            _ => self.submitted += 1,
        }
        self.vacant.push_back(id.slot);
    }

    pub(super) fn fate(&self, id: RecordingId) -> RecordingStatus {
        if id.tracker != self.tracker {
            return RecordingStatus::Foreign;
        }
        match self.slots.get(id.slot as usize) {
            Some(slot) if slot.number == id.number => slot.fate,
            _ => RecordingStatus::Unknown,
        }
    }

    /// The number of the oldest open recording that holds something.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.slots.get(self.head as usize).map(|slot| slot.number)
    }

    /// The one that is open for longest.
    pub(super) fn longest_open(&self) -> Option<OpenRecording> {
        let slot = self.slots.get(self.head as usize)?;
        Some(OpenRecording { label: slot.label, age: slot.opened.elapsed() })
    }

    /// All that are open, in no order.
    pub(super) fn all_open(&self) -> impl Iterator<Item = OpenRecording> {
        let open = self.slots.iter().filter(|slot| slot.fate == RecordingStatus::Open);
        open.map(|slot| OpenRecording { label: slot.label, age: slot.opened.elapsed() })
    }

    fn link(&mut self, index: u32) {
        self.slots[index as usize].previous = self.tail;
        match self.slots.get_mut(self.tail as usize) {
            Some(tail) => tail.next = index,
            None => self.head = index,
        }
        self.tail = index;
    }

    fn unlink(&mut self, index: u32) {
        let Slot { previous, next, .. } = self.slots[index as usize];
        match self.slots.get_mut(previous as usize) {
            Some(slot) => slot.next = next,
            None => self.head = next,
        }
        match self.slots.get_mut(next as usize) {
            Some(slot) => slot.previous = previous,
            None => self.tail = previous,
        }
    }

    #[cfg(test)]
    fn check_invariants(&self) {
        let (mut at, mut previous, mut count) = (self.head, NONE, 0);
        while let Some(slot) = self.slots.get(at as usize) {
            assert_eq!(
                (slot.previous, slot.fate, slot.holds),
                (previous, RecordingStatus::Open, Holds::Everything)
            );
            if let Some(before) = self.slots.get(previous as usize) {
                assert!(before.number < slot.number, "oldest first");
            }
            (previous, at, count) = (at, slot.next, count + 1);
        }
        assert_eq!((self.tail, self.open), (previous, count));
        let open = self.slots.iter().filter(|slot| slot.fate == RecordingStatus::Open).count() as u64;
        assert_eq!(open, self.open + self.open_owning);
        assert_eq!(self.slots.len() as u64, open + self.vacant.len() as u64);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
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
                    registry.close(id, RecordingStatus::Discarded);
                    closed.push(id);
                }
                registry.check_invariants();
                let oldest = open.iter().find(|(_, holds)| *holds == Holds::Everything);
                prop_assert_eq!(registry.oldest(), oldest.map(|(id, _)| id.number));
                for (id, _) in &open {
                    prop_assert_eq!(registry.fate(*id), RecordingStatus::Open);
                }
                for id in closed.iter().rev().take(REMEMBERED) {
                    prop_assert_eq!(registry.fate(*id), RecordingStatus::Discarded);
                }
                for id in &closed {
                    prop_assert_ne!(registry.fate(*id), RecordingStatus::Open, "never taken for somebody else");
                }
            }
        }
    }
}
