//! The common parts of buffers and textures: descriptions, and the creation of placed and committed resources.

use core::fmt;

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;
use windows::core::Interface as _;

use super::memory::{Memory, NewMemory};
use super::{MemoryOptions, Shared, create, refused};
use crate::device::{DescriptionError, DeviceError, MemoryDesc};

/// A buffer or a texture to create.
///
/// ```no_run
/// use allotment::device::d3d12::ResourceInfo;
/// use windows::Win32::Graphics::Direct3D12::*;
/// # fn color() -> D3D12_RESOURCE_DESC { todo!() }
///
/// let target = ResourceInfo::new(color())
///     .with_initial_state(D3D12_RESOURCE_STATE_RENDER_TARGET)
///     .with_clear_color(color().Format, [0.0; 4]);
/// # let _ = target;
/// ```
#[doc(alias("ResourceCreateDesc", "ResourceStateOrBarrierLayout"))]
#[derive(Clone, Copy, PartialEq)]
pub struct ResourceInfo<'a> {
    pub(super) desc: D3D12_RESOURCE_DESC,
    initial: Initial,
    clear_value: Option<ClearValue>,
    castable: &'a [DXGI_FORMAT],
    /// The description was not promised to be valid: the device is queried first.
    pub(super) unchecked: bool,
    /// The format of a description whose views have further ones, so that `desc` has the typeless one.
    pub(super) typed: Option<DXGI_FORMAT>,
    /// The array layers are the faces of cubes, as the original description says.
    pub(super) is_cube: bool,
    /// The rule that the original description breaks, if any.
    pub(super) broken: Option<DescriptionError>,
}

/// What a target is mostly cleared to. `D3D12_CLEAR_VALUE` has a union, whose members are not all initialized.
/// The numbers are bits, since what is no number equals nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ClearValue {
    Color(DXGI_FORMAT, [u32; 4]),
    Depth(DXGI_FORMAT, u32, u8),
}

impl ClearValue {
    fn raw(self) -> D3D12_CLEAR_VALUE {
        let mut raw = D3D12_CLEAR_VALUE::default();
        match self {
            Self::Color(format, color) => {
                raw.Format = format;
                raw.Anonymous.Color = color.map(f32::from_bits);
            }
            Self::Depth(format, depth, stencil) => {
                raw.Format = format;
                raw.Anonymous.DepthStencil =
                    D3D12_DEPTH_STENCIL_VALUE { Depth: f32::from_bits(depth), Stencil: stencil };
            }
        }
        raw
    }
}

/// The initial state or layout of a resource.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Initial {
    State(D3D12_RESOURCE_STATES),
    Layout(D3D12_BARRIER_LAYOUT),
}

impl<'a> ResourceInfo<'a> {
    /// Wraps Direct3D 12's own description, with the initial state `COMMON`. If the description's alignment is
    /// 0, the smallest supported one is used.
    #[must_use]
    pub const fn new(desc: D3D12_RESOURCE_DESC) -> Self {
        let initial = Initial::State(D3D12_RESOURCE_STATE_COMMON);
        Self {
            desc,
            initial,
            clear_value: None,
            castable: &[],
            unchecked: false,
            typed: None,
            is_cube: false,
            broken: None,
        }
    }

    /// Sets the initial state. In upload and readback heaps resources have a fixed state, which they get
    /// regardless of this one.
    #[must_use]
    pub const fn with_initial_state(mut self, state: D3D12_RESOURCE_STATES) -> Self {
        self.initial = Initial::State(state);
        self
    }

    /// Sets an initial layout instead of a state, for enhanced barriers. Creation fails if the device does not
    /// support them (`ID3D12Device10`).
    #[must_use]
    pub const fn with_initial_layout(mut self, layout: D3D12_BARRIER_LAYOUT) -> Self {
        self.initial = Initial::Layout(layout);
        self
    }

    /// Sets the optimised clear value (`D3D12_CLEAR_VALUE`): red, green, blue and alpha, in the format of the views that clear
    /// it. For render targets only; creation of others fails with it.
    #[must_use]
    pub const fn with_clear_color(mut self, format: DXGI_FORMAT, color: [f32; 4]) -> Self {
        let [red, green, blue, alpha] = color;
        let bits = [red.to_bits(), green.to_bits(), blue.to_bits(), alpha.to_bits()];
        self.clear_value = Some(ClearValue::Color(format, bits));
        self
    }

    /// Sets the optimised clear value (`D3D12_CLEAR_VALUE`) of a depth buffer. Creation of others fails with it.
    #[must_use]
    pub const fn with_clear_depth(mut self, format: DXGI_FORMAT, depth: f32, stencil: u8) -> Self {
        self.clear_value = Some(ClearValue::Depth(format, depth.to_bits(), stencil));
        self
    }

    /// Sets the formats that views may cast the resource to. For resources with an [initial
    /// layout](Self::with_initial_layout); creation fails if the device does not support it (`ID3D12Device12`).
    #[must_use]
    pub const fn with_castable_formats(mut self, formats: &'a [DXGI_FORMAT]) -> Self {
        self.castable = formats;
        self
    }

    /// Returns Direct3D 12's description.
    #[must_use]
    pub const fn desc(&self) -> &D3D12_RESOURCE_DESC {
        &self.desc
    }

    /// Returns true for buffers.
    #[must_use]
    pub fn is_buffer(&self) -> bool {
        self.desc.Dimension == D3D12_RESOURCE_DIMENSION_BUFFER
    }

    pub(super) fn has_clear_value(&self) -> bool {
        self.clear_value.is_some()
    }

    pub(super) fn has_initial_layout(&self) -> bool {
        matches!(self.initial, Initial::Layout(_))
    }

    /// Returns the initial state; `None` for an initial layout without a corresponding state.
    pub(super) fn initial_state(&self) -> Option<D3D12_RESOURCE_STATES> {
        match self.initial {
            Initial::State(state) => Some(state),
            // `COMMON` is the only layout with the same meaning in both models.
            Initial::Layout(D3D12_BARRIER_LAYOUT_COMMON) => Some(D3D12_RESOURCE_STATE_COMMON),
            Initial::Layout(_) => None,
        }
    }

    /// Returns the same description for as long as one likes; `None` where it borrows a list of castable formats.
    pub(super) fn borrowing_nothing(&self) -> Option<ResourceInfo<'static>> {
        let Self { desc, initial, clear_value, castable, unchecked, typed, is_cube, broken } = *self;
        castable.is_empty().then_some(ResourceInfo {
            desc,
            initial,
            clear_value,
            castable: &[],
            unchecked,
            typed,
            is_cube,
            broken,
        })
    }

    pub(super) fn castable(&self) -> &'a [DXGI_FORMAT] {
        self.castable
    }
}

impl From<D3D12_RESOURCE_DESC> for ResourceInfo<'_> {
    fn from(desc: D3D12_RESOURCE_DESC) -> Self {
        Self::new(desc)
    }
}

impl fmt::Debug for ResourceInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceInfo")
            .field("desc", &self.desc)
            .field("initial", &self.initial)
            .field("clear_value", &self.clear_value)
            .field("castable", &self.castable)
            .finish_non_exhaustive()
    }
}

/// Returns the fixed state of resources in heaps of this type, otherwise the requested one.
// The runtime refuses other states in these heaps, even for requests that would be compatible.
fn state(heap_type: D3D12_HEAP_TYPE, requested: D3D12_RESOURCE_STATES) -> D3D12_RESOURCE_STATES {
    match heap_type {
        D3D12_HEAP_TYPE_UPLOAD => D3D12_RESOURCE_STATE_GENERIC_READ,
        D3D12_HEAP_TYPE_READBACK => D3D12_RESOURCE_STATE_COPY_DEST,
        _ => requested,
    }
}

/// Converts a description to `D3D12_RESOURCE_DESC1`.
pub(super) fn to_desc1(desc: &D3D12_RESOURCE_DESC) -> D3D12_RESOURCE_DESC1 {
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

impl Shared {
    /// Returns the device's interface for resources with an initial layout.
    // The interface exists in runtimes whose driver lacks the feature, so the option decides.
    fn layout_device(&self) -> Result<ID3D12Device10, DeviceError> {
        if !self.features.enhanced_barriers {
            return Err(DeviceError::Unsupported);
        }
        self.raw.cast().map_err(|error| refused(&error))
    }

    /// # Safety
    ///
    /// The conditions of [`create_buffer`](crate::device::BufferDevice::create_buffer) apply.
    pub(super) unsafe fn create_in(
        &self,
        info: &ResourceInfo<'_>,
        memory: Memory,
        offset: u64,
    ) -> Result<ID3D12Resource, DeviceError> {
        // SAFETY: the caller's promise.
        let object = unsafe { memory.pageable() };
        // A committed resource is not a heap and cannot contain other resources, so the cast fails.
        let heap = object.cast().map_err(|error| refused(&error))?;
        // Described again: alignment and flags must be those of the requirements that the allocator placed it by.
        let (desc, _) = self.describe_placed(info)?;
        self.create_placed(info, &desc, &heap, offset)
    }

    /// Creates a placed resource. `desc` is the result of [`describe_placed`](Self::describe_placed) for `info`.
    pub(super) fn create_placed(
        &self,
        info: &ResourceInfo<'_>,
        desc: &D3D12_RESOURCE_DESC,
        heap: &ID3D12Heap,
        offset: u64,
    ) -> Result<ID3D12Resource, DeviceError> {
        let clear_value = info.clear_value.map(ClearValue::raw);
        let clear_value = clear_value.as_ref().map(core::ptr::from_ref);
        match info.initial {
            Initial::State(requested) => {
                // SAFETY: the heap is live.
                let state = state(unsafe { heap.GetDesc() }.Properties.Type, requested);
                create(|resource| {
                    // SAFETY: all objects are live, and the runtime checks the description.
                    unsafe { self.raw.CreatePlacedResource(heap, offset, desc, state, clear_value, resource) }
                })
            }
            Initial::Layout(layout) => {
                let device = self.layout_device()?;
                // The layout functions take the newer description, whose additional field is for sampler feedback.
                let (desc, castable) = (to_desc1(desc), Some(info.castable));
                create(|resource| {
                    // SAFETY: as above.
                    unsafe {
                        device.CreatePlacedResource2(
                            heap,
                            offset,
                            &desc,
                            layout,
                            clear_value,
                            castable,
                            resource,
                        )
                    }
                })
            }
        }
    }

    /// Creates a reserved resource: addresses without memory.
    pub(super) fn create_reserved(&self, info: &ResourceInfo<'_>) -> Result<ID3D12Resource, DeviceError> {
        let clear_value = info.clear_value.map(ClearValue::raw);
        let clear_value = clear_value.as_ref().map(core::ptr::from_ref);
        match info.initial {
            Initial::State(state) => create(|resource| {
                // SAFETY: the device is live, and the runtime checks the description.
                unsafe { self.raw.CreateReservedResource(&info.desc, state, clear_value, resource) }
            }),
            Initial::Layout(layout) => {
                let device = self.layout_device()?;
                let (session, castable) = (None::<&ID3D12ProtectedResourceSession>, Some(info.castable));
                create(|resource| {
                    // SAFETY: as above.
                    unsafe {
                        device.CreateReservedResource2(
                            &info.desc,
                            layout,
                            clear_value,
                            session,
                            castable,
                            resource,
                        )
                    }
                })
            }
        }
    }

    /// Creates a resource with dedicated memory: a committed resource if the CPU cannot map the memory. Of a
    /// committed buffer only its own width can be mapped, but memory must be mappable as a whole, so a mappable
    /// buffer is placed in a heap of its own.
    pub(super) fn create_dedicated(
        &self,
        info: &ResourceInfo<'_>,
        memory: &MemoryDesc<'_, MemoryOptions>,
    ) -> Result<(Memory, ID3D12Resource), DeviceError> {
        let (desc, requirements) = self.describe_placed(info)?;
        // The memory type decides which class of resources its heaps support.
        if !requirements.memory_types.contains(memory.memory_type) {
            return Err(self.properties.wrong_memory_type(memory.memory_type, requirements.memory_types));
        }
        // The size is the runtime's rather than the request's, so that the ledger counts what the heap really
        // takes.
        let memory = MemoryDesc { size: requirements.size, ..*memory };
        if !self.is_mappable(memory.memory_type) {
            return self.create_committed(info, &desc, &memory);
        }
        let memory = self.allocate(&memory)?;
        // SAFETY: allocated above.
        let object = unsafe { memory.pageable() };
        let heap = object.cast().map_err(|error| refused(&error));
        match heap.and_then(|heap| self.create_placed(info, &desc, &heap, 0)) {
            Ok(resource) => Ok((memory, resource)),
            Err(error) => {
                // The heap goes too: nothing else has its handle.
                self.free(memory);
                Err(error)
            }
        }
    }

    fn create_committed(
        &self,
        info: &ResourceInfo<'_>,
        desc: &D3D12_RESOURCE_DESC,
        memory: &MemoryDesc<'_, MemoryOptions>,
    ) -> Result<(Memory, ID3D12Resource), DeviceError> {
        if memory.options.is_some_and(|options| options.import.is_some()) {
            // A shared handle opens a heap, and a committed resource has none of its own.
            return Err(DescriptionError::SharedHandleOfCommitted.into());
        }
        let flags = self.heap_flags(memory.options)?;
        let heap = self.classes[memory.memory_type.get()].heap(flags);
        let clear_value = info.clear_value.map(ClearValue::raw);
        let clear_value = clear_value.as_ref().map(core::ptr::from_ref);
        let commit = || match info.initial {
            Initial::State(requested) => {
                let state = state(heap.Type, requested);
                create(|resource| {
                    // SAFETY: all objects are live, and the runtime checks the description.
                    unsafe {
                        self.raw.CreateCommittedResource(&heap, flags, desc, state, clear_value, resource)
                    }
                })
            }
            Initial::Layout(layout) => {
                let device = self.layout_device()?;
                let (desc, castable) = (to_desc1(desc), Some(info.castable));
                create(|resource| {
                    let session = None::<&ID3D12ProtectedResourceSession>;
                    // SAFETY: as above.
                    unsafe {
                        device.CreateCommittedResource3(
                            &heap,
                            flags,
                            &desc,
                            layout,
                            clear_value,
                            session,
                            castable,
                            resource,
                        )
                    }
                })
            }
        };
        self.record_allocation(memory, || {
            let resource: ID3D12Resource = commit()?;
            // Two references: one lives in the ledger as the memory, the other is the resource that the caller
            // releases.
            Ok((NewMemory::Committed(resource.clone()), resource))
        })
    }
}
