//! A message below the menu bar: an error, or that a file was written.

use eframe::egui::{Align, Label, Layout, Panel, RichText, ScrollArea, Ui};

/// Some lines of a message are seen at once. Longer ones scroll.
const HEIGHT: f32 = 110.0;

/// A message that stays until a person has read it.
#[derive(Debug)]
pub(crate) struct Notice {
    text: String,
    is_error: bool,
}

impl Notice {
    pub(crate) const fn error(text: String) -> Self {
        Self { text, is_error: true }
    }

    pub(crate) const fn done(text: String) -> Self {
        Self { text, is_error: false }
    }
}

/// Draws a message over the whole width. Returns true if it is dismissed.
pub(crate) fn ui(ui: &mut Ui, id: &'static str, notice: &Notice) -> bool {
    let mut is_dismissed = false;
    Panel::top(id).resizable(false).show(ui, |ui| {
        // The button first: however long the text is, it is not pushed out of the window.
        ui.with_layout(Layout::right_to_left(Align::Min), |ui| {
            is_dismissed = ui.button("Dismiss").clicked();
            ui.with_layout(Layout::top_down(Align::Min), |ui| {
                let colour =
                    if notice.is_error { ui.visuals().error_fg_color } else { ui.visuals().text_color() };
                ScrollArea::vertical().max_height(HEIGHT).auto_shrink([false, true]).show(ui, |ui| {
                    ui.add(Label::new(RichText::new(&notice.text).color(colour)).wrap());
                });
            });
        });
    });
    is_dismissed
}
