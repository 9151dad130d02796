//! Blocks and allocations as asynchronous slices, in lanes.

use core::cmp::Reverse;
use core::fmt;
use std::collections::{BTreeMap, BinaryHeap, HashSet};
use std::io;

use allotment::device::{MemoryProperties, MemoryTypeIndex};

use super::{FIRST_TYPE, Json, Writer, writer_text};
use crate::recording::{
    AllocationKey, BlockId, CallRole, Event, Live, Placement, Recording, StackId, State, short_function,
};

/// The slices that are open.
#[derive(Default)]
pub(super) struct Slices {
    blocks: BTreeMap<BlockId, OpenBlock>,
    allocations: BTreeMap<AllocationKey, Open>,
    /// Memory types whose process has a name.
    named: HashSet<MemoryTypeIndex>,
    /// The allocation that the event being applied ends, as it was before.
    ends: Option<Live>,
}

/// A block whose outer slices are open.
struct OpenBlock {
    process: u32,
    name: String,
    /// How many lanes there are: an outer slice is open in each.
    lanes: u32,
    /// Lanes without an allocation, the first one first.
    idle: BinaryHeap<Reverse<u32>>,
}

/// An allocation whose slice is open.
struct Open {
    block: BlockId,
    lane: u32,
    name: String,
}

impl Slices {
    /// Notes what an event will remove from the state.
    pub(super) fn before(&mut self, state: &State, event: &Event) {
        self.ends = match event {
            Event::Freed { allocation } => state.allocations.get(allocation).cloned(),
            _ => None,
        };
    }

    /// Writes what an event changed. It has been applied; `index` is its own.
    pub(super) fn after<W: io::Write>(
        &mut self,
        writer: &mut Writer<'_, '_, '_, W>,
        state: &State,
        index: u64,
        event: &Event,
    ) -> fmt::Result {
        match *event {
            Event::BlockAllocated { block, .. } => self.begin_block(writer, state, block),
            Event::BlockFreed { block } => self.end_block(writer, block),
            Event::Allocated(is) => self.begin(writer, state, is.allocation, None),
            Event::FreeRequested { allocation } => {
                let requested = state.allocations.get(&allocation).and_then(|live| live.free_requested);
                // Only the first request counts.
                if requested.is_none_or(|moment| moment.event != index) {
                    return Ok(());
                }
                self.instant(writer, allocation, "free requested", None)
            }
            Event::Freed { allocation } => {
                let live = self.ends.take();
                self.close(writer, allocation, live.as_ref(), None)
            }
            Event::Exchanged { allocation, reservation } => {
                self.instant(writer, allocation, "moved", Some(index))?;
                for key in [allocation, reservation] {
                    self.close(writer, key, state.allocations.get(&key), None)?;
                }
                self.begin(writer, state, allocation, Some(index))?;
                self.begin(writer, state, reservation, None)
            }
            Event::Lost => self.close_all(writer, &State::default(), "lost"),
            _ => Ok(()),
        }
    }

    /// Closes all slices at the end of the recording.
    pub(super) fn end<W: io::Write>(
        mut self,
        writer: &mut Writer<'_, '_, '_, W>,
        state: &State,
    ) -> fmt::Result {
        self.close_all(writer, state, "alive at the end")
    }

    fn close_all<W: io::Write>(
        &mut self,
        writer: &mut Writer<'_, '_, '_, W>,
        state: &State,
        end: &str,
    ) -> fmt::Result {
        while let Some((&key, _)) = self.allocations.first_key_value() {
            self.close(writer, key, state.allocations.get(&key), Some(end))?;
        }
        while let Some((&block, _)) = self.blocks.first_key_value() {
            self.end_block(writer, block)?;
        }
        Ok(())
    }

    fn begin_block<W: io::Write>(
        &mut self,
        writer: &mut Writer<'_, '_, '_, W>,
        state: &State,
        id: BlockId,
    ) -> fmt::Result {
        let Some(block) = state.blocks.get(&id) else { return Ok(()) };
        let process = FIRST_TYPE + u32::from(block.memory_type.0);
        if self.named.insert(block.memory_type) {
            match writer.recording.header.memory_types.get(block.memory_type.get()) {
                Some(of) => {
                    let properties = MemoryProperties::from_bits_truncate(of.properties);
                    let (memory_type, heap) = (block.memory_type, of.heap);
                    writer.process(
                        process,
                        format_args!("memory type {memory_type} (heap {heap}: {properties})"),
                    )?;
                }
                None => writer.process(process, format_args!("memory type {}", block.memory_type))?,
            }
        }
        let pool = state.pools.get(&block.pool).and_then(|pool| writer.recording.text(pool.name));
        let pool = pool.map(|name| format!(" \"{name}\"")).unwrap_or_default();
        let name = format!("block {id}{pool}: {}, {} bytes", block.kind, block.size);
        // The first lane is written now, so that an empty block shows.
        let open = OpenBlock { process, name, lanes: 1, idle: BinaryHeap::from([Reverse(0)]) };
        let written = slice(writer, "b", (process, id, 0), &open.name, |o| {
            o.object("args", |args| args.number("size", block.size))
        });
        self.blocks.insert(id, open);
        written
    }

    fn end_block<W: io::Write>(&mut self, writer: &mut Writer<'_, '_, '_, W>, id: BlockId) -> fmt::Result {
        let Some(open) = self.blocks.remove(&id) else { return Ok(()) };
        (0..open.lanes)
            .try_for_each(|lane| slice(writer, "e", (open.process, id, lane), &open.name, |_| Ok(())))
    }

    /// Begins the slice of an allocation. `flow` is that of the move that brings it.
    fn begin<W: io::Write>(
        &mut self,
        writer: &mut Writer<'_, '_, '_, W>,
        state: &State,
        key: AllocationKey,
        flow: Option<u64>,
    ) -> fmt::Result {
        let Some(live) = state.allocations.get(&key) else { return Ok(()) };
        let id = live.is.block;
        let Some(block) = self.blocks.get_mut(&id) else { return Ok(()) };
        let lane = match block.idle.pop() {
            Some(Reverse(lane)) => lane,
            None => {
                let lane = block.lanes;
                block.lanes += 1;
                slice(writer, "b", (block.process, id, lane), &block.name, |_| Ok(()))?;
                lane
            }
        };
        let recording = writer.recording;
        let is = &live.is;
        let name = if live.reservation || is.placement == Placement::Destination && flow.is_none() {
            "reserved for a move".to_owned()
        } else {
            recording.text(is.name).map_or_else(|| format!("allocation {}", key.0), str::to_owned)
        };
        slice(writer, "b", (block.process, id, lane), &name, |o| {
            if let Some(flow) = flow {
                o.raw("bind_id", format_args!("\"{flow}\""))?;
                o.raw("flow_in", true)?;
            }
            o.object("args", |args| {
                args.number("allocation", key.0)?;
                args.number("offset", is.offset)?;
                args.number("size", is.requested)?;
                args.number("occupied", is.occupied)?;
                args.number("alignment", is.alignment.get())?;
                args.text("kind", super::super::kind_name(is.kind))?;
                if let Some(usage) = is.usage {
                    args.text("usage", usage)?;
                }
                args.text("placement", is.placement)?;
                writer_text(args, recording, "category", is.category)
            })
        })?;
        self.allocations.insert(key, Open { block: id, lane, name });
        Ok(())
    }

    /// Ends the slice of an allocation. `live` is what is known of it; `end` says why, unless it was freed or moved.
    fn close<W: io::Write>(
        &mut self,
        writer: &mut Writer<'_, '_, '_, W>,
        key: AllocationKey,
        live: Option<&Live>,
        end: Option<&str>,
    ) -> fmt::Result {
        let Some(open) = self.allocations.remove(&key) else { return Ok(()) };
        let Some(block) = self.blocks.get_mut(&open.block) else { return Ok(()) };
        block.idle.push(Reverse(open.lane));
        let recording = writer.recording;
        slice(writer, "e", (block.process, open.block, open.lane), &open.name, |o| {
            o.object("args", |args| {
                if let Some(live) = live {
                    writer_text(args, recording, "call site", live.call_site)?;
                    let calls = calls(recording, live.stack);
                    if !calls.is_empty() {
                        args.text("called by", &calls)?;
                    }
                    writer_text(args, recording, "last name", live.is.name)?;
                    if live.is.user_data != 0 {
                        // As text: viewers read numbers as floating point.
                        args.text("user data", format_args!("{:#x}", live.is.user_data))?;
                    }
                }
                end.map_or(Ok(()), |end| args.raw(end, true))
            })
        })
    }

    /// Writes an instant event in the slice of an allocation. `flow` is that of a move that begins there.
    fn instant<W: io::Write>(
        &mut self,
        writer: &mut Writer<'_, '_, '_, W>,
        key: AllocationKey,
        name: &str,
        flow: Option<u64>,
    ) -> fmt::Result {
        let Some(open) = self.allocations.get(&key) else { return Ok(()) };
        let Some(block) = self.blocks.get(&open.block) else { return Ok(()) };
        slice(writer, "n", (block.process, open.block, open.lane), name, |o| {
            let Some(flow) = flow else { return Ok(()) };
            o.raw("bind_id", format_args!("\"{flow}\""))?;
            o.raw("flow_out", true)
        })
    }
}

/// Writes an event of an asynchronous track: of a process, a block and a lane.
fn slice<W: io::Write>(
    writer: &mut Writer<'_, '_, '_, W>,
    phase: &str,
    (process, block, lane): (u32, BlockId, u32),
    name: &str,
    fill: impl FnOnce(&mut Json<'_, '_, W>) -> fmt::Result,
) -> fmt::Result {
    let now = writer.now;
    writer.at(now, phase, process, 0, name, |o| {
        o.text("cat", "memory")?;
        // An id is that of the process only: two blocks of the same id follow each other.
        o.object("id2", |id| id.text("local", format_args!("{}.{lane}", block.0)))?;
        fill(o)
    })
}

/// The most calls of an allocation: each slice repeats them.
const MOST_CALLS: usize = 16;

/// Returns the calls that led to an allocation, the innermost first, without those of allocators, runtimes and dispatchers.
fn calls(recording: &Recording, stack: StackId) -> String {
    let text = |text| recording.text(text).unwrap_or("");
    let calls = recording.stacks.calls(stack).map(|call| (text(call.function), text(call.place)));
    let shown = calls.filter(|&(function, place)| CallRole::of(function, place) != CallRole::Machinery);
    let mut list = String::new();
    for (function, place) in shown.take(MOST_CALLS) {
        if !list.is_empty() {
            list.push_str(" < ");
        }
        list.push_str(if function.is_empty() { place } else { short_function(function) });
        if !function.is_empty() && place.contains(':') {
            list.extend([" ", place]);
        }
    }
    list
}
