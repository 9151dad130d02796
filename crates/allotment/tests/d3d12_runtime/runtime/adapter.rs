//! The adapter: how much memory there is, how much is used, and how much should be.

use core::ffi::c_void;
use std::sync::Arc;

use windows::Win32::Foundation::{E_NOTIMPL, HANDLE};
use windows::Win32::Graphics::Dxgi::*;
use windows::core::{GUID, IUnknown, Ref, Result, implement};

use super::Runtime;
use super::faults::Kind;

#[implement(IDXGIAdapter3)]
struct Adapter {
    runtime: Arc<Runtime>,
}

pub(super) fn adapter(runtime: &Arc<Runtime>) -> IDXGIAdapter3 {
    Adapter { runtime: Arc::clone(runtime) }.into()
}

impl Runtime {
    fn unknown_to_adapter<T>(&self, method: &str) -> Result<T> {
        self.report(format!("the adapter of these tests has no {method}"));
        Err(E_NOTIMPL.into())
    }

    fn memory_info(&self, group: DXGI_MEMORY_SEGMENT_GROUP) -> DXGI_QUERY_VIDEO_MEMORY_INFO {
        let index = usize::from(group != DXGI_MEMORY_SEGMENT_GROUP_LOCAL);
        let used = self.bytes()[index];
        let state = self.state();
        let [own, system] = self.config.sizes;
        let sizes = if self.config.uma { [own + system, 0] } else { [own, system] };
        DXGI_QUERY_VIDEO_MEMORY_INFO {
            Budget: state.budgets.unwrap_or(sizes)[index],
            CurrentUsage: state.elsewhere[index] + used,
            ..Default::default()
        }
    }
}

impl IDXGIObject_Impl for Adapter_Impl {
    fn SetPrivateData(&self, _: *const GUID, _: u32, _: *const c_void) -> Result<()> {
        self.runtime.unknown_to_adapter("SetPrivateData")
    }

    fn SetPrivateDataInterface(&self, _: *const GUID, _: Ref<'_, IUnknown>) -> Result<()> {
        self.runtime.unknown_to_adapter("SetPrivateDataInterface")
    }

    fn GetPrivateData(&self, _: *const GUID, _: *mut u32, _: *mut c_void) -> Result<()> {
        self.runtime.unknown_to_adapter("GetPrivateData")
    }

    fn GetParent(&self, _: *const GUID, _: *mut *mut c_void) -> Result<()> {
        self.runtime.unknown_to_adapter("GetParent")
    }
}

impl IDXGIAdapter_Impl for Adapter_Impl {
    fn EnumOutputs(&self, _: u32) -> Result<IDXGIOutput> {
        self.runtime.unknown_to_adapter("EnumOutputs")
    }

    fn GetDesc(&self) -> Result<DXGI_ADAPTER_DESC> {
        self.runtime.enter(Kind::GetDesc)?;
        // SAFETY: the adapter is live.
        let told = unsafe { self.runtime.adapter_below.GetDesc() }?;
        let [own, system] = self.runtime.config.sizes;
        Ok(DXGI_ADAPTER_DESC {
            DedicatedVideoMemory: own as usize,
            DedicatedSystemMemory: 0,
            SharedSystemMemory: system as usize,
            ..told
        })
    }

    fn CheckInterfaceSupport(&self, _: *const GUID) -> Result<i64> {
        self.runtime.unknown_to_adapter("CheckInterfaceSupport")
    }
}

impl IDXGIAdapter1_Impl for Adapter_Impl {
    fn GetDesc1(&self) -> Result<DXGI_ADAPTER_DESC1> {
        self.runtime.unknown_to_adapter("GetDesc1")
    }
}

impl IDXGIAdapter2_Impl for Adapter_Impl {
    fn GetDesc2(&self) -> Result<DXGI_ADAPTER_DESC2> {
        self.runtime.unknown_to_adapter("GetDesc2")
    }
}

impl IDXGIAdapter3_Impl for Adapter_Impl {
    fn RegisterHardwareContentProtectionTeardownStatusEvent(&self, _: HANDLE) -> Result<u32> {
        self.runtime.unknown_to_adapter("RegisterHardwareContentProtectionTeardownStatusEvent")
    }

    fn UnregisterHardwareContentProtectionTeardownStatus(&self, _: u32) {}

    fn QueryVideoMemoryInfo(
        &self,
        node: u32,
        group: DXGI_MEMORY_SEGMENT_GROUP,
        info: *mut DXGI_QUERY_VIDEO_MEMORY_INFO,
    ) -> Result<()> {
        self.runtime.enter(Kind::QueryVideoMemoryInfo)?;
        if node != 0 {
            self.runtime.report(format!("QueryVideoMemoryInfo of node {node}"));
        }
        // SAFETY: the caller has the structure there.
        unsafe { info.write(self.runtime.memory_info(group)) };
        Ok(())
    }

    fn SetVideoMemoryReservation(&self, _: u32, _: DXGI_MEMORY_SEGMENT_GROUP, _: u64) -> Result<()> {
        self.runtime.unknown_to_adapter("SetVideoMemoryReservation")
    }

    fn RegisterVideoMemoryBudgetChangeNotificationEvent(&self, _: HANDLE) -> Result<u32> {
        self.runtime.unknown_to_adapter("RegisterVideoMemoryBudgetChangeNotificationEvent")
    }

    fn UnregisterVideoMemoryBudgetChangeNotification(&self, _: u32) {}
}
