//! Reference rates: each path between ordinary memory and the device, with the plainest code, the best of several
//! repetitions.

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use ash::vk::MemoryPropertyFlags as Flags;
use serde::Serialize;

use crate::args::BandwidthArgs;
use crate::failure::Failure;
use crate::rng::Rng;
use crate::vulkan::{Buffer, Gpu, MemoryTypeInfo, Transfer};

/// Bytes per second.
pub(super) type Rate = f64;

/// The rates of a host-visible memory type.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Limits {
    pub(super) memory_type: usize,
    pub(super) heap: u32,
    pub(super) properties: String,
    /// `memcpy` from ordinary memory on one thread, the first time that the pages are touched.
    pub(super) first_write: Rate,
    /// The best of the later repetitions.
    pub(super) write: Rate,
    /// `memcpy` to ordinary memory on one thread, if the type is cached.
    pub(super) read: Option<Rate>,
    /// `vkCmdCopyBuffer` to device-local memory, and back. `None` if the device has no such memory for buffers.
    pub(super) to_device: Option<Rate>,
    pub(super) from_device: Option<Rate>,
    /// The memory type of the other side of these copies.
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

/// Returns a device-local memory type, preferably one that is not host-visible.
fn device_local(gpu: &Gpu) -> Option<usize> {
    let local = gpu.info.memory_types.iter().filter(|found| found.flags.contains(Flags::DEVICE_LOCAL));
    local.min_by_key(|found| found.flags.contains(Flags::HOST_VISIBLE)).map(|found| found.index)
}

/// The state that all measurements share.
struct Bench<'a> {
    gpu: &'a Arc<Gpu>,
    repetitions: u32,
    /// Ordinary memory with all pages touched: source and destination of copies.
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

    /// Measures one memory type; `None` if it does not allow buffers.
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
            // Cleared, so that the comparison proves that the bytes have travelled the whole path.
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

/// Times a fallible operation.
pub(super) fn timed(work: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

/// Returns the shortest time of a number of repetitions, after one that is not counted.
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
