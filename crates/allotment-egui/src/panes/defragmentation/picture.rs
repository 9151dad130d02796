//! The picture of a plan: the blocks now and after side by side, and arrows between them.

use std::collections::HashMap;

use allotment_analyze::AllocationIndex;
use egui::{
    Align2, FontId, Pos2, Rangef, Rect, Response, Role, ScrollArea, Sense, Stroke, Ui, WidgetInfo, pos2, vec2,
};

use super::arrows::{Arrow, Chosen, distance};
use super::plan::{Plan, Row};
use crate::paint::Rects;
use crate::panes::block_map::strip::{Key, Strip};
use crate::state::{Palette, Selection, Span, State};
use crate::text;

/// Of the names of blocks.
const NAMES: f32 = 118.0;
/// Between the strips of now and those of after.
const GAP: f32 = 72.0;
/// Of a row, with the gap below it.
const ROW: f32 = 27.0;
/// Points from an arrow within which the pointer is on it.
const NEAR: f32 = 5.0;

/// The parts of the picture that one frame keeps for the next.
#[derive(Default)]
pub(super) struct Picture {
    chosen: Chosen,
    /// The visible rows and the width that the arrows were chosen for.
    chosen_for: Option<(Rangef, f32)>,
    /// Of the visible rows: now, and after.
    strips: HashMap<(usize, bool), Strip>,
}

/// The places of the strips in a frame.
#[derive(Clone, Copy)]
struct Places {
    top: f32,
    now: Rangef,
    after: Rangef,
}

impl Places {
    fn new(area: Rect) -> Self {
        let each = ((area.width() - NAMES - GAP) / 2.0).max(20.0);
        let left = area.left() + NAMES;
        Self {
            top: area.top(),
            now: Rangef::new(left, left + each),
            after: Rangef::new(left + each + GAP, left + each + GAP + each),
        }
    }

    fn row(&self, row: usize) -> Rangef {
        let top = self.top + row as f32 * ROW;
        Rangef::new(top, top + ROW - 5.0)
    }

    fn strip(&self, row: usize, after: bool) -> Rect {
        Rect::from_x_y_ranges(if after { self.after } else { self.now }, self.row(row))
    }

    fn ends(&self, arrow: &Arrow) -> (Pos2, Pos2) {
        let x = |range: Rangef, share: f32| range.min + share * range.span();
        (
            pos2(x(self.now, arrow.from), self.row(arrow.from_row).center()),
            pos2(x(self.after, arrow.to), self.row(arrow.to_row).center()),
        )
    }
}

impl Picture {
    pub(super) fn ui(&mut self, ui: &mut Ui, state: &mut State, plan: &Plan) {
        let palette = Palette::new(state.palette, ui.visuals().dark_mode);
        self.notes(ui, plan, &palette);
        headings(ui, &palette);
        ScrollArea::vertical().auto_shrink(false).show_viewport(ui, |ui, viewport| {
            let size = vec2(ui.available_width() - 6.0, plan.rows.len() as f32 * ROW);
            let (area, response) = ui.allocate_exact_size(size, Sense::click());
            response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Blocks now and after"));
            let places = Places::new(area);
            self.choose(plan, places, viewport);
            self.strips(ui, state, plan, places, viewport, &palette);
            let under = self.arrows(ui, state, plan, places, &palette);
            let pointer = response.hover_pos();
            let at = pointer.and_then(|point| match under {
                Some(arrow) => Some((arrow.allocation, Some(arrow))),
                None => allocation_at(plan, places, point).map(|allocation| (allocation, None)),
            });
            if let Some((allocation, arrow)) = at {
                point_at(state, plan, &response, allocation, arrow.as_ref());
            }
        });
    }

    /// Writes the verdict, and says which blocks and arrows the picture leaves out.
    fn notes(&self, ui: &mut Ui, plan: &Plan, palette: &Palette) {
        let mut notes = vec![plan.preview.verdict().sentence(text::bytes)];
        if plan.others > 0 {
            notes.push(format!("{} as they are.", stay(plan.others)));
        }
        let Chosen { arrows, crossing, bytes, crossing_bytes } = &self.chosen;
        let drawn = arrows.len() as u64;
        if drawn < *crossing {
            notes.push(format!(
                "The {} largest of {} arrows are drawn, with {} of their bytes.",
                text::count(drawn),
                text::count(*crossing),
                text::percent(*bytes, *crossing_bytes)
            ));
        }
        ui.label(egui::RichText::new(notes.join(" ")).color(palette.muted));
    }

    /// Chooses the arrows that are drawn for what is visible.
    fn choose(&mut self, plan: &Plan, places: Places, viewport: Rect) {
        let width = places.now.span();
        let rows = Rangef::new(viewport.top() / ROW, viewport.bottom() / ROW);
        let wanted = Some((rows, width));
        if self.chosen_for != wanted {
            self.chosen_for = wanted;
            let area = (places.after.max - places.now.min) * viewport.height();
            self.chosen = Chosen::of(&plan.arrows, rows, area);
        }
    }

    fn strips(
        &mut self,
        ui: &Ui,
        state: &State,
        plan: &Plan,
        places: Places,
        viewport: Rect,
        palette: &Palette,
    ) {
        let pixel = 1.0 / ui.pixels_per_point();
        let mut rects = Rects::new(ui.ctx());
        let mut names: Vec<(Rect, AllocationIndex)> = Vec::new();
        let mut drawn = HashMap::new();
        let first = (viewport.top() / ROW).max(0.0) as usize;
        let last = ((viewport.bottom() / ROW).ceil().max(0.0) as usize).min(plan.rows.len());
        for row in first..last {
            let is = &plan.rows[row];
            name_of_block(ui, state, is, places.row(row), places.now.min, palette);
            for after in [false, true] {
                let area = places.strip(row, after);
                if after && is.freed {
                    continue;
                }
                let contents = if after { &is.after } else { &is.before };
                let size = contents.size;
                let key = Key::new(0, Span::default(), size, size, area.width() / pixel);
                let strip = match self.strips.remove(&(row, after)) {
                    Some(known) if known.key == key => known,
                    _ => Strip::new(key, contents, None),
                };
                strip.add(&mut rects, area, pixel, palette, None);
                strip.names(area, pixel, |rect, allocation| names.push((rect, allocation)));
                drawn.insert((row, after), strip);
            }
        }
        self.strips = drawn;
        rects.paint(ui.painter());
        for (row, is) in plan.rows.iter().enumerate().take(last).skip(first).filter(|(_, is)| is.freed) {
            let area = places.strip(row, true);
            let stroke = Stroke::new(1.0, palette.free);
            ui.painter().rect_stroke(area, 2.0, stroke, egui::StrokeKind::Inside);
            let words = format!("freed, {}", text::bytes(is.before.size));
            let font = FontId::proportional(11.5);
            ui.painter().text(area.center(), Align2::CENTER_CENTER, words, font, palette.muted);
        }
        for (rect, allocation) in names {
            let painter = ui.painter().with_clip_rect(rect.shrink2(vec2(3.0, 0.0)).intersect(ui.clip_rect()));
            let name = text::name(state.loaded.timeline(), allocation);
            let at = pos2(rect.left() + 4.0, rect.center().y);
            painter.text(at, Align2::LEFT_CENTER, name, FontId::proportional(11.5), palette.on_used);
        }
    }

    /// Draws the arrows. Returns the one under the pointer.
    fn arrows(
        &self,
        ui: &Ui,
        state: &mut State,
        plan: &Plan,
        places: Places,
        palette: &Palette,
    ) -> Option<Arrow> {
        let selected = match state.selected {
            Some(Selection::Allocation(allocation)) => Some(allocation),
            _ => None,
        };
        let pointer = ui.input(|input| input.pointer.hover_pos()).filter(|at| ui.clip_rect().contains(*at));
        let far = |arrow: &Arrow, point| {
            let (from, to) = places.ends(arrow);
            distance(point, from, to)
        };
        let nearest = pointer.and_then(|point| {
            let near = self.chosen.arrows.iter().filter(|arrow| far(arrow, point) <= NEAR);
            near.min_by(|a, b| far(a, point).total_cmp(&far(b, point))).copied()
        });
        let mut focused = None;
        for arrow in &self.chosen.arrows {
            draw(ui, places, arrow, Stroke::new(1.2, palette.accent.gamma_multiply(0.75)));
            // For the keyboard and for screen readers: the heads of arrows are buttons.
            let (_, head) = places.ends(arrow);
            let id = ui.scope_id().with(("move", arrow.allocation.0));
            let response = ui.interact(Rect::from_center_size(head, vec2(9.0, 9.0)), id, Sense::click());
            let enabled = ui.is_enabled();
            response.widget_info(|| WidgetInfo::labeled(Role::Button, enabled, words(state, plan, arrow)));
            if response.has_focus() {
                focused = Some(*arrow);
            }
            if response.hovered() || response.clicked() {
                point_at(state, plan, &response, arrow.allocation, Some(arrow));
            }
        }
        // Above the others, also where it is too small to be drawn among them.
        let of_selected = selected.and_then(|one| Arrow::of(plan, plan.move_of(one)?));
        for (arrow, colour) in [(of_selected, palette.cursor), (nearest.or(focused), palette.stall)] {
            if let Some(arrow) = arrow {
                draw(ui, places, &arrow, Stroke::new(2.4, colour));
            }
        }
        nearest
    }
}

/// An allocation is under the pointer, or was chosen by a click or a key.
fn point_at(
    state: &mut State,
    plan: &Plan,
    response: &Response,
    allocation: AllocationIndex,
    arrow: Option<&Arrow>,
) {
    state.hovered = Some(allocation);
    response.clone().on_hover_ui_at_pointer(|ui| tip(ui, state, plan, allocation, arrow));
    if response.clicked() {
        state.show(allocation);
    }
}

fn draw(ui: &Ui, places: Places, arrow: &Arrow, stroke: Stroke) {
    let (from, to) = places.ends(arrow);
    let painter = ui.painter();
    painter.line_segment([from, to], stroke);
    painter.circle_filled(from, stroke.width + 1.0, stroke.color);
    let back = (from - to).normalized() * (5.0 + stroke.width);
    let side = back.rot90() * 0.5;
    let head = vec![to, to + back + side, to + back - side];
    painter.add(egui::Shape::convex_polygon(head, stroke.color, Stroke::NONE));
}

fn headings(ui: &mut Ui, palette: &Palette) {
    let (area, _) = ui.allocate_exact_size(vec2(ui.available_width() - 6.0, 16.0), Sense::hover());
    let places = Places::new(area);
    for (range, word) in [(places.now, "now"), (places.after, "after")] {
        let at = pos2(range.min, area.bottom() - 1.0);
        ui.painter().text(at, Align2::LEFT_BOTTOM, word, FontId::proportional(12.0), palette.muted);
    }
}

fn name_of_block(ui: &Ui, state: &State, row: &Row, y: Rangef, right: f32, palette: &Palette) {
    let name = text::block(state.loaded.timeline(), row.block);
    let at = pos2(right - 8.0, y.center());
    let words = format!("{name}  {}", text::bytes(row.before.size));
    ui.painter().text(at, Align2::RIGHT_CENTER, words, FontId::proportional(12.0), palette.ink);
}

/// The allocation at a point of a strip.
fn allocation_at(plan: &Plan, places: Places, point: Pos2) -> Option<AllocationIndex> {
    let row = ((point.y - places.top) / ROW) as usize;
    let is = plan.rows.get(row)?;
    let after = point.x > places.after.min;
    let area = places.strip(row, after);
    if !area.contains(point) || (after && is.freed) {
        return None;
    }
    let contents = if after { &is.after } else { &is.before };
    let pixel = contents.size as f64 / f64::from(area.width().max(1.0));
    let byte = f64::from(point.x - area.left()) * pixel;
    let start = (byte - pixel / 2.0).max(0.0) as u64;
    let end = ((byte + pixel / 2.0).ceil() as u64).max(start + 1);
    contents.hit(start..end).first().map(|placed| placed.allocation)
}

/// An arrow in words.
fn words(state: &State, plan: &Plan, arrow: &Arrow) -> String {
    let timeline = state.loaded.timeline();
    let block = |row: usize| text::block(timeline, plan.rows[row].block);
    let others = match arrow.count - 1 {
        0 => String::new(),
        others => format!(" and {}", text::plural(others, "other")),
    };
    format!(
        "Move {}{others}, {}, from block {} to {}",
        text::name(timeline, arrow.allocation),
        text::bytes(arrow.bytes),
        block(arrow.from_row),
        block(arrow.to_row)
    )
}

fn tip(ui: &mut Ui, state: &State, plan: &Plan, allocation: AllocationIndex, arrow: Option<&Arrow>) {
    let timeline = state.loaded.timeline();
    ui.label(egui::RichText::new(text::name(timeline, allocation)).strong());
    if let Some(others @ 1..) = arrow.map(|arrow| arrow.count - 1) {
        let all = arrow.map_or(0, |arrow| arrow.bytes);
        ui.label(format!("and {} beside it, {} in all", text::plural(others, "other"), text::bytes(all)));
    }
    let moved = plan.move_of(allocation).and_then(|at| plan.preview.moves.get(at));
    match moved {
        Some(is) => {
            ui.label(format!("{} are copied", text::bytes(is.bytes)));
            for (word, place) in [("from", is.from), ("to", is.to)] {
                let block = text::block(timeline, place.block);
                ui.label(format!("{word} {} of block {block}", text::hex(place.offset)));
            }
        }
        None => {
            ui.label(format!("{}, stays where it is", text::bytes(timeline.requested(allocation))));
        }
    }
}

fn stay(blocks: u64) -> String {
    let verb = if blocks == 1 { "stays" } else { "stay" };
    format!("{} {verb}", text::plural(blocks, "other block"))
}
