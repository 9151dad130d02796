//! Answers that take longer than a frame, counted on a thread of their own.

use std::sync::mpsc::{Receiver, TryRecvError, channel};

use allotment_analyze::Timeline;

use crate::loaded::Loaded;

/// Recordings with fewer events are counted at once: it takes a few milliseconds, and a thread would cost a frame without
/// an answer.
const AT_ONCE: u64 = 100_000;

/// The answer to one question about a recording, and to the next one as soon as the key changes.
pub(crate) struct Background<K, T> {
    key: Option<K>,
    answer: Option<T>,
    waiting: Option<Receiver<T>>,
    /// The answer is about the recording before this one.
    outdated: bool,
}

impl<K, T> Default for Background<K, T> {
    fn default() -> Self {
        Self { key: None, answer: None, waiting: None, outdated: false }
    }
}

impl<K, T> Background<K, T> {
    /// Returns the last answer.
    pub(crate) const fn known(&self) -> Option<&T> {
        self.answer.as_ref()
    }

    /// Counts again, for a recording that goes on where the one so far ends. Until then the last answer stays, so that
    /// nothing flickers while one follows a program.
    pub(crate) const fn outdate(&mut self) {
        self.outdated = true;
    }
}

impl<K: PartialEq, T: Send + 'static> Background<K, T> {
    /// Returns the answer for a key; `None` while it is being counted, and then the frame is drawn again.
    pub(crate) fn get(
        &mut self,
        ctx: &egui::Context,
        loaded: &Loaded,
        key: K,
        count: impl FnOnce(&Timeline<'_>) -> T + Send + 'static,
    ) -> Option<&T> {
        self.take();
        let other = self.key.as_ref() != Some(&key);
        if other && !self.outdated {
            (self.answer, self.waiting) = (None, None);
        }
        // A count that takes longer than until the next recording comes is waited for: else no answer would ever come.
        if (other || self.outdated) && self.waiting.is_none() {
            (self.key, self.outdated) = (Some(key), false);
            if loaded.timeline().end() < AT_ONCE {
                self.answer = Some(count(loaded.timeline()));
            } else {
                let (send, receive) = channel();
                let (timeline, ctx) = (loaded.shared(), ctx.clone());
                std::thread::spawn(move || {
                    // No one waits for the answer any more if the key has changed meanwhile.
                    let _ = send.send(count(timeline.get()));
                    ctx.request_repaint();
                });
                self.waiting = Some(receive);
            }
        }
        self.answer.as_ref()
    }

    fn take(&mut self) {
        if let Some(waiting) = &self.waiting {
            match waiting.try_recv() {
                Ok(answer) => (self.answer, self.waiting) = (Some(answer), None),
                Err(TryRecvError::Empty) => {}
                // The thread panicked: its question has no answer.
                Err(TryRecvError::Disconnected) => self.waiting = None,
            }
        }
    }
}
