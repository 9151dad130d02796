//! Suggestions from a recording, each with the numbers behind it.

mod sentences;

use core::cmp::Reverse;
use core::fmt;
use std::collections::BTreeMap;

use allotment::Algorithm;
use allotment_trace::recording::{
    BlockId, BlockKind, Event, Extent, Library, Moment, RefusalReason, StallKind, TextId,
};

use crate::block_bytes::BlockBytes;
use crate::cursor::Cursor;
use crate::descriptors::DescriptorOccupancy;
use crate::fragmentation::Holes;
use crate::grouping::Grouping;
use crate::groups::{AllocationGroups, CommonName};
use crate::leaks::Leaks;
use crate::release_latency::ReleaseLatency;
use crate::timeline::{AllocationIndex, BlockIndex, Timeline};

pub use sentences::Bytes;
use sentences::Known;

/// Thresholds below which nothing is suggested. The default values suit most programs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdviceThresholds {
    /// Frames for which a block is empty.
    pub empty_frames: u64,
    /// The share of the bytes of all blocks that empty blocks have; or of the number of all, where 16 or more are empty.
    pub empty_share: f64,
    /// The share of the occupied bytes that rounding wastes.
    pub rounding: f64,
    /// The fragmentation of a pool's free memory, as [`Holes::fragmentation`] says.
    pub fragmentation: f64,
    /// Bytes below which a pool or a block is not worth a word.
    pub bytes: u64,
    /// Frames that most releases wait for.
    pub release_frames: u64,
    /// The share of allocations that are freed in the frame in which they were made.
    pub short_lived: f64,
    /// The share of the recorded time that threads waited.
    pub stalled: f64,
    /// Nanoseconds of a single stall that are worth a word, however long the recording is.
    pub stall_nanoseconds: u64,
    /// The share of a descriptor heap that is allocated.
    pub descriptors: f64,
}

impl Default for AdviceThresholds {
    fn default() -> Self {
        Self {
            // Ten seconds at 60 frames a second: longer than most pauses of a game.
            empty_frames: 600,
            // Four times the sixteenth of the peak usage that the default policy keeps.
            empty_share: 0.25,
            rounding: 0.15,
            fragmentation: 0.5,
            bytes: 1 << 20,
            // Three frames in flight, and one.
            release_frames: 4,
            short_lived: 0.5,
            // 0.17 ms of each frame, at 60 frames a second.
            stalled: 0.01,
            // An eighth of such a frame: a frame that was nearly full misses its time.
            stall_nanoseconds: 2_000_000,
            descriptors: 0.9,
        }
    }
}

/// A suggestion, with the numbers behind it. [`Display`](fmt::Display) makes a sentence of it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Advice {
    /// A block is empty and was not freed.
    EmptyBlock {
        /// The block.
        block: BlockId,
        /// Its bytes.
        size: u64,
        /// When it became empty.
        since: Moment,
        /// Frames since then.
        frames: u64,
    },
    /// Much of all memory is in empty blocks. Stands for the [`EmptyBlock`](Self::EmptyBlock)s of the moment.
    EmptyBlocks {
        /// How many blocks are empty.
        count: u64,
        /// How many blocks there are.
        blocks: u64,
        /// Bytes of the empty ones.
        size: u64,
        /// Bytes of all.
        all: u64,
        /// Frames since the first of them became empty.
        frames: u64,
    },
    /// Allocations occupy more than was requested.
    Rounding {
        /// The pool's name, or which default pool.
        pool: String,
        /// Its algorithm, where it is known.
        algorithm: Option<Algorithm>,
        /// Bytes that no allocation requested.
        wasted: u64,
        /// Their share of the occupied bytes, from 0 to 1.
        share: f64,
    },
    /// The free memory of a pool is in many holes.
    Fragmented {
        /// The pool's name, or which default pool.
        pool: String,
        /// Free bytes in blocks that are not empty.
        free: u64,
        /// The largest hole.
        largest: u64,
        /// How many holes there are.
        holes: u64,
        /// Blocks that would be empty if the rest held their allocations, by bytes alone.
        blocks: u64,
        /// The call site of most of the allocations between the holes; empty where it is not known.
        site: String,
        /// How many of them are made there, and how many there are.
        of_site: [u64; 2],
    },
    /// A group of allocations grows and is not freed.
    Leak {
        /// Where they are allocated.
        site: String,
        /// How many exist.
        count: u64,
        /// Bytes that were requested for them.
        bytes: u64,
        /// How many come a frame.
        per_frame: f64,
    },
    /// The process used more of a heap than the driver advises.
    OverBudget {
        /// The heap.
        heap: u8,
        /// The most bytes beyond the budget.
        bytes: u64,
        /// When.
        moment: Moment,
    },
    /// Requests were refused.
    Refused {
        /// Why.
        reason: RefusalReason,
        /// How many.
        count: u64,
        /// The largest.
        largest: u64,
    },
    /// Threads waited.
    Stalled {
        /// What for.
        kind: StallKind,
        /// How often.
        count: u64,
        /// Nanoseconds in all.
        total: u64,
        /// Nanoseconds of the longest.
        longest: u64,
    },
    /// Allocations got a memory type that suits less.
    SecondChoice {
        /// How many that exist.
        count: u64,
        /// Bytes that were requested for them.
        bytes: u64,
        /// Which of them are most.
        most: Option<Commonest>,
    },
    /// Released memory waits long for the GPU.
    SlowRelease {
        /// Frames within which half of the releases completed.
        median: u64,
        /// Frames that the slowest waited.
        longest: u64,
        /// Bytes that wait now.
        pending: u64,
    },
    /// Many allocations live for less than a frame.
    ShortLived {
        /// Those that were freed or released in the frame in which they were made.
        count: u64,
        /// Their share of all, from 0 to 1.
        share: f64,
        /// How many a frame.
        per_frame: f64,
        /// Which of them are most.
        most: Option<Commonest>,
    },
    /// Blocks are allocated and freed again and again.
    BlockChurn {
        /// Shared blocks that were allocated, without those that exist.
        freed: u64,
        /// The most shared blocks at once, as far as the last state says.
        live: u64,
        /// Frames between two allocations of blocks, on average.
        frames: f64,
    },
    /// The driver's limit of memory objects is near.
    ManyBlocks {
        /// Blocks.
        count: u64,
        /// The most that the driver allows.
        limit: u64,
    },
    /// A descriptor heap is nearly full.
    DescriptorHeapFull {
        /// Its name.
        heap: String,
        /// How full it is.
        occupancy: DescriptorOccupancy,
    },
}

/// The largest group of the allocations that a suggestion is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commonest {
    /// How many it has.
    pub count: u64,
    /// Where they are allocated. Empty where that is not known.
    pub site: String,
    /// The name that most of them have.
    pub name: CommonName,
    /// The category, where they have neither a call site nor a name. Else empty.
    pub category: String,
}

impl Commonest {
    /// Returns the group with the most allocations; `None` where nothing is known of any.
    fn of(timeline: &Timeline<'_>, allocations: &[AllocationIndex]) -> Option<Self> {
        let largest = |grouping| {
            let groups = AllocationGroups::of(timeline, grouping, allocations.iter().copied()).groups;
            // The first of the largest: of those with the most bytes.
            groups.into_iter().filter(|group| !group.key.is_empty()).rev().max_by_key(|group| group.count)
        };
        if let Some(group) = largest(Grouping::CallSite) {
            // A group of allocations without a call site is one of a name.
            let site = group.examples.first().map_or(TextId::NONE, |&one| timeline.texts(one).call_site);
            let site = timeline.recording().text(site).unwrap_or("").to_owned();
            return Some(Self { count: group.count, site, name: group.name, category: String::new() });
        }
        let group = largest(Grouping::Category)?;
        Some(Self {
            count: group.count,
            site: String::new(),
            name: CommonName::default(),
            category: group.key,
        })
    }
}

/// Returns what a recording suggests where a cursor is, what costs most bytes first.
///
/// Costs one walk over all allocations and over those that exist.
///
/// ```
/// use allotment_analyze::{AdviceThresholds, Cursor, Timeline, advice};
/// use allotment_trace::recording::Recording;
///
/// let recording = Recording::default();
/// let timeline = Timeline::new(&recording);
/// let cursor = Cursor::at(&timeline, timeline.end());
/// assert!(advice(&cursor, &AdviceThresholds::default()).is_empty());
/// ```
#[must_use]
pub fn advice(cursor: &Cursor<'_, '_>, thresholds: &AdviceThresholds) -> Vec<Advice> {
    let mut found = Vec::new();
    empty_blocks(cursor, thresholds, &mut found);
    pools(cursor, thresholds, &mut found);
    leaks(cursor, &mut found);
    budgets(cursor, &mut found);
    refusals_and_stalls(cursor, thresholds, &mut found);
    second_choices(cursor, thresholds, &mut found);
    lifetimes(cursor, thresholds, &mut found);
    blocks(cursor, &mut found);
    descriptors(cursor, thresholds, &mut found);
    // A stable sort: advice about no bytes keeps its order, behind the rest.
    found.sort_by_key(|advice| Reverse(advice.bytes()));
    found
}

impl Advice {
    /// Returns the bytes that it is about; 0 where it is about none.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        match *self {
            Self::EmptyBlock { size, .. } | Self::EmptyBlocks { size, .. } => size,
            Self::Rounding { wasted, .. } => wasted,
            Self::Fragmented { free, largest, .. } => free.saturating_sub(largest),
            Self::Leak { bytes, .. } | Self::OverBudget { bytes, .. } | Self::SecondChoice { bytes, .. } => {
                bytes
            }
            Self::Refused { largest, .. } => largest,
            Self::SlowRelease { pending, .. } => pending,
            _ => 0,
        }
    }

    /// Returns the call site that it names, with the whole path of the file. The sentence has the end of it.
    #[must_use]
    pub fn call_site(&self) -> Option<&str> {
        let site = match self {
            Self::Leak { site, .. } | Self::Fragmented { site, .. } => site,
            Self::ShortLived { most: Some(most), .. } | Self::SecondChoice { most: Some(most), .. } => {
                &most.site
            }
            _ => return None,
        };
        (!site.is_empty()).then_some(site)
    }
}

/// How many times [`AdviceThresholds::bytes`] empty blocks must have in all: each pool keeps a block of a few MiB.
const MANY_TIMES: u64 = 16;

/// How many empty blocks are many, where they are a quarter of all.
const MANY_EMPTY: u64 = 16;

fn empty_blocks(cursor: &Cursor<'_, '_>, thresholds: &AdviceThresholds, found: &mut Vec<Advice>) {
    let (now, blocks) = (cursor.moment(), cursor.blocks());
    let (mut empty, mut empty_bytes, mut all, mut longest, mut each) = (0, 0u64, 0u64, 0, Vec::new());
    for &block in &blocks {
        let size = cursor.timeline().block_size_at(block, cursor.position());
        all = all.saturating_add(size);
        let Some(since) = cursor.empty_since(block) else { continue };
        empty += 1;
        empty_bytes = empty_bytes.saturating_add(size);
        let frames = now.frame - since.frame;
        longest = longest.max(frames);
        if frames >= thresholds.empty_frames && size >= thresholds.bytes {
            let block = cursor.timeline().block_info(block).id;
            each.push(Advice::EmptyBlock { block, size, since, frames });
        }
    }
    let share = empty_bytes as f64 / all.max(1) as f64;
    // One sentence about all of them, where there is much: of a dozen lines about a block each, nobody makes the sum.
    // Many blocks of few bytes are much as well: each is a memory object of the driver's, of which there is a limit.
    let many = empty >= MANY_EMPTY && empty as f64 >= thresholds.empty_share * blocks.len() as f64;
    // At the end of a program, nothing is in use for a moment.
    let ended = empty == blocks.len() as u64 && longest < thresholds.empty_frames;
    let much = share >= thresholds.empty_share || many;
    if empty >= 2 && !ended && empty_bytes >= MANY_TIMES * thresholds.bytes && much {
        let (count, blocks) = (empty, blocks.len() as u64);
        found.push(Advice::EmptyBlocks { count, blocks, size: empty_bytes, all, frames: longest });
    } else {
        found.append(&mut each);
    }
}

fn pools(cursor: &Cursor<'_, '_>, thresholds: &AdviceThresholds, found: &mut Vec<Advice>) {
    let timeline = cursor.timeline();
    let mut by_pool = BTreeMap::<_, Vec<_>>::new();
    for block in cursor.blocks() {
        if let Some(pool) = timeline.block_info(block).pool {
            by_pool.entry(pool).or_default().push(block);
        }
    }
    for (pool, blocks) in by_pool {
        let Some((_, is)) = timeline.pool_info(pool) else { continue };
        let has_name = timeline.recording().text(is.name).is_some_and(|name| !name.is_empty());
        let label = timeline.pool_label(pool);
        let name = if has_name { format!("pool \"{label}\"") } else { label.to_owned() };
        let bytes: BlockBytes = blocks.iter().map(|&block| BlockBytes::of_block(cursor, block)).sum();
        if bytes.rounding >= thresholds.bytes && bytes.rounding_share() >= thresholds.rounding {
            let (wasted, share) = (bytes.rounding, bytes.rounding_share());
            found.push(Advice::Rounding { pool: name.clone(), algorithm: is.algorithm, wasted, share });
        }
        // An empty block is no fragmentation: it can be freed.
        let shared: Vec<_> = blocks
            .iter()
            .copied()
            .filter(|&block| cursor.count_in(block) > 0)
            .filter(|&block| timeline.block_kind_at(block, cursor.position()) == BlockKind::Shared)
            .collect();
        let sizes = shared.iter().flat_map(|&block| Holes::of_block(cursor, block).sizes().to_vec());
        let holes = Holes::from_sizes(sizes.collect());
        let free = holes.free();
        if free >= thresholds.bytes && holes.fragmentation() >= thresholds.fragmentation {
            let (site, of_site) = most_are_of(cursor, &shared);
            found.push(Advice::Fragmented {
                pool: name,
                site,
                of_site,
                free,
                largest: holes.largest(),
                holes: holes.sizes().len() as u64,
                blocks: could_be_emptied(cursor, &shared, free),
            });
        }
    }
}

/// Returns the call site that most allocations in some blocks have, how many have it, and how many there are.
fn most_are_of(cursor: &Cursor<'_, '_>, blocks: &[BlockIndex]) -> (String, [u64; 2]) {
    let timeline = cursor.timeline();
    let mut counts: BTreeMap<TextId, u64> = BTreeMap::new();
    for placed in blocks.iter().flat_map(|&block| cursor.placed(block)) {
        *counts.entry(timeline.texts(placed.allocation).call_site).or_default() += 1;
    }
    let all = counts.values().sum();
    // Of several with as many, the first text of the recording.
    let most = counts.into_iter().rev().max_by_key(|&(_, count)| count);
    let (site, count) = most.unwrap_or_default();
    (timeline.recording().text(site).unwrap_or_default().to_owned(), [count, all])
}

/// How many blocks the free bytes of the others could take over, from the emptiest on.
fn could_be_emptied(cursor: &Cursor<'_, '_>, blocks: &[BlockIndex], mut free: u64) -> u64 {
    let mut bytes: Vec<_> = blocks.iter().map(|&block| BlockBytes::of_block(cursor, block)).collect();
    bytes.sort_by_key(|bytes| bytes.size - bytes.free);
    let mut emptied = 0;
    for block in bytes {
        // Its own free bytes are of no use once it is empty.
        free = free.saturating_sub(block.free);
        let occupied = block.size - block.free;
        if occupied > free {
            break;
        }
        free -= occupied;
        emptied += 1;
    }
    emptied
}

fn leaks(cursor: &Cursor<'_, '_>, found: &mut Vec<Advice>) {
    let leaks = Leaks::at(cursor, Grouping::CallSite);
    for group in leaks.groups.iter().filter(|group| group.is_steady(leaks.at)) {
        found.push(Advice::Leak {
            site: group.key.clone(),
            count: group.count,
            bytes: group.bytes,
            per_frame: group.per_frame(),
        });
    }
}

fn budgets(cursor: &Cursor<'_, '_>, found: &mut Vec<Advice>) {
    let timeline = cursor.timeline();
    for (heap, events) in timeline.budgets() {
        let over = events.take_while(|&event| event < cursor.position()).filter_map(|event| {
            let told = timeline.budget_at(heap, event + 1)?;
            Some((told.usage.checked_sub(told.budget).filter(|&over| over > 0)?, event))
        });
        // The first of the largest.
        if let Some((bytes, event)) = over.max_by_key(|&(bytes, event)| (bytes, Reverse(event))) {
            found.push(Advice::OverBudget { heap, bytes, moment: timeline.moment(event) });
        }
    }
}

fn refusals_and_stalls(cursor: &Cursor<'_, '_>, thresholds: &AdviceThresholds, found: &mut Vec<Advice>) {
    let timeline = cursor.timeline();
    let mut refused = BTreeMap::<_, (u64, u64)>::new();
    for event in timeline.refusals().take_while(|&event| event < cursor.position()) {
        if let Event::Refused { reason, requested, .. } = *timeline.event(event as u32) {
            let sum = refused.entry(reason).or_default();
            *sum = (sum.0 + 1, sum.1.max(requested));
        }
    }
    let refused = refused.into_iter();
    found.extend(refused.map(|(reason, (count, largest))| Advice::Refused { reason, count, largest }));
    let mut stalled = BTreeMap::<_, (u64, u64, u64)>::new();
    for event in timeline.stalls().take_while(|&event| event < cursor.position()) {
        if let Event::Stalled { kind, nanoseconds } = *timeline.event(event as u32) {
            let sum = stalled.entry(kind).or_default();
            *sum = (sum.0 + 1, sum.1.saturating_add(nanoseconds), sum.2.max(nanoseconds));
        }
    }
    let recorded = cursor.moment().nanoseconds;
    for (kind, (count, total, longest)) in stalled {
        // Every program waits for its driver at times; it matters where it costs time that is felt.
        let share = if recorded == 0 { 0.0 } else { total as f64 / recorded as f64 };
        let felt = share >= thresholds.stalled || longest >= thresholds.stall_nanoseconds;
        // Waiting for frames in flight is how a program that the GPU limits runs.
        if kind != StallKind::FramesInFlight && felt {
            found.push(Advice::Stalled { kind, count, total, longest });
        }
    }
}

fn second_choices(cursor: &Cursor<'_, '_>, thresholds: &AdviceThresholds, found: &mut Vec<Advice>) {
    let timeline = cursor.timeline();
    let is_second = |row: &AllocationIndex| timeline.allocated(row.0).is_some_and(|is| is.second_choice);
    let mut rows: Vec<_> = cursor.allocations().filter(is_second).collect();
    let bytes = rows.iter().fold(0u64, |sum, &row| sum.saturating_add(timeline.requested(row)));
    if bytes >= thresholds.bytes {
        // In the order of time, as groups need them.
        rows.sort_unstable();
        let (count, most) = (rows.len() as u64, Commonest::of(timeline, &rows));
        found.push(Advice::SecondChoice { count, bytes, most });
    }
}

fn lifetimes(cursor: &Cursor<'_, '_>, thresholds: &AdviceThresholds, found: &mut Vec<Advice>) {
    let timeline = cursor.timeline();
    let latency = ReleaseLatency::at(timeline, cursor.position());
    let (median, longest) = (latency.frames_at(0.5), latency.longest.map_or(0, |(_, frames)| frames));
    if median >= thresholds.release_frames {
        found.push(Advice::SlowRelease { median, longest, pending: latency.pending_bytes });
    }
    let (mut all, mut short) = (0u64, Vec::new());
    for (row, life) in timeline.lifetimes().take_while(|(_, life)| life.allocated < cursor.position()) {
        let Some(end) = life.free_requested.or(life.freed).filter(|&end| end < cursor.position()) else {
            continue;
        };
        all += 1;
        if timeline.same_frame(life.allocated, end) {
            short.push(row);
        }
    }
    let (frames, count) = (cursor.moment().frame, short.len() as u64);
    let share = count as f64 / all.max(1) as f64;
    // Fewer than one a frame is not worth another way of allocating.
    if share >= thresholds.short_lived && count >= frames && frames > 0 {
        let (per_frame, most) = (count as f64 / frames as f64, Commonest::of(timeline, &short));
        found.push(Advice::ShortLived { count, share, per_frame, most });
    }
}

fn blocks(cursor: &Cursor<'_, '_>, found: &mut Vec<Advice>) {
    let timeline = cursor.timeline();
    let now = cursor.moment();
    let (mut freed, mut live, mut count) = (0, 0, 0);
    for block in timeline.blocks() {
        let info = timeline.block_info(block);
        if info.allocated >= cursor.position() {
            break;
        }
        let exists = timeline.block_exists(block, cursor.position());
        count += u64::from(exists);
        if info.kind == BlockKind::Shared {
            *(if exists { &mut live } else { &mut freed }) += 1;
        }
    }
    // Every block was allocated four times over, and one at least each few seconds.
    if freed >= 16 && freed >= 4 * live && now.frame > 0 {
        let frames = now.frame as f64 / (freed + live) as f64;
        if frames < 300.0 {
            found.push(Advice::BlockChurn { freed, live, frames });
        }
    }
    let limit = u64::from(timeline.recording().header.max_memory_objects);
    if limit > 0 && count >= limit / 2 {
        found.push(Advice::ManyBlocks { count, limit });
    }
}

fn descriptors(cursor: &Cursor<'_, '_>, thresholds: &AdviceThresholds, found: &mut Vec<Advice>) {
    let timeline = cursor.timeline();
    for heap in timeline.descriptor_heaps() {
        let Some(occupancy) = DescriptorOccupancy::at(timeline, heap, cursor.position()) else { continue };
        if occupancy.capacity > 0 && occupancy.share() >= thresholds.descriptors {
            let known = timeline.descriptor_heap_at(heap, cursor.position());
            let name =
                known.and_then(|(_, is)| timeline.recording().text(is.name)).unwrap_or("without a name");
            found.push(Advice::DescriptorHeapFull { heap: name.to_owned(), occupancy });
        }
    }
}

impl Advice {
    /// Returns the sentence for a recording: it names calls of the library whose memory that is, and frames only where it has
    /// some.
    #[must_use]
    pub fn sentence(&self, timeline: &Timeline<'_>) -> String {
        let header = &timeline.recording().header;
        let has_frames = timeline.frame_count() > 0;
        Sentence(self, Known { library: header.library, extent: header.extent, has_frames }).to_string()
    }
}

struct Sentence<'a>(&'a Advice, Known);

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        sentences::write(self.0, self.1, f)
    }
}

impl fmt::Display for Advice {
    /// Writes the sentence for a program of this library that has frames.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Known { library: Library::Allotment, extent: Extent::History, has_frames: true };
        Sentence(self, known).fmt(f)
    }
}

impl Timeline<'_> {
    /// Returns true if no frame ended between two events.
    fn same_frame(&self, one: u64, other: u64) -> bool {
        self.moment(one).frame == self.moment(other).frame
    }
}
