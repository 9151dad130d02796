//! Counts what Rust code takes from the heap: for tests and examples that say that something allocates nothing. What
//! drivers take that are written in C is not Rust's, and is not seen here.
//!
//! A program that includes this has its global allocator here.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::alloc::System;
use std::backtrace::Backtrace;
use std::sync::{Mutex, PoisonError};

/// Counts and passes everything on to the system's allocator.
struct Counting;

#[global_allocator]
static GLOBAL: Counting = Counting;

static ALL: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static HERE: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
}

/// Where a watched thread made its first allocation. Not a thread's own, which an allocator could not have dropped.
static FOUND: Mutex<Option<Backtrace>> = Mutex::new(None);

/// Allocations of this thread so far.
pub(crate) fn of_this_thread() -> u64 {
    HERE.get()
}

/// Allocations of all threads so far.
#[allow(dead_code, reason = "a test that runs alone counts the thread's own")]
pub(crate) fn of_all_threads() -> u64 {
    ALL.load(Relaxed)
}

/// Bytes that this thread has allocated, less those that it has freed. Below zero where it has freed what other threads
/// allocated: what a thread is started with, for one.
#[allow(dead_code, reason = "most tests count the allocations")]
pub(crate) fn bytes_of_this_thread() -> i64 {
    BYTES.get()
}

/// Keeps the backtrace of the next allocation of this thread, and of none after it.
#[allow(dead_code, reason = "a test knows what it runs")]
pub(crate) fn watch() {
    IS_WATCHED.set(true);
}

/// Ends [`watch`]. Returns the backtrace of the first allocation since then.
#[allow(dead_code, reason = "a test knows what it runs")]
pub(crate) fn end_watch() -> Option<Backtrace> {
    IS_WATCHED.set(false);
    FOUND.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn count_bytes(more: usize, less: usize) {
    // A `Layout` has at most `isize::MAX` bytes.
    let change = more as i64 - less as i64;
    let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + change));
}

fn count() {
    ALL.fetch_add(1, Relaxed);
    // A thread that is ending has no counters any more.
    let _ = HERE.try_with(|here| here.set(here.get() + 1));
    if IS_WATCHED.try_with(|is_watched| is_watched.replace(false)) == Ok(true) {
        // Capturing allocates. Those allocations are not watched, and are not counted either.
        let before = of_this_thread();
        *FOUND.lock().unwrap_or_else(PoisonError::into_inner) = Some(Backtrace::force_capture());
        ALL.fetch_sub(of_this_thread() - before, Relaxed);
        HERE.set(before);
    }
}

// SAFETY: everything is passed on, with the arguments that came in.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        count_bytes(layout.size(), 0);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count_bytes(0, layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        count_bytes(layout.size(), 0);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        count_bytes(size, layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
