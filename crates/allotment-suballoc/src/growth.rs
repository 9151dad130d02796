//! How the vectors of a block grow.

use alloc::vec::Vec;

/// Appends an element. A vector that is full grows by an eighth, and not to twice its size as `Vec::push` lets it: a block of a
/// million ranges would have up to twice the host memory that it needs. An element is copied eight times on average,
/// where the system's allocator copies at all; for large vectors it moves pages.
pub(crate) fn push<T>(vector: &mut Vec<T>, element: T) {
    if vector.len() == vector.capacity() {
        vector.reserve_exact((vector.len() / 8).max(4));
    }
    vector.push(element);
}
