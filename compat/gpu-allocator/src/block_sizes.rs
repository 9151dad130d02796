//! The sizes of memory blocks.

use allotment::device::{DeviceProperties, MemoryProperties, MemoryTypeIndex};
use allotment::memory::blocks::BlockSizes;

const MIB: u64 = 1 << 20;
/// Sizes are multiples of this.
const STEP: u64 = 4 * MIB;

/// The sizes of memory blocks: multiples of 4 MiB from 4 to 256 MiB.
///
/// Blocks grow with what is allocated, from 4 MiB on, and never beyond the largest size that is given here: where
/// gpu-allocator begins with a block of the least size given, Allotment has one that the first requests fit in.
///
/// ```
/// use gpu_allocator::AllocationSizes;
///
/// let sizes = AllocationSizes::new(32 << 20, 8 << 20) // bytes: of the device, of the host
///     .with_max_device_memblock_size(128 << 20);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AllocationSizes {
    device: Bounds,
    host: Bounds,
}

/// Bytes of the least and of the largest block.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    least: u64,
    largest: u64,
}

impl Bounds {
    const fn fixed(size: u64) -> Self {
        Self { least: size, largest: size }
    }

    fn with_largest(self, size: u64) -> Self {
        Self { largest: size.max(self.least), ..self }
    }

    fn block_sizes(self) -> BlockSizes {
        let mut sizes = BlockSizes::default();
        // Allotment's blocks are powers of two, so that a freed one is often replaced by one of its size.
        sizes.largest = 1 << self.largest.ilog2();
        sizes.smallest = sizes.smallest.min(sizes.largest);
        sizes
    }
}

impl AllocationSizes {
    /// Creates sizes for blocks in memory of the device and of the host, in bytes.
    pub fn new(device_memblock_size: u64, host_memblock_size: u64) -> Self {
        Self {
            device: Bounds::fixed(adjusted(device_memblock_size, "device")),
            host: Bounds::fixed(adjusted(host_memblock_size, "host")),
        }
    }

    /// Sets the size of the largest block in memory of the device, in bytes.
    pub fn with_max_device_memblock_size(self, size: u64) -> Self {
        Self { device: self.device.with_largest(adjusted(size, "device")), ..self }
    }

    /// Sets the size of the largest block in memory of the host, in bytes.
    pub fn with_max_host_memblock_size(self, size: u64) -> Self {
        Self { host: self.host.with_largest(adjusted(size, "host")), ..self }
    }

    /// Returns the sizes for memory of the device, and those of the types that the CPU reaches.
    pub(crate) fn block_sizes(
        &self,
        properties: &DeviceProperties,
    ) -> (BlockSizes, Vec<(MemoryTypeIndex, BlockSizes)>) {
        let of_host = properties
            .indexed_types()
            .filter(|(_, found)| found.properties.contains(MemoryProperties::HOST_VISIBLE));
        let host = self.host.block_sizes();
        (self.device.block_sizes(), of_host.map(|(index, _)| (index, host)).collect())
    }
}

impl Default for AllocationSizes {
    fn default() -> Self {
        Self { device: Bounds::fixed(256 * MIB), host: Bounds::fixed(64 * MIB) }
    }
}

fn adjusted(size: u64, of: &str) -> u64 {
    let within = size.clamp(STEP, 256 * MIB);
    let adjusted = within.next_multiple_of(STEP);
    if adjusted != within {
        log::warn!("a block of {of} memory has {adjusted} bytes, a multiple of 4 MiB, and not {size}");
    }
    adjusted
}
