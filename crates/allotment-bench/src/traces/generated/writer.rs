//! The text of a generated trace while it grows, and the random choices that all kinds share.

use core::fmt::Write as _;

use crate::rng::Rng;

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;

/// A live resource: its id and bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    id: u32,
    pub(super) size: u64,
}

/// A trace that is being generated.
pub(super) struct Writer {
    rng: Rng,
    text: String,
    next: u32,
    /// Bytes that are live now.
    pub(super) live: u64,
}

impl Writer {
    pub(super) fn new(rng: Rng) -> Self {
        Self { rng, text: "op,id,size,alignment,kind,name\n".to_owned(), next: 0, live: 0 }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Allocates a resource, with the size rounded up to its alignment.
    fn allocate(&mut self, size: u64, alignment: u64, kind: &str) -> Live {
        self.allocate_unrounded(size.max(1).next_multiple_of(alignment), alignment, kind)
    }

    fn allocate_unrounded(&mut self, size: u64, alignment: u64, kind: &str) -> Live {
        let id = self.next;
        self.next += 1;
        self.live += size;
        // A `String` takes everything.
        let _ = writeln!(self.text, "a,{id},{size},{alignment},{kind}");
        Live { id, size }
    }

    /// Allocates an optimal image of some bytes, which hardware aligns to 64 KiB unless it is small.
    pub(super) fn image(&mut self, size: u64) -> Live {
        let alignment = if size < 64 * KIB { 4 * KIB } else { 64 * KIB };
        self.allocate(size, alignment, "image,")
    }

    /// Allocates a buffer in device memory.
    pub(super) fn buffer(&mut self, size: u64) -> Live {
        self.allocate(size, 256, "buffer,")
    }

    /// Allocates a buffer in device memory whose offset has to be a multiple of `alignment`.
    pub(super) fn aligned_buffer(&mut self, size: u64, alignment: u64) -> Live {
        let size = size.next_multiple_of(256);
        self.allocate_unrounded(size, alignment, "buffer,")
    }

    /// Allocates a buffer that the CPU writes and the GPU copies from: usage `TRANSFER_SRC`.
    pub(super) fn staging(&mut self, size: u64) -> Live {
        self.allocate(size, 256, "buffer,1")
    }

    pub(super) fn free(&mut self, resource: Live) {
        self.live -= resource.size;
        let _ = writeln!(self.text, "f,{},,,,", resource.id);
    }

    pub(super) fn free_all(&mut self, resources: &mut Vec<Live>) {
        resources.drain(..).for_each(|resource| self.free(resource));
    }

    /// Frees one of these at random.
    pub(super) fn free_any(&mut self, resources: &mut Vec<Live>) {
        if !resources.is_empty() {
            let at = self.below(resources.len() as u32) as usize;
            // In order, so that the oldest stay the first.
            let resource = resources.remove(at);
            self.free(resource);
        }
    }

    pub(super) fn frame(&mut self) {
        self.text.push_str("m,,,,,\n");
    }

    /// Returns a number below `limit`, which is not 0.
    pub(super) fn below(&mut self, limit: u32) -> u32 {
        self.rng.below(limit)
    }

    /// Returns a number from `least` to `most`.
    pub(super) fn between(&mut self, least: u32, most: u32) -> u32 {
        least + self.below(most - least + 1)
    }

    /// Returns true once in `times`, on average.
    pub(super) fn once_in(&mut self, times: u32) -> bool {
        self.below(times) == 0
    }

    /// Returns a size from `least` to less than twice `most`: each octave is as likely, and so is each size within one.
    pub(super) fn octaves(&mut self, least: u64, most: u64) -> u64 {
        let octave = self.between(least.ilog2(), most.ilog2());
        (1 << octave) + (self.rng.next() & ((1 << octave) - 1))
    }

    /// Returns the bytes of a block-compressed texture with all its mip levels, one byte a texel: 128 to 4096 texels
    /// wide, the middle sizes most often.
    pub(super) fn texture_bytes(&mut self) -> u64 {
        let side = |writer: &mut Self| 1u64 << (7 + (writer.below(3) + writer.below(4)).min(5));
        let width = side(self);
        // Most are square, some half as high.
        let height = if self.once_in(4) { width / 2 } else { width };
        width * height * 4 / 3
    }
}
