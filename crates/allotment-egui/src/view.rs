//! The widget: a bar with what concerns every pane, and the panes.

use std::collections::HashSet;

use allotment_analyze::{ColourBy, Scope, TimeAxis};
use allotment_trace::recording::Recording;
use egui::Ui;
use egui_tiles::{SimplificationOptions, Tile, TileId, Tiles, Tree, UiResponse};
use serde::{Deserialize, Serialize};

use crate::layout::{self, PaneKind};
use crate::loaded::{IndexedRecording, SharedRecording};
use crate::panes::{Panes, keyboard};
use crate::state::{Palette, PaletteKind, Selection, State};
use crate::top_bar;

/// The places of the panes, and the colours. A program keeps them from one start to the next.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Layout {
    tree: Tree<PaneKind>,
    palette: PaletteKind,
}

impl Default for Layout {
    fn default() -> Self {
        Self { tree: layout::initial(), palette: PaletteKind::default() }
    }
}

impl Layout {
    /// Panes side by side, the first of them the widest: for an application that has room for a few. The others can be
    /// opened from the bar.
    ///
    /// ```
    /// use allotment_egui::{AnalyzerView, Layout, PaneKind};
    /// use allotment_trace::recording::Recording;
    ///
    /// let mut view = AnalyzerView::new("empty", Recording::default());
    /// view.set_layout(Layout::side_by_side(&[PaneKind::BlockMap, PaneKind::Details]));
    /// assert_eq!(view.open_panes().len(), 2);
    /// ```
    #[must_use]
    pub fn side_by_side(panes: &[PaneKind]) -> Self {
        Self { tree: layout::side_by_side(panes), palette: PaletteKind::default() }
    }
}

/// A recording, shown in panes.
pub struct AnalyzerView {
    state: State,
    panes: Panes,
    tree: Tree<PaneKind>,
}

impl AnalyzerView {
    /// Shows a recording at its end. Indexes it first: one walk over its events, about a microsecond for each.
    #[must_use]
    pub fn new(title: impl Into<String>, recording: Recording) -> Self {
        Self::of_indexed(title, IndexedRecording::new(recording))
    }

    /// Shows a recording that a thread has indexed, at its end.
    #[must_use]
    pub fn of_indexed(title: impl Into<String>, indexed: IndexedRecording) -> Self {
        let state = State::new(title.into(), indexed);
        let mut view = Self { state, panes: Panes::default(), tree: layout::initial() };
        view.show_time();
        view
    }

    /// Shows another recording of the same program, which goes on where the one so far ends: what is selected, the zoom
    /// and the layout stay. A cursor at the end stays at the end. Costs as much as [`new`](Self::new).
    pub fn replace(&mut self, recording: Recording) {
        self.replace_indexed(IndexedRecording::new(recording));
    }

    /// As [`replace`](Self::replace), with a recording that a thread has indexed. Costs little if the cursor is at the
    /// end, and otherwise what it costs to move it there from a checkpoint, some milliseconds.
    ///
    /// Returns the one so far, which takes some milliseconds to drop for each million events: a thread may do it.
    pub fn replace_indexed(&mut self, indexed: IndexedRecording) -> IndexedRecording {
        let moved = indexed.moved;
        let before = self.state.replace(indexed);
        self.show_time();
        if moved.is_none() {
            self.panes.outdate_answers();
        } else {
            self.panes.forget_answers();
        }
        before
    }

    /// Draws the widget: it fills the space that there is.
    pub fn ui(&mut self, ui: &mut Ui) {
        inked(ui, self.state.palette);
        self.state.hovered = None;
        if !self.state.work() {
            ui.ctx().request_repaint();
        }
        let by_key = keyboard::keys(ui, &mut self.state, &mut self.panes);
        let by_menu = top_bar::ui(ui, &mut self.state, &mut self.panes);
        for pane in by_key.into_iter().chain(by_menu) {
            self.open_pane(pane);
        }
        self.panes.update_colours(ui, &mut self.state);
        let mut behaviour = Behaviour { state: &mut self.state, panes: &mut self.panes };
        self.tree.ui(&mut behaviour, ui);
        let is_open = |pane| self.tree.tiles.tiles().any(|tile| *tile == Tile::Pane(pane));
        self.panes.close(is_open);
    }

    /// Returns where the panes are, to be saved.
    #[must_use]
    pub fn layout(&self) -> Layout {
        Layout { tree: self.tree.clone(), palette: self.state.palette }
    }

    /// Puts the panes where they were in a saved layout.
    pub fn set_layout(&mut self, layout: Layout) {
        (self.tree, self.state.palette) = (layout.tree, layout.palette);
        self.show_time();
    }

    /// Shows a pane, also one that was closed. A dump of one moment has none that are about time.
    pub fn open_pane(&mut self, pane: PaneKind) {
        if self.state.has_history() || !pane.needs_history() {
            layout::open(&mut self.tree, pane);
        }
    }

    fn show_time(&mut self) {
        layout::show_time(&mut self.tree, self.state.has_history());
    }

    /// Returns the panes that are in the layout.
    #[must_use]
    pub fn open_panes(&self) -> HashSet<PaneKind> {
        let tiles = self.tree.tiles.tiles();
        tiles.filter_map(|tile| if let Tile::Pane(pane) = tile { Some(*pane) } else { None }).collect()
    }

    /// Returns the title.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.state.title
    }

    /// Returns the recording, for a thread that writes it.
    #[must_use]
    pub fn recording(&self) -> SharedRecording {
        self.state.loaded.shared_recording()
    }

    /// Returns the cursor: how many events came before the moment that is shown.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.state.position()
    }

    /// Moves the cursor.
    pub fn set_position(&mut self, position: u64) {
        self.state.jump(position);
    }

    /// Returns what is selected.
    #[must_use]
    pub const fn selected(&self) -> Option<Selection> {
        self.state.selected
    }

    /// Returns the name of the selected allocation, if it has one.
    #[must_use]
    pub fn selected_name(&self) -> Option<&str> {
        let Some(Selection::Allocation(allocation)) = self.state.selected else { return None };
        let name = self.state.loaded.timeline().texts(allocation).name;
        self.state.loaded.recording().text(name)
    }

    /// Selects an allocation, a free range, a block or nothing.
    pub fn select(&mut self, selection: Option<Selection>) {
        self.state.select(selection);
        self.state.reveal = true;
    }

    /// Returns which blocks are shown.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        self.state.scope
    }

    /// Shows some of the blocks.
    pub fn set_scope(&mut self, scope: Scope) {
        self.state.set_scope(scope);
    }

    /// Returns the visible part of each block, as shares of its bytes, or of the largest block's where all have one
    /// scale.
    #[must_use]
    pub const fn visible_bytes(&self) -> (f64, f64) {
        (self.state.bytes.from, self.state.bytes.to)
    }

    /// Returns the visible part of the time, as shares of the recording.
    #[must_use]
    pub const fn visible_time(&self) -> (f64, f64) {
        (self.state.time.from, self.state.time.to)
    }

    /// Returns the moments A to D, as positions: those that were set.
    #[must_use]
    pub const fn marks(&self) -> [Option<u64>; 4] {
        self.state.marks
    }

    /// Returns the unit of time.
    #[must_use]
    pub const fn axis(&self) -> TimeAxis {
        self.state.axis
    }

    /// Returns what the colours of the map and the bands of the timeline tell apart.
    #[must_use]
    pub const fn colour_by(&self) -> ColourBy {
        self.state.colours.by
    }

    /// Changes what colours tell apart.
    pub fn set_colour_by(&mut self, by: ColourBy) {
        self.state.colours.set_by(by);
    }

    /// Returns the numbers of the groups that are picked in the legend. All are shown while none is.
    #[must_use]
    pub fn picked_groups(&self) -> Vec<usize> {
        (0..16).filter(|group| self.state.colours.picked & 1 << group != 0).collect()
    }

    /// Returns the colours.
    #[must_use]
    pub const fn palette(&self) -> PaletteKind {
        self.state.palette
    }

    /// Returns how many rows the table of allocations has with its present search.
    #[must_use]
    pub fn table_rows(&self) -> usize {
        self.panes.table.row_count()
    }
}

/// Sets the colours of texts as in the report: egui's own greys are faint for tables of numbers.
fn inked(ui: &mut Ui, palette: PaletteKind) {
    let palette = Palette::new(palette, ui.visuals().dark_mode);
    let visuals = ui.visuals_mut();
    visuals.weak_text_color = Some(palette.muted);
    visuals.widgets.noninteractive.fg_stroke.color = palette.ink;
}

struct Behaviour<'a> {
    state: &'a mut State,
    panes: &'a mut Panes,
}

impl egui_tiles::Behavior<PaneKind> for Behaviour<'_> {
    fn pane_ui(&mut self, ui: &mut Ui, _: TileId, pane: &mut PaneKind) -> UiResponse {
        let margin = egui::Margin { left: 8, right: 8, top: 5, bottom: 5 };
        let frame = egui::Frame::new().inner_margin(margin).fill(ui.visuals().panel_fill);
        frame.show(ui, |ui| {
            ui.set_min_size(ui.available_size());
            // A pane begins with the style of the window.
            inked(ui, self.state.palette);
            self.panes.ui(ui, *pane, self.state);
        });
        UiResponse::None
    }

    fn tab_title_for_pane(&mut self, pane: &PaneKind) -> egui::WidgetText {
        pane.title().into()
    }

    fn is_tab_closable(&self, _: &Tiles<PaneKind>, _: TileId) -> bool {
        true
    }

    fn simplification_options(&self) -> SimplificationOptions {
        // A pane without tabs has no heading.
        SimplificationOptions { all_panes_must_have_tabs: true, ..SimplificationOptions::default() }
    }

    fn gap_width(&self, _: &egui::Style) -> f32 {
        3.0
    }
}
