//! Events from bytes. No bytes make it panic, and it allocates nothing.

use allotment::Alignment;
use allotment::device::{MemoryHeapIndex, MemoryTypeIndex, QueueIndex};
use allotment::events::{
    Allocated, AllocationKey, BlockId, BlockKind, DeletionQueueKind, DescriptorKind, Event, ObjectId,
    Placement, PoolId, RefusalReason, RingKind, StallKind, TextId,
};

use super::bytes::{Input, Wrong, unzigzag};
use super::codes;
use super::context::{Context, Place, Pool, SLOTS, Shape, flags};
use super::encode::units_up;
use super::{kind, sized};

/// Reads the records of one chunk.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    input: Input<'a>,
    context: Context,
}

/// A record of a chunk.
#[derive(Debug)]
pub(super) enum Record<'a> {
    Event(Event),
    /// Of a kind that is not an event's, as far as this reader knows.
    Other {
        kind: u8,
        payload: Input<'a>,
    },
}

impl<'a> Decoder<'a> {
    pub(super) fn new(input: Input<'a>) -> Self {
        Self { input, context: Context::new() }
    }

    /// Reads the next record. `None` at the end.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Record<'a>>, Wrong> {
        if self.input.is_empty() {
            return Ok(None);
        }
        let kind = self.input.byte()?;
        if !kind::has_no_length(kind) {
            let length = self.input.number()?;
            let payload = Input::new(self.input.take(length)?);
            return Ok(Some(match sized::read(kind, payload)? {
                Some(event) => Record::Event(event),
                None => Record::Other { kind, payload },
            }));
        }
        self.event(kind).map(|event| Some(Record::Event(event)))
    }

    fn event(&mut self, kind: u8) -> Result<Event, Wrong> {
        Ok(match kind {
            kind::ALLOCATED => Event::Allocated(self.allocated()?),
            kind::FREED => Event::Freed { allocation: self.allocation()? },
            kind::FREE_REQUESTED => Event::FreeRequested { allocation: self.allocation()? },
            kind::MAPPED => Event::Mapped { allocation: self.allocation()?, count: self.input.number32()? },
            kind::MOVABLE => {
                Event::Movable { allocation: self.allocation()?, movable: self.input.byte()? != 0 }
            }
            kind::CALL_SITE => Event::CallSite { allocation: self.allocation()?, site: self.text()? },
            kind::LABELLED => Event::Labelled {
                allocation: self.allocation()?,
                name: self.text()?,
                category: self.text()?,
                user_data: self.input.number()?,
            },
            kind::EXCHANGED => {
                Event::Exchanged { allocation: self.allocation()?, reservation: self.allocation()? }
            }
            kind::RESERVED => {
                Event::Reserved { reservation: self.allocation()?, allocation: self.allocation()? }
            }
            kind::TIME => {
                self.context.nanoseconds = self.input.difference(self.context.nanoseconds)?;
                Event::Time { nanoseconds: self.context.nanoseconds }
            }
            kind::FRAME_END => {
                let number = self.input.difference(self.context.frame)?;
                self.context.frame = number.wrapping_add(1);
                Event::FrameEnd { number }
            }
            kind::MARK => Event::Mark { text: self.text()? },
            kind::LOST => Event::Lost,
            kind::POOL_CREATED => Event::PoolCreated {
                pool: PoolId(self.input.number32()?),
                name: self.text()?,
                algorithm: codes::algorithm(self.input.byte()?),
                custom: self.input.byte()? != 0,
            },
            kind::POOL_DESTROYED => Event::PoolDestroyed { pool: PoolId(self.input.number32()?) },
            kind::BLOCK_ALLOCATED => Event::BlockAllocated {
                block: self.block()?,
                pool: PoolId(self.input.number32()?),
                memory_type: MemoryTypeIndex(self.input.byte()?),
                kind: BlockKind::from_code(self.input.byte()?).unwrap_or(BlockKind::Shared),
                size: self.input.number()?,
            },
            kind::BLOCK_SHARED => Event::BlockShared { block: self.block()? },
            kind::BLOCK_RESIZED => Event::BlockResized { block: self.block()?, size: self.input.number()? },
            kind::BLOCK_FREED => Event::BlockFreed { block: self.block()? },
            kind::BUDGET => {
                let heap = self.input.byte()?;
                let last = &mut self.context.budgets[usize::from(heap & 15)];
                *last = (self.input.difference(last.0)?, self.input.difference(last.1)?);
                Event::Budget { heap: MemoryHeapIndex(heap), usage: last.0, budget: last.1 }
            }
            kind::REFUSED => Event::Refused {
                reason: RefusalReason::from_code(self.input.byte()?).unwrap_or(RefusalReason::Other),
                requested: self.input.number()?,
                available: self.input.number()?,
                largest_free: self.input.number()?,
                name: self.text()?,
            },
            kind::STALLED => Event::Stalled {
                kind: StallKind::from_code(self.input.byte()?).unwrap_or(StallKind::DriverCall),
                nanoseconds: self.input.number()?,
            },
            kind::SUBMITTED => {
                let queue = self.input.byte()?;
                let last = &mut self.context.submitted[usize::from(queue & 15)];
                *last = self.input.difference(*last)?;
                Event::Submitted { queue: QueueIndex(queue), value: *last }
            }
            kind::COMPLETED => {
                let queue = self.input.byte()?;
                let last = &mut self.context.completed[usize::from(queue & 15)];
                *last = self.input.difference(*last)?;
                Event::Completed { queue: QueueIndex(queue), value: *last }
            }
            kind::DESCRIPTOR_HEAP_CREATED => Event::DescriptorHeapCreated {
                heap: self.object()?,
                kind: DescriptorKind::from_code(self.input.byte()?)
                    .unwrap_or(DescriptorKind::ShaderVisibleResources),
                capacity: self.input.number32()?,
                name: self.text()?,
            },
            kind::DESCRIPTOR_HEAP_DESTROYED => Event::DescriptorHeapDestroyed { heap: self.object()? },
            kind::DESCRIPTORS_ALLOCATED => Event::DescriptorsAllocated {
                heap: self.object()?,
                first: self.input.number32()?,
                count: self.input.number32()?,
            },
            kind::DESCRIPTORS_FREED => Event::DescriptorsFreed {
                heap: self.object()?,
                first: self.input.number32()?,
                count: self.input.number32()?,
            },
            kind::RING_CREATED => Event::RingCreated {
                ring: self.object()?,
                kind: RingKind::from_code(self.input.byte()?).unwrap_or(RingKind::Upload),
                capacity: self.input.number()?,
                name: self.text()?,
            },
            kind::RING_USED => Event::RingUsed { ring: self.object()?, used: self.input.number()? },
            kind::RING_DESTROYED => Event::RingDestroyed { ring: self.object()? },
            kind::DELETION_QUEUE => Event::DeletionQueue {
                queue: self.object()?,
                kind: DeletionQueueKind::from_code(self.input.byte()?)
                    .unwrap_or(DeletionQueueKind::Resources),
                waiting: self.input.number32()?,
            },
            _ => return Err("a record has a kind that is not an event's"),
        })
    }

    fn text(&mut self) -> Result<TextId, Wrong> {
        self.input.number32().map(TextId)
    }

    fn object(&mut self) -> Result<ObjectId, Wrong> {
        self.input.number32().map(ObjectId)
    }

    #[inline]
    fn allocation(&mut self) -> Result<AllocationKey, Wrong> {
        let first = self.input.number()?;
        let difference = if first & 1 == 0 {
            first >> 1
        } else {
            self.context.pool = self.pool(first >> 1)?;
            self.input.number()?
        };
        let pool = self.context.pools.get_mut(self.context.pool);
        let pool = pool.ok_or("an allocation names an empty slot of the pools")?;
        let lower = unzigzag(pool.lower.into(), difference);
        pool.lower =
            u32::try_from(lower).map_err(|_| "half of an allocation's number has more than 32 bits")?;
        Ok(AllocationKey(u64::from(pool.upper) << 32 | lower))
    }

    /// Reads the upper half of an allocation, whose code was read. Returns its slot.
    fn pool(&mut self, code: u64) -> Result<usize, Wrong> {
        if code == SLOTS as u64 {
            let upper = self.input.number32()?;
            return Ok(self.context.pools.add(Pool { upper, lower: 0 }));
        }
        usize::try_from(code).map_err(|_| "an allocation names an empty slot of the pools")
    }

    fn block(&mut self) -> Result<BlockId, Wrong> {
        self.context.block = self.input.difference(self.context.block)?;
        Ok(BlockId(self.context.block))
    }

    #[inline]
    fn allocated(&mut self) -> Result<Allocated, Wrong> {
        let allocation = self.allocation()?;
        let slot = self.block_slot()?;
        let shape = self.shape()?;
        let has = |flag| shape.flags & flag != 0;
        let log2 = shape.alignment.log2();
        let mut name = TextId::NONE;
        if has(flags::NAMED) {
            let id = self.input.difference(self.context.name)?;
            self.context.name = id;
            name = TextId(u32::try_from(id).map_err(|_| "a text's number has more than 32 bits")?);
        }
        let place =
            self.context.blocks.get_mut(slot).ok_or("an allocation names an empty slot of the blocks")?;
        let offset = if has(flags::OFFSET_IN_UNITS) {
            self.input.difference(units_up(place.end, log2))? << log2
        } else {
            self.input.difference(place.end)?
        };
        let unit = if has(flags::SIZE_IN_UNITS) { log2 } else { 0 };
        let requested = self.input.number()? << unit;
        let occupied = if has(flags::PADDED) { self.input.difference(requested)? } else { requested };
        place.end = offset.wrapping_add(occupied);
        Ok(Allocated {
            allocation,
            block: place.block,
            offset,
            requested,
            occupied,
            user_data: if has(flags::USER_DATA) { self.input.number()? } else { 0 },
            name,
            category: shape.category,
            alignment: shape.alignment,
            usage: shape.usage,
            kind: shape.kind,
            placement: shape.placement,
            second_choice: has(flags::SECOND_CHOICE),
            movable: has(flags::MOVABLE),
        })
    }

    #[inline]
    fn block_slot(&mut self) -> Result<usize, Wrong> {
        let slot = usize::from(self.input.byte()?);
        if slot != SLOTS {
            return Ok(slot);
        }
        let block = self.block()?;
        Ok(self.context.blocks.add(Place { block, end: 0 }))
    }

    #[inline]
    fn shape(&mut self) -> Result<Shape, Wrong> {
        let slot = usize::from(self.input.byte()?);
        if slot == SLOTS {
            return self.new_shape();
        }
        self.context.shapes.get(slot).copied().ok_or("an allocation names an empty slot of the shapes")
    }

    fn new_shape(&mut self) -> Result<Shape, Wrong> {
        let alignment = 1_u64.checked_shl(self.input.byte()?.into()).unwrap_or(0);
        let alignment = Alignment::new(alignment).map_err(|_| "an alignment is above 2^48")?;
        let codes = self.input.byte()?;
        let (usage, kind) = (codes::usage(codes & 15), codes::resource(codes >> 4));
        let placement = Placement::from_code(self.input.byte()?).unwrap_or(Placement::Unknown);
        let flags = self.input.byte()?;
        if flags & !flags::ALL != 0 {
            return Err("an allocation has flags of another version");
        }
        let shape = Shape { alignment, usage, kind, placement, flags, category: self.text()? };
        self.context.shapes.add(shape);
        Ok(shape)
    }
}
