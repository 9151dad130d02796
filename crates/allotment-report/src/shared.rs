//! Allocations that resources share, as columns of the page: a table of them, when each resource existed, and when it was active.
//! `assets/shared.js` draws them.

use std::collections::HashMap;
use std::io::{self, Write};

use allotment_analyze::{ResourceIndex, SharedHistory, Timeline};
use allotment_trace::recording::BoundResource;

use crate::columns::ColumnWriter;
use crate::lives::RangeLife;
use crate::payload::{kind, life, text};
use crate::tables;

/// The allocations that resources share.
pub(crate) struct Shared {
    memories: Vec<SharedHistory>,
}

impl Shared {
    pub(crate) fn of(timeline: &Timeline<'_>) -> Self {
        Self { memories: SharedHistory::all(timeline) }
    }

    /// Writes the table, and columns in its order: of each memory its resources, and of each resource its active spans.
    pub(crate) fn write<W: Write>(
        &self,
        timeline: &Timeline<'_>,
        ranges: &[RangeLife],
        out: &mut ColumnWriter<W>,
    ) -> io::Result<()> {
        let Self { memories } = self;
        tables::table(out, "shared", &SharedHistory::table(timeline, memories))?;
        let lifetime = |of: &SharedHistory| {
            let lifetime = timeline.lifetime(of.allocation);
            moments(lifetime.allocated, lifetime.freed)
        };
        out.difference("shared.from", memories.iter().map(|of| lifetime(of).0))?;
        // Memory that resources share never moves, so it has one range. Its number is plus 1, and 0 where it has none.
        let mut range_from: HashMap<u64, u64> = memories.iter().map(|of| (lifetime(of).0, 0)).collect();
        for (number, range) in (1..).zip(ranges) {
            if let Some(of_memory) = range_from.get_mut(&range.from) {
                *of_memory = number;
            }
        }
        out.plain("shared.range", memories.iter().map(|of| range_from[&lifetime(of).0]))?;
        out.plain("shared.life", memories.iter().map(|of| lifetime(of).1))?;
        out.plain("shared.size", memories.iter().map(|of| of.size))?;
        out.plain("shared.name", memories.iter().map(|of| text(timeline.texts(of.allocation).name)))?;
        out.plain("shared.resources", memories.iter().map(|of| of.resources))?;
        out.difference("shared.peak_at", memories.iter().map(|of| of.peak_at))?;

        let resources: Vec<ResourceIndex> =
            memories.iter().flat_map(|of| timeline.resources_of(of.allocation)).collect();
        let lives: Vec<_> = resources.iter().map(|&one| timeline.resource_lifetime(one)).collect();
        let described: Vec<BoundResource> =
            resources.iter().zip(&lives).map(|(&one, life)| timeline.resource_at(one, life.0)).collect();
        out.difference("bound.from", lives.iter().map(|&(from, to)| moments(from, to).0))?;
        out.plain("bound.life", lives.iter().map(|&(from, to)| moments(from, to).1))?;
        out.difference("bound.offset", described.iter().map(|is| is.offset))?;
        out.plain("bound.size", described.iter().map(|is| is.size))?;
        out.plain("bound.name", described.iter().map(|is| text(is.name)))?;
        out.plain("bound.site", described.iter().map(|is| text(is.call_site)))?;
        out.plain("bound.kind", described.iter().map(|is| kind(is.kind)))?;

        let spans: Vec<_> = resources.iter().map(|&one| timeline.active_spans(one)).collect();
        out.plain("bound.spans", spans.iter().map(|spans| spans.len() as u64))?;
        let spans = || {
            // What is active until the end has no event that ended it.
            let ended = |to| Some(to).filter(|&to| to < timeline.end());
            spans.iter().flatten().map(move |&(from, to)| moments(from, ended(to)))
        };
        out.difference("active.from", spans().map(|(from, _)| from))?;
        out.plain("active.life", spans().map(|(_, life)| life))
    }
}

/// Returns the first moment of a life that events began and ended, and how many moments it has; 0 if it has not ended.
fn moments(began: u64, ended: Option<u64>) -> (u64, u64) {
    (began + 1, ended.map_or(0, |ended| life(began, ended)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_begins_at_the_moment_after_its_event_and_has_no_length_while_it_lasts() {
        assert_eq!(moments(0, Some(3)), (1, 3));
        assert_eq!(moments(7, None), (8, 0));
    }
}
