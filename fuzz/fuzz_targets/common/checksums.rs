//! Checksums of a recording's chunks.

/// Writes the right checksum into each chunk, as long as their lengths lead from one to the next.
pub fn with_right_checksums(bytes: &mut [u8]) {
    let mut at = 12;
    while let Some(head) = bytes.get(at..at + 9) {
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some(payload) = bytes.get(at + 9..at + 9 + length) else { return };
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head[..5]);
        hasher.update(payload);
        bytes[at + 5..at + 9].copy_from_slice(&hasher.finalize().to_le_bytes());
        at += 9 + length;
    }
}
