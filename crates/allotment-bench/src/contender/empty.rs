//! The harness by itself: an allocator that only counts. What it costs is not the others' fault.

use core::cell::Cell;
use core::hint::black_box;

use super::{Contender, Refusal, Request};
use crate::vulkan::Reading;

thread_local! {
    /// A thread's own, so that two threads show what the machine does for two that share nothing.
    static NEXT: Cell<u64> = const { Cell::new(0) };
}

/// Hands out ever larger offsets and takes nothing back.
#[derive(Debug, Default)]
pub(crate) struct Empty;

impl Contender for Empty {
    type Token = u64;

    fn name(&self) -> &'static str {
        "empty"
    }

    fn allocate(&self, request: &Request) -> Result<u64, Refusal> {
        NEXT.with(|next| {
            let offset = next.get();
            next.set(offset.wrapping_add(black_box(request.size)));
            Ok(offset)
        })
    }

    fn free(&self, token: u64) -> Result<(), Refusal> {
        black_box(token);
        Ok(())
    }

    fn reading(&self) -> Reading {
        Reading::default()
    }
}
