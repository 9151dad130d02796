//! The parts of the library that announce their state to a reader and are no pools: descriptor heaps.
//!
//! The allocator knows its pools. Descriptor heaps are built on top of the allocator, which does not know them, so each
//! one enters itself in this list. The list keeps no part alive.

use core::fmt;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::ObjectId;
use crate::sync::{locked, try_locked};

/// A part of the library that has state and writes events.
pub(crate) trait Announces: Send + Sync {
    /// Announces the whole state of the part under its lock, unless the reader knows it already, or there is none. Returns
    /// false where another thread has the lock for more than some microseconds, as one has that replaces a descriptor
    /// heap and waits for the driver: a program that works without a reader must not wait for that with one.
    fn announce(&self) -> bool;
}

/// How often a part is tried to be locked, each 10 to 50 ns: its holder usually keeps it for less than a microsecond.
const TRIES: u32 = 256;

/// Locks a part to announce it; see [`Announces::announce`].
pub(crate) fn lock_to_announce<T>(part: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    (0..TRIES).find_map(|_| {
        spin_loop();
        try_locked(part)
    })
}

/// The parts that exist.
#[derive(Default)]
pub(crate) struct Parts {
    known: Mutex<Vec<Weak<dyn Announces>>>,
    next_object: AtomicU32,
}

impl Parts {
    /// Adds a part, and announces it to the reader, if there is one. Its lock is free, since no other thread has the part, or
    /// taken by a thread that announces it.
    pub(crate) fn add<P: Announces + 'static>(&self, part: &Arc<P>) {
        let weak: Weak<dyn Announces> = Arc::downgrade(part) as Weak<dyn Announces>;
        {
            let mut known = locked(&self.known);
            // Here, where the list would grow otherwise: removing each part as it is dropped would take the lock twice.
            known.retain(|part| part.strong_count() > 0);
            known.push(weak);
        }
        // After it was added: a reader that comes in between finds the part in the list, and hears of it once.
        part.announce();
    }

    /// Announces the state of all parts, to a reader that has just begun to read or has lost events. Returns false where some
    /// are in use, and are to be announced later.
    pub(crate) fn announce(&self) -> bool {
        let parts: Vec<_> = locked(&self.known).iter().filter_map(Weak::upgrade).collect();
        // Without the lock: a part that another thread drops meanwhile may end here.
        parts.iter().filter(|part| !part.announce()).count() == 0
    }

    /// Returns an id that no other object has or had; `None` when there are none left.
    pub(crate) fn next_object(&self) -> Option<ObjectId> {
        // Relaxed, since the number only has to be unique.
        let next = |id: u32| id.checked_add(1);
        self.next_object.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok().map(ObjectId)
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("known", &locked(&self.known).len()).finish_non_exhaustive()
    }
}
