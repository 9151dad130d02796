//! Other settings of the allocator, tried with the recorded requests: two settings side by side.
//!
//! ```text
//!  A  as recorded                        │  GiB │      ____   blocks of A
//!  B  largest block 32 MiB               │      │  ___/....\__  blocks of B
//!                    A         B         │      │_/          \_
//!  peak of blocks    160 MiB   128 MiB   │      └──────────────── frames
//! ```
//!
//! The library's own allocator makes the requests again, on a simulated GPU with the recorded heaps, on a thread of its
//! own where the recording is long.

mod answer;
mod chart;
mod settings;

use core::time::Duration;

use allotment_analyze::{PeakFigures, SettingChanges, recorded_settings};
use egui::{Grid, RichText, Ui, vec2};

use super::{empty, waiting};
use crate::background::Background;
use crate::state::{Palette, State};
use crate::text;
use answer::Answer;

/// The time of a replay and of its analyses, for each event.
const EACH_EVENT: Duration = Duration::from_micros(2);

/// Points of the table.
const TABLE: f32 = 480.0;

/// The names of the two sides.
const NAMES: [&str; 2] = ["A", "B"];

/// The pane.
#[derive(Default)]
pub(crate) struct WhatIfPane {
    changes: [SettingChanges; 2],
    found: [Background<SettingChanges, Result<Answer, String>>; 2],
}

impl WhatIfPane {
    /// Drops what was counted; the choices stay.
    pub(crate) fn forget(&mut self) {
        self.found = Default::default();
    }

    /// Counts again, for a recording that goes on where the one so far ends.
    pub(crate) fn outdate(&mut self) {
        self.found.iter_mut().for_each(Background::outdate);
    }

    pub(crate) fn ui(&mut self, ui: &mut Ui, state: &mut State) {
        let timeline = state.loaded.timeline();
        if timeline.allocation_count() == 0 {
            return empty(
                ui,
                "Nothing was allocated in this recording, so there is no request to make again.",
            );
        }
        let recorded = recorded_settings(state.loaded.recording());
        for (changes, name) in self.changes.iter_mut().zip(NAMES) {
            settings::ui(ui, name, changes, &recorded);
        }
        if state.loaded.recording().header.heaps.is_empty() {
            let note = "The recording does not say which heaps its device has. The requests are made of one heap of any \
                        size, so none is refused for want of memory.";
            ui.label(RichText::new(note).weak());
        }
        let events = u32::try_from(timeline.end()).unwrap_or(u32::MAX);
        let cost = EACH_EVENT.saturating_mul(events);
        let mut sides = [None, None];
        for ((side, found), &changes) in sides.iter_mut().zip(&mut self.found).zip(&self.changes) {
            *side = found.get_for(ui.ctx(), &state.loaded, cost, changes, move |timeline| {
                Answer::of(timeline, &changes)
            });
        }
        let mut answers = Vec::new();
        for (side, name) in sides.into_iter().zip(NAMES) {
            match side {
                None => return waiting(ui),
                Some(Err(why)) => return empty(ui, &format!("{name}: {why}.")),
                Some(Ok(answer)) => answers.push(answer),
            }
        }
        let [a, b] = answers[..] else { return };
        if self.changes[0] == self.changes[1] {
            ui.label(RichText::new("A and B have the same settings. Choose another one for B.").weak());
        }
        let palette = Palette::new(state.palette, ui.visuals().dark_mode);
        ui.horizontal_top(|ui| {
            let height = ui.available_height();
            ui.allocate_ui(vec2(TABLE.min(ui.available_width() * 0.5), height), |ui| {
                egui::ScrollArea::vertical().auto_shrink(false).show(ui, |ui| table(ui, a, b, &palette));
            });
            chart::ui(ui, state, [a, b], &palette);
        });
    }
}

fn permille(share: u64) -> String {
    format!("{:.1} %", share as f64 / 10.0)
}

fn table(ui: &mut Ui, a: &Answer, b: &Answer, palette: &Palette) {
    let table = PeakFigures::table(NAMES, [&a.figures, &b.figures]);
    Grid::new("what if").num_columns(4).spacing([22.0, 3.0]).striped(true).show(ui, |ui| {
        for (at, column) in table.columns.iter().enumerate() {
            let mut heading = RichText::new(column.heading).strong();
            if let Some(side) = at.checked_sub(1).filter(|&side| side < NAMES.len()) {
                heading = heading.color(chart::colours(palette)[side]);
            }
            ui.label(heading).on_hover_text(column.help);
        }
        ui.end_row();
        for row in &table.rows {
            for cell in &row.cells {
                ui.label(cell.text());
            }
            ui.end_row();
        }
        // Only here: it is of a replay, and not of its recording.
        ui.label("Requests at their recorded place");
        ui.label(permille(a.same_place));
        ui.label(permille(b.same_place));
        ui.label(change(a.same_place, b.same_place));
        ui.end_row();
    });
    let moves: u64 = a.moves_left_out.max(b.moves_left_out);
    if moves > 0 {
        let left_out = format!("{} of defragmentation are left out.", text::plural(moves, "move"));
        ui.label(RichText::new(left_out).weak());
    }
}

/// A change of thousandths with its sign.
fn change(from: u64, to: u64) -> String {
    match from.cmp(&to) {
        core::cmp::Ordering::Less => format!("+{}", permille(to - from)),
        core::cmp::Ordering::Equal => "–".to_owned(),
        core::cmp::Ordering::Greater => format!("−{}", permille(from - to)),
    }
}
