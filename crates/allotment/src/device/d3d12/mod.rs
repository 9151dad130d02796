//! Direct3D 12, over the application's own device and adapter.
//!
//! [`Device`] is made of interfaces that the application has: an `ID3D12Device`, the adapter that it was made
//! on, and queues. What else the runtime can do is asked of it, and used where it is there:
//!
//! | what | with | without |
//! |---|---|---|
//! | small buffers and textures | tight alignment (Agility SDK 1.618): buffers at 256 bytes | buffers at 64 KiB, small textures at 4 KiB |
//! | device memory that the CPU writes | GPU upload heaps (options 16) | staged, or read by the device from an upload heap |
//! | memory that is not cleared first | options 7 | cleared |
//! | priorities | `ID3D12Device1` | not passed on |
//! | initial layouts, castable formats | `ID3D12Device10`, `12` | refused |
//! | large descriptor heaps | as large as options 19 say | 1,000,000 views, 2048 samplers |
//!
//! # Memory types
//!
//! What Vulkan calls a memory type is a heap type here, and on resource heap tier 1 a heap type and what may
//! stand in such a heap. [Custom heaps](DeviceDesc::with_custom_heap) come after them.
//!
//! | type | tier 2 | tier 1 |
//! |---|---|---|
//! | default | 0 | 0 buffers, 1 render targets and depth buffers, 2 other textures |
//! | upload: the device [only reads](super::MemoryProperties::DEVICE_READ_ONLY) | 1 | 3 |
//! | readback: the device [only copies there](super::MemoryProperties::DEVICE_WRITE_ONLY) | 2 | 4 |
//! | GPU upload, where there is some | 3 | 5 |
//!
//! Heap 0 is the adapter's own segment group, heap 1 the system's; an adapter whose memory is all one has
//! only heap 0. A heap's memory is mapped as a whole, through a buffer that covers it. Textures stand where the
//! CPU cannot map the memory.
//!
//! What is [dedicated](crate::Device::create_dedicated_image) to one resource is a committed resource, or a
//! heap with that buffer alone where the CPU maps it: of a committed buffer no more than its own width may be
//! mapped.
//!
//! ```no_run
//! use allotment::device::d3d12::{Device, DeviceDesc, ResourceInfo};
//! use allotment::{Allocator, AllocatorDesc, MemoryUsage};
//! use windows::Win32::Graphics::Direct3D12::*;
//! use windows::Win32::Graphics::Dxgi::IDXGIAdapter3;
//! # fn engine() -> (ID3D12Device, IDXGIAdapter3, ID3D12CommandQueue) { todo!() }
//! # fn texture() -> D3D12_RESOURCE_DESC { todo!() }
//!
//! let (device, adapter, queue) = engine();
//! let device = Device::new(DeviceDesc::new(device, adapter).with_queue(queue))?;
//! let allocator = Allocator::new(device, AllocatorDesc::default())?;
//! let desc = MemoryUsage::GpuOnly.with_name("albedo");
//! let albedo = allocator.create_resource(&ResourceInfo::new(texture()), &desc)?;
//! let raw: &ID3D12Resource = albedo.handle();
//! # let _ = raw;
//! allocator.destroy_resource(albedo)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod budget;
mod buffers;
mod commands;
mod copies;
mod descriptors;
mod external;
mod full_images;
mod images;
mod memory;
mod names;
mod options;
mod properties;
mod queues;
mod requirements;
mod residency;
mod resources;

use core::fmt;
use core::ops::Range;
use core::ptr::NonNull;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use windows::Win32::Foundation::{E_NOINTERFACE, E_NOTIMPL, E_OUTOFMEMORY, E_POINTER};
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::*;

use super::budget::Budgets;
use super::ledger::Ledger;
use super::{
    DescriptorLimits, Device as DeviceApi, DeviceError, DeviceProperties, MemoryDesc, MemoryHeapBudget,
    MemoryHeapIndex, Priority, PrioritySupport, QueueIndex, Requirements, ResourceKind, Submission,
    TimelinePoint, TimelineValue, TransferUsage,
};

use crate::sync::locked;

pub use commands::CommandAllocator;
pub use descriptors::{Descriptor, DescriptorHeap, Sampler};
pub use memory::Memory;
pub use options::MemoryOptions;
pub use resources::ResourceInfo;

use memory::Object;
use properties::{Features, HeapClass};
use queues::Queues;
use residency::Paging;

/// What a [`Device`] is made of.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceDesc {
    /// The application's device.
    pub device: ID3D12Device,
    /// The adapter that it was made on: its memory, and how much of it the process should use.
    pub adapter: IDXGIAdapter3,
    /// Queues that may be submitted to.
    pub queues: Vec<ID3D12CommandQueue>,
    /// Heaps that are memory types of their own, after the device's.
    pub custom_heaps: Vec<D3D12_HEAP_PROPERTIES>,
    /// Whether new memory is zeros.
    pub zeroing: Zeroing,
    /// The resource heap tier to keep to, at most.
    pub highest_tier: D3D12_RESOURCE_HEAP_TIER,
}

/// Whether new memory is zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zeroing {
    /// Only where the system has to: when memory comes from another process, say. Cheaper.
    #[default]
    WhereNeeded,
    /// Always. Memory that an allocator hands out a second time is not zeros even so.
    Always,
}

impl DeviceDesc {
    /// A device with no queues.
    #[must_use]
    pub fn new(device: ID3D12Device, adapter: IDXGIAdapter3) -> Self {
        Self {
            device,
            adapter,
            queues: Vec::new(),
            custom_heaps: Vec::new(),
            zeroing: Zeroing::default(),
            highest_tier: D3D12_RESOURCE_HEAP_TIER_2,
        }
    }

    /// The same with one more queue, for graphics, computing or copies. It gets the next [`QueueIndex`].
    #[must_use]
    pub fn with_queue(mut self, queue: ID3D12CommandQueue) -> Self {
        self.queues.push(queue);
        self
    }

    /// The same with heaps of these properties (`D3D12_HEAP_TYPE_CUSTOM`) as a memory type: three of them on
    /// resource heap tier 1, for memory that the CPU cannot map. It is chosen like any other: what it can do
    /// is read off its page property and memory pool, and its bytes count in the pool's heap.
    ///
    /// On an adapter with memory of its own, `D3D12_CPU_PAGE_PROPERTY_NOT_AVAILABLE` in
    /// `D3D12_MEMORY_POOL_L0` lets textures go to the system's memory when the adapter's is full.
    #[must_use]
    pub fn with_custom_heap(mut self, properties: D3D12_HEAP_PROPERTIES) -> Self {
        self.custom_heaps.push(properties);
        self
    }

    /// The same with new memory zeroed or not.
    #[must_use]
    pub fn zeroing(mut self, zeroing: Zeroing) -> Self {
        self.zeroing = zeroing;
        self
    }

    /// The same with a resource heap tier no higher than this: how an application runs on older hardware.
    #[must_use]
    pub fn with_max_tier(mut self, tier: D3D12_RESOURCE_HEAP_TIER) -> Self {
        self.highest_tier = tier;
        self
    }
}

/// A Direct3D 12 device. A clone is the same device.
#[derive(Clone)]
pub struct Device {
    shared: Arc<Shared>,
}

struct Shared {
    raw: ID3D12Device,
    adapter: IDXGIAdapter3,
    features: Features,
    properties: DeviceProperties,
    descriptor_limits: DescriptorLimits,
    /// By memory type.
    classes: Vec<HeapClass>,
    skips_zeroing: bool,
    ledger: Ledger<Object>,
    budgets: Budgets,
    paging: Mutex<Paging>,
    queues: Queues,
}

impl Device {
    /// Makes a device of the application's own. The runtime makes one fence a queue, and one for memory that
    /// comes back.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsupported`] for more than 256 queues, more than 32 memory types, a queue that cannot
    /// copy, or a custom heap that is of another type, of a memory pool that the adapter does not have, or of
    /// no page property; else what the runtime refuses with.
    pub fn new(desc: DeviceDesc) -> Result<Self, DeviceError> {
        let DeviceDesc { device: raw, adapter, queues, custom_heaps, zeroing, highest_tier } = desc;
        if queues.len() > 256 {
            return Err(DeviceError::Unsupported);
        }
        let mut features = Features::of(&raw);
        if features.tier.0 > highest_tier.0 {
            features.tier = highest_tier;
        }
        let (mut properties, classes) = properties::describe(&raw, &adapter, &features, &custom_heaps)?;
        properties.queues = properties::queue_infos(&queues)?;
        let shared = Shared {
            ledger: Ledger::new(&properties),
            budgets: Budgets::default(),
            paging: Mutex::new(Paging::new(&raw)?),
            queues: Queues::new(&raw, queues)?,
            descriptor_limits: descriptors::limits(&raw, &features),
            skips_zeroing: zeroing == Zeroing::WhereNeeded && features.not_zeroed,
            raw,
            adapter,
            features,
            properties,
            classes,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The application's device.
    #[must_use]
    pub fn raw(&self) -> &ID3D12Device {
        &self.shared.raw
    }

    /// The adapter.
    #[must_use]
    pub fn adapter(&self) -> &IDXGIAdapter3 {
        &self.shared.adapter
    }

    /// Bytes of a heap that were got through this device and not given back: what is left behind, once all
    /// who use it have gone. 0 where there is no such heap.
    #[must_use]
    pub fn allocated_bytes(&self, heap: MemoryHeapIndex) -> u64 {
        self.shared.ledger.bytes(heap)
    }

    /// How heaps of a memory type are made; `None` where there is no such type.
    #[must_use]
    pub fn heap_properties(&self, memory_type: super::MemoryTypeIndex) -> Option<D3D12_HEAP_PROPERTIES> {
        self.shared.classes.get(memory_type.get()).map(|class| class.properties)
    }

    /// A queue, for work of the application's own: queues may be submitted to from several sides.
    #[must_use]
    pub fn queue(&self, queue: QueueIndex) -> Option<&ID3D12CommandQueue> {
        self.shared.queues.raw(queue)
    }

    /// Submits command lists of the application's own. Once the waits are over they run, and the queue's timeline
    /// reaches the value that is returned when all of them are done, as with [`submit`](DeviceApi::submit).
    /// Without lists, only the value is reached.
    ///
    /// ```no_run
    /// use allotment::device::d3d12::Device;
    /// use allotment::device::{CommandAllocator as _, QueueIndex};
    /// use windows::Win32::Graphics::Direct3D12::ID3D12GraphicsCommandList;
    /// use windows::core::Interface as _;
    /// # fn record(list: &ID3D12GraphicsCommandList) {}
    /// # fn example(device: &Device) -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = QueueIndex(0);
    /// let mut memory = device.command_memory(queue)?;
    /// let list = memory.next()?;
    /// record(&list);
    /// // SAFETY: the list is open.
    /// unsafe { list.Close() }?;
    /// // SAFETY: what the list uses lives until the value is reached.
    /// let value = unsafe { device.submit_lists(queue, &[], &[Some(list.cast()?)]) }?;
    /// # let _ = value;
    /// // …and when it is:
    /// memory.reset()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; nothing was submitted then. After [`DeviceError::Lost`] the lists may run all the same.
    ///
    /// # Safety
    ///
    /// The lists are closed, there, and of this device and of the queue's kind. All that they use stays alive, and
    /// what they were recorded [into](CommandAllocator) is not reset, until the returned value is reached.
    pub unsafe fn submit_lists(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        lists: &[Option<ID3D12CommandList>],
    ) -> Result<TimelineValue, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.queues.submit_lists(queue, waits, lists) }
    }

    /// The fence whose values are the queue's timeline, for work of the application's own that shall wait for
    /// copies on another queue. Wait for it, never signal it.
    #[must_use]
    pub fn timeline(&self, queue: QueueIndex) -> Option<&ID3D12Fence> {
        self.shared.queues.fence(queue)
    }

    /// The interface of memory: of a heap, or of a committed resource.
    ///
    /// # Safety
    ///
    /// `memory` is live and from this device.
    #[must_use]
    pub unsafe fn pageable(&self, memory: Memory) -> ID3D12Pageable {
        // SAFETY: the caller's promise.
        unsafe { memory.pageable() }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("device", &self.shared.raw)
            .field("name", &self.shared.properties.name)
            .field("features", &self.shared.features)
            .finish_non_exhaustive()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.queues.finish();
        locked(&self.paging).finish();
    }
}

/// What a result of the runtime means.
pub(crate) fn refused(error: &windows::core::Error) -> DeviceError {
    match error.code() {
        E_OUTOFMEMORY => DeviceError::OutOfDeviceMemory,
        DXGI_ERROR_DEVICE_REMOVED
        | DXGI_ERROR_DEVICE_HUNG
        | DXGI_ERROR_DEVICE_RESET
        | DXGI_ERROR_DRIVER_INTERNAL_ERROR => DeviceError::Lost,
        E_NOTIMPL | E_NOINTERFACE | DXGI_ERROR_UNSUPPORTED => DeviceError::Unsupported,
        other => DeviceError::Other { code: other.0 },
    }
}

/// What a call made, that writes where it is told.
fn create<T>(call: impl FnOnce(&mut Option<T>) -> windows::core::Result<()>) -> Result<T, DeviceError> {
    let mut made = None;
    call(&mut made).map_err(|error| refused(&error))?;
    made.ok_or(DeviceError::Other { code: E_POINTER.0 })
}

// SAFETY: the ledger keeps memory until it is freed, so its address is unique meanwhile; all of the memory is
// mapped, and the properties are never written.
unsafe impl DeviceApi for Device {
    type Memory = Memory;
    type Buffer = ID3D12Resource;
    type Image = ID3D12Resource;
    type BufferInfo<'a> = ResourceInfo<'a>;
    type ImageInfo<'a> = ResourceInfo<'a>;
    type MemoryOptions = MemoryOptions;
    /// On a queue for copies it is `COMMON` before a submission and after it: images are in no other state there.
    type ImageState = D3D12_RESOURCE_STATES;

    fn properties(&self) -> &DeviceProperties {
        &self.shared.properties
    }

    fn id(&self) -> u64 {
        Arc::as_ptr(&self.shared).addr() as u64
    }

    fn heap_budget(&self, heap: MemoryHeapIndex) -> MemoryHeapBudget {
        self.shared.heap_budget(heap)
    }

    fn allocate_memory(&self, desc: &MemoryDesc<'_, MemoryOptions>) -> Result<Memory, DeviceError> {
        self.shared.allocate(desc)
    }

    unsafe fn free_memory(&self, memory: Memory) {
        self.shared.free(memory);
    }

    unsafe fn map_memory(&self, memory: Memory) -> Result<NonNull<u8>, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.map(memory) }
    }

    unsafe fn unmap_memory(&self, memory: Memory) {
        // SAFETY: the caller's promise.
        unsafe { self.shared.unmap(memory) };
    }

    /// Memory that the CPU can map is always coherent here.
    unsafe fn flush_memory(&self, _: Memory, _: Range<u64>) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Memory that the CPU can map is always coherent here.
    unsafe fn invalidate_memory(&self, _: Memory, _: Range<u64>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn buffer_size(&self, info: &ResourceInfo<'_>) -> u64 {
        info.desc.Width
    }

    /// All but acceleration structures can be copied both ways: no flag says more.
    fn buffer_transfer_usage(&self, info: &ResourceInfo<'_>) -> TransferUsage {
        if full_images::is_copyable_buffer(info) { TransferUsage::all() } else { TransferUsage::empty() }
    }

    fn is_copyable_buffer(&self, info: &ResourceInfo<'_>) -> bool {
        full_images::is_copyable_buffer(info)
    }

    fn buffer_requirements(&self, info: &ResourceInfo<'_>) -> Result<Requirements, DeviceError> {
        self.shared.placed(info).map(|(_, requirements)| requirements)
    }

    unsafe fn create_buffer(
        &self,
        info: &ResourceInfo<'_>,
        memory: Memory,
        offset: u64,
    ) -> Result<ID3D12Resource, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.create_in(info, memory, offset) }
    }

    fn create_dedicated_buffer(
        &self,
        info: &ResourceInfo<'_>,
        memory: &MemoryDesc<'_, MemoryOptions>,
    ) -> Result<(Memory, ID3D12Resource), DeviceError> {
        self.shared.create_dedicated(info, memory)
    }

    unsafe fn destroy_buffer(&self, buffer: ID3D12Resource) {
        drop(buffer);
    }

    fn image_requirements(&self, info: &ResourceInfo<'_>) -> Result<Requirements, DeviceError> {
        self.shared.placed(info).map(|(_, requirements)| requirements)
    }

    unsafe fn create_image(
        &self,
        info: &ResourceInfo<'_>,
        memory: Memory,
        offset: u64,
    ) -> Result<ID3D12Resource, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.create_in(info, memory, offset) }
    }

    fn create_dedicated_image(
        &self,
        info: &ResourceInfo<'_>,
        memory: &MemoryDesc<'_, MemoryOptions>,
    ) -> Result<(Memory, ID3D12Resource), DeviceError> {
        self.shared.create_dedicated(info, memory)
    }

    unsafe fn destroy_image(&self, image: ID3D12Resource) {
        drop(image);
    }

    fn image_kind(&self, info: &ResourceInfo<'_>) -> ResourceKind {
        images::kind(info)
    }

    fn is_copyable_image(&self, info: &ResourceInfo<'_>) -> bool {
        full_images::is_copyable_image(info)
    }

    fn priority_support(&self) -> PrioritySupport {
        self.shared.priority_support()
    }

    unsafe fn set_memory_priority(&self, memory: Memory, priority: Priority) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.set_priority(memory, priority) }
    }

    unsafe fn name_memory(&self, memory: Memory, name: &str) {
        // SAFETY: the caller's promise.
        let object = unsafe { memory.pageable() };
        names::name(&object, name);
    }

    unsafe fn name_buffer(&self, buffer: &ID3D12Resource, name: &str) {
        names::name(buffer, name);
    }

    unsafe fn name_image(&self, image: &ID3D12Resource, name: &str) {
        names::name(image, name);
    }

    unsafe fn submit(
        &self,
        queue: QueueIndex,
        submission: &Submission<'_, Self>,
    ) -> Result<TimelineValue, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.queues.submit(&self.shared.raw, queue, submission) }
    }

    fn submitted(&self, queue: QueueIndex) -> TimelineValue {
        self.shared.queues.submitted(queue)
    }

    fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError> {
        self.shared.queues.completed(queue)
    }

    fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError> {
        self.shared.queues.wait(point, timeout)
    }
}
