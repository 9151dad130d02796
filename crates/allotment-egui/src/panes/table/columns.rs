//! The columns of a table of allocations: their headings, texts and orders.

use core::cmp::{Ordering, Reverse};

use allotment_analyze::{AllocationIndex, Timeline, short_call_site};
use allotment_trace::recording::{Event, TextId};
use egui::{Align, Layout, RichText, Ui};
use egui_extras::{Column as Width, TableBuilder};

use crate::state::State;
use crate::text;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Name,
    Category,
    Kind,
    Requested,
    Overhead,
    Block,
    Offset,
    Allocated,
    Freed,
    Lifetime,
    CallSite,
}

impl Column {
    const ALL: [Self; 11] = [
        Self::Name,
        Self::Category,
        Self::Kind,
        Self::Requested,
        Self::Overhead,
        Self::Block,
        Self::Offset,
        Self::Allocated,
        Self::Freed,
        Self::Lifetime,
        Self::CallSite,
    ];

    const fn heading(self) -> &'static str {
        match self {
            Self::Name => "Name",
            Self::Category => "Category",
            Self::Kind => "Kind",
            Self::Requested => "Requested",
            Self::Overhead => "Overhead",
            Self::Block => "Block",
            Self::Offset => "Offset",
            Self::Allocated => "Allocated",
            Self::Freed => "Freed",
            Self::Lifetime => "Lifetime",
            Self::CallSite => "Call site",
        }
    }

    /// Numbers stand at the right and begin with the largest.
    const fn is_number(self) -> bool {
        !matches!(self, Self::Name | Self::Category | Self::Kind | Self::CallSite)
    }

    pub(super) const fn begins_down(self) -> bool {
        self.is_number()
    }

    const fn width(self) -> f32 {
        match self {
            Self::Name => 190.0,
            Self::Category => 100.0,
            Self::Kind => 96.0,
            Self::Block => 62.0,
            Self::CallSite => 240.0,
            _ => 84.0,
        }
    }

    /// The text of a row, and a longer one where it is shortened.
    fn text<'a>(
        self,
        timeline: &Timeline<'a>,
        allocation: AllocationIndex,
        position: u64,
    ) -> (String, &'a str) {
        let texts = timeline.texts(allocation);
        let of = |id: TextId| timeline.recording().text(id).unwrap_or("");
        let life = timeline.lifetime(allocation);
        let short = match self {
            Self::Name => text::name(timeline, allocation).to_owned(),
            Self::Category => of(texts.category).to_owned(),
            Self::Kind => match timeline.recording().events.get(life.allocated as usize) {
                Some(Event::Allocated(is)) => text::kind(is.kind).to_owned(),
                _ => String::new(),
            },
            Self::Requested => text::bytes(timeline.requested(allocation)),
            Self::Overhead => match overhead(timeline, allocation, position) {
                0 => "–".to_owned(),
                overhead => text::bytes(overhead),
            },
            Self::Block => text::block(timeline, timeline.place_at(allocation, position).block),
            Self::Offset => text::hex(timeline.place_at(allocation, position).offset),
            Self::Allocated => text::count(life.allocated),
            Self::Freed => life.freed.map_or("–".to_owned(), text::count),
            Self::Lifetime => text::span(timeline, life.allocated, life.freed.unwrap_or(timeline.end())),
            Self::CallSite => {
                let site = of(texts.call_site);
                return (short_call_site(site).to_owned(), site);
            }
        };
        (short, "")
    }
}

fn overhead(timeline: &Timeline<'_>, allocation: AllocationIndex, position: u64) -> u64 {
    timeline.place_at(allocation, position).occupied.saturating_sub(timeline.requested(allocation))
}

/// Sorts rows. Equal ones stay in the order in which they were allocated.
pub(super) fn sort(
    timeline: &Timeline<'_>,
    rows: &mut [AllocationIndex],
    (column, down): (Column, bool),
    position: Option<u64>,
) {
    let at = |row: AllocationIndex| position.unwrap_or_else(|| timeline.lifetime(row).allocated + 1);
    let end = |row| timeline.lifetime(row).freed.unwrap_or(u64::MAX);
    let number = |row: AllocationIndex| match column {
        Column::Requested => timeline.requested(row),
        Column::Overhead => overhead(timeline, row, at(row)),
        Column::Block => timeline.block_info(timeline.place_at(row, at(row)).block).id.0,
        Column::Offset => timeline.place_at(row, at(row)).offset,
        Column::Freed => end(row),
        Column::Lifetime => end(row).min(timeline.end()) - timeline.lifetime(row).allocated,
        _ => timeline.lifetime(row).allocated,
    };
    if column.is_number() {
        if down {
            rows.sort_by_cached_key(|&row| Reverse(number(row)));
        } else {
            rows.sort_by_cached_key(|&row| number(row));
        }
        return;
    }
    // Of many rows, few have different texts: those are compared once.
    let mut keyed: Vec<_> =
        rows.iter().map(|&row| (column.text(timeline, row, at(row)).0.to_lowercase(), row)).collect();
    let order = |a: &(String, _), b: &(String, _)| -> Ordering { a.0.cmp(&b.0) };
    keyed.sort_by(|a, b| if down { order(b, a) } else { order(a, b) });
    for (row, (_, sorted)) in rows.iter_mut().zip(keyed) {
        *row = sorted;
    }
}

/// The click of a person on a table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) clicked: Option<AllocationIndex>,
    pub(crate) hovered: Option<AllocationIndex>,
    pub(crate) sort: Option<Column>,
}

/// Draws allocations as rows: only those that are visible cost anything.
pub(crate) fn allocation_rows(
    ui: &mut Ui,
    state: &State,
    salt: &str,
    rows: &[AllocationIndex],
    sorted: Option<(Column, bool)>,
    selected: Option<AllocationIndex>,
) -> Answer {
    let mut answer = Answer::default();
    let timeline = state.loaded.timeline();
    // A column in which no row can have anything is left out.
    let texts: Vec<_> = rows.iter().take(2000).map(|&row| timeline.texts(row)).collect();
    let has = |column: &Column| match column {
        Column::Category => texts.iter().any(|texts| !texts.category.is_none()),
        Column::CallSite => texts.iter().any(|texts| !texts.call_site.is_none()),
        _ => true,
    };
    let columns: Vec<_> = Column::ALL.into_iter().filter(has).collect();
    let line = ui.text_style_height(&egui::TextStyle::Body) + 4.0;
    egui::ScrollArea::horizontal().id_salt(salt).show(ui, |ui| {
        let mut table = TableBuilder::new(ui)
            .id_salt(salt)
            .striped(true)
            .resizable(true)
            .auto_shrink(false)
            .sense(egui::Sense::click())
            .cell_layout(Layout::left_to_right(Align::Center));
        for column in &columns {
            table = table.column(Width::initial(column.width()).at_least(40.0).clip(true));
        }
        let table = table.header(line + 2.0, |mut header| {
            for &column in &columns {
                header.col(|ui| {
                    let heading = RichText::new(column.heading()).strong();
                    let layout = cell_layout(column);
                    ui.with_layout(layout, |ui| {
                        if sorted.is_none() {
                            ui.label(heading);
                            return;
                        }
                        let button = ui.add(egui::Button::new(heading).frame(false));
                        if let Some((_, down)) = sorted.filter(|&(by, _)| by == column) {
                            arrow(ui, down);
                        }
                        if button.clicked() {
                            answer.sort = Some(column);
                        }
                    });
                });
            }
        });
        table.body(|body| {
            body.rows(line, rows.len(), |mut row| {
                let allocation = rows[row.index()];
                row.set_selected(selected == Some(allocation));
                let position = state.position();
                let life = timeline.lifetime(allocation);
                let at = if timeline.allocation_exists(allocation, position) {
                    position
                } else {
                    life.allocated + 1
                };
                for &column in &columns {
                    row.col(|ui| {
                        ui.with_layout(cell_layout(column), |ui| {
                            let (short, long) = column.text(timeline, allocation, at);
                            let label = ui.add(egui::Label::new(short).truncate().selectable(false));
                            if !long.is_empty() {
                                label.on_hover_text(long);
                            }
                        });
                    });
                }
                let response = row.response();
                if response.hovered() {
                    answer.hovered = Some(allocation);
                }
                if response.clicked() {
                    answer.clicked = Some(allocation);
                }
            });
        });
    });
    answer
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

fn cell_layout(column: Column) -> Layout {
    if column.is_number() {
        Layout::right_to_left(Align::Center)
    } else {
        Layout::left_to_right(Align::Center)
    }
}
