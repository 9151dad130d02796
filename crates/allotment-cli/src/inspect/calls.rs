//! `allotment calls`: bytes by the calls that allocated them.

use allotment_analyze::{Call, CallNode, CallQuestion, CallTree, CallTreeDesc, Timeline};
use allotment_trace::recording::TextId;
use serde::Serialize;

use super::args::CallsArgs;
use super::json::MomentJson;
use super::load::{index, load, need_history};
use super::table::shown;
use super::unread::{say_json, say_unread, warn_unread};
use super::when::words;
use crate::failure::Failure;
use crate::units::{bytes, count, percent};

pub(crate) fn run(args: &CallsArgs) -> Result<(), Failure> {
    let loaded = load(&args.file)?;
    if args.peak || args.leaked || args.since.is_some() {
        need_history(&loaded, "what was allocated or freed before")?;
    }
    let timeline = index(&loaded);
    let question = question(args, &timeline)?;
    let desc = CallTreeDesc { inverted: args.inverted, unfolded: args.all };
    let tree = CallTree::of(&timeline, question, &desc);
    let text = |text| loaded.recording.text(text).unwrap_or("");
    let at = timeline.moment(question.position(&timeline));
    if args.folded {
        warn_unread(&timeline.unread());
        print_folded(&tree, text);
    } else if args.json {
        let calls = CallsJson {
            file: &loaded.title,
            of: name_of(question),
            at: MomentJson::of(&timeline, at),
            since: if let CallQuestion::Between(since, _) = question { Some(since) } else { None },
            inverted: args.inverted,
            count: tree.root().total.count,
            bytes: tree.root().total.bytes,
            left_count: tree.root().left.count,
            left_bytes: tree.root().left.bytes,
            calls: tree
                .root()
                .children
                .iter()
                .map(|&child| call_json(&tree, child, args.depth, text))
                .collect(),
        };
        return say_json(&timeline.unread(), &calls);
    } else {
        let what = match question {
            CallQuestion::At(_) => "that exist".to_owned(),
            CallQuestion::Peak => "that exist at the peak".to_owned(),
            CallQuestion::Between(from, _) => {
                format!("made since {}", words(&timeline, timeline.moment(from)))
            }
            CallQuestion::Leaked => "that were not released".to_owned(),
        };
        say!("{} at {}: allocations {what}, by call", shown(&loaded.title), words(&timeline, at));
        say_unread(&timeline.unread());
        print(&tree, matches!(question, CallQuestion::Between(..)), args.depth, text);
    }
    Ok(())
}

fn question(args: &CallsArgs, timeline: &Timeline<'_>) -> Result<CallQuestion, Failure> {
    if args.peak {
        return Ok(CallQuestion::Peak);
    }
    if args.leaked {
        return Ok(CallQuestion::Leaked);
    }
    if let Some(since) = &args.since {
        let (from, to) = (since.position(timeline)?, args.until.position(timeline)?);
        if from > to {
            return Err(Failure::Usage("--since is after --until".to_owned()));
        }
        return Ok(CallQuestion::Between(from, to));
    }
    Ok(CallQuestion::At(args.at.position(timeline)?))
}

/// The question in the JSON output.
const fn name_of(question: CallQuestion) -> &'static str {
    match question {
        CallQuestion::At(_) => "at",
        CallQuestion::Peak => "peak",
        CallQuestion::Between(..) => "between",
        CallQuestion::Leaked => "leaked",
    }
}

fn print<'a>(tree: &CallTree, is_span: bool, depth: usize, text: impl Fn(TextId) -> &'a str + Copy) {
    let root = tree.root();
    let left =
        |node: &CallNode| if is_span { format!("{:>12}", bytes(node.left.bytes)) } else { String::new() };
    let title = if is_span { format!("{:>12}", "still there") } else { String::new() };
    say!();
    say!("{:>12}{title}  {:>7}  {:>9}  Call", "Bytes", "Share", "Count");
    let line = |node: &CallNode, label: &str| {
        let share = percent(node.total.bytes, root.total.bytes);
        let (total, number) = (bytes(node.total.bytes), count(node.total.count));
        say!("{total:>12}{}  {share:>7}  {number:>9}  {label}", left(node));
    };
    line(root, "all");
    for node in tree.in_order().map(|node| &tree.nodes()[node]).filter(|node| node.depth <= depth) {
        line(node, &format!("{}{}", "  ".repeat(node.depth), shown(&node.call.label(text))));
    }
}

/// Prints a line for each path of calls that allocated something itself: the calls, and the bytes. Tools that draw flame
/// graphs read it.
fn print_folded<'a>(tree: &CallTree, text: impl Fn(TextId) -> &'a str + Copy) {
    // The calls of the path to the node before.
    let mut path: Vec<String> = Vec::new();
    for node in tree.in_order().map(|node| &tree.nodes()[node]) {
        path.truncate(node.depth - 1);
        path.push(shown(&node.call.label(text)).replace(';', ","));
        if node.own.bytes > 0 {
            say!("{} {}", path.join(";"), node.own.bytes);
        }
    }
}

/// The JSON output.
#[derive(Serialize)]
struct CallsJson<'a> {
    file: &'a str,
    of: &'static str,
    at: Option<MomentJson>,
    since: Option<u64>,
    inverted: bool,
    count: u64,
    bytes: u64,
    left_count: u64,
    left_bytes: u64,
    calls: Vec<CallJson<'a>>,
}

/// A call, and those below it.
#[derive(Serialize)]
struct CallJson<'a> {
    function: &'a str,
    place: &'a str,
    count: u64,
    bytes: u64,
    own_bytes: u64,
    left_count: u64,
    left_bytes: u64,
    calls: Vec<CallJson<'a>>,
}

fn call_json<'a>(
    tree: &CallTree,
    node: usize,
    depth: usize,
    text: impl Fn(TextId) -> &'a str + Copy,
) -> CallJson<'a> {
    let node = &tree.nodes()[node];
    let below = if node.depth < depth { &*node.children } else { &[] };
    CallJson {
        function: if node.call == Call::NOT_SHOWN { "(not shown)" } else { text(node.call.function) },
        place: text(node.call.place),
        count: node.total.count,
        bytes: node.total.bytes,
        own_bytes: node.own.bytes,
        left_count: node.left.count,
        left_bytes: node.left.bytes,
        calls: below.iter().map(|&child| call_json(tree, child, depth, text)).collect(),
    }
}
