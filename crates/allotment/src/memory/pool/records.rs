//! The records of a pool: what each token stands for, and the details beside it.

use allotment_suballoc::Alignment;

use super::{Fitted, PoolSlot, PoolState};
use crate::device::{Device, MemoryHandle, PrioritySupport, ResourceKind};
use crate::memory::block_set::{Role, Sizes, Spot};
use crate::memory::record::RawPlace;
use crate::memory::{AllocationDesc, AllocationError, Movability, Name};

/// What nobody needs in a hurry about an allocation.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(in crate::memory) struct Detail {
    pub(in crate::memory) set: u8,
    pub(in crate::memory) spot: Spot,
    pub(in crate::memory) sizes: Sizes,
    pub(in crate::memory) kind: ResourceKind,
    /// It has a [`Label`].
    pub(super) labelled: bool,
    /// A buffer or an image of the allocator's own stands there, which safe code may copy to and from.
    pub(in crate::memory) has_resource: bool,
    /// It was freed; its range waits in the quick lists, and nothing but its spot and size means anything.
    pub(super) waiting: bool,
    /// Its range may wait there.
    pub(in crate::memory) may_wait: bool,
    /// What its place must be a multiple of, its pool's wishes included.
    pub(in crate::memory) alignment: Alignment,
    pub(in crate::memory) movability: Movability,
    pub(in crate::memory) travel: Travel,
}

// A cache line. There is one for each allocation that there has been at once.
const _: () = assert!(size_of::<Option<Detail>>() == 64, "details are as large as they may be");

/// Whether an allocation is on its way to another place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::memory) enum Travel {
    /// It is where it is.
    #[default]
    Rests,
    /// Another place is reserved for it, or its bytes are on their way to where it is now.
    Moves,
    /// Its owner freed it while it was being moved: it stands where it does until that ends.
    Left,
}

/// What a person or a program calls an allocation. Apart from the rest, since most have none.
#[derive(Clone, Debug, Default)]
pub(in crate::memory) struct Label {
    pub(in crate::memory) name: Option<Name>,
    pub(in crate::memory) user_data: u64,
    pub(in crate::memory) category: &'static str,
}

impl Label {
    pub(super) fn of(desc: &AllocationDesc) -> Self {
        Self { name: desc.name.clone(), user_data: desc.user_data, category: desc.category }
    }
}

/// What an allocation's record says beside its place, which only whoever writes the place knows.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::memory) struct Marks {
    /// Its memory was made together with its resource.
    pub(in crate::memory) exclusive: bool,
    /// Only a set moves it.
    pub(in crate::memory) of_a_set: bool,
    /// A pass moved it away from the resource that was bound to it.
    pub(in crate::memory) moved: bool,
}

impl<D: Device> PoolState<D> {
    pub(in crate::memory) fn next_record(&mut self, slot: &PoolSlot<D>) -> Result<u32, AllocationError> {
        if let Some(&index) = self.vacant.last() {
            return Ok(index);
        }
        loop {
            let index = self.details.len() as u32;
            let entry = slot.records.get_or_make(index);
            if !entry.ok_or(AllocationError::TooManyAllocations { limit: index })?.is_spent() {
                return Ok(index);
            }
            // By a pool that was here before: records outlive pools, as tokens do.
            self.details.push(None);
            self.labels.push(Label::default());
        }
    }

    /// Makes the allocation known under the record that [`next_record`](Self::next_record) named.
    pub(in crate::memory) fn publish(
        &mut self,
        slot: &PoolSlot<D>,
        set: usize,
        record: u32,
        spot: Spot,
        fitted: &Fitted,
        desc: &AllocationDesc,
    ) -> u32 {
        let Fitted { sizes, exclusive, tied, .. } = *fitted;
        // Who wants memory of its own, whatever stands in it, does not want to share a block later.
        let stays = tied && !exclusive;
        let detail = Detail {
            set: set as u8,
            spot,
            sizes,
            kind: desc.kind,
            labelled: desc.is_labelled(),
            has_resource: false,
            waiting: false,
            may_wait: self.sets[set].may_wait(&spot, sizes),
            alignment: fitted.request.alignment,
            movability: if stays { Movability::Pinned } else { desc.movability },
            travel: Travel::Rests,
        };
        if self.vacant.pop().is_none() {
            self.details.push(None);
            self.labels.push(Label::default());
            // So that freeing never has to get host memory.
            self.vacant.reserve(self.details.len());
        }
        self.details[record as usize] = Some(detail);
        self.labels[record as usize] = Label::of(desc);
        self.write_place(slot, record, Marks { exclusive, ..Marks::default() });
        if self.rules.priorities == PrioritySupport::AnyTime {
            let shared = self.rules.priority;
            let of = |role| if role == Role::Shared { shared } else { fitted.priority };
            self.untold = self.sets[set].note_priority(spot.block, of);
        }
        self.flow.add(sizes.occupied);
        self.clock.used(self.used());
        slot.counters[set].store(&self.sets[set].statistics);
        record
    }

    /// Tells whoever reads the record where its allocation is.
    pub(in crate::memory) fn write_place(&self, slot: &PoolSlot<D>, record: u32, marks: Marks) {
        let Some(detail) = self.detail(record) else { return };
        let blocks = &self.sets[usize::from(detail.set)];
        let Marks { exclusive, of_a_set, moved } = marks;
        if let (Some(entry), Some(block)) = (slot.records.get(record), blocks.block(detail.spot.block)) {
            entry.write(&RawPlace {
                memory: block.memory.handle().to_raw(),
                offset: detail.spot.offset,
                size: detail.sizes.requested,
                memory_size: block.memory.size(),
                address: block.memory.address(detail.spot.offset),
                memory_type: blocks.memory_type,
                exclusive,
                movable: detail.movability != Movability::Pinned,
                moving: false,
                arriving: false,
                of_a_set,
                moved,
            });
        }
    }

    pub(in crate::memory) fn detail(&self, record: u32) -> Option<&Detail> {
        self.details.get(record as usize)?.as_ref().filter(|detail| !detail.waiting)
    }

    pub(in crate::memory) fn detail_mut(&mut self, record: u32) -> Option<&mut Detail> {
        self.details.get_mut(record as usize)?.as_mut().filter(|detail| !detail.waiting)
    }

    pub(in crate::memory) fn label(&self, record: u32) -> &Label {
        &self.labels[record as usize]
    }

    /// The label of a live allocation, for changing it.
    pub(in crate::memory) fn label_mut(&mut self, record: u32) -> Option<&mut Label> {
        let detail = self.details.get_mut(record as usize)?.as_mut().filter(|detail| !detail.waiting)?;
        detail.labelled = true;
        self.labels.get_mut(record as usize)
    }

    /// How many records there have been at once.
    pub(in crate::memory) fn records(&self) -> u32 {
        self.details.len() as u32
    }

    /// The records of all live allocations.
    pub(in crate::memory) fn live(&self) -> impl Iterator<Item = (u32, &Detail)> {
        let details = self.details.iter().enumerate();
        details.filter_map(|(i, detail)| Some((i as u32, detail.as_ref().filter(|detail| !detail.waiting)?)))
    }
}
