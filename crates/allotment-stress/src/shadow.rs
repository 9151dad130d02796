//! The expected bytes of a buffer.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::input::mixed;

/// The bytes that a buffer should hold, or unknown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shadow(Option<Vec<u8>>);

impl Shadow {
    /// Returns the expected bytes, if known.
    pub(crate) fn expected(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }

    /// Marks the bytes as unknown.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }

    /// Records a write.
    pub(crate) fn write(&mut self, size: u64, offset: u64, bytes: &[u8]) {
        let offset = offset as usize;
        match &mut self.0 {
            Some(expected) => expected[offset..offset + bytes.len()].copy_from_slice(bytes),
            // Unknown bytes become known only by writing all of them.
            None if bytes.len() as u64 == size => self.0 = Some(bytes.to_vec()),
            None => {}
        }
    }
}

/// Returns bytes that no other call of this process gets.
pub(crate) fn pattern(len: u64) -> Vec<u8> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = NEXT.fetch_add(1, Relaxed);
    let words = (0..len.div_ceil(8)).flat_map(|word| mixed(id << 24 ^ word).to_le_bytes());
    words.take(len as usize).collect()
}

/// Returns the first difference and the number of different bytes.
pub(crate) fn difference(expected: &[u8], found: &[u8]) -> Option<String> {
    let wrong = || expected.iter().zip(found).enumerate().filter(|(_, (expected, found))| expected != found);
    let (first, (expected_byte, found_byte)) = wrong().next()?;
    let count = wrong().count();
    Some(format!(
        "{count} of {} bytes are wrong, the first at {first}: {found_byte:#04x} rather than {expected_byte:#04x}",
        expected.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_write_is_known_only_where_the_rest_is() {
        let mut shadow = Shadow::default();
        shadow.write(4, 1, &[9]);
        assert_eq!(shadow.expected(), None);
        shadow.write(4, 0, &[1, 2, 3, 4]);
        shadow.write(4, 1, &[9]);
        assert_eq!(shadow.expected(), Some(&[1, 9, 3, 4][..]));
    }

    #[test]
    fn wrong_bytes_are_noticed_and_patterns_differ() {
        let (first, second) = (pattern(100), pattern(100));
        assert_eq!(difference(&first, &first), None);
        let found = difference(&first, &second).unwrap();
        assert!(found.contains("of 100 bytes are wrong"), "{found}");
    }
}
