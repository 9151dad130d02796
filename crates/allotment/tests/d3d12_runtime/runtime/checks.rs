//! The rules of Direct3D 12 that its debug layer checks: of heaps, placed and committed resources.
//!
//! The machine's own runtime may let much of it pass, as the hardware that it runs on can do more.

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT_UNKNOWN;

use super::calls::{Begins, Made};
use super::sizes::{TARGETS, is_buffer};
use super::{KIB, MIB, Runtime};

/// The flags that say which resources a heap takes.
pub(crate) const CLASS: i32 = D3D12_HEAP_FLAG_DENY_BUFFERS.0
    | D3D12_HEAP_FLAG_DENY_RT_DS_TEXTURES.0
    | D3D12_HEAP_FLAG_DENY_NON_RT_DS_TEXTURES.0;

const NOT_ZEROED: D3D12_HEAP_FLAGS = D3D12_HEAP_FLAG_CREATE_NOT_ZEROED;

type Check = Result<(), String>;

fn ensure(holds: bool, mistake: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(mistake()) }
}

impl Runtime {
    fn check_properties(&self, heap: &D3D12_HEAP_PROPERTIES) -> Check {
        let (page, pool) = (heap.CPUPageProperty, heap.MemoryPoolPreference);
        let unknown = (D3D12_CPU_PAGE_PROPERTY_UNKNOWN, D3D12_MEMORY_POOL_UNKNOWN);
        match heap.Type {
            D3D12_HEAP_TYPE_GPU_UPLOAD if !self.config.gpu_upload => {
                return Err("GPU upload heaps are not there".into());
            }
            D3D12_HEAP_TYPE_CUSTOM => {
                let named = page != unknown.0 && pool != unknown.1;
                ensure(named, || "a custom heap without page property or pool".into())?;
                let own = pool == D3D12_MEMORY_POOL_L1;
                ensure(!(own && self.config.uma), || "pool L1 where all memory is one".into())?;
                let reached = page == D3D12_CPU_PAGE_PROPERTY_WRITE_COMBINE && self.config.gpu_upload
                    || page == D3D12_CPU_PAGE_PROPERTY_NOT_AVAILABLE;
                ensure(!own || reached, || "the CPU cannot reach pool L1 so".into())?;
            }
            D3D12_HEAP_TYPE_DEFAULT
            | D3D12_HEAP_TYPE_UPLOAD
            | D3D12_HEAP_TYPE_READBACK
            | D3D12_HEAP_TYPE_GPU_UPLOAD => {
                ensure((page, pool) == unknown, || "page property or pool of a standard heap".into())?;
            }
            other => return Err(format!("heap type {}", other.0)),
        }
        let nodes = [heap.CreationNodeMask, heap.VisibleNodeMask];
        ensure(nodes.iter().all(|&nodes| nodes <= 1), || "nodes that are not there".into())
    }

    fn check_flags(&self, flags: D3D12_HEAP_FLAGS) -> Check {
        ensure(!flags.contains(NOT_ZEROED) || self.config.not_zeroed, || {
            "the runtime does not know of heaps that are not zeroed".into()
        })
    }

    pub(super) fn check_heap(&self, desc: &D3D12_HEAP_DESC) -> Check {
        self.check_properties(&desc.Properties)?;
        self.check_flags(desc.Flags)?;
        ensure(desc.SizeInBytes > 0, || "a heap of no bytes".into())?;
        let alignment = desc.Alignment;
        ensure([0, 64 * KIB, 4 * MIB].contains(&alignment), || format!("a heap at alignment {alignment}"))?;
        let denied = D3D12_HEAP_FLAGS(desc.Flags.0 & CLASS);
        ensure(denied.0 != CLASS, || "a heap that takes nothing".into())?;
        let one = [
            D3D12_HEAP_FLAG_ALLOW_ONLY_BUFFERS,
            D3D12_HEAP_FLAG_ALLOW_ONLY_RT_DS_TEXTURES,
            D3D12_HEAP_FLAG_ALLOW_ONLY_NON_RT_DS_TEXTURES,
        ];
        ensure(self.config.tier != D3D12_RESOURCE_HEAP_TIER_1 || one.contains(&denied), || {
            format!("a heap that denies {:#x} on resource heap tier 1", denied.0)
        })
    }

    /// Checks the rules of placed and committed resources alike.
    fn check_resource(&self, heap: &D3D12_HEAP_PROPERTIES, made: &Made) -> Check {
        let desc = &made.desc;
        if let Some(mistake) = self.alignment_mistake(desc) {
            return Err(mistake);
        }
        let only = match heap.Type {
            D3D12_HEAP_TYPE_UPLOAD => Some(D3D12_RESOURCE_STATE_GENERIC_READ),
            D3D12_HEAP_TYPE_READBACK => Some(D3D12_RESOURCE_STATE_COPY_DEST),
            _ => None,
        };
        if let Some(only) = only {
            ensure(is_buffer(desc), || "a texture in an upload or readback heap".into())?;
            if let Begins::State(state) = made.begins {
                ensure(state == only, || format!("state {:#x} in heap type {}", state.0, heap.Type.0))?;
            }
            let writes = D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS;
            ensure(!desc.Flags.contains(writes), || "unordered access in a heap of one state".into())?;
        }
        if is_buffer(desc) {
            if let Begins::Layout(layout) = made.begins {
                let none = D3D12_BARRIER_LAYOUT_UNDEFINED;
                ensure(layout == none, || format!("a buffer in layout {}", layout.0))?;
            }
        }
        let target = desc.Flags.0 & TARGETS != 0;
        if let Some((format, _)) = made.clear_value {
            ensure(!is_buffer(desc) && target, || "a clear value of what is no target".into())?;
            ensure(format == desc.Format, || {
                format!("a clear value of format {} for {}", format.0, desc.Format.0)
            })?;
        }
        let casts = !made.castable.is_empty();
        ensure(!casts || matches!(made.begins, Begins::Layout(_)), || {
            "castable formats without a layout".into()
        })?;
        ensure(is_buffer(desc) == (desc.Format == DXGI_FORMAT_UNKNOWN), || "a format".into())?;
        let [several, dense] = [desc.SampleDesc.Count > 1, !is_buffer(desc) && target];
        ensure(!several || dense, || "several samples of what is no target".into())
    }

    pub(super) fn check_placed(&self, heap: &D3D12_HEAP_DESC, offset: u64, made: &Made) -> Check {
        self.check_resource(&heap.Properties, made)?;
        let told = self.allocation_info(&made.desc);
        ensure(told.SizeInBytes != u64::MAX, || "a resource that there cannot be".into())?;
        ensure(offset % told.Alignment == 0, || {
            format!("offset {offset} of a resource at alignment {}", told.Alignment)
        })?;
        let alignment = heap.Alignment.max(64 * KIB);
        ensure(told.Alignment <= alignment, || {
            format!("alignment {} in a heap of alignment {alignment}", told.Alignment)
        })?;
        let end = offset + told.SizeInBytes;
        ensure(end <= heap.SizeInBytes, || format!("end {end} in a heap of {} bytes", heap.SizeInBytes))?;
        let denial = if is_buffer(&made.desc) {
            D3D12_HEAP_FLAG_DENY_BUFFERS
        } else if made.desc.Flags.0 & TARGETS != 0 {
            D3D12_HEAP_FLAG_DENY_RT_DS_TEXTURES
        } else {
            D3D12_HEAP_FLAG_DENY_NON_RT_DS_TEXTURES
        };
        ensure(!heap.Flags.contains(denial), || {
            format!("flags {:#x} in a heap that denies it: {:#x}", made.desc.Flags.0, heap.Flags.0)
        })
    }

    pub(super) fn check_committed(
        &self,
        heap: &D3D12_HEAP_PROPERTIES,
        flags: D3D12_HEAP_FLAGS,
        made: &Made,
    ) -> Check {
        self.check_properties(heap)?;
        self.check_flags(flags)?;
        ensure(flags.0 & CLASS == 0, || format!("a committed resource that denies: {:#x}", flags.0))?;
        self.check_resource(heap, made)
    }
}
