//! The recording that is being made: events of the allocator, with what else the original says between them.

use std::collections::HashMap;

use allotment::device::MemoryHeapIndex;
use allotment::events::EventBatch;
use allotment_trace::recording::{
    Allocated, AllocationKey, BlockId, Event, MemoryType, Recording, TextNumbers,
};

/// Bytes of blocks by heap, as one side's events say.
#[derive(Debug, Default)]
pub(super) struct BlockBytesByHeap {
    blocks: HashMap<BlockId, (u8, u64)>,
    heaps: HashMap<u8, u64>,
}

impl BlockBytesByHeap {
    pub(super) fn apply(&mut self, event: &Event, types: &[MemoryType]) {
        match *event {
            Event::BlockAllocated { block, memory_type, size, .. } => {
                let heap = types.get(memory_type.get()).map_or(0, |known| known.heap);
                self.free(block);
                self.blocks.insert(block, (heap, size));
                let bytes = self.heaps.entry(heap).or_default();
                *bytes = bytes.saturating_add(size);
            }
            Event::BlockFreed { block } => self.free(block),
            _ => {}
        }
    }

    fn free(&mut self, block: BlockId) {
        if let Some((heap, size)) = self.blocks.remove(&block) {
            let bytes = self.heaps.entry(heap).or_default();
            *bytes = bytes.saturating_sub(size);
        }
    }

    pub(super) fn of(&self, heap: MemoryHeapIndex) -> u64 {
        self.heaps.get(&heap.0).copied().unwrap_or(0)
    }
}

/// The recording that is being made.
#[derive(Debug)]
pub(super) struct Story<'a> {
    original: &'a Recording,
    made: Recording,
    /// Of the allocator's texts, which come after those of the original.
    numbers: TextNumbers,
    pub(super) bytes: BlockBytesByHeap,
}

impl<'a> Story<'a> {
    pub(super) fn new(original: &'a Recording) -> Self {
        let (header, texts, unread) =
            (original.header.clone(), original.texts.clone(), original.unread.clone());
        let (events, stacks) = (Vec::with_capacity(original.events.len()), original.stacks.clone());
        let made = Recording { header, texts, events, unread, stacks };
        Self { original, made, numbers: TextNumbers::default(), bytes: BlockBytesByHeap::default() }
    }

    pub(super) fn into_recording(self, settings: Vec<(String, String)>) -> Recording {
        let mut made = self.made;
        made.header.settings = settings;
        made
    }

    /// Adds an event of the allocator. Of an allocation, the number says which event of the original it stands for.
    pub(super) fn add(&mut self, event: &Event, batch: &EventBatch) {
        self.bytes.apply(event, &self.original.header.memory_types);
        let event = match *event {
            Event::Allocated(is) => Event::Allocated(self.with_original_texts(is)),
            ref event => self.numbers.renumber(event, batch, &mut self.made.texts),
        };
        self.made.events.push(event);
    }

    /// Adds an event of the original that is about an allocation, which may have another key here.
    pub(super) fn copy_for(&mut self, event: &Event, allocation: AllocationKey) {
        self.made.events.push(match *event {
            Event::FreeRequested { .. } => Event::FreeRequested { allocation },
            Event::CallSite { site, .. } => Event::CallSite { allocation, site },
            Event::Stack { stack, .. } => Event::Stack { allocation, stack },
            Event::Mapped { count, .. } => Event::Mapped { allocation, count },
            Event::Movable { movable, .. } => Event::Movable { allocation, movable },
            Event::Labelled { name, category, user_data, .. } => {
                Event::Labelled { allocation, name, category, user_data }
            }
            ref event => *event,
        });
    }

    /// Adds an event of the original as it is.
    pub(super) fn copy(&mut self, event: &Event) {
        self.made.events.push(*event);
    }

    fn with_original_texts(&self, is: Allocated) -> Allocated {
        match event_of(is.user_data).and_then(|event| self.original.events.get(event)) {
            Some(Event::Allocated(was)) => {
                Allocated {
                    user_data: was.user_data,
                    name: was.name,
                    category: was.category,
                    // It was made of the memory type that the original got in the end.
                    second_choice: was.second_choice,
                    // Pinned until its resource is bound, in a pool of movable ones.
                    movable: was.movable,
                    ..is
                }
            }
            _ => is,
        }
    }
}

/// The number by which a request says which event of the original it stands for.
pub(super) const fn user_data_of(event: usize) -> u64 {
    event as u64 + 1
}

/// Returns the event of such a number.
pub(super) fn event_of(user_data: u64) -> Option<usize> {
    usize::try_from(user_data.checked_sub(1)?).ok()
}
