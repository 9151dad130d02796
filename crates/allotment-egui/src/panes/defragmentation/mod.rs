//! A defragmentation before it runs: the blocks now and after, an arrow for each move, and what it gains.
//!
//! ```text
//!               now                              after
//!  #0  64 MiB   |▓▓▓▓|      |▓▓▓▓▓▓|      ┌──▶   |▓▓▓▓|▓▓|   |▓▓▓▓▓▓|   |
//!  #1  64 MiB   |      |▓▓|─────────────────┘                     freed
//! ```
//!
//! The library's planner makes the plan, for the blocks at the cursor. A large plan is made on a thread of its own.

mod arrows;
mod picture;
mod plan;

use core::time::Duration;

use allotment::memory::defragmentation::{DefragmentationError, DefragmentationStrategy};
use allotment_analyze::{DefragmentationPreview, PreviewOptions, Scope};
use egui::{DragValue, RichText, Ui};

use super::{empty, figure, waiting};
use crate::background::Background;
use crate::state::State;
use crate::text;
use picture::Picture;
use plan::Plan;

/// The time of a preview, for each allocation that exists.
const EACH_ALLOCATION: Duration = Duration::from_micros(2);

/// The pane plans anew when one of these changes.
type Key = (u64, Scope, PreviewOptions);

/// The pane.
pub(crate) struct DefragmentationPane {
    strategy: Strategy,
    /// The bytes that [`Strategy::Within`] may copy, in MiB.
    within: u64,
    all_movable: bool,
    found: Background<Key, (Key, Result<Plan, DefragmentationError>)>,
    picture: Picture,
    /// The plan that the picture is of.
    drawn: Option<Key>,
}

/// The strategies of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    Fast,
    Full,
    Within,
}

impl Default for DefragmentationPane {
    fn default() -> Self {
        Self {
            strategy: Strategy::Fast,
            within: 16,
            all_movable: false,
            found: Background::default(),
            picture: Picture::default(),
            drawn: None,
        }
    }
}

impl DefragmentationPane {
    /// Drops what was counted; the choices stay.
    pub(crate) fn forget(&mut self) {
        (self.found, self.picture, self.drawn) = (Background::default(), Picture::default(), None);
    }

    /// Plans anew, for a recording that goes on where the one so far ends.
    pub(crate) const fn outdate(&mut self) {
        self.found.outdate();
    }

    pub(crate) fn ui(&mut self, ui: &mut Ui, state: &mut State) {
        self.controls(ui);
        if state.moment.blocks.is_empty() {
            let why = "No block exists at this moment. Move the cursor in the timeline, or show all memory.";
            return empty(ui, why);
        }
        let options = PreviewOptions { strategy: self.chosen(), all_movable: self.all_movable };
        let key = (state.position(), state.scope, options);
        let (position, scope, _) = key;
        // A block takes as long as an allocation.
        let described = state.loaded.cursor().allocation_count() + state.moment.blocks.len();
        let cost = EACH_ALLOCATION.saturating_mul(u32::try_from(described).unwrap_or(u32::MAX));
        let found = self.found.get_for(ui.ctx(), &state.loaded, cost, key, move |timeline| {
            (key, Plan::at(timeline, position, scope, options))
        });
        let Some((of, found)) = found else { return waiting(ui) };
        let Ok(plan) = found else {
            return empty(ui, "The recording contradicts itself here: an allocation is beyond its block.");
        };
        if self.drawn != Some(*of) {
            (self.picture, self.drawn) = (Picture::default(), Some(*of));
        }
        if plan.preview.moves.is_empty() {
            return empty(ui, &why_nothing(&plan.preview));
        }
        figures(ui, &plan.preview);
        self.picture.ui(ui, state, plan);
    }

    const fn chosen(&self) -> DefragmentationStrategy {
        match self.strategy {
            Strategy::Fast => DefragmentationStrategy::Fast,
            Strategy::Full => DefragmentationStrategy::Full,
            Strategy::Within => DefragmentationStrategy::WithinBytes(self.within << 20),
        }
    }

    fn controls(&mut self, ui: &mut Ui) {
        ui.horizontal_wrapped(|ui| {
            ui.label("Strategy");
            for (strategy, word, what) in [
                (Strategy::Fast, "fast", "Empties blocks that free two bytes at least for each byte copied."),
                (Strategy::Full, "full", "Empties all blocks that can be emptied, the cheapest first."),
                (Strategy::Within, "within", "Frees the most for a number of copied bytes."),
            ] {
                ui.selectable_value(&mut self.strategy, strategy, word).on_hover_text(what);
            }
            if self.strategy == Strategy::Within {
                // 16 TiB are more than any device has.
                ui.add(DragValue::new(&mut self.within).range(1..=16 << 20).suffix(" MiB"));
            }
            ui.separator();
            ui.checkbox(&mut self.all_movable, "as if every allocation could be moved").on_hover_text(
                "What a program would gain if it let the library move all of them. What shares bytes stays.",
            );
        });
    }
}

/// Says why nothing would be moved.
fn why_nothing(preview: &DefragmentationPreview) -> String {
    if preview.allocations == 0 {
        return "No block has an allocation at this moment: all are freed without a move.".to_owned();
    }
    if preview.movable == 0 && !preview.options.all_movable {
        return format!(
            "The program let the library move none of its {}. The choice “as if every allocation could be moved” shows \
             what it would gain.",
            text::plural(preview.allocations, "allocation")
        );
    }
    preview.verdict().sentence(text::bytes)
}

fn figures(ui: &mut Ui, preview: &DefragmentationPreview) {
    let plan = &preview.plan;
    let largest = |share: f64| format!("{:.0} %", share * 100.0);
    let (before, after) = (&preview.holes_before, &preview.holes_after);
    ui.horizontal_wrapped(|ui| {
        figure(ui, "Moves", &text::count(preview.moves.len() as u64));
        figure(ui, "Copied", &text::bytes(plan.bytes_moved()));
        let blocks =
            format!("{} of {}", text::count(plan.blocks_freed().into()), text::count(plan.blocks.into()));
        figure(ui, "Blocks freed", &blocks);
        figure(ui, "Bytes freed", &text::bytes(plan.bytes_freed()));
        let fragmentation =
            format!("{} now, {} after", largest(before.largest_share()), largest(after.largest_share()));
        figure(ui, "Largest free range", &fragmentation);
        ui.label(RichText::new("of the free bytes").weak());
        figure(ui, "Least bytes of blocks", &text::bytes(preview.least.block_bytes));
    });
}
