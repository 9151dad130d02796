//! The record of an allocation: its location, readable without a lock.
//!
//! Each pool has a table of records, and a handle names its record by index. The pool writes the location under its
//! lock; any thread reads it through a [sequence lock](Sequence). What an allocation shares with the others of its block
//! is in the [`MemoryObjects`], which the location names an entry of.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use allotment_suballoc::MAX_SIZE;

use super::memory_objects::{MemoryObject, MemoryObjects};
use crate::device::MemoryTypeIndex;
use crate::memory::mover::MoverId;
use crate::sync::sequence::Sequence;

/// The record of one allocation, live or not yet. Two fill a cache line.
#[derive(Debug, Default)]
#[repr(align(32))]
pub(crate) struct Record {
    /// Of the words of the location.
    sequence: Sequence,
    /// Counts the allocations that used this record; an id contains it. It never wraps around: at [`SPENT`] the record
    /// is not used again.
    generation: AtomicU32,
    /// The offset in the lowest 48 bits, then [`RELEASED`], then the number of mappings that the owner has not unmapped
    /// yet. Threads without the lock change the upper bits of a live allocation, so only [`write`](Self::write) and the end
    /// of an allocation set all of them: nobody else has the handle then, or a reset of its pool keeps it out.
    offset: AtomicU64,
    size: AtomicU64,
    /// The memory object, by its index in [`MemoryObjects`].
    object: AtomicU32,
    /// [`Traits`].
    traits: AtomicU32,
}

#[cfg(not(allotment_loom))]
const _: () = assert!(size_of::<Record>() == 32);

/// The content of a record at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawPlace {
    /// The index of the memory object, which the next two and the address are read from.
    pub(crate) object: u32,
    pub(crate) memory: u64,
    pub(crate) offset: u64,
    /// Bytes, as requested.
    pub(crate) size: u64,
    /// Bytes of the memory object.
    pub(crate) memory_size: u64,
    /// Address of the first byte; `None` where the CPU cannot access the memory.
    pub(crate) address: Option<NonNull<u8>>,
    pub(crate) traits: Traits,
}

impl RawPlace {
    #[inline]
    pub(crate) fn memory_type(&self) -> MemoryTypeIndex {
        self.traits.memory_type()
    }
}

/// The generation after the last. No allocation is published under it.
const SPENT: u32 = u32::MAX;

/// The bits of the offset: no block is larger than 2^48 bytes.
const OFFSET: u64 = (1 << 48) - 1;
const _: () = assert!(MAX_SIZE - 1 <= OFFSET);
/// The owner released the allocation, while the GPU may still use it.
const RELEASED: u64 = 1 << 48;
/// One mapping.
const ONE_MAP: u64 = 1 << 49;
/// The most mappings that are counted.
const MOST_MAPS: u64 = u64::MAX / ONE_MAP;

/// What a record says beside where its allocation is, in one word, as which it is read and written:
///
/// ```text
///   bit    0 – 7        8                      9        10      11        12     13        14         16 – 31
///          memory type  dedicated to resource  movable  moving  arriving  moved  inactive  unsettled  mover
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traits(u32);

impl Traits {
    /// The memory was created together with its resource, and no other resource may be bound to it.
    pub(crate) const DEDICATED_TO_RESOURCE: u32 = 1 << 8;
    /// Defragmentation may move the allocation.
    pub(crate) const MOVABLE: u32 = 1 << 9;
    /// A move is in progress: a write to the old location would be lost and is refused.
    pub(crate) const MOVING: u32 = 1 << 10;
    /// The record has the new location already, but the copy has not completed: reads are refused as well.
    pub(crate) const ARRIVING: u32 = 1 << 11;
    /// A pass moved the allocation: a resource bound to it may be bound to a range that is free by now.
    pub(crate) const MOVED: u32 = 1 << 12;
    /// The bytes belong to another resource that is placed there.
    pub(crate) const INACTIVE: u32 = 1 << 13;
    /// Queues may still use the bytes for a resource to which they belonged before.
    pub(crate) const UNSETTLED: u32 = 1 << 14;

    const MEMORY_TYPE: u32 = 0xff;
    const MOVER_SHIFT: u32 = 16;

    /// Those of a pinned allocation.
    #[inline]
    pub(crate) fn new(memory_type: MemoryTypeIndex) -> Self {
        Self(u32::from(memory_type.0))
    }

    #[inline]
    pub(crate) fn memory_type(self) -> MemoryTypeIndex {
        MemoryTypeIndex((self.0 & Self::MEMORY_TYPE) as u8)
    }

    /// Returns true if one of these traits is set.
    #[inline]
    pub(crate) fn has(self, traits: u32) -> bool {
        self.0 & traits != 0
    }

    /// Sets traits, or removes them.
    #[inline]
    #[must_use]
    pub(crate) fn with(self, traits: u32, set: bool) -> Self {
        Self(self.0 & !traits | if set { traits } else { 0 })
    }

    /// Returns which of the allocator's movers moves the allocation: a `Defragmenter` alone knows its resources.
    #[inline]
    pub(crate) fn mover(self) -> MoverId {
        MoverId((self.0 >> Self::MOVER_SHIFT) as u16)
    }

    #[inline]
    #[must_use]
    pub(crate) fn with_mover(self, mover: MoverId) -> Self {
        Self(self.0 & !(u32::MAX << Self::MOVER_SHIFT) | u32::from(mover.0) << Self::MOVER_SHIFT)
    }

    /// Sets who moves the allocation, if anyone does.
    #[inline]
    #[must_use]
    pub(crate) fn moved_by(self, mover: Option<MoverId>) -> Self {
        self.with(Self::MOVABLE, mover.is_some()).with_mover(mover.unwrap_or(MoverId::PASSES))
    }
}

impl Record {
    /// Creates the record of no allocation, whose first one has this generation.
    pub(super) fn of_generation(generation: u32) -> Self {
        Self { generation: AtomicU32::new(generation), ..Self::default() }
    }

    /// Writes the location of a new allocation. Of its memory object, that is the index alone: the rest is in the
    /// [`MemoryObjects`]. The pool's lock ensures that there is one writer.
    #[inline]
    pub(crate) fn write(&self, place: &RawPlace) {
        self.write_with(place, || self.offset.store(place.offset, Ordering::Relaxed));
    }

    /// Writes another location of a live allocation.
    pub(crate) fn rewrite(&self, place: &RawPlace) {
        self.write_with(place, || {
            // The owner may release it meanwhile, which takes no lock.
            let moved_there = |word| Some(word & !OFFSET | place.offset);
            let _ = self.offset.fetch_update(Ordering::Relaxed, Ordering::Relaxed, moved_there);
        });
    }

    #[inline]
    fn write_with(&self, place: &RawPlace, write_offset: impl FnOnce()) {
        debug_assert!(place.offset <= OFFSET, "a block has at most 2^48 bytes");
        self.sequence.write(|| {
            write_offset();
            self.size.store(place.size, Ordering::Relaxed);
            self.object.store(place.object, Ordering::Relaxed);
            self.traits.store(place.traits.0, Ordering::Relaxed);
        });
    }

    /// Reads the location without a lock. `objects` are those of the allocator.
    #[inline]
    pub(crate) fn read(&self, objects: &MemoryObjects) -> RawPlace {
        self.sequence.read(|| {
            let (object, offset) = (self.object.load(Ordering::Relaxed), self.offset());
            let MemoryObject { memory, size: memory_size, address } = objects.get(object);
            // Wrapping, since the two belong together only if the sequence has not changed.
            let address =
                address.and_then(|first| NonNull::new(first.as_ptr().wrapping_add(offset as usize)));
            RawPlace {
                object,
                memory,
                offset,
                size: self.size.load(Ordering::Relaxed),
                memory_size,
                address,
                traits: self.traits(),
            }
        })
    }

    /// Returns where the range begins in its memory. The caller holds the pool's lock, or reads the sequence.
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        // Relaxed, as for the size: a thread that writes these bits holds the lock.
        self.offset.load(Ordering::Relaxed) & OFFSET
    }

    /// Returns the bytes that were requested. The caller holds the pool's lock.
    #[inline]
    pub(crate) fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        // Relaxed: whatever brought the token to this thread has ordered the writes of its record before this load.
        self.generation.load(Ordering::Relaxed)
    }

    /// Returns true when the record must not be used again: the next generation would make an old id valid.
    pub(crate) fn is_spent(&self) -> bool {
        self.generation() == SPENT
    }

    /// Returns true when the record is [spent](Self::is_spent) after its current allocation is freed.
    #[inline]
    pub(crate) fn is_last_use(&self) -> bool {
        self.generation() == SPENT - 1
    }

    /// Makes every id of the record stale, and forgets its mappings and that it was released.
    #[inline]
    pub(crate) fn retire(&self) {
        // A load and a store suffice: the pool's lock ensures that there is one writer.
        self.generation.store(self.generation().saturating_add(1), Ordering::Relaxed);
        // So for these bits, which no thread without the lock changes any more: nobody has the handle.
        let word = self.offset.load(Ordering::Relaxed);
        if word & !OFFSET != 0 {
            self.offset.store(word & OFFSET, Ordering::Relaxed);
        }
    }

    #[inline]
    fn traits(&self) -> Traits {
        Traits(self.traits.load(Ordering::Relaxed))
    }

    /// Changes the traits. A lock ensures that there is one writer: the pool's, or that of the placed allocations.
    #[inline]
    fn set_traits(&self, change: impl FnOnce(Traits) -> Traits) {
        let before = self.traits();
        let wanted = change(before);
        // The short path of small requests: unchanged traits are not stored.
        if wanted != before {
            self.traits.store(wanted.0, Ordering::Release);
        }
    }

    /// Changes only the size and who moves the allocation, if anyone does. A reader that does not own the handle finds the
    /// generation changed: it was changed before, and these stores do not become visible earlier.
    #[inline]
    pub(crate) fn refit(&self, size: u64, mover: Option<MoverId>) {
        self.size.store(size, Ordering::Release);
        self.set_traits(|traits| traits.with(Traits::MOVED, false).moved_by(mover));
    }

    /// Sets whether a move is in progress. The pool's lock ensures that there is one writer.
    pub(crate) fn set_moving(&self, moving: bool) {
        self.set_traits(|traits| {
            let arriving = traits.has(Traits::ARRIVING) && moving;
            traits.with(Traits::MOVING, moving).with(Traits::ARRIVING, arriving)
        });
    }

    /// Returns the type of the memory, which a move does not change.
    pub(crate) fn memory_type(&self) -> MemoryTypeIndex {
        self.traits().memory_type()
    }

    /// Returns which mover moves the allocation.
    pub(crate) fn mover(&self) -> MoverId {
        self.traits().mover()
    }

    /// Sets whether the allocation may move, and by which mover. The pool's lock ensures that there is one writer.
    pub(crate) fn set_movable(&self, movable: bool, mover: MoverId) {
        self.set_traits(|traits| traits.with(Traits::MOVABLE, movable).with_mover(mover));
    }

    /// Records that a resource is bound where the allocation is now. The pool's lock ensures that there is one writer.
    pub(crate) fn clear_moved(&self) {
        self.set_traits(|traits| traits.with(Traits::MOVED, false));
    }

    /// Sets whether the bytes belong to another resource that is placed there, and whether queues may still use them for one.
    /// The lock of the placed allocations ensures that there is one writer.
    pub(crate) fn set_tenancy(&self, inactive: bool, unsettled: bool) {
        self.set_traits(|traits| traits.with(Traits::INACTIVE, inactive).with(Traits::UNSETTLED, unsettled));
    }

    /// Records that the bytes are still being copied to the location.
    pub(crate) fn set_arriving(&self) {
        self.set_traits(|traits| traits.with(Traits::MOVING | Traits::ARRIVING, true));
    }

    /// Notes that the owner released the allocation, which is freed once the GPU has finished with it.
    #[inline]
    pub(crate) fn note_released(&self) {
        // Relaxed: it tells a reader of events what it cannot learn otherwise, and nothing depends on it.
        self.offset.fetch_or(RELEASED, Ordering::Relaxed);
    }

    /// Does the same for a caller that has the handle alone, of an allocation that ends by its handle and by nothing else.
    #[inline]
    pub(crate) fn note_released_by_handle(&self) {
        if self.may_be_rewritten() {
            self.note_released();
        } else {
            // Nobody else writes the word of an allocation that stays where it is, which saves the exchange.
            self.offset.store(self.offset.load(Ordering::Relaxed) | RELEASED, Ordering::Relaxed);
        }
    }

    /// Returns false where no move [writes](Self::rewrite) another location any more, and what the last one wrote is there to
    /// be read. Of a caller that has the handle alone: without it, nobody lets the allocation move.
    #[inline]
    fn may_be_rewritten(&self) -> bool {
        // Within the sequence, so that a location that was written with these traits is read next; and acquired, so that it is
        // where they were changed by themselves since.
        let traits = self.sequence.read(|| Traits(self.traits.load(Ordering::Acquire)));
        traits.has(Traits::MOVABLE | Traits::MOVING)
    }

    /// Returns true if the current allocation was released, and is not freed yet.
    pub(crate) fn is_released(&self) -> bool {
        self.offset.load(Ordering::Relaxed) & RELEASED != 0
    }

    pub(crate) fn maps(&self) -> u32 {
        (self.offset.load(Ordering::Relaxed) / ONE_MAP) as u32
    }

    /// Counts a mapping. A count that has reached its maximum stays there: the allocation counts as mapped for good.
    pub(crate) fn map(&self) {
        let mapped = |word: u64| (word / ONE_MAP < MOST_MAPS).then(|| word + ONE_MAP);
        let _ = self.offset.fetch_update(Ordering::Relaxed, Ordering::Relaxed, mapped);
    }

    /// Counts an unmapping. Returns false when the allocation was not mapped.
    pub(crate) fn unmap(&self) -> bool {
        // A count at its maximum may have missed mappings, so it is never decreased.
        let unmapped = |word: u64| match word / ONE_MAP {
            0 => None,
            MOST_MAPS => Some(word),
            _ => Some(word - ONE_MAP),
        };
        self.offset.fetch_update(Ordering::Relaxed, Ordering::Relaxed, unmapped).is_ok()
    }

    /// Returns true if defragmentation may move the allocation. Without the pool's lock, the answer may be outdated.
    pub(crate) fn is_movable(&self) -> bool {
        self.traits().has(Traits::MOVABLE)
    }

    /// Returns true if a pass moved the allocation away from the resource that is bound to it.
    pub(crate) fn is_moved(&self) -> bool {
        self.traits().has(Traits::MOVED)
    }
}

#[cfg(test)]
#[cfg(feature = "simulated")]
mod tests {
    use core::sync::atomic::Ordering::Relaxed;

    use super::{MemoryObject, MemoryObjects, MoverId, OFFSET, SPENT};
    use crate::device::MemoryTypeIndex;
    use crate::device::simulated::{Profile, SimulatedGpu};
    use crate::memory::blocks::BlockSizes;
    use crate::memory::defragmentation::{
        Defragmentation, DefragmentationDesc, DefragmentationStrategy, NextPass, PassLimits,
    };
    use crate::memory::{
        AccessError, Allocation, Allocator, AllocatorDesc, MemoryUsage, Movability, Pool, PoolDesc,
    };
    use crate::table::Ahead;
    use crate::{AllocationOptions, Requirements};

    fn allocator() -> Allocator<SimulatedGpu> {
        let mut desc = AllocatorDesc::default();
        (desc.threads, desc.block_sizes) = (1, BlockSizes::fixed(64 << 10));
        Allocator::new(SimulatedGpu::new(Profile::named("integrated").unwrap()), desc).unwrap()
    }

    fn upload() -> AllocationOptions {
        MemoryUsage::Upload.into()
    }

    /// Sets the generation of the first `count` records of a pool, as if they had been used that often.
    fn age(allocator: &Allocator<SimulatedGpu>, pool: &Pool, count: u32, generation: u32) {
        let records = &allocator.pools.get(pool.shards().first).unwrap().records;
        for index in 0..count {
            let record = records.get_or_append(index, &mut Ahead::new()).unwrap();
            record.generation.store(generation, Relaxed);
        }
    }

    #[test]
    fn a_record_that_has_come_to_its_end_is_not_used_again_so_that_no_stale_token_is_good() {
        let allocator = allocator();
        let pool = allocator.create_pool(PoolDesc::new([MemoryTypeIndex(0)])).unwrap();
        let allocate = || allocator.allocate(&Requirements::new(64), &upload().with_pool(&pool)).unwrap();
        age(&allocator, &pool, 2, SPENT - 3);
        let (stale, _keeps) = (allocate(), allocate());
        allocator.reset_pool(&pool).unwrap();
        // Keeps the block from becoming empty, so that freed ranges wait in the quick lists with their records.
        let keeps = allocate();
        let mut generations = Vec::new();
        for _ in 0..8 {
            let token = allocate();
            assert_ne!(token.id(), stale.id());
            if token.record < 2 {
                generations.push(token.generation);
            }
            allocator.free(token).unwrap();
            allocator.check_invariants();
        }
        assert_eq!(generations, [SPENT - 2, SPENT - 1], "up to the last");
        assert_eq!(allocator.location(&stale).unwrap_err(), AccessError::Stale);
        allocator.free(keeps).unwrap();
        allocator.free(stale).unwrap();
        allocator.check_invariants();
        allocator.destroy_pool(pool).unwrap();
    }

    #[test]
    fn a_pool_in_the_place_of_another_uses_none_of_the_records_that_came_to_their_end_there() {
        let allocator = allocator();
        let pool = allocator.create_pool(PoolDesc::new([MemoryTypeIndex(0)])).unwrap();
        age(&allocator, &pool, 40, SPENT - 1);
        let last: Vec<_> = (0..40)
            .map(|_| allocator.allocate(&Requirements::new(64), &upload().with_pool(&pool)).unwrap())
            .collect();
        allocator.reset_pool(&pool).unwrap();
        allocator.check_invariants();
        let slot = pool.shards();
        allocator.destroy_pool(pool).unwrap();
        let pool = allocator.create_pool(PoolDesc::new([MemoryTypeIndex(0)])).unwrap();
        assert_eq!(pool.shards(), slot);
        let got = allocator.allocate(&Requirements::new(64), &upload().with_pool(&pool)).unwrap();
        assert_eq!(got.record, 40);
        assert!(last.iter().all(|token| allocator.location(token).is_err()));
        allocator.check_invariants();
        allocator.free(got).unwrap();
        allocator.destroy_pool(pool).unwrap();
    }

    #[test]
    fn records_that_a_trim_frees_come_back_with_generations_that_none_of_them_had() {
        let allocator = allocator();
        let pool = allocator.create_pool(PoolDesc::new([MemoryTypeIndex(0)])).unwrap();
        let allocate = || allocator.allocate(&Requirements::new(64), &upload().with_pool(&pool)).unwrap();
        age(&allocator, &pool, 32, 5);
        age(&allocator, &pool, 1, 1000);
        let used = allocate();
        allocator.free(used).unwrap();
        allocator.trim();
        let tokens = [(); 2].map(|()| allocate());
        assert_eq!(tokens.each_ref().map(|token| (token.record, token.generation)), [(0, 1001), (1, 1001)]);
        tokens.into_iter().for_each(|token| allocator.free(token).unwrap());
        allocator.check_invariants();
        allocator.destroy_pool(pool).unwrap();
    }

    #[test]
    fn the_records_of_a_pool_that_was_reset_stay_since_handles_may_still_read_them() {
        let allocator = allocator();
        let pool = allocator.create_pool(PoolDesc::new([MemoryTypeIndex(0)])).unwrap();
        let has_record = || allocator.pools.get(pool.shards().first).unwrap().records.get(0).is_some();
        let allocate = || allocator.allocate(&Requirements::new(64), &upload().with_pool(&pool)).unwrap();
        let freed = allocate();
        allocator.free(freed).unwrap();
        allocator.reset_pool(&pool).unwrap();
        allocator.trim();
        assert!(!has_record(), "no handle is left");
        let stale = allocate();
        allocator.reset_pool(&pool).unwrap();
        allocator.trim();
        assert!(has_record() && allocator.location(&stale).is_err());
        allocator.free(stale).unwrap();
        allocator.destroy_pool(pool).unwrap();
    }

    #[test]
    fn records_of_many_uses_stay_so_that_those_after_them_have_many_as_well() {
        let allocator = allocator();
        let pool = allocator.create_pool(PoolDesc::new([MemoryTypeIndex(0)])).unwrap();
        let allocate = || allocator.allocate(&Requirements::new(64), &upload().with_pool(&pool)).unwrap();
        age(&allocator, &pool, 1, SPENT / 2);
        let used = allocate();
        allocator.free(used).unwrap();
        for _ in 0..3 {
            allocator.trim();
            // The first four are of one chunk, and the others are new.
            let tokens: Vec<_> = (0..40).map(|_| allocate()).collect();
            assert!(tokens[0].generation > SPENT / 2 && tokens[32].generation < 8, "{tokens:?}");
            tokens.into_iter().for_each(|token| allocator.free(token).unwrap());
        }
        allocator.check_invariants();
        allocator.destroy_pool(pool).unwrap();
    }

    #[test]
    fn an_allocation_that_is_freed_while_it_is_moved_may_be_the_last_of_its_record() {
        let allocator = allocator();
        let pool = allocator.create_pool(PoolDesc::new([MemoryTypeIndex(0)])).unwrap();
        age(&allocator, &pool, 8, SPENT - 1);
        let (size, movable) = (Requirements::new(16 << 10), upload().with_movability(Movability::Copied));
        let mut tokens: Vec<_> = (0..8)
            .map(|_| Some(allocator.allocate(&size, &movable.clone().with_pool(&pool)).unwrap()))
            .collect();
        for gone in [1, 2, 3, 5] {
            tokens[gone].take().into_iter().for_each(|token| allocator.free(token).unwrap());
        }
        let full = DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(PassLimits::NONE);
        let mut run = Defragmentation::new(&allocator, Some(&pool), full).unwrap();
        let NextPass::Moves(pass) = run.next_pass() else { panic!("there is something to move") };
        let moved = pass.moves()[0].id();
        let freed = tokens.iter().position(|token| token.as_ref().is_some_and(|it| it.id() == moved));
        let freed: Allocation = tokens[freed.unwrap()].take().unwrap();
        allocator.free(freed).unwrap();
        pass.end();
        drop(run);
        allocator.check_invariants();
        let more: Vec<_> =
            (0..8).map(|_| allocator.allocate(&size, &movable.clone().with_pool(&pool)).unwrap()).collect();
        assert!(more.iter().all(|token| token.record >= 8), "{more:?}");
        more.into_iter().chain(tokens.into_iter().flatten()).for_each(|it| allocator.free(it).unwrap());
        allocator.check_invariants();
        allocator.destroy_pool(pool).unwrap();
    }

    #[test]
    fn that_an_allocation_was_released_stays_known_where_it_moves_and_ends_with_it() {
        let objects = MemoryObjects::new();
        let object = objects.register(MemoryObject { memory: 7, size: 1 << 48, address: None });
        let record = super::Record::default();
        let mut place = super::RawPlace { object: object.index(), offset: OFFSET, ..record.read(&objects) };
        record.write(&place);
        record.map();
        record.note_released();
        place.offset = 64;
        record.rewrite(&place);
        assert_eq!((record.read(&objects).offset, record.maps(), record.is_released()), (64, 1, true));
        assert_eq!(record.read(&objects).memory, 7);
        record.retire();
        assert_eq!((record.offset(), record.maps(), record.is_released()), (64, 0, false));
        for (movable, moving) in [(false, false), (true, false), (false, true)] {
            record.write(&place);
            record.set_movable(movable, MoverId::PASSES);
            record.set_moving(moving);
            assert_eq!(record.may_be_rewritten(), movable || moving);
            record.map();
            record.note_released_by_handle();
            assert_eq!((record.offset(), record.maps(), record.is_released()), (64, 1, true));
            record.retire();
        }
    }

    #[test]
    fn a_count_of_mappings_that_has_come_to_its_end_never_says_that_nothing_is_mapped() {
        let allocator = allocator();
        let token = allocator.allocate(&Requirements::new(64), &upload()).unwrap();
        let record = allocator.pools.get(token.pool).unwrap().records.get(token.record).unwrap();
        record.offset.fetch_add((super::MOST_MAPS - 1) * super::ONE_MAP, Relaxed);
        for _ in 0..3 {
            allocator.map(&token).unwrap();
        }
        assert_eq!(u64::from(record.maps()), super::MOST_MAPS);
        allocator.unmap(&token).unwrap();
        assert_eq!(u64::from(record.maps()), super::MOST_MAPS, "how many there are is not known any more");
        allocator.free(token).unwrap();
    }
}
