//! Bytes by the calls that allocated them: what a flame graph draws.

use core::cmp::Reverse;
use std::borrow::Cow;
use std::collections::HashMap;

use allotment::AllocationOptions;
use allotment_trace::recording::{CallRole, StackFrame, StackId, Stacks, TextId, short_function};

use crate::call_site::short_call_site;
use crate::cursor::Cursor;
use crate::difference::Amount;
use crate::scope::Scope;
use crate::series::Peaks;
use crate::timeline::{AllocationIndex, Status, Timeline};

/// Which allocations a [`CallTree`] is about. A position counts events, as everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallQuestion {
    /// Those that exist at a position, also those that wait for the GPU. Reservations of moves are left out everywhere.
    At(u64),
    /// Those that exist where allocations first occupy the most bytes.
    Peak,
    /// Those that were allocated from one position to another, also those that were freed before the end of it.
    Between(u64, u64),
    /// Those that exist at the end, that the program has not released, and that are not the library's own.
    Leaked,
}

impl CallQuestion {
    /// Returns the position that the question is about: of a span its end.
    #[must_use]
    pub fn position(self, timeline: &Timeline<'_>) -> u64 {
        match self {
            Self::At(position) | Self::Between(_, position) => position.min(timeline.end()),
            Self::Peak => Peaks::of(timeline, Scope::All).occupied.moment.event,
            Self::Leaked => timeline.end(),
        }
    }

    /// Returns the allocations, in the order in which they were allocated.
    #[must_use]
    pub fn allocations(self, timeline: &Timeline<'_>) -> Vec<AllocationIndex> {
        let position = self.position(timeline);
        let mut rows: Vec<_> = if let Self::Between(from, _) = self {
            let is_within = |allocated: u64| (from..position).contains(&allocated);
            let lifetimes = timeline.lifetimes().filter(|(_, life)| is_within(life.allocated));
            lifetimes.map(|(row, _)| row).collect()
        } else {
            Cursor::at(timeline, position).allocations().collect()
        };
        let text = |row| timeline.recording().text(timeline.texts(row).category);
        rows.retain(|&row| match (self, timeline.status_at(row, position)) {
            (_, Status::Reserved) => false,
            (Self::Leaked, status) => {
                status == Status::Used && text(row) != Some(AllocationOptions::LIBRARY_CATEGORY)
            }
            _ => true,
        });
        rows.sort_unstable();
        rows
    }
}

/// How a [`CallTree`] is made. The default has the outermost calls first and folds machinery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTreeDesc {
    /// The innermost calls come first, and their callers below them.
    pub inverted: bool,
    /// Calls of the unwinder, of allocators, runtimes and dispatchers are there, too.
    pub unfolded: bool,
}

/// A call in a tree: a function and a place. Both are missing where nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Call {
    /// The function; [`TextId::NONE`] where the place alone is known.
    pub function: TextId,
    /// The place in it.
    pub place: TextId,
}

/// A call, with what was allocated by it and by what it called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallNode {
    /// The call. Of the root, none.
    pub call: Call,
    /// The node above; 0 is the root, whose own parent it is.
    pub parent: usize,
    /// How many calls are above it; 0 of the root.
    pub depth: usize,
    /// Everything that was allocated through it.
    pub total: Amount,
    /// What was allocated where it is the last call of the tree.
    pub own: Amount,
    /// Of the total, what exists at the end of the span. All of it where the question is about a moment.
    pub left: Amount,
    /// The nodes below, the one with the most bytes first.
    pub children: Vec<usize>,
}

/// Bytes and counts by the tree of calls.
///
/// Of a recording with endless stacks the calls nearest to the root are in the tree. What was allocated by those beyond is
/// below the last call that is there, as [`Call::NOT_SHOWN`]: sums are whole.
///
/// Bytes are those that the program requested. An allocation whose stack is not known has its call site as its only call,
/// and one without a call site is below a call of which nothing is known.
///
/// ```
/// use allotment_analyze::{CallQuestion, CallTree, CallTreeDesc, Timeline};
/// use allotment_trace::recording::Recording;
///
/// let recording = Recording::default();
/// let timeline = Timeline::new(&recording);
/// let tree = CallTree::of(&timeline, CallQuestion::Peak, &CallTreeDesc::default());
/// assert_eq!((tree.nodes().len(), tree.root().total.bytes), (1, 0));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallTree {
    /// The root is the first.
    nodes: Vec<CallNode>,
}

impl CallTree {
    /// The most nodes, beside those of [`Call::NOT_SHOWN`], of which a node has at most one.
    pub const MAX_NODES: usize = 1 << 20;

    /// Builds the tree of a question.
    ///
    /// Cost: one walk over the allocations, and a step for each call of each different stack; where there are more than
    /// [`MAX_NODES`](Self::MAX_NODES), some ten such steps.
    #[must_use]
    pub fn of(timeline: &Timeline<'_>, question: CallQuestion, desc: &CallTreeDesc) -> Self {
        let position = question.position(timeline);
        Self::of_allocations(timeline, question.allocations(timeline), position, desc)
    }

    /// Builds the tree of some allocations; what exists at a position counts as left.
    #[must_use]
    pub fn of_allocations(
        timeline: &Timeline<'_>,
        allocations: impl IntoIterator<Item = AllocationIndex>,
        position: u64,
        desc: &CallTreeDesc,
    ) -> Self {
        Self::of_at_most(timeline, allocations, position, desc, Self::MAX_NODES)
    }

    /// As [`of_allocations`](Self::of_allocations), with at most so many nodes.
    pub(crate) fn of_at_most(
        timeline: &Timeline<'_>,
        allocations: impl IntoIterator<Item = AllocationIndex>,
        position: u64,
        desc: &CallTreeDesc,
        most: usize,
    ) -> Self {
        // A stack, or the call site of an allocation without one.
        let mut amounts: HashMap<(StackId, TextId), (Amount, Amount)> = HashMap::new();
        let mut order = Vec::new();
        for row in allocations {
            let stack = timeline.stack(row);
            let site = if stack.is_none() { timeline.texts(row).call_site } else { TextId::NONE };
            let bytes = timeline.requested(row);
            let (total, left) = amounts.entry((stack, site)).or_insert_with(|| {
                order.push((stack, site));
                Default::default()
            });
            total.add(bytes);
            if timeline.allocation_exists(row, position) {
                left.add(bytes);
            }
        }
        let recording = timeline.recording();
        let text = |text| recording.text(text).unwrap_or("");
        let stacks = &recording.stacks;
        let roles = if desc.unfolded { Vec::new() } else { stacks.roles(text) };
        let is_shown = |stack: &StackId| {
            let role = (stack.0 as usize).checked_sub(1).and_then(|index| roles.get(index));
            role.is_none_or(|&role| role != CallRole::Machinery)
        };
        let mut path = Vec::new();
        // Builds the tree down to a depth. `None` where that has too many nodes, unless those beyond are to be left out.
        let mut build = |order: &[(StackId, TextId)], depth: usize, leave_out: bool| {
            let mut building = Building::new(most);
            for key @ &(stack, site) in order {
                path.clear();
                let shown = stacks.numbers(stack).filter(is_shown);
                path.extend(shown.filter_map(|stack| stacks.frame(stack)).map(Call::from));
                if path.is_empty() {
                    path.push(
                        stacks.frame(stack).map_or(Call { place: site, ..Call::default() }, Call::from),
                    );
                }
                if !desc.inverted {
                    path.reverse();
                }
                let (total, left) = amounts[key];
                building.add(&path, depth, total, left);
                if building.is_full && !leave_out {
                    return None;
                }
            }
            Some(building)
        };
        let building = build(&order, usize::MAX, false).unwrap_or_else(|| {
            // The deepest tree that has all calls of each of its levels. Of more than can be in the first level, the largest
            // are there.
            order.sort_by_key(|key| Reverse(amounts[key].0.bytes));
            let (mut depth, mut beyond) = (1, Stacks::MAX_DEPTH + 1);
            let mut found = None;
            while beyond - depth > 1 {
                let middle = usize::midpoint(depth, beyond);
                match build(&order, middle, false) {
                    Some(tree) => (depth, found) = (middle, Some(tree)),
                    None => beyond = middle,
                }
            }
            found.or_else(|| build(&order, depth, true)).unwrap_or_else(|| Building::new(most))
        });
        let mut nodes = building.nodes;
        for node in 0..nodes.len() {
            let mut children = core::mem::take(&mut nodes[node].children);
            let key = |child: &usize| {
                let CallNode { total, call, .. } = &nodes[*child];
                (Reverse((total.bytes, total.count)), text(call.function), text(call.place))
            };
            children.sort_by(|a, b| key(a).cmp(&key(b)));
            nodes[node].children = children;
        }
        Self { nodes }
    }

    /// Returns the nodes. The root is the first, and each other one is after its parent.
    #[must_use]
    pub fn nodes(&self) -> &[CallNode] {
        &self.nodes
    }

    /// Returns the root, which has everything.
    #[must_use]
    pub fn root(&self) -> &CallNode {
        &self.nodes[0]
    }

    /// Returns the nodes without the root, each followed by those below it, the largest first.
    pub fn in_order(&self) -> impl Iterator<Item = usize> {
        let mut open: Vec<_> = self.root().children.iter().rev().copied().collect();
        core::iter::from_fn(move || {
            let node = open.pop()?;
            open.extend(self.nodes[node].children.iter().rev());
            Some(node)
        })
    }
}

impl From<&StackFrame> for Call {
    fn from(&StackFrame { function, place, .. }: &StackFrame) -> Self {
        Self { function, place }
    }
}

impl Call {
    /// What stands for a call of which nothing is known.
    pub const UNKNOWN: &'static str = "(call not known)";

    /// Stands for all calls below another one that a tree has no room for.
    pub const NOT_SHOWN: Self = Self { function: TextId(u32::MAX), place: TextId(u32::MAX) };

    /// The most letters of a function or a place in a label. The middle of a longer one is left out.
    pub const MAX_LABEL: usize = 240;

    /// Returns the call as lists show it: the function without its parameters, and the end of the place.
    #[must_use]
    pub fn label<'a>(self, text: impl Fn(TextId) -> &'a str) -> String {
        if self == Self::NOT_SHOWN {
            return "(not shown)".to_owned();
        }
        let (function, place) = (short_function(text(self.function)), short_call_site(text(self.place)));
        // A tree has a label for each of its nodes, and a hostile recording long texts.
        let (function, place) = (&*shortened(function), &*shortened(place));
        match (function, place) {
            ("", "") => Self::UNKNOWN.to_owned(),
            ("", place) => place.to_owned(),
            // Of C++ a file alone, which is most often one that a tool wrote.
            (function, place) if !place.contains(':') => function.to_owned(),
            (function, place) => format!("{function} {place}"),
        }
    }
}

/// Leaves out the middle of a text that is too long for a label: what tells two of a kind apart is most often at the end.
fn shortened(text: &str) -> Cow<'_, str> {
    // Each letter has at least one byte.
    if text.len() <= Call::MAX_LABEL || text.chars().count() <= Call::MAX_LABEL {
        return Cow::Borrowed(text);
    }
    let head = Call::MAX_LABEL / 3;
    let tail = Call::MAX_LABEL - head - 1;
    let begin = text.char_indices().nth(head).map_or(0, |(at, _)| at);
    let end = text.char_indices().rev().nth(tail - 1).map_or(text.len(), |(at, _)| at);
    Cow::Owned(format!("{}…{}", &text[..begin], &text[end..]))
}

/// A tree that grows.
#[derive(Debug)]
struct Building {
    nodes: Vec<CallNode>,
    by_call: HashMap<(usize, Call), usize>,
    /// The most nodes, beside those of calls that are not shown, and how many of those there are.
    most: usize,
    not_shown: usize,
    /// A call had no room.
    is_full: bool,
}

impl Building {
    fn new(most: usize) -> Self {
        let (nodes, by_call) = (vec![CallNode::default()], HashMap::new());
        Self { nodes, by_call, most, not_shown: 0, is_full: false }
    }

    /// Adds what was allocated by a path of calls from the root, down to a depth.
    fn add(&mut self, path: &[Call], depth: usize, total: Amount, left: Amount) {
        let mut node = 0;
        self.count(node, total, left);
        for (above, &call) in path.iter().enumerate() {
            let below = match self.by_call.get(&(node, call)) {
                Some(&known) if above < depth => known,
                _ => {
                    let has_room = self.nodes.len() - self.not_shown < self.most;
                    self.is_full |= above < depth && !has_room;
                    if above >= depth || !has_room {
                        node = self.below(node, Call::NOT_SHOWN);
                        self.count(node, total, left);
                        break;
                    }
                    self.below(node, call)
                }
            };
            node = below;
            self.count(node, total, left);
        }
        self.nodes[node].own.add_all(total);
    }

    /// The node of a call below another node.
    fn below(&mut self, node: usize, call: Call) -> usize {
        *self.by_call.entry((node, call)).or_insert_with(|| {
            let new = self.nodes.len();
            self.nodes[node].children.push(new);
            let depth = self.nodes[node].depth + 1;
            self.nodes.push(CallNode { call, parent: node, depth, ..CallNode::default() });
            self.not_shown += usize::from(call == Call::NOT_SHOWN);
            new
        })
    }

    fn count(&mut self, node: usize, total: Amount, left: Amount) {
        self.nodes[node].total.add_all(total);
        self.nodes[node].left.add_all(left);
    }
}
