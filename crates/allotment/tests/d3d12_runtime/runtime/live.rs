//! The live objects: heaps, of descriptors too, and resources that code beside this runtime still holds.
//!
//! The runtime keeps a reference to each. Where that is the only one, the object is dead, and is let go.

use windows::Win32::Graphics::Direct3D12::*;
use windows::core::{IUnknown, Interface};

use super::Runtime;

/// A heap or a resource that was made.
#[derive(Debug)]
pub(crate) struct Live {
    object: ID3D12Pageable,
    /// COM's identity of the object.
    pub(super) id: usize,
    pub(super) what: What,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    Heap(D3D12_HEAP_DESC),
    Placed,
    DescriptorHeap,
    /// So many tiles.
    Reserved(u64),
    /// In heaps of these properties, and how large.
    Committed(D3D12_HEAP_PROPERTIES, u64),
}

/// How many are alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) heaps: u32,
    pub(crate) placed: u32,
    pub(crate) committed: u32,
    pub(crate) descriptor_heaps: u32,
    pub(crate) reserved: u32,
}

/// Returns the COM identity of an object: one address, by whichever interface.
pub(crate) fn id(object: &impl Interface) -> usize {
    object.cast::<IUnknown>().unwrap().as_raw().addr()
}

/// How many references there are to an object, one of them the caller's.
fn references(object: &ID3D12Pageable) -> u32 {
    let raw = object.clone().into_raw();
    // SAFETY: the address of a live interface, whose reference was taken above and is given back here.
    let unknown = unsafe { IUnknown::from_raw(raw) };
    let release = unknown.vtable().Release;
    // SAFETY: gives the reference back; `object` has another.
    unsafe { release(unknown.into_raw()) }
}

impl Runtime {
    pub(super) fn born(&self, object: ID3D12Pageable, what: What) {
        let id = id(&object);
        self.state().live.push(Live { object, id, what });
    }

    /// Lets go of what is dead.
    pub(super) fn bury(&self) {
        let mut state = self.state();
        let (alive, dead): (Vec<_>, Vec<_>) =
            core::mem::take(&mut state.live).into_iter().partition(|live| references(&live.object) > 1);
        state.live = alive;
        state.mappings.retain(|(resource, _), _| !dead.iter().any(|dead| dead.id == *resource));
        if state.mappings.values().any(|(heap, _)| dead.iter().any(|dead| dead.id == *heap)) {
            state.validation_errors.push("a heap is gone that is mapped to a buffer".into());
        }
        drop(state);
        drop(dead);
    }

    /// The description that a live heap was made of.
    pub(super) fn heap_desc(&self, heap: &ID3D12Heap) -> Option<D3D12_HEAP_DESC> {
        let wanted = id(heap);
        self.state().live.iter().find_map(|live| match live.what {
            What::Heap(desc) if live.id == wanted => Some(desc),
            _ => None,
        })
    }

    /// How many tiles a reserved resource has.
    pub(super) fn tiles_of(&self, resource: &ID3D12Resource) -> Option<u64> {
        let wanted = id(resource);
        self.state().live.iter().find_map(|live| match live.what {
            What::Reserved(tiles) if live.id == wanted => Some(tiles),
            _ => None,
        })
    }

    /// How many heaps and resources are alive.
    pub(crate) fn live(&self) -> Counts {
        self.bury();
        let mut counts = Counts::default();
        for live in &self.state().live {
            match live.what {
                What::Heap(_) => counts.heaps += 1,
                What::Placed => counts.placed += 1,
                What::Reserved(_) => counts.reserved += 1,
                What::DescriptorHeap => counts.descriptor_heaps += 1,
                What::Committed(..) => counts.committed += 1,
            }
        }
        counts
    }

    /// Bytes of live memory in both segment groups.
    pub(crate) fn bytes(&self) -> [u64; 2] {
        self.bury();
        let mut bytes = [0; 2];
        for live in &self.state().live {
            let (properties, size) = match &live.what {
                What::Heap(desc) => (desc.Properties, desc.SizeInBytes),
                What::Committed(properties, size) => (*properties, *size),
                What::Placed | What::Reserved(_) | What::DescriptorHeap => continue,
            };
            bytes[self.segment_group(&properties)] += size;
        }
        bytes
    }

    /// 0 for the adapter's memory, 1 for the system's.
    pub(super) fn segment_group(&self, properties: &D3D12_HEAP_PROPERTIES) -> usize {
        let local = self.config.uma
            || match properties.Type {
                D3D12_HEAP_TYPE_CUSTOM => properties.MemoryPoolPreference == D3D12_MEMORY_POOL_L1,
                D3D12_HEAP_TYPE_UPLOAD | D3D12_HEAP_TYPE_READBACK => false,
                _ => true,
            };
        usize::from(!local)
    }
}
