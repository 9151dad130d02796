//! One slot for each sampler that differs, however many want it.
//!
//! Devices have room for few samplers (2,048 shader-visible ones on Direct3D 12, 4,000 at all on many Vulkan drivers),
//! and programs have few that differ, in thousands of materials. So shaders are told an index into the one heap of
//! samplers, and who asks for one that is there already gets that one. This is how wgpu does it on Direct3D 12.
//!
//! A sampler that nobody has any more is kept until the GPU is done with it; who asks for it meanwhile has it again.

use core::fmt;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::error::DescriptorError;
use super::shader_visible_heap::ShaderVisibleHeap;
use super::slots::DescriptorSlot;
use crate::device::{DescriptorDevice, SamplerDesc, ShaderVisibleHeapType};
use crate::lifetime::{Reclaimed, ReleaseQueue};
use crate::memory::Allocator;
use crate::sync::locked;

/// Samplers by their description. A clone is the same cache.
///
/// ```
/// use std::sync::Arc;
///
/// use allotment::descriptor::{SamplerCache, ShaderVisibleHeap, ShaderVisibleHeapDesc};
/// use allotment::device::SamplerDesc;
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::lifetime::SubmissionTracker;
/// use allotment::{Allocator, AllocatorDesc};
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let tracker = SubmissionTracker::new(device.clone())?;
/// let allocator = Arc::new(Allocator::new(device, AllocatorDesc::default())?);
/// let heap = ShaderVisibleHeap::new(&allocator, &tracker, ShaderVisibleHeapDesc::samplers())?;
/// let samplers = SamplerCache::new(heap)?;
///
/// let linear = samplers.get(&SamplerDesc::default())?;
/// let again = samplers.get(&SamplerDesc::default())?;
/// assert_eq!(linear.index(), again.index());
/// assert_eq!(samplers.heap().statistics().slots.used, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SamplerCache<D: DescriptorDevice> {
    inner: Arc<Inner<D>>,
}

struct Inner<D: DescriptorDevice> {
    heap: ShaderVisibleHeap<D>,
    entries: Mutex<HashMap<SamplerDesc, Entry<D>>>,
    /// Descriptions whose last user went, and in which round of theirs.
    idle: ReleaseQueue<(SamplerDesc, u64)>,
}

struct Entry<D: DescriptorDevice> {
    slot: DescriptorSlot,
    sampler: D::Sampler,
    /// Of 64 bits: users that are forgotten, not dropped, cost no memory, and 32 bits could be counted up in minutes.
    users: u64,
    /// Counts how often it got a user while it had none.
    round: u64,
}

/// A sampler that somebody uses. When the last one of a description is dropped, and the GPU is done with it, its slot is
/// free again. A clone uses it as well.
pub struct CachedSampler<D: DescriptorDevice> {
    inner: Arc<Inner<D>>,
    desc: SamplerDesc,
    slot: DescriptorSlot,
}

impl<D: DescriptorDevice> SamplerCache<D> {
    /// A cache over the slots of a heap of samplers, which it has for itself.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::WrongKind`] where the heap is of resources.
    pub fn new(heap: ShaderVisibleHeap<D>) -> Result<Self, DescriptorError> {
        if heap.heap_type() != ShaderVisibleHeapType::Sampler {
            let (expected, found) = (ShaderVisibleHeapType::Sampler.into(), heap.heap_type().into());
            return Err(DescriptorError::WrongKind { expected, found });
        }
        let idle = ReleaseQueue::new(heap.tracker());
        Ok(Self { inner: Arc::new(Inner { heap, entries: Mutex::default(), idle }) })
    }

    /// The heap that the samplers are in, for recordings to bind.
    #[must_use]
    pub fn heap(&self) -> &ShaderVisibleHeap<D> {
        &self.inner.heap
    }

    /// The sampler of this description.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::InvalidSampler`], [`DescriptorError::Exhausted`] where there is no slot for one more, or the
    /// device refuses.
    pub fn get(&self, desc: &SamplerDesc) -> Result<CachedSampler<D>, DescriptorError> {
        if !desc.is_valid() {
            return Err(DescriptorError::InvalidSampler);
        }
        if let Some(found) = self.inner.find(desc) {
            return Ok(found);
        }
        // Made with no lock held. Somebody else may do the same; the one that comes first stays.
        self.reclaim();
        let device = self.inner.heap.allocator().device();
        // It is destroyed where the slot is refused, or the device panics: nobody has seen it.
        let sampler = Orphan {
            device: Arc::clone(self.inner.heap.allocator()),
            sampler: Some(device.create_sampler(desc)?),
        };
        // SAFETY: of the heap's own device, and destroyed after its slot has come back.
        let inserted = self.inner.heap.insert(&unsafe { device.sampler_descriptor(sampler.get()) }, None);
        let slot = inserted.map_err(|error| self.inner.what_helps(error))?;
        Ok(self.inner.enter(*desc, slot, sampler))
    }

    /// How many samplers there are, those included that nobody has any more and the GPU may use.
    #[must_use]
    pub fn len(&self) -> usize {
        locked(&self.inner.entries).len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Destroys samplers that nobody has and that the GPU is done with. Once a frame, say; who finds no room does so by
    /// itself.
    pub fn reclaim(&self) -> Reclaimed {
        self.inner.reclaim()
    }
}

impl<D: DescriptorDevice> Entry<D> {
    /// It has one more user.
    fn take(&mut self) -> DescriptorSlot {
        self.users += 1;
        self.round += u64::from(self.users == 1);
        self.slot
    }
}

impl<D: DescriptorDevice> Inner<D> {
    fn find(self: &Arc<Self>, desc: &SamplerDesc) -> Option<CachedSampler<D>> {
        let mut entries = locked(&self.entries);
        let slot = entries.get_mut(desc)?.take();
        Some(CachedSampler { inner: Arc::clone(self), desc: *desc, slot })
    }

    /// Puts a new sampler in, unless somebody else has put one in meanwhile.
    fn enter(
        self: &Arc<Self>,
        desc: SamplerDesc,
        slot: DescriptorSlot,
        sampler: Orphan<D>,
    ) -> CachedSampler<D> {
        let mut entries = locked(&self.entries);
        let found = entries.get_mut(&desc).map(Entry::take);
        let Some(found) = found else {
            entries.insert(desc, Entry { slot, sampler: sampler.into_inner(), users: 1, round: 0 });
            return CachedSampler { inner: Arc::clone(self), desc, slot };
        };
        drop(entries);
        // From here on it is a user, also where the device panics.
        let found = CachedSampler { inner: Arc::clone(self), desc, slot: found };
        self.heap.shared.remove_unused(slot);
        // Nobody was told of it, and nobody reads the slot.
        drop(sampler);
        found
    }

    fn reclaim(&self) -> Reclaimed {
        let reclaimed = self.idle.reclaim_here(|(desc, round)| self.evict(&desc, round));
        self.heap.reclaim();
        reclaimed
    }

    /// Destroys what is idle since a round, which the GPU is done with.
    fn evict(&self, desc: &SamplerDesc, round: u64) {
        let mut entries = locked(&self.entries);
        let idle = entries.get(desc).is_some_and(|entry| entry.users == 0 && entry.round == round);
        let gone = if idle { entries.remove(desc) } else { None };
        drop(entries);
        if let Some(Entry { slot, sampler, .. }) = gone {
            self.heap.shared.remove_unused(slot);
            // SAFETY: made by this device; it was idle since all recordings that could use it are over, so no queue does.
            unsafe { self.heap.allocator().device().destroy_sampler(sampler) };
        }
    }

    /// What is idle here is on its way back, which the heap does not know.
    fn what_helps(&self, error: DescriptorError) -> DescriptorError {
        match error {
            DescriptorError::Exhausted { heap_type, region, requested, free, largest, retiring, wait } => {
                let idle = locked(&self.entries).values().filter(|entry| entry.users == 0).count() as u32;
                let wait = wait.or_else(|| if idle > 0 { self.idle.wait_for() } else { None });
                let retiring = retiring + idle;
                DescriptorError::Exhausted { heap_type, region, requested, free, largest, retiring, wait }
            }
            other => other,
        }
    }
}

impl<D: DescriptorDevice> Drop for Inner<D> {
    /// Samplers go when the GPU is done with them: what is idle is waited for, as retired things are.
    fn drop(&mut self) {
        let device = self.heap.allocator().clone();
        let entries = core::mem::take(&mut *locked(&self.entries));
        let samplers: Vec<_> = entries
            .into_values()
            .map(|entry| Orphan { device: device.clone(), sampler: Some(entry.sampler) })
            .collect();
        ReleaseQueue::new(self.heap.tracker()).retire(samplers);
    }
}

/// A sampler that is destroyed when it is dropped.
struct Orphan<D: DescriptorDevice> {
    device: Arc<Allocator<D>>,
    sampler: Option<D::Sampler>,
}

impl<D: DescriptorDevice> Orphan<D> {
    fn get(&self) -> &D::Sampler {
        match &self.sampler {
            Some(sampler) => sampler,
            None => unreachable!("taken only by who consumes it"),
        }
    }

    fn into_inner(mut self) -> D::Sampler {
        match self.sampler.take() {
            Some(sampler) => sampler,
            None => unreachable!("taken only by who consumes it"),
        }
    }
}

impl<D: DescriptorDevice> Drop for Orphan<D> {
    fn drop(&mut self) {
        if let Some(sampler) = self.sampler.take() {
            // SAFETY: made by this device; no queue has seen it, or what it was retired in has waited for the queues.
            unsafe { self.device.device().destroy_sampler(sampler) };
        }
    }
}

impl<D: DescriptorDevice> CachedSampler<D> {
    /// Its index in the heap of samplers: what shaders are told.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.slot.index()
    }

    /// What it is.
    #[must_use]
    pub fn desc(&self) -> &SamplerDesc {
        &self.desc
    }
}

impl<D: DescriptorDevice> Clone for SamplerCache<D> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<D: DescriptorDevice> Clone for CachedSampler<D> {
    fn clone(&self) -> Self {
        match self.inner.find(&self.desc) {
            Some(same) => same,
            None => unreachable!("it stays as long as somebody has it"),
        }
    }
}

impl<D: DescriptorDevice> Drop for CachedSampler<D> {
    fn drop(&mut self) {
        let mut entries = locked(&self.inner.entries);
        let Some(entry) = entries.get_mut(&self.desc) else { return };
        entry.users -= 1;
        let (idle, round) = (entry.users == 0, entry.round);
        drop(entries);
        if idle {
            self.inner.idle.retire((self.desc, round));
        }
    }
}

impl<D: DescriptorDevice> fmt::Debug for SamplerCache<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SamplerCache").field("samplers", &self.len()).finish_non_exhaustive()
    }
}

impl<D: DescriptorDevice> fmt::Debug for CachedSampler<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedSampler").field("index", &self.index()).field("desc", &self.desc).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AllocatorDesc;
    use crate::descriptor::ShaderVisibleHeapDesc;
    use crate::device::simulated::{Profile, SimulatedGpu};
    use crate::lifetime::SubmissionTracker;

    #[test]
    fn a_sampler_with_more_users_than_32_bits_count_stays_as_long_as_one_has_it() {
        let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
        let tracker = SubmissionTracker::new(device.clone()).unwrap();
        let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default()).unwrap());
        let heap = ShaderVisibleHeap::new(&allocator, &tracker, ShaderVisibleHeapDesc::samplers()).unwrap();
        let samplers = SamplerCache::new(heap).unwrap();
        let first = samplers.get(&SamplerDesc::default()).unwrap();
        // As if so many clones had been forgotten.
        let forgotten = u64::from(u32::MAX) - 1;
        locked(&samplers.inner.entries).values_mut().for_each(|entry| entry.users += forgotten);
        let others = [first.clone(), samplers.get(&SamplerDesc::default()).unwrap()];
        drop(others);
        samplers.reclaim();
        assert_eq!((samplers.len(), device.usage().samplers), (1, 1), "the first is there");
        let again = samplers.get(&SamplerDesc::default()).unwrap();
        assert_eq!(again.index(), first.index());
    }
}
