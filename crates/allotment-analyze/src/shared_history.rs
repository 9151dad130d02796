//! An allocation that resources share, over a whole recording: how many, how many bytes at once, how often activated.

use crate::timeline::{AllocationIndex, Timeline};

/// An allocation that resources share, over a whole recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedHistory {
    /// The allocation.
    pub allocation: AllocationIndex,
    /// Its bytes, as requested.
    pub size: u64,
    /// How many resources were ever bound to it.
    pub resources: u64,
    /// Bytes of all of these together.
    pub total_bytes: u64,
    /// The most bytes that resources had together which existed at the same time.
    pub peak_bytes: u64,
    /// The first position at which they had.
    pub peak_at: u64,
    /// How often a resource was given the bytes of others. That it was active from its creation on is not counted.
    pub activations: u64,
    /// A resource was active at some moment. Where none was, a plan gives them their bytes within each frame, and nothing was
    /// recorded of that.
    pub has_active: bool,
}

impl SharedHistory {
    /// Returns the allocations that resources were ever bound to: that with the most bytes at the same time first, then in the
    /// order in which they were allocated. Costs n log n in their resources and the activations of these.
    #[must_use]
    pub fn all(timeline: &Timeline<'_>) -> Vec<Self> {
        let shared = timeline.shared_allocations().into_iter();
        let mut all: Vec<_> = shared.map(|allocation| Self::of(timeline, allocation)).collect();
        all.sort_by_key(|history| core::cmp::Reverse(history.peak_bytes));
        all
    }

    fn of(timeline: &Timeline<'_>, allocation: AllocationIndex) -> Self {
        let size = timeline.requested(allocation);
        let (mut total_bytes, mut activations, mut has_active) = (0_u64, 0, false);
        // The bytes that exist from each position on, and those that do not any more.
        let mut changes = Vec::new();
        let resources = timeline.resources_of(allocation);
        let count = resources.len() as u64;
        for resource in resources {
            let (bound, unbound) = timeline.resource_lifetime(resource);
            let bytes = timeline.resource_at(resource, bound).size;
            total_bytes = total_bytes.saturating_add(bytes);
            changes.push((bound + 1, i128::from(bytes)));
            changes.extend(unbound.map(|unbound| (unbound + 1, -i128::from(bytes))));
            let spans = timeline.active_spans(resource);
            has_active |= !spans.is_empty();
            activations += spans.iter().filter(|&&(from, _)| from != bound).count() as u64;
        }
        // Each event binds or destroys one; only a loss ends several, and then the order is of no account.
        changes.sort_unstable();
        let (mut bytes, mut peak, mut peak_at) = (0, 0, 0);
        for (position, change) in changes {
            bytes += change;
            if bytes > peak {
                (peak, peak_at) = (bytes, position);
            }
        }
        let peak_bytes = u64::try_from(peak).unwrap_or(u64::MAX);
        let resources = count;
        Self { allocation, size, resources, total_bytes, peak_bytes, peak_at, activations, has_active }
    }
}
