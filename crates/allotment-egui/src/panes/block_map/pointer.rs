//! The wheel, drags, clicks and the tooltip of the map.

use allotment_analyze::{BlockIndex, Class, Placed};
use egui::{Pos2, Response, RichText, Ui};

use super::{BlockMap, Places};
use crate::state::{Change, Selection, State};
use crate::text;

/// The object at a point of the map.
pub(super) enum Hit {
    /// The name of a block, or the text behind its strip.
    Block(BlockIndex),
    /// Allocations that have bytes there, what matters most first.
    Allocations(Vec<Placed>),
    /// A free range.
    Free { block: BlockIndex, start: u64, end: u64, padding: bool },
}

impl BlockMap {
    pub(super) fn input(&mut self, ui: &Ui, state: &mut State, response: &Response, places: Places) {
        let strips = places.strips;
        if response.double_clicked() {
            self.fit(state);
        } else if response.clicked()
            && let Some(point) = response.interact_pointer_pos()
            && !places.minimap.contains(point)
        {
            let hit = self.hit(state, point, places, ui.pixels_per_point());
            state.select(hit.map(|hit| match hit {
                Hit::Block(block) => Selection::Block(block),
                Hit::Allocations(placed) => Selection::Allocation(placed[0].allocation),
                Hit::Free { block, start, end, .. } => Selection::Free { block, start, end },
            }));
        }
        let started_in_rows = response.interact_pointer_pos().is_some_and(|at| at.x < places.minimap.left());
        if response.dragged() && started_in_rows {
            let delta = response.drag_delta();
            if delta.x != 0.0 && !state.bytes.is_whole() {
                state.leave(Change::Zoom);
                state.bytes.pan(-f64::from(delta.x / strips.width()));
            }
            self.top -= delta.y;
        }
        let Some(pointer) = response.hover_pos() else { return };
        let (wheel, pinch, shift) =
            ui.input(|input| (input.smooth_scroll_delta(), input.zoom_delta(), input.modifiers.shift));
        // With Shift, some systems turn the wheel sideways.
        let turned = if wheel.y == 0.0 { wheel.x } else { wheel.y };
        if shift && turned != 0.0 {
            let before = self.stretch;
            self.stretch = (self.stretch * (turned / 200.0).exp()).clamp(1.0, 12.0);
            let at = self.top + pointer.y - places.rows.top();
            self.top += at * (self.stretch / before - 1.0);
        } else if strips.contains(pointer) {
            let factor = f64::from((-wheel.y / 200.0).exp() / pinch);
            if wheel.x != 0.0 && !state.bytes.is_whole() {
                state.leave(Change::Zoom);
                state.bytes.pan(-f64::from(wheel.x / strips.width()));
            }
            if factor != 1.0 {
                state.leave(Change::Zoom);
                let at = f64::from((pointer.x - strips.left()) / strips.width());
                state.bytes.zoom(at, factor, self.least_view());
            }
        } else if places.rows.contains(pointer) {
            self.top -= wheel.y;
        }
    }

    /// The least part of a strip that fills the view: 64 bytes of the largest block.
    pub(crate) fn least_view(&self) -> f64 {
        64.0 / self.rows.largest.max(64) as f64
    }

    pub(super) fn hit(&self, state: &mut State, point: Pos2, places: Places, scale: f32) -> Option<Hit> {
        let (block, size) = self.rows.block_at(point.y - places.rows.top() + self.top, self.stretch)?;
        if !places.strips.x_range().contains(point.x) {
            return Some(Hit::Block(block));
        }
        let base = self.base(size) as f64;
        let share = f64::from((point.x - places.strips.left()) / places.strips.width());
        let byte = (state.bytes.from + share * state.bytes.size()) * base;
        let pixel = state.bytes.size() * base / f64::from(places.strips.width() * scale);
        // All bytes of the pixel, since it shows the most important of them.
        let start = (byte - pixel / 2.0).max(0.0) as u64;
        let end = ((byte + pixel / 2.0).ceil() as u64).max(start + 1);
        if start >= size {
            return Some(Hit::Block(block));
        }
        let contents = state.look(block);
        let placed = contents.hit(start..end);
        if !placed.is_empty() {
            return Some(Hit::Allocations(placed));
        }
        let segments = contents.levels.segments();
        let at = segments.partition_point(|segment| segment.end <= start);
        let hole = segments.get(at).filter(|segment| segment.class == Class::Free)?;
        let padding = contents.padding(hole.start..hole.end).next().is_some();
        Some(Hit::Free { block, start: hole.start, end: hole.end, padding })
    }

    pub(super) fn tooltip(&self, ui: &Ui, state: &mut State, response: &Response, places: Places) {
        let Some(point) = response.hover_pos() else { return };
        if response.dragged() || !places.rows.contains(point) {
            return;
        }
        let Some(hit) = self.hit(state, point, places, ui.pixels_per_point()) else { return };
        if let Hit::Allocations(placed) = &hit {
            state.hovered = Some(placed[0].allocation);
        }
        response.clone().on_hover_ui_at_pointer(|ui| tip(ui, state, &hit));
    }
}

fn tip(ui: &mut Ui, state: &State, hit: &Hit) {
    let timeline = state.loaded.timeline();
    match hit {
        Hit::Block(block) => {
            let size = timeline.block_size_at(*block, state.position());
            ui.label(RichText::new(format!("Block {}", text::block(timeline, *block))).strong());
            ui.label(format!("{}, {}", text::bytes(size), text::pool(&state.loaded, *block)));
            ui.label(text::memory_type(&state.loaded, timeline.block_info(*block).memory_type));
        }
        Hit::Allocations(placed) => {
            let first = &placed[0];
            ui.label(RichText::new(text::name(timeline, first.allocation)).strong());
            let rounding = first.occupied.saturating_sub(first.requested);
            let rounding = if rounding > 0 { format!(" + {}", text::bytes(rounding)) } else { String::new() };
            ui.label(format!("{}{rounding}, {}", text::bytes(first.requested), first.class()));
            ui.label(format!("at {} of block {}", text::hex(first.offset), {
                let place = timeline.place_at(first.allocation, state.position());
                text::block(timeline, place.block)
            }));
            if let others @ 1.. = placed.len() as u64 - 1 {
                ui.label(format!("and {} here", text::plural(others, "other")));
            }
        }
        Hit::Free { block, start, end, padding } => {
            let what = if *padding { "Alignment padding" } else { "Free range" };
            ui.label(RichText::new(what).strong());
            ui.label(text::bytes(end - start));
            ui.label(format!("at {} of block {}", text::hex(*start), text::block(timeline, *block)));
        }
    }
}
