//! One large buffer: accessed by the CPU directly, or copied whole.

use allotment::MemoryUsage;

use super::ours::Ours;
use super::{Bench, OwnWay};
use crate::bandwidth::limits::timed;
use crate::failure::Failure;
use crate::vulkan::Transfer;

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<OwnWay>, Failure> {
    let mut ways = Vec::new();
    let size = bench.size();
    let device = Ours::new(bench, MemoryUsage::GpuOnly, size)?;
    let mut transfer = Transfer::new(bench.gpu)?;

    let near = Ours::new(bench, MemoryUsage::DeviceUpload, size)?;
    if near.is_mapped_device_memory() {
        let (index, limit) = (near.memory_type(), bench.limit(near.memory_type(), |row| Some(row.write)));
        let source = &bench.source;
        ways.extend(bench.way("direct upload, write", index, limit, || timed(|| near.write(0, source)))?);
        ways.extend(
            bench.way("direct upload, by address", index, limit, || {
                timed(|| near.write_by_address(0, source))
            })?,
        );
    }
    drop(near);

    let up = Ours::new(bench, MemoryUsage::Upload, size)?;
    up.write(0, &bench.source)?;
    let limit = bench.limit(up.memory_type(), |row| row.to_device);
    ways.extend(bench.way("copy to device, submit", up.memory_type(), limit, || bench.copy(&up, &device))?);
    // The same buffers with a plain submission: separates the effect of the buffers from that of the library's
    // submission.
    ways.extend(bench.way("same buffers, plain submit", up.memory_type(), limit, || {
        bench.copy_plainly(&mut transfer, &up, &device)
    })?);
    drop(up);

    let down = Ours::new(bench, MemoryUsage::Readback, size)?;
    let index = down.memory_type();
    let limit = bench.limit(index, |row| row.from_device);
    ways.extend(bench.way("copy from device, submit", index, limit, || bench.copy(&device, &down))?);
    ways.extend(bench.way("same buffers, plain submit", index, limit, || {
        bench.copy_plainly(&mut transfer, &device, &down)
    })?);
    let limit = bench.limit(index, |row| row.read);
    let mut target = vec![0xff; bench.source.len()];
    ways.extend(bench.way("readback, read", index, limit, || timed(|| down.read(&mut target)))?);
    if limit.is_some() && target != bench.source {
        return Err(Failure::Corrupt { memory_type: index });
    }
    Ok(ways)
}
