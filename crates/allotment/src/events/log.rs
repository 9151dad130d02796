//! The log: where the parts of the library write events, and one reader takes them out.
//!
//! A thread writes an event while it holds the lock that the change happened under, so the events of a pool are in the
//! order of its changes. The log has one lock, which is held for the few stores of an event and never while user code
//! or a driver runs, so a thread that finds it taken tries again rather than to sleep; its reader takes all events out at
//! once, by exchanging two lists.
//!
//! The log is bounded. When its reader is too slow, the log begins a new *epoch*: it refuses the events of each pool
//! until that pool has announced its whole state again, which the next frame end or call of `maintain` makes it do. So
//! a slow reader loses events, but never sees a state that did not exist, and no thread ever waits for it.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use super::{Event, EventBatch, Parts};
use crate::choices::Name;
use crate::sync::{TryLock, TryLockGuard, locked};

/// The most events after which the reader is woken, less than a megabyte of most kinds: the lists that writers and the
/// reader exchange then fit a processor's cache, and waking a thread is rare.
const WAKE_AT: usize = 1 << 15;

/// Shared by the parts of the library that write events and the reader.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLog(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The epoch of the events that are accepted; 0 where nobody reads. Written under the lock.
    epoch: AtomicU64,
    /// A new epoch has begun, whose state has not been announced yet.
    wants_state: AtomicBool,
    queue: TryLock<Queue>,
    /// Set when many events wait for the reader, which sleeps until then.
    many: Mutex<bool>,
    ready: Condvar,
    /// What announces its state beside the pools.
    parts: Parts,
}

#[derive(Debug, Default)]
struct Queue {
    batch: EventBatch,
    /// The most events that wait for the reader.
    limit: usize,
    /// The reader is woken when so many wait.
    wake_at: usize,
    /// The epoch before this one, while nobody reads: an epoch is never used twice.
    last_epoch: u64,
    /// Events were lost since the reader last came. Until it comes, the state is not announced: the lists would grow
    /// with each announcement.
    overflowed: bool,
    /// When the reader began to read.
    began: Option<Instant>,
    frames: u64,
    /// The allocator is gone: no event will come.
    closed: bool,
}

impl Queue {
    /// Returns true while few events wait, and more may come.
    fn may_fill(&self) -> bool {
        self.batch.packed_len() < self.wake_at && !self.closed
    }

    fn nanoseconds(&self) -> u64 {
        self.began.map_or(0, |began| u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

impl EventLog {
    /// Locks the queue. It is held for some nanoseconds, so a thread that finds it taken tries again.
    #[inline]
    fn lock(&self) -> TryLockGuard<'_, Queue> {
        match self.0.queue.try_lock() {
            Some(guard) => guard,
            None => self.lock_contended(),
        }
    }

    #[cold]
    fn lock_contended(&self) -> TryLockGuard<'_, Queue> {
        for round in 0_u32.. {
            for _ in 0..32 {
                if let Some(guard) = self.0.queue.try_lock() {
                    return guard;
                }
                core::hint::spin_loop();
            }
            // The thread that has it does not run. If this one has a higher priority, yielding alone may not let it.
            if round < 16 { std::thread::yield_now() } else { std::thread::sleep(Duration::from_micros(50)) }
        }
        unreachable!("the rounds do not end")
    }

    /// Wakes the reader.
    #[cold]
    fn wake(&self) {
        *locked(&self.0.many) = true;
        self.0.ready.notify_all();
    }

    /// Returns true while a reader is attached.
    #[inline]
    pub(crate) fn is_read(&self) -> bool {
        self.0.epoch.load(Ordering::Relaxed) != 0
    }

    /// Returns the epoch of a state that is announced now; 0 where nobody reads.
    pub(crate) fn epoch(&self) -> u64 {
        // Acquire and release are the lock's: whoever announces takes it next.
        self.0.epoch.load(Ordering::Relaxed)
    }

    /// Returns the parts that announce their state beside the pools.
    pub(crate) fn parts(&self) -> &Parts {
        &self.0.parts
    }

    /// Returns true once for each new epoch: the caller announces the whole state.
    #[inline]
    pub(crate) fn takes_state(&self) -> bool {
        self.0.wants_state.load(Ordering::Relaxed) && self.0.wants_state.swap(false, Ordering::Relaxed)
    }

    /// Lets the whole state be announced once more at the next opportunity, to the reader of this epoch: some parts were in
    /// use. Those that have announced theirs do not repeat it.
    #[cold]
    pub(crate) fn ask_for_state(&self, epoch: u64) {
        let queue = self.lock();
        // Not while events are lost: the reader comes first.
        if self.is_read() && self.epoch() == epoch && !queue.overflowed {
            self.0.wants_state.store(true, Ordering::Relaxed);
        }
    }

    /// Attaches a reader. Returns false when there is one.
    pub(super) fn attach(&self, limit: usize) -> bool {
        let mut queue = self.lock();
        if self.is_read() {
            return false;
        }
        queue.batch.clear();
        (queue.limit, queue.frames, queue.overflowed) = (limit, 0, false);
        queue.wake_at = (limit / 8).clamp(1, WAKE_AT);
        queue.began = Some(Instant::now());
        self.begin_epoch(&mut queue);
        self.0.wants_state.store(true, Ordering::Relaxed);
        true
    }

    fn begin_epoch(&self, queue: &mut Queue) {
        // Never 0 again, which is no epoch, and never one that a pool may still have: 64 bits do not run out.
        queue.last_epoch += 1;
        self.0.epoch.store(queue.last_epoch, Ordering::Relaxed);
    }

    /// Detaches the reader.
    pub(super) fn detach(&self) {
        let mut queue = self.lock();
        self.0.epoch.store(0, Ordering::Relaxed);
        self.0.wants_state.store(false, Ordering::Relaxed);
        queue.batch = EventBatch::new();
    }

    /// Notes that no event will come any more.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.wake();
    }

    /// Adds an event of a part that announced its state in `epoch`. Returns false when that is over: the part writes no
    /// more events until it has announced its state again.
    pub(crate) fn push(&self, epoch: u64, event: impl FnOnce(&mut EventBatch) -> Event) -> bool {
        self.push_by(epoch, |batch| batch.push_made(event))
    }

    /// Adds an event as [`push`](Self::push) does, by a call that packs it.
    #[inline]
    fn push_by(&self, epoch: u64, pack: impl FnOnce(&mut EventBatch)) -> bool {
        let mut queue = self.lock();
        if epoch != self.epoch() {
            return false;
        }
        if queue.batch.packed_len() >= queue.limit {
            self.begin_epoch(&mut queue);
            self.0.wants_state.store(false, Ordering::Relaxed);
            queue.overflowed = true;
            // Here, where the reader forgets its state: the parts announce theirs after it.
            queue.batch.push(Event::Lost);
            return false;
        }
        self.add_by(&mut queue, pack);
        true
    }

    /// Adds an event of the state that a part announces in `epoch`, unless that is over. Beyond the limit, if need be: a
    /// state that is announced by halves is none.
    pub(crate) fn announce(&self, epoch: u64, event: impl FnOnce(&mut EventBatch) -> Event) {
        let mut queue = self.lock();
        if epoch == self.epoch() {
            self.add(&mut queue, event);
        }
    }

    /// Adds an event that is true whatever was lost before it: a frame's end, the budget of a heap.
    pub(crate) fn push_always(&self, event: impl FnOnce(&mut EventBatch) -> Event) {
        let mut queue = self.lock();
        if self.is_read() {
            self.add(&mut queue, event);
        }
    }

    /// Adds the end of a frame, with the time.
    #[cold]
    pub(crate) fn end_frame(&self) {
        let mut queue = self.lock();
        if self.is_read() {
            let (number, nanoseconds) = (queue.frames, queue.nanoseconds());
            queue.frames += 1;
            self.add(&mut queue, |_| Event::FrameEnd { number });
            self.add(&mut queue, |_| Event::Time { nanoseconds });
        }
    }

    /// Adds a mark of the program, with the time.
    pub(super) fn mark(&self, text: &Name) {
        let mut queue = self.lock();
        if self.is_read() {
            let nanoseconds = queue.nanoseconds();
            self.add(&mut queue, |texts| Event::Mark { text: texts.add_text(Some(text)) });
            self.add(&mut queue, |_| Event::Time { nanoseconds });
        }
    }

    #[inline]
    fn add(&self, queue: &mut Queue, event: impl FnOnce(&mut EventBatch) -> Event) {
        self.add_by(queue, |batch| batch.push_made(event));
    }

    #[inline]
    fn add_by(&self, queue: &mut Queue, pack: impl FnOnce(&mut EventBatch)) {
        pack(&mut queue.batch);
        // Long before the limit, so that the reader has time to come; once, since waking a thread takes microseconds.
        if queue.batch.packed_len() == queue.wake_at {
            self.wake();
        }
    }

    /// Exchanges the events for an empty batch. Waits up to `patience` for some. Returns false when there is none and
    /// none will come.
    pub(super) fn take(&self, batch: &mut EventBatch, patience: Duration) -> bool {
        batch.clear();
        if !patience.is_zero() && self.lock().may_fill() {
            let many = locked(&self.0.many);
            let waited = self.0.ready.wait_timeout_while(many, patience, |many| !*many);
            *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
        }
        let mut queue = self.lock();
        if core::mem::take(&mut queue.overflowed) {
            self.0.wants_state.store(self.is_read(), Ordering::Relaxed);
        }
        if queue.batch.packed_len() != 0 {
            let nanoseconds = queue.nanoseconds();
            queue.batch.push(Event::Time { nanoseconds });
        }
        core::mem::swap(batch, &mut queue.batch);
        let closed = queue.closed;
        // The writers go on meanwhile.
        drop(queue);
        batch.unpack();
        !(closed && batch.events().is_empty())
    }
}

/// A part of the library that has state and writes events: a pool.
#[derive(Debug)]
pub(crate) struct EventSource {
    log: EventLog,
    /// The epoch in which the part has announced its state; 0 where it writes nothing.
    epoch: u64,
}

impl EventSource {
    /// Creates the source of a part that has no state yet, and whose creation is no event by itself.
    pub(crate) fn new(log: &EventLog) -> Self {
        Self { log: log.clone(), epoch: 0 }
    }

    /// Returns true if the part announces its changes.
    #[inline]
    pub(crate) fn is_read(&self) -> bool {
        self.epoch != 0
    }

    /// Returns true if the part has announced its state to the reader.
    pub(crate) fn is_announced(&self) -> bool {
        self.is_announced_in(self.log.epoch())
    }

    /// Returns true if the part has announced its state in an epoch, which is 0 where nobody reads.
    pub(crate) fn is_announced_in(&self, epoch: u64) -> bool {
        epoch != 0 && self.epoch == epoch
    }

    /// Writes an event, if there is a reader. One branch where there is none.
    #[inline]
    pub(crate) fn emit(&mut self, event: impl FnOnce(&mut EventBatch) -> Event) {
        if self.epoch != 0 {
            self.write(event);
        }
    }

    /// Writes an event by a call that packs it, if there is a reader: the two events that a program makes most are not built
    /// and taken apart again.
    #[inline]
    pub(crate) fn emit_by(&mut self, pack: impl FnOnce(&mut EventBatch)) {
        if self.epoch != 0 && !self.log.push_by(self.epoch, pack) {
            self.epoch = 0;
        }
    }

    #[cold]
    #[inline(never)]
    fn write(&mut self, event: impl FnOnce(&mut EventBatch) -> Event) {
        if !self.log.push(self.epoch, event) {
            self.epoch = 0;
        }
    }

    /// Begins to announce the state of the part: its caller holds the part's lock, and writes all of it.
    pub(crate) fn announce(&mut self) -> Option<Announcement> {
        self.announce_in(self.log.epoch())
    }

    /// Writes nothing more until the part announces its state again.
    pub(crate) fn stop(&mut self) {
        self.epoch = 0;
    }

    /// Begins to announce the state of the part in the epoch of `whole`, which this is a part of, and which was announced
    /// before: where that epoch is over, the reader hears of neither.
    pub(crate) fn announce_with(&mut self, whole: &Self) -> Option<Announcement> {
        self.announce_in(whole.epoch)
    }

    /// Returns the announcement that goes on.
    pub(crate) fn announcement(&self) -> Announcement {
        Announcement { log: self.log.clone(), epoch: self.epoch }
    }

    /// Begins to announce the state of the part in an epoch, which parts that name one another share: where it is over, the
    /// reader hears of none of them.
    pub(crate) fn announce_in(&mut self, epoch: u64) -> Option<Announcement> {
        self.epoch = epoch;
        (self.epoch != 0).then(|| self.announcement())
    }
}

/// Writes the state of a part, under its lock: at once, or piece by piece, where the part sees to it that what changes in
/// between is told right.
#[derive(Debug)]
pub(crate) struct Announcement {
    log: EventLog,
    epoch: u64,
}

impl Announcement {
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn emit(&self, event: impl FnOnce(&mut EventBatch) -> Event) {
        self.log.announce(self.epoch, event);
    }
}
