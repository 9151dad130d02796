//! What plans with all lifetimes known would take, as columns of the page. `assets/planned.js` draws them.

use std::io::{self, Write};

use allotment_analyze::{OfflineMemory, PlanPicture, Timeline, proved};

use crate::columns::ColumnWriter;

/// More rectangles of a picture are too small to be told apart.
const MOST_DRAWN: usize = 20_000;

/// Plans by memory type, or why there are none.
pub(crate) struct Planned {
    memories: Vec<(OfflineMemory, String, PlanPicture)>,
    refused: Option<String>,
}

impl Planned {
    /// Plans what a recording allocated. Takes a few seconds at most, whatever the recording.
    pub(crate) fn of(timeline: &Timeline<'_>) -> Self {
        if !timeline.has_history() {
            return Self { memories: Vec::new(), refused: None };
        }
        match OfflineMemory::of(timeline) {
            Ok(memories) => {
                let plans = OfflineMemory::plan_all(&memories);
                let drawn = memories.into_iter().zip(plans).map(|(memory, plan)| {
                    let mut picture = memory.picture(&plan);
                    picture.keep_largest(MOST_DRAWN);
                    (memory, proved(&plan), picture)
                });
                Self { memories: drawn.collect(), refused: None }
            }
            Err(error) => Self { memories: Vec::new(), refused: Some(format!("There is no plan: {error}.")) },
        }
    }

    pub(crate) fn write<W: Write>(
        &self,
        timeline: &Timeline<'_>,
        out: &mut ColumnWriter<W>,
    ) -> io::Result<()> {
        let Self { memories, refused } = self;
        out.texts("planned.refused", refused.as_ref())?;
        let memory = || memories.iter().map(|(memory, ..)| memory);
        let picture = || memories.iter().map(|(.., picture)| picture);
        out.plain("planned.type", memory().map(|memory| memory.memory_type.0.into()))?;
        out.plain("planned.allocations", memory().map(|memory| memory.allocations.len() as u64))?;
        out.plain("planned.recorded", memory().map(|memory| memory.recorded_peak))?;
        out.plain("planned.peak", picture().map(|picture| picture.peak))?;
        out.plain("planned.bound", picture().map(|picture| picture.lower_bound))?;
        out.texts("planned.proved", memories.iter().map(|(_, proved, _)| proved))?;
        out.plain("planned.drawn", picture().map(|picture| picture.items.len() as u64))?;

        let items = || picture().flat_map(|picture| &picture.items);
        // An allocation exists at the moments behind its event.
        out.difference("placed.from", items().map(|item| item.life.start + 1))?;
        out.plain("placed.life", items().map(|item| item.life.end - item.life.start))?;
        out.difference("placed.offset", items().map(|item| item.offset))?;
        out.plain("placed.size", items().map(|item| item.size))?;
        out.plain("placed.hue", items().map(|item| item.hue().into()))?;
        let name = |(memory, _, picture): &(OfflineMemory, String, PlanPicture)| {
            let names = picture.items.iter().map(|item| timeline.texts(memory.allocations[item.item]).name);
            names.map(|name| u64::from(name.0)).collect::<Vec<_>>()
        };
        out.plain("placed.name", memories.iter().flat_map(name))
    }
}
