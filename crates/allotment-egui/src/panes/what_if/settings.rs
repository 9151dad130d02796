//! The choice of settings of a side.

use allotment::Algorithm;
use allotment::memory::AllocatorDesc;
use allotment_analyze::SettingChanges;
use egui::{ComboBox, RichText, Ui};

use crate::text;

const ALGORITHMS: [Algorithm; 3] = [Algorithm::Tlsf, Algorithm::Buddy, Algorithm::Linear];
const DIVISORS: [u64; 5] = [1, 2, 4, 8, 16];
const FRAMES: [u32; 6] = [0, 1, 10, 60, 300, 3600];

pub(super) fn ui(ui: &mut Ui, side: &str, changes: &mut SettingChanges, recorded: &AllocatorDesc) {
    let sizes = recorded.block_sizes;
    let blocks: Vec<u64> = (16..=32).map(|power| 1 << power).collect();
    ui.horizontal_wrapped(|ui| {
        ui.label(RichText::new(side).strong());
        let mut row = Row { ui, side };
        row.choose("algorithm", &mut changes.algorithm, recorded.algorithm, &ALGORITHMS, text::algorithm);
        row.choose("first block", &mut changes.smallest_block, sizes.smallest, &blocks, text::bytes);
        row.choose("largest block", &mut changes.largest_block, sizes.largest, &blocks, text::bytes);
        let divisor = sizes.dedicated_threshold_divisor;
        row.choose("dedicated above", &mut changes.dedicated_divisor, divisor, &DIVISORS, |divisor| {
            if divisor == 1 { "a block".to_owned() } else { format!("1/{divisor} of a block") }
        });
        let frames = recorded.empty_blocks.frames;
        row.choose("empty blocks stay", &mut changes.empty_frames, frames, &FRAMES, |frames| {
            text::plural(frames.into(), "frame")
        });
        if !changes.is_none() && row.ui.button(format!("{side} as recorded")).clicked() {
            *changes = SettingChanges::default();
        }
    });
}

/// The settings of a side, one after the other.
struct Row<'a> {
    ui: &'a mut Ui,
    side: &'a str,
}

impl Row<'_> {
    fn choose<T: Copy + PartialEq>(
        &mut self,
        name: &str,
        value: &mut Option<T>,
        recorded: T,
        options: &[T],
        write: impl Fn(T) -> String,
    ) {
        let label = self.ui.label(name);
        let shown = write(value.unwrap_or(recorded));
        let shown = if value.is_some() { RichText::new(shown).strong() } else { RichText::new(shown) };
        let combo = ComboBox::from_id_salt((self.side, name)).selected_text(shown).width(64.0).height(420.0);
        let response = combo.show_ui(self.ui, |ui| {
            ui.selectable_value(value, None, format!("as recorded: {}", write(recorded)));
            for &option in options {
                ui.selectable_value(value, Some(option), write(option));
            }
        });
        response.response.labelled_by(label.id).on_hover_text(format!("{name} of {}", self.side));
    }
}
