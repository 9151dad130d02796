//! Whom each resource follows at its bytes.
//!
//! Any two resources that share a byte are in order, so the tenants of a byte are a row. They are visited in an order that keeps
//! all of these, the order of their first passes, with a map of each heap that says who had which bytes last. The next frame
//! begins with the last tenants of this one, so the frame is walked twice, and the second walk is what every frame but the first
//! meets.

use std::collections::BTreeMap;

use super::plan::{Follow, Placement};
use super::planner::TransientResource;

/// Who had the bytes of a heap last, as ranges that do not overlap: by their begins, with their ends.
#[derive(Default)]
struct Tenants(BTreeMap<u64, (u64, Follow)>);

impl Tenants {
    /// Gives the range to a tenant, and adds those that had parts of it to `before`, each once.
    fn take(&mut self, begin: u64, end: u64, tenant: Follow, before: &mut Vec<Follow>) {
        let first = before.len();
        let found: Vec<(u64, (u64, Follow))> = {
            let left = self.0.range(..begin).next_back().filter(|(_, (its_end, _))| *its_end > begin);
            left.into_iter().chain(self.0.range(begin..end)).map(|(&at, &it)| (at, it)).collect()
        };
        for (at, (its_end, follow)) in found {
            self.0.remove(&at);
            if at < begin {
                self.0.insert(at, (begin, follow));
            }
            if its_end > end {
                self.0.insert(end, (its_end, follow));
            }
            before.push(follow);
        }
        self.0.insert(begin, (end, tenant));
        // Of many small ranges, several may have had one tenant.
        before[first..].sort_unstable();
        let mut kept = first;
        for at in first..before.len() {
            if at == first || before[at] != before[kept - 1] {
                before[kept] = before[at];
                kept += 1;
            }
        }
        before.truncate(kept);
    }

    /// From now on all tenants are those of the frame before.
    fn end_frame(&mut self) {
        self.0.values_mut().for_each(|(_, follow)| follow.of_frame_before = true);
    }
}

/// Returns whom each resource follows, as parts of one list. `order` has the resources by their first passes.
pub(super) fn follows(
    placements: &[Option<Placement>],
    sizes: impl Fn(usize) -> u64,
    heaps: usize,
    order: &[u32],
) -> (Vec<core::ops::Range<u32>>, Vec<Follow>) {
    let mut tenants: Vec<Tenants> = (0..heaps).map(|_| Tenants::default()).collect();
    let mut follows = Vec::new();
    let mut parts = vec![0..0; placements.len()];
    for _ in 0..2 {
        follows.clear();
        for &resource in order {
            let begin = follows.len() as u32;
            let Some(place) = placements[resource as usize] else {
                // It has memory of its own, or none. There it follows itself.
                follows.push(Follow { resource: TransientResource(resource), of_frame_before: true });
                parts[resource as usize] = begin..begin + 1;
                continue;
            };
            let tenant = Follow { resource: TransientResource(resource), of_frame_before: false };
            let end = place.offset + sizes(resource as usize);
            tenants[place.heap as usize].take(place.offset, end, tenant, &mut follows);
            parts[resource as usize] = begin..follows.len() as u32;
        }
        tenants.iter_mut().for_each(Tenants::end_frame);
    }
    (parts, follows)
}
