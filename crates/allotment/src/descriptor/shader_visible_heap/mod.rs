//! The shader-visible heap: bindless slots, long-lived tables and chunks for recordings, in one heap of the
//! device.
//!
//! ```text
//!   ShaderVisibleHeap
//!   ├── slots       one descriptor each, at an index that never changes
//!   ├── tables      ranges, each owned by a `DescriptorRange`
//!   ├── generation  the device's present heap, with chunks for recordings   ◄── recordings hold the one they began with
//!   ├── mirror      a CPU heap: a copy of slots and tables
//!   └── retired     released slots, tables and chunks, until the GPU has finished with them
//! ```
//!
//! An API binds one heap of a type at a time, and changing it is expensive, so there is one. It has the
//! requested size; when it is full, requests return an error that says how full, and which event to wait for.
//! [Growing](ShaderVisibleHeap::grow) or [compacting](ShaderVisibleHeap::compact) it creates another heap of
//! the device and copies the mirror to it, in bulk, since the CPU does not read a heap that the GPU sees. Open
//! recordings continue with the heap that they began with, in which nothing moves; it is destroyed when the
//! last of them completes. Writes meanwhile go to both heaps.
//!
//! Each file has one concern: [`allocation`] takes slots and tables, [`mirror`] writes them, [`retirement`]
//! makes them reusable, [`replacement`] grows and compacts, [`compaction`] moves tables step by step, [`followed`] lists the descriptors of relocatable resources,
//! and [`following`] rewrites them when defragmentation moves those.

mod allocation;
mod compaction;
mod followed;
mod following;
mod mirror;
mod replacement;
mod retirement;

use core::fmt;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use core::time::Duration;
use std::sync::{Arc, Mutex, Weak};

pub use self::compaction::CompactionStep;
use self::followed::Followed;
pub(super) use self::mirror::WriteTarget;
use self::mirror::{copy_all, new_mirror};
use self::retirement::{Kept, RetireOnDrop, Retired};
use super::buffer_view::BufferView;
use super::device_heap::DeviceHeap;
use super::error::DescriptorError;
use super::generation::{Chunk, Generation};
use super::heap_desc::ShaderVisibleHeapDesc;
use super::heap_regions::Regions;
use super::image_view::ImageView;
use super::owned_view::OwnedView;
use super::range::DescriptorRange;
use super::shown::Shown;
use super::slots::{DescriptorSlot, KeepAlive, Slots};
use super::statistics::DescriptorHeapStatistics;
use super::tables::Tables;
use super::texel_view::TexelBufferView;
use super::transient::TransientDescriptors;
use crate::device::{
    BufferUse, BufferViewDesc, DescriptorDevice, ShaderVisibleHeapLimits, ShaderVisibleHeapType,
};
use crate::lifetime::{Reclaimed, Recording, ReleaseQueue, ReleaseStatistics, SubmissionTracker};
use crate::memory::{
    Allocator, Buffer, DescriptorSites, HasDescriptors, Image, LeakedDescriptors, ShortName,
};
use crate::sync::locked;
use crate::sync::present::{Present, PresentGuard};

/// A descriptor heap that shaders access. `Send + Sync`; every method takes `&self`.
///
/// ```
/// use std::sync::Arc;
///
/// use allotment::descriptor::{ShaderVisibleHeap, ShaderVisibleHeapDesc};
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::device::{BufferDesc, BufferUse, DescriptorDevice};
/// use allotment::lifetime::SubmissionTracker;
/// use allotment::memory::MappedBuffer;
/// use allotment::{AllocationOptions, Allocator, AllocatorDesc, MemoryUsage, Requirements};
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let tracker = SubmissionTracker::new(device.clone())?;
/// let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default())?);
/// let heap = ShaderVisibleHeap::new(&allocator, &tracker, ShaderVisibleHeapDesc::resources())?;
///
/// // Something for shaders to read, which lives as long as its slot can be read.
/// let desc = AllocationOptions::new(MemoryUsage::Upload);
/// let albedo = Arc::new(MappedBuffer::new(&allocator, &BufferDesc::new(256).into(), &desc)?);
/// let handle = albedo.handle();
/// // SAFETY: the buffer is live, and the range lies in it.
/// let descriptor = unsafe { device.buffer_descriptor(&handle, 0..256, BufferUse::ReadOnly) };
/// let slot = heap.insert(&descriptor, Some(albedo.clone()))?;
/// println!("shaders find it at index {}", slot.index());
///
/// // A recording binds the heap that it begins with.
/// let recording = tracker.record("a frame");
/// let transient = heap.begin(&recording)?;
/// let bind: &allotment::device::simulated::SimulatedDescriptorHeap = transient.heap();
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

/// Statistics of a shader-visible heap.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let heap = gpu.descriptors()?.resources().statistics();
/// println!("{} of {} slots used, {} descriptors in all", heap.slots.used, heap.slots.capacity, heap.capacity);
/// assert_eq!(heap.generation, 0, "the heap was never replaced");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShaderVisibleStatistics {
    /// Bindless slots.
    pub slots: DescriptorHeapStatistics,
    /// Long-lived tables.
    pub tables: DescriptorHeapStatistics,
    /// Chunks of recordings, in the heap that recordings begin with now.
    pub transient: DescriptorHeapStatistics,
    /// The number of replacements of the heap.
    pub generation: u32,
    /// The size of the device's heap in descriptors: the regions, their alignment, and those that the driver
    /// reserves.
    pub capacity: u32,
}

/// State shared by the heap, its ranges and its recordings.
pub(super) struct Shared<D: DescriptorDevice> {
    allocator: Arc<Allocator<D>>,
    pub(super) tracker: SubmissionTracker,
    pub(super) heap_type: ShaderVisibleHeapType,
    limits: ShaderVisibleHeapLimits,
    pub(super) slots: Slots,
    pub(super) tables: Tables,
    /// `None` after the heap was dropped.
    live: Present<Live<D>>,
    /// Set during a replacement of the heap.
    replacing: AtomicBool,
    /// The descriptors of relocatable resources.
    pub(super) followed: Followed<D>,
    retired: ReleaseQueue<Retired<D>>,
    /// An empty vector to reuse, for the objects to drop in a reclaim.
    kept: Mutex<Vec<Kept<D>>>,
    /// Empty lists of chunks to reuse.
    lists: Mutex<Vec<Vec<Chunk>>>,
    /// The device panicked while the mirror was cleared: it may refer to destroyed resources, and is not copied
    /// any more.
    poisoned: AtomicBool,
    /// Where slots and tables were allocated.
    pub(super) sites: DescriptorSites,
    /// Slots of the library's own, which are among those in use.
    own_slots: AtomicU32,
}

/// The present heap.
pub(super) struct Live<D: DescriptorDevice> {
    pub(super) desc: ShaderVisibleHeapDesc,
    pub(super) current: Arc<Generation<D>>,
    /// The previous heap, as long as recordings use it.
    previous: Weak<Generation<D>>,
    /// A copy of slots and tables, at their locations in `current`. All of it is written: unused descriptors
    /// are null, so that no descriptor of a destroyed resource is ever copied.
    pub(super) mirror: DeviceHeap<D>,
}

/// Capacities reserved from the start, so that a steady program allocates nothing when a frame is late: objects
/// dropped per reclaim, recordings in flight, and chunks per recording.
const KEPT: usize = 256;
const LISTS: usize = 16;
const CHUNKS: usize = 32;

/// The number of the next heap. 64 bits do not run out.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl<D: DescriptorDevice> ShaderVisibleHeap<D> {
    /// Creates a heap with the described regions. All its descriptors are null.
    ///
    /// A reader of the allocator's [events](Allocator::subscribe) sees it, whether the heap belongs to a
    /// [`Gpu`](crate::Gpu) or stands alone, and whichever of the two came first.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// use allotment::descriptor::{ShaderVisibleHeap, ShaderVisibleHeapDesc};
    /// use allotment::events::{Event, EventBatch, SubscriptionDesc};
    /// use allotment::lifetime::SubmissionTracker;
    ///
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let tracker = SubmissionTracker::new(device.clone())?;
    /// let allocator = Arc::new(Allocator::new(device, AllocatorDesc::default())?);
    /// let heap = ShaderVisibleHeap::new(&allocator, &tracker, ShaderVisibleHeapDesc::resources())?;
    /// let mut events = allocator.subscribe(&SubscriptionDesc::default())?;
    /// let table = heap.allocate(16)?;
    /// let mut batch = EventBatch::new();
    /// events.read(&mut batch);
    /// let mut found = batch.events().iter();
    /// assert!(found.any(|event| matches!(event, Event::DescriptorHeapCreated { .. })));
    /// assert!(found.any(|event| matches!(event, Event::DescriptorsAllocated { count: 16, .. })));
    /// # drop(table);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DescriptorError::NoHeaps`] where shaders see none, [`DescriptorError::OverLimit`] beyond the device's limit,
    /// [`DescriptorError::WrongDevice`] if the tracker belongs to another device, or the device's error.
    #[inline(never)]
    pub fn new(
        allocator: &Arc<Allocator<D>>,
        tracker: &SubmissionTracker,
        desc: ShaderVisibleHeapDesc,
    ) -> Result<Self, DescriptorError> {
        let device = allocator.device();
        if !tracker.tracks(device) {
            return Err(DescriptorError::WrongDevice { name: ShortName::NONE });
        }
        let limits = *device.descriptor_limits().shader_visible(desc.heap_type);
        let regions = Regions::new(&desc, &limits)?;
        let current = Generation::new(allocator, desc.heap_type, 0, regions)?;
        let mirror = new_mirror(allocator, &current)?;
        // The new heap's contents are undefined: the mirror's null descriptors define them.
        copy_all(&mirror, &current)?;
        let (log, id) = (allocator.events(), NEXT.fetch_add(1, Relaxed));
        let slots = Slots::new(id, desc.slots, log, current.chunks());
        let tables = Tables::new(&current.regions, log, current.chunks());
        let live = Live { desc, current: Arc::new(current), previous: Weak::new(), mirror };
        let shared = Shared {
            allocator: Arc::clone(allocator),
            tracker: tracker.clone(),
            heap_type: desc.heap_type,
            limits,
            slots,
            tables,
            live: Present::new(live),
            replacing: AtomicBool::new(false),
            followed: Followed::new(),
            retired: ReleaseQueue::new(tracker),
            kept: Mutex::new(Vec::with_capacity(KEPT)),
            lists: Mutex::new((0..LISTS).map(|_| Vec::with_capacity(CHUNKS)).collect()),
            poisoned: AtomicBool::new(false),
            sites: DescriptorSites::new(allocator.desc().call_sites),
            own_slots: AtomicU32::new(0),
        };
        let shared = Arc::new(shared);
        allocator.descriptor_heaps().add(&shared);
        Ok(Self { shared })
    }

    /// Returns the tracker whose submissions keep descriptors in use.
    #[must_use]
    pub fn tracker(&self) -> &SubmissionTracker {
        &self.shared.tracker
    }

    /// Returns the type of the heap.
    #[must_use]
    pub fn heap_type(&self) -> ShaderVisibleHeapType {
        self.shared.heap_type
    }

    /// Returns the allocator of the device.
    #[must_use]
    pub fn allocator(&self) -> &Arc<Allocator<D>> {
        &self.shared.allocator
    }

    /// Writes a descriptor into a new slot, which keeps `keep` alive as long as the descriptor can be read.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Exhausted`], or [`DescriptorError::WrongKind`] for a descriptor of another type.
    #[inline(never)]
    #[track_caller]
    pub fn insert(
        &self,
        descriptor: &D::Descriptor<'_>,
        keep: Option<KeepAlive>,
    ) -> Result<DescriptorSlot, DescriptorError> {
        let slot = self.shared.insert(descriptor, keep)?;
        self.shared.note_slot(slot);
        Ok(slot)
    }

    /// Writes a descriptor of the library's own, which is no leak of the program.
    pub(super) fn insert_own(
        &self,
        descriptor: &D::Descriptor<'_>,
    ) -> Result<DescriptorSlot, DescriptorError> {
        let slot = self.shared.insert(descriptor, None)?;
        self.shared.own_slots.fetch_add(1, Relaxed);
        Ok(slot)
    }

    /// Writes several descriptors into new slots, all or none, and returns the slots in the order of the
    /// descriptors.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::device::BufferUse;
    ///
    /// let lights = std::sync::Arc::new(gpu.create_buffer(&BufferDesc::new(1024), &MemoryUsage::GpuOnly.into())?);
    /// let handle = lights.handle();
    /// let parts = [0, 256, 512, 768].into_iter().map(|start| {
    ///     // SAFETY: the buffer is alive as long as the slots, which keep it, and the range lies in it.
    ///     let part = unsafe { device.buffer_descriptor(&handle, start..start + 256, BufferUse::ReadOnly) };
    ///     (part, Some(lights.clone() as _))
    /// });
    /// let slots = gpu.descriptors()?.resources().insert_all(parts)?;
    /// assert_eq!(slots.len(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert); then no slot is taken and no descriptor is left in the heap. The same
    /// holds if the iterator panics.
    #[track_caller]
    pub fn insert_all<'d>(
        &self,
        mut descriptors: impl ExactSizeIterator<Item = (D::Descriptor<'d>, Option<KeepAlive>)>,
    ) -> Result<Vec<DescriptorSlot>, DescriptorError> {
        let shared = &*self.shared;
        let count = u32::try_from(descriptors.len()).unwrap_or(u32::MAX);
        // Declared before the slots, so that on failure these objects and the iterator are dropped after the
        // slots are cleared.
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
        // An iterator that yields fewer than its length leaves slots unwritten, which are returned.
        taken.truncate(keeps.len());
        let slots: Vec<_> =
            taken.into_iter().zip(keeps).map(|(slot, keep)| slot.publish_with(keep)).collect();
        for &slot in &slots {
            shared.note_slot(slot);
        }
        Ok(slots)
    }

    /// Writes a descriptor of a range of a buffer into a new slot, which keeps the buffer alive. Where defragmentation may
    /// move the buffer, the slot follows: its index stays, and each recording reads where the buffer was when its
    /// [view](Self::begin) of the heap began.
    ///
    /// A move of such a buffer replaces the heap, as [`grow`](Self::grow) does, once for all moves of a step.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::device::BufferUse;
    ///
    /// let options = MemoryUsage::GpuOnly.with_name("lights").relocatable();
    /// let lights = std::sync::Arc::new(gpu.create_buffer(&BufferDesc::new(256), &options)?);
    /// // On Vulkan with `VK_BUFFER_USAGE_STORAGE_BUFFER_BIT`.
    /// let slot = gpu.descriptors()?.resources().insert_buffer(&lights, 0..256, BufferUse::ReadOnly)?;
    /// println!("shaders read the lights at index {}, wherever they are", slot.index());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert), and of [`BufferView::new`].
    #[inline(never)]
    #[track_caller]
    pub fn insert_buffer(
        &self,
        buffer: &Arc<Buffer<D>>,
        range: core::ops::Range<u64>,
        usage: BufferUse,
    ) -> Result<DescriptorSlot, DescriptorError> {
        let desc = BufferViewDesc::new(range, usage);
        let shown = Shown::Buffer { buffer: Arc::clone(buffer), desc };
        let slot = self.insert_shown(shown.checked(self.allocator(), self.tracker())?)?;
        self.shared.note_slot(slot);
        Ok(slot)
    }

    /// Writes a descriptor of an image into a new slot, which keeps the image and its view alive. It follows moves as
    /// the slot of a [buffer](Self::insert_buffer) does.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::device::simulated::SimulatedImageUse;
    ///
    /// let options = MemoryUsage::GpuOnly.with_name("albedo").relocatable();
    /// let albedo = std::sync::Arc::new(gpu.create_image(&ImageDesc::new(64, 64, 4), &options)?);
    /// // On Vulkan the description of a `VkImageView`, on Direct3D 12 that of a shader resource view.
    /// let view = SimulatedImageUse::Sampled;
    /// // SAFETY: images of the simulated device can be used for anything.
    /// let slot = unsafe { gpu.descriptors()?.resources().insert_image(&albedo, &view) }?;
    /// println!("shaders sample the albedo at index {}", slot.index());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert), and [`DescriptorError::WrongDevice`].
    ///
    /// # Safety
    ///
    /// The promises of [`BindingSet::bind_image`](super::BindingSet::bind_image).
    #[inline(never)]
    #[track_caller]
    pub unsafe fn insert_image(
        &self,
        image: &Arc<Image<D>>,
        view: &D::ImageViewInfo,
    ) -> Result<DescriptorSlot, DescriptorError> {
        let shown = Shown::Image { image: Arc::clone(image), info: view.clone() };
        let shown = shown.checked(self.allocator(), self.tracker())?;
        let slot = self.insert_shown(shown)?;
        self.shared.note_slot(slot);
        Ok(slot)
    }

    /// Writes a descriptor of a view into a new slot, which keeps the view and its image alive. It follows moves as the slot
    /// of a [buffer](Self::insert_buffer) does.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::device::ImageViewDesc;
    ///
    /// let albedo = Arc::new(gpu.create_image(&ImageDesc::new(64, 64, 4), &MemoryUsage::GpuOnly.with_name("albedo"))?);
    /// let view = Arc::new(gpu.create_image_view(&albedo, &ImageViewDesc::sampled())?);
    /// let slot = gpu.descriptors()?.resources().insert_view(&view)?;
    /// println!("shaders sample the albedo at index {}", slot.index());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert), [`DescriptorError::NotForShaders`] for a view that is rendered to or an input
    /// attachment, [`DescriptorError::WrongDevice`], [`DescriptorError::WrongTracker`].
    #[inline(never)]
    #[track_caller]
    pub fn insert_view(&self, view: &Arc<ImageView<D>>) -> Result<DescriptorSlot, DescriptorError> {
        view.check_for_shaders()?;
        self.insert_owned(view.view(), Arc::clone(view) as KeepAlive)
    }

    /// Writes a descriptor of a view into a new slot, which keeps the view and its buffer alive. It follows moves as the slot
    /// of a [buffer](Self::insert_buffer) does.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::device::{BufferUse, BufferViewDesc};
    ///
    /// let camera = Arc::new(gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("camera"))?);
    /// let view = gpu.create_buffer_view(&camera, &BufferViewDesc::new(0..256, BufferUse::Constants))?;
    /// let slot = gpu.descriptors()?.resources().insert_buffer_view(&Arc::new(view))?;
    /// println!("shaders find the constants at index {}", slot.index());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert), [`DescriptorError::TypeNotListed`], [`DescriptorError::WrongDevice`],
    /// [`DescriptorError::WrongTracker`].
    #[inline(never)]
    #[track_caller]
    pub fn insert_buffer_view(&self, view: &Arc<BufferView<D>>) -> Result<DescriptorSlot, DescriptorError> {
        self.insert_owned(view.view(), Arc::clone(view) as KeepAlive)
    }

    /// Writes a descriptor of a buffer that shaders see as texels into a new slot, which keeps the view and its buffer alive.
    /// It follows moves as the slot of a [buffer](Self::insert_buffer) does.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert), [`DescriptorError::TypeNotListed`], [`DescriptorError::WrongDevice`],
    /// [`DescriptorError::WrongTracker`].
    #[inline(never)]
    #[track_caller]
    pub fn insert_texel_buffer(
        &self,
        view: &Arc<TexelBufferView<D>>,
    ) -> Result<DescriptorSlot, DescriptorError> {
        self.insert_owned(view.view(), Arc::clone(view) as KeepAlive)
    }

    /// Writes a descriptor of a view into a new slot. `keep` is the owner of the view.
    #[track_caller]
    fn insert_owned<V>(
        &self,
        view: &OwnedView<D, V>,
        keep: KeepAlive,
    ) -> Result<DescriptorSlot, DescriptorError> {
        let shown = view.shown();
        shown.check_for(self.allocator(), self.tracker())?;
        let slot = if shown.is_relocatable() {
            self.insert_shown(shown.clone())?
        } else {
            let mut slot = self.shared.take_slot_or_reclaim(Some(keep))?;
            view.with_descriptor(|descriptor| slot.write(descriptor))?;
            slot.publish()
        };
        self.shared.note_slot(slot);
        Ok(slot)
    }

    fn insert_shown(&self, shown: Shown<D>) -> Result<DescriptorSlot, DescriptorError> {
        let shared = &self.shared;
        let Some(key) = shown.follow(shared) else {
            let view = shown.create_view(self.allocator())?;
            let slot = shown.with_descriptor(&view, |descriptor| {
                // The descriptor borrows the view, which the slot is to own: so that it is published without.
                let mut slot = shared.take_slot_or_reclaim(None)?;
                slot.write(descriptor)?;
                Ok::<_, DescriptorError>(slot)
            });
            let slot = slot.unwrap_or(Err(DescriptorError::Stale))?;
            return Ok(slot.publish_with(Some(shown.keep_with(view))));
        };
        // Before the lock: reclaiming runs destructors.
        let mut slot = shared.take_slot_or_reclaim(Some(shown.keep()))?;
        shared.follow(shown, key, |descriptor| {
            slot.write(descriptor)?;
            let slot = slot.publish();
            Ok((WriteTarget::Slot(slot.index()), slot))
        })
    }

    /// Removes a slot. Its resource is released, and its index reused, once all recordings that are open now
    /// have completed.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Stale`] if it was removed before, [`DescriptorError::WrongHeap`] if it belongs to
    /// another heap.
    #[inline(never)]
    pub fn remove(&self, slot: DescriptorSlot) -> Result<(), DescriptorError> {
        let keep = self.shared.slots.remove(slot)?;
        self.shared.sites.forget(slot.index().into());
        // Before it is retired: nothing writes the slot again once its index can be reused.
        self.shared.unfollow([WriteTarget::Slot(slot.index())]);
        self.shared.retired.retire(Retired::Slot { index: slot.index(), keep });
        Ok(())
    }

    /// Removes a slot and writes a descriptor into a new one, or does neither. Work in flight continues to read
    /// the old one.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert) and [`remove`](Self::remove).
    #[inline(never)]
    #[track_caller]
    pub fn replace(
        &self,
        slot: DescriptorSlot,
        descriptor: &D::Descriptor<'_>,
        keep: Option<KeepAlive>,
    ) -> Result<DescriptorSlot, DescriptorError> {
        // Checked first, so that the common error writes no descriptor.
        self.shared.slots.check(slot)?;
        let new = self.insert(descriptor, keep)?;
        match self.remove(slot) {
            Ok(()) => Ok(new),
            Err(error) => {
                // Another thread removed the slot since the check. The new one is unknown to the caller.
                self.remove(new)?;
                Err(error)
            }
        }
    }

    /// Allocates a table of `count` adjacent descriptors, filled as [the heap's
    /// description](ShaderVisibleHeapDesc::fill) says.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let table = gpu.descriptors()?.resources().allocate(16)?; // null descriptors, until they are written
    /// assert_eq!(table.count(), 16);
    /// drop(table); // freed once no recording can use it
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Empty`], [`DescriptorError::NeverFits`], [`DescriptorError::Exhausted`].
    #[inline(never)]
    #[track_caller]
    pub fn allocate(&self, count: u32) -> Result<DescriptorRange<D>, DescriptorError> {
        let entry = self.shared.take_table(count)?;
        let range = DescriptorRange::new(Arc::clone(&self.shared), entry, count);
        let live = self.shared.live()?;
        if let Some(live) = &*live {
            // SAFETY: the range was allocated just now, so no other code owns it, and no recording was given
            // its location.
            unsafe { self.shared.fill(live, entry, count) }?;
        }
        self.shared.sites.note(site_of_table(entry), count);
        Ok(range)
    }

    /// Creates a recording's view of the heap: the device's heap to bind, the locations of tables in it, and
    /// transient tables. The view takes chunks on demand, so an unused one costs next to nothing.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let frame = gpu.begin_frame()?;
    /// let mut transient = gpu.descriptors()?.resources().begin(frame.recording())?;
    /// println!("bind {:?}", transient.heap());
    /// let table = transient.allocate(4)?;
    /// println!("a table at {}", table.place().first);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DescriptorError::WrongTracker`] if the recording belongs to another tracker,
    /// [`DescriptorError::ExplicitRecording`] if it is explicit, so that released descriptors do not wait for it.
    #[inline(never)]
    pub fn begin(&self, recording: &Recording) -> Result<TransientDescriptors<D>, DescriptorError> {
        self.shared.tracker.check_same(recording.tracker())?;
        if recording.is_explicit() {
            return Err(DescriptorError::ExplicitRecording);
        }
        let live = self.shared.live()?;
        let current = live.as_ref().map(|live| Arc::clone(&live.current)).ok_or(DescriptorError::HeapGone)?;
        let chunks = locked(&self.shared.lists).pop().unwrap_or_default();
        Ok(TransientDescriptors::new(Arc::clone(&self.shared), current, recording.id(), chunks))
    }

    /// Makes released objects reusable once the GPU has finished with them. Call it once per frame; requests
    /// that find nothing free call it too.
    #[inline(never)]
    pub fn reclaim(&self) -> Reclaimed {
        self.shared.reclaim()
    }

    /// Replaces the heap by one with larger regions. Slots keep their index, tables are packed side by side.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let heap = gpu.descriptors()?.resources();
    /// let now = heap.statistics();
    /// heap.grow(now.slots.capacity * 2, now.tables.capacity, now.transient.capacity)?;
    /// assert_eq!(heap.statistics().slots.capacity, now.slots.capacity * 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DescriptorError::NeverFits`] if a region would be smaller, [`DescriptorError::OverLimit`],
    /// [`DescriptorError::StillReplacing`] if the previous heap is still in use, [`DescriptorError::Poisoned`],
    /// [`DescriptorError::TooManyReplacements`], or the device's error. Nothing has changed then.
    pub fn grow(&self, slots: u32, tables: u32, transient: u32) -> Result<(), DescriptorError> {
        self.shared.replace_heap(|desc| {
            let regions = [(desc.slots, slots), (desc.tables, tables), (desc.transient, transient)];
            match regions.into_iter().find(|(old, new)| new < old) {
                Some((requested, capacity)) => Err(DescriptorError::NeverFits { requested, capacity }),
                None => Ok(desc.with_regions(slots, tables, transient)),
            }
        })
    }

    /// Replaces the heap by one with its tables packed side by side, so that the free part of their region is
    /// one range.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let heap = gpu.descriptors()?.resources();
    /// let (first, second) = (heap.allocate(16)?, heap.allocate(16)?);
    /// drop(first);
    /// heap.reclaim();
    /// heap.compact()?; // `second` moves to the start of its region
    /// assert_eq!(heap.statistics().tables.fragmentation(), 0.0);
    /// # drop(second);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DescriptorError::StillReplacing`] if the previous heap is still in use, [`DescriptorError::Poisoned`],
    /// [`DescriptorError::TooManyReplacements`], or the device's error. Nothing has changed then.
    pub fn compact(&self) -> Result<(), DescriptorError> {
        self.shared.replace_heap(Ok)
    }

    /// Moves tables to lower places of the heap, from the highest one down, until `most` descriptors have moved or no table can
    /// move lower. Called repeatedly, once a frame say, it brings the free part of their region together as
    /// [`compact`](Self::compact) does, without another heap.
    ///
    /// Recordings that are open keep the old ranges in use, so what a step has moved from is free some frames later. Where it
    /// returns that no table moved, and none is [retiring](super::DescriptorHeapStatistics::retiring), there is nothing left to do
    /// until tables are released.
    ///
    /// Costs about a microsecond for each table that moves, during which other threads wait to write descriptors, and some tens of
    /// nanoseconds for each table of the heap whenever all have been looked at.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let heap = gpu.descriptors()?.resources();
    /// let mut tables: Vec<_> = (0..8).map(|_| heap.allocate(16)).collect::<Result<_, _>>()?;
    /// let frame = gpu.begin_frame()?; // it may use all of them where they are
    /// tables.drain(..4);
    /// assert_eq!(heap.compact_step(32)?.tables, 0, "what was released is not free yet");
    /// frame.end()?;
    /// while heap.compact_step(32)?.tables > 0 {
    ///     // A frame of the program.
    /// }
    /// assert_eq!(heap.statistics().tables.fragmentation(), 0.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Poisoned`], or the device's error. What moved before that stays moved.
    pub fn compact_step(&self, most: u32) -> Result<CompactionStep, DescriptorError> {
        self.shared.compact_step(most)
    }

    /// Returns how full the heap is.
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

    /// Returns the number of released objects that are not reusable yet, and since when.
    #[must_use]
    pub fn retiring(&self) -> ReleaseStatistics {
        self.shared.retired.statistics()
    }

    /// Waits at most for `timeout` until all released objects are reusable, or until the remaining ones wait
    /// for an open recording.
    pub fn drain(&self, timeout: Duration) -> ReleaseStatistics {
        let shared = &self.shared;
        shared.retired.drain(timeout, |retired| drop(shared.make_one_reusable(retired)))
    }
}

/// Returns the key of a table's call site. Those of slots are their indices.
pub(super) fn site_of_table(entry: u32) -> u64 {
    1 << 32 | u64::from(entry)
}

impl<D: DescriptorDevice> HasDescriptors for Shared<D> {
    fn live(&self) -> Vec<LeakedDescriptors> {
        let mut live = self.live_tables();
        // The slots of a heap that was dropped were noted then.
        if self.read().is_some() {
            live.append(&mut self.live_slots());
        }
        live
    }
}

impl<D: DescriptorDevice> Shared<D> {
    #[track_caller]
    fn note_slot(&self, slot: DescriptorSlot) {
        self.sites.note(slot.index().into(), 1);
    }

    fn live_slots(&self) -> Vec<LeakedDescriptors> {
        let heap = match self.heap_type {
            ShaderVisibleHeapType::Resource => "shader-visible resource descriptors (slots)",
            ShaderVisibleHeapType::Sampler => "shader-visible sampler descriptors (slots)",
        };
        let usage = self.slots.statistics();
        let others = usage.retiring + self.own_slots.load(Relaxed);
        self.sites.live(heap, usage.used.saturating_sub(others), ..1 << 32)
    }

    fn live_tables(&self) -> Vec<LeakedDescriptors> {
        let heap = match self.heap_type {
            ShaderVisibleHeapType::Resource => {
                "shader-visible resource descriptors (ranges and binding sets)"
            }
            ShaderVisibleHeapType::Sampler => "shader-visible sampler descriptors (ranges and binding sets)",
        };
        let usage = self.tables.statistics();
        self.sites.live(heap, usage.used.saturating_sub(usage.retiring), 1 << 32..)
    }

    fn read(&self) -> PresentGuard<'_, Live<D>> {
        self.live.read()
    }

    /// Locks the present heap, which is not replaced as long as the guard lives.
    pub(super) fn live(&self) -> Result<PresentGuard<'_, Live<D>>, DescriptorError> {
        let live = self.read();
        if live.is_some() { Ok(live) } else { Err(DescriptorError::HeapGone) }
    }
}

impl<D: DescriptorDevice> Drop for ShaderVisibleHeap<D> {
    /// The device's heap is destroyed once no open recording and no queue can use it. Remaining ranges become
    /// unusable.
    #[inline(never)]
    fn drop(&mut self) {
        // The slots end with the heap; ranges are given back by being dropped.
        self.shared.allocator.descriptor_heaps().note_left(self.shared.live_slots());
        let live = self.shared.live.exclusive().replace(None);
        // After the lock is released: the mirror is dropped now, the device's heap and the resources of its
        // slots later, even if the device panics while the mirror is dropped.
        let (current, mirror) = live.map(|live| (live.current, live.mirror)).unzip();
        // Before the device's heap can be destroyed: nothing in it is allocated or freed after that.
        self.shared.tables.leave();
        let last = RetireOnDrop {
            tracker: &self.shared.tracker,
            what: Some((current, self.shared.slots.take_keeps(), self.shared.followed.take_all())),
        };
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
