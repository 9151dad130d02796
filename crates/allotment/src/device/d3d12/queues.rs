//! Queues: a fence each, a command list, and pools of what it records into.

use core::time::Duration;
use std::collections::HashMap;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::sync::Mutex;
use std::time::Instant;

use windows::Win32::Foundation::HANDLE;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::System::Threading::{CreateEventW, INFINITE, WaitForSingleObject};
use windows::core::{Interface as _, PCWSTR};

use super::buffers::BUFFER;
use super::{Device, create, refused};
use crate::device::command_pools::{CommandPools, PoolMaker};
use crate::device::{BufferCopy, DeviceError, QueueIndex, Submission, TimelinePoint, TimelineValue, Wait};
use crate::sync::locked;

/// How long the end of a device waits for its queues. Whoever submitted work has waited for it already.
pub(super) const LAST_WAIT: Duration = Duration::from_secs(5);

/// Bytes of what a copy within one buffer goes through, in pieces: got by the first such copy on a queue, and
/// counted by the system alone.
const DETOUR: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Queues {
    queues: Vec<Queue>,
    /// Events to wait with. One that was waited with in vain may still be signalled later, so they are not
    /// closed but used again, by whoever looks at the fence when it wakes up.
    events: Mutex<Vec<OwnedHandle>>,
}

#[derive(Debug)]
struct Queue {
    raw: ID3D12CommandQueue,
    kind: D3D12_COMMAND_LIST_TYPE,
    fence: ID3D12Fence,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    submitted: u64,
    pools: CommandPools<ID3D12CommandAllocator>,
    /// Recorded again and again; `None` until the first copy, and after a failure.
    list: Option<ID3D12GraphicsCommandList>,
    detour: Option<ID3D12Resource>,
    /// By the address of a buffer, the state that the copies so far brought it to. Kept, so that a steady
    /// frame allocates nothing.
    states: HashMap<usize, D3D12_RESOURCE_STATES>,
}

/// What makes and resets the allocators of a queue.
struct Maker<'a> {
    device: &'a ID3D12Device,
    queue: &'a Queue,
}

impl Queues {
    pub(super) fn new(device: &ID3D12Device, queues: Vec<ID3D12CommandQueue>) -> Result<Self, DeviceError> {
        let queue = |raw: ID3D12CommandQueue| {
            // SAFETY: the device is live.
            let fence = unsafe { device.CreateFence(0, D3D12_FENCE_FLAG_NONE) };
            let fence = fence.map_err(|error| refused(&error))?;
            // SAFETY: the queue is live.
            let kind = unsafe { raw.GetDesc() }.Type;
            Ok(Queue { raw, kind, fence, state: Mutex::default() })
        };
        let queues = queues.into_iter().map(queue).collect::<Result<_, _>>()?;
        Ok(Self { queues, events: Mutex::default() })
    }

    /// Waits for all that was submitted. What queues that do not end still use is leaked rather than pulled
    /// from under them.
    pub(super) fn finish(&mut self) {
        for index in 0..self.queues.len() {
            let submitted = locked(&self.queues[index].state).submitted;
            // There are at most 256.
            let point = TimelinePoint { queue: QueueIndex(index as u8), value: TimelineValue(submitted) };
            if !matches!(self.wait(point, LAST_WAIT), Ok(Wait::Reached) | Err(DeviceError::Lost)) {
                core::mem::forget(core::mem::take(&mut *locked(&self.queues[index].state)));
                core::mem::forget(self.queues[index].fence.clone());
            }
        }
    }

    fn get(&self, queue: QueueIndex) -> Result<&Queue, DeviceError> {
        self.queues.get(usize::from(queue.0)).ok_or(DeviceError::Unsupported)
    }

    pub(super) fn raw(&self, queue: QueueIndex) -> Option<&ID3D12CommandQueue> {
        Some(&self.get(queue).ok()?.raw)
    }

    pub(super) fn fence(&self, queue: QueueIndex) -> Option<&ID3D12Fence> {
        Some(&self.get(queue).ok()?.fence)
    }

    pub(super) fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError> {
        self.get(queue)?.reached().map(TimelineValue)
    }

    pub(super) fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<Wait, DeviceError> {
        let queue = self.get(point.queue)?;
        let reached = |queue: &Queue| queue.reached().map(|value| value >= point.value.0);
        if reached(queue)? {
            return Ok(Wait::Reached);
        }
        if timeout.is_zero() {
            return Ok(Wait::TimedOut);
        }
        let began = Instant::now();
        let event = locked(&self.events).pop();
        let event = event.map_or_else(new_event, Ok)?;
        let handle = HANDLE(event.as_raw_handle());
        let waited = loop {
            // SAFETY: the fence is live, and the event is never closed while it may be signalled.
            let asked = unsafe { queue.fence.SetEventOnCompletion(point.value.0, handle) };
            if let Err(error) = asked {
                break Err(refused(&error));
            }
            let left = timeout.saturating_sub(began.elapsed());
            // SAFETY: the event is live.
            let _ = unsafe { WaitForSingleObject(handle, milliseconds(left)) };
            // Whatever woke us: the fence is what counts.
            match reached(queue) {
                Ok(true) => break Ok(Wait::Reached),
                Ok(false) if began.elapsed() >= timeout => break Ok(Wait::TimedOut),
                Ok(false) => {}
                Err(error) => break Err(error),
            }
        };
        locked(&self.events).push(event);
        waited
    }

    /// # Safety
    ///
    /// As for [`submit`](crate::Device::submit).
    pub(super) unsafe fn submit(
        &self,
        device: &ID3D12Device,
        index: QueueIndex,
        submission: &Submission<'_, Device>,
    ) -> Result<TimelineValue, DeviceError> {
        let queue = self.get(index)?;
        let mut guard = locked(&queue.state);
        let state = &mut *guard;
        let value = state.submitted + 1;
        submission.check(index, value, self.queues.len())?;
        let list = queue.record(device, state, submission)?;
        for point in submission.waits.iter().filter(|point| point.value.0 > 0) {
            let other = self.get(point.queue)?;
            // SAFETY: both are live, and stay so until the queue is done.
            unsafe { queue.raw.Wait(&other.fence, point.value.0) }.map_err(|error| refused(&error))?;
        }
        let has_commands = list.is_some();
        if let Some(list) = list {
            // SAFETY: the list is closed, and what it uses lives until it is done, by the caller's promise.
            unsafe { queue.raw.ExecuteCommandLists(&[Some(list)]) };
        }
        if has_commands {
            state.pools.submitted(value);
        }
        // SAFETY: both are live, and the value is above all that the fence was told before.
        let signalled = unsafe { queue.raw.Signal(&queue.fence, value) };
        // The commands run, and nobody will know when they are done.
        signalled.map_err(|_| DeviceError::Lost)?;
        state.submitted = value;
        Ok(TimelineValue(value))
    }
}

/// An event that is reset by who wakes up.
fn new_event() -> Result<OwnedHandle, DeviceError> {
    // SAFETY: no attributes, no name.
    let event = unsafe { CreateEventW(None, false, false, PCWSTR::null()) };
    let event = event.map_err(|error| refused(&error))?;
    // SAFETY: new, and ours to close.
    Ok(unsafe { OwnedHandle::from_raw_handle(event.0) })
}

/// Whole milliseconds, and at least as long; short of what means "for ever".
fn milliseconds(duration: Duration) -> u32 {
    let whole = duration.as_nanos().div_ceil(1_000_000);
    u32::try_from(whole).unwrap_or(u32::MAX).min(INFINITE - 1)
}

impl Queue {
    fn reached(&self) -> Result<u64, DeviceError> {
        // SAFETY: the fence is live.
        match unsafe { self.fence.GetCompletedValue() } {
            // What the runtime says of a device that is gone.
            u64::MAX => Err(DeviceError::Lost),
            value => Ok(value),
        }
    }

    /// Records copies. `None` where there is nothing to copy.
    fn record(
        &self,
        device: &ID3D12Device,
        state: &mut State,
        submission: &Submission<'_, Device>,
    ) -> Result<Option<ID3D12CommandList>, DeviceError> {
        if !submission.has_copies() {
            return Ok(None);
        }
        let within_one = submission.copies.iter().any(|copy| copy.from == copy.to && copy.size > 0);
        if within_one && state.detour.is_none() {
            state.detour = Some(detour(device)?);
        }
        let (allocator, _) = state.pools.next(&Maker { device, queue: self })?;
        // Taken out: after a failure it is in no state to be used again.
        let list = match state.list.take() {
            Some(list) => {
                // SAFETY: the list is closed, and the queue is done with all that the allocator has.
                unsafe { list.Reset(&*allocator, None::<&ID3D12PipelineState>) }
                    .map_err(|error| refused(&error))?;
                list
            }
            None => {
                let nothing = None::<&ID3D12PipelineState>;
                // SAFETY: the device is live, and the allocator of the queue's kind.
                unsafe { device.CreateCommandList(0, self.kind, &*allocator, nothing) }
                    .map_err(|error| refused(&error))?
            }
        };
        state.states.clear();
        let mut recording = Recording { list: &list, states: &mut state.states };
        for copy in submission.copies.iter().filter(|copy| copy.size > 0) {
            match state.detour.as_ref().filter(|_| copy.from == copy.to) {
                Some(detour) => recording.copy_within(copy, detour),
                None => recording.copy(copy.from, copy.from_offset, copy.to, copy.to_offset, copy.size),
            }
        }
        // SAFETY: the list is being recorded.
        unsafe { list.Close() }.map_err(|error| refused(&error))?;
        let closed = list.cast().map_err(|error| refused(&error))?;
        state.list = Some(list);
        Ok(Some(closed))
    }
}

/// Memory that a queue can both read and write, for copies within one buffer.
fn detour(device: &ID3D12Device) -> Result<ID3D12Resource, DeviceError> {
    let heap = D3D12_HEAP_PROPERTIES { Type: D3D12_HEAP_TYPE_DEFAULT, ..Default::default() };
    let desc = D3D12_RESOURCE_DESC { Width: DETOUR, ..BUFFER };
    let (flags, state) = (D3D12_HEAP_FLAG_NONE, D3D12_RESOURCE_STATE_COMMON);
    create(|made| {
        // SAFETY: the device is live, and the runtime checks the description.
        unsafe { device.CreateCommittedResource(&heap, flags, &desc, state, None, made) }
    })
}

/// A list of copies. Buffers are in the state `COMMON` when it begins and when it was run, which the first
/// copy takes them out of without a word; from then on, changes must be said.
struct Recording<'a> {
    list: &'a ID3D12GraphicsCommandList,
    states: &'a mut HashMap<usize, D3D12_RESOURCE_STATES>,
}

impl Recording<'_> {
    fn copy(
        &mut self,
        from: &ID3D12Resource,
        from_offset: u64,
        to: &ID3D12Resource,
        to_offset: u64,
        size: u64,
    ) {
        self.bring(from, D3D12_RESOURCE_STATE_COPY_SOURCE);
        self.bring(to, D3D12_RESOURCE_STATE_COPY_DEST);
        // SAFETY: the buffers are live and the ranges lie in them, by the caller's promise.
        unsafe { self.list.CopyBufferRegion(to, to_offset, from, from_offset, size) };
    }

    /// A buffer cannot be read and written by one copy, so the bytes go another way.
    fn copy_within(&mut self, copy: &BufferCopy<'_, Device>, detour: &ID3D12Resource) {
        let mut done = 0;
        while done < copy.size {
            let size = DETOUR.min(copy.size - done);
            self.copy(copy.from, copy.from_offset + done, detour, 0, size);
            self.copy(detour, 0, copy.to, copy.to_offset + done, size);
            done += size;
        }
    }

    fn bring(&mut self, buffer: &ID3D12Resource, state: D3D12_RESOURCE_STATES) {
        let before = self.states.insert(buffer.as_raw().addr(), state);
        let Some(before) = before.filter(|before| *before != state) else { return };
        let transition = D3D12_RESOURCE_TRANSITION_BARRIER {
            // SAFETY: the interface is borrowed as it is, and not released with the barrier.
            pResource: unsafe { core::mem::transmute_copy(buffer) },
            Subresource: D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES,
            StateBefore: before,
            StateAfter: state,
        };
        let barrier = D3D12_RESOURCE_BARRIER {
            Type: D3D12_RESOURCE_BARRIER_TYPE_TRANSITION,
            Flags: D3D12_RESOURCE_BARRIER_FLAG_NONE,
            Anonymous: D3D12_RESOURCE_BARRIER_0 { Transition: core::mem::ManuallyDrop::new(transition) },
        };
        // SAFETY: the list is being recorded, and the buffer is live and in the state that is said.
        unsafe { self.list.ResourceBarrier(&[barrier]) };
    }
}

impl PoolMaker<ID3D12CommandAllocator> for Maker<'_> {
    fn make(&self) -> Result<ID3D12CommandAllocator, DeviceError> {
        // SAFETY: the device is live.
        unsafe { self.device.CreateCommandAllocator(self.queue.kind) }.map_err(|error| refused(&error))
    }

    fn reached(&self) -> Result<u64, DeviceError> {
        self.queue.reached()
    }

    fn reset(&self, allocator: ID3D12CommandAllocator) -> Option<ID3D12CommandAllocator> {
        // SAFETY: the queue is done with all that was recorded into it.
        unsafe { allocator.Reset() }.ok().map(|()| allocator)
    }

    fn destroy(&self, _: ID3D12CommandAllocator) {}
}
