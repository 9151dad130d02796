//! Memory that resources share, over time: where each of them is, and when it has its bytes.

use std::sync::Arc;

use allotment_analyze::{AllocationIndex, BlockIndex, ResourceIndex, SharedHistory, SharedMemory, Timeline};
use allotment_trace::recording::BoundResource;
use egui::{RichText, Ui};

use crate::panes::planned::positions;
use crate::panes::rectangles::{Added, Picture, Rectangle, Scene};
use crate::state::State;
use crate::text;

/// Names of other resources that a tip has at most.
const OTHERS: usize = 6;

/// An allocation that resources share at some moment.
pub(super) struct Shared {
    pub(super) history: SharedHistory,
    block: BlockIndex,
    /// The resources, from the largest to the smallest: a rectangle of each, in this order, and then those of the active spans.
    resources: Vec<Resource>,
    scene: Arc<Scene>,
}

struct Resource {
    index: ResourceIndex,
    /// With its last name.
    is: BoundResource,
    /// How often it was active.
    spans: u64,
}

impl Shared {
    /// Returns each memory of a recording, that with the most bytes of resources first.
    pub(super) fn all(timeline: &Timeline<'_>) -> Arc<[Self]> {
        SharedHistory::all(timeline).into_iter().map(|history| Self::of(timeline, history)).collect()
    }

    fn of(timeline: &Timeline<'_>, history: SharedHistory) -> Self {
        let allocation = history.allocation;
        let block = timeline.place_at(allocation, timeline.lifetime(allocation).allocated).block;
        let mut bound: Vec<_> = timeline
            .resources_of(allocation)
            .map(|index| (index, timeline.resource_at(index, timeline.end())))
            .collect();
        // A small one is drawn over a large one.
        bound.sort_by_key(|(_, is)| core::cmp::Reverse(is.size));
        let (mut rectangles, mut strong, mut resources) = (Vec::new(), Vec::new(), Vec::new());
        for (of, (index, is)) in (0..).zip(bound) {
            // Resources with one name have one colour: a target is made anew for each size of the screen. A multiple that shares
            // no divisor with 360 puts the colours of neighbours far apart.
            let number = if is.name.is_none() { index.0 } else { is.name.0 };
            let hue = (u64::from(number) * 137 % 360) as u16;
            let rectangle =
                |events| Rectangle { life: positions(&events), offset: is.offset, size: is.size, hue, of };
            let (bound, unbound) = timeline.resource_lifetime(index);
            rectangles.push(rectangle(bound..unbound.unwrap_or(timeline.end())));
            let spans = timeline.active_spans(index);
            resources.push(Resource { index, is, spans: spans.len() as u64 });
            strong.extend(spans.into_iter().map(|(since, until)| rectangle(since..until)));
        }
        // Of a plan's memory, no event says which resource has the bytes. Faint ones alone would have no names.
        let faint = if history.has_active { rectangles.len() } else { 0 };
        rectangles.append(&mut strong);
        let scene = Arc::new(Scene { height: history.size, rectangles, faint });
        Self { history, block, resources, scene }
    }

    /// The lives of the resources.
    fn lives(&self) -> &[Rectangle] {
        &self.scene.rectangles[..self.resources.len()]
    }

    /// Returns true if some resource is there in the visible part of the time, in a block that is shown.
    pub(super) fn is_visible(&self, state: &State) -> bool {
        let timeline = state.loaded.timeline();
        if !state.scope.contains(timeline, self.block) {
            return false;
        }
        let length = state.axis.length(timeline);
        let share = |position| state.axis.value(timeline, position) / length;
        let (from, to) = (state.time.from, state.time.to);
        let is_there = |is: &Rectangle| share(is.life.start) <= to && share(is.life.end) >= from;
        self.lives().iter().any(is_there)
    }

    /// Says what is shared at the moment; `now` is `None` while that is being counted. Returns the allocation if its name was
    /// clicked.
    pub(super) fn heading(
        &self,
        ui: &mut Ui,
        state: &State,
        now: Option<Option<&SharedMemory>>,
    ) -> Option<AllocationIndex> {
        let SharedHistory { allocation, size, resources, peak_bytes, activations, has_active, .. } =
            self.history;
        let link = ui.horizontal_wrapped(|ui| {
            let link = ui.link(RichText::new(text::name(state.loaded.timeline(), allocation)).strong());
            ui.label(text::bytes(size)).on_hover_text(text::exact(size));
            match now {
                None => {}
                Some(None) => {
                    ui.label(RichText::new("no resource at this moment").weak());
                }
                Some(Some(now)) => {
                    let count = text::plural(now.resources.len() as u64, "resource");
                    ui.label(format!("{count} of {},", text::bytes(now.resource_bytes)));
                    ui.label(RichText::new(format!("{} saved", text::bytes(now.saved_bytes()))).strong());
                }
            }
            let (all, most) = (text::plural(resources, "resource"), text::bytes(peak_bytes));
            let how = match has_active {
                true => text::plural(activations, "activation"),
                false => "a plan gives each its bytes within every frame, which is not recorded".to_owned(),
            };
            ui.label(RichText::new(format!("(in all {all}, {most} at the same time; {how})")).weak());
            link
        });
        link.inner.clicked().then_some(allocation)
    }

    /// Draws the memory over time. Returns the allocation and the moment of a click.
    pub(super) fn ui(
        &self,
        ui: &mut Ui,
        state: &mut State,
        picture: &mut Picture,
        height: f32,
    ) -> Option<(AllocationIndex, Option<u64>)> {
        let allocation = self.history.allocation;
        let label = format!("Memory {} over time", allocation.0);
        let name = |of: u32| self.name(state, of as usize);
        let added = picture.ui(ui, state, &self.scene, (&label, height), name);
        let Added { response, frame, under } = added;
        let at = response.hover_pos()?;
        let position = frame.position(state, at.x);
        let is_clicked = response.clicked();
        if let Some(under) = under {
            state.hovered = Some(allocation);
            let share = f64::from((frame.plot.bottom() - at.y) / frame.plot.height());
            let byte = (share.clamp(0.0, 1.0) * self.history.size as f64) as u64;
            response.on_hover_ui_at_pointer(|ui| self.tip(ui, state, under, position, byte));
        }
        is_clicked.then_some((allocation, Some(position)))
    }

    fn name(&self, state: &State, of: usize) -> String {
        let name = state.loaded.recording().text(self.resources[of].is.name).unwrap_or("");
        if name.is_empty() { "(no name)".to_owned() } else { name.to_owned() }
    }

    /// What the rectangle under the pointer is, and what else is there.
    fn tip(&self, ui: &mut Ui, state: &State, under: usize, position: u64, byte: u64) {
        let timeline = state.loaded.timeline();
        let shown = &self.scene.rectangles[under];
        let of = shown.of as usize;
        let Resource { index, is, spans: count } = &self.resources[of];
        ui.label(RichText::new(self.name(state, of)).strong());
        ui.label(format!("{}, {}", text::kind(is.kind), text::exact(is.size)));
        ui.label(format!("at offset {} of the memory", text::hex(is.offset)));
        if self.history.has_active {
            self.activity(ui, state, under, position);
            ui.label(text::plural(*count, "active span"));
        }
        let (bound, unbound) = timeline.resource_lifetime(*index);
        ui.label(format!("exists: {}", text::life(timeline, bound, unbound)));
        let is_here = |other: &&Rectangle| {
            other.of != shown.of
                && other.life.contains(&position)
                && (other.offset..other.offset + other.size).contains(&byte)
        };
        let others: Vec<_> =
            self.lives().iter().filter(is_here).map(|other| self.name(state, other.of as usize)).collect();
        if !others.is_empty() {
            ui.label(format!("over the same bytes: {}", listed(&others)));
        }
    }

    /// Whether a resource has its bytes at a position, and which ones have them instead.
    fn activity(&self, ui: &mut Ui, state: &State, under: usize, position: u64) {
        let shown = &self.scene.rectangles[under];
        if under >= self.scene.faint {
            let end = state.loaded.timeline().end();
            let ended = Some(shown.life.end - 1).filter(|&event| event < end);
            let life = text::life(state.loaded.timeline(), shown.life.start - 1, ended);
            ui.label(format!("active: {life}"));
            return;
        }
        let has_bytes = |other: &&Rectangle| {
            other.life.contains(&position)
                && other.offset < shown.offset + shown.size
                && shown.offset < other.offset + other.size
        };
        let spans = self.scene.rectangles[self.scene.faint..].iter();
        let owners: Vec<_> =
            spans.filter(has_bytes).map(|other| self.name(state, other.of as usize)).collect();
        ui.label(match owners.is_empty() {
            true => "inactive".to_owned(),
            false => format!("inactive: bytes of it are those of {}", listed(&owners)),
        });
    }
}

/// A list of names, which ends early.
fn listed(names: &[String]) -> String {
    let shown = names[..names.len().min(OTHERS)].join(", ");
    match names.len().saturating_sub(OTHERS) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
