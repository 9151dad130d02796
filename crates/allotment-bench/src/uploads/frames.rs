//! One thread writes much through little staging memory on a GPU that is slow; frames and small writes go on.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use std::time::Instant;

use allotment::MemoryUsage;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{
    BufferDesc, MemoryDevice as _, QueueDevice as _, QueueIndex, QueueKind, Submission, TimelinePoint,
};
use allotment::gpu::{Gpu, GpuDesc};
use allotment::upload::{UploadHandle, UploadStatus, UploaderDesc, WhenFull};
use serde::Serialize;

use super::failed;
use crate::failure::Failure;

const LATENCY: Duration = Duration::from_millis(20);
const LARGE: usize = 16 << 20;
const STAGING: u64 = 1 << 20;
const FRAME: Duration = Duration::from_millis(4);

/// What frames and small writes saw.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Seen {
    pub(super) frames: u64,
    pub(super) longest_submit_us: f64,
    pub(super) small_writes: u64,
    pub(super) longest_small_write_us: f64,
    /// The most submissions of the copying queue from the call of a small write until its bytes were there, its own among them.
    pub(super) most_submissions: u64,
    pub(super) large_ms: f64,
}

pub(super) fn measure() -> Result<Seen, Failure> {
    let profile = Profile::named("discrete-no-bar").ok_or_else(|| failed("no such profile"))?;
    let device = SimulatedGpu::new(profile);
    let mut uploader = UploaderDesc::default();
    (uploader.staging, uploader.when_full) = (STAGING, WhenFull::Wait(Duration::from_secs(10)));
    // The default of an uploader.
    let queues = (0..).map(QueueIndex).zip(device.properties().queues.iter());
    let (queue, _) =
        queues.min_by_key(|(_, kind)| **kind != QueueKind::Transfer).ok_or_else(|| failed("no queue"))?;
    let gpu = Gpu::new(device.clone(), GpuDesc::default().with_uploader(uploader)).map_err(failed)?;
    let buffer = |size, name| {
        gpu.create_buffer(&BufferDesc::new(size), &MemoryUsage::GpuOnly.with_name(name)).map_err(failed)
    };
    let (large, small) = (buffer(LARGE as u64, "large")?, buffer(4096, "small")?);
    // The staging memory is there, and the first frame's pages are.
    gpu.uploads().write_buffer(&small, 0, &[1; 4096]).map_err(failed)?;
    gpu.wait(gpu.uploads().submit().map_err(failed)?).map_err(failed)?;
    let bytes = vec![7; LARGE];
    device.set_latency(LATENCY);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let began = Instant::now();
            let handle = UploadHandle::new();
            let done = gpu.uploads().with_handle(&handle).write_buffer(&large, 0, &bytes);
            is_over.store(true, Relaxed);
            done.map(|()| began.elapsed())
        });
        let mut seen = Seen::default();
        let mut pending: Option<(UploadHandle, u64)> = None;
        while !is_over.load(Relaxed) {
            let frame = gpu.begin_frame().map_err(failed)?;
            if pending.is_none() {
                let handle = UploadHandle::new();
                let began = Instant::now();
                gpu.uploads().with_handle(&handle).write_buffer(&small, 0, &[2; 256]).map_err(failed)?;
                seen.longest_small_write_us = seen.longest_small_write_us.max(us(began.elapsed()));
                seen.small_writes += 1;
                // Directly after the call: what the queue has completed by now, the write does not wait for.
                let before = device.completed(queue).map_err(failed)?.0;
                pending = Some((handle, before));
            }
            let began = Instant::now();
            let submit = |queue, waits: &[TimelinePoint]| {
                // SAFETY: the submission is empty.
                unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) }
            };
            frame.submit(QueueIndex(0), submit).map_err(failed)?;
            seen.longest_submit_us = seen.longest_submit_us.max(us(began.elapsed()));
            seen.frames += 1;
            frame.end().map_err(failed)?;
            if let Some((handle, before)) = &pending {
                if let UploadStatus::Submitted(points) = handle.status() {
                    let last = points.points().map(|point| point.value.0).max().unwrap_or(0);
                    seen.most_submissions = seen.most_submissions.max(last - before);
                }
                if handle.status().is_final() {
                    pending = None;
                }
            }
            std::thread::sleep(FRAME);
        }
        let took = writer.join().map_err(|_| Failure::Thread)?.map_err(failed)?;
        seen.large_ms = us(took) / 1e3;
        device.set_latency(Duration::ZERO);
        gpu.wait_idle().map_err(failed)?;
        Ok(seen)
    })
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
