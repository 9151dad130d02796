//! Queues: a fence each, and pools of what their copies are recorded into.

use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};
use core::time::Duration;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::sync::Mutex;
use std::time::Instant;

use windows::Win32::Foundation::HANDLE;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::System::Threading::{CreateEventW, INFINITE, WaitForSingleObject};
use windows::core::{Interface as _, PCWSTR};

use super::commands::Commands;
use super::{Device, copies, refused, whole_images};
use crate::device::command_pools::{CommandPools, PoolMaker};
use crate::device::queue::check_waits;
use crate::device::{DeviceError, QueueIndex, Submission, TimelinePoint, TimelineValue};
use crate::sync::locked;

/// How long the end of a device waits for its queues. Whoever submitted work has waited for it already.
pub(super) const LAST_WAIT: Duration = Duration::from_secs(5);

/// Threads that wait at once in most programs. There is room for their events from the start: the frame in which a queue
/// is slow for the first time takes nothing from the heap.
const WAITERS: usize = 8;

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
    /// The value of the last submission. Written under the lock of `state`, read without it.
    submitted: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pools: CommandPools<Commands>,
    scratch: copies::Scratch,
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
            Ok::<_, DeviceError>(Queue {
                raw,
                kind,
                fence,
                submitted: AtomicU64::new(0),
                state: Mutex::default(),
            })
        };
        let queues = queues.into_iter().map(queue).collect::<Result<_, _>>()?;
        Ok(Self { queues, events: Mutex::new(Vec::with_capacity(WAITERS)) })
    }

    /// Waits for all that was submitted. What queues that do not end still use is leaked rather than pulled
    /// from under them.
    pub(super) fn finish(&mut self) {
        for index in 0..self.queues.len() {
            let value = self.queues[index].submitted();
            // There are at most 256.
            let point = TimelinePoint { queue: QueueIndex(index as u8), value };
            if !matches!(self.wait(point, LAST_WAIT), Ok(()) | Err(DeviceError::Lost)) {
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

    pub(super) fn kind(&self, queue: QueueIndex) -> Result<D3D12_COMMAND_LIST_TYPE, DeviceError> {
        Ok(self.get(queue)?.kind)
    }

    pub(super) fn submitted(&self, queue: QueueIndex) -> TimelineValue {
        self.get(queue).map_or(TimelineValue(0), Queue::submitted)
    }

    pub(super) fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError> {
        self.get(queue)?.reached().map(TimelineValue)
    }

    pub(super) fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError> {
        let queue = self.get(point.queue)?;
        let reached = |queue: &Queue| queue.reached().map(|value| value >= point.value.0);
        if reached(queue)? {
            return Ok(());
        }
        if timeout.is_zero() {
            return Err(DeviceError::TimedOut { point, timeout });
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
                Ok(true) => break Ok(()),
                Ok(false) if began.elapsed() >= timeout => {
                    break Err(DeviceError::TimedOut { point, timeout });
                }
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
        let mut state = locked(&queue.state);
        let value = queue.submitted().0 + 1;
        check_waits(submission.waits, index, value, self.queues.len())?;
        let list = queue.record(device, &mut state, submission)?;
        if list.is_some() {
            // Said before it is known: what runs and cannot be signalled is not recorded over.
            state.pools.submitted(value);
        }
        let lists = [list];
        let lists = if lists[0].is_some() { &lists[..] } else { &[] };
        // SAFETY: the list is closed, and what it uses lives until it is done, by the caller's promise.
        unsafe { self.hand_in(queue, submission.waits, lists) }
    }

    /// # Safety
    ///
    /// As for [`Device::submit_lists`].
    pub(super) unsafe fn submit_lists(
        &self,
        index: QueueIndex,
        waits: &[TimelinePoint],
        lists: &[Option<ID3D12CommandList>],
    ) -> Result<TimelineValue, DeviceError> {
        let queue = self.get(index)?;
        let _state = locked(&queue.state);
        check_waits(waits, index, queue.submitted().0 + 1, self.queues.len())?;
        // SAFETY: the caller's promise.
        unsafe { self.hand_in(queue, waits, lists) }
    }

    /// Gives lists to the queue, whose state is locked, once the points are reached, which were checked.
    ///
    /// # Safety
    ///
    /// As for [`Device::submit_lists`].
    unsafe fn hand_in(
        &self,
        queue: &Queue,
        waits: &[TimelinePoint],
        lists: &[Option<ID3D12CommandList>],
    ) -> Result<TimelineValue, DeviceError> {
        for point in waits.iter().filter(|point| point.value.0 > 0) {
            let other = self.get(point.queue)?;
            // SAFETY: both are live, and stay so until the queue is done.
            unsafe { queue.raw.Wait(&other.fence, point.value.0) }.map_err(|error| refused(&error))?;
        }
        if !lists.is_empty() {
            // SAFETY: the caller's promise.
            unsafe { queue.raw.ExecuteCommandLists(lists) };
        }
        let value = queue.submitted().0 + 1;
        // SAFETY: both are live, and the value is above all that the fence was told before.
        let signalled = unsafe { queue.raw.Signal(&queue.fence, value) };
        // The commands run, and nobody will know when they are done.
        signalled.map_err(|_| DeviceError::Lost)?;
        queue.submitted.store(value, Release);
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
    fn submitted(&self) -> TimelineValue {
        TimelineValue(self.submitted.load(Acquire))
    }

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
        copies::check(submission.image_copies, self.kind)?;
        whole_images::check(submission.whole_images, self.kind)?;
        copies::prepare(device, &mut state.scratch, submission.copies)?;
        let commands = state.pools.next(&Maker { device, queue: self })?;
        let list = commands.next(device)?;
        copies::Recording { list: &list, scratch: &mut state.scratch }.record(submission);
        // SAFETY: the list is being recorded.
        if let Err(error) = unsafe { list.Close() } {
            commands.forget();
            return Err(refused(&error));
        }
        commands.take_back();
        Ok(Some(list.cast().map_err(|error| refused(&error))?))
    }
}

impl PoolMaker<Commands> for Maker<'_> {
    fn make(&self) -> Result<Commands, DeviceError> {
        Commands::new(self.device, self.queue.kind)
    }

    fn reached(&self) -> Result<u64, DeviceError> {
        self.queue.reached()
    }

    fn reset(&self, mut commands: Commands) -> Option<Commands> {
        commands.reset().ok().map(|()| commands)
    }

    fn destroy(&self, _: Commands) {}
}
