//! Groups: one allocation for several resources that do not overlap.

use allotment::device::{BufferDesc, ResourceKind};
use allotment::memory::ResourceError;

use super::Player;
use super::placed::{Placeable, PlacedSet};
use crate::Stressed;

/// Sets of placed resources that a thread has at most.
const MOST_SETS: usize = 6;

impl<D: Stressed> Player<'_, D> {
    /// Allocates a group, and creates most of its members, in an order of their own. From then on it is one of the sets of
    /// [`place`](Self::place): something is placed over the members, and they are activated and dropped in any order.
    pub(super) fn allocate_group(&mut self) {
        let (mut members, mut all_needs) = (Vec::new(), Vec::new());
        for _ in 0..self.input.below(7) {
            let device = &self.world.device;
            let (member, needs) = if self.input.once_in(3) {
                let desc = self.image_desc();
                (Placeable::Image(desc), device.image_requirements(&desc.into()))
            } else {
                let size = if self.input.once_in(32) { self.size() } else { self.small_size() };
                let desc = BufferDesc::new(size);
                (Placeable::Buffer(desc), device.buffer_requirements(&desc.into()))
            };
            let Ok(mut needs) = needs else { continue };
            // Its resource still fits there: it needs more than the device says, and allows less.
            match self.input.below(32) {
                0 => needs.kind = ResourceKind::Unknown,
                1 => needs.size = needs.size.max(self.size()),
                2 => needs.alignment = needs.alignment.max(self.alignment()),
                3 => needs.memory_types.0 &= self.input.below(1 << 16) as u32,
                _ => {}
            }
            members.push(member);
            all_needs.push(needs);
        }
        let options = self.options();
        let made = self.world.memory.allocate_group(&all_needs, &options);
        let Some((memory, offsets)) = self.done(made) else { return };
        let size = memory.size();
        let is_inside = all_needs.len() == offsets.len()
            && all_needs.iter().zip(&offsets).all(|(needs, &offset)| {
                let end = offset.checked_add(needs.size);
                needs.alignment.is_aligned(offset) && end.is_some_and(|end| end <= size)
            });
        if !is_inside {
            self.tally.find(format!("{all_needs:?} got {offsets:?} in {size} bytes"));
            return;
        }
        if self.placed.len() == MOST_SETS {
            drop(self.placed.swap_remove(self.input.index(MOST_SETS)));
        }
        let at = self.placed.len();
        self.placed.push(PlacedSet::new(self.world, memory));
        let first = self.input.index(members.len());
        for member in (first..members.len()).chain(0..first) {
            if self.input.once_in(8) {
                continue;
            }
            let made = self.create_in_set(at, offsets[member], members[member]);
            let is_wrong =
                matches!(made, Ok(false) | Err(ResourceError::Placed { .. } | ResourceError::Access(_)));
            if is_wrong {
                let needs = &all_needs[member];
                self.tally.find(format!("a member of a group is created: {made:?}; {needs:?}, {offsets:?}"));
            }
            self.done(made);
        }
    }
}
