//! Allotment's analyzer as an egui widget: a window onto the GPU memory of a program.
//!
//! An [`AnalyzerView`] shows a [`Recording`](allotment_trace::recording::Recording): the blocks with their allocations,
//! memory over time, what is selected and its history, and every allocation in a table. Its panes share one moment,
//! which the timeline moves. Two of them look ahead: what a defragmentation would move, with an arrow for each move, and
//! what other settings of the allocator would have done.
//!
//! ```
//! use allotment_egui::AnalyzerView;
//! use allotment_trace::recording::Recording;
//!
//! let mut view = AnalyzerView::new("empty", Recording::default());
//! egui::__run_test_ui(|ui| view.ui(ui));
//! ```
//!
//! An application draws it with the egui that it has already, of the version that this crate follows. One with another
//! egui, or none, uses the program `allotment-viewer`, which is this widget in a window of its own.
//!
//! # Live recordings
//!
//! [`AnalyzerView::replace`] shows a longer recording of the same program in place of the one so far; what is selected,
//! the zoom and the layout stay, and a cursor at the end stays at the end. A recording of millions of events is indexed on
//! a thread, as an [`IndexedRecording`], and then shown with [`AnalyzerView::replace_indexed`]; what the panes counted of
//! the one so far stays until they have counted again.
//!
//! # Cost
//!
//! A frame costs as much as it has pixels and rows; `examples/frame_cost.rs` measures it. A change of the moment
//! looks at the blocks that are visible first, and at the others in the frames that follow.

#![forbid(unsafe_code)]

mod background;
mod layout;
mod loaded;
mod paint;
mod panes;
mod state;
mod text;
mod top_bar;
mod view;

pub use layout::PaneKind;
pub use loaded::{IndexedRecording, SharedRecording};
pub use state::{PaletteKind, Selection};
pub use view::{AnalyzerView, Layout};
