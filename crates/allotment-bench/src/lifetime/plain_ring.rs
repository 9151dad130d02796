//! The peer: a plain implementation of the ring that Diligent Engine's `RingBuffer` documents. None of its code is
//! used here.
//!
//! ```text
//!   head, tail, used bytes, the open frame's bytes; closed frames: value, head, bytes, oldest first
//! ```
//!
//! A request is placed at the head, or at 0 if it does not fit before the end; the gap belongs to the frame. An
//! empty ring restarts at 0.
//!
//! Differences from ours: an error has neither a reason nor a point to wait for, sizes near 2^64 overflow, and
//! there are no statistics of padding and peaks.

use std::collections::VecDeque;

use allotment::Alignment;

use super::rings::Offsets;

pub(super) struct PlainRing {
    capacity: u64,
    head: u64,
    tail: u64,
    /// Distinguishes a full ring from an empty one when head and tail are equal.
    used: u64,
    /// Bytes of the open frame.
    open: u64,
    frames: VecDeque<Frame>,
}

struct Frame {
    value: u64,
    /// The head at the time of the close.
    head: u64,
    bytes: u64,
}

impl PlainRing {
    #[inline]
    fn take(&mut self, offset: u64, bytes: u64, head: u64) -> Option<u64> {
        self.head = head;
        self.used += bytes;
        self.open += bytes;
        Some(offset)
    }
}

impl Offsets for PlainRing {
    const NAME: &'static str = "ring (Diligent's way)";

    fn new(capacity: u64) -> Self {
        Self { capacity, head: 0, tail: 0, used: 0, open: 0, frames: VecDeque::new() }
    }

    #[inline]
    fn allocate(&mut self, size: u64, alignment: Alignment) -> Option<u64> {
        let mask = alignment.get() - 1;
        let size = size.wrapping_add(mask) & !mask;
        if self.used.wrapping_add(size) > self.capacity {
            return None;
        }
        let offset = self.head.wrapping_add(mask) & !mask;
        let end = offset.wrapping_add(size);
        if self.head >= self.tail {
            if end <= self.capacity {
                return self.take(offset, end - self.head, end);
            }
            if size <= self.tail {
                return self.take(0, self.capacity - self.head + size, size);
            }
            return None;
        }
        if end <= self.tail { self.take(offset, end - self.head, end) } else { None }
    }

    fn close(&mut self, value: u64) {
        if self.open > 0 {
            self.frames.push_back(Frame { value, head: self.head, bytes: self.open });
            self.open = 0;
        }
    }

    fn reclaim(&mut self, completed: u64) {
        while let Some(Frame { head, bytes, .. }) =
            self.frames.front().filter(|frame| frame.value <= completed)
        {
            self.tail = *head;
            self.used -= bytes;
            self.frames.pop_front();
        }
        if self.used == 0 {
            (self.head, self.tail) = (0, 0);
        }
    }
}
