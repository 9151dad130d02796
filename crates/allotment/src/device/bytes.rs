//! CPU access to memory that the GPU may access at the same time.
//!
//! A program that forgets to wait for the GPU must see wrong bytes, not undefined behaviour. So shared bytes are
//! only accessed with relaxed atomics: word by word, and byte by byte at unaligned ends.
//!
//! The compiler does not vectorise a loop of atomic words, which reaches half the speed of `memcpy` on memory
//! that is larger than the caches. So on x86-64, long ranges use `memcpy` itself (on Windows the processor's
//! string move), called from inline assembly. To the language, the assembly block is equivalent to relaxed
//! accesses to each byte: a block may do whatever the language could, and the processor does not tear bytes. If
//! `memcpy` were called as a function, the compiler would recognise it and assume that no other thread accesses
//! the bytes during the call.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

const WORD: usize = size_of::<u64>();

/// From this length on, the cost of a call pays off.
#[cfg(target_arch = "x86_64")]
const LONG: usize = 512;

/// Copies `len` bytes: as relaxed per-byte accesses to the language, at the speed of `memcpy` on the machine.
///
/// # Safety
///
/// `from` is valid for reads and `to` for writes of `len` bytes; the ranges do not overlap; all other accesses
/// to the shared one of them during this call are atomic or a device's.
#[cfg(all(target_arch = "x86_64", unix))]
unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize) {
    unsafe extern "C" {
        fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8;
    }
    // SAFETY: the operands are in the registers that the C ABI of this system requires, the stack is aligned for
    // a call since the block may use it, and everything that a call may change is declared as clobbered.
    unsafe {
        core::arch::asm!(
            "call {memcpy}",
            memcpy = sym memcpy,
            inout("rdi") to => _,
            inout("rsi") from => _,
            inout("rdx") len => _,
            clobber_abi("C"),
        );
    }
}

/// The variant for other systems: the processor's string move, without a call.
///
/// # Safety
///
/// The conditions of the other variant apply.
#[cfg(all(target_arch = "x86_64", not(unix)))]
unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the direction flag is clear, as at every function's entry; the instruction reads and writes what
    // the caller allows, and changes no other register.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}

/// Splits `len` bytes from `address` into ragged bytes, whole words, ragged bytes.
fn split(address: usize, len: usize) -> (usize, usize) {
    let head = (address.wrapping_neg() % WORD).min(len);
    (head, (len - head) / WORD)
}

/// Copies `bytes` to `to`.
///
/// # Safety
///
/// `to` is valid for writes of `bytes.len()` bytes, and all other accesses to them meanwhile are atomic
/// or a device's.
pub(crate) unsafe fn write_bytes(to: NonNull<u8>, bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= LONG {
        // SAFETY: the caller's promise; a slice that is borrowed and shared memory do not overlap.
        return unsafe { copy_long(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
    }
    let (head, words) = split(to.addr().get(), bytes.len());
    // Only the shared side has to be aligned for the atomics; the slice is read byte by byte into words.
    let (front, rest) = bytes.split_at(head);
    let (middle, back) = rest.split_at(words * WORD);
    // `Relaxed` suffices for bytes: the submission or the wait around the access orders it against the GPU.
    let put = |offset: usize, bytes: &[u8]| {
        for (i, &byte) in bytes.iter().enumerate() {
            // SAFETY: `offset + i` is below `bytes.len()` of the caller's slice, so it lies inside.
            let at = unsafe { to.add(offset + i) };
            // SAFETY: as above; a byte needs no alignment, and the access is atomic.
            unsafe { AtomicU8::from_ptr(at.as_ptr()) }.store(byte, Relaxed);
        }
    };
    put(0, front);
    for (i, word) in words_of(middle).enumerate() {
        // SAFETY: the words lie between the ragged ends, inside the caller's range.
        let at = unsafe { to.add(head + i * WORD) }.cast::<u64>();
        // SAFETY: `head` bytes lead up to an address that is a multiple of eight.
        unsafe { AtomicU64::from_ptr(at.as_ptr()) }.store(u64::from_ne_bytes(word), Relaxed);
    }
    put(head + words * WORD, back);
}

/// Copies from `from` into `bytes`.
///
/// # Safety
///
/// `from` is valid for reads of `bytes.len()` bytes, and all writes to them meanwhile are atomic or a
/// device's.
pub(crate) unsafe fn read_bytes(from: NonNull<u8>, bytes: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= LONG {
        // SAFETY: as above.
        return unsafe { copy_long(from.as_ptr(), bytes.as_mut_ptr(), bytes.len()) };
    }
    let (head, words) = split(from.addr().get(), bytes.len());
    let (front, rest) = bytes.split_at_mut(head);
    let (middle, back) = rest.split_at_mut(words * WORD);
    let get = |offset: usize, bytes: &mut [u8]| {
        for (i, byte) in bytes.iter_mut().enumerate() {
            // SAFETY: `offset + i` is below `bytes.len()` of the caller's slice, so it lies inside.
            let at = unsafe { from.add(offset + i) };
            // SAFETY: as above; a byte needs no alignment, and the access is atomic.
            *byte = unsafe { AtomicU8::from_ptr(at.as_ptr()) }.load(Relaxed);
        }
    };
    get(0, front);
    // As arrays, as in `words_of`.
    let arrays = middle.chunks_exact_mut(WORD).filter_map(<[u8]>::first_chunk_mut::<WORD>);
    for (i, word) in arrays.enumerate() {
        // SAFETY: the words lie between the ragged ends, inside the caller's range.
        let at = unsafe { from.add(head + i * WORD) }.cast::<u64>();
        // SAFETY: `head` bytes lead up to an address that is a multiple of eight.
        let value = unsafe { AtomicU64::from_ptr(at.as_ptr()) }.load(Relaxed);
        *word = value.to_ne_bytes();
    }
    get(head + words * WORD, back);
}

/// Copies `len` bytes that are shared to others that are.
///
/// # Safety
///
/// `from` is valid for reads and `to` for writes of `len` bytes; the ranges do not overlap; all other accesses to
/// them meanwhile are atomic or a device's.
pub(crate) unsafe fn copy_bytes(from: NonNull<u8>, to: NonNull<u8>, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if len >= LONG {
        // SAFETY: the caller's promise.
        return unsafe { copy_long(from.as_ptr(), to.as_ptr(), len) };
    }
    // One alignment for all three: with both addresses and the length whole words, there are no ragged ends.
    if (from.addr().get() | to.addr().get() | len) % WORD == 0 {
        for word in 0..len / WORD {
            let offset = word * WORD;
            // SAFETY: `offset` is below `len`.
            let source = unsafe { from.add(offset) }.cast::<u64>();
            // SAFETY: it is a multiple of eight, as the address is, and the access is atomic.
            let word = unsafe { AtomicU64::from_ptr(source.as_ptr()) }.load(Relaxed);
            // SAFETY: `offset` is below `len`.
            let target = unsafe { to.add(offset) }.cast::<u64>();
            // SAFETY: as for `source`.
            unsafe { AtomicU64::from_ptr(target.as_ptr()) }.store(word, Relaxed);
        }
        return;
    }
    // Ends that are aligned differently cannot be copied word by word, so the bytes go through the stack.
    let mut buffer = [0u8; 512];
    let mut done = 0;
    while done < len {
        let part = buffer.len().min(len - done);
        // SAFETY: `done` is below `len`.
        let source = unsafe { from.add(done) };
        // SAFETY: `part` bytes are left there, as the caller promises.
        unsafe { read_bytes(source, &mut buffer[..part]) };
        // SAFETY: `done` is below `len`.
        let target = unsafe { to.add(done) };
        // SAFETY: `part` bytes are left there, as the caller promises.
        unsafe { write_bytes(target, &buffer[..part]) };
        done += part;
    }
}

/// The words of a slice whose length is a multiple of eight.
fn words_of(bytes: &[u8]) -> impl Iterator<Item = [u8; WORD]> {
    // As an array, whose length the compiler knows: from a slice it calls `memcpy` for each word.
    bytes.chunks_exact(WORD).filter_map(|chunk| chunk.first_chunk().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_range_at_any_address_arrives_whole_and_touches_nothing_else() {
        let source: Vec<u8> = (0..1000).map(|i| (i % 255 + 1) as u8).collect();
        for offset in 0..17 {
            for len in (0..40).chain([511, 512, 513, 1000]) {
                let mut shared = vec![0u8; 1040];
                let base = NonNull::new(shared.as_mut_ptr()).unwrap();
                let mut back = vec![0u8; len];
                // SAFETY: 16 + 1000 bytes lie in the 1040, and no other thread accesses them.
                let at = unsafe { base.add(offset) };
                // SAFETY: as above.
                unsafe { write_bytes(at, &source[..len]) };
                // SAFETY: as above.
                unsafe { read_bytes(at, &mut back) };
                assert_eq!(back, source[..len]);
                assert_eq!(shared[offset..offset + len], source[..len]);
                let mut other = vec![0u8; 1040];
                // SAFETY: 16 + 1000 bytes lie in the 1040, and no other thread accesses them.
                let to = unsafe { NonNull::new(other.as_mut_ptr()).unwrap().add(16 - offset) };
                // SAFETY: as above.
                unsafe { copy_bytes(at, to, len) };
                assert_eq!(other[16 - offset..][..len], source[..len]);
                assert_eq!(other.iter().filter(|&&byte| byte != 0).count(), len);
                assert!(shared[..offset].iter().chain(&shared[offset + len..]).all(|&byte| byte == 0));
            }
        }
    }
}
