//! What the events led to, as lives: of each block, of each range that an allocation had, of each pool and heap.
//!
//! Moments are counts of events: at moment `t` the first `t` events have happened. A life `from..to` exists at the
//! moments `from <= t < to`; `to` is [`NEVER`] where it exists at the end.
//!
//! An allocation that defragmentation moves has one life for each range that it had; each names the one before.

use std::collections::{BTreeMap, HashMap};

use allotment_trace::recording::{
    Allocated, AllocationKey, BlockId, BlockKind, DeletionQueueKind, DescriptorKind, Event, ObjectId, PoolId,
    RefusalReason, RingKind, StackId, StallKind, TextId,
};

/// The end of what exists at the end.
pub(crate) const NEVER: u64 = u64::MAX;

/// A pool, from its creation to its destruction.
pub(crate) struct PoolLife {
    pub(crate) algorithm: Option<allotment::Algorithm>,
    pub(crate) custom: bool,
}

/// A block, from when its pool got it to when it left the pool.
pub(crate) struct BlockLife {
    pub(crate) id: BlockId,
    /// The index of its pool's life; `None` where no event created the pool.
    pub(crate) pool: Option<usize>,
    pub(crate) memory_type: u8,
    /// What it was for in the end.
    pub(crate) kind: BlockKind,
    /// Bytes that it was allocated with; see [`Lives::resizes`].
    pub(crate) size: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Two of its allocations had bytes in common at some moment.
    pub(crate) aliased: bool,
}

/// A range of a block, for as long as one allocation had it.
pub(crate) struct RangeLife {
    pub(crate) block: u32,
    /// What the allocation is, with its last name and category.
    pub(crate) is: Allocated,
    pub(crate) call_site: TextId,
    pub(crate) stack: StackId,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// From when on the GPU alone needed it; 0 if the free was not deferred.
    pub(crate) pending_from: u64,
    /// The index of the range that the allocation had before, plus 1; 0 if none.
    pub(crate) before: u32,
    pub(crate) mapped: bool,
    /// From when on it was the destination or the old range of a move, and no allocation of the program's; 0 if never.
    pub(crate) reserved_from: u64,
}

/// A descriptor heap, a ring or a deletion queue.
pub(crate) struct ObjectLife<Kind> {
    pub(crate) kind: Kind,
    pub(crate) name: TextId,
    pub(crate) capacity: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// Slots of a descriptor heap.
pub(crate) struct SlotsLife {
    /// The index of the heap's life.
    pub(crate) heap: usize,
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// A value that changed.
pub(crate) struct Sample {
    pub(crate) at: u64,
    /// The index of the life, or the number of the heap or queue.
    pub(crate) of: u64,
    pub(crate) values: [u64; 2],
}

/// A refused request.
pub(crate) struct Refusal {
    pub(crate) at: u64,
    pub(crate) reason: RefusalReason,
    pub(crate) requested: u64,
    pub(crate) available: u64,
    pub(crate) largest_free: u64,
    pub(crate) name: TextId,
}

/// Everything that the page shows.
#[derive(Default)]
pub(crate) struct Lives {
    /// How many events there were.
    pub(crate) events: u64,
    pub(crate) pools: Vec<PoolLife>,
    pub(crate) blocks: Vec<BlockLife>,
    /// The index of a block's life, and the bytes that it had from there on.
    pub(crate) resizes: Vec<Sample>,
    pub(crate) ranges: Vec<RangeLife>,
    pub(crate) heaps: Vec<ObjectLife<DescriptorKind>>,
    pub(crate) slots: Vec<SlotsLife>,
    pub(crate) rings: Vec<ObjectLife<RingKind>>,
    pub(crate) ring_samples: Vec<Sample>,
    pub(crate) queues: Vec<ObjectLife<DeletionQueueKind>>,
    pub(crate) queue_samples: Vec<Sample>,
    pub(crate) budgets: Vec<Sample>,
    /// Moments, and how many frames of the program had ended then.
    pub(crate) frames: Vec<(u64, u64)>,
    /// Moments and nanoseconds.
    pub(crate) times: Vec<(u64, u64)>,
    pub(crate) marks: Vec<(u64, TextId)>,
    pub(crate) refusals: Vec<Refusal>,
    pub(crate) stalls: Vec<(u64, StallKind, u64)>,
    pub(crate) losses: Vec<u64>,
    open: Open,
}

/// The lives that have not ended: their indices.
#[derive(Default)]
struct Open {
    pools: HashMap<PoolId, usize>,
    blocks: HashMap<BlockId, usize>,
    /// Of each block that has not been aliased: the bytes that allocations have, the end by the beginning.
    taken: Vec<BTreeMap<u64, u64>>,
    ranges: HashMap<AllocationKey, usize>,
    heaps: HashMap<ObjectId, usize>,
    slots: HashMap<(usize, u32), usize>,
    rings: HashMap<ObjectId, usize>,
    queues: HashMap<ObjectId, usize>,
}

impl Lives {
    /// Notes an event that the model ([`State`](allotment_trace::recording::State)) accepted; `frame` frames have ended
    /// then.
    pub(crate) fn accepted(&mut self, event: &Event, frame: u64) {
        self.events += 1;
        let now = self.events;
        match *event {
            Event::Time { nanoseconds } => self.times.push((now, nanoseconds)),
            Event::FrameEnd { .. } => self.frames.push((now, frame)),
            Event::Mark { text } => self.marks.push((now, text)),
            Event::Lost => self.lost(now),
            Event::PoolCreated { pool, algorithm, custom, .. } => {
                self.open.pools.insert(pool, self.pools.len());
                self.pools.push(PoolLife { algorithm, custom });
            }
            Event::PoolDestroyed { pool } => drop(self.open.pools.remove(&pool)),
            Event::BlockAllocated { block, pool, memory_type, kind, size } => {
                let pool = self.open.pools.get(&pool).copied();
                self.open.blocks.insert(block, self.blocks.len());
                let memory_type = memory_type.0;
                self.blocks.push(BlockLife {
                    id: block,
                    pool,
                    memory_type,
                    kind,
                    size,
                    from: now,
                    to: NEVER,
                    aliased: false,
                });
                self.open.taken.push(BTreeMap::new());
            }
            Event::BlockFreed { block } => {
                if let Some(index) = self.open.blocks.remove(&block) {
                    self.blocks[index].to = now;
                    self.open.taken[index] = BTreeMap::new();
                }
            }
            Event::BlockShared { block } => {
                if let Some(&index) = self.open.blocks.get(&block) {
                    self.blocks[index].kind = BlockKind::Shared;
                }
            }
            Event::BlockResized { block, size } => {
                if let Some(&index) = self.open.blocks.get(&block) {
                    self.resizes.push(Sample { at: now, of: index as u64, values: [size, 0] });
                }
            }
            Event::Allocated(is) => self.allocated(is, now),
            Event::CallSite { allocation, site } => self.change(allocation, |range| range.call_site = site),
            Event::Stack { allocation, stack } => self.change(allocation, |range| range.stack = stack),
            Event::Labelled { allocation, name, category, user_data } => self.change(allocation, |range| {
                (range.is.name, range.is.category, range.is.user_data) = (name, category, user_data);
            }),
            Event::FreeRequested { allocation } => self.change(allocation, |range| {
                if range.pending_from == 0 {
                    range.pending_from = now;
                }
            }),
            Event::Freed { allocation } => {
                if let Some(index) = self.open.ranges.remove(&allocation) {
                    let range = &mut self.ranges[index];
                    range.to = now;
                    if range.is.occupied > 0 {
                        self.open.taken[range.block as usize].remove(&range.is.offset);
                    }
                }
            }
            Event::Exchanged { allocation, reservation } => self.exchanged(allocation, reservation, now),
            Event::Reserved { reservation, .. } => self.change(reservation, |range| {
                if range.reserved_from == 0 {
                    range.reserved_from = now;
                }
            }),
            Event::Movable { allocation, movable } => {
                self.change(allocation, |range| range.is.movable = movable);
            }
            Event::Mapped { allocation, count } => self.change(allocation, |range| range.mapped |= count > 0),
            Event::Budget { heap, usage, budget } => {
                self.budgets.push(Sample { at: now, of: heap.0.into(), values: [usage, budget] });
            }
            Event::Refused { reason, requested, available, largest_free, name } => {
                self.refusals.push(Refusal { at: now, reason, requested, available, largest_free, name });
            }
            Event::Stalled { kind, nanoseconds } => self.stalls.push((now, kind, nanoseconds)),
            _ => self.other(event, now),
        }
    }

    /// Counts an event that the model refused, and that changed nothing.
    pub(crate) fn contradicted(&mut self) {
        self.events += 1;
    }

    /// Notes an event of descriptor heaps, rings and deletion queues.
    fn other(&mut self, event: &Event, now: u64) {
        match *event {
            Event::DescriptorHeapCreated { heap, kind, capacity, name } => {
                self.open.heaps.insert(heap, self.heaps.len());
                self.heaps.push(ObjectLife { kind, name, capacity: capacity.into(), from: now, to: NEVER });
            }
            Event::DescriptorHeapDestroyed { heap } => {
                if let Some(index) = self.open.heaps.remove(&heap) {
                    self.heaps[index].to = now;
                    self.open.slots.retain(|&(of, _), slots| {
                        if of == index {
                            self.slots[*slots].to = now;
                        }
                        of != index
                    });
                }
            }
            Event::DescriptorsAllocated { heap, first, count } => {
                if let Some(&heap) = self.open.heaps.get(&heap) {
                    let index = self.slots.len();
                    self.slots.push(SlotsLife { heap, first, count, from: now, to: NEVER });
                    if let Some(overwritten) = self.open.slots.insert((heap, first), index) {
                        self.slots[overwritten].to = now;
                    }
                }
            }
            Event::DescriptorsFreed { heap, first, .. } => {
                let heap = self.open.heaps.get(&heap).copied();
                if let Some(index) = heap.and_then(|heap| self.open.slots.remove(&(heap, first))) {
                    self.slots[index].to = now;
                }
            }
            Event::RingCreated { ring, kind, capacity, name } => {
                let new = ObjectLife { kind, name, capacity, from: now, to: NEVER };
                if let Some(smaller) = self.open.rings.insert(ring, self.rings.len()) {
                    self.rings[smaller].to = now;
                }
                self.rings.push(new);
            }
            Event::RingUsed { ring, used } => {
                if let Some(&index) = self.open.rings.get(&ring) {
                    self.ring_samples.push(Sample { at: now, of: index as u64, values: [used, 0] });
                }
            }
            Event::RingDestroyed { ring } => {
                if let Some(index) = self.open.rings.remove(&ring) {
                    self.rings[index].to = now;
                }
            }
            Event::DeletionQueue { queue, kind, waiting } => {
                let index = *self.open.queues.entry(queue).or_insert_with(|| {
                    let name = TextId::NONE;
                    self.queues.push(ObjectLife { kind, name, capacity: 0, from: now, to: NEVER });
                    self.queues.len() - 1
                });
                self.queue_samples.push(Sample { at: now, of: index as u64, values: [waiting.into(), 0] });
            }
            _ => {}
        }
    }

    fn allocated(&mut self, is: Allocated, now: u64) {
        let Some(&block) = self.open.blocks.get(&is.block) else { return };
        let (taken, end) = (&mut self.open.taken[block], is.offset.saturating_add(is.occupied));
        if is.occupied > 0 && !self.blocks[block].aliased {
            // As long as no two overlap, a new one can only overlap the last that begins before its end.
            if taken.range(..end).next_back().is_some_and(|(_, &last)| last > is.offset) {
                self.blocks[block].aliased = true;
                taken.clear();
            } else {
                taken.insert(is.offset, end);
            }
        }
        self.open.ranges.insert(is.allocation, self.ranges.len());
        self.ranges.push(RangeLife {
            block: block as u32,
            is,
            call_site: TextId::NONE,
            stack: StackId::NONE,
            from: now,
            to: NEVER,
            pending_from: 0,
            before: 0,
            mapped: false,
            reserved_from: 0,
        });
    }

    /// Two allocations exchange their ranges: both lives end, and two begin.
    fn exchanged(&mut self, one: AllocationKey, other: AllocationKey, now: u64) {
        let (Some(&a), Some(&b)) = (self.open.ranges.get(&one), self.open.ranges.get(&other)) else { return };
        if a == b {
            return;
        }
        for (key, from, to) in [(one, a, b), (other, b, a)] {
            let (was, will) = (&self.ranges[from], &self.ranges[to]);
            let (block, offset, occupied) = (will.is.block, will.is.offset, will.is.occupied);
            let new = RangeLife {
                block: will.block,
                is: Allocated { block, offset, occupied, ..was.is },
                from: now,
                before: from as u32 + 1,
                ..*was
            };
            self.open.ranges.insert(key, self.ranges.len());
            self.ranges.push(new);
        }
        self.ranges[a].to = now;
        self.ranges[b].to = now;
    }

    /// Events were lost: what is known of memory ends here, and the whole state follows.
    fn lost(&mut self, now: u64) {
        self.losses.push(now);
        self.open.pools.clear();
        for (_, index) in self.open.ranges.drain() {
            self.ranges[index].to = now;
        }
        for (_, index) in self.open.blocks.drain() {
            self.blocks[index].to = now;
            self.open.taken[index] = BTreeMap::new();
        }
        for (_, index) in self.open.heaps.drain() {
            self.heaps[index].to = now;
        }
        for (_, index) in self.open.slots.drain() {
            self.slots[index].to = now;
        }
    }

    fn change(&mut self, allocation: AllocationKey, change: impl FnOnce(&mut RangeLife)) {
        if let Some(&index) = self.open.ranges.get(&allocation) {
            change(&mut self.ranges[index]);
        }
    }

    /// Puts the ranges into the order in which the page draws them: by block, offset, and time.
    pub(crate) fn sort_ranges(&mut self) {
        let count = self.ranges.len();
        let mut order: Vec<u32> = (0..count as u32).collect();
        order.sort_unstable_by_key(|&i| {
            let range = &self.ranges[i as usize];
            (range.block, range.is.offset, range.from)
        });
        let mut place = vec![0; count];
        for (new, &old) in order.iter().enumerate() {
            place[old as usize] = new as u32;
        }
        for range in &mut self.ranges {
            if range.before > 0 {
                range.before = place[range.before as usize - 1] + 1;
            }
        }
        self.ranges.sort_unstable_by_key(|range| (range.block, range.is.offset, range.from));
    }
}
