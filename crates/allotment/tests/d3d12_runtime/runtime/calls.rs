//! The calls that the runtime got.

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;

use super::Runtime;

/// A call that succeeded.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Heap(D3D12_HEAP_DESC),
    Placed { heap: D3D12_HEAP_DESC, heap_id: usize, offset: u64, resource: Made },
    Committed { properties: D3D12_HEAP_PROPERTIES, flags: D3D12_HEAP_FLAGS, resource: Made },
    Reserved(Made),
    Priority(Vec<(usize, D3D12_RESIDENCY_PRIORITY)>),
    Evict(Vec<usize>),
    MakeResident(Vec<usize>),
    EnqueueMakeResident(Vec<usize>),
}

/// A resource as it was described to the runtime.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) desc: D3D12_RESOURCE_DESC,
    pub(crate) begins: Begins,
    /// Format and color.
    pub(crate) clear_value: Option<(DXGI_FORMAT, [f32; 4])>,
    pub(crate) castable: Vec<DXGI_FORMAT>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begins {
    State(D3D12_RESOURCE_STATES),
    Layout(D3D12_BARRIER_LAYOUT),
}

impl Call {
    /// The properties and flags of a heap or a committed resource.
    pub(crate) fn memory(&self) -> Option<(D3D12_HEAP_PROPERTIES, D3D12_HEAP_FLAGS)> {
        match self {
            Self::Heap(desc) => Some((desc.Properties, desc.Flags)),
            Self::Committed { properties, flags, .. } => Some((*properties, *flags)),
            _ => None,
        }
    }

    /// The resource that was made, placed or committed.
    pub(crate) fn resource(&self) -> Option<&Made> {
        match self {
            Self::Placed { resource, .. } | Self::Committed { resource, .. } => Some(resource),
            _ => None,
        }
    }
}

impl Runtime {
    pub(super) fn record(&self, call: Call) {
        self.state().calls.push(call);
    }

    /// Takes the calls since the last time.
    pub(crate) fn calls(&self) -> Vec<Call> {
        core::mem::take(&mut self.state().calls)
    }
}
