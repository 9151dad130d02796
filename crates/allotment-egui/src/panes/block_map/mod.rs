//! The blocks at the cursor: one row a block, its bytes from left to right.
//!
//! ```text
//!  memory type 1 …                                              96 MiB in 3 blocks
//!  #1:0  64 MiB   |▓▓▓ sky ▓▓▓|  |▓▓ terrain ▓▓|░░|             |   41 % used
//!  #1:1  16 MiB   |                                             |   empty, 12 frames
//!  └ LEFT ───────┘└ the strip ──────────────────────────────────┘└ RIGHT ──┘└ minimap
//! ```
//!
//! The wheel zooms all strips at the pointer; a drag pans them, and the rows with them. Over the names of the blocks the
//! wheel scrolls through the rows, and with Shift it makes them taller.

mod minimap;
mod pointer;
mod rows;
pub(in crate::panes) mod strip;

use std::collections::HashMap;

use allotment_analyze::{AllocationIndex, BlockIndex, ColourBy};
use egui::{Align2, FontId, Rect, Role, Sense, Ui, WidgetInfo, pos2};

use crate::paint::Rects;
use crate::panes::{ColoursPane, empty};
use crate::state::{Palette, Selection, State};
use crate::text;
pub(crate) use rows::Grouped;
use rows::{Row, Rows};
use strip::Strip;

const LEFT: f32 = 118.0;
const RIGHT: f32 = 104.0;
/// Of a row without stretching, with the gap below it.
const ROW: f32 = 27.0;
const HEADING: f32 = 26.0;
const MINIMAP: f32 = 92.0;

/// The pane.
pub(crate) struct BlockMap {
    pub(crate) grouped: Grouped,
    /// All blocks have one scale, instead of the full width each.
    pub(crate) one_scale: bool,
    /// Points that the rows are scrolled down.
    pub(crate) top: f32,
    /// Of the height of rows.
    pub(crate) stretch: f32,
    rows: Rows,
    strips: HashMap<BlockIndex, Strip>,
    minimap: minimap::Minimap,
}

impl Default for BlockMap {
    fn default() -> Self {
        Self {
            grouped: Grouped::default(),
            one_scale: false,
            top: 0.0,
            stretch: 1.0,
            rows: Rows::default(),
            strips: HashMap::new(),
            minimap: minimap::Minimap::default(),
        }
    }
}

/// The places of the pane's parts in a frame.
#[derive(Clone, Copy)]
struct Places {
    /// The strips of all visible rows.
    strips: Rect,
    /// The names, the strips and the texts behind them.
    rows: Rect,
    minimap: Rect,
}

impl BlockMap {
    pub(crate) fn ui(&mut self, ui: &mut Ui, state: &mut State, colours: &mut ColoursPane) {
        let palette = Palette::new(state.palette, ui.visuals().dark_mode);
        self.controls(ui, state, &palette, colours);
        if state.moment.blocks.is_empty() {
            empty(ui, "No block exists at this moment. Move the cursor in the timeline, or show all memory.");
            return;
        }
        self.rows.update(state, self.grouped);
        let (canvas, response) = ui.allocate_exact_size(ui.available_size(), Sense::click_and_drag());
        let minimap = canvas.with_min_x(canvas.right() - MINIMAP);
        let rows = canvas.with_max_x(minimap.left() - 8.0);
        let strips = Rect::from_x_y_ranges(rows.left() + LEFT..=rows.right() - RIGHT, rows.y_range());
        let places = Places { strips, rows, minimap };
        response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Block map"));
        if core::mem::take(&mut state.reveal) {
            self.reveal_selected(state, places);
        }
        self.input(ui, state, &response, places);
        let most = (self.rows.height(self.stretch) - rows.height()).max(0.0);
        self.top = self.top.clamp(0.0, most);
        ui.painter().rect_filled(canvas, 3.0, palette.ground);
        self.draw(ui, state, places, &palette);
        self.minimap.ui(ui, state, &self.rows, minimap, self.stretch, &mut self.top, rows.height(), &palette);
        self.tooltip(ui, state, &response, places);
    }

    fn controls(&mut self, ui: &mut Ui, state: &mut State, palette: &Palette, colours: &mut ColoursPane) {
        ui.horizontal_wrapped(|ui| {
            ui.label("By");
            for grouped in Grouped::ALL {
                ui.selectable_value(&mut self.grouped, grouped, grouped.name());
            }
            ui.separator();
            for (one_scale, word) in [(false, "full width"), (true, "one scale")] {
                if ui.selectable_label(self.one_scale == one_scale, word).clicked() {
                    self.one_scale = one_scale;
                    state.bytes = crate::state::Span::default();
                }
            }
            if ui.button("Fit").on_hover_text("Show all (F, or double-click)").clicked() {
                self.fit(state);
            }
            ui.separator();
            colours.legend(ui, state, palette);
        });
    }

    /// Shows all.
    pub(crate) fn fit(&mut self, state: &mut State) {
        state.leave(crate::state::Change::Zoom);
        state.bytes = crate::state::Span::default();
        (self.top, self.stretch) = (0.0, 1.0);
    }

    /// The bytes that the whole width of a block's strip shows.
    fn base(&self, size: u64) -> u64 {
        if self.one_scale { self.rows.largest.max(1) } else { size.max(1) }
    }

    fn reveal_selected(&mut self, state: &mut State, places: Places) {
        let Some((block, start, end)) = selected_range(state) else { return };
        let Some(y) = self.rows.y_of(block, self.stretch) else { return };
        let base = self.base(self.rows.size_of(block)) as f64;
        state.bytes.reveal(start as f64 / base, end as f64 / base);
        let (height, row) = (places.rows.height(), ROW * self.stretch);
        if y < self.top || y + row > self.top + height {
            self.top = y - (height - row) / 2.0;
        }
    }

    fn draw(&mut self, ui: &mut Ui, state: &mut State, places: Places, palette: &Palette) {
        let Places { strips, rows, .. } = places;
        let painter = ui.painter().with_clip_rect(rows);
        let inside = ui.painter().with_clip_rect(strips);
        let mut rects = Rects::new(ui.ctx());
        let pixel = 1.0 / ui.pixels_per_point();
        let font = FontId::proportional(12.0);
        let mut names: Vec<(Rect, AllocationIndex)> = Vec::new();
        let mut drawn: HashMap<BlockIndex, Strip> = HashMap::new();
        let groups = state.colours.groups.clone().filter(|_| !state.colours.is_plain());
        let mut y = rows.top() - self.top;
        for index in 0..self.rows.all.len() {
            let row = &self.rows.all[index];
            let height = row.height(self.stretch);
            let area = Rect::from_x_y_ranges(rows.x_range(), y..=y + height);
            y += height;
            if area.bottom() < rows.top() || area.top() > rows.bottom() {
                continue;
            }
            match row {
                Row::Heading { text, sum } => {
                    let base = area.bottom() - 5.0;
                    let strong = ui.visuals().strong_text_color();
                    painter.text(
                        pos2(area.left(), base),
                        Align2::LEFT_BOTTOM,
                        text,
                        FontId::proportional(13.0),
                        strong,
                    );
                    painter.text(
                        pos2(area.right(), base),
                        Align2::RIGHT_BOTTOM,
                        sum,
                        font.clone(),
                        palette.muted,
                    );
                }
                &Row::Block { block, size, .. } => {
                    let strip_area =
                        Rect::from_x_y_ranges(strips.x_range(), area.top()..=area.bottom() - 3.0);
                    let base = self.base(size);
                    let position = state.position();
                    let contents = state.moment.look(state.loaded.cursor(), block);
                    let version = contents.version;
                    // What is as it was becomes older.
                    let aged = state.colours.by == ColourBy::Age && groups.is_some();
                    let key = strip::Key::new(version, state.bytes, base, size, strips.width() / pixel)
                        .with_colours(state.colours.version, if aged { position } else { 0 });
                    let strip = match self.strips.remove(&block) {
                        Some(known) if known.key == key => known,
                        _ => {
                            let (colours, timeline) = (&state.colours, state.loaded.timeline());
                            let coloured = |groups| strip::Coloured { colours, groups, timeline, position };
                            Strip::new(key, contents, groups.as_deref().map(coloured))
                        }
                    };
                    strip.add(&mut rects, strip_area, pixel, palette, groups.as_deref());
                    strip.names(strip_area, pixel, |rect, allocation| names.push((rect, allocation)));
                    let (_, used) = row_texts(state, block);
                    label(ui, &painter, area, state, block, &font, palette, &used);
                    drawn.insert(block, strip);
                }
            }
        }
        self.strips = drawn;
        rects.paint(&inside);
        self.names(ui, &inside, state, &names, palette);
        self.outline(&inside, state, places, palette);
    }

    /// Writes the names of allocations that are wide enough, and makes them known to screen readers.
    fn names(
        &self,
        ui: &Ui,
        painter: &egui::Painter,
        state: &State,
        names: &[(Rect, AllocationIndex)],
        palette: &Palette,
    ) {
        let timeline = state.loaded.timeline();
        for &(rect, allocation) in names {
            let visible = rect.intersect(painter.clip_rect());
            if visible.width() < 30.0 {
                continue;
            }
            let name = text::name(timeline, allocation);
            let pending = timeline.status_at(allocation, state.position()) != allotment_analyze::Status::Used;
            let colour = match state.colours.groups.as_ref().filter(|_| !state.colours.is_plain()) {
                _ if pending => ui.visuals().strong_text_color(),
                None => palette.on_used,
                Some(groups) => {
                    let group = groups.of(timeline, allocation, state.position());
                    let is_bright = state.colours.is_picked(group) && state.colours.is_found(allocation);
                    let (ground, _) = palette.of_group(groups, group);
                    palette.on_group(if is_bright { ground } else { palette.dimmed(ground) })
                }
            };
            let mut job =
                egui::text::LayoutJob::simple_singleline(name.to_owned(), FontId::proportional(11.5), colour);
            job.wrap = egui::text::TextWrapping::truncate_at_width(visible.width() - 8.0);
            let galley = painter.layout_job(job);
            let at = pos2(visible.left() + 4.0, visible.center().y - galley.size().y / 2.0);
            painter.galley(at, galley, colour);
            let response =
                ui.interact(visible, ui.scope_id().with(("allocation", allocation.0)), Sense::hover());
            let size = text::bytes(timeline.requested(allocation));
            response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{name}, {size}")));
        }
    }

    /// Outlines what is selected, and the allocation under the pointer of any pane.
    fn outline(&self, painter: &egui::Painter, state: &State, places: Places, palette: &Palette) {
        let draw = |block, start, end, width: f32, colour| {
            let Some(y) = self.rows.y_of(block, self.stretch) else { return };
            let base = self.base(self.rows.size_of(block)) as f64;
            let x = |byte: u64| {
                let share = (byte as f64 / base - state.bytes.from) / state.bytes.size();
                // Far outside of the view, numbers are too large for a rectangle.
                places.strips.left() + (share.clamp(-1.0, 2.0) as f32) * places.strips.width()
            };
            let top = places.rows.top() - self.top + y;
            let (left, right) = (x(start), x(end).max(x(start) + 2.0));
            let rect = Rect::from_x_y_ranges(left..=right, top..=top + ROW * self.stretch - 3.0);
            painter.rect_stroke(rect, 1.0, (width, colour), egui::StrokeKind::Outside);
        };
        if let Some(allocation) = state.hovered
            && let Some((block, start, end)) = range_of(state, allocation)
        {
            draw(block, start, end, 1.0, palette.cursor.gamma_multiply(0.7));
        }
        if let Some((block, start, end)) = selected_range(state) {
            draw(block, start, end, 2.0, palette.cursor);
        }
    }
}

/// The place of an allocation at the cursor; `None` if it does not exist there.
fn range_of(state: &State, allocation: AllocationIndex) -> Option<(BlockIndex, u64, u64)> {
    let timeline = state.loaded.timeline();
    let exists = timeline.allocation_exists(allocation, state.position());
    let place = timeline.place_at(allocation, state.position());
    exists.then_some((place.block, place.offset, place.offset.saturating_add(place.occupied)))
}

fn selected_range(state: &State) -> Option<(BlockIndex, u64, u64)> {
    match state.selected? {
        Selection::Allocation(allocation) => range_of(state, allocation),
        Selection::Free { block, start, end } => Some((block, start, end)),
        Selection::Block(block) => {
            Some((block, 0, state.loaded.timeline().block_size_at(block, state.position())))
        }
    }
}

/// The name of a block with its size, and how full it is, or since when it is empty.
fn row_texts(state: &State, block: BlockIndex) -> (String, String) {
    let timeline = state.loaded.timeline();
    let size = timeline.block_size_at(block, state.position());
    let name = format!("{}  {}", text::block(timeline, block), text::bytes(size));
    let used = match state.loaded.cursor().empty_since(block) {
        Some(since) if timeline.frame_count() > 0 => {
            format!("empty, {}", text::plural(state.loaded.cursor().moment().frame - since.frame, "frame"))
        }
        Some(_) => "empty".to_owned(),
        None => match state.moment.known(block) {
            Some(contents) => format!("{} used", text::percent(contents.bytes.used, size)),
            None => String::new(),
        },
    };
    (name, used)
}

#[allow(clippy::too_many_arguments, reason = "they are what a row has")]
fn label(
    ui: &Ui,
    painter: &egui::Painter,
    area: Rect,
    state: &State,
    block: BlockIndex,
    font: &FontId,
    palette: &Palette,
    used: &str,
) {
    let timeline = state.loaded.timeline();
    let middle = area.center().y - 1.5;
    let size = timeline.block_size_at(block, state.position());
    let id = text::block(timeline, block);
    painter.text(
        pos2(area.left() + 6.0, middle),
        Align2::LEFT_CENTER,
        &id,
        font.clone(),
        ui.visuals().text_color(),
    );
    let right = pos2(area.left() + LEFT - 8.0, middle);
    painter.text(right, Align2::RIGHT_CENTER, text::bytes(size), font.clone(), palette.muted);
    let colour = if used.starts_with("empty") { palette.stall } else { palette.muted };
    painter.text(pos2(area.right(), middle), Align2::RIGHT_CENTER, used, font.clone(), colour);
    let name = area.with_max_x(area.left() + LEFT);
    let response = ui.interact(name, ui.scope_id().with(("block", block.0)), Sense::hover());
    response.widget_info(|| {
        WidgetInfo::labeled(Role::Label, true, format!("Block {id}, {}, {used}", text::bytes(size)))
    });
}
