//! What needs more than in an earlier run: as rules, as a table, as JSON.

use allotment_analyze::units::signed_bytes;
use allotment_analyze::{GroupGrowth, Growth, GrowthBound, MostGrowth, Need, Timeline};
use serde::Serialize;

use super::rule::{Rule, Value};
use crate::inspect::args::{By, GrowthArgs};
use crate::inspect::columns::say_wrapped;
use crate::inspect::json::PeakJson;
use crate::inspect::table::{Align, Table, shown};
use crate::inspect::when::words;
use crate::units::{bytes, count};

/// How many groups that grew and that shrank are shown beside those that failed. All are in the JSON output.
const SHOWN: usize = 10;

/// A file compared with one of an earlier run.
pub(super) struct Compared<'a> {
    /// The name of the old file.
    pub(super) title: &'a str,
    /// The old recording and the new one.
    timelines: [&'a Timeline<'a>; 2],
    pub(super) growth: Growth,
    pub(super) by: By,
    /// `None` where nothing is asked but to compare.
    bound: Option<GrowthBound>,
    /// The moments of the new peaks of the blocks and of all allocations, in words.
    moments: [String; 2],
    /// What a reader should know of the comparison.
    pub(super) notes: Vec<&'static str>,
}

/// A row of the tables.
pub(super) struct Row {
    pub(super) outcome: &'static str,
    pub(super) group: String,
    pub(super) name: String,
    /// Old, new, change, and by how much more it may be.
    pub(super) bytes: [String; 4],
    /// Old and new, of which the recordings have frames.
    pub(super) per_frame: [String; 2],
}

impl<'a> Compared<'a> {
    pub(super) fn new(
        title: &'a str,
        old: &'a Timeline<'a>,
        new: &'a Timeline<'a>,
        args: &GrowthArgs,
    ) -> Self {
        let growth = Growth::between(old, new, args.by.grouping());
        let is_in_both = |group: &GroupGrowth| group.old.is_some() && group.new.is_some();
        let mut notes = Vec::new();
        if old.has_history() != new.has_history() {
            notes.push("One of the files is a dump of one moment, which has no peaks: that moment is compared with the peaks of the other.");
        }
        if old.recording().header.library != new.recording().header.library {
            notes.push("The memory is of different libraries, which may name allocations otherwise.");
        }
        if !growth.groups.is_empty() && !growth.groups.iter().any(is_in_both) {
            notes.push(
                "No group is in both files. Are they of one program, and grouped by what both have (--by)?",
            );
        }
        let moment = |of: &Need| words(new, of.peak.moment);
        Self {
            title,
            timelines: [old, new],
            by: args.by,
            bound: args.max_growth.map(|most| GrowthBound { most, least: args.min }),
            moments: [words(new, growth.blocks[1].moment), moment(&growth.all[1])],
            growth,
            notes,
        }
    }

    fn old_bytes(&self) -> u64 {
        self.growth.all[0].peak.bytes
    }

    fn has_failed(&self, group: &GroupGrowth) -> bool {
        self.bound.is_some_and(|bound| {
            group.has_too_many_bytes(&bound, self.old_bytes())
                || group.has_too_many_allocations(&bound, &self.growth.all[0])
        })
    }

    /// Returns the rules, of which none is there without a bound.
    pub(super) fn rules(&self) -> Vec<Rule> {
        let Some(bound) = self.bound else { return Vec::new() };
        let peak = |rule, [old, new]: [u64; 2], what: &str, moment: &str| {
            let limit = old.saturating_add(bound.of_all(old));
            Rule::bytes(rule, new, limit, format!("{what} at {moment}; {} before", bytes(old)))
        };
        let Growth { blocks, all, groups, .. } = &self.growth;
        let mut rules = vec![
            peak("growth-of-blocks", blocks.map(|peak| peak.bytes), "bytes of all blocks", &self.moments[0]),
            peak(
                "growth-of-allocations",
                all.map(|need| need.peak.bytes),
                "bytes requested at once",
                &self.moments[1],
            ),
        ];
        let per_frame = all[0].per_frame.zip(all[1].per_frame);
        if let Some((old, new, limit)) =
            per_frame.and_then(|(old, new)| Some((old, new, bound.per_frame(old)?)))
        {
            let texts = [new, limit].map(|number| format!("{number:.2}"));
            let about = format!("allocations a frame in the second half of the frames; {old:.2} before");
            rules.push(Rule::new("growth-per-frame", Value::Share(new), Value::Share(limit), texts, about));
        }
        let failed = groups.iter().filter(|group| self.has_failed(group)).count() as u64;
        let texts = [count(failed), count(0)];
        let about = format!("groups that grew by more than {}", self.bound_in_words(&bound));
        rules.push(Rule::new("growth-of-groups", Value::Whole(failed), Value::Whole(0), texts, about));
        let [old, new] = self.timelines;
        // One moment shows of no peak that it did not grow.
        if old.has_history() && !new.has_history() {
            rules = rules.into_iter().map(|rule| rule.not_known("how much there was before")).collect();
        }
        rules
    }

    fn bound_in_words(&self, bound: &GrowthBound) -> String {
        let least = bound.of_group(0, self.old_bytes());
        match bound.most {
            MostGrowth::Share(share) => {
                // Without what the sum of two numbers in base two adds: 0.07 is not 7 / 100.
                let percent = (share * 1e8).round() / 1e6;
                format!("{percent} % and more than {}", bytes(least))
            }
            MostGrowth::Bytes(_) => bytes(least),
        }
    }

    /// Returns the rows of the groups that failed, of some others that grew, and of some that shrank; and how many of the
    /// latter two are left out.
    pub(super) fn rows(&self) -> ([Vec<Row>; 3], [usize; 2]) {
        let groups = || self.growth.groups.iter();
        let fails = |group: &&GroupGrowth| self.has_failed(group);
        let grew: Vec<_> = groups().filter(|group| !fails(group) && group.grown() > 0).collect();
        let shrank: Vec<_> = groups().rev().filter(|group| !fails(group) && group.grown() < 0).collect();
        let rows = |groups: &[&GroupGrowth]| groups.iter().take(SHOWN).map(|group| self.row(group)).collect();
        let failed = groups().filter(fails).map(|group| self.row(group)).collect();
        let left = [&grew, &shrank].map(|groups| groups.len().saturating_sub(SHOWN));
        ([failed, rows(&grew), rows(&shrank)], left)
    }

    fn row(&self, group: &GroupGrowth) -> Row {
        let sides = [group.old, group.new];
        let peak = |need: Option<Need>| need.map_or_else(|| "–".to_owned(), |need| bytes(need.peak.bytes));
        let per_frame = |need: Option<Need>| {
            need.and_then(|need| need.per_frame).map_or_else(|| "–".to_owned(), |it| format!("{it:.2}"))
        };
        let key = self.by.grouping().cell(&group.key).text();
        let name = group.name.to_string();
        let old = group.old.map_or(0, |need| need.peak.bytes);
        let may = self.bound.map(|bound| bytes(bound.of_group(old, self.old_bytes())));
        Row {
            outcome: match sides {
                _ if self.has_failed(group) => "FAILED",
                [None, _] => "new",
                [_, None] => "gone",
                _ => "",
            },
            name: if name == key { String::new() } else { name },
            group: key,
            bytes: [peak(group.old), peak(group.new), signed_bytes(group.grown()), may.unwrap_or_default()],
            per_frame: sides.map(per_frame),
        }
    }

    /// Returns true where one of the recordings has frames.
    pub(super) fn has_frames(&self) -> bool {
        self.growth.all.iter().any(|need| need.per_frame.is_some())
    }

    /// Returns the headings of a table, of columns in the order in which [`cells`](Self::cells) has them.
    pub(super) fn headings(&self) -> Vec<(&'static str, bool)> {
        let mut headings = vec![("", false), ("Peak before", true), ("Peak now", true), ("Change", true)];
        headings.extend(self.bound.map(|_| ("May grow by", true)));
        if self.has_frames() {
            headings.extend([("A frame before", true), ("A frame now", true)]);
        }
        headings.extend([(self.by.heading(), false), ("Name", false)]);
        headings
    }

    /// Returns the cells of a row.
    pub(super) fn cells(&self, row: &Row) -> Vec<String> {
        let mut cells = vec![row.outcome.to_owned()];
        cells.extend_from_slice(&row.bytes[..3 + usize::from(self.bound.is_some())]);
        if self.has_frames() {
            cells.extend_from_slice(&row.per_frame);
        }
        cells.extend([row.group.clone(), row.name.clone()]);
        cells
    }

    pub(super) fn print(&self) {
        for note in &self.notes {
            say!();
            say_wrapped(note);
        }
        let ([failed, grew, shrank], [more_grew, more_shrank]) = self.rows();
        let grew: Vec<_> = failed.into_iter().chain(grew).collect();
        if grew.is_empty() && shrank.is_empty() {
            say!();
            say!("No group has another peak than before.");
        }
        for (title, rows, more) in
            [("Groups that grew", grew, more_grew), ("Groups that shrank", shrank, more_shrank)]
        {
            if rows.is_empty() {
                continue;
            }
            say!();
            say!("{title}");
            say!();
            let align = |(heading, is_number)| (heading, if is_number { Align::Right } else { Align::Left });
            let mut table = Table::new(&self.headings().into_iter().map(align).collect::<Vec<_>>());
            for row in &rows {
                table.row(self.cells(row).iter().map(|cell| shown(cell)).collect::<Vec<_>>());
            }
            table.print();
            if more > 0 {
                say!("  … and {} others, which --json lists", count(more as u64));
            }
        }
    }
}

/// What grew, in the JSON output.
#[derive(Serialize)]
pub(super) struct GrowthJson<'a> {
    against: &'a str,
    by: &'static str,
    notes: &'a [&'static str],
    blocks: [PeakJson; 2],
    all: [NeedJson; 2],
    groups: Vec<GroupJson<'a>>,
}

#[derive(Serialize)]
struct NeedJson {
    peak: PeakJson,
    allocations: u64,
    per_frame: Option<f64>,
}

#[derive(Serialize)]
struct GroupJson<'a> {
    group: &'a str,
    name: &'a str,
    other_names: u64,
    old: Option<NeedJson>,
    new: Option<NeedJson>,
    grown: i64,
    /// By how many bytes it may grow.
    allowed: Option<u64>,
    ok: bool,
}

impl NeedJson {
    fn new(timeline: &Timeline<'_>, Need { peak, allocations, per_frame }: Need) -> Self {
        Self { peak: PeakJson::of(timeline, peak), allocations, per_frame }
    }
}

impl<'a> GrowthJson<'a> {
    pub(super) fn new(compared: &'a Compared<'_>) -> Self {
        let [old, new] = compared.timelines;
        let Growth { blocks, all, .. } = &compared.growth;
        let group = |group: &'a GroupGrowth| {
            let old_bytes = group.old.map_or(0, |need| need.peak.bytes);
            GroupJson {
                group: &group.key,
                name: &group.name.name,
                other_names: group.name.others,
                old: group.old.map(|need| NeedJson::new(old, need)),
                new: group.new.map(|need| NeedJson::new(new, need)),
                grown: i64::try_from(group.grown()).unwrap_or(if group.grown() < 0 {
                    i64::MIN
                } else {
                    i64::MAX
                }),
                allowed: compared.bound.map(|bound| bound.of_group(old_bytes, compared.old_bytes())),
                ok: !compared.has_failed(group),
            }
        };
        Self {
            against: compared.title,
            by: compared.by.grouping().name(),
            notes: &compared.notes,
            blocks: [PeakJson::of(old, blocks[0]), PeakJson::of(new, blocks[1])],
            all: [NeedJson::new(old, all[0]), NeedJson::new(new, all[1])],
            groups: compared.growth.groups.iter().map(group).collect(),
        }
    }
}
