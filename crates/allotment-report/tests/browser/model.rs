//! What the page's totals must be, as the analysis of the recording has them.

use allotment_analyze::{BlockBytes, Cursor, Holes, Scope, Timeline};
use serde_json::{Value, json};

/// The totals in the form in which the page has them, without what the page derives from them.
pub(crate) fn totals(timeline: &Timeline<'_>, position: u64) -> Value {
    let cursor = Cursor::at(timeline, position);
    let (bytes, holes) = (BlockBytes::of_scope(&cursor, Scope::All), Holes::of_scope(&cursor, Scope::All));
    json!({
        "allocations": bytes.allocations, "blocks": cursor.blocks().len(), "reserved": bytes.size, "used": bytes.used,
        "overhead": bytes.overhead(), "padding": bytes.padding, "rounding": bytes.rounding, "moves": bytes.reserved,
        "pending": bytes.pending, "free": bytes.free, "largestFree": holes.largest(),
        "aliased": bytes.aliased,
    })
}
