//! Direct3D 12, over the application's own device and adapter.
//!
//! A [`Device`] is created from interfaces that the application owns: an `ID3D12Device`, its adapter, and queues.
//! Optional features of the runtime are queried, and used where supported:
//!
//! | what | with | without |
//! |---|---|---|
//! | small buffers and textures | tight alignment (Agility SDK 1.618): buffers at 256 bytes | buffers at 64 KiB ([pieces](crate::memory::BufferPieces) of one closer), small textures at 4 KiB |
//! | device memory that the CPU writes | GPU upload heaps (options 16) | staged, or read by the GPU from an upload heap |
//! | memory that is not zeroed | options 7 | zeroed |
//! | priorities | `ID3D12Device1` | ignored |
//! | texels that the CPU copies into textures | cache-coherent UMA, [asked for](DeviceDesc::with_host_written_textures) | staged |
//! | reserved buffers ([expandable ones](crate::memory::ExpandableBuffer)) | tiled resources, and a queue | refused |
//! | initial layouts, castable formats | `ID3D12Device10`, `12` | refused |
//! | large descriptor heaps | as large as options 19 report | 1,000,000 views, 2048 samplers |
//!
//! # Memory types
//!
//! A memory type, in the sense of Vulkan, is a heap type here, and on resource heap tier 1 a heap type with the class
//! of resources that such a heap supports. [Custom heaps](DeviceDesc::with_custom_heap) come after them.
//!
//! | type | tier 2 | tier 1 |
//! |---|---|---|
//! | default | 0 | 0 buffers, 1 render targets and depth buffers, 2 other textures |
//! | upload: queues [only read](super::MemoryProperties::DEVICE_READ_ONLY) it | 1 | 3 |
//! | readback: queues [only copy](super::MemoryProperties::DEVICE_WRITE_ONLY) to it | 2 | 4 |
//! | GPU upload, if supported | 3 | 5 |
//!
//! Heap 0 is the adapter's local segment group, heap 1 the non-local one; a UMA adapter has only heap 0. A heap
//! is mapped as a whole, through a buffer that covers it. Textures are only placed in memory that the CPU cannot
//! map. [Textures that the CPU writes](DeviceDesc::with_host_written_textures), where they were asked for, have a type of
//! their own, which comes before all others.
//!
//! A [dedicated](crate::device::ImageDevice::create_dedicated_image) resource is a committed resource. If the CPU maps
//! the memory, it is a heap with one placed buffer instead, since a committed buffer can only be mapped up to its own
//! width.
//!
//! ```no_run
//! use allotment::device::d3d12::{Device, DeviceDesc, ResourceInfo};
//! use allotment::memory::d3d12::AllocatorExt as _;
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
mod formats;
mod full_images;
mod host_copies;
mod images;
mod memory;
mod names;
mod options;
mod properties;
mod queues;
mod requirements;
mod reserved;
mod residency;
mod resources;

use core::fmt;
use std::sync::{Arc, Mutex};

use windows::Win32::Foundation::{E_NOINTERFACE, E_NOTIMPL, E_OUTOFMEMORY, E_POINTER};
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::*;

use super::budget::Budgets;
use super::ledger::Ledger;
use super::queue::binding_queue;
use super::{
    DescriptionLimit, DescriptorLimits, DeviceError, DeviceProperties, MemoryHeapIndex, QueueIndex,
    TimelinePoint, TimelineValue,
};

use crate::sync::locked;

pub use commands::CommandAllocator;
pub use descriptors::{Descriptor, DescriptorHeap, ImageViewDesc, Sampler, StaticSamplers, TexelBufferView};
pub use memory::Memory;
pub use options::MemoryOptions;
pub use resources::ResourceInfo;
/// The version of the crate whose interfaces these are, for programs that have another.
#[doc(no_inline)]
pub use windows;

use host_copies::HostCopies;
use memory::Object;
use properties::{Features, HeapClass};
use queues::Queues;
use residency::Paging;

/// The interfaces and settings that a [`Device`] is created from.
#[doc(alias = "ID3D12DeviceVersion")]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceDesc {
    /// The application's device.
    pub device: ID3D12Device,
    /// The device's adapter: it reports the memory heaps and the process's budget.
    pub adapter: IDXGIAdapter3,
    /// Queues to submit to.
    pub queues: Vec<ID3D12CommandQueue>,
    /// Custom heaps, each a memory type after the device's own types.
    pub custom_heaps: Vec<D3D12_HEAP_PROPERTIES>,
    /// Whether new memory is zeroed.
    pub zeroing: Zeroing,
    /// The highest resource heap tier to use.
    pub highest_tier: D3D12_RESOURCE_HEAP_TIER,
    /// Whether textures are in memory that the CPU can write, where the adapter has it: see
    /// [`with_host_written_textures`](Self::with_host_written_textures). Default: no.
    pub host_written_textures: bool,
    /// How close resources are placed to each other.
    pub placement: PlacementAlignment,
    /// Where textures of several samples are.
    pub multisampled: Multisampled,
}

/// How close resources are placed to each other. Others than the default are there to find out whether a fault of a driver comes
/// from small alignments, and take more memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlacementAlignment {
    /// As close as the device allows: by tight alignment, or small textures at 4 KiB.
    #[default]
    Smallest,
    /// Without tight alignment, as with older runtimes: buffers at 64 KiB, small textures at 4 KiB.
    #[doc(alias = "ALLOCATOR_FLAG_DONT_USE_TIGHT_ALIGNMENT")]
    WithoutTight,
    /// At 64 KiB, and at 4 MiB with several samples.
    Standard,
}

/// Where textures of several samples are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Multisampled {
    /// In blocks with others, at 64 KiB where they are small and at 4 MiB where not.
    #[default]
    Placed,
    /// Each a committed resource. It cannot alias others, and a pool with blocks of a fixed size refuses it. Those of one pool alone:
    /// a pool for them, with [`PoolDesc::dedicated`](crate::PoolDesc::dedicated).
    #[doc(alias = "ALLOCATOR_FLAG_MSAA_TEXTURES_ALWAYS_COMMITTED")]
    Committed,
}

/// Whether new memory is zeroed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zeroing {
    /// Only where the system requires it: for memory from another process, for example. Cheaper.
    #[default]
    WhereNeeded,
    /// Always. Memory that an allocator reuses is not zeroed again.
    Always,
}

impl DeviceDesc {
    /// Describes a device without queues.
    #[must_use]
    pub fn new(device: ID3D12Device, adapter: IDXGIAdapter3) -> Self {
        Self {
            device,
            adapter,
            queues: Vec::new(),
            custom_heaps: Vec::new(),
            zeroing: Zeroing::default(),
            highest_tier: D3D12_RESOURCE_HEAP_TIER_2,
            host_written_textures: false,
            placement: PlacementAlignment::default(),
            multisampled: Multisampled::default(),
        }
    }

    /// Describes a device without queues, and finds its adapter: creates a DXGI factory, which is released again.
    ///
    /// # Errors
    ///
    /// The driver's error, where there is no DXGI, or the device's adapter is gone or is older than Windows 10.
    pub fn from_device(device: ID3D12Device) -> Result<Self, DeviceError> {
        // SAFETY: the function has no other requirements than its arguments' types.
        let factory: IDXGIFactory4 = unsafe { CreateDXGIFactory1() }.map_err(|error| refused(&error))?;
        // SAFETY: the device is live.
        let luid = unsafe { device.GetAdapterLuid() };
        // SAFETY: the factory is live.
        let adapter = unsafe { factory.EnumAdapterByLuid(luid) }.map_err(|error| refused(&error))?;
        Ok(Self::new(device, adapter))
    }

    /// Adds a graphics, compute or copy queue, which gets the next [`QueueIndex`].
    #[must_use]
    pub fn with_queue(mut self, queue: ID3D12CommandQueue) -> Self {
        self.queues.push(queue);
        self
    }

    /// Adds heaps of these properties (`D3D12_HEAP_TYPE_CUSTOM`) as a memory type: three of them on resource
    /// heap tier 1, for memory that the CPU cannot map. The allocator selects it like any other: its page
    /// property and memory pool determine its memory properties and the heap that it counts against.
    ///
    /// On an adapter with video memory, `D3D12_CPU_PAGE_PROPERTY_NOT_AVAILABLE` in `D3D12_MEMORY_POOL_L0`
    /// allows textures in system memory when video memory is full.
    #[must_use]
    pub fn with_custom_heap(mut self, properties: D3D12_HEAP_PROPERTIES) -> Self {
        self.custom_heaps.push(properties);
        self
    }

    /// Sets whether new memory is zeroed.
    #[doc(alias = "ALLOCATOR_FLAG_DEFAULT_POOLS_NOT_ZEROED")]
    #[must_use]
    pub fn with_zeroing(mut self, zeroing: Zeroing) -> Self {
        self.zeroing = zeroing;
        self
    }

    /// Limits the resource heap tier, to test how an application runs on older hardware.
    #[must_use]
    pub fn with_max_tier(mut self, tier: D3D12_RESOURCE_HEAP_TIER) -> Self {
        self.highest_tier = tier;
        self
    }

    /// Sets how close resources are placed to each other.
    #[must_use]
    pub fn with_placement(mut self, placement: PlacementAlignment) -> Self {
        self.placement = placement;
        self
    }

    /// Sets where textures of several samples are.
    #[must_use]
    pub fn with_multisampled(mut self, multisampled: Multisampled) -> Self {
        self.multisampled = multisampled;
        self
    }

    /// Has the CPU copy texels into new textures, without staging memory and without a queue (`WriteToSubresource`), on an
    /// adapter where CPU and GPU share memory and caches (`CacheCoherentUMA`). Elsewhere it changes nothing.
    ///
    /// The library adds a memory type for textures of an [`ImageDesc`](crate::device::ImageDesc) that have colors, one sample, one
    /// plane and no flags, and uploads leave those in the state `COMMON`, which shaders promote, unless they are told another:
    /// then they are staged. So are the bytes of a reader or of a closure, and what was used before.
    ///
    /// Not the default, since nothing in the API says whether the GPU reads such textures as fast as others: measure it.
    #[must_use]
    pub fn with_host_written_textures(mut self) -> Self {
        self.host_written_textures = true;
        self
    }
}

/// A Direct3D 12 device. A clone refers to the same device.
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
    placement: PlacementAlignment,
    multisampled: Multisampled,
    /// `None` where textures are staged.
    host_copies: Option<HostCopies>,
    ledger: Ledger<Object>,
    budgets: Budgets,
    paging: Mutex<Paging>,
    queues: Queues,
    /// The queue that maps heaps to reserved buffers, if the device has them.
    binding_queue: Option<QueueIndex>,
}

impl Device {
    /// Creates a device over the application's own. The runtime creates one fence per queue, and one for memory
    /// that is made resident.
    ///
    /// # Errors
    ///
    /// [`DeviceError::InvalidDescription`] for more than 256 queues, more than 32 memory types, or a custom heap that is of
    /// another type, of a memory pool that the adapter does not have, or without a page property.
    /// [`DeviceError::QueueCannotCopy`]; otherwise the runtime's error.
    pub fn new(desc: DeviceDesc) -> Result<Self, DeviceError> {
        let DeviceDesc {
            device: raw,
            adapter,
            queues,
            custom_heaps,
            zeroing,
            highest_tier,
            host_written_textures,
            placement,
            multisampled,
        } = desc;
        // A queue index has 8 bits.
        DescriptionLimit::Queues.check(queues.len() as u64, 256)?;
        let mut features = Features::of(&raw);
        // An application that limits the tier gets the memory types of the lower one.
        if features.tier.0 > highest_tier.0 {
            features.tier = highest_tier;
        }
        let tries_host_copies = host_written_textures && features.coherent_uma;
        let host_copies = tries_host_copies.then(|| HostCopies::try_out(&raw)).flatten();
        let (mut properties, classes) =
            properties::describe(&raw, &adapter, &features, host_copies.is_some(), &custom_heaps)?;
        properties.queues = properties::queue_kinds(&queues)?;
        let binding_queue = binding_queue(&properties.queues, |_| features.tiled_resources);
        let shared = Shared {
            ledger: Ledger::new(&properties),
            budgets: Budgets::default(),
            paging: Mutex::new(Paging::new(&raw)?),
            queues: Queues::new(&raw, queues)?,
            binding_queue,
            descriptor_limits: descriptors::limits(&raw, &features),
            // Older runtimes do not know the flag, and refuse it.
            skips_zeroing: zeroing == Zeroing::WhereNeeded && features.not_zeroed,
            placement,
            multisampled,
            host_copies,
            raw,
            adapter,
            features,
            properties,
            classes,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns the application's device.
    #[doc(alias("GetD3D12Options", "IsCacheCoherentUMA", "IsTightAlignmentSupported"))]
    #[must_use]
    pub fn raw(&self) -> &ID3D12Device {
        &self.shared.raw
    }

    /// Returns the adapter.
    #[must_use]
    pub fn adapter(&self) -> &IDXGIAdapter3 {
        &self.shared.adapter
    }

    /// Returns the bytes of a heap that were allocated through this device and not freed: after all its users
    /// are dropped, the bytes that were leaked. 0 if the heap does not exist.
    #[must_use]
    pub fn allocated_bytes(&self, heap: MemoryHeapIndex) -> u64 {
        self.shared.ledger.bytes(heap)
    }

    /// Returns the heap properties of a memory type; `None` if the type does not exist.
    #[doc(alias = "IsGPUUploadHeapSupported")]
    #[must_use]
    pub fn heap_properties(&self, memory_type: super::MemoryTypeIndex) -> Option<D3D12_HEAP_PROPERTIES> {
        self.shared.classes.get(memory_type.get()).map(|class| class.properties)
    }

    /// Returns a queue, for the application's own submissions: command queues are free-threaded.
    #[must_use]
    pub fn queue(&self, queue: QueueIndex) -> Option<&ID3D12CommandQueue> {
        self.shared.queues.raw(queue)
    }

    /// Submits the application's own command lists. They execute once the waits are satisfied, and the queue's timeline
    /// reaches the returned value when all of them are complete, as with
    /// [`submit`](crate::device::QueueDevice::submit). Without lists, only the value is signalled.
    ///
    /// ```no_run
    /// use allotment::device::d3d12::Device;
    /// use allotment::device::{CommandAllocator as _, CommandDevice as _, QueueIndex};
    /// use windows::Win32::Graphics::Direct3D12::ID3D12GraphicsCommandList;
    /// use windows::core::Interface as _;
    /// # fn record(list: &ID3D12GraphicsCommandList) {}
    /// # fn example(device: &Device) -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = QueueIndex(0);
    /// let mut memory = device.create_command_allocator(queue)?;
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
    /// [`DeviceError`]; nothing was submitted in that case. After [`DeviceError::Lost`] the lists may execute
    /// nevertheless.
    ///
    /// # Safety
    ///
    /// The lists are closed, not `None`, of this device and of the queue's type. Everything that they use stays
    /// alive, and the [allocators](CommandAllocator) that they were recorded into are not reset, until the
    /// returned value is reached.
    pub unsafe fn submit_lists(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        lists: &[Option<ID3D12CommandList>],
    ) -> Result<TimelineValue, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.queues.submit_lists(queue, waits, lists) }
    }

    /// Returns the fence of a queue's timeline, for the application's own submissions that wait for copies on
    /// another queue. Wait for it, never signal it.
    #[must_use]
    pub fn timeline(&self, queue: QueueIndex) -> Option<&ID3D12Fence> {
        self.shared.queues.fence(queue)
    }

    /// Returns the interface of memory: of a heap, or of a committed resource.
    ///
    /// # Safety
    ///
    /// `memory` is live and from this device.
    #[must_use]
    pub unsafe fn pageable(&self, memory: Memory) -> ID3D12Pageable {
        // SAFETY: the caller's promise.
        unsafe { memory.pageable() }
    }

    /// Returns the heap of memory, to place resources of the application's own; `None` for a committed resource. Queries
    /// no interface: it costs one reference.
    ///
    /// ```no_run
    /// use allotment::device::d3d12::Device;
    /// use allotment::{Allocation, Allocator};
    /// use windows::Win32::Graphics::Direct3D12::ID3D12Heap;
    ///
    /// /// The heap and the offset for `CreatePlacedResource`.
    /// fn place(allocator: &Allocator<Device>, allocation: &Allocation) -> Option<(ID3D12Heap, u64)> {
    ///     let location = allocator.location(allocation).ok()?;
    ///     // SAFETY: the allocation is live, and so is its memory, which is from the allocator's device.
    ///     Some((unsafe { allocator.device().heap(location.memory) }?, location.offset))
    /// }
    /// ```
    ///
    /// # Safety
    ///
    /// `memory` is live and from this device.
    #[doc(alias = "GetHeap")]
    #[must_use]
    pub unsafe fn heap(&self, memory: Memory) -> Option<ID3D12Heap> {
        // SAFETY: the caller's promise.
        unsafe { memory.heap() }
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
        // Queues first: they may still wait for memory that is made resident.
        self.queues.finish();
        locked(&self.paging).finish();
    }
}

/// Converts an error of the runtime.
pub(crate) fn refused(error: &windows::core::Error) -> DeviceError {
    match error.code() {
        // Heaps use `E_OUTOFMEMORY` for video and for system memory alike. Treated as the former, so that callers
        // try another heap.
        E_OUTOFMEMORY => DeviceError::OutOfDeviceMemory,
        // Each of these means that the device was removed; `GetDeviceRemovedReason` returns them too.
        DXGI_ERROR_DEVICE_REMOVED
        | DXGI_ERROR_DEVICE_HUNG
        | DXGI_ERROR_DEVICE_RESET
        | DXGI_ERROR_DRIVER_INTERNAL_ERROR => DeviceError::Lost,
        // A missing interface is a runtime that is too old.
        E_NOTIMPL | E_NOINTERFACE | DXGI_ERROR_UNSUPPORTED => DeviceError::Unsupported,
        other => DeviceError::Other { code: other.0 },
    }
}

/// Returns the object that a call writes to its output parameter.
fn create<T>(call: impl FnOnce(&mut Option<T>) -> windows::core::Result<()>) -> Result<T, DeviceError> {
    let mut created = None;
    call(&mut created).map_err(|error| refused(&error))?;
    // A runtime that reports success without an object breaks the contract; a null pointer must not get further.
    created.ok_or(DeviceError::Other { code: E_POINTER.0 })
}
