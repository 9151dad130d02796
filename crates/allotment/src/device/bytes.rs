//! The one place that moves bytes in and out of memory that a device may use at the same time.
//!
//! Whoever forgets to wait for the device must see wrong bytes, not undefined behaviour. So shared bytes
//! are only touched through relaxed atomics: word by word, and byte by byte at ragged ends. On the
//! machines of today a relaxed atomic word costs what a plain one does, and eight bytes a cycle are more
//! than a memory bus takes.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

const WORD: usize = size_of::<u64>();

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
    let (head, words) = split(to.addr().get(), bytes.len());
    let (front, rest) = bytes.split_at(head);
    let (middle, back) = rest.split_at(words * WORD);
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
    for (i, word) in middle.chunks_exact_mut(WORD).enumerate() {
        // SAFETY: the words lie between the ragged ends, inside the caller's range.
        let at = unsafe { from.add(head + i * WORD) }.cast::<u64>();
        // SAFETY: `head` bytes lead up to an address that is a multiple of eight.
        let value = unsafe { AtomicU64::from_ptr(at.as_ptr()) }.load(Relaxed);
        word.copy_from_slice(&value.to_ne_bytes());
    }
    get(head + words * WORD, back);
}

/// The words of a slice whose length is a multiple of eight.
fn words_of(bytes: &[u8]) -> impl Iterator<Item = [u8; WORD]> {
    bytes.chunks_exact(WORD).map(|chunk| {
        let mut word = [0; WORD];
        word.copy_from_slice(chunk);
        word
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_range_at_any_address_arrives_whole_and_touches_nothing_else() {
        let source: Vec<u8> = (1..=255).collect();
        for offset in 0..17 {
            for len in 0..40 {
                let mut shared = vec![0u8; 80];
                let base = NonNull::new(shared.as_mut_ptr()).unwrap();
                let mut back = vec![0u8; len];
                // SAFETY: 16 + 39 bytes lie in the 80, and nobody else touches them.
                let at = unsafe { base.add(offset) };
                // SAFETY: as above.
                unsafe { write_bytes(at, &source[..len]) };
                // SAFETY: as above.
                unsafe { read_bytes(at, &mut back) };
                assert_eq!(back, source[..len]);
                assert_eq!(shared[offset..offset + len], source[..len]);
                assert!(shared[..offset].iter().chain(&shared[offset + len..]).all(|&byte| byte == 0));
            }
        }
    }
}
