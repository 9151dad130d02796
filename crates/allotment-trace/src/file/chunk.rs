//! Chunks: a length, a kind, a checksum, a payload.
//!
//! ```text
//!   0        4      5          9            9 + length
//!   │ length │ kind │ checksum │ payload … │
//! ```

use std::io::{self, Read, Write};

use super::bytes::{Input, Wrong, put_number};
use super::error::DamageKind;
use crate::recording::Moment;

/// The most bytes of a chunk's payload that a reader accepts, and so allocates for one. Writers stay far below.
pub const MAX_CHUNK_BYTES: u32 = 16 << 20;

/// The bytes before a payload.
pub(super) const HEAD_BYTES: usize = 9;

/// The bytes of the chunk at the end of a file, which a reader finds from there.
pub(super) const END_BYTES: u64 = HEAD_BYTES as u64 + 16;

/// The bytes before a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) length: u32,
    pub(super) kind: u8,
    checksum: u32,
}

impl Head {
    pub(super) fn new(bytes: [u8; HEAD_BYTES]) -> Self {
        let [a, b, c, d, kind, e, f, g, h] = bytes;
        Self { length: u32::from_le_bytes([a, b, c, d]), kind, checksum: u32::from_le_bytes([e, f, g, h]) }
    }

    /// Checks the payload. The checksum covers length and kind as well.
    pub(super) fn fits(&self, payload: &[u8]) -> bool {
        checksum(self.length, self.kind, payload) == self.checksum
    }
}

fn checksum(length: u32, kind: u8, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length.to_le_bytes());
    hasher.update(&[kind]);
    hasher.update(payload);
    hasher.finalize()
}

/// Writes a chunk. Returns its bytes.
pub(super) fn write(to: &mut impl Write, kind: u8, payload: &[u8]) -> io::Result<u64> {
    let length = u32::try_from(payload.len()).ok().filter(|&length| length <= MAX_CHUNK_BYTES);
    let length = length.ok_or_else(|| io::Error::other("a chunk of the recording is above the limit"))?;
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4] = kind;
    head[5..].copy_from_slice(&checksum(length, kind, payload).to_le_bytes());
    to.write_all(&head)?;
    to.write_all(payload)?;
    Ok((HEAD_BYTES + payload.len()) as u64)
}

/// Reads the next chunk into `payload`. Returns its kind.
///
/// Memory is allocated as the bytes arrive, so a short file cannot ask for much.
pub(super) fn read(from: &mut impl Read, payload: &mut Vec<u8>) -> io::Result<Result<u8, DamageKind>> {
    payload.clear();
    let mut bytes = [0; HEAD_BYTES];
    match from.read_exact(&mut bytes) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Err(DamageKind::Truncated)),
        Err(error) => return Err(error),
    }
    let head = Head::new(bytes);
    if head.length > MAX_CHUNK_BYTES {
        return Ok(Err(DamageKind::TooLong));
    }
    from.by_ref().take(head.length.into()).read_to_end(payload)?;
    Ok(if payload.len() < head.length as usize {
        Err(DamageKind::Truncated)
    } else if head.fits(payload) {
        Ok(head.kind)
    } else {
        Err(DamageKind::Checksum)
    })
}

/// Returns the kind and the payload of the chunk that `bytes` begin with. `None` while bytes of it are missing.
/// Of at most `max` bytes.
pub(super) fn first(bytes: &[u8], max: u32) -> Result<Option<(u8, &[u8])>, DamageKind> {
    let Some((&head, rest)) = bytes.split_first_chunk() else { return Ok(None) };
    let head = Head::new(head);
    if head.length > max {
        return Err(DamageKind::TooLong);
    }
    let Some(payload) = rest.get(..head.length as usize) else { return Ok(None) };
    if head.fits(payload) { Ok(Some((head.kind, payload))) } else { Err(DamageKind::Checksum) }
}

/// The values before the records of an events chunk and of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Start {
    /// The moment before its first event.
    pub(super) moment: Moment,
    /// How many events it has.
    pub(super) events: u64,
}

impl Start {
    /// Returns how many events there are before the chunk.
    pub(crate) const fn first_event(&self) -> u64 {
        self.moment.event
    }

    /// Returns how many events there are up to the end of the chunk.
    pub(crate) const fn end(&self) -> u64 {
        self.moment.event.saturating_add(self.events)
    }

    /// The most bytes that it has.
    pub(super) const MAX_BYTES: usize = 40;

    pub(super) fn put(self, out: &mut Vec<u8>) {
        let Moment { event, frame, nanoseconds } = self.moment;
        for number in [event, frame, nanoseconds, self.events] {
            put_number(out, number);
        }
    }

    pub(super) fn read(input: &mut Input<'_>) -> Result<Self, Wrong> {
        let moment = read_moment(input)?;
        Ok(Self { moment, events: input.number()? })
    }
}

fn read_moment(input: &mut Input<'_>) -> Result<Moment, Wrong> {
    Ok(Moment { event: input.number()?, frame: input.number()?, nanoseconds: input.number()? })
}
