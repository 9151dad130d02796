//! The descriptor heaps at the cursor: how full they are, and which slots are free.

use std::sync::Arc;

use allotment_analyze::tables::{DescriptorHeapRow, Table};
use allotment_analyze::{Class, Cursor};
use allotment_trace::recording::DescriptorHeap;
use egui::{Rect, Sense, Ui};

use super::table::SortedTable;
use super::{empty, waiting};
use crate::background::Background;
use crate::paint::Rects;
use crate::state::{Palette, State};

/// The pane.
#[derive(Default)]
pub(crate) struct DescriptorsPane {
    found: Background<u64, (Vec<DescriptorHeapRow>, Arc<Table>)>,
    table: SortedTable,
}

impl DescriptorsPane {
    pub(crate) const fn outdate(&mut self) {
        self.found.outdate();
    }

    pub(crate) fn ui(&mut self, ui: &mut Ui, state: &State) {
        let position = state.position();
        let found = self.found.get(ui.ctx(), &state.loaded, position, move |timeline| {
            let heaps = DescriptorHeapRow::all(&Cursor::at(timeline, position));
            let table = Arc::new(DescriptorHeapRow::table(timeline, &heaps));
            (heaps, table)
        });
        let Some((heaps, table)) = found else { return waiting(ui) };
        if heaps.is_empty() {
            let none = state.loaded.timeline().descriptor_heaps().len() == 0;
            let why =
                ["No descriptor heap exists at this moment.", "This recording has no descriptor heaps."];
            empty(ui, why[usize::from(none)]);
            return;
        }
        let palette = Palette::new(state.palette, ui.visuals().dark_mode);
        let draw = |ui: &mut Ui, row: usize| slots(ui, &heaps[row].heap, &palette);
        self.table.with_picture(ui, "descriptor heaps", table, &palette, Some(("In use", &draw)));
    }
}

/// The slots of a heap, in the colours of the block map.
fn slots(ui: &mut Ui, heap: &DescriptorHeap, palette: &Palette) {
    let width = ui.available_width().max(100.0);
    let (area, _) = ui.allocate_exact_size(egui::vec2(width, 14.0), Sense::hover());
    let mut rects = Rects::new(ui.ctx());
    rects.add_class(area, Class::Free, palette);
    let x = |slot: u32| area.left() + slot as f32 / heap.capacity.max(1) as f32 * area.width();
    for (&first, &count) in &heap.ranges {
        let end = first.saturating_add(count).min(heap.capacity);
        let right = x(end).max(x(first) + 1.0);
        rects.add_class(Rect::from_x_y_ranges(x(first)..=right, area.y_range()), Class::Used, palette);
    }
    rects.paint(ui.painter());
}
