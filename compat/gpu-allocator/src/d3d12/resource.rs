//! Resources, placed in memory of the allocator or committed.

use log::Level;
use windows::Win32::Foundation::E_OUTOFMEMORY;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;
use windows::Win32::Graphics::Dxgi::DXGI_ERROR_DEVICE_REMOVED;
use windows::core::Error;

use super::{Allocation, AllocationCreateDesc, Allocator, ID3D12DeviceVersion, ResourceCategory};
use crate::{AllocationError, MemoryLocation, Result};

/// What a resource begins in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceStateOrBarrierLayout {
    /// A state.
    ResourceState(D3D12_RESOURCE_STATES),
    /// A layout of enhanced barriers, which needs [`ID3D12DeviceVersion::Device10`].
    BarrierLayout(D3D12_BARRIER_LAYOUT),
}

/// Where a resource has its memory.
pub enum ResourceType<'a> {
    /// In a heap that Direct3D 12 creates for it alone.
    Committed {
        /// That heap's properties.
        heap_properties: &'a D3D12_HEAP_PROPERTIES,
        /// That heap's flags.
        heap_flags: D3D12_HEAP_FLAGS,
    },
    /// In memory of the allocator.
    Placed,
}

/// What resource to create.
#[derive(Clone, Copy)]
pub struct ResourceCreateDesc<'a> {
    /// The name, for reports and logs.
    pub name: &'a str,
    /// Where the memory lies. A committed resource's heap properties decide, and it is only remembered.
    pub memory_location: MemoryLocation,
    /// The kind of the resource.
    pub resource_category: ResourceCategory,
    /// The resource.
    pub resource_desc: &'a D3D12_RESOURCE_DESC,
    /// The formats that views may cast to, which need [`ID3D12DeviceVersion::Device12`] and a layout.
    pub castable_formats: &'a [DXGI_FORMAT],
    /// The value that a committed resource is cleared to most often.
    pub clear_value: Option<&'a D3D12_CLEAR_VALUE>,
    /// What the resource begins in.
    pub initial_state_or_layout: ResourceStateOrBarrierLayout,
    /// Where it has its memory.
    pub resource_type: &'a ResourceType<'a>,
}

/// A resource and its memory. Pass it to [`Allocator::free_resource`]: a placed one keeps its memory otherwise.
#[derive(Debug)]
pub struct Resource {
    name: String,
    /// The memory of a placed resource.
    pub allocation: Option<Allocation>,
    /// `None` once it is freed.
    resource: Option<ID3D12Resource>,
    /// Where the memory lies.
    pub memory_location: MemoryLocation,
    is_committed: bool,
    /// The size in bytes.
    pub size: u64,
}

impl Resource {
    /// Returns the interface.
    pub fn resource(&self) -> &ID3D12Resource {
        match &self.resource {
            Some(resource) => resource,
            // Only `free_resource` takes it, and takes all of this.
            None => unreachable!("a resource has its interface until it is freed"),
        }
    }
}

impl Drop for Resource {
    fn drop(&mut self) {
        if self.resource.is_some() {
            log::warn!(
                "resource \"{}\" is dropped and not freed: call `Allocator::free_resource`",
                self.name
            );
        }
    }
}

/// How many committed resources an allocator has created that are not freed.
#[derive(Debug)]
pub struct CommittedAllocationStatistics {
    /// Their number.
    pub num_allocations: usize,
    /// Their bytes.
    pub total_size: u64,
}

impl CommittedAllocationStatistics {
    fn add(&mut self, size: u64) {
        self.num_allocations += 1;
        self.total_size += size;
    }

    /// Counts one less, or none where it is another allocator's.
    fn remove(&mut self, size: u64) {
        self.num_allocations = self.num_allocations.saturating_sub(1);
        self.total_size = self.total_size.saturating_sub(size);
    }

    pub(super) fn report_leaks(&self, level: Level) {
        let Self { num_allocations, total_size } = self;
        if *num_allocations != 0 {
            log::log!(level, "leak: {num_allocations} committed resources of {total_size} bytes in all");
        }
    }
}

impl Allocator {
    /// Creates a resource.
    ///
    /// ```no_run
    /// use gpu_allocator::MemoryLocation;
    /// use gpu_allocator::d3d12::{Allocator, ResourceCreateDesc, ResourceStateOrBarrierLayout, ResourceType};
    /// use windows::Win32::Graphics::Direct3D12::{D3D12_RESOURCE_DESC, D3D12_RESOURCE_STATE_COMMON};
    /// # fn example(allocator: &mut Allocator, texture: &D3D12_RESOURCE_DESC) -> gpu_allocator::Result<()> {
    ///
    /// let albedo = allocator.create_resource(&ResourceCreateDesc {
    ///     name: "albedo",
    ///     memory_location: MemoryLocation::GpuOnly,
    ///     resource_category: texture.into(),
    ///     resource_desc: texture,
    ///     castable_formats: &[],
    ///     clear_value: None,
    ///     initial_state_or_layout: ResourceStateOrBarrierLayout::ResourceState(D3D12_RESOURCE_STATE_COMMON),
    ///     resource_type: &ResourceType::Placed,
    /// })?;
    /// allocator.free_resource(albedo)
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`AllocationError::CastableFormatsRequiresEnhancedBarriers`],
    /// [`AllocationError::CastableFormatsRequiresAtLeastDevice12`] and [`AllocationError::BarrierLayoutNeedsDevice10`] for
    /// what the allocator's device is not said to have; the errors of [`allocate`](Self::allocate) for a placed resource;
    /// [`AllocationError::OutOfMemory`] where there is none for a committed one; else [`AllocationError::Internal`] with
    /// the driver's.
    pub fn create_resource(&mut self, desc: &ResourceCreateDesc<'_>) -> Result<Resource> {
        // A reference of its own, since the allocator is changed below.
        let device = self.device.clone();
        let creation = Creation::new(&device, desc)?;
        let info = creation.allocation_info(&device, desc.resource_desc);
        let (resource, allocation, size) = match desc.resource_type {
            ResourceType::Committed { heap_properties, heap_flags } => {
                let created = creation.committed(heap_properties, *heap_flags, desc);
                let resource =
                    created.map_err(|error| refused(&device, "CreateCommittedResource", &error))?;
                self.committed.add(info.SizeInBytes);
                (resource, None, info.SizeInBytes)
            }
            ResourceType::Placed => {
                let allocation = self.allocate(&AllocationCreateDesc {
                    name: desc.name,
                    location: desc.memory_location,
                    size: info.SizeInBytes,
                    alignment: info.Alignment,
                    resource_category: desc.resource_category,
                })?;
                match creation.placed(&allocation, desc) {
                    Ok(resource) => {
                        let size = allocation.size();
                        (resource, Some(allocation), size)
                    }
                    Err(error) => {
                        self.free(allocation)?;
                        return Err(refused(&device, "CreatePlacedResource", &error));
                    }
                }
            }
        };
        Ok(Resource {
            name: desc.name.into(),
            is_committed: allocation.is_none(),
            allocation,
            resource: Some(resource),
            memory_location: desc.memory_location,
            size,
        })
    }

    /// Releases a resource, and frees its memory. The GPU must have finished with it.
    ///
    /// # Errors
    ///
    /// [`AllocationError::Internal`] for a placed resource of another allocator, whose memory is not freed.
    pub fn free_resource(&mut self, mut resource: Resource) -> Result<()> {
        // Before its memory.
        resource.resource = None;
        if resource.is_committed {
            self.committed.remove(resource.size);
        }
        resource.allocation.take().map_or(Ok(()), |allocation| self.free(allocation))
    }
}

/// How a resource is created, by what it begins in and by what the device has.
enum Creation<'a> {
    State(&'a ID3D12Device, D3D12_RESOURCE_STATES),
    Layout {
        device: &'a ID3D12Device10,
        layout: D3D12_BARRIER_LAYOUT,
        /// Formats, and the device that knows them; `None` where there are none.
        castable: Option<(&'a ID3D12Device12, &'a [DXGI_FORMAT])>,
    },
}

impl<'a> Creation<'a> {
    fn new(device: &'a ID3D12DeviceVersion, desc: &ResourceCreateDesc<'a>) -> Result<Self> {
        use ResourceStateOrBarrierLayout::{BarrierLayout, ResourceState};
        let formats = Some(desc.castable_formats).filter(|formats| !formats.is_empty());
        match (desc.initial_state_or_layout, device) {
            (ResourceState(_), _) if formats.is_some() => {
                Err(AllocationError::CastableFormatsRequiresEnhancedBarriers)
            }
            (ResourceState(state), device) => Ok(Self::State(device, state)),
            (BarrierLayout(layout), ID3D12DeviceVersion::Device12(device)) => {
                let castable = formats.map(|formats| (device, formats));
                Ok(Self::Layout { device: device.into(), layout, castable })
            }
            (BarrierLayout(_), _) if formats.is_some() => {
                Err(AllocationError::CastableFormatsRequiresAtLeastDevice12)
            }
            (BarrierLayout(layout), ID3D12DeviceVersion::Device10(device)) => {
                Ok(Self::Layout { device, layout, castable: None })
            }
            (BarrierLayout(_), ID3D12DeviceVersion::Device(_)) => {
                Err(AllocationError::BarrierLayoutNeedsDevice10)
            }
        }
    }

    fn allocation_info(
        &self,
        device: &ID3D12Device,
        desc: &D3D12_RESOURCE_DESC,
    ) -> D3D12_RESOURCE_ALLOCATION_INFO {
        match self {
            // Castable formats may need more memory.
            Self::Layout { castable: Some((device, formats)), .. } => {
                let (desc, count, formats) = (to_desc1(desc), formats.len() as u32, formats.as_ptr());
                // SAFETY: the device is live; there is one description, and one list of formats with this length.
                unsafe { device.GetResourceAllocationInfo3(0, 1, &desc, Some(&count), Some(&formats), None) }
            }
            // SAFETY: the device is live, and the call accepts any description.
            Self::State(..) | Self::Layout { .. } => unsafe { device.GetResourceAllocationInfo(0, &[*desc]) },
        }
    }

    fn committed(
        &self,
        heap: &D3D12_HEAP_PROPERTIES,
        flags: D3D12_HEAP_FLAGS,
        desc: &ResourceCreateDesc<'_>,
    ) -> Result<ID3D12Resource, Error> {
        let mut created = None;
        let clear_value = desc.clear_value.map(core::ptr::from_ref);
        match *self {
            Self::State(device, state) => {
                let desc = desc.resource_desc;
                // SAFETY: the device is live, all that is pointed to lives longer, and the runtime checks the description.
                unsafe {
                    device.CreateCommittedResource(heap, flags, desc, state, clear_value, &mut created)
                }?;
            }
            Self::Layout { device, layout, castable } => {
                let (desc, formats) = (to_desc1(desc.resource_desc), castable.map(|(_, formats)| formats));
                // SAFETY: as above.
                unsafe {
                    device.CreateCommittedResource3(
                        heap,
                        flags,
                        &desc,
                        layout,
                        clear_value,
                        None,
                        formats,
                        &mut created,
                    )
                }?;
            }
        }
        created.ok_or_else(Error::empty)
    }

    fn placed(
        &self,
        allocation: &Allocation,
        desc: &ResourceCreateDesc<'_>,
    ) -> Result<ID3D12Resource, Error> {
        let mut created = None;
        // SAFETY: the resource is released before the allocation is freed, by `free_resource`.
        let (heap, offset) = (unsafe { allocation.heap() }, allocation.offset());
        match *self {
            Self::State(device, state) => {
                let desc = desc.resource_desc;
                // SAFETY: device and heap are live, all that is pointed to lives longer, and the runtime checks the
                // description.
                unsafe { device.CreatePlacedResource(heap, offset, desc, state, None, &mut created) }?;
            }
            Self::Layout { device, layout, castable } => {
                let (desc, formats) = (to_desc1(desc.resource_desc), castable.map(|(_, formats)| formats));
                // SAFETY: as above.
                unsafe {
                    device.CreatePlacedResource2(heap, offset, &desc, layout, None, formats, &mut created)
                }?;
            }
        }
        created.ok_or_else(Error::empty)
    }
}

/// Returns the description without sampler feedback as the newer functions take it.
fn to_desc1(desc: &D3D12_RESOURCE_DESC) -> D3D12_RESOURCE_DESC1 {
    D3D12_RESOURCE_DESC1 {
        Dimension: desc.Dimension,
        Alignment: desc.Alignment,
        Width: desc.Width,
        Height: desc.Height,
        DepthOrArraySize: desc.DepthOrArraySize,
        MipLevels: desc.MipLevels,
        Format: desc.Format,
        SampleDesc: desc.SampleDesc,
        Layout: desc.Layout,
        Flags: desc.Flags,
        SamplerFeedbackMipRegion: D3D12_MIP_REGION::default(),
    }
}

fn refused(device: &ID3D12Device, call: &str, error: &Error) -> AllocationError {
    match error.code() {
        E_OUTOFMEMORY => AllocationError::OutOfMemory,
        DXGI_ERROR_DEVICE_REMOVED => {
            // SAFETY: the device is live.
            let reason = unsafe { device.GetDeviceRemovedReason() };
            AllocationError::Internal(format!("{call}: the device is removed: {reason:?}"))
        }
        _ => AllocationError::Internal(format!("{call}: {error}")),
    }
}
