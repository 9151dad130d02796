//! References to one value, counted apart for each thread.
//!
//! ```text
//!   [ 0: count, reference ] ──┐
//!   [ 1: count, reference ] ──┼─► the value, with the count of its references
//!   [ 2: count, reference ] ──┘
//!     ▲
//!     a thread clones the one it prefers
//! ```
//!
//! Threads that clone and drop an [`Arc`] write its count, and wait for each other's cache. Here each thread has a
//! count of its own, as long as it drops what it has cloned itself, and as there are enough of them.

use core::fmt;
use std::sync::Arc;

use super::shards::{most_threads, preferred};

/// A reference with a count on cache lines of its own; see `shards`.
#[repr(align(128))]
pub(crate) struct Counted<T>(Arc<T>);

impl<T> Counted<T> {
    #[inline]
    pub(crate) fn value(&self) -> &Arc<T> {
        &self.0
    }
}

/// Hands out references to one value. See the [module](self).
pub(crate) struct Spread<T> {
    /// Their number is a power of two.
    counted: Box<[Arc<Counted<T>>]>,
}

impl<T> Spread<T> {
    pub(crate) fn new(value: &Arc<T>) -> Self {
        Self { counted: (0..most_threads()).map(|_| Arc::new(Counted(Arc::clone(value)))).collect() }
    }

    /// Returns a reference with the count that the thread prefers.
    #[inline]
    pub(crate) fn reference(&self) -> Arc<Counted<T>> {
        Arc::clone(&self.counted[preferred() & (self.counted.len() - 1)])
    }
}

// Without the value: it would be printed once for each count.
impl<T> fmt::Debug for Counted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Spread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spread").field("counts", &self.counted.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(allotment_loom))]
mod tests {
    use super::*;

    #[test]
    fn a_value_lives_as_long_as_a_reference_that_any_thread_has() {
        let value = Arc::new(7);
        let weak = Arc::downgrade(&value);
        let spread = Spread::new(&value);
        drop(value);
        let one = || std::thread::scope(|scope| scope.spawn(|| spread.reference()).join().unwrap());
        let references: Vec<_> = (0..5).map(|_| one()).collect();
        drop(spread);
        for reference in references {
            assert_eq!(weak.upgrade().as_ref(), Some(reference.value()));
        }
        assert!(weak.upgrade().is_none());
    }
}
