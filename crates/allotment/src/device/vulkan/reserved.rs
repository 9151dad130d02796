//! Reserved buffers: sparse buffers with unbound ranges.

use core::mem;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use ash::vk;

use super::resources::Bindable as _;
use super::{BufferInfo, Shared, refused};
use crate::device::{DescriptionLimit, DeviceError, RangeBinding, Requirements};
use crate::sync::locked;

/// How long a driver may refuse to wait: as long as a device that is dropped waits for its queues.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two attempts to wait.
const NEXT_WAIT: Duration = Duration::from_millis(1);

/// The addresses of the reserved buffers of a device that are alive.
#[derive(Debug)]
pub(super) struct Addresses {
    /// The most bytes.
    limit: u64,
    /// Bytes. Read without the lock, for buffers of other kinds.
    bytes: AtomicU64,
    sizes: Mutex<BTreeMap<vk::Buffer, u64>>,
}

impl Addresses {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, bytes: AtomicU64::new(0), sizes: Mutex::default() }
    }

    /// Takes bytes for a buffer; an error where the device has too few.
    fn take(&self, size: u64) -> Result<(), DeviceError> {
        let with = |bytes: u64| bytes.checked_add(size).filter(|bytes| *bytes <= self.limit);
        let Err(bytes) = self.bytes.fetch_update(Relaxed, Relaxed, with) else { return Ok(()) };
        Ok(DescriptionLimit::ReservedAddresses.check(bytes.saturating_add(size), self.limit)?)
    }

    /// Notes whose the bytes are.
    fn insert(&self, buffer: vk::Buffer, size: u64) {
        locked(&self.sizes).insert(buffer, size);
    }

    /// Forgets a buffer that is about to be destroyed, and returns its bytes: none where it is of another kind.
    pub(super) fn remove(&self, buffer: vk::Buffer) -> u64 {
        // Most programs have no reserved buffer, and skip the lock. A thread that has one also sees its bytes.
        if self.bytes.load(Relaxed) == 0 {
            return 0;
        }
        locked(&self.sizes).remove(&buffer).unwrap_or(0)
    }

    /// Gives bytes back that no buffer has any more.
    pub(super) fn give_back(&self, size: u64) {
        if size > 0 {
            self.bytes.fetch_sub(size, Relaxed);
        }
    }
}

/// A fence that is destroyed where it is dropped.
struct Fence<'a> {
    device: &'a ash::Device,
    fence: vk::Fence,
}

impl Drop for Fence<'_> {
    fn drop(&mut self) {
        // SAFETY: of this device, and waited for, or never submitted, or the device is lost.
        unsafe { self.device.destroy_fence(self.fence, None) };
    }
}

impl Shared {
    pub(super) fn reserved_buffer(
        &self,
        info: &BufferInfo<'_>,
    ) -> Result<(vk::Buffer, Requirements), DeviceError> {
        let reserved = info.reserved().filter(|_| self.binding_queue.is_some());
        let reserved = reserved.ok_or(DeviceError::Unsupported)?;
        let addresses = &self.reserved;
        // Before the driver is called, as Vulkan demands; what a buffer takes, it says only then.
        let mut taken = 0;
        let create = |raw: &vk::BufferCreateInfo<'_>| {
            addresses.take(raw.size)?;
            taken = raw.size;
            self.create_unbound_buffer(raw)
        };
        let created = self.with_buffer_info(&reserved, create).and_then(|created| created);
        let buffer = created.inspect_err(|_| addresses.give_back(taken))?;
        let requirements = buffer.memory_requirements(self);
        let rest = requirements.size.saturating_sub(taken);
        if let Err(refused) = addresses.take(rest) {
            // SAFETY: created just now, and nothing uses it.
            unsafe { self.raw.destroy_buffer(buffer, None) };
            addresses.give_back(taken);
            return Err(refused);
        }
        addresses.insert(buffer, taken + rest);
        Ok((buffer, requirements))
    }

    /// Binds memory to ranges of a reserved buffer, and waits until the queue has done it.
    ///
    /// # Safety
    ///
    /// As for [`bind_ranges`](crate::device::BufferDevice::bind_ranges).
    pub(super) unsafe fn bind_ranges(
        &self,
        buffer: vk::Buffer,
        ranges: &[RangeBinding<vk::DeviceMemory>],
    ) -> Result<(), DeviceError> {
        let queue = self.binding_queue.ok_or(DeviceError::Unsupported)?;
        let bind = |range: &RangeBinding<vk::DeviceMemory>| {
            let bind = vk::SparseMemoryBind::default().resource_offset(range.offset).size(range.size);
            range.memory.map_or(bind, |(memory, offset)| bind.memory(memory).memory_offset(offset))
        };
        let binds: Vec<_> = ranges.iter().map(bind).collect();
        let of_buffer = [vk::SparseBufferMemoryBindInfo::default().buffer(buffer).binds(&binds)];
        let info = [vk::BindSparseInfo::default().buffer_binds(&of_buffer)];
        for (memory, _) in ranges.iter().filter_map(|range| range.memory) {
            self.check_memory_sharing(memory, vk::ExternalMemoryHandleTypeFlags::empty())?;
        }
        // SAFETY: the structure is valid.
        let fence =
            unsafe { self.raw.create_fence(&vk::FenceCreateInfo::default(), None) }.map_err(refused)?;
        let fence = Fence { device: &self.raw, fence };
        {
            let queue = self.queues.lock(queue).ok_or(DeviceError::NoSuchQueue { queue })?;
            let _bound = self.memory_shared();
            // SAFETY: the queue is locked and binds; buffer and ranges are right by the caller's promise, and the fence is new.
            unsafe { self.raw.queue_bind_sparse(*queue, &info, fence.fence) }.map_err(refused)?;
        }
        // Not under the queue's lock: other threads may submit meanwhile.
        // SAFETY: the fence is of this device.
        let wait = || unsafe { self.raw.wait_for_fences(&[fence.fence], true, u64::MAX) };
        reach(wait, PATIENCE).map_err(|error| {
            if error != vk::Result::ERROR_DEVICE_LOST {
                // The queue may still signal it.
                mem::forget(fence);
            }
            // The queue binds all the same, but when cannot be observed any more.
            DeviceError::Lost
        })
    }
}

/// Waits until a queue has bound what it was given. An error of the wait does not end it, since the queue binds all the same, unless
/// the device is lost or there is nothing but errors for as long as `patience`.
fn reach(wait: impl Fn() -> Result<(), vk::Result>, patience: Duration) -> Result<(), vk::Result> {
    let mut failing = None;
    loop {
        match wait() {
            Err(error) if error != vk::Result::ERROR_DEVICE_LOST => {
                if failing.get_or_insert_with(Instant::now).elapsed() >= patience {
                    return Err(error);
                }
                thread::sleep(NEXT_WAIT);
            }
            reached => return reached,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use ash::vk::Handle as _;

    use super::*;
    use crate::device::DescriptionError;

    #[test]
    fn reserved_buffers_have_no_more_addresses_together_than_the_device() {
        let addresses = Addresses::new(100);
        let [first, other] = [1, 2].map(vk::Buffer::from_raw);
        addresses.take(60).unwrap();
        addresses.insert(first, 60);
        let refused = addresses.take(41).unwrap_err();
        let limit = DescriptionLimit::ReservedAddresses;
        let expected = DescriptionError::AboveLimit { limit, requested: 101, most: 100 };
        assert_eq!(refused, DeviceError::InvalidDescription(expected));
        assert!(addresses.take(u64::MAX).is_err());
        addresses.take(40).unwrap();
        addresses.give_back(40);
        assert_eq!(addresses.remove(other), 0, "of another kind");
        assert_eq!(addresses.remove(first), 60);
        addresses.give_back(60);
        addresses.take(100).unwrap();
    }

    #[test]
    fn a_wait_that_fails_is_tried_again_and_not_for_ever() {
        let failing = |times: u32, error| {
            let calls = Cell::new(0);
            let wait = || {
                calls.set(calls.get() + 1);
                if calls.get() <= times { Err(error) } else { Ok(()) }
            };
            (reach(wait, Duration::from_millis(20)), calls.get())
        };
        let (short, lost) = (vk::Result::ERROR_OUT_OF_HOST_MEMORY, vk::Result::ERROR_DEVICE_LOST);
        assert_eq!(failing(0, short), (Ok(()), 1));
        assert_eq!(failing(2, short), (Ok(()), 3));
        assert_eq!(failing(1, lost), (Err(lost), 1));
        assert_eq!(failing(u32::MAX, short).0, Err(short));
    }

    #[test]
    fn a_protected_buffer_is_not_reserved() {
        use super::super::BufferInfo;
        use crate::device::BufferDesc;
        assert!(BufferInfo::from(BufferDesc::new(1 << 20)).reserved().is_some());
        let raw = vk::BufferCreateInfo::default().size(1 << 20).flags(vk::BufferCreateFlags::PROTECTED);
        // SAFETY: a valid description, which is not used.
        let info = unsafe { BufferInfo::from_raw(raw) };
        assert!(info.reserved().is_none());
    }
}
