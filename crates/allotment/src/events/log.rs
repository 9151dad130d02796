//! The log: where the parts of the library write events, and one reader takes them out.
//!
//! A thread writes an event while it holds the lock that the change happened under, so the events of a pool are in the
//! order of its changes. It writes into a [lane](super::lane) whose lock it finds free, which it holds for the few stores of
//! an event and never while user code or a driver runs; the reader takes the events of all lanes at once, by exchanging
//! lists.
//!
//! The log is bounded. When its reader is too slow, the log begins a new *epoch*: it refuses the events of each pool
//! until that pool has announced its whole state again, which the next frame end or call of `maintain` makes it do. So
//! a slow reader loses events, but never sees a state that did not exist, and no thread ever waits for it.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use super::lane::{AllLanes, EventLane, Lanes};
use super::order::Order;
use super::{Event, EventBatch, Parts};
use crate::choices::Name;
use crate::sync::locked;

/// The most events after which the reader is woken, less than a megabyte of most kinds: the lists that writers and the
/// reader exchange then fit a processor's cache, and waking a thread is rare.
const WAKE_AT: usize = 1 << 15;

/// The events of a lane are counted so many at a time, a power of two, since all threads write that count: or fewer, where
/// few may wait.
const MOST_COUNTED: usize = 256;

/// Shared by the parts of the library that write events and the reader.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLog(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The epoch of the events that are accepted; 0 where nobody reads. Written while all lanes are locked.
    epoch: AtomicU64,
    /// A new epoch has begun, whose state has not been announced yet.
    wants_state: AtomicBool,
    /// Made when the first reader comes. Whoever locks `control`, too, locks that first.
    lanes: OnceLock<Lanes>,
    control: Mutex<Control>,
    waiting: Waiting,
    /// Set when many events wait for the reader, which sleeps until then.
    many: Mutex<bool>,
    ready: Condvar,
    /// What announces its state beside the pools.
    parts: Parts,
}

/// How many events wait for the reader.
#[derive(Debug, Default)]
struct Waiting {
    /// Of each lane a multiple of `grain`.
    count: AtomicUsize,
    grain: AtomicUsize,
    /// The most of them.
    limit: AtomicUsize,
    /// The reader is woken when so many wait.
    wake_at: AtomicUsize,
}

/// What changes seldom.
#[derive(Debug, Default)]
struct Control {
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

impl Control {
    fn nanoseconds(&self) -> u64 {
        self.began.map_or(0, |began| u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// What an event that was written asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    Nothing,
    Wake,
    /// More wait than may.
    Overflow,
}

impl Waiting {
    fn set(&self, limit: usize) {
        self.count.store(0, Ordering::Relaxed);
        self.limit.store(limit, Ordering::Relaxed);
        self.wake_at.store((limit / 8).clamp(1, WAKE_AT), Ordering::Relaxed);
        // Of all lanes, of which there are 16 at most, a few percent of the limit, whatever that is.
        let grain = (limit / 1024).clamp(1, MOST_COUNTED);
        self.grain.store(1 << grain.ilog2(), Ordering::Relaxed);
    }

    /// Counts an event that was written to a lane, which is locked.
    #[inline]
    fn note(&self, lane: &EventLane, order: &Order) -> Next {
        let grain = self.grain.load(Ordering::Relaxed);
        if lane.len() & (grain - 1) == 0 { self.count(grain, order) } else { Next::Nothing }
    }

    #[cold]
    fn count(&self, grain: usize, order: &Order) -> Next {
        // So that what threads do in pools of their own is read in any order within so many events alone.
        order.advance();
        let before = self.count.fetch_add(grain, Ordering::Relaxed);
        let wake_at = self.wake_at.load(Ordering::Relaxed);
        if before + grain > self.limit.load(Ordering::Relaxed) {
            Next::Overflow
        } else if (before..before + grain).contains(&wake_at.wrapping_sub(1)) {
            // Long before the limit, so that the reader has time to come; once, since waking a thread takes microseconds.
            Next::Wake
        } else {
            Next::Nothing
        }
    }

    fn are_too_many(&self) -> bool {
        self.count.load(Ordering::Relaxed) > self.limit.load(Ordering::Relaxed)
    }

    /// Returns true while few events wait.
    fn are_few(&self) -> bool {
        self.count.load(Ordering::Relaxed) < self.wake_at.load(Ordering::Relaxed)
    }
}

impl EventLog {
    fn lanes(&self) -> &Lanes {
        self.0.lanes.get_or_init(Lanes::new)
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
        self.0.wants_state.load(Ordering::Relaxed) && self.0.wants_state.swap(false, Ordering::Acquire)
    }

    /// Lets the whole state be announced once more at the next opportunity, to the reader of this epoch: some parts were in
    /// use. Those that have announced theirs do not repeat it.
    #[cold]
    pub(crate) fn ask_for_state(&self, epoch: u64) {
        let control = locked(&self.0.control);
        // Not while events are lost: the reader comes first.
        if self.is_read() && self.epoch() == epoch && !control.overflowed {
            self.0.wants_state.store(true, Ordering::Release);
        }
    }

    /// Attaches a reader. Returns false when there is one.
    pub(super) fn attach(&self, limit: usize) -> bool {
        let mut control = locked(&self.0.control);
        if self.is_read() {
            return false;
        }
        let mut all = self.lanes().lock_all();
        all.each().for_each(EventLane::clear);
        (control.frames, control.overflowed) = (0, false);
        control.began = Some(Instant::now());
        self.0.waiting.set(limit);
        self.begin_epoch(&mut control, &all);
        self.0.wants_state.store(true, Ordering::Release);
        true
    }

    fn begin_epoch(&self, control: &mut Control, _all: &AllLanes<'_>) {
        // Never 0 again, which is no epoch, and never one that a pool may still have: 64 bits do not run out.
        control.last_epoch += 1;
        self.0.epoch.store(control.last_epoch, Ordering::Relaxed);
    }

    /// Detaches the reader.
    pub(super) fn detach(&self) {
        let _control = locked(&self.0.control);
        let mut all = self.lanes().lock_all();
        self.0.epoch.store(0, Ordering::Relaxed);
        self.0.wants_state.store(false, Ordering::Relaxed);
        all.each().for_each(|lane| *lane = EventLane::new(lane.index()));
    }

    /// Notes that no event will come any more.
    pub(crate) fn close(&self) {
        locked(&self.0.control).closed = true;
        self.wake();
    }

    /// Adds an event of a part, by a call that packs it. Returns false where the part writes nothing more, until it has announced
    /// its state again.
    #[inline]
    fn push_by(&self, part: &mut Part, pack: impl FnOnce(&mut EventLane, &Order, bool)) -> bool {
        let Some(lanes) = self.0.lanes.get() else { return false };
        let (mut lane, elsewhere) = lanes.lock();
        if part.epoch != self.epoch() {
            return false;
        }
        let turn = elsewhere || lane.index() != part.lane;
        part.lane = lane.index();
        pack(&mut lane, lanes.order(), turn);
        let next = self.0.waiting.note(&lane, lanes.order());
        drop(lane);
        match next {
            Next::Nothing => {}
            Next::Wake => self.wake(),
            Next::Overflow => self.overflow(part.epoch),
        }
        true
    }

    /// Ends an epoch: too many events wait.
    #[cold]
    fn overflow(&self, epoch: u64) {
        let mut control = locked(&self.0.control);
        let mut all = self.lanes().lock_all();
        // Unless the reader came meanwhile, or another thread was the first.
        if epoch == self.epoch() && self.0.waiting.are_too_many() {
            self.begin_epoch(&mut control, &all);
            self.0.wants_state.store(false, Ordering::Relaxed);
            control.overflowed = true;
            // Here, where the reader forgets its state: the parts announce theirs after it.
            all.push(Event::Lost);
        }
    }

    /// Adds an event of the state that a part announces in `epoch`, unless that is over. Beyond the limit, if need be: a
    /// state that is announced by halves is none.
    pub(crate) fn announce(&self, epoch: u64, event: impl FnOnce(&mut EventLane) -> Event) {
        self.push_if(|now| now == epoch, event);
    }

    /// Adds an event that is true whatever was lost before it: a frame's end, the budget of a heap.
    pub(crate) fn push_always(&self, event: impl FnOnce(&mut EventLane) -> Event) {
        self.push_if(|now| now != 0, event);
    }

    /// Adds an event in an epoch, beyond the limit, if need be.
    fn push_if(&self, epoch: impl FnOnce(u64) -> bool, event: impl FnOnce(&mut EventLane) -> Event) {
        let Some(lanes) = self.0.lanes.get() else { return };
        let (mut lane, _) = lanes.lock();
        if epoch(self.epoch()) {
            lane.push_made(lanes.order(), true, event);
            let next = self.0.waiting.note(&lane, lanes.order());
            drop(lane);
            if next == Next::Wake {
                self.wake();
            }
        }
    }

    /// Adds the end of a frame, with the time.
    #[cold]
    pub(crate) fn end_frame(&self) {
        if self.is_read() {
            let mut control = locked(&self.0.control);
            let (number, nanoseconds) = (control.frames, control.nanoseconds());
            control.frames += 1;
            self.push_always(|_| Event::FrameEnd { number });
            self.push_always(|_| Event::Time { nanoseconds });
        }
    }

    /// Adds a mark of the program, with the time.
    pub(super) fn mark(&self, text: &Name) {
        let control = locked(&self.0.control);
        let nanoseconds = control.nanoseconds();
        self.push_always(|texts| Event::Mark { text: texts.add_text(Some(text)) });
        self.push_always(|_| Event::Time { nanoseconds });
    }

    /// Exchanges the events for an empty batch. Waits up to `patience` for some. Returns false when there is none and
    /// none will come.
    pub(super) fn take(&self, batch: &mut EventBatch, patience: Duration) -> bool {
        batch.clear();
        let may_fill = || self.0.waiting.are_few() && !locked(&self.0.control).closed;
        if !patience.is_zero() && may_fill() {
            let many = locked(&self.0.many);
            let waited = self.0.ready.wait_timeout_while(many, patience, |many| !*many);
            *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
        }
        let mut control = locked(&self.0.control);
        if core::mem::take(&mut control.overflowed) {
            self.0.wants_state.store(self.is_read(), Ordering::Release);
        }
        let closed = control.closed;
        let mut all = self.lanes().lock_all();
        if all.each().any(|lane| lane.len() != 0) {
            all.push(Event::Time { nanoseconds: control.nanoseconds() });
        }
        all.each().for_each(|lane| batch.take(lane));
        self.0.waiting.count.store(0, Ordering::Relaxed);
        // The writers go on meanwhile.
        drop(all);
        drop(control);
        batch.unpack();
        !(closed && batch.events().is_empty())
    }
}

/// What a part of the library has written.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// The epoch in which the part has announced its state; 0 where it writes nothing.
    epoch: u64,
    /// The lane that it was written to last.
    lane: usize,
}

/// A part of the library that has state and writes events: a pool.
#[derive(Debug)]
pub(crate) struct EventSource {
    log: EventLog,
    part: Part,
}

impl EventSource {
    /// Creates the source of a part that has no state yet, and whose creation is no event by itself.
    pub(crate) fn new(log: &EventLog) -> Self {
        Self { log: log.clone(), part: Part::default() }
    }

    /// Returns true if the part announces its changes.
    #[inline]
    pub(crate) fn is_read(&self) -> bool {
        self.part.epoch != 0
    }

    /// Returns true if the part has announced its state to the reader.
    pub(crate) fn is_announced(&self) -> bool {
        self.is_announced_in(self.log.epoch())
    }

    /// Returns true if the part has announced its state in an epoch, which is 0 where nobody reads.
    pub(crate) fn is_announced_in(&self, epoch: u64) -> bool {
        epoch != 0 && self.part.epoch == epoch
    }

    /// Makes the next event a turn, whatever it is: see the [order](super::order).
    pub(crate) fn next_is_turn(&mut self) {
        self.part.lane = usize::MAX;
    }

    /// Writes an event, if there is a reader. One branch where there is none.
    #[inline]
    pub(crate) fn emit(&mut self, event: impl FnOnce(&mut EventLane) -> Event) {
        if self.part.epoch != 0 {
            self.write(event);
        }
    }

    /// Writes an event about an allocation by a call that packs it, if there is a reader: the two events that a program makes
    /// most are not built and taken apart again.
    #[inline]
    pub(crate) fn emit_by(&mut self, pack: impl FnOnce(&mut EventLane)) {
        let written = |lane: &mut EventLane, order: &Order, turn: bool| {
            lane.begin(order, turn);
            pack(lane);
        };
        if self.part.epoch != 0 && !self.log.push_by(&mut self.part, written) {
            self.part.epoch = 0;
        }
    }

    #[cold]
    #[inline(never)]
    fn write(&mut self, event: impl FnOnce(&mut EventLane) -> Event) {
        if !self.log.push_by(&mut self.part, |lane, order, turn| lane.push_made(order, turn, event)) {
            self.part.epoch = 0;
        }
    }

    /// Begins to announce the state of the part: its caller holds the part's lock, and writes all of it.
    pub(crate) fn announce(&mut self) -> Option<Announcement> {
        self.announce_in(self.log.epoch())
    }

    /// Writes nothing more until the part announces its state again.
    pub(crate) fn stop(&mut self) {
        self.part.epoch = 0;
    }

    /// Begins to announce the state of the part in the epoch of `whole`, which this is a part of, and which was announced
    /// before: where that epoch is over, the reader hears of neither.
    pub(crate) fn announce_with(&mut self, whole: &Self) -> Option<Announcement> {
        self.announce_in(whole.part.epoch)
    }

    /// Returns the announcement that goes on.
    pub(crate) fn announcement(&self) -> Announcement {
        Announcement { log: self.log.clone(), epoch: self.part.epoch }
    }

    /// Begins to announce the state of the part in an epoch, which parts that name one another share: where it is over, the
    /// reader hears of none of them.
    pub(crate) fn announce_in(&mut self, epoch: u64) -> Option<Announcement> {
        self.part.epoch = epoch;
        (epoch != 0).then(|| self.announcement())
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

    pub(crate) fn emit(&self, event: impl FnOnce(&mut EventLane) -> Event) {
        self.log.announce(self.epoch, event);
    }
}

#[cfg(test)]
#[cfg(not(allotment_loom))]
mod tests {
    use super::*;
    use crate::events::AllocationKey;

    /// The numbers of the events of a batch that were written by [`write`].
    fn numbers(batch: &EventBatch) -> impl Iterator<Item = u64> {
        batch.events().iter().filter_map(|event| match event {
            Event::Freed { allocation } => Some(allocation.0),
            _ => None,
        })
    }

    fn write(source: &mut EventSource, number: u64) {
        source.emit(|_| Event::Freed { allocation: AllocationKey(number) });
    }

    #[test]
    fn events_of_a_pool_are_read_in_their_order_whichever_threads_write_them() {
        let log = EventLog::default();
        assert!(log.attach(1 << 20));
        let mut source = EventSource::new(&log);
        assert!(source.announce().is_some());
        let (pool, mut read, mut batch) = (Mutex::new((source, 0)), Vec::new(), EventBatch::new());
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..5_000 {
                            let mut pool = locked(&pool);
                            let (source, next) = &mut *pool;
                            write(source, *next);
                            *next += 1;
                        }
                    })
                })
                .collect();
            while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                log.take(&mut batch, Duration::ZERO);
                read.extend(numbers(&batch));
            }
        });
        log.take(&mut batch, Duration::ZERO);
        read.extend(numbers(&batch));
        assert_eq!(read, (0..20_000).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_of_an_epoch_comes_after_its_end_whichever_thread_wrote_it() {
        let log = EventLog::default();
        assert!(log.attach(100));
        let first = log.epoch();
        // Each thread writes in the first epoch only, and more than may wait. All announce before the first of them can end it.
        let mut sources: Vec<_> = (0..4).map(|_| EventSource::new(&log)).collect();
        assert!(sources.iter_mut().all(|source| source.announce().is_some()));
        std::thread::scope(|scope| {
            for (thread, mut source) in (0..).zip(sources) {
                scope.spawn(move || (0..1000).for_each(|i| write(&mut source, thread * 1000 + i)));
            }
        });
        assert_ne!(log.epoch(), first, "4,000 events are more than 100");
        let mut batch = EventBatch::new();
        log.take(&mut batch, Duration::ZERO);
        let is_lost = |event: &Event| matches!(event, Event::Lost);
        let lost = batch.events().iter().position(is_lost).unwrap_or_else(|| panic!("{:?}", batch.events()));
        let later = &batch.events()[lost + 1..];
        assert!(matches!(later, [Event::Time { .. }]), "{later:?}");
        assert!(lost <= 110, "{lost} events waited where 100 may");
    }
}
