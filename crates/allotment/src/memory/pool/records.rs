//! The state of each allocation in a pool: its record, which tokens read without a lock; its details, under the lock;
//! and its label, where it has one.

use allotment_suballoc::Alignment;

use super::{PoolSlot, PoolState, RoundedRequest};
use crate::device::{Device, MemoryHandle, PrioritySupport, ResourceKind};
use crate::events::Placement;
use crate::memory::block_set::{BlockRange, Role, Sizes};
use crate::memory::defragmentation::movers::MoverId;
use crate::memory::request::desc::AllocationRequest;
use crate::memory::token::record::RawPlace;
use crate::memory::{AllocationError, AllocationOptions, CallSite, Movability, Name};
use crate::slab::Slab;

/// The part of an allocation that is read under the pool's lock only.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(in crate::memory) struct Detail {
    pub(in crate::memory) set: u8,
    pub(in crate::memory) block_range: BlockRange,
    pub(in crate::memory) sizes: Sizes,
    pub(in crate::memory) kind: ResourceKind,
    /// The allocation has a [`Label`].
    pub(super) labelled: bool,
    /// A buffer or an image that the allocator created is bound there; safe code may copy to and from it.
    pub(in crate::memory) has_resource: bool,
    /// The allocation was freed and its range waits in the quick lists. Only `block_range` and `sizes` are meaningful
    /// then.
    pub(super) waiting: bool,
    /// The range may wait in the quick lists when it is freed.
    pub(in crate::memory) may_wait: bool,
    /// The alignment of the offset, with that of the pool.
    pub(in crate::memory) alignment: Alignment,
    pub(in crate::memory) movability: Movability,
    pub(in crate::memory) move_state: MoveState,
}

// One cache line: with 10,000 live allocations, a free is limited by two cache misses, for the record and for this
// (docs/measurements/2026-11-21-vulkan.md).
const _: () = assert!(Slab::<Detail>::ENTRY_SIZE == 64, "a detail fills one cache line");

const _: () = assert!(size_of::<Label>() == 64, "a label fills one cache line");

/// Whether defragmentation is moving an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::memory) enum MoveState {
    /// No move is under way.
    #[default]
    Settled,
    /// A destination is reserved, or the bytes are being copied there.
    Moving,
    /// The owner freed it while it was being moved. Its range stays allocated until the move ends.
    Freed,
}

/// The debug name, user data, category and call site of an allocation. Apart from [`Detail`], since most allocations
/// have none. Fills a cache line, which it would else share with its neighbours in the list.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub(in crate::memory) struct Label {
    pub(in crate::memory) name: Option<Name>,
    pub(in crate::memory) user_data: u64,
    pub(in crate::memory) category: &'static str,
    pub(in crate::memory) call_site: Option<CallSite>,
}

impl Label {
    /// Returns true if there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        let Self { name, user_data, category, call_site } = self;
        name.is_none() && *user_data == 0 && category.is_empty() && call_site.is_none()
    }

    pub(super) fn of(options: &AllocationOptions) -> Self {
        Self {
            name: options.name.clone(),
            user_data: options.user_data,
            category: options.category,
            call_site: None,
        }
    }
}

/// A range as an allocation holds it: what two allocations exchange when one of them is moved.
#[derive(Clone, Copy, Debug)]
pub(in crate::memory) struct HeldRange {
    pub(in crate::memory) block_range: BlockRange,
    pub(in crate::memory) sizes: Sizes,
    /// What the record of the allocation says.
    pub(in crate::memory) place: RawPlace,
}

impl<D: Device> PoolState<D> {
    /// Returns the index of the record that the next allocation gets. It stays free until [`publish`](Self::publish)
    /// takes it, so that a refused request has nothing to undo.
    pub(in crate::memory) fn next_record(&mut self, slot: &PoolSlot<D>) -> Result<u32, AllocationError> {
        loop {
            let index = self.details.next_index();
            if index < self.details.bound() {
                // Vacant, and no vacant record is spent.
                return Ok(index);
            }
            let entry = slot.records.get_or_append(index, &mut self.next_records);
            if !entry.ok_or(AllocationError::TooManyAllocations { limit: index })?.is_spent() {
                return Ok(index);
            }
            // Spent by an earlier pool in this slot: records outlive pools, as tokens do. It stays unused, so that no
            // old token becomes valid again.
            self.details.skip();
        }
    }

    /// Enters an allocation under the record that [`next_record`](Self::next_record) returned, where tokens find it.
    pub(in crate::memory) fn publish(
        &mut self,
        slot: &PoolSlot<D>,
        set: usize,
        record: u32,
        block_range: BlockRange,
        (rounded, placement): (&RoundedRequest, Placement),
        request: &AllocationRequest<'_>,
    ) -> u32 {
        let RoundedRequest { sizes, dedicated_to_resource, role, .. } = *rounded;
        // Defragmentation could move such an allocation into a shared block, against the caller's `Dedicated::Always`.
        // (For that of a resource, the code that creates the resource decides.)
        let stays = role == Role::DedicatedToAllocation && !dedicated_to_resource;
        let labelled = request.options.is_labelled();
        let detail = Detail {
            set: set as u8,
            block_range,
            sizes,
            kind: request.requirements.kind,
            labelled,
            has_resource: false,
            waiting: false,
            may_wait: self.sets[set].may_wait(&block_range, sizes),
            alignment: rounded.request.alignment,
            movability: if stays { Movability::Pinned } else { request.options.movability },
            move_state: MoveState::Settled,
        };
        let entered = self.details.insert(detail);
        debug_assert_eq!(entered, record, "nothing was entered since `next_record`");
        while self.labels.len() < self.details.bound() as usize {
            self.labels.push(Label::default());
        }
        // The label of the record's last allocation was taken when that was freed.
        if labelled {
            self.labels[record as usize] = Label::of(request.options);
        }
        self.write_place(slot, record, dedicated_to_resource);
        if self.rules.priorities == PrioritySupport::AnyTime {
            // Cached memory may have the priority of its last use. The driver call is made by the caller, after the
            // lock.
            let shared = self.rules.priority;
            let of = |role| if role == Role::Shared { shared } else { rounded.priority };
            self.changed_priority = self.sets[set].note_priority(block_range.block, of);
        }
        self.flow.add(sizes.occupied);
        self.clock.used(self.used());
        slot.counters[set].store(&self.sets[set].statistics);
        self.emit_allocated(slot, record, request, placement);
        record
    }

    /// Writes where a new allocation is into its record.
    fn write_place(&self, slot: &PoolSlot<D>, record: u32, dedicated_to_resource: bool) {
        let Some(detail) = self.detail(record) else { return };
        let blocks = &self.sets[usize::from(detail.set)];
        if let (Some(entry), Some(block)) = (slot.records.get(record), blocks.block(detail.block_range.block))
        {
            entry.write(&RawPlace {
                memory: block.memory.handle().to_raw(),
                offset: detail.block_range.offset,
                size: detail.sizes.requested,
                memory_size: block.memory.size(),
                address: block.memory.address(detail.block_range.offset),
                memory_type: blocks.memory_type,
                dedicated_to_resource,
                movable: detail.movability != Movability::Pinned,
                moving: false,
                arriving: false,
                mover: MoverId::PASSES,
                moved: false,
            });
        }
    }

    /// Returns the details of a live allocation.
    pub(in crate::memory) fn detail(&self, record: u32) -> Option<&Detail> {
        self.details.get(record).filter(|detail| !detail.waiting)
    }

    /// Returns the details of a live allocation, mutably.
    pub(in crate::memory) fn detail_mut(&mut self, record: u32) -> Option<&mut Detail> {
        self.details.get_mut(record).filter(|detail| !detail.waiting)
    }

    /// Reads a part of the label of an allocation, which may be gone; 0 where the label is gone as well.
    pub(in crate::memory) fn read_label(&self, record: u32) -> u32 {
        self.labels.get(record as usize).map_or(0, |label| label.user_data as u32)
    }

    /// Returns the label of an allocation that is live.
    pub(in crate::memory) fn label(&self, record: u32) -> &Label {
        &self.labels[record as usize]
    }

    /// Returns the label of a live allocation, mutably.
    pub(in crate::memory) fn label_mut(&mut self, record: u32) -> Option<&mut Label> {
        let detail = self.details.get_mut(record).filter(|detail| !detail.waiting)?;
        // Set before the caller changes the label: a quick free clears only the labels that it knows of.
        detail.labelled = true;
        self.labels.get_mut(record as usize)
    }

    /// Returns the number of records that the pool has used at once.
    pub(in crate::memory) fn records(&self) -> u32 {
        self.details.bound()
    }

    /// Iterates over the records and details of all live allocations.
    pub(in crate::memory) fn live(&self) -> impl Iterator<Item = (u32, &Detail)> {
        self.details.iter().filter(|(_, detail)| !detail.waiting)
    }
}
