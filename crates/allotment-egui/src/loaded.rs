//! A recording, its index and a cursor in it, in one owner.
//!
//! To index a long recording takes a second for each million events: a thread does it, and hands it to the widget whole.

use core::fmt::{self, Debug, Formatter};
use core::ops::Deref;
use std::sync::Arc;

use allotment_analyze::{Cursor, Timeline};
use allotment_trace::recording::Recording;
use self_cell::self_cell;

use crate::state::{KnownBlocks, MomentView};

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

/// A recording with its index, for an [`AnalyzerView`](crate::AnalyzerView): a thread makes it, so that the window does
/// not stop meanwhile.
///
/// ```
/// use allotment_egui::{AnalyzerView, IndexedRecording};
/// use allotment_trace::recording::Recording;
///
/// let thread = std::thread::spawn(|| IndexedRecording::new(Recording::default()));
/// let indexed = thread.join().expect("it does not panic");
/// assert_eq!(AnalyzerView::of_indexed("empty", indexed).position(), 0);
/// ```
pub struct IndexedRecording {
    pub(crate) loaded: Loaded,
    pub(crate) moved: Moved,
    /// The blocks at the end.
    pub(crate) known: KnownBlocks,
}

/// Where the events of the recording before are in one that follows it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    forgotten: u64,
    replaced_by: u64,
}

impl Moved {
    pub(crate) const fn is_none(self) -> bool {
        self.forgotten == 0 && self.replaced_by == 0
    }

    /// The position of a position before; of one that was forgotten, the first that is known.
    pub(crate) fn position(self, position: u64) -> u64 {
        position.saturating_sub(self.forgotten) + self.replaced_by
    }

    /// Returns true if a position before is there still.
    pub(crate) const fn keeps(self, position: u64) -> bool {
        position >= self.forgotten
    }
}

impl IndexedRecording {
    /// Indexes a recording: one walk over its events, about a microsecond for each; and looks at what every block has at
    /// the end, where a view begins.
    #[must_use]
    pub fn new(recording: Recording) -> Self {
        let mut loaded = Loaded::new(recording);
        let end = loaded.timeline().end();
        loaded.seek(end);
        let known = MomentView::look_at_all(loaded.cursor());
        Self { loaded, moved: Moved::default(), known }
    }

    /// Says that this recording lacks the first `forgotten` events of the one that it follows, and begins with
    /// `replaced_by` others in their place, as after
    /// [`LiveRecording::keep_last`](allotment_trace::live::LiveRecording::keep_last). What is selected and the cursor are
    /// found again then.
    #[must_use]
    pub const fn after_forgetting(mut self, forgotten: u64, replaced_by: u64) -> Self {
        self.moved = Moved { forgotten, replaced_by };
        self
    }
}

impl Debug for IndexedRecording {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexedRecording")
            .field("events", &self.loaded.timeline().end())
            .finish_non_exhaustive()
    }
}

/// The recording of an [`AnalyzerView`](crate::AnalyzerView), for a thread that writes it.
#[derive(Clone)]
pub struct SharedRecording(SharedTimeline);

impl Deref for SharedRecording {
    type Target = Recording;

    fn deref(&self) -> &Recording {
        self.0.0.borrow_owner()
    }
}

impl Debug for SharedRecording {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRecording").field("events", &self.events.len()).finish_non_exhaustive()
    }
}

/// A recording that is shown.
pub(crate) struct Loaded {
    indexed: Arc<Indexed>,
    moving: Moving,
    /// What of the file was not read, as text.
    unread: Vec<String>,
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
    pub(crate) fn new(recording: Recording) -> Self {
        let indexed = Arc::new(Indexed::new(recording, |recording| Timeline::new(recording)));
        let moving = Moving::new(Arc::clone(&indexed), |indexed| Cursor::new(indexed.borrow_dependent()));
        let unread = indexed.borrow_dependent().unread().iter().map(ToString::to_string).collect();
        Self { indexed, moving, unread }
    }

    pub(crate) fn recording(&self) -> &Recording {
        self.indexed.borrow_owner()
    }

    pub(crate) fn timeline(&self) -> &Timeline<'_> {
        self.indexed.borrow_dependent()
    }

    pub(crate) fn unread(&self) -> &[String] {
        &self.unread
    }

    pub(crate) fn shared(&self) -> SharedTimeline {
        SharedTimeline(Arc::clone(&self.indexed))
    }

    pub(crate) fn shared_recording(&self) -> SharedRecording {
        SharedRecording(self.shared())
    }

    pub(crate) fn cursor(&self) -> &Cursor<'_, '_> {
        self.moving.borrow_dependent()
    }

    pub(crate) fn seek(&mut self, position: u64) {
        self.moving.with_dependent_mut(|_, cursor| cursor.seek(position));
    }
}
