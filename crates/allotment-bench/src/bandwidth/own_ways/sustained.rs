//! Continuous uploads: the library's uploader and its ring, always with pending bytes.

use core::time::Duration;
use std::time::Instant;

use allotment::device::vulkan::Device;
use allotment::device::{BufferCopy, BufferDesc, QueueDevice as _, Submission};
use allotment::lifetime::{DeletionQueue, SubmissionTracker};
use allotment::memory::{Buffer, OwningAllocator, Transfer};
use allotment::upload::{RingDesc, RingError, UploadRing, Uploader, UploaderDesc, WaitFor};
use allotment::{Alignment, MemoryUsage};

use super::{Bench, OwnWay, failed};
use crate::failure::Failure;

/// Size of the staging memory: the uploader's default.
const STAGING: u64 = 32 << 20;

/// Size of one write: a texture or a mesh.
const WRITE: usize = 1 << 20;

/// Repetitions of all bytes in one measurement, so that start and end have little effect.
const ROUNDS: u32 = 4;

/// The state that both measurements share.
struct Stream<'a> {
    bench: &'a Bench<'a>,
    tracker: SubmissionTracker,
    memory: OwningAllocator<Device>,
    target: Buffer<Device>,
    /// The memory type of rings.
    memory_type: usize,
}

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<OwnWay>, Failure> {
    let tracker = SubmissionTracker::new(bench.gpu.library().clone()).map_err(failed)?;
    let memory = OwningAllocator::new(&bench.allocator, &DeletionQueue::new(&tracker)).map_err(failed)?;
    let desc = MemoryUsage::GpuOnly.with_name("streamed to");
    let target = memory.create_buffer(&BufferDesc::new(bench.size()).into(), &desc).map_err(failed)?;
    let ring = UploadRing::new(&bench.allocator, &tracker, &RingDesc::upload(STAGING)).map_err(failed)?;
    let memory_type = ring.memory_type().get();
    let stream = Stream { bench, tracker, memory, target, memory_type };

    let mut desc = UploaderDesc::default();
    (desc.staging, desc.queue) = (STAGING, Some(bench.gpu.queue));
    let uploader = Uploader::new(&stream.memory, desc).map_err(failed)?;
    let written = bench.limit(memory_type, |row| row.to_device.map(|copy| copy.min(row.write)));
    let writing = bench.way("sustained, Uploader", memory_type, written, || stream.write(&uploader))?;
    stream.verify()?;

    let copied = bench.limit(memory_type, |row| row.to_device);
    let mut ring = ring;
    let copying = bench.way("sustained, copies", memory_type, copied, || stream.copy(&mut ring))?;
    Ok(writing.into_iter().chain(copying).collect())
}

impl Stream<'_> {
    fn wait_idle(&self) -> Result<(), Failure> {
        self.tracker.wait_idle(Duration::from_secs(10)).map_err(failed)
    }

    /// Writes all bytes repeatedly. Returns the time of one repetition.
    fn write(&self, uploader: &Uploader<Device>) -> Result<Duration, Failure> {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            for (i, bytes) in (0..).zip(self.bench.source.chunks(WRITE)) {
                uploader.update(&self.target, i * WRITE as u64, bytes).map_err(failed)?;
            }
        }
        uploader.submit().map_err(failed)?;
        self.wait_idle()?;
        Ok(start.elapsed() / ROUNDS)
    }

    /// Copies the same number of bytes that are already in the ring, a quarter of it at a time: the rate of a queue
    /// that never waits for work. Returns the time of one repetition.
    fn copy(&self, ring: &mut UploadRing<Device>) -> Result<Duration, Failure> {
        let (device, queue) = (self.bench.gpu.library(), self.bench.gpu.queue);
        let start = Instant::now();
        for _ in 0..ROUNDS {
            let mut done = 0;
            while done < self.bench.size() {
                let size = (STAGING / 4).min(self.bench.size() - done);
                let from_offset = self.room(ring, size)?;
                let (from, to) = (ring.buffer(), &self.target.handle());
                let copies = [BufferCopy { from, from_offset, to, to_offset: done, size }];
                let work = Submission { copies: &copies, ..Submission::default() };
                let recording = self.tracker.record("copies");
                // SAFETY: both ranges lie within their buffers, which live until the wait is over.
                let point = recording.submit(queue, |_| unsafe { device.submit(queue, &work) });
                ring.close(point.map_err(failed)?);
                done += size;
            }
        }
        self.wait_idle()?;
        Ok(start.elapsed() / ROUNDS)
    }

    fn room(&self, ring: &mut UploadRing<Device>, size: u64) -> Result<u64, Failure> {
        loop {
            match ring.allocate(size, Alignment::ONE) {
                Ok(slice) => return Ok(slice.offset()),
                Err(RingError::FullForNow { wait: WaitFor::Point(point), .. }) => {
                    self.tracker.wait(point, Duration::from_secs(10)).map_err(failed)?;
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Verifies the bytes written last.
    fn verify(&self) -> Result<(), Failure> {
        let mut back = vec![0; self.bench.source.len()];
        let transfer = Transfer::new(&self.bench.allocator, self.bench.gpu.queue, 4 << 20);
        let mut transfer = transfer.map_err(failed)?;
        self.target.with_raw(|raw| transfer.download_from(raw, 0, &mut back)).map_err(failed)?;
        if back == self.bench.source {
            Ok(())
        } else {
            Err(Failure::Corrupt { memory_type: self.memory_type })
        }
    }
}
