//! The memory that would do if all lifetimes had been known, and where everything would be: time across, offsets up.
//!
//! A plan takes up to some seconds, so a thread makes it, once for a recording. It ends early when the pane or the recording is
//! closed.

use core::ops::Range;
use core::time::Duration;
use std::sync::{Arc, Weak};
use std::time::Instant;

use allotment_analyze::{AllocationIndex, OfflineMemory, Timeline, proved};
use egui::{RichText, ScrollArea, Shape, Stroke, Ui, pos2};

use super::rectangles::{Added, Picture, Rectangle, Scene};
use super::{empty, waiting};
use crate::background::Background;
use crate::state::{Palette, State};
use crate::text;

/// Points of a picture; of one memory type all that the pane has, and at least so many.
const HEIGHT: f32 = 180.0;
const LEAST_HEIGHT: f32 = 100.0;

/// The time that a thread plans at most, on a machine where that takes longer than it should.
const LONGEST: Duration = Duration::from_secs(10);

/// A plan of a memory type.
struct Planned {
    memory: OfflineMemory,
    proved: String,
    peak: u64,
    lower_bound: u64,
    scene: Arc<Scene>,
}

/// The pane.
#[derive(Default)]
pub(crate) struct PlannedPane {
    /// While a plan is wanted. The thread that makes it knows by this that it is wanted no more.
    wanted: Option<Arc<()>>,
    found: Background<(), Result<Arc<[Planned]>, String>>,
    /// The plans that the pictures are of.
    plans: Option<Arc<[Planned]>>,
    pictures: Vec<Picture>,
}

impl PlannedPane {
    pub(crate) const fn outdate(&mut self) {
        self.found.outdate();
    }

    /// Ends the planning, and forgets the plans: the pane is closed.
    pub(crate) fn close(&mut self) {
        if self.wanted.is_some() {
            *self = Self::default();
        }
    }

    pub(crate) fn ui(&mut self, ui: &mut Ui, state: &mut State) {
        if state.loaded.timeline().allocation_count() == 0 {
            return empty(ui, "Nothing was allocated in this recording, so there is nothing to plan.");
        }
        // Few allocations can be hard to plan, so a frame never does it.
        let wanted = Arc::downgrade(self.wanted.get_or_insert_default());
        let plan = move |timeline: &Timeline<'_>| plan(timeline, &wanted);
        let plans = match self.found.get_for(ui.ctx(), &state.loaded, Duration::MAX, (), plan) {
            None => return waiting(ui),
            Some(Err(why)) => return empty(ui, why),
            Some(Ok(plans)) => Arc::clone(plans),
        };
        if self.plans.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &plans)) {
            self.pictures.resize_with(plans.len(), Picture::default);
            self.pictures.iter_mut().for_each(Picture::renew);
            self.plans = Some(Arc::clone(&plans));
        }
        let height = if plans.len() == 1 { (ui.available_height() - 30.0).max(LEAST_HEIGHT) } else { HEIGHT };
        let mut clicked = None;
        ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
            for (planned, picture) in plans.iter().zip(&mut self.pictures) {
                heading(ui, planned);
                if let Some(now) = planned.ui(ui, state, picture, height) {
                    clicked = Some(now);
                }
                ui.add_space(6.0);
            }
        });
        match clicked {
            Some(Clicked::Allocation(allocation)) => state.show(allocation),
            Some(Clicked::Moment(position)) => state.jump(position),
            None => {}
        }
    }
}

/// What a click in a picture leads to.
enum Clicked {
    Allocation(AllocationIndex),
    Moment(u64),
}

/// Plans each memory type of a recording, while that is wanted.
fn plan(timeline: &Timeline<'_>, wanted: &Weak<()>) -> Result<Arc<[Planned]>, String> {
    let began = Instant::now();
    let memories = OfflineMemory::of(timeline).map_err(|error| format!("There is no plan: {error}."))?;
    let is_over = || wanted.strong_count() == 0 || began.elapsed() > LONGEST;
    let plans = OfflineMemory::plan_all_until(&memories, is_over);
    let planned = memories.into_iter().zip(plans).map(|(memory, plan)| {
        let picture = memory.picture(&plan);
        let rectangles = picture.items.iter().map(|item| Rectangle {
            life: positions(&item.life),
            offset: item.offset,
            size: item.size,
            hue: item.hue(),
            of: item.item as u32,
        });
        let scene = Scene { height: picture.peak, rectangles: rectangles.collect(), faint: 0 };
        let (peak, lower_bound) = (picture.peak, picture.lower_bound);
        Planned { memory, proved: proved(&plan), peak, lower_bound, scene: Arc::new(scene) }
    });
    Ok(planned.collect())
}

/// The positions at which something is there that an event begins and another one ends: those behind the first.
pub(super) const fn positions(events: &Range<u64>) -> Range<u64> {
    events.start + 1..events.end + 1
}

fn heading(ui: &mut Ui, Planned { memory, proved, peak, lower_bound, .. }: &Planned) {
    ui.horizontal_wrapped(|ui| {
        ui.label(RichText::new(format!("Memory type {}", memory.memory_type.0)).strong());
        let blocks = format!("{} of blocks at the peak,", text::bytes(memory.recorded_peak));
        ui.label(blocks).on_hover_text(text::exact(memory.recorded_peak));
        let help = "With all lifetimes known, allocations that do not exist at the same time may have the same bytes.";
        ui.label(RichText::new(format!("{} as planned", text::bytes(*peak))).strong())
            .on_hover_text(format!("{}. {help}", text::exact(*peak)));
        let bound = format!("({proved}; no plan is below the dashed line, {})", text::bytes(*lower_bound));
        ui.label(RichText::new(bound).weak());
    });
}

impl Planned {
    /// Draws a plan. Returns what a click leads to.
    fn ui(&self, ui: &mut Ui, state: &mut State, picture: &mut Picture, height: f32) -> Option<Clicked> {
        let allocation = |of: u32| self.memory.allocations[of as usize];
        let label = format!("Plan of memory type {}", self.memory.memory_type.0);
        let name = |of| text::name(state.loaded.timeline(), allocation(of)).to_owned();
        let added = picture.ui(ui, state, &self.scene, (&label, height), name);
        let bound = added.y(&self.scene, self.lower_bound.min(self.peak));
        let Added { response, frame, under } = added;
        let palette = Palette::new(state.palette, ui.visuals().dark_mode);
        let line = [pos2(frame.plot.left(), bound), pos2(frame.plot.right(), bound)];
        ui.painter().extend(Shape::dashed_line(&line, Stroke::new(1.0, palette.ink), 6.0, 4.0));
        let at = response.hover_pos()?;
        let is_clicked = response.clicked();
        let Some(under) = under else {
            return is_clicked.then(|| Clicked::Moment(frame.position(state, at.x)));
        };
        let is = &self.scene.rectangles[under];
        let allocation = allocation(is.of);
        state.hovered = Some(allocation);
        let timeline = state.loaded.timeline();
        let life = timeline.lifetime(allocation);
        response.on_hover_ui_at_pointer(|ui| {
            ui.label(RichText::new(text::name(timeline, allocation)).strong());
            ui.label(text::exact(is.size));
            ui.label(format!("planned at offset {}", text::hex(is.offset)));
            ui.label(text::life(timeline, life.allocated, life.freed));
        });
        is_clicked.then_some(Clicked::Allocation(allocation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_that_plans_sees_that_the_pane_or_the_recording_is_closed() {
        let mut pane = PlannedPane::default();
        let wanted = Arc::downgrade(pane.wanted.get_or_insert_default());
        assert_eq!(wanted.strong_count(), 1);
        pane.close();
        assert_eq!(wanted.strong_count(), 0);
        let wanted = Arc::downgrade(pane.wanted.get_or_insert_default());
        drop(pane);
        assert_eq!(wanted.strong_count(), 0);
    }
}
