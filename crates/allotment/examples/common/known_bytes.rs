//! Bytes that follow from a number, so that they can be told from all others wherever they are found.

/// The number that some bytes follow from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed(pub(crate) u64);

impl Seed {
    /// Returns the first `size` bytes, in `room`. Each 64 of them repeat one word eight times, so that a frame spends little time
    /// on making its bytes, even without optimisation. A word that moved within its 64 bytes is not noticed.
    pub(crate) fn bytes(self, size: u64, room: &mut Vec<u8>) -> &[u8] {
        room.clear();
        for i in 0..size.div_ceil(64) {
            room.extend_from_slice([mixed(self.0 + i).to_le_bytes(); 8].as_flattened());
        }
        room.truncate(size as usize);
        room
    }
}

/// Makes numbers that do not follow each other of numbers that do.
pub(crate) fn mixed(number: u64) -> u64 {
    let mixed = (number ^ number >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}
