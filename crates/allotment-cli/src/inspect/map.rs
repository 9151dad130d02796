//! `allotment map`: each block at a moment as one line of text, and each resource that shares an allocation.

use core::cmp::Reverse;
use core::fmt::Write;

use allotment_analyze::{Class, Cursor, Figures, Segment, padding, segments};
use allotment_trace::recording::{BlockId, BlockKind};
use console::{Color, Style};
use serde::Serialize;

use super::args::{BlockOrder, MapArgs};
use super::columns::{of_terminal, say_wrapped};
use super::json::{BytesJson, FiguresJson, MomentJson};
use super::lanes::{self, LanesJson};
use super::load::{index, load};
use super::table::shown;
use super::unread::{say_json, say_unread};
use super::when::words;
use crate::failure::Failure;
use crate::units::{bytes, count, percent, plural};

/// Columns of a line if nobody says how many, and standard output is no terminal.
const DEFAULT_WIDTH: usize = 100;

/// Columns of a line besides the glyphs: id, memory type, size, share used, largest hole, and what separates them.
const OTHER_COLUMNS: usize = 2 + 8 + 2 + 4 + 2 + 10 + 3 + 3 + 7 + 2 + 12;

const LEGEND: &str = "█ used   ▄ used in part   ▒ pending release   ~ overhead   - padding   · free";

pub(crate) fn run(args: &MapArgs) -> Result<(), Failure> {
    let loaded = load(&args.shown.file)?;
    let timeline = index(&loaded);
    let cursor = Cursor::at(&timeline, args.shown.at.position(&timeline)?);
    let blocks = blocks(&cursor, args.sort);
    let all = Figures::of_all(&cursor);
    let shared = lanes::lanes(&cursor);
    if args.shown.json {
        let blocks = blocks.iter().map(BlockJson::from).collect();
        let shared = shared.iter().map(LanesJson::from).collect();
        let (file, at) = (&*loaded.title, MomentJson::of(&timeline, cursor.moment()));
        let map = MapJson { file, at, all: (&all).into(), blocks, shared };
        return say_json(&timeline.unread(), &map);
    }
    say!("{} at {}", shown(&loaded.title), words(&timeline, cursor.moment()));
    say_unread(&timeline.unread());
    if blocks.is_empty() {
        say!();
        say!("There are no blocks. Another moment can be chosen with --at, for example --at peak.");
        return Ok(());
    }
    let width = args.width.map(usize::from).or_else(of_terminal).unwrap_or(DEFAULT_WIDTH);
    let cells = width.saturating_sub(OTHER_COLUMNS).max(4);
    let colours = console::colors_enabled();
    say_wrapped(LEGEND);
    say!();
    say!(
        "  {:>8}  {:>4}  {:>10}   {:cells$}   {:>7}  {:>12}",
        "Block",
        "Type",
        "Bytes",
        "",
        "Used",
        "Largest hole"
    );
    let most = args.most.unwrap_or(usize::MAX);
    for block in blocks.iter().take(most) {
        let used = percent(block.figures.bytes.used, block.figures.bytes.size);
        let mut line = format!(
            "  {:>8}  {:>4}  {:>10}  |",
            BlockId(block.id).to_string(),
            block.memory_type,
            bytes(block.figures.bytes.size)
        );
        write_glyphs(
            &mut line,
            &glyphs(block.figures.bytes.size, &block.segments, &block.padding, cells),
            colours,
        );
        // A text does not fail to grow. That a block is empty says both how much of it is used and what its hole is.
        let _ = match block.empty_since_frame {
            Some(frame) if timeline.frame_count() > 0 => {
                write!(line, "|  {:>21}", format!("empty since frame {}", count(frame)))
            }
            Some(_) => write!(line, "|  {:>21}", "empty"),
            None => write!(line, "|  {used:>7}  {:>12}", bytes(block.figures.largest_hole)),
        };
        say!("{line}");
    }
    if blocks.len() > most {
        say!("  … and {}", plural((blocks.len() - most) as u64, "other block"));
    }
    say!();
    let is = &all.bytes;
    say_wrapped(&format!(
        "Blocks {}, {}: {} used, {} pending release, {} overhead, {} padding, {} free in {}",
        count(all.blocks),
        bytes(is.size),
        bytes(is.used),
        bytes(is.pending),
        bytes(is.overhead()),
        bytes(is.padding),
        bytes(is.free - is.padding),
        plural(all.holes, "hole")
    ));
    if all.empty > 0 {
        let size = blocks.iter().filter(|block| block.empty_since_frame.is_some());
        let size = size.fold(0u64, |sum, block| sum.saturating_add(block.figures.bytes.size));
        say_wrapped(&format!("Empty blocks {} of {}, {}", count(all.empty), count(all.blocks), bytes(size)));
    }
    lanes::print(&shared, width);
    Ok(())
}

/// A block where the cursor is.
struct Block {
    id: u64,
    memory_type: u8,
    kind: BlockKind,
    empty_since_frame: Option<u64>,
    has_frames: bool,
    figures: Figures,
    segments: Vec<Segment>,
    /// Of the segments, those that are padding.
    padding: Vec<Segment>,
}

fn blocks(cursor: &Cursor<'_, '_>, order: BlockOrder) -> Vec<Block> {
    let timeline = cursor.timeline();
    let blocks = cursor.blocks().into_iter().map(|block| {
        let info = timeline.block_info(block);
        let mut figures = Figures::default();
        figures.add(cursor, block);
        let placed = cursor.placed(block);
        let segments = segments(timeline.block_size_at(block, cursor.position()), &placed);
        Block {
            id: info.id.0,
            memory_type: info.memory_type.get() as u8,
            kind: timeline.block_kind_at(block, cursor.position()),
            empty_since_frame: cursor.empty_since(block).map(|since| since.frame),
            has_frames: timeline.frame_count() > 0,
            figures,
            padding: padding(&placed, &segments).copied().collect(),
            segments,
        }
    });
    let mut blocks: Vec<_> = blocks.collect();
    // Stable sorts: the cursor has the oldest first.
    match order {
        BlockOrder::Number => blocks.sort_by_key(|block| (block.memory_type, block.id)),
        BlockOrder::Waste => blocks.sort_by_key(|block| Reverse(block.figures.bytes.free)),
        BlockOrder::Size => blocks.sort_by_key(|block| Reverse(block.figures.bytes.size)),
        BlockOrder::Age => {}
    }
    blocks
}

/// What a cell of a line shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Glyph {
    Free,
    Padding,
    Overhead,
    Pending,
    UsedInPart,
    Used,
}

impl Glyph {
    const fn text(self) -> char {
        match self {
            Self::Free => '·',
            Self::Padding => '-',
            Self::Overhead => '~',
            Self::Pending => '▒',
            Self::UsedInPart => '▄',
            Self::Used => '█',
        }
    }

    const fn colour(self) -> Color {
        match self {
            Self::Free => Color::Green,
            Self::Padding | Self::Overhead => Color::Yellow,
            Self::Pending => Color::Blue,
            Self::UsedInPart | Self::Used => Color::Red,
        }
    }
}

/// Returns what each of `cells` cells of a block shows: the class that matters most among its bytes, so that a small
/// allocation in a large block is seen.
fn glyphs(size: u64, segments: &[Segment], padding: &[Segment], cells: usize) -> Vec<Glyph> {
    let border = |cell: usize| (u128::from(size) * cell as u128 / cells as u128) as u64;
    let mut next = 0;
    let cell = |cell: usize| {
        // A block of fewer bytes than cells shows each byte in several.
        let (start, end) = (border(cell), border(cell + 1).max(border(cell) + 1));
        while segments.get(next).is_some_and(|segment| segment.end <= start) {
            next += 1;
        }
        let (mut most, mut all_used) = (Class::Free, true);
        for segment in segments[next..].iter().take_while(|segment| segment.start < end) {
            most = most.max(segment.class);
            all_used &= segment.class == Class::Used;
        }
        match most {
            Class::Used if all_used => Glyph::Used,
            Class::Used => Glyph::UsedInPart,
            Class::Pending => Glyph::Pending,
            Class::Reserved | Class::Rounding => Glyph::Overhead,
            Class::Free => {
                let first = padding.partition_point(|padding| padding.end <= start);
                let padded = padding.get(first).is_some_and(|padding| padding.start < end);
                if padded { Glyph::Padding } else { Glyph::Free }
            }
        }
    };
    (0..cells).map(cell).collect()
}

/// Adds glyphs to a line; runs of one colour in one go.
fn write_glyphs(line: &mut String, glyphs: &[Glyph], colours: bool) {
    for run in glyphs.chunk_by(|a, b| a.colour() == b.colour()) {
        let text: String = run.iter().map(|glyph| glyph.text()).collect();
        match run.first().filter(|_| colours) {
            Some(glyph) => {
                let _ = write!(line, "{}", Style::new().fg(glyph.colour()).apply_to(text));
            }
            None => line.push_str(&text),
        }
    }
}

/// The JSON output.
#[derive(Serialize)]
struct MapJson<'a> {
    file: &'a str,
    at: Option<MomentJson>,
    all: FiguresJson,
    blocks: Vec<BlockJson>,
    /// The allocations that resources share.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shared: Vec<LanesJson<'a>>,
}

#[derive(Serialize)]
struct BlockJson {
    block: u64,
    memory_type: u8,
    kind: String,
    allocations: u64,
    bytes: BytesJson,
    largest_hole: u64,
    empty_since_frame: Option<u64>,
    ranges: Vec<RangeJson>,
}

#[derive(Serialize)]
struct RangeJson {
    offset: u64,
    size: u64,
    class: &'static str,
}

impl From<&Block> for BlockJson {
    fn from(block: &Block) -> Self {
        let range = |is: &Segment| RangeJson {
            offset: is.start,
            size: is.size(),
            class: match is.class {
                Class::Free => "free",
                Class::Rounding => "rounding",
                Class::Reserved => "reserved",
                Class::Pending => "pending",
                Class::Used => "used",
            },
        };
        Self {
            block: block.id,
            memory_type: block.memory_type,
            kind: block.kind.to_string(),
            allocations: block.figures.bytes.allocations,
            bytes: block.figures.bytes.into(),
            largest_hole: block.figures.largest_hole,
            empty_since_frame: block.empty_since_frame.filter(|_| block.has_frames),
            ranges: block.segments.iter().map(range).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(size: u64, ranges: &[(u64, u64, Class)], cells: usize) -> String {
        let segment = |&(start, end, class)| Segment { start, end, class, depth: 1 };
        let segments: Vec<_> = ranges.iter().map(segment).collect();
        glyphs(size, &segments, &[], cells).into_iter().map(Glyph::text).collect()
    }

    #[test]
    fn a_cell_shows_the_class_that_matters_most() {
        let ranges =
            [(0, 50, Class::Used), (50, 60, Class::Free), (60, 70, Class::Rounding), (70, 100, Class::Free)];
        assert_eq!(line(100, &ranges, 10), "█████·~···");
        assert_eq!(line(100, &ranges, 5), "██▄~·");
        assert_eq!(line(100, &ranges, 1), "▄");
        let ranges = [(0, 10, Class::Reserved), (10, 20, Class::Pending), (20, 40, Class::Free)];
        assert_eq!(line(40, &ranges, 4), "~▒··");
        assert_eq!(line(40, &ranges, 2), "▒·");
    }

    #[test]
    fn padding_is_no_free_memory_to_look_at() {
        let segment = |start, end, class| Segment { start, end, class, depth: 1 };
        let padding = segment(20, 30, Class::Free);
        let segments = [
            segment(0, 20, Class::Used),
            padding,
            segment(30, 40, Class::Used),
            segment(40, 80, Class::Free),
        ];
        let glyphs: String = glyphs(80, &segments, &[padding], 8).into_iter().map(Glyph::text).collect();
        assert_eq!(glyphs, "██-█····");
    }

    #[test]
    fn a_single_used_byte_is_seen_in_a_large_block() {
        let (size, at) = (1 << 40, 3 << 37);
        let ranges = [(0, at, Class::Free), (at, at + 1, Class::Used), (at + 1, size, Class::Free)];
        assert_eq!(line(size, &ranges, 8), "···▄····");
    }

    #[test]
    fn a_block_of_fewer_bytes_than_cells_fills_its_line() {
        assert_eq!(line(2, &[(0, 1, Class::Used), (1, 2, Class::Free)], 6), "███···");
    }

    #[test]
    fn ids_of_blocks_are_short() {
        let names = [BlockId(7), BlockId(12 << 32 | 3)].map(|block| block.to_string());
        assert_eq!(names, ["7", "12:3"]);
    }

    #[test]
    fn without_colours_a_line_has_glyphs_alone() {
        let mut text = String::new();
        write_glyphs(&mut text, &[Glyph::Used, Glyph::UsedInPart, Glyph::Free], false);
        assert_eq!(text, "█▄·");
    }
}
