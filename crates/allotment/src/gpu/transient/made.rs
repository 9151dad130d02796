//! The memory and the resources of a plan. What the plan before has in the same place stays.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::error::TransientHeapError;
use super::known::{Info, Known, Resource};
use crate::device::{DedicatedNeed, Device, Requirements, ResourceKind};
use crate::memory::{
    AllocationId, AllocationOptions, Buffer, Image, Memory, MemoryUsage, OwningAllocator, ResourceError,
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
    place: Option<(AllocationId, u64)>,
    pub(super) object: Object<D>,
    pub(super) views: Mutex<Vec<Cached>>,
}

/// The memory of a planned heap.
struct Heap<D: Device> {
    class: u32,
    /// How many heaps of its class are before it.
    nth: u32,
    needs: Requirements,
    memory: Memory<D>,
}

/// All that was created for a plan.
pub(super) struct MadePlan<D: Device> {
    /// Of the plan; 0 before the first.
    pub(super) number: u64,
    heaps: Vec<Arc<Heap<D>>>,
    /// By the index of the resource in the frame.
    pub(super) resources: Vec<Arc<Made<D>>>,
    /// Which of them the plan before has had.
    pub(super) is_kept: Vec<bool>,
    by_key: HashMap<u64, u32>,
}

impl<D: Device> Default for MadePlan<D> {
    fn default() -> Self {
        let (heaps, resources, is_kept) = (Vec::new(), Vec::new(), Vec::new());
        Self { number: 0, heaps, resources, is_kept, by_key: HashMap::new() }
    }
}

impl<D: Device> MadePlan<D> {
    /// Returns the bytes of memory, shared and own.
    pub(super) fn size(&self) -> u64 {
        let own = self.resources.iter().filter(|made| made.place.is_none()).map(|made| match &made.object {
            Object::Buffer(buffer) => buffer.info().size,
            Object::Image(image) => image.info().size,
        });
        self.heaps.iter().map(|heap| heap.needs.size).chain(own).sum()
    }

    /// Returns the plan's memory and resources; those of this plan, where they are as before. On an error nothing is left behind.
    #[track_caller]
    pub(super) fn next(
        &self,
        memory: &OwningAllocator<D>,
        plan: &TransientPlan,
        known: &Known<D>,
        described: &[u32],
    ) -> Result<Self, TransientHeapError> {
        let resources =
            || (0..).zip(described).map(|(at, &index)| (TransientResource::at(at), known.get(index)));
        let mut next = Self { number: plan.number(), ..Self::default() };
        for (at, planned) in (0..).zip(plan.heaps()) {
            let members = resources().filter(|(it, _)| plan.placement(*it).is_some_and(|it| it.heap == at));
            let needs = members.map(|(_, resource)| resource.requirements).reduce(Requirements::or);
            // A heap has a resource.
            let needs = needs.unwrap_or_else(|| Requirements::new(planned.size));
            let mut needs = Requirements { size: planned.size, dedicated: DedicatedNeed::None, ..needs };
            if memory.allocator().device().properties().limits.buffer_image_granularity.get() == 1 {
                // Whatever the next plan has in it.
                needs.kind = ResourceKind::Unknown;
            }
            let nth = next.heaps.iter().filter(|heap| heap.class == planned.class).count() as u32;
            let old = self.heaps.iter().find(|old| old.class == planned.class && old.nth == nth);
            match old.filter(|old| old.serves(&needs)) {
                Some(old) => next.heaps.push(Arc::clone(old)),
                None => {
                    let options = MemoryUsage::GpuOnly.with_name("transient heap");
                    let memory = memory.allocate_planned_memory(&needs, &options);
                    let memory = memory.map_err(TransientHeapError::Memory)?;
                    next.heaps.push(Arc::new(Heap { class: planned.class, nth, needs, memory }));
                }
            }
        }
        for (number, (resource, described)) in (0..).zip(resources()) {
            let heap =
                plan.placement(resource).map(|place| (&next.heaps[place.heap as usize].memory, place.offset));
            let place = heap.map(|(memory, offset)| (memory.id(), offset));
            let key = described.desc.key;
            let old = self.by_key.get(&key).map(|&at| &self.resources[at as usize]);
            let old = old.filter(|old| old.place == place);
            next.is_kept.push(old.is_some());
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
}

impl<D: Device> Heap<D> {
    /// Returns true if a plan with these needs can have the memory, and most of it is needed.
    fn serves(&self, needs: &Requirements) -> bool {
        let spare = self.needs.size.checked_sub(needs.size);
        spare.is_some_and(|spare| spare <= self.needs.size / 100 * SPARE_PERCENT)
            && self.needs.alignment >= needs.alignment
            && self.needs.kind == needs.kind
            && needs.memory_types.contains(self.memory.info().memory_type)
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
