//! Allocations of a block that share bytes, in lanes: two that overlap are in different ones.

use allotment_analyze::{AllocationIndex, Lanes};
use egui::{Align2, FontId, Rect, Role, Sense, Ui, WidgetInfo, pos2};

use crate::paint::Rects;
use crate::state::{Palette, State};
use crate::text;

const LANE: f32 = 20.0;

/// Draws the lanes of each block. Returns whether there are some, and the allocation that was clicked.
pub(super) fn ui(ui: &mut Ui, state: &mut State) -> (bool, Option<AllocationIndex>) {
    let palette = Palette::new(state.palette, ui.visuals().dark_mode);
    let timeline = state.loaded.timeline();
    let aliased: Vec<_> =
        state.moment.blocks.iter().copied().filter(|&block| timeline.block_info(block).aliased).collect();
    let mut clicked = None;
    let mut drawn = false;
    for block in aliased {
        let (size, placed) = {
            let contents = state.look(block);
            (contents.size, contents.placed.clone())
        };
        let lanes = Lanes::of(&placed);
        if lanes.aliased == 0 {
            continue;
        }
        drawn = true;
        ui.label(format!(
            "Block {}: {} shared by several, {} saved",
            text::block(state.loaded.timeline(), block),
            text::bytes(lanes.aliased),
            text::bytes(lanes.saved)
        ));
        let height = LANE * lanes.count as f32;
        let (area, _) =
            ui.allocate_exact_size(egui::vec2(ui.available_width() - 8.0, height), Sense::hover());
        ui.painter().rect_filled(area, 2.0, palette.ground);
        let mut rects = Rects::new(ui.ctx());
        let x = |byte: u64| area.left() + (byte as f64 / size.max(1) as f64) as f32 * area.width();
        let mut names: Vec<(Rect, AllocationIndex)> = Vec::new();
        for (one, &lane) in placed.iter().zip(&lanes.lane) {
            let top = area.top() + lane as f32 * LANE;
            let rect = Rect::from_min_max(
                pos2(x(one.offset), top + 1.0),
                pos2(x(one.end()).max(x(one.offset) + 1.0), top + LANE - 1.0),
            );
            rects.add_class(rect.shrink2(egui::vec2(0.5, 0.0)), one.class(), &palette);
            names.push((rect, one.allocation));
        }
        rects.paint(ui.painter());
        for (rect, allocation) in names {
            let name = text::name(state.loaded.timeline(), allocation);
            let response = ui.interact(rect, ui.scope_id().with(("lane", allocation.0)), Sense::click());
            response.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("{name} in its lane")));
            if rect.width() > 44.0 {
                let painter = ui.painter().with_clip_rect(rect.shrink2(egui::vec2(3.0, 0.0)));
                let at = pos2(rect.left() + 5.0, rect.center().y);
                painter.text(at, Align2::LEFT_CENTER, name, FontId::proportional(11.5), palette.on_used);
            }
            if response.hovered() {
                state.hovered = Some(allocation);
            }
            if response.on_hover_text(name).clicked() {
                clicked = Some(allocation);
            }
        }
        ui.add_space(8.0);
    }
    (drawn, clicked)
}
