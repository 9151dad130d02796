//! Heaps and resources: checked, recorded, and made by the machine's runtime in terms that it knows.

use windows::Win32::Foundation::{E_INVALIDARG, E_POINTER};
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;
use windows::core::{Error, Result};

use super::calls::{Begins, Call, Made};
use super::faults::Kind;
use super::live::{What, id};
use super::sizes::below;
use super::{KIB, Runtime, TIGHT};
use crate::runtime::checks::CLASS;

/// An object of the machine's runtime.
fn made<T>(call: impl FnOnce(&mut Option<T>) -> Result<()>) -> Result<T> {
    let mut made = None;
    call(&mut made)?;
    made.ok_or_else(|| E_POINTER.into())
}

/// A description of a resource, taken together out of a call's arguments.
pub(super) fn describe(
    desc: D3D12_RESOURCE_DESC,
    begins: Begins,
    clear_value: Option<&D3D12_CLEAR_VALUE>,
    castable: &[DXGI_FORMAT],
) -> Made {
    let clear_value = clear_value.map(|value| {
        // SAFETY: a color and a depth are plain numbers, and a depth is shorter.
        (value.Format, unsafe { value.Anonymous.Color })
    });
    Made { desc, begins, clear_value, castable: castable.to_vec() }
}

/// A description in its newer form, as it was before.
pub(super) fn older(desc: &D3D12_RESOURCE_DESC1) -> D3D12_RESOURCE_DESC {
    D3D12_RESOURCE_DESC {
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
    }
}

impl Runtime {
    /// The result of a call that breaks a rule.
    fn allowed(&self, call: &str, check: core::result::Result<(), String>) -> Result<()> {
        check.map_err(|mistake| {
            self.report(format!("{call}: {mistake}"));
            E_INVALIDARG.into()
        })
    }

    /// Properties that the machine's runtime knows, and mean the same as far as it can be.
    fn properties_below(&self, heap: &D3D12_HEAP_PROPERTIES) -> D3D12_HEAP_PROPERTIES {
        let system = |page| D3D12_HEAP_PROPERTIES {
            Type: D3D12_HEAP_TYPE_CUSTOM,
            CPUPageProperty: page,
            MemoryPoolPreference: D3D12_MEMORY_POOL_L0,
            ..*heap
        };
        let reached = heap.CPUPageProperty != D3D12_CPU_PAGE_PROPERTY_NOT_AVAILABLE;
        match heap.Type {
            D3D12_HEAP_TYPE_GPU_UPLOAD => system(D3D12_CPU_PAGE_PROPERTY_WRITE_COMBINE),
            D3D12_HEAP_TYPE_CUSTOM if self.uma_below || reached => system(heap.CPUPageProperty),
            _ => *heap,
        }
    }

    pub(super) fn create_heap(&self, desc: &D3D12_HEAP_DESC) -> Result<ID3D12Heap> {
        self.enter(Kind::CreateHeap)?;
        self.allowed("CreateHeap", self.check_heap(desc))?;
        self.has_room(&desc.Properties)?;
        let known = D3D12_HEAP_DESC {
            Properties: self.properties_below(&desc.Properties),
            Flags: D3D12_HEAP_FLAGS(desc.Flags.0 & CLASS),
            ..*desc
        };
        // SAFETY: the device is live, and the runtime checks the description.
        let heap: ID3D12Heap = made(|heap| unsafe { self.below.CreateHeap(&known, heap) })?;
        self.born(heap.clone().into(), What::Heap(*desc));
        self.record(Call::Heap(*desc));
        Ok(heap)
    }

    pub(super) fn create_placed(
        &self,
        heap: Option<&ID3D12Heap>,
        offset: u64,
        wanted: Made,
        clear_value: Option<&D3D12_CLEAR_VALUE>,
    ) -> Result<ID3D12Resource> {
        self.enter(Kind::CreatePlacedResource)?;
        let heap = heap.ok_or(Error::from_hresult(E_POINTER))?;
        let desc = self.heap_desc(heap).ok_or_else(|| {
            self.report("CreatePlacedResource: in a heap that is not this runtime's");
            Error::from_hresult(E_INVALIDARG)
        })?;
        self.allowed("CreatePlacedResource", self.check_placed(&desc, offset, &wanted))?;
        let resource = if wanted.desc.Flags.contains(TIGHT) && offset % (64 * KIB) != 0 {
            // The machine may not be able to place it there, so it stands elsewhere.
            self.commit_below(&desc.Properties, &wanted, clear_value)?
        } else {
            let known = below(&wanted.desc);
            let state = state_below(&desc.Properties, &wanted);
            let clear_value = clear_value.map(core::ptr::from_ref);
            made(|resource| {
                // SAFETY: all is live, and the runtime checks the description.
                unsafe { self.below.CreatePlacedResource(heap, offset, &known, state, clear_value, resource) }
            })?
        };
        self.born(resource.clone().into(), What::Placed);
        self.record(Call::Placed { heap: desc, heap_id: id(heap), offset, resource: wanted });
        Ok(resource)
    }

    pub(super) fn create_committed(
        &self,
        properties: &D3D12_HEAP_PROPERTIES,
        flags: D3D12_HEAP_FLAGS,
        wanted: Made,
        clear_value: Option<&D3D12_CLEAR_VALUE>,
    ) -> Result<ID3D12Resource> {
        self.enter(Kind::CreateCommittedResource)?;
        self.allowed("CreateCommittedResource", self.check_committed(properties, flags, &wanted))?;
        self.has_room(properties)?;
        let resource = self.commit_below(properties, &wanted, clear_value)?;
        let size = self.allocation_info(&wanted.desc).SizeInBytes;
        self.born(resource.clone().into(), What::Committed(*properties, size));
        self.record(Call::Committed { properties: *properties, flags, resource: wanted });
        Ok(resource)
    }

    pub(super) fn commit_below(
        &self,
        properties: &D3D12_HEAP_PROPERTIES,
        wanted: &Made,
        clear_value: Option<&D3D12_CLEAR_VALUE>,
    ) -> Result<ID3D12Resource> {
        let (heap, known) = (self.properties_below(properties), below(&wanted.desc));
        let (flags, state) = (D3D12_HEAP_FLAG_NONE, state_below(properties, wanted));
        let clear_value = clear_value.map(core::ptr::from_ref);
        made(|resource| {
            // SAFETY: all is live, and the runtime checks the description.
            unsafe { self.below.CreateCommittedResource(&heap, flags, &known, state, clear_value, resource) }
        })
    }
}

/// A state that the machine's runtime takes; it may know of no layouts.
fn state_below(heap: &D3D12_HEAP_PROPERTIES, wanted: &Made) -> D3D12_RESOURCE_STATES {
    match (wanted.begins, heap.Type) {
        (Begins::State(state), _) => state,
        (Begins::Layout(_), D3D12_HEAP_TYPE_UPLOAD) => D3D12_RESOURCE_STATE_GENERIC_READ,
        (Begins::Layout(_), D3D12_HEAP_TYPE_READBACK) => D3D12_RESOURCE_STATE_COPY_DEST,
        (Begins::Layout(_), _) => D3D12_RESOURCE_STATE_COMMON,
    }
}
