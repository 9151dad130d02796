//! The device as COM has it: methods that the backend calls, handed on to [`Runtime`], and all others, of
//! which a validation error says that they were called.
//!
//! Two kinds of objects, since an object cannot have an interface at one time and not at another: one that
//! has `ID3D12Device` alone, and one that has all up to `ID3D12Device12`.

use core::ffi::c_void;
use core::slice;
use std::sync::Arc;

use windows::Win32::Foundation::*;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;
use windows::Win32::Security::SECURITY_ATTRIBUTES;
use windows::core::{BOOL, GUID, IUnknown, PCWSTR, Ref, Result, implement};

use super::calls::Begins;
use super::forward::{hand_out, unused};
use super::objects::{describe, older};
use super::{Interfaces, Runtime};

#[implement(ID3D12Device)]
struct FirstDevice {
    runtime: Arc<Runtime>,
}

#[implement(ID3D12Device12)]
struct NewDevice {
    runtime: Arc<Runtime>,
}

pub(super) fn device(runtime: &Arc<Runtime>) -> ID3D12Device {
    let runtime = Arc::clone(runtime);
    match runtime.config.interfaces {
        Interfaces::First => FirstDevice { runtime }.into(),
        Interfaces::UpTo12 => ID3D12Device12::from(NewDevice { runtime }).into(),
    }
}

/// Returns the value at an address, if there is one.
macro_rules! read {
    ($at:expr) => {
        // SAFETY: the caller has a structure there, or passes no address, as COM has it.
        unsafe { $at.as_ref() }
    };
}

/// Returns the slice of this length at an address.
macro_rules! list {
    ($at:expr, $count:expr) => {
        match $count as usize {
            0 => &[],
            // SAFETY: the caller has as many there.
            count => unsafe { slice::from_raw_parts($at, count) },
        }
    };
}

/// The interfaces that every device has.
macro_rules! first_interface {
    ($device:ty) => {
        impl ID3D12Object_Impl for $device {
            unused! {
                fn GetPrivateData(*const GUID, *mut u32, *mut c_void) -> Result<()>;
                fn SetPrivateData(*const GUID, u32, *const c_void) -> Result<()>;
                fn SetPrivateDataInterface(*const GUID, Ref<'_, IUnknown>) -> Result<()>;
                fn SetName(&PCWSTR) -> Result<()>;
            }
        }

        impl ID3D12Device_Impl for $device {
            fn CreateCommandAllocator(
                &self,
                kind: D3D12_COMMAND_LIST_TYPE,
                iid: *const GUID,
                allocator: *mut *mut c_void,
            ) -> Result<()> {
                let made = self.runtime.create_command_allocator(kind)?;
                hand_out(&made, iid, allocator)
            }

            fn CreateCommandList(
                &self,
                node: u32,
                kind: D3D12_COMMAND_LIST_TYPE,
                allocator: Ref<'_, ID3D12CommandAllocator>,
                _: Ref<'_, ID3D12PipelineState>,
                iid: *const GUID,
                list: *mut *mut c_void,
            ) -> Result<()> {
                let made = self.runtime.create_command_list(node, kind, allocator.ok()?)?;
                hand_out(&made, iid, list)
            }

            fn CheckFeatureSupport(
                &self,
                feature: D3D12_FEATURE,
                data: *mut c_void,
                size: u32,
            ) -> Result<()> {
                self.runtime.check_feature_support(feature, data, size)
            }

            fn GetResourceAllocationInfo(
                &self,
                _: u32,
                count: u32,
                descs: *const D3D12_RESOURCE_DESC,
            ) -> D3D12_RESOURCE_ALLOCATION_INFO {
                self.runtime.only_allocation_info(list!(descs, count))
            }

            fn GetCustomHeapProperties(&self, _: u32, heap_type: D3D12_HEAP_TYPE) -> D3D12_HEAP_PROPERTIES {
                self.runtime.custom_heap_properties(heap_type)
            }

            fn CreateCommittedResource(
                &self,
                heap: *const D3D12_HEAP_PROPERTIES,
                flags: D3D12_HEAP_FLAGS,
                desc: *const D3D12_RESOURCE_DESC,
                state: D3D12_RESOURCE_STATES,
                clear_value: *const D3D12_CLEAR_VALUE,
                iid: *const GUID,
                resource: *mut *mut c_void,
            ) -> Result<()> {
                let (heap, desc) = (read!(heap).ok_or(E_POINTER)?, read!(desc).ok_or(E_POINTER)?);
                let clear_value = read!(clear_value);
                let wanted = describe(*desc, Begins::State(state), clear_value, &[]);
                let made = self.runtime.create_committed(heap, flags, wanted, clear_value)?;
                hand_out(&made, iid, resource)
            }

            fn CreateHeap(
                &self,
                desc: *const D3D12_HEAP_DESC,
                iid: *const GUID,
                heap: *mut *mut c_void,
            ) -> Result<()> {
                let made = self.runtime.create_heap(read!(desc).ok_or(E_POINTER)?)?;
                hand_out(&made, iid, heap)
            }

            fn CreatePlacedResource(
                &self,
                heap: Ref<'_, ID3D12Heap>,
                offset: u64,
                desc: *const D3D12_RESOURCE_DESC,
                state: D3D12_RESOURCE_STATES,
                clear_value: *const D3D12_CLEAR_VALUE,
                iid: *const GUID,
                resource: *mut *mut c_void,
            ) -> Result<()> {
                let (desc, clear_value) = (read!(desc).ok_or(E_POINTER)?, read!(clear_value));
                let wanted = describe(*desc, Begins::State(state), clear_value, &[]);
                let made = self.runtime.create_placed(heap.as_ref(), offset, wanted, clear_value)?;
                hand_out(&made, iid, resource)
            }

            fn CreateReservedResource(
                &self,
                desc: *const D3D12_RESOURCE_DESC,
                state: D3D12_RESOURCE_STATES,
                clear_value: *const D3D12_CLEAR_VALUE,
                iid: *const GUID,
                resource: *mut *mut c_void,
            ) -> Result<()> {
                let desc = read!(desc).ok_or(E_POINTER)?;
                let wanted = describe(*desc, Begins::State(state), read!(clear_value), &[]);
                hand_out(&self.runtime.create_reserved(wanted)?, iid, resource)
            }

            fn CreateSharedHandle(
                &self,
                object: Ref<'_, ID3D12DeviceChild>,
                _: *const SECURITY_ATTRIBUTES,
                access: u32,
                name: &PCWSTR,
            ) -> Result<HANDLE> {
                self.runtime.create_shared_handle(object.ok()?, access, *name)
            }

            fn OpenSharedHandle(
                &self,
                handle: HANDLE,
                iid: *const GUID,
                object: *mut *mut c_void,
            ) -> Result<()> {
                hand_out(&self.runtime.open_shared_heap(handle)?, iid, object)
            }

            fn MakeResident(&self, count: u32, objects: *const Option<ID3D12Pageable>) -> Result<()> {
                self.runtime.make_resident(list!(objects, count))
            }

            fn Evict(&self, count: u32, objects: *const Option<ID3D12Pageable>) -> Result<()> {
                self.runtime.evict(list!(objects, count))
            }

            fn CreateFence(
                &self,
                value: u64,
                flags: D3D12_FENCE_FLAGS,
                iid: *const GUID,
                fence: *mut *mut c_void,
            ) -> Result<()> {
                hand_out(&self.runtime.create_fence(value, flags)?, iid, fence)
            }

            fn CreateDescriptorHeap(
                &self,
                desc: *const D3D12_DESCRIPTOR_HEAP_DESC,
                iid: *const GUID,
                heap: *mut *mut c_void,
            ) -> Result<()> {
                let made = self.runtime.create_descriptor_heap(read!(desc).ok_or(E_POINTER)?)?;
                hand_out(&made, iid, heap)
            }

            fn GetDescriptorHandleIncrementSize(&self, kind: D3D12_DESCRIPTOR_HEAP_TYPE) -> u32 {
                // SAFETY: the device is live.
                unsafe { self.runtime.below().GetDescriptorHandleIncrementSize(kind) }
            }

            fn GetCopyableFootprints(
                &self,
                desc: *const D3D12_RESOURCE_DESC,
                first: u32,
                count: u32,
                offset: u64,
                layouts: *mut D3D12_PLACED_SUBRESOURCE_FOOTPRINT,
                rows: *mut u32,
                row_bytes: *mut u64,
                bytes: *mut u64,
            ) {
                // SAFETY: as the caller promises.
                let asked = unsafe { &*desc };
                if asked.MipLevels == 0 || asked.SampleDesc.Count != 1 {
                    self.runtime.report("GetCopyableFootprints of all levels or of several samples");
                }
                let below = self.runtime.below();
                let (layouts, rows) = (Some(layouts), Some(rows));
                let (row_bytes, bytes) = (Some(row_bytes), Some(bytes));
                // SAFETY: as the caller promises.
                unsafe {
                    below.GetCopyableFootprints(desc, first, count, offset, layouts, rows, row_bytes, bytes);
                }
            }

            unused! {
                fn GetNodeCount() -> u32;
                fn CreateCommandQueue(*const D3D12_COMMAND_QUEUE_DESC, *const GUID, *mut *mut c_void) -> Result<()>;
                fn CreateGraphicsPipelineState(*const D3D12_GRAPHICS_PIPELINE_STATE_DESC, *const GUID, *mut *mut c_void) -> Result<()>;
                fn CreateComputePipelineState(*const D3D12_COMPUTE_PIPELINE_STATE_DESC, *const GUID, *mut *mut c_void) -> Result<()>;
                fn CreateRootSignature(u32, *const c_void, usize, *const GUID, *mut *mut c_void) -> Result<()>;
                fn CreateConstantBufferView(*const D3D12_CONSTANT_BUFFER_VIEW_DESC, &D3D12_CPU_DESCRIPTOR_HANDLE);
                fn CreateShaderResourceView(Ref<'_, ID3D12Resource>, *const D3D12_SHADER_RESOURCE_VIEW_DESC, &D3D12_CPU_DESCRIPTOR_HANDLE);
                fn CreateUnorderedAccessView(Ref<'_, ID3D12Resource>, Ref<'_, ID3D12Resource>, *const D3D12_UNORDERED_ACCESS_VIEW_DESC, &D3D12_CPU_DESCRIPTOR_HANDLE);
                fn CreateRenderTargetView(Ref<'_, ID3D12Resource>, *const D3D12_RENDER_TARGET_VIEW_DESC, &D3D12_CPU_DESCRIPTOR_HANDLE);
                fn CreateDepthStencilView(Ref<'_, ID3D12Resource>, *const D3D12_DEPTH_STENCIL_VIEW_DESC, &D3D12_CPU_DESCRIPTOR_HANDLE);
                fn CreateSampler(*const D3D12_SAMPLER_DESC, &D3D12_CPU_DESCRIPTOR_HANDLE);
                fn CopyDescriptors(u32, *const D3D12_CPU_DESCRIPTOR_HANDLE, *const u32, u32, *const D3D12_CPU_DESCRIPTOR_HANDLE, *const u32, D3D12_DESCRIPTOR_HEAP_TYPE);
                fn CopyDescriptorsSimple(u32, &D3D12_CPU_DESCRIPTOR_HANDLE, &D3D12_CPU_DESCRIPTOR_HANDLE, D3D12_DESCRIPTOR_HEAP_TYPE);
                fn OpenSharedHandleByName(&PCWSTR, u32) -> Result<HANDLE>;
                fn GetDeviceRemovedReason() -> Result<()>;
                fn CreateQueryHeap(*const D3D12_QUERY_HEAP_DESC, *const GUID, *mut *mut c_void) -> Result<()>;
                fn SetStablePowerState(BOOL) -> Result<()>;
                fn CreateCommandSignature(*const D3D12_COMMAND_SIGNATURE_DESC, Ref<'_, ID3D12RootSignature>, *const GUID, *mut *mut c_void) -> Result<()>;
                fn GetResourceTiling(Ref<'_, ID3D12Resource>, *mut u32, *mut D3D12_PACKED_MIP_INFO, *mut D3D12_TILE_SHAPE, *mut u32, u32, *mut D3D12_SUBRESOURCE_TILING);
                fn GetAdapterLuid() -> LUID;
            }
        }
    };
}

first_interface!(FirstDevice_Impl);
first_interface!(NewDevice_Impl);

impl ID3D12Device1_Impl for NewDevice_Impl {
    fn SetResidencyPriority(
        &self,
        count: u32,
        objects: *const Option<ID3D12Pageable>,
        priorities: *const D3D12_RESIDENCY_PRIORITY,
    ) -> Result<()> {
        self.runtime.set_residency_priority(list!(objects, count), list!(priorities, count))
    }

    unused! {
        fn CreatePipelineLibrary(*const c_void, usize, *const GUID, *mut *mut c_void) -> Result<()>;
        fn SetEventOnMultipleFenceCompletion(*const Option<ID3D12Fence>, *const u64, u32, D3D12_MULTIPLE_FENCE_WAIT_FLAGS, HANDLE) -> Result<()>;
    }
}

impl ID3D12Device2_Impl for NewDevice_Impl {
    unused! {
        fn CreatePipelineState(*const D3D12_PIPELINE_STATE_STREAM_DESC, *const GUID, *mut *mut c_void) -> Result<()>;
    }
}

impl ID3D12Device3_Impl for NewDevice_Impl {
    fn EnqueueMakeResident(
        &self,
        _: D3D12_RESIDENCY_FLAGS,
        count: u32,
        objects: *const Option<ID3D12Pageable>,
        fence: Ref<'_, ID3D12Fence>,
        value: u64,
    ) -> Result<()> {
        self.runtime.enqueue_make_resident(list!(objects, count), fence.ok()?, value)
    }

    unused! {
        fn OpenExistingHeapFromAddress(*const c_void, *const GUID, *mut *mut c_void) -> Result<()>;
        fn OpenExistingHeapFromFileMapping(HANDLE, *const GUID, *mut *mut c_void) -> Result<()>;
    }
}

impl ID3D12Device4_Impl for NewDevice_Impl {
    unused! {
        fn CreateCommandList1(u32, D3D12_COMMAND_LIST_TYPE, D3D12_COMMAND_LIST_FLAGS, *const GUID, *mut *mut c_void) -> Result<()>;
        fn CreateProtectedResourceSession(*const D3D12_PROTECTED_RESOURCE_SESSION_DESC, *const GUID, *mut *mut c_void) -> Result<()>;
        fn CreateCommittedResource1(*const D3D12_HEAP_PROPERTIES, D3D12_HEAP_FLAGS, *const D3D12_RESOURCE_DESC, D3D12_RESOURCE_STATES, *const D3D12_CLEAR_VALUE, Ref<'_, ID3D12ProtectedResourceSession>, *const GUID, *mut *mut c_void) -> Result<()>;
        fn CreateHeap1(*const D3D12_HEAP_DESC, Ref<'_, ID3D12ProtectedResourceSession>, *const GUID, *mut *mut c_void) -> Result<()>;
        fn CreateReservedResource1(*const D3D12_RESOURCE_DESC, D3D12_RESOURCE_STATES, *const D3D12_CLEAR_VALUE, Ref<'_, ID3D12ProtectedResourceSession>, *const GUID, *mut *mut c_void) -> Result<()>;
        fn GetResourceAllocationInfo1(u32, u32, *const D3D12_RESOURCE_DESC, *mut D3D12_RESOURCE_ALLOCATION_INFO1) -> D3D12_RESOURCE_ALLOCATION_INFO;
    }
}

impl ID3D12Device5_Impl for NewDevice_Impl {
    unused! {
        fn CreateLifetimeTracker(Ref<'_, ID3D12LifetimeOwner>, *const GUID, *mut *mut c_void) -> Result<()>;
        fn RemoveDevice();
        fn EnumerateMetaCommands(*mut u32, *mut D3D12_META_COMMAND_DESC) -> Result<()>;
        fn EnumerateMetaCommandParameters(*const GUID, D3D12_META_COMMAND_PARAMETER_STAGE, *mut u32, *mut u32, *mut D3D12_META_COMMAND_PARAMETER_DESC) -> Result<()>;
        fn CreateMetaCommand(*const GUID, u32, *const c_void, usize, *const GUID, *mut *mut c_void) -> Result<()>;
        fn CreateStateObject(*const D3D12_STATE_OBJECT_DESC, *const GUID, *mut *mut c_void) -> Result<()>;
        fn GetRaytracingAccelerationStructurePrebuildInfo(*const D3D12_BUILD_RAYTRACING_ACCELERATION_STRUCTURE_INPUTS, *mut D3D12_RAYTRACING_ACCELERATION_STRUCTURE_PREBUILD_INFO);
        fn CheckDriverMatchingIdentifier(D3D12_SERIALIZED_DATA_TYPE, *const D3D12_SERIALIZED_DATA_DRIVER_MATCHING_IDENTIFIER) -> D3D12_DRIVER_MATCHING_IDENTIFIER_STATUS;
    }
}

impl ID3D12Device6_Impl for NewDevice_Impl {
    unused! {
        fn SetBackgroundProcessingMode(D3D12_BACKGROUND_PROCESSING_MODE, D3D12_MEASUREMENTS_ACTION, HANDLE, *mut BOOL) -> Result<()>;
    }
}

impl ID3D12Device7_Impl for NewDevice_Impl {
    unused! {
        fn AddToStateObject(*const D3D12_STATE_OBJECT_DESC, Ref<'_, ID3D12StateObject>, *const GUID, *mut *mut c_void) -> Result<()>;
        fn CreateProtectedResourceSession1(*const D3D12_PROTECTED_RESOURCE_SESSION_DESC1, *const GUID, *mut *mut c_void) -> Result<()>;
    }
}

impl ID3D12Device8_Impl for NewDevice_Impl {
    unused! {
        fn GetResourceAllocationInfo2(u32, u32, *const D3D12_RESOURCE_DESC1, *mut D3D12_RESOURCE_ALLOCATION_INFO1) -> D3D12_RESOURCE_ALLOCATION_INFO;
        fn CreateCommittedResource2(*const D3D12_HEAP_PROPERTIES, D3D12_HEAP_FLAGS, *const D3D12_RESOURCE_DESC1, D3D12_RESOURCE_STATES, *const D3D12_CLEAR_VALUE, Ref<'_, ID3D12ProtectedResourceSession>, *const GUID, *mut *mut c_void) -> Result<()>;
        fn CreatePlacedResource1(Ref<'_, ID3D12Heap>, u64, *const D3D12_RESOURCE_DESC1, D3D12_RESOURCE_STATES, *const D3D12_CLEAR_VALUE, *const GUID, *mut *mut c_void) -> Result<()>;
        fn CreateSamplerFeedbackUnorderedAccessView(Ref<'_, ID3D12Resource>, Ref<'_, ID3D12Resource>, &D3D12_CPU_DESCRIPTOR_HANDLE);
        fn GetCopyableFootprints1(*const D3D12_RESOURCE_DESC1, u32, u32, u64, *mut D3D12_PLACED_SUBRESOURCE_FOOTPRINT, *mut u32, *mut u64, *mut u64);
    }
}

impl ID3D12Device9_Impl for NewDevice_Impl {
    unused! {
        fn CreateShaderCacheSession(*const D3D12_SHADER_CACHE_SESSION_DESC, *const GUID, *mut *mut c_void) -> Result<()>;
        fn ShaderCacheControl(D3D12_SHADER_CACHE_KIND_FLAGS, D3D12_SHADER_CACHE_CONTROL_FLAGS) -> Result<()>;
        fn CreateCommandQueue1(*const D3D12_COMMAND_QUEUE_DESC, *const GUID, *const GUID, *mut *mut c_void) -> Result<()>;
    }
}

impl ID3D12Device10_Impl for NewDevice_Impl {
    fn CreateCommittedResource3(
        &self,
        heap: *const D3D12_HEAP_PROPERTIES,
        flags: D3D12_HEAP_FLAGS,
        desc: *const D3D12_RESOURCE_DESC1,
        layout: D3D12_BARRIER_LAYOUT,
        clear_value: *const D3D12_CLEAR_VALUE,
        _: Ref<'_, ID3D12ProtectedResourceSession>,
        castable: u32,
        formats: *const DXGI_FORMAT,
        iid: *const GUID,
        resource: *mut *mut c_void,
    ) -> Result<()> {
        let (heap, desc) = (read!(heap).ok_or(E_POINTER)?, read!(desc).ok_or(E_POINTER)?);
        let clear_value = read!(clear_value);
        let wanted = describe(older(desc), Begins::Layout(layout), clear_value, list!(formats, castable));
        let made = self.runtime.create_committed(heap, flags, wanted, clear_value)?;
        hand_out(&made, iid, resource)
    }

    fn CreatePlacedResource2(
        &self,
        heap: Ref<'_, ID3D12Heap>,
        offset: u64,
        desc: *const D3D12_RESOURCE_DESC1,
        layout: D3D12_BARRIER_LAYOUT,
        clear_value: *const D3D12_CLEAR_VALUE,
        castable: u32,
        formats: *const DXGI_FORMAT,
        iid: *const GUID,
        resource: *mut *mut c_void,
    ) -> Result<()> {
        let (desc, clear_value) = (read!(desc).ok_or(E_POINTER)?, read!(clear_value));
        let wanted = describe(older(desc), Begins::Layout(layout), clear_value, list!(formats, castable));
        let made = self.runtime.create_placed(heap.as_ref(), offset, wanted, clear_value)?;
        hand_out(&made, iid, resource)
    }

    fn CreateReservedResource2(
        &self,
        desc: *const D3D12_RESOURCE_DESC,
        layout: D3D12_BARRIER_LAYOUT,
        clear_value: *const D3D12_CLEAR_VALUE,
        _: Ref<'_, ID3D12ProtectedResourceSession>,
        castable: u32,
        formats: *const DXGI_FORMAT,
        iid: *const GUID,
        resource: *mut *mut c_void,
    ) -> Result<()> {
        let desc = read!(desc).ok_or(E_POINTER)?;
        let formats = list!(formats, castable);
        let wanted = describe(*desc, Begins::Layout(layout), read!(clear_value), formats);
        hand_out(&self.runtime.create_reserved(wanted)?, iid, resource)
    }
}

impl ID3D12Device11_Impl for NewDevice_Impl {
    unused! {
        fn CreateSampler2(*const D3D12_SAMPLER_DESC2, &D3D12_CPU_DESCRIPTOR_HANDLE);
    }
}

impl ID3D12Device12_Impl for NewDevice_Impl {
    fn GetResourceAllocationInfo3(
        &self,
        _: u32,
        count: u32,
        descs: *const D3D12_RESOURCE_DESC1,
        castable: *const u32,
        formats: *const *const DXGI_FORMAT,
        _: *mut D3D12_RESOURCE_ALLOCATION_INFO1,
    ) -> D3D12_RESOURCE_ALLOCATION_INFO {
        let lists = list!(castable, count).iter().zip(list!(formats, count) as &[*const _]);
        for (&length, &formats) in lists {
            self.runtime.check_formats(list!(formats, length));
        }
        let descs: Vec<_> = (list!(descs, count) as &[_]).iter().map(older).collect();
        self.runtime.only_allocation_info(&descs)
    }
}
