//! Bytes by the calls that allocated them: what a flame graph draws.

use core::cmp::Reverse;
use std::collections::HashMap;

use allotment::AllocationOptions;
use allotment_trace::recording::{CallRole, StackFrame, StackId, TextId, short_function};

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
    /// The most nodes. Calls below are counted where there is still a node: a hostile recording has endless stacks.
    pub const MAX_NODES: usize = 1 << 20;

    /// Builds the tree of a question.
    ///
    /// Cost: one walk over the allocations, and a step for each call of each different stack.
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
        let mut building = Building::default();
        let mut path = Vec::new();
        for key @ (stack, site) in order {
            path.clear();
            let shown = stacks.numbers(stack).filter(is_shown);
            path.extend(shown.filter_map(|stack| stacks.frame(stack)).map(Call::from));
            if path.is_empty() {
                path.push(stacks.frame(stack).map_or(Call { place: site, ..Call::default() }, Call::from));
            }
            if !desc.inverted {
                path.reverse();
            }
            let (total, left) = amounts[&key];
            building.add(&path, total, left);
        }
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

    /// Returns the call as lists show it: the function without its parameters, and the end of the place.
    #[must_use]
    pub fn label<'a>(self, text: impl Fn(TextId) -> &'a str) -> String {
        let (function, place) = (short_function(text(self.function)), short_call_site(text(self.place)));
        match (function, place) {
            ("", "") => Self::UNKNOWN.to_owned(),
            ("", place) => place.to_owned(),
            // Of C++ a file alone, which is most often one that a tool wrote.
            (function, place) if !place.contains(':') => function.to_owned(),
            (function, place) => format!("{function} {place}"),
        }
    }
}

/// A tree that grows.
#[derive(Debug)]
struct Building {
    nodes: Vec<CallNode>,
    by_call: HashMap<(usize, Call), usize>,
}

impl Default for Building {
    fn default() -> Self {
        Self { nodes: vec![CallNode::default()], by_call: HashMap::new() }
    }
}

impl Building {
    /// Adds what was allocated by a path of calls from the root.
    fn add(&mut self, path: &[Call], total: Amount, left: Amount) {
        let mut node = 0;
        self.count(node, total, left);
        for &call in path {
            let below = match self.by_call.get(&(node, call)) {
                Some(&known) => known,
                None if self.nodes.len() >= CallTree::MAX_NODES => break,
                None => {
                    let new = self.nodes.len();
                    self.by_call.insert((node, call), new);
                    self.nodes[node].children.push(new);
                    let depth = self.nodes[node].depth + 1;
                    self.nodes.push(CallNode { call, parent: node, depth, ..CallNode::default() });
                    new
                }
            };
            node = below;
            self.count(node, total, left);
        }
        self.nodes[node].own.add_all(total);
    }

    fn count(&mut self, node: usize, total: Amount, left: Amount) {
        self.nodes[node].total.add_all(total);
        self.nodes[node].left.add_all(left);
    }
}
