//! A simulated GPU: its memory is real memory, its queues are threads that execute copies asynchronously, and it
//! fails on demand.
//!
//! It does what a driver cannot be made to do on demand: run out of memory at the k-th call, lose the device,
//! have unusual limits, be a machine that is not available. A [`Profile`] defines its heaps, memory types and
//! limits.
//!
//! It also validates its use, like a validation layer: it records invalid calls for which a real driver has no
//! error (memory freed while a queue still uses it, a flush that is not aligned to atoms, a double map, a copy
//! of a buffer without the usage for it). [`SimulatedGpu::validation_errors`] returns them.
//!
//! Where memory is not host-coherent, the CPU and the queues see different bytes until a flush or an invalidate,
//! so a forgotten flush shows as wrong bytes.
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
mod samples;

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
pub use descriptors::{SimulatedDescriptor, SimulatedDescriptorHeap, SimulatedImageUse, SimulatedSampler};
use faults::Faults;
use images::Shape;
pub use memory::SimulatedMemory;
use memory::{Memories, MemoryObject};
use names::{Name, Named, NamedBytes, Names};
pub use profile::Profile;
use queues::{Queues, SimulatedCopy, Task};
pub use reads::SimulatedRead;
pub use samples::SimulatedSample;

/// The simulated GPU. A clone refers to the same device.
#[derive(Clone, Debug)]
pub struct SimulatedGpu {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    properties: DeviceProperties,
    profile: Profile,
    memories: Memories,
    /// The budgets set with [`SimulatedGpu::set_budget`], by heap.
    budgets: Mutex<Vec<u64>>,
    faults: Faults,
    queues: Queues,
    /// The user counts of destroyed resources, for reuse: so that the resources of a steady program cost no heap
    /// allocations here.
    spare_users: Mutex<Vec<Arc<Users>>>,
    /// The objects that descriptors can name.
    names: Arc<Names>,
    validation_errors: ValidationErrors,
}

/// The errors that a validation layer would have reported.
#[derive(Clone, Debug, Default)]
struct ValidationErrors(Arc<Mutex<Vec<String>>>);

impl ValidationErrors {
    fn add(&self, error: String) {
        locked(&self.0).push(error);
    }
}

/// A buffer of the simulated GPU.
#[derive(Clone, Debug)]
pub struct SimulatedBuffer {
    range: ResourceRange,
    /// The copies that it was created for.
    copies: TransferUsage,
}

/// An image of the simulated GPU.
#[derive(Clone, Debug)]
pub struct SimulatedImage {
    range: ResourceRange,
    shape: Shape,
}

impl SimulatedBuffer {
    /// Returns the validation error of a copy that uses the buffer, if any.
    fn copy_error(&self, copy: TransferUsage) -> Option<&'static str> {
        (!self.copies.contains(copy)).then_some("uses a buffer without the transfer usage for it")
    }
}

/// The memory range that a resource is bound to.
#[derive(Clone, Debug)]
struct ResourceRange {
    memory: Arc<MemoryObject>,
    offset: u64,
    size: u64,
    /// The name in descriptors.
    name: Name,
    /// Shared by all clones of the resource, so that an early destruction is detected, and a use after it.
    users: Arc<Users>,
}

/// The users of a resource.
#[derive(Debug, Default)]
struct Users {
    /// Copies on queues; each end of a copy counts.
    copies: AtomicU32,
    /// Whether the resource was destroyed, although clones of it may exist.
    destroyed: AtomicBool,
}

/// A resource that a copy on a queue uses.
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

/// The live objects of a device, and the number of calls made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimulatedUsage {
    /// Live memory objects.
    pub memory_objects: u32,
    /// Bytes in live memory objects.
    pub memory_bytes: u64,
    /// Live buffers.
    pub buffers: u64,
    /// Live images.
    pub images: u64,
    /// Live descriptor heaps.
    pub descriptor_heaps: u64,
    /// Live samplers.
    pub samplers: u32,
    /// Calls that allocated memory, successful or not, since the device was created.
    pub allocate_calls: u64,
    /// Calls that freed memory.
    pub free_calls: u64,
    /// Calls that mapped memory.
    pub map_calls: u64,
    /// Calls that copied descriptors, regardless of their number.
    pub descriptor_copies: u64,
}

impl SimulatedGpu {
    /// Creates a device with a profile. Its queues' threads start when they are first used.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        let properties = profile.properties();
        let validation_errors = ValidationErrors::default();
        let names = Arc::<Names>::default();
        let shared = Shared {
            memories: Memories::new(&properties, validation_errors.clone()),
            budgets: Mutex::new(properties.heaps.iter().map(|heap| heap.size / 10 * 9).collect()),
            faults: Faults::default(),
            queues: Queues::new(properties.queues.len(), Arc::clone(&names), validation_errors.clone()),
            // Enough for the resources that most programs destroy at once; more than that grow it.
            spare_users: Mutex::new(Vec::with_capacity(1024)),
            names,
            validation_errors,
            properties,
            profile,
        };
        Self { shared: Arc::new(shared) }
    }

    /// A [usage](BufferDesc::usage) of this device's buffers: the buffer may be bound to any memory, including
    /// that of images. Tests use it to access the bytes of images directly.
    pub const ANYWHERE: u64 = 1;

    /// A [usage](BufferDesc::usage) of this device's buffers: the buffer cannot be a copy source, as in Vulkan
    /// without `VK_BUFFER_USAGE_TRANSFER_SRC_BIT`.
    pub const NO_TRANSFER_SRC: u64 = 1 << 1;

    /// A [usage](BufferDesc::usage) of this device's buffers: the buffer cannot be a copy destination, as in
    /// Vulkan without `VK_BUFFER_USAGE_TRANSFER_DST_BIT`.
    pub const NO_TRANSFER_DST: u64 = 1 << 2;

    /// A usage of this device's [buffers](BufferDesc::usage) and [images](ImageDesc::usage): the resource
    /// [requires](DedicatedNeed::Required) dedicated memory, as in Vulkan where the driver reports
    /// `requiresDedicatedAllocation`. Such a resource is created together with its memory
    /// ([`create_dedicated_buffer`](Device::create_dedicated_buffer),
    /// [`create_dedicated_image`](Device::create_dedicated_image)). The device refuses to bind it to other
    /// memory, and reports a [validation error](Self::validation_errors).
    pub const REQUIRES_DEDICATED: u64 = 1 << 3;

    /// Returns the profile that the device was created with.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.shared.profile
    }

    /// Returns the memory requirements of a resource of this kind, which by itself has the requirements `own`.
    #[must_use]
    pub fn requirements(&self, kind: ResourceKind, own: Requirements) -> Requirements {
        self.shared.profile.requirements(kind, own)
    }

    /// Returns the live objects and the number of calls so far.
    #[must_use]
    pub fn usage(&self) -> SimulatedUsage {
        self.shared.memories.usage()
    }

    /// Returns the residency priority of live memory that was set last; `None` if the memory is not live. The
    /// simulated GPU never evicts memory, so the priority has no effect.
    #[must_use]
    pub fn priority_of(&self, memory: SimulatedMemory) -> Option<Priority> {
        self.shared.memories.get(memory).map(|object| object.priority())
    }

    /// Returns the validation errors so far: the invalid uses that a validation layer would report. Empty for a
    /// correct program.
    #[must_use]
    pub fn validation_errors(&self) -> Vec<String> {
        locked(&self.shared.validation_errors.0).clone()
    }

    /// Returns the number of fallible calls so far.
    #[must_use]
    pub fn fallible_calls(&self) -> u64 {
        self.shared.faults.calls()
    }

    /// Makes the `k`-th fallible call from now, counted from 1, fail with `error`, and only that one.
    pub fn fail_call(&self, k: u64, error: DeviceError) {
        self.shared.faults.fail(k, 1, error);
    }

    /// Makes every fallible call, starting with the `k`-th from now, fail with `error`.
    pub fn fail_from(&self, k: u64, error: DeviceError) {
        self.shared.faults.fail(k, u64::MAX, error);
    }

    /// Removes the failures of [`fail_call`](Self::fail_call) and [`fail_from`](Self::fail_from). A lost device
    /// stays lost.
    pub fn clear_faults(&self) {
        self.shared.faults.clear_faults();
    }

    /// Loses the device: from now on every fallible call returns [`DeviceError::Lost`], and submitted work never
    /// completes.
    pub fn lose_device(&self) {
        self.shared.faults.lose_device();
        self.shared.queues.lose_device();
    }

    /// Sets the budget that the device reports for a heap. The default is nine tenths of the heap.
    pub fn set_budget(&self, heap: MemoryHeapIndex, bytes: u64) {
        if let Some(budget) = locked(&self.shared.budgets).get_mut(heap.get()) {
            *budget = bytes;
        }
    }

    /// Stops all queues before their next submission, until [`resume_queues`](Self::resume_queues).
    pub fn pause_queues(&self) {
        self.shared.queues.set_paused(true);
    }

    /// Resumes the queues after [`pause_queues`](Self::pause_queues).
    pub fn resume_queues(&self) {
        self.shared.queues.set_paused(false);
    }

    /// Sets the minimum duration of each submission, in addition to its copies. The default is zero.
    pub fn set_latency(&self, latency: Duration) {
        self.shared.queues.set_latency(latency);
    }

    fn report(&self, error: impl Into<String>) {
        self.shared.validation_errors.add(error.into());
    }

    /// Returns the memory requirements of a buffer.
    fn buffer_memory_requirements(&self, desc: &BufferDesc) -> Requirements {
        let own = Requirements::new(desc.size).with_dedicated(dedicated_need(desc.usage));
        if desc.usage & Self::ANYWHERE != 0 { own } else { self.requirements(ResourceKind::Buffer, own) }
    }

    /// Returns the memory requirements of an image; `None` if the description is not valid for this device.
    fn image_memory_requirements(&self, desc: &ImageDesc) -> Option<Requirements> {
        let size = Shape::of(desc)?.size()?;
        if size > self.shared.properties.limits.max_allocation_size {
            return None;
        }
        let own = Requirements::new(size).with_dedicated(dedicated_need(desc.usage));
        Some(self.requirements(kind_of(desc), own))
    }

    /// Returns an error if the resource requires dedicated memory, for calls that bind it to existing memory.
    fn check_not_dedicated(
        &self,
        call: &str,
        what: &impl Debug,
        requirements: &Requirements,
    ) -> Result<(), DeviceError> {
        if requirements.dedicated == DedicatedNeed::Required {
            self.report(format!("{call}: {what:?} requires dedicated memory"));
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
        let range = self.bind(
            "create_buffer",
            desc,
            desc.size,
            &self.buffer_memory_requirements(desc),
            (memory, offset),
            None,
        )?;
        self.shared.memories.count_buffer(1);
        Ok(SimulatedBuffer { range, copies: self.buffer_transfer_usage(desc) })
    }

    fn image_at(
        &self,
        desc: &ImageDesc,
        memory: SimulatedMemory,
        offset: u64,
    ) -> Result<SimulatedImage, DeviceError> {
        let requirements = self.image_memory_requirements(desc).ok_or(DeviceError::Unsupported)?;
        let shape = Shape::of(desc).ok_or(DeviceError::Unsupported)?;
        let place = (memory, offset);
        let range = self.bind("create_image", desc, requirements.size, &requirements, place, Some(shape))?;
        self.shared.memories.count_image(1);
        Ok(SimulatedImage { range, shape })
    }

    /// Checks that a resource of `size` bytes can be bound at an offset, and binds it. An image has a shape.
    fn bind(
        &self,
        call: &str,
        what: &impl Debug,
        size: u64,
        requirements: &Requirements,
        (memory, offset): (SimulatedMemory, u64),
        shape: Option<Shape>,
    ) -> Result<ResourceRange, DeviceError> {
        self.shared.faults.check()?;
        let object = self.object(memory, call)?;
        let end = offset.checked_add(requirements.size);
        if size == 0 || end.is_none_or(|end| end > object.size()) {
            self.report(format!("{call}: {what:?} at {offset} exceeds {memory:?}"));
            return Err(DeviceError::Unsupported);
        }
        if !requirements.alignment.is_aligned(offset)
            || !requirements.memory_types.contains(object.memory_type())
        {
            let memory_type = object.memory_type();
            self.report(format!(
                "{call}: memory of type {memory_type} at {offset} does not satisfy {requirements:?}"
            ));
            return Err(DeviceError::Unsupported);
        }
        let users = locked(&self.shared.spare_users).pop().unwrap_or_default();
        let bytes = NamedBytes { memory: Arc::clone(&object), offset, size, shape };
        let name = self.shared.names.add(Named::Bytes(bytes));
        Ok(ResourceRange { memory: object, offset, size, name, users })
    }

    /// Ends the binding of a resource that is destroyed.
    fn unbind(&self, call: &str, range: ResourceRange) {
        if range.users.copies.load(Relaxed) > 0 && !self.shared.queues.is_lost() {
            self.report(format!("{call}: {range:?} is still in use by a queue"));
        }
        range.users.destroyed.store(true, Relaxed);
        self.shared.names.remove(range.name);
        // No clone of the resource is left, so the count can be reused.
        if Arc::strong_count(&range.users) == 1 {
            range.users.destroyed.store(false, Relaxed);
            locked(&self.shared.spare_users).push(range.users);
        }
    }

    /// Allocates memory and creates a resource bound to it; frees the memory if that fails.
    fn create_dedicated<R>(
        &self,
        requirements: &Requirements,
        memory: &MemoryDesc<'_, ()>,
        create: impl FnOnce(SimulatedMemory) -> Result<R, DeviceError>,
    ) -> Result<(SimulatedMemory, R), DeviceError> {
        let memory = self.allocate_memory(&MemoryDesc { size: requirements.size, ..*memory })?;
        match create(memory) {
            Ok(resource) => Ok((memory, resource)),
            Err(error) => {
                // SAFETY: live, and no other code has its handle.
                unsafe { self.free_memory(memory) };
                Err(error)
            }
        }
    }

    fn object(&self, memory: SimulatedMemory, call: &str) -> Result<Arc<MemoryObject>, DeviceError> {
        self.shared.memories.get(memory).ok_or_else(|| {
            self.report(format!("{call}: {memory:?} is not live"));
            DeviceError::Unsupported
        })
    }

    /// Checks a copy. Reports `wrong` as a validation error if it is `Some`, and errors of the memory that it
    /// copies between.
    fn check_copy(
        &self,
        copy: &impl Debug,
        wrong: Option<&str>,
        host_copy: impl FnOnce() -> SimulatedCopy,
    ) -> Result<Task, DeviceError> {
        if let Some(wrong) = wrong {
            self.report(format!("submit: {copy:?} {wrong}"));
            return Err(DeviceError::Unsupported);
        }
        let host_copy = host_copy();
        let (from, to) = (&host_copy.from.memory, &host_copy.to.memory);
        let wrong = if from.is_freed() || to.is_freed() {
            "uses freed memory"
        } else if from.properties().contains(MemoryProperties::DEVICE_WRITE_ONLY) {
            "reads from memory that queues can only write"
        } else if to.properties().contains(MemoryProperties::DEVICE_READ_ONLY) {
            "writes to memory that queues can only read"
        } else if host_copy.overlaps() {
            "copies bytes onto themselves"
        } else {
            return Ok(Task::Copy(host_copy));
        };
        self.report(format!("submit: {copy:?} {wrong}"));
        Err(DeviceError::Unsupported)
    }

    fn check_atoms(&self, object: &MemoryObject, range: &Range<u64>, call: &str) {
        let atom = self.shared.properties.limits.non_coherent_atom_size;
        let whole = |end: u64| atom.is_aligned(end) || end == object.size();
        let inside = range.start <= range.end && range.end <= object.size();
        if !whole(range.start) || !whole(range.end) || !inside {
            self.report(format!(
                "{call}: {range:?} of {} bytes is not aligned to atoms of {atom} bytes",
                object.size()
            ));
        }
        if !object.is_mapped() {
            self.report(format!("{call}: the memory is not mapped"));
        }
    }
}

/// Returns whether a resource with this usage requires dedicated memory.
fn dedicated_need(usage: u64) -> DedicatedNeed {
    if usage & SimulatedGpu::REQUIRES_DEDICATED == 0 { DedicatedNeed::None } else { DedicatedNeed::Required }
}

fn kind_of(desc: &ImageDesc) -> ResourceKind {
    match desc.tiling {
        Tiling::Optimal => ResourceKind::OptimalImage,
        Tiling::Linear => ResourceKind::LinearImage,
    }
}

// SAFETY: memory is a live heap allocation until it is freed, its handle is unique by its generation, mapped
// addresses point to all of it, and the properties are never written.
unsafe impl Device for SimulatedGpu {
    type Memory = SimulatedMemory;
    type Buffer = SimulatedBuffer;
    type Image = SimulatedImage;
    type BufferInfo<'a> = BufferDesc;
    type ImageInfo<'a> = ImageDesc;
    type MemoryOptions = ();
    /// Images have no state on this device.
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
            // The queue keeps the bytes alive, so a use after free is reported and cannot read freed memory.
            if self.shared.queues.uses(&object) {
                self.report(format!("free: {memory:?} is still in use by a queue"));
            }
        } else {
            self.report(format!("free: {memory:?} is not live"));
        }
    }

    unsafe fn map_memory(&self, memory: SimulatedMemory) -> Result<NonNull<u8>, DeviceError> {
        self.shared.memories.count_map_call();
        self.shared.faults.check()?;
        let object = self.object(memory, "map")?;
        if !object.properties().contains(MemoryProperties::HOST_VISIBLE) {
            self.report(format!("map: {memory:?} is not host-visible"));
            return Err(DeviceError::MapFailed);
        }
        if object.set_mapped(true) {
            self.report(format!("map: {memory:?} is already mapped"));
        }
        Ok(object.host_view())
    }

    unsafe fn unmap_memory(&self, memory: SimulatedMemory) {
        if let Ok(object) = self.object(memory, "unmap") {
            if !object.set_mapped(false) {
                self.report(format!("unmap: {memory:?} is not mapped"));
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

    /// All buffers with both transfer usages can be copied, as in Direct3D 12; whether a queue may read or write
    /// their memory is separate.
    fn relocatable_buffer_info(&self, desc: &BufferDesc) -> Option<BufferDesc> {
        self.buffer_transfer_usage(desc).is_all().then_some(*desc)
    }

    fn buffer_requirements(&self, desc: &BufferDesc) -> Result<Requirements, DeviceError> {
        self.shared.faults.check()?;
        let largest = self.shared.properties.limits.max_allocation_size;
        DescriptionLimit::check_buffer(desc.size, u64::MAX, Some(largest))?;
        Ok(self.buffer_memory_requirements(desc))
    }

    unsafe fn create_buffer(
        &self,
        desc: &BufferDesc,
        memory: SimulatedMemory,
        offset: u64,
    ) -> Result<SimulatedBuffer, DeviceError> {
        self.check_not_dedicated("create_buffer", desc, &self.buffer_memory_requirements(desc))?;
        self.buffer_at(desc, memory, offset)
    }

    fn create_dedicated_buffer(
        &self,
        desc: &BufferDesc,
        memory: &MemoryDesc<'_, ()>,
    ) -> Result<(SimulatedMemory, SimulatedBuffer), DeviceError> {
        let requirements = self.buffer_requirements(desc)?;
        self.create_dedicated(&requirements, memory, |memory| self.buffer_at(desc, memory, 0))
    }

    unsafe fn destroy_buffer(&self, buffer: SimulatedBuffer) {
        self.unbind("destroy_buffer", buffer.range);
        self.shared.memories.count_buffer(-1);
    }

    fn image_requirements(&self, desc: &ImageDesc) -> Result<Requirements, DeviceError> {
        self.shared.faults.check()?;
        DescriptionError::check_image(desc)?;
        self.image_memory_requirements(desc).ok_or(DeviceError::Unsupported)
    }

    unsafe fn create_image(
        &self,
        desc: &ImageDesc,
        memory: SimulatedMemory,
        offset: u64,
    ) -> Result<SimulatedImage, DeviceError> {
        let requirements = self.image_memory_requirements(desc).ok_or(DeviceError::Unsupported)?;
        self.check_not_dedicated("create_image", desc, &requirements)?;
        self.image_at(desc, memory, offset)
    }

    fn create_dedicated_image(
        &self,
        desc: &ImageDesc,
        memory: &MemoryDesc<'_, ()>,
    ) -> Result<(SimulatedMemory, SimulatedImage), DeviceError> {
        let requirements = self.image_requirements(desc)?;
        self.create_dedicated(&requirements, memory, |memory| self.image_at(desc, memory, 0))
    }

    unsafe fn destroy_image(&self, image: SimulatedImage) {
        self.unbind("destroy_image", image.range);
        self.shared.memories.count_image(-1);
    }

    fn image_kind(&self, desc: &ImageDesc) -> ResourceKind {
        kind_of(desc)
    }

    /// All images can be copied: here an image is bytes and nothing else.
    fn relocatable_image_info(&self, desc: &ImageDesc) -> Option<ImageDesc> {
        Some(*desc)
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
        let use_of_destroyed = |ends: [&ResourceRange; 2]| {
            ends.iter()
                .any(|range| range.users.destroyed.load(Relaxed))
                .then_some("uses a destroyed resource")
        };
        // Image copies run first. A program that copies bytes to a buffer and from there to an image must
        // separate the two with a wait; without it, the image gets the old bytes here, and undefined ones on a
        // real GPU.
        let image_copies = submission.image_copies.iter().map(|copy| {
            let gone = use_of_destroyed([&copy.buffer.range, &copy.image.range]);
            let wrong = self.image_copy_error(copy).or(gone);
            self.check_copy(copy, wrong, || images::rows(copy))
        });
        let kind = self.shared.properties.queues.get(usize::from(queue.0)).map(|queue| queue.kind);
        let full_images = submission.full_images.iter().enumerate().map(|(at, copy)| {
            let gone = use_of_destroyed([&copy.from.range, &copy.to.range]);
            let wrong = images::full_image_error(kind, submission, at).or(gone);
            self.check_copy(copy, wrong, || images::all_bytes(copy))
        });
        let copies = submission.copies.iter().map(|copy| {
            let (from, to) = (&copy.from.range, &copy.to.range);
            let inside = inside(from, copy.from_offset, copy.size) && inside(to, copy.to_offset, copy.size);
            let wrong = (!inside).then_some("exceeds the size of a buffer").or(use_of_destroyed([from, to]));
            let wrong = wrong.or(copy.from.copy_error(TransferUsage::SRC));
            let wrong = wrong.or(copy.to.copy_error(TransferUsage::DST));
            let host_copy = || {
                let (read, written) = (from.offset + copy.from_offset, to.offset + copy.to_offset);
                SimulatedCopy::of_bytes(from, read, to, written, copy.size)
            };
            self.check_copy(copy, wrong, host_copy)
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
