//! Which rows exist: a set of small numbers, whose insertions and removals cost a few nanoseconds.

use super::NONE;

/// A set of rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveSet {
    items: Vec<u32>,
    /// Where each row is in `items`; [`NONE`] for a row that is not in the set.
    places: Vec<u32>,
}

impl LiveSet {
    pub(crate) fn insert(&mut self, row: u32) {
        let index = row as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, NONE);
        }
        if self.places[index] == NONE {
            self.places[index] = self.items.len() as u32;
            self.items.push(row);
        }
    }

    pub(crate) fn remove(&mut self, row: u32) {
        let Some(place) = self.places.get_mut(row as usize) else { return };
        let place = core::mem::replace(place, NONE);
        if place == NONE {
            return;
        }
        self.items.swap_remove(place as usize);
        if let Some(&moved) = self.items.get(place as usize) {
            self.places[moved as usize] = place;
        }
    }

    pub(crate) fn clear(&mut self) {
        for &row in &self.items {
            self.places[row as usize] = NONE;
        }
        self.items.clear();
    }

    pub(crate) fn items(&self) -> &[u32] {
        &self.items
    }
}
