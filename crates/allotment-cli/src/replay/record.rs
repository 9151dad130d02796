//! The events of a replay: to a file, or into memory.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use allotment::Allocator;
use allotment::device::Device;
use allotment_trace::recording::{AllocationKey, BlockId, Event, Recording};
use allotment_trace::{Collector, Recorder};

use super::unexpected;
use crate::failure::Failure;

/// After how many events of the trace the events of the allocator are read. Each causes a few, which take host memory
/// twice while they are read.
const READ_EVERY: u32 = 1024;

/// Where the events of a replay go.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Record<'a> {
    /// Nowhere.
    #[default]
    Nowhere,
    /// To a recording file, with times and stalls.
    File(&'a Path),
    /// Into memory, without times and stalls: those of a replay say nothing about the program that was recorded.
    Memory,
}

/// Records a replay.
pub(super) enum Recordings {
    Nowhere,
    File(Recorder),
    Memory(Box<InMemory>),
}

impl Recordings {
    pub(super) fn begin<D: Device>(record: Record<'_>, allocator: &Allocator<D>) -> Result<Self, Failure> {
        Ok(match record {
            Record::Nowhere => Self::Nowhere,
            Record::File(path) => Self::File(Recorder::to_file(allocator, path).map_err(Failure::Record)?),
            Record::Memory => {
                let collector = Collector::new(allocator).map_err(unexpected)?;
                Self::Memory(Box::new(InMemory { collector, hidden: Hidden::default(), unread: 0 }))
            }
        })
    }

    /// Called after each event of the trace.
    pub(super) fn after_event(&mut self) {
        if let Self::Memory(memory) = self {
            memory.unread += 1;
            if memory.unread == READ_EVERY {
                memory.unread = 0;
                memory.collector.read();
            }
        }
    }

    /// Leaves out what was recorded into memory so far: the staging buffers of the replay, which are no part of the
    /// program that the trace is of.
    pub(super) fn hide(&mut self) {
        if let Self::Memory(memory) = self {
            memory.collector.read();
            memory.hidden = Hidden::all_of(memory.collector.recording());
        }
    }

    /// Ends the recording, before what still exists is destroyed.
    pub(super) fn end(self) -> Result<Option<Recording>, Failure> {
        match self {
            Self::Nowhere => Ok(None),
            Self::File(recorder) => recorder.finish().map(|_| None).map_err(Failure::Record),
            Self::Memory(memory) => Ok(Some(memory.into_recording())),
        }
    }
}

/// A recording in memory.
pub(super) struct InMemory {
    collector: Collector,
    hidden: Hidden,
    /// Events of the trace since the events of the allocator were read.
    unread: u32,
}

impl InMemory {
    fn into_recording(self) -> Recording {
        let Self { collector, hidden, .. } = self;
        let mut recording = collector.into_recording();
        recording.events.retain(|event| {
            !matches!(event, Event::Time { .. } | Event::Stalled { .. }) && !hidden.is_about(event)
        });
        recording
    }
}

/// Allocations that are left out, with the blocks that they fill.
#[derive(Default)]
struct Hidden {
    allocations: HashSet<AllocationKey>,
    blocks: HashSet<BlockId>,
}

impl Hidden {
    /// Returns all allocations that a recording has until now.
    fn all_of(recording: &Recording) -> Self {
        // A block that they do not fill stays, with them: the trace's own allocations may get the rest of it.
        let mut left = HashMap::new();
        for event in &recording.events {
            match *event {
                Event::BlockAllocated { block, size, .. } => drop(left.insert(block, size)),
                Event::Allocated(is) => {
                    left.entry(is.block).and_modify(|left| *left = left.saturating_sub(is.occupied));
                }
                _ => {}
            }
        }
        let blocks: HashSet<_> =
            left.into_iter().filter(|&(_, left)| left == 0).map(|(block, _)| block).collect();
        let allocations = recording.events.iter().filter_map(|event| match event {
            Event::Allocated(is) if blocks.contains(&is.block) => Some(is.allocation),
            _ => None,
        });
        Self { allocations: allocations.collect(), blocks }
    }

    /// Returns true for an event of one of the allocations or blocks.
    fn is_about(&self, event: &Event) -> bool {
        match event {
            Event::Allocated(is) => self.allocations.contains(&is.allocation),
            Event::CallSite { allocation, .. }
            | Event::Stack { allocation, .. }
            | Event::Requested { allocation, .. }
            | Event::Labelled { allocation, .. }
            | Event::Movable { allocation, .. }
            | Event::Mapped { allocation, .. }
            | Event::FreeRequested { allocation }
            | Event::Freed { allocation } => self.allocations.contains(allocation),
            Event::BlockAllocated { block, .. }
            | Event::BlockFreed { block }
            | Event::BlockShared { block } => self.blocks.contains(block),
            _ => false,
        }
    }
}
