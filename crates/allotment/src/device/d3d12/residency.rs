//! Residency: `Evict`, `MakeResident`, residency priorities.

use core::time::Duration;
use std::time::Instant;

use windows::Win32::Graphics::Direct3D12::*;
use windows::core::Interface as _;

use super::memory::Memory;
use super::queues::LAST_WAIT;
use super::{Device, Shared, refused};
use crate::device::{DeviceError, Priority, PrioritySupport, QueueDevice as _, QueueIndex, TimelinePoint};
use crate::sync::locked;

impl Device {
    /// Evicts memory that no queue will use for a while, so that the system can use its physical memory. Its
    /// contents are kept. Memory that is already evicted stays evicted: calls are not counted.
    ///
    /// `used_until` are the points after which no queue uses it.
    ///
    /// # Errors
    ///
    /// [`DeviceError::TimedOut`] while one of the points is not reached: try again later. Other
    /// [`DeviceError`]s. Nothing was evicted in these cases.
    ///
    /// # Safety
    ///
    /// Each memory is live, from this device, and listed once; no other thread evicts it or makes it resident
    /// during this call. No queue uses it after the points, and no textures in it are
    /// [written by the CPU](super::DeviceDesc::with_host_written_textures), until it was
    /// [made resident](Self::make_resident) again.
    pub unsafe fn evict(&self, memory: &[Memory], used_until: &[TimelinePoint]) -> Result<(), DeviceError> {
        // A queue must not use evicted memory. The points are checked rather than waited for: eviction is optional
        // and can be tried again.
        for &point in used_until {
            if self.completed(point.queue)? < point.value {
                return Err(DeviceError::TimedOut { point, timeout: Duration::ZERO });
            }
        }
        // SAFETY: the caller's promise.
        let objects = unsafe { self.shared.objects(memory, Residency::Resident) };
        if !objects.is_empty() {
            // SAFETY: all are live, and no queue uses them.
            unsafe { self.shared.raw.Evict(&objects) }.map_err(|error| refused(&error))?;
        }
        // Noted after the call: when it fails nothing has changed.
        self.shared.set_residency(memory, Residency::Evicted);
        Ok(())
    }

    /// Makes evicted memory resident, and returns when it is. May take milliseconds. Memory that is not evicted
    /// is skipped.
    ///
    /// # Errors
    ///
    /// [`DeviceError::OutOfDeviceMemory`] if it does not fit any more: evict or free other memory.
    ///
    /// # Safety
    ///
    /// Each memory is live, from this device, and listed once; no other thread evicts it or makes it resident
    /// during this call.
    pub unsafe fn make_resident(&self, memory: &[Memory]) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        let objects = unsafe { self.shared.objects(memory, Residency::Evicted) };
        if !objects.is_empty() {
            // SAFETY: all are live.
            unsafe { self.shared.raw.MakeResident(&objects) }.map_err(|error| refused(&error))?;
        }
        self.shared.set_residency(memory, Residency::Resident);
        Ok(())
    }

    /// Makes evicted memory resident, and blocks later submissions to a queue until it is. Returns at once if
    /// the runtime supports that (`ID3D12Device3`), otherwise like [`make_resident`](Self::make_resident).
    ///
    /// # Errors
    ///
    /// [`DeviceError::NoSuchQueue`] if the queue does not exist, otherwise the same as for
    /// [`make_resident`](Self::make_resident).
    ///
    /// # Safety
    ///
    /// The conditions of [`make_resident`](Self::make_resident) apply; other queues use the memory only after the next
    /// submission to this queue.
    pub unsafe fn make_resident_for(&self, queue: QueueIndex, memory: &[Memory]) -> Result<(), DeviceError> {
        // An unknown queue is refused before anything becomes resident.
        let raw = self.queue(queue).ok_or(DeviceError::NoSuchQueue { queue })?;
        // `EnqueueMakeResident` exists from `ID3D12Device3` on; before, only the blocking call does.
        let Ok(device) = self.shared.raw.cast::<ID3D12Device3>() else {
            // SAFETY: the caller's promise.
            return unsafe { self.make_resident(memory) };
        };
        // SAFETY: the caller's promise.
        let objects = unsafe { self.shared.objects(memory, Residency::Evicted) };
        if objects.is_empty() {
            return Ok(());
        }
        // The lock makes threads signal the values in their order.
        let mut paging = locked(&self.shared.paging);
        let value = paging.enqueued + 1;
        let flags = D3D12_RESIDENCY_FLAG_NONE;
        // SAFETY: all are live, and the value is above all values that the fence was signalled with before.
        let enqueued = unsafe { device.EnqueueMakeResident(flags, &objects, &paging.fence, value) };
        enqueued.map_err(|error| refused(&error))?;
        paging.enqueued = value;
        // Noted although the memory is not resident yet: the queue waits, and no later call must enqueue it again.
        self.shared.set_residency(memory, Residency::Resident);
        // SAFETY: both are live, and the fence lives until the queue has waited.
        unsafe { raw.Wait(&paging.fence, value) }.map_err(|error| refused(&error))
    }
}

/// The fence that memory signals when it is resident.
#[derive(Debug)]
pub(super) struct Paging {
    fence: ID3D12Fence,
    /// The last value that was enqueued.
    enqueued: u64,
}

impl Paging {
    pub(super) fn new(device: &ID3D12Device) -> Result<Self, DeviceError> {
        // SAFETY: the device is live.
        let fence = unsafe { device.CreateFence(0, D3D12_FENCE_FLAG_NONE) };
        Ok(Self { fence: fence.map_err(|error| refused(&error))?, enqueued: 0 })
    }

    /// Waits for all memory that queues may wait for. A fence that queues still wait for is leaked.
    pub(super) fn finish(&mut self) {
        let began = Instant::now();
        // SAFETY: the fence is live.
        while unsafe { self.fence.GetCompletedValue() } < self.enqueued {
            if began.elapsed() > LAST_WAIT {
                core::mem::forget(self.fence.clone());
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Whether memory is resident or evicted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Residency {
    Resident,
    Evicted,
}

/// Maps a priority to the runtime's five steps; the default is the middle one.
fn step(priority: Priority) -> D3D12_RESIDENCY_PRIORITY {
    match priority.get() {
        ..0.2 => D3D12_RESIDENCY_PRIORITY_MINIMUM,
        ..0.4 => D3D12_RESIDENCY_PRIORITY_LOW,
        ..0.6 => D3D12_RESIDENCY_PRIORITY_NORMAL,
        ..0.8 => D3D12_RESIDENCY_PRIORITY_HIGH,
        _ => D3D12_RESIDENCY_PRIORITY_MAXIMUM,
    }
}

impl Shared {
    /// Returns the interfaces of those memory objects that are in a state of residency.
    ///
    /// # Safety
    ///
    /// All memory is live.
    unsafe fn objects(&self, memory: &[Memory], residency: Residency) -> Vec<Option<ID3D12Pageable>> {
        let mut objects = Vec::with_capacity(memory.len());
        for &memory in memory {
            let resident = self.ledger.with(memory, |object| object.resident);
            if resident == Some(residency == Residency::Resident) {
                // SAFETY: the caller's promise.
                objects.push(Some(unsafe { memory.pageable() }));
            }
        }
        objects
    }

    /// Records the residency of memory objects.
    fn set_residency(&self, memory: &[Memory], residency: Residency) {
        for &memory in memory {
            self.ledger.with(memory, |object| object.resident = residency == Residency::Resident);
        }
    }

    /// Returns whether priorities are supported; old runtimes have none.
    pub(super) fn priority_support(&self) -> PrioritySupport {
        match self.raw.cast::<ID3D12Device1>() {
            Ok(_) => PrioritySupport::AnyTime,
            Err(_) => PrioritySupport::Ignored,
        }
    }

    pub(super) fn set_priority(
        &self,
        object: &ID3D12Pageable,
        priority: Priority,
    ) -> Result<(), DeviceError> {
        let device: ID3D12Device1 = self.raw.cast().map_err(|error| refused(&error))?;
        let (objects, steps) = ([Some(object.clone())], [step(priority)]);
        // SAFETY: one live object, and one priority for it.
        unsafe { device.SetResidencyPriority(1, objects.as_ptr(), steps.as_ptr()) }
            .map_err(|error| refused(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_priority_is_in_the_middle() {
        assert_eq!(step(Priority::default()), D3D12_RESIDENCY_PRIORITY_NORMAL);
        assert_eq!(step(Priority::HIGH), D3D12_RESIDENCY_PRIORITY_MAXIMUM);
        assert_eq!(step(Priority::new(0.0)), D3D12_RESIDENCY_PRIORITY_MINIMUM);
    }
}
