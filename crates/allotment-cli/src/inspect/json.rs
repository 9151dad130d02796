//! What several of the JSON outputs have. The keys are stable: `docs/guide/the-command.md` lists them.

use allotment_analyze::{BlockBytes, Figures, Peak};
use allotment_trace::recording::Moment;
use serde::Serialize;

/// A moment.
#[derive(Serialize)]
pub(super) struct MomentJson {
    event: u64,
    frame: u64,
    nanoseconds: u64,
}

impl From<Moment> for MomentJson {
    fn from(Moment { event, frame, nanoseconds }: Moment) -> Self {
        Self { event, frame, nanoseconds }
    }
}

/// Bytes of blocks, each counted once: `used + pending + reserved + rounding + free` is `size`.
#[derive(Serialize)]
pub(super) struct BytesJson {
    size: u64,
    used: u64,
    pending: u64,
    reserved: u64,
    rounding: u64,
    free: u64,
    padding: u64,
    aliased: u64,
}

impl From<BlockBytes> for BytesJson {
    fn from(bytes: BlockBytes) -> Self {
        let BlockBytes { size, used, pending, reserved, rounding, free, padding, aliased, .. } = bytes;
        Self { size, used, pending, reserved, rounding, free, padding, aliased }
    }
}

/// Blocks and their bytes.
#[derive(Serialize)]
pub(super) struct FiguresJson {
    blocks: u64,
    dedicated_blocks: u64,
    empty_blocks: u64,
    allocations: u64,
    bytes: BytesJson,
    holes: u64,
    largest_hole: u64,
    fragmentation: f64,
}

impl From<&Figures> for FiguresJson {
    fn from(figures: &Figures) -> Self {
        Self {
            blocks: figures.blocks,
            dedicated_blocks: figures.dedicated,
            empty_blocks: figures.empty,
            allocations: figures.bytes.allocations,
            bytes: figures.bytes.into(),
            holes: figures.holes,
            largest_hole: figures.largest_hole,
            fragmentation: figures.fragmentation(),
        }
    }
}

/// The most bytes at once.
#[derive(Serialize)]
pub(super) struct PeakJson {
    bytes: u64,
    at: MomentJson,
}

impl From<Peak> for PeakJson {
    fn from(peak: Peak) -> Self {
        Self { bytes: peak.bytes, at: peak.moment.into() }
    }
}
