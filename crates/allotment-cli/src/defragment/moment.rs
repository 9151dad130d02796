//! The moment of a trace at which to defragment: after a frame, or after an event of a trace without frames.

use allotment::Allocator;
use allotment::device::Device;
use allotment_trace::{Op, Trace};
use serde::Serialize;

use super::playback::with_playback;
use crate::args::Setup;
use crate::failure::Failure;
use crate::target::Target;

/// The unit of time of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unit {
    Frame,
    /// For traces without frames.
    Event,
}

/// A moment of a trace: a number of frames or events that are over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) unit: Unit,
    pub(crate) at: u64,
    /// Their total number.
    pub(crate) of: u64,
}

impl Unit {
    fn of(trace: &Trace) -> Self {
        if trace.frames() == 0 { Self::Event } else { Self::Frame }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Frame => "frame",
            Self::Event => "event",
        }
    }

    fn ends_with(self, op: Op) -> bool {
        self == Self::Event || op == Op::FrameEnd
    }
}

impl Moment {
    /// Returns the requested moment, or the one with the most unused memory in blocks.
    pub(super) fn new(
        trace: &Trace,
        target: &impl Target,
        setup: &Setup,
        at: Option<u64>,
    ) -> Result<Self, Failure> {
        let unit = Unit::of(trace);
        let of = match unit {
            Unit::Frame => trace.frames() as u64,
            Unit::Event => trace.events().len() as u64,
        };
        let at = match at {
            Some(at) if at > of => {
                let unit = unit.name();
                return Err(Failure::Usage(format!("--at {at} is after the last {unit} of the trace, {of}")));
            }
            Some(at) => at,
            None => most_idle(trace, target, setup, unit)?,
        };
        Ok(Self { unit, at, of })
    }

    /// Returns the number of events up to this moment.
    pub(super) fn events(self, trace: &Trace) -> usize {
        let ends = trace.events().iter().enumerate().filter(|(_, event)| self.unit.ends_with(event.op));
        let last = ends.take(usize::try_from(self.at).unwrap_or(usize::MAX)).last();
        last.map_or(0, |(index, _)| index + 1)
    }
}

/// Returns the first moment with the most unused bytes in blocks.
fn most_idle(trace: &Trace, target: &impl Target, setup: &Setup, unit: Unit) -> Result<u64, Failure> {
    with_playback(trace, target, setup, |playback| {
        let (mut at, mut most) = (0, (0, 0));
        playback.play_until(
            trace.events().len(),
            "searching for the most unused memory",
            |allocator, event| {
                if unit.ends_with(event.op) {
                    at += 1;
                    let idle = idle(allocator);
                    // Strictly greater: the first of equal moments, which needs the shortest replay.
                    if idle > most.0 {
                        most = (idle, at);
                    }
                }
            },
        )?;
        Ok(most.1)
    })
}

/// Returns the unused bytes of non-empty blocks. Empty blocks do not count: they are freed without a move.
fn idle<D: Device>(allocator: &Allocator<D>) -> u64 {
    let blocks = allocator.reports().blocks();
    let held = blocks.iter().filter(|block| block.ranges.allocation_count != 0);
    held.map(|block| block.ranges.size).sum::<u64>() - allocator.statistics().allocation_bytes
}
