//! A table of columns that the analysis declares, drawn: only the rows that are visible cost anything.

use std::sync::Arc;

use allotment_analyze::tables::{Cell, Column, Table};
use egui::{Align, Layout, RichText, Ui};
use egui_extras::{Column as Width, TableBuilder};

use crate::panes::details::of_change;
use crate::state::Palette;

/// A column to sort by, and whether the largest comes first.
pub(crate) type Sort = (usize, bool);

/// What is drawn, beside the cells.
pub(crate) struct Drawn<'a> {
    pub(crate) salt: &'a str,
    pub(crate) columns: &'a [Column],
    pub(crate) rows: usize,
    /// A click on a heading sorts, and this is the order so far.
    pub(crate) sort: Option<Option<Sort>>,
    /// What is drawn of a row behind its cells.
    pub(crate) picture: Option<Picture<'a>>,
}

/// The heading of a column that has drawings, and how a row's is drawn.
pub(crate) type Picture<'a> = (&'a str, &'a dyn Fn(&mut Ui, usize));

/// The rows that a person points at and clicks, and the order that a click on a heading asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) clicked: Option<usize>,
    pub(crate) hovered: Option<usize>,
    pub(crate) sort: Option<Sort>,
}

impl Drawn<'_> {
    /// Draws the cells that a function makes of the numbers of a row and of a column.
    pub(crate) fn ui(
        &self,
        ui: &mut Ui,
        palette: &Palette,
        is_selected: impl Fn(usize) -> bool,
        cell: impl Fn(usize, usize) -> Cell,
    ) -> Answer {
        let mut answer = Answer::default();
        let line = ui.text_style_height(&egui::TextStyle::Body) + 4.0;
        egui::ScrollArea::horizontal().id_salt(self.salt).show(ui, |ui| {
            let mut table = TableBuilder::new(ui)
                .id_salt(self.salt)
                .striped(true)
                .resizable(true)
                .auto_shrink(false)
                .sense(egui::Sense::click())
                .cell_layout(Layout::left_to_right(Align::Center));
            let widths: Vec<_> =
                (0..self.columns.len()).map(|index| Wanted::of(self.longest(index, &cell))).collect();
            let filling = self.filling(&widths);
            for (index, wanted) in widths.iter().enumerate() {
                // The others keep the width that a person gives them.
                table = table.column(match filling[index] {
                    true => Width::remainder().at_least(wanted.first).clip(true).resizable(false),
                    false => Width::initial(wanted.first).at_least(40.0).clip(true),
                });
            }
            if self.picture.is_some() {
                table = table.column(Width::remainder().at_least(100.0).clip(true));
            }
            let table = table.header(line + 2.0, |mut header| {
                for (index, column) in self.columns.iter().enumerate() {
                    header.col(|ui| {
                        ui.with_layout(layout(column), |ui| {
                            answer.sort = self.heading(ui, index).or(answer.sort);
                        });
                    });
                }
                if let Some((heading, _)) = self.picture {
                    header.col(|ui| drop(ui.label(RichText::new(heading).strong())));
                }
            });
            table.body(|body| {
                body.rows(line, self.rows, |mut row| {
                    let index = row.index();
                    row.set_selected(is_selected(index));
                    for (number, column) in self.columns.iter().enumerate() {
                        row.col(|ui| {
                            ui.with_layout(layout(column), |ui| draw(ui, &cell(index, number), palette));
                        });
                    }
                    if let Some((_, draw)) = self.picture {
                        row.col(|ui| draw(ui, index));
                    }
                    let response = row.response();
                    if response.hovered() {
                        answer.hovered = Some(index);
                    }
                    if response.clicked() {
                        answer.clicked = Some(index);
                    }
                });
            });
        });
        answer
    }

    /// The letters of the longest text among the heading and the first rows.
    fn longest(&self, column: usize, cell: &impl Fn(usize, usize) -> Cell) -> usize {
        let rows = (0..self.rows.min(50)).map(|row| cell(row, column).text().chars().count());
        rows.chain([self.columns[column].heading.len() + 2]).max().unwrap_or(0)
    }

    /// The columns that share what is left of the pane's width: texts that are cut otherwise, or else the widest text. A
    /// drawing takes all of it.
    fn filling(&self, widths: &[Wanted]) -> Vec<bool> {
        let is_text = |index: &usize| !self.columns[*index].is_number;
        let texts = || (0..widths.len()).filter(is_text);
        let mut filling = vec![false; widths.len()];
        if self.picture.is_some() {
            return filling;
        }
        texts().for_each(|index| filling[index] = widths[index].is_cut());
        if !filling.contains(&true) {
            let widest = texts().max_by(|&a, &b| widths[a].whole.total_cmp(&widths[b].whole));
            filling[widest.unwrap_or(0)] = true;
        }
        filling
    }

    fn heading(&self, ui: &mut Ui, index: usize) -> Option<Sort> {
        let column = &self.columns[index];
        let heading = RichText::new(column.heading).strong();
        let Some(sort) = self.sort else {
            ui.label(heading).on_hover_text(column.help);
            return None;
        };
        let button = ui.add(egui::Button::new(heading).frame(false)).on_hover_text(column.help);
        let sorted = sort.filter(|&(by, _)| by == index);
        if let Some((_, down)) = sorted {
            arrow(ui, down);
        }
        button.clicked().then(|| (index, sorted.map_or(column.is_number, |(_, down)| !down)))
    }
}

/// The width of a column, in points.
#[derive(Clone, Copy)]
struct Wanted {
    /// What its longest text needs.
    whole: f32,
    /// What it has at first, and has at least where it fills the pane.
    first: f32,
}

impl Wanted {
    fn of(longest: usize) -> Self {
        let whole = longest as f32 * 7.0 + 12.0;
        Self { whole, first: whole.clamp(60.0, 300.0) }
    }

    fn is_cut(self) -> bool {
        self.whole > self.first
    }
}

fn draw(ui: &mut Ui, cell: &Cell, palette: &Palette) {
    let text = RichText::new(cell.text());
    let text = match *cell {
        Cell::Warning(_) => text.color(ui.visuals().warn_fg_color),
        Cell::Change(change) => text.color(of_change(change, palette)),
        _ => text,
    };
    let label = ui.add(egui::Label::new(text).truncate().selectable(false));
    if let Some(whole) = cell.whole() {
        label.on_hover_text(whole);
    }
}

/// The order of a column. Painted, since the font has no arrows.
fn arrow(ui: &mut Ui, down: bool) {
    let (rect, _) = ui.allocate_exact_size(egui::vec2(8.0, 8.0), egui::Sense::hover());
    let (flat, tip) =
        if down { (rect.top() + 1.5, rect.bottom() - 1.0) } else { (rect.bottom() - 1.5, rect.top() + 1.0) };
    let points =
        vec![egui::pos2(rect.left(), flat), egui::pos2(rect.right(), flat), egui::pos2(rect.center().x, tip)];
    ui.painter().add(egui::Shape::convex_polygon(points, ui.visuals().text_color(), egui::Stroke::NONE));
}

/// Numbers stand at the right.
fn layout(column: &Column) -> Layout {
    if column.is_number { Layout::right_to_left(Align::Center) } else { Layout::left_to_right(Align::Center) }
}

/// A whole table, and the order in which a person sorted its rows.
#[derive(Default)]
pub(crate) struct SortedTable {
    /// By its heading: the next table may have other columns, or the same in other places.
    sort: Option<(&'static str, bool)>,
    /// The rows of a table in an order, so that it is not sorted in each frame.
    order: Option<(Arc<Table>, Option<Sort>, Vec<usize>)>,
}

impl SortedTable {
    /// Draws the table below its summary. Returns the number of the row that is clicked.
    pub(crate) fn ui(
        &mut self,
        ui: &mut Ui,
        salt: &str,
        table: &Arc<Table>,
        palette: &Palette,
    ) -> Option<usize> {
        self.with_picture(ui, salt, table, palette, None)
    }

    /// As [`ui`](Self::ui), with a drawing of each row.
    pub(crate) fn with_picture(
        &mut self,
        ui: &mut Ui,
        salt: &str,
        table: &Arc<Table>,
        palette: &Palette,
        picture: Option<Picture<'_>>,
    ) -> Option<usize> {
        for (index, line) in table.summary.iter().enumerate() {
            let line = RichText::new(line);
            ui.label(if index == 0 { line.strong() } else { line.weak() });
        }
        if table.rows.is_empty() {
            return None;
        }
        let place = |heading| table.columns.iter().position(|column| column.heading == heading);
        let sort = self.sort.and_then(|(heading, down)| Some((place(heading)?, down)));
        let is_known = |(of, known, _): &(Arc<Table>, _, _)| Arc::ptr_eq(of, table) && *known == sort;
        if !self.order.as_ref().is_some_and(is_known) {
            self.order = Some((Arc::clone(table), sort, order(table, sort)));
        }
        let order = self.order.as_ref().map_or(&[][..], |(.., order)| order);
        let draw = |ui: &mut Ui, row: usize| picture.map_or((), |(_, draw)| draw(ui, order[row]));
        let picture: Option<Picture<'_>> = picture.map(|(heading, _)| (heading, &draw as _));
        let drawn = Drawn { salt, columns: &table.columns, rows: order.len(), sort: Some(sort), picture };
        let cell = |row: usize, column: usize| table.rows[order[row]].cells[column].clone();
        let answer = drawn.ui(ui, palette, |_| false, cell);
        let clicked = answer.clicked.map(|row| order[row]);
        let chosen = answer.sort.map(|(column, down)| (table.columns[column].heading, down));
        self.sort = chosen.or(self.sort);
        clicked
    }
}

fn order(table: &Table, sort: Option<Sort>) -> Vec<usize> {
    let mut order: Vec<_> = (0..table.rows.len()).collect();
    if let Some((column, down)) = sort {
        let ranks = table.ranks(column);
        order.sort_by(|&a, &b| if down { ranks[b].cmp(&ranks[a]) } else { ranks[a].cmp(&ranks[b]) });
    }
    order
}

/// A bar that is filled to a share, from 0 to 1.
pub(crate) fn bar(ui: &mut Ui, share: f32, fill: egui::Color32, palette: &Palette) {
    let size = egui::vec2(ui.available_width().min(320.0), 10.0);
    let (bar, _) = ui.allocate_exact_size(size, egui::Sense::hover());
    ui.painter().rect_filled(bar, 2.0, palette.grid);
    ui.painter().rect_filled(bar.with_max_x(bar.left() + bar.width() * share), 2.0, fill);
}
