//! Counts the host allocations of each thread and their bytes.
//!
//! The counters are thread-local, so the contenders pay two additions for them and nothing else. Allocations by C++ are
//! not counted; the C library can tell them with all others of the process.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use std::alloc::System;

#[global_allocator]
static GLOBAL: Counting = Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of allocations and reallocations of the calling thread.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Returns the bytes that the calling thread has allocated, less those that it has freed. Two of these can be subtracted
/// by wrapping: a thread may free what another one allocated.
pub(crate) fn bytes() -> u64 {
    BYTES.get()
}

/// Returns the bytes of all threads in use, by the count of the C library, those that C++ allocated too; `None` where
/// it has no such count.
pub(crate) fn bytes_of_process() -> Option<u64> {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: the call has no conditions.
        let info = unsafe { libc::mallinfo2() };
        Some((info.uordblks + info.hblkhd) as u64)
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    None
}

/// Counts the allocations of each thread and forwards them.
struct Counting;

#[inline]
fn count(bytes: usize) {
    // The thread-local is gone while its thread ends.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
    change(bytes, 0);
}

#[inline]
fn change(more: usize, less: usize) {
    let change = (more as u64).wrapping_sub(less as u64);
    let _ = BYTES.try_with(|bytes| bytes.set(bytes.get().wrapping_add(change)));
}

// SAFETY: every call is forwarded to the system's allocator with its arguments.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        change(0, layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        change(0, layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_allocated_and_not_freed() {
        let (before, calls) = (bytes(), allocations());
        let mut kept = core::hint::black_box(Vec::<u64>::with_capacity(100));
        assert_eq!((bytes().wrapping_sub(before), allocations() - calls), (800, 1));
        kept.reserve_exact(200);
        assert_eq!((bytes().wrapping_sub(before), allocations() - calls), (1600, 2));
        drop(kept);
        assert_eq!(bytes(), before);
    }
}
