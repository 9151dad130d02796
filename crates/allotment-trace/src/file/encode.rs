//! Events as bytes.

use allotment::events::{Allocated, Event, TextId};

use super::bytes::{put_difference, put_number, zigzag};
use super::codes;
use super::context::{Context, Place, Pool, SLOTS, Shape, flags};
use super::{kind, sized};

/// Writes the records of one chunk after another.
#[derive(Debug)]
pub(super) struct Encoder {
    /// The records of the chunk.
    pub(super) out: Vec<u8>,
    context: Context,
    /// The record that is being written, if it has its length.
    payload: Vec<u8>,
    /// Where in the tables a value may be, by its hash: a guess that saves a search, and costs bytes where it is wrong.
    pool_guesses: [u8; 256],
    block_guesses: [u8; 256],
    shape_guesses: [u8; 256],
}

impl Encoder {
    pub(super) fn new() -> Self {
        Self {
            out: Vec::new(),
            context: Context::new(),
            payload: Vec::new(),
            pool_guesses: [0; 256],
            block_guesses: [0; 256],
            shape_guesses: [0; 256],
        }
    }

    /// Begins a chunk.
    pub(super) fn begin(&mut self) {
        self.out.clear();
        self.context = Context::new();
    }

    /// Appends a record of a kind that only its own readers know: its length, and its bytes.
    pub(super) fn other(&mut self, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
        let mut payload = Vec::new();
        write(&mut payload);
        self.out.push(kind);
        put_number(&mut self.out, payload.len() as u64);
        self.out.extend_from_slice(&payload);
    }

    /// Appends an event. Returns false for an event that the format does not have.
    pub(super) fn event(&mut self, event: &Event) -> bool {
        match *event {
            Event::Allocated(ref allocated) => self.allocated(allocated),
            Event::Freed { allocation } => self.allocation(kind::FREED, allocation.0),
            Event::FreeRequested { allocation } => self.allocation(kind::FREE_REQUESTED, allocation.0),
            Event::Mapped { allocation, count } => {
                self.allocation(kind::MAPPED, allocation.0);
                put_number(&mut self.out, count.into());
            }
            Event::Movable { allocation, movable } => {
                self.allocation(kind::MOVABLE, allocation.0);
                self.out.push(movable.into());
            }
            Event::CallSite { allocation, site } => {
                self.allocation(kind::CALL_SITE, allocation.0);
                self.text(site);
            }
            Event::Labelled { allocation, name, category, user_data } => {
                self.allocation(kind::LABELLED, allocation.0);
                self.text(name);
                self.text(category);
                put_number(&mut self.out, user_data);
            }
            Event::Exchanged { allocation, reservation } => {
                self.allocation(kind::EXCHANGED, allocation.0);
                self.another(reservation.0);
            }
            Event::Reserved { reservation, allocation } => {
                self.allocation(kind::RESERVED, reservation.0);
                self.another(allocation.0);
            }
            Event::Time { nanoseconds } => {
                self.out.push(kind::TIME);
                put_difference(&mut self.out, self.context.nanoseconds, nanoseconds);
                self.context.nanoseconds = nanoseconds;
            }
            Event::FrameEnd { number } => {
                self.out.push(kind::FRAME_END);
                put_difference(&mut self.out, self.context.frame, number);
                self.context.frame = number.wrapping_add(1);
            }
            Event::Mark { text } => self.texts(kind::MARK, text),
            Event::Lost => self.out.push(kind::LOST),
            Event::PoolCreated { pool, name, algorithm, custom } => {
                self.numbers(kind::POOL_CREATED, [pool.0.into()]);
                self.text(name);
                self.out.extend([codes::of_algorithm(algorithm), custom.into()]);
            }
            Event::PoolDestroyed { pool } => self.numbers(kind::POOL_DESTROYED, [pool.0.into()]),
            Event::BlockAllocated { block, pool, memory_type, kind, size } => {
                self.block(kind::BLOCK_ALLOCATED, block.0);
                put_number(&mut self.out, pool.0.into());
                self.out.extend([memory_type.0, kind.code()]);
                put_number(&mut self.out, size);
            }
            Event::BlockShared { block } => self.block(kind::BLOCK_SHARED, block.0),
            Event::BlockResized { block, size } => {
                self.block(kind::BLOCK_RESIZED, block.0);
                put_number(&mut self.out, size);
            }
            Event::BlockFreed { block } => self.block(kind::BLOCK_FREED, block.0),
            Event::Budget { heap, usage, budget } => {
                self.out.extend([kind::BUDGET, heap.0]);
                let last = &mut self.context.budgets[usize::from(heap.0 & 15)];
                put_difference(&mut self.out, last.0, usage);
                put_difference(&mut self.out, last.1, budget);
                *last = (usage, budget);
            }
            Event::Refused { reason, requested, available, largest_free, name } => {
                self.out.extend([kind::REFUSED, reason.code()]);
                for number in [requested, available, largest_free, name.0.into()] {
                    put_number(&mut self.out, number);
                }
            }
            Event::Stalled { kind, nanoseconds } => {
                self.out.extend([kind::STALLED, kind.code()]);
                put_number(&mut self.out, nanoseconds);
            }
            Event::Submitted { queue, value } => {
                self.out.extend([kind::SUBMITTED, queue.0]);
                let last = &mut self.context.submitted[usize::from(queue.0 & 15)];
                put_difference(&mut self.out, *last, value);
                *last = value;
            }
            Event::Completed { queue, value } => {
                self.out.extend([kind::COMPLETED, queue.0]);
                let last = &mut self.context.completed[usize::from(queue.0 & 15)];
                put_difference(&mut self.out, *last, value);
                *last = value;
            }
            Event::DescriptorHeapCreated { heap, kind, capacity, name } => {
                self.numbers(kind::DESCRIPTOR_HEAP_CREATED, [heap.0.into()]);
                self.out.push(kind.code());
                put_number(&mut self.out, capacity.into());
                self.text(name);
            }
            Event::DescriptorHeapDestroyed { heap } => {
                self.numbers(kind::DESCRIPTOR_HEAP_DESTROYED, [heap.0.into()]);
            }
            Event::DescriptorsAllocated { heap, first, count } => {
                self.numbers(kind::DESCRIPTORS_ALLOCATED, [heap.0.into(), first.into(), count.into()]);
            }
            Event::DescriptorsFreed { heap, first, count } => {
                self.numbers(kind::DESCRIPTORS_FREED, [heap.0.into(), first.into(), count.into()]);
            }
            Event::RingCreated { ring, kind, capacity, name } => {
                self.numbers(kind::RING_CREATED, [ring.0.into()]);
                self.out.push(kind.code());
                put_number(&mut self.out, capacity);
                self.text(name);
            }
            Event::RingUsed { ring, used } => self.numbers(kind::RING_USED, [ring.0.into(), used]),
            Event::RingDestroyed { ring } => self.numbers(kind::RING_DESTROYED, [ring.0.into()]),
            Event::DeletionQueue { queue, kind, waiting } => {
                self.numbers(kind::DELETION_QUEUE, [queue.0.into()]);
                self.out.push(kind.code());
                put_number(&mut self.out, waiting.into());
            }
            _ => return self.sized(event),
        }
        true
    }

    /// Appends an event whose record has its length.
    fn sized(&mut self, event: &Event) -> bool {
        let mut payload = core::mem::take(&mut self.payload);
        payload.clear();
        let kind = sized::put(event, &mut payload);
        if let Some(kind) = kind {
            self.out.push(kind);
            put_number(&mut self.out, payload.len() as u64);
            self.out.extend_from_slice(&payload);
        }
        self.payload = payload;
        kind.is_some()
    }

    fn numbers<const N: usize>(&mut self, kind: u8, numbers: [u64; N]) {
        self.out.push(kind);
        for number in numbers {
            put_number(&mut self.out, number);
        }
    }

    fn text(&mut self, text: TextId) {
        put_number(&mut self.out, text.0.into());
    }

    fn texts(&mut self, kind: u8, text: TextId) {
        self.out.push(kind);
        self.text(text);
    }

    #[inline]
    fn allocation(&mut self, kind: u8, allocation: u64) {
        self.out.push(kind);
        self.another(allocation);
    }

    #[inline]
    fn another(&mut self, allocation: u64) {
        let (upper, lower) = ((allocation >> 32) as u32, allocation as u32);
        let mut slot = self.context.pool;
        if self.context.pools.get(slot).is_none_or(|pool| pool.upper != upper) {
            slot = self.pool(upper);
        }
        if let Some(pool) = self.context.pools.get_mut(slot) {
            let difference = zigzag(pool.lower.into(), lower.into());
            // An odd number is a slot, and the difference follows.
            put_number(&mut self.out, if slot == self.context.pool { difference << 1 } else { difference });
            pool.lower = lower;
        }
        self.context.pool = slot;
    }

    /// Writes the upper half of an allocation that is another than the last one's. Returns its slot.
    fn pool(&mut self, upper: u32) -> usize {
        let guess = &mut self.pool_guesses[hash(upper.into())];
        let slot = usize::from(*guess);
        if self.context.pools.get(slot).is_some_and(|pool| pool.upper == upper) {
            put_number(&mut self.out, (slot as u64) << 1 | 1);
            return slot;
        }
        let slot = self.context.pools.add(Pool { upper, lower: 0 });
        *guess = slot as u8;
        put_number(&mut self.out, (SLOTS as u64) << 1 | 1);
        put_number(&mut self.out, upper.into());
        if slot == self.context.pool {
            // It has another value now: the difference has no bit for a slot.
            self.context.pool = SLOTS;
        }
        slot
    }

    fn block(&mut self, kind: u8, block: u64) {
        self.out.push(kind);
        self.block_itself(block);
    }

    fn block_itself(&mut self, block: u64) {
        put_difference(&mut self.out, self.context.block, block);
        self.context.block = block;
    }

    fn allocated(&mut self, is: &Allocated) {
        self.allocation(kind::ALLOCATED, is.allocation.0);
        let slot = self.block_slot(is);
        self.shape(is);
        let log2 = is.alignment.log2();
        let shape = shape_of(is);
        if shape.flags & flags::NAMED != 0 {
            put_difference(&mut self.out, self.context.name, is.name.0.into());
            self.context.name = is.name.0.into();
        }
        if let Some(place) = self.context.blocks.get_mut(slot) {
            if shape.flags & flags::OFFSET_IN_UNITS != 0 {
                put_difference(&mut self.out, units_up(place.end, log2), is.offset >> log2);
            } else {
                put_difference(&mut self.out, place.end, is.offset);
            }
            place.end = is.offset.wrapping_add(is.occupied);
        }
        let unit = if shape.flags & flags::SIZE_IN_UNITS == 0 { 0 } else { log2 };
        put_number(&mut self.out, is.requested >> unit);
        if shape.flags & flags::PADDED != 0 {
            put_difference(&mut self.out, is.requested, is.occupied);
        }
        if shape.flags & flags::USER_DATA != 0 {
            put_number(&mut self.out, is.user_data);
        }
    }

    /// Writes the block of an allocation. Returns its slot.
    fn block_slot(&mut self, is: &Allocated) -> usize {
        let guess = &mut self.block_guesses[hash(is.block.0)];
        let slot = usize::from(*guess);
        if self.context.blocks.get(slot).is_some_and(|place| place.block == is.block) {
            self.out.push(*guess);
            return slot;
        }
        let slot = self.context.blocks.add(Place { block: is.block, end: 0 });
        *guess = slot as u8;
        self.out.push(SLOTS as u8);
        self.block_itself(is.block.0);
        slot
    }

    fn shape(&mut self, is: &Allocated) {
        let shape = shape_of(is);
        let (usage, kind) = (codes::of_usage(shape.usage), codes::of_resource(shape.kind));
        let bytes = [is.alignment.log2() as u8, usage | kind << 4, shape.placement.code(), shape.flags];
        let number = u64::from(u32::from_le_bytes(bytes)) | u64::from(shape.category.0) << 32;
        let guess = &mut self.shape_guesses[hash(number)];
        if self.context.shapes.get(usize::from(*guess)).is_some_and(|&known| known == shape) {
            self.out.push(*guess);
            return;
        }
        *guess = self.context.shapes.add(shape) as u8;
        self.out.push(SLOTS as u8);
        self.out.extend(bytes);
        self.text(shape.category);
    }
}

/// Returns what an allocation has in common with others.
#[inline]
fn shape_of(is: &Allocated) -> Shape {
    let set = |flag, holds| if holds { flag } else { 0 };
    let flags = set(flags::SECOND_CHOICE, is.second_choice)
        | set(flags::MOVABLE, is.movable)
        | set(flags::NAMED, !is.name.is_none())
        | set(flags::USER_DATA, is.user_data != 0)
        | set(flags::PADDED, is.occupied != is.requested)
        | set(flags::SIZE_IN_UNITS, is.alignment.is_aligned(is.requested))
        | set(flags::OFFSET_IN_UNITS, is.alignment.is_aligned(is.offset));
    let Allocated { alignment, usage, kind, placement, category, .. } = *is;
    Shape { alignment, usage, kind, placement, flags, category }
}

/// Returns how many units of `1 << log2` bytes reach `end`.
#[inline]
pub(super) const fn units_up(end: u64, log2: u32) -> u64 {
    let whole = end >> log2;
    if whole << log2 == end { whole } else { whole + 1 }
}

/// Returns eight bits of a number that differ where the number does: the top ones of a product, which depend on all.
#[inline]
const fn hash(number: u64) -> usize {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}
