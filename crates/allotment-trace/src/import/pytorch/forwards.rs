//! Writes the events of a snapshot: the state before the first one, then each entry of the history, and at the end
//! whatever the final state has otherwise.

use std::collections::{BTreeMap, HashMap};

use allotment::device::MemoryTypeIndex;
use allotment::events::{
    Allocated, AllocationKey, BlockId, BlockKind, Event, Placement, PoolId, RefusalReason, StackId, TextId,
};
use allotment::{Alignment, ResourceKind};

use super::super::ImportErrorKind;
use super::super::builder::Builder;
use super::super::limits::Budget;
use super::backwards::{Before, Mapped, Region, pool_of, rounded};
use super::pickle::{Pickle, Value};
use super::snapshot::{Action, Address, Block, Entry, PoolKey, Segment, Snapshot, call};
use crate::recording::{
    Api, CallRole, Extent, Header, Heap, Library, MemoryType, Recording, StackFrame, Stacks, UnreadKind,
    short_function,
};

type Result<T, E = ImportErrorKind> = core::result::Result<T, E>;

pub(super) struct Forwards<'a> {
    pickle: &'a Pickle,
    snapshot: &'a Snapshot,
    builder: Builder<'a>,
    budget: &'a Budget,
    pools: BTreeMap<PoolKey, PoolId>,
    segments: BTreeMap<Address, Written>,
    /// The expandable segments: their addresses, and the block while any of it is mapped.
    regions: Vec<(Region, Option<Written>)>,
    mapped: Mapped,
    live: BTreeMap<Address, Live>,
    /// What is known of a stack, by the list that has it: stacks are shared.
    stacks: HashMap<u64, Stack>,
    /// By its calls: lists are not shared where only they are equal.
    by_stack: HashMap<StackId, Stack>,
    /// The calls, by the dictionary that has each.
    calls: HashMap<u32, Call>,
    /// What each call of the recording's stacks is for.
    roles: Vec<CallRole>,
    /// Events that could not be applied.
    left_out: u64,
}

/// A segment that exists.
#[derive(Clone, Copy)]
struct Written {
    block: BlockId,
    size: u64,
}

/// An allocation that exists.
#[derive(Clone, Copy)]
struct Live {
    allocation: AllocationKey,
    block: BlockId,
    requested: u64,
    occupied: u64,
    pending: bool,
}

/// A call of a stack.
#[derive(Clone, Copy)]
struct Call {
    function: TextId,
    place: TextId,
    role: CallRole,
    is_python: bool,
}

impl Default for Call {
    fn default() -> Self {
        Self { function: TextId::NONE, place: TextId::NONE, role: CallRole::Machinery, is_python: false }
    }
}

/// A stack: where its memory comes from, and all of its calls.
#[derive(Clone, Copy, Default)]
struct Stack {
    site: TextId,
    function: TextId,
    stack: StackId,
}

/// The memory of an entry of a map, about.
const ENTRY_BYTES: usize = 160;

impl<'a> Forwards<'a> {
    pub(super) fn new(pickle: &'a Pickle, snapshot: &'a Snapshot, builder: Builder<'a>) -> Self {
        let budget = builder.budget;
        Self {
            pickle,
            snapshot,
            builder,
            budget,
            pools: BTreeMap::new(),
            segments: BTreeMap::new(),
            regions: Vec::new(),
            mapped: Mapped::default(),
            live: BTreeMap::new(),
            stacks: HashMap::new(),
            by_stack: HashMap::new(),
            calls: HashMap::new(),
            roles: Vec::new(),
            left_out: 0,
        }
    }

    pub(super) fn run(mut self, before: &Before) -> Result<Recording> {
        let snapshot = self.snapshot;
        self.regions = before.regions.iter().map(|&region| (region, None)).collect();
        self.mapped = before.mapped.clone();
        for index in 0..self.regions.len() {
            self.resize(index)?;
        }
        for segment in before.segments.values() {
            self.segment_allocated(segment.at, segment.size, segment.pool)?;
        }
        for block in before.blocks.values() {
            self.allocated(block, TextId::NONE, Placement::Existing)?;
        }

        let first = snapshot.entries.first().map_or(0, |entry| entry.time);
        let mut now = 0;
        for (i, entry) in snapshot.entries.iter().enumerate() {
            let time = u64::try_from(entry.time.saturating_sub(first)).unwrap_or(0).saturating_mul(1000);
            if time > now {
                now = time;
                self.builder.push(Event::Time { nanoseconds: now })?;
            }
            self.entry(i, entry, before)?;
        }
        self.finish()?;
        self.builder.recording.header = self.header();
        if self.left_out > 0 {
            self.builder.setting("events that contradict others, left out", self.left_out.to_string());
        }
        Ok(self.builder.recording)
    }

    fn entry(&mut self, i: usize, entry: &Entry, before: &Before) -> Result<()> {
        self.budget.work(1)?;
        let &Entry { at, size, .. } = entry;
        match entry.action {
            Action::Alloc => {
                let occupied = before.occupied.get(&i).copied().filter(|&occupied| occupied >= size);
                let occupied = occupied.unwrap_or_else(|| rounded(size));
                let block = Block {
                    at,
                    size: occupied,
                    requested: size,
                    is_requested_known: true,
                    pending: false,
                    frames: entry.frames,
                };
                let label = self.pickle.text(entry.label).unwrap_or_default();
                let label = self.builder.text(label)?;
                self.allocated(&block, label, Placement::Unknown)?;
            }
            Action::FreeRequested => {
                self.same_size("released", size, self.live.get(&at).map(|live| live.requested))?;
                self.free_requested(at)?;
            }
            Action::FreeCompleted => {
                self.same_size("freed", size, self.live.get(&at).map(|live| live.requested))?;
                self.freed(at)?;
            }
            Action::SegmentAlloc => {
                let pool = before.pools.get(&i).copied();
                self.segment_allocated(at, size, pool.unwrap_or_else(|| pool_of(at.0, entry.stream, size)))?;
            }
            Action::SegmentFree => {
                self.same_size("freed", size, self.segments.get(&at).map(|written| written.size))?;
                self.segment_freed(at)?;
            }
            Action::SegmentMap => {
                self.mapped.insert(at, size);
                self.resize_at(at)?;
            }
            Action::SegmentUnmap => {
                self.mapped.remove(at, size);
                self.resize_at(at)?;
            }
            Action::OutOfMemory => self.builder.push(Event::Refused {
                reason: RefusalReason::OutOfMemory,
                requested: size,
                available: at.1,
                largest_free: 0,
                name: TextId::NONE,
            })?,
            Action::Mark(name) => {
                let label = self.pickle.text(entry.label).or(self.pickle.text(name)).unwrap_or_default();
                self.builder.mark(label)?;
            }
            Action::Other(name) => {
                let name = self.pickle.text(name).unwrap_or_default();
                let what = "actions of a kind that is not known; marks show where";
                self.builder.unread(UnreadKind::NotUnderstood, 1, &format!("{name}: {what}"))?;
                self.builder.mark(name)?;
            }
        }
        Ok(())
    }

    /// Tells where memory has another size than it was allocated with. What does not exist is told elsewhere.
    fn same_size(&mut self, what: &str, stated: u64, known: Option<u64>) -> Result<()> {
        if known.is_none_or(|known| known == stated) {
            return Ok(());
        }
        let text = format!("memory was {what} with another size than it was allocated with");
        self.builder.unread(UnreadKind::Contradicts, 1, &text)
    }

    /// Makes the state the final one, whatever the history said.
    fn finish(&mut self) -> Result<()> {
        let snapshot = self.snapshot;
        let mut wanted: BTreeMap<Address, &Block> = BTreeMap::new();
        self.budget.charge(ENTRY_BYTES * (snapshot.blocks.len() + snapshot.segments.len()))?;
        wanted.extend(snapshot.blocks.iter().map(|block| (block.at, block)));
        let is_wanted = |at: Address, live: &Live| {
            wanted
                .get(&at)
                .is_some_and(|block| block.size == live.occupied && (block.pending || !live.pending))
        };
        let extra: Vec<Address> =
            self.live.iter().filter(|&(&at, live)| !is_wanted(at, live)).map(|(&at, _)| at).collect();
        let segments: BTreeMap<Address, &Segment> = snapshot
            .segments
            .iter()
            .filter(|found| !found.expandable)
            .map(|found| (found.at, found))
            .collect();
        let gone: Vec<Address> = self
            .segments
            .iter()
            .filter(|&(at, written)| segments.get(at).is_none_or(|found| found.size != written.size))
            .map(|(&at, _)| at)
            .collect();
        let mut mapped = Mapped::default();
        for segment in snapshot.segments.iter().filter(|segment| segment.expandable) {
            mapped.insert(segment.at, segment.size);
        }
        let is_other = !extra.is_empty() || !gone.is_empty() || mapped != self.mapped;
        if is_other {
            let what = "the history does not lead to the final state";
            self.builder.mark(&format!("import: {what}; corrected here"))?;
            self.builder.unread(
                UnreadKind::Contradicts,
                1,
                &format!("{what}, and is corrected at its end"),
            )?;
        }
        for at in extra {
            self.freed(at)?;
        }
        for at in gone {
            self.segment_freed(at)?;
        }
        self.mapped = mapped;
        for index in 0..self.regions.len() {
            self.resize(index)?;
        }
        for segment in segments.values() {
            if !self.segments.contains_key(&segment.at) {
                self.segment_allocated(segment.at, segment.size, segment.pool)?;
            }
        }
        for (at, block) in wanted {
            match self.live.get(&at) {
                None => self.allocated(block, TextId::NONE, Placement::Existing)?,
                Some(live) => {
                    let (known, is_released) = (live.requested, live.pending);
                    if block.is_requested_known {
                        self.same_size("kept", block.requested, Some(known))?;
                    }
                    if block.pending && !is_released {
                        self.free_requested(at)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn pool(&mut self, key: PoolKey) -> Result<PoolId> {
        if let Some(&known) = self.pools.get(&key) {
            return Ok(known);
        }
        self.budget.charge(ENTRY_BYTES)?;
        let pool = PoolId(u32::try_from(self.pools.len()).unwrap_or(u32::MAX));
        let PoolKey { device, stream, private, small } = key;
        let size = if small { "small" } else { "large" };
        let private = match private {
            (0, 0) => String::new(),
            (a, b) => format!(", pool ({a}, {b})"),
        };
        let name = self.builder.text(&format!("device {device}, stream {stream}, {size}{private}"))?;
        let custom = !private.is_empty();
        self.builder.push(Event::PoolCreated { pool, name, algorithm: None, custom })?;
        self.pools.insert(key, pool);
        Ok(pool)
    }

    fn block(&mut self, size: u64, key: PoolKey) -> Result<BlockId> {
        let pool = self.pool(key)?;
        let block = self.builder.new_block();
        // A memory type for each device, of which Vulkan and Direct3D 12 have fewer than 256.
        let memory_type = MemoryTypeIndex(u8::try_from(key.device).unwrap_or(u8::MAX));
        self.builder.push(Event::BlockAllocated {
            block,
            pool,
            memory_type,
            kind: BlockKind::Shared,
            size,
        })?;
        Ok(block)
    }

    fn segment_allocated(&mut self, at: Address, size: u64, pool: PoolKey) -> Result<()> {
        let end = at.1.saturating_add(size);
        let before = self.segments.range((at.0, 0)..(at.0, end)).next_back();
        if size == 0 {
            return self.leave_out("import: a segment of no bytes was allocated");
        }
        if before
            .is_some_and(|(&(_, start), written)| start.saturating_add(written.size) > at.1 || start >= at.1)
        {
            return self.leave_out("import: a segment was allocated where one exists");
        }
        self.budget.charge(ENTRY_BYTES)?;
        let block = self.block(size, pool)?;
        self.segments.insert(at, Written { block, size });
        Ok(())
    }

    fn segment_freed(&mut self, at: Address) -> Result<()> {
        let Some(written) = self.segments.get(&at).copied() else {
            return self.leave_out("import: a segment was freed that does not exist");
        };
        // What is still there cannot stay without its segment.
        self.free_all(at, written)?;
        self.segments.remove(&at);
        self.builder.push(Event::BlockFreed { block: written.block })
    }

    fn free_all(&mut self, at: Address, written: Written) -> Result<()> {
        let end = at.1.saturating_add(written.size);
        for at in self.live_between(at, end, |_, live| live.block == written.block)? {
            self.left_out += 1;
            self.freed(at)?;
        }
        Ok(())
    }

    /// Returns the allocations in a range of addresses that are wanted.
    fn live_between(
        &self,
        at: Address,
        end: u64,
        is_wanted: impl Fn(&Address, &Live) -> bool,
    ) -> Result<Vec<Address>> {
        let mut found = Vec::new();
        for (at, live) in self.live.range(at..(at.0, end)) {
            // Each of them: there are many, and memory may be mapped and unmapped under them again and again.
            self.budget.work(1)?;
            if is_wanted(at, live) {
                found.push(*at);
            }
        }
        Ok(found)
    }

    fn region_of(&self, at: Address) -> Option<usize> {
        let next = self.regions.partition_point(|(region, _)| region.at <= at);
        let index = next.checked_sub(1)?;
        let region = &self.regions[index].0;
        (region.at.0 == at.0 && at.1 < region.end).then_some(index)
    }

    fn resize_at(&mut self, at: Address) -> Result<()> {
        match self.region_of(at) {
            Some(index) => self.resize(index),
            None => Ok(()),
        }
    }

    /// Makes the block of an expandable segment as large as what is mapped.
    fn resize(&mut self, index: usize) -> Result<()> {
        let (region, written) = self.regions[index];
        let size = self.mapped.top(&region).map_or(0, |top| top - region.at.1);
        match written {
            None if size == 0 => {}
            None => {
                let block = self.block(size, region.pool)?;
                self.regions[index].1 = Some(Written { block, size });
            }
            Some(written) if written.size == size => {}
            Some(written) => {
                if size < written.size {
                    // Memory is never taken from under an allocation.
                    let from = Written { size: written.size - size, ..written };
                    self.free_ending_after(region.at, size, written)?;
                    self.free_all((region.at.0, region.at.1 + size), from)?;
                }
                if size == 0 {
                    self.builder.push(Event::BlockFreed { block: written.block })?;
                    self.regions[index].1 = None;
                } else {
                    self.builder.push(Event::BlockResized { block: written.block, size })?;
                    self.regions[index].1 = Some(Written { size, ..written });
                }
            }
        }
        Ok(())
    }

    /// Frees allocations that begin before a size and end after it.
    fn free_ending_after(&mut self, at: Address, size: u64, written: Written) -> Result<()> {
        let cut = at.1 + size;
        let is_over = |at: &Address, live: &Live| live.block == written.block && at.1 + live.occupied > cut;
        for at in self.live_between(at, cut, is_over)? {
            self.left_out += 1;
            self.freed(at)?;
        }
        Ok(())
    }

    fn allocated(&mut self, block: &Block, label: TextId, placement: Placement) -> Result<()> {
        let at = block.at;
        if self.live.contains_key(&at) {
            return self.leave_out("import: memory was allocated that is allocated");
        }
        let segment = self.segments.range(..=at).next_back();
        let segment = segment
            .filter(|&(&(device, start), written)| device == at.0 && at.1 - start < written.size)
            .map(|(&(_, start), written)| (start, *written));
        let segment = segment.or_else(|| {
            let (region, written) = self.regions[self.region_of(at)?];
            written.map(|written| (region.at.1, written))
        });
        let Some((start, written)) = segment else {
            return self.leave_out("import: memory was allocated outside all segments");
        };
        let offset = at.1 - start;
        // What a block has beyond the request is not always known exactly, but never beyond its segment. One of no bytes
        // is not in its segment either where the segment has been unmapped up to there.
        let occupied = written.size.checked_sub(offset).map(|room| block.size.min(room));
        let Some(occupied) = occupied.filter(|&occupied| block.requested <= occupied) else {
            return self.leave_out("import: memory was allocated beyond its segment");
        };
        let Stack { site, function, stack } = self.stack(block.frames)?;
        self.budget.charge(ENTRY_BYTES)?;
        let allocation = self.builder.new_allocation();
        self.builder.push(Event::Allocated(Allocated {
            allocation,
            block: written.block,
            offset,
            requested: block.requested,
            occupied,
            user_data: at.1,
            name: function,
            category: label,
            alignment: Alignment::ONE,
            usage: None,
            kind: ResourceKind::Buffer,
            placement,
            second_choice: false,
            movable: false,
        }))?;
        if !site.is_none() {
            self.builder.push(Event::CallSite { allocation, site })?;
        }
        if !stack.is_none() {
            self.builder.push(Event::Stack { allocation, stack })?;
        }
        let is_pending = block.pending;
        let (block, requested) = (written.block, block.requested);
        self.live.insert(at, Live { allocation, block, requested, occupied, pending: false });
        if is_pending { self.free_requested(at) } else { Ok(()) }
    }

    /// Adds a stack, and finds the call that says where its memory comes from: that is its call site. The innermost call of
    /// Python is the name, which says what a line of the program did: `layer_norm`.
    fn stack(&mut self, frames: Value) -> Result<Stack> {
        let Some(index) = self.pickle.identity(frames) else { return Ok(Stack::default()) };
        if let Some(&known) = self.stacks.get(&index) {
            return Ok(known);
        }
        let pickle = self.pickle;
        let frames = pickle.list(frames).unwrap_or_default();
        let frames = &frames[..frames.len().min(Stacks::MAX_DEPTH)];
        let (mut stack, mut name) = (StackId::NONE, TextId::NONE);
        for &frame in frames.iter().rev() {
            let Call { function, place, role, is_python } = self.call(frame)?;
            stack = self.builder.stack(StackFrame { parent: stack, function, place })?;
            // As many as there are stacks. One that is cut says what its last call says.
            self.roles.resize(self.builder.recording.stacks.len(), role);
            if is_python && role != CallRole::Machinery {
                name = function;
            }
        }
        let known = match self.by_stack.get(&stack) {
            Some(&known) => known,
            None => {
                let known = self.told(stack, name)?;
                self.budget.charge(ENTRY_BYTES)?;
                self.by_stack.insert(stack, known);
                known
            }
        };
        self.budget.charge(ENTRY_BYTES)?;
        self.stacks.insert(index, known);
        Ok(known)
    }

    /// Returns what a stack says. `name` is that of its innermost call of Python.
    fn told(&mut self, stack: StackId, name: TextId) -> Result<Stack> {
        let role = |call: StackId| self.roles[call.0 as usize - 1];
        let recording = &self.builder.recording;
        let telling = recording.stacks.telling(stack, role).and_then(|call| recording.stacks.frame(call));
        let Some(&StackFrame { function, place, .. }) = telling else { return Ok(Stack::default()) };
        let function = recording.text(function).map(short_function).unwrap_or_default().to_owned();
        // A file without a line says less than the function.
        let has_line = recording.text(place).is_some_and(|place| place.contains(':'));
        let site = if has_line { place } else { self.builder.text(&function)? };
        let function = if name.is_none() { self.builder.text(&function)? } else { name };
        Ok(Stack { site, function, stack })
    }

    /// Returns a call of a stack: a dictionary that most stacks share.
    fn call(&mut self, frame: Value) -> Result<Call> {
        self.budget.work(1)?;
        let Value::Dict(index) = frame else { return Ok(Call::default()) };
        if let Some(&known) = self.calls.get(&index) {
            return Ok(known);
        }
        let (file, line, function) = call(self.pickle, frame, self.budget)?;
        // Of most functions of C++ the file is not known, and of none the line.
        let place = match (file, line) {
            ("" | "??", _) => String::new(),
            (file, 0) => file.to_owned(),
            (file, line) => format!("{file}:{line}"),
        };
        let role = CallRole::of(function, &place);
        let (function, place) = (self.builder.text(function)?, self.builder.text(&place)?);
        let known = Call { function, place, role, is_python: file.ends_with(".py") };
        self.budget.charge(ENTRY_BYTES)?;
        self.calls.insert(index, known);
        Ok(known)
    }

    fn free_requested(&mut self, at: Address) -> Result<()> {
        let Some(live) = self.live.get_mut(&at) else {
            return self.leave_out("import: memory was released that is not allocated");
        };
        live.pending = true;
        let allocation = live.allocation;
        self.builder.push(Event::FreeRequested { allocation })
    }

    fn freed(&mut self, at: Address) -> Result<()> {
        let Some(live) = self.live.remove(&at) else {
            return self.leave_out("import: memory was freed that is not allocated");
        };
        self.budget.refund(ENTRY_BYTES);
        self.builder.push(Event::Freed { allocation: live.allocation })
    }

    fn leave_out(&mut self, why: &str) -> Result<()> {
        self.left_out += 1;
        self.builder.leave_out(why)
    }

    fn header(&self) -> Header {
        let devices = self.pools.keys().map(|key| key.device).max().map_or(0, |most| usize::from(most) + 1);
        let devices = usize::min(devices, usize::from(u8::MAX));
        Header {
            producer: "a PyTorch memory snapshot".to_owned(),
            api: Api::Cuda,
            library: Library::PyTorch,
            extent: if self.snapshot.entries.is_empty() { Extent::Moment } else { Extent::History },
            heaps: vec![Heap { size: 0, device_local: true }; devices],
            memory_types: (0..devices).map(|heap| MemoryType { heap: heap as u8, properties: 1 }).collect(),
            buffer_image_granularity: 1,
            non_coherent_atom_size: 1,
            ..Header::default()
        }
    }
}
