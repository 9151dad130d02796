//! All blocks in a small picture, with the part that the map shows. A click or a drag moves it.

use allotment_analyze::Class;
use egui::{CursorIcon, Rect, Role, Sense, Ui, WidgetInfo, pos2};

use super::rows::{Row, Rows};
use super::strip::overview;
use crate::paint::Rects;
use crate::state::{Change, Palette, State};

/// Columns of the picture.
const COLUMNS: u32 = 88;

/// The picture of a moment: rows of columns, and `None` for rows that no frame has looked at.
#[derive(Debug, Default)]
pub(super) struct Minimap {
    of: Option<(u64, usize, bool)>,
    lines: Vec<Vec<Class>>,
}

impl Minimap {
    #[allow(clippy::too_many_arguments, reason = "it shows what the map knows")]
    pub(super) fn ui(
        &mut self,
        ui: &Ui,
        state: &mut State,
        rows: &Rows,
        area: Rect,
        stretch: f32,
        top: &mut f32,
        visible: f32,
        palette: &Palette,
    ) {
        // At most a line for each pair of points: of several blocks on one line, the most important class wins.
        let blocks: Vec<_> = rows
            .all
            .iter()
            .filter_map(|row| if let Row::Block { block, .. } = row { Some(*block) } else { None })
            .collect();
        let most = ((area.height() / 2.0) as usize).max(1);
        let count = blocks.len().min(most);
        let key = Some((state.moment.version, count, state.moment.is_complete()));
        if self.of != key {
            self.of = key;
            self.lines = vec![vec![Class::Free; COLUMNS as usize]; count];
            for (index, block) in blocks.iter().enumerate() {
                let Some(contents) = state.moment.known(*block) else { continue };
                let line = &mut self.lines[index * count / blocks.len()];
                for (pixel, class) in line.iter_mut().zip(overview(contents, COLUMNS)) {
                    *pixel = (*pixel).max(class);
                }
            }
        }
        let painter = ui.painter().with_clip_rect(area);
        let each = (area.height() / count.max(1) as f32).min(9.0);
        let column = area.width() / COLUMNS as f32;
        let mut rects = Rects::new(ui.ctx());
        for (number, line) in self.lines.iter().enumerate() {
            let y = area.top() + number as f32 * each;
            let mut first = 0;
            for run in line.chunk_by(|a, b| a == b) {
                let (from, to) = (first as f32 * column, (first + run.len()) as f32 * column);
                first += run.len();
                let bottom = y + (each - 1.0).max(1.0);
                let rect = Rect::from_min_max(pos2(area.left() + from, y), pos2(area.left() + to, bottom));
                rects.add_class(rect, run[0], palette);
            }
        }
        rects.paint(&painter);

        let picture = area.with_max_y(area.top() + each * count as f32);
        let height = rows.height(stretch).max(1.0);
        let share = |y: f32| picture.top() + (y / height).clamp(0.0, 1.0) * picture.height();
        let x = |share: f64| area.left() + share as f32 * area.width();
        let frame = Rect::from_x_y_ranges(
            x(state.bytes.from)..=x(state.bytes.to).max(x(state.bytes.from) + 2.0),
            share(*top)..=share(*top + visible),
        );
        painter.rect_stroke(frame, 1.0, (1.5, palette.cursor), egui::StrokeKind::Inside);

        let response = ui.interact(picture, ui.scope_id().with("minimap"), Sense::click_and_drag());
        response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Minimap of all blocks"));
        let response = response.on_hover_cursor(CursorIcon::Crosshair);
        // A click within one frame is over when the frame sees it.
        let is_used = response.is_pointer_button_down_on() || response.clicked();
        if let Some(at) = response.interact_pointer_pos().filter(|_| is_used) {
            state.leave(Change::Zoom);
            let size = state.bytes.size();
            state.bytes.show(f64::from((at.x - area.left()) / area.width()) - size / 2.0, size);
            *top = (at.y - picture.top()) / picture.height().max(1.0) * height - visible / 2.0;
        }
    }
}
