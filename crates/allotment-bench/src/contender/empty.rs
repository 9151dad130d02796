//! The harness by itself: an allocator that only counts. What it costs is not the others' fault.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Contender, Refusal, Request};
use crate::vulkan::Reading;

/// Hands out ever larger offsets and takes nothing back.
#[derive(Debug, Default)]
pub(crate) struct Empty {
    /// Loaded and stored, not added to: with threads its offsets repeat, which nobody minds.
    next: AtomicU64,
}

impl Contender for Empty {
    type Token = u64;

    fn name(&self) -> &'static str {
        "empty"
    }

    fn allocate(&self, request: &Request) -> Result<u64, Refusal> {
        let offset = self.next.load(Relaxed);
        self.next.store(offset.wrapping_add(request.size), Relaxed);
        Ok(offset)
    }

    fn free(&self, token: u64) -> Result<(), Refusal> {
        core::hint::black_box(token);
        Ok(())
    }

    fn reading(&self) -> Reading {
        Reading::default()
    }
}
