//! An allocation that resources share: which of them are bound to it, which have their bytes, and what sharing saves.

use allotment_trace::recording::BoundResource;

use crate::timeline::{AllocationIndex, ResourceIndex, Timeline};

/// An allocation that resources share, at a moment: a lane for each resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedMemory {
    /// The allocation.
    pub allocation: AllocationIndex,
    /// Its bytes, as requested.
    pub size: u64,
    /// The resources that are bound to it, in the order of their offsets.
    pub resources: Vec<(ResourceIndex, BoundResource)>,
    /// Bytes that the resources would need together without sharing any.
    pub resource_bytes: u64,
    /// Bytes of the allocation that at least one of them has.
    pub covered_bytes: u64,
}

impl SharedMemory {
    /// Returns the allocations that resources are bound to at a position, in the order in which they were allocated. Costs what
    /// a look at all resources costs that these ever had.
    #[must_use]
    pub fn all_at(timeline: &Timeline<'_>, position: u64) -> Vec<Self> {
        let shared = timeline.shared_allocations().into_iter();
        shared.filter_map(|allocation| Self::at(timeline, allocation, position)).collect()
    }

    /// Returns an allocation as it is shared at a position. `None` while no resource is bound to it.
    #[must_use]
    pub fn at(timeline: &Timeline<'_>, allocation: AllocationIndex, position: u64) -> Option<Self> {
        let bound = timeline.resources_of(allocation).filter(|&one| timeline.resource_exists(one, position));
        let mut resources: Vec<_> =
            bound.map(|resource| (resource, timeline.resource_at(resource, position))).collect();
        resources.sort_unstable_by_key(|(resource, is)| (is.offset, *resource));
        let (mut resource_bytes, mut covered_bytes, mut end) = (0_u64, 0, 0);
        for (_, is) in &resources {
            resource_bytes = resource_bytes.saturating_add(is.size);
            // The index has no resource that reaches beyond its memory.
            let is_end = is.offset + is.size;
            covered_bytes += is_end.saturating_sub(end.max(is.offset));
            end = end.max(is_end);
        }
        let size = timeline.requested(allocation);
        let shared = Self { allocation, size, resources, resource_bytes, covered_bytes };
        (!shared.resources.is_empty()).then_some(shared)
    }

    /// Returns the bytes that sharing saves: what the resources need together, less what they cover.
    #[must_use]
    pub const fn saved_bytes(&self) -> u64 {
        self.resource_bytes - self.covered_bytes
    }
}
