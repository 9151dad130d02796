//! The library's transfers, measured in the same run as the reference.
//!
//! ```text
//!   ours      the library's buffers, and a queue for copies
//!   direct    the CPU writes device memory, and reads results
//!   staged    chunk by chunk through a staging buffer, writing one chunk while the previous one is copied
//!   sustained the uploader and its ring, with continuous traffic
//! ```

mod direct;
mod ours;
mod staged;
mod sustained;

use core::time::Duration;
use std::sync::Arc;

use allotment::device::vulkan::Device;
use allotment::{Allocator, AllocatorDesc};
use serde::Serialize;

use super::limits::{Limits, Rate, best};
use crate::args::BandwidthArgs;
use crate::failure::Failure;
use crate::rng::Rng;
use crate::vulkan::Gpu;
use ours::failed;

/// A transfer of the library, and the reference that it is compared with.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OwnWay {
    /// Its name in the table.
    pub(super) name: &'static str,
    /// The memory type of the host-visible side.
    pub(super) memory_type: usize,
    pub(super) bytes_per_second: Rate,
    /// The best reference rate.
    pub(super) limit: Rate,
    /// The library's rate divided by the reference.
    pub(super) ratio: f64,
    /// The additional time compared with the reference. A cost that does not grow with the bytes is better seen
    /// here than in the ratio.
    pub(super) longer_us: f64,
}

/// The state that all transfers share.
struct Bench<'a> {
    gpu: &'a Arc<Gpu>,
    allocator: Arc<Allocator<Device>>,
    repetitions: u32,
    source: Vec<u8>,
    limits: &'a [Limits],
}

/// Measures all transfers of the library.
pub(super) fn measure(
    gpu: &Arc<Gpu>,
    args: &BandwidthArgs,
    mib: u32,
    limits: &[Limits],
) -> Result<Vec<OwnWay>, Failure> {
    let mut rng = Rng::new(2);
    let source = (0..u64::from(mib) << 17).flat_map(|_| rng.next().to_le_bytes()).collect();
    let allocator = Allocator::new(gpu.library().clone(), AllocatorDesc::default()).map_err(failed)?;
    let allocator = Arc::new(allocator);
    let bench = Bench { gpu, allocator, repetitions: args.repetitions, source, limits };
    let mut ways = direct::measure(&bench)?;
    ways.extend(staged::measure(&bench)?);
    ways.extend(sustained::measure(&bench)?);
    Ok(ways)
}

impl Bench<'_> {
    fn size(&self) -> u64 {
        self.source.len() as u64
    }

    /// Returns the reference rate of a memory type, if it was measured.
    fn limit(&self, memory_type: usize, of: impl FnOnce(&Limits) -> Option<Rate>) -> Option<Rate> {
        self.limits.iter().find(|row| row.memory_type == memory_type).and_then(of)
    }

    /// Measures a transfer; `None` without a reference.
    fn way(
        &self,
        name: &'static str,
        memory_type: usize,
        limit: Option<Rate>,
        work: impl FnMut() -> Result<Duration, Failure>,
    ) -> Result<Option<OwnWay>, Failure> {
        let Some(limit) = limit else { return Ok(None) };
        let bytes_per_second = self.size() as f64 / best(self.repetitions, work)?.as_secs_f64();
        let ratio = bytes_per_second / limit;
        let longer_us = self.size() as f64 * (1.0 / bytes_per_second - 1.0 / limit) * 1e6;
        Ok(Some(OwnWay { name, memory_type, bytes_per_second, limit, ratio, longer_us }))
    }
}
