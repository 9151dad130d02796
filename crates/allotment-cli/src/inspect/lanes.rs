//! The lanes of `allotment map`: a line for each resource that shares an allocation with others.

use allotment_analyze::tables::kind;
use allotment_analyze::{Cursor, SharedMemory};
use allotment_trace::recording::{BlockId, BoundResource};
use serde::Serialize;

use super::columns::{say_wrapped, shorten};
use super::table::name_or_none;
use crate::units::{bytes, plural};

/// Columns of a resource's name.
const NAME: usize = 20;

/// Columns of a line besides the cells: bytes, whether the resource is active, what separates them, and its name.
const OTHER_COLUMNS: usize = 3 + 3 + 10 + 2 + 8 + 2 + NAME;

/// A shared allocation where the cursor is.
pub(super) struct Lanes {
    name: String,
    allocation: u64,
    block: BlockId,
    offset: u64,
    shared: SharedMemory,
    /// A plan gives the resources their bytes within each frame, which is not recorded: none of them was ever active.
    is_planned: bool,
    resources: Vec<Lane>,
}

struct Lane {
    name: String,
    resource: u64,
    kind: &'static str,
    offset: u64,
    size: u64,
    active: bool,
}

/// Returns the allocations that resources share, in the order in which they were allocated.
pub(super) fn lanes(cursor: &Cursor<'_, '_>) -> Vec<Lanes> {
    let (timeline, position) = (cursor.timeline(), cursor.position());
    let text = |id| timeline.recording().text(id).unwrap_or_default().to_owned();
    let all = SharedMemory::all_at(timeline, position).into_iter().filter_map(|shared| {
        let live = timeline.allocation_at(shared.allocation, position)?;
        let lane = |(_, is): &(_, BoundResource)| Lane {
            name: text(is.name),
            resource: is.resource.0,
            kind: kind(is.kind),
            offset: is.offset,
            size: is.size,
            active: is.active,
        };
        let mut ever = timeline.resources_of(shared.allocation);
        let is_planned = ever.all(|resource| timeline.active_spans(resource).is_empty());
        Some(Lanes {
            is_planned,
            name: text(live.is.name),
            allocation: live.is.allocation.0,
            block: live.is.block,
            offset: live.is.offset,
            resources: shared.resources.iter().map(lane).collect(),
            shared,
        })
    });
    all.collect()
}

/// Prints the lanes, with lines of `width` columns.
pub(super) fn print(all: &[Lanes], width: usize) {
    if all.is_empty() {
        return;
    }
    let cells = width.saturating_sub(OTHER_COLUMNS).max(8);
    say!();
    let legend = [
        (all.iter().any(|of| !of.is_planned), "█ active   ░ its bytes are another one's"),
        (all.iter().any(|of| of.is_planned), "▓ has its bytes for some passes of each frame"),
    ];
    let legend: Vec<_> = legend.into_iter().filter(|(is_there, _)| *is_there).map(|(_, text)| text).collect();
    say!("Memory that resources share: {}", legend.join("   "));
    for of in all {
        let SharedMemory { size, resource_bytes, .. } = of.shared;
        say!();
        say_wrapped(&format!(
            "  {}, {} at {} of block {}: {} of {}, {} saved",
            name_or_none(&of.name),
            bytes(size),
            bytes(of.offset),
            of.block,
            plural(of.resources.len() as u64, "resource"),
            bytes(resource_bytes),
            bytes(of.shared.saved_bytes())
        ));
        for lane in &of.resources {
            say!("{}", line(lane, of.is_planned, size, cells));
        }
    }
}

fn line(lane: &Lane, is_planned: bool, size: u64, cells: usize) -> String {
    let (glyph, what) = match (lane.active, is_planned) {
        (true, _) => ('█', "active"),
        (false, true) => ('▓', "planned"),
        (false, false) => ('░', "inactive"),
    };
    let (first, end) = covered(lane.offset, lane.size, size, cells);
    let drawn: String =
        (0..cells).map(|cell| if (first..end).contains(&cell) { glyph } else { '·' }).collect();
    format!("  |{drawn}|  {:>10}  {what:<8}  {}", bytes(lane.size), shorten(&name_or_none(&lane.name), NAME))
}

/// Returns the cells that show some of a resource's bytes: at least one, so that a small resource is seen.
fn covered(offset: u64, bytes: u64, size: u64, cells: usize) -> (usize, usize) {
    let (whole, cells) = (u128::from(size.max(1)), cells as u128);
    let first = (u128::from(offset) * cells / whole).min(cells - 1);
    let end = ((u128::from(offset) + u128::from(bytes)) * cells).div_ceil(whole).min(cells);
    (first as usize, end.max(first + 1) as usize)
}

/// A shared allocation as JSON.
#[derive(Serialize)]
pub(super) struct LanesJson<'a> {
    allocation: u64,
    name: &'a str,
    block: u64,
    offset: u64,
    size: u64,
    resource_bytes: u64,
    saved_bytes: u64,
    resources: Vec<LaneJson<'a>>,
}

#[derive(Serialize)]
struct LaneJson<'a> {
    resource: u64,
    name: &'a str,
    kind: &'static str,
    offset: u64,
    size: u64,
    active: bool,
}

impl<'a> From<&'a Lanes> for LanesJson<'a> {
    fn from(of: &'a Lanes) -> Self {
        let lane = |lane: &'a Lane| LaneJson {
            resource: lane.resource,
            name: &lane.name,
            kind: lane.kind,
            offset: lane.offset,
            size: lane.size,
            active: lane.active,
        };
        Self {
            allocation: of.allocation,
            name: &of.name,
            block: of.block.0,
            offset: of.offset,
            size: of.shared.size,
            resource_bytes: of.shared.resource_bytes,
            saved_bytes: of.shared.saved_bytes(),
            resources: of.resources.iter().map(lane).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_has_the_cells_of_its_bytes_and_one_at_least() {
        assert_eq!(covered(0, 50, 100, 10), (0, 5));
        assert_eq!(covered(45, 10, 100, 10), (4, 6));
        assert_eq!(covered(99, 1, 100, 10), (9, 10));
        assert_eq!(covered(1 << 39, 1, 1 << 40, 10), (5, 6));
        assert_eq!(covered(100, 0, 100, 10), (9, 10));
        assert_eq!(covered(0, u64::MAX, u64::MAX, 8), (0, 8));
    }

    #[test]
    fn an_inactive_resource_is_not_filled() {
        let lane =
            Lane { name: "bloom".into(), resource: 1, kind: "buffer", offset: 64, size: 64, active: false };
        assert_eq!(line(&lane, false, 256, 8), "  |··░░····|        64 B  inactive  bloom");
        assert_eq!(line(&lane, true, 256, 8), "  |··▓▓····|        64 B  planned   bloom");
        let active = Lane { active: true, ..lane };
        assert_eq!(line(&active, false, 256, 8), "  |··██····|        64 B  active    bloom");
    }
}
