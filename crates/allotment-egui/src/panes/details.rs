//! The selected object, and the history of its bytes.

use allotment::device::MemoryTypeIndex;
use allotment_analyze::{AllocationIndex, BlockIndex, Class, Segment, Status, short_call_site};
use allotment_trace::recording::{BlockKind, TextId};
use egui::{Grid, RichText, ScrollArea, Ui};

use super::{calls, history};
use crate::state::{Palette, Selection, State};
use crate::text;

pub(crate) fn ui(ui: &mut Ui, state: &mut State) {
    ScrollArea::vertical().auto_shrink(false).show(ui, |ui| match state.selected {
        None => nothing(ui, state),
        Some(Selection::Allocation(allocation)) => of_allocation(ui, state, allocation),
        Some(Selection::Free { block, start, end }) => of_free(ui, state, block, start, end),
        Some(Selection::Block(block)) => of_block(ui, state, block),
    });
}

fn heading(ui: &mut Ui, name: &str, what: &str) {
    ui.label(RichText::new(name).strong().size(15.0));
    ui.label(RichText::new(what).color(ui.visuals().weak_text_color()));
    ui.add_space(4.0);
}

/// A table of names and values, of which some lead somewhere.
struct Facts<'u> {
    ui: &'u mut Ui,
    muted: egui::Color32,
}

impl Facts<'_> {
    fn show(ui: &mut Ui, salt: &str, add: impl FnOnce(&mut Facts<'_>)) {
        // Names take about 130 points; a long value has several lines in the rest.
        let rest = (ui.available_width() - 145.0).max(100.0);
        Grid::new(salt).num_columns(2).spacing([12.0, 3.0]).max_col_width(rest).show(ui, |ui| {
            let muted = ui.visuals().weak_text_color();
            add(&mut Facts { ui, muted });
        });
    }

    fn text(&mut self, name: &str, value: impl Into<String>) {
        let value = value.into();
        if !value.is_empty() {
            self.name(name);
            self.ui.add(egui::Label::new(value).wrap());
            self.ui.end_row();
        }
    }

    /// Bytes for reading, and exactly.
    fn bytes(&mut self, name: &str, bytes: u64) {
        self.name(name);
        self.ui.horizontal(|ui| {
            ui.label(if bytes < 1024 { text::exact(bytes) } else { text::bytes(bytes) });
            if bytes >= 1024 {
                ui.label(RichText::new(text::exact(bytes)).size(11.5).color(self.muted));
            }
        });
        self.ui.end_row();
    }

    /// Bytes that there may be none of.
    fn some_bytes(&mut self, name: &str, bytes: u64) {
        if bytes > 0 {
            self.bytes(name, bytes);
        }
    }

    /// A moment, which a click goes to.
    fn moment(&mut self, state: &State, name: &str, position: u64) -> bool {
        let timeline = state.loaded.timeline();
        self.link(name, &text::sentence(&text::moment(timeline, timeline.moment(position))))
    }

    fn link(&mut self, name: &str, value: &str) -> bool {
        self.name(name);
        let clicked = self.ui.link(value).clicked();
        self.ui.end_row();
        clicked
    }

    fn name(&mut self, name: &str) {
        self.ui.label(RichText::new(name).color(self.muted));
    }
}

/// The bytes of the moment, and the settings of the allocator.
fn nothing(ui: &mut Ui, state: &State) {
    heading(ui, "Details", "Click an allocation, a free range or the name of a block.");
    if let Some((bytes, largest)) = state.moment.totals() {
        ui.label(RichText::new("At this moment").strong());
        Facts::show(ui, "moment", |facts| {
            facts.bytes("From the driver", bytes.size);
            facts.bytes("Used", bytes.used);
            facts.some_bytes("Rounding", bytes.rounding);
            facts.some_bytes("Reserved for moves", bytes.reserved);
            facts.some_bytes("Pending release", bytes.pending);
            facts.some_bytes("Alignment padding", bytes.padding);
            facts.bytes("Free in blocks", bytes.free.saturating_sub(bytes.padding));
            facts.some_bytes("Shared by several", bytes.aliased);
            facts.bytes("Largest free range", largest);
            facts.text("… of all free bytes", text::percent(largest, bytes.free));
            facts.text("Blocks", text::count(state.moment.blocks.len() as u64));
            facts.text("Allocations", text::count(bytes.allocations));
        });
    }
    let settings = &state.loaded.recording().header.settings;
    if !settings.is_empty() {
        ui.add_space(8.0);
        ui.label(RichText::new("Settings of the allocator").strong());
        Facts::show(ui, "settings", |facts| {
            for (name, value) in settings {
                let sized = ["block", "bytes", "size"].iter().any(|word| name.contains(word));
                let bytes = value.parse().ok().filter(|&bytes| sized && bytes >= 1024).map(text::bytes);
                facts.text(
                    &text::sentence(&name.replace(['_', '.'], " ")),
                    bytes.unwrap_or_else(|| value.clone()),
                );
            }
        });
    }
}

fn of_allocation(ui: &mut Ui, state: &mut State, allocation: AllocationIndex) {
    let (timeline, position) = (state.loaded.timeline(), state.position());
    let life = timeline.lifetime(allocation);
    let exists = timeline.allocation_exists(allocation, position);
    // What does not exist now is shown as it was when it was nearest.
    let at = if exists {
        position
    } else if position <= life.allocated {
        life.allocated + 1
    } else {
        life.freed.unwrap_or(position)
    };
    let Some(live) = timeline.allocation_at(allocation, at) else { return };
    let place = timeline.place_at(allocation, at);
    let text_of = |id: TextId| state.loaded.recording().text(id).unwrap_or("").to_owned();
    let status = match timeline.status_at(allocation, at) {
        _ if !exists && position <= life.allocated => "not yet allocated",
        _ if !exists => "freed",
        Status::Used => "used",
        Status::Pending => "pending release",
        Status::Reserved => "reserved for a move",
    };
    let what = [text::sentence(status), text_of(live.is.category), text::kind(live.is.kind).to_owned()];
    let what: Vec<_> = what.into_iter().filter(|part| !part.is_empty()).collect();
    heading(ui, text::name(timeline, allocation), &what.join("  ·  "));

    let (mut go_to, mut select) = (None, None);
    let end = timeline.end();
    Facts::show(ui, "allocation", |facts| {
        facts.bytes("Requested", live.is.requested);
        let rounding = live.is.occupied.saturating_sub(live.is.requested);
        if rounding > 0 {
            facts.bytes("Occupied", live.is.occupied);
            facts.bytes("Rounding", rounding);
        }
        facts.text("Offset", format!("{}   {}", text::hex(live.is.offset), text::exact(live.is.offset)));
        facts.text("Alignment", text::exact(live.is.alignment.get()));
        let size = timeline.block_size_at(place.block, at);
        let block = format!("{}, {}", text::block(timeline, place.block), text::bytes(size));
        if facts.link("Block", &block) {
            select = Some(Selection::Block(place.block));
        }
        let memory_type: MemoryTypeIndex = timeline.block_info(place.block).memory_type;
        let suits = if live.is.second_choice { ": not the best for the request" } else { "" };
        facts.text("Memory", format!("{}{suits}", text::memory_type(&state.loaded, memory_type)));
        facts.text("Usage", live.is.usage.map_or("", text::usage));
        facts.text("Placed in", live.is.placement.to_string());
        facts.text("Call site", short_call_site(&text_of(live.call_site)));
        if live.is.user_data != 0 {
            facts.text("User data", text::hex(live.is.user_data));
        }
        facts.text("CPU", if live.maps > 0 { "mapped" } else { "" });
        facts.text("Movable", if live.is.movable { "yes" } else { "" });
        if !state.has_history() {
            return;
        }
        let mut moment = |facts: &mut Facts<'_>, name: &str, position| {
            if facts.moment(state, name, position) {
                go_to = Some(position + 1);
            }
        };
        moment(facts, "Allocated", life.allocated);
        for (event, to) in timeline.moves_of(allocation) {
            moment(facts, &format!("Moved to {}", text::hex(to.offset)), event);
        }
        if let Some(requested) = life.free_requested {
            moment(facts, "Released", requested);
        }
        match life.freed {
            Some(freed) => moment(facts, "Freed", freed),
            None => facts.text("Freed", "never in this recording"),
        }
        if let (Some(requested), Some(freed)) = (life.free_requested, life.freed) {
            facts.text("Waited for the GPU", timeline.span(requested, freed).text());
        }
        facts.text("Lifetime", timeline.span(life.allocated, life.freed.unwrap_or(end)).text());
    });
    calls::stack(ui, state.loaded.recording(), live.stack);
    let range = (place.block, live.is.offset, live.is.offset.saturating_add(live.is.occupied.max(1)));
    follow(state, go_to, select);
    history::ui(ui, state, range, Some(allocation));
}

fn of_free(ui: &mut Ui, state: &mut State, block: BlockIndex, start: u64, end: u64) {
    let exists = state.loaded.timeline().block_exists(block, state.position());
    let (free, padding) = if exists {
        let contents = state.look(block);
        let is = |hole: &Segment| hole.class == Class::Free && hole.start <= start && hole.end >= end;
        let padding = contents.padding(start..end).any(&is);
        (contents.levels.segments().iter().any(is).then_some(contents.bytes.free), padding)
    } else {
        (None, false)
    };
    let timeline = state.loaded.timeline();
    let where_it_is = format!("in block {}", text::block(timeline, block));
    match (free, padding) {
        (None, _) => heading(ui, "Range", &format!("{where_it_is}: not free at this moment")),
        (_, true) => heading(
            ui,
            "Alignment padding",
            &format!("{where_it_is}: shorter than the alignment of the allocation behind it"),
        ),
        _ => heading(ui, "Free range", &where_it_is),
    }
    let mut select = None;
    Facts::show(ui, "free range", |facts| {
        facts.bytes("Size", end - start);
        facts.text("Offset", format!("{}   {}", text::hex(start), text::exact(start)));
        if let Some(free) = free {
            facts.text("Of the block's free bytes", text::percent(end - start, free));
        }
        if facts.link("Block", &text::block(timeline, block)) {
            select = Some(Selection::Block(block));
        }
    });
    follow(state, None, select);
    history::ui(ui, state, (block, start, end), None);
}

fn of_block(ui: &mut Ui, state: &mut State, block: BlockIndex) {
    let position = state.position();
    let exists = state.loaded.timeline().block_exists(block, position);
    let looked = exists.then(|| {
        let contents = state.look(block);
        (contents.bytes, contents.largest_free)
    });
    let timeline = state.loaded.timeline();
    let info = timeline.block_info(block);
    let kind: BlockKind = timeline.block_kind_at(block, position);
    heading(ui, &format!("Block {}", text::block(timeline, block)), &text::sentence(&kind.to_string()));
    let mut go_to = None;
    Facts::show(ui, "block", |facts| {
        facts.bytes("Size", timeline.block_size_at(block, position));
        facts.text("Pool", text::pool(&state.loaded, block));
        facts.text("Memory", text::memory_type(&state.loaded, info.memory_type));
        match looked {
            Some((bytes, largest)) => {
                facts.text("Allocations", text::count(bytes.allocations));
                facts.bytes("Used", bytes.used);
                facts.some_bytes("Pending release", bytes.pending);
                facts.some_bytes("Overhead", bytes.overhead());
                facts.some_bytes("Alignment padding", bytes.padding);
                facts.bytes("Free", bytes.free.saturating_sub(bytes.padding));
                facts.bytes("Largest free range", largest);
                facts.some_bytes("Shared by several", bytes.aliased);
            }
            None => facts.text("Allocations", "none: it does not exist at this moment"),
        }
        if !state.has_history() {
            return;
        }
        if let Some(since) = state.loaded.cursor().empty_since(block)
            && facts.link("Empty since", &text::sentence(&text::moment(timeline, since)))
        {
            go_to = Some(since.event);
        }
        if facts.moment(state, "Allocated", info.allocated) {
            go_to = Some(info.allocated + 1);
        }
        match info.freed {
            Some(freed) => {
                if facts.moment(state, "Freed", freed) {
                    go_to = Some(freed);
                }
            }
            None => facts.text("Freed", "never in this recording"),
        }
    });
    follow(state, go_to, None);
    history::ui(ui, state, (block, 0, u64::MAX), None);
}

fn follow(state: &mut State, go_to: Option<u64>, select: Option<Selection>) {
    if let Some(position) = go_to {
        state.jump(position);
        state.reveal = true;
    }
    if let Some(selection) = select {
        state.select(Some(selection));
    }
}

/// The colour of a change: more is an alarm, less is not.
pub(super) const fn of_change(change: i128, palette: &Palette) -> egui::Color32 {
    match change {
        0 => palette.muted,
        1.. => palette.alarm,
        _ => palette.less,
    }
}
