//! The state of each allocation in a pool: its record, which tokens read without a lock; its details, under the lock;
//! and its label, where it has one.

use allotment_suballoc::{Alignment, Handle, MAX_SIZE};

use super::{PoolSlot, PoolState, RecordInUse, RoundedRequest};
use crate::chunks::Chunks;
use crate::device::{Device, MemoryHandle, Priority, PrioritySupport, ResourceKind};
use crate::events::Placement;
use crate::memory::block_set::{BlockRange, BlockSet, PlacedRange, Role, Sizes};
use crate::memory::request::{AllocationRequest, Moves};
use crate::memory::token::{RawPlace, Record, Traits};
use crate::memory::{
    AccessError, AllocationError, AllocationInfo, AllocationOptions, CallSite, Movability, Name, ShortName,
};
use crate::slab::Slab;
use crate::sync::locked;

/// Records of a pool up to which its blocks have host memory for as many ranges as they have, and no more.
const FEW: u32 = 4;

/// The part of an allocation that is read under the pool's lock only. Where its range begins, and how many bytes were
/// requested, stands in its [`Record`](crate::memory::token::Record), which a free needs too.
///
/// Packed, so that two details fill a cache line.
#[derive(Clone, Debug)]
#[repr(align(32))]
pub(crate) struct Detail {
    handle: Handle,
    /// Bytes that the range has.
    pub(crate) occupied: u64,
    pub(crate) block: u32,
    pub(crate) set: u8,
    /// The shard that has the block.
    pub(crate) home: u8,
    bits: Bits,
}

// With 10,000 live allocations, a free is limited by two cache misses, for the record and for this
// (docs/measurements/2026-11-21-vulkan.md).
const _: () = assert!(Slab::<Detail>::ENTRY_SIZE == 32, "two details fill one cache line");

/// The small parts of a [`Detail`], in one word:
///
/// ```text
///   bit    0          1         2             3         4 – 5       6 – 7  8 – 9  10 – 15
///          dedicated  labelled  has resource  may wait  movability  state  kind   alignment
/// ```
#[derive(Clone, Copy, Debug)]
struct Bits(u16);

impl Bits {
    const DEDICATED: u16 = 1;
    const LABELLED: u16 = 1 << 1;
    const HAS_RESOURCE: u16 = 1 << 2;
    const MAY_WAIT: u16 = 1 << 3;
    const MOVABILITY: u32 = 4;
    const STATE: u32 = 6;
    const KIND: u32 = 8;
    /// Six bits for the exponent of an alignment, which is at most that of the largest size.
    const ALIGNMENT: u32 = 10;

    /// Makes the bits that the request of an allocation decides; the others are those of a range that may not wait, in a
    /// shared block, without a resource.
    #[inline]
    fn of_request(kind: ResourceKind, alignment: Alignment, movability: Movability, labelled: bool) -> Self {
        const { assert!(MAX_SIZE.ilog2() < 1 << (u16::BITS - Self::ALIGNMENT), "an alignment fits its bits") };
        let parts = (alignment.log2() as u16) << Self::ALIGNMENT
            | (kind as u16) << Self::KIND
            | (movability as u16) << Self::MOVABILITY;
        let mut bits = Self(parts);
        bits.set(Self::LABELLED, labelled);
        bits
    }

    #[inline]
    fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }

    #[inline]
    fn set(&mut self, bit: u16, is: bool) {
        self.0 = self.0 & !bit | if is { bit } else { 0 };
    }

    /// Returns the two bits from `at` on.
    #[inline]
    fn pair(self, at: u32) -> u16 {
        self.0 >> at & 3
    }

    #[inline]
    fn set_pair(&mut self, at: u32, pair: u16) {
        self.0 = self.0 & !(3 << at) | pair << at;
    }
}

impl Detail {
    /// Describes the range of an allocation.
    #[inline]
    pub(crate) fn range(&self) -> BlockRange {
        let Self { handle, block, home, .. } = *self;
        BlockRange { home, dedicated: self.bits.has(Bits::DEDICATED), block, handle }
    }

    /// Returns the sizes of an allocation whose record says that `requested` bytes were requested.
    #[inline]
    pub(super) fn sizes(&self, requested: u64) -> Sizes {
        Sizes { requested, occupied: self.occupied }
    }

    /// Returns true if the allocation has a [`Label`].
    #[inline]
    pub(super) fn is_labelled(&self) -> bool {
        self.bits.has(Bits::LABELLED)
    }

    /// Returns true if a buffer or an image that the allocator created is bound there; safe code may copy to and from it.
    pub(super) fn has_resource(&self) -> bool {
        self.bits.has(Bits::HAS_RESOURCE)
    }

    pub(super) fn set_has_resource(&mut self, has: bool) {
        self.bits.set(Bits::HAS_RESOURCE, has);
    }

    /// Returns true if the range may wait in the quick lists when it is freed.
    #[inline]
    pub(super) fn may_wait(&self) -> bool {
        self.bits.has(Bits::MAY_WAIT)
    }

    /// Returns true if the allocation was freed and its range waits in the quick lists. Only the range and its bytes are
    /// meaningful then.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        self.state() == DetailState::Waiting
    }

    #[inline]
    pub(super) fn state(&self) -> DetailState {
        match self.bits.pair(Bits::STATE) {
            0 => DetailState::Settled,
            1 => DetailState::Moving,
            2 => DetailState::Freed,
            _ => DetailState::Waiting,
        }
    }

    #[inline]
    pub(super) fn set_state(&mut self, state: DetailState) {
        self.bits.set_pair(Bits::STATE, state as u16);
    }

    pub(crate) fn movability(&self) -> Movability {
        match self.bits.pair(Bits::MOVABILITY) {
            0 => Movability::Pinned,
            1 => Movability::Copied,
            _ => Movability::Recreated,
        }
    }

    pub(super) fn set_movability(&mut self, movability: Movability) {
        self.bits.set_pair(Bits::MOVABILITY, movability as u16);
    }

    pub(crate) fn kind(&self) -> ResourceKind {
        match self.bits.pair(Bits::KIND) {
            0 => ResourceKind::Buffer,
            1 => ResourceKind::LinearImage,
            2 => ResourceKind::OptimalImage,
            _ => ResourceKind::Unknown,
        }
    }

    /// Returns the alignment of the offset, with that of the pool.
    pub(super) fn alignment(&self) -> Alignment {
        let alignment = Alignment::new(1 << (self.bits.0 >> Bits::ALIGNMENT));
        debug_assert!(alignment.is_ok(), "the exponent is one of an alignment");
        alignment.unwrap_or_default()
    }

    /// Gives a range that waits to a new allocation, which has the record and the range of the last one.
    #[inline]
    pub(super) fn reuse(
        &mut self,
        kind: ResourceKind,
        alignment: Alignment,
        movability: Movability,
        labelled: bool,
    ) {
        debug_assert!(self.may_wait() && !self.bits.has(Bits::DEDICATED), "only such ranges wait");
        self.bits = Bits::of_request(kind, alignment, movability, labelled);
        self.bits.set(Bits::MAY_WAIT, true);
    }

    /// Gives an allocation another range. A move of it, if any, is over then.
    pub(super) fn hold(&mut self, range: BlockRange, occupied: u64, may_wait: bool) {
        let BlockRange { home, dedicated, block, handle } = range;
        (self.home, self.block, self.handle, self.occupied) = (home, block, handle, occupied);
        self.bits.set(Bits::DEDICATED, dedicated);
        self.bits.set(Bits::MAY_WAIT, may_wait);
        self.set_state(DetailState::Settled);
    }
}

/// What a pool enters of a request that has a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entered {
    pub(super) sizes: Sizes,
    pub(super) alignment: Alignment,
    pub(super) dedicated_to_resource: bool,
    /// The residency priority of a dedicated block.
    pub(super) priority: Priority,
    pub(super) placement: Placement,
}

const _: () = assert!(size_of::<Label>() == 64, "a label fills one cache line");

/// What is happening to an allocation, or to its range after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DetailState {
    /// It is live, and no move is under way.
    Settled,
    /// A destination is reserved, or the bytes are being copied there.
    Moving,
    /// The owner freed it while it was being moved. Its range stays allocated until the move ends.
    Freed,
    /// It was freed, and its range waits in the quick lists.
    Waiting,
}

/// The debug name, user data, category and call site of an allocation. Apart from [`Detail`], since most allocations
/// have none. Fills a cache line, which it would else share with its neighbours in the list.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub(crate) struct Label {
    pub(crate) name: Option<Name>,
    pub(crate) user_data: u64,
    pub(crate) category: &'static str,
    pub(crate) call_site: Option<CallSite>,
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
pub(crate) struct HeldRange {
    pub(super) range: BlockRange,
    pub(super) sizes: Sizes,
    /// What the record of the allocation says.
    pub(super) place: RawPlace,
}

impl<D: Device> PoolSlot<D> {
    /// Notes that a resource is bound to an allocation. A pool with resources cannot be reset.
    pub(crate) fn note_resource(&self, record: u32) {
        let mut guard = locked(&self.state);
        let detail = guard.as_mut().and_then(|state| state.detail_mut(record));
        detail.into_iter().for_each(|detail| detail.set_has_resource(true));
    }

    /// Returns what there is to know of an allocation; `None` where it was freed.
    pub(crate) fn allocation_info(&self, record: u32, generation: u32) -> Option<AllocationInfo<D>> {
        self.with_live(record, generation, |state, _| state.allocation_info(self, record))
    }

    /// Returns the beginning of an allocation's name, for an error; `None` where it was freed.
    pub(crate) fn short_name(&self, record: u32, generation: u32) -> Option<ShortName> {
        self.with_live(record, generation, |state, _| Some(ShortName::of(state.label(record).name.as_ref())))
    }

    /// Changes the label of an allocation, and writes an event of that. Returns what `change` returned; `None` where the
    /// allocation was freed.
    pub(crate) fn change_label<T>(
        &self,
        record: u32,
        generation: u32,
        change: impl FnOnce(&mut Label) -> T,
    ) -> Option<T> {
        self.with_live(record, generation, |state, _| {
            let changed = change(state.label_mut(record)?);
            state.emit_label(record);
            Some(changed)
        })
    }

    /// Notes where the program made an allocation.
    pub(crate) fn note_call_site(&self, record: u32, generation: u32, site: Option<CallSite>) {
        _ = self.with_live(record, generation, |state, _| {
            state.label_mut(record)?.call_site = site;
            state.emit_call_site(record);
            Some(())
        });
    }

    /// Returns whether an allocation may move, and whether it has a place to move to; `None` where it was freed.
    pub(crate) fn movable_and_moving(&self, record: u32, generation: u32) -> Option<(bool, bool)> {
        self.with_live(record, generation, |state, entry| {
            Some((entry.is_movable(), state.detail(record)?.state() == DetailState::Moving))
        })
    }

    /// Returns true if the memory of an allocation that lives is mapped.
    pub(crate) fn is_mapped(&self, record: u32, generation: u32) -> bool {
        let address = self.with_live(record, generation, |_, entry| entry.read(&self.objects).address);
        address.is_some()
    }

    /// Notes that the resource of an allocation has a handle for the place that a pass moved it to.
    pub(crate) fn end_moved(&self, record: u32, generation: u32) -> Result<(), AccessError> {
        // Under the lock, so that no pass moves the memory once more between the check and the change.
        let _guard = locked(&self.state);
        let entry = self.records.get(record).filter(|entry| entry.generation() == generation);
        let entry = entry.ok_or(AccessError::Stale)?;
        if !entry.is_moved() {
            return Err(AccessError::NotMoved { name: ShortName::NONE });
        }
        entry.clear_moved();
        Ok(())
    }

    /// Calls `f` with the locked pool and the record of an allocation; `None` where that was freed. Its record may be freed as
    /// well then, and is not read without the lock.
    pub(super) fn with_live<T>(
        &self,
        record: u32,
        generation: u32,
        f: impl FnOnce(&mut PoolState<D>, &Record) -> Option<T>,
    ) -> Option<T> {
        let mut guard = locked(&self.state);
        let state = guard.as_mut()?;
        f(state, self.records.get(record).filter(|entry| entry.generation() == generation)?)
    }
}

impl<D: Device> PoolState<D> {
    /// Returns the index of the record that the next allocation gets. It stays free until [`publish`](Self::publish)
    /// takes it, so that a refused request has nothing to undo.
    #[inline]
    pub(super) fn next_record(&mut self, slot: &PoolSlot<D>) -> Result<u32, AllocationError> {
        let index = self.details.next_index();
        if index < self.details.bound() {
            // Vacant, and no vacant record is spent.
            return Ok(index);
        }
        self.append_record(slot)
    }

    /// Returns the index of the first record behind all that the pool has that is not spent.
    #[cold]
    fn append_record(&mut self, slot: &PoolSlot<D>) -> Result<u32, AllocationError> {
        loop {
            let index = self.details.next_index();
            if index >= FEW {
                self.sets.iter_mut().for_each(BlockSet::expect_many);
            }
            let entry = slot.records.get_or_append(index, &mut self.next_records);
            if !entry
                .ok_or(AllocationError::TooManyAllocations { limit: index, name: ShortName::NONE })?
                .is_spent()
            {
                return Ok(index);
            }
            // Spent by an earlier pool in this slot: records outlive pools, as tokens do. It stays unused, so that no
            // old token becomes valid again.
            self.details.skip();
        }
    }

    /// Enters an allocation under the record that [`next_record`](Self::next_record) returned, where tokens find it.
    pub(super) fn publish(
        &mut self,
        slot: &PoolSlot<D>,
        set: usize,
        record: u32,
        placed: PlacedRange,
        (rounded, placement): (&RoundedRequest, Placement),
        request: &AllocationRequest<'_>,
    ) -> u32 {
        let RoundedRequest { sizes, dedicated_to_resource, role, priority, .. } = *rounded;
        // Defragmentation could move such an allocation into a shared block, against the caller's `Dedicated::Always`.
        // (For that of a resource, the code that creates the resource decides.)
        let stays = role == Role::DedicatedToAllocation && !dedicated_to_resource;
        let moves = if stays { Moves { mover: request.moves.mover, ..Moves::NONE } } else { request.moves };
        let request = &AllocationRequest { moves, ..*request };
        // Of its own, whether it wished for that or no block could be shared.
        let is_alone = matches!(placement, Placement::DedicatedBlock | Placement::DedicatedToResource);
        if role != Role::Shared || is_alone {
            slot.left.note_dedicated();
        }
        let alignment = rounded.request.alignment;
        let entered = Entered { sizes, alignment, dedicated_to_resource, priority, placement };
        self.wake();
        let in_use = self.enter(slot, set, record, placed, &entered, request);
        // All, since the block may be new here, or have another role.
        slot.counters[set].store(&self.sets[set].statistics);
        in_use.record()
    }

    /// Does the same for a request whose role is known, in a pool that is awake and has its blocks counted.
    #[inline(always)]
    pub(super) fn enter(
        &mut self,
        slot: &PoolSlot<D>,
        set: usize,
        record: u32,
        PlacedRange { range, offset }: PlacedRange,
        entered: &Entered,
        request: &AllocationRequest<'_>,
    ) -> RecordInUse {
        let Entered { sizes, alignment, dedicated_to_resource, priority, placement } = *entered;
        let labelled = request.options.is_labelled();
        let mut bits =
            Bits::of_request(request.requirements.kind, alignment, request.moves.at_once, labelled);
        let blocks = &self.sets[set];
        bits.set(Bits::DEDICATED, range.dedicated);
        bits.set(Bits::MAY_WAIT, blocks.may_wait(&range, sizes));
        let BlockRange { home, block, handle, .. } = range;
        let at = self.details.insert(Detail {
            handle,
            occupied: sizes.occupied,
            block,
            set: set as u8,
            home,
            bits,
        });
        debug_assert_eq!(at, record, "nothing was entered since `next_record`");
        let (mut generation, mut is_first) = (0, false);
        if let (Some(entry), Some(block)) = (slot.records.get(record), blocks.block(block)) {
            entry.write(&RawPlace {
                object: block.object(),
                memory: block.memory.handle().to_raw(),
                offset,
                size: sizes.requested,
                memory_size: block.memory.size(),
                address: None,
                traits: Traits::new(blocks.memory_type)
                    .with(Traits::DEDICATED_TO_RESOURCE, dedicated_to_resource)
                    .moved_by(request.moves.now()),
            });
            generation = entry.generation();
            is_first = block.live() == 1;
        }
        slot.counters[set].store_ranges(&blocks.statistics);
        self.flow.add(sizes.occupied);
        if self.labels.len() <= record as usize && (record != 0 || labelled) {
            self.add_labels();
        }
        // The label of the record's last allocation was taken when that was freed.
        if labelled {
            self.set_label(record, request.options);
        }
        if is_first {
            self.note_first(set, range.block, priority);
        }
        self.emit_allocated(slot, record, request, placement);
        RecordInUse::new(record, generation)
    }

    /// Notes that a block has its first allocation, which has this priority if it has the block alone.
    #[cold]
    fn note_first(&mut self, set: usize, block: u32, priority: Priority) {
        // The bytes in use are counted in blocks, so they grow only with the first allocation of one.
        self.clock.used(self.used());
        if self.rules.priorities == PrioritySupport::AnyTime {
            // Cached memory may have the priority of its last use. The driver call is made by the caller, after the lock.
            let shared = self.rules.priority;
            let of = |role| if role == Role::Shared { shared } else { priority };
            self.changed_priority = self.sets[set].note_priority(block, of);
        }
    }

    // Apart, since a label is written by way of the stack, aligned as it is.
    #[inline(never)]
    pub(super) fn set_label(&mut self, record: u32, options: &AllocationOptions) {
        // Not so far where no allocation of this record had one.
        if self.labels.len() <= record as usize {
            self.add_labels();
        }
        self.labels[record as usize] = Label::of(options);
    }

    /// Adds labels up to the last record, those that are missing.
    #[cold]
    fn add_labels(&mut self) {
        while self.labels.len() < self.details.bound() as usize {
            self.labels.push(Label::default());
        }
    }

    /// Returns the details of a live allocation.
    pub(crate) fn detail(&self, record: u32) -> Option<&Detail> {
        self.details.get(record).filter(|detail| !detail.is_waiting())
    }

    /// Returns the details of a live allocation, mutably.
    pub(super) fn detail_mut(&mut self, record: u32) -> Option<&mut Detail> {
        self.details.get_mut(record).filter(|detail| !detail.is_waiting())
    }

    /// Reads a part of the label of an allocation, which may be gone; 0 where the label is gone as well.
    pub(super) fn read_label(&self, record: u32) -> u32 {
        self.labels.get(record as usize).map_or(0, |label| label.user_data as u32)
    }

    /// Returns the label of an allocation that is live.
    pub(crate) fn label(&self, record: u32) -> &Label {
        Self::label_of(&self.labels, record)
    }

    /// Returns a label of the list, which is as long as that of the records, or empty where all but the first have none.
    pub(super) fn label_of(labels: &Chunks<Label>, record: u32) -> &Label {
        static NONE: Label = Label { name: None, user_data: 0, category: "", call_site: None };
        labels.get(record as usize).unwrap_or(&NONE)
    }

    /// Returns the label of a live allocation, mutably.
    pub(super) fn label_mut(&mut self, record: u32) -> Option<&mut Label> {
        let detail = self.details.get_mut(record).filter(|detail| !detail.is_waiting())?;
        // Set before the caller changes the label: a quick free clears only the labels that it knows of.
        detail.bits.set(Bits::LABELLED, true);
        self.add_labels();
        self.labels.get_mut(record as usize)
    }

    /// Returns the number of records that the pool has used at once.
    pub(super) fn records(&self) -> u32 {
        self.details.bound()
    }

    /// Iterates over the records and details of all live allocations.
    pub(super) fn live(&self) -> impl Iterator<Item = (u32, &Detail)> {
        self.details.iter().filter(|(_, detail)| !detail.is_waiting())
    }
}

#[cfg(test)]
#[cfg(not(allotment_loom))]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_detail_is_read_back_whatever_the_others_are() {
        let kinds = [
            ResourceKind::Buffer,
            ResourceKind::LinearImage,
            ResourceKind::OptimalImage,
            ResourceKind::Unknown,
        ];
        let movabilities = [Movability::Pinned, Movability::Copied, Movability::Recreated];
        let states = [DetailState::Settled, DetailState::Moving, DetailState::Freed, DetailState::Waiting];
        let mut ranges = allotment_suballoc::VirtualBlock::<()>::new(1000, Default::default()).unwrap();
        let handle = ranges.allocate(allotment_suballoc::Request::new(10), ()).unwrap().handle;
        for case in 0..4 * 3 * 4 * 16 * 49 {
            let (kind, movability, state) =
                (kinds[case % 4], movabilities[case / 4 % 3], states[case / 12 % 4]);
            let flag = |bit: usize| (case / 48) >> bit & 1 == 1;
            let alignment = Alignment::new(1 << (case / 48 / 16)).unwrap();
            let bits = Bits::of_request(kind, alignment, movability, flag(0));
            let mut detail = Detail { handle, occupied: 0, block: 0, set: 3, home: 0, bits };
            detail.set_has_resource(flag(1));
            detail.hold(BlockRange { home: 2, dedicated: flag(2), block: 7, handle }, 12, flag(3));
            detail.set_state(state);
            let got = (detail.kind(), detail.movability(), detail.state(), detail.alignment());
            assert_eq!(got, (kind, movability, state, alignment));
            let flags = (detail.is_labelled(), detail.has_resource(), detail.may_wait());
            assert_eq!(flags, (flag(0), flag(1), flag(3)));
            let range = detail.range();
            assert_eq!((range.home, range.dedicated, range.block, range.handle), (2, flag(2), 7, handle));
            assert_eq!((detail.set, detail.sizes(10).occupied), (3, 12));
        }
    }
}
