//! Reads through descriptors with a compute shader.

mod pipeline;
mod sample;
mod trial;

use core::time::Duration;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use allotment::device::d3d12::{CommandAllocator, Descriptor, Device, ImageViewDesc, ResourceInfo};
use allotment::device::{
    BufferDesc, CommandAllocator as _, CommandDevice as _, DescriptorDevice as _, DeviceError,
    MemoryDevice as _, QueueDevice as _, QueueIndex, QueueKind, TimelinePoint, TimelineValue,
};
use windows::Win32::Foundation::{E_OUTOFMEMORY, E_POINTER};
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::{
    DXGI_FORMAT_BC7_UNORM, DXGI_FORMAT_D32_FLOAT, DXGI_FORMAT_R8_UNORM, DXGI_FORMAT_R8G8B8A8_UNORM,
    DXGI_FORMAT_R16G16B16A16_FLOAT, DXGI_FORMAT_R32_FLOAT,
};
use windows::Win32::Graphics::Dxgi::DXGI_ERROR_DEVICE_REMOVED;
use windows::core::Interface as _;

use crate::{DescriptorReader, Read, Sample, SampleList, TargetFormats};
use pipeline::{GROUP, HEAP, INDICES, ListSampling, NUMBER, Pipeline, Sampling, TO};

/// The maximum number of groups in a dispatch.
const MOST_GROUPS: u32 = D3D12_CS_DISPATCH_MAX_THREAD_GROUPS_PER_DIMENSION;

/// Command allocators that a queue gets before the first one is reused: as many as frames in flight need, so
/// that a steady program creates no more, however late its queue finishes.
const SPARE: usize = 8;

/// How long a reader waits for its submissions, where it has to.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reads through descriptors on a graphics or compute queue.
///
/// If shaders support unbounded tables, the shader sees a whole heap and reads the indices itself. Otherwise the
/// reader copies the indices to the CPU, waits for them, and records one dispatch per index. Then a submission
/// waits for everything before it, and if it fails, the reads before the failed one were submitted.
///
/// The tier that a runtime reports is not reliable: Wine 8 reports resource binding tier 3, but over a Vulkan
/// without descriptor indexing its shaders see no tables at all. So a new reader makes a trial read, and
/// creation [fails](DeviceError::Unsupported) if the result is wrong.
///
/// Buffers are in the state `COMMON` before a submission and after it, the default state of buffers.
#[derive(Debug)]
pub struct D3d12Reader {
    device: Device,
    pipeline: Pipeline,
    /// Created when they are used first.
    sampling: OnceLock<Sampling>,
    list_sampling: OnceLock<ListSampling>,
    recorded: Mutex<Vec<Recorded>>,
}

/// The command allocator of a submission. It is reused once the submission's value is reached.
#[derive(Debug)]
struct Recorded {
    point: TimelinePoint,
    memory: CommandAllocator,
}

impl DescriptorReader<Device> for D3d12Reader {
    type TextureView = ();

    /// Shaders read textures in this state, and a copy queue leaves them in it.
    const SAMPLED: D3D12_RESOURCE_STATES = D3D12_RESOURCE_STATE_COMMON;

    const COPIED_FROM: D3D12_RESOURCE_STATES = D3D12_RESOURCE_STATE_COPY_SOURCE;

    const RGBA8: u32 = DXGI_FORMAT_R8G8B8A8_UNORM.0.unsigned_abs();

    const BC7: Option<u32> = Some(DXGI_FORMAT_BC7_UNORM.0.unsigned_abs());

    const TARGETS: TargetFormats = TargetFormats {
        r8: DXGI_FORMAT_R8_UNORM.0.unsigned_abs(),
        rgba8: Self::RGBA8,
        rgba16f: DXGI_FORMAT_R16G16B16A16_FLOAT.0.unsigned_abs(),
        r32f: DXGI_FORMAT_R32_FLOAT.0.unsigned_abs(),
        depth: DXGI_FORMAT_D32_FLOAT.0.unsigned_abs(),
        color_usage: D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET.0.unsigned_abs() as u64,
        depth_usage: D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL.0.unsigned_abs() as u64,
    };

    fn new(device: &Device, capacity: u32) -> Result<Self, DeviceError> {
        if capacity > device.descriptor_limits().resources.max_capacity {
            return Err(DeviceError::Unsupported);
        }
        for sees_whole_heaps in [true, false] {
            let reads = Pipeline::new(device.raw(), sees_whole_heaps).and_then(|pipeline| {
                let (device, recorded) = (device.clone(), Mutex::default());
                let (sampling, list_sampling) = (OnceLock::new(), OnceLock::new());
                let reader = Self { device, pipeline, sampling, list_sampling, recorded };
                Ok(reader.reads()?.then_some(reader))
            });
            match reads {
                Ok(Some(reader)) => return Ok(reader),
                Err(error @ (DeviceError::Lost | DeviceError::OutOfDeviceMemory)) => return Err(error),
                Ok(None) | Err(_) => {}
            }
        }
        Err(DeviceError::Unsupported)
    }

    fn buffer_info(&self, size: u64, written: bool) -> ResourceInfo<'static> {
        let flags =
            if written { D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS } else { D3D12_RESOURCE_FLAG_NONE };
        BufferDesc::new(size).with_usage(flags.0.unsigned_abs().into()).into()
    }

    fn texture_view_info() -> ImageViewDesc {
        ImageViewDesc::ShaderResource(None)
    }

    unsafe fn texture_view(&self, _: &ID3D12Resource) -> Result<(), DeviceError> {
        Ok(())
    }

    unsafe fn texture_descriptor<'a>(image: &'a ID3D12Resource, (): &'a ()) -> Descriptor<'a> {
        // SAFETY: the image can be sampled, and the view is of all of it in its own format.
        unsafe { Descriptor::shader_resource(Some(image), None) }
    }

    unsafe fn submit(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        reads: &[Read<'_, Device>],
    ) -> Result<TimelineValue, DeviceError> {
        if !self.dispatches(queue) || reads.iter().any(|read| read.heap.gpu_handle(0).is_none()) {
            return Err(DeviceError::Unsupported);
        }
        if self.pipeline.sees_whole_heaps {
            // SAFETY: the caller's promise.
            return unsafe {
                self.run(queue, waits, |list| reads.iter().for_each(|read| self.read_all(list, read)))
            };
        }
        let mut last = None;
        for read in reads {
            // SAFETY: the caller's promise, here and below.
            let indices = unsafe { self.indices(queue, waits, read) }?;
            // SAFETY: as above.
            last = Some(unsafe { self.run(queue, &[], |list| self.read_each(list, read, &indices)) }?);
        }
        match last {
            Some(value) => Ok(value),
            // SAFETY: no commands are recorded.
            None => unsafe { self.run(queue, waits, |_| {}) },
        }
    }

    unsafe fn sample(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        sample: &Sample<'_, Device>,
    ) -> Result<TimelineValue, DeviceError> {
        let tables = self.tables(sample).filter(|_| self.dispatches(queue));
        let (tables, sampling) = (tables.ok_or(DeviceError::Unsupported)?, self.sampling()?);
        // SAFETY: the caller's promise.
        unsafe { self.run(queue, waits, |list| sampling.record(list, tables, sample)) }
    }

    unsafe fn sample_list(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        list: &SampleList<'_, Device>,
    ) -> Result<TimelineValue, DeviceError> {
        let tables = list.resources.gpu_handle(list.texture).zip(list.samplers.gpu_handle(list.sampler));
        let fits = list.count.div_ceil(GROUP) <= MOST_GROUPS && self.dispatches(queue);
        let tables = tables.filter(|_| fits).ok_or(DeviceError::Unsupported)?;
        let sampling = self.list_sampling()?;
        let state = sampling.state(list.dimension).ok_or(DeviceError::Unsupported)?;
        // SAFETY: the caller's promise.
        unsafe { self.run(queue, waits, |to| sampling.record(to, state, tables, list)) }
    }
}

impl D3d12Reader {
    /// Returns true if the shader reads the indices itself, and the GPU reads descriptors when the work runs.
    #[must_use]
    pub fn sees_whole_heaps(&self) -> bool {
        self.pipeline.sees_whole_heaps
    }

    /// Returns true if a queue executes dispatches.
    fn dispatches(&self, queue: QueueIndex) -> bool {
        let kind = self.device.properties().queues.get(usize::from(queue.0)).copied();
        matches!(kind, Some(QueueKind::Graphics | QueueKind::Compute))
    }

    /// Submits the commands that `record` records.
    ///
    /// # Safety
    ///
    /// The recorded commands are valid on the queue, and what they use lives until the value is reached.
    unsafe fn run(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        record: impl FnOnce(&ID3D12GraphicsCommandList),
    ) -> Result<TimelineValue, DeviceError> {
        let memory = self.memory(queue)?;
        let list = memory.next()?;
        record(&list);
        // SAFETY: the list is open.
        unsafe { list.Close() }.map_err(|error| refused(&error))?;
        let list = list.cast().map_err(|error| refused(&error))?;
        // SAFETY: the list is closed and of this queue's type. What it uses lives by the caller's promise, and
        // its allocator is kept below.
        let submitted = unsafe { self.device.submit_lists(queue, waits, &[Some(list)]) };
        // The list may execute although the call failed. It is complete when a later value is reached, or never
        // reused.
        let value = submitted.unwrap_or_else(|_| self.device.submitted(queue));
        self.lock().push(Recorded { point: TimelinePoint { queue, value }, memory });
        submitted
    }

    /// Returns a command allocator: one whose commands the queue has executed, or a new one.
    fn memory(&self, queue: QueueIndex) -> Result<CommandAllocator, DeviceError> {
        let completed = self.device.completed(queue)?;
        let done = {
            let mut recorded = self.lock();
            let mut here = recorded.iter().enumerate().filter(|(_, old)| old.point.queue == queue);
            let done = here.clone().find(|(_, old)| old.point.value <= completed).map(|(at, _)| at);
            done.filter(|_| here.nth(SPARE - 1).is_some()).map(|at| recorded.swap_remove(at))
        };
        match done {
            Some(Recorded { mut memory, .. }) => memory.reset().map(|()| memory),
            None => self.device.create_command_allocator(queue),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Recorded>> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the state that all dispatches of a read share.
    fn begin(&self, list: &ID3D12GraphicsCommandList, read: &Read<'_, Device>) {
        // SAFETY: the list is open, here and below, and all arguments live until it was executed.
        unsafe { list.SetDescriptorHeaps(&[Some(read.heap.raw().clone())]) };
        // SAFETY: as above.
        unsafe { list.SetPipelineState(&self.pipeline.state) };
        // SAFETY: as above.
        unsafe { list.SetComputeRootSignature(&self.pipeline.signature) };
    }

    /// Records a read with the shader that reads the indices itself.
    fn read_all(&self, list: &ID3D12GraphicsCommandList, read: &Read<'_, Device>) {
        self.begin(list, read);
        let table = read.heap.gpu_handle(0).unwrap_or_default();
        // SAFETY: the list is open, here and below; the table starts at the start of the heap that was set.
        unsafe { list.SetComputeRootDescriptorTable(HEAP, table) };
        let (indices, to) = (address(read.indices) + read.indices_offset, address(read.to) + read.to_offset);
        let mut done = 0;
        while done < read.count {
            let count = (read.count - done).min(MOST_GROUPS * GROUP);
            let before = u64::from(done) * 4;
            // SAFETY: as above; the ranges lie in their buffers, by the promise to `submit`.
            unsafe { list.SetComputeRootShaderResourceView(INDICES, indices + before) };
            // SAFETY: as above.
            unsafe { list.SetComputeRootUnorderedAccessView(TO, to + before) };
            // SAFETY: as above.
            unsafe { list.SetComputeRoot32BitConstant(NUMBER, count, 0) };
            // SAFETY: as above; all parameters of the shader are set.
            unsafe { list.Dispatch(count.div_ceil(GROUP), 1, 1) };
            done += count;
        }
        written(list, read.to);
    }

    /// Records a read with the shader that sees one descriptor at a time. An index out of bounds is skipped.
    fn read_each(&self, list: &ID3D12GraphicsCommandList, read: &Read<'_, Device>, indices: &[u32]) {
        self.begin(list, read);
        // SAFETY: the list is open, here and below; the range lies in its buffer, by the promise to `submit`.
        unsafe { list.SetComputeRootUnorderedAccessView(TO, address(read.to) + read.to_offset) };
        for (place, &index) in (0..).zip(indices) {
            let Some(table) = read.heap.gpu_handle(index) else { continue };
            // SAFETY: as above; the table starts in the heap that was set.
            unsafe { list.SetComputeRootDescriptorTable(HEAP, table) };
            // SAFETY: as above.
            unsafe { list.SetComputeRoot32BitConstant(NUMBER, place, 0) };
            // SAFETY: as above; all parameters of the shader are set.
            unsafe { list.Dispatch(1, 1, 1) };
        }
        written(list, read.to);
    }

    /// Copies a read's indices to the CPU and waits for them.
    ///
    /// # Safety
    ///
    /// The conditions of [`submit`](DescriptorReader::submit) apply.
    unsafe fn indices(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        read: &Read<'_, Device>,
    ) -> Result<Vec<u32>, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.numbers(queue, waits, read.indices, read.indices_offset, read.count) }
    }

    /// Copies a buffer's contents to the CPU and waits for them.
    ///
    /// # Safety
    ///
    /// The buffer is live, the range lies in it, and nothing writes to it during the call.
    unsafe fn numbers(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        from: &ID3D12Resource,
        offset: u64,
        count: u32,
    ) -> Result<Vec<u32>, DeviceError> {
        let size = u64::from(count) * 4;
        let copied = committed(self.device.raw(), D3D12_HEAP_TYPE_READBACK, BufferDesc::new(size).into())?;
        let copy = |list: &ID3D12GraphicsCommandList| {
            // SAFETY: the list is open, and the range lies in its buffer by the caller's promise.
            unsafe { list.CopyBufferRegion(&copied, 0, from, offset, size) };
        };
        // SAFETY: the copy is waited for, or its destination is leaked.
        let value = unsafe { self.run(queue, waits, copy) }?;
        let waited = self.device.wait(TimelinePoint { queue, value }, PATIENCE);
        if let Err(error) = waited {
            core::mem::forget(copied);
            return Err(error);
        }
        let first = map(&copied)?;
        // SAFETY: that many numbers are mapped and aligned; nothing writes to them any more.
        let numbers = unsafe { core::slice::from_raw_parts(first, count as usize) };
        Ok(numbers.to_vec())
    }
}

impl Drop for D3d12Reader {
    /// Waits for all submissions. Command allocators that a queue may still use are leaked.
    fn drop(&mut self) {
        for recorded in core::mem::take(&mut *self.lock()) {
            let ended = self.device.wait(recorded.point, PATIENCE);
            if !matches!(ended, Ok(()) | Err(DeviceError::Lost)) {
                let shaders = (self.pipeline.clone(), self.sampling.clone(), self.list_sampling.clone());
                core::mem::forget((shaders, recorded));
            }
        }
    }
}

fn address(buffer: &ID3D12Resource) -> u64 {
    // SAFETY: the buffer is live.
    unsafe { buffer.GetGPUVirtualAddress() }
}

/// Transitions a buffer that a shader has written back to `COMMON`: later commands see the writes, also in the
/// same list.
fn written(list: &ID3D12GraphicsCommandList, buffer: &ID3D12Resource) {
    let transition = D3D12_RESOURCE_TRANSITION_BARRIER {
        // SAFETY: the interface is borrowed without a reference, and not released with the barrier.
        pResource: unsafe { core::mem::transmute_copy(buffer) },
        Subresource: D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES,
        StateBefore: D3D12_RESOURCE_STATE_UNORDERED_ACCESS,
        StateAfter: D3D12_RESOURCE_STATE_COMMON,
    };
    let barrier = D3D12_RESOURCE_BARRIER {
        Type: D3D12_RESOURCE_BARRIER_TYPE_TRANSITION,
        Flags: D3D12_RESOURCE_BARRIER_FLAG_NONE,
        Anonymous: D3D12_RESOURCE_BARRIER_0 { Transition: core::mem::ManuallyDrop::new(transition) },
    };
    // SAFETY: the list is open, and a dispatch has promoted the buffer to the state before.
    unsafe { list.ResourceBarrier(&[barrier]) };
}

/// Creates a committed buffer in the initial state of its heap type.
fn committed(
    device: &ID3D12Device,
    heap_type: D3D12_HEAP_TYPE,
    info: ResourceInfo<'_>,
) -> Result<ID3D12Resource, DeviceError> {
    let heap = D3D12_HEAP_PROPERTIES { Type: heap_type, ..Default::default() };
    let state = match heap_type {
        D3D12_HEAP_TYPE_UPLOAD => D3D12_RESOURCE_STATE_GENERIC_READ,
        D3D12_HEAP_TYPE_READBACK => D3D12_RESOURCE_STATE_COPY_DEST,
        _ => D3D12_RESOURCE_STATE_COMMON,
    };
    let mut made = None;
    // SAFETY: the device is live, and the runtime checks the description.
    unsafe {
        device.CreateCommittedResource(&heap, D3D12_HEAP_FLAG_NONE, info.desc(), state, None, &mut made)
    }
    .map_err(|error| refused(&error))?;
    made.ok_or(DeviceError::Other { code: E_POINTER.0 })
}

/// Returns the CPU address of a buffer, valid until the buffer is released.
fn map(buffer: &ID3D12Resource) -> Result<*mut u32, DeviceError> {
    let mut first = core::ptr::null_mut();
    // SAFETY: the buffer is live.
    unsafe { buffer.Map(0, None, Some(&mut first)) }.map_err(|error| refused(&error))?;
    Ok(first.cast())
}

/// Converts an error of the runtime.
fn refused(error: &windows::core::Error) -> DeviceError {
    match error.code() {
        E_OUTOFMEMORY => DeviceError::OutOfDeviceMemory,
        DXGI_ERROR_DEVICE_REMOVED => DeviceError::Lost,
        other => DeviceError::Other { code: other.0 },
    }
}
