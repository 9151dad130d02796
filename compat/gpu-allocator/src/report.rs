//! What an allocator holds.

use core::cmp::Reverse;
use core::fmt;
use core::ops::Range;

/// An allocation in an [`AllocatorReport`].
#[derive(Clone)]
pub struct AllocationReport {
    /// The name that it was allocated with.
    pub name: String,
    /// Its offset in its memory block, in bytes.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// A memory block in an [`AllocatorReport`].
#[derive(Clone)]
pub struct MemoryBlockReport {
    /// Its size in bytes.
    pub size: u64,
    /// Which of [`AllocatorReport::allocations`] are in it.
    pub allocations: Range<usize>,
}

/// What an allocator holds. Written with `{:?}`, or with `{:.10?}` for the ten largest allocations.
#[derive(Clone)]
pub struct AllocatorReport {
    /// All live allocations, block by block.
    pub allocations: Vec<AllocationReport>,
    /// All memory blocks.
    pub blocks: Vec<MemoryBlockReport>,
    /// Bytes of all allocations.
    pub total_allocated_bytes: u64,
    /// Bytes of all memory blocks.
    pub total_capacity_bytes: u64,
}

impl AllocatorReport {
    /// Creates a report of blocks, each with its bytes and its allocations.
    pub(crate) fn new(blocks: impl IntoIterator<Item = (u64, Vec<AllocationReport>)>) -> Self {
        let mut report = Self {
            allocations: Vec::new(),
            blocks: Vec::new(),
            total_allocated_bytes: 0,
            total_capacity_bytes: 0,
        };
        for (size, allocations) in blocks {
            let first = report.allocations.len();
            report.total_capacity_bytes += size;
            report.total_allocated_bytes += allocations.iter().map(|one| one.size).sum::<u64>();
            report.allocations.extend(allocations);
            report.blocks.push(MemoryBlockReport { size, allocations: first..report.allocations.len() });
        }
        report
    }
}

impl fmt::Debug for AllocationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.is_empty() { "--" } else { self.name.as_str() };
        write!(f, "{name:?}: {}", Bytes(self.size))
    }
}

impl fmt::Debug for AllocatorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut largest: Vec<_> = self.allocations.iter().collect();
        largest.sort_by_key(|allocation| Reverse(allocation.size));
        largest.truncate(f.precision().unwrap_or(usize::MAX));
        let summary =
            format_args!("{} / {}", Bytes(self.total_allocated_bytes), Bytes(self.total_capacity_bytes))
                .to_string();
        f.debug_struct("AllocatorReport")
            .field("summary", &format_args!("{summary}"))
            .field("blocks", &self.blocks.len())
            .field("allocations", &self.allocations.len())
            .field("largest", &largest)
            .finish()
    }
}

/// Bytes as people read them.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["B", "KB", "MB", "GB", "TB"];
        // Ten bits a unit.
        let unit = (self.0.checked_ilog2().unwrap_or(0) / 10).min(4);
        write!(f, "{:.2} {}", self.0 as f64 / (1_u64 << (10 * unit)) as f64, units[unit as usize])
    }
}
