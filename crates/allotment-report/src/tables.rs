//! The tables that the analysis declares, as columns of the page. `assets/tables.js` reads them.

use std::collections::HashMap;
use std::io::{self, Write};

use allotment_analyze::tables::{Cell, Column, DescriptorHeapRow, Table, allocation_columns};
use allotment_analyze::{
    DescriptorHistory, Difference, Grouping, Holes, LifetimeRule, ReleaseLatency, Texts, short_call_site,
};
use allotment_trace::recording::{Moment, TextId};

use crate::columns::ColumnWriter;
use crate::lives::RangeLife;
use crate::payload::Content;

/// Writes the tables that no moment changes, the headings of the others, and the words of groups and call sites.
pub(crate) fn write<W: Write>(content: &Content<'_>, out: &mut ColumnWriter<W>) -> io::Result<()> {
    table(out, "leaks", &content.leaks)?;
    headings(out, "compare", &Difference::columns(Grouping::CallSite))?;
    headings(out, "allocations", &allocation_columns())?;
    headings(out, "free", &Holes::columns())?;
    headings(out, "heaps", &DescriptorHeapRow::columns(content.timeline))?;
    out.texts("latency.facts", ReleaseLatency::FACTS)?;
    let timeline = content.timeline;
    let peaks: Vec<_> =
        timeline.descriptor_heaps().map(|heap| DescriptorHistory::of(timeline, heap, 1).peak).collect();
    out.plain("heaps.peak", peaks.iter().map(|&(slots, _)| slots))?;
    let has_frames = timeline.frame_count() > 0;
    let when = |moment: &Moment| if has_frames { moment.frame } else { moment.event };
    out.plain("heaps.peak_when", peaks.iter().map(|(_, moment)| when(moment)))?;
    rules(out)?;
    groups(&content.lives.ranges, &content.recording.texts, out)
}

fn headings<W: Write>(out: &mut ColumnWriter<W>, name: &str, columns: &[Column]) -> io::Result<()> {
    out.texts(&format!("{name}.heading"), columns.iter().map(|column| column.heading))?;
    out.texts(&format!("{name}.help"), columns.iter().map(|column| column.help))?;
    out.plain(&format!("{name}.number"), columns.iter().map(|column| column.is_number.into()))
}

/// Writes a table with its cells, row by row, and the rank of each row in each column, column by column.
pub(crate) fn table<W: Write>(out: &mut ColumnWriter<W>, name: &str, table: &Table) -> io::Result<()> {
    headings(out, name, &table.columns)?;
    out.texts(&format!("{name}.summary"), &table.summary)?;
    let cells: Vec<_> = table.rows.iter().flat_map(|row| &row.cells).collect();
    let texts: Vec<_> = cells.iter().map(|cell| cell.text()).collect();
    out.texts(&format!("{name}.text"), &texts)?;
    out.texts(&format!("{name}.whole"), cells.iter().map(|cell| cell.whole().unwrap_or("")))?;
    let mark = |cell: &&Cell| match cell {
        Cell::Warning(_) => 1,
        Cell::Unnamed(_) => 2,
        _ => 0,
    };
    out.plain(&format!("{name}.mark"), cells.iter().map(mark))?;
    let ranks = (0..table.columns.len()).flat_map(|column| table.ranks(column));
    out.plain(&format!("{name}.rank"), ranks.map(|rank| rank as u64))
}

/// Writes the rules of lifetimes. One has a range of moments for the beginning of an allocation and one for its end, or two
/// pairs of these: a bound is 0 for the start, 1 to 4 for A to D, 5 for what never ends.
fn rules<W: Write>(out: &mut ColumnWriter<W>) -> io::Result<()> {
    let pairs = |rule| match rule {
        LifetimeRule::GrowthAndDecline => vec![LifetimeRule::Growth, LifetimeRule::Decline],
        rule => vec![rule],
    };
    let bounds = |rule: LifetimeRule| {
        let (began, ended) = rule.ranges([1, 2, 3, 4]);
        [began.start, began.end, ended.start, ended.end].map(|bound| bound.min(5))
    };
    out.texts("rule.name", LifetimeRule::ALL.map(LifetimeRule::name))?;
    out.texts("rule.question", LifetimeRule::ALL.map(LifetimeRule::question))?;
    out.plain("rule.pairs", LifetimeRule::ALL.map(|rule| pairs(rule).len() as u64))?;
    out.plain("rule.bounds", LifetimeRule::ALL.into_iter().flat_map(pairs).flat_map(bounds))
}

/// Writes of which group each range is, what the groups are called, and the call sites as people read them.
fn groups<W: Write>(ranges: &[RangeLife], texts: &[String], out: &mut ColumnWriter<W>) -> io::Result<()> {
    let text = |id: TextId| texts.get((id.0 as usize).wrapping_sub(1)).map_or("", String::as_str);
    let mut keys = Vec::new();
    let mut known = HashMap::new();
    let mut group = |range: &RangeLife| {
        let texts = Texts { name: range.is.name, category: range.is.category, call_site: range.call_site };
        let key = Grouping::CallSite.key(texts, text);
        *known.entry(key).or_insert_with(|| {
            keys.push(key);
            keys.len() as u64 - 1
        })
    };
    let of: Vec<_> = ranges.iter().map(&mut group).collect();
    out.plain("range.group", of)?;
    out.texts("group.key", &keys)?;
    let cells: Vec<_> = keys.iter().map(|key| Grouping::CallSite.cell(key).text()).collect();
    out.texts("group.text", &cells)?;
    let mut sites: Vec<_> =
        ranges.iter().map(|range| range.call_site).filter(|site| !site.is_none()).collect();
    sites.sort_unstable();
    sites.dedup();
    out.difference("site.id", sites.iter().map(|site| site.0.into()))?;
    out.texts("site.short", sites.iter().map(|&site| short_call_site(text(site))))
}
