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
}

impl<K, T> Default for Background<K, T> {
    fn default() -> Self {
        Self { key: None, answer: None, counting: None, failed: false }
    }
}

impl<K, T> Background<K, T> {
    /// Returns the last answer.
    pub(crate) const fn known(&self) -> Option<&T> {
        self.answer.as_ref()
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
            self.key = Some(key.clone());
            (self.answer, self.failed) = (None, false);
        }
        if let Some((of, receive)) = &self.counting {
            match receive.try_recv() {
                Ok(answer) => {
                    if *of == key {
                        self.answer = Some(answer);
                    }
                    self.counting = None;
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => {
                    self.failed = *of == key;
                    self.counting = None;
                }
            }
        }
        if self.answer.is_none() && self.counting.is_none() && !self.failed {
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
}
