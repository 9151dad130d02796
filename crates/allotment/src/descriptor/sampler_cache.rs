//! Deduplicated samplers: one slot per distinct description.
//!
//! Devices support few samplers (2,048 shader-visible ones on Direct3D 12, 4,000 in all on many Vulkan
//! drivers), and programs have few distinct ones, in thousands of materials. So shaders receive an index into
//! the one heap of samplers, and a request for an existing sampler returns that one. wgpu does the same on
//! Direct3D 12.
//!
//! A sampler without users is kept until the GPU has finished with it; a request meanwhile reuses it.

use core::fmt;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::error::DescriptorError;
use super::sampler_key::SamplerKey;
use super::shader_visible_heap::ShaderVisibleHeap;
use super::slots::DescriptorSlot;
use crate::device::{DescriptorDevice, SamplerDesc, ShaderVisibleHeapType};
use crate::hash::Seed;
use crate::lifetime::{Reclaimed, ReleaseQueue};
use crate::memory::{Allocator, DescriptorSites, HasDescriptors, LeakedDescriptors};
use crate::slab::Slab;
use crate::sync::locked;

/// A cache of samplers by description. A clone is the same cache.
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
    entries: Mutex<Entries<D>>,
    /// Descriptions whose last user was dropped, and the round in which that was.
    idle: ReleaseQueue<(SamplerDesc, u64)>,
    /// Where the first user of each entry got it.
    sites: DescriptorSites,
}

/// The samplers, and where each description has its own.
struct Entries<D: DescriptorDevice> {
    indices: HashMap<SamplerKey, u32, Seed>,
    /// A user knows the index of its sampler, so that dropping it costs no search.
    samplers: Slab<Entry<D>>,
    /// The last round of any sampler. A sampler that is created again begins another one than it had before: a thread that
    /// dropped the last user then may retire that round as late as it likes.
    round: u64,
}

struct Entry<D: DescriptorDevice> {
    slot: DescriptorSlot,
    sampler: D::Sampler,
    /// 64 bits, since users that are leaked cost no memory, and 32 bits could overflow within minutes.
    users: u64,
    /// The number of the time since it has had users.
    round: u64,
}

/// A sampler in use. When the last user of its description is dropped, and the GPU has finished with it, its
/// slot is freed. A clone is another user.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let samplers = gpu.descriptors()?.samplers();
/// let linear = samplers.get(&SamplerDesc::default())?;
/// println!("shaders sample with {}", linear.index());
/// let again = linear.clone(); // another user of the same descriptor
/// assert_eq!(again.desc(), linear.desc());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CachedSampler<D: DescriptorDevice> {
    inner: Arc<Inner<D>>,
    desc: SamplerDesc,
    /// The index of its entry, which exists as long as it has users.
    entry: u32,
    slot: DescriptorSlot,
}

impl<D: DescriptorDevice> SamplerCache<D> {
    /// Creates a cache over the slots of a heap of samplers, which it owns.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::WrongKind`] if the heap is one of resources.
    #[inline(never)]
    pub fn new(heap: ShaderVisibleHeap<D>) -> Result<Self, DescriptorError> {
        if heap.heap_type() != ShaderVisibleHeapType::Sampler {
            let (expected, found) = (ShaderVisibleHeapType::Sampler.into(), heap.heap_type().into());
            return Err(DescriptorError::WrongKind { expected, found });
        }
        let idle = ReleaseQueue::new(heap.tracker());
        let sites = DescriptorSites::new(heap.allocator().desc().call_sites);
        let inner = Arc::new(Inner { heap, entries: Mutex::new(Entries::new()), idle, sites });
        inner.heap.allocator().descriptor_heaps().add(&inner);
        Ok(Self { inner })
    }

    /// Returns the heap of the samplers, for recordings to bind.
    #[must_use]
    pub fn heap(&self) -> &ShaderVisibleHeap<D> {
        &self.inner.heap
    }

    /// Returns the sampler of this description.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::InvalidSampler`], [`DescriptorError::Exhausted`] if no slot is free for another one,
    /// or the device's error.
    #[inline(never)]
    #[track_caller]
    pub fn get(&self, desc: &SamplerDesc) -> Result<CachedSampler<D>, DescriptorError> {
        desc.check().map_err(DescriptorError::InvalidSampler)?;
        // The common case: programs have few distinct samplers.
        if let Some(found) = self.inner.find(desc) {
            return Ok(found);
        }
        // Created without a lock. Another thread may create the same one meanwhile; the first to be entered
        // stays.
        self.reclaim();
        let device = self.inner.heap.allocator().device();
        // Destroyed if there is no slot for it or the device panics: no other code has it.
        let sampler = Orphan {
            device: Arc::clone(self.inner.heap.allocator()),
            sampler: Some(device.create_sampler(desc)?),
        };
        // SAFETY: created by the heap's own device, and destroyed after its slot was cleared and freed.
        let inserted = self.inner.heap.insert_own(&unsafe { device.sampler_descriptor(sampler.get()) });
        let slot = inserted.map_err(|error| self.inner.what_helps(error))?;
        Ok(self.inner.enter(*desc, slot, sampler))
    }

    /// Returns the number of samplers, including those without users that the GPU may still use.
    #[must_use]
    pub fn len(&self) -> usize {
        locked(&self.inner.entries).indices.len()
    }

    /// Returns `true` if there are no samplers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Destroys samplers without users that the GPU has finished with. Call it once per frame; requests that
    /// find no slot call it too.
    pub fn reclaim(&self) -> Reclaimed {
        self.inner.reclaim()
    }
}

impl<D: DescriptorDevice> Entries<D> {
    fn new() -> Self {
        Self { indices: HashMap::default(), samplers: Slab::new(), round: 0 }
    }

    /// Adds a user to the sampler of a description, if there is one. Returns its index and slot.
    #[track_caller]
    fn find(&mut self, desc: &SamplerDesc, sites: &DescriptorSites) -> Option<(u32, DescriptorSlot)> {
        let index = *self.indices.get(&SamplerKey::new(desc))?;
        let entry = self.samplers.get_mut(index)?;
        if entry.users == 0 {
            self.round += 1;
            entry.round = self.round;
            sites.note(index.into(), 1);
        }
        entry.users += 1;
        Some((index, entry.slot))
    }

    /// Enters a sampler with one user.
    fn insert(&mut self, desc: &SamplerDesc, slot: DescriptorSlot, sampler: D::Sampler) -> u32 {
        self.round += 1;
        let index = self.samplers.insert(Entry { slot, sampler, users: 1, round: self.round });
        self.indices.insert(SamplerKey::new(desc), index);
        index
    }

    /// Removes the sampler of a description if it has had no users since a round.
    fn remove_idle(&mut self, desc: &SamplerDesc, round: u64) -> Option<Entry<D>> {
        let index = *self.indices.get(&SamplerKey::new(desc))?;
        // Another round: the sampler had a user since it was retired, and its last user has retired it again,
        // or will.
        self.samplers.get(index).filter(|entry| entry.users == 0 && entry.round == round)?;
        self.indices.remove(&SamplerKey::new(desc));
        self.samplers.remove(index)
    }
}

impl<D: DescriptorDevice> Inner<D> {
    /// Returns the sampler of a description, if there is one, with one more user.
    #[track_caller]
    fn find(self: &Arc<Self>, desc: &SamplerDesc) -> Option<CachedSampler<D>> {
        let (entry, slot) = locked(&self.entries).find(desc, &self.sites)?;
        Some(CachedSampler { inner: Arc::clone(self), desc: *desc, entry, slot })
    }

    /// Enters a new sampler, unless another thread has entered one meanwhile.
    #[track_caller]
    fn enter(
        self: &Arc<Self>,
        desc: SamplerDesc,
        slot: DescriptorSlot,
        sampler: Orphan<D>,
    ) -> CachedSampler<D> {
        let mut entries = locked(&self.entries);
        let Some((entry, found)) = entries.find(&desc, &self.sites) else {
            let entry = entries.insert(&desc, slot, sampler.into_inner());
            // Under the lock, as all notes: a thread that drops the last user meanwhile would forget it first.
            self.sites.note(entry.into(), 1);
            return CachedSampler { inner: Arc::clone(self), desc, entry, slot };
        };
        drop(entries);
        // A user from here on, which is dropped even if the device panics below.
        let found = CachedSampler { inner: Arc::clone(self), desc, entry, slot: found };
        self.heap.shared.remove_own(slot);
        // No caller was given this sampler, and no shader reads its slot.
        drop(sampler);
        found
    }

    fn reclaim(&self) -> Reclaimed {
        let reclaimed = self.idle.reclaim_here(|(desc, round)| self.evict(&desc, round));
        self.heap.reclaim();
        reclaimed
    }

    /// Destroys a sampler that has had no users since a round, and that the GPU has finished with.
    fn evict(&self, desc: &SamplerDesc, round: u64) {
        // The driver call and the heap's lock come without this one.
        let gone = locked(&self.entries).remove_idle(desc, round);
        if let Some(Entry { slot, sampler, .. }) = gone {
            self.heap.shared.remove_own(slot);
            // SAFETY: created by this device; it had no user since all recordings that could use it have
            // completed, so no queue uses it.
            unsafe { self.heap.allocator().device().destroy_sampler(sampler) };
        }
    }

    /// Adds the samplers without users to an error: they are pending release, which the heap does not know.
    fn what_helps(&self, error: DescriptorError) -> DescriptorError {
        match error {
            DescriptorError::Exhausted { heap_type, region, requested, free, largest, retiring, wait } => {
                let idle = locked(&self.entries).samplers.iter().filter(|(_, entry)| entry.users == 0).count()
                    as u32;
                // Either event frees a slot, so the heap's own is as good.
                let wait = wait.or_else(|| if idle > 0 { self.idle.wait_for() } else { None });
                let retiring = retiring + idle;
                DescriptorError::Exhausted { heap_type, region, requested, free, largest, retiring, wait }
            }
            other => other,
        }
    }
}

/// Samplers that the program has: one that it forgot keeps its cache from ending.
impl<D: DescriptorDevice> HasDescriptors for Inner<D> {
    fn live(&self) -> Vec<LeakedDescriptors> {
        let used = locked(&self.entries).samplers.iter().filter(|(_, entry)| entry.users > 0).count();
        self.sites.live("samplers of a sampler cache", used as u32, ..)
    }
}

impl<D: DescriptorDevice> Drop for Inner<D> {
    /// Samplers are destroyed once the GPU has finished with them, those without users included: they are
    /// retired.
    fn drop(&mut self) {
        let device = self.heap.allocator().clone();
        let entries = core::mem::replace(&mut *locked(&self.entries), Entries::new());
        let samplers: Vec<_> = entries
            .samplers
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
            None => unreachable!("only into_inner and drop take the sampler"),
        }
    }

    fn into_inner(mut self) -> D::Sampler {
        match self.sampler.take() {
            Some(sampler) => sampler,
            None => unreachable!("only into_inner and drop take the sampler"),
        }
    }
}

impl<D: DescriptorDevice> Drop for Orphan<D> {
    #[inline(never)]
    fn drop(&mut self) {
        if let Some(sampler) = self.sampler.take() {
            // SAFETY: created by this device; no queue has used it, or the queue in which it was retired has
            // waited for all of them.
            unsafe { self.device.device().destroy_sampler(sampler) };
        }
    }
}

impl<D: DescriptorDevice> CachedSampler<D> {
    /// Returns the index of the sampler in the heap of samplers, which shaders use.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.slot.index()
    }

    /// Returns the description of the sampler.
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
        let slot = match locked(&self.inner.entries).samplers.get_mut(self.entry) {
            Some(same) => {
                same.users += 1;
                same.slot
            }
            None => unreachable!("the sampler exists as long as it has a user"),
        };
        Self { inner: Arc::clone(&self.inner), desc: self.desc, entry: self.entry, slot }
    }
}

impl<D: DescriptorDevice> Drop for CachedSampler<D> {
    #[inline(never)]
    fn drop(&mut self) {
        let mut entries = locked(&self.inner.entries);
        let Some(entry) = entries.samplers.get_mut(self.entry) else { return };
        entry.users -= 1;
        let (idle, round) = (entry.users == 0, entry.round);
        if idle {
            self.inner.sites.forget(self.entry.into());
        }
        drop(entries);
        // With the lock released, which retiring does not need. A new user meanwhile begins another round, so `evict`
        // then keeps the sampler.
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
#[cfg(feature = "simulated")]
mod tests {
    use super::*;
    use crate::AllocatorDesc;
    use crate::descriptor::ShaderVisibleHeapDesc;
    use crate::device::simulated::{Profile, SimulatedGpu};
    use crate::lifetime::SubmissionTracker;

    fn cache(device: &SimulatedGpu) -> SamplerCache<SimulatedGpu> {
        let tracker = SubmissionTracker::new(device.clone()).unwrap();
        let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default()).unwrap());
        let heap = ShaderVisibleHeap::new(&allocator, &tracker, ShaderVisibleHeapDesc::samplers()).unwrap();
        SamplerCache::new(heap).unwrap()
    }

    #[test]
    fn a_thread_that_retires_late_does_not_retire_the_sampler_that_was_created_again() {
        let cache = cache(&SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap()));
        let desc = SamplerDesc::default();
        let round = |cache: &SamplerCache<SimulatedGpu>| {
            locked(&cache.inner.entries).samplers.iter().map(|(_, entry)| entry.round).next().unwrap()
        };
        drop(cache.get(&desc).unwrap());
        let before = round(&cache);
        cache.reclaim();
        assert!(cache.is_empty());
        // Again in use, and then not: what the GPU does with it, the round from before does not know.
        drop(cache.get(&desc).unwrap());
        cache.inner.evict(&desc, before);
        assert_eq!(cache.len(), 1, "only its own round removes it");
        cache.inner.evict(&desc, round(&cache));
        assert!(cache.is_empty());
    }

    #[test]
    fn a_sampler_with_more_users_than_32_bits_count_stays_as_long_as_one_has_it() {
        let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
        let samplers = cache(&device);
        let first = samplers.get(&SamplerDesc::default()).unwrap();
        // As if so many clones had been forgotten.
        let forgotten = u64::from(u32::MAX) - 1;
        locked(&samplers.inner.entries).samplers.get_mut(0).unwrap().users += forgotten;
        let others = [first.clone(), samplers.get(&SamplerDesc::default()).unwrap()];
        drop(others);
        samplers.reclaim();
        assert_eq!((samplers.len(), device.usage().samplers), (1, 1), "the first is there");
        let again = samplers.get(&SamplerDesc::default()).unwrap();
        assert_eq!(again.index(), first.index());
    }
}
