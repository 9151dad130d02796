//! What stands between the events and the viewers: one state, one encoding, and a queue for each viewer.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Instant;

use allotment::events::{Event, StackId, TextId};

use super::address::Token;
use super::connection::{Connection, Progress};
use super::handshake::{Refusal, answer};
use super::queue::{Outgoing, Queue};
use super::server::LiveStatistics;
use crate::file::{Chunk, ChunkSink, Composer, beginning, chunk_bytes, chunk_kind, end_bytes, restart_bytes};
use crate::recorder::TakesEvents;
use crate::recording::{Header, StackFrame};

/// Connections that have not shown the token, at most. A new one takes the place of the oldest, so that nobody can keep
/// viewers out by connections that say nothing: as many must come while a viewer says what it wants, which takes it
/// less than a millisecond on the same machine.
const MAX_STRANGERS: usize = 64;

/// What the hub needs to know of the [options](super::LiveDesc).
#[derive(Clone, Copy, Debug)]
pub(super) struct HubDesc {
    pub(super) token: Token,
    pub(super) queue_bytes: usize,
    pub(super) max_viewers: usize,
    pub(super) handshake_timeout: Duration,
    /// How many texts there are, beside twice the needed ones, before old ones are forgotten.
    pub(super) spare_texts: u64,
}

/// Counts, which other threads read.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) viewers: AtomicUsize,
    pub(super) accepted: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) dropped_events: AtomicU64,
    pub(super) restarts: AtomicU64,
}

impl Counts {
    pub(super) fn statistics(&self) -> LiveStatistics {
        LiveStatistics {
            viewers: self.viewers.load(Ordering::Relaxed),
            accepted: self.accepted.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            dropped_events: self.dropped_events.load(Ordering::Relaxed),
            restarts: self.restarts.load(Ordering::Relaxed),
        }
    }
}

/// Chunks as bytes.
#[derive(Debug, Default)]
struct Outbox(Vec<Outgoing>);

impl ChunkSink for Outbox {
    fn put(&mut self, chunk: Chunk<'_>) -> io::Result<()> {
        self.0.push(Outgoing {
            bytes: chunk_bytes(chunk.kind, chunk.payload).into(),
            until: if chunk.kind == chunk_kind::EVENTS {
                chunk.start.end()
            } else {
                chunk.start.first_event()
            },
            is_state: false,
        });
        Ok(())
    }
}

/// The state, and the chunks that lead on from it.
#[derive(Debug)]
struct Source {
    composer: Composer<Outbox>,
    /// Somebody views: events are encoded.
    viewed: bool,
    /// When there are so many texts, old ones are forgotten.
    forget_at: u64,
    spare_texts: u64,
}

impl TakesEvents for Source {
    fn text(&mut self, text: &str) -> TextId {
        self.composer.text(text)
    }

    fn stack(&mut self, frame: StackFrame) -> StackId {
        self.composer.stack(frame)
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        if self.viewed {
            return self.composer.event(event);
        }
        self.composer.event_for_state(event);
        Ok(())
    }

    fn forget(&mut self) -> io::Result<bool> {
        if self.composer.text_count() < self.forget_at {
            return Ok(false);
        }
        self.composer.forget_old_texts()?;
        // As many again come before the next time, so that a text costs the same however many there are.
        self.forget_at = 2 * self.composer.text_count() + self.spare_texts;
        Ok(true)
    }
}

/// The viewers of a program, over streams that never wait. All that it does is done in calls of
/// [`advance`](Self::advance).
#[derive(Debug)]
pub(super) struct Hub<S> {
    desc: HubDesc,
    source: Source,
    connections: Vec<Connection<S>>,
    /// The answer to a viewer, and the beginning of the recording.
    first: Outgoing,
    /// No event will come.
    ended: bool,
    counts: Arc<Counts>,
}

impl<S: Read + Write> Hub<S> {
    pub(super) fn new(header: &Header, desc: HubDesc, counts: Arc<Counts>) -> Self {
        let mut first = answer(None).to_vec();
        first.extend(beginning(header));
        let composer = Composer::passing(Outbox::default());
        Self {
            desc,
            source: Source {
                composer,
                viewed: false,
                forget_at: desc.spare_texts,
                spare_texts: desc.spare_texts,
            },
            connections: Vec::new(),
            first: Outgoing { bytes: first.into(), until: 0, is_state: true },
            ended: false,
            counts,
        }
    }

    /// Returns what takes the events.
    pub(super) fn source(&mut self) -> &mut impl TakesEvents {
        &mut self.source
    }

    /// Adds a connection. Where too many have not shown the token, the one that came first loses its place.
    pub(super) fn connect(&mut self, stream: S, now: Instant) {
        self.connections.push(Connection::new(stream, now, self.desc.handshake_timeout));
        let mut strangers = self.connections.iter().filter(|it| it.is_stranger()).count();
        while strangers > MAX_STRANGERS {
            strangers -= 1;
            let Some(oldest) = self.connections.iter().position(Connection::is_stranger) else { return };
            let connection = &mut self.connections[oldest];
            // It may have shown the token since the last look.
            let has_ended = connection.advance(self.desc.token, now) == Progress::Ended;
            if !has_ended && !connection.is_stranger() {
                continue;
            }
            // As far as the stream takes it now.
            connection.refuse(Refusal::TooManyConnections);
            connection.advance(self.desc.token, now);
            self.connections.remove(oldest);
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that no event will come: viewers get what has been taken, and the end.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Returns true while somebody views.
    pub(super) const fn has_viewers(&self) -> bool {
        self.source.viewed
    }

    /// Returns the streams of the connections.
    pub(super) fn streams(&self) -> impl Iterator<Item = &S> {
        self.connections.iter().map(Connection::stream)
    }

    /// Gives the viewers what has been taken since the last call, as far as their streams take it. Returns true if there
    /// was something to do.
    pub(super) fn advance(&mut self, now: Instant) -> io::Result<bool> {
        self.distribute()?;
        self.serve_accepted();
        self.send_states()?;
        let mut progress = false;
        let token = self.desc.token;
        self.connections.retain_mut(|connection| {
            let of = connection.advance(token, now);
            progress |= of != Progress::None;
            let has_ended = of == Progress::Ended;
            match connection.queue() {
                Some(queue) => !has_ended && !queue.is_over(),
                None => {
                    self.counts.refused.fetch_add(u64::from(has_ended), Ordering::Relaxed);
                    !has_ended
                }
            }
        });
        let viewers = self.connections.iter_mut().filter_map(Connection::queue).count();
        self.counts.viewers.store(viewers, Ordering::Relaxed);
        self.source.viewed = viewers != 0;
        Ok(progress)
    }

    /// Puts new chunks into the queues.
    fn distribute(&mut self) -> io::Result<()> {
        // Also where nobody views: what was composed until now is in the state that a viewer gets.
        self.source.composer.flush()?;
        let chunks = core::mem::take(&mut self.source.composer.sink.0);
        for connection in &mut self.connections {
            chunks.iter().for_each(|chunk| connection.add(chunk));
        }
        Ok(())
    }

    /// Makes viewers of those who have shown the token.
    fn serve_accepted(&mut self) {
        let mut viewers = self.connections.iter_mut().filter_map(Connection::queue).count();
        for connection in self.connections.iter_mut().filter(|connection| connection.is_accepted()) {
            if viewers < self.desc.max_viewers {
                viewers += 1;
                connection.serve(Queue::new(self.desc.queue_bytes, [self.first.clone()]));
                self.counts.accepted.fetch_add(1, Ordering::Relaxed);
            } else {
                connection.refuse(Refusal::TooManyViewers);
            }
        }
    }

    /// Gives the whole state to the viewers that need it, and the end to those who have all.
    fn send_states(&mut self) -> io::Result<()> {
        let mut state: Option<Vec<Outgoing>> = None;
        let mut queues: Vec<_> = self.connections.iter_mut().filter_map(Connection::queue).collect();
        for queue in queues.iter_mut().filter(|queue| queue.wants_state()) {
            if state.is_none() {
                state = Some(whole_state(&mut self.source.composer)?);
            }
            let chunks = state.iter().flatten().cloned();
            let now = self.source.composer.events();
            let dropped = queue.missed(now);
            self.counts.dropped_events.fetch_add(dropped, Ordering::Relaxed);
            self.counts.restarts.fetch_add(u64::from(!queue.is_new()), Ordering::Relaxed);
            let restart = Outgoing { bytes: restart_bytes(dropped).into(), until: now, is_state: true };
            queue.add_state(core::iter::once(restart).chain(chunks), now);
        }
        if self.ended {
            let now = self.source.composer.events();
            let end = Outgoing { bytes: end_bytes(now).into(), until: now, is_state: true };
            queues.iter_mut().for_each(|queue| queue.add_end(&end));
        }
        Ok(())
    }
}

#[cfg(any(test, fuzzing))]
impl<S: Read + Write> Hub<S> {
    /// Panics if a queue has more than it may.
    pub(super) fn check_bounds(&mut self) {
        for queue in self.connections.iter_mut().filter_map(Connection::queue) {
            queue.check_bounds();
        }
    }

    pub(super) fn text_count(&self) -> u64 {
        self.source.composer.text_count()
    }
}

fn whole_state(composer: &mut Composer<Outbox>) -> io::Result<Vec<Outgoing>> {
    let mut state = Outbox::default();
    composer.whole_state(&mut state)?;
    let mut chunks = state.0;
    for chunk in &mut chunks {
        chunk.is_state = true;
    }
    Ok(chunks)
}
