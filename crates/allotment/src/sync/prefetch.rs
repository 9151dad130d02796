//! Asking the processor for a cache line before it is written.
//!
//! A store into a line that another core had last takes the time of a way through the whole processor, 50 to 150 ns. It is
//! not noticed until something waits for all stores before it, as each lock does. Asked for early, the line has come by
//! then.

/// Asks for the cache line of `place`, to be written some hundred nanoseconds later. Nothing is read or written, so any
/// pointer will do.
#[inline(always)]
pub(crate) fn prefetch_to_write<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction is a hint: it changes no register and no memory, and ignores an address that is not mapped.
    // Processors that do not know it take it for one that does nothing.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = place;
}
