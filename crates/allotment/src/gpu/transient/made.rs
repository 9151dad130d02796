//! The memory and the resources of a plan. What the plan before has in the same place stays.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::error::TransientHeapError;
use super::known::{Info, Known, Resource};
use crate::device::{DedicatedNeed, Device, Requirements, ResourceKind};
use crate::memory::{
    AllocationId, AllocationOptions, Buffer, Image, Memory, MemoryUsage, Name, OwningAllocator, ResourceError,
};
use crate::transient::{TransientPlan, TransientResource};

/// Memory of a plan before is taken if at most this part of it, in percent, is not needed.
const SPARE_PERCENT: u64 = 25;

/// A view that the program has asked for, with what it was asked for.
pub(super) type Cached = (Box<dyn core::any::Any + Send + Sync>, Arc<dyn core::any::Any + Send + Sync>);

/// A buffer or an image.
pub(super) enum Object<D: Device> {
    Buffer(Arc<Buffer<D>>),
    Image(Arc<Image<D>>),
}

/// A resource that was created.
pub(super) struct Made<D: Device> {
    /// Its memory and the offset in it; `None` for memory of its own.
    pub(super) place: Option<(AllocationId, u64)>,
    pub(super) object: Object<D>,
    pub(super) views: Mutex<Vec<Cached>>,
}

/// The memory of a planned heap.
struct Heap<D: Device> {
    class: u32,
    needs: Requirements,
    memory: Memory<D>,
}

/// All that was created for a plan.
pub(super) struct MadePlan<D: Device> {
    /// Of the plan; 0 before the first.
    pub(super) number: u64,
    /// The frame was described before, shortly before it was again.
    pub(super) comes_back: bool,
    heaps: Vec<Arc<Heap<D>>>,
    /// By the index of the resource in the frame.
    pub(super) resources: Vec<Arc<Made<D>>>,
    /// Which of them the frame before has had.
    pub(super) is_kept: Vec<bool>,
    by_key: HashMap<u64, u32>,
}

impl<D: Device> Default for MadePlan<D> {
    fn default() -> Self {
        let (heaps, resources, is_kept) = (Vec::new(), Vec::new(), Vec::new());
        Self { number: 0, comes_back: false, heaps, resources, is_kept, by_key: HashMap::new() }
    }
}

impl<D: Device> MadePlan<D> {
    /// Returns whether the plan has the resource with a key.
    pub(super) fn has(&self, key: u64) -> bool {
        self.by_key.contains_key(&key)
    }

    /// Returns each allocation with its size: the heaps, and the resources with memory of their own.
    pub(super) fn allocations(&self) -> impl Iterator<Item = (AllocationId, u64)> + '_ {
        let own = self.resources.iter().filter(|made| made.place.is_none()).map(|made| match &made.object {
            Object::Buffer(buffer) => (buffer.id(), buffer.info().size),
            Object::Image(image) => (image.id(), image.info().size),
        });
        self.heaps.iter().map(|heap| (heap.memory.id(), heap.memory.info().size)).chain(own)
    }

    /// Returns the plan's memory and resources: those of the plans before, the last one first, where they are as there. Frames that
    /// come in turn, as this one does if it `comes_back`, have memory in which all of them fit. On an error nothing is left behind.
    #[track_caller]
    pub(super) fn next(
        before: &[&Self],
        comes_back: bool,
        (memory, name): (&OwningAllocator<D>, &Name),
        plan: &TransientPlan,
        known: &Known<D>,
        described: &[u32],
    ) -> Result<Self, TransientHeapError> {
        let resources =
            || (0..).zip(described).map(|(at, &index)| (TransientResource::at(at), known.get(index)));
        let mut next = Self { number: plan.number(), comes_back, ..Self::default() };
        // A larger one that comes once, as a screenshot does, is none of them.
        let in_turn: &[&Self] = if comes_back { before } else { &[] };
        let in_turn = || in_turn.iter().filter(|plan| plan.comes_back);
        // Of each heap, what its resources need.
        let mut needs: Vec<Option<Requirements>> = vec![None; plan.heaps().len()];
        for (resource, described) in resources() {
            if let Some(place) = plan.placement(resource) {
                let needs = &mut needs[place.heap as usize];
                let with = |needs: Requirements| needs.or(described.requirements);
                *needs = Some(needs.map_or(described.requirements, with));
            }
        }
        let is_mixed = memory.allocator().device().properties().limits.buffer_image_granularity.get() == 1;
        for (planned, needs) in plan.heaps().iter().zip(needs) {
            // A heap has a resource.
            let needs = needs.unwrap_or_else(|| Requirements::new(planned.size));
            let mut needs = Requirements { size: planned.size, dedicated: DedicatedNeed::None, ..needs };
            if is_mixed {
                // Whatever the next plan has in it.
                needs.kind = ResourceKind::Unknown;
            }
            let is_free = |old: &&Arc<Heap<D>>| {
                old.class == planned.class && !next.heaps.iter().any(|heap| Arc::ptr_eq(heap, old))
            };
            let others = in_turn().flat_map(|plan| plan.heaps.iter().find(is_free));
            let of_all = others.fold(needs, |needs, old| needs.or(old.needs));
            let is_in_turn = in_turn().next().is_some();
            let serves = |old: &&Arc<Heap<D>>| {
                if is_in_turn { old.serves(&of_all) } else { old.serves(&needs) && old.is_needed(needs.size) }
            };
            let nth = next.heaps.len();
            let is_same = |old: &Arc<Heap<D>>| {
                before.first().and_then(|last| last.heaps.get(nth)).is_some_and(|last| Arc::ptr_eq(last, old))
            };
            let old = before.iter().flat_map(|plan| &plan.heaps).filter(is_free).filter(serves);
            if let Some(old) = old.min_by_key(|old| (old.needs.size, !is_same(old))) {
                let old = Arc::clone(old);
                next.heaps.push(old);
                continue;
            }
            let needs = of_all;
            let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name(name.clone());
            let memory =
                memory.allocate_planned_memory(&needs, &options).map_err(TransientHeapError::Memory)?;
            next.heaps.push(Arc::new(Heap { class: planned.class, needs, memory }));
        }
        for (number, (resource, described)) in (0..).zip(resources()) {
            let heap =
                plan.placement(resource).map(|place| (&next.heaps[place.heap as usize].memory, place.offset));
            let place = heap.map(|(memory, offset)| (memory.id(), offset));
            let key = described.desc.key;
            let old = before.iter().filter_map(|plan| plan.get(key)).find(|old| old.place == place);
            next.resources.push(match old {
                Some(old) => Arc::clone(old),
                None => {
                    let object = described.create(memory, heap).map_err(TransientHeapError::Resource)?;
                    Arc::new(Made { place, object, views: Mutex::default() })
                }
            });
            next.by_key.insert(key, number);
        }
        Ok(next)
    }

    fn get(&self, key: u64) -> Option<&Arc<Made<D>>> {
        self.by_key.get(&key).map(|&at| &self.resources[at as usize])
    }

    /// Notes which resources are those of the plan of the frame before.
    pub(super) fn compare(&mut self, before: &Self) {
        self.is_kept.clear();
        self.is_kept.resize(self.resources.len(), false);
        for (&key, &at) in &self.by_key {
            let at = at as usize;
            self.is_kept[at] = before.get(key).is_some_and(|old| Arc::ptr_eq(old, &self.resources[at]));
        }
    }

    /// Returns true if it has no shared memory beside another plan's, but of classes of which the other has none.
    pub(super) fn fits_beside(&self, other: &Self) -> bool {
        let is_there = |heap: &Arc<Heap<D>>| other.heaps.iter().any(|it| Arc::ptr_eq(it, heap));
        let has_none = |class: u32| !other.heaps.iter().any(|it| it.class == class);
        self.heaps.iter().all(|heap| is_there(heap) || has_none(heap.class))
    }

    /// Returns true if a heap is much larger than the largest of its class that is needed.
    pub(super) fn has_spare(&self, most_bytes: impl Fn(u32) -> u64) -> bool {
        self.heaps.iter().any(|heap| !heap.is_needed(most_bytes(heap.class)))
    }
}

impl<D: Device> Heap<D> {
    /// Returns true if a plan with these needs can have the memory.
    fn serves(&self, needs: &Requirements) -> bool {
        self.needs.size >= needs.size
            && self.needs.alignment >= needs.alignment
            && self.needs.kind == needs.kind
            && needs.memory_types.contains(self.memory.info().memory_type)
    }

    /// Returns true if so many bytes leave little of the memory unused.
    fn is_needed(&self, bytes: u64) -> bool {
        self.needs.size.saturating_sub(bytes) <= self.needs.size / 100 * SPARE_PERCENT
    }
}

impl<D: Device> Resource<D> {
    #[track_caller]
    fn create(
        &self,
        allocator: &OwningAllocator<D>,
        heap: Option<(&Memory<D>, u64)>,
    ) -> Result<Object<D>, ResourceError> {
        let name = self.name.clone();
        let options = || AllocationOptions::new(self.usage).with_name(name.clone());
        Ok(match (&self.info, heap) {
            (Info::Buffer(info), Some((memory, offset))) => {
                Object::Buffer(Arc::new(allocator.create_buffer_in(memory, offset, info, name.clone())?))
            }
            (Info::Buffer(info), None) => {
                Object::Buffer(Arc::new(allocator.create_buffer(info, &options())?))
            }
            (Info::Image(info), Some((memory, offset))) => {
                Object::Image(Arc::new(allocator.create_image_in(memory, offset, info, name.clone())?))
            }
            (Info::Image(info), None) => Object::Image(Arc::new(allocator.create_image(info, &options())?)),
        })
    }
}
