//! Which family of queues owns which bytes of an exclusive resource, as in Vulkan with `VK_SHARING_MODE_EXCLUSIVE`.
//!
//! ```text
//!   bytes of a buffer   [ family 0 | released by 2 to 0 | family 2 | never used ]
//! ```
//!
//! - A family that reads bytes owns them: it has written or acquired them, or nobody has used them.
//! - A family that writes bytes owns them from then on. Others of the same mip level do not follow: where a family releases
//!   a subresource of which it has overwritten a part only, the rest was lost on a real GPU, and is reported here.
//! - It releases what it owns, once, and the other family acquires what was released to it.
//!
//! Noted in the order in which submissions begin to run, as hazards are.

use core::ops::Range;
use std::sync::Mutex;

use super::resources::{InUse, ResourceRange};
use crate::device::TimelinePoint;
use crate::sync::locked;

/// The owner of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Family(u32),
    Released { from: u32, to: u32 },
}

/// The owners of a resource's bytes: sorted ranges that do not overlap. What is in none was never used.
#[derive(Debug, Default)]
pub(super) struct Owners(Mutex<Vec<(Range<u64>, Owner)>>);

/// What a submission does with bytes of an exclusive resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    Write,
    Release { from: u32, to: u32 },
    Acquire { from: u32, to: u32 },
}

/// Half of a transfer of ownership, which keeps the resource alive until it is done.
#[derive(Debug)]
pub(super) struct HandOver {
    pub(super) resource: InUse,
    /// Relative to the resource.
    pub(super) bytes: Range<u64>,
    pub(super) what: Use,
}

impl HandOver {
    /// Returns the range relative to the memory.
    pub(super) fn in_memory(&self) -> Range<u64> {
        self.resource.offset + self.bytes.start..self.resource.offset + self.bytes.end
    }
}

impl Owners {
    /// Forgets all of them, for another resource.
    pub(super) fn clear(&self) {
        locked(&self.0).clear();
    }

    /// Notes what a family does. Returns the bytes that it does not own, and their owner, if there are any.
    fn note(&self, bytes: &Range<u64>, family: u32, what: Use) -> Option<(Range<u64>, Owner)> {
        let mut owners = locked(&self.0);
        let meets = |(range, _): &&(Range<u64>, Owner)| range.start < bytes.end && bytes.start < range.end;
        let is_wrong = |owner| match what {
            Use::Read => owner != Owner::Family(family),
            // It overwrites them, so that it needs nothing of the other family but an order: see hazards. But an acquire
            // that follows would find other bytes.
            Use::Write => matches!(owner, Owner::Released { .. }),
            Use::Release { from, .. } => owner != Owner::Family(from),
            Use::Acquire { from, to } => owner != Owner::Released { from, to },
        };
        let wrong = owners.iter().filter(meets).find(|(_, owner)| is_wrong(*owner)).cloned();
        let after = match what {
            Use::Read | Use::Write => Owner::Family(family),
            Use::Release { from, to } => Owner::Released { from, to },
            Use::Acquire { to, .. } => Owner::Family(to),
        };
        // What nobody released cannot be acquired.
        let known = owners
            .iter()
            .filter(meets)
            .map(|(range, _)| range.end.min(bytes.end).saturating_sub(range.start.max(bytes.start)));
        let is_unknown = known.sum::<u64>() < bytes.end - bytes.start;
        let wrong = match what {
            Use::Acquire { .. } if is_unknown && wrong.is_none() => {
                Some((bytes.clone(), Owner::Family(family)))
            }
            _ => wrong,
        };
        set(&mut owners, bytes, after);
        wrong
    }
}

/// Gives bytes to an owner, and joins neighbours.
fn set(owners: &mut Vec<(Range<u64>, Owner)>, bytes: &Range<u64>, owner: Owner) {
    let first = owners.partition_point(|(range, _)| range.end < bytes.start);
    let mut bytes = bytes.clone();
    let mut rest = [None, None];
    while let Some((range, other)) = owners.get(first).cloned() {
        if range.start > bytes.end {
            break;
        }
        owners.remove(first);
        if other == owner {
            bytes = bytes.start.min(range.start)..bytes.end.max(range.end);
            continue;
        }
        if range.start < bytes.start {
            rest[0] = Some((range.start..bytes.start, other));
        }
        if range.end > bytes.end {
            rest[1] = Some((bytes.end..range.end, other));
            break;
        }
    }
    let [before, after] = rest;
    let parts = before.into_iter().chain([(bytes, owner)]).chain(after);
    owners.splice(first..first, parts);
}

/// Notes what a submission of a queue of a family does with bytes of a resource. Returns the validation error, if the
/// resource is exclusive and the family does not own them.
pub(super) fn note(
    resource: &ResourceRange,
    bytes: &Range<u64>,
    (point, family): (TimelinePoint, u32),
    what: Use,
) -> Option<String> {
    if !resource.is_exclusive || bytes.is_empty() {
        return None;
    }
    let (range, owner) = resource.users.owners.note(bytes, family, what)?;
    let does = match what {
        Use::Read => "reads",
        Use::Write => "writes",
        Use::Release { .. } => "releases",
        Use::Acquire { .. } => "acquires",
    };
    let owner = match (owner, what) {
        (Owner::Family(_), Use::Acquire { .. }) => "which were not released to it".to_owned(),
        (Owner::Family(owner), _) => format!("which family {owner} owns"),
        (Owner::Released { from, to }, _) => format!("which family {from} has released to family {to}"),
    };
    Some(format!(
        "ownership: submission {} of queue {}, of family {family}, {does} the bytes {}..{} of an exclusive resource, {owner}",
        point.value.0, point.queue.0, range.start, range.end,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO_0: Use = Use::Release { from: 2, to: 0 };
    const BY_0: Use = Use::Acquire { from: 2, to: 0 };

    #[test]
    fn bytes_are_read_by_the_family_that_wrote_or_acquired_them() {
        let owners = Owners::default();
        assert_eq!(owners.note(&(0..100), 2, Use::Write), None, "nobody used them");
        assert_eq!(owners.note(&(50..60), 2, Use::Read), None);
        assert_eq!(owners.note(&(50..60), 0, Use::Read), Some((0..100, Owner::Family(2))));
        let owners = Owners::default();
        assert_eq!(owners.note(&(0..100), 2, Use::Write), None);
        assert_eq!(owners.note(&(20..80), 2, TO_0), None);
        assert_eq!(owners.note(&(20..80), 0, BY_0), None);
        assert_eq!(owners.note(&(20..80), 0, Use::Read), None);
        assert_eq!(owners.note(&(0..20), 2, Use::Read), None, "it has handed over the others");
        assert_eq!(owners.note(&(80..100), 0, Use::Read), Some((80..100, Owner::Family(2))));
    }

    #[test]
    fn what_is_overwritten_need_not_be_acquired() {
        let owners = Owners::default();
        assert_eq!(owners.note(&(0..100), 0, Use::Write), None);
        assert_eq!(owners.note(&(20..40), 2, Use::Write), None);
        assert_eq!(owners.note(&(20..40), 2, TO_0), None);
        assert_eq!(owners.note(&(20..40), 0, BY_0), None);
        assert_eq!(owners.note(&(0..100), 0, Use::Read), None);
    }

    #[test]
    fn both_halves_are_needed_once_and_in_their_order() {
        let released = Owner::Released { from: 2, to: 0 };
        let owners = Owners::default();
        assert_eq!(owners.note(&(0..8), 2, Use::Write), None);
        assert_eq!(owners.note(&(0..8), 0, BY_0), Some((0..8, Owner::Family(2))), "not released");
        let owners = Owners::default();
        assert_eq!(owners.note(&(0..8), 2, Use::Write), None);
        assert_eq!(owners.note(&(0..8), 2, TO_0), None);
        assert_eq!(owners.note(&(0..4), 0, Use::Read), Some((0..8, released)), "not acquired");
        assert_eq!(owners.note(&(4..8), 2, TO_0), Some((4..8, released)), "released twice");
        assert_eq!(owners.note(&(6..8), 2, Use::Write), Some((4..8, released)), "and not acquired since");
        let owners = Owners::default();
        assert_eq!(owners.note(&(0..8), 0, BY_0), Some((0..8, Owner::Family(0))), "nobody used them");
        let owners = Owners::default();
        assert_eq!(owners.note(&(0..8), 0, Use::Write), None);
        assert_eq!(owners.note(&(2..4), 2, Use::Write), None);
        assert_eq!(owners.note(&(0..8), 2, TO_0), Some((0..2, Owner::Family(0))), "it owns a part only");
    }

    #[test]
    fn owners_are_those_of_each_byte() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut model = [None; 64];
        let mut owners = Vec::new();
        for _ in 0..2000 {
            let start = random(63);
            let end = start + 1 + random(64 - start);
            let owner = Owner::Family(random(3) as u32);
            set(&mut owners, &(start..end), owner);
            model[start as usize..end as usize].fill(Some(owner));
            for (at, expected) in (0..).zip(model) {
                let found = owners.iter().find(|(range, _)| range.contains(&at)).map(|(_, owner)| *owner);
                assert_eq!(found, expected, "{at} of {owners:?}");
            }
            assert!(owners.windows(2).all(|two| two[0].0.end <= two[1].0.start), "{owners:?}");
        }
    }
}
