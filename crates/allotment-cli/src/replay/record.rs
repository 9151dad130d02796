//! The events of a replay: to a file, or into memory.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use allotment::Allocator;
use allotment::device::Device;
use allotment::events::{Event, EventBatch, EventSubscription, SubscriptionDesc, TextId};
use allotment_trace::recording::{AllocationKey, BlockId, Recording};
use allotment_trace::{Observed as _, Recorder};

use super::unexpected;
use crate::failure::Failure;

/// After how many events of the trace the events of the allocator are taken out. Each causes a few, so that far fewer
/// wait than a subscription keeps.
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
    Memory(Box<Collector>),
}

impl Recordings {
    pub(super) fn begin<D: Device>(record: Record<'_>, allocator: &Allocator<D>) -> Result<Self, Failure> {
        Ok(match record {
            Record::Nowhere => Self::Nowhere,
            Record::File(path) => Self::File(Recorder::to_file(allocator, path).map_err(Failure::Record)?),
            Record::Memory => Self::Memory(Box::new(Collector {
                events: allocator.subscribe(&SubscriptionDesc::default()).map_err(unexpected)?,
                batch: EventBatch::new(),
                ids: HashMap::new(),
                recording: Recording { header: allocator.header(), ..Recording::default() },
                hidden: HashSet::new(),
                hidden_blocks: HashSet::new(),
                unread: 0,
            })),
        })
    }

    /// Called after each event of the trace.
    pub(super) fn after_event(&mut self) {
        if let Self::Memory(collector) = self {
            collector.unread += 1;
            if collector.unread == READ_EVERY {
                collector.read();
            }
        }
    }

    /// Leaves out what was recorded into memory so far: the staging buffers of the replay, which are no part of the
    /// program that the trace is of.
    pub(super) fn hide(&mut self) {
        if let Self::Memory(collector) = self {
            collector.hide();
        }
    }

    /// Ends the recording, before what still exists is destroyed.
    pub(super) fn end(self) -> Result<Option<Recording>, Failure> {
        match self {
            Self::Nowhere => Ok(None),
            Self::File(recorder) => recorder.finish().map(|_| None).map_err(Failure::Record),
            Self::Memory(mut collector) => {
                collector.read();
                Ok(Some(collector.recording))
            }
        }
    }
}

/// Collects events in memory.
pub(super) struct Collector {
    events: EventSubscription,
    batch: EventBatch,
    ids: HashMap<String, TextId>,
    recording: Recording,
    /// Allocations that are left out, with the blocks that they fill.
    hidden: HashSet<AllocationKey>,
    hidden_blocks: HashSet<BlockId>,
    /// Events of the trace since the events of the allocator were read.
    unread: u32,
}

impl Collector {
    fn hide(&mut self) {
        self.read();
        let Self { recording, hidden, hidden_blocks, .. } = self;
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
        hidden_blocks.extend(left.into_iter().filter(|&(_, left)| left == 0).map(|(block, _)| block));
        for event in &recording.events {
            match *event {
                Event::Allocated(is) if hidden_blocks.contains(&is.block) => {
                    hidden.insert(is.allocation);
                }
                _ => {}
            }
        }
        recording.events.retain(|event| !is_about(event, hidden, hidden_blocks));
    }

    fn read(&mut self) {
        let Self { events, batch, ids, recording, hidden, hidden_blocks, unread } = self;
        *unread = 0;
        events.read(batch);
        for event in batch.events() {
            if matches!(event, Event::Time { .. } | Event::Stalled { .. })
                || is_about(event, hidden, hidden_blocks)
            {
                continue;
            }
            let event = event.map_texts(|text| {
                let Some(text) = batch.text(text) else { return TextId::NONE };
                if let Some(&id) = ids.get(&*text) {
                    return id;
                }
                recording.texts.push(text.clone().into_owned());
                // Memory would be full before 2^32 texts.
                let id = TextId(recording.texts.len() as u32);
                ids.insert(text.into_owned(), id);
                id
            });
            recording.events.push(event);
        }
    }
}

/// Returns true for an event of one of some allocations or blocks.
fn is_about(event: &Event, allocations: &HashSet<AllocationKey>, blocks: &HashSet<BlockId>) -> bool {
    match event {
        Event::Allocated(is) => allocations.contains(&is.allocation),
        Event::CallSite { allocation, .. }
        | Event::Requested { allocation, .. }
        | Event::Labelled { allocation, .. }
        | Event::Movable { allocation, .. }
        | Event::Mapped { allocation, .. }
        | Event::FreeRequested { allocation }
        | Event::Freed { allocation } => allocations.contains(allocation),
        Event::BlockAllocated { block, .. } | Event::BlockFreed { block } | Event::BlockShared { block } => {
            blocks.contains(block)
        }
        _ => false,
    }
}
