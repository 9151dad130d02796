//! What shares bytes: resources that are placed in one memory, over time, and allocations that overlap at the moment.

mod lanes;
mod shared;

use std::sync::Arc;

use allotment_analyze::SharedMemory;
use egui::{ScrollArea, Ui};

use self::shared::Shared;
use super::rectangles::Picture;
use super::{empty, waiting};
use crate::background::Background;
use crate::state::State;

/// Points of a picture; of one memory all that the pane has, and at least so many.
const HEIGHT: f32 = 180.0;
const LEAST_HEIGHT: f32 = 100.0;

/// The pane.
#[derive(Default)]
pub(crate) struct AliasingPane {
    found: Background<(), Arc<[Shared]>>,
    /// What the pictures are of.
    of: Option<Arc<[Shared]>>,
    pictures: Vec<Picture>,
    /// Each memory at a position.
    now: Background<u64, Vec<Option<SharedMemory>>>,
}

impl AliasingPane {
    pub(crate) const fn outdate(&mut self) {
        self.found.outdate();
        self.now.outdate();
    }

    pub(crate) fn ui(&mut self, ui: &mut Ui, state: &mut State) {
        let Some(all) = self.found.get(ui.ctx(), &state.loaded, (), Shared::all).cloned() else {
            return waiting(ui);
        };
        if self.of.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &all)) {
            self.pictures.resize_with(all.len(), Picture::default);
            self.pictures.iter_mut().for_each(Picture::renew);
            self.of = Some(Arc::clone(&all));
        }
        let position = state.position();
        let of = Arc::clone(&all);
        let now = self.now.get(ui.ctx(), &state.loaded, position, move |timeline| {
            of.iter().map(|shared| SharedMemory::at(timeline, shared.history.allocation, position)).collect()
        });
        let visible: Vec<usize> = (0..all.len()).filter(|&at| all[at].is_visible(state)).collect();
        let height = match visible.len() {
            1 => (ui.available_height() - 30.0).max(LEAST_HEIGHT),
            _ => HEIGHT,
        };
        let mut clicked = None;
        ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
            for &at in &visible {
                let now = now.and_then(|now| now.get(at)).map(Option::as_ref);
                let allocation = all[at].heading(ui, state, now);
                let in_picture = all[at].ui(ui, state, &mut self.pictures[at], height);
                clicked = in_picture.or_else(|| allocation.map(|it| (it, None))).or(clicked);
                ui.add_space(6.0);
            }
            let (has_lanes, allocation) = lanes::ui(ui, state);
            clicked = allocation.map(|it| (it, None)).or(clicked);
            if !has_lanes && visible.is_empty() {
                empty(ui, "No two allocations share bytes at this moment.");
                empty(
                    ui,
                    if all.is_empty() { NO_MEMORY } else { "No memory of this part shares any either." },
                );
            }
        });
        if let Some((allocation, position)) = clicked {
            if let Some(position) = position {
                state.jump(position);
            }
            state.show(allocation);
        }
    }
}

/// What makes resources that share memory.
const NO_MEMORY: &str = "No resource of this recording is placed in memory that others share, as by Gpu::create_image_in or Gpu::transient_heap.";
