//! A recording, its index and a cursor in it, in one owner.

use std::sync::Arc;

use allotment_analyze::{Cursor, Timeline};
use allotment_trace::recording::Recording;
use self_cell::self_cell;

/// A cursor whose timeline borrows from a recording that lives as long as the timeline.
type OneCursor<'t> = Cursor<'t, 't>;

self_cell!(
    struct Indexed {
        owner: Recording,
        #[covariant]
        dependent: Timeline,
    }
);

self_cell!(
    struct Moving {
        owner: Arc<Indexed>,
        #[covariant]
        dependent: OneCursor,
    }
);

/// A recording that is shown.
pub(crate) struct Loaded {
    title: String,
    indexed: Arc<Indexed>,
    moving: Moving,
}

/// The index of a recording, for a thread that counts something beside the frames.
#[derive(Clone)]
pub(crate) struct SharedTimeline(Arc<Indexed>);

impl SharedTimeline {
    pub(crate) fn get(&self) -> &Timeline<'_> {
        self.0.borrow_dependent()
    }
}

impl Loaded {
    /// Indexes a recording: one walk over its events.
    pub(crate) fn new(title: String, recording: Recording) -> Self {
        let indexed = Arc::new(Indexed::new(recording, |recording| Timeline::new(recording)));
        let moving = Moving::new(Arc::clone(&indexed), |indexed| Cursor::new(indexed.borrow_dependent()));
        Self { title, indexed, moving }
    }

    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    pub(crate) fn recording(&self) -> &Recording {
        self.indexed.borrow_owner()
    }

    pub(crate) fn timeline(&self) -> &Timeline<'_> {
        self.indexed.borrow_dependent()
    }

    pub(crate) fn shared(&self) -> SharedTimeline {
        SharedTimeline(Arc::clone(&self.indexed))
    }

    pub(crate) fn cursor(&self) -> &Cursor<'_, '_> {
        self.moving.borrow_dependent()
    }

    pub(crate) fn seek(&mut self, position: u64) {
        self.moving.with_dependent_mut(|_, cursor| cursor.seek(position));
    }
}
