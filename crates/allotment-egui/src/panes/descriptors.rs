//! The descriptor heaps at the cursor: how full they are, and which slots are free.

use allotment_analyze::{Class, DescriptorOccupancy};
use allotment_trace::recording::DescriptorHeap;
use egui::{Rect, RichText, ScrollArea, Sense, Ui};

use super::empty;
use crate::paint::Rects;
use crate::state::{Palette, State};
use crate::text;

pub(crate) fn ui(ui: &mut Ui, state: &State) {
    let (timeline, position) = (state.loaded.timeline(), state.position());
    let heaps: Vec<_> = timeline
        .descriptor_heaps()
        .filter_map(|heap| {
            let (_, is) = timeline.descriptor_heap_at(heap, position)?;
            let occupancy = DescriptorOccupancy::of(timeline.moment(position), is.capacity, &is.ranges);
            Some((is, occupancy))
        })
        .collect();
    if heaps.is_empty() {
        empty(
            ui,
            if timeline.descriptor_heaps().len() == 0 {
                "This recording has no descriptor heaps."
            } else {
                "No descriptor heap exists at this moment."
            },
        );
        return;
    }
    let palette = Palette::new(state.palette, ui.visuals().dark_mode);
    ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        egui::Grid::new("descriptor heaps").num_columns(6).spacing([16.0, 5.0]).striped(true).show(
            ui,
            |ui| {
                for heading in ["Heap", "Descriptors", "Used", "", "Longest free run", "Slots"] {
                    ui.label(RichText::new(heading).strong());
                }
                ui.end_row();
                for (heap, occupancy) in &heaps {
                    let name = state.loaded.recording().text(heap.name).filter(|name| !name.is_empty());
                    ui.label(name.unwrap_or("(no name)"));
                    ui.label(heap.kind.to_string());
                    let (used, all) = (u64::from(occupancy.allocated), u64::from(occupancy.capacity));
                    ui.label(format!("{} of {}", text::count(used), text::count(all)));
                    ui.label(text::percent(used, all));
                    ui.label(text::count(u64::from(occupancy.longest_free)));
                    slots(ui, heap, &palette);
                    ui.end_row();
                }
            },
        );
    });
}

/// The slots of a heap, in the colours of the block map.
fn slots(ui: &mut Ui, heap: &DescriptorHeap, palette: &Palette) {
    let width = ui.available_width().clamp(200.0, 700.0);
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
