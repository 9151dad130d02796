//! `allotment lifetimes`: the allocations that were made and freed when one of fourteen rules says.

use allotment_analyze::{AllocationGroups, LifetimeEnd, LifetimeRule, Timeline};
use allotment_trace::recording::Moment;
use serde::Serialize;

use super::args::{By, LifetimesArgs};
use super::groups::{self, GroupJson};
use super::json::MomentJson;
use super::load::{index, load_path, need_history};
use super::table::{self, Align, Table, shown};
use super::unread::{say_json, say_unread};
use super::when::{When, words};
use crate::failure::Failure;

const MARKERS: [&str; 4] = ["A", "B", "C", "D"];

pub(crate) fn run(args: &LifetimesArgs) -> Result<(), Failure> {
    let (Some(rule), Some(path)) = (args.rule, &args.path) else { return list(args.json) };
    // First: a number of moments that is wrong is told without reading the file.
    let asked: Vec<_> = args.at.iter().chain(&args.and).cloned().collect();
    let needed = rule.markers();
    if asked.len() != needed {
        return Err(Failure::Usage(format!(
            "the rule {} needs {}, and {} came",
            rule.name(),
            options(needed),
            asked.len()
        )));
    }
    let loaded = load_path(path, &args.replayed)?;
    let timeline = index(&loaded);
    need_history(&loaded, "how long anything lived")?;
    let moments = moments(&asked, &timeline)?;
    let found = Found::new(rule, &moments, &timeline, args);
    if args.json {
        let found = LifetimesJson::new(&loaded.title, rule, &moments, &timeline, &found);
        say_json(&timeline.unread(), &found)?;
    } else {
        print(&loaded.title, rule, args.by, &moments, &timeline, &found);
    }
    Ok(())
}

/// Returns the options for a number of moments, in words: `2 moments, --at A --and B`.
fn options(moments: usize) -> String {
    let given: String = MARKERS[1..moments].iter().map(|marker| format!(" --and {marker}")).collect();
    format!("{moments} moment{}, --at A{given}", if moments == 1 { "" } else { "s" })
}

/// Returns where the moments are, or a usage error where they are not in order.
fn moments(asked: &[When], timeline: &Timeline<'_>) -> Result<Vec<Moment>, Failure> {
    let mut moments: Vec<Moment> = Vec::new();
    for (when, marker) in asked.iter().zip(MARKERS) {
        let moment = timeline.moment(when.position(timeline)?);
        if let Some(before) = moments.last().filter(|before| before.event > moment.event) {
            let of_before = MARKERS[moments.len() - 1];
            return Err(Failure::Usage(format!(
                "{marker}, {}, is before {of_before}, {}",
                words(timeline, moment),
                words(timeline, *before)
            )));
        }
        moments.push(moment);
    }
    Ok(moments)
}

/// What a rule means.
struct Found {
    allocations: AllocationGroups,
    /// Of [`LifetimeRule::GrowthAndDecline`], those that declined.
    declined: Option<AllocationGroups>,
}

impl Found {
    fn new(rule: LifetimeRule, moments: &[Moment], timeline: &Timeline<'_>, args: &LifetimesArgs) -> Self {
        let mut markers = [0; 4];
        for (marker, moment) in markers.iter_mut().zip(moments) {
            *marker = moment.event;
        }
        let found = |sign: i8| {
            let all = rule.query(timeline, markers, LifetimeEnd::Freed);
            let allocations = all.filter(move |&(_, of)| of == sign).map(|(allocation, _)| allocation);
            AllocationGroups::of(timeline, args.by.grouping(), allocations)
        };
        let declined = (rule == LifetimeRule::GrowthAndDecline).then(|| found(-1));
        Self { allocations: found(1), declined }
    }
}

fn print(
    title: &str,
    rule: LifetimeRule,
    by: By,
    moments: &[Moment],
    timeline: &Timeline<'_>,
    found: &Found,
) {
    say!("{}, rule {}", shown(title), rule.name());
    say_unread(&timeline.unread());
    say!("{}", rule.question());
    for (moment, marker) in moments.iter().zip(MARKERS) {
        say!("  {marker}: {}", words(timeline, *moment));
    }
    let now = moments.last().copied().unwrap_or_default();
    let of = |part: &AllocationGroups, what: &str| part.table(timeline, by.grouping(), now, what);
    table::print(&of(&found.allocations, "allocation"));
    if let Some(declined) = &found.declined {
        say!();
        table::print(&of(declined, "declined allocation"));
    }
}

/// Lists the rules.
fn list(json: bool) -> Result<(), Failure> {
    if json {
        let rules = LifetimeRule::ALL.map(|rule| RuleJson {
            rule: rule.name(),
            question: rule.question(),
            moments: rule.markers(),
        });
        say!("{}", serde_json::to_string(&RulesJson { rules: &rules })?);
        return Ok(());
    }
    let mut table =
        Table::new(&[("Rule", Align::Left), ("Moments", Align::Right), ("Question", Align::Sentence)]);
    for rule in LifetimeRule::ALL {
        table.row([rule.name().to_owned(), rule.markers().to_string(), rule.question().to_owned()]);
    }
    table.print();
    Ok(())
}

/// The JSON output.
#[derive(Serialize)]
struct LifetimesJson<'a> {
    file: &'a str,
    rule: &'a str,
    moments: Vec<Option<MomentJson>>,
    #[serde(flatten)]
    found: PartJson<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    declined: Option<PartJson<'a>>,
}

#[derive(Serialize)]
struct PartJson<'a> {
    count: u64,
    bytes: u64,
    groups: Vec<GroupJson<'a>>,
}

impl<'a> LifetimesJson<'a> {
    fn new(
        file: &'a str,
        rule: LifetimeRule,
        moments: &[Moment],
        timeline: &Timeline<'a>,
        found: &'a Found,
    ) -> Self {
        let now = moments.last().copied().unwrap_or_default();
        let part = |part: &'a AllocationGroups| PartJson {
            count: part.count,
            bytes: part.bytes,
            groups: groups::json(&part.groups, timeline, now),
        };
        Self {
            file,
            rule: rule.name(),
            moments: moments.iter().map(|&moment| MomentJson::of(timeline, moment)).collect(),
            found: part(&found.allocations),
            declined: found.declined.as_ref().map(part),
        }
    }
}

/// The JSON output without a rule.
#[derive(Serialize)]
struct RulesJson<'a> {
    rules: &'a [RuleJson],
}

#[derive(Serialize)]
struct RuleJson {
    rule: &'static str,
    question: &'static str,
    moments: usize,
}
