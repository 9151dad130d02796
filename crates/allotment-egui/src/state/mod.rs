//! The state that all panes share: the recording, the moment, the selection, and the way back.

mod colours;
mod history;
mod moment;
mod palette;
mod replaced;
mod selection;
mod span;
mod wide;

use core::time::Duration;

use allotment_analyze::{AllocationIndex, BlockIndex, Scope, TimeAxis};

pub(crate) use colours::Colours;
pub(crate) use history::{Change, History, Visited};
pub(crate) use moment::{Contents, KnownBlocks, MomentView};
pub(crate) use palette::Palette;
pub use palette::PaletteKind;
pub use selection::Selection;
pub(crate) use span::Span;

use crate::loaded::{IndexedRecording, Loaded, Moved};
use replaced::Replaced;

/// A frame may look at further blocks for so long: a quarter of a frame at 60 Hz, so that a window stays fluent.
const WORK: Duration = Duration::from_millis(4);

/// Between so many events, the blocks that differ are found; farther away all are looked at anew.
const FEW_EVENTS: u32 = 10_000;

/// The state that all panes share.
pub(crate) struct State {
    pub(crate) title: String,
    pub(crate) loaded: Loaded,
    pub(crate) moment: MomentView,
    pub(crate) scope: Scope,
    pub(crate) selected: Option<Selection>,
    /// The allocation under the pointer in any pane.
    pub(crate) hovered: Option<AllocationIndex>,
    /// The moments A to D, as positions.
    pub(crate) marks: [Option<u64>; 4],
    pub(crate) axis: TimeAxis,
    /// The visible part of blocks.
    pub(crate) bytes: Span,
    /// The visible part of the time.
    pub(crate) time: Span,
    pub(crate) palette: PaletteKind,
    pub(crate) colours: Colours,
    /// The block map has to scroll to what is selected.
    pub(crate) reveal: bool,
    /// The table's search gets the keyboard.
    pub(crate) focus_search: bool,
    history: History,
    version: u64,
}

impl State {
    pub(crate) fn new(title: String, indexed: IndexedRecording) -> Self {
        let IndexedRecording { loaded, known, .. } = indexed;
        let mut moment = MomentView::new(loaded.cursor(), Scope::All, 0);
        moment.exchange_known(known);
        Self {
            title,
            loaded,
            moment,
            scope: Scope::All,
            selected: None,
            hovered: None,
            marks: [None; 4],
            axis: TimeAxis::Events,
            bytes: Span::default(),
            time: Span::default(),
            palette: PaletteKind::default(),
            colours: Colours::default(),
            reveal: false,
            focus_search: false,
            history: History::default(),
            version: 0,
        }
    }

    /// Shows a recording of the same program that goes on where the one so far ends. Returns the one so far.
    pub(crate) fn replace(&mut self, indexed: IndexedRecording) -> IndexedRecording {
        let IndexedRecording { loaded, moved, known } = indexed;
        let was_at_end = self.position() == self.loaded.timeline().end();
        let replaced = Replaced { old: self.loaded.timeline(), new: loaded.timeline(), moved };
        let time = replaced.time(self.axis, self.time, was_at_end);
        let selected = self.selected.and_then(|selected| replaced.selection(selected));
        let scope = replaced.scope(self.scope);
        let position = if was_at_end { loaded.timeline().end() } else { moved.position(self.position()) };
        (self.time, self.selected, self.scope) = (time, selected, scope);
        self.hovered = None;
        if !moved.is_none() {
            // They are about allocations with other numbers.
            self.colours.set(None, None);
        }
        if !moved.is_none() {
            self.marks = self.marks.map(|mark| Some(moved.position(mark.filter(|&at| moved.keeps(at))?)));
            // The places that were visited are of allocations with other numbers.
            self.history = History::default();
        }
        let loaded = core::mem::replace(&mut self.loaded, loaded);
        let so_far = self.moment.exchange_known(KnownBlocks::new());
        self.seek(position);
        let (now, unused) = if position == self.loaded.timeline().end() {
            (known, so_far)
        } else if moved.is_none() {
            // The same position of a longer recording.
            (so_far, known)
        } else {
            (KnownBlocks::new(), known)
        };
        self.moment.exchange_known(now);
        // Not dropped here: there may be millions.
        IndexedRecording { loaded, moved: Moved::default(), known: unused }
    }

    /// Returns false for a dump of one moment, which has no other.
    pub(crate) fn has_history(&self) -> bool {
        self.loaded.timeline().has_history()
    }

    pub(crate) const fn position(&self) -> u64 {
        self.moment.position
    }

    /// Brings the moment up to date, and looks at blocks that no frame has looked at so far. Returns true once nothing
    /// is left to do.
    pub(crate) fn work(&mut self) -> bool {
        self.moment.work(self.loaded.cursor(), WORK)
    }

    /// Looks at a block that exists at the cursor.
    pub(crate) fn look(&mut self, block: BlockIndex) -> &Contents {
        self.moment.look(self.loaded.cursor(), block)
    }

    fn place(&self) -> Visited {
        Visited {
            position: self.position(),
            selected: self.selected,
            scope: self.scope,
            bytes: self.bytes,
            time: self.time,
        }
    }

    /// Keeps the present place for the way back.
    pub(crate) fn leave(&mut self, change: Change) {
        self.history.leave(self.place(), change);
    }

    /// Moves the cursor, as one small step of several.
    pub(crate) fn move_cursor(&mut self, position: u64) {
        if self.has_history() && position.min(self.loaded.timeline().end()) != self.position() {
            self.leave(Change::Cursor);
            self.seek(position);
        }
    }

    /// Moves the cursor somewhere else.
    pub(crate) fn jump(&mut self, position: u64) {
        if self.has_history() && position.min(self.loaded.timeline().end()) != self.position() {
            self.leave(Change::Jump);
            self.seek(position);
        }
    }

    fn seek(&mut self, position: u64) {
        let before = self.position();
        self.loaded.seek(position);
        self.version += 1;
        // Blocks that are as they were are not looked at again.
        let mut known = self.moment.exchange_known(KnownBlocks::new());
        match self.loaded.timeline().blocks_changed(before, self.loaded.cursor().position(), FEW_EVENTS) {
            Some(changed) => known.retain(|block, _| !changed.contains(block)),
            None => known.clear(),
        }
        self.moment = MomentView::new(self.loaded.cursor(), self.scope, self.version);
        self.moment.exchange_known(known);
    }

    pub(crate) fn select(&mut self, selected: Option<Selection>) {
        if self.selected != selected {
            self.leave(Change::Jump);
            self.selected = selected;
        }
    }

    /// Selects an allocation, and moves the cursor to where it exists and the map to where it is.
    pub(crate) fn show(&mut self, allocation: AllocationIndex) {
        self.select(Some(Selection::Allocation(allocation)));
        let timeline = self.loaded.timeline();
        let position = self.position();
        if !timeline.allocation_exists(allocation, position) {
            let life = timeline.lifetime(allocation);
            // Where it was allocated, or just before it was freed, whichever is nearer.
            let to =
                if position <= life.allocated { life.allocated + 1 } else { life.freed.unwrap_or(position) };
            self.seek(to);
        }
        let block = self.loaded.timeline().place_at(allocation, self.position()).block;
        if !self.scope.contains(self.loaded.timeline(), block) {
            self.scope = Scope::All;
            self.seek(self.position());
        }
        self.reveal = true;
    }

    pub(crate) fn set_scope(&mut self, scope: Scope) {
        if self.scope != scope {
            self.leave(Change::Jump);
            self.scope = scope;
            self.seek(self.position());
        }
    }

    pub(crate) fn go_back(&mut self) {
        if let Some(place) = self.history.back(self.place()) {
            self.visit(place);
        }
    }

    pub(crate) fn go_forward(&mut self) {
        if let Some(place) = self.history.forward(self.place()) {
            self.visit(place);
        }
    }

    pub(crate) const fn history(&self) -> &History {
        &self.history
    }

    fn visit(&mut self, place: Visited) {
        (self.selected, self.scope) = (place.selected, place.scope);
        (self.bytes, self.time) = (place.bytes, place.time);
        self.seek(place.position);
    }

    /// Sets one of the moments A to D to the cursor. Those that it passes come with it, so that they stay in order.
    pub(crate) fn set_mark(&mut self, index: usize, position: u64) {
        if !self.has_history() {
            return;
        }
        for (other, mark) in self.marks.iter_mut().enumerate() {
            let passed = mark.is_some_and(|at| if other < index { at > position } else { at < position });
            if other == index || passed {
                *mark = Some(position);
            }
        }
    }

    /// The moments A to D. Moments that are not set are spread evenly between the others, the first event and the end.
    pub(crate) fn markers(&self) -> [u64; 4] {
        let mut marks = self.marks;
        marks[0] = marks[0].or(Some(0));
        marks[3] = marks[3].or(Some(self.loaded.timeline().end()));
        for index in [1, 2] {
            let before = marks[index - 1].unwrap_or(0);
            let (next, after) =
                (index + 1..4).find_map(|next| Some((next, marks[next]?))).unwrap_or((3, before));
            marks[index] =
                marks[index].or(Some(before + (after.saturating_sub(before)) / (next - index + 1) as u64));
        }
        marks.map(|mark| mark.unwrap_or(0))
    }
}
