//! Which allocations each default pool serves.

use crate::choices::ExpectedLifetime;
use crate::device::MemoryTypeIndex;
use crate::memory::mover::MOVER_GROUPS;

/// Default pools of a memory type for each group of movers.
pub(super) const POOLS_PER_GROUP: u32 = 4;

/// Default pools per memory type: one for each [`Served`].
pub(super) const POOLS_PER_TYPE: u32 = POOLS_PER_GROUP * MOVER_GROUPS;

/// The names of default pools: by movers (none, passes, a `Defragmenter`), lifetime, and kind of resources.
const DEFAULT_POOL_NAMES: [[[&str; 3]; 2]; 3] = [
    [
        ["long-lived", "long-lived, linear", "long-lived, optimal"],
        ["short-lived", "short-lived, linear", "short-lived, optimal"],
    ],
    [
        ["long-lived, movable", "long-lived, linear, movable", "long-lived, optimal, movable"],
        ["short-lived, movable", "short-lived, linear, movable", "short-lived, optimal, movable"],
    ],
    [
        ["long-lived, relocatable", "long-lived, linear, relocatable", "long-lived, optimal, relocatable"],
        ["short-lived, relocatable", "short-lived, linear, relocatable", "short-lived, optimal, relocatable"],
    ],
];

/// Which allocations of a memory type a default pool serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub(super) lifetime: ExpectedLifetime,
    /// Optimal images, where the device wants them apart from linear resources.
    pub(super) optimal: bool,
    /// The group of their mover: one that another mover moves, or none, keeps its block from being emptied, so each has
    /// blocks of its own.
    pub(crate) movers: u8,
}

impl Served {
    /// Returns the index of the pool of the first shard that serves these allocations of a memory type.
    pub(super) fn pool(self, memory_type: MemoryTypeIndex) -> u32 {
        let bit = |holds: bool, at: u32| u32::from(holds) << at;
        let short = self.lifetime == ExpectedLifetime::Short;
        u32::from(memory_type.0) * POOLS_PER_TYPE
            + bit(self.optimal, 0)
            + bit(short, 1)
            + u32::from(self.movers) * POOLS_PER_GROUP
    }

    /// Returns what the default pool with an index within its shard serves, and of which memory type.
    pub(crate) fn by(place: u32) -> (MemoryTypeIndex, Self) {
        let lifetime = if place & 2 == 0 { ExpectedLifetime::Long } else { ExpectedLifetime::Short };
        let served = Self {
            lifetime,
            optimal: place & 1 != 0,
            movers: (place % POOLS_PER_TYPE / POOLS_PER_GROUP) as u8,
        };
        (MemoryTypeIndex((place / POOLS_PER_TYPE) as u8), served)
    }

    /// Returns the name of the default pool that serves these. `separate_optimal`: optimal images have pools of their own.
    pub(super) fn name(self, separate_optimal: bool) -> &'static str {
        // Without pools of optimal images, those of linear ones serve both.
        let kind = match (separate_optimal, self.optimal) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 2,
        };
        let lifetime = match self.lifetime {
            ExpectedLifetime::Long => 0,
            ExpectedLifetime::Short => 1,
        };
        DEFAULT_POOL_NAMES[usize::from(self.movers.min(2))][lifetime][kind]
    }
}
