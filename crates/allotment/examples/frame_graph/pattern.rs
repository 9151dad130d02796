//! Texels that are known: each write takes them from another place of one buffer.

use allotment::device::DescriptorDevice;
use allotment::memory::Buffer;
use allotment::{Gpu, MemoryUsage};

use crate::common::Outcome;
use crate::common::known_bytes::mixed;

/// Where writes begin to read is a multiple of this, which serves every format and device.
const STEP: u64 = 512;
const STEPS: u64 = 1024;

/// What the words of a pattern are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    Any,
    /// Numbers from 0 up to 1, as a depth buffer has them.
    Depth,
}

impl Words {
    fn at(self, index: u64) -> u32 {
        let word = mixed(index) as u32;
        match self {
            // No two of the four bytes are infinite or no number as 16 bits, or as 32.
            Self::Any => word & 0x3bff_3bff,
            Self::Depth => ((word >> 8) as f32 / (1 << 24) as f32).to_bits(),
        }
    }

    /// Returns true if these are the bytes from `offset` on, a multiple of 4.
    pub(crate) fn are(self, offset: u64, bytes: &[u8]) -> bool {
        (offset / 4..)
            .zip(bytes.chunks(4))
            .all(|(index, found)| self.at(index).to_le_bytes().starts_with(found))
    }
}

/// A buffer with a pattern.
pub(crate) struct Pattern<D: DescriptorDevice> {
    pub(crate) buffer: Buffer<D>,
}

impl<D: DescriptorDevice> Pattern<D> {
    /// Makes a pattern for writes of up to so many bytes.
    pub(crate) fn new(gpu: &Gpu<D>, words: Words, largest: u64) -> Outcome<Self> {
        let size = largest + STEP * STEPS;
        let desc = allotment::device::BufferDesc::new(size).into();
        let buffer = gpu.create_buffer(&desc, &MemoryUsage::GpuOnly.with_name("pattern"))?;
        const PIECE: u64 = 1 << 20;
        for begin in (0..size).step_by(PIECE as usize) {
            let end = size.min(begin + PIECE);
            let bytes: Vec<u8> =
                (begin / 4..end / 4).flat_map(|index| words.at(index).to_le_bytes()).collect();
            gpu.uploads().write_buffer(&buffer, begin, &bytes)?;
        }
        Ok(Self { buffer })
    }

    /// Returns where the write with this number begins to read.
    pub(crate) fn offset_of(number: u64) -> u64 {
        mixed(number) % STEPS * STEP
    }
}
