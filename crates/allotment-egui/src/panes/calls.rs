//! Which calls allocated what: a flame graph of bytes. And the whole stack of an allocation, for the details.

use std::sync::Arc;

use allotment_analyze::{Call, CallQuestion, CallTree, CallTreeDesc, Timeline};
use allotment_trace::recording::{CallRole, Recording, StackId, TextId};
use egui::epaint::HsvaGamma;
use egui::{
    Align2, Color32, FontId, Key, Modifiers, Rect, RichText, Role, ScrollArea, Sense, Stroke, StrokeKind,
    TextEdit, Ui, Vec2, WidgetInfo, pos2, vec2,
};

use super::{empty, figure, waiting};
use crate::background::Background;
use crate::state::{Palette, State};
use crate::text;

/// Points of a row.
const ROW: f32 = 19.0;
/// The narrowest call that is drawn, and the narrowest with a name, in points.
const LEAST: f32 = 1.0;
const NAMED: f32 = 24.0;
/// The most rectangles of a picture.
const MOST: usize = 6000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Question {
    #[default]
    Cursor,
    Peak,
    Made,
    Left,
    Leaked,
}

impl Question {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Cursor, "at the cursor"),
        (Self::Peak, "at the peak"),
        (Self::Made, "made from A to B"),
        (Self::Left, "… and still there at B"),
        (Self::Leaked, "never freed"),
    ];
}

/// A tree, and what its nodes are called.
struct Found {
    tree: CallTree,
    labels: Vec<String>,
    /// The nodes of the tree by the bytes that the question is about.
    bytes: Vec<u64>,
    counts: Vec<u64>,
}

impl Found {
    fn of(timeline: &Timeline<'_>, question: CallQuestion, left: bool, desc: CallTreeDesc) -> Self {
        let tree = CallTree::of(timeline, question, &desc);
        let text = |text| timeline.recording().text(text).unwrap_or("");
        let labels = tree.nodes().iter().map(|node| node.call.label(text)).collect();
        let amounts = tree.nodes().iter().map(|node| if left { node.left } else { node.total });
        let (bytes, counts) = amounts.map(|amount| (amount.bytes, amount.count)).unzip();
        Self { tree, labels, bytes, counts }
    }

    fn label(&self, node: usize) -> &str {
        if node == 0 { "all" } else { &self.labels[node] }
    }

    /// The calls from the root to a node.
    fn path(&self, mut node: usize) -> Vec<Call> {
        let mut path = Vec::new();
        while node != 0 {
            path.push(self.tree.nodes()[node].call);
            node = self.tree.nodes()[node].parent;
        }
        path.reverse();
        path
    }

    /// The last node that has the beginning of a path.
    fn node_at(&self, path: &[Call]) -> usize {
        let nodes = self.tree.nodes();
        let below =
            |node: usize, call: &Call| nodes[node].children.iter().find(|&&at| nodes[at].call == *call);
        let mut node = 0;
        for call in path {
            match below(node, call) {
                Some(&next) if self.bytes[next] > 0 => node = next,
                _ => break,
            }
        }
        node
    }
}

/// Of a call: its node, where it begins and how wide it is in the picture, as shares of it.
type Placed = (usize, f64, f64);

/// The pane.
#[derive(Default)]
pub(crate) struct CallsPane {
    question: Question,
    desc: CallTreeDesc,
    found: Background<(CallQuestion, bool, CallTreeDesc), Arc<Found>>,
    /// The calls from the outermost to the one that has the whole width, and to the one that keys are at.
    focus: Vec<Call>,
    at: Vec<Call>,
    query: String,
}

impl CallsPane {
    pub(crate) const fn outdate(&mut self) {
        self.found.outdate();
    }

    pub(crate) fn ui(&mut self, ui: &mut Ui, state: &mut State) {
        let markers = state.markers();
        let (a, b) = (markers[0], state.marks[1].unwrap_or(markers[3]));
        self.controls(ui, state, (a, b));
        let (question, left) = match self.question {
            Question::Cursor => (CallQuestion::At(state.position()), false),
            Question::Peak => (CallQuestion::Peak, false),
            Question::Made => (CallQuestion::Between(a, b), false),
            Question::Left => (CallQuestion::Between(a, b), true),
            Question::Leaked => (CallQuestion::Leaked, false),
        };
        let desc = self.desc;
        let count = move |timeline: &Timeline<'_>| Arc::new(Found::of(timeline, question, left, desc));
        let found = match self.found.get(ui.ctx(), &state.loaded, (question, left, desc), count) {
            Some(found) => Arc::clone(found),
            None => return waiting(ui),
        };
        if found.counts[0] == 0 {
            return empty(ui, "No allocation answers this question. Move the cursor, or set A and B.");
        }
        let matches = self.matches(&found);
        ui.horizontal_wrapped(|ui| {
            figure(ui, &text::plural(found.counts[0], "allocation"), &text::bytes(found.bytes[0]));
            if let Some(matches) = &matches {
                let (bytes, count) = sum(&found, matches);
                let share = text::percent(bytes, found.bytes[0]);
                let found =
                    format!("{} ({share}), {}", text::bytes(bytes), text::plural(count, "allocation"));
                figure(ui, "found", &found);
            }
        });
        let focus = found.node_at(&self.focus);
        let at = found.node_at(&self.at);
        if !ui.ctx().text_edit_focused() {
            self.keys(ui, &found, focus, at);
        }
        let palette = Palette::new(state.palette, ui.visuals().dark_mode);
        ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
            if let Some(clicked) = draw(ui, &found, (focus, at), matches.as_deref(), &palette) {
                self.focus = found.path(clicked);
                self.at.clone_from(&self.focus);
            }
        });
    }

    fn controls(&mut self, ui: &mut Ui, state: &mut State, (a, b): (u64, u64)) {
        ui.horizontal_wrapped(|ui| {
            for (question, words) in Question::ALL {
                if state.has_history() {
                    ui.selectable_value(&mut self.question, question, words);
                }
            }
            ui.separator();
            ui.toggle_value(&mut self.desc.inverted, "innermost first")
                .on_hover_text("The innermost calls first, and their callers below them");
            ui.toggle_value(&mut self.desc.unfolded, "all calls")
                .on_hover_text("Also calls of the unwinder, of allocators, runtimes and dispatchers");
            let field =
                TextEdit::singleline(&mut self.query).hint_text("Highlight calls").desired_width(200.0);
            let field = ui.add(field);
            field.widget_info(|| {
                let mut info = WidgetInfo::labeled(Role::SearchInput, true, "Highlight calls");
                info.current_text_value = Some(self.query.clone());
                info
            });
            if matches!(self.question, Question::Made | Question::Left) {
                for (letter, position) in [("A", a), ("B", b)] {
                    ui.label(RichText::new(letter).strong());
                    let timeline = state.loaded.timeline();
                    let moment = text::sentence(&text::moment(timeline, timeline.moment(position)));
                    if ui.link(moment).clicked() {
                        state.jump(position);
                    }
                }
            }
        });
    }

    /// Of each node, whether it has the searched text.
    fn matches(&self, found: &Found) -> Option<Vec<bool>> {
        let query = self.query.trim().to_lowercase();
        let has = |(node, label): (usize, &String)| node > 0 && label.to_lowercase().contains(&query);
        (!query.is_empty()).then(|| found.labels.iter().enumerate().map(has).collect())
    }

    /// The keys of the picture, which no other pane has.
    fn keys(&mut self, ui: &Ui, found: &Found, focus: usize, at: usize) {
        let nodes = found.tree.nodes();
        let pressed = |key| {
            let is_pressed = ui.input_mut(|input| input.consume_key(Modifiers::NONE, key));
            if is_pressed && matches!(key, Key::ArrowUp | Key::ArrowDown) {
                // An arrow that goes from call to call does not move the focus as well.
                ui.memory_mut(|memory| memory.move_focus(egui::FocusDirection::None));
            }
            is_pressed
        };
        let siblings = &nodes[nodes[at].parent].children;
        let place = siblings.iter().position(|&node| node == at);
        let mut to = None;
        if pressed(Key::ArrowDown) {
            to = nodes[at].children.first().copied();
        }
        if pressed(Key::ArrowUp) {
            to = Some(nodes[at].parent);
        }
        if pressed(Key::Period) {
            to = place.and_then(|place| siblings.get(place + 1)).copied();
        }
        if pressed(Key::Comma) {
            to = place.and_then(|place| siblings.get(place.checked_sub(1)?)).copied();
        }
        if let Some(to) = to.filter(|&to| found.bytes[to] > 0) {
            self.at = found.path(to);
            if nodes[to].depth < nodes[focus].depth {
                self.focus.clone_from(&self.at);
            }
        }
        if pressed(Key::Enter) {
            self.focus = found.path(at);
        }
        if pressed(Key::Backspace) {
            self.focus.pop();
            self.at.clone_from(&self.focus);
        }
    }
}

/// What was found in all: a call below another one that was found is counted with it.
fn sum(found: &Found, matches: &[bool]) -> (u64, u64) {
    let (mut open, mut sum) = (vec![0], (0, 0));
    while let Some(node) = open.pop() {
        if matches[node] {
            sum = (found.bytes[node].saturating_add(sum.0), found.counts[node] + sum.1);
        } else {
            open.extend(&found.tree.nodes()[node].children);
        }
    }
    sum
}

/// Places each call below the one that it was made from, as wide as its share of the focus. Level by level, so that a limit
/// leaves out the deepest.
fn placed(found: &Found, focus: usize, width: f32) -> Vec<Placed> {
    let nodes = found.tree.nodes();
    let mut placed = Vec::new();
    let mut above = focus;
    while above != 0 {
        above = nodes[above].parent;
        placed.push((above, 0.0, 1.0));
    }
    let least = f64::from(LEAST / width.max(1.0));
    let mut next = placed.len();
    placed.push((focus, 0.0, 1.0));
    while let Some(&(node, mut left, _)) = placed.get(next).filter(|_| placed.len() < MOST) {
        next += 1;
        let mut children: Vec<_> = nodes[node].children.clone();
        children.sort_by_key(|&child| core::cmp::Reverse(found.bytes[child]));
        for child in children {
            let share = found.bytes[child] as f64 / found.bytes[focus].max(1) as f64;
            if share < least {
                break;
            }
            placed.push((child, left, share));
            left += share;
        }
    }
    placed
}

/// Draws the tree. Returns the call that was clicked.
fn draw(
    ui: &mut Ui,
    found: &Found,
    (focus, at): (usize, usize),
    matches: Option<&[bool]>,
    palette: &Palette,
) -> Option<usize> {
    let nodes = found.tree.nodes();
    let width = ui.available_width();
    let placed = placed(found, focus, width);
    let depth = placed.iter().map(|&(node, ..)| nodes[node].depth).max().unwrap_or(0);
    let (area, response) = ui.allocate_exact_size(Vec2::new(width, ROW * (depth + 1) as f32), Sense::click());
    response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Bytes by calls"));
    let rect = |&(node, left, share): &Placed| {
        let top = area.top() + ROW * nodes[node].depth as f32;
        let x = |share: f64| area.left() + (share * f64::from(width)) as f32;
        Rect::from_min_max(
            pos2(x(left), top),
            pos2((x(left + share) - 1.0).max(x(left) + 1.0), top + ROW - 1.0),
        )
    };
    let dark = ui.visuals().dark_mode;
    for each in &placed {
        let (node, rect) = (each.0, rect(each));
        if !ui.is_rect_visible(rect) {
            continue;
        }
        let faint = matches.is_some_and(|matches| !matches[node]) || nodes[node].depth < nodes[focus].depth;
        let colour = if node == 0 { palette.grid } else { colour(&found.labels[node], dark) };
        ui.painter().rect_filled(rect, 1.0, if faint { colour.gamma_multiply(0.4) } else { colour });
        if node == at {
            ui.painter().rect_stroke(rect, 1.0, Stroke::new(1.5, palette.cursor), StrokeKind::Inside);
        }
        if rect.width() > NAMED {
            let painter = ui.painter().with_clip_rect(rect.shrink2(vec2(3.0, 0.0)).intersect(ui.clip_rect()));
            let (place, font) = (pos2(rect.left() + 4.0, rect.center().y), FontId::proportional(11.5));
            painter.text(place, Align2::LEFT_CENTER, found.label(node), font, palette.ink);
        }
    }
    let pointed = response.hover_pos().and_then(|at| placed.iter().find(|each| rect(each).contains(at)));
    let &(node, ..) = pointed?;
    let clicked = response.clicked();
    response.on_hover_ui_at_pointer(|ui| tip(ui, found, node));
    clicked.then_some(node)
}

fn tip(ui: &mut Ui, found: &Found, node: usize) {
    ui.label(RichText::new(found.label(node)).strong());
    let share = text::percent(found.bytes[node], found.bytes[0]);
    ui.label(format!("{} ({share})", text::exact(found.bytes[node])));
    ui.label(text::plural(found.counts[node], "allocation"));
}

/// A colour for each function, the same in all moments.
fn colour(label: &str, dark: bool) -> Color32 {
    let function = label.split(' ').next().unwrap_or_default();
    let hash = function.bytes().fold(7_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    let (saturation, value) = if dark { (0.5, 0.55) } else { (0.4, 0.9) };
    HsvaGamma { h: (hash % 360) as f32 / 360.0, s: saturation, v: value, a: 1.0 }.into()
}

/// Draws the whole stack of an allocation, the innermost call first, with machinery folded until a person asks for it.
pub(super) fn stack(ui: &mut Ui, recording: &Recording, stack: StackId) {
    let stacks = &recording.stacks;
    if stacks.frame(stack).is_none() {
        return;
    }
    let text = |text: TextId| recording.text(text).unwrap_or("");
    ui.add_space(6.0);
    ui.label(RichText::new("Call stack, the innermost call first").strong());
    let id = ui.scope_id().with("whole stack");
    let mut whole = ui.data_mut(|data| data.get_temp::<bool>(id).unwrap_or(false));
    let mut hidden = 0_u64;
    let close = |ui: &mut Ui, hidden: &mut u64| {
        if *hidden > 0 {
            let calls = text::plural(core::mem::take(hidden), "call");
            ui.label(RichText::new(format!("… {calls} of allocators, runtimes and dispatchers")).weak());
        }
    };
    for frame in stacks.calls(stack) {
        let machinery = CallRole::of(text(frame.function), text(frame.place)) == CallRole::Machinery;
        if machinery && !whole {
            hidden += 1;
            continue;
        }
        close(ui, &mut hidden);
        let label = RichText::new(Call::from(frame).label(text));
        let label = ui.add(egui::Label::new(if machinery { label.weak() } else { label }).wrap());
        label.on_hover_text([text(frame.function), text(frame.place)].join("\n"));
    }
    close(ui, &mut hidden);
    if ui.link(if whole { "Fold machinery" } else { "Show all calls" }).clicked() {
        whole = !whole;
        ui.data_mut(|data| data.insert_temp(id, whole));
    }
}
