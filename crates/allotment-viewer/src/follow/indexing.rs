//! Indexes what was read, on a thread of its own, as often as it is worth while.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Instant;

use allotment_egui::IndexedRecording;
use allotment_trace::live::LiveForgotten;
use allotment_trace::recording::Recording;

use super::{Shared, lock};

/// Of the time between two indexes, one takes so much at most: a fifth of a core, and a fifth of the window's frames.
const SHARE: u32 = 5;

/// More often than ten times a second, nobody sees what has changed.
const LEAST: Duration = Duration::from_millis(100);

/// The thread sleeps this long while it waits for the window.
const NAP: Duration = Duration::from_millis(10);

/// The index that is made, and when the next may be.
pub(super) struct Indexing {
    shared: Arc<Shared>,
    running: Option<Receiver<(IndexedRecording, Duration)>>,
    /// When the last one began.
    began: Instant,
    /// The time that the last index took.
    took: Duration,
    /// The recording has what no index has.
    pub(super) behind: bool,
    /// The events that were forgotten since the last index began.
    forgotten: (u64, u64),
}

impl Indexing {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let (began, took) = (Instant::now(), Duration::ZERO);
        Self { shared, running: None, began, took, behind: false, forgotten: (0, 0) }
    }

    /// Notes that the recording begins later from now on.
    pub(super) fn forget(&mut self, now: LiveForgotten) {
        let (events, replaced_by) = (now.events as u64, now.replaced_by as u64);
        let (before, front) = self.forgotten;
        // What took the place of the events before goes first.
        self.forgotten = (before + events.saturating_sub(front), replaced_by + front.saturating_sub(events));
    }

    /// Hands what is indexed to the window, and begins the next index if it is time.
    pub(super) fn advance(&mut self, recording: &Recording) {
        self.collect();
        let shown = Duration::from_nanos(self.shared.show_cost.load(Ordering::Relaxed));
        let is_due = self.began.elapsed() >= interval(self.took, shown);
        if self.behind && is_due && self.is_free() && !self.shared.is_paused() {
            let began = Instant::now();
            self.begin(recording.clone(), began);
        }
    }

    /// Indexes the whole recording, once the window has taken what came before.
    pub(super) fn finish(&mut self, recording: Recording) {
        let mut recording = Some(recording).filter(|_| self.behind);
        while !self.shared.is_stopped() && (recording.is_some() || self.running.is_some()) {
            self.collect();
            if let Some(recording) = self.is_free().then(|| recording.take()).flatten() {
                self.begin(recording, Instant::now());
            }
            thread::sleep(NAP);
        }
    }

    /// No index is made, and none waits for the window.
    fn is_free(&self) -> bool {
        self.running.is_none() && lock(&self.shared.handed).is_none()
    }

    fn begin(&mut self, recording: Recording, began: Instant) {
        let (send, running) = channel();
        let (forgotten, replaced_by) = core::mem::take(&mut self.forgotten);
        thread::spawn(move || {
            let indexed = IndexedRecording::new(recording).after_forgetting(forgotten, replaced_by);
            // The program is followed no more if nobody waits.
            let _ = send.send((indexed, began.elapsed()));
        });
        (self.running, self.began, self.behind) = (Some(running), began, false);
    }

    fn collect(&mut self) {
        let Some(running) = &self.running else { return };
        match running.try_recv() {
            Ok((indexed, took)) => {
                (self.running, self.took) = (None, took);
                *lock(&self.shared.handed) = Some(indexed);
                self.shared.window.request_repaint();
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => self.running = None,
        }
    }
}

/// From the beginning of an index to that of the next one, by what the last one took and the window took to show it.
fn interval(took: Duration, shown: Duration) -> Duration {
    (took.max(shown) * SHARE).max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_recording_is_indexed_less_often_than_a_short_one() {
        let milliseconds = Duration::from_millis;
        assert_eq!(interval(milliseconds(1), milliseconds(2)), milliseconds(100));
        assert_eq!(interval(milliseconds(3000), milliseconds(20)), milliseconds(15_000));
        assert_eq!(interval(milliseconds(30), milliseconds(80)), milliseconds(400));
    }
}
