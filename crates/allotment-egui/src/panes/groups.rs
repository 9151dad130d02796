//! Groups of allocations as a table: what made them, how many, how many bytes, and when they came.

use allotment_analyze::{AllocationGroups, short_call_site};
use egui::{Align, Layout, RichText, Ui};
use egui_extras::{Column, TableBuilder};

use crate::state::State;
use crate::text;

const HEADINGS: [&str; 6] = ["What made them", "Count", "Bytes", "Share", "Frames", "Names"];

/// Draws the groups, those with most bytes first. Returns the key of one that is clicked.
pub(super) fn table(ui: &mut Ui, state: &State, salt: &str, groups: &AllocationGroups) -> Option<String> {
    let mut clicked = None;
    let now = state.loaded.cursor().moment();
    let line = ui.text_style_height(&egui::TextStyle::Body) + 4.0;
    let right = Layout::right_to_left(Align::Center);
    let table = TableBuilder::new(ui)
        .id_salt(salt)
        .striped(true)
        .auto_shrink(false)
        .sense(egui::Sense::click())
        .cell_layout(Layout::left_to_right(Align::Center))
        .column(Column::initial(330.0).at_least(80.0).clip(true).resizable(true))
        .columns(Column::exact(86.0), 3)
        .column(Column::exact(190.0).clip(true))
        .column(Column::remainder().clip(true));
    let table = table.header(line + 2.0, |mut header| {
        for (index, text) in HEADINGS.into_iter().enumerate() {
            header.col(|ui| {
                let heading = RichText::new(text).strong();
                if (1..4).contains(&index) {
                    ui.with_layout(right, |ui| ui.label(heading));
                } else {
                    ui.label(heading);
                }
            });
        }
    });
    table.body(|body| {
        body.rows(line, groups.groups.len(), |mut row| {
            let group = &groups.groups[row.index()];
            row.col(|ui| {
                let key = if group.key.is_empty() { "(not known)" } else { short_call_site(&group.key) };
                ui.add(egui::Label::new(key).truncate().selectable(false)).on_hover_text(&group.key);
            });
            for value in
                [text::count(group.count), text::bytes(group.bytes), text::percent(group.bytes, groups.bytes)]
            {
                row.col(|ui| {
                    ui.with_layout(right, |ui| ui.add(egui::Label::new(value).selectable(false)));
                });
            }
            row.col(|ui| {
                let when = if state.loaded.timeline().frame_count() == 0 {
                    String::new()
                } else if group.is_steady(now) {
                    format!("{:.2} a frame, still coming", group.per_frame())
                } else if group.first.frame == group.last.frame {
                    format!("all in frame {}", text::count(group.first.frame))
                } else {
                    format!("{} to {}", text::count(group.first.frame), text::count(group.last.frame))
                };
                let text = RichText::new(when);
                let text = if group.is_steady(now) { text.color(ui.visuals().warn_fg_color) } else { text };
                ui.add(egui::Label::new(text).selectable(false));
            });
            row.col(|ui| {
                ui.add(egui::Label::new(group.name.to_string()).truncate().selectable(false));
            });
            if row.response().clicked() {
                clicked = Some(group.key.clone());
            }
        });
    });
    clicked
}
