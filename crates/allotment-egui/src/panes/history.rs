//! All allocations that ever had some bytes, in their order.

use core::cell::RefCell;

use allotment_analyze::{AllocationIndex, BlockIndex};
use egui::{Id, RichText, Ui};

use crate::state::State;
use crate::text;

/// Rows that are listed: those around the moment.
const LISTED: usize = 60;

/// A block, the first byte and the byte behind the last.
type Range = (BlockIndex, u64, u64);

/// The list of the last range, since it takes one look at every allocation of the recording.
#[derive(Clone)]
struct Listed {
    range: Range,
    end: u64,
    found: std::sync::Arc<Vec<AllocationIndex>>,
}

pub(super) fn ui(ui: &mut Ui, state: &mut State, range: Range, shown: Option<AllocationIndex>) {
    if !state.has_history() {
        return;
    }
    let found = allocations(ui, state, range);
    ui.add_space(8.0);
    let heading = format!("History of these bytes: {}", text::plural(found.len() as u64, "allocation"));
    ui.label(RichText::new(heading).strong());
    if found.is_empty() {
        ui.label(RichText::new("No allocation ever had them.").color(ui.visuals().weak_text_color()));
        return;
    }
    let (timeline, position) = (state.loaded.timeline(), state.position());
    let now = found.partition_point(|&allocation| timeline.lifetime(allocation).allocated < position);
    let first = now.saturating_sub(LISTED / 2).min(found.len().saturating_sub(LISTED));
    let listed = &found[first..found.len().min(first + LISTED)];
    let clicked = RefCell::new(None);
    // What is left beside the bytes and the events.
    let names = (ui.available_width() - 170.0).max(90.0);
    egui::Grid::new("history").num_columns(3).spacing([10.0, 2.0]).max_col_width(names).striped(true).show(
        ui,
        |ui| {
            for &allocation in listed {
                let life = timeline.lifetime(allocation);
                let name = text::name(timeline, allocation);
                let is_here = shown == Some(allocation) || timeline.allocation_exists(allocation, position);
                let name = if is_here { RichText::new(name).strong() } else { RichText::new(name) };
                if ui.add(egui::Link::new(name)).clicked() {
                    *clicked.borrow_mut() = Some(allocation);
                }
                let to = life.freed.map_or("end".to_owned(), text::count);
                ui.label(text::bytes(timeline.requested(allocation)));
                ui.label(RichText::new(format!("{} – {to}", text::count(life.allocated))).weak());
                ui.end_row();
            }
        },
    );
    if listed.len() < found.len() {
        let all = text::count(found.len() as u64);
        ui.label(RichText::new(format!("{} of {all} are listed.", listed.len())).weak());
    }
    if let Some(allocation) = clicked.into_inner() {
        state.show(allocation);
    }
}

/// The allocations that ever had bytes of a range, in the order in which they were allocated.
fn allocations(ui: &Ui, state: &State, range: Range) -> std::sync::Arc<Vec<AllocationIndex>> {
    let id = Id::unique("allotment history");
    let timeline = state.loaded.timeline();
    let known = ui.ctx().data(|data| data.get_temp::<Listed>(id));
    if let Some(known) = known.filter(|known| known.range == range && known.end == timeline.end()) {
        return known.found;
    }
    let (block, start, end) = range;
    let found: Vec<_> = timeline
        .allocations()
        .filter(|&allocation| {
            let first = timeline.place_at(allocation, 0);
            let moved = timeline.moves_of(allocation).map(|(_, place)| place);
            core::iter::once(first).chain(moved).any(|place| {
                place.block == block
                    && place.offset < end
                    && place.offset.saturating_add(place.occupied.max(1)) > start
            })
        })
        .collect();
    let found = std::sync::Arc::new(found);
    let listed = Listed { range, end: timeline.end(), found: std::sync::Arc::clone(&found) };
    ui.ctx().data_mut(|data| data.insert_temp(id, listed));
    found
}
