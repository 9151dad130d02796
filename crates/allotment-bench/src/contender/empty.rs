//! The harness alone: an allocator that only counts. Its cost is subtracted from that of the others.

use core::cell::Cell;
use core::hint::black_box;

use super::{Contender, Refusal, Request};
use crate::vulkan::Reading;

thread_local! {
    /// Thread-local, so that two threads show the effect of the machine on two that share nothing.
    static NEXT: Cell<u64> = const { Cell::new(0) };
}

/// Returns increasing offsets, and frees nothing.
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
