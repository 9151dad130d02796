//! What colours tell apart, which groups are picked in the legend, and what a search finds.

use std::sync::Arc;

use allotment_analyze::{AllocationIndex, ColourBy, ColourGroups};

/// The colours of allocations, which the map and the timeline share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Colours {
    pub(crate) by: ColourBy,
    /// The groups that are picked in the legend, one bit each. Nothing else is dimmed while none is.
    pub(crate) picked: u16,
    /// The groups, once a thread has counted them.
    pub(crate) groups: Option<Arc<ColourGroups>>,
    /// Whether each allocation is what the search means; `None` without a search.
    pub(crate) found: Option<Arc<[bool]>>,
    /// Another one whenever one of these changes, for what is kept beside it.
    pub(crate) version: u64,
    /// Another one whenever the groups or what is found change: bytes are counted anew, and not when a group is picked.
    pub(crate) counted: u64,
}

impl Colours {
    /// Returns true if the map shows nothing but classes: by state, and nothing is dimmed.
    pub(crate) const fn is_plain(&self) -> bool {
        matches!(self.by, ColourBy::State) && self.picked == 0 && self.found.is_none()
    }

    /// Returns false if no allocation is dimmed.
    pub(crate) const fn dims_something(&self) -> bool {
        self.picked != 0 || self.found.is_some()
    }

    pub(crate) fn is_found(&self, allocation: AllocationIndex) -> bool {
        let found = |all: &Arc<[bool]>| all.get(allocation.0 as usize).copied().unwrap_or(false);
        self.found.as_ref().is_none_or(found)
    }

    pub(crate) const fn is_picked(&self, group: usize) -> bool {
        self.picked == 0 || self.picked & 1 << group != 0
    }

    /// Colours by something else.
    pub(crate) fn set_by(&mut self, by: ColourBy) {
        if self.by != by {
            (self.by, self.picked) = (by, 0);
            self.set(None, self.found.clone());
        }
    }

    /// Takes what was counted. The groups that are picked stay picked, wherever they are among the others now.
    pub(crate) fn set(&mut self, groups: Option<Arc<ColourGroups>>, found: Option<Arc<[bool]>>) {
        if let (Some(old), Some(new)) = (&self.groups, &groups) {
            let picked = |name: &str| {
                old.names().position(|old| old == name).is_some_and(|at| self.picked >> at & 1 == 1)
            };
            self.picked = new.names().enumerate().map(|(at, name)| u16::from(picked(name)) << at).sum();
        }
        (self.groups, self.found) = (groups, found);
        self.version += 1;
        self.counted += 1;
    }

    /// What colours may tell apart: nothing about time in a dump of one moment.
    pub(crate) fn choices(has_history: bool) -> Vec<ColourBy> {
        ColourBy::ALL.into_iter().filter(|by| has_history || !by.needs_history()).collect()
    }

    /// The one before or after in the list, and round.
    pub(crate) fn step_by(&mut self, forward: bool, has_history: bool) {
        let all = Self::choices(has_history);
        let at = all.iter().position(|&by| by == self.by).unwrap_or(0);
        self.set_by(all[(at + if forward { 1 } else { all.len() - 1 }) % all.len()]);
    }

    /// Picks a group, or no longer. Picking all of them is picking none.
    pub(crate) fn toggle(&mut self, group: usize) {
        self.picked ^= 1 << group;
        let all = self.groups.as_ref().map_or(0, |groups| (1u16 << groups.len()) - 1);
        if self.picked == all {
            self.picked = 0;
        }
        self.version += 1;
    }

    /// Picks the first group alone, then the next, and after the last one none.
    pub(crate) fn pick_next(&mut self) {
        let Some(count) = self.groups.as_ref().map(|groups| groups.len()) else { return };
        let next = if self.picked == 0 { 0 } else { self.picked.trailing_zeros() as usize + 1 };
        self.picked = if next < count { 1 << next } else { 0 };
        self.version += 1;
    }
}
