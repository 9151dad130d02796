//! A list of allocations in the columns of the analysis.

use allotment_analyze::AllocationIndex;
use allotment_analyze::tables::{Column, allocation_cell, allocation_columns};
use egui::Ui;

use super::drawn::{Drawn, Sort};
use crate::state::{Palette, Selection, State};

/// Draws allocations as rows; a click shows one. Returns the order that a click on a heading asks for.
pub(crate) fn allocation_rows(
    ui: &mut Ui,
    state: &mut State,
    salt: &str,
    rows: &[AllocationIndex],
    sorted: Option<Sort>,
) -> Option<Sort> {
    let timeline = state.loaded.timeline();
    let cell = |row: usize, column: usize| {
        let allocation = rows[row];
        let position = state.position();
        let exists = timeline.allocation_exists(allocation, position);
        let at = if exists { position } else { timeline.lifetime(allocation).allocated + 1 };
        allocation_cell(timeline, allocation, at, column)
    };
    // A column of texts in which no row has anything is left out; of a dump of one moment, those about time as well.
    let has = |&(index, column): &(usize, Column)| {
        (column.is_number && timeline.has_history())
            || (0..rows.len().min(2000)).any(|row| !cell(row, index).is_empty())
    };
    let (shown, columns): (Vec<_>, Vec<_>) = allocation_columns().into_iter().enumerate().filter(has).unzip();
    let place = |index| shown.iter().position(|&column| column == index);
    let sort = sorted.map(|(column, down)| place(column).map(|place| (place, down)));
    let drawn = Drawn { salt, columns: &columns, rows: rows.len(), sort, picture: None };
    let palette = Palette::new(state.palette, ui.visuals().dark_mode);
    let selected = |row: usize| state.selected == Some(Selection::Allocation(rows[row]));
    let answer = drawn.ui(ui, &palette, selected, |row, column| cell(row, shown[column]));
    if let Some(row) = answer.clicked {
        state.show(rows[row]);
    }
    if let Some(row) = answer.hovered {
        state.hovered = Some(rows[row]);
    }
    answer.sort.map(|(place, down)| (shown[place], down))
}
