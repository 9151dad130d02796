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
        // With its last name, as an allocation has it.
        let described: Vec<BoundResource> =
            resources.iter().map(|&one| timeline.resource_at(one, timeline.end())).collect();
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
#[allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]
mod tests {
    use allotment::device::simulated::{Profile, SimulatedGpu};
    use allotment::device::{BufferDesc, ResourceKind};
    use allotment::{Gpu, GpuDesc, MemoryUsage, Requirements};
    use allotment_trace::Collector;
    use allotment_trace::recording::{Event, Recording, State, TextId};

    use super::*;
    use crate::columns::numbers;
    use crate::lives::Lives;

    /// Two buffers at the same bytes that take turns, and one that is destroyed.
    fn recording() -> Recording {
        let gpu = Gpu::new(SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap()), GpuDesc::default())
            .unwrap();
        let collector = Collector::new(&gpu).unwrap();
        let needs = Requirements { kind: ResourceKind::Buffer, ..Requirements::new(8192) };
        let memory = gpu.allocate_memory(&needs, &MemoryUsage::GpuOnly.with_name("both")).unwrap();
        let place =
            |offset, name| gpu.create_buffer_in(&memory, offset, &BufferDesc::new(4096), name).unwrap();
        let (a, b, c) = (place(0, "a"), place(0, "b"), place(4096, "c"));
        assert!(b.activate().unwrap().needs_barrier);
        drop(c);
        gpu.wait_idle().unwrap();
        gpu.reclaim();
        assert!(a.activate().unwrap().needs_barrier);
        a.with_raw(|a| gpu.allocator().set_name(a.allocation(), Some("renamed".into()))).unwrap();
        collector.into_recording()
    }

    #[test]
    fn a_memory_has_its_resources_and_each_of_these_the_spans_in_which_it_was_active() {
        let recording = recording();
        let (mut lives, mut state) = (Lives::default(), State::default());
        for event in &recording.events {
            state.apply(event).unwrap();
            lives.accepted(event, state.now.frame);
        }
        lives.sort_ranges();
        let timeline = Timeline::new(&recording);
        let mut out = ColumnWriter::new(Vec::new());
        Shared::of(&timeline).write(&timeline, &lives.ranges, &mut out).unwrap();
        let written = out.finish();
        let column = |name| numbers(&written, name);
        // Moments are one more than the numbers of the events.
        let moments = |is: fn(&Event) -> bool| -> Vec<u64> {
            (1..).zip(&recording.events).filter(|(_, event)| is(event)).map(|(moment, _)| moment).collect()
        };
        let bound = moments(|event| matches!(event, Event::Bound(_)));
        let activated = moments(|event| matches!(event, Event::Activated { .. }));
        let displaced = moments(|event| matches!(event, Event::Displaced { .. }));
        let unbound = moments(|event| matches!(event, Event::Unbound { .. }))[0];
        assert_eq!((bound.len(), activated.len(), displaced.len()), (3, 2, 2));

        assert_eq!((column("shared.size"), column("shared.resources")), (vec![8192], vec![3]));
        let range = column("shared.range")[0] as usize - 1;
        assert_eq!(lives.ranges[range].from, column("shared.from")[0]);
        assert_eq!(column("bound.from"), bound);
        assert_eq!(column("bound.life"), [0, 0, unbound - bound[2]]);
        assert_eq!((column("bound.offset"), column("bound.size")), (vec![0, 0, 4096], vec![4096; 3]));
        let name = recording.text(TextId(column("bound.name")[0] as u32)).unwrap();
        assert_eq!(name, "renamed", "the last one");
        // `a` from its creation and again at the end, `b` in between, `c` for all of its life.
        assert_eq!(column("bound.spans"), [2, 1, 1]);
        assert_eq!(column("active.from"), [bound[0], activated[1], activated[0], bound[2]]);
        let lengths = [displaced[0] - bound[0], 0, displaced[1] - activated[0], unbound - bound[2]];
        assert_eq!(column("active.life"), lengths);
    }
}
