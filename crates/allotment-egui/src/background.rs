//! Answers that take longer than a frame, counted on a thread of their own.

use core::time::Duration;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use allotment_analyze::Timeline;

use crate::loaded::Loaded;

/// A frame counts answers that take less time. A thread would cost a frame without an answer.
const AT_ONCE: Duration = Duration::from_millis(4);

/// The time of most questions, for each event of the recording.
const EACH_EVENT: Duration = Duration::from_nanos(40);

/// The answer to one question about a recording, and to the next one as soon as the key changes.
///
/// At most one thread counts. While a person drags the cursor, the key changes with every frame. The thread then counts
/// what it began, and the last key after that.
pub(crate) struct Background<K, T> {
    key: Option<K>,
    answer: Option<T>,
    counting: Option<(K, Receiver<T>)>,
    /// The thread panicked: the question has no answer.
    failed: bool,
    /// The answer, and what is being counted, are about the recording before this one.
    outdated: bool,
}

impl<K, T> Default for Background<K, T> {
    fn default() -> Self {
        Self { key: None, answer: None, counting: None, failed: false, outdated: false }
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
        (self.outdated, self.failed) = (true, false);
    }
}

impl<K: Clone + PartialEq, T: Send + 'static> Background<K, T> {
    /// Returns the answer for a key; `None` while it is being counted, and then the frame is drawn again.
    pub(crate) fn get(
        &mut self,
        ctx: &egui::Context,
        loaded: &Loaded,
        key: K,
        count: impl FnOnce(&Timeline<'_>) -> T + Send + 'static,
    ) -> Option<&T> {
        let events = u32::try_from(loaded.timeline().end()).unwrap_or(u32::MAX);
        self.get_for(ctx, loaded, EACH_EVENT.saturating_mul(events), key, count)
    }

    /// As [`get`](Self::get), for a question that takes about so long.
    pub(crate) fn get_for(
        &mut self,
        ctx: &egui::Context,
        loaded: &Loaded,
        cost: Duration,
        key: K,
        count: impl FnOnce(&Timeline<'_>) -> T + Send + 'static,
    ) -> Option<&T> {
        if self.key.as_ref() != Some(&key) {
            (self.key, self.failed) = (Some(key.clone()), false);
            if !self.outdated {
                self.answer = None;
            }
        }
        self.take(&key);
        if (self.answer.is_none() || self.outdated) && self.counting.is_none() && !self.failed {
            self.outdated = false;
            if cost < AT_ONCE {
                self.answer = Some(count(loaded.timeline()));
            } else {
                let (send, receive) = channel();
                let (timeline, ctx) = (loaded.shared(), ctx.clone());
                std::thread::spawn(move || {
                    // No one waits for the answer any more if the pane has forgotten the recording.
                    let _ = send.send(count(timeline.get()));
                    drop(send);
                    ctx.request_repaint();
                });
                self.counting = Some((key, receive));
            }
        }
        self.answer.as_ref()
    }

    /// Takes what the thread has counted.
    fn take(&mut self, key: &K) {
        let Some((of, receive)) = &self.counting else { return };
        let same = of == key;
        match receive.try_recv() {
            // While one follows a program, the next recording may come before each answer: the one about the last
            // recording is shown then, or none would ever be.
            Ok(answer) if same || self.outdated => self.answer = Some(answer),
            Ok(_) => {}
            Err(TryRecvError::Empty) => return,
            Err(TryRecvError::Disconnected) => self.failed = same && !self.outdated,
        }
        self.counting = None;
    }
}
