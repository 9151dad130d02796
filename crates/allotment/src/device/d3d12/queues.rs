//! Queues: a fence each, and pools of command allocators for their copies.

use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};
use core::time::Duration;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use windows::Win32::Foundation::HANDLE;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::System::LibraryLoader::{GetModuleHandleW, GetProcAddress};
use windows::Win32::System::Threading::{CreateEventW, INFINITE, WaitForSingleObject};
use windows::core::{Interface as _, PCWSTR, s, w};

use super::commands::Commands;
use super::{Device, copies, full_images, refused};
use crate::device::command_pools::{CommandPools, PoolMaker};
use crate::device::queue::check_waits;
use crate::device::{DeviceError, QueueDevice, QueueIndex, Submission, TimelinePoint, TimelineValue};
use crate::sync::locked;

/// How long a device that is dropped waits for its queues. Applications have normally waited for their
/// submissions before.
pub(super) const LAST_WAIT: Duration = Duration::from_secs(5);

/// Threads that wait at once in most programs. There is room for their events from the start: the frame in which a
/// queue is slow for the first time takes nothing from the heap.
const WAITERS: usize = 8;

#[derive(Debug)]
pub(super) struct Queues {
    queues: Vec<Queue>,
    /// Events to wait with. After a timeout an event may still be signalled later, so events are not closed but
    /// reused; a woken thread checks the fence.
    events: Mutex<Vec<OwnedHandle>>,
    /// Held for each wait and each signal of a queue where the runtime mixes them up: see [`is_vkd3d`].
    turns: Option<Mutex<()>>,
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

/// Creates and resets the command allocators of a queue.
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
                // The type is queried once: it decides which allocators fit and which copies are possible.
                kind,
                fence,
                submitted: AtomicU64::new(0),
                state: Mutex::default(),
            })
        };
        let queues = queues.into_iter().map(queue).collect::<Result<_, _>>()?;
        let events = Mutex::new(Vec::with_capacity(WAITERS));
        Ok(Self { queues, events, turns: is_vkd3d().then(Mutex::default) })
    }

    /// Waits for other threads' waits and signals, where the runtime needs that. Taken last, and for driver calls alone.
    fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.turns.as_ref().map(locked)
    }

    /// Waits for all submissions. Objects that queues may still use after a timeout are leaked.
    pub(super) fn finish(&mut self) {
        let began = Instant::now();
        for index in 0..self.queues.len() {
            let value = self.queues[index].submitted();
            // The cast cannot truncate: there are at most 256 queues.
            let point = TimelinePoint { queue: QueueIndex(index as u8), value };
            // One time for all queues: where one hangs, others may wait for it.
            let left = LAST_WAIT.saturating_sub(began.elapsed());
            // A lost queue executes nothing any more, so its objects can be released.
            if !matches!(self.wait(point, left), Ok(()) | Err(DeviceError::Lost)) {
                // The runtime does not keep command allocators alive for queues that use them, nor fences.
                core::mem::forget(core::mem::take(&mut *locked(&self.queues[index].state)));
                core::mem::forget(self.queues[index].fence.clone());
            }
        }
    }

    fn get(&self, queue: QueueIndex) -> Result<&Queue, DeviceError> {
        self.queues.get(usize::from(queue.0)).ok_or(DeviceError::NoSuchQueue { queue })
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
        // A point that was reached needs no event.
        if reached(queue)? {
            return Ok(());
        }
        // A poll needs no event.
        if timeout.is_zero() {
            return Err(DeviceError::TimedOut { point, timeout });
        }
        let began = Instant::now();
        // Events are taken out of the list under its lock, and waited for without it.
        let event = locked(&self.events).pop();
        let event = event.map_or_else(new_event, Ok)?;
        let handle = HANDLE(event.as_raw_handle());
        let waited = loop {
            // SAFETY: the fence is live, and the event is never closed while it may be signalled.
            let result = unsafe { queue.fence.SetEventOnCompletion(point.value.0, handle) };
            if let Err(error) = result {
                break Err(refused(&error));
            }
            let left = timeout.saturating_sub(began.elapsed());
            // SAFETY: the event is live.
            let _ = unsafe { WaitForSingleObject(handle, milliseconds(left)) };
            // A reused event may have been signalled for an earlier wait, so only the fence's value counts.
            match reached(queue) {
                Ok(true) => break Ok(()),
                Ok(false) if began.elapsed() >= timeout => {
                    break Err(DeviceError::TimedOut { point, timeout });
                }
                Ok(false) => {}
                Err(error) => break Err(error),
            }
        };
        // Returned after a timeout as well: closing it while the fence may still signal it is not allowed.
        locked(&self.events).push(event);
        waited
    }

    /// # Safety
    ///
    /// The conditions of [`submit`](crate::device::QueueDevice::submit) apply.
    pub(super) unsafe fn submit(
        &self,
        device: &ID3D12Device,
        index: QueueIndex,
        submission: &Submission<'_, Device>,
    ) -> Result<TimelineValue, DeviceError> {
        let queue = self.get(index)?;
        let mut state = locked(&queue.state);
        let value = queue.submitted().0 + 1;
        // Under the lock, so that the value of this submission cannot change between check and signal.
        check_waits(submission.waits, index, value, self.queues.len())?;
        let list = queue.record(device, &mut state, submission)?;
        if list.is_some() {
            // Recorded before the submission: if the list executes but `Signal` fails, its allocator must not be
            // reset.
            state.pools.submitted(value);
        }
        let lists = [list];
        let lists = if lists[0].is_some() { &lists[..] } else { &[] };
        // SAFETY: the list is closed, and what it uses lives until it has executed, by the caller's promise.
        unsafe { self.execute_lists(queue, submission.waits, lists) }
    }

    /// # Safety
    ///
    /// The conditions of [`Device::submit_lists`] apply.
    pub(super) unsafe fn submit_lists(
        &self,
        index: QueueIndex,
        waits: &[TimelinePoint],
        lists: &[Option<ID3D12CommandList>],
    ) -> Result<TimelineValue, DeviceError> {
        let queue = self.get(index)?;
        // The lock keeps signals of one queue in the order of their values.
        let _state = locked(&queue.state);
        check_waits(waits, index, queue.submitted().0 + 1, self.queues.len())?;
        // SAFETY: the caller's promise.
        unsafe { self.execute_lists(queue, waits, lists) }
    }

    /// Makes the queue wait for the points, which were checked, and executes lists. The queue's state is locked.
    ///
    /// # Safety
    ///
    /// The conditions of [`Device::submit_lists`] apply.
    unsafe fn execute_lists(
        &self,
        queue: &Queue,
        waits: &[TimelinePoint],
        lists: &[Option<ID3D12CommandList>],
    ) -> Result<TimelineValue, DeviceError> {
        // A fence begins at 0, so such a wait is satisfied.
        for point in waits.iter().filter(|point| point.value.0 > 0) {
            let other = self.get(point.queue)?;
            let _turn = self.turn();
            // SAFETY: both are live, and stay so until the queue has waited.
            unsafe { queue.raw.Wait(&other.fence, point.value.0) }.map_err(|error| refused(&error))?;
        }
        if !lists.is_empty() {
            // SAFETY: the caller's promise.
            unsafe { queue.raw.ExecuteCommandLists(lists) };
        }
        let value = queue.submitted().0 + 1;
        let turn = self.turn();
        // SAFETY: both are live, and the value is above all values that the fence was signalled with before.
        let signalled = unsafe { queue.raw.Signal(&queue.fence, value) };
        drop(turn);
        // The lists execute, but their completion cannot be observed any more.
        signalled.map_err(|_| DeviceError::Lost)?;
        // `Release`: a thread that reads the value sees what was written before the submission.
        queue.submitted.store(value, Release);
        Ok(TimelineValue(value))
    }
}

/// Whether the runtime is vkd3d, under Wine, whose system library says so.
///
/// vkd3d has one Vulkan queue for all queues of a type, or for all. It waits there for the first signal that it has noted and
/// that is late enough: if the point itself was reached, for a later one. `Signal` notes its value before it submits it, so a
/// `Wait` of another thread can come before it in the same Vulkan queue, which then stands still. (`Wait` and `Signal` of Windows
/// need no lock, and get none: a queue that is full could keep it from the thread that would empty it.)
fn is_vkd3d() -> bool {
    // SAFETY: the name ends with a zero, and every process has that library.
    let Ok(library) = (unsafe { GetModuleHandleW(w!("ntdll.dll")) }) else { return false };
    // SAFETY: the library stays loaded, and the name ends with a zero.
    unsafe { GetProcAddress(library, s!("wine_get_version")) }.is_some()
}

/// Creates an auto-reset event.
fn new_event() -> Result<OwnedHandle, DeviceError> {
    // SAFETY: no attributes, no name.
    let event = unsafe { CreateEventW(None, false, false, PCWSTR::null()) };
    let event = event.map_err(|error| refused(&error))?;
    // SAFETY: the handle is new and has no other owner.
    Ok(unsafe { OwnedHandle::from_raw_handle(event.0) })
}

/// Converts to milliseconds, rounded up; always less than `INFINITE`.
fn milliseconds(duration: Duration) -> u32 {
    // Rounded up: a wait that ends early would spin until its time is over.
    let whole = duration.as_nanos().div_ceil(1_000_000);
    // `INFINITE` would never return, although the timeout was finite.
    u32::try_from(whole).unwrap_or(u32::MAX).min(INFINITE - 1)
}

impl Queue {
    fn submitted(&self) -> TimelineValue {
        TimelineValue(self.submitted.load(Acquire))
    }

    fn reached(&self) -> Result<u64, DeviceError> {
        // SAFETY: the fence is live.
        match unsafe { self.fence.GetCompletedValue() } {
            // The runtime reports this value for a removed device.
            u64::MAX => Err(DeviceError::Lost),
            value => Ok(value),
        }
    }

    /// Records copies into a command list. Returns `None` if there is nothing to copy.
    fn record(
        &self,
        device: &ID3D12Device,
        state: &mut State,
        submission: &Submission<'_, Device>,
    ) -> Result<Option<ID3D12CommandList>, DeviceError> {
        if !submission.has_copies() {
            return Ok(None);
        }
        // Checked before a list is taken, since an error in the list shows only when it is closed.
        copies::check(submission.image_copies, self.kind)?;
        full_images::check(submission.full_images, self.kind)?;
        copies::prepare(device, &mut state.scratch, submission.copies)?;
        let commands = state.pools.next(&Maker { device, queue: self })?;
        let list = commands.next(device)?;
        copies::Recording { list: &list, scratch: &mut state.scratch }.record(submission);
        // SAFETY: the list is being recorded.
        if let Err(error) = unsafe { list.Close() } {
            // A list that failed to close stays unusable, so it is dropped rather than reused.
            commands.discard();
            return Err(refused(&error));
        }
        // A closed list can be recorded again at once: the commands are in the allocator.
        commands.make_available();
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

    // An allocator that fails to reset is dropped, and the pool creates another one.
    fn reset(&self, mut commands: Commands) -> Option<Commands> {
        commands.reset().ok().map(|()| commands)
    }

    fn destroy(&self, _: Commands) {}
}

// SAFETY: the last value is stored before a submission returns, and the completed one is the fence's.
unsafe impl QueueDevice for Device {
    unsafe fn submit(
        &self,
        queue: QueueIndex,
        submission: &Submission<'_, Self>,
    ) -> Result<TimelineValue, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.queues.submit(&self.shared.raw, queue, submission) }
    }

    fn submitted(&self, queue: QueueIndex) -> TimelineValue {
        self.shared.queues.submitted(queue)
    }

    fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError> {
        self.shared.queues.completed(queue)
    }

    fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError> {
        self.shared.queues.wait(point, timeout)
    }
}
