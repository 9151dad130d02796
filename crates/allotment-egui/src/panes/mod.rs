//! The panes, one a file, and what each keeps for itself.

mod advice;
mod aliasing;
mod block_map;
mod calls;
mod colours;
mod defragmentation;
mod descriptors;
mod details;
mod difference;
mod free_ranges;
mod history;
pub(crate) mod keyboard;
mod latency;
mod leaks;
mod lifetimes;
mod planned;
mod rectangles;
pub(crate) mod table;
mod timeline;
mod what_if;

pub(crate) use colours::ColoursPane;
use egui::{RichText, Ui};

use crate::layout::PaneKind;
use crate::state::State;

/// The panes keep this from one frame to the next.
#[derive(Default)]
pub(crate) struct Panes {
    pub(crate) block_map: block_map::BlockMap,
    pub(crate) timeline: timeline::TimelinePane,
    pub(crate) table: table::TablePane,
    leaks: leaks::LeaksPane,
    calls: calls::CallsPane,
    lifetimes: lifetimes::LifetimesPane,
    difference: difference::DifferencePane,
    free_ranges: free_ranges::FreeRangesPane,
    defragmentation: defragmentation::DefragmentationPane,
    what_if: what_if::WhatIfPane,
    latency: latency::LatencyPane,
    planned: planned::PlannedPane,
    aliasing: aliasing::AliasingPane,
    descriptors: descriptors::DescriptorsPane,
    advice: advice::AdvicePane,
    pub(crate) colours: ColoursPane,
    pub(crate) help_is_open: bool,
    /// A text field had the keyboard in the frame before.
    field_is_edited: bool,
}

impl Panes {
    pub(crate) fn ui(&mut self, ui: &mut Ui, pane: PaneKind, state: &mut State) {
        match pane {
            PaneKind::BlockMap => self.block_map.ui(ui, state, &mut self.colours),
            PaneKind::Timeline => self.timeline.ui(ui, state, &mut self.colours),
            PaneKind::Details => details::ui(ui, state),
            PaneKind::Table => self.table.ui(ui, state),
            PaneKind::Leaks => self.leaks.ui(ui, state),
            PaneKind::Calls => self.calls.ui(ui, state),
            PaneKind::Lifetimes => self.lifetimes.ui(ui, state),
            PaneKind::Difference => self.difference.ui(ui, state),
            PaneKind::FreeRanges => self.free_ranges.ui(ui, state),
            PaneKind::ReleaseLatency => self.latency.ui(ui, state),
            PaneKind::Aliasing => self.aliasing.ui(ui, state),
            PaneKind::Descriptors => self.descriptors.ui(ui, state),
            PaneKind::Defragmentation => self.defragmentation.ui(ui, state),
            PaneKind::WhatIf => self.what_if.ui(ui, state),
            PaneKind::Planned => self.planned.ui(ui, state),
            PaneKind::Advice => self.advice.ui(ui, state),
        }
    }

    /// Brings the groups of the colours up to date, and what the search means.
    pub(crate) fn update_colours(&mut self, ui: &Ui, state: &mut State) {
        self.colours.update(ui, state, self.table.query());
    }

    /// Ends what panes have counted in the background that are closed.
    pub(crate) fn close(&mut self, is_open: impl Fn(PaneKind) -> bool) {
        if !is_open(PaneKind::Planned) {
            self.planned.close();
        }
    }

    /// Counts again what was counted of a recording that a longer one replaces.
    pub(crate) fn outdate_answers(&mut self) {
        self.colours.outdate();
        self.timeline.outdate();
        self.table.outdate();
        self.leaks.outdate();
        self.calls.outdate();
        self.lifetimes.forget();
        self.difference.outdate();
        self.free_ranges.outdate();
        self.defragmentation.outdate();
        self.what_if.outdate();
        self.planned.outdate();
        self.aliasing.outdate();
        self.latency.outdate();
        self.descriptors.outdate();
        self.advice.outdate();
    }

    /// Drops what was counted of a recording that another one replaces, in which all has other numbers.
    pub(crate) fn forget_answers(&mut self) {
        self.colours = ColoursPane::default();
        self.timeline = timeline::TimelinePane::default();
        self.table.forget();
        self.leaks = leaks::LeaksPane::default();
        self.calls = calls::CallsPane::default();
        self.lifetimes.clear();
        self.difference.clear();
        self.free_ranges = free_ranges::FreeRangesPane::default();
        self.defragmentation.forget();
        self.what_if.forget();
        self.planned = planned::PlannedPane::default();
        self.aliasing = aliasing::AliasingPane::default();
        self.latency = latency::LatencyPane::default();
        self.descriptors = descriptors::DescriptorsPane::default();
        self.advice = advice::AdvicePane::default();
    }
}

/// Says why a pane is empty.
pub(crate) fn empty(ui: &mut Ui, why: &str) {
    ui.add_space(12.0);
    ui.vertical_centered(|ui| ui.label(RichText::new(why).color(ui.visuals().weak_text_color())));
}

/// Says that an answer is being counted.
pub(crate) fn waiting(ui: &mut Ui) {
    ui.horizontal(|ui| {
        ui.spinner();
        ui.label("Counting…");
    });
}

/// A sum: a word, and a number in bold.
pub(crate) fn figure(ui: &mut Ui, word: &str, value: &str) {
    ui.label(RichText::new(word).color(ui.visuals().weak_text_color()));
    ui.label(RichText::new(value).strong());
    ui.add_space(10.0);
}
