//! The changes between the moments A and B, grouped by the code that made them.

use allotment_analyze::{Amount, Cursor, Difference, Grouping, short_call_site};
use egui::{Align, Layout, RichText, Ui};
use egui_extras::{Column, TableBuilder};

use super::details::of_change;
use super::{empty, figure, table, waiting};
use crate::background::Background;
use crate::state::{Palette, State};
use crate::text;

/// The pane.
#[derive(Default)]
pub(crate) struct DifferencePane {
    grouping: Grouping,
    found: Background<(u64, u64, Grouping), Difference>,
}

impl DifferencePane {
    pub(crate) const fn outdate(&mut self) {
        self.found.outdate();
    }

    pub(crate) fn clear(&mut self) {
        self.found = Background::default();
    }

    pub(crate) fn ui(&mut self, ui: &mut Ui, state: &mut State) {
        let markers = state.markers();
        let (a, b) = (markers[0], state.marks[1].unwrap_or(markers[3]));
        ui.horizontal_wrapped(|ui| {
            ui.label("By");
            for (grouping, word) in table::GROUPINGS {
                ui.selectable_value(&mut self.grouping, grouping, word);
            }
            ui.separator();
            for (letter, position, index) in [("A", a, 0), ("B", b, 1)] {
                ui.label(RichText::new(letter).strong());
                let timeline = state.loaded.timeline();
                let moment = text::moment(timeline, timeline.moment(position));
                if ui.link(text::sentence(&moment)).clicked() {
                    state.jump(position);
                }
                if ui.button(format!("Set {letter} here")).clicked() {
                    state.set_mark(index, state.position());
                }
            }
        });
        if a == b {
            empty(
                ui,
                "A and B are the same moment. Set them to two moments, or drag over the timeline with Shift.",
            );
            return;
        }
        let grouping = self.grouping;
        let found = self.found.get(ui.ctx(), &state.loaded, (a, b, grouping), move |timeline| {
            Difference::between(&Cursor::at(timeline, a), &Cursor::at(timeline, b), grouping)
        });
        let Some(difference) = found else { return waiting(ui) };
        sums(ui, difference);
        if difference.groups.is_empty() {
            empty(ui, "Nothing is allocated at A, and nothing at B.");
            return;
        }
        let palette = Palette::new(state.palette, ui.visuals().dark_mode);
        rows(ui, difference, &palette);
    }
}

fn amount(amount: Amount) -> String {
    format!("{}, {}", text::plural(amount.count, "allocation"), text::bytes(amount.bytes))
}

fn sums(ui: &mut Ui, difference: &Difference) {
    ui.horizontal_wrapped(|ui| {
        figure(ui, "Changed by", &text::signed(difference.grown()));
        figure(ui, "Only in A", &amount(difference.only_a));
        figure(ui, "Only in B", &amount(difference.only_b));
        figure(ui, "In both", &amount(difference.both));
        if difference.moved.count > 0 {
            figure(ui, "Moved", &amount(difference.moved));
        }
    });
}

fn rows(ui: &mut Ui, difference: &Difference, palette: &Palette) {
    let line = ui.text_style_height(&egui::TextStyle::Body) + 4.0;
    let right = Layout::right_to_left(Align::Center);
    let most = difference.groups.first().map_or(1, |group| group.grown().unsigned_abs().max(1));
    let table = TableBuilder::new(ui)
        .id_salt("difference")
        .striped(true)
        .auto_shrink(false)
        .cell_layout(Layout::left_to_right(Align::Center))
        .column(Column::initial(330.0).at_least(80.0).clip(true).resizable(true))
        .columns(Column::exact(92.0), 5)
        .column(Column::remainder().at_least(60.0));
    let headings = ["What made them", "Count in A", "Count in B", "Bytes in A", "Bytes in B", "Change", ""];
    let table = table.header(line + 2.0, |mut header| {
        for (index, heading) in headings.into_iter().enumerate() {
            header.col(|ui| {
                let heading = RichText::new(heading).strong();
                if (1..6).contains(&index) {
                    ui.with_layout(right, |ui| ui.label(heading));
                } else {
                    ui.label(heading);
                }
            });
        }
    });
    table.body(|body| {
        body.rows(line, difference.groups.len(), |mut row| {
            let group = &difference.groups[row.index()];
            let grown = group.grown();
            row.col(|ui| {
                let key = if group.key.is_empty() { "(not known)" } else { short_call_site(&group.key) };
                ui.add(egui::Label::new(key).truncate()).on_hover_text(&group.key);
            });
            let (a, b) = (group.a, group.b);
            for value in
                [text::count(a.count), text::count(b.count), text::bytes(a.bytes), text::bytes(b.bytes)]
            {
                row.col(|ui| {
                    ui.with_layout(right, |ui| ui.label(value));
                });
            }
            row.col(|ui| {
                let change = RichText::new(text::signed(grown)).color(of_change(grown, palette));
                ui.with_layout(right, |ui| ui.label(change));
            });
            row.col(|ui| bar(ui, grown, most, palette));
        });
    });
}

/// A bar from the middle: to the right for growth.
fn bar(ui: &mut Ui, grown: i128, most: u128, palette: &Palette) {
    let (rect, _) =
        ui.allocate_exact_size(egui::vec2(ui.available_width().min(240.0), 10.0), egui::Sense::hover());
    let share = grown as f32 / most as f32;
    let middle = rect.center().x;
    let end = middle + share * rect.width() / 2.0;
    let bar = rect.with_min_x(middle.min(end)).with_max_x(middle.max(end));
    ui.painter().rect_filled(bar, 2.0, of_change(grown, palette));
    ui.painter().vline(middle, rect.y_range(), (1.0, palette.grid));
}
