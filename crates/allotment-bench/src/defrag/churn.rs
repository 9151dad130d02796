//! A pool in use: allocations come and go.

use allotment::device::simulated::SimulatedGpu;
use allotment::{Allocation, Allocator, Pool};
use serde::Serialize;

use super::ours::{Ours, movable, refused};
use super::state::{ALIGNMENT, Wanted};
use crate::failure::Failure;
use crate::rng::Rng;

/// The largest allocation in bytes, so that 10^5 of them take 450 MiB.
const LARGEST: u32 = 9 << 10;

/// Allocations that are replaced between two passes.
const BETWEEN: u32 = 100;

pub(super) struct Churn {
    pub(super) allocator: Allocator<SimulatedGpu>,
    pub(super) pool: Pool,
    pub(super) traffic: Traffic,
}

/// The changing set of allocations.
pub(super) struct Traffic {
    sizes: Sizes,
    live: Vec<Allocation>,
    rng: Rng,
}

/// The sizes of new allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sizes {
    /// Multiples of the alignment, as drivers require.
    Aligned,
    /// Any number of bytes, so that nearly every allocation is followed by a few unusable bytes.
    Any,
}

impl Sizes {
    pub(super) const ALL: [Self; 2] = [Self::Aligned, Self::Any];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Aligned => "aligned",
            Self::Any => "any",
        }
    }

    /// Returns a buffer of a random size.
    pub(super) fn one(self, rng: &mut Rng) -> Wanted {
        let size = 16 + u64::from(rng.below(LARGEST));
        let multiple = if self == Self::Aligned { ALIGNMENT } else { 1 };
        Wanted { size: size.next_multiple_of(multiple), optimal: false }
    }
}

impl Churn {
    /// Creates a number of allocations, in blocks that are half used.
    pub(super) fn new(live: u32, sizes: Sizes) -> Result<Self, Failure> {
        let Ours { allocator, pool, live: none } = Ours::empty(1, 0)?;
        let mut made = Self { allocator, pool, traffic: Traffic { sizes, live: none, rng: Rng::new(3) } };
        made.traffic.allocate(&made.allocator, &made.pool, live)?;
        made.traffic.scatter(&made.allocator, &made.pool)?;
        Ok(made)
    }

    pub(super) fn free_all(self) -> Result<(), Failure> {
        for allocation in self.traffic.live {
            self.allocator.free(allocation).map_err(refused)?;
        }
        self.allocator.destroy_pool(self.pool).map_err(refused)
    }
}

impl Traffic {
    fn allocate(
        &mut self,
        allocator: &Allocator<SimulatedGpu>,
        pool: &Pool,
        count: u32,
    ) -> Result<(), Failure> {
        for _ in 0..count {
            let (requirements, options) = movable(self.sizes.one(&mut self.rng))?;
            self.live
                .push(allocator.allocate(&requirements, &options.clone().with_pool(pool)).map_err(refused)?);
        }
        Ok(())
    }

    fn free(&mut self, allocator: &Allocator<SimulatedGpu>, count: u32) -> Result<(), Failure> {
        for _ in 0..count {
            let gone = self.rng.below(self.live.len() as u32) as usize;
            allocator.free(self.live.swap_remove(gone)).map_err(refused)?;
        }
        Ok(())
    }

    /// Adds as many allocations as there are, then frees half of all.
    pub(super) fn scatter(
        &mut self,
        allocator: &Allocator<SimulatedGpu>,
        pool: &Pool,
    ) -> Result<(), Failure> {
        let count = self.live.len() as u32;
        self.allocate(allocator, pool, count)?;
        self.free(allocator, count)
    }

    /// Replaces some allocations between two passes.
    pub(super) fn go_on(&mut self, allocator: &Allocator<SimulatedGpu>, pool: &Pool) -> Result<(), Failure> {
        self.free(allocator, BETWEEN.min(self.live.len() as u32))?;
        self.allocate(allocator, pool, BETWEEN)
    }
}
