//! Following a running program: threads connect, read and index, and the window gets recordings that grow.
//!
//! ```text
//!   program ──TCP──▶ a thread that reads ──copy──▶ a thread that indexes ──▶ handed ──▶ the window
//!                    it never stops, so that       one at a time, and at       one, until the
//!                    nothing is dropped            rest most of the time       window takes it
//! ```
//!
//! To index costs a microsecond for each event of the whole recording. So the next index begins no sooner than a multiple
//! of what the last one took, and of what the window took to show it: a short recording is shown ten times a second, one
//! of millions of events every few seconds, and the window stays fluent. A window that does not draw gets no further
//! recordings.
//!
//! Memory is bounded: beyond [`Limits::events`], the older half of the recording becomes what still existed after it. Where what
//! exists at once takes more events than that, the program is followed up to four times as many, and then no more.

mod indexing;
mod reading;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Thread};

use allotment_egui::IndexedRecording;
use allotment_trace::live::LiveAddress;
use eframe::egui::Context;

/// The memory that the recording of a program may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most events that are kept, unless what exists at once takes more. Each takes 72 bytes and its index as many at most, up to three times: as it is read,
    /// indexed and shown.
    pub(crate) events: usize,
    /// The most bytes of texts. None is ever forgotten, so following ends there.
    pub(crate) text_bytes: u64,
}

impl Default for Limits {
    /// 4 Mi events, about 1 GiB in all: twenty minutes of a game that allocates and frees thirty times in each frame.
    /// 128 MiB of texts.
    fn default() -> Self {
        Self { events: 4 << 20, text_bytes: 128 << 20 }
    }
}

/// The state of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The program is not there, or does not answer: the last attempt says why.
    Waiting {
        why: Option<String>,
    },
    Connected,
    /// The program has ended, and said so.
    Ended,
    /// The program was killed, or the network failed.
    Lost,
    /// It makes no sense to try again.
    Failed(String),
}

/// The state of the connection and its losses, which the menu bar shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) phase: Phase,
    /// Events that were dropped because this program was too slow, and how often the whole state came instead.
    pub(crate) dropped: u64,
    pub(crate) resynchronised: u64,
    /// The oldest events, which were forgotten here.
    pub(crate) forgotten: u64,
}

impl Status {
    /// Returns true while something may still come.
    pub(crate) const fn is_following(&self) -> bool {
        matches!(self.phase, Phase::Waiting { .. } | Phase::Connected)
    }
}

/// State that the threads and the window share.
struct Shared {
    status: Mutex<Status>,
    handed: Mutex<Option<IndexedRecording>>,
    stopped: AtomicBool,
    paused: AtomicBool,
    /// Nanoseconds that the window took to show the last recording.
    show_cost: AtomicU64,
    window: Context,
}

impl Shared {
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    /// Changes what the window says.
    fn tell(&self, change: impl FnOnce(&mut Status)) {
        let mut status = lock(&self.status);
        let before = status.clone();
        change(&mut status);
        if *status != before {
            self.window.request_repaint();
        }
    }
}

/// No thread panics while it has one of these.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program that is followed, or waited for. Dropping it lets the program go.
pub(crate) struct Following {
    address: LiveAddress,
    shared: Arc<Shared>,
    thread: Option<Thread>,
}

impl Following {
    /// Begins to follow a program, once it is there.
    pub(crate) fn new(address: LiveAddress, limits: Limits, window: Context) -> Self {
        let status =
            Status { phase: Phase::Waiting { why: None }, dropped: 0, resynchronised: 0, forgotten: 0 };
        let shared = Arc::new(Shared {
            status: Mutex::new(status),
            handed: Mutex::new(None),
            stopped: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            show_cost: AtomicU64::new(0),
            window,
        });
        let (program, for_thread) = (address.clone(), Arc::clone(&shared));
        let spawned = Builder::new()
            .name("follow".to_owned())
            .spawn(move || reading::follow(&program, limits, &for_thread));
        let thread = match spawned {
            Ok(handle) => Some(handle.thread().clone()),
            Err(error) => {
                shared.tell(|status| status.phase = Phase::Failed(error.to_string()));
                None
            }
        };
        Self { address, shared, thread }
    }

    pub(crate) const fn address(&self) -> &LiveAddress {
        &self.address
    }

    pub(crate) fn status(&self) -> Status {
        lock(&self.shared.status).clone()
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.shared.is_paused()
    }

    /// Shows nothing new for a while, or goes on. The program is recorded all the same.
    pub(crate) fn set_paused(&self, paused: bool) {
        self.shared.paused.store(paused, Ordering::Release);
    }

    /// Takes the recording so far, if there is a new one to show.
    pub(crate) fn take(&self) -> Option<IndexedRecording> {
        if self.is_paused() { None } else { lock(&self.shared.handed).take() }
    }

    /// Says what it took to show the last recording.
    pub(crate) fn shown_in(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.shared.show_cost.store(nanoseconds, Ordering::Relaxed);
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Release);
        // It may be in an attempt to connect, which takes seconds: nothing waits for its end.
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
    }
}
