//! The legend: what the colours tell apart, its groups with their bytes, and the search, which dims what it does not mean.

use core::time::Duration;
use std::sync::Arc;

use allotment_analyze::{AllocationSearch, Class, ColourBy, ColourGroup, ColourGroups, Cursor, Scope};
use egui::{ComboBox, Rect, RichText, Role, Sense, Ui, WidgetInfo, pos2, vec2};

use crate::background::Background;
use crate::paint::Rects;
use crate::state::{Colours, Palette, State};
use crate::text;

/// What it takes to group an allocation, or to look whether a search means it.
const EACH_ALLOCATION: Duration = Duration::from_nanos(150);

/// What is counted for the colours.
#[derive(Default)]
pub(crate) struct ColoursPane {
    groups: Background<ColourBy, Arc<ColourGroups>>,
    found: Background<String, Arc<[bool]>>,
    legend: Background<(u64, u64, Scope), Vec<ColourGroup>>,
}

impl ColoursPane {
    pub(crate) const fn outdate(&mut self) {
        self.groups.outdate();
        self.found.outdate();
        self.legend.outdate();
    }

    /// Brings the groups and what a search means up to date, before the panes are drawn.
    pub(crate) fn update(&mut self, ui: &Ui, state: &mut State, query: &str) {
        let count = state.loaded.timeline().allocation_count();
        let cost = EACH_ALLOCATION.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        let by = state.colours.by;
        let groups = self.groups.get_for(ui.ctx(), &state.loaded, cost, by, move |timeline| {
            Arc::new(ColourGroups::new(timeline, by))
        });
        // Of a program that had no allocation yet.
        let groups = groups.filter(|groups| !groups.is_empty() || count == 0);
        let found = if query.trim().is_empty() {
            None
        } else {
            let text = query.to_owned();
            let found = self.found.get_for(ui.ctx(), &state.loaded, cost, text.clone(), move |timeline| {
                let search = AllocationSearch::new(timeline.recording(), &text);
                // Where it was at first: few are ever moved.
                let first = |allocation| timeline.lifetime(allocation).allocated + 1;
                timeline.allocations().map(|one| search.matches(timeline, one, first(one))).collect()
            });
            // What was found stays while more is typed.
            found.or(state.colours.found.as_ref()).cloned()
        };
        let is_same =
            same(groups, state.colours.groups.as_ref()) && same(found.as_ref(), state.colours.found.as_ref());
        if !is_same {
            state.colours.set(groups.cloned(), found);
        }
    }

    /// The choice of what colours tell apart.
    pub(crate) fn choice(ui: &mut Ui, state: &mut State) {
        let mut by = state.colours.by;
        let label = ui.label("Colours");
        let combo =
            ComboBox::from_id_salt("colours").height(420.0).selected_text(by.name()).show_ui(ui, |ui| {
                for one in Colours::choices(state.has_history()) {
                    ui.selectable_value(&mut by, one, one.name());
                }
            });
        combo.response.labelled_by(label.id).on_hover_text("G, and back with Shift");
        state.colours.set_by(by);
    }

    /// Draws the groups: a click picks one, and the others are dimmed; another click picks it no longer.
    pub(crate) fn legend(&mut self, ui: &mut Ui, state: &mut State, palette: &Palette) {
        let Some(groups) = state.colours.groups.clone() else {
            ui.spinner();
            return;
        };
        let (position, scope) = (state.position(), state.scope);
        let count = state.loaded.cursor().allocation_count();
        let cost = EACH_ALLOCATION.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        let key = (state.colours.counted, position, scope);
        let of = Arc::clone(&groups);
        let sums = self.legend.get_for(ui.ctx(), &state.loaded, cost, key, move |timeline| {
            of.legend(&Cursor::at(timeline, position), scope)
        });
        let mut toggled = None;
        for (group, name) in groups.names().enumerate() {
            let sum = sums.and_then(|sums| sums.get(group));
            if entry(ui, state, palette, &groups, group, name, sum) {
                toggled = Some(group);
            }
        }
        if state.colours.by == ColourBy::State {
            plain(ui, palette, Class::Rounding, "overhead");
            plain(ui, palette, Class::Free, "free");
        }
        if let Some(group) = toggled {
            state.colours.toggle(group);
        }
    }
}

fn same<T: ?Sized>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}

/// A square and a word that filter nothing.
fn plain(ui: &mut Ui, palette: &Palette, class: Class, word: &str) {
    let (rect, _) = ui.allocate_exact_size(vec2(12.0, 12.0), Sense::hover());
    let mut rects = Rects::new(ui.ctx());
    rects.add_class(rect, class, palette);
    rects.paint(ui.painter());
    ui.label(RichText::new(word).size(12.0).color(palette.muted));
    ui.add_space(4.0);
}

/// Draws a group. Returns true if it is clicked.
fn entry(
    ui: &mut Ui,
    state: &State,
    palette: &Palette,
    groups: &ColourGroups,
    group: usize,
    name: &str,
    sum: Option<&ColourGroup>,
) -> bool {
    let is_picked = state.colours.is_picked(group);
    let colour = if is_picked { palette.ink } else { palette.muted };
    let font = egui::FontId::proportional(12.0);
    let galley = ui.painter().layout_no_wrap(shortened(name), font, colour);
    let size = vec2(16.0 + galley.size().x + 4.0, galley.size().y.max(14.0));
    let (rect, response) = ui.allocate_exact_size(size, Sense::click());
    let square = Rect::from_center_size(pos2(rect.left() + 6.0, rect.center().y), vec2(12.0, 12.0));
    let mut rects = Rects::new(ui.ctx());
    rects.add_striped(square, palette.of_group(groups, group));
    rects.paint(ui.painter());
    if !is_picked {
        ui.painter().rect_filled(square, 0.0, ui.visuals().panel_fill.gamma_multiply(0.75));
    } else if state.colours.picked != 0 || response.hovered() || response.has_focus() {
        ui.painter().rect_stroke(square, 0.0, (1.5, palette.ink), egui::StrokeKind::Outside);
    }
    ui.painter().galley(pos2(rect.left() + 16.0, rect.center().y - galley.size().y / 2.0), galley, colour);
    let words =
        sum.map(|sum| format!("{}, {}", text::plural(sum.count, "allocation"), text::bytes(sum.bytes)));
    let label = words.as_ref().map_or_else(|| name.to_owned(), |words| format!("{name}: {words}"));
    let picked = state.colours.picked & 1 << group != 0;
    response.widget_info(|| WidgetInfo::selected(Role::CheckBox, true, picked, &label));
    let tip = if picked {
        "Click to pick it no longer"
    } else {
        "Click to show only this group, and others with it"
    };
    let response = response.on_hover_cursor(egui::CursorIcon::PointingHand).on_hover_ui(|ui| {
        ui.label(RichText::new(name).strong());
        if let Some(words) = &words {
            ui.label(words);
        }
        ui.label(RichText::new(tip).weak());
    });
    response.clicked()
}

/// A long name keeps its end, in which names of one kind differ.
fn shortened(name: &str) -> String {
    const MOST: usize = 28;
    let count = name.chars().count();
    if count <= MOST {
        return name.to_owned();
    }
    let tail: String = name.chars().skip(count - (MOST - 1)).collect();
    format!("…{tail}")
}
