//! Meters between a contender and the driver, which count calls and bytes.
//!
//! Vulkan functions are plain pointers without a context. So there is one pair of functions for each meter,
//! selected by a constant parameter, and each contender gets a device whose function table holds its pair:
//!
//! ```text
//!   allotment     ──► allocate::<0>, free::<0> ──► METERS[0] ─┐
//!   vk-mem        ──► allocate::<1>, free::<1> ──► METERS[1] ─┤
//!   vk-mem-pool   ──► allocate::<2>, free::<2> ──► METERS[2] ─┤
//!   gpu-allocator ──► allocate::<3>, free::<3> ──► METERS[3] ─┤
//!   own-expandable ─► allocate::<4>, free::<4> ──► METERS[4] ─┴─► the driver's own functions
//! ```

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use ash::vk;
use ash::vk::Handle;
use serde::Serialize;

use super::Gpu;

/// A meter. Each contender has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meter {
    Allotment,
    VkMem,
    VkMemPool,
    GpuAllocator,
    OwnExpandable,
}

/// Held by each test that reads meters: all instances of a contender share one.
#[cfg(test)]
pub(crate) static ALONE: Mutex<()> = Mutex::new(());

/// The counts of a meter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Reading {
    /// Calls that allocate memory, including refused ones.
    pub(crate) allocate_calls: u64,
    /// Calls that free memory.
    pub(crate) free_calls: u64,
    /// Calls that bind memory to ranges of sparse buffers.
    pub(crate) bind_calls: u64,
    /// Bytes that the contender currently has allocated.
    pub(crate) reserved_bytes: u64,
}

struct Counts {
    allocate_calls: AtomicU64,
    free_calls: AtomicU64,
    bind_calls: AtomicU64,
    reserved_bytes: AtomicU64,
}

impl Counts {
    const fn new() -> Self {
        Self {
            allocate_calls: AtomicU64::new(0),
            free_calls: AtomicU64::new(0),
            bind_calls: AtomicU64::new(0),
            reserved_bytes: AtomicU64::new(0),
        }
    }
}

static METERS: [Counts; 5] = [const { Counts::new() }; 5];

thread_local! {
    static OWN_CALLS: Cell<u64> = const { Cell::new(0) };
}

/// Returns the allocation calls of the calling thread, through any meter.
pub(crate) fn own_allocate_calls() -> u64 {
    OWN_CALLS.get()
}

/// The state behind the functions: the driver's functions by device, and the sizes of memory objects.
struct Known {
    drivers: BTreeMap<u64, Driver>,
    sizes: BTreeMap<u64, u64>,
}

#[derive(Clone, Copy)]
struct Driver {
    allocate: vk::PFN_vkAllocateMemory,
    free: vk::PFN_vkFreeMemory,
}

/// The driver's function of the one contender that binds. It is valid for all queues of one driver.
static BIND: OnceLock<vk::PFN_vkQueueBindSparse> = OnceLock::new();

static KNOWN: Mutex<Known> = Mutex::new(Known { drivers: BTreeMap::new(), sizes: BTreeMap::new() });

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Meter {
    /// Returns the device with a function table that counts here. Resets the meter.
    pub(crate) fn on(self, gpu: &Gpu) -> ash::Device {
        let counts = self.counts();
        counts.allocate_calls.store(0, Relaxed);
        counts.free_calls.store(0, Relaxed);
        counts.bind_calls.store(0, Relaxed);
        counts.reserved_bytes.store(0, Relaxed);

        let device = &gpu.device;
        let mut functions = device.fp_v1_0().clone();
        let driver = Driver { allocate: functions.allocate_memory, free: functions.free_memory };
        known().drivers.insert(device.handle().as_raw(), driver);
        let shims: (vk::PFN_vkAllocateMemory, vk::PFN_vkFreeMemory) = match self {
            Self::Allotment => (allocate::<0>, free::<0>),
            Self::VkMem => (allocate::<1>, free::<1>),
            Self::VkMemPool => (allocate::<2>, free::<2>),
            Self::GpuAllocator => (allocate::<3>, free::<3>),
            Self::OwnExpandable => (allocate::<4>, free::<4>),
        };
        if self == Self::OwnExpandable {
            BIND.get_or_init(|| functions.queue_bind_sparse);
            functions.queue_bind_sparse = bind;
        }
        (functions.allocate_memory, functions.free_memory) = shims;
        ash::Device::from_parts_1_3(
            device.handle(),
            functions,
            device.fp_v1_1().clone(),
            device.fp_v1_2().clone(),
            device.fp_v1_3().clone(),
        )
    }

    /// Returns the counts since [`on`](Self::on).
    pub(crate) fn read(self) -> Reading {
        let counts = self.counts();
        Reading {
            allocate_calls: counts.allocate_calls.load(Relaxed),
            free_calls: counts.free_calls.load(Relaxed),
            bind_calls: counts.bind_calls.load(Relaxed),
            reserved_bytes: counts.reserved_bytes.load(Relaxed),
        }
    }

    fn counts(self) -> &'static Counts {
        &METERS[self as usize]
    }
}

/// # Safety
///
/// As for `vkAllocateMemory`.
unsafe extern "system" fn allocate<const METER: usize>(
    device: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    callbacks: *const vk::AllocationCallbacks<'_>,
    memory: *mut vk::DeviceMemory,
) -> vk::Result {
    METERS[METER].allocate_calls.fetch_add(1, Relaxed);
    OWN_CALLS.set(OWN_CALLS.get() + 1);
    let driver = known().drivers.get(&device.as_raw()).copied();
    let Some(driver) = driver else { return vk::Result::ERROR_INITIALIZATION_FAILED };
    // SAFETY: the arguments are the caller's, who promised what `vkAllocateMemory` asks for; the function
    // is the one of this device.
    let result = unsafe { (driver.allocate)(device, info, callbacks, memory) };
    if result == vk::Result::SUCCESS {
        // SAFETY: the caller promised a valid struct.
        let size = unsafe { (*info).allocation_size };
        // SAFETY: the driver has just written the handle.
        let handle = unsafe { *memory };
        METERS[METER].reserved_bytes.fetch_add(size, Relaxed);
        known().sizes.insert(handle.as_raw(), size);
    }
    result
}

/// # Safety
///
/// As for `vkFreeMemory`.
unsafe extern "system" fn free<const METER: usize>(
    device: vk::Device,
    memory: vk::DeviceMemory,
    callbacks: *const vk::AllocationCallbacks<'_>,
) {
    METERS[METER].free_calls.fetch_add(1, Relaxed);
    let (driver, size) = {
        let mut known = known();
        let size = known.sizes.remove(&memory.as_raw()).unwrap_or(0);
        (known.drivers.get(&device.as_raw()).copied(), size)
    };
    METERS[METER].reserved_bytes.fetch_sub(size, Relaxed);
    if let Some(driver) = driver {
        // SAFETY: the arguments are the caller's, who promised what `vkFreeMemory` asks for; the function is
        // the one of this device.
        unsafe { (driver.free)(device, memory, callbacks) };
    }
}

/// # Safety
///
/// As for `vkQueueBindSparse`.
unsafe extern "system" fn bind(
    queue: vk::Queue,
    count: u32,
    infos: *const vk::BindSparseInfo<'_>,
    fence: vk::Fence,
) -> vk::Result {
    METERS[Meter::OwnExpandable as usize].bind_calls.fetch_add(1, Relaxed);
    let Some(driver) = BIND.get() else { return vk::Result::ERROR_INITIALIZATION_FAILED };
    // SAFETY: the arguments are the caller's, who promised what `vkQueueBindSparse` asks for.
    unsafe { driver(queue, count, infos, fence) }
}
