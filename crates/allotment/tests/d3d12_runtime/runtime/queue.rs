//! Queues of the machine's, whose tile mappings go to this runtime.

use core::ffi::c_void;
use std::sync::Arc;

use windows::Win32::Foundation::E_POINTER;
use windows::Win32::Graphics::Direct3D12::*;
use windows::core::{GUID, IUnknown, PCWSTR, Ref, Result, implement};

use super::Runtime;
use super::forward::unused;
use super::tiles::{Update, list};

#[implement(ID3D12CommandQueue)]
struct Queue {
    runtime: Arc<Runtime>,
    below: ID3D12CommandQueue,
}

pub(super) fn queue(runtime: &Arc<Runtime>, below: ID3D12CommandQueue) -> ID3D12CommandQueue {
    Queue { runtime: Arc::clone(runtime), below }.into()
}

impl ID3D12Object_Impl for Queue_Impl {
    unused! {
        fn GetPrivateData(*const GUID, *mut u32, *mut c_void) -> Result<()>;
        fn SetPrivateData(*const GUID, u32, *const c_void) -> Result<()>;
        fn SetPrivateDataInterface(*const GUID, Ref<'_, IUnknown>) -> Result<()>;
        fn SetName(&PCWSTR) -> Result<()>;
    }
}

impl ID3D12DeviceChild_Impl for Queue_Impl {
    unused! {
        fn GetDevice(*const GUID, *mut *mut c_void) -> Result<()>;
    }
}

impl ID3D12Pageable_Impl for Queue_Impl {}

impl ID3D12CommandQueue_Impl for Queue_Impl {
    fn UpdateTileMappings(
        &self,
        resource: Ref<'_, ID3D12Resource>,
        regions: u32,
        starts: *const D3D12_TILED_RESOURCE_COORDINATE,
        sizes: *const D3D12_TILE_REGION_SIZE,
        heap: Ref<'_, ID3D12Heap>,
        ranges: u32,
        kinds: *const D3D12_TILE_RANGE_FLAGS,
        offsets: *const u32,
        counts: *const u32,
        _: D3D12_TILE_MAPPING_FLAGS,
    ) {
        // SAFETY: each list is as long as the caller says.
        let starts = unsafe { list(starts, regions) };
        // SAFETY: as above.
        let sizes = unsafe { list(sizes, regions) };
        // SAFETY: as above.
        let kinds = unsafe { list(kinds, ranges) };
        // SAFETY: as above.
        let offsets = unsafe { list(offsets, ranges) };
        // SAFETY: as above.
        let counts = unsafe { list(counts, ranges) };
        let update = Update { starts, sizes, kinds, offsets, counts };
        match resource.as_ref() {
            Some(resource) => self.runtime.update_tiles(resource, heap.as_ref(), &update),
            None => self.runtime.report("UpdateTileMappings: of no resource"),
        }
    }

    fn ExecuteCommandLists(&self, count: u32, lists: *const Option<ID3D12CommandList>) {
        // SAFETY: the caller has as many there.
        let lists = unsafe { list(lists, count) };
        // SAFETY: as the caller promises.
        unsafe { self.below.ExecuteCommandLists(lists) };
    }

    fn Signal(&self, fence: Ref<'_, ID3D12Fence>, value: u64) -> Result<()> {
        // SAFETY: both are live.
        unsafe { self.below.Signal(fence.as_ref().ok_or(E_POINTER)?, value) }
    }

    fn Wait(&self, fence: Ref<'_, ID3D12Fence>, value: u64) -> Result<()> {
        // SAFETY: both are live.
        unsafe { self.below.Wait(fence.as_ref().ok_or(E_POINTER)?, value) }
    }

    fn GetDesc(&self) -> D3D12_COMMAND_QUEUE_DESC {
        // SAFETY: the queue is live.
        unsafe { self.below.GetDesc() }
    }

    unused! {
        fn CopyTileMappings(Ref<'_, ID3D12Resource>, *const D3D12_TILED_RESOURCE_COORDINATE, Ref<'_, ID3D12Resource>, *const D3D12_TILED_RESOURCE_COORDINATE, *const D3D12_TILE_REGION_SIZE, D3D12_TILE_MAPPING_FLAGS);
        fn SetMarker(u32, *const c_void, u32);
        fn BeginEvent(u32, *const c_void, u32);
        fn EndEvent();
        fn GetTimestampFrequency() -> Result<u64>;
        fn GetClockCalibration(*mut u64, *mut u64) -> Result<()>;
    }
}
