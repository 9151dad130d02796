//! Counts what Rust code takes from the heap: for tests and examples that say that something allocates nothing. What
//! drivers take that are written in C is not Rust's, and is not seen here.
//!
//! A program that includes this has its global allocator here.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::alloc::System;

/// Counts and passes everything on to the system's allocator.
struct Counting;

#[global_allocator]
static GLOBAL: Counting = Counting;

static ALL: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static HERE: Cell<u64> = const { Cell::new(0) };
}

/// Allocations of this thread so far.
pub(crate) fn of_this_thread() -> u64 {
    HERE.get()
}

/// Allocations of all threads so far.
#[allow(dead_code, reason = "a test that runs alone counts the thread's own")]
pub(crate) fn of_all_threads() -> u64 {
    ALL.load(Relaxed)
}

fn count() {
    ALL.fetch_add(1, Relaxed);
    // A thread that is ending has no counter any more.
    let _ = HERE.try_with(|here| here.set(here.get() + 1));
}

// SAFETY: everything is passed on, with the arguments that came in.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
