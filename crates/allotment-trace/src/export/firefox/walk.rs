//! The items and markers of a profile, in the order of the events: what its tables have rows of.

use core::fmt;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::super::{Export, is_reservation, is_timed};
use crate::recording::{AllocationKey, BlockId, Event, StackId, State, TextId};

/// A change that gets a row of a table.
pub(super) enum Item {
    /// An allocation, or its end.
    Sample(Sample),
    /// The bytes of the blocks of a heap changed.
    Blocks { heap: u8, bytes: i128 },
    /// The bytes of the allocations of a heap changed.
    Bytes { heap: u8, bytes: i128 },
}

#[derive(Clone, Copy)]
pub(super) struct Sample {
    /// As requested; negative where the allocation ends.
    pub(super) bytes: i128,
    pub(super) site: TextId,
    pub(super) stack: StackId,
    pub(super) name: TextId,
    /// How many allocations there were before: in contrast to its key, never used again.
    pub(super) number: u64,
}

impl Sample {
    const fn ended(self) -> Self {
        Self { bytes: -self.bytes, ..self }
    }
}

#[derive(Clone)]
pub(super) struct Marker<'a> {
    pub(super) kind: MarkerKind,
    /// When it began, in nanoseconds. `None` for an instant.
    pub(super) begin: Option<u64>,
    pub(super) text: Cow<'a, str>,
    pub(super) value: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkerKind {
    Frame,
    Mark,
    Refused,
    Stall,
    Lost,
}

impl MarkerKind {
    pub(super) const ALL: [Self; 5] = [Self::Frame, Self::Mark, Self::Refused, Self::Stall, Self::Lost];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Frame => "frame",
            Self::Mark => "mark",
            Self::Refused => "refused request",
            Self::Stall => "stall",
            Self::Lost => "events lost",
        }
    }

    /// Returns what its value is.
    pub(super) const fn value(self) -> &'static str {
        match self {
            Self::Frame => "Number",
            Self::Mark | Self::Lost => "Events before",
            Self::Refused => "Requested",
            Self::Stall => "Duration",
        }
    }

    /// Returns the profiler's format of the value.
    pub(super) const fn format(self) -> &'static str {
        match self {
            Self::Frame | Self::Mark | Self::Lost => "integer",
            Self::Refused => "bytes",
            Self::Stall => "nanoseconds",
        }
    }
}

/// An allocation that exists, as far as a profile is concerned.
#[derive(Clone, Copy)]
struct Live {
    block: BlockId,
    /// `None` for a reservation, which is no allocation of the program's.
    sample: Option<Sample>,
}

/// Walks over a recording, as often as there are columns.
pub(super) struct Walk<'a> {
    pub(super) export: &'a Export<'a>,
    timed: bool,
    /// Events that contradict those before them, by index: rarely any.
    left_out: BTreeSet<usize>,
    heaps: BTreeSet<u8>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(export: &'a Export<'a>) -> Self {
        let (mut state, mut left_out, mut heaps) = (State::default(), BTreeSet::new(), BTreeSet::new());
        for (index, event) in export.events.iter().enumerate() {
            if state.apply(event).is_err() {
                left_out.insert(index);
            } else if let Event::BlockAllocated { memory_type, .. } = *event {
                heaps.insert(export.heap_of(memory_type));
            }
        }
        Self { export, timed: is_timed(export.events), left_out, heaps }
    }

    /// Returns the heaps that ever had a block.
    pub(super) fn heaps(&self) -> impl Iterator<Item = u8> {
        self.heaps.iter().copied()
    }

    /// Returns the events with their time in nanoseconds and their index.
    fn events(&self) -> impl Iterator<Item = (u64, usize, &'a Event)> {
        let mut now = 0;
        let kept = self.export.events.iter().enumerate().filter(|(index, _)| !self.left_out.contains(index));
        kept.map(move |(index, event)| {
            if !self.timed {
                now = index as u64 * 1000;
            } else if let Event::Time { nanoseconds } = *event {
                now = nanoseconds.max(now);
            }
            (now, index, event)
        })
    }

    /// Calls `each` for all markers with their time in nanoseconds.
    pub(super) fn markers(&self, mut each: impl FnMut(u64, &Marker<'_>) -> fmt::Result) -> fmt::Result {
        let mut frame_begin = 0;
        for (now, index, event) in self.events() {
            let instant = |kind, text, value| Marker { kind, begin: None, text, value };
            let marker = match *event {
                Event::FrameEnd { number } => {
                    let begin = Some(core::mem::replace(&mut frame_begin, now));
                    Marker { begin, ..instant(MarkerKind::Frame, format!("frame {number}").into(), number) }
                }
                Event::Mark { text } => {
                    let text = self.export.recording.text(text).unwrap_or("mark");
                    instant(MarkerKind::Mark, text.into(), index as u64)
                }
                Event::Refused { reason, requested, .. } => {
                    instant(MarkerKind::Refused, reason.to_string().into(), requested)
                }
                Event::Stalled { kind, nanoseconds } => {
                    instant(MarkerKind::Stall, kind.to_string().into(), nanoseconds)
                }
                Event::Lost => instant(MarkerKind::Lost, "events were lost".into(), index as u64),
                _ => continue,
            };
            each(now, &marker)?;
        }
        Ok(())
    }

    /// Calls `each` for all other items with their time in nanoseconds.
    pub(super) fn items(&self, mut each: impl FnMut(u64, &Item) -> fmt::Result) -> fmt::Result {
        let events = self.export.events;
        let mut number = 0;
        let mut blocks: HashMap<BlockId, (u8, i128)> = HashMap::new();
        let mut live: HashMap<AllocationKey, Live> = HashMap::new();
        for (now, index, event) in self.events() {
            let heap_of = |blocks: &HashMap<_, (u8, i128)>, block| blocks.get(&block).map_or(0, |of| of.0);
            match *event {
                Event::BlockAllocated { block, memory_type, size, .. } => {
                    let of = (self.export.heap_of(memory_type), i128::from(size));
                    blocks.insert(block, of);
                    each(now, &Item::Blocks { heap: of.0, bytes: of.1 })?;
                }
                Event::BlockResized { block, size } => {
                    if let Some((heap, bytes)) = blocks.get_mut(&block) {
                        let was = core::mem::replace(bytes, size.into());
                        each(now, &Item::Blocks { heap: *heap, bytes: *bytes - was })?;
                    }
                }
                Event::BlockFreed { block } => {
                    if let Some((heap, bytes)) = blocks.remove(&block) {
                        each(now, &Item::Blocks { heap, bytes: -bytes })?;
                    }
                }
                Event::Allocated(is) if is_reservation(events, index, &is) => {
                    live.insert(is.allocation, Live { block: is.block, sample: None });
                }
                Event::Allocated(is) => {
                    let (site, stack) = origin(events, index, is.allocation);
                    let sample = Sample { bytes: is.requested.into(), site, stack, name: is.name, number };
                    number += 1;
                    live.insert(is.allocation, Live { block: is.block, sample: Some(sample) });
                    each(now, &Item::Sample(sample))?;
                    each(now, &Item::Bytes { heap: heap_of(&blocks, is.block), bytes: sample.bytes })?;
                }
                Event::Freed { allocation } => {
                    let of = live.remove(&allocation);
                    if let Some(Live { block, sample: Some(sample) }) = of {
                        each(now, &Item::Sample(sample.ended()))?;
                        each(now, &Item::Bytes { heap: heap_of(&blocks, block), bytes: -sample.bytes })?;
                    }
                }
                // Most reservations are known before; of others the sample ends here.
                Event::Reserved { reservation, .. } => {
                    let of = live.get_mut(&reservation);
                    if let Some((block, sample)) = of.and_then(|of| Some((of.block, of.sample.take()?))) {
                        each(now, &Item::Sample(sample.ended()))?;
                        each(now, &Item::Bytes { heap: heap_of(&blocks, block), bytes: -sample.bytes })?;
                    }
                }
                Event::Exchanged { allocation, reservation } => {
                    let blocks_of = (live.get(&allocation), live.get(&reservation));
                    let (Some(of), Some(reserved)) = blocks_of else { continue };
                    let (from, to) = (of.block, reserved.block);
                    for (key, from, to) in [(allocation, from, to), (reservation, to, from)] {
                        let Some(of) = live.get_mut(&key) else { continue };
                        of.block = to;
                        let (from, to) = (heap_of(&blocks, from), heap_of(&blocks, to));
                        if let Some(sample) = of.sample.filter(|_| from != to) {
                            each(now, &Item::Bytes { heap: from, bytes: -sample.bytes })?;
                            each(now, &Item::Bytes { heap: to, bytes: sample.bytes })?;
                        }
                    }
                }
                Event::Lost => {
                    // By number, so that every column has the same order.
                    let ended = live.drain().filter_map(|(_, of)| Some((of.block, of.sample?)));
                    let ended: BTreeMap<_, _> = ended.map(|of| (of.1.number, of)).collect();
                    for (block, sample) in ended.into_values() {
                        each(now, &Item::Sample(sample.ended()))?;
                        each(now, &Item::Bytes { heap: heap_of(&blocks, block), bytes: -sample.bytes })?;
                    }
                    let freed: BTreeMap<_, _> = blocks.drain().collect();
                    for (heap, bytes) in freed.into_values() {
                        each(now, &Item::Blocks { heap, bytes: -bytes })?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns the call site and the stack of an allocation. What writes a recording writes them right after it.
fn origin(events: &[Event], allocated: usize, of: AllocationKey) -> (TextId, StackId) {
    let (mut site, mut stack) = (TextId::NONE, StackId::NONE);
    for event in events.iter().skip(allocated + 1) {
        match *event {
            Event::Requested { allocation, .. } if allocation == of => {}
            Event::CallSite { allocation, site: known } if allocation == of => site = known,
            Event::Stack { allocation, stack: known } if allocation == of => stack = known,
            _ => break,
        }
    }
    (site, stack)
}
