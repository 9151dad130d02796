//! The allocations as a table that can be searched, sorted and grouped.

mod columns;
mod drawn;

use core::time::Duration;
use std::sync::Arc;

use allotment_analyze::tables::{REQUESTED, Table, sort_allocations};
use allotment_analyze::{
    AllocationGroups, AllocationIndex, AllocationSearch, Cursor, Grouping, LifetimeRule, Scope, Status,
    Timeline,
};
use egui::{RichText, TextEdit, Ui};

use crate::background::Background;
use crate::panes::{empty, waiting};
use crate::state::{Palette, State};
use crate::text;
pub(super) use columns::allocation_rows;
use drawn::Sort;
pub(super) use drawn::{SortedTable, bar};

/// The table makes its rows anew when one of these changes.
#[derive(Clone, Debug, PartialEq)]
struct Key {
    query: String,
    whole: bool,
    scope: Scope,
    /// The position, where it matters.
    position: Option<u64>,
    end: u64,
    grouping: Option<Grouping>,
    sort: Sort,
}

/// The rows of a search.
#[derive(Default)]
struct Found {
    allocations: Vec<AllocationIndex>,
    groups: Arc<Table>,
    /// The keys of the groups.
    keys: Vec<String>,
    bytes: u64,
}

/// The pane.
pub(crate) struct TablePane {
    query: String,
    /// All allocations of the recording, instead of those at the cursor.
    whole: bool,
    grouping: Option<Grouping>,
    sort: Sort,
    found: Background<Key, Arc<Found>>,
    /// The last rows that were found. They stay while others are looked for.
    shown: Arc<Found>,
    groups: SortedTable,
}

impl Default for TablePane {
    fn default() -> Self {
        Self {
            query: String::new(),
            whole: false,
            grouping: None,
            sort: (REQUESTED, true),
            found: Background::default(),
            shown: Arc::default(),
            groups: SortedTable::default(),
        }
    }
}

/// What it takes to find and sort the rows, for each allocation that may be one.
const EACH_ALLOCATION: Duration = Duration::from_nanos(150);

/// The choice of what allocations are grouped by.
pub(super) fn groupings(ui: &mut Ui, chosen: &mut Grouping) {
    ui.label("By");
    for grouping in Grouping::ALL {
        ui.selectable_value(chosen, grouping, grouping.name());
    }
}

impl TablePane {
    pub(crate) fn row_count(&self) -> usize {
        if self.grouping.is_some() { self.shown.keys.len() } else { self.shown.allocations.len() }
    }

    pub(crate) fn query(&self) -> &str {
        &self.query
    }

    /// Looks for the rows again, for a recording that goes on where the one so far ends.
    pub(crate) const fn outdate(&mut self) {
        self.found.outdate();
    }

    pub(crate) fn forget(&mut self) {
        (self.found, self.shown) = (Background::default(), Arc::default());
    }

    pub(crate) fn ui(&mut self, ui: &mut Ui, state: &mut State) {
        self.controls(ui, state);
        self.update(ui, state);
        let shown = Arc::clone(&self.shown);
        if shown.allocations.is_empty() {
            match self.found.known() {
                Some(_) => empty(ui, self.why_empty()),
                None => waiting(ui),
            }
            return;
        }
        if self.grouping.is_some() {
            let palette = Palette::new(state.palette, ui.visuals().dark_mode);
            if let Some(row) = self.groups.ui(ui, "groups of the table", &shown.groups, &palette) {
                self.open_group(shown.keys[row].clone());
            }
            return;
        }
        let sort = allocation_rows(ui, state, "allocations", &shown.allocations, Some(self.sort));
        self.sort = sort.unwrap_or(self.sort);
    }

    const fn why_empty(&self) -> &'static str {
        if !self.query.is_empty() {
            "Nothing matches the search."
        } else if self.whole {
            "No allocation was made in this recording."
        } else {
            "Nothing is allocated at this moment."
        }
    }

    fn controls(&mut self, ui: &mut Ui, state: &mut State) {
        ui.horizontal_wrapped(|ui| {
            let hint = "Name, category or call site   #block   0x1000-0x1fff   >64k   ( / )";
            let field = ui.add(TextEdit::singleline(&mut self.query).hint_text(hint).desired_width(430.0));
            field.widget_info(|| {
                let mut info = egui::WidgetInfo::labeled(egui::Role::SearchInput, true, "Search allocations");
                info.current_text_value = Some(self.query.clone());
                info
            });
            if core::mem::take(&mut state.focus_search) {
                field.request_focus();
            }
            if !self.query.is_empty() && ui.button("Clear").clicked() {
                self.query.clear();
            }
            ui.separator();
            ui.selectable_value(&mut self.whole, false, "at this moment");
            if state.has_history() {
                ui.selectable_value(&mut self.whole, true, "whole recording");
            }
            ui.separator();
            ui.label("By");
            ui.selectable_value(&mut self.grouping, None, "allocation");
            for grouping in Grouping::ALL {
                ui.selectable_value(&mut self.grouping, Some(grouping), grouping.name());
            }
            ui.separator();
            let sum = text::plural(self.shown.allocations.len() as u64, "allocation");
            let sum = format!("{sum}, {} requested", text::bytes(self.shown.bytes));
            ui.label(RichText::new(sum).color(ui.visuals().weak_text_color()));
        });
    }

    /// Shows the allocations of a group.
    fn open_group(&mut self, key: String) {
        // A group's words are parts of a search; all of them hold for its members.
        self.query = key;
        self.grouping = None;
    }

    fn update(&mut self, ui: &Ui, state: &State) {
        let timeline = state.loaded.timeline();
        let key = Key {
            query: self.query.clone(),
            whole: self.whole,
            scope: state.scope,
            position: (!self.whole).then_some(state.position()),
            end: timeline.end(),
            grouping: self.grouping,
            sort: self.sort,
        };
        let looked_at =
            if self.whole { timeline.allocation_count() } else { state.loaded.cursor().allocation_count() };
        let cost = EACH_ALLOCATION.saturating_mul(u32::try_from(looked_at).unwrap_or(u32::MAX));
        let of = key.clone();
        let found = self
            .found
            .get_for(ui.ctx(), &state.loaded, cost, key, move |timeline| Arc::new(find(timeline, &of)));
        self.shown = found.map_or_else(|| Arc::clone(&self.shown), Arc::clone);
    }
}

fn find(timeline: &Timeline<'_>, key: &Key) -> Found {
    let search = AllocationSearch::new(timeline.recording(), &key.query);
    let at = |allocation| key.position.unwrap_or_else(|| timeline.lifetime(allocation).allocated + 1);
    let is_shown = |&allocation: &AllocationIndex| {
        let position = at(allocation);
        timeline.status_at(allocation, position) != Status::Reserved
            && (key.scope == Scope::All
                || key.scope.contains(timeline, timeline.place_at(allocation, position).block))
            && search.matches(timeline, allocation, position)
    };
    let mut allocations: Vec<_> = match key.position {
        None => timeline.allocations().filter(is_shown).collect(),
        Some(position) => {
            let mut cursor = Cursor::new(timeline);
            cursor.seek(position);
            cursor.allocations().filter(is_shown).collect()
        }
    };
    // In the order of time, as groups need them, and as equal rows stay.
    allocations.sort_unstable();
    let bytes = allocations.iter().fold(0u64, |sum, &one| sum.saturating_add(timeline.requested(one)));
    let Some(grouping) = key.grouping else {
        sort_allocations(timeline, &mut allocations, key.sort, key.position);
        return Found { allocations, bytes, ..Found::default() };
    };
    let found = AllocationGroups::of(timeline, grouping, allocations.iter().copied());
    let now = timeline.moment(key.position.unwrap_or(key.end));
    let groups = Arc::new(found.table(timeline, grouping, now, "allocation"));
    let keys = found.groups.into_iter().map(|group| group.key).collect();
    Found { allocations, groups, keys, bytes }
}

/// The allocations of a rule, for the pane that shows them in this table's columns.
pub(super) fn of_rule(
    timeline: &Timeline<'_>,
    rule: LifetimeRule,
    markers: [u64; 4],
    end: allotment_analyze::LifetimeEnd,
    scope: Scope,
) -> Vec<(AllocationIndex, i8)> {
    let found = rule.query(timeline, markers, end);
    let in_scope = |&(allocation, _): &(AllocationIndex, i8)| {
        let block = timeline.place_at(allocation, timeline.lifetime(allocation).allocated + 1).block;
        scope.contains(timeline, block)
    };
    let mut found: Vec<_> = found.filter(in_scope).collect();
    found.sort_by_key(|&(allocation, _)| core::cmp::Reverse(timeline.requested(allocation)));
    found
}
