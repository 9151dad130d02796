//! What buffers and textures have in common: they are described, placed and committed in the same way.

use core::fmt;

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;
use windows::core::Interface as _;

use super::memory::Memory;
use super::{MemoryOptions, Shared, create, refused};
use crate::device::{DescriptionError, DeviceError, MemoryDesc};

/// A buffer or a texture that is wanted.
///
/// ```no_run
/// use allotment::device::d3d12::ResourceInfo;
/// use windows::Win32::Graphics::Direct3D12::*;
/// # fn color() -> D3D12_RESOURCE_DESC { todo!() }
///
/// let black = D3D12_CLEAR_VALUE { Format: color().Format, ..Default::default() };
/// let target = ResourceInfo::new(color())
///     .with_initial_state(D3D12_RESOURCE_STATE_RENDER_TARGET)
///     .with_clear_value(black);
/// # let _ = target;
/// ```
#[derive(Clone, Copy)]
pub struct ResourceInfo<'a> {
    pub(super) desc: D3D12_RESOURCE_DESC,
    initial: Initial,
    clear_value: Option<D3D12_CLEAR_VALUE>,
    castable: &'a [DXGI_FORMAT],
    /// It was described without a promise that the device can make it: the device is asked first.
    pub(super) unchecked: bool,
    /// The rule that the description breaks which it was made from.
    pub(super) broken: Option<DescriptionError>,
}

/// How a resource begins.
#[derive(Clone, Copy, Debug)]
enum Initial {
    State(D3D12_RESOURCE_STATES),
    Layout(D3D12_BARRIER_LAYOUT),
}

impl<'a> ResourceInfo<'a> {
    /// A resource as Direct3D 12 describes it, in the state `COMMON` at first. Where the description's
    /// alignment is 0, the smallest is taken that the device allows.
    #[must_use]
    pub const fn new(desc: D3D12_RESOURCE_DESC) -> Self {
        let initial = Initial::State(D3D12_RESOURCE_STATE_COMMON);
        Self { desc, initial, clear_value: None, castable: &[], unchecked: false, broken: None }
    }

    /// The same, in another state at first. In upload and readback heaps there is one state only, which the
    /// resource gets there whatever is said here.
    #[must_use]
    pub const fn with_initial_state(mut self, state: D3D12_RESOURCE_STATES) -> Self {
        self.initial = Initial::State(state);
        self
    }

    /// The same for enhanced barriers: in a layout rather than a state at first. Refused where the device
    /// has none (`ID3D12Device10`).
    #[must_use]
    pub const fn with_initial_layout(mut self, layout: D3D12_BARRIER_LAYOUT) -> Self {
        self.initial = Initial::Layout(layout);
        self
    }

    /// The same with the value that it will mostly be cleared to. For render targets and depth buffers; others
    /// are refused with one.
    #[must_use]
    pub const fn with_clear_value(mut self, clear_value: D3D12_CLEAR_VALUE) -> Self {
        self.clear_value = Some(clear_value);
        self
    }

    /// The same with formats that it may be viewed in. For resources with an [initial
    /// layout](Self::with_initial_layout); refused where the device cannot (`ID3D12Device12`).
    #[must_use]
    pub const fn castable_to(mut self, formats: &'a [DXGI_FORMAT]) -> Self {
        self.castable = formats;
        self
    }

    /// As it was described.
    #[must_use]
    pub const fn desc(&self) -> &D3D12_RESOURCE_DESC {
        &self.desc
    }

    /// True for buffers.
    #[must_use]
    pub fn is_buffer(&self) -> bool {
        self.desc.Dimension == D3D12_RESOURCE_DIMENSION_BUFFER
    }

    pub(super) fn has_clear_value(&self) -> bool {
        self.clear_value.is_some()
    }

    pub(super) fn begins_in_a_layout(&self) -> bool {
        matches!(self.initial, Initial::Layout(_))
    }

    /// The state that a texture begins in; `None` where it begins in a layout that no state is.
    pub(super) fn first_state(&self) -> Option<D3D12_RESOURCE_STATES> {
        match self.initial {
            Initial::State(state) => Some(state),
            Initial::Layout(D3D12_BARRIER_LAYOUT_COMMON) => Some(D3D12_RESOURCE_STATE_COMMON),
            Initial::Layout(_) => None,
        }
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
            .field("clear_value", &self.clear_value.map(|value| value.Format))
            .field("castable", &self.castable)
            .finish_non_exhaustive()
    }
}

/// The one state of resources in a heap of this type, or what was asked for.
fn state(heap_type: D3D12_HEAP_TYPE, asked: D3D12_RESOURCE_STATES) -> D3D12_RESOURCE_STATES {
    match heap_type {
        D3D12_HEAP_TYPE_UPLOAD => D3D12_RESOURCE_STATE_GENERIC_READ,
        D3D12_HEAP_TYPE_READBACK => D3D12_RESOURCE_STATE_COPY_DEST,
        _ => asked,
    }
}

/// The same description in its newer form.
pub(super) fn newer(desc: &D3D12_RESOURCE_DESC) -> D3D12_RESOURCE_DESC1 {
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
    /// The device's newer interface, for resources that begin in a layout.
    fn with_layouts(&self) -> Result<ID3D12Device10, DeviceError> {
        if !self.features.enhanced_barriers {
            return Err(DeviceError::Unsupported);
        }
        self.raw.cast().map_err(|error| refused(&error))
    }

    /// # Safety
    ///
    /// As for [`create_buffer`](crate::Device::create_buffer).
    pub(super) unsafe fn create_in(
        &self,
        info: &ResourceInfo<'_>,
        memory: Memory,
        offset: u64,
    ) -> Result<ID3D12Resource, DeviceError> {
        // SAFETY: the caller's promise.
        let object = unsafe { memory.pageable() };
        // A committed resource is no heap, and takes no other.
        let heap = object.cast().map_err(|error| refused(&error))?;
        let (desc, _) = self.placed(info)?;
        self.create_placed(info, &desc, &heap, offset)
    }

    /// `desc` is what [`placed`](Self::placed) made of `info`.
    pub(super) fn create_placed(
        &self,
        info: &ResourceInfo<'_>,
        desc: &D3D12_RESOURCE_DESC,
        heap: &ID3D12Heap,
        offset: u64,
    ) -> Result<ID3D12Resource, DeviceError> {
        let clear_value = info.clear_value.as_ref().map(core::ptr::from_ref);
        match info.initial {
            Initial::State(asked) => {
                // SAFETY: the heap is live.
                let state = state(unsafe { heap.GetDesc() }.Properties.Type, asked);
                create(|made| {
                    // SAFETY: all is live, and the runtime checks the description.
                    unsafe { self.raw.CreatePlacedResource(heap, offset, desc, state, clear_value, made) }
                })
            }
            Initial::Layout(layout) => {
                let device = self.with_layouts()?;
                let (desc, castable) = (newer(desc), Some(info.castable));
                create(|made| {
                    // SAFETY: as above.
                    unsafe {
                        device.CreatePlacedResource2(heap, offset, &desc, layout, clear_value, castable, made)
                    }
                })
            }
        }
    }

    /// A resource and memory that is its alone: committed, where the CPU cannot map the memory. Of a
    /// committed buffer only the bytes of its own width may be mapped, and of memory all may, so that a
    /// mappable one is placed in a heap of its own.
    pub(super) fn create_dedicated(
        &self,
        info: &ResourceInfo<'_>,
        memory: &MemoryDesc<'_, MemoryOptions>,
    ) -> Result<(Memory, ID3D12Resource), DeviceError> {
        let (desc, needs) = self.placed(info)?;
        if !needs.memory_types.contains(memory.memory_type) {
            return Err(DeviceError::Unsupported);
        }
        let memory = MemoryDesc { size: needs.size, ..*memory };
        if !self.is_mappable(memory.memory_type) {
            return self.create_committed(info, &desc, &memory);
        }
        let memory = self.allocate(&memory)?;
        // SAFETY: made above.
        let object = unsafe { memory.pageable() };
        let heap = object.cast().map_err(|error| refused(&error));
        match heap.and_then(|heap| self.create_placed(info, &desc, &heap, 0)) {
            Ok(resource) => Ok((memory, resource)),
            Err(error) => {
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
            return Err(DeviceError::Unsupported);
        }
        let heap = self.classes[memory.memory_type.get()].properties;
        let flags = self.heap_flags(memory.options);
        let clear_value = info.clear_value.as_ref().map(core::ptr::from_ref);
        let commit = || match info.initial {
            Initial::State(asked) => {
                let state = state(heap.Type, asked);
                create(|made| {
                    // SAFETY: all is live, and the runtime checks the description.
                    unsafe { self.raw.CreateCommittedResource(&heap, flags, desc, state, clear_value, made) }
                })
            }
            Initial::Layout(layout) => {
                let device = self.with_layouts()?;
                let (desc, castable) = (newer(desc), Some(info.castable));
                create(|made| {
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
                            made,
                        )
                    }
                })
            }
        };
        self.enter(memory, || {
            let resource: ID3D12Resource = commit()?;
            Ok((resource.clone().into(), resource))
        })
    }
}
