//! The events of descriptor heaps: a heap of the driver each, and the ranges of descriptors that are in use there.
//!
//! ```text
//!   the driver's heap     │ slots │ tables │ chunks │      written under the lock of
//!   ├── HeapEvents        │       │        │ ▓▓ ▓   │      the chunks of one generation: the heap itself, and its chunks
//!   ├── RegionEvents      │ ▓▓ ▓  │        │        │      the slots, which move to the heap that replaces this one
//!   └── RegionEvents      │       │ ▓▓ ▓   │        │      the tables, which move too
//! ```
//!
//! A shader-visible heap that grows or is compacted becomes another heap of the driver, with another id. Its slots and
//! tables are freed in the old one and allocated in the new one; the chunks of recordings that began before stay in the
//! old one, which is destroyed once the last of them has completed. Pages of CPU descriptor heaps are heaps of the driver
//! as well; their events are in [`cpu_heap`](super::cpu_heap).
//!
//! # Invariants
//!
//! - What the reader knows of a range is what its lock guards: a change and its event are under one hold of the lock.
//! - Slots and tables are announced after their heap, in the same epoch, and leave it before it is destroyed.

use std::sync::{Arc, Mutex};

use super::generation::Chunks;
use crate::device::{DescriptorHeapType, DescriptorHeapVisibility, ShaderVisibleHeapType};
use crate::events::{DescriptorKind, Event, EventLane, EventLog, EventSource, ObjectId};
use crate::memory::Name;
use crate::sync::locked;

/// A heap of the driver, as events describe it.
#[derive(Clone, Debug)]
pub(super) struct HeapInfo {
    pub(super) id: ObjectId,
    pub(super) kind: DescriptorKind,
    pub(super) capacity: u32,
    pub(super) name: Option<Name>,
}

impl HeapInfo {
    pub(super) fn created(&self, texts: &mut EventLane) -> Event {
        let &Self { id: heap, kind, capacity, .. } = self;
        Event::DescriptorHeapCreated { heap, kind, capacity, name: texts.add_text(self.name.as_ref()) }
    }
}

/// Returns what a heap holds, and who sees it.
pub(super) fn kind_of(visibility: DescriptorHeapVisibility) -> DescriptorKind {
    match visibility {
        DescriptorHeapVisibility::ShaderVisible(ShaderVisibleHeapType::Resource) => {
            DescriptorKind::ShaderVisibleResources
        }
        DescriptorHeapVisibility::ShaderVisible(ShaderVisibleHeapType::Sampler) => {
            DescriptorKind::ShaderVisibleSamplers
        }
        DescriptorHeapVisibility::CpuOnly(DescriptorHeapType::Resource) => DescriptorKind::CpuResources,
        DescriptorHeapVisibility::CpuOnly(DescriptorHeapType::Sampler) => DescriptorKind::CpuSamplers,
        DescriptorHeapVisibility::CpuOnly(DescriptorHeapType::RenderTarget) => DescriptorKind::RenderTargets,
        DescriptorHeapVisibility::CpuOnly(DescriptorHeapType::DepthStencil) => DescriptorKind::DepthStencils,
    }
}

/// Returns the event of a range that is in use from now on.
pub(super) fn allocated(heap: ObjectId, (first, count): (u32, u32)) -> Event {
    Event::DescriptorsAllocated { heap, first, count }
}

/// Returns the event of a range that is free from now on.
pub(super) fn freed(heap: ObjectId, (first, count): (u32, u32)) -> Event {
    Event::DescriptorsFreed { heap, first, count }
}

/// The events of one heap of the driver, and of the ranges that do not outlive it.
#[derive(Debug)]
pub(super) struct HeapEvents {
    source: EventSource,
    info: HeapInfo,
    /// The heap is destroyed, and announced no more.
    is_destroyed: bool,
}

impl HeapEvents {
    pub(super) fn new(log: &EventLog, info: HeapInfo) -> Self {
        Self { source: EventSource::new(log), info, is_destroyed: false }
    }

    /// Announces the heap with its ranges, unless the reader knows them.
    pub(super) fn announce(&mut self, ranges: impl Iterator<Item = (u32, u32)>) {
        if self.is_destroyed || self.source.is_announced() {
            return;
        }
        let Some(announcement) = self.source.announce() else { return };
        announcement.emit(|texts| self.info.created(texts));
        ranges.for_each(|range| announcement.emit(|_| allocated(self.info.id, range)));
    }

    #[inline]
    pub(super) fn allocated(&mut self, range: (u32, u32)) {
        self.source.emit(|_| allocated(self.info.id, range));
    }

    #[inline]
    pub(super) fn freed(&mut self, range: (u32, u32)) {
        self.source.emit(|_| freed(self.info.id, range));
    }

    pub(super) fn destroyed(&mut self) {
        self.is_destroyed = true;
        self.source.emit(|_| Event::DescriptorHeapDestroyed { heap: self.info.id });
    }
}

/// The events of ranges that move from one heap of the driver to the next: of slots, or of tables.
#[derive(Debug)]
pub(super) struct RegionEvents {
    source: EventSource,
    /// The heap that the ranges are in; `None` once they are in none any more.
    heap: Option<Arc<Mutex<Chunks>>>,
    /// The id of that heap.
    id: ObjectId,
}

impl RegionEvents {
    pub(super) fn new(log: &EventLog, heap: &Arc<Mutex<Chunks>>) -> Self {
        let id = locked(heap).events.info.id;
        Self { source: EventSource::new(log), heap: Some(Arc::clone(heap)), id }
    }

    /// Announces the ranges, and their heap first, unless the reader knows them.
    pub(super) fn announce(&mut self, ranges: impl Iterator<Item = (u32, u32)>) {
        if self.source.is_announced() {
            return;
        }
        let Some(heap) = &self.heap else { return };
        let announcement = {
            let mut heap = locked(heap);
            heap.announce();
            // In its epoch, and not in that of now, in which the reader may not have heard of the heap.
            self.source.announce_with(&heap.events.source)
        };
        let Some(announcement) = announcement else { return };
        ranges.for_each(|range| announcement.emit(|_| allocated(self.id, range)));
    }

    #[inline]
    pub(super) fn allocated(&mut self, range: (u32, u32)) {
        self.source.emit(|_| allocated(self.id, range));
    }

    #[inline]
    pub(super) fn freed(&mut self, range: (u32, u32)) {
        self.source.emit(|_| freed(self.id, range));
    }

    /// Frees all ranges in their heap, which may be destroyed from now on, and writes nothing more. Returns whether the
    /// reader knew of them.
    pub(super) fn leave(&mut self, ranges: impl Iterator<Item = (u32, u32)>) -> bool {
        if self.source.is_read() {
            ranges.for_each(|range| self.freed(range));
        }
        let was_known = self.source.is_announced();
        self.source.stop();
        self.heap = None;
        was_known
    }

    /// Allocates all ranges in another heap, after they [left](Self::leave) theirs.
    pub(super) fn enter(
        &mut self,
        heap: &Arc<Mutex<Chunks>>,
        was_known: bool,
        ranges: impl Iterator<Item = (u32, u32)>,
    ) {
        self.id = locked(heap).events.info.id;
        self.heap = Some(Arc::clone(heap));
        // A reader that has just lost events hears of all ranges when it has come. Until then nothing is written: a
        // program that compacts in each frame would fill the memory of a reader that never comes.
        if was_known {
            self.announce(ranges);
        }
    }
}
