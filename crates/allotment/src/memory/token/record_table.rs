//! The records of a pool, and of the pools before it in its slot.
//!
//! # Who may read a record
//!
//! Records are freed again ([`free_unused`](RecordTable::free_unused)), so a record is read only
//!
//! - with the lock of its pool held, or
//! - through the handle of its allocation, an [`Allocation`](crate::memory::Allocation), without a lock. A handle cannot be
//!   copied, and a free takes it: while a thread borrows one, its allocation is live, and so its record is used. The handles
//!   of a pool that was reset are the exception, so the records of such a pool [stay](RecordTable::keep).
//!
//! An id proves nothing: the record that it names is looked up under the lock.
//!
//! # Generations
//!
//! A record that was freed and made again begins with a generation that no record had before in the table, so no id from
//! before is valid again.

use core::mem;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::record::Record;
use crate::table::{Ahead, StableTable};

/// Records with a higher generation are not freed: those that come after them would begin there, and all would come to
/// the last generation some day. So each new one has at least half of all.
const HIGHEST_FREED: u32 = u32::MAX / 2;

/// The records of a pool by index. See the [module](self).
#[derive(Debug)]
pub(crate) struct RecordTable {
    table: StableTable<Record>,
    /// The generation of records that are made from now on. Changed with the pool's lock held.
    first_generation: AtomicU32,
    /// Handles of freed allocations may be in use. Changed with the pool's lock held.
    keeps_all: AtomicBool,
}

impl Default for RecordTable {
    fn default() -> Self {
        Self {
            table: StableTable::new(),
            first_generation: AtomicU32::new(0),
            keeps_all: AtomicBool::new(false),
        }
    }
}

impl RecordTable {
    /// Returns a record, for a caller that [may read it](self). `None` if it was never made, or is freed.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Record> {
        self.table.get(index)
    }

    /// Returns a record, making it if needed; see [`StableTable::get_or_append`]. The caller holds the pool's lock.
    pub(crate) fn get_or_append(&self, index: u32, ahead: &mut Ahead<Record>) -> Option<&Record> {
        // Relaxed, as for all here: the lock orders it.
        let generation = self.first_generation.load(Ordering::Relaxed);
        self.table.get_or_append(index, ahead, || Record::of_generation(generation))
    }

    /// Keeps all records from now on, since handles of freed allocations may be in use.
    pub(crate) fn keep(&self) {
        self.keeps_all.store(true, Ordering::Relaxed);
    }

    /// Takes out records at `used` and above, and with them those that are made `ahead`, to be dropped once the lock is
    /// released. No id of such a record becomes valid again.
    ///
    /// # Safety
    ///
    /// The caller holds the pool's lock, and no allocation with a record at `used` or above is live.
    #[must_use = "dropping it takes longer than the pool's lock should be held"]
    pub(crate) unsafe fn free_unused(
        &self,
        used: u32,
        ahead: &mut Ahead<Record>,
    ) -> (Vec<Box<[Record]>>, Ahead<Record>) {
        if self.keeps_all.load(Ordering::Relaxed) {
            return (Vec::new(), Ahead::new());
        }
        let mut first_generation = self.first_generation.load(Ordering::Relaxed);
        let may_go = |records: &[Record]| {
            let highest = records.iter().map(Record::generation).max().unwrap_or(0);
            let may_go = highest <= HIGHEST_FREED;
            if may_go {
                first_generation = first_generation.max(highest);
            }
            may_go
        };
        // SAFETY: threads that hold the lock are not here, and a thread without it has the handle of a live allocation, whose
        // record is below `used`. What a thread did through a handle happened before it passed the handle to the free, which
        // took the lock, or left it where the thread that took it had the lock.
        let freed = unsafe { self.table.free_from(used, may_go) };
        self.first_generation.store(first_generation, Ordering::Relaxed);
        // Those made ahead have the old generation. Where nothing is freed they stay, or the next chunk would be made at once.
        let unused = if freed.is_empty() { Ahead::new() } else { mem::replace(ahead, Ahead::new()) };
        (freed, unused)
    }
}
