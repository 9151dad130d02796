//! The heap that shaders see: bindless slots, long-lived tables and chunks for recordings, in one heap of the device.
//!
//! ```text
//!   ShaderVisibleHeap
//!   ├── slots       one descriptor each, at an index that never changes
//!   ├── tables      ranges that are whose `DescriptorRange` they are
//!   ├── generation  the device's heap now, with chunks for recordings   ◄── recordings hold the one they began with
//!   ├── mirror      a staging heap: what is in slots and tables
//!   └── retired     what was given back, until the GPU is done with it
//! ```
//!
//! An API binds one heap of a kind at a time, and to change it is expensive, so there is one. It has the size that it
//! was asked for; when it is full, that is an error which says how full, and what to wait for. To
//! [grow](ShaderVisibleHeap::grow) or to [compact](ShaderVisibleHeap::compact) it is to make another heap of the device
//! and to copy the mirror there, in bulk, since a heap that the GPU sees is not read by the CPU. Recordings that are
//! open go on with the heap that they began with, where everything stays where it was; it is destroyed when the last
//! of them is over. What is written meanwhile goes to both.

mod allocation;
mod mirror;
mod replacement;
mod retirement;

use core::fmt;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

pub(super) use self::mirror::Spot;
use self::mirror::{copy_all, new_mirror};
use self::retirement::{Gone, Kept, Last};
use super::device_heap::DeviceHeap;
use super::error::DescriptorError;
use super::generation::{Chunk, Generation};
use super::heap_desc::ShaderVisibleHeapDesc;
use super::heap_regions::Regions;
use super::range::DescriptorRange;
use super::slots::{DescriptorSlot, KeepAlive, Slots};
use super::statistics::DescriptorHeapStatistics;
use super::tables::Tables;
use super::transient::TransientDescriptors;
use crate::device::{DescriptorDevice, ShaderVisibleHeapLimits, ShaderVisibleHeapType};
use crate::lifetime::{Reclaimed, Recording, ReleaseQueue, ReleaseStatistics, SubmissionTracker};
use crate::memory::Allocator;
use crate::sync::locked;

/// Descriptors that shaders see. `Send + Sync`; everything takes `&self`.
///
/// ```
/// use std::sync::Arc;
///
/// use allotment::descriptor::{ShaderVisibleHeap, ShaderVisibleHeapDesc};
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::device::{BufferDesc, BufferUse, DescriptorDevice};
/// use allotment::lifetime::SubmissionTracker;
/// use allotment::memory::MappedBuffer;
/// use allotment::{AllocationDesc, Allocator, AllocatorDesc, MemoryUsage, Requirements};
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let tracker = SubmissionTracker::new(device.clone())?;
/// let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default())?);
/// let heap = ShaderVisibleHeap::new(&allocator, &tracker, ShaderVisibleHeapDesc::resources())?;
///
/// // Something for shaders to read, which lives as long as its slot can be read.
/// let desc = AllocationDesc::new(Requirements::new(0), MemoryUsage::Upload);
/// let albedo = Arc::new(MappedBuffer::new(&allocator, &BufferDesc::new(256).into(), &desc)?);
/// // SAFETY: the buffer is live, and the range lies in it.
/// let descriptor = unsafe { device.buffer_descriptor(albedo.handle(), 0..256, BufferUse::ReadOnly) };
/// let slot = heap.insert(&descriptor, Some(albedo.clone()))?;
/// println!("shaders find it at index {}", slot.index());
///
/// // A recording binds the heap that it begins with.
/// let recording = tracker.record("a frame");
/// let transient = heap.begin(&recording)?;
/// let bind: &allotment::device::simulated::HostDescriptorHeap = transient.heap();
/// # let _ = bind;
///
/// heap.remove(slot)?;
/// assert_eq!(heap.statistics().slots.retiring, 1, "the recording may use it");
/// drop((transient, recording));
/// heap.reclaim();
/// assert_eq!(heap.statistics().slots.used, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ShaderVisibleHeap<D: DescriptorDevice> {
    pub(super) shared: Arc<Shared<D>>,
}

/// How full a shader-visible heap is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShaderVisibleStatistics {
    /// Bindless slots.
    pub slots: DescriptorHeapStatistics,
    /// Long-lived tables.
    pub tables: DescriptorHeapStatistics,
    /// Chunks of recordings, in the heap that recordings begin with now.
    pub transient: DescriptorHeapStatistics,
    /// How often the heap was replaced.
    pub generation: u32,
    /// Descriptors of the device's heap: regions, what keeps them aligned, and what the driver keeps for itself.
    pub capacity: u32,
}

/// What the heap, its ranges and the recordings that use it share.
pub(super) struct Shared<D: DescriptorDevice> {
    allocator: Arc<Allocator<D>>,
    pub(super) tracker: SubmissionTracker,
    pub(super) heap_type: ShaderVisibleHeapType,
    limits: ShaderVisibleHeapLimits,
    pub(super) slots: Slots,
    pub(super) tables: Tables,
    /// Nothing once the heap is gone. Read by who writes descriptors, written when the heap is replaced.
    live: RwLock<Option<Live<D>>>,
    /// Had by who replaces the heap.
    replacing: Mutex<()>,
    retired: ReleaseQueue<Gone<D>>,
    /// Room for what goes with what comes back.
    kept: Mutex<Vec<Kept<D>>>,
    /// Lists of chunks, empty, to be used again.
    lists: Mutex<Vec<Vec<Chunk>>>,
    /// The device panicked when the mirror was cleared: it may name what is gone, and is not copied any more.
    unclear: AtomicBool,
}

/// The heap as it is now.
pub(super) struct Live<D: DescriptorDevice> {
    pub(super) desc: ShaderVisibleHeapDesc,
    pub(super) current: Arc<Generation<D>>,
    /// The one before, as long as recordings use it.
    previous: Weak<Generation<D>>,
    /// Slots and tables, where they are in `current`. All of it is written: what is nobody's, with descriptors of
    /// nothing, so that nothing is ever copied that points at what is gone.
    pub(super) mirror: DeviceHeap<D>,
}

/// Room from the start, so that a steady program costs the heap nothing when its frames are late for once: what goes
/// with a frame that comes back, recordings on their way, and chunks of each.
const KEPT: usize = 256;
const LISTS: usize = 16;
const CHUNKS: usize = 32;

/// Numbers heaps. With 64 bits there is no end to them.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl<D: DescriptorDevice> ShaderVisibleHeap<D> {
    /// A heap with regions as described. All its descriptors are of nothing.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::OverLimit`] beyond what the device can have, [`DescriptorError::Foreign`] where the tracker is
    /// another device's, or the device refuses.
    pub fn new(
        allocator: &Arc<Allocator<D>>,
        tracker: &SubmissionTracker,
        desc: ShaderVisibleHeapDesc,
    ) -> Result<Self, DescriptorError> {
        let device = allocator.device();
        if !tracker.tracks(device) {
            return Err(DescriptorError::Foreign);
        }
        let limits = *device.descriptor_limits().shader_visible(desc.heap_type);
        let regions = Regions::new(&desc, &limits)?;
        let current = Generation::new(allocator, desc.heap_type, 0, regions)?;
        let mirror = new_mirror(allocator, &current)?;
        copy_all(&mirror, &current)?;
        let (slots, tables) =
            (Slots::new(NEXT.fetch_add(1, Relaxed), desc.slots), Tables::new(&current.regions));
        let live = Live { desc, current: Arc::new(current), previous: Weak::new(), mirror };
        let shared = Shared {
            allocator: Arc::clone(allocator),
            tracker: tracker.clone(),
            heap_type: desc.heap_type,
            limits,
            slots,
            tables,
            live: RwLock::new(Some(live)),
            replacing: Mutex::new(()),
            retired: ReleaseQueue::new(tracker),
            kept: Mutex::new(Vec::with_capacity(KEPT)),
            lists: Mutex::new((0..LISTS).map(|_| Vec::with_capacity(CHUNKS)).collect()),
            unclear: AtomicBool::new(false),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The tracker that says when something may be used again.
    #[must_use]
    pub fn tracker(&self) -> &SubmissionTracker {
        &self.shared.tracker
    }

    /// What it is of.
    #[must_use]
    pub fn heap_type(&self) -> ShaderVisibleHeapType {
        self.shared.heap_type
    }

    /// The allocator of the device.
    #[must_use]
    pub fn allocator(&self) -> &Arc<Allocator<D>> {
        &self.shared.allocator
    }

    /// Writes a descriptor into a slot of its own, which keeps `keep` for as long as it can be read.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Exhausted`], or the descriptor is of another kind.
    pub fn insert(
        &self,
        descriptor: &D::Descriptor<'_>,
        keep: Option<KeepAlive>,
    ) -> Result<DescriptorSlot, DescriptorError> {
        let shared = &*self.shared;
        let mut slot = match shared.take_slot() {
            Some(slot) => slot,
            None => {
                shared.reclaim();
                shared.take_slot().ok_or_else(|| shared.no_slots(1))?
            }
        };
        slot.write(descriptor)?;
        Ok(slot.publish(keep))
    }

    /// The same for many, all or none: the slots, in the order of the descriptors.
    ///
    /// # Errors
    ///
    /// As for [`insert`](Self::insert); no slot was taken then, and no descriptor is left in the heap. The same holds
    /// where the iterator panics.
    pub fn insert_all<'d>(
        &self,
        mut descriptors: impl ExactSizeIterator<Item = (D::Descriptor<'d>, Option<KeepAlive>)>,
    ) -> Result<Vec<DescriptorSlot>, DescriptorError> {
        let shared = &*self.shared;
        let count = u32::try_from(descriptors.len()).unwrap_or(u32::MAX);
        // Before the slots, so that on failure what was kept goes after the slots are cleared, as does the iterator.
        let mut keeps = Vec::new();
        let mut taken = match shared.take_slots(count) {
            Some(taken) => taken,
            None => {
                shared.reclaim();
                shared.take_slots(count).ok_or_else(|| shared.no_slots(count))?
            }
        };
        keeps.reserve(taken.len());
        for (slot, (descriptor, keep)) in taken.iter_mut().zip(descriptors.by_ref()) {
            keeps.push(keep);
            slot.write(&descriptor)?;
        }
        // An iterator that says it has more than it has leaves some unwritten, which go back.
        taken.truncate(keeps.len());
        Ok(taken.into_iter().zip(keeps).map(|(slot, keep)| slot.publish(keep)).collect())
    }

    /// Gives a slot back. What it points at, and its index, come back when all recordings that are open now are over.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Stale`] where it was removed before, [`DescriptorError::Foreign`] where it is another heap's.
    pub fn remove(&self, slot: DescriptorSlot) -> Result<(), DescriptorError> {
        let keep = self.shared.slots.remove(slot)?;
        self.shared.retired.retire(Gone::Slot { index: slot.index(), keep });
        Ok(())
    }

    /// Gives a slot back and puts a descriptor into another one, or does neither. What is in flight goes on reading the
    /// old one.
    ///
    /// # Errors
    ///
    /// As for [`insert`](Self::insert) and [`remove`](Self::remove).
    pub fn replace(
        &self,
        slot: DescriptorSlot,
        descriptor: &D::Descriptor<'_>,
        keep: Option<KeepAlive>,
    ) -> Result<DescriptorSlot, DescriptorError> {
        self.shared.slots.check(slot)?;
        let new = self.insert(descriptor, keep)?;
        match self.remove(slot) {
            Ok(()) => Ok(new),
            Err(error) => {
                // Somebody else was faster, just now. Nobody knows the new one.
                self.remove(new)?;
                Err(error)
            }
        }
    }

    /// A table of `count` descriptors in a row, filled as [the heap's description](ShaderVisibleHeapDesc::fill) says.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Empty`], [`DescriptorError::NeverFits`], [`DescriptorError::Exhausted`].
    pub fn allocate(&self, count: u32) -> Result<DescriptorRange<D>, DescriptorError> {
        let entry = self.shared.take_table(count)?;
        let range = DescriptorRange::new(Arc::clone(&self.shared), entry, count);
        let live = self.shared.live()?;
        if let Some(live) = &*live {
            // SAFETY: the range was taken just now, so it is nobody else's, and nobody was told of it.
            unsafe { self.shared.fill(live, entry, count) }?;
        }
        Ok(range)
    }

    /// What a recording sees of the heap: the device's heap to bind, where things are in it, and room of its own. It
    /// takes chunks when they are needed, so it costs next to nothing to have one.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Foreign`] where the recording is another tracker's, [`DescriptorError::Owning`] where nothing
    /// that is given back waits for it.
    pub fn begin(&self, recording: &Recording) -> Result<TransientDescriptors<D>, DescriptorError> {
        if !recording.tracker().ptr_eq(&self.shared.tracker) {
            return Err(DescriptorError::Foreign);
        }
        if recording.is_owning() {
            return Err(DescriptorError::Owning);
        }
        let live = self.shared.live()?;
        let current = live.as_ref().map(|live| Arc::clone(&live.current)).ok_or(DescriptorError::HeapGone)?;
        let chunks = locked(&self.shared.lists).pop().unwrap_or_default();
        Ok(TransientDescriptors::new(Arc::clone(&self.shared), current, recording.id(), chunks))
    }

    /// Takes back what the GPU is done with. Once a frame, say; requests that find no room do so by themselves.
    pub fn reclaim(&self) -> Reclaimed {
        self.shared.reclaim()
    }

    /// Replaces the heap by one with larger regions. Slots keep their index, tables move next to each other.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::NeverFits`] where a region would be smaller, [`DescriptorError::OverLimit`],
    /// [`DescriptorError::StillReplacing`] where the heap before this one is still used,
    /// [`DescriptorError::Poisoned`], [`DescriptorError::TooManyReplacements`], or the device refuses. All is as it was
    /// then.
    pub fn grow(&self, slots: u32, tables: u32, transient: u32) -> Result<(), DescriptorError> {
        self.shared.replace_heap(|desc| {
            let regions = [(desc.slots, slots), (desc.tables, tables), (desc.transient, transient)];
            match regions.into_iter().find(|(old, new)| new < old) {
                Some((requested, capacity)) => Err(DescriptorError::NeverFits { requested, capacity }),
                None => Ok(desc.with_regions(slots, tables, transient)),
            }
        })
    }

    /// Replaces the heap by one where tables stand side by side, so that all that is free of their region is one range.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::StillReplacing`] where the heap before this one is still used,
    /// [`DescriptorError::Poisoned`], [`DescriptorError::TooManyReplacements`], or the device refuses. All is as it was
    /// then.
    pub fn compact(&self) -> Result<(), DescriptorError> {
        self.shared.replace_heap(Ok)
    }

    /// How full it is.
    #[must_use]
    pub fn statistics(&self) -> ShaderVisibleStatistics {
        let live = self.shared.read();
        let current = live.as_ref().map(|live| &live.current);
        ShaderVisibleStatistics {
            slots: self.shared.slots.statistics(),
            tables: self.shared.tables.statistics(),
            transient: current.map_or_else(DescriptorHeapStatistics::default, |current| current.statistics()),
            generation: current.map_or(0, |current| current.number),
            capacity: current.map_or(0, |current| current.heap.capacity()),
        }
    }

    /// What is on its way back: how many things, and since when.
    #[must_use]
    pub fn retiring(&self) -> ReleaseStatistics {
        self.shared.retired.statistics()
    }

    /// Waits until everything that was given back is back, at most for `timeout`, or until what is left waits for a
    /// recording that is open.
    pub fn drain(&self, timeout: Duration) -> ReleaseStatistics {
        let shared = &self.shared;
        shared.retired.drain(timeout, |gone| drop(shared.come_back(gone)))
    }
}

impl<D: DescriptorDevice> Shared<D> {
    fn read(&self) -> RwLockReadGuard<'_, Option<Live<D>>> {
        self.live.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_lock(&self) -> RwLockWriteGuard<'_, Option<Live<D>>> {
        self.live.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The heap as it is, which stays so as long as the guard lives.
    pub(super) fn live(&self) -> Result<RwLockReadGuard<'_, Option<Live<D>>>, DescriptorError> {
        let live = self.read();
        if live.is_some() { Ok(live) } else { Err(DescriptorError::HeapGone) }
    }
}

impl<D: DescriptorDevice> Drop for ShaderVisibleHeap<D> {
    /// The device's heap goes when no recording that is open, and no queue, can use it. Ranges that are left are of no
    /// more use.
    fn drop(&mut self) {
        let live = self.shared.write_lock().take();
        // With the lock given back: the mirror goes now, the device's heap with what it points at later, also where the
        // device panics when the mirror goes.
        let (current, mirror) = live.map(|live| (live.current, live.mirror)).unzip();
        let last =
            Last { tracker: &self.shared.tracker, what: Some((current, self.shared.slots.take_keeps())) };
        drop(mirror);
        drop(last);
        self.shared.reclaim();
    }
}

impl<D: DescriptorDevice> fmt::Debug for ShaderVisibleHeap<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShaderVisibleHeap").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}
