//! The dictionaries of a snapshot as structures: its segments, its blocks, its entries.

use super::super::limits::Budget;
use super::super::{ImportErrorKind, builder::cut};
use super::pickle::{Pickle, Value};

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
    /// Another one, by its name.
    Other(Value),
}

/// PyTorch allocates segments of this size for small blocks, in bytes, and none of this size for others.
const SMALL_SEGMENT: u64 = 2 << 20;

impl Snapshot {
    pub(super) fn parse(pickle: &Pickle, budget: &Budget) -> Result<Self, ImportErrorKind> {
        let root = pickle.root;
        let mut snapshot = Self::default();
        let missing = ImportErrorKind::NotASnapshot { what: "it has no list of segments" };
        // Old versions wrote the list alone.
        let segments = pickle.get(root, "segments").unwrap_or(root);
        for &segment in pickle.list(segments).ok_or(missing)? {
            snapshot.segment(pickle, segment, budget)?;
        }
        let traces = pickle.get(root, "device_traces").and_then(|traces| pickle.list(traces));
        let traces = traces.unwrap_or_default();
        let mut timed = true;
        for (device, &trace) in traces.iter().enumerate() {
            let device =
                u16::try_from(device).map_err(|_| damaged("it has more devices than any machine"))?;
            budget.work(1)?;
            for &entry in pickle.list(trace).unwrap_or_default() {
                budget.charge(3 * size_of::<Entry>())?;
                pickle.look_at(entry, budget)?;
                let entry = parse_entry(pickle, device, entry)?;
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

    fn segment(&mut self, pickle: &Pickle, segment: Value, budget: &Budget) -> Result<(), ImportErrorKind> {
        pickle.look_at(segment, budget)?;
        let int = |name: &str| pickle.get(segment, name).and_then(|value| pickle.int(value));
        let unsigned = |name: &str| int(name).and_then(|value| u64::try_from(value).ok());
        let (Some(address), Some(size)) = (unsigned("address"), unsigned("total_size")) else {
            return Err(damaged("a segment has no address or no size"));
        };
        let device = u16::try_from(int("device").unwrap_or(0))
            .map_err(|_| damaged("a segment's device is no number of a device"))?;
        let kind = pickle.get(segment, "segment_type").and_then(|value| pickle.text(value));
        let small = kind.map_or(size == SMALL_SEGMENT, |kind| kind == "small");
        let private = pickle.get(segment, "segment_pool_id").and_then(|id| pickle.list(id));
        let private = match private {
            Some(&[a, b]) => (pickle.int(a).unwrap_or(0), pickle.int(b).unwrap_or(0)),
            _ => (0, 0),
        };
        let expandable = int("is_expandable") == Some(1);
        let pool = PoolKey { device, stream: int("stream").unwrap_or(0), private, small };
        budget.charge(3 * size_of::<Segment>())?;
        self.segments.push(Segment { at: (device, address), size, pool, expandable });

        let blocks = pickle.get(segment, "blocks").and_then(|blocks| pickle.list(blocks)).unwrap_or_default();
        // Old versions have no addresses of blocks: they follow each other.
        let mut next = address;
        for &block in blocks {
            pickle.look_at(block, budget)?;
            let int = |name: &str| pickle.get(block, name).and_then(|value| pickle.int(value));
            let unsigned = |name: &str| int(name).and_then(|value| u64::try_from(value).ok());
            let size = unsigned("size").ok_or(damaged("a block has no size"))?;
            let at = unsigned("address").unwrap_or(next);
            next = at.checked_add(size).ok_or(damaged("a block reaches beyond all addresses"))?;
            let state = pickle.get(block, "state").and_then(|state| pickle.text(state)).unwrap_or_default();
            let Some(state) = state.strip_prefix("active_") else { continue };
            // Of the states, only "active_allocated" is not a released one: its name changed over the versions.
            let pending = state != "allocated";
            let requested = unsigned("requested_size").filter(|&bytes| bytes <= size).unwrap_or(size);
            // Old versions have a list of what was allocated here; the last is the one that is there now.
            let frames = pickle.get(block, "frames").or_else(|| {
                let history = pickle.list(pickle.get(block, "history")?)?;
                pickle.get(*history.last()?, "frames")
            });
            budget.charge(3 * size_of::<Block>())?;
            let frames = frames.unwrap_or(Value::None);
            self.blocks.push(Block { at: (device, at), size, requested, pending, frames });
        }
        Ok(())
    }
}

fn parse_entry(pickle: &Pickle, device: u16, entry: Value) -> Result<Entry, ImportErrorKind> {
    let get = |name: &str| pickle.get(entry, name);
    let int = |name: &str| get(name).and_then(|value| pickle.int(value));
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
        _ => Action::Other(name),
    };
    // The address of a refusal is the bytes that the device had left; newer versions call it by that name.
    let address = int("addr").or_else(|| int("device_free")).unwrap_or(0);
    let unsigned = |value: i64| u64::try_from(value).ok();
    let (Some(address), Some(size)) = (unsigned(address), unsigned(int("size").unwrap_or(0))) else {
        return Err(damaged("an entry's address or size is negative"));
    };
    let label = get("user_metadata").filter(|&text| pickle.text(text).is_some_and(|text| !text.is_empty()));
    Ok(Entry {
        action,
        at: (device, address),
        size,
        stream: int("stream").unwrap_or(0),
        time: int("time_us").unwrap_or(0),
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
