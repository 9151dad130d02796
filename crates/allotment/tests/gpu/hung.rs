//! A GPU whose queues hang: what ends, and after which time.

use core::time::Duration;
use std::sync::Mutex;

use allotment::MemoryUsage;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{BufferDesc, DeviceError, QueueDevice as _, QueueIndex, Submission};
use allotment::gpu::{Gpu, GpuDesc};
use allotment::memory::{MappedBuffer, OwningAllocator};
use allotment::upload::{ReadbackRing, UploadRing, Uploader, UploaderDesc};

use crate::hooked_device::{Hook, HookedDevice, Point};

/// The time of all waits that were in vain.
#[derive(Debug, Default)]
struct InVain(Mutex<Duration>);

impl Hook for InVain {
    fn reached(&self, _: Point) {}

    fn timed_out(&self, timeout: Duration) {
        *self.0.lock().unwrap() += timeout;
    }
}

type Device = HookedDevice<InVain>;

fn submit(device: &Device, queue: QueueIndex) -> Result<allotment::device::TimelineValue, DeviceError> {
    // SAFETY: there is nothing in it.
    unsafe { device.submit(queue, &Submission::default()) }
}

fn mapped(memory: &OwningAllocator<Device>, usage: MemoryUsage) -> MappedBuffer<Device> {
    memory.create_mapped_buffer(&BufferDesc::new(4096), &usage.into()).unwrap()
}

#[test]
fn all_that_ends_with_a_gpu_that_hangs_waits_for_it_as_long_as_one_of_them_may() {
    let device = Device::new(SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap()));
    let gpu = Gpu::new(device.clone(), GpuDesc::default()).unwrap();
    let buffer = || gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.into()).unwrap();
    let (first, second, kept) = (buffer(), buffer(), buffer());
    let uploader = Uploader::new(gpu.memory(), UploaderDesc::default()).unwrap();
    let readback = ReadbackRing::over(gpu.tracker(), mapped(gpu.memory(), MemoryUsage::Readback)).unwrap();
    let upload = UploadRing::over(gpu.tracker(), mapped(gpu.memory(), MemoryUsage::Upload)).unwrap();
    device.inner.pause_queues();
    for _ in 0..2 {
        let frame = gpu.begin_frame().unwrap();
        let _bytes = frame.upload([7; 64]).unwrap();
        drop(gpu.readback().unwrap());
        for queue in 0..2 {
            frame.submit(QueueIndex(queue), |queue, _| submit(&device, queue)).unwrap();
        }
        frame.end().unwrap();
    }
    uploader.initialize(&first, 0, &[7; 4096]).unwrap();
    let _point = uploader.submit().unwrap();
    drop((first, upload, readback, uploader, second));
    drop(gpu);
    // What is dropped later waits no more than what was dropped first.
    drop(kept);
    let in_vain = *device.hook.0.lock().unwrap();
    assert!(!in_vain.is_zero() && in_vain <= Duration::from_secs(5), "{in_vain:?}");
    device.inner.resume_queues();
}
