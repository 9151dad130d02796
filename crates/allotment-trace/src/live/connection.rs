//! The server's half of a connection, which never waits.

use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::time::Instant;

use super::address::Token;
use super::handshake::{Answer, Refusal, Request, Verdict, answer};
use super::queue::{Outgoing, Queue};

/// The most bytes of a refused viewer that are read at once, so that the system does not take the answer back because of
/// them.
const DISCARDED: usize = 4096;

/// How far a connection is.
#[derive(Debug)]
enum Phase {
    /// The viewer says what it wants.
    Asking(Request),
    /// The viewer has shown the token, and is not served yet.
    Accepted,
    Viewing(Queue),
    /// The viewer gets the rest of the answer, and then hangs up.
    Refused {
        answer: Answer,
        sent: usize,
    },
}

/// A connection to a viewer, or to something that would like to be one.
#[derive(Debug)]
pub(super) struct Connection<S> {
    stream: S,
    phase: Phase,
    /// When it came, and how long it has time as long as it does not view.
    came: Instant,
    timeout: Duration,
}

/// What came of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Bytes have passed and more wait, or the connection is in the next phase: soon there is more to do.
    Some,
    None,
    /// The connection has ended.
    Ended,
}

impl<S: Read + Write> Connection<S> {
    /// A connection over a stream that never waits.
    pub(super) const fn new(stream: S, came: Instant, timeout: Duration) -> Self {
        Self { stream, phase: Phase::Asking(Request::new()), came, timeout }
    }

    /// Returns true as long as the peer has not shown the token, and where it is refused.
    pub(super) const fn is_stranger(&self) -> bool {
        matches!(self.phase, Phase::Asking(_) | Phase::Refused { .. })
    }

    /// Returns true if the viewer has shown the token, and waits to be served or refused.
    pub(super) const fn is_accepted(&self) -> bool {
        matches!(self.phase, Phase::Accepted)
    }

    /// Begins to serve.
    pub(super) fn serve(&mut self, queue: Queue) {
        self.phase = Phase::Viewing(queue);
    }

    /// Refuses the viewer.
    pub(super) fn refuse(&mut self, refusal: Refusal) {
        self.phase = Phase::Refused { answer: answer(Some(refusal)), sent: 0 };
    }

    /// Returns what waits for the viewer, if it is one.
    pub(super) const fn queue(&mut self) -> Option<&mut Queue> {
        match &mut self.phase {
            Phase::Viewing(queue) => Some(queue),
            _ => None,
        }
    }

    /// Adds a chunk of events or texts to what waits for the viewer, if it is one.
    pub(super) fn add(&mut self, chunk: &Outgoing) {
        let Phase::Viewing(queue) = &mut self.phase else { return };
        if !queue.has_room(chunk) {
            // What the stream takes now needs no room: a viewer is slow when it is, not when much happens at once. A
            // stream that has failed shows it again.
            let _ = send(&mut self.stream, queue);
        }
        queue.add(chunk);
    }

    /// Returns the stream.
    pub(super) const fn stream(&self) -> &S {
        &self.stream
    }

    /// Reads and writes as much as the stream takes now.
    pub(super) fn advance(&mut self, token: Token, now: Instant) -> Progress {
        let is_over = now.saturating_duration_since(self.came) >= self.timeout;
        if is_over && !matches!(self.phase, Phase::Viewing(_)) {
            return Progress::Ended;
        }
        match &mut self.phase {
            Phase::Asking(request) => match request.read(&mut self.stream, token) {
                Verdict::Unfinished => Progress::None,
                Verdict::NotAViewer => Progress::Ended,
                Verdict::Accepted => {
                    self.phase = Phase::Accepted;
                    Progress::Some
                }
                Verdict::Refused(refusal) => {
                    self.refuse(refusal);
                    Progress::Some
                }
            },
            Phase::Accepted => Progress::None,
            Phase::Viewing(queue) => view(&mut self.stream, queue),
            Phase::Refused { answer, sent } => {
                while *sent < answer.len() {
                    match write(&mut self.stream, &answer[*sent..]) {
                        Written::Some(count) => *sent += count,
                        Written::Full => return Progress::None,
                        Written::Failed => return Progress::Ended,
                    }
                }
                discard(&mut self.stream)
            }
        }
    }
}

/// Writes what waits for a viewer, unless it has hung up.
fn view(stream: &mut (impl Read + Write), queue: &mut Queue) -> Progress {
    // A viewer says nothing more. It ends by hanging up, which a read finds even where nothing is written.
    match stream.read(&mut [0]) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
        _ => return Progress::Ended,
    }
    send(stream, queue)
}

/// Writes what waits for a viewer.
fn send(stream: &mut impl Write, queue: &mut Queue) -> Progress {
    let mut progress = Progress::None;
    while let Some(bytes) = queue.next() {
        match write(stream, bytes) {
            Written::Some(count) => {
                queue.sent(count);
                progress = Progress::Some;
            }
            Written::Full => return progress,
            Written::Failed => return Progress::Ended,
        }
    }
    Progress::None
}

enum Written {
    Some(usize),
    Full,
    Failed,
}

fn write(stream: &mut impl Write, bytes: &[u8]) -> Written {
    match stream.write(bytes) {
        Ok(0) => Written::Failed,
        Ok(count) => Written::Some(count),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Written::Full,
        Err(_) => Written::Failed,
    }
}

/// Reads what a refused viewer still says, until it hangs up.
fn discard(stream: &mut impl Read) -> Progress {
    match stream.read(&mut [0; DISCARDED]) {
        Ok(count) if count != 0 => Progress::None,
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Progress::None
        }
        _ => Progress::Ended,
    }
}
