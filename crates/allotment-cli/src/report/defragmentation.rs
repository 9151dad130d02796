//! The HTML report of a defragmentation: before, moves, after; a single file that loads nothing.
//!
//! The template is `assets/defragmentation.html`; this module inserts the style and the data.

use core::hash::Hash;
use std::collections::HashMap;

use allotment::memory::defragmentation::{DefragmentationPlan, PlannedBlock};
use serde::Serialize;

use crate::args::DefragmentArgs;
use crate::defragment::{Done, Outcome, Standing};
use crate::failure::Failure;
use crate::output_file::OutputFile;
use crate::replay::{display_name, unexpected};
use crate::source::Source;
use crate::target::Machine;

const THIS_PAGE: &str = include_str!("../../assets/defragmentation.html");

const STYLE: &str = include_str!("../../assets/defragmentation.css");

/// The placeholder in the template for the data.
const PLACE: &str = "/*ALLOTMENT_REPORT_DATA*/null";

/// The placeholder in the template for the style.
const STYLE_PLACE: &str = "/*ALLOTMENT_REPORT_STYLE*/";

#[derive(Serialize)]
struct Data<'a> {
    format: u32,
    title: &'a str,
    device_name: &'a str,
    profile: Option<&'static str>,
    algorithm: String,
    strategy: String,
    unit: &'static str,
    at: u64,
    of: u64,
    verdict: &'a str,
    summary: &'a [(String, String)],
    blocks: Vec<BlockRow>,
    allocations: Allocations,
    names: Vec<String>,
    categories: Vec<&'static str>,
    passes: Vec<PassRow>,
    /// Cumulative bytes freed and bytes moved, block by block: as planned, and as `full` would plan.
    steps: Vec<(u64, u64)>,
    full_steps: Vec<(u64, u64)>,
}

#[derive(Serialize)]
struct BlockRow {
    pool: String,
    size: u64,
    dedicated: bool,
    /// Whether the block still exists afterwards.
    stays: bool,
}

/// The allocations, column by column. A block is given by its index. A move within a block has the same one twice.
#[derive(Default, Serialize)]
struct Allocations {
    id: Vec<u64>,
    name: Vec<usize>,
    category: Vec<usize>,
    requested: Vec<u64>,
    size: Vec<u64>,
    block: Vec<usize>,
    offset: Vec<u64>,
    to_block: Vec<usize>,
    to_offset: Vec<u64>,
    /// The index of the pass that moved it; -1 if it was not moved.
    pass: Vec<i64>,
}

#[derive(Serialize)]
struct PassRow {
    moves: u32,
    bytes: u64,
    blocks_emptied: u32,
    bytes_emptied: u64,
    found_ns: u64,
}

/// Writes the report.
pub(crate) fn write(
    file: &OutputFile,
    source: &Source,
    machine: &Machine,
    summary: &[(String, String)],
    verdict: &str,
    args: &DefragmentArgs,
    outcome: &Outcome,
) -> Result<(), Failure> {
    let (mut names, mut categories) = (Interned::new(), Interned::new());
    let allocations = allocations(source, outcome, &mut names, &mut categories)?;
    let Outcome { moment, before, done, after, .. } = outcome;
    let blocks = before.blocks.iter().map(|block| {
        let properties = machine.properties.memory_types[usize::from(block.memory_type)].properties;
        BlockRow {
            pool: format!("type {} ({properties}), {}", block.memory_type, block.pool),
            size: block.size,
            dedicated: block.dedicated,
            stays: after.has(block),
        }
    });
    let data = Data {
        format: 1,
        title: &source.title,
        device_name: &machine.properties.name,
        profile: machine.profile,
        algorithm: args.setup().algorithm.to_string(),
        strategy: args.strategy.to_string(),
        unit: moment.unit.name(),
        at: moment.at,
        of: moment.of,
        verdict,
        summary,
        blocks: blocks.collect(),
        allocations,
        names: names.list,
        categories: categories.list,
        passes: passes(done),
        steps: steps(&done.plan),
        full_steps: steps(&done.full),
    };
    // Escaped, since the HTML parser ends a script element at the first `</script`, even inside a string.
    let json = serde_json::to_string(&data)?.replace('<', "\\u003c");
    let page = THIS_PAGE.replacen(STYLE_PLACE, STYLE, 1).replacen(PLACE, &json, 1);
    file.write(page.as_bytes())
}

/// A list without duplicates, in insertion order. A trace may have a different name for each resource.
#[derive(Debug)]
struct Interned<T> {
    list: Vec<T>,
    positions: HashMap<T, usize>,
}

impl<T: Clone + Eq + Hash> Interned<T> {
    fn new() -> Self {
        Self { list: Vec::new(), positions: HashMap::new() }
    }

    /// Returns the position of `item`, which is appended if missing.
    fn position(&mut self, item: T) -> usize {
        let next = self.list.len();
        let position = *self.positions.entry(item.clone()).or_insert(next);
        if position == next {
            self.list.push(item);
        }
        position
    }
}

fn allocations(
    source: &Source,
    outcome: &Outcome,
    names: &mut Interned<String>,
    categories: &mut Interned<&'static str>,
) -> Result<Allocations, Failure> {
    let Outcome { before, done, after, .. } = outcome;
    // No block is new: a move always goes to an existing block.
    let blocks = before.by_memory();
    let block = |standing: &Standing| {
        let found = blocks.get(&standing.memory).copied();
        found.ok_or_else(|| unexpected("an allocation moved to an unknown block"))
    };
    let mut passes = vec![-1; source.trace.resources().len()];
    for moved in &done.moved {
        passes[moved.user_data as usize] = moved.pass as i64;
    }
    let mut columns = Allocations::default();
    for (old, new) in before.standing.iter().zip(&after.standing) {
        let resource = source.trace.resource(old.resource);
        columns.id.push(resource.id());
        columns.name.push(names.position(display_name(resource)));
        columns.category.push(categories.position(old.category));
        columns.requested.push(old.requested);
        columns.size.push(old.occupied);
        columns.block.push(block(old)?);
        columns.offset.push(old.offset);
        columns.to_block.push(block(new)?);
        columns.to_offset.push(new.offset);
        columns.pass.push(passes[old.resource.as_usize()]);
    }
    Ok(columns)
}

fn passes(done: &Done) -> Vec<PassRow> {
    let rows = done.passes.iter().map(|pass| PassRow {
        moves: pass.moves,
        bytes: pass.bytes,
        blocks_emptied: pass.blocks_emptied,
        bytes_emptied: pass.bytes_emptied,
        found_ns: pass.found_in.as_nanos() as u64,
    });
    rows.collect()
}

fn steps(plan: &DefragmentationPlan) -> Vec<(u64, u64)> {
    plan.steps.iter().map(|PlannedBlock { size, bytes_moved, .. }| (*size, *bytes_moved)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_place_for_its_data_and_for_its_style() {
        assert_eq!((THIS_PAGE.matches(PLACE).count(), THIS_PAGE.matches(STYLE_PLACE).count()), (1, 1));
        assert!(STYLE.contains("--card") && !STYLE.contains("</"));
    }
}
