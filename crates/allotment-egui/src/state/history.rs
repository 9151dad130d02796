//! The places that were visited, to go back and forward among them.

use super::Selection;
use super::span::Span;
use allotment_analyze::Scope;

/// A place: what the panes show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Visited {
    pub(crate) position: u64,
    pub(crate) selected: Option<Selection>,
    pub(crate) scope: Scope,
    pub(crate) bytes: Span,
    pub(crate) time: Span,
}

/// The kind of change that a step makes. Steps of one kind in a row are one, so that a drag is undone at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The cursor moves by small steps.
    Cursor,
    /// The zoom changes by small steps.
    Zoom,
    /// Anything that is one decision: a selection, a jump.
    Jump,
}

/// As many steps as anyone goes back.
const KEPT: usize = 200;

/// Places before and after the present one.
#[derive(Debug, Default)]
pub(crate) struct History {
    back: Vec<Visited>,
    forward: Vec<Visited>,
    last: Option<Change>,
}

impl History {
    /// Keeps the present place, which a change is about to leave.
    pub(crate) fn leave(&mut self, place: Visited, change: Change) {
        let goes_on = change != Change::Jump && self.last == Some(change);
        self.last = Some(change);
        self.forward.clear();
        if !goes_on {
            if self.back.len() == KEPT {
                self.back.remove(0);
            }
            self.back.push(place);
        }
    }

    pub(crate) fn back(&mut self, present: Visited) -> Option<Visited> {
        let place = self.back.pop()?;
        self.forward.push(present);
        self.last = None;
        Some(place)
    }

    pub(crate) fn forward(&mut self, present: Visited) -> Option<Visited> {
        let place = self.forward.pop()?;
        self.back.push(present);
        self.last = None;
        Some(place)
    }

    pub(crate) fn can_go_back(&self) -> bool {
        !self.back.is_empty()
    }

    pub(crate) fn can_go_forward(&self) -> bool {
        !self.forward.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(position: u64) -> Visited {
        let (bytes, time) = (Span::default(), Span::default());
        Visited { position, selected: None, scope: Scope::All, bytes, time }
    }

    #[test]
    fn a_drag_is_one_step_back_and_a_jump_is_another() {
        let mut history = History::default();
        history.leave(at(0), Change::Jump);
        for position in 1..100 {
            history.leave(at(position), Change::Cursor);
        }
        assert_eq!(history.back(at(100)), Some(at(1)));
        assert_eq!(history.back(at(1)), Some(at(0)));
        assert_eq!(history.back(at(0)), None);
        assert_eq!(history.forward(at(0)), Some(at(1)));
        history.leave(at(1), Change::Jump);
        assert!(!history.can_go_forward() && history.can_go_back());
    }
}
