//! Events as the threads write them: in few bytes, so that a thread stores few cache lines.
//!
//! What costs the thread that makes an event is not to compute it, but to store it into lines that the reader's core had
//! last. So the usual events are words, and all others stand whole in a second list, in which a word says that one of
//! them comes next:
//!
//! ```text
//!   freed                     tag 1 │ pool │ record
//!   released                  tag 2 │ pool │ record
//!   allocated                 tag 3 │ pool │ record,  block │ shape,  offset │ requested  or  offset, requested,
//!                                                     [occupied],  [name │ category],  [user data]
//!   call site                 tag 4 │ pool │ record,  text
//!   activated, unbound        tag 5, 6 │ pool │ record
//!   displaced                 tag 7 │ pool │ record,  by
//!   a run begins              tag 8 │ number
//!   anything else             tag 0, and an event in `others`
//! ```
//!
//! An allocation and a free have 32 bytes together rather than 144. The reader's thread unpacks them.

use allotment_suballoc::Alignment;

use super::{Allocated, AllocationKey, BlockId, Event, Placement, TextId};
use crate::choices::MemoryUsage;
use crate::chunks::Chunks;
use crate::device::ResourceKind;

const OTHER: u64 = 0;
const FREED: u64 = 1;
const RELEASED: u64 = 2;
const ALLOCATED: u64 = 3;
const CALL_SITE: u64 = 4;
const ACTIVATED: u64 = 5;
const UNBOUND: u64 = 6;
const DISPLACED: u64 = 7;
/// No event: what follows has a place among the events of other lists.
const RUN: u64 = 8;

/// The bits of a word's tag.
const TAG_BITS: u32 = 4;
/// The bits of a pool beside the tag.
const POOL_BITS: u32 = 28;

/// The bits of the word that has an allocation's shape, from its upper half on.
mod shape {
    pub(super) const ALIGNMENT: u32 = 32;
    pub(super) const USAGE: u32 = 38;
    pub(super) const KIND: u32 = 41;
    pub(super) const PLACEMENT: u32 = 43;
    pub(super) const SECOND_CHOICE: u32 = 51;
    pub(super) const MOVABLE: u32 = 52;
    /// The occupied bytes differ from the requested ones, and follow.
    pub(super) const PADDED: u32 = 53;
    /// A name or a category follows.
    pub(super) const TEXTS: u32 = 54;
    pub(super) const USER_DATA: u32 = 55;
    /// The offset and the requested bytes have 64 bits each.
    pub(super) const WIDE: u32 = 56;
}

const KINDS: [ResourceKind; 4] =
    [ResourceKind::Unknown, ResourceKind::Buffer, ResourceKind::LinearImage, ResourceKind::OptimalImage];

/// A list of events in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct PackedEvents {
    // In chunks, since they grow while a pool is locked: to copy the events of a large state takes milliseconds.
    words: Chunks<u64>,
    /// Those that have no short form.
    others: Chunks<Event>,
    len: usize,
}

impl PackedEvents {
    pub(super) const fn new() -> Self {
        Self { words: Chunks::new(), others: Chunks::new(), len: 0 }
    }

    /// Returns how many events there are.
    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.others.clear();
        self.len = 0;
    }

    /// Adds an event.
    #[inline]
    pub(super) fn push(&mut self, event: Event) {
        match event {
            Event::Freed { allocation } => return self.push_freed(allocation),
            Event::Allocated(is) => return self.push_allocated(&is),
            _ => self.len += 1,
        }
        match event {
            Event::FreeRequested { allocation } if is_short(allocation) => {
                self.words.push(key_word(RELEASED, allocation));
            }
            Event::CallSite { allocation, site } if is_short(allocation) => {
                self.words.push_all([key_word(CALL_SITE, allocation), site.0.into()]);
            }
            Event::Activated { resource } if is_short(resource) => {
                self.words.push(key_word(ACTIVATED, resource));
            }
            Event::Unbound { resource } if is_short(resource) => {
                self.words.push(key_word(UNBOUND, resource));
            }
            Event::Displaced { resource, by } if is_short(resource) => {
                self.words.push_all([key_word(DISPLACED, resource), by.0]);
            }
            event => self.push_whole(event),
        }
    }

    fn push_whole(&mut self, event: Event) {
        self.words.push(OTHER);
        self.others.push(event);
    }

    /// Adds [`Event::Freed`].
    #[inline]
    pub(super) fn push_freed(&mut self, allocation: AllocationKey) {
        self.len += 1;
        if is_short(allocation) {
            self.words.push_all([key_word(FREED, allocation)]);
        } else {
            self.push_whole(Event::Freed { allocation });
        }
    }

    /// Adds [`Event::Allocated`].
    // Else each field of the description is stored before it is packed.
    #[inline(always)]
    pub(super) fn push_allocated(&mut self, is: &Allocated) {
        self.len += 1;
        // The block's id begins with its pool, as the allocation's does.
        if is_short(is.allocation) && is.allocation.0 >> 32 == is.block.0 >> 32 {
            self.pack_allocated(is);
        } else {
            self.push_whole(Event::Allocated(*is));
        }
    }

    #[inline(always)]
    fn pack_allocated(&mut self, is: &Allocated) {
        let (padded, texts) = (is.occupied != is.requested, !is.name.is_none() || !is.category.is_none());
        // Below 4 GiB, as nearly always.
        let wide = (is.offset | is.requested) >> 32 != 0;
        let bit = |holds: bool, at: u32| u64::from(holds) << at;
        let usage = is.usage.map_or(0, |usage| usage as u64 + 1);
        let kind = match is.kind {
            ResourceKind::Unknown => 0,
            ResourceKind::Buffer => 1,
            ResourceKind::LinearImage => 2,
            ResourceKind::OptimalImage => 3,
        };
        let shape = u64::from(is.block.0 as u32)
            | u64::from(is.alignment.log2()) << shape::ALIGNMENT
            | usage << shape::USAGE
            | kind << shape::KIND
            | u64::from(is.placement.code()) << shape::PLACEMENT
            | bit(is.second_choice, shape::SECOND_CHOICE)
            | bit(is.movable, shape::MOVABLE)
            | bit(padded, shape::PADDED)
            | bit(texts, shape::TEXTS)
            | bit(is.user_data != 0, shape::USER_DATA)
            | bit(wide, shape::WIDE);
        let key = key_word(ALLOCATED, is.allocation);
        // Once, so that the list checks its room once for most events.
        if wide {
            self.words.push_all([key, shape, is.offset, is.requested]);
        } else {
            self.words.push_all([key, shape, is.offset << 32 | is.requested]);
        }
        if padded {
            self.words.push(is.occupied);
        }
        if texts {
            self.words.push(u64::from(is.name.0) | u64::from(is.category.0) << 32);
        }
        if is.user_data != 0 {
            self.words.push(is.user_data);
        }
    }

    /// Begins a run of events, by whose number they are ordered among those of other lists.
    pub(super) fn push_run(&mut self, number: u64) {
        self.words.push(number << TAG_BITS | RUN);
    }

    /// Reads the events from the first one on.
    pub(super) fn unpacker(&self) -> Unpacker<impl Iterator<Item = u64>, impl Iterator<Item = Event>> {
        Unpacker { words: self.words.iter().copied(), others: self.others.iter().copied() }
    }
}

/// Reads packed events.
pub(super) struct Unpacker<W, O> {
    words: W,
    others: O,
}

impl<W: Iterator<Item = u64>, O: Iterator<Item = Event>> Unpacker<W, O> {
    /// Moves events to the end of a list, up to the next run. Returns its number; `None` at the end.
    pub(super) fn next_run(&mut self, events: &mut Vec<Event>) -> Option<u64> {
        let Self { words, others } = self;
        loop {
            let first = words.next()?;
            let allocation = key_of(first);
            // Each event was pushed with all of its words, so none is missing.
            let mut next = || words.next().unwrap_or(0);
            events.push(match first & ((1 << TAG_BITS) - 1) {
                RUN => return Some(first >> TAG_BITS),
                FREED => Event::Freed { allocation },
                RELEASED => Event::FreeRequested { allocation },
                CALL_SITE => Event::CallSite { allocation, site: TextId(next() as u32) },
                ACTIVATED => Event::Activated { resource: allocation },
                UNBOUND => Event::Unbound { resource: allocation },
                DISPLACED => Event::Displaced { resource: allocation, by: AllocationKey(next()) },
                ALLOCATED => Event::Allocated(unpack_allocated(allocation, next)),
                _ => others.next()?,
            });
        }
    }
}

fn unpack_allocated(allocation: AllocationKey, mut next: impl FnMut() -> u64) -> Allocated {
    let (shape, sizes) = (next(), next());
    let bits = |at: u32, count: u32| shape >> at & ((1 << count) - 1);
    let has = |at: u32| bits(at, 1) != 0;
    let (offset, requested) =
        if has(shape::WIDE) { (sizes, next()) } else { (sizes >> 32, sizes & u64::from(u32::MAX)) };
    let occupied = if has(shape::PADDED) { next() } else { requested };
    let texts = if has(shape::TEXTS) { next() } else { 0 };
    let user_data = if has(shape::USER_DATA) { next() } else { 0 };
    let usage = bits(shape::USAGE, 3).checked_sub(1);
    Allocated {
        allocation,
        block: BlockId(allocation.0 >> 32 << 32 | bits(0, 32)),
        offset,
        requested,
        occupied,
        user_data,
        name: TextId(texts as u32),
        category: TextId((texts >> 32) as u32),
        alignment: Alignment::new(1 << bits(shape::ALIGNMENT, 6)).unwrap_or(Alignment::ONE),
        usage: usage.and_then(|usage| MemoryUsage::ALL.get(usage as usize).copied()),
        kind: KINDS[bits(shape::KIND, 2) as usize],
        placement: Placement::from_code(bits(shape::PLACEMENT, 8) as u8).unwrap_or(Placement::Unknown),
        second_choice: has(shape::SECOND_CHOICE),
        movable: has(shape::MOVABLE),
    }
}

/// Returns true if an allocation's key fits beside a tag.
#[inline]
const fn is_short(allocation: AllocationKey) -> bool {
    allocation.0 >> (32 + POOL_BITS) == 0
}

#[inline]
const fn key_word(tag: u64, AllocationKey(key): AllocationKey) -> u64 {
    // The record first, so that the pool's unused bits make room for the tag.
    key << 32 | key >> 32 << TAG_BITS | tag
}

const fn key_of(word: u64) -> AllocationKey {
    AllocationKey(word as u32 as u64 >> TAG_BITS << 32 | word >> 32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::events::PoolId;

    fn events() -> impl Strategy<Value = Event> {
        let key = (any::<u32>(), 0..34_u32, any::<u32>());
        let key = key.prop_map(|(pool, shift, record)| {
            u64::from(pool.checked_shr(shift).unwrap_or(0)) << 32 | u64::from(record)
        });
        let numbers = (any::<[u64; 4]>(), any::<[u32; 3]>(), any::<[u8; 4]>(), any::<[bool; 5]>());
        (0..11_u8, key, numbers).prop_map(|(what, key, (a, b, c, flags))| {
            let allocation = AllocationKey(key);
            match what {
                0 => Event::Freed { allocation },
                1 => Event::FreeRequested { allocation },
                2 => Event::CallSite { allocation, site: TextId(b[0]) },
                3 => Event::PoolReset { pool: PoolId(b[0]) },
                4 => Event::Activated { resource: allocation },
                5 => Event::Unbound { resource: allocation },
                6 => Event::Displaced { resource: allocation, by: AllocationKey(a[0]) },
                _ => Event::Allocated(Allocated {
                    allocation,
                    // Of another tool the block need not be of the allocation's pool.
                    block: BlockId(if flags[4] { key >> 32 << 32 | u64::from(b[2]) } else { a[0] }),
                    // Small ones, too, which have one word together.
                    offset: a[1] >> (b[0] % 64),
                    requested: a[2] >> (b[1] % 64),
                    occupied: if flags[0] { a[2] >> (b[1] % 64) } else { a[3] },
                    user_data: if flags[1] { 0 } else { a[0] },
                    name: TextId(if flags[2] { 0 } else { b[0] }),
                    category: TextId(if flags[2] { 0 } else { b[1] }),
                    alignment: Alignment::new(1 << (c[0] % 49)).expect("a power of two up to 2^48"),
                    usage: MemoryUsage::ALL.get(usize::from(c[1] % 7)).copied(),
                    kind: KINDS[usize::from(c[2] % 4)],
                    placement: Placement::ALL[usize::from(c[3]) % Placement::ALL.len()],
                    second_choice: flags[3],
                    movable: flags[4],
                }),
            }
        })
    }

    proptest! {
        #[test]
        fn events_are_unpacked_as_they_were_pushed(
            batches in prop::collection::vec(prop::collection::vec(events(), 0..20), 0..4),
        ) {
            let (mut packed, mut unpacked) = (PackedEvents::new(), Vec::new());
            for events in &batches {
                events.iter().for_each(|event| packed.push(*event));
                prop_assert_eq!(packed.len(), events.len());
                prop_assert_eq!(packed.unpacker().next_run(&mut unpacked), None);
                packed.clear();
                prop_assert_eq!(packed.len(), 0);
            }
            prop_assert_eq!(unpacked, batches.concat());
        }
    }

    #[test]
    fn usual_events_are_a_few_words() {
        let mut packed = PackedEvents::new();
        let allocation = AllocationKey(7 << 32 | 3);
        packed.push(Event::Freed { allocation });
        assert_eq!((packed.words.len(), packed.others.len()), (1, 0));
        packed.push(Event::Allocated(Allocated {
            allocation,
            block: BlockId(7 << 32 | 1),
            offset: u64::from(u32::MAX),
            requested: 4096,
            occupied: 4096,
            user_data: 0,
            name: TextId::NONE,
            category: TextId::NONE,
            alignment: Alignment::ONE,
            usage: Some(MemoryUsage::GpuOnly),
            kind: ResourceKind::Buffer,
            placement: Placement::ReusedRange,
            second_choice: false,
            movable: true,
        }));
        assert_eq!((packed.words.len(), packed.others.len()), (4, 0));
    }
}
