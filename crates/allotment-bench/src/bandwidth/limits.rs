//! What there is to reach: each way that bytes can take between ordinary memory and the device, taken as
//! plainly as can be, and the best of several times.

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use ash::vk::MemoryPropertyFlags as Flags;
use serde::Serialize;

use crate::args::BandwidthArgs;
use crate::failure::Failure;
use crate::rng::Rng;
use crate::vulkan::{Buffer, Gpu, MemoryTypeInfo, Transfer};

/// Bytes a second.
pub(super) type Rate = f64;

/// What was measured of a host-visible memory type.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Limits {
    pub(super) memory_type: usize,
    pub(super) heap: u32,
    pub(super) properties: String,
    /// One thread's memcpy from ordinary memory, the first time that the pages are touched.
    pub(super) first_write: Rate,
    /// The same, the best of the times after.
    pub(super) write: Rate,
    /// One thread's memcpy to ordinary memory, where the type is cached.
    pub(super) read: Option<Rate>,
    /// vkCmdCopyBuffer to device-local memory, and back. `None` where the device has no such memory that
    /// buffers can be in.
    pub(super) to_device: Option<Rate>,
    pub(super) from_device: Option<Rate>,
    /// The type that these copies went to.
    pub(super) device_type: Option<usize>,
}

/// Measures all host-visible memory types.
pub(super) fn measure(gpu: &Arc<Gpu>, args: &BandwidthArgs, mib: u32) -> Result<Vec<Limits>, Failure> {
    let mut bench = Bench::new(gpu, args, mib)?;
    let visible = gpu.info.memory_types.iter().filter(|found| found.flags.contains(Flags::HOST_VISIBLE));
    let mut all = Vec::new();
    for memory_type in visible {
        all.extend(bench.memory_type(memory_type)?);
    }
    Ok(all)
}

/// Device-local memory: such as the CPU cannot map, where there is some.
fn device_local(gpu: &Gpu) -> Option<usize> {
    let local = gpu.info.memory_types.iter().filter(|found| found.flags.contains(Flags::DEVICE_LOCAL));
    local.min_by_key(|found| found.flags.contains(Flags::HOST_VISIBLE)).map(|found| found.index)
}

/// What all measurements share.
struct Bench<'a> {
    gpu: &'a Arc<Gpu>,
    repetitions: u32,
    /// Ordinary memory, every page of which was touched: to copy from, and to copy to.
    source: Vec<u8>,
    target: Vec<u8>,
    transfer: Transfer,
    device: Option<(usize, Buffer)>,
}

impl<'a> Bench<'a> {
    fn new(gpu: &'a Arc<Gpu>, args: &BandwidthArgs, mib: u32) -> Result<Self, Failure> {
        let size = u64::from(mib) << 20;
        let mut rng = Rng::new(1);
        let source: Vec<u8> = (0..size / 8).flat_map(|_| rng.next().to_le_bytes()).collect();
        let device = match device_local(gpu) {
            Some(index) => Buffer::new(gpu, index, size)?.map(|buffer| (index, buffer)),
            None => None,
        };
        let target = vec![0xff; source.len()];
        Ok(Self { gpu, repetitions: args.repetitions, source, target, transfer: Transfer::new(gpu)?, device })
    }

    /// `None` where buffers cannot be in such memory.
    fn memory_type(&mut self, memory_type: &MemoryTypeInfo) -> Result<Option<Limits>, Failure> {
        let size = self.source.len() as u64;
        let Some(buffer) = Buffer::new(self.gpu, memory_type.index, size)? else { return Ok(None) };
        let Some(memory) = buffer.memory() else { return Ok(None) };
        let rate = |time: Duration| size as f64 / time.as_secs_f64();

        let first = Instant::now();
        memory.write(&self.source)?;
        let first = first.elapsed();
        let write = best(self.repetitions, || timed(|| memory.write(&self.source)))?;
        let read = if memory_type.flags.contains(Flags::HOST_CACHED) {
            Some(best(self.repetitions, || timed(|| memory.read(&mut self.target)))?)
        } else {
            None
        };

        let (mut to_device, mut from_device, mut device_type) = (None, None, None);
        if let Some((index, device)) = &self.device {
            device_type = Some(*index);
            let transfer = &mut self.transfer;
            to_device = Some(best(self.repetitions, || transfer.copy(&buffer, device, size))?);
            // What comes back must have made the whole way.
            memory.write(&vec![0; self.source.len()])?;
            from_device = Some(best(self.repetitions, || transfer.copy(device, &buffer, size))?);
            memory.read(&mut self.target)?;
            if self.target != self.source {
                return Err(Failure::Corrupt { memory_type: memory_type.index });
            }
        }
        Ok(Some(Limits {
            memory_type: memory_type.index,
            heap: memory_type.heap,
            properties: memory_type.properties.clone(),
            first_write: rate(first),
            write: rate(write),
            read: read.map(rate),
            to_device: to_device.map(rate),
            from_device: from_device.map(rate),
            device_type,
        }))
    }
}

/// How long something takes that may fail.
pub(super) fn timed(work: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

/// The shortest of so many times, after one that does not count.
pub(super) fn best(
    repetitions: u32,
    mut work: impl FnMut() -> Result<Duration, Failure>,
) -> Result<Duration, Failure> {
    work()?;
    let mut best = Duration::MAX;
    for _ in 0..repetitions {
        best = best.min(work()?);
    }
    Ok(best)
}
