//! Fences of a device that was removed. To do that to a real one would remove it for all tests at once.

use core::ffi::c_void;
use std::sync::Arc;

use windows::Win32::Foundation::HANDLE;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::DXGI_ERROR_DEVICE_REMOVED;
use windows::core::{GUID, IUnknown, PCWSTR, Ref, Result, implement};

use super::Runtime;
use super::forward::unused;

#[implement(ID3D12Fence)]
struct RemovedFence {
    runtime: Arc<Runtime>,
}

pub(super) fn removed(runtime: &Arc<Runtime>) -> ID3D12Fence {
    RemovedFence { runtime: Arc::clone(runtime) }.into()
}

impl ID3D12Object_Impl for RemovedFence_Impl {
    unused! {
        fn GetPrivateData(*const GUID, *mut u32, *mut c_void) -> Result<()>;
        fn SetPrivateData(*const GUID, u32, *const c_void) -> Result<()>;
        fn SetPrivateDataInterface(*const GUID, Ref<'_, IUnknown>) -> Result<()>;
        fn SetName(&PCWSTR) -> Result<()>;
    }
}

impl ID3D12DeviceChild_Impl for RemovedFence_Impl {
    unused! {
        fn GetDevice(*const GUID, *mut *mut c_void) -> Result<()>;
    }
}

impl ID3D12Pageable_Impl for RemovedFence_Impl {}

impl ID3D12Fence_Impl for RemovedFence_Impl {
    fn GetCompletedValue(&self) -> u64 {
        u64::MAX
    }

    fn SetEventOnCompletion(&self, _: u64, _: HANDLE) -> Result<()> {
        Err(DXGI_ERROR_DEVICE_REMOVED.into())
    }

    fn Signal(&self, _: u64) -> Result<()> {
        Err(DXGI_ERROR_DEVICE_REMOVED.into())
    }
}
