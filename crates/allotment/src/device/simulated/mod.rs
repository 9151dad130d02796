//! A simulated device that is real: its memory is memory, its queues are threads that copy bytes later
//! than they were told to, and it fails where a test wants it to.
//!
//! What a driver cannot be made to do on demand is done here: run out at the k-th call, lose the device,
//! have odd limits, be a machine that is not on the desk. A [`Profile`] says which heaps, memory types
//! and limits it has.
//!
//! It also watches its user, as a validation layer does: what a real driver would have no word for
//! (memory freed while a queue still uses it, a flush off the atom, a double map, a copy the wrong way) is
//! written down and read by [`SimulatedGpu::complaints`].
//!
//! Where memory is not host-coherent, CPU and queues see different bytes until someone flushes or
//! invalidates, so a forgotten flush is seen as wrong bytes.
//!
//! ```
//! use allotment::device::simulated::{SimulatedGpu, Profile};
//! use allotment::device::{Device, DeviceError, MemoryDesc, MemoryTypeIndex};
//!
//! let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
//! device.fail_call(1, DeviceError::OutOfDeviceMemory);
//! let wanted = MemoryDesc::new(MemoryTypeIndex(0), 4096);
//! assert_eq!(device.allocate_memory(&wanted), Err(DeviceError::OutOfDeviceMemory));
//! assert!(device.allocate_memory(&wanted).is_ok(), "only that one call failed");
//! assert_eq!(device.usage().memory_objects, 1);
//! ```

mod commands;
mod descriptors;
mod faults;
mod images;
mod memory;
mod names;
mod profile;
mod queues;
mod reads;

use core::fmt::Debug;
use core::ops::{Deref, Range};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use super::{
    BufferDesc, DedicatedNeed, DescriptionError, DescriptionLimit, Device, DeviceError, DeviceProperties,
    ImageDesc, MemoryDesc, MemoryHeapBudget, MemoryHeapIndex, MemoryProperties, Priority, PrioritySupport,
    QueueIndex, Requirements, ResourceKind, Submission, Tiling, TimelinePoint, TimelineValue, TransferUsage,
};
use crate::sync::locked;

pub use commands::CommandAllocator;
pub use descriptors::{HostDescriptor, HostDescriptorHeap, HostImageUse, HostSampler};
use faults::Faults;
use images::Shape;
pub use memory::SimulatedMemory;
use memory::{Memories, MemoryObject};
use names::{Name, Named, Names};
pub use profile::Profile;
use queues::{HostCopy, Queues, Task};
pub use reads::HostRead;

/// The simulated device. A clone is the same device.
#[derive(Clone, Debug)]
pub struct SimulatedGpu {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    properties: DeviceProperties,
    profile: Profile,
    memories: Memories,
    /// What [`SimulatedGpu::set_budget`] said, by heap.
    budgets: Mutex<Vec<u64>>,
    faults: Faults,
    queues: Queues,
    /// The counts of users of resources that are gone, for others: so a steady program's resources cost the heap
    /// nothing here.
    no_users: Mutex<Vec<Arc<Users>>>,
    /// What descriptors name.
    names: Arc<Names>,
    complaints: Complaints,
}

/// What a validation layer would have said.
#[derive(Clone, Debug, Default)]
struct Complaints(Arc<Mutex<Vec<String>>>);

impl Complaints {
    fn add(&self, complaint: String) {
        locked(&self.0).push(complaint);
    }
}

/// A buffer of the simulated device.
#[derive(Clone, Debug)]
pub struct SimulatedBuffer {
    range: ResourceRange,
    /// What it was made for.
    copies: TransferUsage,
}

/// An image of the simulated device.
#[derive(Clone, Debug)]
pub struct SimulatedImage {
    range: ResourceRange,
    shape: Shape,
}

impl SimulatedBuffer {
    /// Says what is wrong with a copy that uses the buffer so, where something is.
    fn complaint(&self, copy: TransferUsage) -> Option<&'static str> {
        (!self.copies.contains(copy)).then_some("is of a buffer that was not made to be copied that way")
    }
}

/// Where a resource stands.
#[derive(Clone, Debug)]
struct ResourceRange {
    memory: Arc<MemoryObject>,
    offset: u64,
    size: u64,
    /// What descriptors call it.
    name: Name,
    /// Shared by all names of the resource, so that an early destruction is noticed, and a use after it.
    users: Arc<Users>,
}

/// Who uses a resource.
#[derive(Debug, Default)]
struct Users {
    /// Copies of queues, each end of one counted.
    copies: AtomicU32,
    /// It was destroyed, though others have a name for it still.
    gone: AtomicBool,
}

/// A resource that a queue's copy uses.
#[derive(Debug)]
struct InUse(ResourceRange);

impl InUse {
    fn new(range: &ResourceRange) -> Self {
        range.users.copies.fetch_add(1, Relaxed);
        Self(range.clone())
    }
}

impl Deref for InUse {
    type Target = ResourceRange;

    fn deref(&self) -> &ResourceRange {
        &self.0
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.users.copies.fetch_sub(1, Relaxed);
    }
}

/// What is in use, and which calls were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostUsage {
    /// Memory objects that are live.
    pub memory_objects: u32,
    /// Bytes in them.
    pub memory_bytes: u64,
    /// Buffers that are live.
    pub buffers: u64,
    /// Images that are live.
    pub images: u64,
    /// Heaps of descriptors that are live.
    pub descriptor_heaps: u64,
    /// Samplers that are live.
    pub samplers: u32,
    /// Calls that allocated memory, successful or not, since the device was made.
    pub allocate_calls: u64,
    /// Calls that freed memory.
    pub free_calls: u64,
    /// Calls that mapped memory.
    pub map_calls: u64,
    /// Calls that copied descriptors, however many each.
    pub descriptor_copies: u64,
}

impl SimulatedGpu {
    /// A device as `profile` describes it. Starts its queues' threads when they are first used.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        let properties = profile.properties();
        let complaints = Complaints::default();
        let names = Arc::<Names>::default();
        let shared = Shared {
            memories: Memories::new(&properties, complaints.clone()),
            budgets: Mutex::new(properties.heaps.iter().map(|heap| heap.size / 10 * 9).collect()),
            faults: Faults::default(),
            queues: Queues::new(properties.queues.len(), Arc::clone(&names), complaints.clone()),
            // As many as most programs let go at once; more than that grow it.
            no_users: Mutex::new(Vec::with_capacity(1024)),
            names,
            complaints,
            properties,
            profile,
        };
        Self { shared: Arc::new(shared) }
    }

    /// A [usage](BufferDesc::usage) of this device's buffers: the buffer may stand in any memory, that of
    /// images too. It is how bytes that are nobody's texels get in and out of images here.
    pub const ANYWHERE: u64 = 1;

    /// A [usage](BufferDesc::usage) of this device's buffers: no copy reads from the buffer, as on Vulkan without
    /// `VK_BUFFER_USAGE_TRANSFER_SRC_BIT`.
    pub const NO_TRANSFER_SRC: u64 = 1 << 1;

    /// A [usage](BufferDesc::usage) of this device's buffers: no copy writes to the buffer, as on Vulkan without
    /// `VK_BUFFER_USAGE_TRANSFER_DST_BIT`.
    pub const NO_TRANSFER_DST: u64 = 1 << 2;

    /// A usage of this device's [buffers](BufferDesc::usage) and [images](ImageDesc::usage): the resource
    /// [requires](DedicatedNeed::Required) dedicated memory, as on Vulkan where the driver says
    /// `requiresDedicatedAllocation`. Such a resource is created together with its memory
    /// ([`create_dedicated_buffer`](Device::create_dedicated_buffer),
    /// [`create_dedicated_image`](Device::create_dedicated_image)). In memory that was allocated by itself the device
    /// refuses to create it, and [complains](Self::complaints).
    pub const REQUIRES_DEDICATED: u64 = 1 << 3;

    /// What the device was made as.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.shared.profile
    }

    /// What memory a resource of this kind, size and own alignment needs on this device.
    #[must_use]
    pub fn requirements(&self, kind: ResourceKind, own: Requirements) -> Requirements {
        self.shared.profile.requirements(kind, own)
    }

    /// What is in use now.
    #[must_use]
    pub fn usage(&self) -> HostUsage {
        self.shared.memories.usage()
    }

    /// The residency priority that the device was told last of live memory; `None` of memory that is not live. Nothing
    /// is moved out here, so it is only noted.
    #[must_use]
    pub fn priority_of(&self, memory: SimulatedMemory) -> Option<Priority> {
        self.shared.memories.get(memory).map(|object| object.priority())
    }

    /// What a validation layer would have said so far; nothing, if all is well.
    #[must_use]
    pub fn validation_errors(&self) -> Vec<String> {
        locked(&self.shared.complaints.0).clone()
    }

    /// How many calls that can fail were made so far.
    #[must_use]
    pub fn fallible_calls(&self) -> u64 {
        self.shared.faults.calls()
    }

    /// Makes the `k`-th call from now that can fail, counted from 1, fail with `error`, and only that one.
    pub fn fail_call(&self, k: u64, error: DeviceError) {
        self.shared.faults.fail(k, 1, error);
    }

    /// Makes every call that can fail, from the `k`-th from now on, fail with `error`.
    pub fn fail_from(&self, k: u64, error: DeviceError) {
        self.shared.faults.fail(k, u64::MAX, error);
    }

    /// Ends what [`fail_call`](Self::fail_call) and [`fail_from`](Self::fail_from) began. A lost device
    /// stays lost.
    pub fn clear_faults(&self) {
        self.shared.faults.clear_faults();
    }

    /// Loses the device: every call that can fail answers [`DeviceError::Lost`] from now on, and what was
    /// submitted never completes.
    pub fn lose_device(&self) {
        self.shared.faults.lose_device();
        self.shared.queues.lose_device();
    }

    /// Sets the budget that the device reports of a heap. Unless set, it is nine tenths of the heap.
    pub fn set_budget(&self, heap: MemoryHeapIndex, bytes: u64) {
        if let Some(budget) = locked(&self.shared.budgets).get_mut(heap.get()) {
            *budget = bytes;
        }
    }

    /// Holds all queues back before their next submission, until [`resume_queues`](Self::resume_queues).
    pub fn pause_queues(&self) {
        self.shared.queues.set_paused(true);
    }

    /// Lets the queues run on.
    pub fn resume_queues(&self) {
        self.shared.queues.set_paused(false);
    }

    /// How long each submission takes at least, in addition to its copies. Unless set: nothing.
    pub fn set_latency(&self, latency: Duration) {
        self.shared.queues.set_latency(latency);
    }

    fn complain(&self, complaint: impl Into<String>) {
        self.shared.complaints.add(complaint.into());
    }

    /// What memory a buffer needs.
    fn needs(&self, desc: &BufferDesc) -> Requirements {
        let own = Requirements { dedicated: dedicated_need(desc.usage), ..Requirements::new(desc.size) };
        if desc.usage & Self::ANYWHERE != 0 { own } else { self.requirements(ResourceKind::Buffer, own) }
    }

    /// What memory an image needs; `None` where there can be no such image.
    fn image_needs(&self, desc: &ImageDesc) -> Option<Requirements> {
        let size = Shape::of(desc)?.size()?;
        if size > self.shared.properties.limits.max_allocation_size {
            return None;
        }
        let own = Requirements { dedicated: dedicated_need(desc.usage), ..Requirements::new(size) };
        Some(self.requirements(kind_of(desc), own))
    }

    /// Checks that the resource may be created in memory that was allocated by itself.
    fn check_shared(&self, call: &str, what: &impl Debug, needs: &Requirements) -> Result<(), DeviceError> {
        if needs.dedicated == DedicatedNeed::Required {
            self.complain(format!("{call}: {what:?} requires memory that is allocated together with it"));
            return Err(DeviceError::Unsupported);
        }
        Ok(())
    }

    fn buffer_at(
        &self,
        desc: &BufferDesc,
        memory: SimulatedMemory,
        offset: u64,
    ) -> Result<SimulatedBuffer, DeviceError> {
        let range = self.place("create_buffer", desc, desc.size, &self.needs(desc), memory, offset)?;
        self.shared.memories.count_buffer(1);
        Ok(SimulatedBuffer { range, copies: self.buffer_transfer_usage(desc) })
    }

    fn image_at(
        &self,
        desc: &ImageDesc,
        memory: SimulatedMemory,
        offset: u64,
    ) -> Result<SimulatedImage, DeviceError> {
        let needs = self.image_needs(desc).ok_or(DeviceError::Unsupported)?;
        let shape = Shape::of(desc).ok_or(DeviceError::Unsupported)?;
        let range = self.place("create_image", desc, needs.size, &needs, memory, offset)?;
        self.shared.memories.count_image(1);
        Ok(SimulatedImage { range, shape })
    }

    /// Checks that a resource of `size` bytes may stand at a place.
    fn place(
        &self,
        call: &str,
        what: &impl Debug,
        size: u64,
        needs: &Requirements,
        memory: SimulatedMemory,
        offset: u64,
    ) -> Result<ResourceRange, DeviceError> {
        self.shared.faults.check()?;
        let object = self.object(memory, call)?;
        let end = offset.checked_add(needs.size);
        if size == 0 || end.is_none_or(|end| end > object.size()) {
            self.complain(format!("{call}: {what:?} at {offset} reaches beyond {memory:?}"));
            return Err(DeviceError::Unsupported);
        }
        if !needs.alignment.is_aligned(offset) || !needs.memory_types.contains(object.memory_type()) {
            let memory_type = object.memory_type();
            self.complain(format!("{call}: at {offset} of type {memory_type} {needs:?} do not hold"));
            return Err(DeviceError::Unsupported);
        }
        let users = locked(&self.shared.no_users).pop().unwrap_or_default();
        let name = self.shared.names.add(Named::Bytes { memory: Arc::clone(&object), offset, size });
        Ok(ResourceRange { memory: object, offset, size, name, users })
    }

    /// Ends what [`place`](Self::place) began.
    fn leave(&self, call: &str, range: ResourceRange) {
        if range.users.copies.load(Relaxed) > 0 && !self.shared.queues.is_lost() {
            self.complain(format!("{call}: {range:?} is still used by a queue"));
        }
        range.users.gone.store(true, Relaxed);
        self.shared.names.remove(range.name);
        // Nobody has another name for it.
        if Arc::strong_count(&range.users) == 1 {
            range.users.gone.store(false, Relaxed);
            locked(&self.shared.no_users).push(range.users);
        }
    }

    /// Makes memory and what stands in it, or neither.
    fn dedicated<R>(
        &self,
        needs: &Requirements,
        memory: &MemoryDesc<'_, ()>,
        make: impl FnOnce(SimulatedMemory) -> Result<R, DeviceError>,
    ) -> Result<(SimulatedMemory, R), DeviceError> {
        let memory = self.allocate_memory(&MemoryDesc { size: needs.size, ..*memory })?;
        match make(memory) {
            Ok(resource) => Ok((memory, resource)),
            Err(error) => {
                // SAFETY: live, and known to nobody else.
                unsafe { self.free_memory(memory) };
                Err(error)
            }
        }
    }

    fn object(&self, memory: SimulatedMemory, call: &str) -> Result<Arc<MemoryObject>, DeviceError> {
        self.shared.memories.get(memory).ok_or_else(|| {
            self.complain(format!("{call}: {memory:?} is not live"));
            DeviceError::Unsupported
        })
    }

    /// Complains of a copy with which something is `wrong`, or of what it copies between.
    fn checked(
        &self,
        copy: &impl Debug,
        wrong: Option<&str>,
        host_copy: impl FnOnce() -> HostCopy,
    ) -> Result<Task, DeviceError> {
        if let Some(wrong) = wrong {
            self.complain(format!("submit: {copy:?} {wrong}"));
            return Err(DeviceError::Unsupported);
        }
        let host_copy = host_copy();
        let (from, to) = (&host_copy.from.memory, &host_copy.to.memory);
        let wrong = if from.is_freed() || to.is_freed() {
            "is of memory that was freed"
        } else if from.properties().contains(MemoryProperties::DEVICE_WRITE_ONLY) {
            "reads from memory that queues only write"
        } else if to.properties().contains(MemoryProperties::DEVICE_READ_ONLY) {
            "writes to memory that queues only read"
        } else if host_copy.overlaps() {
            "copies bytes onto themselves"
        } else {
            return Ok(Task::Copy(host_copy));
        };
        self.complain(format!("submit: {copy:?} {wrong}"));
        Err(DeviceError::Unsupported)
    }

    fn check_atoms(&self, object: &MemoryObject, range: &Range<u64>, call: &str) {
        let atom = self.shared.properties.limits.non_coherent_atom_size;
        let whole = |end: u64| atom.is_aligned(end) || end == object.size();
        let inside = range.start <= range.end && range.end <= object.size();
        if !whole(range.start) || !whole(range.end) || !inside {
            self.complain(format!(
                "{call}: {range:?} of {} bytes is not whole atoms of {atom}",
                object.size()
            ));
        }
        if !object.is_mapped() {
            self.complain(format!("{call}: the memory is not mapped"));
        }
    }
}

/// Whether a resource of this usage requires memory of its own.
fn dedicated_need(usage: u64) -> DedicatedNeed {
    if usage & SimulatedGpu::REQUIRES_DEDICATED == 0 { DedicatedNeed::None } else { DedicatedNeed::Required }
}

fn kind_of(desc: &ImageDesc) -> ResourceKind {
    match desc.tiling {
        Tiling::Optimal => ResourceKind::OptimalImage,
        Tiling::Linear => ResourceKind::LinearImage,
    }
}

// SAFETY: memory is a live heap allocation until it is freed, its handle is unique by its generation,
// mapped addresses point at all of it, and the properties are never written.
unsafe impl Device for SimulatedGpu {
    type Memory = SimulatedMemory;
    type Buffer = SimulatedBuffer;
    type Image = SimulatedImage;
    type BufferInfo<'a> = BufferDesc;
    type ImageInfo<'a> = ImageDesc;
    type MemoryOptions = ();
    /// Images are in no state here.
    type ImageState = ();

    fn properties(&self) -> &DeviceProperties {
        &self.shared.properties
    }

    fn id(&self) -> u64 {
        Arc::as_ptr(&self.shared).addr() as u64
    }

    fn heap_budget(&self, heap: MemoryHeapIndex) -> MemoryHeapBudget {
        let budget = locked(&self.shared.budgets).get(heap.get()).copied().unwrap_or(0);
        MemoryHeapBudget { usage: self.shared.memories.heap_usage(heap), budget }
    }

    fn allocate_memory(&self, desc: &MemoryDesc<'_, ()>) -> Result<SimulatedMemory, DeviceError> {
        self.shared.memories.count_allocate_call();
        self.shared.faults.check()?;
        let memory = self.shared.memories.allocate(&self.shared.properties, desc.memory_type, desc.size)?;
        if desc.priority != Priority::NORMAL && self.priority_support() != PrioritySupport::Ignored {
            self.object(memory, "allocate")?.set_priority(desc.priority);
        }
        Ok(memory)
    }

    fn priority_support(&self) -> PrioritySupport {
        self.shared.profile.priorities
    }

    unsafe fn set_memory_priority(
        &self,
        memory: SimulatedMemory,
        priority: Priority,
    ) -> Result<(), DeviceError> {
        let object = self.object(memory, "set_memory_priority")?;
        if self.priority_support() != PrioritySupport::AnyTime {
            return Err(DeviceError::Unsupported);
        }
        object.set_priority(priority);
        Ok(())
    }

    unsafe fn free_memory(&self, memory: SimulatedMemory) {
        if let Some(object) = self.shared.memories.free(memory) {
            if self.shared.queues.uses(&object) {
                self.complain(format!("free: {memory:?} is still used by a queue"));
            }
        } else {
            self.complain(format!("free: {memory:?} is not live"));
        }
    }

    unsafe fn map_memory(&self, memory: SimulatedMemory) -> Result<NonNull<u8>, DeviceError> {
        self.shared.memories.count_map_call();
        self.shared.faults.check()?;
        let object = self.object(memory, "map")?;
        if !object.properties().contains(MemoryProperties::HOST_VISIBLE) {
            self.complain(format!("map: {memory:?} is not host-visible"));
            return Err(DeviceError::MapFailed);
        }
        if object.set_mapped(true) {
            self.complain(format!("map: {memory:?} is mapped already"));
        }
        Ok(object.host_view())
    }

    unsafe fn unmap_memory(&self, memory: SimulatedMemory) {
        if let Ok(object) = self.object(memory, "unmap") {
            if !object.set_mapped(false) {
                self.complain(format!("unmap: {memory:?} is not mapped"));
            }
        }
    }

    unsafe fn flush_memory(&self, memory: SimulatedMemory, range: Range<u64>) -> Result<(), DeviceError> {
        self.shared.faults.check()?;
        let object = self.object(memory, "flush")?;
        self.check_atoms(&object, &range, "flush");
        object.flush(range);
        Ok(())
    }

    unsafe fn invalidate_memory(
        &self,
        memory: SimulatedMemory,
        range: Range<u64>,
    ) -> Result<(), DeviceError> {
        self.shared.faults.check()?;
        let object = self.object(memory, "invalidate")?;
        self.check_atoms(&object, &range, "invalidate");
        object.invalidate(range);
        Ok(())
    }

    fn buffer_size(&self, desc: &BufferDesc) -> u64 {
        desc.size
    }

    fn buffer_transfer_usage(&self, desc: &BufferDesc) -> TransferUsage {
        let mut copies = TransferUsage::all();
        copies.set(TransferUsage::SRC, desc.usage & Self::NO_TRANSFER_SRC == 0);
        copies.set(TransferUsage::DST, desc.usage & Self::NO_TRANSFER_DST == 0);
        copies
    }

    /// All that copies may read and write can, as on Direct3D 12; what memory a buffer stands in says more.
    fn is_copyable_buffer(&self, desc: &BufferDesc) -> bool {
        self.buffer_transfer_usage(desc).is_all()
    }

    fn buffer_requirements(&self, desc: &BufferDesc) -> Result<Requirements, DeviceError> {
        self.shared.faults.check()?;
        let largest = self.shared.properties.limits.max_allocation_size;
        DescriptionLimit::check_buffer(desc.size, u64::MAX, Some(largest))?;
        Ok(self.needs(desc))
    }

    unsafe fn create_buffer(
        &self,
        desc: &BufferDesc,
        memory: SimulatedMemory,
        offset: u64,
    ) -> Result<SimulatedBuffer, DeviceError> {
        self.check_shared("create_buffer", desc, &self.needs(desc))?;
        self.buffer_at(desc, memory, offset)
    }

    fn create_dedicated_buffer(
        &self,
        desc: &BufferDesc,
        memory: &MemoryDesc<'_, ()>,
    ) -> Result<(SimulatedMemory, SimulatedBuffer), DeviceError> {
        let needs = self.buffer_requirements(desc)?;
        self.dedicated(&needs, memory, |memory| self.buffer_at(desc, memory, 0))
    }

    unsafe fn destroy_buffer(&self, buffer: SimulatedBuffer) {
        self.leave("destroy_buffer", buffer.range);
        self.shared.memories.count_buffer(-1);
    }

    fn image_requirements(&self, desc: &ImageDesc) -> Result<Requirements, DeviceError> {
        self.shared.faults.check()?;
        DescriptionError::check_image(desc)?;
        self.image_needs(desc).ok_or(DeviceError::Unsupported)
    }

    unsafe fn create_image(
        &self,
        desc: &ImageDesc,
        memory: SimulatedMemory,
        offset: u64,
    ) -> Result<SimulatedImage, DeviceError> {
        let needs = self.image_needs(desc).ok_or(DeviceError::Unsupported)?;
        self.check_shared("create_image", desc, &needs)?;
        self.image_at(desc, memory, offset)
    }

    fn create_dedicated_image(
        &self,
        desc: &ImageDesc,
        memory: &MemoryDesc<'_, ()>,
    ) -> Result<(SimulatedMemory, SimulatedImage), DeviceError> {
        let needs = self.image_requirements(desc)?;
        self.dedicated(&needs, memory, |memory| self.image_at(desc, memory, 0))
    }

    unsafe fn destroy_image(&self, image: SimulatedImage) {
        self.leave("destroy_image", image.range);
        self.shared.memories.count_image(-1);
    }

    fn image_kind(&self, desc: &ImageDesc) -> ResourceKind {
        kind_of(desc)
    }

    /// All can: they are bytes here, and nothing else.
    fn is_copyable_image(&self, _: &ImageDesc) -> bool {
        true
    }

    unsafe fn submit(
        &self,
        queue: QueueIndex,
        submission: &Submission<'_, Self>,
    ) -> Result<TimelineValue, DeviceError> {
        self.shared.faults.check()?;
        let inside = |range: &ResourceRange, offset: u64, size: u64| {
            offset.checked_add(size).is_some_and(|end| end <= range.size)
        };
        let destroyed = |ends: [&ResourceRange; 2]| {
            ends.iter().any(|range| range.users.gone.load(Relaxed)).then_some("uses what was destroyed")
        };
        // Images first: who wants bytes to be copied to a buffer before they are copied from there to an image
        // must say so with a wait, and sees old bytes otherwise.
        let image_copies = submission.image_copies.iter().map(|copy| {
            let gone = destroyed([&copy.buffer.range, &copy.image.range]);
            let wrong = self.image_complaint(copy).or(gone);
            self.checked(copy, wrong, || images::rows(copy))
        });
        let kind = self.shared.properties.queues.get(usize::from(queue.0)).map(|queue| queue.kind);
        let full_images = submission.full_images.iter().enumerate().map(|(at, copy)| {
            let gone = destroyed([&copy.from.range, &copy.to.range]);
            let wrong = images::whole_complaint(kind, submission, at).or(gone);
            self.checked(copy, wrong, || images::all_bytes(copy))
        });
        let copies = submission.copies.iter().map(|copy| {
            let (from, to) = (&copy.from.range, &copy.to.range);
            let inside = inside(from, copy.from_offset, copy.size) && inside(to, copy.to_offset, copy.size);
            let wrong = (!inside).then_some("reaches beyond a buffer").or(destroyed([from, to]));
            let wrong = wrong.or(copy.from.complaint(TransferUsage::SRC));
            let wrong = wrong.or(copy.to.complaint(TransferUsage::DST));
            let host_copy = || {
                let (read, written) = (from.offset + copy.from_offset, to.offset + copy.to_offset);
                HostCopy::of_bytes(from, read, to, written, copy.size)
            };
            self.checked(copy, wrong, host_copy)
        });
        let tasks = image_copies.chain(full_images).chain(copies);
        self.shared.queues.submit(queue, submission.waits, tasks)
    }

    fn submitted(&self, queue: QueueIndex) -> TimelineValue {
        self.shared.queues.submitted(queue)
    }

    fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError> {
        self.shared.faults.check()?;
        self.shared.queues.completed(queue)
    }

    fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError> {
        self.shared.faults.check()?;
        self.shared.queues.wait(point, timeout)
    }
}
