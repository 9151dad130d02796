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

use core::fmt;
use core::mem;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, Weak};

use super::error::{DescriptorError, Region};
use super::generation::{Chunk, Generation};
use super::heap::{DeviceHeap, Fill};
use super::range::DescriptorRange;
use super::regions::{Regions, ShaderVisibleHeapDesc};
use super::slots::{DescriptorSlot, Keep, Slots};
use super::statistics::DescriptorHeapStatistics;
use super::tables::Tables;
use super::transient::TransientDescriptors;
use crate::device::{
    DescriptorDevice, DescriptorHeapVisibility, ShaderVisibleHeapLimits, ShaderVisibleHeapType,
};
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
    pub(super) kind: ShaderVisibleHeapType,
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

/// What was given back.
pub(super) enum Gone<D: DescriptorDevice> {
    Slot { index: u32, keep: Option<Keep> },
    Table { entry: u32, count: u32 },
    Chunks { generation: Arc<Generation<D>>, chunks: Vec<Chunk> },
    Kept(Kept<D>),
}

/// What lived as long as something that was given back.
pub(super) enum Kept<D: DescriptorDevice> {
    Generation { _it: Arc<Generation<D>> },
    Keep { _it: Keep },
    Keeps { _them: Vec<Keep> },
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
        let limits = *device.descriptor_limits().shader_visible(desc.kind);
        let regions = Regions::new(&desc, &limits)?;
        let current = Generation::new(allocator, desc.kind, 0, regions)?;
        let mirror = new_mirror(allocator, &current)?;
        copy_all(&mirror, &current)?;
        let (slots, tables) =
            (Slots::new(NEXT.fetch_add(1, Relaxed), desc.slots), Tables::new(&current.regions));
        let live = Live { desc, current: Arc::new(current), previous: Weak::new(), mirror };
        let shared = Shared {
            allocator: Arc::clone(allocator),
            tracker: tracker.clone(),
            kind: desc.kind,
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
    pub fn kind(&self) -> ShaderVisibleHeapType {
        self.shared.kind
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
        keep: Option<Keep>,
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
        mut descriptors: impl ExactSizeIterator<Item = (D::Descriptor<'d>, Option<Keep>)>,
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
        keep: Option<Keep>,
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
    /// [`DescriptorError::Foreign`] where the recording is another tracker's, [`DescriptorError::ExplicitRecording`] where nothing
    /// that is given back waits for it.
    pub fn begin(&self, recording: &Recording) -> Result<TransientDescriptors<D>, DescriptorError> {
        if !recording.tracker().ptr_eq(&self.shared.tracker) {
            return Err(DescriptorError::Foreign);
        }
        if recording.is_explicit() {
            return Err(DescriptorError::ExplicitRecording);
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

/// A slot that was taken and whose handle nobody has yet. When this is dropped it goes back, and is cleared before where
/// it was written: the next heap is a copy of the mirror, and must not get a descriptor of what its owner destroys.
struct Taken<'a, D: DescriptorDevice> {
    shared: &'a Shared<D>,
    index: u32,
    written: bool,
}

impl<D: DescriptorDevice> Taken<'_, D> {
    fn write(&mut self, descriptor: &D::Descriptor<'_>) -> Result<(), DescriptorError> {
        self.written = true;
        self.shared.write(Spot::Slot(self.index), descriptor)
    }

    /// Makes its handle.
    fn publish(self, keep: Option<Keep>) -> DescriptorSlot {
        let taken = mem::ManuallyDrop::new(self);
        taken.shared.slots.publish(taken.index, keep)
    }
}

impl<D: DescriptorDevice> Drop for Taken<'_, D> {
    fn drop(&mut self) {
        if !self.written || self.shared.clear_after_failure(Spot::Slot(self.index), 1) {
            self.shared.slots.put_back(self.index);
        }
    }
}

/// Clears descriptors whose writing panics, once the locks are given back.
struct Writing<'a, D: DescriptorDevice> {
    shared: &'a Shared<D>,
    spot: Spot,
    count: u32,
}

impl<D: DescriptorDevice> Drop for Writing<'_, D> {
    fn drop(&mut self) {
        self.shared.clear_after_failure(self.spot, self.count);
    }
}

/// Notes that the mirror may hold descriptors of what is gone, unless it is forgotten.
struct Clearing<'a>(&'a AtomicBool);

impl Drop for Clearing<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A place that is written.
#[derive(Clone, Copy)]
pub(super) enum Spot {
    Slot(u32),
    /// The `at`-th descriptor of a table.
    Table {
        entry: u32,
        at: u32,
    },
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

    fn take_slot(&self) -> Option<Taken<'_, D>> {
        self.slots.take().map(|index| Taken { shared: self, index, written: false })
    }

    /// As many slots as are wanted, or none.
    fn take_slots(&self, count: u32) -> Option<Vec<Taken<'_, D>>> {
        // Looked at before, so that what others want is not taken for nothing.
        if count > self.slots.statistics().free {
            return None;
        }
        let taken: Vec<_> = core::iter::from_fn(|| self.take_slot()).take(count as usize).collect();
        (taken.len() == count as usize).then_some(taken)
    }

    /// Does something that writes a spot. Should the device panic meanwhile, the spot is cleared: whoever wrote it thinks
    /// that nothing was written, and may destroy what the descriptor is of.
    fn writing(
        &self,
        (spot, count): (Spot, u32),
        write: impl FnOnce() -> Result<(), DescriptorError>,
    ) -> Result<(), DescriptorError> {
        let writing = Writing { shared: self, spot, count };
        let written = write();
        // What is refused is refused before a byte is written.
        mem::forget(writing);
        written
    }

    /// Writes a descriptor that nobody reads yet, wherever the spot is.
    pub(super) fn write(&self, spot: Spot, descriptor: &D::Descriptor<'_>) -> Result<(), DescriptorError> {
        self.writing((spot, 1), || self.write_unguarded(spot, descriptor))
    }

    fn write_unguarded(&self, spot: Spot, descriptor: &D::Descriptor<'_>) -> Result<(), DescriptorError> {
        let guard = self.live()?;
        let live = guard.as_ref().ok_or(DescriptorError::HeapGone)?;
        let at = self.locate(spot, &live.current).ok_or(DescriptorError::Stale)?;
        // SAFETY: slots and tables are written by whoever has their only token, before anybody is told of them; the
        // heap is not replaced as long as the guard lives.
        unsafe { live.mirror.write(at, descriptor) }?;
        // SAFETY: as above.
        unsafe { self.publish(live, spot, 1) }
    }

    /// Copies staging descriptors to a spot.
    ///
    /// # Safety
    ///
    /// The spot's descriptors are the caller's, and nobody was told of them yet; those that are copied were written, and
    /// nobody writes them meanwhile.
    pub(super) unsafe fn copy(
        &self,
        spot: Spot,
        from: &DeviceHeap<D>,
        from_at: u32,
        count: u32,
    ) -> Result<(), DescriptorError> {
        self.writing((spot, count), || {
            let guard = self.live()?;
            let live = guard.as_ref().ok_or(DescriptorError::HeapGone)?;
            let at = self.locate(spot, &live.current).ok_or(DescriptorError::Stale)?;
            // SAFETY: the caller's promise.
            unsafe { live.mirror.copy_from(from, from_at, at, count) }?;
            // SAFETY: the caller's promise.
            unsafe { self.publish(live, spot, count) }
        })
    }

    /// Copies a table to another one, which nobody was told of.
    pub(super) fn copy_table(&self, from: u32, to: u32, count: u32) -> Result<(), DescriptorError> {
        let guard = self.live()?;
        let live = guard.as_ref().ok_or(DescriptorError::HeapGone)?;
        let place = |entry| self.tables.place(entry, live.current.number).ok_or(DescriptorError::Stale);
        let (from, at) = (place(from)?, place(to)?);
        // SAFETY: all of the mirror is written; both tables have their only owner here, who lends them.
        unsafe { live.mirror.copy_from(&live.mirror, from, at, count) }?;
        // SAFETY: as above.
        unsafe { self.publish(live, Spot::Table { entry: to, at: 0 }, count) }
    }

    /// Copies what the mirror has to the heaps that recordings see.
    ///
    /// # Safety
    ///
    /// The descriptors are the caller's, and nobody was told of them yet.
    pub(super) unsafe fn publish(
        &self,
        live: &Live<D>,
        spot: Spot,
        count: u32,
    ) -> Result<(), DescriptorError> {
        let from = self.locate(spot, &live.current).ok_or(DescriptorError::Stale)?;
        // SAFETY: the mirror is written, all of it; the rest is the caller's promise.
        unsafe { live.current.heap.copy_from(&live.mirror, from, from, count) }?;
        if let Some(previous) = live.previous.upgrade() {
            if let Some(to) = self.locate(spot, &previous) {
                // SAFETY: as above; this heap is live since it is held.
                unsafe { previous.heap.copy_from(&live.mirror, from, to, count) }?;
            }
        }
        Ok(())
    }

    /// Where a spot is in a generation that is alive. `None` where it came later.
    fn locate(&self, spot: Spot, generation: &Generation<D>) -> Option<u32> {
        match spot {
            Spot::Slot(index) => (index < generation.regions.slots).then_some(index),
            Spot::Table { entry, at } => self.tables.place(entry, generation.number).map(|first| first + at),
        }
    }

    /// Makes a new table what the heap's description says.
    ///
    /// # Safety
    ///
    /// The table is the caller's, and nobody was told of it yet.
    unsafe fn fill(&self, live: &Live<D>, entry: u32, count: u32) -> Result<(), DescriptorError> {
        let first = self.tables.place(entry, live.current.number).ok_or(DescriptorError::Stale)?;
        match live.desc.fill {
            Fill::Leave => return Ok(()),
            // As it is in the mirror.
            Fill::Null => {}
            Fill::Poison => {
                // SAFETY: the caller's promise.
                unsafe { live.mirror.fill(first..first + count, Fill::Poison) }?;
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.publish(live, Spot::Table { entry, at: 0 }, count) }
    }

    /// Makes the mirror's descriptors of what came back those of nothing, before what they point at goes. Where the device
    /// panics, the mirror is not copied any more.
    fn clear(&self, spot: Spot, count: u32) {
        let guard = self.read();
        let Some(live) = &*guard else { return };
        if let Some(first) = self.locate(spot, &live.current) {
            let clearing = Clearing(&self.unclear);
            // SAFETY: nobody has the slot or the table any more, and no GPU reads the mirror.
            let cleared = unsafe { live.mirror.fill(first..first + count, Fill::Null) };
            mem::forget(clearing);
            debug_assert!(cleared.is_ok(), "it lies in its region");
        }
    }

    /// The same after something else failed or panicked: a device that panics again here does not end the process.
    /// Returns whether the spot is cleared.
    fn clear_after_failure(&self, spot: Spot, count: u32) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.clear(spot, count))).is_ok()
    }

    pub(super) fn take_table(&self, count: u32) -> Result<u32, DescriptorError> {
        if count == 0 {
            return Err(DescriptorError::Empty);
        }
        if let Some(entry) = self.try_take_table(count)? {
            return Ok(entry);
        }
        self.reclaim();
        if let Some(entry) = self.try_take_table(count)? {
            return Ok(entry);
        }
        self.tables.count_failure();
        let statistics = self.tables.statistics();
        if count > statistics.capacity {
            return Err(DescriptorError::NeverFits { requested: count, capacity: statistics.capacity });
        }
        Err(self.exhausted(self.kind, Region::Tables, count, &statistics))
    }

    fn try_take_table(&self, count: u32) -> Result<Option<u32>, DescriptorError> {
        let live = self.live()?;
        // The heap is not replaced between the look at its generation and the taking.
        Ok(live.as_ref().and_then(|live| self.tables.take(count, live.current.number)))
    }

    fn no_slots(&self, requested: u32) -> DescriptorError {
        self.slots.count_failure();
        let statistics = self.slots.statistics();
        if requested > statistics.capacity {
            return DescriptorError::NeverFits { requested, capacity: statistics.capacity };
        }
        self.exhausted(self.kind, Region::Slots, requested, &statistics)
    }

    pub(super) fn exhausted(
        &self,
        kind: ShaderVisibleHeapType,
        region: Region,
        requested: u32,
        statistics: &DescriptorHeapStatistics,
    ) -> DescriptorError {
        let DescriptorHeapStatistics { free, largest_free: largest, retiring, .. } = *statistics;
        let wait = if retiring > 0 { self.retired.wait_for() } else { None };
        DescriptorError::Exhausted { kind: kind.into(), region, requested, free, largest, retiring, wait }
    }

    pub(super) fn retire_table(&self, entry: u32, count: u32) {
        self.tables.retiring(count);
        self.retired.retire(Gone::Table { entry, count });
    }

    pub(super) fn retire_keeps(&self, keeps: Vec<Keep>) {
        if !keeps.is_empty() {
            self.retired.retire(Gone::Kept(Kept::Keeps { _them: keeps }));
        }
    }

    pub(super) fn retire_keep(&self, keep: Keep) {
        self.retired.retire(Gone::Kept(Kept::Keep { _it: keep }));
    }

    /// Chunks of a recording that is over for who had them: they go when it is.
    pub(super) fn retire_chunks(
        &self,
        recording: crate::lifetime::RecordingId,
        generation: Arc<Generation<D>>,
        chunks: Vec<Chunk>,
    ) {
        if chunks.is_empty() {
            // It took none, so there is nothing to wait with: the heap itself is retired when it is replaced.
            locked(&self.lists).push(chunks);
            return;
        }
        generation.retiring(&chunks);
        self.retired.retire_with(recording, Gone::Chunks { generation, chunks });
    }

    /// Gives a slot back that no recording can use, by whoever has seen to that.
    pub(super) fn remove_unused(&self, slot: DescriptorSlot) {
        if self.slots.remove(slot).is_ok() {
            self.clear(Spot::Slot(slot.index()), 1);
            self.slots.come_back(slot.index());
        }
    }

    pub(super) fn reclaim(&self) -> Reclaimed {
        self.come_back_by(|each| self.retired.reclaim_here(each))
    }

    /// Takes back what `reclaim` hands out. What it kept goes after all of it is back, with no lock held: a destructor
    /// may come back to the heap, and one that panics loses nothing.
    fn come_back_by<R>(&self, reclaim: impl FnOnce(&mut dyn FnMut(Gone<D>)) -> R) -> R {
        let mut kept = mem::take(&mut *locked(&self.kept));
        let reclaimed = reclaim(&mut |gone| kept.extend(self.come_back(gone)));
        kept.clear();
        // More may come back at once some day, when queues were late. A destructor that came back here has no room.
        if kept.capacity() > 0 {
            kept.reserve(self.retired.room());
        }
        // The room is used again.
        *locked(&self.kept) = kept;
        reclaimed
    }

    /// Takes something back, and returns what goes with it.
    fn come_back(&self, gone: Gone<D>) -> Option<Kept<D>> {
        match gone {
            Gone::Slot { index, keep } => {
                // Should the device panic, the resource stays for ever, since the mirror may still name it.
                let keep = mem::ManuallyDrop::new(keep);
                self.clear(Spot::Slot(index), 1);
                self.slots.come_back(index);
                mem::ManuallyDrop::into_inner(keep).map(|keep| Kept::Keep { _it: keep })
            }
            Gone::Table { entry, count } => {
                self.clear(Spot::Table { entry, at: 0 }, count);
                self.tables.come_back(entry);
                None
            }
            Gone::Chunks { generation, mut chunks } => {
                generation.give_back(&chunks);
                chunks.clear();
                locked(&self.lists).push(chunks);
                Some(Kept::Generation { _it: generation })
            }
            Gone::Kept(kept) => Some(kept),
        }
    }

    /// Whether recordings that begin now see this one.
    pub(super) fn is_current(&self, generation: &Generation<D>) -> bool {
        self.read().as_ref().is_some_and(|live| live.current.number == generation.number)
    }

    /// Makes another heap of the device and copies everything there.
    fn replace_heap(
        &self,
        change: impl FnOnce(ShaderVisibleHeapDesc) -> Result<ShaderVisibleHeapDesc, DescriptorError>,
    ) -> Result<(), DescriptorError> {
        let _one_at_a_time = match self.replacing.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(DescriptorError::StillReplacing { wait: None }),
        };
        self.reclaim();
        let (desc, number) = {
            let live = self.live()?;
            let live = live.as_ref().ok_or(DescriptorError::HeapGone)?;
            if live.previous.strong_count() > 0 {
                return Err(DescriptorError::StillReplacing { wait: self.retired.wait_for() });
            }
            let number = live.current.number.checked_add(1).ok_or(DescriptorError::TooManyReplacements)?;
            (change(live.desc)?, number)
        };
        let regions = Regions::new(&desc, &self.limits)?;
        // With no lock held that anybody waits for.
        let new = Generation::new(&self.allocator, desc.kind, number, regions)?;
        let mirror = new_mirror(&self.allocator, &new)?;

        let mut guard = self.write_lock();
        let live = guard.as_mut().ok_or(DescriptorError::HeapGone)?;
        // Whoever clears has the lock for reading, so this is the last word.
        if self.unclear.load(Relaxed) {
            return Err(DescriptorError::Poisoned);
        }
        let mut tables = self.tables.lock();
        let packed = tables.pack(&self.tables, &new.regions)?;
        let slots = (0, 0, live.desc.slots);
        let moved = packed.moves.iter().map(|table| (table.from, table.to, table.count));
        for (from, to, count) in core::iter::once(slots).chain(moved).filter(|&(_, _, count)| count > 0) {
            // SAFETY: the mirrors are written, all of them, and nobody else writes them while the lock is held; the new
            // one is nobody else's.
            unsafe { mirror.copy_from(&live.mirror, from, to, count) }?;
        }
        copy_all(&mirror, &new)?;
        self.tables.move_to(&mut tables, packed, number);
        drop(tables);
        self.slots.grow(desc.slots);
        new.inherit(&live.current);
        let old = mem::replace(&mut live.current, Arc::new(new));
        live.previous = Arc::downgrade(&old);
        live.desc = desc;
        let old_mirror = mem::replace(&mut live.mirror, mirror);
        drop(guard);
        self.retired.retire(Gone::Kept(Kept::Generation { _it: old }));
        drop(old_mirror);
        Ok(())
    }
}

/// Retires something when it is dropped.
struct Last<'a, T: Send + 'static> {
    tracker: &'a SubmissionTracker,
    what: Option<T>,
}

impl<T: Send + 'static> Drop for Last<'_, T> {
    fn drop(&mut self) {
        self.what.take().into_iter().for_each(|what| ReleaseQueue::new(self.tracker).retire(what));
    }
}

/// A staging heap for what is in slots and tables, all of it written.
fn new_mirror<D: DescriptorDevice>(
    allocator: &Arc<Allocator<D>>,
    generation: &Generation<D>,
) -> Result<DeviceHeap<D>, DescriptorError> {
    // A heap of nothing but chunks has nothing to mirror, and there are no heaps of nothing.
    let kept = generation.regions.kept().max(1);
    let mirror = DeviceHeap::new(allocator, DescriptorHeapVisibility::CpuOnly(generation.heap.kind()), kept)?;
    // SAFETY: nobody else knows of it.
    unsafe { mirror.fill(0..kept, Fill::Null) }?;
    Ok(mirror)
}

/// Copies the mirror to a heap that nobody else knows of.
fn copy_all<D: DescriptorDevice>(
    mirror: &DeviceHeap<D>,
    generation: &Generation<D>,
) -> Result<(), DescriptorError> {
    if generation.regions.kept() == 0 {
        return Ok(());
    }
    // SAFETY: the mirror is written, all of it, and nobody writes there meanwhile; nobody reads the other.
    unsafe { generation.heap.copy_from(mirror, 0, 0, generation.regions.kept()) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AllocatorDesc;
    use crate::device::simulated::{Profile, SimulatedGpu};

    #[test]
    fn a_heap_whose_replacements_can_be_counted_no_more_is_not_replaced() {
        let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
        let tracker = SubmissionTracker::new(device.clone()).unwrap();
        let allocator = Arc::new(Allocator::new(device, AllocatorDesc::default()).unwrap());
        let desc = ShaderVisibleHeapDesc::resources().with_regions(4, 16, 16).with_chunk(4);
        let heap = ShaderVisibleHeap::new(&allocator, &tracker, desc).unwrap();
        if let Some(live) = &mut *heap.shared.write_lock() {
            Arc::get_mut(&mut live.current).unwrap().number = u32::MAX - 1;
        }
        let before = heap.allocate(4).unwrap();
        heap.compact().unwrap();
        assert_eq!(heap.statistics().generation, u32::MAX);
        let after = heap.allocate(4).unwrap();
        heap.reclaim();
        assert_eq!(heap.compact(), Err(DescriptorError::TooManyReplacements));
        assert_eq!(heap.grow(8, 16, 16), Err(DescriptorError::TooManyReplacements));
        let recording = tracker.record("a frame");
        let view = heap.begin(&recording).unwrap();
        let places = [&before, &after].map(|table| view.place(table).unwrap().first);
        assert_eq!(places[0].abs_diff(places[1]), 4, "each has its own");
    }
}
