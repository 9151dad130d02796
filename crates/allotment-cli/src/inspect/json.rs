//! What several of the JSON outputs have. The keys are stable: `docs/guide/the-command.md` lists them.

use allotment_analyze::{BlockBytes, Figures, Peak, Timeline};
use allotment_trace::recording::Moment;
use serde::Serialize;

/// A moment. Of a dump of one moment there is none, and no frame where the recording has no frames.
#[derive(Serialize)]
pub(super) struct MomentJson {
    event: u64,
    frame: Option<u64>,
    nanoseconds: u64,
}

impl MomentJson {
    pub(super) fn of(timeline: &Timeline<'_>, moment: Moment) -> Option<Self> {
        let Moment { event, frame, nanoseconds } = moment;
        let frame = (timeline.frame_count() > 0).then_some(frame);
        timeline.has_history().then_some(Self { event, frame, nanoseconds })
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
    at: Option<MomentJson>,
}

impl PeakJson {
    pub(super) fn of(timeline: &Timeline<'_>, peak: Peak) -> Self {
        Self { bytes: peak.bytes, at: MomentJson::of(timeline, peak.moment) }
    }
}
