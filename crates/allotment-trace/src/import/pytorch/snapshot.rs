//! The dictionaries of a snapshot as structures: its segments, its blocks, its entries.

use std::collections::HashMap;

use super::super::ImportErrorKind;
use super::super::builder::{Builder, cut};
use super::super::limits::Budget;
use super::pickle::{Pickle, Value};
use crate::recording::UnreadKind;

/// An address on a device: what identifies segments and blocks.
pub(super) type Address = (u16, u64);

/// A snapshot.
#[derive(Default)]
pub(super) struct Snapshot {
    pub(super) segments: Vec<Segment>,
    pub(super) blocks: Vec<Block>,
    /// In the order of time, of all devices.
    pub(super) entries: Vec<Entry>,
}

/// Which pool of PyTorch's allocator has a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PoolKey {
    pub(super) device: u16,
    pub(super) stream: i64,
    /// Both zero for the pools that every program has.
    pub(super) private: (i64, i64),
    pub(super) small: bool,
}

/// Memory that PyTorch allocated from the driver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) at: Address,
    pub(super) size: u64,
    pub(super) pool: PoolKey,
    pub(super) expandable: bool,
}

/// An allocation at the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) at: Address,
    pub(super) size: u64,
    pub(super) requested: u64,
    /// The file has the requested bytes: old versions do not.
    pub(super) is_requested_known: bool,
    /// It was released, and a stream still uses it.
    pub(super) pending: bool,
    pub(super) frames: Value,
}

/// Something that happened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) action: Action,
    pub(super) at: Address,
    pub(super) size: u64,
    pub(super) stream: i64,
    /// Microseconds, on a clock of its own; 0 where it is not known.
    pub(super) time: i64,
    pub(super) frames: Value,
    /// The program's own text.
    pub(super) label: Value,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Action {
    Alloc,
    FreeRequested,
    FreeCompleted,
    SegmentAlloc,
    SegmentFree,
    SegmentMap,
    SegmentUnmap,
    /// The driver refused memory. The address is the bytes that were free.
    OutOfMemory,
    /// One that is about no memory: a snapshot was taken, or the program's own.
    Mark(Value),
    /// Another one, by its name.
    Other(Value),
}

/// PyTorch allocates segments of this size for small blocks, in bytes, and none of this size for others.
const SMALL_SEGMENT: u64 = 2 << 20;

/// A kind of dictionary, and the keys that it has in some version of PyTorch.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Snapshot,
    Segment,
    Block,
    Entry,
}

impl Part {
    const fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "the snapshot",
            Self::Segment => "a segment",
            Self::Block => "a block",
            Self::Entry => "an entry of the history",
        }
    }

    /// Also those that are not kept: what a program set, how a graph was compiled.
    const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Snapshot => &["segments", "device_traces", "allocator_settings", "external_annotations"],
            Self::Segment => &[
                "device",
                "address",
                "total_size",
                "allocated_size",
                "active_size",
                "requested_size",
                "stream",
                "segment_type",
                "segment_pool_id",
                "is_expandable",
                "registration_counter",
                "frames",
                "blocks",
            ],
            Self::Block => {
                &["address", "size", "requested_size", "state", "frames", "history", "user_metadata"]
            }
            Self::Entry => &[
                "action",
                "addr",
                "device_free",
                "size",
                "stream",
                "time_us",
                "frames",
                "compile_context",
                "user_metadata",
                "segment_pool_id",
                "pool_id",
                "category",
            ],
        }
    }
}

/// Reads the dictionaries, and says what of them was not understood.
struct Parser<'a, 'b> {
    pickle: &'a Pickle,
    budget: &'a Budget,
    builder: &'a mut Builder<'b>,
    /// By the number of their keys: the dictionaries of each kind that have others.
    unknown: HashMap<(Part, u32), bool>,
}

impl Parser<'_, '_> {
    fn not_understood(&mut self, text: &str) -> Result<(), ImportErrorKind> {
        self.builder.unread(UnreadKind::NotUnderstood, 1, text)
    }

    /// Counts the work of a dictionary, and tells the keys that no version of PyTorch writes.
    fn look_at(&mut self, dict: Value, part: Part) -> Result<(), ImportErrorKind> {
        let pickle = self.pickle;
        pickle.look_at(dict, self.budget)?;
        let Some((shape, keys)) = pickle.keys(dict) else {
            return self.not_understood(&format!("{} is no dictionary", part.name()));
        };
        let mut has_unknown = false;
        if self.unknown.get(&(part, shape)) != Some(&false) {
            for key in keys.filter(|key| !part.keys().contains(key)) {
                has_unknown = true;
                self.builder.unread(
                    UnreadKind::NotUnderstood,
                    1,
                    &format!("`{}` of {} is a key that is not known", cut(key), part.name()),
                )?;
            }
            self.budget.charge(64)?;
            self.unknown.insert((part, shape), has_unknown);
        }
        Ok(())
    }

    /// Returns a number of a dictionary; `None` where it has none. What is no number is told.
    fn int(&mut self, dict: Value, part: Part, key: &str) -> Result<Option<i64>, ImportErrorKind> {
        match self.pickle.get(dict, key) {
            None | Some(Value::None) => Ok(None),
            Some(value) => {
                let number = self.pickle.int(value);
                if number.is_none() {
                    self.not_understood(&format!("`{key}` of {} is no number", part.name()))?;
                }
                Ok(number)
            }
        }
    }

    /// Returns a size or an address of a dictionary, as [`int`](Self::int). What is negative is told.
    fn unsigned(&mut self, dict: Value, part: Part, key: &str) -> Result<Option<u64>, ImportErrorKind> {
        let Some(number) = self.int(dict, part, key)? else { return Ok(None) };
        let unsigned = u64::try_from(number).ok();
        if unsigned.is_none() {
            self.not_understood(&format!("`{key}` of {} is negative", part.name()))?;
        }
        Ok(unsigned)
    }
}

impl Snapshot {
    pub(super) fn parse(
        pickle: &Pickle,
        budget: &Budget,
        builder: &mut Builder<'_>,
    ) -> Result<Self, ImportErrorKind> {
        let root = pickle.root;
        let mut snapshot = Self::default();
        let mut parser = Parser { pickle, budget, builder, unknown: HashMap::new() };
        let missing = ImportErrorKind::NotASnapshot { what: "it has no list of segments" };
        // Old versions wrote the list alone.
        let segments = pickle.get(root, "segments").unwrap_or(root);
        for &segment in pickle.list(segments).ok_or(missing)? {
            snapshot.segment(&mut parser, segment)?;
        }
        if pickle.list(root).is_none() {
            parser.look_at(root, Part::Snapshot)?;
        }
        let traces = pickle.get(root, "device_traces");
        if traces.is_some_and(|traces| traces != Value::None && pickle.list(traces).is_none()) {
            parser.not_understood("`device_traces` is no list")?;
        }
        let traces = traces.and_then(|traces| pickle.list(traces)).unwrap_or_default();
        let mut timed = true;
        for (device, &trace) in traces.iter().enumerate() {
            let device =
                u16::try_from(device).map_err(|_| damaged("it has more devices than any machine"))?;
            budget.work(1)?;
            let Some(trace) = pickle.list(trace) else {
                parser.not_understood("the history of a device is no list")?;
                continue;
            };
            for &entry in trace {
                budget.charge(3 * size_of::<Entry>())?;
                parser.look_at(entry, Part::Entry)?;
                let entry = parse_entry(&mut parser, device, entry)?;
                timed &= entry.time != 0;
                snapshot.entries.push(entry);
            }
        }
        if timed && traces.len() > 1 {
            snapshot.merge();
        }
        Ok(snapshot)
    }

    /// Orders the entries of several devices by their times, and keeps the order of each device: its clock may have
    /// gone back.
    fn merge(&mut self) {
        let mut device = u16::MAX;
        let mut latest = i64::MIN;
        for entry in &mut self.entries {
            if entry.at.0 != device {
                (device, latest) = (entry.at.0, i64::MIN);
            }
            latest = latest.max(entry.time);
            entry.time = latest;
        }
        self.entries.sort_by_key(|entry| entry.time);
    }

    fn segment(&mut self, parser: &mut Parser<'_, '_>, segment: Value) -> Result<(), ImportErrorKind> {
        let (pickle, budget, part) = (parser.pickle, parser.budget, Part::Segment);
        parser.look_at(segment, part)?;
        let (Some(address), Some(size)) =
            (parser.unsigned(segment, part, "address")?, parser.unsigned(segment, part, "total_size")?)
        else {
            return Err(damaged("a segment has no address or no size"));
        };
        let device = u16::try_from(parser.int(segment, part, "device")?.unwrap_or(0))
            .map_err(|_| damaged("a segment's device is no number of a device"))?;
        let kind = pickle.get(segment, "segment_type").and_then(|value| pickle.text(value));
        if !matches!(kind, None | Some("small" | "large")) {
            parser.not_understood("`segment_type` of a segment is neither small nor large")?;
        }
        let small = kind.map_or(size == SMALL_SEGMENT, |kind| kind == "small");
        let private = pickle.get(segment, "segment_pool_id").and_then(|id| pickle.list(id));
        let private = match private {
            Some(&[a, b]) => (pickle.int(a).unwrap_or(0), pickle.int(b).unwrap_or(0)),
            _ => (0, 0),
        };
        let expandable = parser.int(segment, part, "is_expandable")? == Some(1);
        let stream = parser.int(segment, part, "stream")?.unwrap_or(0);
        let pool = PoolKey { device, stream, private, small };
        budget.charge(3 * size_of::<Segment>())?;
        self.segments.push(Segment { at: (device, address), size, pool, expandable });

        let blocks = pickle.get(segment, "blocks");
        let Some(blocks) = blocks.and_then(|blocks| pickle.list(blocks)) else {
            return parser.not_understood("a segment has no list of blocks");
        };
        let (mut total, mut allocated, mut active, mut requested) = (0_u64, 0_u64, 0_u64, Some(0_u64));
        // Old versions have no addresses of blocks: they follow each other.
        let mut next = address;
        for &block in blocks {
            let index = self.blocks.len();
            let (state, bytes) = self.block(parser, block, device, &mut next)?;
            total = total.saturating_add(bytes);
            match state {
                BlockState::Inactive => continue,
                BlockState::Allocated => allocated = allocated.saturating_add(bytes),
                BlockState::Pending => {}
            }
            active = active.saturating_add(bytes);
            let last = &self.blocks[index];
            requested = match requested {
                Some(sum) if last.is_requested_known => sum.checked_add(last.requested),
                _ => None,
            };
        }
        // The sums that the file states itself.
        for (key, read) in [
            ("total_size", Some(total)),
            ("allocated_size", Some(allocated)),
            ("active_size", Some(active)),
            ("requested_size", requested),
        ] {
            let stated = parser.unsigned(segment, part, key)?;
            if let (Some(stated), Some(read)) = (stated, read) {
                parser.builder.differ(key, &format!("of the segment at {address:#x}"), stated, read)?;
            }
        }
        Ok(())
    }

    /// Reads a block that begins where the one before ended, and returns its state and its bytes.
    fn block(
        &mut self,
        parser: &mut Parser<'_, '_>,
        block: Value,
        device: u16,
        next: &mut u64,
    ) -> Result<(BlockState, u64), ImportErrorKind> {
        let (pickle, part) = (parser.pickle, Part::Block);
        parser.look_at(block, part)?;
        let size = parser.unsigned(block, part, "size")?.ok_or(damaged("a block has no size"))?;
        let at = parser.unsigned(block, part, "address")?.unwrap_or(*next);
        if at != *next {
            let text = format!("a block begins at {at:#x}, and the one before it ends at {next:#x}");
            parser.builder.unread(UnreadKind::Contradicts, 1, &text)?;
        }
        *next = at.checked_add(size).ok_or(damaged("a block reaches beyond all addresses"))?;
        let name = pickle.get(block, "state").and_then(|state| pickle.text(state)).unwrap_or_default();
        let state = match name {
            "active_allocated" => BlockState::Allocated,
            // The name changed over the versions.
            "active_pending_free" | "active_awaiting_free" => BlockState::Pending,
            "inactive" => BlockState::Inactive,
            other => {
                let text = format!("{}: a state of blocks that is not known", cut(other));
                parser.not_understood(&text)?;
                if other.starts_with("active_") { BlockState::Pending } else { BlockState::Inactive }
            }
        };
        let stated = parser.unsigned(block, part, "requested_size")?;
        if state == BlockState::Inactive {
            return Ok((state, size));
        }
        if stated.is_some_and(|stated| stated > size) {
            let text = format!("the block at {at:#x} is smaller than what was requested");
            parser.builder.unread(UnreadKind::Contradicts, 1, &text)?;
        }
        let requested = stated.filter(|&bytes| bytes <= size);
        // Old versions have a list of what was allocated here; the last is the one that is there now.
        let frames = pickle.get(block, "frames").or_else(|| {
            let history = pickle.list(pickle.get(block, "history")?)?;
            pickle.get(*history.last()?, "frames")
        });
        parser.budget.charge(3 * size_of::<Block>())?;
        self.blocks.push(Block {
            at: (device, at),
            size,
            requested: requested.unwrap_or(size),
            is_requested_known: requested.is_some(),
            pending: state == BlockState::Pending,
            frames: frames.unwrap_or(Value::None),
        });
        Ok((state, size))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockState {
    Inactive,
    Allocated,
    /// It was released, and a stream still uses it.
    Pending,
}

fn parse_entry(parser: &mut Parser<'_, '_>, device: u16, entry: Value) -> Result<Entry, ImportErrorKind> {
    let (pickle, part) = (parser.pickle, Part::Entry);
    let get = |name: &str| pickle.get(entry, name);
    let name = get("action").ok_or(damaged("an entry has no action"))?;
    let action = match pickle.text(name).ok_or(damaged("an entry's action is no text"))? {
        "alloc" => Action::Alloc,
        "free_requested" | "free" => Action::FreeRequested,
        "free_completed" => Action::FreeCompleted,
        "segment_alloc" => Action::SegmentAlloc,
        "segment_free" => Action::SegmentFree,
        "segment_map" => Action::SegmentMap,
        "segment_unmap" => Action::SegmentUnmap,
        "oom" => Action::OutOfMemory,
        "snapshot" | "user_defined" => Action::Mark(name),
        _ => Action::Other(name),
    };
    // The address of a refusal is the bytes that the device had left; newer versions call it by that name.
    let address = match parser.unsigned(entry, part, "addr")? {
        None => parser.unsigned(entry, part, "device_free")?,
        found => found,
    };
    let size = parser.unsigned(entry, part, "size")?;
    let is_mark = matches!(action, Action::Mark(_) | Action::Other(_));
    if !is_mark && (address.is_none() || size.is_none()) {
        return Err(damaged("an entry has no address or no size"));
    }
    let label = get("user_metadata").filter(|&text| pickle.text(text).is_some_and(|text| !text.is_empty()));
    Ok(Entry {
        action,
        at: (device, address.unwrap_or(0)),
        size: size.unwrap_or(0),
        stream: parser.int(entry, part, "stream")?.unwrap_or(0),
        time: parser.int(entry, part, "time_us")?.unwrap_or(0),
        frames: get("frames").unwrap_or(Value::None),
        label: label.unwrap_or(Value::None),
    })
}

const fn damaged(what: &'static str) -> ImportErrorKind {
    ImportErrorKind::NotASnapshot { what }
}

/// The file, the line and the function of a call of a stack.
pub(super) fn call<'p>(
    pickle: &'p Pickle,
    frame: Value,
    budget: &Budget,
) -> Result<(&'p str, i64, &'p str), ImportErrorKind> {
    pickle.look_at(frame, budget)?;
    let text = |name: &str| pickle.get(frame, name).and_then(|text| pickle.text(text)).map(cut);
    let line = pickle.get(frame, "line").and_then(|line| pickle.int(line)).unwrap_or(0);
    let (file, function) = (text("filename").unwrap_or_default(), text("name").unwrap_or_default());
    budget.look_at(file)?;
    budget.look_at(function)?;
    Ok((file, line, function))
}
