//! Calls that are handed on to the machine's runtime, and those that are not there.

use core::ffi::c_void;
use std::sync::Arc;

use windows::Win32::Foundation::{E_NOTIMPL, HANDLE, LUID};
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::{DXGI_FORMAT, DXGI_FORMAT_UNKNOWN};
use windows::core::{GUID, Interface, PCWSTR, Result};

use super::calls::Call;
use super::faults::Kind;
use super::live::{What, id};
use super::{Runtime, fence};

/// Methods that the backend does not use. Where it does from now on, the test fails and says so.
macro_rules! unused {
    ($(fn $name:ident($($arg:ty),*) $(-> $answer:ty)?;)*) => {$(
        fn $name(&self, $(_: $arg),*) $(-> $answer)? {
            self.runtime.not_there(stringify!($name))
        }
    )*};
}
pub(super) use unused;

/// The result of a method that is not implemented.
pub(super) trait Answer {
    fn none() -> Self;
}

impl<T> Answer for Result<T> {
    fn none() -> Self {
        Err(E_NOTIMPL.into())
    }
}

macro_rules! answer_with_default {
    ($($answer:ty),*) => {$(
        impl Answer for $answer {
            fn none() -> Self {
                Self::default()
            }
        }
    )*};
}

answer_with_default!((), u32, LUID, D3D12_RESOURCE_ALLOCATION_INFO, D3D12_DRIVER_MATCHING_IDENTIFIER_STATUS);

/// Writes the interface that is asked for where it is wanted.
pub(super) fn hand_out(object: &impl Interface, iid: *const GUID, place: *mut *mut c_void) -> Result<()> {
    // SAFETY: who called has an identifier and a place there.
    unsafe { object.query(iid, place) }.ok()
}

fn ids(objects: &[Option<ID3D12Pageable>]) -> Vec<usize> {
    objects.iter().flatten().map(id).collect()
}

impl Runtime {
    pub(super) fn not_there<T: Answer>(&self, method: &str) -> T {
        self.report(format!("the runtime of these tests has no {method}"));
        T::none()
    }

    pub(super) fn below(&self) -> &ID3D12Device {
        &self.below
    }

    pub(super) fn only_allocation_info(
        &self,
        descs: &[D3D12_RESOURCE_DESC],
    ) -> D3D12_RESOURCE_ALLOCATION_INFO {
        match descs {
            [desc] => self.allocation_info(desc),
            _ => self.not_there("GetResourceAllocationInfo of several resources"),
        }
    }

    pub(super) fn check_formats(&self, formats: &[DXGI_FORMAT]) {
        if formats.contains(&DXGI_FORMAT_UNKNOWN) {
            self.report("castable to no format");
        }
    }

    pub(super) fn create_command_allocator(
        &self,
        kind: D3D12_COMMAND_LIST_TYPE,
    ) -> Result<ID3D12CommandAllocator> {
        self.enter(Kind::CreateCommandAllocator)?;
        // SAFETY: the device is live.
        unsafe { self.below.CreateCommandAllocator(kind) }
    }

    pub(super) fn create_command_list(
        &self,
        node: u32,
        kind: D3D12_COMMAND_LIST_TYPE,
        allocator: &ID3D12CommandAllocator,
    ) -> Result<ID3D12GraphicsCommandList> {
        self.enter(Kind::CreateCommandList)?;
        // SAFETY: both are live; there is no pipeline at first.
        unsafe { self.below.CreateCommandList(node, kind, allocator, None::<&ID3D12PipelineState>) }
    }

    pub(super) fn create_fence(
        self: &Arc<Self>,
        value: u64,
        flags: D3D12_FENCE_FLAGS,
    ) -> Result<ID3D12Fence> {
        self.enter(Kind::CreateFence)?;
        if self.state().removed {
            return Ok(fence::removed(self));
        }
        // SAFETY: the device is live.
        unsafe { self.below.CreateFence(value, flags) }
    }

    /// Refuses what no runtime has: shaders that see targets, and heaps of nothing.
    pub(super) fn create_descriptor_heap(
        &self,
        desc: &D3D12_DESCRIPTOR_HEAP_DESC,
    ) -> Result<ID3D12DescriptorHeap> {
        self.enter(Kind::CreateDescriptorHeap)?;
        let targets = [D3D12_DESCRIPTOR_HEAP_TYPE_RTV, D3D12_DESCRIPTOR_HEAP_TYPE_DSV].contains(&desc.Type);
        if desc.NumDescriptors == 0 || targets && desc.Flags != D3D12_DESCRIPTOR_HEAP_FLAG_NONE {
            self.report(format!("CreateDescriptorHeap: {desc:?}"));
        }
        // SAFETY: the device is live.
        let heap: ID3D12DescriptorHeap = unsafe { self.below.CreateDescriptorHeap(desc) }?;
        self.born(heap.clone().into(), What::DescriptorHeap);
        Ok(heap)
    }

    pub(super) fn create_shared_handle(
        &self,
        object: &ID3D12DeviceChild,
        access: u32,
        name: PCWSTR,
    ) -> Result<HANDLE> {
        self.enter(Kind::CreateSharedHandle)?;
        // SAFETY: both are live, and the name is as the caller promises.
        unsafe { self.below.CreateSharedHandle(object, None, access, name) }
    }

    pub(super) fn open_shared_heap(&self, handle: HANDLE) -> Result<ID3D12Heap> {
        self.enter(Kind::OpenSharedHandle)?;
        let mut heap: Option<ID3D12Heap> = None;
        // SAFETY: the handle is open, as the caller promises.
        unsafe { self.below.OpenSharedHandle(handle, &mut heap) }?;
        let heap = heap.ok_or(E_NOTIMPL)?;
        // SAFETY: the heap is live.
        let desc = unsafe { heap.GetDesc() };
        self.born(heap.clone().into(), What::Heap(desc));
        Ok(heap)
    }

    pub(super) fn set_residency_priority(
        &self,
        objects: &[Option<ID3D12Pageable>],
        priorities: &[D3D12_RESIDENCY_PRIORITY],
    ) -> Result<()> {
        self.enter(Kind::SetResidencyPriority)?;
        self.record(Call::Priority(ids(objects).into_iter().zip(priorities.iter().copied()).collect()));
        Ok(())
    }

    pub(super) fn evict(&self, objects: &[Option<ID3D12Pageable>]) -> Result<()> {
        self.enter(Kind::Evict)?;
        // SAFETY: all are live, as the caller promises.
        unsafe { self.below.Evict(objects) }?;
        self.record(Call::Evict(ids(objects)));
        Ok(())
    }

    pub(super) fn make_resident(&self, objects: &[Option<ID3D12Pageable>]) -> Result<()> {
        self.enter(Kind::MakeResident)?;
        // SAFETY: all are live, as the caller promises.
        unsafe { self.below.MakeResident(objects) }?;
        self.record(Call::MakeResident(ids(objects)));
        Ok(())
    }

    pub(super) fn enqueue_make_resident(
        &self,
        objects: &[Option<ID3D12Pageable>],
        fence: &ID3D12Fence,
        value: u64,
    ) -> Result<()> {
        self.enter(Kind::EnqueueMakeResident)?;
        // SAFETY: all are live, as the caller promises.
        unsafe { self.below.MakeResident(objects) }?;
        self.record(Call::EnqueueMakeResident(ids(objects)));
        if let Some(held) = &mut self.state().held_up {
            held.push((fence.clone(), value));
            return Ok(());
        }
        // SAFETY: the fence is live.
        unsafe { fence.Signal(value) }
    }
}
