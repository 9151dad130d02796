//! `allotment stats`: what there was at a moment of a recording, and its peaks.

use std::collections::BTreeMap;

use allotment_analyze::tables::DescriptorHeapRow;
use allotment_analyze::{Cursor, Figures, Peak, Peaks, PoolIndex, Scope, Timeline};
use allotment_trace::recording::{Budget, Event, StallKind};
use serde::Serialize;

use super::args::StatsArgs;
use super::descriptor_heaps::DescriptorHeapJson;
use super::json::{FiguresJson, MomentJson, PeakJson};
use super::load::{Loaded, index, load};
use super::table::{self, Align, Table, name_or_none, print_pairs, shown};
use super::unread::{say_json, say_unread};
use super::when::{marks, words};
use crate::failure::Failure;
use crate::units::{bytes, count, nanoseconds, percent};

pub(crate) fn run(args: &StatsArgs) -> Result<(), Failure> {
    let loaded = load(&args.shown.file)?;
    let timeline = index(&loaded);
    let cursor = Cursor::at(&timeline, args.shown.at.position(&timeline)?);
    let stats = Stats::new(&cursor);
    if args.shown.json {
        say_json(&timeline.unread(), &StatsJson::new(&loaded, &cursor, &stats))?;
    } else {
        print(&loaded, &cursor, &stats);
    }
    Ok(())
}

/// All figures.
struct Stats {
    all: Figures,
    peaks: Peaks,
    /// By heap; without one where the recording does not say which memory type is of which heap.
    heaps: BTreeMap<Option<u8>, Figures>,
    /// By what [`pool_name`] returns, which is another for each pool, and by memory type.
    pools: BTreeMap<(String, u8), Figures>,
    refused: u64,
    lost: u64,
    stalls: Vec<Stalls>,
    /// `None` where the recording has none at any moment.
    descriptor_heaps: Option<Vec<DescriptorHeapRow>>,
}

/// Stalls of one kind up to the moment.
#[derive(Serialize)]
struct Stalls {
    kind: String,
    count: u64,
    nanoseconds: u64,
}

impl Stats {
    fn new(cursor: &Cursor<'_, '_>) -> Self {
        let timeline = cursor.timeline();
        let mut stats = Self {
            all: Figures::of_all(cursor),
            peaks: Peaks::of(timeline, Scope::All),
            heaps: BTreeMap::new(),
            pools: BTreeMap::new(),
            refused: timeline.refusals().filter(|&event| event < cursor.position()).count() as u64,
            lost: timeline.losses().filter(|&event| event < cursor.position()).count() as u64,
            stalls: stalls(timeline, cursor.position()),
            descriptor_heaps: (timeline.descriptor_heaps().len() > 0).then(|| DescriptorHeapRow::all(cursor)),
        };
        for block in cursor.blocks() {
            let info = timeline.block_info(block);
            let heap = timeline.heap_of(info.memory_type);
            stats.heaps.entry(heap).or_default().add(cursor, block);
            let pool = (pool_name(timeline, info.pool), info.memory_type.get() as u8);
            stats.pools.entry(pool).or_default().add(cursor, block);
        }
        stats
    }
}

/// Returns what a pool is called, and how it suballocates its blocks.
fn pool_name(timeline: &Timeline<'_>, pool: Option<PoolIndex>) -> String {
    let Some(pool) = pool else { return "(not known)".to_owned() };
    let name = timeline.pool_label(pool);
    let algorithm = timeline.pool_info(pool).and_then(|(_, is)| is.algorithm);
    algorithm.map_or_else(|| name.to_owned(), |algorithm| format!("{name}, {algorithm}"))
}

fn stalls(timeline: &Timeline<'_>, until: u64) -> Vec<Stalls> {
    let mut kinds: BTreeMap<StallKind, (u64, u64)> = BTreeMap::new();
    for event in timeline.stalls().take_while(|&event| event < until) {
        if let Event::Stalled { kind, nanoseconds } = timeline.recording().events[event as usize] {
            let (count, sum) = kinds.entry(kind).or_default();
            *count += 1;
            *sum = sum.saturating_add(nanoseconds);
        }
    }
    let kinds = kinds.into_iter();
    kinds.map(|(kind, (count, nanoseconds))| Stalls { kind: kind.to_string(), count, nanoseconds }).collect()
}

fn print(loaded: &Loaded, cursor: &Cursor<'_, '_>, stats: &Stats) {
    let header = &loaded.recording.header;
    say!("{} at {}", shown(&loaded.title), words(cursor.timeline(), cursor.moment()));
    say_unread(&cursor.timeline().unread());
    let device = if header.device.is_empty() { "a device that is not known" } else { &header.device };
    say!("recorded by {}, on {}", shown(&header.producer), shown(device));
    say!();
    print_pairs(&rows(cursor.timeline(), stats));
    if !stats.heaps.is_empty() {
        say!();
        print_heaps(cursor, stats);
        say!();
        print_pools(stats);
    }
    if let Some(heaps @ [_, ..]) = stats.descriptor_heaps.as_deref() {
        table::print(&DescriptorHeapRow::table(cursor.timeline(), heaps));
    }
    print_marks(cursor.timeline());
}

/// Prints the marks of the whole recording, if there are any: each is a moment that `--at` takes.
fn print_marks(timeline: &Timeline<'_>) {
    /// A program that marks each frame has thousands; the JSON output has all.
    const MOST: usize = 50;
    let all = timeline.marks().len();
    if all == 0 {
        return;
    }
    say!();
    let mut table = Table::new(&[("Mark", Align::Left), ("Event", Align::Right), ("Frame", Align::Right)]);
    for (text, moment) in marks(timeline).take(MOST) {
        table.row([name_or_none(text), count(moment.event), count(moment.frame)]);
    }
    table.print();
    if all > MOST {
        say!("  and {} more", count((all - MOST) as u64));
    }
}

fn rows(timeline: &Timeline<'_>, stats: &Stats) -> Vec<(String, String)> {
    let Stats { all, peaks, .. } = stats;
    let row = |label: &str, value: String| (label.to_owned(), value);
    let part = |part: u64| format!("{} ({})", bytes(part), percent(part, all.bytes.size));
    let blocks = format!(
        "{}, {} ({} dedicated, {} empty)",
        count(all.blocks),
        bytes(all.bytes.size),
        count(all.dedicated),
        count(all.empty)
    );
    let peak = |peak: Peak| format!("{} at {}", bytes(peak.bytes), words(timeline, peak.moment));
    let mut rows = vec![
        row("Blocks", blocks),
        row("Allocations", count(all.bytes.allocations)),
        row("Used", part(all.bytes.used)),
        row("Pending release", part(all.bytes.pending)),
        row("Overhead", part(all.bytes.overhead())),
        row("Alignment padding", part(all.bytes.padding)),
        row("Free in blocks", part(all.bytes.free - all.bytes.padding)),
        row("… in holes", format!("{}, the largest {}", count(all.holes), bytes(all.largest_hole))),
        row("Fragmentation", format!("{:.3}", all.fragmentation())),
    ];
    // What a dump of one moment does not know.
    if timeline.has_history() {
        rows.extend([
            row("Peak of blocks", peak(peaks.blocks)),
            row("Peak used", peak(peaks.used)),
            row("Refused requests", count(stats.refused)),
        ]);
    }
    for Stalls { kind, count: times, nanoseconds: time } in &stats.stalls {
        rows.push(row(
            &format!("Waits for {kind}"),
            format!("{}, {} in all", count(*times), nanoseconds(*time)),
        ));
    }
    if all.bytes.aliased != 0 {
        rows.push(row("Aliased", part(all.bytes.aliased)));
    }
    if stats.lost != 0 {
        rows.push(row("Times events were lost", count(stats.lost)));
    }
    rows
}

fn print_heaps(cursor: &Cursor<'_, '_>, stats: &Stats) {
    let titles = [
        "Heap",
        "Blocks",
        "Bytes",
        "Used",
        "Pending",
        "Overhead",
        "Padding",
        "Free",
        "Fragmentation",
        "Budget",
    ];
    let mut table = Table::new(&titles.map(|title| (title, Align::Right)));
    for (&heap, figures) in &stats.heaps {
        let budget = heap.and_then(|heap| cursor.timeline().budget_at(heap, cursor.position()));
        let mut cells = vec![heap.map_or("?".to_owned(), |heap| heap.to_string())];
        cells.extend(cells_of(figures));
        cells.push(budget.map_or("–".to_owned(), |Budget { usage, budget }| {
            format!("{} of {}", bytes(usage), bytes(budget))
        }));
        table.row(cells);
    }
    table.print();
}

fn print_pools(stats: &Stats) {
    let mut columns = vec![("Pool", Align::Left), ("Type", Align::Right)];
    let titles = ["Blocks", "Bytes", "Used", "Pending", "Overhead", "Padding", "Free", "Fragmentation"];
    columns.extend(titles.map(|title| (title, Align::Right)));
    let mut table = Table::new(&columns);
    for ((pool, memory_type), figures) in &stats.pools {
        let mut cells = vec![shown(pool), memory_type.to_string()];
        cells.extend(cells_of(figures));
        table.row(cells);
    }
    table.print();
}

fn cells_of(figures: &Figures) -> [String; 8] {
    let is = &figures.bytes;
    let fragmentation = format!("{:.3}", figures.fragmentation());
    let [size, used, pending, overhead, padding, free] =
        [is.size, is.used, is.pending, is.overhead(), is.padding, is.free - is.padding].map(bytes);
    [count(figures.blocks), size, used, pending, overhead, padding, free, fragmentation]
}

/// The JSON output.
#[derive(Serialize)]
struct StatsJson<'a> {
    file: &'a str,
    producer: &'a str,
    device: &'a str,
    driver: &'a str,
    events: Option<u64>,
    frames: u64,
    at: Option<MomentJson>,
    all: FiguresJson,
    peak_blocks: Option<PeakJson>,
    peak_used: Option<PeakJson>,
    refused: Option<u64>,
    stalls: &'a [Stalls],
    marks: Vec<MarkJson<'a>>,
    lost: u64,
    contradictions: u64,
    heaps: Vec<HeapJson>,
    pools: Vec<PoolJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    descriptor_heaps: Option<Vec<DescriptorHeapJson<'a>>>,
}

#[derive(Serialize)]
struct MarkJson<'a> {
    text: &'a str,
    at: Option<MomentJson>,
}

#[derive(Serialize)]
struct HeapJson {
    heap: Option<u8>,
    budget: Option<BudgetJson>,
    #[serde(flatten)]
    figures: FiguresJson,
}

#[derive(Serialize)]
struct BudgetJson {
    usage: u64,
    budget: u64,
}

#[derive(Serialize)]
struct PoolJson<'a> {
    pool: &'a str,
    memory_type: u8,
    #[serde(flatten)]
    figures: FiguresJson,
}

impl<'a> StatsJson<'a> {
    fn new(loaded: &'a Loaded, cursor: &Cursor<'_, 'a>, stats: &'a Stats) -> Self {
        let (header, timeline) = (&loaded.recording.header, cursor.timeline());
        let heap = |(&heap, figures): (&Option<u8>, &Figures)| HeapJson {
            heap,
            budget: heap
                .and_then(|heap| timeline.budget_at(heap, cursor.position()))
                .map(|Budget { usage, budget }| BudgetJson { usage, budget }),
            figures: figures.into(),
        };
        let peak = |peak| timeline.has_history().then(|| PeakJson::of(timeline, peak));
        let pools = stats.pools.iter();
        Self {
            file: &loaded.title,
            producer: &header.producer,
            device: &header.device,
            driver: &header.driver,
            // What a dump of one moment does not say is null.
            events: timeline.has_history().then_some(timeline.end()),
            frames: timeline.frame_count(),
            at: MomentJson::of(timeline, cursor.moment()),
            all: (&stats.all).into(),
            peak_blocks: peak(stats.peaks.blocks),
            peak_used: peak(stats.peaks.used),
            refused: timeline.has_history().then_some(stats.refused),
            stalls: &stats.stalls,
            marks: marks(timeline)
                .map(|(text, at)| MarkJson { text, at: MomentJson::of(timeline, at) })
                .collect(),
            lost: stats.lost,
            contradictions: timeline.contradiction_count(),
            heaps: stats.heaps.iter().map(heap).collect(),
            pools: pools
                .map(|((pool, memory_type), figures)| PoolJson {
                    pool,
                    memory_type: *memory_type,
                    figures: figures.into(),
                })
                .collect(),
            descriptor_heaps: stats
                .descriptor_heaps
                .as_ref()
                .map(|heaps| heaps.iter().map(|heap| DescriptorHeapJson::new(timeline, heap)).collect()),
        }
    }
}
